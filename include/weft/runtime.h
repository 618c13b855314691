// weft/runtime.h - starting and stopping: carriers, options, logging, task dumps.
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include <weft/base.h>
#include <weft/future.h>
#include <weft/task.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/// Where the library gets small memory from. All three are set, or none. Called from any thread.
struct weft_allocator {
    void *(*alloc)(void *ctx, size_t size_bytes, size_t align); ///< NULL when exhausted
    void (*free)(void *ctx, void *memory, size_t size_bytes);
    void *ctx;
};

/// Where stacks come from: address space in large aligned pieces, readable, writable, zeroed and
/// lazily committed. Called from any thread, but must not call weft; a piece is given back when its
/// runtime is destroyed.
struct weft_stack_provider {
    int (*map)(void *ctx, void **base, size_t size_bytes, size_t align); ///< 0 or negative errno
    void (*unmap)(void *ctx, void *base, size_t size_bytes);
    void *ctx;
};

enum weft_log_level {
    WEFT_LOG_ERROR = 1,
    WEFT_LOG_WARN,
    WEFT_LOG_INFO,
    WEFT_LOG_DEBUG,
};

/// Receives every message of the library; `message` is one line without its end. The default
/// writes to standard error. Called from any thread; must not call weft.
typedef void (*weft_log_fn)(void *ctx, enum weft_log_level level, const char *module,
                            const char *message);

/// Which driver waits for the kernel.
enum weft_io {
    WEFT_IO_AUTO = 0, ///< io_uring if a real round trip works, else epoll
    WEFT_IO_URING,
    WEFT_IO_EPOLL,
};

/// Whether carriers are kept on CPUs; see weft/topology.h.
enum weft_topology {
    WEFT_TOPOLOGY_AUTO = 0, ///< only if `cpus` says where
    WEFT_TOPOLOGY_OFF,
    WEFT_TOPOLOGY_ON,
};

/// Where ready tasks go. Chosen by WEFT_SCHED, too, unless that names a scheduler of the program's.
enum weft_policy {
    WEFT_POLICY_DEFAULT = 0, ///< locality
    WEFT_POLICY_LOCALITY,    ///< home: tasks that work together stay on one carrier
    WEFT_POLICY_STEALING, ///< what may move (see enum weft_steal) runs on whatever carrier comes first
};

/// Whether, under locality, an idle carrier takes over tasks from a busy one. What may move: virtual
/// threads that have not started, which then stay where they were taken to; futures and migratable
/// threads, which come back. Never a task that was placed on a carrier (WEFT_PLACE_CARRIER), nor one
/// with timers or operations in flight.
enum weft_steal {
    WEFT_STEAL_DEFAULT = 0, ///< off
    WEFT_STEAL_OFF,
    WEFT_STEAL_ON,
};

/// From whom.
enum weft_steal_scope {
    WEFT_STEAL_SCOPE_DEFAULT = 0, ///< global
    WEFT_STEAL_GLOBAL,            ///< anyone; the nearest idle carrier is asked first
    WEFT_STEAL_CLUSTER,           ///< carriers that share a last-level cache; see weft/topology.h
};

/// Who waits for the kernel; docs/design/poller-modes.md says when to use which.
enum weft_poller_mode {
    WEFT_POLLER_DEFAULT = 0, ///< carrier
    WEFT_POLLER_CARRIER,     ///< each carrier, in its own driver
    WEFT_POLLER_TASKS,   ///< a virtual thread on each carrier, its poller (weft/poller.h); epoll
    WEFT_POLLER_THREADS, ///< OS threads that have the drivers, for all carriers
};

/// What is done, beside the report, about a task that holds its carrier (weft_options.stuck_ns): so
/// long as it does, other tasks that may move, futures and migratable threads, run elsewhere; so do
/// threads that have not started, unless all carriers are stuck. Not what is bound to its carrier:
/// see docs/design/stuck.md.
enum weft_remedy {
    WEFT_REMEDY_DEFAULT = 0, ///< off
    WEFT_REMEDY_OFF,
    /// On other carriers, and if all are stuck on a spare one: an OS thread more, which sleeps until
    /// then. A task that runs there sees `max_carriers` as its weft_carrier_id(), which may be more
    /// than weft_carrier_count(). All of `max_carriers` are started at the beginning. Implies
    /// WEFT_STEAL_ON, and 20 ms for `stuck_ns` if that is not set.
    WEFT_REMEDY_SPARE,
};

