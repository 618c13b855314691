// splice.c - moving bytes inside the kernel, with a pipe at one end.
//
// A splice that has to wait for a peer would hold a thread meanwhile: io_uring gives each one to a
// worker, the epoll driver those with files to the blocking pool. So the waiting is done by polling,
// which holds nothing, and the splice itself is told not to wait. It still may, for a moment, where a
// rival is faster and the other end is a socket in blocking mode.
#include "io/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <weft/io.h>

#include "io/call.h"
#include "io/fd_api.h"
#include "io/hold.h"
#include "task/host.h"

int weft__end_init(struct weft__end *end, const struct weft__task *task, int fd)
{
    struct stat status;
    *end = (struct weft__end){ .fd = fd, .kind = WEFT__END_OTHER };
    if (task->crew->simulated) {
        return 0;
    }
    int mode = fcntl(fd, F_GETFL);
    if (mode < 0 || fstat(fd, &status) < 0) {
        return -errno;
    }
    if (S_ISREG(status.st_mode)) {
        end->kind = WEFT__END_FILE;
        end->device = status.st_dev;
        end->inode = status.st_ino;
    } else if (S_ISFIFO(status.st_mode)) {
        end->kind = WEFT__END_PIPE;
    }
    end->prompt = end->kind != WEFT__END_OTHER || (mode & O_NONBLOCK) != 0;
    return 0;
}

int weft__ends_wait(int in, int out, weft_time deadline)
{
    int rc = weft_poll(in, POLLIN, deadline);
    if (rc >= 0) {
        rc = weft_poll(out, POLLOUT, deadline);
    }
    return rc < 0 ? rc : 0;
}

static int64_t splice_op(int in, int64_t in_offset, int out, int64_t out_offset, size_t size,
                         unsigned flags, weft_time deadline)
{
    struct weft__call call = {
        .op = {
            .code = WEFT__OP_SPLICE,
            .fd = out,
            .from_fd = in,
            .offset = out_offset,
            .from_offset = in_offset,
            .size = size < WEFT__TRANSFER_MOST ? size : WEFT__TRANSFER_MOST,
            .flags = flags | SPLICE_F_NONBLOCK,
        },
    };
    return weft__call(&call, "splice", deadline);
}

/// On the spot. Between the look at the descriptors and the call nothing parks: see close.c, F1.
static int64_t splice_here(struct weft__task *task, int in, int out, size_t size)
{
    if (weft__hold_is_closed(task)) {
        return -EBADF;
    }
    int rc = weft__descriptor_use(task->home, in);
    rc = rc == 0 ? weft__descriptor_use(task->home, out) : rc;
    if (rc < 0) {
        return rc; // -EAGAIN: the caller looks again
    }
    ssize_t n = splice(in, NULL, out, NULL, size, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    int64_t result = n < 0 ? -errno : n;
    weft__charge(task);
    return result == -EINTR ? -EAGAIN : result;
}

int64_t weft__ends_splice(struct weft__task *task, const struct weft__end *in,
                          const struct weft__end *out, size_t size, weft_time deadline)
{
    if (in->kind == WEFT__END_FILE || out->kind == WEFT__END_FILE) {
        return splice_op(in->fd, -1, out->fd, -1, size, SPLICE_F_MOVE, deadline);
    }
    return splice_here(task, in->fd, out->fd, size);
}

static bool is_file(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/// Both ends are ready, as far as one can know. A deadline that overtakes the op on its way to somebody
/// who may block ends it only where a rival or a peer could keep it waiting: what is in a file, or
/// in a pipe beside one, is there (nothing was moved, so the op can be had again).
static int64_t splice_ready(int in, int64_t in_offset, int out, int64_t out_offset, size_t size,
                            unsigned flags, weft_time deadline)
{
    int64_t n = splice_op(in, in_offset, out, out_offset, size, flags, deadline);
    if (n == -ETIMEDOUT && (is_file(in) || is_file(out))) {
        n = splice_op(in, in_offset, out, out_offset, size, flags, WEFT_FOREVER);
    }
    return n;
}

ssize_t weft_splice(int in, int64_t *in_offset, int out, int64_t *out_offset, size_t size,
                    unsigned flags, weft_time deadline)
{
    if ((in_offset != NULL && *in_offset < 0) || (out_offset != NULL && *out_offset < 0) ||
        in == out) {
        return -EINVAL;
    }
    bool waits = (flags & SPLICE_F_NONBLOCK) == 0 && size > 0;
    struct weft__hold hold;
    int64_t n = weft__hold_begin(&hold, (int[]){ in, out }, 2);
    if (n < 0) {
        return (ssize_t)n;
    }
    do {
        n = waits ? weft__ends_wait(in, out, deadline) : 0;
        if (n == 0) {
            n = splice_ready(in, in_offset != NULL ? *in_offset : -1, out,
                             out_offset != NULL ? *out_offset : -1, size, flags, deadline);
        }
    } while (n == -EAGAIN && waits);
    weft__hold_end(&hold);
    if (n > 0 && in_offset != NULL) {
        *in_offset += n;
    }
    if (n > 0 && out_offset != NULL) {
        *out_offset += n;
    }
    return (ssize_t)n;
}
