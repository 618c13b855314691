// epoll_events.c - what the epoll driver does when something has happened.
//
// The rules are in epoll_ops.c.
#include <poll.h>

#include "io/epoll_read.h"

enum {
    OPS_PER_EVENT = WEFT__SIZED(32, 2), ///< then other descriptors have their turn
};

/// The next op of a queue that is worth a try.
static struct weft__op *next_try(const struct weft__slot *slot, struct weft__op *op)
{
    while (op != NULL && op->stage == WEFT__EPOLL_READING && !weft__op_is_aside(op) &&
           (slot->hints & WEFT__SLOT_EMPTY) != 0) {
        op = op->next;
    }
    return op;
}

/// Whether a writer that would block will find its descriptor ready all the same: a datagram for a
/// full receiver that its socket is not connected to.
static bool is_misled(struct weft__slot *slot, const struct weft__op *op)
{
    if (slot->kind == WEFT__FD_UNKNOWN) {
        int kind = weft__fd_kind(op->fd);
        slot->kind = kind < 0 ? WEFT__FD_UNKNOWN : (uint8_t)kind;
    }
    return slot->kind == WEFT__FD_PACKET && op->code != WEFT__OP_CONNECT &&
           weft__poll_now(op->fd, POLLOUT) > 0;
}

/// Whether an op that was tried stays in its queue. Then `*next` is the one to try after it.
static bool stays(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op, int64_t *n,
                  struct weft__op **next)
{
    *next = NULL;
    if (*n == WEFT__NO_BUFFER) {
        weft__slot_list_add(&e->hungry, slot);
        return true;
    }
    if (*n != WEFT__WOULD_BLOCK || op->code == WEFT__OP_SPLICE) {
        return false; // a splice may have to wait at its other end now
    }
    if (op->stage == WEFT__EPOLL_READING) {
        *next = next_try(slot, op->next);
        return true;
    }
    if (is_misled(slot, op)) {
        *n = WEFT__WOULD_BLOCK_UNSEEN;
        return false;
    }
    return true;
}

/// Tries the readers or the writers in turn until one would block.
static void run_queue(struct weft__epoll *e, struct weft__slot *slot, struct weft__op_queue *queue)
{
    uint32_t generation = slot->generation;
    int left = OPS_PER_EVENT;
    struct weft__op *next;
    for (struct weft__op *op = next_try(slot, queue->head); op != NULL; op = next) {
        int64_t n = weft__epoll_attempt(e, slot, op);
        if (weft__unlikely(n < 0) && stays(e, slot, op, &n, &next)) {
            continue;
        }
        weft__op_queue_remove(queue, op);
        e->waiting--;
        op->stage = WEFT__EPOLL_IDLE;
        if (weft__likely(n >= 0) || weft__epoll_go_on(e, slot, op, n)) {
            weft__epoll_end(e, op, n >= 0 ? n : op->result);
        }
        if (slot->generation != generation || n == WEFT__WOULD_BLOCK) {
            return;
        }
        next = next_try(slot, queue->head);
        bool listed = (slot->hints & WEFT__SLOT_LISTED) != 0;
        if (weft__unlikely(next != NULL && --left <= 0 && !listed)) {
            weft__slot_list_add(&e->again, slot);
            return;
        }
    }
}

static struct weft__op *next_poller(struct weft__op *op)
{
    while (op != NULL && op->stage != WEFT__EPOLL_POLLING) {
        op = op->next;
    }
    return op;
}

static void run_pollers(struct weft__epoll *e, struct weft__slot *slot)
{
    uint32_t generation = slot->generation;
    struct weft__op *op = next_poller(slot->others);
    while (op != NULL && slot->generation == generation) {
        int64_t n = weft__epoll_attempt(e, slot, op);
        if (n == WEFT__WOULD_BLOCK) {
            op = next_poller(op->next);
            continue;
        }
        weft__epoll_leave(e, op);
        weft__epoll_end(e, op, n);
        op = next_poller(slot->others);
    }
}

/// What an event leaves to be done about the registration.
static void follow_up(struct weft__epoll *e, struct weft__slot *slot, int fd)
{
    bool steady = (slot->hints & WEFT__SLOT_STEADY) != 0;
    if (steady && (slot->readers.head != NULL || slot->others != NULL)) {
        weft__slot_doubt(e, slot, fd); // epoll_trust.c, T2
    }
    if (steady && (slot->armed & EPOLLOUT) == 0) {
        return;
    }
    int rc = weft__slot_rearm(e, slot, fd);
    if (weft__unlikely(rc < 0)) {
        weft__epoll_ask_slot(e, slot, rc);
    }
}

