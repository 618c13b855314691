// barrier.c - parties that meet again and again.
//
//   B1  The queue holds those of the current generation that have come, whether or not they have
//       withdrawn meanwhile (queue.h, Q3). The last to come empties it.
//   B2  A party that withdraws and finds that it was taken out of the queue has been counted: the
//       generation is complete, and its wait has succeeded.
//
// Lock: barrier.lock. Checked by: tests/api/barrier_test.c.
#include <weft/barrier.h>

#include <errno.h>

#include "sync/waiter.h"

struct barrier {
    uint32_t parties; // fixed; first: WEFT_BARRIER_INIT
    uint32_t arrived; // under lock: how many stand in the queue
    struct weft__lock lock;
    struct weft__queue queue; // under lock
};
_Static_assert(sizeof(struct barrier) <= sizeof(struct weft_barrier), "public size");

static struct barrier *of(struct weft_barrier *barrier)
{
    return (struct barrier *)(void *)barrier;
}

int weft_barrier_init(struct weft_barrier *barrier, uint32_t parties)
{
    *of(barrier) = (struct barrier){ .parties = parties };
    return parties > 0 ? 0 : -EINVAL;
}

int weft_barrier_fini(struct weft_barrier *barrier)
{
    return weft__sync_deserted(&of(barrier)->lock, &of(barrier)->queue) ? 0 : -EBUSY;
}

static int attempt(struct weft__waiter *waiter)
{
    struct barrier *barrier = waiter->object;
    return barrier->parties == 0 ? -EINVAL : WEFT__SYNC_WAITS;
}

static int enter(struct weft__waiter *waiter)
{
    struct barrier *barrier = waiter->object;
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&barrier->lock);
    bool last = barrier->arrived + 1 == barrier->parties;
    if (last) {
        barrier->arrived = 0;
        weft__queue_choose_all(&barrier->queue, 0, &batch);
    } else {
        barrier->arrived++;
        weft__queue_push(&barrier->queue, waiter);
    }
    weft__lock_release(&barrier->lock);
    weft__batch_finish(&batch);
    return last ? 1 : WEFT__SYNC_WAITS;
}

static int leave(struct weft__waiter *waiter, int why)
{
    struct barrier *barrier = waiter->object;
    weft__lock_acquire(&barrier->lock);
    bool uncounted = weft__queue_remove(&barrier->queue, waiter);
    barrier->arrived -= uncounted;
    weft__lock_release(&barrier->lock);
    return uncounted ? why : 0; // B2
}

static const struct weft__sync_ops wait_ops = {
    .what = "barrier",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = enter,
    .leave = leave,
    .undo = NULL, // the others have met it
};

int weft_barrier_wait(struct weft_barrier *public_barrier, weft_time deadline)
{
    struct barrier *barrier = of(public_barrier);
    struct weft__waiter waiter;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0 || barrier->parties == 0) {
        return rc < 0 ? rc : -EINVAL;
    }
    weft__waiter_init(&waiter, &wait_ops, barrier, &barrier->lock);
    return weft__sync_wait(&waiter, self, deadline);
}

void weft_barrier_wait_future(struct weft_sync_future *future, struct weft_barrier *barrier)
{
    (void)weft__sync_future_init(future, &wait_ops, of(barrier), &of(barrier)->lock);
}
