// future.c - stackless tasks: a future run as a task of its own.
#include <errno.h>

#include "base/assert.h"
#include "task/future.h"
#include "task/scope.h"
#include "task/waker.h"

/// weft_future.opaque
#define FUTURE_CANCELLED UINT64_C(1)

void weft_future_init(struct weft_future *future, weft_poll_fn poll, weft_cancel_fn cancel)
{
    *future = (struct weft_future){ .poll = poll, .cancel = cancel };
}

void weft__future_cancel(struct weft_future *future)
{
    if ((future->opaque & FUTURE_CANCELLED) == 0) {
        future->opaque |= FUTURE_CANCELLED;
        if (future->cancel != NULL) {
            future->cancel(future);
        }
    }
}

/// Cancel is a request: the future learns of it once and is polled on to its end.
void weft__future_poll(struct weft__task *task)
{
    struct weft_future *future = task->arg;
    if (weft__scope_cancelled(task)) {
        weft__future_cancel(future);
    }
    weft_waker waker = weft__waker_borrowed(task);
    if (future->poll(future, &waker) == WEFT_PENDING) {
        task->verdict = WEFT__PARKED;
        return;
    }
    task->result = (int)future->result;
    weft__locals_end(task);
    task->verdict = WEFT__ENDED;
}

const struct weft__kind weft__kind_future = {
    .name = "future",
    .free = weft__future_free,
};