/// The second half of a request: bytes for the one op that waits for them, and the slot stays as it is
/// registered. False: it is not as simple as that.
static inline bool serve_simply(struct weft__epoll *e, struct weft__slot *slot)
{
    struct weft__op *op = slot->readers.head;
    bool simple = op != NULL && op->next == NULL && (op->scratch & WEFT__OP_SIMPLE) != 0 &&
                  slot->others == NULL && weft__is_stream(slot->kind);
    if (!simple || (slot->hints & (WEFT__SLOT_KEPT | WEFT__SLOT_STEADY)) == 0) {
        return false;
    }
    weft__slot_drop(slot, WEFT__SLOT_EMPTY | WEFT__SLOT_GUESSED | WEFT__SLOT_DOUBTED);
    int64_t n = weft__epoll_read_stream(e, slot, op);
    if (weft__unlikely(n == WEFT__WOULD_BLOCK || n == -ENOTSOCK || n == WEFT__NO_BUFFER)) {
        return false;
    }
    slot->strikes = 0;
    slot->readers.head = NULL;
    e->waiting--;
    e->ended++;
    weft__op_settle(e, op, n);
    op->done(op);
    return true;
}

/// Any event of a slot.
WEFT__NOINLINE static void serve(struct weft__epoll *e, struct weft__slot *slot, int fd,
                                 uint32_t events)
{
    const uint32_t ends = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    uint32_t generation = slot->generation;
    if ((slot->hints & (WEFT__SLOT_KEPT | WEFT__SLOT_EDGE | WEFT__SLOT_STEADY)) == 0) {
        slot->armed = 0; // the one shot
    }
    if (weft__unlikely((events & (ends | EPOLLPRI)) != 0)) {
        slot->hints |= WEFT__SLOT_WARY;
    }
    if ((slot->hints & WEFT__SLOT_STEADY) != 0 && weft__unlikely(weft__slot_is_idle(slot))) {
        weft__slot_drop(slot, WEFT__SLOT_EMPTY | WEFT__SLOT_GUESSED);
        weft__slot_strike(e, slot, fd);
        return;
    }
    weft__slot_drop(slot, WEFT__SLOT_DOUBTED);
    slot->strikes = 0;
    if ((events & (EPOLLIN | EPOLLPRI | ends)) != 0) {
        weft__slot_drop(slot, WEFT__SLOT_EMPTY | WEFT__SLOT_GUESSED);
        run_queue(e, slot, &slot->readers);
    }
    if (slot->writers.head != NULL && (events & (EPOLLOUT | ends)) != 0 &&
        slot->generation == generation) {
        run_queue(e, slot, &slot->writers);
    }
    if (weft__unlikely(slot->others != NULL) && slot->generation == generation) {
        run_pollers(e, slot);
    }
    bool settled = (slot->hints & WEFT__SLOT_KEPT) != 0 && (slot->armed & EPOLLOUT) == 0;
    if (!settled && slot->generation == generation) {
        follow_up(e, slot, fd);
    }
}

void weft__epoll_happened(struct weft__epoll *e, const struct epoll_event *event)
{
    int fd = (int)(uint32_t)event->data.u64;
    struct weft__slot *slot = weft__slot_of(e, fd);
    if (weft__unlikely(slot->generation != (uint32_t)(event->data.u64 >> 32))) {
        return;
    }
    if (weft__unlikely(event->events != EPOLLIN || !serve_simply(e, slot))) {
        serve(e, slot, fd, event->events);
    }
}

static struct weft__op *first_op(const struct weft__slot *slot)
{
    if (slot->readers.head != NULL) {
        return slot->readers.head;
    }
    return slot->writers.head != NULL ? slot->writers.head : next_poller(slot->others);
}

/// Tries all ops of a slot whose registration may say nothing: it was not needed yet, or is gone.
static void look_again(struct weft__epoll *e, struct weft__slot *slot)
{
    uint32_t generation = slot->generation;
    run_queue(e, slot, &slot->readers);
    if (slot->generation == generation) {
        run_queue(e, slot, &slot->writers);
    }
    if (slot->generation == generation) {
        run_pollers(e, slot);
    }
    struct weft__op *op = first_op(slot);
    if (op != NULL && (slot->hints & WEFT__SLOT_LISTED) == 0) {
        int rc = weft__slot_arm(e, slot, weft__op_waits_at(op), weft__op_is_managed(op));
        if (rc < 0) {
            weft__epoll_ask_slot(e, slot, rc);
        }
    }
}

void weft__epoll_work(struct weft__epoll *e)
{
    struct weft__op_queue ending = e->ending;
    e->ending.head = NULL;
    while (ending.head != NULL) {
        struct weft__op *op = ending.head;
        ending.head = op->next;
        weft__epoll_end(e, op, op->result);
    }
    weft__epoll_take_finished(e);
    if (e->retrying.head != NULL && weft__clock_ns() >= e->retry_at) {
        weft__epoll_retry(e);
    }
    for (uint32_t i = 0; i < e->receive.free_count && e->hungry.head != NULL; i++) {
        weft__slot_list_add(&e->again, weft__slot_list_take(&e->hungry));
    }
    struct weft__slot_list again = e->again;
    e->again.head = NULL;
    struct weft__slot *slot;
    while ((slot = weft__slot_list_take(&again)) != NULL) {
        look_again(e, slot);
    }
}
