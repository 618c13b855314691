// weft/time.h - the clock, sleeping, intervals and timers.
//
// All times are absolute, monotonic and in nanoseconds. Every call that can block takes such a
// time as its last argument: weft_after(2 * WEFT_S), or WEFT_FOREVER for "no deadline". A duration by
// mistake is a moment long past: the call times out at once.
// Nothing here is ever early; it is late by at most one wheel tick (2^16 ns) plus scheduling.
#ifndef WEFT_TIME_H
#define WEFT_TIME_H

#include <weft/base.h>

WEFT_BEGIN_DECLS

/// Monotonic nanoseconds. Inside the simulator: virtual nanoseconds.
typedef uint64_t weft_time;

#define WEFT_NS ((weft_time)1)
#define WEFT_US ((weft_time)1000)
#define WEFT_MS ((weft_time)1000000)
#define WEFT_S ((weft_time)1000000000)
/// The deadline that never comes.
#define WEFT_FOREVER UINT64_MAX

/// The present moment.
///
/// Call from: anywhere. Inside a simulated program it reads the virtual clock.
WEFT_API weft_time weft_now(void);

/// `duration_ns` from now; saturates to WEFT_FOREVER.
///
/// Call from: anywhere.
WEFT_API weft_time weft_after(weft_time duration_ns);

/// Parks the calling virtual thread until `when`. A moment in the past only yields.
///
/// Call from:  a virtual thread.
/// Errors:     -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      not called from a virtual thread
WEFT_API int weft_sleep_until(weft_time when);

/// Parks the calling virtual thread for `duration_ns`: weft_sleep_until(weft_after(duration_ns)).
WEFT_API int weft_sleep(weft_time duration_ns);

// ---------------------------------------------------------------------------------------------
// Intervals: a tick every period, from caller-owned storage.

/// What to do about ticks that were missed because the caller was busy.
enum weft_missed {
    WEFT_MISSED_BURST, ///< deliver them at once until the schedule is caught up
    WEFT_MISSED_DELAY, ///< start a fresh period at the late tick
    WEFT_MISSED_SKIP,  ///< drop them; the next tick is the next multiple of the period
};

/// Caller-owned; plain data, needs no fini. Fields are private.
struct weft_interval {
    weft_time next;
    weft_time period;
    enum weft_missed missed;
};

/// Prepares an interval whose first tick is at `first` and then every `period_ns`. `first` is
/// usually weft_now(), for a tick at once, or weft_after(period_ns). A moment long past (0, say)
/// counts as missed ticks: WEFT_MISSED_BURST delivers every one of them since then.
///
/// Call from:  anywhere.
/// Errors:     -EINVAL  `period_ns` is 0 or `missed` is not a policy
WEFT_API int weft_interval_init(struct weft_interval *interval, weft_time first,
                                weft_time period_ns, enum weft_missed missed);

/// Waits for the next tick and stores the moment it was due in `*due` (may be NULL). Several ticks
/// may be overdue; the policy decides what happens to them.
///
/// Call from:  a virtual thread. Futures use weft_interval_tick_future() (weft/future.h).
/// Errors:     -ECANCELED, -EPERM as weft_sleep_until(); the tick is then still to come
WEFT_API int weft_interval_tick(weft_time *due, struct weft_interval *interval);

// ---------------------------------------------------------------------------------------------
// Timers: call a function at a moment, from caller-owned storage.

/// Caller-owned timer; opaque. Must stay in place from init to stop.
struct weft_timer {
    uint64_t opaque[16];
};

/// Runs on the timer's carrier, between tasks: it must not block (calls that need a task return
/// -EPERM), may wake, spawn and set or stop timers, this one included.
typedef void (*weft_timer_fn)(void *arg);

/// Prepares a timer that lives on the calling task's carrier.
///
/// Call from:  a task or a timer function.
/// Errors:     -EPERM  not called from a carrier; use weft_timer_init_on()
WEFT_API WEFT_MUST_CHECK int weft_timer_init(struct weft_timer *timer, weft_timer_fn fn, void *arg);

/// Prepares a timer that lives on carrier `carrier` of `runtime`.
///
/// Call from:  any thread.
/// Errors:     -EINVAL   no such carrier
///             -ENOTSUP  from a foreign thread into a simulated runtime
///             -ESRCH    the runtime belongs to the parent of this forked process
WEFT_API WEFT_MUST_CHECK int weft_timer_init_on(struct weft_timer *timer, weft_runtime *runtime,
                                                int carrier, weft_timer_fn fn, void *arg);

/// Arms the timer for `when`, or moves it there if it is armed; WEFT_FOREVER disarms it. From
/// another carrier or a foreign thread the request travels to the timer's carrier and takes effect
/// there soon; the last request wins. Never fails; does nothing where weft_timer_stop() would say
/// -ESRCH or -ENOTSUP.
///
/// Call from:  any thread.
WEFT_API void weft_timer_set(struct weft_timer *timer, weft_time when);

/// Disarms the timer and waits until its function is not running and will not run again (unless it
/// is set again). Returns 1 if a pending expiry was called off, 0 if there was none. Afterwards the
/// storage is the caller's. From another carrier this parks the caller for a round trip; it is not
/// a cancellation point. From the timer's own function it returns at once.
///
/// Call from:  any thread; a foreign thread blocks for the round trip.
/// Errors:     -EDEADLK  called from a timer function on another carrier, which cannot wait
///             -ENOTSUP  from a foreign thread into a simulated runtime
///             -ESRCH    the timer belongs to the parent of this forked process
WEFT_API int weft_timer_stop(struct weft_timer *timer);

WEFT_END_DECLS

#endif
