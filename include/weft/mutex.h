// weft/mutex.h - mutual exclusion, and waiting for a condition under it.
//
//     static struct weft_mutex mutex = WEFT_MUTEX_INIT;
//
//     if (weft_mutex_lock(&mutex, weft_after(10 * WEFT_MS)) == 0) {
//         ...
//         weft_mutex_unlock(&mutex);
//     }
//
// Locking a free mutex and unlocking one that nobody waits for take one compare-and-swap each. A
// running thread may overtake those that wait, because handing the mutex to a parked one would leave
// it idle for the length of a wake-up; but whoever has waited for a millisecond is handed it next.
#ifndef WEFT_MUTEX_H
#define WEFT_MUTEX_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

/// Caller-owned; opaque; free when zeroed. It has no owner: any thread may unlock it. Not recursive.
struct weft_mutex {
    uint64_t opaque[3];
};

// clang-format off
#define WEFT_MUTEX_INIT { { 0 } }
// clang-format on

/// Prepares a free mutex.
WEFT_API void weft_mutex_init(struct weft_mutex *mutex);

/// Ends a mutex; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  it is locked, or somebody waits for it
WEFT_API int weft_mutex_fini(struct weft_mutex *mutex);

/// Locks, waiting while somebody else has it. Not a cancellation point: only `deadline` ends the
/// wait, so cleanup code can lock as well.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -EPERM      it is locked, and a future or a timer function cannot wait
WEFT_API WEFT_MUST_CHECK int weft_mutex_lock(struct weft_mutex *mutex, weft_time deadline);

/// Locks if that is possible at once.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  it is locked
WEFT_API WEFT_MUST_CHECK int weft_mutex_try_lock(struct weft_mutex *mutex);

/// Unlocks. Unlocking a free mutex is a programmer error (assertion).
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_mutex_unlock(struct weft_mutex *mutex);

/// Prepares a future that is READY with 0 when it has locked the mutex for its owner.
WEFT_API void weft_mutex_lock_future(struct weft_sync_future *future, struct weft_mutex *mutex);

// ---------------------------------------------------------------------------------------------
// Condition variables.

/// Caller-owned; opaque; nobody waits when zeroed.
struct weft_cond {
    uint64_t opaque[4];
};

// clang-format off
#define WEFT_COND_INIT { { 0 } }
// clang-format on

/// Prepares a condition variable.
WEFT_API void weft_cond_init(struct weft_cond *cond);

/// Ends it; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody waits for it
WEFT_API int weft_cond_fini(struct weft_cond *cond);

/// Unlocks the mutex, waits for a signal, and locks the mutex again, whatever it returns. A signal
/// that is sent after the mutex was unlocked is not missed. There are no wake-ups for nothing, but
/// others may have locked the mutex before the caller does: look at the condition again.
///
/// Call from:  any thread that has locked `mutex`.
/// Errors:     -ETIMEDOUT  `deadline` passed without a signal
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      called from a future or a timer function
WEFT_API int weft_cond_wait(struct weft_cond *cond, struct weft_mutex *mutex, weft_time deadline);

/// Wakes the one that has waited longest, if there is one.
///
/// Call from:  any thread, a future, a timer function; with or without the mutex.
WEFT_API void weft_cond_signal(struct weft_cond *cond);

/// Wakes all that wait now.
///
/// Call from:  as weft_cond_signal().
WEFT_API void weft_cond_broadcast(struct weft_cond *cond);

/// A wait for a condition variable as a future. Caller-owned; use as `struct weft_sync_future`.
struct weft_cond_future {
    struct weft_future future;
    struct weft_sync_future inner;
    uint64_t opaque[3];
};

/// Prepares a future that does what weft_cond_wait() does: its first poll, with the mutex locked,
/// unlocks it, and when it is READY its owner has the mutex again, also after -ECANCELED. A future
/// that was cancelled before its first poll has kept it locked.
WEFT_API void weft_cond_wait_future(struct weft_cond_future *future, struct weft_cond *cond,
                                    struct weft_mutex *mutex);

WEFT_END_DECLS

#endif
