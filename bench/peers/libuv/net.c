// net.c - libuv's servers, by the protocol described in bench/serve.h.
//
// uv_try_write() is the cheapest way to send; uv_write() is for what the socket did not take.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "../../serve.h"
#include "net.h"

union any_stream {
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct link {
    union any_stream socket; // first: libuv's callbacks get its address
    uv_write_t write;
    uint64_t left, length;
    size_t length_bytes;
    char *held;
};

static struct {
    enum serve_mode mode;
    int is_tcp;
    union any_stream listener;
    char block[SERVE_BLOCK]; // of the callback that runs; libuv reads right before it calls one
} server;

static void closed(uv_handle_t *handle)
{
    free(((struct link *)handle)->held);
    free(handle);
}

static void drop(struct link *link)
{
    if (!uv_is_closing((uv_handle_t *)link)) {
        uv_close((uv_handle_t *)link, closed);
    }
}

static void lend(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)handle;
    (void)suggested;
    *out = uv_buf_init(server.block, SERVE_BLOCK);
}

static void received(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer);

static void held_sent(uv_write_t *write, int status)
{
    struct link *link = write->data;
    free(link->held);
    link->held = NULL;
    if (status < 0) {
        drop(link);
    } else {
        uv_read_start(&link->socket.stream, lend, received);
    }
}

static void hold(struct link *link, const char *data, size_t size)
{
    link->held = malloc(size);
    if (link->held == NULL) {
        drop(link);
        return;
    }
    memcpy(link->held, data, size);
    link->write.data = link;
    uv_buf_t rest = uv_buf_init(link->held, (unsigned)size);
    uv_read_stop(&link->socket.stream);
    if (uv_write(&link->write, &link->socket.stream, &rest, 1, held_sent) < 0) {
        drop(link);
    }
}

static void echo(struct link *link, char *data, size_t size)
{
    uv_buf_t all = uv_buf_init(data, (unsigned)size);
    int n = uv_try_write(&link->socket.stream, &all, 1);
    if (n < 0 && n != UV_EAGAIN) {
        drop(link);
    } else if (n < (int)size) {
        n = n < 0 ? 0 : n;
        hold(link, data + n, size - (size_t)n);
    }
}

// Takes the bytes of a stream's length. Returns how many they were.
static size_t take_length(struct link *link, const char *data, size_t size)
{
    size_t n = sizeof link->length - link->length_bytes;
    n = n < size ? n : size;
    memcpy((char *)&link->length + link->length_bytes, data, n);
    link->length_bytes += n;
    if (link->length_bytes == sizeof link->length) {
        link->left = link->length;
        link->length_bytes = 0;
    }
    return n;
}

static void source_more(struct link *link);

static void source_sent(uv_write_t *write, int status)
{
    struct link *link = write->data;
    if (status < 0) {
        drop(link);
    } else {
        source_more(link);
    }
}

static void source_more(struct link *link)
{
    while (link->left > 0) {
        unsigned size = link->left < SERVE_BLOCK ? (unsigned)link->left : SERVE_BLOCK;
        uv_buf_t block = uv_buf_init(server.block, size);
        int n = uv_try_write(&link->socket.stream, &block, 1);
        if (n < 0 && n != UV_EAGAIN) {
            drop(link);
            return;
        }
        link->left -= size;
        n = n < 0 ? 0 : n;
        if (n < (int)size) {
            block = uv_buf_init(server.block, size - (unsigned)n);
            link->write.data = link;
            if (uv_write(&link->write, &link->socket.stream, &block, 1, source_sent) < 0) {
                drop(link);
            }
            return;
        }
    }
}

static void sink(struct link *link, const char *data, size_t size)
{
    if (link->left == 0) {
        size_t n = take_length(link, data, size);
        data += n;
        size -= n;
    }
    if (size > 0) {
        link->left -= size;
        if (link->left == 0) {
            echo(link, server.block, 1);
        }
    }
}

static void received(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct link *link = (struct link *)stream;
    if (n <= 0) {
        if (n < 0) {
            drop(link);
        }
    } else if (server.mode == SERVE_ECHO) {
        echo(link, buffer->base, (size_t)n);
    } else if (server.mode == SERVE_SINK) {
        sink(link, buffer->base, (size_t)n);
    } else {
        take_length(link, buffer->base, (size_t)n);
        source_more(link);
    }
}

static void make(union any_stream *socket)
{
    if (server.is_tcp) {
        uv_tcp_init(uv_default_loop(), &socket->tcp);
    } else {
        uv_pipe_init(uv_default_loop(), &socket->pipe, 0);
    }
}

static void connected(uv_stream_t *listener, int status)
{
    struct link *link = status == 0 ? calloc(1, sizeof *link) : NULL;
    if (link == NULL) {
        return;
    }
    make(&link->socket);
    if (uv_accept(listener, &link->socket.stream) < 0 || server.mode == SERVE_CLOSE ||
        uv_read_start(&link->socket.stream, lend, received) < 0) {
        drop(link);
    }
}

int libuv_serve(const char *mode, const char *address)
{
    int chosen = serve_mode_parse(mode), fd = serve_listen(address);
    if (chosen < 0 || fd < 0) {
        return serve_skip(fd < 0 ? fd : UV_EINVAL);
    }
    server.mode = (enum serve_mode)chosen;
    server.is_tcp = strncmp(address, "tcp:", 4) == 0;
    make(&server.listener);
    int rc = server.is_tcp ? uv_tcp_open(&server.listener.tcp, fd)
                           : uv_pipe_open(&server.listener.pipe, fd);
    rc = rc < 0 ? rc : uv_listen(&server.listener.stream, SERVE_BACKLOG, connected);
    if (rc < 0) {
        return serve_skip(rc);
    }
    serve_ready();
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
