// host.c - what the task layer needs from the carrier under a task (task/host.h).
#include "task/host.h"

#include <limits.h>

#include "base/assert.h"
#include "base/sys.h"
#include "sched/annex.h"
#include "sched/crew.h"
#include "sched/guest.h"
#include "sched/relay.h"
#include "sched/steal.h"

weft_time weft__host_now(struct weft__task *task)
{
    if (weft__likely(!task->abroad)) {
        return weft__carrier_now(task->home);
    }
    struct weft__carrier *self = weft__carrier_self();
    return self != NULL ? weft__carrier_now(self) : weft__clock_ns();
}

static void set_timer(struct weft__task *task, struct weft__timer *timer, weft_time when)
{
    struct weft__wheel *wheel = &task->home->wheel;
    if (weft__timer_armed(timer)) {
        weft__wheel_remove(wheel, timer);
        weft__task_unbind(task);
    }
    if (when != WEFT_FOREVER) {
        weft__wheel_add(wheel, timer, when);
        weft__task_bind(task);
    }
}

void weft__host_timer_set(struct weft__task *task, struct weft__timer *timer, weft_time when)
{
    weft__visit_begin(task);
    set_timer(task, timer, when);
    weft__visit_end(task);
}

/// With a remedy: the deadline of a task that may move goes into an annex. True: it stands.
static bool arm_beside(struct weft__task *task, weft_time deadline)
{
    struct weft__annex *annex = task->home->annex;
    if (weft__annex_deadline_stands(task, deadline)) {
        return true;
    }
    if (weft__timer_armed(&task->deadline) || !weft__task_may_move(task)) {
        return false; // it is bound anyway
    }
    task->timed_at = annex;
    weft__annex_arm(annex, &task->deadline, deadline);
    return true;
}

/// Deadlines are armed lazily: a timer that is early enough stays where it is, because it only
/// wakes, and the waiter looks at the clock and asks again. So a connection that moves its deadline
/// with every request touches the wheel once per timeout, not once per request.
void weft__host_arm(struct weft__task *task, weft_time deadline)
{
    struct weft__timer *timer = &task->deadline;
    if (weft__unlikely(task->home->annex != NULL) && deadline != WEFT_FOREVER &&
        arm_beside(task, deadline)) {
        return;
    }
    if (deadline != WEFT_FOREVER && (!weft__timer_armed(timer) || timer->when > deadline)) {
        task->timed = true;
        set_timer(task, timer, deadline);
    }
}

void weft__host_park(struct weft__task *task, weft_time deadline)
{
    weft_assert(task->kind == &weft__kind_thread);
    weft__trace(WEFT_TRACE_PARK, task);
    if (weft__unlikely(task->abroad)) {
        weft__abroad_park(task, deadline);
        return;
    }
    weft__host_arm(task, deadline);
    atomic_store_explicit(&task->waits_since, task->home->coarse_now, memory_order_relaxed);
    (void)weft__relay_park(task->home, task);
}

void weft__host_yield(struct weft__task *task)
{
    if (weft__unlikely(task->abroad)) {
        (void)weft__thread_leave(task, WEFT__YIELDED);
        return;
    }
    weft__tally(&task->home->counts.budget_yields, 1);
    (void)weft__relay_yield(task->home, task);
}

void weft__task_leave_spare(struct weft__task *task)
{
    if (weft__likely(!task->home->aside)) {
        return;
    }
    task->homeward = true;
    (void)weft__relay_yield(task->home, task); // a cancel is somebody else's to see
    task->homeward = false;
}

void weft__host_exit(struct weft__task *task)
{
    if (weft__unlikely(task->abroad)) {
        if (!task->timed) {
            task->verdict = WEFT__ENDED;
            weft__context_exit(&task->context, task->return_to, 0);
        }
        weft__visit_home(task); // guest.h, G6
    }
    weft__relay_end(task->home, task);
}

bool weft__host_refuses_wake(struct weft__task *task)
{
    struct weft__crew *crew = task->crew;
    if (weft__likely(!crew->simulated)) {
        return false;
    }
    const struct weft__carrier *self = weft__carrier_self();
    if (self != NULL && self->crew == crew) {
        return false;
    }
    atomic_fetch_add_explicit(&crew->refused_wakes, 1, memory_order_relaxed);
    return true;
}

struct weft__crew *weft__host_enter_crew(const struct weft__task *task)
{
    const struct weft__carrier *self = weft__carrier_self();
    if (task == NULL || weft__likely(self != NULL && self->crew == task->crew)) {
        return NULL;
    }
    weft__crew_enter(task->crew);
    return task->crew;
}

void weft__host_leave_crew(struct weft__crew *crew)
{
    if (weft__unlikely(crew != NULL)) {
        weft__crew_leave(crew);
    }
}

void weft__deadline_fired(struct weft__timer *timer)
{
    struct weft__task *task = weft__container_of(timer, struct weft__task, deadline);
    weft__task_unbind(task);
    weft__wake(task);
}

void weft__host_disarm(struct weft__task *task)
{
    if (weft__unlikely(task->home->annex != NULL) && task->timed_at != NULL) {
        (void)weft__annex_disarm(task->timed_at, &task->deadline);
    } else if (weft__timer_armed(&task->deadline)) {
        set_timer(task, &task->deadline, WEFT_FOREVER);
    }
    if (weft__unlikely(task->own != NULL)) {
        weft__scheduler_leave(task->own,
                              task->home); // before it is counted: home has not stopped yet
    }
}

/// On a thread that answers no questions of a shutdown: see runtime/shutdown.c, D3.
static void ended_elsewhere(struct weft__crew *crew)
{
    atomic_fetch_add_explicit(&crew->foreign_ended, 1, memory_order_release);
    atomic_fetch_add_explicit(&crew->endings, 1, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (weft__unlikely(atomic_load_explicit(&crew->root.cause, memory_order_relaxed) != 0)) {
        weft__futex_wake(&crew->endings, INT_MAX);
    }
}

void weft__host_ended(struct weft__crew *crew, struct weft__carrier *carrier)
{
    if (weft__unlikely(carrier == NULL)) {
        ended_elsewhere(crew);
        return;
    }
    if (weft__unlikely(carrier->uncounted)) {
        carrier->uncounted = false;
        return;
    }
    weft__count(&carrier->counts.ended);
    // No fence: see runtime/shutdown.c, D3.
    if (weft__unlikely(atomic_load_explicit(&crew->root.cause, memory_order_relaxed) != 0)) {
        atomic_fetch_add_explicit(&crew->endings, 1, memory_order_release);
        weft__futex_wake(&crew->endings, INT_MAX);
    }
}
