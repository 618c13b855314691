// weft/rwlock.h - many readers or one writer.
//
// Writers are preferred: once one waits, readers that come later wait behind it. Those who wait are
// served in the order in which they came, readers next to each other together, so nobody starves.
// While nobody waits, each call is one compare-and-swap.
#ifndef WEFT_RWLOCK_H
#define WEFT_RWLOCK_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

/// Caller-owned; opaque; free when zeroed. It has no owner: any thread may unlock it. Not recursive:
/// a reader that reads again waits for a writer that waits for the reader.
struct weft_rwlock {
    uint64_t opaque[5];
};

// clang-format off
#define WEFT_RWLOCK_INIT { { 0 } }
// clang-format on

/// Prepares a free lock.
WEFT_API void weft_rwlock_init(struct weft_rwlock *rwlock);

/// Ends a lock; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  it is locked, or somebody waits for it
WEFT_API int weft_rwlock_fini(struct weft_rwlock *rwlock);

/// Locks for reading or writing. Not cancellation points: only `deadline` ends the wait.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API WEFT_MUST_CHECK int weft_rwlock_read(struct weft_rwlock *rwlock, weft_time deadline);
WEFT_API WEFT_MUST_CHECK int weft_rwlock_write(struct weft_rwlock *rwlock, weft_time deadline);

/// Locks if that is possible at once and, for reading, no writer waits.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  it would have to wait
WEFT_API WEFT_MUST_CHECK int weft_rwlock_try_read(struct weft_rwlock *rwlock);
WEFT_API WEFT_MUST_CHECK int weft_rwlock_try_write(struct weft_rwlock *rwlock);

/// Unlocks what was locked for reading or writing. Anything else is a programmer error (assertion).
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_rwlock_read_unlock(struct weft_rwlock *rwlock);
WEFT_API void weft_rwlock_write_unlock(struct weft_rwlock *rwlock);

/// Turns the caller's lock for reading into one for writing, waiting for the other readers, ahead of
/// all writers that wait; nobody writes in between. On every error the caller still has its lock for
/// reading.
///
/// Call from:  any thread that has locked for reading.
/// Errors:     -EDEADLK    another reader is doing so, and waits for the caller to unlock
///             -ETIMEDOUT  `deadline` passed
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API WEFT_MUST_CHECK int weft_rwlock_upgrade(struct weft_rwlock *rwlock, weft_time deadline);

/// Does so if the caller is the only reader.
///
/// Call from:  any thread that has locked for reading, a future, a timer function.
/// Errors:     -EAGAIN  there are other readers
WEFT_API WEFT_MUST_CHECK int weft_rwlock_try_upgrade(struct weft_rwlock *rwlock);

/// Turns the caller's lock for writing into one for reading and lets in the readers that stand first
/// in the queue; nobody writes in between.
///
/// Call from:  any thread that has locked for writing, a future, a timer function.
WEFT_API void weft_rwlock_downgrade(struct weft_rwlock *rwlock);

/// Prepare futures that are READY with 0 when they have locked, or with the error of the call.
WEFT_API void weft_rwlock_read_future(struct weft_sync_future *future, struct weft_rwlock *rwlock);
WEFT_API void weft_rwlock_write_future(struct weft_sync_future *future, struct weft_rwlock *rwlock);
WEFT_API void weft_rwlock_upgrade_future(struct weft_sync_future *future,
                                         struct weft_rwlock *rwlock);

WEFT_END_DECLS

#endif
