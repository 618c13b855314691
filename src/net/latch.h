// latch.h - one virtual thread waits until several others have come to a point.
//
// The danger: the last to come wakes a wait that lies on the waiter's stack, and the waiter may be the
// last itself. So the waiter is counted, too, and who brings the count to 0 knows that all are there:
//
//     the one who waits                        the others
//     make the wait, write its address
//     left - 1                                 left - 1
//     0: nobody is missing, go on              0: complete the wait (its last touch)
//     else block
//
//   G1  Each decrements once, by an RMW that releases what it did before and acquires what the others
//       did. So the last one sees the wait's address, and the waiter what all did before they came.
//   G2  Whoever joins later is counted only while somebody is missing. At 0 the waiter may have gone on.
//
// Locks: none. Checked by: tests/model/latch_model.c.
#ifndef WEFT_NET_LATCH_H
#define WEFT_NET_LATCH_H

#include <stdatomic.h>

#include "task/wait.h"

struct weft__latch {
    _Atomic int left;          // who has not come, the waiter included
    struct weft__wait *waiter; // NULL: there is none yet, and if the count is 0 there will be none
};

/// There is one more to wait for. False: nobody was missing any more, and nobody waits for him.
static inline bool weft__latch_join(struct weft__latch *latch)
{
    int left = atomic_load_explicit(&latch->left, memory_order_relaxed);
    while (left != 0) {
        if (atomic_compare_exchange_weak_explicit(&latch->left, &left, left + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/// One of the others has come.
static inline void weft__latch_arrive(struct weft__latch *latch)
{
    if (atomic_fetch_sub_explicit(&latch->left, 1, memory_order_acq_rel) == 1 &&
        latch->waiter != NULL) {
        weft__complete(latch->waiter, 0);
    }
}

/// Waits for all others. Not a cancellation point.
static inline void weft__latch_wait(struct weft__latch *latch, struct weft__task *task)
{
    struct weft__wait wait;
    weft__wait_init(&wait, task, WEFT__WAIT_ASK_LATE, "others to stop"); // and never late
    latch->waiter = &wait;
    if (atomic_fetch_sub_explicit(&latch->left, 1, memory_order_acq_rel) != 1) {
        weft__block(&wait, WEFT_FOREVER);
    }
}

#endif
