// io_future.h - the private layout of struct weft_io_future.
#ifndef WEFT_FUTURE_IO_FUTURE_H
#define WEFT_FUTURE_IO_FUTURE_H

#include <weft/async_io.h>

#include "io/descriptors.h"
#include "task/bell.h"

struct weft__io_future {
    struct weft_future future;
    struct weft__op op;            // the driver's while in flight
    struct weft__use use;          // the carrier's
    struct weft__request request;  // in the carrier's inbox while `queued`: begin, or end it
    struct weft__carrier *carrier; // where the op is; fixed while in flight
    int error;                     // what it was prepared with is wrong; fixed
    bool at_position;              // fixed
    bool two;                      // it is the `io` of a weft__io_pair; fixed

    // The owner's.
    uint8_t phase;
    bool cancelled;
    bool closed; // the carrier's while in flight
    bool begun;  // the same: the driver has it, or had
    bool moves;  // likewise: it was asked to end because its carrier leaves
    bool known;  // it was begun before, and `file` says what the descriptor was then
    uint16_t file;

    struct weft__bell bell; // rung when it is over
    // Under the bell's lock. `ended` is written by the carrier only, which reads it without.
    bool ended;
    bool queued;
    bool unwanted; // was cancelled while the request to begin was queued
};
_Static_assert(sizeof(struct weft__io_future) <= sizeof(struct weft_io_future), "public size");

/// One that keeps two descriptors: use.fd and also.fd, set after init. Whichever its op is on, both are
/// listed while it is in flight; a close of either ends it.
struct weft__io_pair {
    struct weft__io_future io;
    struct weft__use also; // the carrier's
    uint16_t also_file;    // as io.file
};

/// Prepares a future that does `op`, or ends with `error` if that is not 0.
void weft__io_future_init(struct weft__io_future *io, struct weft__op op, int error);

/// What such a future has as `poll`; for those that do more, around it.
enum weft_poll weft__io_future_poll(struct weft_future *future, weft_waker *waker);

/// Whether the next poll begins an op, so that what that points to can still be laid out.
bool weft__io_future_fresh(const struct weft__io_future *io);

/// After READY, in the same poll: the next op. A cancel that was heard counts for it, too.
void weft__io_future_again(struct weft__io_future *io, struct weft__op op);

static inline struct weft__io_future *weft__io_future_of(struct weft_io_future *io)
{
    return (struct weft__io_future *)(void *)io;
}

#endif
