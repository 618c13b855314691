// oneshot.c - one value, and a word that says how far it has come.
//
//     word:  QUEUED | CLOSED | TAKEN | SENT, or twice the address of a receiver that waits alone
//
// The danger: the memory is the receiver's or the sender's, and goes as soon as that one knows that the
// other is through. Whoever touches it after he has said so writes into somebody else's frame.
//
//   O1  The value is written before SENT is set, and copied out before TAKEN is. Both are set with
//       release, and are the last touch of who sets them, unless somebody waits.
//   O2  QUEUED is set while somebody waits: a receiver for SENT or CLOSED, or a watcher for TAKEN or
//       CLOSED. Then the word changes only under the lock, and releasing that is the last touch.
//   O3  Who ends the oneshot knows that nobody will take the lock any more. It waits for whoever has it,
//       and for nobody if it is free: then it has seen the last release (base/lock.h, L1).
//   O4  Receivers wait only until a value was sent; who waits gets a copy while it is claimed
//       (sync/queue.h, Q2), but for O6.
//   O5  There is one sender. It looks before it writes the value, so a second value is refused; a close
//       in between is noticed after the value was written, where nobody will look.
//   O6  A virtual thread or a future that waits to receive while nobody else waits has no lock to take, and
//       neither has who sends or closes. Whoever takes its address out of the word has it in hand: to complete it,
//       to put it into the queue (under the lock, because somebody else wants to wait), or to leave
//       with it. So it does not withdraw by its state, it is asked to (wait.h). When SENT was set it
//       takes the value itself, and sets TAKEN as its last touch (O1), because it may have been about
//       to give up.
//
// O6 saves three of eight locked instructions of a value that is waited for (weft-bench chan-call).
// Lock: oneshot.lock. Checked by: tests/model/oneshot_model.c, tests/api/oneshot_test.c.
#include <weft/oneshot.h>

#include <errno.h>
#include <string.h>

#include "chan/case.h"
#include "chan/wait.h"

#define SENT 1u
#define TAKEN 2u
#define CLOSED 4u
#define QUEUED 8u
#define FLAGS UINT64_C(15)

/// waiter.kind
enum { GETS_A_COPY, CAME_ALONE };

struct oneshot {
    _Atomic uint64_t word;
    struct weft__lock lock;

    // Fixed.
    void *storage;
    size_t value_bytes;

