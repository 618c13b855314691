// rwlock.c - readers counted in one word; a queue of readers and writers in their order.
//
//     word:  readers << 8 | UPGRADING | QUEUED | WRITER
//
//   R1  While QUEUED or UPGRADING is set the word changes only under the lock. So nobody overtakes
//       the queue, and settle() may compute the new word at leisure and store it.
//   R2  After settle() the first in the queue, and the upgrader, cannot be let in. Whatever may
//       change that calls settle().
//   R3  The one that upgrades is counted as a reader until it writes. While it waits nobody is let
//       in, so readers only leave.
//
// Lock: rwlock.lock. Checked by: tests/model/rwlock_model.c, tests/api/rwlock_test.c.
#include <weft/rwlock.h>

#include <errno.h>

#include "sync/waiter.h"

#define WRITER UINT64_C(1)
#define QUEUED UINT64_C(2)
#define UPGRADING UINT64_C(4)
#define WAITED_FOR (QUEUED | UPGRADING)
#define READER UINT64_C(256)

/// waiter.kind
enum { WANTS_READ, WANTS_WRITE, WANTS_UPGRADE };

struct rwlock {
    _Atomic uint64_t word;
    struct weft__lock lock;
    // Under lock.
    struct weft__queue queue;
    struct weft__waiter *upgrader;
};
_Static_assert(sizeof(struct rwlock) <= sizeof(struct weft_rwlock), "public size");

static struct rwlock *of(struct weft_rwlock *rwlock)
{
    return (struct rwlock *)(void *)rwlock;
}

void weft_rwlock_init(struct weft_rwlock *rwlock)
{
    *of(rwlock) = (struct rwlock){ 0 };
}

int weft_rwlock_fini(struct weft_rwlock *public_rwlock)
{
    struct rwlock *rwlock = of(public_rwlock);
    bool deserted = weft__sync_deserted(&rwlock->lock, &rwlock->queue);
    bool free = atomic_load_explicit(&rwlock->word, memory_order_acquire) == 0;
    return deserted && free ? 0 : -EBUSY;
}

/// The word once a waiter of this kind was let in, or WAITED_FOR if it has to wait.
static uint64_t let_in(uint64_t word, unsigned kind)
{
    switch (kind) {
    case WANTS_READ: return (word & (WRITER | WAITED_FOR)) == 0 ? word + READER : WAITED_FOR;
    case WANTS_WRITE: return word == 0 ? WRITER : WAITED_FOR;
    default: return word == READER ? WRITER : WAITED_FOR;
    }
}

/// The first guess is what the word nearly always is: a look at it would cost more than a wrong guess,
/// after which we have the line as well.
static int try_enter(struct rwlock *rwlock, unsigned kind)
{
    uint64_t word = kind == WANTS_UPGRADE ? READER : 0;
    for (;;) {
        uint64_t next = let_in(word, kind);
        if (next == WAITED_FOR) {
            return WEFT__SYNC_WAITS;
        }
        if (atomic_compare_exchange_weak_explicit(&rwlock->word, &word, next, memory_order_acquire,
                                                  memory_order_relaxed)) {
            return 0;
        }
    }
}

static int attempt(struct weft__waiter *waiter)
{
    return try_enter(waiter->object, waiter->kind);
}

/// R2. `word` is without QUEUED and UPGRADING. Under lock.
static void settle(struct rwlock *rwlock, uint64_t word, struct weft__batch *batch)
{
    struct weft__queue *queue = &rwlock->queue;
    struct weft__waiter *upgrader = rwlock->upgrader;
    if (upgrader != NULL && word == READER) {
        word = weft__queue_choose(queue, upgrader, 0, batch) ? WRITER : word;
        rwlock->upgrader = NULL;
    }
    while (rwlock->upgrader == NULL && queue->first != NULL) {
        uint64_t next = let_in(word, queue->first->kind);
        if (next == WAITED_FOR) {
            break;
        }
        word = weft__queue_choose(queue, queue->first, 0, batch) ? next : word;
    }
    word |= queue->first != NULL ? QUEUED : 0;
    word |= rwlock->upgrader != NULL ? UPGRADING : 0;
    atomic_store_explicit(&rwlock->word, word, memory_order_release);
}

