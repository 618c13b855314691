// echo.c - an echo server: one virtual thread per connection, on every carrier.
//
//     echo [ADDRESS]        default: tcp://127.0.0.1:7000
#include <stdio.h>
#include <string.h>

#include <weft.h>

static int echo(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in; // borrowed from the receive buffers until consumed
    int rc;
    while ((rc = weft_conn_peek(conn, &in, 1, WEFT_FOREVER)) > 0) {
        rc = weft_conn_write(conn, in.data, in.size, WEFT_FOREVER);
        if (rc < 0) {
            break;
        }
        weft_conn_consume(conn, in.size);
    }
    weft_conn_close(conn);
    return rc;
}

static void say_where(void *arg, const struct weft_addr *addr)
{
    (void)arg;
    char text[WEFT_ADDR_TEXT_BYTES];
    weft_addr_format(addr, text, sizeof text);
    printf("listening on %s with %d carriers, driver %s\n", text, weft_carrier_count(),
           weft_runtime_driver(weft_runtime_current()));
    if (weft_addr_port(addr) > 0) {
        printf("talk to it:  nc 127.0.0.1 %d     (Ctrl-C ends the server)\n", weft_addr_port(addr));
    }
    fflush(stdout);
}

static int serve(void *arg)
{
    struct weft_serve_options options = WEFT_SERVE_OPTIONS_INIT;
    options.ready = say_where;
    return weft_serve(arg, echo, &options);
}

int main(int argc, char **argv)
{
    char *address = argc > 1 ? argv[1] : (char[]){ "tcp://127.0.0.1:7000" };
    int rc = weft_run(serve, address, NULL);
    fprintf(stderr, "echo: %s: %s\n", address, strerror(-rc));
    return 1;
}
