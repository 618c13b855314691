// weft/notify.h - telling others that something has happened: notify (a permit for one, or a wake-up
// for all) and event (a switch that stays on).
//
//     static struct weft_notify changed = WEFT_NOTIFY_INIT;
//
//     producer                            consumer
//     put an item into a list             while the list is empty
//     weft_notify_one(&changed)               weft_notify_wait(&changed, WEFT_FOREVER)
//
// A notification that finds nobody waiting is kept, once, for the next one who waits. So the consumer
// above misses none, however the two sides interleave.
#ifndef WEFT_NOTIFY_H
#define WEFT_NOTIFY_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

/// Caller-owned; opaque; nobody was notified when zeroed.
struct weft_notify {
    uint64_t opaque[4];
};

// clang-format off
#define WEFT_NOTIFY_INIT { { 0 } }
// clang-format on

/// Prepares a notify without a permit.
WEFT_API void weft_notify_init(struct weft_notify *notify);

/// Ends it; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody waits
WEFT_API int weft_notify_fini(struct weft_notify *notify);

/// Wakes the one that has waited longest, or leaves a permit if nobody waits. There is at most one
/// permit, however often this is called.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_notify_one(struct weft_notify *notify);

/// Wakes the one that came last, or leaves a permit: his caches are the warmest.
///
/// Call from:  as weft_notify_one().
WEFT_API void weft_notify_last(struct weft_notify *notify);

/// Wakes all that wait now, and all futures that were prepared before. Leaves no permit.
///
/// Call from:  as weft_notify_one().
WEFT_API void weft_notify_all(struct weft_notify *notify);

/// Takes the permit, or waits for a notification. What the notifier did before is visible after.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API int weft_notify_wait(struct weft_notify *notify, weft_time deadline);

/// Takes the permit if there is one.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  there is none
WEFT_API int weft_notify_try_wait(struct weft_notify *notify);

/// Prepares a future that is READY with 0 when it was notified. Of weft_notify_all() it misses none
/// from here on; for the others it stands in line from its first poll.
WEFT_API void weft_notify_wait_future(struct weft_sync_future *future, struct weft_notify *notify);

// ---------------------------------------------------------------------------------------------
// Events: a switch. While it is on nobody waits.

/// Caller-owned; opaque; off when zeroed.
struct weft_event {
    uint64_t opaque[4];
};

// clang-format off
#define WEFT_EVENT_INIT { { 0 } }
// clang-format on

/// Prepares an event that is off.
WEFT_API void weft_event_init(struct weft_event *event);

/// Ends it; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody waits
WEFT_API int weft_event_fini(struct weft_event *event);

/// Switches it on and wakes all that wait.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_event_set(struct weft_event *event);

/// Switches it off.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_event_clear(struct weft_event *event);

/// Whether it is on. What was done before weft_event_set() is visible then.
WEFT_API bool weft_event_is_set(const struct weft_event *event);

/// Waits until it is on; a waiter that was woken does not mind if it is off again by then.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      it is off, and a future or a timer function cannot wait
WEFT_API int weft_event_wait(struct weft_event *event, weft_time deadline);

/// Prepares a future that is READY with 0 when the event is on.
WEFT_API void weft_event_wait_future(struct weft_sync_future *future, struct weft_event *event);

WEFT_END_DECLS

#endif
