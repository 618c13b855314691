// perform.c - operations as system calls that do not wait.
//
// Sockets can be asked not to wait call by call (MSG_DONTWAIT). Other descriptors can since Linux 6.4
// for pipes and earlier for files (RWF_NOWAIT); where they cannot, and the descriptor is in blocking
// mode, it is polled first:
//
//   F1  What the user's descriptor is set to stays as it is. accept, connect and splice have no flag,
//       so that a descriptor in blocking mode is switched for the length of one call and back. The
//       other way would be to let a rival process that takes the connection stall the carrier.
//   F2  A poll is no promise: somebody else may read in between. Then a read of a pipe or terminal in
//       blocking mode stalls the carrier. That needs Linux before 6.4, or a terminal, and two readers.
//   F3  A file's bytes count as ready when they are in memory. A transfer that got only a part of what
//       it asked for goes on where it stopped (op->result), because with files, short means the end.
#include "io/perform.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"

static int64_t result_of(int64_t rc)
{
    return rc < 0 ? -errno : rc;
}

// What a descriptor is.

static int socket_kind(int fd)
{
    int type;
    int domain;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0) {
        return -errno;
    }
    if (type != SOCK_STREAM) {
        return WEFT__FD_PACKET;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0) {
        return -errno;
    }
    return domain == AF_UNIX ? WEFT__FD_LOCAL : WEFT__FD_STREAM;
}

int weft__fd_kind(int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0) {
        return -errno;
    }
    switch (status.st_mode & S_IFMT) {
    case S_IFSOCK: return socket_kind(fd);
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK: return WEFT__FD_FILE;
    default: return WEFT__FD_OTHER;
    }
}

static bool is_socket(uint8_t kind)
{
    return kind == WEFT__FD_STREAM || kind == WEFT__FD_LOCAL || kind == WEFT__FD_PACKET;
}

static int64_t poll_now(int fd, unsigned events)
{
    struct pollfd entry = { .fd = fd, .events = (short)events };
    int rc = poll(&entry, 1, 0);
    if (rc <= 0) {
        return rc < 0 ? -errno : WEFT__WOULD_BLOCK;
    }
    return (entry.revents & POLLNVAL) != 0 ? -EBADF : entry.revents;
}

// Sockets.

/// Whether a read with these flags that is short says that there is nothing left.
static bool takes_all(uint32_t flags)
{
    return (flags & ~(uint32_t)(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_WAITALL | MSG_CMSG_CLOEXEC)) == 0;
}

/// A read of a Unix stream stops where descriptors are attached. Only recvmsg says so.
static int64_t recv_local(const struct weft__op *op, void *data, size_t size, int flags,
                          bool *stopped)
{
    struct iovec iov = { .iov_base = data, .iov_len = size };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    int64_t n = result_of(recvmsg(op->fd, &message, flags));
    *stopped = (message.msg_flags & MSG_CTRUNC) != 0;
    return n;
}

/// One attempt.
static int64_t recv_once(struct weft__op *op, uint8_t kind, void *data, size_t size)
{
    int flags = (int)op->flags | MSG_DONTWAIT;
    bool stopped = kind == WEFT__FD_PACKET;
    int64_t n;
    if (kind == WEFT__FD_LOCAL) {
        n = recv_local(op, data, size, flags, &stopped);
    } else {
        n = result_of(recv(op->fd, data, size, flags));
    }
    if (n > 0 && (size_t)n < size && !stopped && takes_all(op->flags)) {
        op->result_flags |= WEFT__OP_EMPTY;
    }
    return n;
}

