// perform.h - one operation, as system calls that do not wait.
#ifndef WEFT_IO_PERFORM_H
#define WEFT_IO_PERFORM_H

#include <errno.h>

#include "sched/op.h"

struct iovec;

/// What a descriptor is, as far as waiting goes.
enum weft__fd_kind {
    WEFT__FD_UNKNOWN,
    WEFT__FD_STREAM, ///< a TCP socket: a read that is shorter than asked for has emptied it
    WEFT__FD_LOCAL,  ///< a Unix stream socket: likewise, unless it stopped at attached descriptors
    WEFT__FD_PACKET, ///< any other socket: short says nothing
    WEFT__FD_FILE,   ///< a file, a directory, a block device: always "ready", and yet it blocks
    WEFT__FD_OTHER,  ///< pipes, terminals, eventfds and so on
};

/// What weft__perform() says besides a result: it would block until the descriptor is ready; it would
/// block although the descriptor is ready; it would block on a disk.
#define WEFT__WOULD_BLOCK (-(int64_t)EAGAIN)
#define WEFT__WOULD_BLOCK_UNSEEN (INT64_MIN + 1)
#define WEFT__WOULD_STALL INT64_MIN

/// weft__op.scratch: CONNECT is under way. The other bits are the driver's.
#define WEFT__OP_BEGUN 0x1u

/// Looks at the descriptor: a kind, or a negative errno.
int weft__fd_kind(int fd);
int weft__socket_kind(int fd);

static inline bool weft__is_stream(uint8_t kind)
{
    return kind == WEFT__FD_STREAM || kind == WEFT__FD_LOCAL;
}

static inline bool weft__is_socket(uint8_t kind)
{
    return weft__is_stream(kind) || kind == WEFT__FD_PACKET;
}

/// Performs the op if that does not block: its result, or one of the three above. op->result holds
/// what has been transferred by earlier attempts. `kind` is a guess that is looked up or corrected
/// where it matters. Sets WEFT__OP_EMPTY if a read was short. Not for SELECT.
int64_t weft__perform(struct weft__op *op, uint8_t *kind);

/// A RECV into the given memory, with MSG_* flags.
int64_t weft__perform_recv(struct weft__op *op, uint8_t *kind, void *data, size_t size,
                           uint32_t flags);

/// Performs the op to its end, blocking; for files. Reads the op only.
int64_t weft__perform_blocking(const struct weft__op *op);

/// How many bytes the op would like to transfer.
size_t weft__op_bytes(const struct weft__op *op);

/// What poll(2) says now, or WEFT__WOULD_BLOCK.
int64_t weft__poll_now(int fd, unsigned events);

/// Around a fork, so that the child finds no lock of this file held.
void weft__modes_before_fork(void);
void weft__modes_after_fork(void);

// perform_rw.c

int64_t weft__perform_rw(struct weft__op *op, uint8_t *kind);
int64_t weft__perform_rw_blocking(const struct weft__op *op);

/// A part of a vector: from `done` bytes on, at most `most`. Where that begins or ends inside an
/// element, it is a part of that one element, in `one`.
struct weft__span {
    struct iovec *parts;
    size_t count;
};
struct weft__span weft__span(struct iovec *parts, size_t count, size_t done, size_t most,
                             struct iovec *one);

#endif
