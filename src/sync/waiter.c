// waiter.c - the two ways to wait: a thread that blocks, and a future that is polled.
//
// A future's waiter has a bell instead of a task. Its owner polls and cancels it from one thread at
// a time, so only completers are to be feared (queue.h, Q6):
//
//     FRESH --poll--> WAITING --chosen--> poll: READY, or once more WAITING
//                        |  cancel: OPEN -> DONE, leave, READY
//                        +- cancel: too late; the poll that finds it chosen passes on what it got
//
#include "sync/waiter.h"

#include <errno.h>

#include "sched/crew.h"

/// Completing lets the task run, end, and its runtime be destroyed, before we have woken it. The
/// carriers of its crew are joined before that memory goes; anybody else announces himself first.
static inline void finish_task(struct weft__wait *wait, struct weft__task *task, int64_t result)
{
    struct weft__carrier *self = weft__carrier_self();
    if (weft__likely(self != NULL && self->crew == task->crew)) {
        weft__complete(wait, result);
        return;
    }
    struct weft__crew *crew = task->crew;
    weft__crew_enter(crew);
    weft__complete(wait, result);
    weft__crew_leave(crew);
}

void weft__waiter_complete(struct weft__waiter *waiter, int64_t result)
{
    if (waiter->is_future) {
        waiter->wait.result = result;
        weft__bell_ring(&waiter->bell);
    } else {
        finish_task(&waiter->wait, waiter->wait.task, result);
    }
}

void weft__batch_finish(const struct weft__batch *batch)
{
    struct weft__wait *wait = batch->first;
    while (wait != NULL) {
        struct weft__wait *next = wait->next;
        struct weft__waiter *waiter = weft__container_of(wait, struct weft__waiter, wait);
        if (waiter->is_future) {
            weft__bell_ring(&waiter->bell); // queue.h, Q6
        } else if (wait->task != NULL) {
            finish_task(wait, wait->task, wait->result);
        } else {
            weft__complete(wait, wait->result);
        }
        wait = next;
    }
}

int weft__waiter_enter(struct weft__waiter *waiter)
{
    const struct weft__sync_ops *ops = waiter->ops;
    struct weft__lock *lock = waiter->lock;
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(lock);
    int rc = ops->check != NULL ? ops->check(waiter, &batch) : WEFT__SYNC_WAITS;
    if (rc == WEFT__SYNC_WAITS) {
        rc = ops->enlist(waiter);
    }
    weft__lock_release(lock);
    weft__batch_finish(&batch);
    return rc;
}

int weft__waiter_leave(struct weft__waiter *waiter, int why)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(waiter->lock);
    waiter->ops->unlist(waiter, &batch);
    weft__lock_release(waiter->lock);
    weft__batch_finish(&batch);
    return why;
}

// Threads.

int weft__sync_refuses(void)
{
    int why = weft__no_task();
    return why == -ESRCH || weft__crew_self() != NULL ? why : 0;
}

WEFT__FLATTEN int weft__sync_wait(struct weft__waiter *waiter, struct weft__task *self,
                                  weft_time deadline)
{
    const struct weft__sync_ops *ops = waiter->ops;
    int rc = self == NULL ? weft__sync_refuses() : 0;
    if (rc < 0) {
        return rc;
    }
    for (;;) {
        weft__wait_init(&waiter->wait, self, ops->mode, ops->what);
        rc = ops->enter(waiter);
        if (rc != WEFT__SYNC_WAITS) {
            return rc;
        }
        rc = weft__block(&waiter->wait, deadline);
        if (rc < 0) {
            return ops->leave(waiter, rc);
        }
        if (waiter->wait.result != WEFT__SYNC_AGAIN) {
            return (int)waiter->wait.result;
        }
        waiter->again = true;
    }
}

// Futures.

enum phase { FRESH, WAITING, READY }; // weft__waiter_init() makes it FRESH

struct sync_future {
    struct weft_future future;
    struct weft__waiter waiter;
};
_Static_assert(sizeof(struct sync_future) <= sizeof(struct weft_sync_future), "public size");

