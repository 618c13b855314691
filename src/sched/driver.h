// driver.h - what a carrier needs from the thing that waits for the kernel.
//
// Declared here and implemented above (io/uring.c, io/epoll.c, runtime/sim.c), so that the
// scheduler knows no kernel interface. A driver belongs to one carrier; only kick() may be called
// from other threads.
#ifndef WEFT_SCHED_DRIVER_H
#define WEFT_SCHED_DRIVER_H

#include "base/base.h"

#include <weft/time.h>

struct weft_allocator;

struct weft__driver_config {
    const struct weft_allocator *allocator;
    unsigned entries; ///< submission queue size; 0: the driver's default
};

struct weft__driver {
    const char *name;

    /// Makes the state for one carrier. Called on the carrier's own thread, which is the only one
    /// that will call poll and wait. 0 or a negative errno.
    int (*open)(void **state, const struct weft__driver_config *config);

    /// Frees the state. Nobody kicks any more, and the carrier's thread has ended or is calling.
    void (*close)(void *state);

    /// Hands what is queued to the kernel and takes completions, without blocking. Costs nothing
    /// when no operation is in flight. Returns how many events it handled.
    int (*poll)(void *state);

    /// Blocks until there is an event, a kick, or the absolute monotonic time `until` has come
    /// (WEFT_FOREVER: no limit). May return early for no reason. Returns how many events it handled
    /// (a kick is not one).
    int (*wait)(void *state, weft_time until);

    /// Makes the wait in progress, or else the next one, return soon. A kick is a token: it is
    /// never lost, and several before one wait may count as one. Callable from any thread; `from`
    /// is the driver state of the calling carrier if that has the same driver, else NULL. Cannot
    /// fail.
    void (*kick)(void *state, void *from);
};

#endif
