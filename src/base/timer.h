// timer.h - one expiry in a carrier's wheel (sched/wheel.h), in its owner's storage.
#ifndef WEFT_BASE_TIMER_H
#define WEFT_BASE_TIMER_H

#include <weft/time.h>

#include "base/base.h"

/// One expiry, in its owner's storage. Zeroed means not armed. Half a cache line: which slot it
/// stands in follows from `when`.
struct weft__timer {
    struct weft__timer *next;                // in its list
    struct weft__timer **link;               // what points at us; NULL when not armed
    weft_time when;                          // as asked for; valid while armed
    void (*fire)(struct weft__timer *timer); // called by the carrier's step after disarming
};

static inline bool weft__timer_armed(const struct weft__timer *timer)
{
    return timer->link != NULL;
}

#endif
