// chan.c - a ring of items under a lock, with a queue of waiters on each side.
//
//   C1  Items are moved only under the lock, which is never held across a park or a wake. A waiter
//       that was claimed stays where it is (sync/queue.h, Q2), so its item may be copied then.
//   C2  If receivers wait, the ring is empty, and nobody waits with an item (but a select at
//       capacity 0 may wait on both sides). If anybody waits with an item or for a permit, the ring
//       and the permits fill the capacity.
//   C3  Whoever makes room gives it to the first that waits on the senders' side: an item goes to
//       the end of the ring, a permit takes the room away again. Whoever brings an item gives it to
//       the first receiver that waits. So items stay in order, and at capacity 0 they go from hand
//       to hand by the same rules.
//   C4  After a close nobody waits.
//   C5  A permit is room that only its owner may fill, and nothing else: the item comes with the
//       commit and has its place in the order from then on. So a slow owner holds up nobody.
//
// Not done: a lock-free ring. Between tasks of one carrier an item costs 17 ns with the lock; between
// two carriers it costs 400, of which the kernel has nine tenths to wake the other CPU and this file 3%
// (weft-bench chan-stream, chan-stream-2). And it could not hand items over under selects.
// Lock: chan.lock. Checked by: tests/model/chan_model.c, tests/api/chan_test.c.
#include <weft/chan.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "chan/case.h"
#include "chan/wait.h"

/// waiter.kind: what it waits for on the senders' side.
enum { WITH_ITEM, FOR_PERMIT };

struct weft_chan {
    // Fixed.
    size_t item_bytes;
    size_t capacity;

    struct weft__lock lock;
    // Under lock.
    bool closed;
    size_t first; // where the oldest item is
    size_t len;
    size_t limit;               // of `len`: the capacity without the permits
    struct weft__queue senders; // waiter.kind tells with what
    struct weft__queue receivers;
    unsigned char ring[] __attribute__((aligned(16)));
};

int weft_chan_create(weft_chan **chan, size_t item_bytes, size_t capacity)
{
    *chan = NULL;
    size_t most = (PTRDIFF_MAX - sizeof(weft_chan)) / (item_bytes > 0 ? item_bytes : 1);
    if (item_bytes == 0 || capacity > most) {
        return -EINVAL;
    }
    weft_chan *made = weft__alloc(NULL, sizeof *made + item_bytes * capacity, 16);
    if (made == NULL) {
        return -ENOMEM;
    }
    made->item_bytes = item_bytes;
    made->capacity = capacity;
    made->limit = capacity;
    *chan = made;
    return 0;
}

int weft_chan_destroy(weft_chan *chan)
{
    if (chan == NULL) {
        return 0;
    }
    weft__lock_acquire(&chan->lock);
    bool busy = chan->senders.first != NULL || chan->receivers.first != NULL ||
                chan->limit != chan->capacity;
    weft__lock_release(&chan->lock);
    if (busy) {
        return -EBUSY;
    }
    weft__free(NULL, chan, sizeof *chan + chan->item_bytes * chan->capacity);
    return 0;
}

/// Words are what most channels carry.
static inline void copy_item(const weft_chan *chan, void *to, const void *from)
{
    if (weft__likely(chan->item_bytes == sizeof(uint64_t))) {
        memcpy(to, from, sizeof(uint64_t));
    } else {
        memcpy(to, from, chan->item_bytes);
    }
}

static void *item_of(const struct weft__waiter *waiter)
{
    return (void *)(uintptr_t)waiter->want; // NOLINT(performance-no-int-to-ptr)
}

static inline unsigned char *slot(weft_chan *chan, size_t index)
{
    size_t wrapped = index < chan->capacity ? index : index - chan->capacity;
    return chan->ring + wrapped * chan->item_bytes;
}

static inline void push(weft_chan *chan, const void *item)
{
    copy_item(chan, slot(chan, chan->first + chan->len), item);
    chan->len++;
}

