// policy_stealing.h - the work-stealing policy's own part of a carrier's loop.
#ifndef WEFT_SCHED_POLICY_STEALING_H
#define WEFT_SCHED_POLICY_STEALING_H

#include "sched/carrier.h"

/// Queues a task that may move and was made ready on this carrier's thread, whatever its home was.
void weft__free_ready(struct weft__carrier *carrier, struct weft__task *task);

/// What was made ready last goes where others can take it: this carrier is busy for a while.
void weft__free_evict(struct weft__carrier *carrier);

/// Leaves a task for which the ring has no room, and the older half of that, to whoever comes first.
void weft__free_overflow(struct weft__carrier *carrier, struct weft__node *node);

/// weft__free_ready() for one that ran here and wants to go on: behind the others.
void weft__free_yielded(struct weft__carrier *carrier, struct weft__task *task);

/// The same from a thread outside the crew.
void weft__free_inject(struct weft__task *task);

/// Hands on what waits for the carriers of a cluster if they have all left: `carrier` was one of them.
/// `self` is the carrier whose thread we are on, or NULL.
void weft__free_desert(struct weft__carrier *carrier, struct weft__carrier *self);

/// The next task from slot and ring, or NULL.
struct weft__node *weft__free_pick(struct weft__carrier *carrier);

/// Whether there is something besides the ring: in the slot, or in the common queue.
bool weft__free_has_ready(struct weft__carrier *carrier);

/// Takes a share of what belongs to no carrier. Returns how many.
size_t weft__free_take_injected(struct weft__carrier *carrier);

/// After `ran` tasks that took `elapsed_ns`.
void weft__free_look(struct weft__carrier *carrier, unsigned ran, weft_time elapsed_ns);

#endif
