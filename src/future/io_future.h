// io_future.h - the private layout of struct weft_io_future.
#ifndef WEFT_FUTURE_IO_FUTURE_H
#define WEFT_FUTURE_IO_FUTURE_H

#include <weft/async_io.h>

#include "io/descriptors.h"
#include "task/bell.h"

/// What comes after an op of a series.
enum weft__io_step {
    WEFT__IO_OVER,  ///< nothing: op.result is the future's
    WEFT__IO_GO_ON, ///< another op, which is in `op`
    WEFT__IO_LATER, ///< the same, at the end of the carrier's step
};

struct weft__io_future {
    struct weft_future future;
    struct weft__op op;            // the driver's while in flight
    struct weft__use use;          // the carrier's
    struct weft__request request;  // in the carrier's inbox while `queued`: begin, or end it
    struct weft__carrier *carrier; // where the op is; fixed while in flight
    int error;                     // what it was prepared with is wrong; fixed
    bool at_position;              // fixed
    bool two;                      // it is a series that keeps a second descriptor; fixed
    /// Of a weft__io_series, else NULL: on the carrier, when an op has ended. Fixed.
    enum weft__io_step (*next)(struct weft__io_future *io);

    // The owner's.
    uint8_t phase;
    bool cancelled;
    bool closed; // the carrier's while in flight
    bool asked;  // the same: to end early; a series
    bool paused; // the same: between two ops of one
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

/// Several ops, one after the other. It may keep a second descriptor, also.fd: whichever its op is on, both
/// are listed until it is over, and a close of either ends it.
struct weft__io_series {
    struct weft__io_future io;
    struct weft__use also;    // the carrier's
    struct weft__flush pause; // the carrier's
};

/// Prepares a future that does `op`, or ends with `error` if that is not 0.
void weft__io_future_init(struct weft__io_future *io, struct weft__op op, int error);

/// What such a future has as `poll`; for those that do more, around it.
enum weft_poll weft__io_future_poll(struct weft_future *future, weft_waker *waker);

/// Whether the next poll begins an op, so that what that points to can still be laid out.
bool weft__io_future_fresh(const struct weft__io_future *io);

/// Makes it a series; after init, with the first op. `fd` is the second descriptor; -1: none.
void weft__io_series_init(struct weft__io_series *series, int fd,
                          enum weft__io_step (*next)(struct weft__io_future *io));

static inline struct weft__io_future *weft__io_future_of(struct weft_io_future *io)
{
    return (struct weft__io_future *)(void *)io;
}

#endif
