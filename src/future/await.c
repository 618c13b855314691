// await.c - a virtual thread waits for a future; and the raw parking it is made of.
#include <errno.h>

#include <weft/future.h>

#include "sched/carrier.h"
#include "task/host.h"
#include "task/scope.h"
#include "task/waker.h"

int weft_waker_self(weft_waker *waker)
{
    struct weft__task *task = weft__task_self();
    *waker = (weft_waker){ NULL, NULL };
    if (task == NULL) {
        return weft__no_task();
    }
    weft_waker borrowed = weft__waker_borrowed(task);
    weft_waker_clone(waker, &borrowed);
    return 0;
}

static int after_park(struct weft__task *task, weft_time deadline)
{
    if (weft__scope_cancelled(task)) {
        return -ECANCELED;
    }
    return deadline != WEFT_FOREVER && weft__host_now(task) >= deadline ? -ETIMEDOUT : 0;
}

static int park(struct weft__task *task, weft_time deadline)
{
    if (weft__scope_cancelled(task)) {
        return -ECANCELED;
    }
    weft__host_park(task, deadline);
    return after_park(task, deadline);
}

static void set_waits_for(struct weft__task *task, const char *what)
{
    atomic_store_explicit(&task->waits_for, what, memory_order_relaxed);
}

int weft_park(weft_time deadline)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    if (weft__unlikely(--task->budget <= 0)) {
        // A yield takes the notification that may be the very wake we are to wait for. So it counts
        // as the park, and the caller looks again.
        weft__host_yield(task);
        return after_park(task, deadline);
    }
    set_waits_for(task, "park");
    int rc = park(task, deadline);
    set_waits_for(task, NULL);
    return rc;
}

int64_t weft_await(struct weft_future *future, weft_time deadline)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    weft__charge(task);
    weft_waker waker = weft__waker_borrowed(task);
    int why = 0;
    while (weft_future_poll(future, &waker) == WEFT_PENDING) {
        set_waits_for(task, "future");
        if (why != 0) {
            weft__host_park(task, WEFT_FOREVER);
        } else if ((why = park(task, deadline)) != 0) {
            weft_future_cancel(future);
        }
        set_waits_for(task, NULL);
    }
    return why == -ETIMEDOUT && future->result == -ECANCELED ? -ETIMEDOUT : future->result;
}