/// Settings of a runtime. Initialise with WEFT_OPTIONS_INIT or weft_options_init(). A field left at
/// zero takes its environment variable, and without one its default. Bad values, in the struct or
/// in the environment, make weft_run() fail with -EINVAL and a logged message that says what is
/// allowed.
struct weft_options {
    size_t size;      ///< sizeof(struct weft_options)
    int carriers;     ///< WEFT_CARRIERS: 1..1024; default: usable CPUs, capped by the cgroup
    int max_carriers; ///< WEFT_MAX_CARRIERS: 1..1024, at least `carriers`; for weft_runtime_resize();
                      ///< default: CPUs, or `carriers` if they are kept on CPUs
    enum weft_io io;         ///< WEFT_IO: auto, uring, epoll
    weft_time quantum_ns;    ///< WEFT_QUANTUM_US: 1..1000000; time slice between polls; 50 us
    weft_time idle_spin_ns;  ///< WEFT_SPIN_US: 0..1000000; spin this long before sleeping; 0
    weft_time grace_ns;      ///< WEFT_GRACE_MS: 0..3600000; time to end after a cancel; 10 s
    size_t stack_size_bytes; ///< WEFT_STACK_KB: 128..1048576, a power of two; 256 KiB
    int stack_cache;         ///< WEFT_STACK_CACHE: 1..1000000; idle stacks kept per carrier; 1024
    int ring_entries;        ///< WEFT_RING_ENTRIES: 2..32768, a power of two; 256
    int submit_batch;        ///< WEFT_SUBMIT_BATCH: 1..32768; submit at once when so many are
                             ///< queued; default: once per step
    size_t receive_buffer_bytes; ///< WEFT_RECV_KB: 1..1024, a power of two; 16 KiB
    int receive_buffers;  ///< WEFT_RECV_BUFFERS: 8..32768 for each carrier, a power of two; 256
    int blocking_threads; ///< WEFT_BLOCKING_THREADS: 1..100000; most threads in the pool; 512
    weft_time blocking_idle_ns;  ///< WEFT_BLOCKING_IDLE_MS: 0..3600000; then an idle one ends; 10 s
    enum weft_topology topology; ///< WEFT_TOPOLOGY: auto, off, on; keep carriers on CPUs; auto
    const char *cpus;            ///< WEFT_CPUS: borrowed; lists of CPUs, a semicolon between
                                 ///< clusters, like "0-3;4-7"; default: what the machine has
    weft_time stuck_ns;          ///< WEFT_STUCK_MS: 0..3600000; report tasks that hold their
                                 ///< carrier for so long; 0: nobody watches
    enum weft_remedy remedy;     ///< WEFT_STUCK_REMEDY: off, spare; what is done about them; off
    enum weft_steal steal; ///< WEFT_STEAL: off, on; idle carriers take tasks that may move; off
    enum weft_steal_scope steal_scope; ///< WEFT_STEAL_SCOPE: global, cluster; global
    enum weft_poller_mode poller;      ///< WEFT_POLLER: carrier, tasks, threads; carrier
    int poller_threads;      ///< WEFT_POLLER_THREADS: 1..1024; how many, no more than carriers; 1
    enum weft_policy policy; ///< WEFT_SCHED: locality, stealing; locality
    enum weft_log_level log_level;                    ///< WEFT_LOG: error, warn, info, debug; warn
    const struct weft_allocator *allocator;           ///< borrowed; NULL: malloc
    const struct weft_stack_provider *stack_provider; ///< borrowed; NULL: mmap
    weft_log_fn log;                                  ///< NULL: standard error
    void *log_ctx;
    /// WEFT_SCHED: "locality", "stealing", or a name given to weft_scheduler_register(). Runs every
    /// task that it may have (weft/scheduler.h): threads that must not move are the built-in one's
    /// unless it keeps them on their OS thread. Borrowed; the runtime takes a reference. NULL: built-in.
    struct weft_scheduler *scheduler;
};
#define WEFT_OPTIONS_INIT                                                                          \
    {                                                                                              \
        sizeof(struct weft_options), 0, 0, WEFT_IO_AUTO, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,          \
            WEFT_TOPOLOGY_AUTO, NULL, 0, WEFT_REMEDY_DEFAULT, WEFT_STEAL_DEFAULT,                  \
            WEFT_STEAL_SCOPE_DEFAULT, WEFT_POLLER_DEFAULT, 0, WEFT_POLICY_DEFAULT,                 \
            (enum weft_log_level)0, NULL, NULL, NULL, NULL, NULL                                   \
    }

