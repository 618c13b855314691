// counts.h - what carriers count.
//
// A counter is written by one thread and read by anyone, whenever they like: an ordinary addition in
// the owner's own cache line, no lock, no read-modify-write. Counters that are read together need not
// fit together.
#ifndef WEFT_SCHED_COUNTS_H
#define WEFT_SCHED_COUNTS_H

#include <stdatomic.h>

#include "base/base.h"

/// One carrier's. What they mean for users: diag/stats.c, docs/statistics.md.
struct weft__carrier_counts {
    _Atomic uint64_t spawned;       // tasks spawned from here; see crew.c for the order
    _Atomic uint64_t ended;         // tasks that ended here
    _Atomic uint64_t runs;          // times a task was run
    _Atomic uint64_t budget_yields; // runs that ended because their budget or slice was used up
    _Atomic uint64_t announced;     // blocking calls that tasks announced
    _Atomic uint64_t steps;         // turns of the loop
    _Atomic uint64_t ready;         // tasks in `local` when the last step began; 0: asleep
    _Atomic uint64_t ready_sum;     // over all steps
    _Atomic uint64_t ready_most;    //
    _Atomic uint64_t inbox_nodes;   // tasks and requests that others sent
    _Atomic uint64_t inbox_most;    // at a time
    _Atomic uint64_t placed_seen;   // carrier.placed when the inbox was opened
    _Atomic uint64_t timers;        // timers that fired
    _Atomic uint64_t polls;         // times that the driver was asked for events
    _Atomic uint64_t events;        // what it had
    _Atomic uint64_t sleeps;        // times that the carrier had nothing to do
    _Atomic uint64_t spin_ns;       // time spent in the hope of something to do
    _Atomic uint64_t kicks;         // sleeping carriers that were woken from here
    _Atomic uint64_t kicks_saved;   // times that the other one was awake already

    // Stealing (search.c, steal.c). Starts and stops of searches balance.
    _Atomic uint64_t offered_sum;  // tasks on offer when a step began, over all steps
    _Atomic uint64_t offered_most; // at a time
    _Atomic uint64_t searches_started;
    _Atomic uint64_t searches_stopped;
    _Atomic uint64_t searches_denied; // enough were searching already
    _Atomic uint64_t stolen_sent;     // tasks taken by this carrier from one that it was sent to
    _Atomic uint64_t stolen_idly;     // tasks taken on its own account

    // The work-stealing policy (policy_stealing.c).
    _Atomic uint64_t lifo_hits; // tasks taken from the slot
    _Atomic uint64_t overflows; // times that the ring was full
    _Atomic uint64_t batches;   // taken from the common queue
    _Atomic uint64_t injected;  // tasks in them
};

/// What threads count that are no carriers; they share it.
struct weft__foreign_counts {
    _Atomic uint64_t kicks;
    _Atomic uint64_t kicks_saved;
    _Atomic uint64_t searches_started;
    _Atomic uint64_t searches_stopped;
};

/// Counts by one; only the counter's own thread writes it. What was done before is seen by whoever
/// acquires the new value.
static inline void weft__count(_Atomic uint64_t *counter)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + 1, memory_order_release);
}

// For statistics: nothing follows from these values, so they order nothing, and models leave them
// out, because each atomic operation is one more moment to explore.

static inline void weft__tally_set(_Atomic uint64_t *counter, uint64_t value)
{
#ifdef WEFT_MODEL
    (void)counter;
    (void)value;
#else
    atomic_store_explicit(counter, value, memory_order_relaxed);
#endif
}

static inline uint64_t weft__tally_get(_Atomic uint64_t *counter)
{
#ifdef WEFT_MODEL
    (void)counter;
    return 0;
#else
    return atomic_load_explicit(counter, memory_order_relaxed);
#endif
}

static inline void weft__tally(_Atomic uint64_t *counter, uint64_t more)
{
    weft__tally_set(counter, weft__tally_get(counter) + more);
}

static inline void weft__tally_most(_Atomic uint64_t *counter, uint64_t value)
{
    if (weft__unlikely(value > weft__tally_get(counter))) {
        weft__tally_set(counter, value);
    }
}

/// For a counter that several threads write.
static inline void weft__tally_shared(_Atomic uint64_t *counter)
{
#ifdef WEFT_MODEL
    (void)counter;
#else
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
#endif
}

#endif
