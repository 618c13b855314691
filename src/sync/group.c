// group.c - a counter, and those who wait until it is zero.
//
//     word:  count << 1 | QUEUED
//
//   G1  The step to zero that finds QUEUED is made under the lock, together with taking everybody
//       out of the queue. So a counter that grows again at once does not fool those who wait, and
//       wakes nobody who came after that.
//   G2  All other steps are made outside of it, also while QUEUED is set.
//
// Lock: group.lock. Checked by: tests/model/event_model.c, tests/api/barrier_test.c.
#include <weft/barrier.h>

#include <errno.h>

#include "sync/waiter.h"

#define QUEUED UINT64_C(1)
#define ONE UINT64_C(2)

struct group {
    _Atomic uint64_t word;
    struct weft__lock lock;
    struct weft__queue queue; // under lock
};
_Static_assert(sizeof(struct group) <= sizeof(struct weft_wait_group), "public size");

static struct group *of(struct weft_wait_group *group)
{
    return (struct group *)(void *)group;
}

void weft_wait_group_init(struct weft_wait_group *group)
{
    *of(group) = (struct group){ 0 };
}

int weft_wait_group_fini(struct weft_wait_group *public_group)
{
    struct group *group = of(public_group);
    bool deserted = weft__sync_deserted(&group->lock, &group->queue);
    bool zero = atomic_load_explicit(&group->word, memory_order_acquire) == 0;
    return deserted && zero ? 0 : -EBUSY;
}

uint64_t weft_wait_group_count(const struct weft_wait_group *group)
{
    const struct group *ours = (const struct group *)(const void *)group;
    return atomic_load_explicit(&ours->word, memory_order_acquire) / ONE;
}

int weft_wait_group_add(struct weft_wait_group *public_group, uint32_t count)
{
    struct group *group = of(public_group);
    uint64_t word = atomic_load_explicit(&group->word, memory_order_relaxed);
    do {
        if (count > UINT64_MAX / ONE - word / ONE) {
            return -EOVERFLOW;
        }
    } while (!atomic_compare_exchange_weak_explicit(&group->word, &word, word + count * ONE,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 0;
}

/// G1
static void done_queued(struct group *group)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&group->lock);
    uint64_t word = atomic_load_explicit(&group->word, memory_order_relaxed);
    uint64_t next;
    do {
        next = word - ONE == QUEUED ? 0 : word - ONE;
    } while (!atomic_compare_exchange_weak_explicit(&group->word, &word, next, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (next == 0) {
        weft__queue_choose_all(&group->queue, 0, &batch);
    }
    weft__lock_release(&group->lock);
    weft__batch_finish(&batch);
}

void weft_wait_group_done(struct weft_wait_group *public_group)
{
    struct group *group = of(public_group);
    uint64_t word = atomic_load_explicit(&group->word, memory_order_relaxed);
    do {
        weft_assert(word >= ONE && "a wait group was done more often than it was added to");
        if (word == (ONE | QUEUED)) {
            done_queued(group);
            return;
        }
    } while (!atomic_compare_exchange_weak_explicit(&group->word, &word, word - ONE,
                                                    memory_order_release, memory_order_relaxed));
}

static int attempt(struct weft__waiter *waiter)
{
    return weft_wait_group_count(waiter->object) == 0 ? 0 : WEFT__SYNC_WAITS;
}

static int enter(struct weft__waiter *waiter)
{
    struct group *group = waiter->object;
    weft__lock_acquire(&group->lock);
    uint64_t word = atomic_load_explicit(&group->word, memory_order_acquire);
    while (word / ONE != 0) {
        if (atomic_compare_exchange_weak_explicit(&group->word, &word, word | QUEUED,
                                                  memory_order_acquire, memory_order_acquire)) {
            weft__queue_push(&group->queue, waiter);
            break;
        }
    }
    weft__lock_release(&group->lock);
    return word / ONE == 0 ? 0 : WEFT__SYNC_WAITS;
}

static int leave(struct weft__waiter *waiter, int why)
{
    struct group *group = waiter->object;
    weft__lock_acquire(&group->lock);
    (void)weft__queue_remove(&group->queue, waiter);
    if (group->queue.first == NULL) {
        atomic_fetch_and_explicit(&group->word, ~QUEUED, memory_order_relaxed);
    }
    weft__lock_release(&group->lock);
    return why;
}

static const struct weft__sync_ops wait_ops = {
    .what = "wait group",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = enter,
    .leave = leave,
    .undo = NULL, // nobody else is owed the zero
};

int weft_wait_group_wait(struct weft_wait_group *public_group, weft_time deadline)
{
    struct group *group = of(public_group);
    struct weft__waiter waiter;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0 || weft_wait_group_count(public_group) == 0) {
        return rc;
    }
    weft__waiter_init(&waiter, &wait_ops, group, &group->lock);
    return weft__sync_wait(&waiter, self, deadline);
}

void weft_wait_group_wait_future(struct weft_sync_future *future, struct weft_wait_group *group)
{
    (void)weft__sync_future_init(future, &wait_ops, of(group), &of(group)->lock);
}