/// Gives the item to the first receiver that waits, if there is one. Under lock.
static inline bool hand_over(weft_chan *chan, const void *item, struct weft__batch *batch)
{
    while (chan->receivers.first != NULL) {
        struct weft__waiter *receiver = chan->receivers.first;
        if (weft__queue_choose(&chan->receivers, receiver, 0, batch)) {
            copy_item(chan, item_of(receiver), item);
            return true;
        }
    }
    return false;
}

/// Sends at once: 0, -EPIPE, or WAITS. Under lock.
static inline int send_now(weft_chan *chan, const void *item, struct weft__batch *batch)
{
    if (weft__unlikely(chan->closed)) {
        return -EPIPE;
    }
    if (hand_over(chan, item, batch)) {
        return 0;
    }
    if (chan->len >= chan->limit) {
        return WEFT__SYNC_WAITS;
    }
    push(chan, item);
    return 0;
}

/// C3: gives room to those that wait for it. Under lock.
static void fill_room(weft_chan *chan, struct weft__batch *batch)
{
    while (chan->senders.first != NULL && chan->len < chan->limit) {
        struct weft__waiter *sender = chan->senders.first;
        if (!weft__queue_choose(&chan->senders, sender, 0, batch)) {
            continue;
        }
        if (sender->kind == FOR_PERMIT) {
            chan->limit--;
        } else {
            push(chan, item_of(sender));
        }
    }
}

/// The first that waits with an item, claimed; or NULL. The ring is empty. Under lock.
static struct weft__waiter *next_sender(weft_chan *chan, struct weft__batch *batch)
{
    struct weft__waiter *sender = chan->senders.first;
    while (sender != NULL) {
        struct weft__waiter *next = sender->next;
        if (sender->kind == WITH_ITEM && weft__queue_choose(&chan->senders, sender, 0, batch)) {
            return sender;
        }
        sender = next;
    }
    return NULL;
}

/// Receives at once: 0, -EPIPE, or WAITS. Under lock.
static inline int recv_now(weft_chan *chan, void *item, struct weft__batch *batch)
{
    if (chan->len > 0) {
        copy_item(chan, item, slot(chan, chan->first));
        chan->first = chan->first + 1 == chan->capacity ? 0 : chan->first + 1;
        chan->len--;
        fill_room(chan, batch);
        return 0;
    }
    struct weft__waiter *sender = next_sender(chan, batch);
    if (sender != NULL) {
        copy_item(chan, item, item_of(sender));
        return 0;
    }
    return chan->closed ? -EPIPE : WEFT__SYNC_WAITS;
}

static inline void finish(weft_chan *chan, struct weft__batch *batch)
{
    weft__lock_release(&chan->lock);
    if (batch->first != NULL) {
        weft__batch_finish(batch);
    }
}

static int try_send(weft_chan *chan, const void *item)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&chan->lock);
    int rc = send_now(chan, item, &batch);
    finish(chan, &batch);
    return rc;
}

static int try_recv(void *item, weft_chan *chan)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&chan->lock);
    int rc = recv_now(chan, item, &batch);
    finish(chan, &batch);
    return rc;
}

static int send_attempt(struct weft__waiter *waiter)
{
    return try_send(waiter->object, item_of(waiter));
}

static int recv_attempt(struct weft__waiter *waiter)
{
    return try_recv(item_of(waiter), waiter->object);
}

static int send_check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    return send_now(waiter->object, item_of(waiter), batch);
}

static int recv_check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    return recv_now(waiter->object, item_of(waiter), batch);
}

static int send_enlist(struct weft__waiter *waiter)
{
    weft_chan *chan = waiter->object;
    waiter->kind = WITH_ITEM;
    weft__queue_push(&chan->senders, waiter);
    return WEFT__SYNC_WAITS;
}

static inline int recv_enlist(struct weft__waiter *waiter)
{
    weft_chan *chan = waiter->object;
    weft__queue_push(&chan->receivers, waiter);
    return WEFT__SYNC_WAITS;
}

