// ops.h - driving ops by hand, without a runtime: for tests of the drivers themselves.
#ifndef WEFT_TEST_OPS_H
#define WEFT_TEST_OPS_H

#include "support/test.h"

#include <errno.h>
#include <string.h>

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
    if (driver()->submit == NULL) {
        SKIP("this driver has no operations");
    }
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

static inline void trial_note(struct trial *trial)
{
    CHECK(!trial->ended);
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

/// Submits what `op` describes; a trial that has ended may be started again.
static inline void trial_start(struct trial *trial, void *state, struct weft__op op)
{
    trial->op = op;
    trial->op.done = trial_done;
    trial->state = state;
    trial->ended = false;
    trial->calls = trial->notifies = 0;
    trial->sum = 0;
    if (driver()->submit(state, &trial->op)) {
        trial_note(trial);
        CHECK(trial->ended);
    }
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
    driver()->cancel(trial->state, &trial->op);
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

#endif
