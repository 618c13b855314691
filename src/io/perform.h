// perform.h - one operation, as system calls that do not wait.
#ifndef WEFT_IO_PERFORM_H
#define WEFT_IO_PERFORM_H

#include <errno.h>

#include "sched/op.h"

/// What a descriptor is, as far as waiting goes.
enum weft__fd_kind {
    WEFT__FD_UNKNOWN,
    WEFT__FD_STREAM, ///< a stream socket: a read that is shorter than asked for has emptied it
    WEFT__FD_LOCAL,  ///< a Unix stream socket: likewise, unless it stopped at passed descriptors
    WEFT__FD_PACKET, ///< a socket with message boundaries: short says nothing
    WEFT__FD_FILE,   ///< a file, a directory, a block device: always "ready", and yet it blocks
    WEFT__FD_OTHER,  ///< pipes, terminals, eventfds and so on
};

/// Besides a result: it would block until the descriptor is ready, or it blocks on a disk.
#define WEFT__WOULD_BLOCK (-(int64_t)EAGAIN)
#define WEFT__WOULD_STALL INT64_MIN

/// Looks at the descriptor: a kind, or a negative errno.
int weft__fd_kind(int fd);

/// Performs the op if that does not block: its result, WEFT__WOULD_BLOCK or WEFT__WOULD_STALL.
/// op->result holds what has been transferred by earlier attempts. `kind` is a guess that is looked
/// up or corrected where it matters. Sets WEFT__OP_EMPTY if a read emptied the socket. Not for
/// SELECT.
int64_t weft__perform(struct weft__op *op, uint8_t *kind);

/// A RECV into the given memory.
int64_t weft__perform_recv(struct weft__op *op, uint8_t *kind, void *data, size_t size);

/// Whether a SPLICE that would block does so because there is nothing to read.
bool weft__splice_waits_for_input(const struct weft__op *op);

/// Performs the op to its end, blocking; for files. Reads the op only.
int64_t weft__perform_blocking(const struct weft__op *op);

#endif
