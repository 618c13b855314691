// perform.c - operations as system calls that do not wait.
//
//   F1  What the user's descriptor is set to stays as it is. accept, connect and splice have no flag
//       that says "do not wait", so a descriptor in blocking mode is switched for the length of one
//       call and back. The other way would be to let a rival that takes the connection in between
//       stall the carrier.
//   F2  Descriptors that weft made (MANAGED) are non-blocking already.
//   F3  Of two carriers that switch one descriptor the first to switch back would leave the other in a
//       call that blocks. So the switch, the call and the switch back are one critical section.
//
// read and write are in perform_rw.c.
#include "io/perform.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/lock.h"
#include "io/direct.h"

static int64_t result_of(int64_t rc)
{
    return rc < 0 ? -errno : rc;
}

// What a descriptor is.

static int int_option(int fd, int name, int *value)
{
    socklen_t size = sizeof *value;
    return getsockopt(fd, SOL_SOCKET, name, value, &size) < 0 ? -errno : 0;
}

int weft__socket_kind(int fd)
{
    int domain, detail;
    int rc = int_option(fd, SO_DOMAIN, &domain);
    if (rc < 0) {
        return rc;
    }
    bool local = domain == AF_UNIX;
    rc = int_option(fd, local ? SO_TYPE : SO_PROTOCOL, &detail);
    if (rc < 0) {
        return rc;
    }
    if (local) {
        return detail == SOCK_STREAM ? WEFT__FD_LOCAL : WEFT__FD_PACKET;
    }
    bool internet = domain == AF_INET || domain == AF_INET6;
    return internet && detail == IPPROTO_TCP ? WEFT__FD_STREAM : WEFT__FD_PACKET;
}

int weft__fd_kind(int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0) {
        return -errno;
    }
    switch (status.st_mode & S_IFMT) {
    case S_IFSOCK: return weft__socket_kind(fd);
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK: return WEFT__FD_FILE;
    default: return WEFT__FD_OTHER;
    }
}

int64_t weft__poll_now(int fd, unsigned events)
{
    struct pollfd entry = { .fd = fd, .events = (short)events };
    int rc = poll(&entry, 1, 0);
    if (rc <= 0) {
        return rc < 0 ? -errno : WEFT__WOULD_BLOCK;
    }
    return (entry.revents & POLLNVAL) != 0 ? -EBADF : (unsigned short)entry.revents;
}

static size_t vector_bytes(const struct iovec *parts, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += parts[i].iov_len;
    }
    return total;
}

size_t weft__op_bytes(const struct weft__op *op)
{
    const struct msghdr *message = op->data;
    switch (op->code) {
    case WEFT__OP_READV:
    case WEFT__OP_WRITEV: return vector_bytes(op->data, op->size);
    case WEFT__OP_RECVMSG:
    case WEFT__OP_SENDMSG: return vector_bytes(message->msg_iov, message->msg_iovlen);
    default: return op->size;
    }
}

// Sockets.

/// Whether a read with these flags that is short says that there is nothing left.
static bool takes_all(uint32_t flags)
{
    return (flags & ~(uint32_t)(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_WAITALL | MSG_CMSG_CLOEXEC)) == 0;
}

static inline int64_t recv_once(struct weft__op *op, uint8_t kind, void *data, size_t size,
                                uint32_t flags)
{
    int64_t n = weft__recv(op->fd, data, size, flags);
    if (n > 0 && (size_t)n < size && kind != WEFT__FD_PACKET && takes_all(flags)) {
        op->result_flags |= WEFT__OP_EMPTY;
    }
    return n;
}

/// Whether a transfer goes on until it is complete. Messages with boundaries are always whole.
static bool wants_all(const struct weft__op *op, uint8_t *kind, uint32_t flags)
{
    const uint32_t peculiar = MSG_PEEK | MSG_OOB | MSG_ERRQUEUE;
    if (weft__likely((flags & (MSG_WAITALL | peculiar)) != MSG_WAITALL)) {
        return false;
    }
    if (!weft__is_socket(*kind)) {
        int rc = weft__socket_kind(op->fd);
        *kind = rc < 0 ? WEFT__FD_UNKNOWN : (uint8_t)rc;
    }
    return weft__is_stream(*kind);
}

