// uring_ops.c - from op to submission, and from completion to done().
//
//     submit                  +---------------------- backlog <-- no room in the queue
//       |                     v                          |
//       +------------------> RING <----------------------+
//                             |  ^   ^
//            -EAGAIN          |  |   |      -ENOBUFS, and a buffer came back
//        POLL <---------------+  |   +---------------------- starved <--+
//         +----------------------+                                     |
//               ready         +----------------------------------------+
//                             v
//                 done(), done(MORE), or for SEND_ZC: done(MORE), NOTIFY, done()
//
//   A1  An op in RING, POLL or NOTIFY is the kernel's until a completion without F_MORE.
//   A2  Everything else is in one of our lists and ends there when it is cancelled.
//   A3  A cancel is queued behind the submission that it means and before any later one at the same
//       address, and the kernel takes them in order. So none can hit a stranger.
//   A4  A descriptor's number is read once more when an op is tried again. forget() may have come in
//       between and the number may mean another file by now; the generation tells.
//   A5  done() may submit, cancel and free: nothing of the op is touched after it.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/assert.h"
#include "io/uring.h"
#include "io/uring_compat.h"

#if WEFT__TSAN
char weft__uring_wire;
#endif

/// What splice in a worker answers to a signal instead of EINTR (seen on Linux 6.18): a number that
/// is the kernel's own business, so that no header has it.
#define ERESTARTSYS 512

/// What one system call transfers at most (MAX_RW_COUNT in the kernel).
#define MOST_BYTES 0x7ffff000u

static inline unsigned clamp(size_t size)
{
    return size < MOST_BYTES ? (unsigned)size : MOST_BYTES;
}

