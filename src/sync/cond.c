// cond.c - condition variables.
//
// A waiter enqueues itself before it unlocks the mutex. So who changes the condition under the mutex
// and signals afterwards finds it in the queue, and QUEUED set, which is all that a signal without
// waiters looks at.
//
// Lock: cond.lock. Checked by: tests/api/mutex_test.c.
#include <weft/mutex.h>

#include <errno.h>

#include "sync/waiter.h"

/// The result of those who were woken together: if one of them is cancelled now, nobody else needs to
/// be told. The caller sees 0.
#define BROADCAST 1

struct cond {
    _Atomic uint32_t queued; // the queue is not empty; written under lock
    struct weft__lock lock;
    struct weft__queue queue; // under lock
};
_Static_assert(sizeof(struct cond) <= sizeof(struct weft_cond), "public size");

static struct cond *of(struct weft_cond *cond)
{
    return (struct cond *)(void *)cond;
}

void weft_cond_init(struct weft_cond *cond)
{
    *of(cond) = (struct cond){ 0 };
}

int weft_cond_fini(struct weft_cond *cond)
{
    return weft__sync_deserted(&of(cond)->lock, &of(cond)->queue) ? 0 : -EBUSY;
}

/// Under lock.
static void note_queued(struct cond *cond)
{
    uint32_t queued = cond->queue.first != NULL;
    atomic_store_explicit(&cond->queued, queued, memory_order_relaxed);
}

static int attempt(struct weft__waiter *waiter)
{
    (void)waiter;
    return WEFT__SYNC_WAITS;
}

/// `want` is the mutex, until it is unlocked.
static int enter(struct weft__waiter *waiter)
{
    struct cond *cond = waiter->object;
    struct weft_mutex *mutex = (struct weft_mutex *)(uintptr_t)waiter->want;
    waiter->want = 0;
    weft__lock_acquire(&cond->lock);
    weft__queue_push(&cond->queue, waiter);
    note_queued(cond);
    weft__lock_release(&cond->lock);
    weft_mutex_unlock(mutex);
    return WEFT__SYNC_WAITS;
}

static int leave(struct weft__waiter *waiter, int why)
{
    struct cond *cond = waiter->object;
    weft__lock_acquire(&cond->lock);
    (void)weft__queue_remove(&cond->queue, waiter);
    note_queued(cond);
    weft__lock_release(&cond->lock);
    return why;
}

static void signal_one(struct cond *cond)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&cond->lock);
    while (cond->queue.first != NULL && batch.first == NULL) {
        (void)weft__queue_choose(&cond->queue, cond->queue.first, 0, &batch);
    }
    note_queued(cond);
    weft__lock_release(&cond->lock);
    weft__batch_finish(&batch);
}

static void undo(struct weft__waiter *waiter)
{
    if (waiter->wait.result != BROADCAST) {
        signal_one(waiter->object);
    }
}

static const struct weft__sync_ops wait_ops = {
    .what = "condition",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = enter,
    .leave = leave,
    .undo = undo,
};

int weft_cond_wait(struct weft_cond *cond, struct weft_mutex *mutex, weft_time deadline)
{
    struct weft__waiter waiter;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0) {
        return rc;
    }
    weft__waiter_init(&waiter, &wait_ops, of(cond), &of(cond)->lock);
    waiter.want = (uintptr_t)mutex;
    rc = weft__sync_wait(&waiter, self, deadline);
    if (waiter.want == 0) {
        int locked = weft_mutex_lock(mutex, WEFT_FOREVER);
        weft_assert(locked == 0);
    }
    return rc > 0 ? 0 : rc;
}

void weft_cond_signal(struct weft_cond *cond)
{
    if (atomic_load_explicit(&of(cond)->queued, memory_order_relaxed) != 0) {
        signal_one(of(cond));
    }
}

void weft_cond_broadcast(struct weft_cond *public_cond)
{
    struct cond *cond = of(public_cond);
    struct weft__batch batch;
    if (atomic_load_explicit(&cond->queued, memory_order_relaxed) == 0) {
        return;
    }
    weft__batch_init(&batch);
    weft__lock_acquire(&cond->lock);
    weft__queue_choose_all(&cond->queue, BROADCAST, &batch);
    note_queued(cond);
    weft__lock_release(&cond->lock);
    weft__batch_finish(&batch);
}

// The future: first one that waits for the signal, then one that locks the mutex.

struct cond_future {
    struct weft_future future;
    struct weft_sync_future inner;
    struct weft_mutex *mutex;
    int result; // of the wait
    bool woken; // it locks the mutex now, and cannot be cancelled any more
};
_Static_assert(sizeof(struct cond_future) <= sizeof(struct weft_cond_future), "public size");

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct cond_future *wait = weft__container_of(future, struct cond_future, future);
    struct weft_future *inner = &wait->inner.future;
    if (!wait->woken) {
        if (inner->poll(inner, waker) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
        wait->result = (int)(inner->result > 0 ? 0 : inner->result);
        wait->woken = true;
        weft_mutex_lock_future(&wait->inner, wait->mutex);
    }
    if (inner->poll(inner, waker) == WEFT_PENDING) {
        return WEFT_PENDING;
    }
    future->result = wait->result;
    return WEFT_READY;
}

static void cancel(struct weft_future *future)
{
    struct cond_future *wait = weft__container_of(future, struct cond_future, future);
    if (!wait->woken) {
        wait->inner.future.cancel(&wait->inner.future);
    }
}

void weft_cond_wait_future(struct weft_cond_future *public_future, struct weft_cond *cond,
                           struct weft_mutex *mutex)
{
    struct cond_future *wait = (struct cond_future *)(void *)public_future;
    struct weft__waiter *waiter = weft__sync_future_init(&wait->inner, &wait_ops, of(cond),
                                                         &of(cond)->lock);
    waiter->want = (uintptr_t)mutex;
    wait->mutex = mutex;
    wait->woken = false;
    weft_future_init(&wait->future, poll, cancel);
}