/// Fills `options` with "everything by default".
WEFT_API void weft_options_init(struct weft_options *options);

/// Runs `fn(arg)` as the first virtual thread of a fresh runtime and returns its result when it is
/// over and everything it started has ended. When `fn` returns, the runtime is shut down as by
/// weft_runtime_shutdown() with the grace period of its options. `options` may be NULL.
///
/// Call from:  a plain OS thread; it sleeps meanwhile.
/// Errors:     -EDEADLK  called from inside a task
///             -EINVAL   a bad option or WEFT_* variable (the log says which and what is allowed)
///             -ENOMEM, -EAGAIN, -EMFILE, ...  the runtime could not be made
///             -EBUSY    tasks did not end within the grace period: they are dumped by name to the
///                       log and their memory is kept
WEFT_API int weft_run(weft_fn fn, void *arg, const struct weft_options *options);

/// Makes a runtime with running carriers and nothing to do.
///
/// Call from:  anywhere.
/// Errors:     as weft_run(); `*runtime` is then NULL
WEFT_API WEFT_MUST_CHECK int weft_runtime_create(weft_runtime **runtime,
                                                 const struct weft_options *options);

/// Starts `fn(arg)` in the runtime's root scope. `task` and `attr` may be NULL; WEFT_PLACE_CURRENT
/// means round robin from a thread that is not one of the runtime's carriers.
///
/// Call from:  any thread.
/// Errors:     -ENOMEM, -EINVAL
///             -ECANCELED  the runtime is shutting down
///             -ENOTSUP    from a foreign thread into a simulated runtime
///             -ESRCH      the runtime belongs to the parent of this forked process
WEFT_API int weft_runtime_spawn_at(weft_task **task, weft_runtime *runtime, weft_fn fn, void *arg,
                                   const struct weft_attr *attr, const char *file, int line);
#define weft_runtime_spawn(task, runtime, fn, arg, attr)                                           \
    weft_runtime_spawn_at((task), (runtime), (fn), (arg), (attr), __FILE__, __LINE__)

/// weft_spawn_future_at() into a given runtime, from any thread.
WEFT_API int weft_runtime_spawn_future_at(weft_task **task, weft_runtime *runtime,
                                          struct weft_future *future, const struct weft_attr *attr,
                                          const char *file, int line);
#define weft_runtime_spawn_future(task, runtime, future, attr)                                     \
    weft_runtime_spawn_future_at((task), (runtime), (future), (attr), __FILE__, __LINE__)

/// Asks the runtime to shut down, and does not wait for it. The first request drains: nothing new
/// starts, every task is cancelled that is not inside a work guard (weft_work_begin()), so accept
/// loops and idle connections end at once, and work in flight is finished. The second request, also
/// after weft_runtime_shutdown(), forces: what is inside guards is cancelled, too. Nine tenths into
/// the grace period of the runtime's options it is forced anyway. Shields (WEFT_SCOPE_SHIELD) hide
/// both.
///
/// NULL is the runtime of the calling task or timer function. A thread outside has to know that the
/// runtime exists. Not for signal handlers: read a signalfd instead (examples/graceful.c).
///
/// Call from:  any task, timer function or thread.
/// Errors:     -EPERM    NULL, and not called from inside a runtime
///             -ENOTSUP  from outside, of a simulated runtime
///             -ESRCH    the runtime belongs to the parent of this forked process
WEFT_API int weft_shutdown_request(weft_runtime *runtime);