/// Lets the waiter in or adds what it will be waited for to the word: true if it has to wait.
static bool enter_word(struct rwlock *rwlock, unsigned kind, uint64_t flag)
{
    uint64_t word = atomic_load_explicit(&rwlock->word, memory_order_relaxed);
    uint64_t next;
    bool waits;
    do {
        next = let_in(word, kind);
        waits = next == WAITED_FOR;
        next = waits ? word | flag : next;
    } while (!atomic_compare_exchange_weak_explicit(&rwlock->word, &word, next,
                                                    memory_order_acquire, memory_order_relaxed));
    return waits;
}

static int enter(struct weft__waiter *waiter)
{
    struct rwlock *rwlock = waiter->object;
    weft__lock_acquire(&rwlock->lock);
    bool waits = enter_word(rwlock, waiter->kind, QUEUED);
    if (waits) {
        weft__queue_push(&rwlock->queue, waiter);
    }
    weft__lock_release(&rwlock->lock);
    return waits ? WEFT__SYNC_WAITS : 0;
}

static int enter_upgrade(struct weft__waiter *waiter)
{
    struct rwlock *rwlock = waiter->object;
    struct weft__batch batch;
    int rc = WEFT__SYNC_WAITS;
    weft__batch_init(&batch);
    weft__lock_acquire(&rwlock->lock);
    if (rwlock->upgrader != NULL) {
        rc = -EDEADLK;
    } else if (!enter_word(rwlock, WANTS_UPGRADE, UPGRADING)) {
        rc = 0;
    } else {
        rwlock->upgrader = waiter;
        // With a queue the word is not READER, even if we are the only reader.
        uint64_t word = atomic_load_explicit(&rwlock->word, memory_order_relaxed);
        weft_assert(word >= READER && "upgrade without a lock for reading");
        settle(rwlock, word & ~WAITED_FOR, &batch);
    }
    weft__lock_release(&rwlock->lock);
    weft__batch_finish(&batch);
    return rc;
}

static int leave(struct weft__waiter *waiter, int why)
{
    struct rwlock *rwlock = waiter->object;
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&rwlock->lock);
    bool upgrader = rwlock->upgrader == waiter;
    if (upgrader) {
        rwlock->upgrader = NULL;
    }
    if (upgrader || weft__queue_remove(&rwlock->queue, waiter)) {
        uint64_t word = atomic_load_explicit(&rwlock->word, memory_order_relaxed);
        settle(rwlock, word & ~WAITED_FOR, &batch);
    }
    weft__lock_release(&rwlock->lock);
    weft__batch_finish(&batch);
    return why;
}

/// Somebody waits, or did just now: subtracts `off` and adds `on` under the lock.
WEFT__NOINLINE static void change_slow(struct rwlock *rwlock, uint64_t off, uint64_t on)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&rwlock->lock);
    uint64_t word = atomic_load_explicit(&rwlock->word, memory_order_relaxed);
    while ((word & WAITED_FOR) == 0) {
        if (atomic_compare_exchange_weak_explicit(&rwlock->word, &word, word - off + on,
                                                  memory_order_release, memory_order_relaxed)) {
            break;
        }
    }
    if ((word & WAITED_FOR) != 0) {
        settle(rwlock, (word & ~WAITED_FOR) - off + on, &batch);
    }
    weft__lock_release(&rwlock->lock);
    weft__batch_finish(&batch);
}

static void read_unlock(struct rwlock *rwlock)
{
    uint64_t word = READER; // a guess
    while ((word & WAITED_FOR) == 0) {
        weft_assert(word >= READER && "a lock was unlocked that nobody reads");
        if (atomic_compare_exchange_weak_explicit(&rwlock->word, &word, word - READER,
                                                  memory_order_release, memory_order_relaxed)) {
            return;
        }
    }
    weft_assert(word >= READER && "a lock was unlocked that nobody reads");
    change_slow(rwlock, READER, 0);
}

/// WRITER becomes `on`.
static void write_change(struct rwlock *rwlock, uint64_t on)
{
    uint64_t word = WRITER;
    if (weft__unlikely(!atomic_compare_exchange_strong_explicit(
            &rwlock->word, &word, on, memory_order_release, memory_order_relaxed))) {
        weft_assert((word & WRITER) != 0 && "a lock was unlocked that nobody writes");
        change_slow(rwlock, WRITER, on);
    }
}

