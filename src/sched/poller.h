// poller.h - a virtual thread in the place where its carrier would sleep.
#ifndef WEFT_SCHED_POLLER_H
#define WEFT_SCHED_POLLER_H

#include <weft/poller.h>

#include "sched/carrier.h"

struct weft__poller {
    // Fixed.
    struct weft__carrier *carrier;
    weft_fn body;
    weft_poller_wake_fn wake; // NULL: none
    void *arg;
    struct weft__task *task; // set before it can run

    // Who is told that the thread is ready; it does not stand in the lanes.
    struct weft_scheduler sched;
    struct weft__request request; // from other threads: it is ready

    // The carrier's thread's.
    bool ready;   // is to run before anything else
    bool waiting; // in maybe_yield, for the end of a step
    bool parked;  // between try_park and unpark
    bool stepped; // the carrier has worked since the last unpark
    bool watches; // has asked for the descriptor
    bool refused; // wanted to sleep, and something was there
    bool warned;
    int fd;        // what to watch; valid once lookout() was called
    weft_time due; // when the driver has to be polled
};

/// Takes the slot, in which the poller does not stand yet. False: somebody has it.
bool weft__poller_enter(struct weft__poller *poller, struct weft__carrier *carrier);

/// Puts the poller into its slot: it can run. From now on others look at it.
void weft__poller_show(struct weft__poller *poller);

/// Gives the slot back; nobody looks at the poller, or calls `wake`, any more. The carrier's thread, or
/// whoever could not start the body.
void weft__poller_leave(struct weft__poller *poller);

/// Lets the poller run, after a step. False: there is none, or it waits for something itself.
bool weft__poller_turn(struct weft__carrier *carrier);

/// Whoever has woken the carrier tells its poller, if it has one. Any thread.
void weft__poller_ring(struct weft__carrier *carrier);

bool weft__poller_try_park(struct weft__poller *poller);
bool weft__poller_can_park(const struct weft__poller *poller);
void weft__poller_unpark(struct weft__poller *poller);

/// Spawns the thread of a poller that has entered; `site` is where, for dumps. Implemented by the runtime
/// layer.
int weft__poller_start(struct weft__poller *poller, const char *site);

/// Logs why the poller may not sleep. Implemented by the runtime layer.
void weft__poller_report(const struct weft__poller *poller, const char *why);

/// How the thread is made ready.
extern const struct weft_scheduler_ops weft__poller_ops;

#endif
