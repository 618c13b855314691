// retire.h - a carrier that the program no longer wants sends away what may move; see retire.c.
#ifndef WEFT_SCHED_RETIRE_H
#define WEFT_SCHED_RETIRE_H

#include "sched/carrier.h"

/// Sends a task that was taken from a lane of a carrier that leaves to one that stays. False: it has to
/// run here. On the carrier's thread.
bool weft__retire_sends(struct weft__carrier *carrier, struct weft__task *task);

/// Whether the task could be sent away if nothing but timers kept it here. Of a task that is homed here, on
/// the carrier's thread.
bool weft__retire_may_send(struct weft__task *task);

/// Takes note that the carrier leaves: wakes everybody whom only timers keep here, so that they come by
/// weft__retire_sends(). On the carrier's thread.
void weft__retire_begin(struct weft__carrier *carrier);

#endif
