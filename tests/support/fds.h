// fds.h - descriptors for tests: pairs of sockets and pipes, in blocking mode and not.
#ifndef WEFT_TEST_FDS_H
#define WEFT_TEST_FDS_H

#include "support/temp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include <weft.h>

/// What is written at `to` can be read at `from`.
struct channel {
    int from;
    int to;
};

enum channel_kind {
    CHANNEL_PIPE,
    CHANNEL_UNIX,
    CHANNEL_TCP,
    CHANNEL_KINDS,
};

static inline const char *channel_name(enum channel_kind kind)
{
    static const char *const names[] = { "pipe", "unix", "tcp" };
    return names[kind];
}

static inline struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

/// A listening TCP socket; `*port` is where.
static inline int listen_tcp(uint16_t *port, int backlog)
{
    struct sockaddr_in addr = loopback(0);
    socklen_t size = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_OK(fd);
    CHECK_OK(bind(fd, (struct sockaddr *)&addr, size));
    CHECK_OK(listen(fd, backlog));
    CHECK_OK(getsockname(fd, (struct sockaddr *)&addr, &size));
    *port = ntohs(addr.sin_port);
    return fd;
}

static inline void tcp_pair(int fds[2])
{
    uint16_t port;
    int listener = listen_tcp(&port, 1);
    struct sockaddr_in addr = loopback(port);
    int on = 1;
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_OK(fds[0]);
    sigset_t all, before; // a connect that a signal interrupts goes on, but cannot be called again
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    CHECK_OK(connect(fds[0], (struct sockaddr *)&addr, sizeof addr));
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK_OK(fds[1]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK_OK(setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    CHECK_OK(setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    close(listener);
}

static inline void set_nonblocking(int fd)
{
    CHECK_OK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
}

static inline struct channel channel_open(enum channel_kind kind, bool nonblocking)
{
    int fds[2];
    switch (kind) {
    case CHANNEL_PIPE: CHECK_OK(pipe2(fds, O_CLOEXEC)); break;
    case CHANNEL_UNIX: CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)); break;
    default: tcp_pair(fds); break;
    }
    if (nonblocking) {
        set_nonblocking(fds[0]);
        set_nonblocking(fds[1]);
    }
    return (struct channel){ fds[0], fds[1] };
}

/// Makes it hold little, so that writes come back short. A TCP socket that holds less than a segment
/// or two, 64 KiB each here, would wait for delayed acknowledgements all the time.
static inline void channel_shrink(struct channel channel, enum channel_kind kind)
{
    int size = kind == CHANNEL_TCP ? 90000 : 8000; // doubled by the kernel
    (void)setsockopt(channel.to, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

static inline void channel_close(struct channel channel)
{
    CHECK_OK(weft_close(channel.from));
    CHECK_OK(weft_close(channel.to));
}

/// The byte that stands at a position of a test's stream; not the same in every page.
static inline unsigned char pattern_at(uint64_t position)
{
    return (unsigned char)((position * 2654435761u) >> 13);
}

static inline void pattern_fill(void *data, size_t size, uint64_t position)
{
    unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = pattern_at(position + i);
    }
}

/// Where `data` differs from the stream, or `size`.
static inline size_t pattern_differs(const void *data, size_t size, uint64_t position)
{
    const unsigned char *bytes = data;
    size_t i = 0;
    while (i < size && bytes[i] == pattern_at(position + i)) {
        i++;
    }
    return i;
}

/// Lets the others run until they are all waiting for something.
static inline void let_others_park(void)
{
    for (int i = 0; i < 10; i++) {
        CHECK_OK(weft_yield());
    }
}

#endif
