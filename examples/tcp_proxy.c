// tcp_proxy.c - passes connections on to another address, both ways at once.
//
//     tcp_proxy TARGET [ADDRESS]        default: tcp://127.0.0.1:7004
//
//     $ tcp_proxy tcp://127.0.0.1:7000 &
//     $ nc 127.0.0.1 7004               talks to whoever listens on 7000
#include <stdio.h>
#include <string.h>

#include <weft.h>

static const char *target;

struct pipe {
    weft_conn *from;
    weft_conn *to;
};

/// Copies until one side closes, and passes that on: the other direction may still have to say something.
static int copy(void *arg)
{
    const struct pipe *pipe = arg;
    struct weft_slice
        in; // borrowed from the receive buffers: the bytes are copied once, into the queue
    int rc;
    while ((rc = weft_conn_peek(pipe->from, &in, 1, WEFT_FOREVER)) > 0) {
        rc = weft_conn_write(pipe->to, in.data, in.size, WEFT_FOREVER); // waits for a slow reader
        if (rc < 0) {
            return rc;
        }
        weft_conn_consume(pipe->from, in.size);
    }
    return rc < 0 ? rc : weft_conn_finish(pipe->to, WEFT_FOREVER);
}

static int copy_both_ways(weft_conn *client, weft_conn *server)
{
    struct pipe there = { client, server };
    struct pipe back = { server, client };
    struct weft_scope scope;
    weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER); // one fails: the other is cancelled
    weft_scope_spawn(&scope, copy, &there);
    weft_scope_spawn(&scope, copy, &back);
    return weft_scope_join(&scope);
}

static int pass_on(void *arg)
{
    weft_conn *client = arg;
    weft_conn *server;
    int rc = weft_dial(&server, target, NULL, weft_after(5 * WEFT_S));
    if (rc < 0) {
        fprintf(stderr, "tcp_proxy: %s: %s\n", target, strerror(-rc));
        weft_conn_abort(client);
        return rc;
    }
    rc = copy_both_ways(client, server);
    if (rc < 0) { // a reset on one side is a reset on the other
        weft_conn_abort(server);
        weft_conn_abort(client);
        return rc;
    }
    weft_conn_close(server);
    weft_conn_close(client);
    return 0;
}

static void say_where(void *arg, const struct weft_addr *addr)
{
    char text[WEFT_ADDR_TEXT_BYTES];
    (void)arg;
    weft_addr_format(addr, text, sizeof text);
    printf("listening on %s for %s\n", text, target);
    fflush(stdout);
}

static int serve(void *address)
{
    struct weft_serve_options options = WEFT_SERVE_OPTIONS_INIT;
    options.ready = say_where;
    return weft_serve(address, pass_on, &options);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s TARGET [ADDRESS]\n", argv[0]);
        return 2;
    }
    target = argv[1];
    char *address = argc > 2 ? argv[2] : (char[]){ "tcp://127.0.0.1:7004" };
    int rc = weft_run(serve, address, NULL);
    fprintf(stderr, "tcp_proxy: %s: %s\n", address, strerror(-rc));
    return 1;
}
