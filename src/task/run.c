// run.c - making a task run again, and letting go of it. Running it is in run.h.
#include "task/run.h"

#include "task/trace.h"

void weft__interrupt(struct weft__task *task, uint64_t flags)
{
    if (weft__word_wake(task, flags)) {
        weft__trace(WEFT_TRACE_SUBMIT, task);
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
