// weft/scheduler.h - schedulers written by the program: where a ready task runs, and when.
//
// weft calls a scheduler when one of its tasks has become ready; the scheduler sees to it that
// weft_task_run() is called for that task, once, on an OS thread of its own, or hands it to the
// built-in scheduler. examples/sched_pool.c is a fixed pool of threads, examples/sched_deadline.c
// runs the most urgent task first.
//
// A scheduler serves the whole runtime (weft_options.scheduler, or WEFT_SCHED=name), or the tasks that
// were spawned with it (weft_attr.scheduler). Children do not inherit it.
//
// Its threads need know nothing of weft. Whatever a task does there works as on a carrier: it sleeps,
// locks, sends, joins, is cancelled, keeps its errno and its task-local values. What belongs to a
// carrier is done by the task's home, the carrier it would have started on: a call that does I/O or
// waits with a deadline crosses over to it and comes back through the scheduler; a future of
// weft/async_io.h sends its operation there. Connections, listeners and message sockets (weft/net.h,
// weft/dgram.h) are a carrier's own: -EXDEV; and so are cases for descriptors in a select that is
// polled as a future (weft/select.h): -EPERM.
#ifndef WEFT_SCHEDULER_H
#define WEFT_SCHEDULER_H

#include <weft/base.h>

WEFT_BEGIN_DECLS

struct weft_scheduler;

/// Receives one number of a scheduler's statistics; `name` is a constant such as "queue_depth".
typedef void (*weft_stat_fn)(void *ctx, const char *name, uint64_t value);

/// What a scheduler does. The first two come from any thread, also from two at once: the task that
/// wakes another is inside them. They hold no lock of weft's, must not park or block for long, and
/// each obliges to exactly one weft_task_run() of the task, later and elsewhere, or to one hand-over
/// to `builtin`. Until then weft keeps the task; afterwards the task may be gone.
struct weft_scheduler_ops {
    void (*on_start)(struct weft_scheduler *self, weft_task *task);    ///< it is new
    void (*on_continue)(struct weft_scheduler *self, weft_task *task); ///< it goes on
    /// Reports numbers by calling `report`; from any thread. May be NULL.
    void (*publish)(struct weft_scheduler *self, weft_stat_fn report, void *ctx);
    /// The last task on it has ended and its makers have let go: nobody will call it any more. Runs
    /// on a carrier, or inside the last weft_scheduler_release(), so it may join the scheduler's own
    /// threads; it must not park. May be NULL.
    void (*destroy)(struct weft_scheduler *self);
};

/// A scheduler that never runs a started task on another OS thread than before. So it takes virtual
/// threads that are not migratable as well. weft_task_run() holds it to that.
#define WEFT_SCHEDULER_KEEPS_THREAD 0x1u

/// A scheduler; usually the first member of something larger. Set up by weft_scheduler_init().
struct weft_scheduler {
    const struct weft_scheduler_ops *ops;
    const char *name; ///< for logs; a constant
    /// The scheduler of the carriers, set before the first callback. To delegate, call its ops with
    /// it and the task: the task's home runs it, once.
    struct weft_scheduler *builtin;
    unsigned flags; ///< WEFT_SCHEDULER_*
    uint64_t opaque[8];
};

/// Prepares a scheduler in the caller's storage, which holds the first reference to it. Never fails;
/// flags that weft does not know make spawning with it fail.
///
/// Call from: anywhere.
WEFT_API void weft_scheduler_init(struct weft_scheduler *scheduler,
                                  const struct weft_scheduler_ops *ops, const char *name,
                                  unsigned flags);

/// Takes one more reference, for another maker. Returns `scheduler`.
WEFT_API struct weft_scheduler *weft_scheduler_retain(struct weft_scheduler *scheduler);

/// Gives a maker's reference back. Each task on the scheduler, and a runtime that uses it for all,
/// has one as well; when the last is gone ops->destroy is called, and the storage is the program's.
///
/// Call from: anywhere but a thread that `destroy` would join. NULL is fine.
WEFT_API void weft_scheduler_release(struct weft_scheduler *scheduler);

/// Reports the scheduler's statistics through `report`: "users" (tasks on it, and one for a runtime
/// that uses it for all), and whatever it publishes itself.
///
/// Call from: anywhere, with a reference.
WEFT_API void weft_scheduler_stats(struct weft_scheduler *scheduler, weft_stat_fn report,
                                   void *ctx);

/// Makes a scheduler for a runtime that was asked for one by name, and gives its first reference to
/// that runtime. 0 or a negative errno.
typedef int (*weft_scheduler_factory)(struct weft_scheduler **scheduler, void *arg);

/// Names a scheduler, so that WEFT_SCHED=name chooses it for runtimes whose options do not choose
/// one. Names last as long as the process.
///
/// Call from:  anywhere, before the runtime is made.
/// Errors:     -EINVAL  an empty name, one of more than 31 bytes, or no factory
///             -EEXIST  the name is taken, or it is a built-in scheduler's
///             -ENOSPC  there are 32 names already
WEFT_API WEFT_MUST_CHECK int weft_scheduler_register(const char *name,
                                                     weft_scheduler_factory factory, void *arg);

/// Runs a task that a callback of its scheduler was given, on the calling OS thread, until it parks,
/// yields or ends. Afterwards the task may be gone, or be running elsewhere.
///
/// Call from:  any OS thread that is neither a carrier nor inside a task.
/// Errors:     -EDEADLK  called from inside a task, or on a carrier's thread (a callback may be)
///             -EINVAL   the task is not waiting to be run: it runs, was run already for this
///                       callback, is parked or has ended, or has no scheduler of the program's
///             -EXDEV    a thread that must not move ran on another OS thread before
///                       (WEFT_SCHEDULER_KEEPS_THREAD)
///             -ENOTSUP  the task is simulated: its scheduler can only delegate
///             -ENOMEM   no memory for the thread's signal stack
///             -ESRCH    the task belongs to the parent of this forked process
/// On every error the task was not touched; what its scheduler owes it, it still owes.
WEFT_API int weft_task_run(weft_task *task);

/// A word for the scheduler's own use, set at spawn by weft_attr.attachment. The scheduler's from
/// callback to run, the task's own while that runs.
WEFT_API void *weft_task_attachment(const weft_task *task);
WEFT_API void weft_task_attach(weft_task *task, void *attachment);

/// The scheduler that the task was spawned with, or NULL: the built-in one.
WEFT_API struct weft_scheduler *weft_task_scheduler(const weft_task *task);

WEFT_END_DECLS

#endif
