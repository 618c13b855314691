// copy.c - from one descriptor to another, in the way that suits them.
//
//     from           to              way
//     file           file            copy_file_range: the file system may share blocks
//     pipe           prompt          splice
//     prompt         pipe            splice
//     file           prompt          sendfile: from the page cache, without a copy
//     prompt         prompt          splice, through a pipe of our own
//     anything       anything        through memory
//
// "Prompt" is what can be asked not to wait for its peer (io/splice.h). System calls that read files
// may wait for a disk: they go to the blocking pool.
//
//   K1  Every way either gets on or gives up having lost nothing, and then memory goes on from there.
//   K2  Of a file that is the input, the position moves by what was written, not by what was read.
//   K3  Both descriptors are held from beginning to end (io/hold.h); also while a thread of the pool
//       has their numbers, which is short, so that closing waits for its end.
//   K4  Files are always ready: nothing keeps the first bytes of a file from being moved, not even a
//       deadline in the past.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <weft/blocking.h>
#include <weft/io.h>

#include "base/sys.h"
#include "io/hold.h"
#include "io/splice.h"
#include "task/host.h"

/// What goes through memory at a time.
#define MEMORY_BYTES ((size_t)WEFT__SIZED(64 << 10, 4 << 10))
/// What goes through a pipe at a time, if so large a pipe is to be had.
#define PIPE_BYTES ((size_t)WEFT__SIZED(256 << 10, 4 << 10))
/// What a thread of the pool copies before it looks whether it should stop.
#define POOL_BYTES ((size_t)WEFT__SIZED(16 << 20, 8 << 10))

struct copy {
    struct weft__task *task;
    struct weft__end out;
    struct weft__end in;
    uint64_t left; // WEFT_COPY_ALL: up to the end
    weft_time deadline;
    struct weft_copied moved;
};

/// What a way of copying says besides a negative errno.
enum way {
    OVER,    ///< everything is copied, or the input has ended
    ANOTHER, ///< not in this way
};

static void wrote(struct copy *copy, uint64_t bytes)
{
    copy->moved.written += bytes;
    copy->left -= copy->left != WEFT_COPY_ALL ? bytes : 0;
}

static size_t at_most(const struct copy *copy, size_t size)
{
    return copy->left < size ? (size_t)copy->left : size;
}

/// Whether a system call says that it is not for such descriptors.
static bool is_unsuited(int64_t result)
{
    return result == -EINVAL || result == -ENOSYS || result == -EOPNOTSUPP || result == -EXDEV ||
           result == -ESPIPE || result == -EBADF;
}

// System calls on a thread of the pool.

struct pool_call {
    int (*fn)(void *arg); // sets result
    int in;
    int out;
    int64_t *offset;
    size_t size;
    weft_time deadline; // for its beginning
    int64_t result;
};

static int call_range(void *arg)
{
    struct pool_call *call = arg;
    ssize_t n = copy_file_range(call->in, NULL, call->out, NULL, call->size, 0);
    call->result = n < 0 ? -errno : n;
    return 0;
}

static int call_sendfile(void *arg)
{
    struct pool_call *call = arg;
    ssize_t n = sendfile(call->out, call->in, call->offset, call->size);
    call->result = n < 0 ? -errno : n;
    return 0;
}

/// K3.
static int64_t call_in_pool(struct weft__task *task, struct pool_call *call)
{
    if (weft__hold_is_closed(task)) {
        return -EBADF;
    }
    int rc = weft_blocking(call->fn, call, call->deadline);
    return rc < 0 ? rc : call->result;
}

/// K4.
static weft_time until(const struct copy *copy)
{
    return copy->moved.written == 0 ? WEFT_FOREVER : copy->deadline;
}

// File to file.

