// uring_cancel.c - asking ops to end.
#include <errno.h>

#include "io/uring.h"

/// So often a cancel is sent that the kernel does not find the op for. A connect ends by nothing else.
enum { ATTEMPTS = 64 };

void weft__uring_put_cancel(struct io_uring_sqe *sqe, struct weft__op *op)
{
    uint32_t place = (uint32_t)((uintptr_t)op->extra >> 1);
    io_uring_prep_cancel64(sqe, (uintptr_t)op, 0);
    sqe->user_data = place != 0 ? WEFT__TAG_CANCEL_AT(place) : WEFT__TAG_CANCEL;
}

static void send_cancel(struct weft__uring *u, struct weft__op *op)
{
    struct io_uring_sqe *sqe = weft__op_list_empty(&u->unsent) ? weft__uring_sqe(u) : NULL;
    if (sqe != NULL) {
        weft__uring_count(&u->counts.cancels);
        weft__uring_put_cancel(sqe, op);
        return;
    }
    if ((op->scratch & (WEFT__MARK_LISTED | WEFT__MARK_SUSPECT)) != 0) {
        weft__uring_leave_listed(u, op);
    }
    op->scratch |= WEFT__MARK_UNSENT;
    weft__op_list_push(&u->unsent, op);
}

/// Nearly always the op has ended. But one that is on its way from one of the kernel's queues to another is
/// in neither: a connect to a Unix socket whose backlog is full goes round a hundred times before a
/// worker waits with it, and a cancel that comes with it, or soon after, does not find it; and one that
/// finds it with the worker, -EALREADY, is lost if that is not asleep yet. Then we ask again, for as long
/// as that takes. Whoever has the place by now was asked to end, too. What a disk has is never found, but
/// ends by itself, so that we do not ask for ever.
void weft__uring_cancel_missed(struct weft__uring *u, uint32_t place, int result)
{
    uintptr_t there = u->flight.places[place];
    struct weft__op *op = (struct weft__op *)there; // NOLINT(performance-no-int-to-ptr)
    if (there == 0 || (there & WEFT__FLIGHT_BIT) != 0 || u->closing ||
        (op->scratch & (WEFT__MARK_ASKED | WEFT__MARK_UNSENT | WEFT__MARK_SUSPECT)) !=
            WEFT__MARK_ASKED) {
        return;
    }
    bool again = op->code == WEFT__OP_CONNECT || (result == -ENOENT && op->result < ATTEMPTS);
    if ((op->stage == WEFT__STAGE_RING || op->stage == WEFT__STAGE_POLL) && again) {
        op->result++;
        send_cancel(u, op);
    }
}

/// Takes back what the kernel has not seen. False if it has.
static bool withdraw(struct weft__uring *u, struct weft__op *op)
{
    switch (op->stage) {
    case WEFT__STAGE_BACKLOG: weft__op_list_remove(&u->backlog, op); break;
    case WEFT__STAGE_STARVED: weft__op_list_remove(&u->starved, op); break;
    default: return false;
    }
    weft__uring_end(u, op, -ECANCELED);
    return true;
}

void weft__uring_cancel(void *state, struct weft__op *op)
{
    struct weft__uring *u = state;
    if ((op->scratch & WEFT__MARK_ASKED) != 0 || op->stage == WEFT__STAGE_IDLE) {
        return;
    }
    op->scratch |= WEFT__MARK_ASKED;
    if (!withdraw(u, op) && (op->stage == WEFT__STAGE_RING || op->stage == WEFT__STAGE_POLL)) {
        op->result = 0; // counts the attempts
        send_cancel(u, op);
        if (weft__unlikely(u->lossy)) {
            weft__uring_suspect(u, op);
        }
    }
}

static void withdraw_all(struct weft__uring *u, struct weft__op_list *list, int fd)
{
    for (struct weft__op *op = list->head, *next; op != NULL; op = next) {
        next = op->next;
        if (op->fd == fd || (op->code == WEFT__OP_SPLICE && op->from_fd == fd)) {
            withdraw(u, op);
        }
    }
}

static void cancel_listed(struct weft__uring *u, const struct weft__op_list *list, int fd)
{
    for (struct weft__op *op = list->head, *next; op != NULL; op = next) {
        next = op->next; // send_cancel() may move `op` to the other list
        if (op->fd == fd || (op->code == WEFT__OP_SPLICE && op->from_fd == fd)) {
            weft__uring_cancel(u, op);
        }
    }
}

/// The kernel took nothing. What is queued for the descriptor must not reach the next file that gets
/// its number.
static void spoil_queued(struct weft__uring *u, int fd)
{
    struct io_uring_sq *sq = &u->ring.sq;
    for (unsigned at = *sq->khead; at != sq->sqe_tail; at++) {
        struct io_uring_sqe *sqe = &sq->sqes[at & sq->ring_mask];
        sqe->fd = sqe->fd == fd ? -1 : sqe->fd;
        if (sqe->opcode == IORING_OP_SPLICE && sqe->splice_fd_in == fd) {
            sqe->splice_fd_in = -1;
        }
    }
}

/// Queues a cancel of everything on the descriptor. False: no room, or the kernel does not know that.
static bool ask_for_all(struct weft__uring *u, int fd)
{
    struct io_uring_sqe *sqe = NULL;
    if ((u->features & WEFT__URING_CANCEL_FD) == 0 || (sqe = weft__uring_sqe(u)) == NULL) {
        return false;
    }
    weft__uring_count(&u->counts.cancels);
    io_uring_prep_cancel_fd(sqe, fd, IORING_ASYNC_CANCEL_ALL);
    sqe->user_data = WEFT__TAG_CANCEL;
    return true;
}

/// The kernel must have the request before this returns: soon the number means another file.
void weft__uring_forget(void *state, int fd)
{
    struct weft__uring *u = state;
    struct weft__uring_fd *slot = weft__uring_fd(u, fd);
    if (slot->ops == 0 || u->closing) {
        return;
    }
    slot->generation++;
    withdraw_all(u, &u->backlog, fd);
    withdraw_all(u, &u->starved, fd);
    cancel_listed(u, &u->tracked, fd);
    cancel_listed(u, &u->suspects, fd);
    bool asked = ask_for_all(u, fd);
    if (weft__uring_flush(u) < 0) {
        spoil_queued(u, fd);
        asked = false;
    }
    if (!asked && (u->features & WEFT__URING_CANCEL_FD) != 0) {
        struct io_uring_sync_cancel_reg reg = {
            .fd = fd,
            .flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL,
        };
        (void)io_uring_register_sync_cancel(&u->ring, &reg); // needs no room and no memory
    }
}

void weft__uring_cancel_all(struct weft__uring *u)
{
    struct io_uring_sqe *sqe;
    if ((u->features & WEFT__URING_CANCEL_FD) != 0) {
        if ((sqe = weft__uring_sqe(u)) != NULL) {
            io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
            sqe->user_data = WEFT__TAG_CANCEL;
        }
        return;
    }
    for (struct weft__op *op = u->tracked.head; op != NULL; op = op->next) {
        if ((sqe = weft__uring_sqe(u)) == NULL) {
            return;
        }
        weft__uring_put_cancel(sqe, op);
    }
}
