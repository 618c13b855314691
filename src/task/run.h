// run.h - running a task, inlined into the loops that do nothing else.
//
// Why inlined: a switch spoils the processor's return predictor. Between two switches the carrier
// should not return from functions that it entered before the first; so its loop, this, and the
// switch are one function.
#ifndef WEFT_TASK_RUN_H
#define WEFT_TASK_RUN_H

#include <errno.h>

#include "base/assert.h"
#include "task/join.h"
#include "task/scope.h"
#include "task/task.h"
#include "task/word.h"

/// Calls that complete at once and charge the budget get this many before they yield.
#define WEFT__BUDGET WEFT__SIZED(128, 3)

/// Switches onto the stack of a virtual thread until it parks, yields or ends. errno belongs to the
/// OS thread, so it is exchanged here, where that cannot change under us.
static inline void weft__thread_run(struct weft__task *task, struct weft__runner *runner)
{
    task->started = true;
    task->movable = task->migratable;
    task->return_to = &runner->context;
    *runner->errno_at = task->saved_errno;
    weft__cxx_enter(runner->cxx, &task->cxx);
    int cancelled = weft__unlikely(weft__scope_cancelled(task)) ? -ECANCELED : 0;
    (void)weft__context_switch(&runner->context, &task->context, cancelled);
    weft__cxx_leave(runner->cxx, &task->cxx);
    task->saved_errno = *runner->errno_at;
}

static inline bool weft__run_inlined(struct weft__task *task, struct weft__runner *runner)
{
    weft__word_clear_notified(task);
    task->budget = WEFT__BUDGET;
    if (weft__likely(task->kind == &weft__kind_thread)) {
        weft__thread_run(task, runner);
    } else {
        weft__future_poll(task);
    }
    switch ((enum weft__verdict)task->verdict) {
    case WEFT__YIELDED: return true;
    case WEFT__PARKED:
        return !weft__word_park(task); // once parked, another thread may run it already
    case WEFT__ENDED: weft__task_end(task, runner->carrier); return false;
    }
    return false;
}

#endif
