// annex.h - what a carrier keeps for tasks that may move, where others get at it when it is stuck; see
// annex.c.
#ifndef WEFT_SCHED_ANNEX_H
#define WEFT_SCHED_ANNEX_H

#include "base/lock.h"
#include "sched/carrier.h"

struct weft__annex {
    struct weft__carrier *carrier; // fixed
    struct weft__lock lock;
    // Under lock.
    struct weft__wheel wheel;    // timers of tasks that may move
    struct weft__fifo kept;      // what a rescuer found in the inbox and left to the owner
    struct weft__request marker; // stands in the inbox for `kept`
};

/// Prepares zeroed memory.
void weft__annex_init(struct weft__annex *annex, struct weft__carrier *carrier);

/// Arms a timer that is not armed, on the carrier's own thread: whoever else did it would have to wake
/// the carrier. When its time comes, `fire` is called anywhere, once it is out of the wheel and no lock
/// is held; for the deadline of a task that is a wake. WEFT_FOREVER is a long time, too.
void weft__annex_arm(struct weft__annex *annex, struct weft__timer *timer, weft_time when);

/// Disarms it, on any thread. False: it was not armed; then it has fired or is about to.
bool weft__annex_disarm(struct weft__annex *annex, struct weft__timer *timer);

/// Moves the deadline of the running task forward to `when` if it is not that early already. It stands
/// in the annex that `timed_at` says, wherever the task has gone since. False: it is in none, and not
/// armed.
bool weft__annex_deadline_stands(struct weft__task *task, weft_time when);

/// Fires what is due. On the carrier's thread. Returns how many.
int weft__annex_fire(struct weft__annex *annex, weft_time now);

/// As weft__inbox_take() for a carrier with an annex.
struct weft__node *weft__annex_take_inbox(struct weft__annex *annex);

/// For a carrier that is stuck, on another thread: fires what is due, and appends to `loot` the ready
/// tasks in the inbox that `takes` says yes to; all else stays in order. False: the owner is here.
bool weft__annex_rescue(struct weft__annex *annex, weft_time now,
                        bool (*takes)(const struct weft__task *task), struct weft__fifo *loot);

#endif
