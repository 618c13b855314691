// stage_lock.c - the contended half of base/lock.c without its spinning. See stage.h.
//
// Spinning looks at the lock a few times before it sleeps. It changes nothing for those who use
// the lock, but each look may be stale, and that multiplies the states of a model. So models of
// protocols that merely use a lock take this; lock_model.c checks base/lock.c itself. The fast
// paths in base/lock.h are the real ones everywhere.
#include "base/lock.h"
#include "mc.h"

void weft__lock_acquire_slow(struct weft__lock *lock)
{
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0) {
        mc_futex_wait(&lock->state, 2);
    }
}

void weft__lock_wake(struct weft__lock *lock)
{
    mc_futex_wake(&lock->state, 1);
}
