// epoll_events.c - what the epoll driver does when something has happened.
//
// The rules are in epoll_ops.c.
#include <poll.h>

#include "io/epoll.h"

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

/// Tries the readers or the writers in turn until one would block.
static void run_queue(struct weft__epoll *e, struct weft__slot *slot, struct weft__op_queue *queue)
{
    uint32_t generation = slot->generation;
    int left = OPS_PER_EVENT;
    struct weft__op *op = next_try(slot, queue->head);
    while (op != NULL) {
        int64_t n = weft__epoll_attempt(e, slot, op);
        if (n == WEFT__NO_BUFFER) {
            weft__slot_list_add(&e->hungry, slot);
            return;
        }
        bool splice = op->code == WEFT__OP_SPLICE; // it may have to wait at its other end now
        if (n == WEFT__WOULD_BLOCK && !splice) {
            if (op->stage == WEFT__EPOLL_READING) {
                op = next_try(slot, op->next);
                continue;
            }
            if (!is_misled(slot, op)) {
                return;
            }
            n = WEFT__WOULD_BLOCK_UNSEEN;
        }
        weft__epoll_leave(e, op);
        if (weft__epoll_go_on(e, slot, op, n)) {
            weft__epoll_end(e, op, op->result);
        }
        if (slot->generation != generation || (splice && n == WEFT__WOULD_BLOCK)) {
            return;
        }
        op = next_try(slot, queue->head);
        bool listed = (slot->hints & WEFT__SLOT_LISTED) != 0;
        if (op != NULL && --left <= 0 && !listed) {
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
    struct weft__op *op = next_poller(slot->others.head);
    while (op != NULL && slot->generation == generation) {
        int64_t n = weft__epoll_attempt(e, slot, op);
        if (n == WEFT__WOULD_BLOCK) {
            op = next_poller(op->next);
            continue;
        }
        weft__epoll_leave(e, op);
        weft__epoll_end(e, op, n);
        op = next_poller(slot->others.head);
    }
}

void weft__epoll_happened(struct weft__epoll *e, const struct epoll_event *event)
{
    const uint32_t ends = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    int fd = (int)(uint32_t)event->data.u64;
    uint32_t generation = (uint32_t)(event->data.u64 >> 32);
    uint32_t events = event->events;
    struct weft__slot *slot = weft__slot_of(e, fd);
    if (weft__unlikely(slot->generation != generation)) {
        return;
    }
    if ((slot->hints & (WEFT__SLOT_KEPT | WEFT__SLOT_EDGE)) == 0) {
        slot->armed = 0; // the one shot
    }
    if (weft__unlikely((events & (ends | EPOLLPRI)) != 0)) {
        slot->hints |= WEFT__SLOT_WARY;
    }
    if ((events & (EPOLLIN | EPOLLPRI | ends)) != 0) {
        slot->hints = (uint8_t)(slot->hints & ~WEFT__SLOT_EMPTY);
        run_queue(e, slot, &slot->readers);
    }
    if (slot->writers.head != NULL && (events & (EPOLLOUT | ends)) != 0 &&
        slot->generation == generation) {
        run_queue(e, slot, &slot->writers);
    }
    if (weft__unlikely(slot->others.head != NULL) && slot->generation == generation) {
        run_pollers(e, slot);
    }
    if (slot->generation == generation) {
        int rc = weft__slot_rearm(e, slot, fd);
        if (weft__unlikely(rc < 0)) {
            weft__epoll_ask_slot(e, slot, rc);
        }
    }
}

static void look_again(struct weft__epoll *e, struct weft__slot *slot)
{
    uint32_t generation = slot->generation;
    run_queue(e, slot, &slot->readers);
    if (slot->generation == generation) {
        run_queue(e, slot, &slot->writers);
    }
    // Those that found no buffer were not armed.
    struct weft__op *op = slot->readers.head;
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
