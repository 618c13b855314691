// weft/blocking.h - calls that block an OS thread, kept away from the carriers.
//
//     static int lookup(void *arg) { return getaddrinfo_into(arg); } // may take its time
//
//     int rc = weft_blocking(lookup, &query, WEFT_FOREVER); // parks; other virtual threads go on
//
// Each runtime has a pool of OS threads for them. It starts with none, grows when a job finds no
// idle thread, up to weft_options.blocking_threads, and shrinks again: a thread that had nothing to
// do for weft_options.blocking_idle_ns ends. Jobs that find all threads busy wait in a queue. The
// threads block all signals. In the simulator the function is called right away, on the spot.
//
// A function that runs cannot be stopped; cancel and deadline withdraw only one that is still
// waiting for a thread. Destroying the runtime runs what is queued and waits for all of it.
#ifndef WEFT_BLOCKING_H
#define WEFT_BLOCKING_H

#include <weft/base.h>
#include <weft/future.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/// Calls `fn(arg)` on a thread of the pool, parks until it returns, and returns what it returned.
///
/// Call from:  a virtual thread.
/// Errors:     what `fn` returned, or, and then `fn` was not called:
///             -ETIMEDOUT  `deadline` passed before a thread was free
///             -ECANCELED  the task was cancelled before a thread was free
///             -EAGAIN     the pool has no thread and the system gives none
///             -EINVAL     `fn` is NULL
///             -EPERM      not called from a virtual thread
WEFT_API int weft_blocking(weft_fn fn, void *arg, weft_time deadline);

/// Announces that the calling virtual thread is going to block its carrier with what it calls next:
/// for calls that have to be made on this very OS thread, so that weft_blocking() cannot make them.
/// It is then not reported as stuck (weft_options.stuck_ns), and tasks that wait here and may move are
/// run elsewhere: with weft_options.steal on idle carriers, with weft_options.remedy if need be on the
/// spare one. The others wait. Ends with weft_block_end(), or when the thread parks. Does not nest.
///
/// Call from:  a virtual thread.
/// Errors:     -EPERM  not called from a virtual thread
WEFT_API int weft_block_begin(void);

/// Ends what weft_block_begin() began.
///
/// Call from:  the same virtual thread.
/// Errors:     -EPERM  not called from a virtual thread, or there was no beginning
WEFT_API int weft_block_end(void);

// ---------------------------------------------------------------------------------------------
// Jobs: submit now, wait later, from any thread.

/// Caller-owned; opaque. Must stay in place until the job is over: weft_job_wait() returned 0 or
/// weft_job_cancel() returned 1.
struct weft_job {
    uint64_t opaque[12];
};

/// Has `fn(arg)` called on a thread of the runtime's pool. `runtime` may be NULL for the caller's
/// own. `*job` need not be initialised; a job that is over may be submitted again.
///
/// Call from:  any thread.
/// Errors:     -EAGAIN     the pool has no thread and the system gives none
///             -EINVAL     `fn` is NULL, or `runtime` is and the caller is in none
///             -ECANCELED  the runtime is being destroyed
///             -ENOTSUP    from a foreign thread into a simulated runtime
///             -ESRCH      the runtime belongs to the parent of this forked process
/// On every error `fn` is not called and the storage is the caller's.
WEFT_API WEFT_MUST_CHECK int weft_job_submit(struct weft_job *job, weft_runtime *runtime,
                                             weft_fn fn, void *arg);

/// Waits until the job is over and stores what `fn` returned in `*result` (may be NULL), or
/// -ECANCELED if it was called off. One thread may wait at a time; the runtime may be gone by then.
///
/// Call from:  any thread: a virtual thread parks, a foreign thread blocks.
/// Errors:     -ETIMEDOUT  `deadline` passed; the job goes on
///             -ECANCELED  the calling task was cancelled; the job goes on
///             -EBUSY      somebody else waits for it already
///             -EPERM      called from a timer function or a future, which cannot wait
///             -ESRCH      the job was submitted by the parent of this forked process
WEFT_API int weft_job_wait(int *result, struct weft_job *job, weft_time deadline);

/// Calls a job off that has not begun: returns 1, `fn` will not be called and whoever waits gets
/// -ECANCELED as its result. Returns 0 if it is too late, and the job goes on or is over.
///
/// Call from:  any thread, while the job's runtime exists.
WEFT_API int weft_job_cancel(struct weft_job *job);

// ---------------------------------------------------------------------------------------------
// The same as a future.

/// Caller-owned; embed it, or await or spawn `&blocking.future`.
struct weft_blocking_future {
    struct weft_future future;
    uint64_t opaque[14];
};

/// Prepares a future whose first poll submits `fn(arg)` to the pool of `runtime` (NULL: that of the
/// task that polls first), and which is ready when `fn` has returned, with its result. Cancelling
/// withdraws a job that has not begun: the result is then -ECANCELED. If the job cannot be
/// submitted, the future is ready with the error of weft_job_submit().
WEFT_API void weft_blocking_future_init(struct weft_blocking_future *blocking,
                                        weft_runtime *runtime, weft_fn fn, void *arg);

// ---------------------------------------------------------------------------------------------

/// What the pool of a runtime is doing and has done. The drivers' own jobs count as well: what the
/// kernel cannot do without blocking (reading files with epoll).
struct weft_blocking_stats {
    size_t size;               ///< sizeof(struct weft_blocking_stats), set by the caller
    uint32_t threads;          ///< now
    uint32_t idle;             ///< of these, waiting for a job
    uint32_t running;          ///< of these, in a job, or about to look for the next one
    uint32_t queued;           ///< jobs that wait for a thread now
    uint32_t most_threads;     ///< the most there ever were at a time
    uint32_t most_queued;      ///< likewise
    uint64_t submitted;        ///< jobs that were accepted
    uint64_t completed;        ///< jobs that were run; counted a moment after their end
    uint64_t withdrawn;        ///< jobs that were called off before they began
    uint64_t refused_threads;  ///< times the system refused to make a thread
    weft_time longest_wait_ns; ///< the longest that a job waited for a thread
};

/// Fills in `*stats`.
///
/// Call from:  any thread.
/// Errors:     -EINVAL  `stats->size` is not set
///             -ESRCH   the runtime belongs to the parent of this forked process
WEFT_API int weft_blocking_stats(weft_runtime *runtime, struct weft_blocking_stats *stats);

WEFT_END_DECLS

#endif
