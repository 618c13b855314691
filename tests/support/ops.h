// ops.h - driving ops by hand, without a runtime: for tests of the drivers themselves.
#ifndef WEFT_TEST_OPS_H
#define WEFT_TEST_OPS_H

#include "support/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "io/io.h"

/// A wait that lasts this long waits for something that will not come.
#define LOST_NS (20 * WEFT_S)

static inline const struct weft__driver *driver(void)
{
#ifdef WEFT_HAVE_URING
    if (test_driver() == TEST_DRIVER_URING) {
        return &weft__uring_driver;
    }
#endif
    return &weft__epoll_driver;
}

static inline void *open_with(const struct weft__driver_config *config)
{
    void *state = NULL;
    CHECK_OK(driver()->open(&state, config));
    return state;
}

static inline void *open_driver(void)
{
    const struct weft__driver_config config = { 0 };
    return open_with(&config);
}

/// An op that remembers what done() was told.
struct trial {
    struct weft__op op;
    bool ended;     // the last completion has come
    int calls;      // of done(), or 1 if submit() said that it was over
    int64_t result; // of the last call that was no notification
    uint32_t flags; // of that call
    int64_t sum;    // of all positive results
    int notifies;
    void (*then)(struct trial *trial); // called by done(), if not NULL
    void *state;
};

/// True during calls that must not call done() (O6).
static bool no_done;

static inline void trial_note(struct trial *trial)
{
    CHECK(!trial->ended);
    CHECK(!no_done);
    trial->calls++;
    trial->ended = (trial->op.result_flags & WEFT__OP_MORE) == 0;
    if ((trial->op.result_flags & WEFT__OP_NOTIFY) != 0) {
        trial->notifies++;
    } else {
        trial->result = trial->op.result;
        trial->flags = trial->op.result_flags;
        trial->sum += trial->result > 0 ? trial->result : 0;
    }
    if (trial->then != NULL) {
        trial->then(trial);
    }
}

static inline void trial_done(struct weft__op *op)
{
    trial_note(weft__container_of(op, struct trial, op));
}

/// Submits the op as it is; also from `then`.
static inline void trial_again(struct trial *trial)
{
    trial->ended = false;
    no_done = true;
    bool over = driver()->submit(trial->state, &trial->op);
    no_done = false;
    if (over) {
        CHECK((trial->op.result_flags & WEFT__OP_MORE) == 0);
        trial_note(trial);
    }
}

/// Submits what `op` describes; a trial that has ended may be started again.
static inline void trial_start(struct trial *trial, void *state, struct weft__op op)
{
    trial->op = op;
    trial->op.done = trial_done;
    trial->state = state;
    trial->calls = trial->notifies = 0;
    trial->sum = 0;
    trial_again(trial);
}

/// Waits until `*flag`.
static inline void await_flag(void *state, const bool *flag)
{
    weft_time limit = weft__clock_ns() + LOST_NS;
    while (!*flag) {
        driver()->wait(state, limit);
        CHECK_LT(weft__clock_ns(), limit);
    }
}

static inline int64_t trial_await(struct trial *trial)
{
    await_flag(trial->state, &trial->ended);
    return trial->result;
}

static inline void await_calls(struct trial *trial, int calls)
{
    weft_time limit = weft__clock_ns() + LOST_NS;
    while (trial->calls < calls && !trial->ended) {
        driver()->wait(trial->state, limit);
        CHECK_LT(weft__clock_ns(), limit);
    }
    CHECK_GE(trial->calls, calls);
}

/// Submits and waits for the end.
static inline int64_t perform(void *state, struct weft__op op)
{
    struct trial trial = { 0 };
    trial_start(&trial, state, op);
    return trial_await(&trial);
}

static inline void cancel(struct trial *trial)
{
    no_done = true;
    driver()->cancel(trial->state, &trial->op);
    no_done = false;
}

static inline void forget(void *state, int fd)
{
    no_done = true;
    driver()->forget(state, fd);
    no_done = false;
}

/// As a connection is closed.
static inline void close_fd(void *state, int fd)
{
    forget(state, fd);
    CHECK_OK(driver()->sockets->close(state, fd));
}

static inline void give(void *state, uint16_t number)
{
    no_done = true;
    driver()->give(state, number);
    no_done = false;
}

// Descriptions of ops.

static inline struct weft__op read_op(int fd, void *data, size_t size)
{
    return (struct weft__op){
        .code = WEFT__OP_READ, .fd = fd, .data = data, .size = size, .offset = -1
    };
}

static inline struct weft__op write_op(int fd, const void *data, size_t size)
{
    struct weft__op op = read_op(fd, NULL, size);
    op.code = WEFT__OP_WRITE;
    memcpy(&op.data, &data, sizeof op.data); // the op does not write there
    return op;
}

static inline struct weft__op recv_op(int fd, void *data, size_t size)
{
    return (struct weft__op){ .code = WEFT__OP_RECV, .fd = fd, .data = data, .size = size };
}

static inline struct weft__op select_op(int fd, uint8_t mode)
{
    return (struct weft__op){ .code = WEFT__OP_RECV, .fd = fd, .mode = WEFT__OP_SELECT | mode };
}

static inline struct weft__op send_op(int fd, const void *data, size_t size)
{
    struct weft__op op = write_op(fd, data, size);
    op.code = WEFT__OP_SEND;
    return op;
}

static inline struct weft__op poll_op(int fd, uint32_t events)
{
    return (struct weft__op){ .code = WEFT__OP_POLL, .fd = fd, .flags = events };
}

static inline struct weft__op accept_op(int fd, uint8_t mode)
{
    return (
        struct weft__op){ .code = WEFT__OP_ACCEPT, .fd = fd, .mode = mode, .flags = SOCK_CLOEXEC };
}

static inline struct weft__op connect_op(int fd, struct sockaddr_in *addr)
{
    return (
        struct weft__op){ .code = WEFT__OP_CONNECT, .fd = fd, .data = addr, .size = sizeof *addr };
}

// Sockets.

static inline void make_pair(void *state, int fds[2])
{
    CHECK_OK(driver()->sockets->pair(state, AF_UNIX, SOCK_STREAM, 0, fds));
}

static inline int make_socket(void *state)
{
    int fd = driver()->sockets->socket(state, AF_INET, SOCK_STREAM, 0);
    CHECK_OK(fd);
    return fd;
}

/// A TCP listener on the loopback interface; sets `addr` to where it listens.
static inline int make_listener(void *state, struct sockaddr_in *addr, int backlog)
{
    const struct weft__sockets *sockets = driver()->sockets;
    uint32_t size = sizeof *addr;
    *addr = (struct sockaddr_in){ .sin_family = AF_INET };
    addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = make_socket(state);
    CHECK_OK(sockets->bind(state, fd, (struct sockaddr *)addr, size));
    CHECK_OK(sockets->listen(state, fd, backlog));
    CHECK_OK(sockets->local(state, fd, (struct sockaddr *)addr, &size));
    return fd;
}

/// A connected pair of TCP sockets.
static inline void make_tcp_pair(void *state, int fds[2])
{
    struct sockaddr_in addr;
    struct trial dial = { 0 };
    int listener = make_listener(state, &addr, 1);
    fds[0] = make_socket(state);
    trial_start(&dial, state, connect_op(fds[0], &addr));
    fds[1] = (int)perform(state, accept_op(listener, 0));
    CHECK_OK(fds[1]);
    CHECK_OK(trial_await(&dial));
    close_fd(state, listener);
}

#endif
