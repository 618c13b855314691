// watch.c - the latest value, its generation, and who waits for another one.
//
//   W1  Values are read and replaced under the lock. The generation is changed there, too, but read
//       without it: who finds another one than he has seen need not wait. So it is stored with
//       release, after what it stands for.
//   W2  Who waits has seen the generation that is current; so a set lets all of them go.
//   W3  A value that is borrowed is not overwritten: the next set takes a free copy. A copy that is
//       returned is free unless it is the current one.
//   W4  After a close nobody waits.
//
// Rejected: reading the value like a seqlock does. Copies that may be torn are data races, and a
// lock that is free costs little more than the two fences.
// Lock: watch.lock. Checked by: tests/model/watch_model.c, tests/api/watch_test.c.
#include <weft/watch.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "chan/case.h"
#include "chan/wait.h"

/// One copy of a value.
struct copy {
    struct copy *next; // of the free ones
    size_t borrowed;
    unsigned char value[] __attribute__((aligned(16)));
};

struct weft_watch {
    // Fixed.
    size_t value_bytes;

    _Atomic uint64_t generation;
    struct weft__lock lock;
    // Under lock.
    bool closed;
    size_t borrowed; // in all copies
    struct copy *current;
    struct copy *free;
    struct weft__queue waiting;
};

static size_t copy_bytes(const weft_watch *watch)
{
    return sizeof(struct copy) + watch->value_bytes;
}

/// Words are what is watched most.
static inline void copy_value(const weft_watch *watch, void *to, const void *from)
{
    if (weft__likely(watch->value_bytes == sizeof(uint64_t))) {
        memcpy(to, from, sizeof(uint64_t));
    } else {
        memcpy(to, from, watch->value_bytes);
    }
}

static struct copy *make_copy(const weft_watch *watch)
{
    return weft__alloc(NULL, copy_bytes(watch), 16);
}

int weft_watch_create(weft_watch **watch, size_t value_bytes, const void *value)
{
    *watch = NULL;
    if (value_bytes == 0 || value_bytes > PTRDIFF_MAX - sizeof(struct copy)) {
        return -EINVAL;
    }
    weft_watch *made = weft__alloc(NULL, sizeof *made, 16);
    if (made == NULL) {
        return -ENOMEM;
    }
    made->value_bytes = value_bytes;
    made->current = make_copy(made);
    if (made->current == NULL) {
        weft__free(NULL, made, sizeof *made);
        return -ENOMEM;
    }
    memcpy(made->current->value, value, value_bytes);
    atomic_store_explicit(&made->generation, 1, memory_order_relaxed); // nobody else has it yet
    *watch = made;
    return 0;
}

int weft_watch_destroy(weft_watch *watch)
{
    if (watch == NULL) {
        return 0;
    }
    weft__lock_acquire(&watch->lock);
    bool busy = watch->waiting.first != NULL || watch->borrowed > 0;
    weft__lock_release(&watch->lock);
    if (busy) {
        return -EBUSY;
    }
    weft__free(NULL, watch->current, copy_bytes(watch));
    while (watch->free != NULL) {
        struct copy *copy = watch->free;
        watch->free = copy->next;
        weft__free(NULL, copy, copy_bytes(watch));
    }
    weft__free(NULL, watch, sizeof *watch);
    return 0;
}

/// W3: the copy that a new value may be written to, or NULL. Under lock.
static struct copy *writable(weft_watch *watch)
{
    struct copy *copy = watch->current;
    if (copy->borrowed == 0) {
        return copy;
    }
    copy = watch->free;
    if (copy != NULL) {
        watch->free = copy->next;
    }
    return copy;
}

/// Under lock.
static void publish(weft_watch *watch, struct copy *copy, const void *value,
                    struct weft__batch *batch)
{
    copy_value(watch, copy->value, value);
    watch->current = copy;
    uint64_t next = atomic_load_explicit(&watch->generation, memory_order_relaxed) + 1;
    atomic_store_explicit(&watch->generation, next, memory_order_release); // W1
    weft__queue_choose_all(&watch->waiting, 0, batch);
}

