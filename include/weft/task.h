// weft/task.h - virtual threads: spawn, join, cancel, yield, and what a task knows about itself.
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include <weft/base.h>
#include <weft/time.h>

struct weft_scheduler;

WEFT_BEGIN_DECLS

/// Where a new task starts.
enum weft_place {
    WEFT_PLACE_CURRENT = 0, ///< on the caller's carrier; from a foreign thread: round robin
    WEFT_PLACE_CARRIER,     ///< on carrier number `weft_attr.carrier`
    WEFT_PLACE_SPREAD,      ///< round robin over all carriers
    WEFT_PLACE_LIGHTER,     ///< on the one of two random carriers that has fewer tasks ready to run
};

/// Settings of a new task. Zero means the default everywhere but in `size`; initialise with
/// WEFT_ATTR_INIT or weft_attr_init().
struct weft_attr {
    size_t size;      ///< sizeof(struct weft_attr)
    const char *name; ///< copied, cut to 31 bytes; NULL: the function has no name
    /// Address space of its stack, guard included: 128 KiB to 1 GiB, rounded up to a power of two;
    /// outside that range spawning returns -EINVAL. 0: the runtime's default.
    size_t stack_size_bytes;
    enum weft_place place;
    int carrier;     ///< with WEFT_PLACE_CARRIER
    bool migratable; ///< may move to another OS thread after it has started (mind thread-locals)
    bool inherit;    ///< copies the task-local values of the spawning task
    /// Runs it, instead of the runtime's (weft/scheduler.h); borrowed for the call. A thread has to be
    /// migratable for that, or the scheduler to keep it on its OS thread; else -EINVAL. -EBUSY: it
    /// has tasks of another runtime.
    struct weft_scheduler *scheduler;
    void *attachment; ///< weft_task_attachment()
};
#define WEFT_ATTR_INIT                                                                             \
    {                                                                                              \
        sizeof(struct weft_attr), NULL, 0, WEFT_PLACE_CURRENT, 0, false, false, NULL, NULL         \
    }

/// Fills `attr` with the defaults.
WEFT_API void weft_attr_init(struct weft_attr *attr);

/// Starts `fn(arg)` as a virtual thread of the caller's runtime, in its root scope, and stores a
/// handle in `*task` before the new thread can run. The caller owns the handle and ends it with
/// weft_join() or weft_task_release(). `task` may be NULL for a detached task with attributes;
/// `attr` may be NULL.
///
/// Call from:  a task or a timer function. Foreign threads use weft_runtime_spawn().
/// Errors:     -EPERM      not called from inside a runtime
///             -ENOMEM     no memory or address space for the stack
///             -EINVAL     no function, or a bad attribute
///             -ECANCELED  the runtime is shutting down
/// On every error `*task` is NULL and `fn` does not run.
WEFT_API WEFT_MUST_CHECK int weft_spawn_at(weft_task **task, weft_fn fn, void *arg,
                                           const struct weft_attr *attr, const char *file,
                                           int line);
/// weft_spawn(&task, fn, arg, attr): weft_spawn_at() with the spawn site filled in.
#define weft_spawn(task, fn, arg, attr)                                                            \
    weft_spawn_at((task), (fn), (arg), (attr), __FILE__, __LINE__)

/// Starts `fn(arg)` detached, in the runtime's root scope, on the caller's carrier.
///
/// Call from:  a task or a timer function. Foreign threads use weft_runtime_spawn().
/// Errors:     as weft_spawn_at()
WEFT_API WEFT_MUST_CHECK int weft_go_at(weft_fn fn, void *arg, const char *file, int line);
/// weft_go(fn, arg): weft_go_at() with the spawn site filled in.
#define weft_go(fn, arg) weft_go_at((fn), (arg), __FILE__, __LINE__)

/// Waits until the task has ended, stores what it returned in `*result` (may be NULL) and releases
/// the handle. On an error the handle is still the caller's. Not a cancellation point.
///
/// Call from:  any thread: a virtual thread parks, a foreign thread blocks.
/// Errors:     -ETIMEDOUT  `deadline` passed; the handle is still valid
///             -EDEADLK    a task cannot join itself
///             -EPERM      called from a timer function or a future, which cannot wait
///             -ENOTSUP    from outside, of a simulated task
///             -ESRCH      the task belongs to the parent of this forked process
WEFT_API int weft_join(int *result, weft_task *task, weft_time deadline);

// Several at once. NULL entries are passed over, so that the same array can be waited for again. What
// releases handles sets the entries to NULL; on an error all handles are still the caller's. None of
// these is a cancellation point: who is cancelled cancels the tasks. All are called from any thread,
// as weft_join(), and have its errors besides their own. They allocate nothing.

/// How many tasks weft_try_join_all(), weft_join_any() and weft_join_race() wait for at most. For more
/// there are scopes (weft/scope.h), and combinators of weft_join_future (weft/future.h).
#define WEFT_JOIN_MOST 64