static enum weft_poll ready(struct sync_future *sync, int64_t result)
{
    sync->future.result = result;
    sync->waiter.phase = READY;
    return WEFT_READY;
}

static enum weft_poll start(struct sync_future *sync, const weft_waker *waker)
{
    struct weft__waiter *waiter = &sync->waiter;
    int rc = waiter->ops->attempt(waiter);
    if (rc != WEFT__SYNC_WAITS) {
        return ready(sync, rc);
    }
    weft__wait_init(&waiter->wait, NULL, waiter->ops->mode, waiter->ops->what);
    waiter->is_future = true;
    weft__bell_set(&waiter->bell, waker);
    waiter->phase = WAITING;
    rc = waiter->ops->enter(waiter);
    if (rc != WEFT__SYNC_WAITS) {
        weft__bell_drop(&waiter->bell);
        return ready(sync, rc);
    }
    return WEFT_PENDING;
}

/// It was chosen.
static enum weft_poll chosen(struct sync_future *sync, const weft_waker *waker)
{
    struct weft__waiter *waiter = &sync->waiter;
    if (sync->waiter.cancelled && waiter->ops->undo != NULL) {
        waiter->ops->undo(waiter);
        return ready(sync, -ECANCELED);
    }
    if (waiter->wait.result != WEFT__SYNC_AGAIN) {
        return ready(sync, waiter->wait.result);
    }
    waiter->again = true;
    return start(sync, waker);
}

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct sync_future *sync = weft__container_of(future, struct sync_future, future);
    if (sync->waiter.phase == READY) {
        return WEFT_READY;
    }
    if (sync->waiter.phase == FRESH) {
        return sync->waiter.cancelled ? ready(sync, -ECANCELED) : start(sync, waker);
    }
    return weft__bell_rung(&sync->waiter.bell, waker) ? chosen(sync, waker) : WEFT_PENDING;
}

/// The result of a wait that was withdrawn, or WAITS: it is too late.
static int withdraw(struct weft__waiter *waiter)
{
    uint32_t open = WEFT__WAIT_OPEN;
    if (waiter->wait.mode == WEFT__WAIT_ASK) {
        waiter->wait.why = -ECANCELED;
        waiter->wait.ask(&waiter->wait);
        uint32_t state = atomic_load_explicit(&waiter->wait.state, memory_order_relaxed);
        return state == WEFT__WAIT_DONE ? -ECANCELED : WEFT__SYNC_WAITS;
    }
    if (!atomic_compare_exchange_strong_explicit(&waiter->wait.state, &open, WEFT__WAIT_DONE,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return WEFT__SYNC_WAITS;
    }
    return waiter->ops->leave(waiter, -ECANCELED);
}

static void cancel(struct weft_future *future)
{
    struct sync_future *sync = weft__container_of(future, struct sync_future, future);
    struct weft__waiter *waiter = &sync->waiter;
    sync->waiter.cancelled = true;
    int rc = waiter->phase == WAITING ? withdraw(waiter) : WEFT__SYNC_WAITS;
    if (rc != WEFT__SYNC_WAITS) {
        (void)ready(sync, rc);
        weft__bell_ring(&waiter->bell);
    }
}

struct weft__waiter *weft__sync_future_init(struct weft_sync_future *future,
                                            const struct weft__sync_ops *ops, void *object,
                                            struct weft__lock *lock)
{
    struct sync_future *sync = (struct sync_future *)(void *)future;
    struct weft__waiter *waiter = &sync->waiter;
    weft_future_init(&sync->future, poll, cancel);
    weft__waiter_init(waiter, ops, object, lock); // FRESH
    // Member by member: all at once is so much that compilers clear it with an instruction (rep stos) that
    // takes longer than all the rest.
    waiter->wait = (struct weft__wait){ 0 };
    waiter->next = NULL;
    waiter->prev = NULL;
    waiter->bell = (struct weft__bell){ 0 };
    waiter->want = 0;
    waiter->chosen = NULL;
    return waiter;
}
