// fd_api.c - the calls of POSIX on plain descriptors: each is one operation of a driver.
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <weft/io.h>

#include "io/call.h"
#include "io/fd_api.h"
#include "io/hold.h"

static int64_t call(struct weft__op op, const char *what, weft_time deadline)
{
    struct weft__call call;
    call.op = op;
    return weft__call(&call, what, deadline);
}

/// Operations do not write through the pointers that writes and sends are given.
static void *writable(const void *data)
{
    return (void *)(uintptr_t)data;
}

static size_t capped(size_t size)
{
    return size < WEFT__TRANSFER_MOST ? size : WEFT__TRANSFER_MOST;
}

// At the descriptor's position.

ssize_t weft_read(int fd, void *data, size_t size, weft_time deadline)
{
    struct weft__call call;
    weft__op_init(&call.op, WEFT__OP_READ, fd, data, capped(size));
    return (ssize_t)weft__call(&call, "read", deadline);
}

ssize_t weft_write(int fd, const void *data, size_t size, weft_time deadline)
{
    int64_t n = weft__write_now(fd, data, capped(size));
    if (weft__likely(n != -EAGAIN)) {
        return (ssize_t)n;
    }
    struct weft__call call;
    weft__op_init(&call.op, WEFT__OP_WRITE, fd, writable(data), capped(size));
    return (ssize_t)weft__call(&call, "write", deadline);
}

static ssize_t vector(enum weft__op_code code, int fd, const struct iovec *parts, int count,
                      int64_t offset, const char *what, weft_time deadline)
{
    if (count < 0 || count > IOV_MAX) {
        return -EINVAL;
    }
    if (parts == NULL && count > 0) {
        return -EFAULT;
    }
    return (ssize_t)call((struct weft__op){ .code = (uint8_t)code,
                                            .fd = fd,
                                            .data = writable(parts),
                                            .size = (size_t)count,
                                            .offset = offset },
                         what, deadline);
}

ssize_t weft_readv(int fd, const struct iovec *parts, int count, weft_time deadline)
{
    return vector(WEFT__OP_READV, fd, parts, count, -1, "readv", deadline);
}

ssize_t weft_writev(int fd, const struct iovec *parts, int count, weft_time deadline)
{
    return vector(WEFT__OP_WRITEV, fd, parts, count, -1, "writev", deadline);
}

// At a position of a file.

/// io_uring ignores the offset where there are no positions; POSIX refuses. Nothing is transferred to
/// learn about that.
static int check_position(int fd, int64_t offset, bool writes)
{
    const struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    if (offset < 0) {
        return -EINVAL;
    }
    if (task->crew->simulated) {
        return 0; // not a descriptor of the system
    }
    ssize_t rc = writes ? pwritev(fd, NULL, 0, offset) : preadv(fd, NULL, 0, offset);
    return rc < 0 ? -errno : 0;
}

static ssize_t at_position(enum weft__op_code code, int fd, void *data, size_t size, int64_t offset,
                           const char *what, weft_time deadline)
{
    int rc = check_position(fd, offset, code == WEFT__OP_WRITE);
    if (rc < 0) {
        return rc;
    }
    return (ssize_t)call(
        (struct weft__op){
            .code = (uint8_t)code, .fd = fd, .data = data, .size = capped(size), .offset = offset },
        what, deadline);
}

ssize_t weft_pread(int fd, void *data, size_t size, int64_t offset, weft_time deadline)
{
    return at_position(WEFT__OP_READ, fd, data, size, offset, "pread", deadline);
}

ssize_t weft_pwrite(int fd, const void *data, size_t size, int64_t offset, weft_time deadline)
{
    return at_position(WEFT__OP_WRITE, fd, writable(data), size, offset, "pwrite", deadline);
}

ssize_t weft_preadv(int fd, const struct iovec *parts, int count, int64_t offset,
                    weft_time deadline)
{
    int rc = check_position(fd, offset, false);
    return rc < 0 ? rc : vector(WEFT__OP_READV, fd, parts, count, offset, "preadv", deadline);
}

