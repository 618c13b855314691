// weft_net.c - weft's servers, by the protocol of serve.h: one virtual thread for each connection on
// one carrier, at both levels of the API.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "serve.h"
#include "weft_bench.h"

static struct {
    enum serve_mode mode;
    const char *address;
} serving;

static char block[SERVE_BLOCK]; // what a source sends

// The plain calls: descriptors and buffers of one's own.

static int plain_echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[SERVE_ECHO_BUFFER];
    ssize_t n;
    while ((n = weft_read(fd, buffer, sizeof buffer, WEFT_FOREVER)) > 0) {
        n = weft_write_full(NULL, fd, buffer, (size_t)n, WEFT_FOREVER);
        if (n < 0) {
            break;
        }
    }
    weft_close(fd);
    return 0;
}

static int plain_source(void *arg)
{
    int fd = (int)(intptr_t)arg;
    uint64_t left;
    ssize_t n;
    while ((n = weft_read_full(NULL, fd, &left, sizeof left, WEFT_FOREVER)) == sizeof left) {
        for (; n > 0 && left > 0; left -= (uint64_t)n) {
            size_t size = left < SERVE_BLOCK ? (size_t)left : SERVE_BLOCK;
            n = weft_write_full(NULL, fd, block, size, WEFT_FOREVER);
        }
    }
    weft_close(fd);
    return 0;
}

static int plain_sink(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[SERVE_BLOCK];
    uint64_t left;
    ssize_t n;
    while ((n = weft_read_full(NULL, fd, &left, sizeof left, WEFT_FOREVER)) == sizeof left) {
        for (; n > 0 && left > 0; left -= (uint64_t)n) {
            size_t size = left < SERVE_BLOCK ? (size_t)left : SERVE_BLOCK;
            n = weft_read(fd, buffer, size, WEFT_FOREVER);
        }
        if (n <= 0 || weft_write(fd, "", 1, WEFT_FOREVER) != 1) {
            break;
        }
    }
    weft_close(fd);
    return 0;
}

static int plain_main(void *arg)
{
    (void)arg;
    static const weft_fn handlers[SERVE_MODES] = {
        [SERVE_ECHO] = plain_echo,
        [SERVE_SOURCE] = plain_source,
        [SERVE_SINK] = plain_sink,
    };
    int listener = serve_listen(serving.address);
    if (listener < 0) {
        return listener;
    }
    serve_ready();
    for (;;) {
        int fd = weft_accept_fd(listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
        if (fd < 0) {
            return fd;
        }
        weft_fn handler = handlers[serving.mode];
        if (handler == NULL || weft_go(handler, (void *)(intptr_t)fd) < 0) {
            weft_close(fd);
        }
    }
}

// Connections: borrowed receive buffers, collected writes.

static int conn_echo(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    while (weft_conn_peek(conn, &in, 1, WEFT_FOREVER) > 0) {
        if (weft_conn_write(conn, in.data, in.size, WEFT_FOREVER) < 0) {
            break;
        }
        weft_conn_consume(conn, in.size);
    }
    weft_conn_close(conn);
    return 0;
}

static void nobody(void *arg)
{
    (void)arg;
}

static int conn_source(void *arg)
{
    weft_conn *conn = arg;
    uint64_t left;
    int rc = 0;
    while (rc == 0 && weft_conn_read_into(conn, &left, sizeof left, WEFT_FOREVER) == sizeof left) {
        while (rc == 0 && left > 0) {
            size_t size = left < SERVE_BLOCK ? (size_t)left : SERVE_BLOCK;
            rc = weft_conn_write_ref(conn, block, size, nobody, NULL, WEFT_FOREVER);
            left -= size;
        }
    }
    weft_conn_close(conn);
    return 0;
}

static int conn_sink(void *arg)
{
    weft_conn *conn = arg;
    char buffer[SERVE_BLOCK];
    uint64_t left;
    int rc = 0;
    while (rc == 0 && weft_conn_read_into(conn, &left, sizeof left, WEFT_FOREVER) == sizeof left) {
        while (left > 0) {
            size_t size = left < SERVE_BLOCK ? (size_t)left : SERVE_BLOCK;
            int64_t n = weft_conn_read_into(conn, buffer, size, WEFT_FOREVER);
            if (n <= 0) {
                rc = -EPIPE;
                break;
            }
            left -= (uint64_t)n;
        }
        rc = rc < 0 ? rc : weft_conn_write(conn, "", 1, WEFT_FOREVER);
    }
    weft_conn_close(conn);
    return 0;
}

static int conn_main(void *arg)
{
    (void)arg;
    static const weft_fn handlers[SERVE_MODES] = {
        [SERVE_ECHO] = conn_echo,
        [SERVE_SOURCE] = conn_source,
        [SERVE_SINK] = conn_sink,
    };
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    options.backlog = SERVE_BACKLOG;
    weft_listener *listener;
    int rc = weft_listen(&listener, serving.address, &options);
    if (rc < 0) {
        return rc;
    }
    serve_ready();
    weft_conn *conn;
    while ((rc = weft_accept(&conn, listener, WEFT_FOREVER)) == 0) {
        weft_fn handler = handlers[serving.mode];
        if (handler == NULL || weft_go(handler, conn) < 0) {
            weft_conn_close(conn);
        }
    }
    return rc;
}

int weft_net_serve(const char *name, enum serve_mode mode, const char *address)
{
    static const struct {
        const char *name;
        weft_fn main;
        enum weft_io io;
    } levels[] = {
        { "weft-plain-uring", plain_main, WEFT_IO_URING },
        { "weft-plain-epoll", plain_main, WEFT_IO_EPOLL },
        { "weft-conn-uring", conn_main, WEFT_IO_URING },
        { "weft-conn-epoll", conn_main, WEFT_IO_EPOLL },
    };
    serving.mode = mode;
    serving.address = address;
    for (unsigned i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(levels[i].name, name) == 0) {
            return weft_bench_run(levels[i].main, NULL, 1, levels[i].io, 0);
        }
    }
    return -ENOENT;
}
