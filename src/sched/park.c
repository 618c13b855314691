// park.c - putting idle carriers to sleep without losing a wake-up.
//
// The danger: a carrier looks at its inbox while a producer looks at the carrier's state; each sees
// nothing new, and a ready task waits for an unrelated event. So each side announces first and looks
// second:
//
//     making ready                        going to sleep
//     push the node                       state = PARKED
//     fence (seq_cst)                     fence (seq_cst)
//     if state == PARKED, kick            look at the inbox once more, then wait in the driver
//
//   P1  A kick is a token: a carrier kicked before it waits returns at once (sched/driver.h).
//   P2  Nobody is kicked twice for one sleep: the producer that moves PARKED to RUNNING kicks.
//   P3  A kick may come late, in a later sleep. Then that sleep ends early, for nothing.
//   P4  With stealing, a sleeper may be woken as a searcher instead: then the state says for whom
//       (search.c). Whoever puts something meanwhile need not kick: the sleeper has been kicked.
//   P5  What was pushed is carried by the inbox's release and acquire. The state carries one thing: the
//       driver, which a carrier that started later (runtime/resize.c) opened on its own thread. Who moves
//       it out of PARKED is about to use that, so PARKED releases, and the move acquires.
//
// Rejected: an idle list under a mutex (every wake would take it); kicking without a look at the
// state (a system call of 10 us per hand-over to a carrier that is awake anyway).
// Locks: none. Checked by: tests/model (put/sleep, search), tests/model/litmus_sleep_wake.c.
#include "sched/park.h"

#include "sched/crew.h"
#include "sched/search.h"

static void count_kick(struct weft__carrier *target, struct weft__carrier *self, bool kicked)
{
    if (self != NULL) {
        weft__tally(kicked ? &self->counts.kicks : &self->counts.kicks_saved, 1);
    } else {
        struct weft__foreign_counts *foreign = &target->crew->foreign_counts;
        weft__tally_shared(kicked ? &foreign->kicks : &foreign->kicks_saved);
    }
}

static void unpark(struct weft__carrier *target, struct weft__carrier *self)
{
    uint64_t state = atomic_load_explicit(&target->state, memory_order_relaxed);
    bool ours = state == WEFT__CARRIER_PARKED && atomic_compare_exchange_strong_explicit(
                                                     &target->state, &state, WEFT__CARRIER_RUNNING,
                                                     memory_order_acquire, memory_order_relaxed);
    count_kick(target, self, ours);
    if (ours) {
        weft__carrier_kick(target, self);
    }
}

void weft__rouse(struct weft__carrier *target, struct weft__carrier *self)
{
    atomic_thread_fence(memory_order_seq_cst);
    unpark(target, self);
}

void weft__put(struct weft__carrier *target, struct weft__node *node, struct weft__carrier *self)
{
    if (self != NULL && self == target && node->kind == WEFT__NODE_TASK) {
        weft__fifo_push(&self->local, node);
        return;
    }
    weft__inbox_push(&target->inbox, node);
    weft__rouse(target, self);
}

bool weft__sleep_begin(struct weft__carrier *carrier)
{
    bool searches = weft__unlikely(carrier->shares) && !carrier->aside;
    if (searches) {
        weft__search_idle(carrier);
    }
    atomic_store_explicit(&carrier->state, WEFT__CARRIER_PARKED, memory_order_release); // P5
    atomic_thread_fence(memory_order_seq_cst);
    if (weft__inbox_empty(&carrier->inbox) && !(searches && weft__search_wanted(carrier))) {
        weft__tally(&carrier->counts.sleeps, 1);
        weft__tally_set(&carrier->counts.ready, 0);
        return true;
    }
    weft__sleep_end(carrier);
    return false;
}

void weft__sleep_end(struct weft__carrier *carrier)
{
    if (weft__unlikely(carrier->shares) && !carrier->aside) {
        weft__search_awake(carrier);
        return;
    }
    atomic_store_explicit(&carrier->state, WEFT__CARRIER_RUNNING, memory_order_relaxed);
}

void weft__sleep(struct weft__carrier *carrier)
{
    if (weft__sleep_begin(carrier)) {
        int events = carrier->driver->wait(carrier->driver_state, weft__carrier_expiry(carrier));
        weft__sleep_end(carrier);
        weft__carrier_polled(carrier, events);
    }
}
