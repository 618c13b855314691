// weft/async_io.h - the calls of weft/io.h as futures, for state machines and for several at a time.
//
//     struct weft_io_future read;
//     weft_read_future(&read, fd, buffer, sizeof buffer);
//     struct weft_timeout timeout;
//     weft_timeout_init(&timeout, &read.future, weft_after(WEFT_S));
//     int64_t n = weft_await(&timeout.future, WEFT_FOREVER);
//
// The first poll begins the operation, on the carrier of the task that polls, or on its home if the
// task is on a scheduler of the program's. From then on until READY
// the buffers, addresses and arrays it was given belong to the kernel, and the future stays in place.
// Cancelling asks the kernel to end it: poll on until READY. Bytes that were transferred win over the
// cancel: the result is their number.
//
// Results are those of the blocking call without a deadline, or a negative errno:
//     -ECANCELED  it was cancelled, and nothing was transferred
//     -EBADF      not an open descriptor, or weft_close() closed it meanwhile
//     -EPERM      polled outside a task
// and what the system call itself says. A descriptor, blocking or not, may be used by any number of
// these and of blocking calls at the same time. In the simulator they take its sockets only.
//
// What is not here takes memory or threads of its own: weft_writev_full(), weft_sendfile(), weft_copy(),
// weft_unix_send_fds(), weft_unix_recv_fds(), MSG_WAITALL. A virtual thread does it, whose end is a
// future, too (weft_join_future).
#ifndef WEFT_ASYNC_IO_H
#define WEFT_ASYNC_IO_H

#include <weft/base.h>
#include <weft/future.h>

WEFT_BEGIN_DECLS

struct iovec;
struct msghdr;
struct sockaddr;

/// Caller-owned; embed it, or await or spawn `&io.future`.
struct weft_io_future {
    struct weft_future future;
    uint64_t opaque[32];
};

/// Reads up to `size` bytes at the descriptor's position; waits until there is one. 0 at the end.
WEFT_API void weft_read_future(struct weft_io_future *io, int fd, void *data, size_t size);
/// Writes up to `size` bytes, at least one.
WEFT_API void weft_write_future(struct weft_io_future *io, int fd, const void *data, size_t size);

/// Several operations, one after the other. Caller-owned; embed it, or await or spawn `&full.future`.
struct weft_full_future {
    struct weft_future future;
    uint64_t opaque[46];
};

/// Reads until `size` bytes are there or the file ends. The result is how many there are: fewer than `size`
/// only at the end of file. When READY, `*moved` (may be NULL) says how many were read, also before an
/// error or a cancel, so that nothing is lost.
WEFT_API void weft_read_full_future(struct weft_full_future *full, size_t *moved, int fd,
                                    void *data, size_t size);
/// Writes all `size` bytes, and the result is `size`. `*moved` likewise.
WEFT_API void weft_write_full_future(struct weft_full_future *full, size_t *moved, int fd,
                                     const void *data, size_t size);

/// One read or write with pieces of memory, 1024 at most, or -EINVAL.
WEFT_API void weft_readv_future(struct weft_io_future *io, int fd, const struct iovec *parts,
                                int count);
WEFT_API void weft_writev_future(struct weft_io_future *io, int fd, const struct iovec *parts,
                                 int count);
/// The same at a position of a file. -ESPIPE where there is none, -EINVAL for a negative one.
WEFT_API void weft_pread_future(struct weft_io_future *io, int fd, void *data, size_t size,
                                int64_t offset);
WEFT_API void weft_pwrite_future(struct weft_io_future *io, int fd, const void *data, size_t size,
                                 int64_t offset);
WEFT_API void weft_preadv_future(struct weft_io_future *io, int fd, const struct iovec *parts,
                                 int count, int64_t offset);
WEFT_API void weft_pwritev_future(struct weft_io_future *io, int fd, const struct iovec *parts,
                                  int count, int64_t offset);
/// Writes down to the disk; with `data_only` not what is not needed to read it back.
WEFT_API void weft_fsync_future(struct weft_io_future *io, int fd, bool data_only);

/// Receives and sends on a socket. `flags` are MSG_*; MSG_WAITALL is left out.
WEFT_API void weft_recv_future(struct weft_io_future *io, int fd, void *data, size_t size,
                               int flags);
WEFT_API void weft_send_future(struct weft_io_future *io, int fd, const void *data, size_t size,
                               int flags);
WEFT_API void weft_recvmsg_future(struct weft_io_future *io, int fd, struct msghdr *message,
                                  int flags);
WEFT_API void weft_sendmsg_future(struct weft_io_future *io, int fd, const struct msghdr *message,
                                  int flags);

/// Room for an address and a header besides. Caller-owned; embed it, or await or spawn
/// `&message.future`.
struct weft_message_future {
    struct weft_future future;
    uint64_t opaque[42];
};

/// Receives, and stores who has sent it: `*addr_size` is the room at `addr`, and when READY the length of
/// the sender's address, which is cut off if it is longer. On every error it is left alone. `addr` may be
/// NULL. `flags` as above.
WEFT_API void weft_recvfrom_future(struct weft_message_future *message, int fd, void *data,
                                   size_t size, int flags, struct sockaddr *addr,
                                   uint32_t *addr_size);
/// Sends to an address; NULL: to the peer of a connected socket.
WEFT_API void weft_sendto_future(struct weft_message_future *message, int fd, const void *data,
                                 size_t size, int flags, const struct sockaddr *addr,
                                 uint32_t addr_size);

/// Takes a connection off a listening socket: the result is its descriptor, which is the caller's also
/// if the future had been cancelled. `addr` and `addr_size` may be NULL. `flags` are SOCK_CLOEXEC and
/// SOCK_NONBLOCK.
WEFT_API void weft_accept_future(struct weft_io_future *io, int fd, struct sockaddr *addr,
                                 uint32_t *addr_size, int flags);

/// Connects a socket. Unlike weft_connect() it says -EAGAIN when the backlog of a Unix socket is full
/// and `fd` is non-blocking.
WEFT_API void weft_connect_future(struct weft_io_future *io, int fd, const struct sockaddr *addr,
                                  uint32_t addr_size);

/// Waits until one of `events` (POLLIN, POLLOUT, ...) is there: the result is what is ready, also
/// POLLERR and POLLHUP.
WEFT_API void weft_poll_future(struct weft_io_future *io, int fd, int events);

/// Caller-owned; embed it, or await or spawn `&splice.future`.
struct weft_splice_future {
    struct weft_future future;
    uint64_t opaque[46];
};

/// Moves up to `size` bytes from `in` to `out`, one of which is a pipe, inside the kernel: waits for both,
/// then moves what there is. Offsets, flags and result as weft_splice(); the offsets are read and moved
/// on until READY. Closing either descriptor ends it.
WEFT_API void weft_splice_future(struct weft_splice_future *splice, int in, int64_t *in_offset,
                                 int out, int64_t *out_offset, size_t size, unsigned flags);

WEFT_END_DECLS

#endif
