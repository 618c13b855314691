// uring_retry.c - ops that go on by themselves after the kernel had ended them.
//
// The owner of an op that could not be done yet does not notice: descriptors that are non-blocking
// are polled, sends that need room wait for it, receives without a buffer for one.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "io/uring.h"
#include "io/uring_compat.h"

static bool is_forgotten(struct weft__uring *u, const struct weft__op *op)
{
    return op->generation != weft__uring_fd(u, op->fd)->generation;
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

static bool is_unix_datagram(int fd)
{
    int type = 0, domain = 0;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

/// A send came back because it was told not to wait. True: it goes on by itself.
static bool have_patience(struct weft__uring *u, struct weft__op *op)
{
    bool sends = op->code == WEFT__OP_SEND || op->code == WEFT__OP_SENDMSG ||
                 (op->code == WEFT__OP_SEND_ZC && (op->scratch & WEFT__MARK_COPY) != 0);
    if (!sends || (op->scratch & WEFT__MARK_PATIENT) != 0) {
        return false;
    }
    if (!is_unix_datagram(op->fd)) {
        op->scratch |= WEFT__MARK_PATIENT;
        weft__uring_start(u, op);
        return true;
    }
    // A connected one is writable when its peer has room. One that is not is always writable, and
    // nothing tells when to try again.
    op->scratch ^= WEFT__MARK_POLLED;
    if ((op->scratch & WEFT__MARK_POLLED) != 0) {
        weft__uring_start_poll(u, op, op->fd, POLLOUT);
    } else {
        weft__uring_start_pause(u, op);
    }
    return true;
}

/// The descriptor is non-blocking, or a send was. True: the op goes on by itself.
static bool wait_until_ready(struct weft__uring *u, struct weft__op *op)
{
    if (must_not_wait(op)) {
        return false;
    }
    if (have_patience(u, op)) {
        return true;
    }
    if (op->code != WEFT__OP_SPLICE && is_always_ready(op->fd)) {
        // The kernel would have had to wait for the disk.
        if ((op->scratch & WEFT__MARK_WORKER) != 0) {
            return false;
        }
        op->scratch |= WEFT__MARK_WORKER;
        weft__uring_start(u, op);
        return true;
    }
    if (op->code == WEFT__OP_CONNECT) {
        op->scratch |= WEFT__MARK_BEGUN;
    }
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_READV:
    case WEFT__OP_RECV:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_ACCEPT: weft__uring_start_poll(u, op, op->fd, POLLIN); break;
    case WEFT__OP_SPLICE: // nobody says which of the two it was
        op->scratch ^= WEFT__MARK_OTHER_SIDE;
        if ((op->scratch & WEFT__MARK_OTHER_SIDE) != 0) {
            weft__uring_start_poll(u, op, op->from_fd, POLLIN);
        } else {
            weft__uring_start_poll(u, op, op->fd, POLLOUT);
        }
        break;
    default: weft__uring_start_poll(u, op, op->fd, POLLOUT);
    }
    return true;
}

/// How a connect on a non-blocking socket went. -EAGAIN: there is no room in a Unix socket's backlog,
/// and nothing tells when there will be.
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

/// What it means when a connect that had begun was not polled but tried again, for lack of room in
/// the queue.
static int connect_again(int result)
{
    switch (result) {
    case -EISCONN: return 0;
    case -EALREADY: return -EAGAIN;
    default: return result;
    }
}

bool weft__uring_receive(struct weft__uring *u, struct weft__op *op, int *result, uint32_t *flags)
{
    uint16_t number;
    if (!weft__uring_buffers_take(u, &number)) {
        weft__uring_starve(u, op);
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
        weft__uring_start(u, op);
        return false;
    }
    return true;
}

bool weft__uring_after_poll(struct weft__uring *u, struct weft__op *op, int *result,
                            uint32_t *flags)
{
    if (*result < 0 && *result != -ETIME) {
        return true;
    }
    if ((op->scratch & WEFT__MARK_ASKED) != 0 || is_forgotten(u, op)) {
        *result = -ECANCELED; // nothing was transferred
        return true;
    }
    if (op->code == WEFT__OP_CONNECT && *result != -ETIME) {
        *result = connect_result(op->fd);
        if (*result == -EAGAIN) {
            weft__uring_start_pause(u, op);
        }
        return *result != -EAGAIN;
    }
    if (weft__uring_selects(op) && u->buffers.ring == NULL) {
        return weft__uring_receive(u, op, result, flags);
    }
    weft__uring_start(u, op);
    return false;
}

bool weft__uring_after_error(struct weft__uring *u, struct weft__op *op, int *result)
{
    bool over = (op->scratch & WEFT__MARK_ASKED) != 0 || is_forgotten(u, op);
    if (op->code == WEFT__OP_CONNECT && (op->scratch & WEFT__MARK_BEGUN) != 0) {
        *result = connect_again(*result);
    }
    switch (*result) {
    case -ECANCELED: // by nobody: while signals are pending the kernel can start no worker, and gives up
    case -EINTR: // a worker of the kernel was told to stop
    case -WEFT__ERESTARTSYS: *result = over ? -ECANCELED : -EINTR; return true;
    case -EINPROGRESS:
    case -EAGAIN:
        if (must_not_wait(op)) {
            return true;
        }
        *result = over ? -ECANCELED : -EAGAIN;
        return over || !wait_until_ready(u, op);
    case -ENOBUFS:
        if (weft__uring_selects(op) && !over) {
            weft__uring_starve(u, op);
            return false;
        }
        *result = weft__uring_selects(op) ? -ECANCELED : *result;
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
    weft__uring_start(u, op);
    return false;
}