static void undo(struct weft__waiter *waiter)
{
    struct rwlock *rwlock = waiter->object;
    if (waiter->wait.result != 0) {
        return;
    }
    if (waiter->kind == WANTS_READ) {
        read_unlock(rwlock);
    } else {
        write_change(rwlock, waiter->kind == WANTS_UPGRADE ? READER : 0);
    }
}

static const struct weft__sync_ops enter_ops = {
    .what = "rwlock",
    .mode = WEFT__WAIT_DEAF,
    .attempt = attempt,
    .enter = enter,
    .leave = leave,
    .undo = undo,
};

static const struct weft__sync_ops upgrade_ops = {
    .what = "rwlock",
    .mode = WEFT__WAIT_DEAF,
    .attempt = attempt,
    .enter = enter_upgrade,
    .leave = leave,
    .undo = undo,
};

WEFT__NOINLINE WEFT__FLATTEN static int lock_slow(struct rwlock *rwlock, unsigned kind,
                                                  weft_time deadline)
{
    struct weft__waiter waiter;
    const struct weft__sync_ops *ops = kind == WANTS_UPGRADE ? &upgrade_ops : &enter_ops;
    weft__waiter_init(&waiter, ops, rwlock, &rwlock->lock);
    waiter.kind = (uint8_t)kind;
    return weft__sync_wait(&waiter, weft__thread_self(), deadline);
}

static inline int lock(struct weft_rwlock *rwlock, unsigned kind, weft_time deadline)
{
    return weft__likely(try_enter(of(rwlock), kind) == 0) ? 0
                                                          : lock_slow(of(rwlock), kind, deadline);
}

int weft_rwlock_read(struct weft_rwlock *rwlock, weft_time deadline)
{
    return lock(rwlock, WANTS_READ, deadline);
}

int weft_rwlock_write(struct weft_rwlock *rwlock, weft_time deadline)
{
    return lock(rwlock, WANTS_WRITE, deadline);
}

int weft_rwlock_upgrade(struct weft_rwlock *rwlock, weft_time deadline)
{
    return lock(rwlock, WANTS_UPGRADE, deadline);
}

int weft_rwlock_try_read(struct weft_rwlock *rwlock)
{
    return try_enter(of(rwlock), WANTS_READ) == 0 ? 0 : -EAGAIN;
}

int weft_rwlock_try_write(struct weft_rwlock *rwlock)
{
    return try_enter(of(rwlock), WANTS_WRITE) == 0 ? 0 : -EAGAIN;
}

/// Unlike the other two it also succeeds while others wait: they come after us anyway.
int weft_rwlock_try_upgrade(struct weft_rwlock *public_rwlock)
{
    struct rwlock *rwlock = of(public_rwlock);
    if (try_enter(rwlock, WANTS_UPGRADE) == 0) {
        return 0;
    }
    weft__lock_acquire(&rwlock->lock);
    uint64_t word = atomic_load_explicit(&rwlock->word, memory_order_relaxed);
    bool alone = word == (READER | QUEUED);
    if (alone) {
        atomic_store_explicit(&rwlock->word, WRITER | QUEUED, memory_order_relaxed);
    }
    weft__lock_release(&rwlock->lock);
    return alone ? 0 : -EAGAIN;
}

void weft_rwlock_read_unlock(struct weft_rwlock *rwlock)
{
    read_unlock(of(rwlock));
}

void weft_rwlock_write_unlock(struct weft_rwlock *rwlock)
{
    write_change(of(rwlock), 0);
}

void weft_rwlock_downgrade(struct weft_rwlock *rwlock)
{
    write_change(of(rwlock), READER);
}

static void prepare(struct weft_sync_future *future, struct rwlock *rwlock, unsigned kind)
{
    const struct weft__sync_ops *ops = kind == WANTS_UPGRADE ? &upgrade_ops : &enter_ops;
    weft__sync_future_init(future, ops, rwlock, &rwlock->lock)->kind = (uint8_t)kind;
}

void weft_rwlock_read_future(struct weft_sync_future *future, struct weft_rwlock *rwlock)
{
    prepare(future, of(rwlock), WANTS_READ);
}

void weft_rwlock_write_future(struct weft_sync_future *future, struct weft_rwlock *rwlock)
{
    prepare(future, of(rwlock), WANTS_WRITE);
}

void weft_rwlock_upgrade_future(struct weft_sync_future *future, struct weft_rwlock *rwlock)
{
    prepare(future, of(rwlock), WANTS_UPGRADE);
}
