// once.c - once, and the cell that is made of it.
//
//     word:  EMPTY --begin--> RUNNING --end(0)--> DONE
//                               | end(error): EMPTY, or RUNNING for the first who waits
//            | QUEUED, only with RUNNING
//
//   O1  While QUEUED is set the word changes only under the lock.
//   O2  RUNNING is somebody's: who has it calls end, or hands it to the first who waits.
//   O3  The word is the first of struct weft_once, and weft/once.h reads it.
//
// Lock: once.lock. Checked by: tests/model/once_model.c, tests/api/once_test.c.
#include <weft/once.h>

#include <errno.h>

#include "sync/waiter.h"

#define EMPTY UINT64_C(0)
#define RUNNING UINT64_C(1)
#define DONE WEFT_ONCE__DONE // which the header looks at, too: O3
#define QUEUED UINT64_C(4)

/// What begin says to who has to do it.
#define YOURS 1

struct once {
    _Atomic uint64_t word; // first: O3
    struct weft__lock lock;
    struct weft__queue queue; // under lock
};
_Static_assert(sizeof(struct once) <= sizeof(struct weft_once), "public size");
_Static_assert(offsetof(struct once, word) == 0, "weft_once_is_done() looks there");

static struct once *of(struct weft_once *once)
{
    return (struct once *)(void *)once;
}

void weft_once_init(struct weft_once *once)
{
    *of(once) = (struct once){ 0 };
}

int weft_once_fini(struct weft_once *public_once)
{
    struct once *once = of(public_once);
    bool deserted = weft__sync_deserted(&once->lock, &once->queue);
    uint64_t word = atomic_load_explicit(&once->word, memory_order_acquire);
    return deserted && (word & RUNNING) == 0 ? 0 : -EBUSY;
}

/// 0, YOURS, or WAITS.
static int try_begin(struct once *once)
{
    uint64_t word = EMPTY;
    if (atomic_compare_exchange_strong_explicit(&once->word, &word, RUNNING, memory_order_acquire,
                                                memory_order_acquire)) {
        return YOURS;
    }
    return word == DONE ? 0 : WEFT__SYNC_WAITS;
}

static int attempt(struct weft__waiter *waiter)
{
    return try_begin(waiter->object);
}

static int enter(struct weft__waiter *waiter)
{
    struct once *once = waiter->object;
    int rc;
    weft__lock_acquire(&once->lock);
    while ((rc = try_begin(once)) == WEFT__SYNC_WAITS) {
        uint64_t word = atomic_load_explicit(&once->word, memory_order_relaxed);
        if ((word & RUNNING) != 0 &&
            atomic_compare_exchange_strong_explicit(&once->word, &word, RUNNING | QUEUED,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            weft__queue_push(&once->queue, waiter);
            break;
        }
    }
    weft__lock_release(&once->lock);
    return rc;
}

static int leave(struct weft__waiter *waiter, int why)
{
    struct once *once = waiter->object;
    weft__lock_acquire(&once->lock);
    (void)weft__queue_remove(&once->queue, waiter);
    if (once->queue.first == NULL) {
        atomic_fetch_and_explicit(&once->word, ~QUEUED, memory_order_relaxed);
    }
    weft__lock_release(&once->lock);
    return why;
}

/// O2, under lock: the next word after a failure.
static uint64_t hand_on(struct once *once, struct weft__batch *batch)
{
    struct weft__queue *queue = &once->queue;
    while (batch->first == NULL && queue->first != NULL) {
        (void)weft__queue_choose(queue, queue->first, YOURS, batch);
    }
    return (batch->first != NULL ? RUNNING : EMPTY) | (queue->first != NULL ? QUEUED : 0);
}

static void end(struct once *once, int result)
{
    struct weft__batch batch;
    uint64_t word = RUNNING;
    uint64_t next = result < 0 ? EMPTY : DONE;
    if (atomic_compare_exchange_strong_explicit(&once->word, &word, next, memory_order_release,
                                                memory_order_relaxed)) {
        return;
    }
    weft_assert((word & RUNNING) != 0 && "end without a begin");
    weft__batch_init(&batch);
    weft__lock_acquire(&once->lock);
    if (result < 0) {
        next = hand_on(once, &batch);
    } else {
        weft__queue_choose_all(&once->queue, 0, &batch);
    }
    atomic_store_explicit(&once->word, next, memory_order_release);
    weft__lock_release(&once->lock);
    weft__batch_finish(&batch);
}

static void undo(struct weft__waiter *waiter)
{
    if (waiter->wait.result == YOURS) {
        end(waiter->object, -ECANCELED);
    }
}

static const struct weft__sync_ops begin_ops = {
    .what = "once",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = enter,
    .leave = leave,
    .undo = undo,
};

WEFT__NOINLINE static int begin_slow(struct once *once, weft_time deadline)
{
    struct weft__waiter waiter;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc == 0) {
        rc = try_begin(once);
    }
    if (rc != WEFT__SYNC_WAITS) {
        return rc;
    }
    weft__waiter_init(&waiter, &begin_ops, once, &once->lock);
    return weft__sync_wait(&waiter, self, deadline);
}

static inline int begin(struct weft_once *once, weft_time deadline)
{
    return weft__likely(weft_once_is_done(once)) ? 0 : begin_slow(of(once), deadline);
}

int weft_once_begin(struct weft_once *once, weft_time deadline)
{
    return begin(once, deadline);
}

void weft_once_end(struct weft_once *once, int result)
{
    end(of(once), result);
}

int weft_once_call(struct weft_once *once, weft_fn fn, void *arg, weft_time deadline)
{
    int rc = begin(once, deadline);
    if (rc == YOURS) {
        rc = fn(arg);
        end(of(once), rc);
    }
    return rc;
}

void weft_once_begin_future(struct weft_sync_future *future, struct weft_once *once)
{
    (void)weft__sync_future_init(future, &begin_ops, of(once), &of(once)->lock);
}

// Cells.

void weft_once_cell_init(struct weft_once_cell *cell)
{
    weft_once_init(&cell->once);
    cell->value = NULL;
}

int weft_once_cell_fini(struct weft_once_cell *cell)
{
    return weft_once_fini(&cell->once);
}

void weft_once_cell_end(struct weft_once_cell *cell, void *value, int result)
{
    if (result >= 0) {
        cell->value = value;
    }
    end(of(&cell->once), result);
}

int weft_once_cell_set(struct weft_once_cell *cell, void *value)
{
    int rc = try_begin(of(&cell->once));
    if (rc == YOURS) {
        weft_once_cell_end(cell, value, 0);
        return 0;
    }
    return rc == 0 ? -EEXIST : -EAGAIN;
}

int weft_once_cell_get_or_init(void **value, struct weft_once_cell *cell, weft_cell_fn fn,
                               void *arg, weft_time deadline)
{
    void *made = NULL;
    int rc = begin(&cell->once, deadline);
    if (rc == YOURS) {
        rc = fn(&made, arg);
        weft_once_cell_end(cell, made, rc);
    }
    *value = rc >= 0 ? cell->value : NULL;
    return rc < 0 ? rc : 0;
}

void weft_once_cell_begin_future(struct weft_sync_future *future, struct weft_once_cell *cell)
{
    weft_once_begin_future(future, &cell->once);
}
