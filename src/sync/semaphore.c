// semaphore.c - permits in one word; those that come back go straight to who waits.
//
//     word:  permits << 1 | QUEUED
//
//   S1  While QUEUED is set the word changes only under the lock. So nobody overtakes the queue, and
//       settle() may compute the new word at leisure and store it.
//   S2  After settle() the first in the queue wants more than there is. Whatever may change that
//       calls settle(): permits that come, and a first waiter that goes.
//
// Lock: semaphore.lock. Checked by: tests/model/semaphore_model.c, tests/api/semaphore_test.c.
#include <weft/semaphore.h>

#include <errno.h>

#include "sync/case.h"
#include "sync/waiter.h"

#define QUEUED UINT64_C(1)
#define PERMIT UINT64_C(2)

struct semaphore {
    _Atomic uint64_t word; // first: WEFT_SEMAPHORE_INIT
    struct weft__lock lock;
    struct weft__queue queue; // under lock
};
_Static_assert(sizeof(struct semaphore) <= sizeof(struct weft_semaphore), "public size");

static struct semaphore *of(struct weft_semaphore *semaphore)
{
    return (struct semaphore *)(void *)semaphore;
}

int weft_semaphore_init(struct weft_semaphore *semaphore, uint64_t permits)
{
    if (permits > WEFT_SEMAPHORE_MAX) {
        return -EINVAL;
    }
    *of(semaphore) = (struct semaphore){ .word = permits * PERMIT };
    return 0;
}

int weft_semaphore_fini(struct weft_semaphore *semaphore)
{
    return weft__sync_deserted(&of(semaphore)->lock, &of(semaphore)->queue) ? 0 : -EBUSY;
}

static int try_acquire(struct semaphore *semaphore, uint64_t count)
{
    uint64_t word = atomic_load_explicit(&semaphore->word, memory_order_relaxed);
    if (weft__unlikely(count - 1 >= WEFT_SEMAPHORE_MAX)) {
        return -EINVAL;
    }
    while ((word & QUEUED) == 0 && word / PERMIT >= count) {
        if (atomic_compare_exchange_weak_explicit(&semaphore->word, &word, word - count * PERMIT,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return 0;
        }
    }
    return WEFT__SYNC_WAITS;
}

static int attempt(struct weft__waiter *waiter)
{
    return try_acquire(waiter->object, waiter->want);
}

/// Under lock, with QUEUED set: serves the queue from `permits` and stores the word (S2).
static void settle(struct semaphore *semaphore, uint64_t permits, struct weft__batch *batch)
{
    struct weft__queue *queue = &semaphore->queue;
    while (queue->first != NULL && queue->first->want <= permits) {
        uint64_t want = queue->first->want;
        if (weft__queue_choose(queue, queue->first, 0, batch)) {
            permits -= want;
        }
    }
    uint64_t word = permits * PERMIT | (queue->first != NULL ? QUEUED : 0);
    atomic_store_explicit(&semaphore->word, word, memory_order_release);
}

/// What the word says while QUEUED is set and the lock held.
static uint64_t permits_of(struct semaphore *semaphore)
{
    return atomic_load_explicit(&semaphore->word, memory_order_relaxed) / PERMIT;
}

static int enlist(struct weft__waiter *waiter)
{
    struct semaphore *semaphore = waiter->object;
    uint64_t word = atomic_load_explicit(&semaphore->word, memory_order_relaxed);
    bool enough;
    uint64_t next;
    do {
        enough = (word & QUEUED) == 0 && word / PERMIT >= waiter->want;
        next = enough ? word - waiter->want * PERMIT : word | QUEUED;
    } while (!atomic_compare_exchange_weak_explicit(&semaphore->word, &word, next,
                                                    memory_order_acquire, memory_order_relaxed));
    if (!enough) {
        weft__queue_push(&semaphore->queue, waiter);
    }
    return enough ? 0 : WEFT__SYNC_WAITS;
}

static void unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct semaphore *semaphore = waiter->object;
    if (weft__queue_remove(&semaphore->queue, waiter)) {
        settle(semaphore, permits_of(semaphore), batch);
    }
}