static bool selects(const struct weft__op *op)
{
    return (op->mode & WEFT__OP_SELECT) != 0;
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

/// How to send. The kernel must not wait for room in the queue of a Unix datagram socket: seen with
/// Linux 6.18, it forgets that its first attempt has read the bytes, sends an empty datagram at the
/// second and says 0. So an op that may be one (those of managed sockets are not) only tries, and the
/// wait is ours.
static int send_flags(const struct weft__op *op)
{
    int flags = (int)op->flags | MSG_NOSIGNAL;
    bool tries = (op->mode & WEFT__OP_MANAGED) == 0 && (op->flags & MSG_WAITALL) == 0;
    return tries ? flags | MSG_DONTWAIT : flags;
}

static void prepare_send(struct weft__uring *u, struct io_uring_sqe *sqe, struct weft__op *op)
{
    int flags = send_flags(op);
    if (op->code == WEFT__OP_SEND_ZC && (u->features & WEFT__URING_SEND_ZC) != 0 &&
        (op->scratch & WEFT__MARK_COPY) == 0) {
        io_uring_prep_send_zc(sqe, op->fd, op->data, clamp(op->size), flags, 0);
    } else {
        io_uring_prep_send(sqe, op->fd, op->data, clamp(op->size), flags);
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
        if (selects(op)) {
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

// Where an op is.

/// The op is in the queue now.
static inline void enter_kernel(struct weft__uring *u, struct io_uring_sqe *sqe,
                                struct weft__op *op)
{
    sqe->user_data = (uintptr_t)op;
    u->in_kernel++;
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

/// Queues an op that is in no list.
static void start(struct weft__uring *u, struct weft__op *op)
{
    struct io_uring_sqe *sqe = weft__op_list_empty(&u->backlog) ? weft__uring_sqe(u) : NULL;
    if (weft__likely(sqe != NULL)) {
        put(u, sqe, op);
    } else {
        put_off(u, op);
    }
}

/// Waits for readiness before the op is tried again. Without room it is tried at once, later.
static void start_poll(struct weft__uring *u, struct weft__op *op, int fd, unsigned events)
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

static void starve(struct weft__uring *u, struct weft__op *op)
{
    weft__uring_count(&u->counts.no_buffers);
    weft__uring_buffers_short(u);
    op->stage = WEFT__STAGE_STARVED;
    weft__op_list_push(&u->starved, op);
}

void weft__uring_end(struct weft__uring *u, struct weft__op *op, int result)
{
    op->stage = WEFT__STAGE_ENDED;
    op->result = result;
    op->result_flags = 0;
    weft__op_list_push(&u->ended, op);
}

// Completions.

/// The op is the owner's again.
static inline void let_go(struct weft__uring *u, struct weft__op *op)
{
    weft__uring_count(&u->counts.completed);
    weft__uring_fd(u, op->fd)->ops--;
    if (weft__unlikely(op->code == WEFT__OP_SPLICE)) {
        weft__uring_fd(u, op->from_fd)->ops--;
    }
    op->stage = WEFT__STAGE_IDLE;
}

static bool is_forgotten(struct weft__uring *u, const struct weft__op *op)
{
    return op->generation != weft__uring_fd(u, op->fd)->generation;
}

static size_t wanted(const struct weft__op *op)
{
    const struct msghdr *message = op->data;
    const struct iovec *parts = op->data;
    size_t count = op->size, sum = 0;
    switch (op->code) {
    case WEFT__OP_WRITE:
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC: return op->size;
    case WEFT__OP_SENDMSG:
        parts = message->msg_iov;
        count = message->msg_iovlen;
        break;
    case WEFT__OP_WRITEV: break;
    default: return 0;
    }
    for (size_t i = 0; i < count; i++) {
        sum += parts[i].iov_len;
    }
    return sum;
}

static inline void count_short(struct weft__uring *u, const struct weft__op *op, int result)
{
    if (result > 0 && weft__unlikely((size_t)result < wanted(op))) {
        weft__uring_count(&u->counts.short_writes);
    }
}

/// Does the owner want to hear of -EAGAIN?
static bool must_not_wait(const struct weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_RECV:
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_SENDMSG: return (op->flags & MSG_DONTWAIT) != 0;
    case WEFT__OP_SPLICE: return (op->flags & SPLICE_F_NONBLOCK) != 0;
    case WEFT__OP_POLL:
    case WEFT__OP_FSYNC: return true;
    default: return false;
    }
}

static bool is_always_ready(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && (S_ISREG(stat.st_mode) || S_ISBLK(stat.st_mode));
}

/// Tries the op again after a moment. Its completion, -ETIME, is that of a poll.
static void start_pause(struct weft__uring *u, struct weft__op *op)
{
    static struct __kernel_timespec moment = { .tv_nsec = 1 * WEFT_MS };
    struct io_uring_sqe *sqe = weft__op_list_empty(&u->backlog) ? weft__uring_sqe(u) : NULL;
    if (sqe == NULL) {
        put_off(u, op);
        return;
    }
    io_uring_prep_timeout(sqe, &moment, 0, 0);
    op->stage = WEFT__STAGE_POLL;
    enter_kernel(u, sqe, op);
}

/// A send found no room. If it finds none although the socket was ready (a datagram to somebody whose
/// queue is full), nothing tells when there will be.
static void wait_to_send(struct weft__uring *u, struct weft__op *op)
{
    if ((op->scratch & WEFT__MARK_POLLED) == 0) {
        op->scratch |= WEFT__MARK_POLLED;
        start_poll(u, op, op->fd, POLLOUT);
    } else {
        op->scratch &= (uint8_t)~WEFT__MARK_POLLED;
        start_pause(u, op);
    }
}

/// The descriptor is non-blocking. True: the op goes on by itself.
static bool wait_until_ready(struct weft__uring *u, struct weft__op *op)
{
    if (must_not_wait(op)) {
        return false;
    }
    if (op->code != WEFT__OP_SPLICE && is_always_ready(op->fd)) {
        // The kernel would have had to wait for the disk.
        if ((op->scratch & WEFT__MARK_WORKER) != 0) {
            return false;
        }
        op->scratch |= WEFT__MARK_WORKER;
        start(u, op);
        return true;
    }
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_READV:
    case WEFT__OP_RECV:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_ACCEPT: start_poll(u, op, op->fd, POLLIN); break;
    case WEFT__OP_SPLICE: // nobody says which of the two it was
        op->scratch ^= WEFT__MARK_OTHER_SIDE;
        if ((op->scratch & WEFT__MARK_OTHER_SIDE) != 0) {
            start_poll(u, op, op->from_fd, POLLIN);
        } else {
            start_poll(u, op, op->fd, POLLOUT);
        }
        break;
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC:
    case WEFT__OP_SENDMSG: wait_to_send(u, op); break;
    default: start_poll(u, op, op->fd, POLLOUT);
    }
    return true;
}

/// How a connect on a non-blocking socket went. -EAGAIN: there was no room in a Unix socket's
/// backlog, which no poll reports.
static int connect_result(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    struct sockaddr_storage peer;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) {
        return -errno;
    }
    size = sizeof peer;
    if (error == 0 && getpeername(fd, (struct sockaddr *)&peer, &size) < 0) {
        return -EAGAIN;
    }
    return -error;
}

/// Receives as the kernel would have done. False: the op waits, for bytes or for a buffer.
static bool receive(struct weft__uring *u, struct weft__op *op, int *result, uint32_t *flags)
{
    uint16_t number;
    if (!weft__uring_buffers_take(u, &number)) {
        starve(u, op);
        return false;
    }
    void *buffer = weft__uring_buffer(u, number);
    ssize_t size = recv(op->fd, buffer, u->buffers.bytes, (int)op->flags | MSG_DONTWAIT);
    *result = size < 0 ? -errno : (int)size;
    if (size > 0) {
        *flags = WEFT__OP_BUFFER | (uint32_t)number << 16;
        *flags |= (size_t)size < u->buffers.bytes ? WEFT__OP_EMPTY : 0;
        return true;
    }
    weft__uring_give(u, number);
    if (*result == -EAGAIN) {
        start(u, op);
        return false;
    }
    return true;
}

/// A poll in front of the op has ended. True: so has the op, with `result`.
static bool after_poll(struct weft__uring *u, struct weft__op *op, int *result, uint32_t *flags)
{
    if (*result < 0 && *result != -ETIME) {
        return true;
    }
    if ((op->scratch & WEFT__MARK_ASKED) != 0 || is_forgotten(u, op)) {
        *result = -ECANCELED; // nothing was transferred
        return true;
    }
    if (op->code == WEFT__OP_CONNECT) {
        *result = connect_result(op->fd);
        return true;
    }
    if (selects(op) && u->buffers.ring == NULL) {
        return receive(u, op, result, flags);
    }
    start(u, op);
    return false;
}

/// An op failed. True: that is its end, with `result`.
static bool after_error(struct weft__uring *u, struct weft__op *op, int *result)
{
    bool over = (op->scratch & WEFT__MARK_ASKED) != 0 || is_forgotten(u, op);
    switch (*result) {
    case -EINTR: // a worker of the kernel was told to stop
    case -ERESTARTSYS: *result = over ? -ECANCELED : -EINTR; return true;
    case -EINPROGRESS:
    case -EAGAIN:
        if (must_not_wait(op)) {
            return true;
        }
        *result = over ? -ECANCELED : -EAGAIN;
        return over || !wait_until_ready(u, op);
    case -ENOBUFS:
        if (selects(op) && !over) {
            starve(u, op);
            return false;
        }
        *result = selects(op) ? -ECANCELED : *result;
        break;
    case -EOPNOTSUPP:
    case -ENOMEM: break;
    default: return true;
    }
    if (op->code != WEFT__OP_SEND_ZC || (op->scratch & WEFT__MARK_COPY) != 0) {
        return true;
    }
    if (over) {
        *result = -ECANCELED;
        return true;
    }
    op->scratch |= WEFT__MARK_COPY; // a socket, or a moment, without zero copy
    start(u, op);
    return false;
}

static uint32_t result_flags(struct weft__uring *u, const struct weft__op *op, int result,
                             uint32_t flags)
{
    uint32_t answer = 0;
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
        uint16_t number = (uint16_t)(flags >> IORING_CQE_BUFFER_SHIFT);
        weft__uring_buffers_taken(u, number);
        if (result > 0) {
            answer = WEFT__OP_BUFFER | (flags & 0xffff0000u);
        } else {
            weft__uring_give(u, number); // at the end of a stream some kernels bring one, too
        }
    }
    if ((flags & IORING_CQE_F_MORE) != 0) {
        answer |= WEFT__OP_MORE;
    }
    if (op->code == WEFT__OP_RECV && result > 0 && (flags & IORING_CQE_F_SOCK_NONEMPTY) == 0 &&
        (u->features & WEFT__URING_SOCK_NONEMPTY) != 0) {
        answer |= WEFT__OP_EMPTY;
    }
    return answer;
}

static inline int call_done(struct weft__uring *u, struct weft__op *op)
{
    if (weft__unlikely(u->closing)) {
        return 0;
    }
    weft__uring_received();
    op->done(op);
    return 1;
}

/// Not the end: a result of a multishot, or of a SEND_ZC whose bytes are still read.
static int more_to_come(struct weft__uring *u, struct weft__op *op, int result, uint32_t flags)
{
    op->result = result;
    if (op->code == WEFT__OP_SEND_ZC) {
        u->notifies++;
        op->stage = result < 0 ? WEFT__STAGE_FAILED : WEFT__STAGE_NOTIFY;
        if (result < 0) {
            return 0;
        }
        count_short(u, op, result);
    }
    op->result_flags = result_flags(u, op, result, flags);
    return call_done(u, op);
}

/// The last completion of a SEND_ZC that had its result.
static int after_notify(struct weft__uring *u, struct weft__op *op)
{
    weft__uring_leave(u, op);
    let_go(u, op);
    op->result = 0;
    op->result_flags = WEFT__OP_NOTIFY;
    return call_done(u, op);
}

int weft__uring_complete(struct weft__uring *u, struct weft__op *op, int result, uint32_t flags)
{
    if (weft__unlikely(op->stage >= WEFT__STAGE_NOTIFY)) {
        u->notifies--;
        if (op->stage == WEFT__STAGE_NOTIFY) {
            return after_notify(u, op);
        }
        op->stage = WEFT__STAGE_RING;
        result = (int)op->result;
    }
    if ((flags & IORING_CQE_F_MORE) != 0) {
        return more_to_come(u, op, result, flags);
    }
    weft__uring_leave(u, op);
    uint32_t answer = result_flags(u, op, result, flags);
    if (weft__unlikely(op->stage == WEFT__STAGE_POLL)) {
        if (!u->closing && !after_poll(u, op, &result, &answer)) {
            return 0;
        }
    } else if (weft__unlikely(result < 0)) {
        if (!u->closing && !after_error(u, op, &result)) {
            return 0;
        }
    } else if ((op->scratch & WEFT__MARK_MULTI) != 0 &&
               (result > 0 || op->code == WEFT__OP_ACCEPT)) {
        weft__uring_count(&u->counts.multishot_ends);
    }
    count_short(u, op, result);
    let_go(u, op);
    op->result = result;
    op->result_flags = answer;
    return call_done(u, op);
}

int weft__uring_deliver(struct weft__uring *u)
{
    int count = 0;
    // What ends meanwhile is for the next time, or two ops could keep us here for ever.
    struct weft__op *last = weft__op_list_empty(&u->ended)
                                ? NULL
                                : weft__container_of(u->ended.tail, struct weft__op, next);
    for (struct weft__op *op = NULL; last != NULL && op != last; count++) {
        op = weft__op_list_pop(&u->ended);
        let_go(u, op);
        (void)call_done(u, op);
    }
    return count;
}

/// Without a ring of buffers a receive is tried at once: what is no socket is never ready.
static bool submit_by_hand(struct weft__uring *u, struct weft__op *op)
{
    int result;
    uint32_t flags = 0;
    if (!receive(u, op, &result, &flags)) {
        return false;
    }
    let_go(u, op);
    op->result = result;
    op->result_flags = flags;
    return true;
}

bool weft__uring_submit(void *state, struct weft__op *op)
{
    struct weft__uring *u = state;
    struct weft__uring_fd *fd = weft__uring_fd(u, op->fd);
    weft__uring_count(&u->counts.submitted);
    fd->ops++;
    op->generation = fd->generation;
    op->scratch = 0;
    if (op->code == WEFT__OP_SPLICE) {
        weft__uring_fd(u, op->from_fd)->ops++;
    }
    if (weft__unlikely(selects(op) && u->buffers.ring == NULL)) {
        return submit_by_hand(u, op);
    }
    start(u, op);
    if (io_uring_sq_ready(&u->ring) >= u->submit_batch) {
        (void)weft__uring_flush(u); // what is refused stays queued
    }
    return false;
}

// Asking to end.

static void put_cancel(struct io_uring_sqe *sqe, struct weft__op *op)
{
    io_uring_prep_cancel64(sqe, (uintptr_t)op, 0);
    sqe->user_data = WEFT__TAG_CANCEL;
}

static void send_cancel(struct weft__uring *u, struct weft__op *op)
{
    struct io_uring_sqe *sqe = weft__op_list_empty(&u->unsent) ? weft__uring_sqe(u) : NULL;
    if (sqe != NULL) {
        weft__uring_count(&u->counts.cancels);
        put_cancel(sqe, op);
        return;
    }
    if ((op->scratch & WEFT__MARK_LISTED) != 0) {
        weft__op_list_remove(&u->tracked, op);
    }
    op->scratch = (uint8_t)((op->scratch & ~WEFT__MARK_LISTED) | WEFT__MARK_UNSENT);
    weft__op_list_push(&u->unsent, op);
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

static void cancel_tracked(struct weft__uring *u, int fd)
{
    for (struct weft__op *op = u->tracked.head, *next; op != NULL; op = next) {
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

/// The kernel must have the request before this returns: soon the number means another file.
void weft__uring_forget(void *state, int fd)
{
    struct weft__uring *u = state;
    struct weft__uring_fd *slot = weft__uring_fd(u, fd);
    if (slot->ops == 0) {
        return;
    }
    slot->generation++;
    withdraw_all(u, &u->backlog, fd);
    withdraw_all(u, &u->starved, fd);
    cancel_tracked(u, fd);
    struct io_uring_sqe *sqe = NULL;
    if ((u->features & WEFT__URING_CANCEL_FD) != 0 && (sqe = weft__uring_sqe(u)) != NULL) {
        weft__uring_count(&u->counts.cancels);
        io_uring_prep_cancel_fd(sqe, fd, IORING_ASYNC_CANCEL_ALL);
        sqe->user_data = WEFT__TAG_CANCEL;
    }
    if (weft__uring_flush(u) < 0) {
        spoil_queued(u, fd);
        struct io_uring_sync_cancel_reg reg = {
            // Linux 6.0; needs no room and no memory
            .fd = fd,
            .flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL,
        };
        (void)io_uring_register_sync_cancel(&u->ring, &reg);
    }
}

// Trying again.

void weft__uring_requeue(struct weft__uring *u)
{
    struct io_uring_sqe *sqe;
    while (!weft__op_list_empty(&u->unsent) && (sqe = weft__uring_sqe(u)) != NULL) {
        struct weft__op *op = weft__op_list_pop(&u->unsent);
        op->scratch &= (uint8_t)~WEFT__MARK_UNSENT;
        weft__uring_count(&u->counts.cancels);
        put_cancel(sqe, op);
        if (u->track_all || op->code == WEFT__OP_SPLICE) {
            op->scratch |= WEFT__MARK_LISTED;
            weft__op_list_push(&u->tracked, op);
        }
    }
    while (!weft__op_list_empty(&u->backlog) && (sqe = weft__uring_sqe(u)) != NULL) {
        put(u, sqe, weft__op_list_pop(&u->backlog));
    }
    for (uint32_t hopes = weft__uring_buffers_ready(u);
         hopes > 0 && !weft__op_list_empty(&u->starved); hopes--) {
        start(u, weft__op_list_pop(&u->starved));
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
        put_cancel(sqe, op);
    }
}