int weft_watch_set(weft_watch *watch, const void *value)
{
    struct weft__batch batch;
    struct copy *spare = NULL;
    weft__batch_init(&batch);
    for (;;) {
        weft__lock_acquire(&watch->lock);
        if (spare != NULL) {
            spare->next = watch->free;
            watch->free = spare;
        }
        if (watch->closed) {
            weft__lock_release(&watch->lock);
            return -EPIPE;
        }
        struct copy *copy = writable(watch);
        if (copy != NULL) {
            publish(watch, copy, value, &batch);
            weft__lock_release(&watch->lock);
            if (batch.first != NULL) {
                weft__batch_finish(&batch);
            }
            return 0;
        }
        weft__lock_release(&watch->lock);
        spare = make_copy(watch);
        if (spare == NULL) {
            return -ENOMEM;
        }
    }
}

void weft_watch_close(weft_watch *watch)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&watch->lock);
    watch->closed = true;
    weft__queue_choose_all(&watch->waiting, -EPIPE, &batch);
    weft__lock_release(&watch->lock);
    weft__batch_finish(&batch);
}

bool weft_watch_is_closed(weft_watch *watch)
{
    weft__lock_acquire(&watch->lock);
    bool closed = watch->closed;
    weft__lock_release(&watch->lock);
    return closed;
}

uint64_t weft_watch_generation(const weft_watch *watch)
{
    return atomic_load_explicit(&watch->generation, memory_order_acquire);
}

uint64_t weft_watch_get(void *value, weft_watch *watch)
{
    weft__lock_acquire(&watch->lock);
    copy_value(watch, value, watch->current->value);
    uint64_t generation = atomic_load_explicit(&watch->generation, memory_order_relaxed);
    weft__lock_release(&watch->lock);
    return generation;
}

const void *weft_watch_borrow(uint64_t *generation, weft_watch *watch)
{
    weft__lock_acquire(&watch->lock);
    struct copy *copy = watch->current;
    copy->borrowed++;
    watch->borrowed++;
    uint64_t now = atomic_load_explicit(&watch->generation, memory_order_relaxed);
    weft__lock_release(&watch->lock);
    if (generation != NULL) {
        *generation = now;
    }
    return copy->value;
}

void weft_watch_return(weft_watch *watch, const void *value)
{
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it was given away as const
    struct copy *copy = (struct copy *)((uintptr_t)value - offsetof(struct copy, value));
    weft__lock_acquire(&watch->lock);
    weft_assert(copy->borrowed > 0);
    watch->borrowed--;
    if (--copy->borrowed == 0 && copy != watch->current) {
        copy->next = watch->free;
        watch->free = copy;
    }
    weft__lock_release(&watch->lock);
}

// Waiting. waiter.want: the generation that was seen.

static int check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    weft_watch *watch = waiter->object;
    (void)batch;
    if (atomic_load_explicit(&watch->generation, memory_order_relaxed) != waiter->want) {
        return 0;
    }
    return watch->closed ? -EPIPE : WEFT__SYNC_WAITS;
}

static int attempt(struct weft__waiter *waiter)
{
    weft_watch *watch = waiter->object;
    if (weft_watch_generation(watch) != waiter->want) {
        return 0;
    }
    weft__lock_acquire(&watch->lock);
    int rc = check(waiter, NULL);
    weft__lock_release(&watch->lock);
    return rc;
}

static int enlist(struct weft__waiter *waiter)
{
    weft_watch *watch = waiter->object;
    weft__queue_push(&watch->waiting, waiter);
    return WEFT__SYNC_WAITS;
}

static void unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    weft_watch *watch = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&watch->waiting, waiter);
}

static const struct weft__sync_ops wait_ops = {
    .what = "watch",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // it was not given anything
    .check = check,
    .enlist = enlist,
    .unlist = unlist,
};

int weft_watch_wait(weft_watch *watch, uint64_t seen, weft_time deadline)
{
    struct weft__waiter waiter;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0 || weft_watch_generation(watch) != seen) {
        return rc;
    }
    weft__waiter_init(&waiter, &wait_ops, watch, &watch->lock);
    waiter.want = seen;
    return weft__chan_enter(&waiter, &wait_ops, self, deadline);
}

void weft_watch_wait_future(struct weft_sync_future *future, weft_watch *watch, uint64_t seen)
{
    struct weft__waiter *waiter = weft__sync_future_init(future, &wait_ops, watch, &watch->lock);
    waiter->want = seen;
}

void weft__watch_wait_case(struct weft__waiter *waiter, weft_watch *watch, uint64_t seen)
{
    weft__waiter_init(waiter, &wait_ops, watch, &watch->lock);
    waiter->want = seen;
}
