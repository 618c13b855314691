// perform_rw.c - read and write on whatever the user has.
//
// Sockets can be asked not to wait call by call (MSG_DONTWAIT); files can (RWF_NOWAIT), and since
// Linux 6.4 pipes, too. Where that is missing and the descriptor is in blocking mode, it is polled
// first:
//
//   R1  A poll is no promise: somebody else may read in between. Then a read of a pipe or terminal in
//       blocking mode stalls the carrier. It takes an older kernel or a terminal, and two readers.
//   R2  A file's bytes count as ready when they are in memory. A transfer that got only a part of what
//       it asked for goes on where it stopped (op->result): with files, short means the end.
//   R3  The kind is a guess: the user may have got the number again for something else. A wrong one
//       shows where it matters, by ENOTSOCK or before the op would leave for the blocking pool.
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "io/direct.h"
#include "io/perform.h"

static int64_t result_of(int64_t rc)
{
    return rc < 0 ? -errno : rc;
}

static bool is_write(const struct weft__op *op)
{
    return op->code == WEFT__OP_WRITE || op->code == WEFT__OP_WRITEV;
}

static bool is_vector(const struct weft__op *op)
{
    return op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV;
}

struct weft__span weft__span(struct iovec *parts, size_t count, size_t done, size_t most,
                             struct iovec *one)
{
    if (done == 0 && most == SIZE_MAX) {
        return (struct weft__span){ parts, count };
    }
    while (count > 1 && done >= parts->iov_len) {
        done -= parts->iov_len;
        parts++;
        count--;
    }
    if (count == 0 || (done == 0 && most == SIZE_MAX)) {
        return (struct weft__span){ parts, count };
    }
    size_t left = parts->iov_len - done;
    one->iov_base = (char *)parts->iov_base + done;
    one->iov_len = left < most ? left : most;
    return (struct weft__span){ one, 1 };
}

/// Reads or writes from `done` bytes on, at most `most`.
static int64_t transfer(const struct weft__op *op, size_t done, size_t most, int how)
{
    off64_t offset = op->offset < 0 ? -1 : op->offset + (off64_t)done;
    struct iovec whole = { .iov_base = op->data, .iov_len = op->size };
    struct iovec one;
    struct weft__span span = weft__span(is_vector(op) ? op->data : &whole,
                                        is_vector(op) ? op->size : 1, done, most, &one);
    int count = span.count < INT_MAX ? (int)span.count : INT_MAX; // too many: EINVAL
    return result_of(is_write(op) ? pwritev2(op->fd, span.parts, count, offset, how)
                                  : preadv2(op->fd, span.parts, count, offset, how));
}

/// As read(2) and write(2) on a socket, but without a signal.
static int64_t rw_socket(struct weft__op *op, uint8_t *kind)
{
    if (op->offset >= 0) {
        return -ESPIPE;
    }
    if (!is_vector(op) && is_write(op)) {
        return weft__send(op->fd, op->data, op->size, 0);
    }
    if (!is_vector(op)) {
        return op->size == 0 ? 0 : weft__perform_recv(op, kind, op->data, op->size, 0);
    }
    struct msghdr message = { .msg_iov = op->data, .msg_iovlen = op->size };
    if (is_write(op)) {
        return weft__sendmsg(op->fd, &message, 0);
    }
    if (weft__op_bytes(op) == 0) {
        return 0;
    }
    return weft__recvmsg(op->fd, &message, 0);
}

/// A descriptor without RWF_NOWAIT.
static int64_t rw_after_poll(const struct weft__op *op)
{
    int mode = fcntl(op->fd, F_GETFL);
    if (mode < 0) {
        return -errno;
    }
    if ((mode & O_NONBLOCK) != 0 || op->offset >= 0) { // what has positions has nothing to wait for
        return transfer(op, 0, SIZE_MAX, 0);
    }
    int64_t ready = weft__poll_now(op->fd, is_write(op) ? POLLOUT : POLLIN);
    if (ready < 0) {
        return ready;
    }
    struct stat status;
    if (!is_write(op) || fstat(op->fd, &status) < 0) {
        return transfer(op, 0, SIZE_MAX, 0);
    }
    if (S_ISCHR(status.st_mode)) {
        return WEFT__WOULD_STALL; // a terminal that has no room for all of it blocks
    }
    // A pipe that polls as writable has room for this much.
    return transfer(op, 0, S_ISFIFO(status.st_mode) ? PIPE_BUF : SIZE_MAX, 0);
}

static int64_t rw_other(const struct weft__op *op)
{
    int64_t n = transfer(op, 0, SIZE_MAX, RWF_NOWAIT);
    return n == -EOPNOTSUPP ? rw_after_poll(op) : n;
}

/// As much as is in memory (R2).
static int64_t rw_file(struct weft__op *op)
{
    size_t size = weft__op_bytes(op);
    for (;;) {
        int64_t n = transfer(op, (size_t)op->result, SIZE_MAX, RWF_NOWAIT);
        if (n == -EOPNOTSUPP || n == WEFT__WOULD_BLOCK) {
            return WEFT__WOULD_STALL;
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

static int64_t rw_as(struct weft__op *op, uint8_t *kind)
{
    if (weft__is_socket(*kind)) {
        return rw_socket(op, kind);
    }
    return *kind == WEFT__FD_FILE ? rw_file(op) : rw_other(op);
}

int64_t weft__perform_rw(struct weft__op *op, uint8_t *kind)
{
    if (*kind != WEFT__FD_UNKNOWN) {
        int64_t n = rw_as(op, kind);
        bool doubtful = n == -ENOTSOCK || n == -ESPIPE || n == WEFT__WOULD_STALL;
        if (!doubtful || op->result > 0) {
            return n;
        }
    }
    int now = weft__fd_kind(op->fd);
    if (now < 0) {
        return now;
    }
    *kind = (uint8_t)now;
    return rw_as(op, kind); // R3
}

int64_t weft__perform_rw_blocking(const struct weft__op *op)
{
    int64_t done = op->result;
    size_t size = weft__op_bytes(op);
    for (;;) {
        int64_t n = transfer(op, (size_t)done, SIZE_MAX, 0);
        if (n < 0) {
            return done > 0 ? done : n;
        }
        done += n;
        // Only a file has been begun before; what a terminal takes is all it takes.
        if (n == 0 || op->result == 0 || (size_t)done >= size) {
            return done;
        }
    }
}
