// mailbox.c - a list of segments: senders add under a lock, the receiver takes without it.
//
//     head segment                              tail segment
//     | taken | items ...  | --next--> ... --> | items ... | free |
//               ^ head_at = taken % segment                  ^ tail_at
//
// The danger: the receiver reads an item, or the link to the next segment, that is not written yet;
// or a segment is used again while it still reads there.
//
//   M1  Senders write the item and the links under the lock and count `sent` up last, with release. The
//       receiver loads it with acquire, and looks only at what it covers.
//   M2  The receiver's side belongs to whoever has `receiving`. That is held for the time of one
//       attempt, not while waiting; so it is also how two receivers at once find out.
//   M3  A segment is given up by the receiver, under the lock, when the last item in it was taken; by
//       then the list goes on behind it, because items behind it were sent. The tail is never given up.
//   M4  The receiver waits only when it has taken all: it looks once more under the lock. So a sender
//       that finds it waiting gives it the item, past the list.
//   M5  `taken` is the receiver's. Others read it for a length or a limit, which say nothing about
//       items: relaxed will do.
//
// Rejected: adding without a lock, by a fetch-and-add that names the slot. The slot needs a flag of
// its own then, somebody has to link segments while others wait for them, and senders still need the
// lock to find a receiver that waits: three read-modify-writes instead of the lock's two.
// Lock: mailbox.lock. Checked by: tests/model/mailbox_model.c, tests/api/mailbox_test.c.
#include <weft/mailbox.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "chan/case.h"
#include "chan/wait.h"

#define SEGMENT_BYTES WEFT__SIZED((size_t)1024, (size_t)16)
#define ITEMS_LEAST WEFT__SIZED((size_t)8, (size_t)2)
#define SPARES_MOST WEFT__SIZED(8u, 1u)
#define LINE 128

struct segment {
    struct segment *next;
    unsigned char items[] __attribute__((aligned(16)));
};

struct weft_mailbox {
    // Fixed.
    size_t item_bytes;
    size_t per_segment;
    uint64_t limit; // 0: none

    // The receiver's (M2).
    _Alignas(LINE) _Atomic uint32_t receiving;
    struct segment *head;
    size_t head_at;
    uint64_t known; // `sent` when it was last loaded
    _Atomic uint64_t taken;

    _Alignas(LINE) struct weft__lock lock;
    // Under lock.
    bool closed;
    uint32_t spares_used;
    _Atomic uint64_t sent; // read without it (M1)
    struct segment *tail;
    size_t tail_at;
    struct segment *spares;
    struct weft__queue receivers; // at most one
};

static size_t segment_bytes(const weft_mailbox *mailbox)
{
    return sizeof(struct segment) + mailbox->per_segment * mailbox->item_bytes;
}

static struct segment *make_segment(const weft_mailbox *mailbox)
{
    struct segment *made = weft__alloc_raw(NULL, segment_bytes(mailbox), 16);
    if (made != NULL) {
        made->next = NULL;
    }
    return made;
}

static void free_segments(const weft_mailbox *mailbox, struct segment *segment)
{
    while (segment != NULL) {
        struct segment *next = segment->next;
        weft__free(NULL, segment, segment_bytes(mailbox));
        segment = next;
    }
}

int weft_mailbox_create(weft_mailbox **mailbox, size_t item_bytes, size_t limit)
{
    *mailbox = NULL;
    if (item_bytes == 0 || item_bytes > (PTRDIFF_MAX - sizeof(struct segment)) / ITEMS_LEAST) {
        return -EINVAL;
    }
    weft_mailbox *made = weft__alloc(NULL, sizeof *made, LINE);
    if (made == NULL) {
        return -ENOMEM;
    }
    size_t fit = SEGMENT_BYTES / item_bytes;
    made->item_bytes = item_bytes;
    made->per_segment = fit > ITEMS_LEAST ? fit : ITEMS_LEAST;
    made->limit = limit;
    made->head = made->tail = make_segment(made);
    if (made->head == NULL) {
        weft__free(NULL, made, sizeof *made);
        return -ENOMEM;
    }
    *mailbox = made;
    return 0;
}

int weft_mailbox_destroy(weft_mailbox *mailbox)
{
    if (mailbox == NULL) {
        return 0;
    }
    weft__lock_acquire(&mailbox->lock);
    bool busy = mailbox->receivers.first != NULL ||
                atomic_load_explicit(&mailbox->receiving, memory_order_relaxed) != 0;
    weft__lock_release(&mailbox->lock);
    if (busy) {
        return -EBUSY;
    }
    free_segments(mailbox, mailbox->head); // to the tail
    free_segments(mailbox, mailbox->spares);
    weft__free(NULL, mailbox, sizeof *mailbox);
    return 0;
}

static inline void copy_item(const weft_mailbox *mailbox, void *to, const void *from)
{
    if (weft__likely(mailbox->item_bytes == sizeof(uint64_t))) {
        memcpy(to, from, sizeof(uint64_t));
    } else {
        memcpy(to, from, mailbox->item_bytes);
    }
}

