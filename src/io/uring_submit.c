// uring_submit.c - from op to submission.
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "io/uring.h"
#include "io/uring_compat.h"

/// What one system call transfers at most (MAX_RW_COUNT in the kernel).
#define MOST_BYTES 0x7ffff000u

static inline unsigned clamp(size_t size)
{
    return size < MOST_BYTES ? (unsigned)size : MOST_BYTES;
}

/// Receiving into a buffer that the kernel chooses, or, where it cannot, waiting for bytes.
static void prepare_select(struct weft__uring *u, struct io_uring_sqe *sqe, struct weft__op *op)
{
    if (u->buffers.ring == NULL) {
        io_uring_prep_poll_add(sqe, op->fd, POLLIN);
        op->stage = WEFT__STAGE_POLL;
        return;
    }
    io_uring_prep_recv(sqe, op->fd, NULL, 0, (int)op->flags);
    sqe->flags = IOSQE_BUFFER_SELECT;
    if ((op->mode & WEFT__OP_MULTI) != 0 && (u->features & WEFT__URING_MULTI_RECV) != 0) {
        sqe->ioprio = IORING_RECV_MULTISHOT;
        op->scratch |= WEFT__MARK_MULTI;
    }
}

static void prepare_accept(struct weft__uring *u, struct io_uring_sqe *sqe, struct weft__op *op)
{
    io_uring_prep_accept(sqe, op->fd, op->data, op->addr_size, (int)op->flags);
    // With an address the second connection would overwrite the first one's.
    if ((op->mode & WEFT__OP_MULTI) != 0 && op->data == NULL &&
        (u->features & WEFT__URING_MULTI_ACCEPT) != 0) {
        sqe->ioprio = IORING_ACCEPT_MULTISHOT;
        op->scratch |= WEFT__MARK_MULTI;
    }
}

/// A Unix datagram that finds its receiver's queue full must not wait inside of io_uring: Linux 6.18
/// forgets that the first attempt has read the bytes, and sends an empty one. So sends on plain
/// descriptors come back before they wait, and only then it is looked up what the socket is. Those of
/// weft's own connections are streams.
static int send_flags(const struct weft__op *op)
{
    bool at_once = (op->mode & WEFT__OP_MANAGED) == 0 && (op->flags & MSG_WAITALL) == 0 &&
                   (op->scratch & WEFT__MARK_PATIENT) == 0;
    return (int)op->flags | MSG_NOSIGNAL | (at_once ? MSG_DONTWAIT : 0);
}

static void prepare_send(struct weft__uring *u, struct io_uring_sqe *sqe, struct weft__op *op)
{
    int flags = (int)op->flags | MSG_NOSIGNAL;
    if (op->code == WEFT__OP_SEND_ZC && (u->features & WEFT__URING_SEND_ZC) != 0 &&
        (op->scratch & WEFT__MARK_COPY) == 0) {
        io_uring_prep_send_zc(sqe, op->fd, op->data, clamp(op->size), flags, 0);
    } else {
        io_uring_prep_send(sqe, op->fd, op->data, clamp(op->size), send_flags(op));
    }
}

static void prepare_file(struct weft__uring *u, struct io_uring_sqe *sqe, struct weft__op *op)
{
    static const uint8_t opcode[] = {
        [WEFT__OP_READ] = IORING_OP_READ,
        [WEFT__OP_WRITE] = IORING_OP_WRITE,
        [WEFT__OP_READV] = IORING_OP_READV,
        [WEFT__OP_WRITEV] = IORING_OP_WRITEV,
    };
    io_uring_prep_rw(opcode[op->code], sqe, op->fd, op->data, clamp(op->size),
                     (uint64_t)op->offset);
    bool writes = op->code == WEFT__OP_WRITE || op->code == WEFT__OP_WRITEV;
    if (writes && (u->features & WEFT__URING_NO_SIGNAL) != 0) {
        sqe->rw_flags = WEFT__RWF_NOSIGNAL;
    }
}

static void prepare(struct weft__uring *u, struct io_uring_sqe *sqe, struct weft__op *op)
{
    switch ((enum weft__op_code)op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_WRITE:
    case WEFT__OP_READV:
    case WEFT__OP_WRITEV: prepare_file(u, sqe, op); break;
    case WEFT__OP_RECV:
        if (weft__uring_selects(op)) {
            prepare_select(u, sqe, op);
        } else {
            io_uring_prep_recv(sqe, op->fd, op->data, clamp(op->size), (int)op->flags);
        }
        break;
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC: prepare_send(u, sqe, op); break;
    case WEFT__OP_RECVMSG: io_uring_prep_recvmsg(sqe, op->fd, op->data, op->flags); break;
    case WEFT__OP_SENDMSG:
        io_uring_prep_sendmsg(sqe, op->fd, op->data, (unsigned)send_flags(op));
        break;
    case WEFT__OP_ACCEPT: prepare_accept(u, sqe, op); break;
    case WEFT__OP_CONNECT: io_uring_prep_connect(sqe, op->fd, op->data, (socklen_t)op->size); break;
    case WEFT__OP_POLL: io_uring_prep_poll_add(sqe, op->fd, op->flags); break;
    case WEFT__OP_SPLICE:
        io_uring_prep_splice(sqe, op->from_fd, op->from_offset, op->fd, op->offset, clamp(op->size),
                             op->flags);
        break;
    case WEFT__OP_FSYNC: io_uring_prep_fsync(sqe, op->fd, op->flags); break;
    case WEFT__OP_CODES: weft_assert(!"no such operation");
    }
}

