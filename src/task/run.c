// run.c - the two ends of a task's running life: being woken and being run.
#include "base/assert.h"
#include "task/host.h"
#include "task/join.h"
#include "task/task.h"

/// Calls that complete at once and charge the budget get this many before they yield.
#define BUDGET WEFT__SIZED(128, 3)

void weft__interrupt(struct weft__task *task, uint64_t flags)
{
    if (weft__word_wake(task, flags)) {
        task->sched->ops->on_continue(task->sched, task);
    }
}

void weft__wake(struct weft__task *task)
{
    weft__interrupt(task, 0);
}

void weft__task_release(struct weft__task *task, struct weft__carrier *carrier)
{
    if (weft__word_release(task)) {
        task->kind->free(task, carrier);
    }
}

bool weft__run(struct weft__task *task, struct weft__context *from, struct weft__carrier *carrier)
{
    weft__word_clear_notified(task);
    task->budget = BUDGET;
    task->kind->run(task, from);
    switch ((enum weft__verdict)task->verdict) {
    case WEFT__YIELDED:
        return true;
    case WEFT__PARKED:
        return !weft__word_park(task); // true once parked: another thread may run it already
    case WEFT__ENDED:
        weft__task_end(task, carrier);
        return false;
    }
    return false;
}
