// wait.h - waiting in a channel whose lock is held and which was looked at under it.
//
// Looking and enlisting under one lock saves the second look that weft__sync_wait() takes.
#ifndef WEFT_CHAN_WAIT_H
#define WEFT_CHAN_WAIT_H

#include "sync/waiter.h"

/// Enlists a waiter of the caller's frame, releases the lock and waits. `self` is the calling virtual
/// thread; a foreign one (NULL) first has to be asked whether it may wait. Not for objects that let
/// waiters enter again.
static inline int weft__chan_wait(struct weft__waiter *waiter, const struct weft__sync_ops *ops,
                                  struct weft__task *self, weft_time deadline)
{
    struct weft__lock *lock = waiter->lock;
    if (weft__unlikely(self == NULL)) {
        weft__lock_release(lock);
        return weft__sync_wait(waiter, NULL, deadline);
    }
    weft__wait_init(&waiter->wait, self, WEFT__WAIT_WITHDRAW, ops->what);
    (void)ops->enlist(waiter);
    weft__lock_release(lock);
    int rc = weft__block(&waiter->wait, deadline);
    return weft__unlikely(rc < 0) ? weft__waiter_leave(waiter, rc) : (int)waiter->wait.result;
}

/// weft__sync_wait() for objects that let nobody enter again, without its calls by pointer where the
/// compiler knows `ops`.
static inline int weft__chan_enter(struct weft__waiter *waiter, const struct weft__sync_ops *ops,
                                   struct weft__task *self, weft_time deadline)
{
    struct weft__batch batch;
    if (weft__unlikely(self == NULL)) {
        return weft__sync_wait(waiter, NULL, deadline);
    }
    weft__batch_init(&batch);
    weft__wait_init(&waiter->wait, self, WEFT__WAIT_WITHDRAW, ops->what);
    weft__lock_acquire(waiter->lock);
    int rc = ops->check != NULL ? ops->check(waiter, &batch) : WEFT__SYNC_WAITS;
    if (rc == WEFT__SYNC_WAITS) {
        rc = ops->enlist(waiter);
    }
    weft__lock_release(waiter->lock);
    if (weft__unlikely(batch.first != NULL)) {
        weft__batch_finish(&batch);
    }
    if (rc != WEFT__SYNC_WAITS) {
        return rc;
    }
    rc = weft__block(&waiter->wait, deadline);
    return weft__unlikely(rc < 0) ? weft__waiter_leave(waiter, rc) : (int)waiter->wait.result;
}

#endif