/// The op is in the queue now.
static inline void enter_kernel(struct weft__uring *u, struct io_uring_sqe *sqe,
                                struct weft__op *op)
{
    sqe->user_data = (uintptr_t)op;
    u->in_kernel++;
    weft__uring_take_place(&u->flight, op);
    if (weft__unlikely(u->track_all || op->code == WEFT__OP_SPLICE)) {
        op->scratch |= WEFT__MARK_LISTED;
        weft__op_list_push(&u->tracked, op);
    }
}

void weft__uring_leave_listed(struct weft__uring *u, struct weft__op *op)
{
    struct weft__op_list *list = (op->scratch & WEFT__MARK_UNSENT) != 0    ? &u->unsent
                                 : (op->scratch & WEFT__MARK_SUSPECT) != 0 ? &u->suspects
                                                                           : &u->tracked;
    weft__op_list_remove(list, op);
    op->scratch &= (uint8_t) ~(WEFT__MARK_LISTED | WEFT__MARK_UNSENT | WEFT__MARK_SUSPECT);
}

static inline void put(struct weft__uring *u, struct io_uring_sqe *sqe, struct weft__op *op)
{
    op->stage = WEFT__STAGE_RING;
    prepare(u, sqe, op);
    if (weft__unlikely((op->scratch & WEFT__MARK_WORKER) != 0)) {
        sqe->flags |= IOSQE_ASYNC;
    }
    enter_kernel(u, sqe, op);
}

static void put_off(struct weft__uring *u, struct weft__op *op)
{
    op->stage = WEFT__STAGE_BACKLOG;
    weft__op_list_push(&u->backlog, op);
}

void weft__uring_start(struct weft__uring *u, struct weft__op *op)
{
    struct io_uring_sqe *sqe = weft__op_list_empty(&u->backlog) ? weft__uring_sqe(u) : NULL;
    if (weft__likely(sqe != NULL)) {
        put(u, sqe, op);
    } else {
        put_off(u, op);
    }
}

void weft__uring_start_poll(struct weft__uring *u, struct weft__op *op, int fd, unsigned events)
{
    struct io_uring_sqe *sqe = weft__op_list_empty(&u->backlog) ? weft__uring_sqe(u) : NULL;
    if (sqe == NULL) {
        put_off(u, op);
        return;
    }
    io_uring_prep_poll_add(sqe, fd, events);
    op->stage = WEFT__STAGE_POLL;
    enter_kernel(u, sqe, op);
}

void weft__uring_starve(struct weft__uring *u, struct weft__op *op)
{
    weft__uring_count(&u->counts.no_buffers);
    weft__uring_buffers_short(u);
    op->stage = WEFT__STAGE_STARVED;
    weft__op_list_push(&u->starved, op);
}

void weft__uring_start_pause(struct weft__uring *u, struct weft__op *op)
{
    static struct __kernel_timespec pause = { .tv_nsec = 500 * WEFT_US };
    struct io_uring_sqe *sqe = weft__op_list_empty(&u->backlog) ? weft__uring_sqe(u) : NULL;
    if (sqe == NULL) {
        put_off(u, op);
        return;
    }
    io_uring_prep_timeout(sqe, &pause, 0, 0);
    op->stage = WEFT__STAGE_POLL;
    enter_kernel(u, sqe, op);
}

/// Without a ring of buffers a receive is tried at once: what is no socket is never ready.
static bool submit_by_hand(struct weft__uring *u, struct weft__op *op)
{
    int result;
    uint32_t flags = 0;
    if (!weft__uring_receive(u, op, &result, &flags)) {
        return false;
    }
    weft__uring_let_go(u, op);
    op->result = result;
    op->result_flags = flags;
    return true;
}

bool weft__uring_submit(void *state, struct weft__op *op)
{
    struct weft__uring *u = state;
    struct weft__uring_fd *fd = weft__uring_fd(u, op->fd);
    weft__op_count(&u->counts.submitted, op);
    fd->ops++;
    op->generation = fd->generation;
    op->scratch = 0;
    if (op->code == WEFT__OP_SPLICE) {
        weft__uring_fd(u, op->from_fd)->ops++;
    }
    if (weft__unlikely(weft__uring_selects(op) && u->buffers.ring == NULL)) {
        return submit_by_hand(u, op);
    }
    weft__uring_start(u, op);
    if (io_uring_sq_ready(&u->ring) >= u->submit_batch) {
        (void)weft__uring_flush(u); // what is refused stays queued
    }
    return false;
}

void weft__uring_requeue(struct weft__uring *u)
{
    struct io_uring_sqe *sqe;
    while (!weft__op_list_empty(&u->unsent) && (sqe = weft__uring_sqe(u)) != NULL) {
        struct weft__op *op = weft__op_list_pop(&u->unsent);
        op->scratch &= (uint8_t)~WEFT__MARK_UNSENT;
        weft__uring_count(&u->counts.cancels);
        weft__uring_put_cancel(sqe, op);
        if (u->track_all || op->code == WEFT__OP_SPLICE) {
            op->scratch |= WEFT__MARK_LISTED;
            weft__op_list_push(&u->tracked, op);
        } else if (weft__unlikely(u->lossy)) {
            weft__uring_suspect(u, op);
        }
    }
    while (!weft__op_list_empty(&u->backlog) && (sqe = weft__uring_sqe(u)) != NULL) {
        put(u, sqe, weft__op_list_pop(&u->backlog));
    }
    for (uint32_t hopes = weft__uring_buffers_ready(u);
         hopes > 0 && !weft__op_list_empty(&u->starved); hopes--) {
        weft__uring_start(u, weft__op_list_pop(&u->starved));
    }
}
