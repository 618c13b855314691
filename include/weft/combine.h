// weft/combine.h - futures made of futures.
//
//     struct weft_branch branches[2] = { { .future = &cache.future }, { .future = &origin.future } };
//     struct weft_combine race;
//     weft_combine_race(&race, branches, 2);
//     int64_t result = weft_await(&race.future, weft_after(WEFT_S)); // both are READY now
//
// All storage is the caller's; nothing is allocated. A combinator and its branches stay in place from
// the first poll until READY, and so do the children, which are driven by the combinator alone: do not
// poll, cancel or spawn them beside it. When it is READY all its children are, the losers of a race
// and what was cut off by a timeout, too; so the whole can be freed. A child that ends at once is fine.
//
// Cancelling a combinator asks all its children to end and waits for them.
//
// A combinator of n children does not poll them all whenever one has something to say: each child has
// a waker of its own, and only those are polled that were woken, in the order in which they were. A
// poll of a combinator polls at most 128 children before it lets other tasks run. Waking a child costs
// a short lock, and one more for each combinator around it. Wakers of children lie in the branches, so
// the combinator is READY only when all clones of them were given back: a future that is READY keeps
// no waker for longer than it takes to wake.
#ifndef WEFT_COMBINE_H
#define WEFT_COMBINE_H

#include <weft/base.h>
#include <weft/future.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/// A child of a combinator. The caller sets `future` and reads its result when all is READY.
struct weft_branch {
    struct weft_future *future;
    uint64_t opaque[3];
};

/// Caller-owned; embed it, or await or spawn `&combine.future`.
struct weft_combine {
    struct weft_future future;
    uint64_t opaque[14];
};

/// Prepares a future that is READY when all of `count` children are.
///
/// Result:     how many children failed (their result is negative); -ECANCELED if it was cancelled
///             and a child ended with that
WEFT_API void weft_combine_join(struct weft_combine *combine, struct weft_branch *branches,
                                size_t count);

/// As weft_combine_join(), but the first child that fails has the others cancelled.
///
/// Result:     0, or what the first child failed with
WEFT_API void weft_combine_try_join(struct weft_combine *combine, struct weft_branch *branches,
                                    size_t count);

/// Prepares a future that has all other children cancelled when the first has ended, well or badly.
/// Of several that are ready at once the first in the array wins. Those that lost may have succeeded
/// nevertheless: their results tell. A child that ends with -ECANCELED because the race was cancelled
/// does not win.
///
/// Result:     that of the winner; -ECANCELED if there is none; -EINVAL if `count` is 0
WEFT_API void weft_combine_race(struct weft_combine *combine, struct weft_branch *branches,
                                size_t count);

/// As weft_combine_race().
///
/// Result:     the number of the winner, from 0; -ECANCELED if there is none; -EINVAL if `count` is 0
WEFT_API void weft_combine_select(struct weft_combine *combine, struct weft_branch *branches,
                                  size_t count);

// ---------------------------------------------------------------------------------------------
// Futures around one other.

/// Caller-owned; embed it, or await or spawn `&timeout.future`.
struct weft_timeout {
    struct weft_future future;
    struct weft_future *child;
    struct weft_sleep sleep;
    uint64_t opaque;
};

/// Prepares a future that has the child cancelled when `deadline` has passed, and is READY when the
/// child is. WEFT_FOREVER is fine.
///
/// Result:     the child's; -ETIMEDOUT if the deadline passed and the child ended with -ECANCELED; the
///             error of weft_sleep_result() if there was no timer to be had
WEFT_API void weft_timeout_init(struct weft_timeout *timeout, struct weft_future *child,
                                weft_time deadline);

/// Makes a result of another one, whatever it is; negative ones, too.
typedef int64_t (*weft_map_fn)(int64_t result, void *arg);

struct weft_map {
    struct weft_future future;
    struct weft_future *child;
    weft_map_fn fn;
    void *arg;
};

/// Prepares a future whose result is `fn(result of the child, arg)`.
WEFT_API void weft_map_init(struct weft_map *map, struct weft_future *child, weft_map_fn fn,
                            void *arg);

/// Says what comes after a future that ended with `result`, 0 or more: the next future, in storage of
/// the caller's, or NULL for nothing.
typedef struct weft_future *(*weft_and_then_fn)(int64_t result, void *arg);

struct weft_and_then {
    struct weft_future future;
    struct weft_future *child; ///< the first, later the second
    weft_and_then_fn next;
    void *arg;
    uint64_t opaque;
};

/// Prepares a future that, once the first one has succeeded (its result is not negative), goes on with
/// the one that `next(result, arg)` gives. `next` is called also if the whole was cancelled meanwhile,
/// because it takes what the first one has brought; the second is then cancelled before its first poll.
///
/// Result:     that of the first if it failed or nothing came after it, else that of the second
WEFT_API void weft_and_then_init(struct weft_and_then *then, struct weft_future *first,
                                 weft_and_then_fn next, void *arg);

struct weft_then_cancel {
    struct weft_future future;
    struct weft_future *child;
    struct weft_future *cleanup;
    uint64_t opaque;
};

/// Prepares a future that does what the child does, and if that ends with -ECANCELED, `cleanup` after
/// it, to its end: a cancel was heard already and does not reach the cleanup.
///
/// Result:     the child's; that of the cleanup can be read in it
WEFT_API void weft_then_cancel_init(struct weft_then_cancel *then, struct weft_future *child,
                                    struct weft_future *cleanup);

WEFT_END_DECLS

#endif