static int64_t recv_all(struct weft__op *op, uint8_t kind, char *data, size_t size, uint32_t flags)
{
    for (;;) {
        int64_t n = recv_once(op, kind, data + op->result, size - (size_t)op->result, flags);
        if (n == WEFT__WOULD_BLOCK) {
            return n;
        }
        if (n <= 0) {
            return op->result > 0 ? op->result : n;
        }
        op->result += n;
        if ((size_t)op->result == size) {
            return op->result;
        }
    }
}

int64_t weft__perform_recv(struct weft__op *op, uint8_t *kind, void *data, size_t size,
                           uint32_t flags)
{
    if (weft__unlikely(!weft__is_socket(*kind))) {
        int rc = weft__socket_kind(op->fd);
        if (rc < 0) {
            return rc;
        }
        *kind = (uint8_t)rc;
    }
    if (weft__unlikely(wants_all(op, kind, flags))) {
        return recv_all(op, *kind, data, size, flags);
    }
    return recv_once(op, *kind, data, size, flags);
}

static int64_t send_now(struct weft__op *op, uint8_t *kind)
{
    int flags = (int)op->flags | MSG_DONTWAIT | MSG_NOSIGNAL;
    if (weft__likely(!wants_all(op, kind, op->flags))) {
        return result_of(send(op->fd, op->data, op->size, flags));
    }
    for (;;) {
        int64_t n = result_of(
            send(op->fd, (char *)op->data + op->result, op->size - (size_t)op->result, flags));
        if (n < 0) {
            return n == WEFT__WOULD_BLOCK || op->result == 0 ? n : op->result;
        }
        op->result += n;
        if ((size_t)op->result >= op->size) {
            return op->result;
        }
    }
}

/// With MSG_WAITALL a message is transferred in parts. What goes along with it goes with the first.
static int64_t message_all(struct weft__op *op, bool sends)
{
    struct msghdr *message = op->data;
    size_t size = weft__op_bytes(op);
    for (;;) {
        struct iovec one;
        struct weft__span span = weft__span(message->msg_iov, message->msg_iovlen,
                                            (size_t)op->result, SIZE_MAX, &one);
        struct msghdr rest = { .msg_iov = span.parts, .msg_iovlen = span.count };
        struct msghdr *part = op->result == 0 ? message : &rest;
        int64_t n = sends ? weft__sendmsg(op->fd, part, op->flags)
                          : weft__recvmsg(op->fd, part, op->flags);
        if (n == WEFT__WOULD_BLOCK) {
            return n;
        }
        if (n <= 0) {
            return op->result > 0 ? op->result : n;
        }
        op->result += n;
        if ((size_t)op->result >= size) {
            return op->result;
        }
    }
}

static int64_t recvmsg_now(struct weft__op *op, uint8_t *kind)
{
    if (wants_all(op, kind, op->flags)) {
        return message_all(op, false);
    }
    return weft__recvmsg(op->fd, op->data, op->flags);
}

static int64_t sendmsg_now(struct weft__op *op, uint8_t *kind)
{
    if (wants_all(op, kind, op->flags)) {
        return message_all(op, true);
    }
    return weft__sendmsg(op->fd, op->data, op->flags);
}

// Calls without a flag: the descriptor is switched to non-blocking mode if it is not (F1).

/// F3, by descriptor.
enum { MODE_LOCKS = 64 };
static struct weft__lock mode_locks[MODE_LOCKS];

static struct weft__lock *mode_lock(int fd)
{
    return &mode_locks[(unsigned)fd % MODE_LOCKS];
}

/// For a call on one descriptor, given twice, or on two.
static void lock_modes(int first, int second)
{
    struct weft__lock *low = mode_lock(first);
    struct weft__lock *high = mode_lock(second);
    weft__lock_acquire(low < high ? low : high);
    if (low != high) {
        weft__lock_acquire(low < high ? high : low);
    }
}

static void unlock_modes(int first, int second)
{
    weft__lock_release(mode_lock(first));
    if (mode_lock(first) != mode_lock(second)) {
        weft__lock_release(mode_lock(second));
    }
}

void weft__modes_before_fork(void)
{
    for (int i = 0; i < MODE_LOCKS; i++) {
        weft__lock_acquire(&mode_locks[i]);
    }
}

void weft__modes_after_fork(void)
{
    for (int i = 0; i < MODE_LOCKS; i++) {
        weft__lock_release(&mode_locks[i]);
    }
}