static int release_queued(struct semaphore *semaphore, uint64_t count)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&semaphore->lock);
    uint64_t word = atomic_load_explicit(&semaphore->word, memory_order_relaxed);
    int rc = (word & QUEUED) == 0                         ? WEFT__SYNC_AGAIN
             : count > WEFT_SEMAPHORE_MAX - word / PERMIT ? -EOVERFLOW
                                                          : 0;
    if (rc == 0) {
        settle(semaphore, word / PERMIT + count, &batch);
    }
    weft__lock_release(&semaphore->lock);
    weft__batch_finish(&batch);
    return rc;
}

static int release(struct semaphore *semaphore, uint64_t count)
{
    uint64_t word = atomic_load_explicit(&semaphore->word, memory_order_relaxed);
    for (;;) {
        if ((word & QUEUED) != 0) {
            int rc = release_queued(semaphore, count);
            if (rc != WEFT__SYNC_AGAIN) {
                return rc;
            }
            word = atomic_load_explicit(&semaphore->word, memory_order_relaxed);
        } else if (count > WEFT_SEMAPHORE_MAX - word / PERMIT) {
            return -EOVERFLOW;
        } else if (atomic_compare_exchange_weak_explicit(
                       &semaphore->word, &word, word + count * PERMIT, memory_order_release,
                       memory_order_relaxed)) {
            return 0;
        }
    }
}

static void undo(struct weft__waiter *waiter)
{
    int rc = release(waiter->object, waiter->want);
    weft_assert(rc == 0);
}

static const struct weft__sync_ops acquire_ops = {
    .what = "semaphore",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = undo,
    .enlist = enlist,
    .unlist = unlist,
};

WEFT__NOINLINE WEFT__FLATTEN static int acquire_slow(struct semaphore *semaphore, uint64_t count,
                                                     struct weft__task *self, weft_time deadline)
{
    struct weft__waiter waiter;
    weft__waiter_init(&waiter, &acquire_ops, semaphore, &semaphore->lock);
    waiter.want = count;
    return weft__sync_wait(&waiter, self, deadline);
}

int weft_semaphore_acquire(struct weft_semaphore *semaphore, uint64_t count, weft_time deadline)
{
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc == 0) {
        rc = try_acquire(of(semaphore), count);
    }
    return rc != WEFT__SYNC_WAITS ? rc : acquire_slow(of(semaphore), count, self, deadline);
}

int weft_semaphore_try_acquire(struct weft_semaphore *semaphore, uint64_t count)
{
    int rc = try_acquire(of(semaphore), count);
    return rc != WEFT__SYNC_WAITS ? rc : -EAGAIN;
}

int weft_semaphore_release(struct weft_semaphore *semaphore, uint64_t count)
{
    return release(of(semaphore), count);
}

uint64_t weft_semaphore_available(const struct weft_semaphore *semaphore)
{
    const struct semaphore *ours = (const struct semaphore *)(const void *)semaphore;
    return atomic_load_explicit(&ours->word, memory_order_relaxed) / PERMIT;
}

void weft_semaphore_acquire_future(struct weft_sync_future *future,
                                   struct weft_semaphore *semaphore, uint64_t count)
{
    struct weft__waiter *waiter = weft__sync_future_init(future, &acquire_ops, of(semaphore),
                                                         &of(semaphore)->lock);
    waiter->want = count;
}

void weft__semaphore_case(struct weft__waiter *waiter, struct weft_semaphore *semaphore,
                          uint64_t count)
{
    weft__waiter_init(waiter, &acquire_ops, of(semaphore), &of(semaphore)->lock);
    waiter->want = count;
}
