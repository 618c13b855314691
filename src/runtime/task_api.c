// task_api.c - the public face of tasks: handles, and what a task asks about itself.
#include <errno.h>

#include <weft/blocking.h>

#include "diag/monitor.h"
#include "runtime/runtime.h"
#include "sched/guest.h"
#include "sched/policy_stealing.h"
#include "sched/relay.h"
#include "sched/search.h"
#include "task/host.h"
#include "task/join.h"
#include "task/local.h"
#include "task/scope.h"
#include "task/word.h"

WEFT__FLATTEN int weft_join(int *result, weft_task *task, weft_time deadline)
{
    struct weft__carrier *self = weft__carrier_self();
    struct weft__task *thread = weft__likely(self != NULL) ? self->current : weft__task_self();
    int rc = weft__runtime_refuses(task->crew, self);
    if (rc < 0) {
        return rc;
    }
    if (thread == task) {
        return -EDEADLK;
    }
    if (thread != NULL ? thread->kind != &weft__kind_thread : self != NULL) {
        return -EPERM; // a timer function or a future
    }
    if (thread != NULL) {
        weft__charge(thread);
    }
    int value = 0;
    rc = weft__task_join(task, thread, &value, deadline);
    if (rc < 0) {
        return rc;
    }
    if (result != NULL) {
        *result = value;
    }
    weft__host_release(task);
    return 0;
}

bool weft_task_done(const weft_task *task)
{
    return weft__task_ended(task);
}

void weft_task_cancel(weft_task *task)
{
    if (weft__runtime_refuses(task->crew, weft__carrier_self()) == 0) {
        weft__interrupt(task, WEFT__WORD_LOOK | WEFT__WORD_CANCELLED);
    }
}

weft_task *weft_task_retain(weft_task *task)
{
    weft__word_retain(task);
    return task;
}

void weft_task_release(weft_task *task)
{
    if (task != NULL) {
        weft__host_release(task);
    }
}

weft_task *weft_self(void)
{
    return weft__task_self();
}

uint64_t weft_task_id(const weft_task *task)
{
    return task != NULL ? task->id : 0;
}

const char *weft_task_name(const weft_task *task)
{
    return task != NULL ? task->name : "";
}

int weft_yield(void)
{
    struct weft__task *task = weft__thread_self();
    if (weft__unlikely(task == NULL)) {
        return weft__no_task();
    }
    return weft__unlikely(task->abroad) ? weft__thread_leave(task, WEFT__YIELDED)
                                        : weft__relay_yield(task->home, task);
}

int weft_checkpoint(void)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    if (weft__unlikely(task->abroad)) {
        return weft__abroad_checkpoint(task);
    }
    struct weft__carrier *carrier = task->home;
    weft_time now = weft__carrier_now(carrier);
    if (carrier->slice_end == 0) {
        carrier->slice_end = now + carrier->quantum_ns;
    }
    if (--task->budget <= 0 || now >= carrier->slice_end) {
        weft__tally(&carrier->counts.budget_yields, 1);
        return weft__thread_leave(task, WEFT__YIELDED);
    }
    return weft__scope_cancelled(task) ? -ECANCELED : 0;
}

int weft_block_begin(void)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    if (task->abroad) {
        return 0; // it holds up a thread of its scheduler's, and no carrier
    }
    struct weft__carrier *carrier = task->home;
    weft__tally(&carrier->counts.announced, 1);
    atomic_store_explicit(&carrier->announced, task, memory_order_relaxed);
    // A single task on offer is its owner's own next work, and so far nobody was asked to take it.
    weft__tally_set(&carrier->stuck, 1);
    if (carrier->freely) {
        weft__free_evict(carrier);
    }
    if (carrier->shares && weft__carrier_offered(carrier) > 0) {
        weft__search_ask(carrier, carrier);
    }
    if (carrier->annex != NULL) {
        weft__monitor_call(weft__runtime_of(carrier->crew));
    }
    return 0;
}

int weft_block_end(void)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    if (task->abroad) {
        return 0;
    }
    struct weft__carrier *carrier = task->home;
    if (atomic_load_explicit(&carrier->announced, memory_order_relaxed) != task) {
        return -EPERM;
    }
    atomic_store_explicit(&carrier->announced, NULL, memory_order_relaxed);
    weft__tally_set(&carrier->stuck, 0);
    return 0;
}

int weft_cancelled(void)
{
    struct weft__task *task = weft__task_self();
    if (task == NULL) {
        return weft__no_task();
    }
    return weft__scope_cancelled(task) ? -ECANCELED : 0;
}

int weft_carrier_id(void)
{
    struct weft__carrier *self = weft__carrier_self();
    return self != NULL ? self->number : -1;
}

int weft_carrier_count(void)
{
    const struct weft__crew *crew = weft__crew_self();
    return crew != NULL ? weft__crew_active(crew) : 0;
}

weft_runtime *weft_runtime_current(void)
{
    struct weft__crew *crew = weft__crew_self();
    return crew != NULL ? weft__runtime_of(crew) : NULL;
}

int64_t weft_task_stack_used(const weft_task *task)
{
    if (task->stack_low == NULL) {
        return -ENOTSUP;
    }
    return weft__stack_touched(task->stack_low, (const char *)task + sizeof *task);
}

void *weft_local_get(const struct weft_local *key)
{
    struct weft__task *task = weft__task_self();
    return task != NULL ? weft__local_get(task, key) : NULL;
}

int weft_local_set(const struct weft_local *key, void *value)
{
    struct weft__task *task = weft__task_self();
    return task != NULL ? weft__local_set(task, key, value) : weft__no_task();
}