/// What to give back, or -1: nothing. A descriptor that is not one will fail in the call itself.
static int switch_mode(int fd)
{
    int mode = fcntl(fd, F_GETFL);
    if (mode < 0 || (mode & O_NONBLOCK) != 0) {
        return -1;
    }
    return fcntl(fd, F_SETFL, mode | O_NONBLOCK) < 0 ? -1 : mode;
}

static void switch_back(int fd, int mode)
{
    if (mode >= 0) {
        (void)fcntl(fd, F_SETFL, mode);
    }
}

static int64_t accept_now(const struct weft__op *op)
{
    bool managed = (op->mode & WEFT__OP_MANAGED) != 0;
    if (managed) { // F2
        return result_of(accept4(op->fd, op->data, op->addr_size, (int)op->flags | SOCK_NONBLOCK));
    }
    lock_modes(op->fd, op->fd);
    int mode = switch_mode(op->fd);
    int64_t rc = result_of(accept4(op->fd, op->data, op->addr_size, (int)op->flags));
    switch_back(op->fd, mode);
    unlock_modes(op->fd, op->fd);
    return rc;
}

static int64_t connect_once(const struct weft__op *op)
{
    if ((op->mode & WEFT__OP_MANAGED) != 0) { // F2
        return result_of(connect(op->fd, op->data, (socklen_t)op->size));
    }
    lock_modes(op->fd, op->fd);
    int mode = switch_mode(op->fd);
    int64_t rc = result_of(connect(op->fd, op->data, (socklen_t)op->size));
    switch_back(op->fd, mode);
    unlock_modes(op->fd, op->fd);
    return rc;
}

/// Asked again while a connection is being made, connect() says how far it is.
static int64_t connect_now(struct weft__op *op)
{
    int64_t rc = connect_once(op);
    bool again = (op->scratch & WEFT__OP_BEGUN) != 0;
    switch (rc) {
    case -EINPROGRESS:
    case -EALREADY: op->scratch |= WEFT__OP_BEGUN; return WEFT__WOULD_BLOCK;
    case -EAGAIN: return WEFT__WOULD_BLOCK_UNSEEN; // a Unix listener with a full backlog
    case -EISCONN: return again ? 0 : rc;
    default: return rc;
    }
}

static int64_t splice_once(const struct weft__op *op)
{
    off64_t to = op->offset;
    off64_t from = op->from_offset;
    return result_of(splice(op->from_fd, from < 0 ? NULL : &from, op->fd, to < 0 ? NULL : &to,
                            op->size, op->flags | SPLICE_F_NONBLOCK));
}

static int64_t splice_now(const struct weft__op *op)
{
    int to = weft__fd_kind(op->fd);
    int from = weft__fd_kind(op->from_fd);
    if (to < 0 || from < 0) {
        return to < 0 ? to : from;
    }
    if (to == WEFT__FD_FILE || from == WEFT__FD_FILE) {
        return WEFT__WOULD_STALL;
    }
    lock_modes(op->fd, op->from_fd);
    int to_mode = switch_mode(op->fd);
    int from_mode = switch_mode(op->from_fd);
    int64_t rc = splice_once(op);
    switch_back(op->from_fd, from_mode);
    switch_back(op->fd, to_mode);
    unlock_modes(op->fd, op->from_fd);
    return rc;
}

int64_t weft__perform(struct weft__op *op, uint8_t *kind)
{
    switch ((enum weft__op_code)op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_WRITE:
    case WEFT__OP_READV:
    case WEFT__OP_WRITEV: return weft__perform_rw(op, kind);
    case WEFT__OP_RECV: return weft__perform_recv(op, kind, op->data, op->size, op->flags);
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC: return send_now(op, kind);
    case WEFT__OP_RECVMSG: return recvmsg_now(op, kind);
    case WEFT__OP_SENDMSG: return sendmsg_now(op, kind);
    case WEFT__OP_ACCEPT: return accept_now(op);
    case WEFT__OP_CONNECT: return connect_now(op);
    case WEFT__OP_POLL: return weft__poll_now(op->fd, op->flags);
    case WEFT__OP_SPLICE: return splice_now(op);
    case WEFT__OP_FSYNC: return WEFT__WOULD_STALL;
    case WEFT__OP_CODES: break;
    }
    weft_assert(!"no such operation");
    return -EINVAL;
}

int64_t weft__perform_blocking(const struct weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_FSYNC: return result_of(op->flags == 1 ? fdatasync(op->fd) : fsync(op->fd));
    case WEFT__OP_SPLICE: return splice_once(op);
    default: return weft__perform_rw_blocking(op);
    }
}
