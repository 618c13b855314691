// clock.h - the simulator's clock, which a carrier reads instead of the kernel's.
#ifndef WEFT_SCHED_CLOCK_H
#define WEFT_SCHED_CLOCK_H

#include <weft/time.h>

#include "base/rng.h"

struct weft__sim_clock {
    weft_time now;
    struct weft__rng rng; // draws what steps and looks at the clock cost
    uint64_t hash;        // over everything that happened
};

/// `duration_ns` from now, at most the last moment there is.
static inline weft_time weft__sim_later(const struct weft__sim_clock *clock, weft_time duration_ns)
{
    weft_time left = WEFT_FOREVER - 1 - clock->now;
    return clock->now + (duration_ns < left ? duration_ns : left);
}

static inline void weft__sim_spend(struct weft__sim_clock *clock, weft_time duration_ns)
{
    clock->now = weft__sim_later(clock, duration_ns);
}

/// Mixes an event and its time into the trace hash.
static inline void weft__sim_note(struct weft__sim_clock *clock, uint64_t event)
{
    struct weft__rng mix = { clock->hash ^ event ^ (clock->now << 16) };
    clock->hash = weft__rng_next(&mix);
}

#endif
