// notify.c - a permit for one, or a wake-up for all.
//
//     word:  generation << 2 | QUEUED | PERMIT
//
//   N1  PERMIT and QUEUED are never set together: who finds the queue not empty gives the permit to
//       somebody in it, and who finds a permit does not wait.
//   N2  While QUEUED is set the word changes only under the lock.
//   N3  Every notification is an RMW with release, even one that finds a permit there already: who
//       takes the permit sees what all of them did before.
//   N4  The generation counts notifications of all. A future remembers the one it was prepared in.
//   N5  A future that was chosen alone and is cancelled chooses another one in its place.
//
// Lock: notify.lock. Checked by: tests/model/notify_model.c, tests/api/notify_test.c.
#include <weft/notify.h>

#include <errno.h>

#include "sync/case.h"
#include "sync/waiter.h"

#define PERMIT UINT64_C(1)
#define QUEUED UINT64_C(2)
#define GENERATION UINT64_C(4)
#define ANY_GENERATION UINT64_MAX

/// waiter.kind: how it was chosen; a waiter is asked for that only once it was.
enum { CHOSEN_FIRST, CHOSEN_LAST, CHOSEN_ALL };

struct notify {
    _Atomic uint64_t word;
    struct weft__lock lock;
    struct weft__queue queue; // under lock
};
_Static_assert(sizeof(struct notify) <= sizeof(struct weft_notify), "public size");

static struct notify *of(struct weft_notify *notify)
{
    return (struct notify *)(void *)notify;
}

void weft_notify_init(struct weft_notify *notify)
{
    *of(notify) = (struct notify){ 0 };
}

int weft_notify_fini(struct weft_notify *notify)
{
    return weft__sync_deserted(&of(notify)->lock, &of(notify)->queue) ? 0 : -EBUSY;
}

/// Whether a waiter that wants the end of this generation may go, by generation or permit.
static bool may_go(uint64_t word, uint64_t generation)
{
    return (word & PERMIT) != 0 ||
           (generation != ANY_GENERATION && word / GENERATION != generation);
}

/// What such a waiter leaves: the permit, if the generation is all that it wants.
static uint64_t gone(uint64_t word, uint64_t generation)
{
    bool new_generation = generation != ANY_GENERATION && word / GENERATION != generation;
    return new_generation ? word : word & ~PERMIT;
}

static int try_wait(struct notify *notify, uint64_t generation)
{
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed);
    while (may_go(word, generation)) {
        if (atomic_compare_exchange_weak_explicit(&notify->word, &word, gone(word, generation),
                                                  memory_order_acquire, memory_order_relaxed)) {
            return 0;
        }
    }
    return WEFT__SYNC_WAITS;
}

static int attempt(struct weft__waiter *waiter)
{
    return try_wait(waiter->object, waiter->want);
}

static int enlist(struct weft__waiter *waiter)
{
    struct notify *notify = waiter->object;
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed);
    bool goes;
    uint64_t next;
    do {
        goes = may_go(word, waiter->want);
        next = goes ? gone(word, waiter->want) : word | QUEUED;
    } while (!atomic_compare_exchange_weak_explicit(&notify->word, &word, next,
                                                    memory_order_acquire, memory_order_relaxed));
    if (!goes) {
        weft__queue_push(&notify->queue, waiter);
    }
    return goes ? 0 : WEFT__SYNC_WAITS;
}

static void unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct notify *notify = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&notify->queue, waiter);
    if (notify->queue.first == NULL) {
        // Not a store: without waiters others may change the word at any time.
        atomic_fetch_and_explicit(&notify->word, ~QUEUED, memory_order_relaxed);
    }
}

