// annex.h - what a carrier keeps for tasks that may move, where others get at it when it is stuck; see
// annex.c.
#ifndef WEFT_SCHED_ANNEX_H
#define WEFT_SCHED_ANNEX_H

#include "base/lock.h"
#include "sched/carrier.h"

/// Whether a rescuer has a place for the task.
typedef bool (*weft__takes_fn)(const struct weft__task *task);

struct weft__annex {
    struct weft__carrier *carrier; // fixed
    struct weft__lock lock;
    // Under lock.
    struct weft__wheel wheel;          // timers of tasks that may move
    struct weft__fifo kept;            // what a rescuer found in the inbox and left to the owner
    weft__takes_fn kept_from;          // whom it was kept from: who takes others looks at it anew
    struct weft__request marker;       // stands in the inbox for `kept`
    const struct weft__driver *driver; // for operations of tasks that may move; fixed
    void *driver_state;                // NULL: not open
    struct weft__use **uses;           // calls in flight there, by descriptor (io/descriptors.h)
    struct weft__op *ended;            // done() was called, finish() not yet; the newest first
    weft_time due;                     // when the driver has to be asked again

    // Anyone's: asks the owner to come by.
    struct weft__request nudge;
    _Atomic uint32_t nudged; // it is on its way

    // The owner's.
    struct weft__op watch; // of what its own driver waits for: something happened in this one
    bool watching;
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

/// Opens the driver, on the carrier's thread. 0 or a negative errno.
int weft__annex_open(struct weft__annex *annex, const struct weft__driver *driver,
                     struct weft__driver_config config);

// An op in an annex is submitted and cancelled under the lock, the former on the carrier's thread. Its
// done(), which is called under the lock, too, ends with weft__annex_ended(); `finish` follows, on any
// thread, without the lock. It is the owner's again from then on.

void weft__annex_ended(struct weft__annex *annex, struct weft__op *op,
                       void (*finish)(struct weft__op *op));

/// Asks an op that may have ended to end; on any thread. `self` is the carrier whose thread this is.
void weft__annex_cancel(struct weft__annex *annex, struct weft__op *op, struct weft__carrier *self);

/// Takes completions. On the carrier's thread. Returns how many events there were.
int weft__annex_poll(struct weft__annex *annex);

/// Before the carrier sleeps: has its own driver wake it when something happens here. True: something
/// has, or may have.
bool weft__annex_watch(struct weft__annex *annex);

/// For a carrier that is stuck, on another thread: fires what is due, takes completions, and appends to
/// `loot` the ready tasks in the inbox that `takes` says yes to; all else stays in order. False: the
/// owner is here.
bool weft__annex_rescue(struct weft__annex *annex, weft_time now, weft__takes_fn takes,
                        struct weft__fifo *loot);

#endif
