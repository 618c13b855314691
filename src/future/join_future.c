// join_future.c - the end of a task as a future.
//
// Whoever ends the task calls back while the future may be polled elsewhere: task/bell.h.
#include <errno.h>

#include "sched/crew.h"
#include "task/bell.h"
#include "task/join.h"
#include "task/wait.h"

enum phase { FRESH, WATCHING, READY };

struct join_future {
    struct weft_future future;
    struct weft__wait wait; // among the task's joiners while WATCHING and not rung
    struct weft__task *task;
    uint8_t phase; // enum phase; the poller's
    bool cancelled;
    struct weft__bell bell;
};
_Static_assert(sizeof(struct join_future) <= sizeof(struct weft_join_future), "public size");

static struct join_future *of(struct weft_future *future)
{
    return weft__container_of(future, struct join_future, future);
}

static void task_ended(struct weft__wait *wait)
{
    weft__bell_ring(&weft__container_of(wait, struct join_future, wait)->bell);
}

static enum weft_poll ready(struct join_future *join, int result)
{
    join->phase = READY;
    join->future.result = result;
    return WEFT_READY;
}

static enum weft_poll begin(struct join_future *join, const weft_waker *waker)
{
    int rc = weft__runtime_refuses(join->task->crew, weft__carrier_self());
    if (join->cancelled || rc < 0) {
        return ready(join, rc < 0 ? rc : -ECANCELED);
    }
    if (join->task == weft__task_self()) {
        return ready(join, -EDEADLK);
    }
    if (weft__task_ended(join->task)) {
        return ready(join, join->task->result);
    }
    weft__bell_set(&join->bell, waker);
    weft__wait_init(&join->wait, NULL, WEFT__WAIT_CALL, "join");
    join->wait.ask = task_ended;
    join->phase = WATCHING;
    if (!weft__task_watch(join->task, &join->wait)) {
        weft__bell_drop(&join->bell);
        return ready(join, join->task->result);
    }
    return WEFT_PENDING;
}

static enum weft_poll look(struct join_future *join, const weft_waker *waker)
{
    if (!weft__bell_rung(&join->bell, waker)) {
        return WEFT_PENDING;
    }
    return ready(join, weft__task_ended(join->task) ? join->task->result : -ECANCELED);
}

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct join_future *join = of(future);
    switch ((enum phase)join->phase) {
    case FRESH: return begin(join, waker);
    case WATCHING: return look(join, waker);
    case READY: break;
    }
    return WEFT_READY;
}

static void cancel(struct weft_future *future)
{
    struct join_future *join = of(future);
    join->cancelled = true;
    if (join->phase == WATCHING && weft__task_unwatch(join->task, &join->wait)) {
        weft__bell_ring(&join->bell);
    }
}

void weft_join_future_init(struct weft_join_future *public_join, weft_task *task)
{
    struct join_future *join = (struct join_future *)(void *)public_join;
    *join = (struct join_future){ .task = task };
    weft_future_init(&join->future, poll, cancel);
}
