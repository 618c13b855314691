// calls.h - counts the system calls that the epoll driver makes, and lets some of them fail.
//
// The linker sends the static library's calls through the __wrap_ functions below (--wrap, see
// tests/meson.build). Include it once per program.
#ifndef WEFT_TEST_CALLS_H
#define WEFT_TEST_CALLS_H

#include "support/ops.h"
#include "support/temp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/// How often each was called, by any thread.
static struct {
    _Atomic int recvs; // recv and recvmsg
    _Atomic int sends;
    _Atomic int waits; // epoll_wait and epoll_pwait2
    _Atomic int controls;
    _Atomic int preads; // preadv2 and pwritev2
} calls;

/// What the next calls answer instead of the kernel; 0: the kernel does.
static int nowait_error;     // of preadv2 and pwritev2 with RWF_NOWAIT
static size_t nowait_most;   // bytes that one such call transfers; 0: as many as it likes
static int nowait_countdown; // so many of them come through before that

#define WRAP(type, name, parameters, arguments, counter)                                           \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        calls.counter++;                                                                           \
        return __real_##name arguments;                                                            \
    }

WRAP(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags), recvs)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), recvs)
WRAP(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags),
     sends)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags),
     sends)
// The driver's own are mostly direct.
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    calls.recvs += number == SYS_recvfrom || number == SYS_recvmsg;
    calls.sends += number == SYS_sendto || number == SYS_sendmsg;
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

WRAP(int, epoll_wait, (int epoll, struct epoll_event *events, int most, int timeout),
     (epoll, events, most, timeout), waits)
WRAP(int, epoll_pwait2,
     (int epoll, struct epoll_event *events, int most, const struct timespec *timeout,
      const sigset_t *mask),
     (epoll, events, most, timeout, mask), waits)
WRAP(int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event), (epoll, op, fd, event),
     controls)

/// Whether the call is to fail; otherwise how many elements it gets, the first one cut.
static inline bool nowait_fails(const struct iovec **parts, int *count, struct iovec *one)
{
    calls.preads++;
    if (nowait_countdown > 0) {
        nowait_countdown--;
    } else if (nowait_error != 0) {
        errno = nowait_error;
        return true;
    }
    if (nowait_most != 0 && *count > 0) {
        *one = (*parts)[0];
        one->iov_len = one->iov_len < nowait_most ? one->iov_len : nowait_most;
        *parts = one;
        *count = 1;
    }
    return false;
}

#define WRAP_NOWAIT(name)                                                                          \
    ssize_t __real_##name(int fd, const struct iovec *parts, int count, off64_t offset, int how);  \
    ssize_t __wrap_##name(int fd, const struct iovec *parts, int count, off64_t offset, int how);  \
    ssize_t __wrap_##name(int fd, const struct iovec *parts, int count, off64_t offset, int how)   \
    {                                                                                              \
        struct iovec one;                                                                          \
        if (how == RWF_NOWAIT && nowait_fails(&parts, &count, &one)) {                             \
            return -1;                                                                             \
        }                                                                                          \
        return __real_##name(fd, parts, count, offset, how);                                       \
    }

WRAP_NOWAIT(preadv64v2)
WRAP_NOWAIT(pwritev64v2)

/// Forgets what was counted.
static inline void calls_reset(void)
{
    calls.recvs = calls.sends = calls.waits = calls.controls = calls.preads = 0;
}

/// A counter of the driver by its name.
static inline uint64_t count_of(void *state, const char *name)
{
    const struct weft__op_counts *counts = driver()->counts(state);
    const struct {
        const char *name;
        const _Atomic uint64_t *counter;
    } all[] = {
        { "submitted", &counts->submitted },   { "completed", &counts->completed },
        { "cancels", &counts->cancels },       { "enters", &counts->enters },
        { "no_buffers", &counts->no_buffers }, { "offloaded", &counts->offloaded },
    };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(all); i++) {
        if (strcmp(all[i].name, name) == 0) {
            return atomic_load(all[i].counter);
        }
    }
    FAIL("no counter %s", name);
}

// Descriptors.

static inline void make_unix(int fds[2], int type)
{
    CHECK_OK(socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
}

/// A listener on the loopback interface.
static inline int open_listener(struct sockaddr_in *address, int backlog)
{
    socklen_t size = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    *address = (struct sockaddr_in){ .sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    CHECK_GE(fd, 0);
    CHECK_OK(bind(fd, (struct sockaddr *)address, size));
    CHECK_OK(listen(fd, backlog));
    CHECK_OK(getsockname(fd, (struct sockaddr *)address, &size));
    return fd;
}

/// A file of its own, without a name.
static inline int make_file(const char *text)
{
    int fd = temp_file();
    CHECK_EQ(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    return fd;
}

/// Two ends of a TCP connection; the second is in blocking mode, for the test itself.
static inline void make_tcp(int fds[2])
{
    struct sockaddr_in address;
    int listener = open_listener(&address, 1);
    fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_OK(connect(fds[1], (struct sockaddr *)&address, sizeof address));
    CHECK_EQ(poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, -1), 1);
    fds[0] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK_GE(fds[0], 0);
    close(listener);
}

/// Waits until so many bytes can be read without waiting.
static inline void await_bytes(int fd, int bytes)
{
    int here = 0;
    while (here < bytes) {
        CHECK_GE(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, (int)(LOST_NS / WEFT_MS)),
                 1);
        CHECK_OK(ioctl(fd, FIONREAD, &here));
    }
}

/// Waits for an event without taking anything.
static inline void await_event(int fd, short events)
{
    struct pollfd entry = { .fd = fd, .events = events };
    do {
        CHECK_GE(poll(&entry, 1, (int)(LOST_NS / WEFT_MS)), 1);
    } while ((entry.revents & events) != events);
}

/// Takes what is there, up to `size` bytes, from a descriptor in non-blocking mode.
static inline int64_t take(int fd, void *data, size_t size)
{
    ssize_t n = read(fd, data, size);
    CHECK(n >= 0 || errno == EAGAIN);
    return n > 0 ? n : 0;
}

/// The op on a descriptor that weft has made.
static inline struct weft__op managed(struct weft__op op)
{
    op.mode |= WEFT__OP_MANAGED;
    return op;
}

/// Takes what has happened, without waiting for more.
static inline void look(void *state)
{
    for (int i = 0; i < 100; i++) { // one event at a time in the tiny build
        driver()->poll(state);
    }
}

#endif
