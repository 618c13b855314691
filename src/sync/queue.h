// queue.h - who waits in an object of this module, and how he is woken.
//
// Every object has a word that fast paths change with one compare-and-swap, a lock (base/lock.h) and
// a queue of waiters. A waiter lies on the stack of whoever waits, or in his future:
//
//     waiter                                  completer
//     lock, look again, enqueue, unlock       lock
//     block                                   for each that gets something:
//       late, cancelled? OPEN -> DONE,          OPEN -> CLAIMED, or he has withdrawn
//       lock, unlink if still linked            unlink, write the result, add to a batch
//                                             unlock
//                                             for each of the batch: DONE (last touch), wake
//
//   Q1  The queue and the links belong to the lock. A waiter is enqueued OPEN, and only under the
//       lock does it become CLAIMED.
//   Q2  A claimed waiter cannot withdraw. So it stays where it is until it is DONE, and batches are
//       as long as they have to be, without memory of their own and without the lock.
//   Q3  A waiter that withdraws stands in the queue until it has the lock. A completer that meets it
//       unlinks it and gives it nothing.
//   Q4  Nothing is woken and no foreign code called under the lock.
//   Q5  The word's QUEUED bit is changed only under the lock and set while the queue is not empty.
//       Objects say which of their bits change outside of it.
//   Q6  Completing a future's waiter is ringing its bell (task/bell.h). That has a lock of its own,
//       because a waiter that is claimed may be polled with another waker, too. Its state stays CLAIMED.
//   Q7  A case of a select is a waiter whose `main` is the select's: all its cases agree on the state
//       of that one (src/select). Everybody else is his own.
//
// Rejected: committing OPEN to DONE under the lock and collecting whom to wake (an array would bound
// the batch, and the lock would be taken again for each further one).
#ifndef WEFT_SYNC_QUEUE_H
#define WEFT_SYNC_QUEUE_H

#include <weft/future.h>

#include "base/assert.h"
#include "base/lock.h"
#include "task/bell.h"
#include "task/wait.h"

struct weft__sync_ops;

struct weft__waiter {
    struct weft__wait wait; // `next` chains a batch

    // Fixed while it waits.
    struct weft__waiter *main; // whose state is claimed: itself, or that of its select
    const struct weft__sync_ops *ops;
    void *object;
    struct weft__lock *lock; // the object's

    // Under lock.
    struct weft__waiter *next;
    struct weft__waiter *prev;
    bool linked;
    uint8_t kind; // the object's own: reader or writer, notified how

    // The waiter's.
    bool again;             // it was woken once and enters anew
    bool is_future;         // else a virtual or a foreign thread
    uint8_t phase;          // a future's own (waiter.c)
    bool cancelled;         // likewise
    struct weft__bell bell; // a future's (Q6)
    uint64_t want;          // the object's own: how much, since which generation
    union {
        weft_time since; // when it began to wait; the mutex's
        void *chosen;    // of a select's main: which case; whoever has claimed it writes that
    };
};

/// Zeroed means empty.
struct weft__queue {
    struct weft__waiter *first;
    struct weft__waiter *last;
};

static inline void weft__queue_push(struct weft__queue *queue, struct weft__waiter *waiter)
{
    waiter->next = NULL;
    waiter->prev = queue->last;
    *(queue->last != NULL ? &queue->last->next : &queue->first) = waiter;
    queue->last = waiter;
    waiter->linked = true;
}

static inline void weft__queue_push_front(struct weft__queue *queue, struct weft__waiter *waiter)
{
    waiter->prev = NULL;
    waiter->next = queue->first;
    *(queue->first != NULL ? &queue->first->prev : &queue->last) = waiter;
    queue->first = waiter;
    waiter->linked = true;
}

/// Unlinks the waiter; false if somebody has done so already.
static inline bool weft__queue_remove(struct weft__queue *queue, struct weft__waiter *waiter)
{
    if (!waiter->linked) {
        return false;
    }
    *(waiter->prev != NULL ? &waiter->prev->next : &queue->first) = waiter->next;
    *(waiter->next != NULL ? &waiter->next->prev : &queue->last) = waiter->prev;
    waiter->linked = false;
    return true;
}

/// Waiters that were claimed, in the order in which they are to be woken.
struct weft__batch {
    struct weft__wait *first;
    struct weft__wait **end;
};

static inline void weft__batch_init(struct weft__batch *batch)
{
    batch->first = NULL;
    batch->end = &batch->first;
}

/// Claims a waiter for the batch with `result`, as what `chosen` waits for; false if it has withdrawn,
/// or if another case of the select was chosen. The caller knows that the waiter still exists.
static inline bool weft__main_claim(struct weft__waiter *main, void *chosen, int64_t result,
                                    struct weft__batch *batch)
{
    uint32_t open = WEFT__WAIT_OPEN;
    if (!atomic_compare_exchange_strong_explicit(&main->wait.state, &open, WEFT__WAIT_CLAIMED,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return false;
    }
    if (weft__unlikely(main != chosen)) {
        main->chosen = chosen;
    }
    main->wait.result = result;
    main->wait.next = NULL;
    *batch->end = &main->wait;
    batch->end = &main->wait.next;
    return true;
}

/// Takes the waiter out of the queue, and claims it for the batch with `result`; false if it has
/// withdrawn. Under the lock.
static inline bool weft__queue_choose(struct weft__queue *queue, struct weft__waiter *waiter,
                                      int64_t result, struct weft__batch *batch)
{
    weft__queue_remove(queue, waiter);
    return weft__main_claim(waiter->main, waiter, result, batch);
}

/// Chooses all of them.
static inline void weft__queue_choose_all(struct weft__queue *queue, int64_t result,
                                          struct weft__batch *batch)
{
    while (queue->first != NULL) {
        (void)weft__queue_choose(queue, queue->first, result, batch);
    }
}

/// Completes and wakes everybody in the batch. After the lock was released.
void weft__batch_finish(const struct weft__batch *batch);

#endif
