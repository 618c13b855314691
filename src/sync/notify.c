// notify.c - a permit for one, or a wake-up for all.
//
//     word:  0, PERMIT, QUEUED, or the address of a virtual thread's waiter that is alone
//
//   N1  A word is one of these: who finds somebody waiting gives the permit to him, and who finds a
//       permit does not wait.
//   N2  While it is QUEUED the word changes only under the lock.
//   N3  A notification that leaves a permit is an RMW with release, even one that finds a permit there
//       already: who takes the permit sees what all of them did before. One that chooses somebody hands
//       over by completing his wait.
//   N4  The generation counts notifications of all. A future remembers the one it was prepared in.
//   N5  A future that was chosen alone and is cancelled chooses another one in its place.
//   N6  One that waits alone has no lock to take, and who notifies it neither. Whoever takes its address
//       out of the word has it in hand: to complete it, to put it into the queue (under the lock,
//       because somebody else wants to wait), or to leave with it. So it does not withdraw by its
//       state, it is asked to (wait.h).
//
// N6 saves four of eight locked instructions of a wait and its notification, a third of their time
// (weft-bench sync-notify).
// Lock: notify.lock. Checked by: tests/model/notify_model.c, tests/api/notify_test.c.
#include <weft/notify.h>

#include <errno.h>

#include "sync/case.h"
#include "sync/waiter.h"

#define PERMIT UINT64_C(1)
#define QUEUED UINT64_C(2)
#define FLAGS (PERMIT | QUEUED)
#define ANY_GENERATION UINT64_MAX

/// waiter.kind: how it was chosen; a waiter is asked for that only once it was.
enum { CHOSEN_FIRST, CHOSEN_LAST, CHOSEN_ALL };

struct notify {
    _Atomic uint64_t word;
    struct weft__lock lock;
    _Atomic uint32_t generation; // changed under lock
    struct weft__queue queue;    // under lock
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

int weft_notify_fini(struct weft_notify *public_notify)
{
    struct notify *notify = of(public_notify);
    bool deserted = weft__sync_deserted(&notify->lock, &notify->queue);
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed);
    return deserted && (word & ~PERMIT) == 0 ? 0 : -EBUSY;
}

/// The waiter that is alone, or NULL.
static struct weft__waiter *lone(uint64_t word)
{
    return (struct weft__waiter *)(uintptr_t)(word & ~FLAGS); // NOLINT(performance-no-int-to-ptr)
}

/// Whether all were notified since that generation.
static bool is_over(const struct notify *notify, uint64_t generation)
{
    return generation != ANY_GENERATION &&
           atomic_load_explicit(&notify->generation, memory_order_acquire) != generation;
}

static int try_wait(struct notify *notify, uint64_t generation)
{
    if (is_over(notify, generation)) {
        return 0;
    }
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed);
    while (word == PERMIT) {
        if (atomic_compare_exchange_weak_explicit(&notify->word, &word, 0, memory_order_acquire,
                                                  memory_order_relaxed)) {
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
    if (is_over(notify, waiter->want)) {
        return 0;
    }
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&notify->word, &word, word == PERMIT ? 0 : QUEUED,
                                                  memory_order_acquire, memory_order_relaxed)) {
    }
    if (word == PERMIT) {
        return 0;
    }
    if (lone(word) != NULL) {
        weft__queue_push(&notify->queue, lone(word)); // N6
    }
    weft__queue_push(&notify->queue, waiter);
    return WEFT__SYNC_WAITS;
}

/// Takes the waiter out of the queue; false if it is not in it. Under lock.
static bool dequeue(struct notify *notify, struct weft__waiter *waiter)
{
    bool was_queued = weft__queue_remove(&notify->queue, waiter);
    if (was_queued && notify->queue.first == NULL) {
        atomic_store_explicit(&notify->word, 0, memory_order_relaxed); // N2
    }
    return was_queued;
}

static void unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    (void)batch;
    (void)dequeue(waiter->object, waiter);
}

