// mutex.c - one compare-and-swap when nobody contends; else overtaking, within limits.
//
// Handing a mutex to a waiter at each unlock keeps it from running threads for as long as a wake-up
// takes, and everybody queues up behind that. So an unlock frees the mutex and wakes the first
// waiter, who competes with those that run. When he has waited for HANDOFF_NS and loses again, he
// asks for a hand-off: the next unlock leaves the mutex locked and gives it to him.
//
//     word:  LOCKED   somebody has it
//            QUEUED   the queue is not empty
//            WOKEN    a waiter was taken out of the queue to compete; an unlock need not wake another
//            HANDOFF  the first in the queue gets the mutex with the next unlock
//
//   M1  LOCKED is set and cleared by compare-and-swap outside of the lock, too; the other bits are
//       changed only under it. So who has the mutex and the lock may store the whole word.
//   M2  The one that WOKEN stands for clears it when he has locked the mutex, has enqueued himself
//       again, or was cancelled; in the last case he wakes the next one, if the mutex is free.
//   M3  If the mutex is free and the queue not empty, WOKEN is set. So an unlock that finds QUEUED
//       and not WOKEN has to choose somebody, and one that finds both need not.
//   M4  A woken waiter that loses goes back to the front, with his old age. So the first in the queue
//       is the oldest, and everybody is first at some time: nobody starves.
//
// Rejected: handing over always (convoys: 60 to 80 us per turn between two carriers); reading the
// clock at unlock (the waiter can read it himself, and only when he has lost).
// Lock: mutex.lock. Checked by: tests/model/mutex_model.c, tests/api/mutex_test.c.
#include <weft/mutex.h>

#include <errno.h>

#include "sync/waiter.h"

#define LOCKED 1u
#define QUEUED 2u
#define WOKEN 4u
#define HANDOFF 8u

/// Who has waited that long is not overtaken any more.
#define HANDOFF_NS WEFT_MS

struct mutex {
    _Atomic uint32_t word;
    struct weft__lock lock;
    struct weft__queue queue; // under lock
};
_Static_assert(sizeof(struct mutex) <= sizeof(struct weft_mutex), "public size");

static struct mutex *of(struct weft_mutex *mutex)
{
    return (struct mutex *)(void *)mutex;
}

void weft_mutex_init(struct weft_mutex *mutex)
{
    *of(mutex) = (struct mutex){ 0 };
}

int weft_mutex_fini(struct weft_mutex *public_mutex)
{
    struct mutex *mutex = of(public_mutex);
    bool deserted = weft__sync_deserted(&mutex->lock, &mutex->queue);
    bool free = atomic_load_explicit(&mutex->word, memory_order_acquire) == 0;
    return deserted && free ? 0 : -EBUSY;
}

