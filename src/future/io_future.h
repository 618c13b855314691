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

/// Prepares a future that does `op`, or ends with `error` if that is not 0.
void weft__io_future_init(struct weft_io_future *io, struct weft__op op, int error);

#endif