/// Waits until all `count` tasks have ended, stores what they returned in `results` (an array, or
/// NULL) and releases the handles.
///
/// Errors:     -ETIMEDOUT  `deadline` passed; nothing was released
WEFT_API int weft_join_all(int *results, weft_task **tasks, size_t count, weft_time deadline);

/// As weft_join_all(), but as soon as a task fails (it returns a negative number) the others are
/// cancelled. `*error` (may be NULL) is what the first one failed with, or 0.
///
/// Errors:     -ETIMEDOUT  `deadline` passed; nothing was released; if one had failed by then, the
///                         others were cancelled
///             -E2BIG      `count` is more than WEFT_JOIN_MOST
WEFT_API int weft_try_join_all(int *error, int *results, weft_task **tasks, size_t count,
                               weft_time deadline);

/// Waits until one of the tasks has ended, and stores its number, from 0, in `*index`. No handle is
/// released and no task cancelled: join that one, and wait for the others again. Of several that had
/// ended before, the first in the array is chosen.
///
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -ECHILD     there is none to wait for
///             -E2BIG      `count` is more than WEFT_JOIN_MOST
WEFT_API WEFT_MUST_CHECK int weft_join_any(size_t *index, weft_task *const *tasks, size_t count,
                                           weft_time deadline);

/// Waits until one of the tasks has ended, cancels the others, waits for them and releases all
/// handles. `*winner` (may be NULL) is the number of the first, `*result` (may be NULL) what it
/// returned.
///
/// Errors:     as weft_join_any(). After -ETIMEDOUT nothing was released; if there was a winner by
///             then, the others were cancelled
WEFT_API int weft_join_race(size_t *winner, int *result, weft_task **tasks, size_t count,
                            weft_time deadline);

/// Whether the task has ended.
///
/// Call from: any thread that owns a handle.
WEFT_API bool weft_task_done(const weft_task *task);

/// Asks the task to end: every call in it that can be cancelled returns -ECANCELED from now on,
/// until it ends. Cancelling an ended task does nothing.
///
/// Call from:  any thread that owns a handle.
WEFT_API void weft_task_cancel(weft_task *task);

/// Takes one more reference, for another owner of the handle. Returns `task`.
///
/// Call from: any thread that owns a handle.
WEFT_API weft_task *weft_task_retain(weft_task *task);

/// Gives a handle back; the task itself goes on (this is also how to detach a task). NULL is fine.
///
/// Call from: any thread that owns a handle.
WEFT_API void weft_task_release(weft_task *task);

/// The running task, borrowed; NULL outside a task.
WEFT_API weft_task *weft_self(void);

/// A number that no other task of the runtime has or had; 0 for NULL. Numbers are unique, not
/// consecutive, and say nothing about the order in which tasks were made.
WEFT_API uint64_t weft_task_id(const weft_task *task);

/// The name given at spawn, or "".
WEFT_API const char *weft_task_name(const weft_task *task);

/// Lets the other ready tasks of this carrier run first.
///
/// Call from:  a virtual thread.
/// Errors:     -ECANCELED  the task or a scope around it was cancelled (it did yield)
///             -EPERM      not called from a virtual thread
WEFT_API int weft_yield(void);

/// For loops that compute: yields if the task has used up its time slice or its operation budget,
/// else costs a clock read.
///
/// Call from:  a virtual thread.
/// Errors:     as weft_yield()
WEFT_API int weft_checkpoint(void);

/// -ECANCELED if the calling task or a scope around it (inside the innermost shield) was
/// cancelled, else 0. Never yields. -EPERM outside a task.
WEFT_API int weft_cancelled(void);

/// The number of the carrier the caller runs on, or -1 outside.
WEFT_API int weft_carrier_id(void);

/// How many carriers the caller's runtime uses (weft_runtime_resize()), or 0 outside.
WEFT_API int weft_carrier_count(void);

/// Bytes of its stack that are in use, in whole pages (the control block included): what the task
/// has touched so far. Stacks are reused: it may also be what a former user of the same stack has.
/// -ENOTSUP for a future.
///
/// Call from: any thread that owns a handle, while the task's runtime exists.
WEFT_API int64_t weft_task_stack_used(const weft_task *task);

// ---------------------------------------------------------------------------------------------
// Task-local values.

/// A key for task-local values; one per use, usually a static variable.
struct weft_local {
    const char *name;         ///< shown in dumps; may be NULL
    void (*destroy)(void *);  ///< called for a non-NULL value when its task ends; may be NULL
    void *(*inherit)(void *); ///< called at spawn with `attr.inherit` to copy a value for the
                              ///< child; NULL: this key is not inherited
};

/// The calling task's value for `key`, or NULL.
WEFT_API void *weft_local_get(const struct weft_local *key);

/// Sets the calling task's value for `key`; NULL removes it (without calling destroy).
///
/// Call from:  a task.
/// Errors:     -ENOMEM, -EPERM outside a task
WEFT_API WEFT_MUST_CHECK int weft_local_set(const struct weft_local *key, void *value);

WEFT_END_DECLS

#endif
