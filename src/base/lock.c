// lock.c - the contended half of lock.h: spin a little, then sleep on the futex.
//
//     FREE(0) --acquire--> HELD(1) --somebody waits--> SLEEPERS(2) --release--> FREE, wake one
//
// A sleeper that wakes takes the lock as SLEEPERS, because others may still sleep.
#include "base/lock.h"

#include <weft/time.h>

#include "base/relax.h"
#include "base/sys.h"

#define SPINS WEFT__SIZED(100, 2)

void weft__lock_acquire_slow(struct weft__lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        uint32_t state = atomic_load_explicit(&lock->state, memory_order_relaxed);
        if (state == 0 &&
            atomic_compare_exchange_strong_explicit(&lock->state, &state, 1, memory_order_acquire,
                                                    memory_order_relaxed)) {
            return;
        }
        if (state == 2) {
            break;
        }
        weft__cpu_relax();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0) {
        weft__futex_wait(&lock->state, 2, WEFT_FOREVER);
    }
}

void weft__lock_wake(struct weft__lock *lock)
{
    weft__futex_wake(&lock->state, 1);
}
