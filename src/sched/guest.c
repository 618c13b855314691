// guest.c - running tasks on OS threads that are not carriers; see guest.h.
//
// Locks: none. Checked by: tests/model (guest), tests/api/scheduler_test.c.
#include "sched/guest.h"

#include <errno.h>

#include "sched/crew.h"
#include "task/host.h"
#include "task/run.h"
#include "task/trace.h"

bool weft__task_claim(struct weft__task *task)
{
    // Acquire: who was not given the task and is faster than the one who was runs it in his stead.
    return atomic_exchange_explicit(&task->handed, 0, memory_order_acquire) == 1;
}

static void start_abroad(struct weft_scheduler *self, struct weft__task *task)
{
    struct weft_scheduler *own = task->own;
    (void)self;
    weft__task_hand(task);
    own->ops->on_start(own, task);
}

static void continue_abroad(struct weft_scheduler *self, struct weft__task *task)
{
    struct weft_scheduler *own = task->own;
    (void)self;
    weft__task_hand(task);
    own->ops->on_continue(own, task);
}

const struct weft_scheduler_ops weft__abroad_ops = {
    .on_start = start_abroad,
    .on_continue = continue_abroad,
};

void weft__guest_turn(struct weft__task *task, struct weft__guest *guest)
{
    struct weft__runner *runner = &guest->runner;
    weft__trace(WEFT_TRACE_RUN, task);
    if (weft__likely(task->kind == &weft__kind_thread)) {
        int cancelled = weft__thread_enter(task, runner);
        (void)weft__context_resume(&runner->context, &task->context, cancelled, runner->control);
        weft__thread_left(task, runner);
    } else {
        (void)weft__word_clear_notified(task);
        weft__future_poll(task);
    }
    guest->current = NULL;
    if (weft__task_settle(task, runner)) {
        task->sched->ops->on_continue(task->sched, task);
    }
}

void weft__visit_home(struct weft__task *task)
{
    if (task->visits++ > 0) {
        return;
    }
    weft_assert(task->abroad);
    task->abroad = false;
    task->sched = &task->crew->sched;
    task->migratable = false;
    task->movable = false;
    if (weft__carrier_self() != task->home) {
        (void)weft__thread_leave(task, WEFT__YIELDED);
    }
}

/// G1: the task is its own scheduler's again. It is still running.
static void go_abroad(struct weft__task *task)
{
    task->visits = 0;
    task->sched = &task->crew->abroad;
    task->migratable = task->roams;
    task->movable = task->roams;
    task->abroad = true;
}

void weft__visit_over(struct weft__task *task)
{
    if (--task->visits == 0) {
        go_abroad(task);
        (void)weft__thread_leave(task, WEFT__YIELDED);
    }
}

/// G7: the caller has looked at what it waits for, and a wake since then is in the word, or was taken
/// from it by the run at home.
void weft__abroad_park(struct weft__task *task, weft_time deadline)
{
    enum weft__verdict verdict = WEFT__PARKED;
    atomic_store_explicit(&task->waits_since, weft__host_now(task), memory_order_relaxed);
    if (deadline != WEFT_FOREVER) {
        task->noticed = false;
        weft__visit_home(task);
        weft__host_arm(task, deadline);
        verdict = task->noticed ? WEFT__YIELDED : WEFT__PARKED;
        go_abroad(task); // and leaves from home: its own scheduler hears of the wake
    }
    (void)weft__thread_leave(task, verdict);
}

int weft__abroad_checkpoint(struct weft__task *task)
{
    struct weft__carrier *carrier = weft__carrier_self(); // not NULL: its scheduler has delegated
    struct weft__guest *guest = weft__guest_self();
    weft_time *slice_end = carrier != NULL ? &carrier->slice_end : &guest->slice_end;
    weft_time now = weft__host_now(task);
    if (*slice_end == 0) {
        *slice_end = now + task->home->quantum_ns;
    }
    if (--task->budget <= 0 || now >= *slice_end) {
        return weft__thread_leave(task, WEFT__YIELDED);
    }
    return weft__scope_cancelled(task) ? -ECANCELED : 0;
}
