// lookout.c - a watcher of carriers that sleeps while all of them do.
//
// The danger: the watcher sees all carriers parked and goes to sleep, while one of them wakes up, sees
// that the watcher is awake and says nothing. If that carrier gets stuck, nobody notices. So each
// side announces first and looks second:
//
//     watcher                             carrier that wakes up
//     asleep = 1                          state = RUNNING (sched/park.c)
//     fence (seq_cst)                     fence (seq_cst)
//     all PARKED? then sleep              asleep? then clear it and wake the watcher
//
//   W1  Whoever clears `asleep` wakes: one system call for each sleep of the watcher, not of carriers.
//   W2  The end is announced in the same way, as if it were a carrier.
//   W3  The words carry no data: what the watcher reads of carriers it reads at its own risk.
//
// Rejected: a watcher that looks every so often (an idle program would never let its CPU sleep);
// carriers that count who is awake (a shared counter, written at each sleep).
// Locks: none. Checked by: tests/model/lookout_model.c.
#include "sched/lookout.h"

#include "base/sys.h"
#include "sched/carrier.h"

static bool all_parked(struct weft__carrier *carriers, const _Atomic int *started)
{
    int count = atomic_load_explicit(started, memory_order_relaxed);
    for (int i = 0; i < count; i++) {
        if (atomic_load_explicit(&carriers[i].state, memory_order_relaxed) !=
            WEFT__CARRIER_PARKED) {
            return false;
        }
    }
    return true;
}

void weft__lookout_wake(struct weft__lookout *lookout)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&lookout->asleep, memory_order_relaxed) != 0 &&
        atomic_exchange_explicit(&lookout->asleep, 0, memory_order_relaxed) != 0) {
        weft__futex_wake(&lookout->asleep, 1);
    }
}

void weft__lookout_end(struct weft__lookout *lookout)
{
    atomic_store_explicit(&lookout->over, 1, memory_order_relaxed);
    weft__futex_wake(&lookout->over, 1);
    weft__lookout_wake(lookout);
}

bool weft__lookout_sleep(struct weft__lookout *lookout, struct weft__carrier *carriers,
                         const _Atomic int *started)
{
    atomic_store_explicit(&lookout->asleep, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    bool over = atomic_load_explicit(&lookout->over, memory_order_relaxed) != 0;
    if (!over && all_parked(carriers, started)) {
        while (atomic_load_explicit(&lookout->asleep, memory_order_relaxed) != 0) {
            (void)weft__futex_wait(&lookout->asleep, 1, WEFT_FOREVER);
        }
        over = atomic_load_explicit(&lookout->over, memory_order_relaxed) != 0;
    }
    atomic_store_explicit(&lookout->asleep, 0, memory_order_relaxed);
    return !over;
}
