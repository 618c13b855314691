// future.c - stackless tasks: a future run as a task of its own.
#include <errno.h>

#include "base/assert.h"
#include "task/scope.h"
#include "task/trace.h"
#include "task/waker.h"

/// weft_future.opaque; whoever polls it writes them.
#define FUTURE_CANCELLED UINT64_C(1) ///< it was asked to end
#define FUTURE_BEGUN UINT64_C(2)     ///< it was polled
#define FUTURE_READY UINT64_C(4)

void weft_future_init(struct weft_future *future, weft_poll_fn poll, weft_cancel_fn cancel)
{
    *future = (struct weft_future){ .poll = poll, .cancel = cancel };
}

enum weft_poll weft_future_poll(struct weft_future *future, weft_waker *waker)
{
    weft_assert((future->opaque & FUTURE_READY) == 0 && "a future was polled after it was READY");
    future->opaque |= FUTURE_BEGUN;
    enum weft_poll poll = future->poll(future, waker);
    if (poll == WEFT_READY) {
        future->opaque |= FUTURE_READY;
    }
    return poll;
}

void weft_future_cancel(struct weft_future *future)
{
    if ((future->opaque & (FUTURE_CANCELLED | FUTURE_READY)) == 0) {
        future->opaque |= FUTURE_CANCELLED;
        if (future->cancel != NULL) {
            future->cancel(future);
        }
    }
}

void weft_future_fini(const struct weft_future *future)
{
    weft_assert((future->opaque & (FUTURE_BEGUN | FUTURE_READY)) != FUTURE_BEGUN &&
                "the storage of a pending future was given up");
}

/// Cancel is a request: the future learns of it once and is polled on to its end.
void weft__future_poll(struct weft__task *task)
{
    struct weft_future *future = task->arg;
    if (weft__scope_cancelled(task)) {
        weft_future_cancel(future);
    }
    weft_waker waker = weft__waker_borrowed(task);
    if (weft_future_poll(future, &waker) == WEFT_PENDING) {
        weft__trace(WEFT_TRACE_PARK, task);
        task->verdict = WEFT__PARKED;
        return;
    }
    task->result = (int)future->result;
    weft__locals_end(task);
    task->verdict = WEFT__ENDED;
    if (task->ended != NULL) {
        task->ended(future);    // the last touch: nothing that follows knows of it
        weft__locals_end(task); // what that has set
    }
}

const struct weft__kind weft__kind_future = {
    .name = "future",
    .free = weft__future_free,
};
