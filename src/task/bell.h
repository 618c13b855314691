// bell.h - a waker between who polls a future and who ends what it waits for.
//
// The danger: a future may be polled with another waker than the time before, on one thread, while its
// wait ends on another. The wrong one would be woken, or the right one too early, and would poll for
// nothing until it is over; and the storage goes as soon as the poller knows that it is.
//
//   H1  Ringing takes the waker out under the lock and wakes it afterwards. Releasing that lock is the
//       last touch of whoever rings.
//   H2  A bell without a waker was rung, which is seen under the lock: so he who rang it is out.
//   H3  A poll that comes first leaves its own waker there. So exactly the waker of the last poll is
//       woken, once, and finds the bell rung.
//   H4  No foreign code is called under the lock.
//   H5  `rung` is set under the lock. Who sees it, and then that the lock is free, need not take it: nobody
//       else will, so what he saw was its last release.
//
// Rejected: asking to be polled again while somebody is about to ring (he may have lost his CPU just
// now, and the poller spins until he has it back).
// Lock: bell.lock, alone. Checked by: tests/model/notify_model.c (notify_moved), select_model.c.
#ifndef WEFT_TASK_BELL_H
#define WEFT_TASK_BELL_H

#include <weft/future.h>

#include "base/lock.h"

struct weft__bell {
    struct weft__lock lock;
    _Atomic uint32_t rung; // H5; 0 does not say that it was not
    weft_waker waker;      // under lock; owned until the bell is rung
};

/// Prepares a bell that nobody else knows yet, with a clone of `waker`.
static inline void weft__bell_set(struct weft__bell *bell, const weft_waker *waker)
{
    atomic_store_explicit(&bell->lock.state, 0, memory_order_relaxed);
    atomic_store_explicit(&bell->rung, 0, memory_order_relaxed);
    weft_waker_clone(&bell->waker, waker);
}

/// Takes the waker out; it is to be woken once the lock was released. Under lock.
static inline weft_waker weft__bell_take(struct weft__bell *bell)
{
    weft_waker waker = bell->waker;
    bell->waker = (weft_waker){ NULL, NULL };
    return waker;
}

static inline void weft__bell_ring(struct weft__bell *bell)
{
    weft__lock_acquire(&bell->lock);
    weft_waker waker = weft__bell_take(bell);
    atomic_store_explicit(&bell->rung, 1, memory_order_release); // after the lock was taken
    weft__lock_release(&bell->lock);
    weft_waker_wake(&waker);
}

/// Nobody will ring it: gives the waker back.
static inline void weft__bell_drop(struct weft__bell *bell)
{
    weft_waker waker = weft__bell_take(bell);
    weft_waker_drop(&waker);
}

static inline bool weft__bell_is(const struct weft__bell *bell, const weft_waker *waker)
{
    return bell->waker.vtable == waker->vtable && bell->waker.data == waker->data;
}

/// For a poll: whether it was rung. If not, `waker` is the one that will be woken (H3).
static inline bool weft__bell_rung(struct weft__bell *bell, const weft_waker *waker)
{
    weft_waker spare;
    if (atomic_load_explicit(&bell->rung, memory_order_acquire) != 0 &&
        atomic_load_explicit(&bell->lock.state, memory_order_acquire) == 0) { // H5
        return true;
    }
    weft__lock_acquire(&bell->lock);
    bool rung = bell->waker.vtable == NULL;
    bool same = weft__bell_is(bell, waker);
    weft__lock_release(&bell->lock);
    if (rung || same) {
        return rung;
    }
    weft_waker_clone(&spare, waker);
    weft__lock_acquire(&bell->lock);
    rung = bell->waker.vtable == NULL;
    if (!rung) {
        weft_waker old = bell->waker;
        bell->waker = spare;
        spare = old;
    }
    weft__lock_release(&bell->lock);
    weft_waker_drop(&spare);
    return rung;
}

#endif