/// Whether the runtime of the calling task or timer function is shutting down, for whatever reason,
/// drained or forced. False outside a runtime.
WEFT_API bool weft_shutting_down(void);

/// Shuts down and waits until every task has ended or `grace_ns` has passed: drains as
/// weft_shutdown_request() does, or joins in where that has begun, and forces when nine tenths of the
/// time have passed. A second call waits again, so a caller may be patient in steps.
///
/// Call from:  a plain OS thread.
/// Errors:     -EBUSY    tasks are left; they were dumped by name to the log
///             -EDEADLK  called from one of the runtime's own tasks
///             -ESRCH    after fork
WEFT_API int weft_runtime_shutdown(weft_runtime *runtime, weft_time grace_ns);

/// Stops the carriers and frees the runtime, shutting it down with its grace period first if that
/// was not done. If tasks are left their memory and the carriers are kept. NULL is fine.
///
/// Call from:  a plain OS thread.
/// Errors:     as weft_runtime_shutdown()
WEFT_API int weft_runtime_destroy(weft_runtime *runtime);

/// The process's own runtime for libraries, made at the first call with default options and kept
/// until the process ends. NULL if it could not be made; the log says why.
WEFT_API weft_runtime *weft_runtime_default(void);

/// The runtime of the calling task, or NULL.
WEFT_API weft_runtime *weft_runtime_current(void);

/// The driver in use: "uring", "epoll" or "sim".
WEFT_API const char *weft_runtime_driver(const weft_runtime *runtime);

/// How many carriers the runtime uses; weft_runtime_resize() changes it.
WEFT_API int weft_runtime_carriers(const weft_runtime *runtime);

/// Makes the runtime use so many carriers, those with the lowest numbers. Does not wait for tasks: what
/// follows happens while the program goes on, and calls from several threads follow one another.
///
/// More: new carriers have their thread and driver when this returns, and take part at once. Servers that
/// run (weft_serve()) listen there soon after, and stop where carriers leave.
///
/// Fewer: a carrier that is not wanted any more takes no part. What may move goes to the others: virtual
/// threads that have not started, futures and migratable threads, those that are ready at once, those
/// that wait when they are woken. Timers go along, and so do operations that wait: they are ended and
/// begun again, and what had been transferred by then is the result of the call as usual. Everything
/// else stays and works on: virtual threads that have started, until they end, and the carrier with
/// them; connections, listeners, pollers and timer functions; tasks of a scheduler of the program's; and,
/// until they are over, a select on descriptors, a connect, a copy between descriptors. So does what is
/// placed on such a carrier by its number later: a number that was good once stays good. Without
/// anything to do the carrier sleeps; it keeps its thread, and its place in statistics, until it is wanted
/// again or the runtime ends.
///
/// In a simulation the limit is what it began with. NULL is the runtime of the calling task or timer
/// function.
///
/// Call from:  any task, timer function or thread. Holds up the caller's OS thread, for about a
///             millisecond for each thread that has to be started.
/// Errors:     -EINVAL     not 1..weft_options.max_carriers
///             -EAGAIN, -ENOMEM, -EMFILE, ...  a carrier could not be started: there are as many as before
///             -ECANCELED  the runtime is shutting down
///             -EPERM      NULL, and not called from inside a runtime
///             -ENOTSUP    from outside, of a simulated runtime
///             -ESRCH      the runtime belongs to the parent of this forked process
WEFT_API int weft_runtime_resize(weft_runtime *runtime, int carriers);

/// Writes one line for every task of every runtime: id, name, state, carrier, what it waits for and
/// since when, spawn site, stack. The program keeps running; the picture is of no single moment.
/// Creating and destroying runtimes, and fork(), wait until it is written.
///
/// Call from:  any thread, with a descriptor that takes blocking writes.
/// Errors:     what write(2) says
WEFT_API int weft_dump_tasks(int fd);

WEFT_END_DECLS

#endif