static void *item_of(const struct weft__waiter *waiter)
{
    return (void *)(uintptr_t)waiter->want; // NOLINT(performance-no-int-to-ptr)
}

// Sending.

static bool is_full(weft_mailbox *mailbox, uint64_t sent)
{
    return mailbox->limit > 0 &&
           sent - atomic_load_explicit(&mailbox->taken, memory_order_relaxed) >= mailbox->limit;
}

/// Room for one item at the tail; false if there is no segment for it. Under lock.
static bool make_room(weft_mailbox *mailbox)
{
    if (weft__likely(mailbox->tail_at < mailbox->per_segment)) {
        return true;
    }
    struct segment *spare = mailbox->spares;
    if (spare == NULL) {
        return false;
    }
    mailbox->spares = spare->next;
    mailbox->spares_used--;
    spare->next = NULL;
    mailbox->tail->next = spare;
    mailbox->tail = spare;
    mailbox->tail_at = 0;
    return true;
}

/// Sends at once: 0, an error, or WAITS: another segment is needed. Under lock.
static inline int send_now(weft_mailbox *mailbox, const void *item, struct weft__batch *batch)
{
    uint64_t sent = atomic_load_explicit(&mailbox->sent, memory_order_relaxed);
    if (weft__unlikely(mailbox->closed)) {
        return -EPIPE;
    }
    while (mailbox->receivers.first != NULL) {
        struct weft__waiter *receiver = mailbox->receivers.first;
        if (weft__queue_choose(&mailbox->receivers, receiver, 0, batch)) {
            copy_item(mailbox, item_of(receiver), item); // M4
            return 0;
        }
    }
    if (is_full(mailbox, sent)) {
        return -ENOBUFS;
    }
    if (!make_room(mailbox)) {
        return WEFT__SYNC_WAITS;
    }
    copy_item(mailbox, mailbox->tail->items + mailbox->tail_at * mailbox->item_bytes, item);
    mailbox->tail_at++;
    atomic_store_explicit(&mailbox->sent, sent + 1, memory_order_release); // M1
    return 0;
}

/// Memory is not taken under the lock.
WEFT__NOINLINE static int add_segment(weft_mailbox *mailbox)
{
    struct segment *segment = make_segment(mailbox);
    if (segment == NULL) {
        return -ENOMEM;
    }
    weft__lock_acquire(&mailbox->lock);
    segment->next = mailbox->spares;
    mailbox->spares = segment;
    mailbox->spares_used++;
    weft__lock_release(&mailbox->lock);
    return 0;
}

int weft_mailbox_send(weft_mailbox *mailbox, const void *item)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    for (;;) {
        weft__lock_acquire(&mailbox->lock);
        int rc = send_now(mailbox, item, &batch);
        weft__lock_release(&mailbox->lock);
        if (batch.first != NULL) {
            weft__batch_finish(&batch);
        }
        if (weft__likely(rc != WEFT__SYNC_WAITS)) {
            return rc;
        }
        rc = add_segment(mailbox);
        if (rc < 0) {
            return rc;
        }
    }
}

void weft_mailbox_close(weft_mailbox *mailbox)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    weft__lock_acquire(&mailbox->lock);
    mailbox->closed = true;
    weft__queue_choose_all(&mailbox->receivers, -EPIPE, &batch);
    weft__lock_release(&mailbox->lock);
    weft__batch_finish(&batch);
}

bool weft_mailbox_is_closed(weft_mailbox *mailbox)
{
    weft__lock_acquire(&mailbox->lock);
    bool closed = mailbox->closed;
    weft__lock_release(&mailbox->lock);
    return closed;
}

size_t weft_mailbox_len(weft_mailbox *mailbox)
{
    // Nothing orders the two: an item may seem to be taken before it was sent.
    uint64_t taken = atomic_load_explicit(&mailbox->taken, memory_order_relaxed);
    uint64_t sent = atomic_load_explicit(&mailbox->sent, memory_order_relaxed);
    return sent > taken ? (size_t)(sent - taken) : 0;
}

// Receiving.

static inline bool receiving_begin(weft_mailbox *mailbox)
{
    return atomic_exchange_explicit(&mailbox->receiving, 1, memory_order_acquire) == 0;
}

static inline void receiving_end(weft_mailbox *mailbox)
{
    atomic_store_explicit(&mailbox->receiving, 0, memory_order_release);
}

/// M3: to the next segment.
WEFT__NOINLINE static void next_segment(weft_mailbox *mailbox, bool locked)
{
    struct segment *emptied = mailbox->head;
    mailbox->head = emptied->next;
    mailbox->head_at = 0;
    if (!locked) {
        weft__lock_acquire(&mailbox->lock);
    }
    bool keep = mailbox->spares_used < SPARES_MOST;
    if (keep) {
        emptied->next = mailbox->spares;
        mailbox->spares = emptied;
        mailbox->spares_used++;
    }
    if (!locked) {
        weft__lock_release(&mailbox->lock);
    }
    if (!keep) {
        weft__free(NULL, emptied, segment_bytes(mailbox));
    }
}

