// waiter.h - waiting in an object of this module, as a thread or as a future.
#ifndef WEFT_SYNC_WAITER_H
#define WEFT_SYNC_WAITER_H

#include <errno.h>

#include <weft/sync.h>

#include "sched/carrier.h"
#include "sync/queue.h"
#include "task/host.h"
#include "task/scope.h"

/// What `attempt` and `enter` say instead of a result.
#define WEFT__SYNC_WAITS INT32_MAX
/// The result of a waiter that was woken to enter once more.
#define WEFT__SYNC_AGAIN INT32_MAX

/// How one kind of object is waited for. All but `attempt` and the last three take the object's lock.
struct weft__sync_ops {
    const char *what;
    enum weft__wait_mode mode;
    /// Gets it without waiting: its result, or WAITS.
    int (*attempt)(struct weft__waiter *waiter);
    /// The same, but enqueues the waiter, which is OPEN, where it says WAITS.
    int (*enter)(struct weft__waiter *waiter);
    /// The waiter has withdrawn because of `why`: unlinks it. Returns what the call returns.
    int (*leave)(struct weft__waiter *waiter, int why);
    /// Passes on what a future was given that is cancelled now. NULL: then the result stands.
    void (*undo)(struct weft__waiter *waiter);

    // Under the object's lock, which the caller holds, perhaps with others (src/select). Objects
    // that have these may be cases of a select, and their `enter` and `leave` are those below. Whom
    // they let go they add to the batch.

    /// Gets it at once: its result, or WAITS. NULL: the object's word changes outside of the lock, so
    /// `attempt`, which does not take it, will do, and `enlist` looks again.
    int (*check)(struct weft__waiter *waiter, struct weft__batch *batch);
    /// Enqueues the waiter: WAITS; or its result, if it has no `check`.
    int (*enlist)(struct weft__waiter *waiter);
    /// Takes the waiter out again, if it is still in.
    void (*unlist)(struct weft__waiter *waiter, struct weft__batch *batch);
};

/// Somebody who is not a virtual thread wants to wait: 0 if he may.
int weft__sync_refuses(void);

/// `enter` and `leave`, made of these.
int weft__waiter_enter(struct weft__waiter *waiter);
int weft__waiter_leave(struct weft__waiter *waiter, int why);

static inline void weft__waiter_init(struct weft__waiter *waiter, const struct weft__sync_ops *ops,
                                     void *object, struct weft__lock *lock)
{
    waiter->main = waiter;
    waiter->ops = ops;
    waiter->object = object;
    waiter->lock = lock;
    waiter->linked = false;
    waiter->kind = 0;
    waiter->again = false;
    waiter->is_future = false;
    waiter->phase = 0;
    waiter->cancelled = false;
}

/// On entry to a call that may wait and obeys cancellation: charges the budget. `*self` is the
/// calling virtual thread, or NULL. Returns 0 or -ECANCELED.
static inline int weft__sync_begin(struct weft__task **self)
{
    struct weft__task *task = weft__thread_self();
    *self = task;
    if (task == NULL) {
        return 0;
    }
    weft__charge(task);
    return weft__scope_cancelled(task) ? -ECANCELED : 0;
}

/// Enters and waits until there is a result, with a waiter of the caller's frame.
int weft__sync_wait(struct weft__waiter *waiter, struct weft__task *self, weft_time deadline);

/// Ends the wait of a virtual thread or a future that is the caller's alone, and wakes it.
void weft__waiter_complete(struct weft__waiter *waiter, int64_t result);

/// Prepares a future that does the same. Returns its waiter, so that `want` and `kind` can be set.
struct weft__waiter *weft__sync_future_init(struct weft_sync_future *future,
                                            const struct weft__sync_ops *ops, void *object,
                                            struct weft__lock *lock);

/// For `fini`: takes the lock and gives it back, so that whoever had it before is out, and tells
/// whether the queue is empty.
static inline bool weft__sync_deserted(struct weft__lock *lock, const struct weft__queue *queue)
{
    weft__lock_acquire(lock);
    bool empty = queue->first == NULL;
    weft__lock_release(lock);
    return empty;
}

#endif
