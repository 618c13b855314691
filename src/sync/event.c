// event.c - a switch that stays on until it is switched off.
//
//     word:  QUEUED | SET
//
//   E1  SET and QUEUED are never set together. SET changes outside of the lock, but is set only by
//       who has seen that QUEUED is not, or under it.
//
// Lock: event.lock. Checked by: tests/model/event_model.c, tests/api/notify_test.c.
#include <weft/notify.h>

#include <errno.h>

#include "sync/case.h"
#include "sync/waiter.h"

#define SET 1u
#define QUEUED 2u

struct event {
    _Atomic uint32_t word;
    struct weft__lock lock;
    struct weft__queue queue; // under lock
};
_Static_assert(sizeof(struct event) <= sizeof(struct weft_event), "public size");

static struct event *of(struct weft_event *event)
{
    return (struct event *)(void *)event;
}

void weft_event_init(struct weft_event *event)
{
    *of(event) = (struct event){ 0 };
}

int weft_event_fini(struct weft_event *event)
{
    return weft__sync_deserted(&of(event)->lock, &of(event)->queue) ? 0 : -EBUSY;
}

bool weft_event_is_set(const struct weft_event *event)
{
    const struct event *ours = (const struct event *)(const void *)event;
    return (atomic_load_explicit(&ours->word, memory_order_acquire) & SET) != 0;
}

static int attempt(struct weft__waiter *waiter)
{
    return weft_event_is_set(waiter->object) ? 0 : WEFT__SYNC_WAITS;
}

static int enlist(struct weft__waiter *waiter)
{
    struct event *event = waiter->object;
    uint32_t word = atomic_load_explicit(&event->word, memory_order_acquire);
    while ((word & SET) == 0) {
        if (atomic_compare_exchange_weak_explicit(&event->word, &word, word | QUEUED,
                                                  memory_order_acquire, memory_order_acquire)) {
            weft__queue_push(&event->queue, waiter);
            break;
        }
    }
    return (word & SET) != 0 ? 0 : WEFT__SYNC_WAITS;
}

static void unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct event *event = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&event->queue, waiter);
    if (event->queue.first == NULL) {
        atomic_fetch_and_explicit(&event->word, ~QUEUED, memory_order_relaxed);
    }
}

static const struct weft__sync_ops wait_ops = {
    .what = "event",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // an event that has happened has happened
    .enlist = enlist,
    .unlist = unlist,
};

void weft_event_set(struct weft_event *public_event)
{
    struct event *event = of(public_event);
    struct weft__batch batch;
    uint32_t word = atomic_load_explicit(&event->word, memory_order_relaxed);
    while ((word & QUEUED) == 0) {
        if (atomic_compare_exchange_weak_explicit(&event->word, &word, SET, memory_order_release,
                                                  memory_order_relaxed)) {
            return;
        }
    }
    weft__batch_init(&batch);
    weft__lock_acquire(&event->lock);
    weft__queue_choose_all(&event->queue, 0, &batch);
    atomic_store_explicit(&event->word, SET, memory_order_release);
    weft__lock_release(&event->lock);
    weft__batch_finish(&batch);
}

void weft_event_clear(struct weft_event *event)
{
    atomic_fetch_and_explicit(&of(event)->word, ~SET, memory_order_relaxed);
}

int weft_event_wait(struct weft_event *public_event, weft_time deadline)
{
    struct event *event = of(public_event);
    struct weft__waiter waiter;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0 || weft_event_is_set(public_event)) {
        return rc;
    }
    weft__waiter_init(&waiter, &wait_ops, event, &event->lock);
    return weft__sync_wait(&waiter, self, deadline);
}

void weft_event_wait_future(struct weft_sync_future *future, struct weft_event *event)
{
    (void)weft__sync_future_init(future, &wait_ops, of(event), &of(event)->lock);
}

void weft__event_case(struct weft__waiter *waiter, struct weft_event *event)
{
    weft__waiter_init(waiter, &wait_ops, of(event), &of(event)->lock);
}
