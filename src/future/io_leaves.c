// io_leaves.c - the operations on plain descriptors as futures: what each asks of a driver.
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include "future/io_future.h"
#include "io/fd_api.h"

/// Operations do not write through the pointers that writes and sends are given.
static void *writable(const void *data)
{
    return (void *)(uintptr_t)data;
}

static size_t capped(size_t size)
{
    return size < WEFT__TRANSFER_MOST ? size : WEFT__TRANSFER_MOST;
}

static void transfer(struct weft_io_future *io, enum weft__op_code code, int fd, void *data,
                     size_t size, int64_t offset)
{
    struct weft__op op = {
        .code = (uint8_t)code, .fd = fd, .data = data, .size = capped(size), .offset = offset
    };
    weft__io_future_init(weft__io_future_of(io), op, 0);
}

void weft_read_future(struct weft_io_future *io, int fd, void *data, size_t size)
{
    transfer(io, WEFT__OP_READ, fd, data, size, -1);
}

void weft_write_future(struct weft_io_future *io, int fd, const void *data, size_t size)
{
    transfer(io, WEFT__OP_WRITE, fd, writable(data), size, -1);
}

static void transfer_at(struct weft_io_future *io, enum weft__op_code code, int fd, void *data,
                        size_t size, int64_t offset)
{
    transfer(io, code, fd, data, size, offset);
    weft__io_future_of(io)->at_position = true;
}

void weft_pread_future(struct weft_io_future *io, int fd, void *data, size_t size, int64_t offset)
{
    transfer_at(io, WEFT__OP_READ, fd, data, size, offset);
}

void weft_pwrite_future(struct weft_io_future *io, int fd, const void *data, size_t size,
                        int64_t offset)
{
    transfer_at(io, WEFT__OP_WRITE, fd, writable(data), size, offset);
}

static void vector(struct weft_io_future *io, enum weft__op_code code, int fd,
                   const struct iovec *parts, int count, int64_t offset)
{
    struct weft__op op = { .code = (uint8_t)code,
                           .fd = fd,
                           .data = writable(parts),
                           .size = (size_t)count,
                           .offset = offset };
    int error = count < 0 || count > IOV_MAX ? -EINVAL : 0;
    weft__io_future_init(weft__io_future_of(io), op, parts == NULL && count > 0 ? -EFAULT : error);
}

void weft_readv_future(struct weft_io_future *io, int fd, const struct iovec *parts, int count)
{
    vector(io, WEFT__OP_READV, fd, parts, count, -1);
}

void weft_writev_future(struct weft_io_future *io, int fd, const struct iovec *parts, int count)
{
    vector(io, WEFT__OP_WRITEV, fd, parts, count, -1);
}

void weft_preadv_future(struct weft_io_future *io, int fd, const struct iovec *parts, int count,
                        int64_t offset)
{
    vector(io, WEFT__OP_READV, fd, parts, count, offset);
    weft__io_future_of(io)->at_position = true;
}

void weft_pwritev_future(struct weft_io_future *io, int fd, const struct iovec *parts, int count,
                         int64_t offset)
{
    vector(io, WEFT__OP_WRITEV, fd, parts, count, offset);
    weft__io_future_of(io)->at_position = true;
}

void weft_fsync_future(struct weft_io_future *io, int fd, bool data_only)
{
    struct weft__op op = { .code = WEFT__OP_FSYNC, .fd = fd, .flags = data_only ? 1 : 0 };
    weft__io_future_init(weft__io_future_of(io), op, 0);
}

// Sockets.

static void exchange(struct weft_io_future *io, enum weft__op_code code, int fd, void *data,
                     size_t size, int flags)
{
    struct weft__op op = { .code = (uint8_t)code,
                           .fd = fd,
                           .data = data,
                           .size = capped(size),
                           .flags = (uint32_t)(flags & ~MSG_WAITALL) };
    weft__io_future_init(weft__io_future_of(io), op, 0);
}

void weft_recv_future(struct weft_io_future *io, int fd, void *data, size_t size, int flags)
{
    exchange(io, WEFT__OP_RECV, fd, data, size, flags);
}

void weft_send_future(struct weft_io_future *io, int fd, const void *data, size_t size, int flags)
{
    exchange(io, WEFT__OP_SEND, fd, writable(data), size, flags);
}

static void message_op(struct weft_io_future *io, enum weft__op_code code, int fd, void *message,
                       int flags)
{
    struct weft__op op = {
        .code = (uint8_t)code, .fd = fd, .data = message, .flags = (uint32_t)(flags & ~MSG_WAITALL)
    };
    weft__io_future_init(weft__io_future_of(io), op, message == NULL ? -EFAULT : 0);
}

void weft_recvmsg_future(struct weft_io_future *io, int fd, struct msghdr *message, int flags)
{
    message_op(io, WEFT__OP_RECVMSG, fd, message, flags);
}

void weft_sendmsg_future(struct weft_io_future *io, int fd, const struct msghdr *message, int flags)
{
    message_op(io, WEFT__OP_SENDMSG, fd, writable(message), flags);
}

/// The driver writes the length there.
void weft_accept_future(struct weft_io_future *io, int fd, struct sockaddr *addr,
                        uint32_t *addr_size, int flags) // NOLINT(readability-non-const-parameter)
{
    struct weft__op op = { .code = WEFT__OP_ACCEPT,
                           .fd = fd,
                           .data = addr,
                           .addr_size = addr != NULL ? addr_size : NULL,
                           .flags = (uint32_t)flags };
    int error = (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) != 0 ? -EINVAL : 0;
    weft__io_future_init(weft__io_future_of(io), op,
                         addr != NULL && addr_size == NULL ? -EFAULT : error);
}

void weft_connect_future(struct weft_io_future *io, int fd, const struct sockaddr *addr,
                         uint32_t addr_size)
{
    struct weft__op op = {
        .code = WEFT__OP_CONNECT, .fd = fd, .data = writable(addr), .size = addr_size
    };
    weft__io_future_init(weft__io_future_of(io), op, addr == NULL ? -EFAULT : 0);
}

void weft_poll_future(struct weft_io_future *io, int fd, int events)
{
    struct weft__op op = { .code = WEFT__OP_POLL, .fd = fd, .flags = (uint32_t)events };
    weft__io_future_init(weft__io_future_of(io), op,
                         events < 0 || events > UINT16_MAX ? -EINVAL : 0);
}
