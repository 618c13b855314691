// oneshot.c - one value under a lock.
//
//   O1  The state goes only forward: EMPTY to SENT to TAKEN, or EMPTY to CLOSED. `closed` may be added
//       to SENT.
//   O2  The value is written once, under the lock, and read after it: who waits gets a copy while it
//       is claimed (sync/queue.h, Q2).
//   O3  Receivers wait only while EMPTY, and those who watch only until nobody needs a value.
//   O4  Nobody touches the oneshot after it has released the lock, so whoever learns that its partner
//       is done may take the lock once more (fini) and free it (base/lock.h, L1).
//
// Rejected: a word that is changed without the lock. Sending has to claim it, fill in the value and
// publish it, which is two read-modify-writes, just as many as the lock needs.
// Lock: oneshot.lock. Checked by: tests/model/oneshot_model.c, tests/api/oneshot_test.c.
#include <weft/oneshot.h>

#include <errno.h>
#include <string.h>

#include "chan/case.h"
#include "sync/waiter.h"

enum state { EMPTY, SENT, TAKEN };

struct oneshot {
    // Fixed.
    void *storage;
    size_t value_bytes;

    struct weft__lock lock;
    // Under lock.
    uint8_t state; // enum state
    bool closed;
    struct weft__queue receivers;
    struct weft__queue watchers;
};
_Static_assert(sizeof(struct oneshot) <= sizeof(struct weft_oneshot), "public size");

static struct oneshot *of(struct weft_oneshot *oneshot)
{
    return (struct oneshot *)(void *)oneshot;
}

void weft_oneshot_init(struct weft_oneshot *oneshot, void *storage, size_t value_bytes)
{
    *of(oneshot) = (struct oneshot){ .storage = storage, .value_bytes = value_bytes };
}

int weft_oneshot_fini(struct weft_oneshot *public_oneshot)
{
    struct oneshot *oneshot = of(public_oneshot);
    weft__lock_acquire(&oneshot->lock);
    bool busy = oneshot->receivers.first != NULL || oneshot->watchers.first != NULL;
    weft__lock_release(&oneshot->lock);
    return busy ? -EBUSY : 0;
}

static void copy_value(const struct oneshot *oneshot, void *to, const void *from)
{
    if (to != NULL && oneshot->value_bytes > 0) {
        memcpy(to, from, oneshot->value_bytes);
    }
}

static void *value_of(const struct weft__waiter *waiter)
{
    return (void *)(uintptr_t)waiter->want; // NOLINT(performance-no-int-to-ptr)
}

static void finish(struct oneshot *oneshot, struct weft__batch *batch)
{
    weft__lock_release(&oneshot->lock);
    if (batch->first != NULL) {
        weft__batch_finish(batch);
    }
}

/// The value is there: the first receiver that waits has it, the others will never. Under lock.
static void hand_over(struct oneshot *oneshot, struct weft__batch *batch)
{
    while (oneshot->state == SENT && oneshot->receivers.first != NULL) {
        struct weft__waiter *receiver = oneshot->receivers.first;
        if (weft__queue_choose(&oneshot->receivers, receiver, 0, batch)) {
            copy_value(oneshot, value_of(receiver), oneshot->storage);
            oneshot->state = TAKEN;
        }
    }
    if (oneshot->state == TAKEN) {
        weft__queue_choose_all(&oneshot->receivers, -EPIPE, batch);
        weft__queue_choose_all(&oneshot->watchers, 0, batch);
    }
}

int weft_oneshot_send(struct weft_oneshot *public_oneshot, const void *value)
{
    struct oneshot *oneshot = of(public_oneshot);
    struct weft__batch batch;
    int rc = 0;
    weft__batch_init(&batch);
    weft__lock_acquire(&oneshot->lock);
    if (oneshot->state != EMPTY) {
        rc = -EALREADY;
    } else if (oneshot->closed) {
        rc = -EPIPE;
    } else {
        copy_value(oneshot, oneshot->storage, value);
        oneshot->state = SENT;
        hand_over(oneshot, &batch);
    }
    finish(oneshot, &batch);
    return rc;
}

void weft_oneshot_close(struct weft_oneshot *public_oneshot)
{
    struct oneshot *oneshot = of(public_oneshot);
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&oneshot->lock);
    oneshot->closed = true;
    weft__queue_choose_all(&oneshot->receivers, -EPIPE, &batch);
    weft__queue_choose_all(&oneshot->watchers, 0, &batch);
    finish(oneshot, &batch);
}

