// relay.h - a virtual thread that leaves hands over to the next one itself.
//
// The plain way leads back to the carrier's loop and from there to the next task: two switches. Here
// a thread that yields or parks takes the next ready thread from `local` and switches to it: one.
//
//   R1  What a thread does before it leaves, it does on its own stack: it goes back to `local`, or
//       becomes IDLE. That is safe because only this OS thread runs what is homed here; whoever
//       wakes it meanwhile puts it into the inbox, and nobody opens that before the switch is over.
//       A thread that may migrate takes the plain way: another carrier could resume it too early.
//   R2  Nothing follows the switch, so the compiler jumps to it and no `ret` is mispredicted.
//   R3  A relay ends after `relay_left` hand-overs, at a future, or when nobody is ready: then the
//       loop gets its turn, looks at the clock and finds in carrier->current who came back.
//   R4  A thread that ends settles everything on its own stack but its own reference: that is left
//       in carrier->ended for whoever ends next here, or for the loop, because the stack must not
//       be given away under its feet.
#ifndef WEFT_SCHED_RELAY_H
#define WEFT_SCHED_RELAY_H

#include "sched/carrier.h"
#include "sched/clock.h"
#include "task/run.h"
#include "task/trace.h"

/// Fetches what the next two runs will touch: the next task's saved registers, and the control
/// block after that. With thousands of stacks each of these would otherwise be a cache miss.
static inline void weft__prefetch_ready(const struct weft__carrier *carrier)
{
    struct weft__node *node = carrier->local.head;
    if (node != NULL) {
        const struct weft__task *task = weft__container_of(node, struct weft__task, node);
        weft__context_prefetch(&task->context);
        __builtin_prefetch((const char *)task + WEFT__LINE, 1);
        __builtin_prefetch(node->next, 1);
    }
}

/// Makes `task`, taken from a lane, the running one.
static inline void weft__carrier_turn_to(struct weft__carrier *carrier, struct weft__task *task)
{
    carrier->current = task;
    carrier->slice_end = 0;
    weft__trace(WEFT_TRACE_RUN, task);
    if (weft__unlikely(carrier->sim != NULL)) {
        weft__sim_note(carrier->sim, task->id);
    }
}

struct weft__task *weft__relay_next_offered(struct weft__carrier *carrier);

/// The thread to hand over to, taken from `local`, or NULL (R3). When that is empty, a carrier that
/// shares goes on with what is on offer (steal.c).
static inline struct weft__task *weft__relay_next(struct weft__carrier *carrier)
{
    struct weft__node *node = carrier->local.head;
    if (node == NULL || carrier->relay_left == 0) {
        return weft__unlikely(carrier->offering) ? weft__relay_next_offered(carrier) : NULL;
    }
    struct weft__task *next = weft__container_of(node, struct weft__task, node);
    if (weft__unlikely(next->kind != &weft__kind_thread)) {
        return NULL;
    }
    carrier->relay_left--;
    weft__fifo_pop(&carrier->local);
    weft__prefetch_ready(carrier);
    return next;
}

/// Switches from `task`, which has settled its own state, to `next`.
static inline int weft__relay(struct weft__carrier *carrier, struct weft__task *task,
                              struct weft__task *next)
{
    struct weft__runner *runner = &carrier->runner;
    weft__thread_left(task, runner);
    weft__carrier_turn_to(carrier, next);
    int cancelled = weft__thread_enter(next, runner);
    return weft__context_switch(&task->context, &next->context, cancelled);
}

/// Lets the other ready tasks run first. Returns -ECANCELED if the task must stop, else 0.
static inline int weft__relay_yield(struct weft__carrier *carrier, struct weft__task *task)
{
    bool offered = weft__unlikely(task->migratable) && carrier->shares; // R1
    struct weft__task *next = offered ? NULL : weft__relay_next(carrier);
    if (next == NULL) {
        return weft__thread_leave(task, WEFT__YIELDED);
    }
    weft__fifo_push(&carrier->local, &task->node);
    return weft__relay(carrier, task, next);
}

/// Parks until woken; returns at once if the task was notified. Returns as weft__relay_yield().
static inline int weft__relay_park(struct weft__carrier *carrier, struct weft__task *task)
{
    if (weft__unlikely(task->migratable)) {
        return weft__thread_leave(task, WEFT__PARKED);
    }
    if (!weft__word_park(task)) {
        return 0;
    }
    struct weft__task *next = weft__relay_next(carrier);
    if (next == NULL) {
        return weft__thread_leave(task, WEFT__SETTLED);
    }
    return weft__relay(carrier, task, next);
}

/// Gives back the reference of the thread that ended last here (R4).
static inline void weft__carrier_bury(struct weft__carrier *carrier)
{
    struct weft__task *ended = atomic_load_explicit(&carrier->ended, memory_order_relaxed);
    if (ended != NULL) {
        atomic_store_explicit(&carrier->ended, NULL, memory_order_relaxed);
        weft__task_release(ended, carrier);
    }
}

/// Gives back a handle, on the carrier's thread. A task that ended here just now is often joined by the
/// next one that runs here: then both references that are left are this thread's (R4).
static inline void weft__carrier_release(struct weft__carrier *carrier, struct weft__task *task)
{
    if (atomic_load_explicit(&carrier->ended, memory_order_relaxed) == task &&
        weft__word_release_both(task)) {
        atomic_store_explicit(&carrier->ended, NULL, memory_order_relaxed);
        task->kind->free(task, carrier);
    } else {
        weft__task_release(task, carrier);
    }
}

/// Ends the running thread and hands over.
WEFT__NORETURN static inline void weft__relay_end(struct weft__carrier *carrier,
                                                  struct weft__task *task)
{
    struct weft__runner *runner = &carrier->runner;
    weft__carrier_bury(carrier);
    weft__task_end(task, carrier);
    atomic_store_explicit(&carrier->ended, task, memory_order_relaxed);
    struct weft__task *next = weft__relay_next(carrier);
    if (next == NULL) {
        task->verdict = WEFT__SETTLED;
        weft__context_exit(&task->context, &runner->context, 0);
    }
    weft__thread_left(task, runner);
    weft__carrier_turn_to(carrier, next);
    int cancelled = weft__thread_enter(next, runner);
    weft__context_exit(&task->context, &next->context, cancelled);
}

#endif