static bool try_lock(struct mutex *mutex)
{
    uint32_t word = atomic_load_explicit(&mutex->word, memory_order_relaxed);
    while ((word & LOCKED) == 0) {
        if (atomic_compare_exchange_weak_explicit(&mutex->word, &word, word | LOCKED,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static int attempt(struct weft__waiter *waiter)
{
    // Who was woken has WOKEN to clear, which takes the lock.
    return !waiter->again && try_lock(waiter->object) ? 0 : WEFT__SYNC_WAITS;
}

/// The bits that an entering waiter sets along with QUEUED. Reads the clock, so without the lock.
static uint32_t age(struct weft__waiter *waiter)
{
    weft_time now = weft_now();
    if (!waiter->again) {
        waiter->since = now;
        return QUEUED;
    }
    return now - waiter->since >= HANDOFF_NS ? QUEUED | HANDOFF : QUEUED;
}

static int enter(struct weft__waiter *waiter)
{
    struct mutex *mutex = waiter->object;
    uint32_t queued = age(waiter);
    uint32_t mine = waiter->again ? WOKEN : 0;
    weft__lock_acquire(&mutex->lock);
    uint32_t word = atomic_load_explicit(&mutex->word, memory_order_relaxed);
    uint32_t next;
    do {
        next = (word & ~mine) | ((word & LOCKED) != 0 ? queued : LOCKED);
    } while (!atomic_compare_exchange_weak_explicit(&mutex->word, &word, next, memory_order_acquire,
                                                    memory_order_relaxed));
    bool locked = (word & LOCKED) == 0;
    if (!locked && waiter->again) {
        weft__queue_push_front(&mutex->queue, waiter); // M4
    } else if (!locked) {
        weft__queue_push(&mutex->queue, waiter);
    }
    weft__lock_release(&mutex->lock);
    return locked ? 0 : WEFT__SYNC_WAITS;
}

static uint32_t still_queued(const struct mutex *mutex)
{
    return mutex->queue.first != NULL ? QUEUED : 0;
}

/// M3: chooses a waiter. The caller has the mutex and the lock; the mutex is free afterwards, or the
/// waiter's.
static void choose(struct mutex *mutex, struct weft__batch *batch)
{
    bool handoff = (atomic_load_explicit(&mutex->word, memory_order_relaxed) & HANDOFF) != 0;
    int64_t result = handoff ? 0 : WEFT__SYNC_AGAIN;
    uint32_t next = 0;
    while (next == 0 && mutex->queue.first != NULL) {
        if (weft__queue_choose(&mutex->queue, mutex->queue.first, result, batch)) {
            next = handoff ? LOCKED : WOKEN;
        }
    }
    atomic_store_explicit(&mutex->word, next | still_queued(mutex), memory_order_release);
}

WEFT__NOINLINE static void unlock_slow(struct mutex *mutex)
{
    struct weft__batch batch;
    uint32_t both = LOCKED | QUEUED | WOKEN;
    if (atomic_compare_exchange_strong_explicit(&mutex->word, &both, QUEUED | WOKEN,
                                                memory_order_release, memory_order_relaxed)) {
        return;
    }
    weft_assert((both & LOCKED) != 0 && "a mutex was unlocked that is not locked");
    weft__batch_init(&batch);
    weft__lock_acquire(&mutex->lock);
    uint32_t word = atomic_load_explicit(&mutex->word, memory_order_relaxed);
    if ((word & (WOKEN | HANDOFF)) == WOKEN) {
        atomic_store_explicit(&mutex->word, word & ~LOCKED, memory_order_release);
    } else {
        choose(mutex, &batch);
    }
    weft__lock_release(&mutex->lock);
    weft__batch_finish(&batch);
}

/// A waiter has gone. The first one may have asked for a hand-off, which is not for the next.
static int leave(struct weft__waiter *waiter, int why)
{
    struct mutex *mutex = waiter->object;
    weft__lock_acquire(&mutex->lock);
    uint32_t gone = mutex->queue.first == waiter ? HANDOFF : 0;
    (void)weft__queue_remove(&mutex->queue, waiter);
    gone |= QUEUED & ~still_queued(mutex);
    atomic_fetch_and_explicit(&mutex->word, ~gone, memory_order_relaxed);
    weft__lock_release(&mutex->lock);
    return why;
}

/// M2: the one that was woken does not want it any more.
static void pass_on(struct mutex *mutex)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&mutex->lock);
    uint32_t word = atomic_fetch_and_explicit(&mutex->word, ~WOKEN, memory_order_relaxed) & ~WOKEN;
    if ((word & LOCKED) == 0 && mutex->queue.first != NULL &&
        atomic_compare_exchange_strong_explicit(&mutex->word, &word, word | LOCKED,
                                                memory_order_acquire, memory_order_relaxed)) {
        choose(mutex, &batch); // who has locked it first wakes the next one when he unlocks
    }
    weft__lock_release(&mutex->lock);
    weft__batch_finish(&batch);
}

static void undo(struct weft__waiter *waiter)
{
    struct mutex *mutex = waiter->object;
    if (waiter->wait.result == WEFT__SYNC_AGAIN) {
        pass_on(mutex);
    } else {
        weft_mutex_unlock((struct weft_mutex *)(void *)mutex);
    }
}

static const struct weft__sync_ops lock_ops = {
    .what = "mutex",
    .mode = WEFT__WAIT_DEAF,
    .attempt = attempt,
    .enter = enter,
    .leave = leave,
    .undo = undo,
};

WEFT__NOINLINE WEFT__FLATTEN static int lock_slow(struct mutex *mutex, weft_time deadline)
{
    struct weft__waiter waiter;
    if (try_lock(mutex)) {
        return 0;
    }
    weft__waiter_init(&waiter, &lock_ops, mutex, &mutex->lock);
    return weft__sync_wait(&waiter, weft__thread_self(), deadline);
}

int weft_mutex_lock(struct weft_mutex *public_mutex, weft_time deadline)
{
    struct mutex *mutex = of(public_mutex);
    uint32_t free = 0;
    if (weft__likely(atomic_compare_exchange_strong_explicit(
            &mutex->word, &free, LOCKED, memory_order_acquire, memory_order_relaxed))) {
        return 0;
    }
    return lock_slow(mutex, deadline);
}

int weft_mutex_try_lock(struct weft_mutex *mutex)
{
    return try_lock(of(mutex)) ? 0 : -EAGAIN;
}

void weft_mutex_unlock(struct weft_mutex *public_mutex)
{
    struct mutex *mutex = of(public_mutex);
    uint32_t locked = LOCKED;
    if (weft__unlikely(!atomic_compare_exchange_strong_explicit(
            &mutex->word, &locked, 0, memory_order_release, memory_order_relaxed))) {
        unlock_slow(mutex);
    }
}

void weft_mutex_lock_future(struct weft_sync_future *future, struct weft_mutex *mutex)
{
    (void)weft__sync_future_init(future, &lock_ops, of(mutex), &of(mutex)->lock);
}