    // Under lock.
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

/// The receiver that waits alone, or NULL.
static struct weft__waiter *lone(uint64_t word)
{
    uintptr_t address = (uintptr_t)(word & ~FLAGS) / 2;
    return (struct weft__waiter *)address; // NOLINT(performance-no-int-to-ptr)
}

/// The word that has it. Twice the address, because waiters stand at multiples of eight.
static uint64_t alone(const struct weft__waiter *receiver)
{
    _Static_assert(2 * _Alignof(struct weft__waiter) > FLAGS, "the flags are free");
    return (uint64_t)(uintptr_t)receiver * 2;
}

/// Under lock.
static bool is_deserted(const struct oneshot *oneshot)
{
    return oneshot->receivers.first == NULL && oneshot->watchers.first == NULL;
}

int weft_oneshot_fini(struct weft_oneshot *public_oneshot)
{
    struct oneshot *oneshot = of(public_oneshot);
    uint64_t word = atomic_load_explicit(&oneshot->word, memory_order_relaxed);
    if ((word & QUEUED) != 0 || lone(word) != NULL) {
        return -EBUSY;
    }
    if (atomic_load_explicit(&oneshot->lock.state, memory_order_acquire) != 0) { // O3
        weft__lock_acquire(&oneshot->lock);
        weft__lock_release(&oneshot->lock);
    }
    return 0;
}

static inline void copy_value(const struct oneshot *oneshot, void *to, const void *from)
{
    if (weft__likely(oneshot->value_bytes == sizeof(uint64_t)) && to != NULL) {
        memcpy(to, from, sizeof(uint64_t));
    } else if (oneshot->value_bytes == sizeof(uint32_t) && to != NULL) {
        memcpy(to, from, sizeof(uint32_t));
    } else if (to != NULL && oneshot->value_bytes > 0) {
        memcpy(to, from, oneshot->value_bytes);
    }
}

static void *value_of(const struct weft__waiter *waiter)
{
    return (void *)(uintptr_t)waiter->want; // NOLINT(performance-no-int-to-ptr)
}

/// Takes the lock if somebody waits; false if nobody does any more.
static inline bool lock_queued(struct oneshot *oneshot)
{
    weft__lock_acquire(&oneshot->lock);
    if ((atomic_load_explicit(&oneshot->word, memory_order_relaxed) & QUEUED) != 0) {
        return true;
    }
    weft__lock_release(&oneshot->lock);
    return false;
}

/// Adds bits to the word and lets go whoever has waited for them. Under lock, while QUEUED is set.
static inline void add_queued(struct oneshot *oneshot, uint32_t bits, struct weft__batch *batch)
{
    bool sent = false; // to one that will take it (O6)
    while (bits == SENT && !sent && oneshot->receivers.first != NULL) {
        struct weft__waiter *receiver = oneshot->receivers.first;
        bool alone = receiver->kind == CAME_ALONE;
        if (!weft__queue_choose(&oneshot->receivers, receiver, alone ? WEFT__SYNC_AGAIN : 0,
                                batch)) {
            continue;
        }
        if (alone) {
            sent = true;
        } else {
            copy_value(oneshot, value_of(receiver), oneshot->storage);
            bits |= TAKEN;
        }
    }
    if (sent || (bits & (TAKEN | CLOSED)) != 0) {
        weft__queue_choose_all(&oneshot->receivers, -EPIPE, batch); // O4: for nothing
    }
    if ((bits & (TAKEN | CLOSED)) != 0) {
        weft__queue_choose_all(&oneshot->watchers, 0, batch);
    }
    uint64_t word = atomic_load_explicit(&oneshot->word, memory_order_relaxed) | bits;
    atomic_store_explicit(&oneshot->word, is_deserted(oneshot) ? word & ~QUEUED : word,
                          memory_order_release);
}

/// The same with the lock that lock_queued() has taken, which it releases.
static void publish_queued(struct oneshot *oneshot, uint32_t bits)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    add_queued(oneshot, bits, &batch);
    weft__lock_release(&oneshot->lock);
    weft__batch_finish(&batch);
}

/// Adds bits to a word that was just read, in which nobody waits, or the lone receiver, which ends with
/// `result` then (O6); false if it is not that any more.
// NOLINTNEXTLINE(readability-non-const-parameter): a failed exchange stores there
static inline bool publish(struct oneshot *oneshot, uint64_t *word, uint32_t bits, int result)
{
    struct weft__waiter *receiver = lone(*word);
    if (!atomic_compare_exchange_weak_explicit(&oneshot->word, word, (*word & FLAGS) | bits,
                                               memory_order_acq_rel, memory_order_acquire)) {
        return false;
    }
    if (receiver != NULL) {
        weft__waiter_complete(receiver, result);
    }
    return true;
}

// Loads that may see that the other side is through acquire: who sees that may free the memory.

int weft_oneshot_send(struct weft_oneshot *public_oneshot, const void *value)
{
    struct oneshot *oneshot = of(public_oneshot);
    uint64_t word = atomic_load_explicit(&oneshot->word, memory_order_acquire);
    if ((word & (SENT | CLOSED)) == 0) {
        copy_value(oneshot, oneshot->storage, value);
    }
    while ((word & (SENT | CLOSED)) == 0) {
        if (weft__unlikely((word & QUEUED) != 0)) {
            if (lock_queued(oneshot)) {
                publish_queued(oneshot, SENT);
                return 0;
            }
            word = atomic_load_explicit(&oneshot->word, memory_order_acquire);
        } else if (publish(oneshot, &word, SENT, WEFT__SYNC_AGAIN)) {
            return 0;
        }
    }
    return (word & SENT) != 0 ? -EALREADY : -EPIPE;
}

void weft_oneshot_close(struct weft_oneshot *public_oneshot)
{
    struct oneshot *oneshot = of(public_oneshot);
    uint64_t word = atomic_load_explicit(&oneshot->word, memory_order_relaxed);
    for (;;) {
        if ((word & QUEUED) != 0) {
            if (lock_queued(oneshot)) {
                publish_queued(oneshot, CLOSED);
                return;
            }
            word = atomic_load_explicit(&oneshot->word, memory_order_relaxed);
        } else if (publish(oneshot, &word, CLOSED, -EPIPE)) {
            return;
        }
    }
}

// Receiving.

