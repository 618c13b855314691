// broadcast.c - a ring of the last items under a lock, and a place in it for each receiver.
//
//     ring:   | ... | oldest kept | ... | latest |            sent: how many ever were
//                      ^ receiver.next: how many this one has had or missed
//
//   R1  Items, places and waiters change only under the lock, which is never held across a park or a
//       wake.
//   R2  A receiver waits only when it has had everything; so a send gives the item to all that wait
//       and moves their places on. It cannot miss anything while it waits.
//   R3  A place that is older than what the ring keeps is moved to the oldest when its owner looks;
//       senders do not know who lags.
//   R4  One waits with a receiver at a time: the place is moved once for each item.
//
// Rejected: slots that are read without the lock and checked afterwards: a copy that may be torn is
// a data race.
// Lock: broadcast.lock. Checked by: tests/api/broadcast_test.c, tests/model/broadcast_model.c.
#include <weft/broadcast.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "chan/case.h"
#include "chan/wait.h"

struct weft_broadcast {
    // Fixed.
    size_t item_bytes;
    size_t capacity;

    struct weft__lock lock;
    // Under lock.
    bool closed;
    uint32_t receivers;
    uint64_t sent;
    size_t next_slot; // sent modulo capacity
    struct weft__queue waiting;
    unsigned char ring[] __attribute__((aligned(16)));
};

struct receiver {
    weft_broadcast *broadcast; // fixed while subscribed
    // Under the channel's lock.
    uint64_t next;
    bool waits;
};
_Static_assert(sizeof(struct receiver) <= sizeof(struct weft_broadcast_receiver), "public size");

static struct receiver *of(struct weft_broadcast_receiver *receiver)
{
    return (struct receiver *)(void *)receiver;
}

int weft_broadcast_create(weft_broadcast **broadcast, size_t item_bytes, size_t capacity)
{
    *broadcast = NULL;
    if (item_bytes == 0 || capacity == 0 ||
        capacity > (PTRDIFF_MAX - sizeof(weft_broadcast)) / item_bytes) {
        return -EINVAL;
    }
    weft_broadcast *made = weft__alloc(NULL, sizeof *made + item_bytes * capacity, 16);
    if (made == NULL) {
        return -ENOMEM;
    }
    made->item_bytes = item_bytes;
    made->capacity = capacity;
    *broadcast = made;
    return 0;
}

int weft_broadcast_destroy(weft_broadcast *broadcast)
{
    if (broadcast == NULL) {
        return 0;
    }
    weft__lock_acquire(&broadcast->lock);
    bool busy = broadcast->receivers > 0;
    weft__lock_release(&broadcast->lock);
    if (busy) {
        return -EBUSY;
    }
    weft__free(NULL, broadcast, sizeof *broadcast + broadcast->item_bytes * broadcast->capacity);
    return 0;
}

void weft_broadcast_subscribe(struct weft_broadcast_receiver *receiver, weft_broadcast *broadcast)
{
    weft__lock_acquire(&broadcast->lock);
    *of(receiver) = (struct receiver){ .broadcast = broadcast, .next = broadcast->sent };
    broadcast->receivers++;
    weft__lock_release(&broadcast->lock);
}

int weft_broadcast_unsubscribe(struct weft_broadcast_receiver *receiver)
{
    weft_broadcast *broadcast = of(receiver)->broadcast;
    weft__lock_acquire(&broadcast->lock);
    bool busy = of(receiver)->waits;
    if (!busy) {
        weft_assert(broadcast->receivers > 0);
        broadcast->receivers--;
    }
    weft__lock_release(&broadcast->lock);
    return busy ? -EBUSY : 0;
}

static inline void copy_item(const weft_broadcast *broadcast, void *to, const void *from)
{
    if (weft__likely(broadcast->item_bytes == sizeof(uint64_t))) {
        memcpy(to, from, sizeof(uint64_t));
    } else {
        memcpy(to, from, broadcast->item_bytes);
    }
}

static void *item_of(const struct weft__waiter *waiter)
{
    return (void *)(uintptr_t)waiter->want; // NOLINT(performance-no-int-to-ptr)
}

/// R2. Under lock.
static void hand_over(weft_broadcast *broadcast, const void *item, struct weft__batch *batch)
{
    while (broadcast->waiting.first != NULL) {
        struct weft__waiter *waiter = broadcast->waiting.first;
        struct receiver *receiver = waiter->object;
        receiver->waits = false;
        if (weft__queue_choose(&broadcast->waiting, waiter, 0, batch)) {
            copy_item(broadcast, item_of(waiter), item);
            receiver->next++;
        }
    }
}

int weft_broadcast_send(weft_broadcast *broadcast, const void *item)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&broadcast->lock);
    if (broadcast->closed) {
        weft__lock_release(&broadcast->lock);
        return -EPIPE;
    }
    copy_item(broadcast, broadcast->ring + broadcast->next_slot * broadcast->item_bytes, item);
    broadcast->next_slot++;
    if (broadcast->next_slot == broadcast->capacity) {
        broadcast->next_slot = 0;
    }
    hand_over(broadcast, item, &batch);
    broadcast->sent++;
    int receivers = (int)broadcast->receivers;
    weft__lock_release(&broadcast->lock);
    if (batch.first != NULL) {
        weft__batch_finish(&batch);
    }
    return receivers;
}