/// Receives at once: 0, -EPIPE, or WAITS. Under lock.
static int recv_now(struct oneshot *oneshot, void *value, struct weft__batch *batch)
{
    if (oneshot->state == SENT) {
        copy_value(oneshot, value, oneshot->storage);
        oneshot->state = TAKEN;
        weft__queue_choose_all(&oneshot->watchers, 0, batch);
        return 0;
    }
    return oneshot->state == TAKEN || oneshot->closed ? -EPIPE : WEFT__SYNC_WAITS;
}

static int try_recv(void *value, struct oneshot *oneshot)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&oneshot->lock);
    int rc = recv_now(oneshot, value, &batch);
    finish(oneshot, &batch);
    return rc;
}

static int recv_attempt(struct weft__waiter *waiter)
{
    return try_recv(value_of(waiter), waiter->object);
}

static int recv_check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    return recv_now(waiter->object, value_of(waiter), batch);
}

static int recv_enlist(struct weft__waiter *waiter)
{
    struct oneshot *oneshot = waiter->object;
    weft__queue_push(&oneshot->receivers, waiter);
    return WEFT__SYNC_WAITS;
}

static void recv_unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct oneshot *oneshot = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&oneshot->receivers, waiter);
}

static const struct weft__sync_ops recv_ops = {
    .what = "oneshot",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = recv_attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // the value is where the caller wanted it
    .check = recv_check,
    .enlist = recv_enlist,
    .unlist = recv_unlist,
};

int weft_oneshot_recv(void *value, struct weft_oneshot *oneshot, weft_time deadline)
{
    struct weft__waiter waiter;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc == 0) {
        rc = try_recv(value, of(oneshot));
    }
    if (rc != WEFT__SYNC_WAITS) {
        return rc;
    }
    weft__waiter_init(&waiter, &recv_ops, of(oneshot), &of(oneshot)->lock);
    waiter.want = (uintptr_t)value;
    return weft__sync_wait(&waiter, self, deadline);
}

int weft_oneshot_try_recv(void *value, struct weft_oneshot *oneshot)
{
    int rc = try_recv(value, of(oneshot));
    return rc != WEFT__SYNC_WAITS ? rc : -EAGAIN;
}

void weft_oneshot_recv_future(struct weft_sync_future *future, void *value,
                              struct weft_oneshot *oneshot)
{
    struct weft__waiter *waiter = weft__sync_future_init(future, &recv_ops, of(oneshot),
                                                         &of(oneshot)->lock);
    waiter->want = (uintptr_t)value;
}

// Watching: a sender that wants to know whether it works for nothing.

/// Under lock.
static bool is_closed(const struct oneshot *oneshot)
{
    return oneshot->closed || oneshot->state == TAKEN;
}

bool weft_oneshot_is_closed(struct weft_oneshot *public_oneshot)
{
    struct oneshot *oneshot = of(public_oneshot);
    weft__lock_acquire(&oneshot->lock);
    bool closed = is_closed(oneshot);
    weft__lock_release(&oneshot->lock);
    return closed;
}

static int watch_attempt(struct weft__waiter *waiter)
{
    return weft_oneshot_is_closed(waiter->object) ? 0 : WEFT__SYNC_WAITS;
}

static int watch_check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    (void)batch;
    return is_closed(waiter->object) ? 0 : WEFT__SYNC_WAITS;
}

static int watch_enlist(struct weft__waiter *waiter)
{
    struct oneshot *oneshot = waiter->object;
    weft__queue_push(&oneshot->watchers, waiter);
    return WEFT__SYNC_WAITS;
}

static void watch_unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct oneshot *oneshot = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&oneshot->watchers, waiter);
}

static const struct weft__sync_ops watch_ops = {
    .what = "oneshot, to be closed",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = watch_attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // it was not given anything
    .check = watch_check,
    .enlist = watch_enlist,
    .unlist = watch_unlist,
};

int weft_oneshot_wait_closed(struct weft_oneshot *oneshot, weft_time deadline)
{
    struct weft__waiter waiter;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0 || weft_oneshot_is_closed(oneshot)) {
        return rc;
    }
    weft__waiter_init(&waiter, &watch_ops, of(oneshot), &of(oneshot)->lock);
    return weft__sync_wait(&waiter, self, deadline);
}

void weft_oneshot_wait_closed_future(struct weft_sync_future *future, struct weft_oneshot *oneshot)
{
    (void)weft__sync_future_init(future, &watch_ops, of(oneshot), &of(oneshot)->lock);
}

void weft__oneshot_recv_case(struct weft__waiter *waiter, struct weft_oneshot *oneshot,
                             uint64_t value)
{
    weft__waiter_init(waiter, &recv_ops, of(oneshot), &of(oneshot)->lock);
    waiter->want = value;
}

void weft__oneshot_closed_case(struct weft__waiter *waiter, struct weft_oneshot *oneshot)
{
    weft__waiter_init(waiter, &watch_ops, of(oneshot), &of(oneshot)->lock);
}
