// splice.h - descriptors as the ends of a transfer inside the kernel.
#ifndef WEFT_IO_SPLICE_H
#define WEFT_IO_SPLICE_H

#include <sys/types.h>

#include <weft/time.h>

#include "sched/carrier.h"

/// What a descriptor is, as far as moving bytes is concerned.
enum weft__end_kind {
    WEFT__END_FILE, ///< regular: it has positions, and waits for a disk only
    WEFT__END_PIPE,
    WEFT__END_OTHER,
};

struct weft__end {
    int fd;
    enum weft__end_kind kind;
    bool prompt;  ///< it can be asked not to wait for a peer: O_NONBLOCK, or not OTHER
    dev_t device; ///< of a FILE: which one it is
    ino_t inode;
};

/// Looks at a descriptor. In the simulator all are OTHER, and not prompt. 0 or a negative errno.
int weft__end_init(struct weft__end *end, const struct weft__task *task, int fd);

/// Parks until both look as if something could be moved. 0 or a negative errno.
int weft__ends_wait(int in, int out, weft_time deadline);

/// Moves up to `size` bytes between two prompt ends, one of which is a pipe, from their own
/// positions, without waiting for a peer: the number of bytes, 0 at the end of the input, -EAGAIN or
/// another negative errno.
int64_t weft__ends_splice(struct weft__task *task, const struct weft__end *in,
                          const struct weft__end *out, size_t size, weft_time deadline);

#endif
