// run.c - making a task run again, and letting go of it. Running it is in run.h.
#include "task/run.h"

#include "task/host.h"
#include "task/trace.h"

/// After its word was changed by a wake.
static inline void woken(struct weft__task *task, uint64_t before)
{
    if ((before & WEFT__WORD_LIFE) == WEFT__WORD_IDLE) {
        weft__trace(WEFT_TRACE_SUBMIT, task);
        task->sched->ops->on_continue(task->sched, task);
    } else if (weft__unlikely((before & WEFT__WORD_POLLER) != 0)) {
        weft__host_rouse(task);
    }
}

void weft__interrupt(struct weft__task *task, uint64_t flags)
{
    woken(task, weft__word_wake_from(task, flags));
}

bool weft__wake_release(struct weft__task *task)
{
    if (weft__unlikely((weft__word_peek(task) & WEFT__WORD_POLLER) != 0)) {
        weft__wake(task); // which looks at it after its word was changed
        return false;
    }
    uint64_t before = weft__word_wake_release(task);
    if ((before & WEFT__WORD_LIFE) == WEFT__WORD_DONE) {
        return false;
    }
    woken(task, before);
    return true;
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