ssize_t weft_pwritev(int fd, const struct iovec *parts, int count, int64_t offset,
                     weft_time deadline)
{
    int rc = check_position(fd, offset, true);
    return rc < 0 ? rc : vector(WEFT__OP_WRITEV, fd, parts, count, offset, "pwritev", deadline);
}

static int sync_file(int fd, uint32_t flags, const char *what, weft_time deadline)
{
    return (int)call((struct weft__op){ .code = WEFT__OP_FSYNC, .fd = fd, .flags = flags }, what,
                     deadline);
}

int weft_fsync(int fd, weft_time deadline)
{
    return sync_file(fd, 0, "fsync", deadline);
}

int weft_fdatasync(int fd, weft_time deadline)
{
    return sync_file(fd, 1, "fdatasync", deadline);
}

// Sockets.

static ssize_t receive(int fd, void *data, size_t size, int flags, weft_time deadline)
{
    struct weft__call call;
    weft__op_init(&call.op, WEFT__OP_RECV, fd, data, capped(size));
    call.op.flags = (uint32_t)flags;
    return (ssize_t)weft__call(&call, "recv", deadline);
}

static bool is_stream(int fd)
{
    struct weft__task *task = weft__thread_self();
    int type = 0;
    uint32_t size = sizeof type;
    if (task == NULL) {
        return false;
    }
    struct weft__carrier *carrier = task->home;
    return carrier->driver->sockets->get(carrier->driver_state, fd, SOL_SOCKET, SO_TYPE, &type,
                                         &size) == 0 &&
           type == SOCK_STREAM;
}

/// Neither driver could do this by itself: the kernel obeys MSG_WAITALL only while it may block. What
/// was received before an error counts; the error comes again with the next call.
static ssize_t receive_all(int fd, char *data, size_t size, int flags, weft_time deadline)
{
    struct weft__hold hold;
    size_t moved = 0;
    int rc = weft__hold_begin(&hold, &fd, 1);
    if (rc < 0) {
        return rc;
    }
    ssize_t n = 1;
    size = capped(size);
    while (moved < size && n > 0) {
        n = receive(fd, data + moved, size - moved, flags, deadline);
        moved += n > 0 ? (size_t)n : 0;
    }
    weft__hold_end(&hold);
    return moved > 0 ? (ssize_t)moved : n;
}

ssize_t weft_recv(int fd, void *data, size_t size, int flags, weft_time deadline)
{
    if (weft__likely((flags & MSG_WAITALL) == 0)) {
        return receive(fd, data, size, flags, deadline);
    }
    flags &= ~MSG_WAITALL;
    if (size > 0 && (flags & (MSG_PEEK | MSG_DONTWAIT)) == 0 && is_stream(fd)) {
        return receive_all(fd, data, size, flags, deadline);
    }
    return receive(fd, data, size, flags, deadline);
}

ssize_t weft_send(int fd, const void *data, size_t size, int flags, weft_time deadline)
{
    int64_t n = flags == 0 ? weft__write_now(fd, data, capped(size)) : -EAGAIN;
    if (weft__likely(n != -EAGAIN)) {
        return (ssize_t)n;
    }
    struct weft__call call;
    weft__op_init(&call.op, WEFT__OP_SEND, fd, writable(data), capped(size));
    call.op.flags = (uint32_t)flags;
    return (ssize_t)weft__call(&call, "send", deadline);
}

static ssize_t message_call(enum weft__op_code code, int fd, const struct msghdr *message,
                            int flags, const char *what, weft_time deadline)
{
    return (ssize_t)call(
        (struct weft__op){
            .code = (uint8_t)code, .fd = fd, .data = writable(message), .flags = (uint32_t)flags },
        what, deadline);
}

ssize_t weft_recvmsg(int fd, struct msghdr *message, int flags, weft_time deadline)
{
    if (message == NULL) {
        return -EFAULT;
    }
    return message_call(WEFT__OP_RECVMSG, fd, message, flags & ~MSG_WAITALL, "recvmsg", deadline);
}

ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags, weft_time deadline)
{
    if (message == NULL) {
        return -EFAULT;
    }
    return message_call(WEFT__OP_SENDMSG, fd, message, flags, "sendmsg", deadline);
}