/// N1, under lock and while QUEUED: chooses one, or leaves a permit if all have withdrawn.
static void choose(struct notify *notify, uint8_t how, struct weft__batch *batch)
{
    struct weft__queue *queue = &notify->queue;
    while (batch->first == NULL && queue->first != NULL) {
        struct weft__waiter *waiter = how == CHOSEN_FIRST ? queue->first : queue->last;
        waiter->kind = how;
        (void)weft__queue_choose(queue, waiter, 0, batch);
    }
    uint64_t word = queue->first != NULL ? QUEUED : batch->first == NULL ? PERMIT : 0;
    atomic_store_explicit(&notify->word, word, memory_order_release);
}

/// False: the last in the queue has gone.
WEFT__NOINLINE static bool notify_queued(struct notify *notify, uint8_t how)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&notify->lock);
    bool queued = atomic_load_explicit(&notify->word, memory_order_relaxed) == QUEUED;
    if (queued) {
        choose(notify, how, &batch);
    }
    weft__lock_release(&notify->lock);
    weft__batch_finish(&batch);
    return queued;
}

static inline void notify_single(struct notify *notify, uint8_t how)
{
    uint64_t word = atomic_load_explicit(&notify->word, memory_order_relaxed);
    for (;;) {
        struct weft__waiter *waiter = lone(word);
        if (word == QUEUED) {
            if (notify_queued(notify, how)) {
                return;
            }
            word = atomic_load_explicit(&notify->word, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(
                       &notify->word, &word, waiter != NULL ? 0 : PERMIT, memory_order_acq_rel,
                       memory_order_relaxed)) { // N3
            if (waiter != NULL) {
                weft__waiter_complete(waiter, 0);
            }
            return;
        }
    }
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
    while (!atomic_compare_exchange_weak_explicit(&notify->word, &word, word == PERMIT ? PERMIT : 0,
                                                  memory_order_acquire, memory_order_relaxed)) {
    }
    if (lone(word) != NULL) {
        (void)weft__main_claim(lone(word), lone(word), 0, &batch); // it cannot withdraw: N6
    }
    atomic_fetch_add_explicit(&notify->generation, 1, memory_order_release);
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

/// N6: one that was alone when it began to wait is late, or cancelled.
static void give_up(struct weft__wait *wait)
{
    struct weft__waiter *waiter = weft__container_of(wait, struct weft__waiter, wait);
    struct notify *notify = waiter->object;
    uint64_t word = (uintptr_t)waiter;
    bool out = atomic_compare_exchange_strong_explicit(&notify->word, &word, 0,
                                                       memory_order_relaxed, memory_order_relaxed);
    if (!out) {
        weft__lock_acquire(&notify->lock);
        out = dequeue(notify, waiter);
        weft__lock_release(&notify->lock);
    }
    if (out) { // else somebody has chosen it
        wait->result = wait->why;
        atomic_store_explicit(&wait->state, WEFT__WAIT_DONE, memory_order_relaxed);
    }
}

/// N6. False: somebody waits already, or there is a permit.
static inline bool wait_alone(struct notify *notify, struct weft__waiter *waiter,
                              struct weft__task *self, weft_time deadline)
{
    uint64_t word = 0;
    weft__wait_init(&waiter->wait, self, WEFT__WAIT_ASK, wait_ops.what);
    waiter->wait.ask = give_up;
    if (!atomic_compare_exchange_strong_explicit(&notify->word, &word, (uintptr_t)waiter,
                                                 memory_order_release, memory_order_relaxed)) {
        return false;
    }
    (void)weft__block(&waiter->wait, deadline);
    return true;
}

WEFT__NOINLINE WEFT__FLATTEN static int wait_slow(struct notify *notify, struct weft__task *self,
                                                  weft_time deadline)
{
    struct weft__waiter waiter;
    weft__waiter_init(&waiter, &wait_ops, notify, &notify->lock);
    waiter.want = ANY_GENERATION;
    if (weft__likely(self != NULL) && weft__likely(wait_alone(notify, &waiter, self, deadline))) {
        return (int)waiter.wait.result;
    }
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
    waiter->want = atomic_load_explicit(&notify->generation, memory_order_relaxed);
}

void weft__notify_case(struct weft__waiter *waiter, struct weft_notify *notify)
{
    weft__waiter_init(waiter, &wait_ops, of(notify), &of(notify)->lock);
    waiter->want = ANY_GENERATION;
}
