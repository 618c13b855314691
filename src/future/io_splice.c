// io_splice.c - splice as a future: wait for both ends, then move.
//
// As for threads (io/splice.c) the waiting is done by polling, which holds nothing in the kernel, and the
// splice itself is told not to wait:
//
//     POLL_IN ---> POLL_OUT ---> MOVE ---> READY
//        ^                        |
//        +---- a rival was faster-+
//
// Both descriptors are kept throughout (io_future.c, I6).
//
// Rejected: a copy of any size between any descriptors, as weft_copy() (it has threads of the pool and memory
// of its own, and several ways to go: that is a virtual thread's work).
// Checked by: tests/api/splice_future_test.c.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "future/io_future.h"
#include "io/fd_api.h"

enum stage { POLL_IN, POLL_OUT, MOVE };

/// All but `stage`, which is the carrier's while in flight, is fixed.
struct splicing {
    struct weft__io_series series; // use.fd is the output, also.fd the input
    int64_t *in_offset, *out_offset;
    size_t size;
    uint32_t flags;
    bool waits;
    uint8_t stage; // enum stage
};
_Static_assert(sizeof(struct splicing) <= sizeof(struct weft_splice_future), "public size");

static int64_t offset_of(const int64_t *offset)
{
    return offset != NULL ? *offset : -1;
}

static struct weft__op op_of(const struct splicing *splice)
{
    int in = splice->series.also.fd;
    int out = splice->series.io.use.fd;
    if (splice->stage != MOVE) {
        bool looks_in = splice->stage == POLL_IN;
        return (struct weft__op){ .code = WEFT__OP_POLL,
                                  .fd = looks_in ? in : out,
                                  .flags = looks_in ? POLLIN : POLLOUT };
    }
    return (struct weft__op){ .code = WEFT__OP_SPLICE,
                              .fd = out,
                              .from_fd = in,
                              .offset = offset_of(splice->out_offset),
                              .from_offset = offset_of(splice->in_offset),
                              .size = splice->size,
                              .flags = splice->flags | SPLICE_F_NONBLOCK };
}

/// On the carrier: an op has ended.
static enum weft__io_step next(struct weft__io_future *io)
{
    struct splicing *splice = weft__container_of(io, struct splicing, series.io);
    int64_t result = io->op.result;
    bool rival = splice->stage == MOVE && result == -EAGAIN && splice->waits;
    if (!rival && (splice->stage == MOVE || result < 0)) {
        return WEFT__IO_OVER;
    }
    splice->stage = rival ? POLL_IN : splice->stage + 1;
    io->op = op_of(splice);
    return rival ? WEFT__IO_LATER : WEFT__IO_GO_ON; // others first, or it might never end
}

static void advance(int64_t *offset, int64_t moved)
{
    if (offset != NULL) {
        *offset += moved;
    }
}

static enum weft_poll poll_splice(struct weft_future *future, weft_waker *waker)
{
    struct splicing *splice = weft__container_of(future, struct splicing, series.io.future);
    enum weft_poll rc = weft__io_future_poll(future, waker);
    if (rc == WEFT_READY && future->result > 0) {
        advance(splice->in_offset, future->result);
        advance(splice->out_offset, future->result);
    }
    return rc;
}

// The offsets are moved on later. NOLINTBEGIN(readability-non-const-parameter)
void weft_splice_future(struct weft_splice_future *public_splice, int in, int64_t *in_offset,
                        int out, int64_t *out_offset, size_t size, unsigned flags)
// NOLINTEND(readability-non-const-parameter)
{
    struct splicing *splice = (struct splicing *)(void *)public_splice;
    bool wrong = in == out || (in_offset != NULL && *in_offset < 0) ||
                 (out_offset != NULL && *out_offset < 0);
    *splice = (struct splicing){
        .in_offset = in_offset,
        .out_offset = out_offset,
        .size = size < WEFT__TRANSFER_MOST ? size : WEFT__TRANSFER_MOST,
        .flags = flags,
        .waits = (flags & SPLICE_F_NONBLOCK) == 0 && size > 0,
    };
    splice->stage = splice->waits ? POLL_IN : MOVE;
    struct weft__op op = { .fd = out };
    int error = wrong ? -EINVAL : in < 0 ? -EBADF : 0;
    weft__io_future_init(&splice->series.io, op, error);
    weft__io_series_init(&splice->series, in, next);
    splice->series.io.future.poll = poll_splice;
    splice->series.io.op = op_of(splice);
}