static int copy_range(struct copy *copy)
{
    while (copy->left > 0) {
        struct pool_call call = {
            .fn = call_range,
            .in = copy->in.fd,
            .out = copy->out.fd,
            .size = at_most(copy, POOL_BYTES),
            .deadline = until(copy),
        };
        int64_t n = call_in_pool(copy->task, &call);
        // Nothing may mean the end, or a file of the kernel's own that has no size.
        if (n == 0 || is_unsuited(n)) {
            return ANOTHER;
        }
        if (n < 0 && n != -EINTR) {
            return (int)n;
        }
        copy->moved.read += n > 0 ? (uint64_t)n : 0;
        wrote(copy, n > 0 ? (uint64_t)n : 0);
    }
    return OVER;
}

// File to anything.

/// One sendfile(2) that moves something, or ends. `deadline` is for the output.
static int64_t send_promptly(struct weft__task *task, struct pool_call *call, weft_time deadline)
{
    for (;;) {
        call->result = 0;
        int64_t n = call_in_pool(task, call);
        if (n == -EAGAIN && call->result == -EAGAIN) {
            int rc = weft_poll(call->out, POLLOUT, deadline);
            if (rc < 0) {
                return rc;
            }
        } else if (n != -EINTR) {
            return n;
        }
    }
}

/// K2: reads by position, and says how much was written.
static int64_t send_by_memory(struct weft__task *task, int out, int in, int64_t *offset,
                              size_t size, weft_time deadline)
{
    int64_t at = offset != NULL ? *offset : lseek(in, 0, SEEK_CUR);
    if (at < 0) {
        return offset != NULL ? -EINVAL : -errno;
    }
    size_t room = size < MEMORY_BYTES ? size : MEMORY_BYTES;
    char *memory = weft__host_alloc(task, MEMORY_BYTES);
    if (memory == NULL) {
        return -ENOMEM;
    }
    ssize_t n = weft_pread(in, memory, room, at, WEFT_FOREVER); // K4
    if (n > 0) {
        n = weft_write(out, memory, (size_t)n, deadline);
    }
    weft__host_free(task, memory, MEMORY_BYTES);
    if (n > 0 && offset != NULL) {
        *offset += n;
    } else if (n > 0) {
        (void)lseek(in, at + n, SEEK_SET);
    }
    return n;
}

static int64_t send_file(struct weft__task *task, const struct weft__end *out, int in,
                         int64_t *offset, size_t size, weft_time deadline)
{
    // sendfile(2) has no flag: a pipe in blocking mode would hold the thread.
    if (out->prompt && out->kind != WEFT__END_PIPE) {
        struct pool_call call = {
            .fn = call_sendfile,
            .in = in,
            .out = out->fd,
            .offset = offset,
            .size = size < POOL_BYTES ? size : POOL_BYTES,
            .deadline = WEFT_FOREVER, // K4
        };
        int64_t n = send_promptly(task, &call, deadline);
        if (!is_unsuited(n)) {
            return n;
        }
    }
    return send_by_memory(task, out->fd, in, offset, size, deadline);
}

ssize_t weft_sendfile(int out, int in, int64_t *offset, size_t size, weft_time deadline)
{
    struct weft__task *task = weft__thread_self();
    struct weft__end from = { .fd = in };
    struct weft__end to = { .fd = out };
    if (task == NULL) {
        return weft__no_task();
    }
    if (offset != NULL && *offset < 0) {
        return -EINVAL;
    }
    struct weft__hold hold;
    int64_t n = weft__hold_begin(&hold, (int[]){ in, out }, 2);
    if (n < 0) {
        return (ssize_t)n;
    }
    n = weft__end_init(&from, task, in);
    n = n == 0 ? weft__end_init(&to, task, out) : n;
    n = n == 0 && from.kind != WEFT__END_FILE ? -EINVAL : n;
    n = n == 0 && size > 0 ? send_file(task, &to, in, offset, size, deadline) : n;
    weft__hold_end(&hold);
    return (ssize_t)n;
}