/// Takes the oldest item, if there is one. With or without the lock.
static inline bool take(weft_mailbox *mailbox, void *item, bool locked)
{
    uint64_t taken = atomic_load_explicit(&mailbox->taken, memory_order_relaxed);
    if (taken == mailbox->known) {
        mailbox->known = atomic_load_explicit(&mailbox->sent, memory_order_acquire); // M1
        if (taken == mailbox->known) {
            return false;
        }
    }
    if (weft__unlikely(mailbox->head_at == mailbox->per_segment)) {
        next_segment(mailbox, locked);
    }
    copy_item(mailbox, item, mailbox->head->items + mailbox->head_at * mailbox->item_bytes);
    mailbox->head_at++;
    atomic_store_explicit(&mailbox->taken, taken + 1, memory_order_relaxed); // M5
    return true;
}

/// The receiver has found nothing: what that means, or WAITS. Under lock.
static int why_nothing(weft_mailbox *mailbox)
{
    if (mailbox->receivers.first != NULL) {
        return -EBUSY;
    }
    if (atomic_load_explicit(&mailbox->sent, memory_order_relaxed) != mailbox->known) {
        return -EAGAIN; // since it has looked
    }
    return mailbox->closed ? -EPIPE : WEFT__SYNC_WAITS;
}

static inline int recv_now(void *item, weft_mailbox *mailbox)
{
    int rc;
    if (weft__unlikely(!receiving_begin(mailbox))) {
        return -EBUSY;
    }
    do {
        rc = 0;
        if (!take(mailbox, item, false)) {
            weft__lock_acquire(&mailbox->lock);
            rc = why_nothing(mailbox);
            weft__lock_release(&mailbox->lock);
        }
    } while (rc == -EAGAIN);
    receiving_end(mailbox);
    return rc;
}

static int attempt(struct weft__waiter *waiter)
{
    return recv_now(item_of(waiter), waiter->object);
}

/// M4: under the lock nothing is sent.
static int check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    weft_mailbox *mailbox = waiter->object;
    (void)batch;
    if (!receiving_begin(mailbox)) {
        return -EBUSY;
    }
    int rc = take(mailbox, item_of(waiter), true) ? 0 : why_nothing(mailbox);
    receiving_end(mailbox);
    return rc;
}

static int enlist(struct weft__waiter *waiter)
{
    weft_mailbox *mailbox = waiter->object;
    weft__queue_push(&mailbox->receivers, waiter);
    return WEFT__SYNC_WAITS;
}

static void unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    weft_mailbox *mailbox = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&mailbox->receivers, waiter);
}

static const struct weft__sync_ops recv_ops = {
    .what = "mailbox",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // the item would be lost, or out of order
    .check = check,
    .enlist = enlist,
    .unlist = unlist,
};

/// The receiver has found nothing without the lock: looks once more under it, and waits.
WEFT__NOINLINE static int wait(void *item, weft_mailbox *mailbox, struct weft__task *self,
                               weft_time deadline)
{
    struct weft__waiter waiter;
    weft__lock_acquire(&mailbox->lock);
    int rc = take(mailbox, item, true) ? 0 : why_nothing(mailbox);
    receiving_end(mailbox);
    if (rc != WEFT__SYNC_WAITS) {
        weft__lock_release(&mailbox->lock);
        return rc;
    }
    weft__waiter_init(&waiter, &recv_ops, mailbox, &mailbox->lock);
    waiter.want = (uintptr_t)item;
    return weft__chan_wait(&waiter, &recv_ops, self, deadline);
}

int weft_mailbox_recv(void *item, weft_mailbox *mailbox, weft_time deadline)
{
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0) {
        return rc;
    }
    if (weft__unlikely(!receiving_begin(mailbox))) {
        return -EBUSY;
    }
    if (weft__unlikely(!take(mailbox, item, false))) {
        return wait(item, mailbox, self, deadline);
    }
    receiving_end(mailbox);
    return 0;
}

int weft_mailbox_try_recv(void *item, weft_mailbox *mailbox)
{
    int rc = recv_now(item, mailbox);
    return rc != WEFT__SYNC_WAITS ? rc : -EAGAIN;
}

void weft_mailbox_recv_future(struct weft_sync_future *future, void *item, weft_mailbox *mailbox)
{
    struct weft__waiter *waiter = weft__sync_future_init(future, &recv_ops, mailbox,
                                                         &mailbox->lock);
    waiter->want = (uintptr_t)item;
}

void weft__mailbox_recv_case(struct weft__waiter *waiter, weft_mailbox *mailbox, uint64_t item)
{
    weft__waiter_init(waiter, &recv_ops, mailbox, &mailbox->lock);
    waiter->want = item;
}
