// weft/barrier.h - waiting for each other: barrier (a fixed number of parties meet, again and again)
// and wait group (some wait until a counter is zero).
#ifndef WEFT_BARRIER_H
#define WEFT_BARRIER_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

/// Caller-owned; opaque. Needs its number of parties.
struct weft_barrier {
    uint64_t opaque[4];
};

// clang-format off
#define WEFT_BARRIER_INIT(parties) { { (uint64_t)(parties), 0, 0, 0 } }
// clang-format on

/// Prepares a barrier for `parties` parties.
///
/// Call from:  any thread.
/// Errors:     -EINVAL  no parties
WEFT_API int weft_barrier_init(struct weft_barrier *barrier, uint32_t parties);

/// Ends a barrier; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody waits
WEFT_API int weft_barrier_fini(struct weft_barrier *barrier);

/// Waits until all parties have come. Returns 1 to one of them, the last to come (the leader), and 0
/// to the others. Then the barrier begins anew: who comes again belongs to the next generation. On
/// every error the caller has not come, and the others go on waiting.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EINVAL     the barrier has no parties: it is zeroed
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API int weft_barrier_wait(struct weft_barrier *barrier, weft_time deadline);

/// Prepares a future that comes with its first poll and is READY when all have come.
WEFT_API void weft_barrier_wait_future(struct weft_sync_future *future,
                                       struct weft_barrier *barrier);

// ---------------------------------------------------------------------------------------------
// Wait groups: a counter of what is still to be done.
//
//     struct weft_wait_group group = WEFT_WAIT_GROUP_INIT;
//
//     weft_wait_group_add(&group, 3);                  // then start three that call _done()
//     weft_wait_group_wait(&group, WEFT_FOREVER);
//
// Children in a scope (weft/scope.h) need none: joining the scope waits for them.

/// Caller-owned; opaque; zero when zeroed.
struct weft_wait_group {
    uint64_t opaque[4];
};

// clang-format off
#define WEFT_WAIT_GROUP_INIT { { 0 } }
// clang-format on

/// Prepares a counter that is zero.
WEFT_API void weft_wait_group_init(struct weft_wait_group *group);

/// Ends it; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  it is not zero, or somebody waits
WEFT_API int weft_wait_group_fini(struct weft_wait_group *group);

/// Adds `count` to the counter. Call it before what is counted can be done.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EOVERFLOW  the counter would not fit; nothing was added
WEFT_API int weft_wait_group_add(struct weft_wait_group *group, uint32_t count);

/// Subtracts one; at zero all that wait are woken. Below zero is a programmer error (assertion).
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_wait_group_done(struct weft_wait_group *group);

/// The counter, at some moment during the call.
WEFT_API uint64_t weft_wait_group_count(const struct weft_wait_group *group);

/// Waits until the counter is zero. Everything that was done before each weft_wait_group_done() is
/// visible then.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      it is not zero, and a future or a timer function cannot wait
WEFT_API int weft_wait_group_wait(struct weft_wait_group *group, weft_time deadline);

/// Prepares a future that is READY with 0 when the counter is zero.
WEFT_API void weft_wait_group_wait_future(struct weft_sync_future *future,
                                          struct weft_wait_group *group);

WEFT_END_DECLS

#endif