static void send_unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    weft_chan *chan = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&chan->senders, waiter);
}

static void recv_unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    weft_chan *chan = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&chan->receivers, waiter);
}

static const struct weft__sync_ops send_ops = {
    .what = "channel, to send",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = send_attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // somebody may have received it already
    .check = send_check,
    .enlist = send_enlist,
    .unlist = send_unlist,
};

static const struct weft__sync_ops recv_ops = {
    .what = "channel, to receive",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = recv_attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // the item would be lost, or out of order
    .check = recv_check,
    .enlist = recv_enlist,
    .unlist = recv_unlist,
};

/// Under lock, which it releases.
static inline int wait(weft_chan *chan, const struct weft__sync_ops *ops, const void *item,
                       struct weft__task *self, weft_time deadline)
{
    struct weft__waiter waiter;
    weft__waiter_init(&waiter, ops, chan, &chan->lock);
    waiter.want = (uintptr_t)item;
    return weft__chan_wait(&waiter, ops, self, deadline);
}

// Out of line, so that calls that need not wait have small frames.

WEFT__NOINLINE static int send_wait(weft_chan *chan, const void *item, struct weft__task *self,
                                    weft_time deadline)
{
    return wait(chan, &send_ops, item, self, deadline);
}

WEFT__NOINLINE static int recv_wait(weft_chan *chan, void *item, struct weft__task *self,
                                    weft_time deadline)
{
    return wait(chan, &recv_ops, item, self, deadline);
}

int weft_chan_send(weft_chan *chan, const void *item, weft_time deadline)
{
    struct weft__batch batch;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0) {
        return rc;
    }
    weft__batch_init(&batch);
    weft__lock_acquire(&chan->lock);
    rc = send_now(chan, item, &batch);
    if (rc == WEFT__SYNC_WAITS) {
        return send_wait(chan, item, self, deadline);
    }
    finish(chan, &batch);
    return rc;
}

int weft_chan_recv(void *item, weft_chan *chan, weft_time deadline)
{
    struct weft__batch batch;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0) {
        return rc;
    }
    weft__batch_init(&batch);
    weft__lock_acquire(&chan->lock);
    rc = recv_now(chan, item, &batch);
    if (rc == WEFT__SYNC_WAITS) {
        return recv_wait(chan, item, self, deadline);
    }
    finish(chan, &batch);
    return rc;
}

int weft_chan_try_send(weft_chan *chan, const void *item)
{
    int rc = try_send(chan, item);
    return rc != WEFT__SYNC_WAITS ? rc : -EAGAIN;
}

int weft_chan_try_recv(void *item, weft_chan *chan)
{
    int rc = try_recv(item, chan);
    return rc != WEFT__SYNC_WAITS ? rc : -EAGAIN;
}

void weft_chan_close(weft_chan *chan)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&chan->lock);
    chan->closed = true;
    weft__queue_choose_all(&chan->senders, -EPIPE, &batch);
    weft__queue_choose_all(&chan->receivers, -EPIPE, &batch);
    finish(chan, &batch);
}

size_t weft_chan_len(weft_chan *chan)
{
    weft__lock_acquire(&chan->lock);
    size_t len = chan->len;
    weft__lock_release(&chan->lock);
    return len;
}

size_t weft_chan_capacity(const weft_chan *chan)
{
    return chan->capacity;
}

bool weft_chan_is_closed(weft_chan *chan)
{
    weft__lock_acquire(&chan->lock);
    bool closed = chan->closed;
    weft__lock_release(&chan->lock);
    return closed;
}

void weft_chan_send_future(struct weft_sync_future *future, weft_chan *chan, const void *item)
{
    struct weft__waiter *waiter = weft__sync_future_init(future, &send_ops, chan, &chan->lock);
    waiter->want = (uintptr_t)item;
}