static int copy_file(struct copy *copy)
{
    while (copy->left > 0) {
        struct pool_call call = {
            .fn = call_sendfile,
            .in = copy->in.fd,
            .out = copy->out.fd,
            .size = at_most(copy, POOL_BYTES),
            .deadline = until(copy),
        };
        int64_t n = send_promptly(copy->task, &call, copy->deadline);
        if (n == 0 || is_unsuited(n)) {
            return ANOTHER;
        }
        if (n < 0) {
            return (int)n;
        }
        copy->moved.read += (uint64_t)n;
        wrote(copy, (uint64_t)n);
    }
    return OVER;
}

// With a pipe.

static int copy_splice(struct copy *copy)
{
    while (copy->left > 0) {
        int rc = weft__ends_wait(copy->in.fd, copy->out.fd, copy->deadline);
        if (rc < 0) {
            return rc;
        }
        int64_t n = weft__ends_splice(copy->task, &copy->in, &copy->out, at_most(copy, PIPE_BYTES),
                                      until(copy));
        if (n == 0) {
            return OVER;
        }
        if (n < 0 && n != -EAGAIN) {
            return is_unsuited(n) ? ANOTHER : (int)n;
        }
        copy->moved.read += n > 0 ? (uint64_t)n : 0;
        wrote(copy, n > 0 ? (uint64_t)n : 0);
    }
    return OVER;
}

/// K1: the output takes no splices, but bytes for it are in our pipe.
static int rescue(struct copy *copy, const struct weft__end *pipe)
{
    char memory[4096];
    while (copy->moved.written < copy->moved.read) {
        ssize_t n = weft_read(pipe->fd, memory, sizeof memory, copy->deadline);
        if (n <= 0) {
            return n < 0 ? (int)n : -EIO;
        }
        size_t moved;
        ssize_t rc = weft_write_full(&moved, copy->out.fd, memory, (size_t)n, copy->deadline);
        wrote(copy, moved);
        if (rc < 0) {
            return (int)rc;
        }
    }
    return ANOTHER;
}

/// Empties our pipe into the output: 0, ANOTHER or a negative errno.
static int drain_pipe(struct copy *copy, const struct weft__end *pipe)
{
    while (copy->moved.written < copy->moved.read) {
        size_t inside = (size_t)(copy->moved.read - copy->moved.written);
        int rc = weft_poll(copy->out.fd, POLLOUT, copy->deadline);
        if (rc < 0) {
            return rc;
        }
        int64_t n = weft__ends_splice(copy->task, pipe, &copy->out, inside, copy->deadline);
        if (n > 0) {
            wrote(copy, (uint64_t)n);
        } else if (is_unsuited(n)) {
            return rescue(copy, pipe);
        } else if (n != -EAGAIN) {
            return n == 0 ? -EIO : (int)n;
        }
    }
    return 0;
}

static int pump(struct copy *copy, const struct weft__end *into, const struct weft__end *from)
{
    while (copy->left > 0) {
        int64_t n = weft__ends_splice(copy->task, &copy->in, into, at_most(copy, PIPE_BYTES),
                                      copy->deadline);
        int rc = 0;
        if (n == -EAGAIN) {
            rc = weft_poll(copy->in.fd, POLLIN, copy->deadline);
        } else if (n > 0) {
            copy->moved.read += (uint64_t)n;
            rc = drain_pipe(copy, from);
        } else {
            return n == 0 ? OVER : is_unsuited(n) ? ANOTHER : (int)n;
        }
        if (rc < 0 || (n > 0 && rc == ANOTHER)) {
            return rc;
        }
    }
    return OVER;
}

static int copy_pipe(struct copy *copy)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        return ANOTHER; // no descriptors left: memory needs none
    }
    (void)fcntl(fds[1], F_SETPIPE_SZ, (int)PIPE_BYTES); // refused: then as large as it is
    struct weft__end from = { .fd = fds[0], .kind = WEFT__END_PIPE, .prompt = true };
    struct weft__end into = { .fd = fds[1], .kind = WEFT__END_PIPE, .prompt = true };
    int rc = pump(copy, &into, &from);
    (void)weft_close(fds[0]);
    (void)weft_close(fds[1]);
    return rc;
}