/// N1, under lock and with QUEUED set: chooses one, or leaves a permit if all have withdrawn.
static void choose(struct notify *notify, uint8_t how, struct weft__batch *batch)
{
    struct weft__queue *queue = &notify->queue;
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed) & ~QUEUED;
    while (batch->first == NULL && queue->first != NULL) {
        struct weft__waiter *waiter = how == CHOSEN_FIRST ? queue->first : queue->last;
        waiter->kind = how;
        (void)weft__queue_choose(queue, waiter, 0, batch);
    }
    word |= queue->first != NULL ? QUEUED : batch->first == NULL ? PERMIT : 0;
    atomic_store_explicit(&notify->word, word, memory_order_release);
}

static void notify_queued(struct notify *notify, uint8_t how)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&notify->lock);
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed);
    while ((word & QUEUED) == 0) { // the last waiter has gone
        if (atomic_compare_exchange_weak_explicit(&notify->word, &word, word | PERMIT,
                                                  memory_order_release, memory_order_relaxed)) {
            break;
        }
    }
    if ((word & QUEUED) != 0) {
        choose(notify, how, &batch);
    }
    weft__lock_release(&notify->lock);
    weft__batch_finish(&batch);
}

static void notify_single(struct notify *notify, uint8_t how)
{
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed);
    while ((word & QUEUED) == 0) {
        if (atomic_compare_exchange_weak_explicit(&notify->word, &word, word | PERMIT,
                                                  memory_order_release, memory_order_relaxed)) {
            return; // N3
        }
    }
    notify_queued(notify, how);
}

void weft_notify_one(struct weft_notify *notify)
{
    notify_single(of(notify), CHOSEN_FIRST);
}

void weft_notify_last(struct weft_notify *notify)
{
    notify_single(of(notify), CHOSEN_LAST);
}

void weft_notify_all(struct weft_notify *public_notify)
{
    struct notify *notify = of(public_notify);
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&notify->lock);
    for (struct weft__waiter *waiter = notify->queue.first; waiter != NULL; waiter = waiter->next) {
        waiter->kind = CHOSEN_ALL;
    }
    weft__queue_choose_all(&notify->queue, 0, &batch);
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed);
    uint64_t next;
    do {
        next = (word & ~QUEUED) + GENERATION;
    } while (!atomic_compare_exchange_weak_explicit(&notify->word, &word, next,
                                                    memory_order_release, memory_order_relaxed));
    weft__lock_release(&notify->lock);
    weft__batch_finish(&batch);
}

static void undo(struct weft__waiter *waiter)
{
    if (waiter->kind != CHOSEN_ALL) {
        notify_single(waiter->object, waiter->kind);
    }
}

static const struct weft__sync_ops wait_ops = {
    .what = "notify",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = undo,
    .enlist = enlist,
    .unlist = unlist,
};

WEFT__NOINLINE WEFT__FLATTEN static int wait_slow(struct notify *notify, struct weft__task *self,
                                                  weft_time deadline)
{
    struct weft__waiter waiter;
    weft__waiter_init(&waiter, &wait_ops, notify, &notify->lock);
    waiter.want = ANY_GENERATION;
    return weft__sync_wait(&waiter, self, deadline);
}

int weft_notify_wait(struct weft_notify *notify, weft_time deadline)
{
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc == 0) {
        rc = try_wait(of(notify), ANY_GENERATION);
    }
    return rc != WEFT__SYNC_WAITS ? rc : wait_slow(of(notify), self, deadline);
}

int weft_notify_try_wait(struct weft_notify *notify)
{
    return try_wait(of(notify), ANY_GENERATION) == 0 ? 0 : -EAGAIN;
}

void weft_notify_wait_future(struct weft_sync_future *future, struct weft_notify *public_notify)
{
    struct notify *notify = of(public_notify);
    struct weft__waiter *waiter = weft__sync_future_init(future, &wait_ops, notify, &notify->lock);
    waiter->want = atomic_load_explicit(&notify->word, memory_order_relaxed) / GENERATION;
}

void weft__notify_case(struct weft__waiter *waiter, struct weft_notify *notify)
{
    weft__waiter_init(waiter, &wait_ops, of(notify), &of(notify)->lock);
    waiter->want = ANY_GENERATION;
}
