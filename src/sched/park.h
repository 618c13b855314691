// park.h - handing a node to a carrier, and a carrier going to sleep.
#ifndef WEFT_SCHED_PARK_H
#define WEFT_SCHED_PARK_H

#include "sched/carrier.h"
#include "sched/poller.h"

/// Wakes a carrier that has just been moved out of PARKED by `self`, a carrier, or by another thread
/// (NULL).
static inline void weft__carrier_kick(struct weft__carrier *target, struct weft__carrier *self)
{
    bool kin = self != NULL && self->driver == target->driver;
    target->driver->kick(target->driver_state, kin ? self->driver_state : NULL);
    if (weft__unlikely(atomic_load_explicit(&target->poller, memory_order_relaxed) != NULL)) {
        weft__poller_ring(target);
    }
}

/// Queues a node on `target`. `self` is the carrier whose thread we are on, or NULL. On its own
/// thread a task goes to `local`; a request always goes through the inbox.
void weft__put(struct weft__carrier *target, struct weft__node *node, struct weft__carrier *self);

/// Wakes the carrier if it sleeps, for something that the caller has announced and that the carrier
/// looks for when it has announced that it sleeps.
void weft__rouse(struct weft__carrier *target, struct weft__carrier *self);

/// Announces sleep and looks at every lane. True: the carrier is PARKED and may wait in its driver;
/// weft__sleep_end() must follow. False: there is work.
bool weft__sleep_begin(struct weft__carrier *carrier);
void weft__sleep_end(struct weft__carrier *carrier);

/// Sleeps in the driver until a kick, an event or the next expiry: the one blocking point.
void weft__sleep(struct weft__carrier *carrier);

#endif