/// Receives at once: 0, -EPIPE, or WAITS.
static inline int try_recv(void *value, struct oneshot *oneshot)
{
    uint64_t word = atomic_load_explicit(&oneshot->word, memory_order_acquire);
    while ((word & (SENT | TAKEN)) == SENT) {
        if (weft__unlikely((word & QUEUED) != 0)) {
            if (lock_queued(oneshot)) {
                copy_value(oneshot, value, oneshot->storage);
                publish_queued(oneshot, TAKEN);
                return 0;
            }
            word = atomic_load_explicit(&oneshot->word, memory_order_relaxed);
            continue;
        }
        copy_value(oneshot, value, oneshot->storage); // O1
        if (publish(oneshot, &word, TAKEN, 0)) {
            return 0;
        }
    }
    return (word & (TAKEN | CLOSED)) != 0 ? -EPIPE : WEFT__SYNC_WAITS;
}

static int recv_attempt(struct weft__waiter *waiter)
{
    return try_recv(value_of(waiter), waiter->object);
}

/// Sets QUEUED, unless one of `bits` is set. Under lock. Returns the word.
static inline uint64_t queue_unless(struct oneshot *oneshot, uint32_t bits)
{
    uint64_t word;
    do {
        word = atomic_load_explicit(&oneshot->word, memory_order_acquire);
        if ((word & bits) != 0) {
            return word;
        }
        // Acquire once more: a receiver that was late may have come back in the same frame.
    } while (!atomic_compare_exchange_weak_explicit(&oneshot->word, &word, (word & FLAGS) | QUEUED,
                                                    memory_order_acquire, memory_order_relaxed));
    if (lone(word) != NULL) {
        weft__queue_push(&oneshot->receivers, lone(word)); // O6
    }
    return word & FLAGS;
}

static void dequeue(struct oneshot *oneshot)
{
    if (is_deserted(oneshot)) {
        atomic_fetch_and_explicit(&oneshot->word, ~(uint64_t)QUEUED, memory_order_relaxed);
    }
}

static inline int recv_check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct oneshot *oneshot = waiter->object;
    // Relaxed: SENT was set under the lock, or whoever has set QUEUED there had seen it.
    uint64_t word = atomic_load_explicit(&oneshot->word, memory_order_relaxed);
    if ((word & (SENT | TAKEN | QUEUED)) != (SENT | QUEUED)) {
        return WEFT__SYNC_WAITS; // to be enlisted, which looks
    }
    copy_value(oneshot, value_of(waiter), oneshot->storage);
    add_queued(oneshot, TAKEN, batch);
    return 0;
}

static inline int recv_enlist(struct weft__waiter *waiter)
{
    struct oneshot *oneshot = waiter->object;
    uint64_t word = queue_unless(oneshot, SENT | CLOSED);
    while ((word & (SENT | TAKEN)) == SENT) {
        copy_value(oneshot, value_of(waiter), oneshot->storage);
        if (publish(oneshot, &word, TAKEN, 0)) { // nobody waits: check() has seen to that
            return 0;
        }
    }
    if ((word & (TAKEN | CLOSED)) != 0) {
        return -EPIPE;
    }
    weft__queue_push(&oneshot->receivers, waiter);
    return WEFT__SYNC_WAITS;
}

static void recv_unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct oneshot *oneshot = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&oneshot->receivers, waiter);
    dequeue(oneshot);
}

/// O6: one that was alone when it began to wait is late, or cancelled.
static void give_up(struct weft__wait *wait)
{
    struct weft__waiter *receiver = weft__container_of(wait, struct weft__waiter, wait);
    struct oneshot *oneshot = receiver->object;
    uint64_t word = alone(receiver);
    bool out = atomic_compare_exchange_strong_explicit(&oneshot->word, &word, 0,
                                                       memory_order_relaxed, memory_order_relaxed);
    if (!out) {
        weft__lock_acquire(&oneshot->lock);
        out = weft__queue_remove(&oneshot->receivers, receiver);
        if (out) {
            dequeue(oneshot);
        }
        weft__lock_release(&oneshot->lock);
    }
    if (out) { // else somebody has it in hand
        wait->result = wait->why;
        atomic_store_explicit(&wait->state, WEFT__WAIT_DONE, memory_order_relaxed);
    }
}

