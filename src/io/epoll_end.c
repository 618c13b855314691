// epoll_end.c - cancel, forget, and buffers that come back.
//
// Nothing ends here (W5 in epoll_ops.c): ops go to driver.ending, and the next poll or wait calls
// their done().
#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/epoll.h"
#include "sched/carrier.h"

// A SPLICE concerns two descriptors and waits at one of them: the list is for forgetting the other.

static bool grow(struct weft__epoll *e)
{
    struct weft__splices *splices = &e->splices;
    size_t room = splices->room != 0 ? 2 * splices->room : WEFT__SIZED(16, 1);
    struct weft__op **ops = weft__alloc(e->allocator, room * sizeof(struct weft__op *),
                                        _Alignof(struct weft__op *));
    if (ops == NULL) {
        return false;
    }
    for (size_t i = 0; i < splices->count; i++) {
        ops[i] = splices->ops[i];
    }
    weft__free(e->allocator, splices->ops, splices->room * sizeof(struct weft__op *));
    splices->ops = ops;
    splices->room = room;
    return true;
}

bool weft__splices_add(struct weft__epoll *e, struct weft__op *op)
{
    struct weft__splices *splices = &e->splices;
    if (splices->count == splices->room && !grow(e)) {
        return false;
    }
    splices->ops[splices->count++] = op;
    return true;
}

void weft__splices_remove(struct weft__epoll *e, const struct weft__op *op)
{
    struct weft__splices *splices = &e->splices;
    for (size_t i = 0; i < splices->count; i++) {
        if (splices->ops[i] == op) {
            splices->ops[i] = splices->ops[--splices->count];
            return;
        }
    }
}

static void end_later(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    op->stage = WEFT__EPOLL_ENDING;
    op->result = op->result > 0 ? op->result : result; // bytes that were transferred win
    weft__op_queue_add(&e->ending, op);
}

/// What has arrived wins over a cancel, also if its event is still under way.
static void try_once_more(struct weft__epoll *e, struct weft__op *op)
{
    struct weft__slot *slot = weft__slot_of(e, op->fd);
    if (op->stage != WEFT__EPOLL_READING || op->code == WEFT__OP_SPLICE ||
        slot->readers.head != op) {
        return;
    }
    int64_t n = weft__epoll_attempt(e, slot, op);
    if (n > WEFT__NO_BUFFER && n != WEFT__WOULD_BLOCK) { // an error is told only once
        weft__epoll_leave(e, op);
        end_later(e, op, n);
    }
}

static void ask_to_end(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    switch (op->stage) {
    case WEFT__EPOLL_READING:
    case WEFT__EPOLL_WRITING:
    case WEFT__EPOLL_POLLING:
        weft__epoll_leave(e, op);
        end_later(e, op, result);
        break;
    case WEFT__EPOLL_RETRYING:
        weft__epoll_retry_not(e, op);
        end_later(e, op, result);
        break;
    case WEFT__EPOLL_BLOCKING:
        op->scratch |= WEFT__OP_CANCELLED;
        if (weft__epoll_recall(e, op)) {
            end_later(e, op, result);
        }
        break;
    default: break;
    }
}

void weft__epoll_cancel(void *state, struct weft__op *op)
{
    struct weft__epoll *e = state;
    if (op->stage != WEFT__EPOLL_IDLE && op->stage != WEFT__EPOLL_ENDING) {
        weft__count(&e->counts.cancels);
        try_once_more(e, op);
        ask_to_end(e, op, -ECANCELED);
    }
}

static void ask_all(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    while (op != NULL) {
        struct weft__op *next = op->next;
        ask_to_end(e, op, result);
        op = next;
    }
}

void weft__epoll_ask_slot(struct weft__epoll *e, struct weft__slot *slot, int64_t result)
{
    ask_all(e, slot->readers.head, result);
    ask_all(e, slot->writers.head, result);
    ask_all(e, slot->others, result);
}

void weft__epoll_forget(void *state, int fd)
{
    struct weft__epoll *e = state;
    struct weft__slot *slot = weft__slot_find(e, fd);
    if (fd < 0 || slot == NULL) {
        return;
    }
    weft__epoll_ask_slot(e, slot, -ECANCELED);
    for (struct weft__op *op = e->retrying.head, *next; op != NULL; op = next) {
        next = op->next;
        if (op->fd == fd) {
            ask_to_end(e, op, -ECANCELED);
        }
    }
    for (size_t i = 0; i < e->splices.count; i++) {
        if (e->splices.ops[i]->from_fd == fd || e->splices.ops[i]->fd == fd) {
            ask_to_end(e, e->splices.ops[i], -ECANCELED);
        }
    }
    weft__slot_forget(e, slot, fd);
}

void weft__epoll_give(void *state, uint16_t number)
{
    struct weft__receive *receive = &((struct weft__epoll *)state)->receive;
    weft_assert(number < receive->count && receive->free_count < receive->count);
    receive->free[receive->free_count++] = number;
}