/// Goes on until everything is there.
static int64_t recv_all(struct weft__op *op, uint8_t kind, char *data, size_t size)
{
    for (;;) {
        int64_t n = recv_once(op, kind, data + op->result, size - (size_t)op->result);
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

int64_t weft__perform_recv(struct weft__op *op, uint8_t *kind, void *data, size_t size)
{
    if (weft__unlikely(!is_socket(*kind))) {
        int rc = socket_kind(op->fd);
        if (rc < 0) {
            return rc;
        }
        *kind = (uint8_t)rc;
    }
    uint32_t whole = op->flags & (MSG_WAITALL | MSG_PEEK);
    if (weft__unlikely(whole == MSG_WAITALL) && *kind != WEFT__FD_PACKET) {
        return recv_all(op, *kind, data, size);
    }
    return recv_once(op, *kind, data, size);
}

static int64_t send_now(struct weft__op *op)
{
    int flags = (int)op->flags | MSG_DONTWAIT | MSG_NOSIGNAL;
    if (weft__likely((flags & MSG_WAITALL) == 0)) {
        return result_of(send(op->fd, op->data, op->size, flags));
    }
    for (;;) {
        int64_t n = result_of(send(op->fd, (char *)op->data + op->result,
                                   op->size - (size_t)op->result, flags & ~MSG_WAITALL));
        if (n < 0) {
            return n == WEFT__WOULD_BLOCK || op->result == 0 ? n : op->result;
        }
        op->result += n;
        if ((size_t)op->result == op->size) {
            return op->result;
        }
    }
}

static int64_t recvmsg_now(const struct weft__op *op)
{
    return result_of(recvmsg(op->fd, op->data, (int)op->flags | MSG_DONTWAIT));
}

static int64_t sendmsg_now(const struct weft__op *op)
{
    return result_of(sendmsg(op->fd, op->data, (int)op->flags | MSG_DONTWAIT | MSG_NOSIGNAL));
}

// Calls without a flag: the descriptor is switched to non-blocking mode if it is not (F1).

/// What to give back, or -1: nothing. A descriptor that is not one will fail in the call itself.
static int switch_mode(const struct weft__op *op, int fd)
{
    if ((op->mode & WEFT__OP_MANAGED) != 0) {
        return -1;
    }
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
    int mode = switch_mode(op, op->fd);
    int64_t rc = result_of(accept4(op->fd, op->data, op->addr_size, (int)op->flags));
    switch_back(op->fd, mode);
    return rc;
}

/// Asked again while a connection is being made, connect() says how far it is.
static int64_t connect_now(struct weft__op *op)
{
    int mode = switch_mode(op, op->fd);
    int64_t rc = result_of(connect(op->fd, op->data, (socklen_t)op->size));
    switch_back(op->fd, mode);
    bool again = op->scratch != 0;
    op->scratch = 1;
    if (rc == -EINPROGRESS || rc == -EALREADY) {
        return WEFT__WOULD_BLOCK;
    }
    return rc == -EISCONN && again ? 0 : rc;
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
    int to_mode = switch_mode(op, op->fd);
    int from_mode = switch_mode(op, op->from_fd);
    int64_t rc = splice_once(op);
    switch_back(op->from_fd, from_mode);
    switch_back(op->fd, to_mode);
    return rc;
}

bool weft__splice_waits_for_input(const struct weft__op *op)
{
    return poll_now(op->from_fd, POLLIN) == WEFT__WOULD_BLOCK;
}

// Reading and writing.

static bool is_write(const struct weft__op *op)
{
    return op->code == WEFT__OP_WRITE || op->code == WEFT__OP_WRITEV;
}

static bool is_vector(const struct weft__op *op)
{
    return op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV;
}

static size_t total_size(const struct weft__op *op)
{
    if (!is_vector(op)) {
        return op->size;
    }
    const struct iovec *iov = op->data;
    size_t total = 0;
    for (size_t i = 0; i < op->size; i++) {
        total += iov[i].iov_len;
    }
    return total;
}

/// Reads or writes from `done` bytes on; in a vector that was left in the middle of an element, the
/// rest of that element. `most` limits it to the first element.
static int64_t transfer(const struct weft__op *op, size_t done, size_t most, int how)
{
    off64_t offset = op->offset < 0 ? -1 : op->offset + (off64_t)done;
    struct iovec one = { .iov_base = op->data, .iov_len = op->size };
    const struct iovec *iov = is_vector(op) ? op->data : &one;
    int count = is_vector(op) ? (int)(op->size < INT_MAX ? op->size : INT_MAX) : 1;
    while (count > 1 && (done >= iov->iov_len && (done > 0 || most < SIZE_MAX))) {
        done -= iov->iov_len;
        iov++;
        count--;
    }
    if (count > 0 && (done > 0 || iov->iov_len > most)) {
        one = *iov;
        one.iov_base = (char *)one.iov_base + done;
        one.iov_len = one.iov_len - done < most ? one.iov_len - done : most;
        iov = &one;
        count = 1;
    }
    return result_of(is_write(op) ? pwritev2(op->fd, iov, count, offset, how)
                                  : preadv2(op->fd, iov, count, offset, how));
}

/// The socket takes part in no file offsets, as read(2) has it.
static int64_t transfer_socket(struct weft__op *op)
{
    if (op->offset >= 0) {
        return -ESPIPE;
    }
    struct iovec one = { .iov_base = op->data, .iov_len = op->size };
    struct msghdr message = { .msg_iov = is_vector(op) ? op->data : &one,
                              .msg_iovlen = is_vector(op) ? op->size : 1 };
    if (is_write(op)) {
        return result_of(sendmsg(op->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
    }
    size_t size = total_size(op);
    if (size == 0) {
        return 0;
    }
    int64_t n = result_of(recvmsg(op->fd, &message, MSG_DONTWAIT));
    if (n > 0 && (size_t)n < size && (message.msg_flags & MSG_CTRUNC) == 0) {
        op->result_flags |= WEFT__OP_EMPTY;
    }
    return n;
}

/// A descriptor without RWF_NOWAIT.
static int64_t transfer_after_poll(const struct weft__op *op)
{
    int mode = fcntl(op->fd, F_GETFL);
    if (mode < 0) {
        return -errno;
    }
    if ((mode & O_NONBLOCK) != 0) {
        return transfer(op, 0, SIZE_MAX, 0);
    }
    int64_t ready = poll_now(op->fd, is_write(op) ? POLLOUT : POLLIN);
    if (ready < 0) {
        return ready;
    }
    struct stat status;
    if (!is_write(op) || fstat(op->fd, &status) < 0) {
        return transfer(op, 0, SIZE_MAX, 0);
    }
    if (S_ISCHR(status.st_mode)) {
        return WEFT__WOULD_STALL; // a terminal that takes only a part of it would block
    }
    // A pipe that polls as writable has room for this much.
    return transfer(op, 0, S_ISFIFO(status.st_mode) ? PIPE_BUF : SIZE_MAX, 0);
}

static int64_t transfer_other(struct weft__op *op)
{
    int64_t n = transfer(op, 0, SIZE_MAX, RWF_NOWAIT);
    return n == -EOPNOTSUPP ? transfer_after_poll(op) : n;
}

/// As much as is in memory (F3).
static int64_t transfer_file(struct weft__op *op)
{
    size_t size = total_size(op);
    for (;;) {
        int64_t n = transfer(op, (size_t)op->result, SIZE_MAX, RWF_NOWAIT);
        if (n == -EOPNOTSUPP || n == WEFT__WOULD_BLOCK) {
            return WEFT__WOULD_STALL;
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

static int64_t transfer_by_kind(struct weft__op *op, uint8_t kind)
{
    if (is_socket(kind)) {
        return transfer_socket(op);
    }
    return kind == WEFT__FD_FILE ? transfer_file(op) : transfer_other(op);
}

/// The kind that is remembered may be that of an older descriptor with this number. A wrong guess
/// shows where it would do harm: a socket that is none, a file that would have to leave the carrier.
static int64_t transfer_now(struct weft__op *op, uint8_t *kind)
{
    if (*kind != WEFT__FD_UNKNOWN) {
        int64_t n = transfer_by_kind(op, *kind);
        if (n != -ENOTSOCK && n != WEFT__WOULD_STALL) {
            return n;
        }
        if (op->result > 0) {
            return n; // a file indeed
        }
    }
    int now = weft__fd_kind(op->fd);
    if (now < 0) {
        return now;
    }
    bool guessed = *kind == now;
    *kind = (uint8_t)now;
    return guessed ? WEFT__WOULD_STALL : transfer_by_kind(op, *kind);
}

int64_t weft__perform(struct weft__op *op, uint8_t *kind)
{
    switch ((enum weft__op_code)op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_WRITE:
    case WEFT__OP_READV:
    case WEFT__OP_WRITEV: return transfer_now(op, kind);
    case WEFT__OP_RECV: return weft__perform_recv(op, kind, op->data, op->size);
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC: return send_now(op);
    case WEFT__OP_RECVMSG: return recvmsg_now(op);
    case WEFT__OP_SENDMSG: return sendmsg_now(op);
    case WEFT__OP_ACCEPT: return accept_now(op);
    case WEFT__OP_CONNECT: return connect_now(op);
    case WEFT__OP_POLL: return poll_now(op->fd, op->flags);
    case WEFT__OP_SPLICE: return splice_now(op);
    case WEFT__OP_FSYNC: return WEFT__WOULD_STALL;
    case WEFT__OP_CODES: break;
    }
    weft_assert(!"no such operation");
    return -EINVAL;
}

int64_t weft__perform_blocking(const struct weft__op *op)
{
    if (op->code == WEFT__OP_FSYNC) {
        return result_of(op->flags == 1 ? fdatasync(op->fd) : fsync(op->fd));
    }
    if (op->code == WEFT__OP_SPLICE) {
        return splice_once(op);
    }
    int64_t done = op->result;
    size_t size = total_size(op);
    for (;;) {
        int64_t n = transfer(op, (size_t)done, SIZE_MAX, 0);
        if (n < 0) {
            return done > 0 ? done : n;
        }
        done += n;
        // Only a file has been begun before; a terminal's short answer is the whole answer.
        if (n == 0 || op->result == 0 || (size_t)done == size) {
            return done;
        }
    }
}