/// O6. False: somebody waits already, or there is something.
static inline bool enter_alone(struct weft__waiter *receiver)
{
    struct oneshot *oneshot = receiver->object;
    uint64_t word = 0;
    receiver->kind = CAME_ALONE;
    receiver->wait.mode = WEFT__WAIT_ASK;
    receiver->wait.ask = give_up;
    return atomic_compare_exchange_strong_explicit(&oneshot->word, &word, alone(receiver),
                                                   memory_order_release, memory_order_relaxed);
}

static int recv_enter(struct weft__waiter *waiter)
{
    if (waiter->is_future && enter_alone(waiter)) {
        return WEFT__SYNC_WAITS;
    }
    waiter->kind = GETS_A_COPY;
    waiter->wait.mode = WEFT__WAIT_WITHDRAW;
    return weft__waiter_enter(waiter);
}

static const struct weft__sync_ops recv_ops = {
    .what = "oneshot",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = recv_attempt,
    .enter = recv_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // the value is where the caller wanted it
    .check = recv_check,
    .enlist = recv_enlist,
    .unlist = recv_unlist,
};

static inline int wait(struct oneshot *oneshot, const struct weft__sync_ops *ops, void *value,
                       struct weft__task *self, weft_time deadline)
{
    struct weft__waiter waiter;
    weft__waiter_init(&waiter, ops, oneshot, &oneshot->lock);
    waiter.want = (uintptr_t)value;
    return weft__chan_enter(&waiter, ops, self, deadline);
}

/// O6. Its result, or WAITS: somebody waits already, or there is something.
static inline int wait_alone(void *value, struct oneshot *oneshot, struct weft__task *self,
                             weft_time deadline)
{
    struct weft__waiter receiver;
    weft__waiter_init(&receiver, &recv_ops, oneshot, &oneshot->lock);
    weft__wait_init(&receiver.wait, self, WEFT__WAIT_ASK, recv_ops.what);
    if (!enter_alone(&receiver)) {
        return WEFT__SYNC_WAITS;
    }
    (void)weft__block(&receiver.wait, deadline);
    bool sent = receiver.wait.result == WEFT__SYNC_AGAIN;
    return sent ? try_recv(value, oneshot) : (int)receiver.wait.result;
}

WEFT__NOINLINE WEFT__FLATTEN static int recv_wait(void *value, struct oneshot *oneshot,
                                                  struct weft__task *self, weft_time deadline)
{
    int rc = weft__likely(self != NULL) ? wait_alone(value, oneshot, self, deadline)
                                        : WEFT__SYNC_WAITS;
    return rc != WEFT__SYNC_WAITS ? rc : wait(oneshot, &recv_ops, value, self, deadline);
}

int weft_oneshot_recv(void *value, struct weft_oneshot *oneshot, weft_time deadline)
{
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc == 0) {
        rc = try_recv(value, of(oneshot));
    }
    return rc != WEFT__SYNC_WAITS ? rc : recv_wait(value, of(oneshot), self, deadline);
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

bool weft_oneshot_is_closed(struct weft_oneshot *oneshot)
{
    uint64_t word = atomic_load_explicit(&of(oneshot)->word, memory_order_acquire);
    return (word & (TAKEN | CLOSED)) != 0;
}

static int watch_attempt(struct weft__waiter *waiter)
{
    return weft_oneshot_is_closed(waiter->object) ? 0 : WEFT__SYNC_WAITS;
}

static int watch_enlist(struct weft__waiter *waiter)
{
    struct oneshot *oneshot = waiter->object;
    if ((queue_unless(oneshot, TAKEN | CLOSED) & (TAKEN | CLOSED)) != 0) {
        return 0;
    }
    weft__queue_push(&oneshot->watchers, waiter);
    return WEFT__SYNC_WAITS;
}

static void watch_unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct oneshot *oneshot = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&oneshot->watchers, waiter);
    dequeue(oneshot);
}

static const struct weft__sync_ops watch_ops = {
    .what = "oneshot, to be closed",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = watch_attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // it was not given anything
    .check = NULL,
    .enlist = watch_enlist,
    .unlist = watch_unlist,
};

int weft_oneshot_wait_closed(struct weft_oneshot *oneshot, weft_time deadline)
{
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0 || weft_oneshot_is_closed(oneshot)) {
        return rc;
    }
    return wait(of(oneshot), &watch_ops, NULL, self, deadline);
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
