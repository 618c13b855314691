// weft/semaphore.h - a number of permits that are taken and given back.
//
//     static struct weft_semaphore slots = WEFT_SEMAPHORE_INIT(8);
//
//     if (weft_semaphore_acquire(&slots, 1, WEFT_FOREVER) == 0) {
//         ...                                  // at most eight are here at a time
//         weft_semaphore_release(&slots, 1);
//     }
//
// Permits that are given back go straight to those who wait, in the order in which they came, and
// nobody overtakes them: whoever wants many is not starved by those who want few.
#ifndef WEFT_SEMAPHORE_H
#define WEFT_SEMAPHORE_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

/// Caller-owned; opaque; has no permits when zeroed.
struct weft_semaphore {
    uint64_t opaque[4];
};

/// The most permits that a semaphore can have.
#define WEFT_SEMAPHORE_MAX (UINT64_C(0x7fffffffffffffff))

// clang-format off
#define WEFT_SEMAPHORE_INIT(permits) { { (uint64_t)(permits) << 1, 0, 0, 0 } }
// clang-format on

/// Prepares a semaphore.
///
/// Call from:  any thread.
/// Errors:     -EINVAL  more than WEFT_SEMAPHORE_MAX
WEFT_API int weft_semaphore_init(struct weft_semaphore *semaphore, uint64_t permits);

/// Ends a semaphore, however many permits it has; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody waits for permits
WEFT_API int weft_semaphore_fini(struct weft_semaphore *semaphore);

/// Takes `count` permits, all at once, waiting until there are enough and all who came before have
/// theirs. On every error none were taken.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EINVAL     `count` is 0, or more than WEFT_SEMAPHORE_MAX
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API WEFT_MUST_CHECK int weft_semaphore_acquire(struct weft_semaphore *semaphore,
                                                    uint64_t count, weft_time deadline);

/// Takes `count` permits if they are there and nobody waits.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  there are not enough, or somebody waits
///             -EINVAL  as weft_semaphore_acquire()
WEFT_API WEFT_MUST_CHECK int weft_semaphore_try_acquire(struct weft_semaphore *semaphore,
                                                        uint64_t count);

/// Adds `count` permits, acquired before or new ones.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EOVERFLOW  there would be more than WEFT_SEMAPHORE_MAX; none were added
WEFT_API int weft_semaphore_release(struct weft_semaphore *semaphore, uint64_t count);

/// How many permits there are, at some moment during the call.
WEFT_API uint64_t weft_semaphore_available(const struct weft_semaphore *semaphore);

/// Prepares a future that is READY with 0 when it has taken `count` permits.
WEFT_API void weft_semaphore_acquire_future(struct weft_sync_future *future,
                                            struct weft_semaphore *semaphore, uint64_t count);

WEFT_END_DECLS

#endif
