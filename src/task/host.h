// host.h - what tasks need from the carrier under them. Declared here, implemented by sched/host.c,
// so that this layer knows neither wheels nor lanes.
#ifndef WEFT_TASK_HOST_H
#define WEFT_TASK_HOST_H

#include "task/task.h"
#include "task/wait.h"

/// The clock of the carrier that the task runs on.
weft_time weft__host_now(struct weft__task *task);

/// Parks the running virtual thread until it is woken. With a deadline it is woken at the latest
/// when that has come; it may also be woken for nothing.
void weft__host_park(struct weft__task *task, weft_time deadline);

/// Lets the other ready tasks run.
void weft__host_yield(struct weft__task *task);

/// Charges one operation of a run, and yields when the budget is used up: a task whose calls all
/// complete at once must not starve the others. Only on entry to calls documented as blocking.
static inline void weft__charge(struct weft__task *task)
{
    if (weft__unlikely(--task->budget <= 0)) {
        weft__host_yield(task);
    }
}

/// Arms, moves or (WEFT_FOREVER) disarms a timer in the wheel of the running task's home.
void weft__host_timer_set(struct weft__task *task, struct weft__timer *timer, weft_time when);

/// Says what the program did wrong, and in which task, and aborts.
WEFT__NORETURN void weft__host_die(const struct weft__task *task, const char *what);

/// Ends the running virtual thread, whose result is set.
WEFT__NORETURN void weft__host_exit(struct weft__task *task);

/// Sees to it that the running task, which is at home, is woken at `deadline`.
void weft__host_arm(struct weft__task *task, weft_time deadline);

/// Takes the deadline of an ending task out of the wheel, and the task off its scheduler.
void weft__host_disarm(struct weft__task *task);

/// Counts the end of a task of `crew` that ran on `carrier`; NULL: on some other OS thread.
void weft__host_ended(struct weft__crew *crew, struct weft__carrier *carrier);

/// Small memory from the allocator of the task's runtime; zeroed, or NULL.
void *weft__host_alloc(struct weft__task *task, size_t size_bytes);
void weft__host_free(struct weft__task *task, void *memory, size_t size_bytes);

/// True if the task is simulated and the calling thread is not its simulation: what that does is in
/// no seed, so its wakes are ignored. They are counted for the report of whoever waits for them.
bool weft__host_refuses_wake(struct weft__task *task);

/// A waiter that is completed may run and end, and its runtime be destroyed, before it was woken. The
/// carriers of its crew are joined before that memory goes; anybody else announces himself first.
/// Returns the crew to leave afterwards, or NULL. `task` may be NULL.
struct weft__crew *weft__host_enter_crew(const struct weft__task *task);
void weft__host_leave_crew(struct weft__crew *crew);

/// weft__complete() from whatever thread this is.
static inline void weft__complete_from_anywhere(struct weft__wait *wait, int64_t result)
{
    struct weft__crew *crew = weft__host_enter_crew(wait->task);
    weft__complete(wait, result);
    weft__host_leave_crew(crew);
}

/// The task, a poller, was woken while it was not parked: it may sleep in a call of the program's, which
/// is to end. The caller need have no reference.
void weft__host_rouse(struct weft__task *task);

/// Gives a counted reference back, from whatever thread this is.
void weft__host_release(struct weft__task *task);

#endif
