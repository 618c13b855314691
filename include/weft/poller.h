// weft/poller.h - a loop of the program's own in the place where a carrier would sleep.
//
// A carrier that has nothing to do sleeps in its driver. A program with an event loop of its own (a
// user-space network stack, a device, another library's loop) registers it as the carrier's *poller*:
// a virtual thread that the carrier runs once per turn, ahead of other tasks, and that decides itself
// whether to go on polling or to block. Tasks and the loop's own work then share one OS thread, with
// no hand-over between the two.
//
//     static int body(void *arg)              // the simplest correct poller: it never sleeps
//     {
//         struct my_loop *loop = arg;
//         while (!loop->stop) {
//             int events = my_poll(loop);
//             if (weft_poller_maybe_yield(loop->poller, events > 0) < 0) {
//                 break;                      // the runtime shuts down
//             }
//         }
//         return 0;
//     }
//
// One that sleeps when there is nothing to do blocks by the same rule as a carrier: announce, look,
// block. weft_poll_guard() is that in one call:
//
//     if (weft_poller_try_park(p)) {
//         if (weft_poller_can_park(p)) {
//             my_poll_blocking(loop, weft_poller_fd(p), weft_poller_next_deadline(p));
//         }
//         weft_poller_unpark(p);
//     }
//
// Between try_park and the end of the blocking call somebody may give the carrier work. Then can_park
// is false, weft_poller_fd() becomes readable and stays so, and `wake` is called. A loop that watches
// the descriptor, or whose `wake` leaves a permit behind, needs no more than that. One that sleeps on a
// condition asks can_park inside the lock that `wake` takes. examples/pollers.c has all of these.
//
// A poller may also call anything that parks a virtual thread. While it is parked the carrier sleeps
// by itself, and needs none of this.
#ifndef WEFT_POLLER_H
#define WEFT_POLLER_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

typedef struct weft__poller weft_poller;

/// Ends a blocking call of the poller: somebody has work for its carrier. Called from any thread, at
/// most once for each try_park that succeeded, perhaps when the poller is long awake; never after its
/// body has returned. Must not park or block for long.
typedef void (*weft_poller_wake_fn)(void *arg);

/// Makes `body(arg)` the poller of a carrier, and stores a handle in `*poller` before it can run. The
/// caller ends the handle with weft_poller_join(). The slot is free again when the body has returned.
/// A runtime that shuts down cancels its pollers. One of weft's own (weft_options.poller) steps aside until
/// the body has returned.
///
/// `runtime` may be NULL: the caller's own. `wake` may be NULL: there is nothing to wake, or the poller
/// watches weft_poller_fd().
///
/// Call from:  any thread or task.
/// Errors:     -EBUSY      the carrier has a poller
///             -EINVAL     no body, or no such carrier
///             -EPERM      NULL, and not called from inside a runtime
///             -ENOTSUP    the runtime is simulated
///             -ENOMEM, -ECANCELED as weft_spawn_at(), -ESRCH after a fork
/// On every error `*poller` is NULL.
WEFT_API WEFT_MUST_CHECK int weft_poller_register(weft_poller **poller, weft_runtime *runtime,
                                                  int carrier, weft_fn body,
                                                  weft_poller_wake_fn wake, void *arg);

/// Waits until the body has returned, stores its result in `*result` (may be NULL) and frees the
/// handle. As weft_join(): not a cancellation point, and on an error the handle is still the caller's.
WEFT_API int weft_poller_join(int *result, weft_poller *poller, weft_time deadline);

// ---------------------------------------------------------------------------------------------
// In the poller's body only.

/// Lets the carrier work: takes its completions and timers and runs ready tasks for one time slice.
/// `had_io` says whether the poller itself has found something to do since the last call: only an idle
/// one, or one that has tried to park, makes its carrier look for tasks to steal. Call it in every round.
///
/// Returns 1 if tasks ran, 0 if none did, or
///         -ECANCELED  the poller has to end: it was cancelled, or the runtime shuts down
///         -EPERM      not called from the poller's body
WEFT_API WEFT_MUST_CHECK int weft_poller_maybe_yield(weft_poller *poller, bool had_io);

/// Announces that the poller is going to block. True: nothing is ready, and weft_poller_unpark() must
/// follow. False: there is work for the carrier, or it is not safe to block: the poller has not let the
/// carrier work since it last blocked, or operations are in flight and it has never asked for
/// weft_poller_fd(), so that it could not learn of their completions (the log says so, once).
WEFT_API WEFT_MUST_CHECK bool weft_poller_try_park(weft_poller *poller);

/// Whether nothing has come since weft_poller_try_park(): the last look before blocking.
WEFT_API WEFT_MUST_CHECK bool weft_poller_can_park(const weft_poller *poller);

/// The poller is awake again, or did not block after all. weft_poller_maybe_yield() should follow.
WEFT_API void weft_poller_unpark(weft_poller *poller);

/// A descriptor that is readable when the carrier has completions to take, or was given work while it
/// was parked. Watch it level-triggered with whatever the poller blocks in; do not read it. It stays
/// the same as long as the body runs. A negative errno: -EPERM, -ENOMEM, -EMFILE.
WEFT_API int weft_poller_fd(weft_poller *poller);

/// When the carrier has to be back: the next timer of its tasks; WEFT_FOREVER without one.
WEFT_API weft_time weft_poller_next_deadline(const weft_poller *poller);

/// Blocks until `fd` is readable or `until` has come, or for whatever else the program likes; returns
/// what weft_poll_guard() is to return, 0 or more, or a negative errno.
typedef int (*weft_poll_block_fn)(void *arg, int fd, weft_time until);

/// Announces, looks, and calls `block(arg, weft_poller_fd(), weft_poller_next_deadline())` between try_park
/// and unpark, if it may. 0 if it may not, else what `block` returns.
WEFT_API int weft_poll_guard(weft_poller *poller, weft_poll_block_fn block, void *arg);

WEFT_END_DECLS

#endif