void weft_chan_recv_future(struct weft_sync_future *future, void *item, weft_chan *chan)
{
    struct weft__waiter *waiter = weft__sync_future_init(future, &recv_ops, chan, &chan->lock);
    waiter->want = (uintptr_t)item;
}

// Permits.

/// A permit at once: 0, -EPIPE, or WAITS. Under lock.
static inline int reserve_now(weft_chan *chan)
{
    if (weft__unlikely(chan->capacity == 0)) {
        return -EINVAL;
    }
    if (chan->closed) {
        return -EPIPE;
    }
    if (chan->len >= chan->limit) {
        return WEFT__SYNC_WAITS;
    }
    chan->limit--;
    return 0;
}

static int try_reserve(weft_chan *chan)
{
    weft__lock_acquire(&chan->lock);
    int rc = reserve_now(chan);
    weft__lock_release(&chan->lock);
    return rc;
}

static int reserve_attempt(struct weft__waiter *waiter)
{
    return try_reserve(waiter->object);
}

static int reserve_check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    (void)batch;
    return reserve_now(waiter->object);
}

static int reserve_enlist(struct weft__waiter *waiter)
{
    weft_chan *chan = waiter->object;
    waiter->kind = FOR_PERMIT;
    weft__queue_push(&chan->senders, waiter);
    return WEFT__SYNC_WAITS;
}

static void give_back(weft_chan *chan, struct weft__batch *batch)
{
    weft_assert(chan->limit < chan->capacity); // a permit was taken
    chan->limit++;
    fill_room(chan, batch);
}

void weft_chan_abort(weft_chan *chan)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&chan->lock);
    give_back(chan, &batch);
    finish(chan, &batch);
}

static void reserve_undo(struct weft__waiter *waiter)
{
    if (waiter->wait.result == 0) {
        weft_chan_abort(waiter->object);
    }
}

static const struct weft__sync_ops reserve_ops = {
    .what = "channel, for a permit",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = reserve_attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = reserve_undo,
    .check = reserve_check,
    .enlist = reserve_enlist,
    .unlist = send_unlist,
};

int weft_chan_reserve(weft_chan *chan, weft_time deadline)
{
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0 || chan->capacity == 0) {
        return rc < 0 ? rc : -EINVAL;
    }
    weft__lock_acquire(&chan->lock);
    rc = reserve_now(chan);
    if (rc == WEFT__SYNC_WAITS) {
        return wait(chan, &reserve_ops, NULL, self, deadline);
    }
    weft__lock_release(&chan->lock);
    return rc;
}

int weft_chan_try_reserve(weft_chan *chan)
{
    int rc = try_reserve(chan);
    return rc != WEFT__SYNC_WAITS ? rc : -EAGAIN;
}

int weft_chan_commit(weft_chan *chan, const void *item)
{
    struct weft__batch batch;
    int rc = 0;
    weft__batch_init(&batch);
    weft__lock_acquire(&chan->lock);
    if (chan->closed) {
        rc = -EPIPE;
    } else if (!hand_over(chan, item, &batch)) {
        push(chan, item); // into the room that the permit kept, which is taken now
    }
    give_back(chan, &batch);
    finish(chan, &batch);
    return rc;
}

void weft_chan_reserve_future(struct weft_sync_future *future, weft_chan *chan)
{
    (void)weft__sync_future_init(future, &reserve_ops, chan, &chan->lock);
}

// Cases of a select.

void weft__chan_send_case(struct weft__waiter *waiter, weft_chan *chan, uint64_t item)
{
    weft__waiter_init(waiter, &send_ops, chan, &chan->lock);
    waiter->want = item;
}

void weft__chan_recv_case(struct weft__waiter *waiter, weft_chan *chan, uint64_t item)
{
    weft__waiter_init(waiter, &recv_ops, chan, &chan->lock);
    waiter->want = item;
}

void weft__chan_reserve_case(struct weft__waiter *waiter, weft_chan *chan)
{
    weft__waiter_init(waiter, &reserve_ops, chan, &chan->lock);
}