void weft_broadcast_close(weft_broadcast *broadcast)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&broadcast->lock);
    broadcast->closed = true;
    for (struct weft__waiter *w = broadcast->waiting.first; w != NULL; w = w->next) {
        ((struct receiver *)w->object)->waits = false;
    }
    weft__queue_choose_all(&broadcast->waiting, -EPIPE, &batch);
    weft__lock_release(&broadcast->lock);
    weft__batch_finish(&batch);
}

bool weft_broadcast_is_closed(weft_broadcast *broadcast)
{
    weft__lock_acquire(&broadcast->lock);
    bool closed = broadcast->closed;
    weft__lock_release(&broadcast->lock);
    return closed;
}

/// Where the item is that is `back` items older than the one that comes next. Under lock.
static unsigned char *slot_back(weft_broadcast *broadcast, uint64_t back)
{
    size_t slot = broadcast->next_slot + (broadcast->next_slot < back ? broadcast->capacity : 0);
    return broadcast->ring + (slot - (size_t)back) * broadcast->item_bytes;
}

/// Receives at once: how many were missed, an error, or WAITS. Under lock.
static int recv_now(struct receiver *receiver, void *item)
{
    weft_broadcast *broadcast = receiver->broadcast;
    uint64_t behind = broadcast->sent - receiver->next;
    uint64_t missed = 0;
    if (receiver->waits) {
        return -EBUSY; // R4
    }
    if (behind == 0) {
        return broadcast->closed ? -EPIPE : WEFT__SYNC_WAITS;
    }
    if (weft__unlikely(behind > broadcast->capacity)) {
        missed = behind - broadcast->capacity; // R3
        behind = broadcast->capacity;
    }
    copy_item(broadcast, item, slot_back(broadcast, behind));
    receiver->next += missed + 1;
    return missed < WEFT__SYNC_WAITS ? (int)missed : WEFT__SYNC_WAITS - 1;
}

static int try_recv(void *item, struct receiver *receiver)
{
    weft_broadcast *broadcast = receiver->broadcast;
    weft__lock_acquire(&broadcast->lock);
    int rc = recv_now(receiver, item);
    weft__lock_release(&broadcast->lock);
    return rc;
}

static int attempt(struct weft__waiter *waiter)
{
    return try_recv(item_of(waiter), waiter->object);
}

static int check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    (void)batch;
    return recv_now(waiter->object, item_of(waiter));
}

static int enlist(struct weft__waiter *waiter)
{
    struct receiver *receiver = waiter->object;
    receiver->waits = true;
    weft__queue_push(&receiver->broadcast->waiting, waiter);
    return WEFT__SYNC_WAITS;
}

static void unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct receiver *receiver = waiter->object;
    (void)batch;
    if (weft__queue_remove(&receiver->broadcast->waiting, waiter)) {
        receiver->waits = false;
    }
}

static const struct weft__sync_ops recv_ops = {
    .what = "broadcast",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // the item is where the caller wanted it
    .check = check,
    .enlist = enlist,
    .unlist = unlist,
};

/// Under lock, which it releases.
WEFT__NOINLINE static int wait(void *item, struct receiver *receiver, struct weft__task *self,
                               weft_time deadline)
{
    struct weft__waiter waiter;
    weft__waiter_init(&waiter, &recv_ops, receiver, &receiver->broadcast->lock);
    waiter.want = (uintptr_t)item;
    return weft__chan_wait(&waiter, &recv_ops, self, deadline);
}

int weft_broadcast_recv(void *item, struct weft_broadcast_receiver *receiver, weft_time deadline)
{
    weft_broadcast *broadcast = of(receiver)->broadcast;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0) {
        return rc;
    }
    weft__lock_acquire(&broadcast->lock);
    rc = recv_now(of(receiver), item);
    if (rc == WEFT__SYNC_WAITS) {
        return wait(item, of(receiver), self, deadline);
    }
    weft__lock_release(&broadcast->lock);
    return rc;
}

int weft_broadcast_try_recv(void *item, struct weft_broadcast_receiver *receiver)
{
    int rc = try_recv(item, of(receiver));
    return rc != WEFT__SYNC_WAITS ? rc : -EAGAIN;
}

size_t weft_broadcast_len(struct weft_broadcast_receiver *receiver)
{
    weft_broadcast *broadcast = of(receiver)->broadcast;
    weft__lock_acquire(&broadcast->lock);
    uint64_t behind = broadcast->sent - of(receiver)->next;
    weft__lock_release(&broadcast->lock);
    return behind < broadcast->capacity ? (size_t)behind : broadcast->capacity;
}

void weft_broadcast_recv_future(struct weft_sync_future *future, void *item,
                                struct weft_broadcast_receiver *receiver)
{
    struct weft__waiter *waiter = weft__sync_future_init(future, &recv_ops, of(receiver),
                                                         &of(receiver)->broadcast->lock);
    waiter->want = (uintptr_t)item;
}

void weft__broadcast_recv_case(struct weft__waiter *waiter,
                               struct weft_broadcast_receiver *receiver, uint64_t item)
{
    weft__waiter_init(waiter, &recv_ops, of(receiver), &of(receiver)->broadcast->lock);
    waiter->want = item;
}
