// io_splice.c - splice as a future: wait for both ends, then move.
//
// As for threads (io/splice.c) the waiting is done by polling, which holds nothing in the kernel, and the
// splice itself is told not to wait:
//
//     POLL_IN ---> POLL_OUT ---> MOVE ---> READY
//        ^                        |
//        +---- a rival was faster-+
//
// Both descriptors are kept throughout (struct weft__io_pair).
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

/// The owner's; all but `stage` is fixed.
struct splicing {
    struct weft__io_pair pair; // use.fd is the output, also.fd the input
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
    int in = splice->pair.also.fd;
    int out = splice->pair.io.use.fd;
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

static void advance(int64_t *offset, int64_t moved)
{
    if (offset != NULL) {
        *offset += moved;
    }
}

/// An op has ended with `result`. True: there is another one.
static bool go_on(struct splicing *splice, int64_t result)
{
    if (splice->stage == MOVE && result == -EAGAIN && splice->waits) {
        splice->stage = POLL_IN;
        return true;
    }
    if (splice->stage == MOVE && result > 0) {
        advance(splice->in_offset, result);
        advance(splice->out_offset, result);
    }
    if (splice->stage == MOVE || result < 0) {
        return false;
    }
    splice->stage++;
    return true;
}

static enum weft_poll poll_splice(struct weft_future *future, weft_waker *waker)
{
    struct splicing *splice = weft__container_of(future, struct splicing, pair.io.future);
    while (weft__io_future_poll(future, waker) == WEFT_READY) {
        if (!go_on(splice, future->result)) {
            return WEFT_READY;
        }
        weft__io_future_again(&splice->pair.io, op_of(splice));
        if (splice->stage == POLL_IN) { // others first, or it might never end
            weft_waker_wake_by_ref(waker);
            break;
        }
    }
    return WEFT_PENDING;
}

void weft_splice_future(struct weft_splice_future *public_splice, int in, int64_t *in_offset,
                        int out, int64_t *out_offset, size_t size, unsigned flags)
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
    weft__io_future_init(&splice->pair.io, op, wrong ? -EINVAL : 0);
    splice->pair.io.future.poll = poll_splice;
    splice->pair.io.two = true;
    splice->pair.also.fd = in;
    splice->pair.io.op = op_of(splice);
}
