// lock.h - a small lock for short critical sections shared by carriers and foreign threads.
//
// Never held across a park, a wake or a callback. The holder may be preempted, so waiters spin only
// briefly and then sleep in the kernel.
//
//   L1  Releasing touches the lock's memory once; the futex call after it passes only the address.
//       So memory that holds a lock may go away as soon as the lock can be taken.
#ifndef WEFT_BASE_LOCK_H
#define WEFT_BASE_LOCK_H

#include <stdatomic.h>

#include "base/base.h"

/// Zeroed means free.
struct weft__lock {
    _Atomic uint32_t state; // FREE, HELD, or HELD with SLEEPERS
};

void weft__lock_acquire_slow(struct weft__lock *lock);
void weft__lock_wake(struct weft__lock *lock);

static inline void weft__lock_acquire(struct weft__lock *lock)
{
    uint32_t free = 0;
    if (weft__unlikely(!atomic_compare_exchange_strong_explicit(
            &lock->state, &free, 1, memory_order_acquire, memory_order_relaxed))) {
        weft__lock_acquire_slow(lock);
    }
}

/// False: somebody holds it.
static inline bool weft__lock_try(struct weft__lock *lock)
{
    uint32_t free = 0;
    return atomic_compare_exchange_strong_explicit(&lock->state, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void weft__lock_release(struct weft__lock *lock)
{
    if (weft__unlikely(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)) {
        weft__lock_wake(lock);
    }
}

#endif