// Through memory.

/// One piece. 0: the input has ended.
static int64_t copy_piece(struct copy *copy, char *memory, int64_t at)
{
    size_t size = at_most(copy, MEMORY_BYTES);
    ssize_t n = at < 0 ? weft_read(copy->in.fd, memory, size, copy->deadline)
                       : weft_pread(copy->in.fd, memory, size, at, until(copy));
    if (n <= 0) {
        return n;
    }
    size_t moved;
    copy->moved.read += (uint64_t)n;
    ssize_t rc = weft_write_full(&moved, copy->out.fd, memory, (size_t)n, copy->deadline);
    wrote(copy, moved);
    return rc;
}

static int copy_memory(struct copy *copy)
{
    struct weft__task *task = copy->task;
    int64_t start = copy->in.kind == WEFT__END_FILE ? lseek(copy->in.fd, 0, SEEK_CUR) : -1;
    uint64_t before = copy->moved.written;
    char *memory = weft__host_alloc(task, MEMORY_BYTES);
    if (memory == NULL) {
        return -ENOMEM;
    }
    int64_t n = 1;
    while (copy->left > 0 && n > 0) {
        int64_t at = start < 0 ? -1 : start + (int64_t)(copy->moved.written - before);
        n = copy_piece(copy, memory, at);
    }
    weft__host_free(task, memory, MEMORY_BYTES);
    if (start >= 0) { // K2
        (void)lseek(copy->in.fd, start + (int64_t)(copy->moved.written - before), SEEK_SET);
        copy->moved.read = copy->moved.written;
    }
    return n < 0 ? (int)n : OVER;
}

/// The best way for these descriptors, or ANOTHER.
static int copy_well(struct copy *copy)
{
    const struct weft__end *in = &copy->in;
    const struct weft__end *out = &copy->out;
    if (!in->prompt || !out->prompt) {
        return ANOTHER;
    }
    if (in->kind == WEFT__END_PIPE || out->kind == WEFT__END_PIPE) {
        return copy_splice(copy);
    }
    if (in->kind == WEFT__END_FILE) {
        return out->kind == WEFT__END_FILE ? copy_range(copy) : copy_file(copy);
    }
    return out->kind == WEFT__END_FILE ? ANOTHER : copy_pipe(copy);
}

/// Whether it would read what it writes, for ever.
static bool is_endless(const struct copy *copy)
{
    return copy->left == WEFT_COPY_ALL && copy->in.kind == WEFT__END_FILE &&
           copy->out.kind == WEFT__END_FILE && copy->in.device == copy->out.device &&
           copy->in.inode == copy->out.inode;
}

int weft_copy(struct weft_copied *copied, int out, int in, uint64_t count, weft_time deadline)
{
    struct copy copy = { .task = weft__thread_self(), .left = count, .deadline = deadline };
    if (copied != NULL) {
        *copied = (struct weft_copied){ 0, 0 };
    }
    if (copy.task == NULL) {
        return weft__no_task();
    }
    if (in == out) {
        return -EINVAL; // it would never end
    }
    struct weft__hold hold;
    int rc = weft__hold_begin(&hold, (int[]){ in, out }, 2);
    if (rc < 0) {
        return rc;
    }
    rc = weft__end_init(&copy.in, copy.task, in);
    rc = rc == 0 ? weft__end_init(&copy.out, copy.task, out) : rc;
    rc = rc == 0 && is_endless(&copy) ? -EINVAL : rc;
    rc = rc == 0 ? copy_well(&copy) : rc;
    rc = rc == ANOTHER ? copy_memory(&copy) : rc;
    weft__hold_end(&hold);
    if (copied != NULL) {
        *copied = copy.moved;
    }
    return rc;
}