ssize_t weft_recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *addr,
                      uint32_t *addr_size, weft_time deadline)
{
    if (addr == NULL) {
        return weft_recv(fd, data, size, flags, deadline);
    }
    if (addr_size == NULL) {
        return -EFAULT;
    }
    struct iovec part = { data, capped(size) };
    struct msghdr message = {
        .msg_name = addr,
        .msg_namelen = *addr_size,
        .msg_iov = &part,
        .msg_iovlen = 1,
    };
    ssize_t n = message_call(WEFT__OP_RECVMSG, fd, &message, flags & ~MSG_WAITALL, "recvfrom",
                             deadline);
    if (n >= 0) {
        *addr_size = message.msg_namelen;
    }
    return n;
}

ssize_t weft_sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *addr,
                    uint32_t addr_size, weft_time deadline)
{
    if (addr == NULL) {
        return weft_send(fd, data, size, flags, deadline);
    }
    struct iovec part = { writable(data), capped(size) };
    struct msghdr message = {
        .msg_name = writable(addr),
        .msg_namelen = addr_size,
        .msg_iov = &part,
        .msg_iovlen = 1,
    };
    return message_call(WEFT__OP_SENDMSG, fd, &message, flags, "sendto", deadline);
}

int weft_accept_fd(int fd, struct sockaddr *addr, uint32_t *addr_size, int flags,
                   weft_time deadline)
{
    if ((flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) != 0) {
        return -EINVAL;
    }
    if (addr != NULL && addr_size == NULL) {
        return -EFAULT;
    }
    return (int)call((struct weft__op){ .code = WEFT__OP_ACCEPT,
                                        .fd = fd,
                                        .data = addr,
                                        .addr_size = addr != NULL ? addr_size : NULL,
                                        .flags = (uint32_t)flags },
                     "accept", deadline);
}

/// Before asking again whether there is room in a backlog.
#define FIRST_PAUSE_NS (100 * WEFT_US)
#define LONGEST_PAUSE_NS (10 * WEFT_MS)

static int pause_until(weft_time when, weft_time deadline)
{
    int rc = weft_sleep_until(when < deadline ? when : deadline);
    if (rc < 0) {
        return rc;
    }
    return when < deadline ? 0 : -ETIMEDOUT;
}

static int connect_held(int fd, const struct sockaddr *addr, uint32_t addr_size, weft_time deadline)
{
    for (weft_time pause_ns = FIRST_PAUSE_NS;; pause_ns = 2 * pause_ns) {
        int rc = (int)call(
            (struct weft__op){
                .code = WEFT__OP_CONNECT, .fd = fd, .data = writable(addr), .size = addr_size },
            "connect", deadline);
        if (weft__likely(rc != -EAGAIN)) {
            return rc;
        }
        // The backlog of a Unix socket is full, ours is non-blocking, and nobody says when there is
        // room. The ring leaves the waiting to us.
        pause_ns = pause_ns < LONGEST_PAUSE_NS ? pause_ns : LONGEST_PAUSE_NS;
        rc = pause_until(weft_after(pause_ns), deadline);
        if (rc < 0) {
            return rc;
        }
    }
}

int weft_connect(int fd, const struct sockaddr *addr, uint32_t addr_size, weft_time deadline)
{
    struct weft__hold hold;
    int rc = addr != NULL ? weft__hold_begin(&hold, &fd, 1) : -EFAULT;
    if (rc == 0) {
        rc = connect_held(fd, addr, addr_size, deadline);
        weft__hold_end(&hold);
    }
    return rc;
}

int weft_poll(int fd, int events, weft_time deadline)
{
    if (events < 0 || events > UINT16_MAX) {
        return -EINVAL;
    }
    return (int)call(
        (struct weft__op){ .code = WEFT__OP_POLL, .fd = fd, .flags = (uint32_t)events }, "poll",
        deadline);
}
