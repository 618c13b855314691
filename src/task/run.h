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

/// Before a switch to a virtual thread. errno and the C++ runtime's state belong to the OS thread, so
/// they are exchanged here and in weft__thread_left(). Returns what the thread's own switch returns:
/// -ECANCELED if it must stop, else 0.
static inline int weft__thread_enter(struct weft__task *task, struct weft__runner *runner)
{
    if (weft__word_clear_notified(task)) {
        task->noticed = true; // who asks has cleared it before (sched/guest.c)
    }
    task->budget = WEFT__BUDGET;
    if (weft__unlikely(!task->started)) {
        task->started = true;
        task->movable = task->migratable && !task->tied;
    }
    task->return_to = &runner->context;
    int cancelled = weft__unlikely(weft__scope_cancelled(task)) ? -ECANCELED : 0;
    weft__cxx_enter(runner->cxx, &task->cxx);
    *runner->errno_at = task->saved_errno; // last: what is above may make system calls
    return cancelled;
}

/// After the switch away from it, or right before.
static inline void weft__thread_left(struct weft__task *task, struct weft__runner *runner)
{
    weft__cxx_leave(runner->cxx, &task->cxx);
    task->saved_errno = *runner->errno_at;
}

/// Settles a task that came back to the loop. True: it is still ready, the caller queues it.
static inline bool weft__task_settle(struct weft__task *task, struct weft__runner *runner)
{
    switch ((enum weft__verdict)task->verdict) {
    case WEFT__YIELDED: return true;
    case WEFT__PARKED:
        return !weft__word_park(task); // once parked, another thread may run it already
    case WEFT__SETTLED: return false;
    case WEFT__ENDED:
        weft__task_end(task, runner->carrier);
        weft__task_release(task, runner->carrier);
        return false;
    }
    return false;
}

#endif
