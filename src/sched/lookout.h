// lookout.h - a watcher of carriers that sleeps while all of them do.
#ifndef WEFT_SCHED_LOOKOUT_H
#define WEFT_SCHED_LOOKOUT_H

#include <stdatomic.h>

#include "base/base.h"

struct weft__carrier;

struct weft__lookout {
    _Atomic uint32_t asleep; // a futex; 1: the watcher sleeps, or is about to
    _Atomic uint32_t over;   // a futex; 1: it is to end
};

/// For a carrier that has woken up: wakes the watcher if that sleeps.
void weft__lookout_wake(struct weft__lookout *lookout);

/// Tells the watcher to end.
void weft__lookout_end(struct weft__lookout *lookout);

/// For the watcher: sleeps until one of the first `*started` carriers is awake. False: it is to end.
bool weft__lookout_sleep(struct weft__lookout *lookout, struct weft__carrier *carriers,
                         const _Atomic int *started);

#endif
