// net_epoll.c - the epoll floor: edge-triggered, one receive and one send for each request.
//
// A receive that leaves room in the buffer has emptied the socket; what arrives later is a new edge.
// So the usual last receive, which only learns that there is nothing, is left out. Level-triggered
// sockets cost one more look at each in the next wait, about 2%.
#include "net.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 512

struct link {
    int fd;
    uint64_t left;   // source, sink: bytes of the present stream; 0: its length has not been read
    uint64_t length; // as far as it has arrived
    size_t length_bytes;
    char *held; // echo: what the socket did not take; NULL: nothing
    size_t held_size, held_at;
};

static struct {
    enum serve_mode mode;
    int epoll, listener;
    char block[SERVE_BLOCK]; // between two system calls only, so one is enough
} server;

static void drop(struct link *link)
{
    close(link->fd);
    free(link->held);
    free(link);
}

// True: go on. False: the socket has no room, or the link is gone.
static bool hold(struct link *link, const char *data, size_t size)
{
    link->held = malloc(size);
    if (link->held == NULL) {
        drop(link);
        return false;
    }
    memcpy(link->held, data, size);
    link->held_size = size;
    link->held_at = 0;
    return false;
}

static bool echo_send(struct link *link, const char *data, size_t size)
{
    ssize_t n = send(link->fd, data, size, MSG_NOSIGNAL);
    if (n == (ssize_t)size) {
        return true;
    }
    if (n < 0 && errno != EAGAIN) {
        drop(link);
        return false;
    }
    n = n < 0 ? 0 : n;
    return hold(link, data + n, size - (size_t)n);
}

static bool echo_flush(struct link *link)
{
    char *held = link->held;
    if (held == NULL) {
        return true;
    }
    ssize_t n = send(link->fd, held + link->held_at, link->held_size - link->held_at, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) {
        drop(link);
        return false;
    }
    link->held_at += n < 0 ? 0 : (size_t)n;
    if (link->held_at < link->held_size) {
        return false;
    }
    free(held);
    link->held = NULL;
    return true;
}

// Bytes that were received, or 0: nothing there, or the link is gone.
static size_t take(struct link *link, void *to, size_t size)
{
    ssize_t n = recv(link->fd, to, size, 0);
    if (n > 0) {
        return (size_t)n;
    }
    if (n == 0 || errno != EAGAIN) {
        drop(link);
    }
    return 0;
}

static void echo(struct link *link)
{
    if (!echo_flush(link)) {
        return;
    }
    size_t n;
    do {
        n = take(link, server.block, SERVE_BLOCK);
    } while (n > 0 && echo_send(link, server.block, n) && n == SERVE_BLOCK);
}

// True: `left` says how long the stream is.
static bool stream_begin(struct link *link)
{
    while (link->left == 0) {
        char *at = (char *)&link->length + link->length_bytes;
        size_t n = take(link, at, sizeof link->length - link->length_bytes);
        if (n == 0) {
            return false;
        }
        link->length_bytes += n;
        if (link->length_bytes == sizeof link->length) {
            link->left = link->length;
            link->length_bytes = 0;
        }
    }
    return true;
}

static void source(struct link *link)
{
    while (stream_begin(link)) {
        size_t size = link->left < SERVE_BLOCK ? (size_t)link->left : SERVE_BLOCK;
        ssize_t n = send(link->fd, server.block, size, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) {
                drop(link);
            }
            return;
        }
        link->left -= (size_t)n;
    }
}

static void sink(struct link *link)
{
    while (stream_begin(link)) {
        size_t n = take(link, server.block,
                        link->left < SERVE_BLOCK ? (size_t)link->left : SERVE_BLOCK);
        if (n == 0) {
            return;
        }
        link->left -= n;
        if (link->left == 0 && send(link->fd, "", 1, MSG_NOSIGNAL) != 1) {
            drop(link); // one byte in answer to all always finds room
            return;
        }
    }
}

static void add(int fd)
{
    struct link *link = calloc(1, sizeof *link);
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = link };
    if (link == NULL || epoll_ctl(server.epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(link);
        close(fd);
        return;
    }
    link->fd = fd;
} // NOLINT(clang-analyzer-unix.Malloc): epoll gives it back

static void accept_all(void)
{
    for (;;) {
        int fd = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        if (server.mode == SERVE_CLOSE) {
            close(fd);
        } else {
            add(fd);
        }
    }
}

static void handle(struct link *link)
{
    switch (server.mode) {
    case SERVE_ECHO: echo(link); break;
    case SERVE_SOURCE: source(link); break;
    case SERVE_SINK: sink(link); break;
    default: break;
    }
}

int floor_net_epoll(enum serve_mode mode, int listener)
{
    static struct epoll_event events[EVENTS];
    server.mode = mode;
    server.listener = listener;
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
    if (server.epoll < 0 || epoll_ctl(server.epoll, EPOLL_CTL_ADD, listener, &event) < 0) {
        return -errno;
    }
    serve_ready();
    for (;;) {
        int n = epoll_wait(server.epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == NULL) {
                accept_all();
            } else {
                handle(events[i].data.ptr);
            }
        }
    }
}
