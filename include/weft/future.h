// weft/future.h - stackless tasks: a struct with a poll function, and the wakers that drive it.
//
// A future is polled until it is READY. When it returns PENDING it has arranged for a clone of the
// waker to be woken. There is no silent drop: cancelling is a request, and the owner keeps polling
// until READY, because the kernel may still own a buffer inside it.
#ifndef WEFT_FUTURE_H
#define WEFT_FUTURE_H

#include <weft/base.h>
#include <weft/task.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

typedef struct weft_waker weft_waker;

/// What a waker does. The library supplies one for its own tasks; a foreign event loop that wants
/// to drive a future supplies its own. All four may be called from any thread and must not block.
struct weft_waker_vtable {
    void (*clone)(weft_waker *copy, const weft_waker *waker); ///< makes an owned copy
    void (*wake)(weft_waker *waker);                          ///< wakes and drops
    void (*wake_by_ref)(const weft_waker *waker);             ///< wakes and keeps
    void (*drop)(weft_waker *waker);
};

/// Two words: how to wake, and whom.
struct weft_waker {
    const struct weft_waker_vtable *vtable;
    void *data;
};

/// Makes `*copy` an owned waker for the same task. End it with weft_waker_wake() or _drop().
static inline void weft_waker_clone(weft_waker *copy, const weft_waker *waker)
{
    waker->vtable->clone(copy, waker);
}

/// Wakes the task and gives the waker back. A zeroed waker wakes nobody.
static inline void weft_waker_wake(weft_waker *waker)
{
    if (waker->vtable != NULL) {
        waker->vtable->wake(waker);
    }
}

/// Wakes the task and keeps the waker.
static inline void weft_waker_wake_by_ref(const weft_waker *waker)
{
    waker->vtable->wake_by_ref(waker);
}

/// Gives the waker back without waking. A zeroed waker is fine.
static inline void weft_waker_drop(weft_waker *waker)
{
    if (waker->vtable != NULL) {
        waker->vtable->drop(waker);
    }
}

/// An owned waker for the running task.
///
/// Call from:  a task.
/// Errors:     -EPERM  outside a task; `*waker` is then zeroed
WEFT_API WEFT_MUST_CHECK int weft_waker_self(weft_waker *waker);

/// Parks the calling virtual thread until it is woken (by a waker, or spuriously), unless it was
/// woken since it last ran. The building block for blocking on anything; always call it in a loop.
///
/// Call from:  a virtual thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      not called from a virtual thread
WEFT_API int weft_park(weft_time deadline);

/// What poll says.
enum weft_poll {
    WEFT_PENDING, ///< a clone of the waker will be woken when polling makes sense again
    WEFT_READY,   ///< `result` is set; never poll again
};

struct weft_future;
typedef enum weft_poll (*weft_poll_fn)(struct weft_future *future, weft_waker *waker);
/// Asks the future to end soon; it still has to be polled until READY. May be called once.
typedef void (*weft_cancel_fn)(struct weft_future *future);

/// The first member of every future.
struct weft_future {
    weft_poll_fn poll;
    weft_cancel_fn cancel;
    int64_t result; ///< valid once READY
    uint64_t opaque;
};

/// Prepares a future. `cancel` may be NULL if the future always ends soon by itself.
WEFT_API void weft_future_init(struct weft_future *future, weft_poll_fn poll,
                               weft_cancel_fn cancel);

/// Polls a future: how the owner of one drives it. The library polls with this, too, and so notices
/// who polls a future that was READY (an assertion).
///
/// Call from:  any thread, one at a time.
WEFT_API enum weft_poll weft_future_poll(struct weft_future *future, weft_waker *waker);

/// Asks the future to end soon, if it was not asked before; then poll it until READY, beginning at
/// once: a future need not wake because of a cancel.
///
/// Call from:  whoever polls it.
WEFT_API void weft_future_cancel(struct weft_future *future);

/// Says that the storage is about to go. A future that weft_future_poll() has begun and not seen
/// READY is still in use, by a carrier or by the kernel: that is an assertion.
WEFT_API void weft_future_fini(const struct weft_future *future);

/// Runs a future as a task of its own, in the runtime's root scope. The storage stays the caller's
/// and must live until the task has ended. Joining gives `result` (cut to int). `task` may be NULL
/// for a detached one. `attr->stack_size_bytes` is ignored; futures are always migratable.
///
/// Call from:  a task or a timer function. Foreign threads use weft_runtime_spawn_future().
/// Errors:     as weft_spawn_at()
WEFT_API WEFT_MUST_CHECK int weft_spawn_future_at(weft_task **task, struct weft_future *future,
                                                  const struct weft_attr *attr, const char *file,
                                                  int line);
/// weft_spawn_future(&task, &future, attr): weft_spawn_future_at() with the spawn site filled in.
#define weft_spawn_future(task, future, attr)                                                      \
    weft_spawn_future_at((task), (future), (attr), __FILE__, __LINE__)

/// The task of weft_go_future() is through with the future: its storage is the program's again, and may
/// be freed here. `result` is set. Runs in the task, as the last thing it does, and must not block.
typedef void (*weft_ended_fn)(struct weft_future *future);

/// Runs a future as a detached task, in the runtime's root scope, on the caller's carrier, as weft_go()
/// does with a function. Nobody joins it, so it says itself when it is through: `ended` is called once.
///
/// Call from:  a task or a timer function.
/// Errors:     as weft_spawn_at(); -EINVAL without `ended`. Then `ended` is not called.
WEFT_API WEFT_MUST_CHECK int weft_go_future_at(struct weft_future *future, weft_ended_fn ended,
                                               const char *file, int line);
/// weft_go_future(&future, ended): weft_go_future_at() with the spawn site filled in.
#define weft_go_future(future, ended) weft_go_future_at((future), (ended), __FILE__, __LINE__)

/// Parks the calling virtual thread until the future is ready, and returns its result. If the
/// deadline passes or the task is cancelled first, the future is cancelled and awaited: when this
/// returns, the future is READY and its storage is the caller's, whatever the outcome.
///
/// Call from:  a virtual thread.
/// Returns:    the future's `result`; if the deadline passed and the future gave -ECANCELED:
///             -ETIMEDOUT; -EPERM outside a virtual thread (the future was not polled)
WEFT_API int64_t weft_await(struct weft_future *future, weft_time deadline);

/// Leaf future for time; caller-owned. Embed it, or await or spawn `&sleep.future`. Must stay in place
/// from the first poll until READY.
struct weft_sleep {
    struct weft_future future;
    uint64_t opaque[20];
};

/// Prepares a sleep until `when`: READY with 0, -ECANCELED, or the error of weft_sleep_result().
WEFT_API void weft_sleep_init(struct weft_sleep *sleep, weft_time when);

/// READY once `when` has come, or once it was cancelled: see weft_sleep_result(). From a foreign
/// thread the timer lives in weft_runtime_default().
WEFT_API enum weft_poll weft_sleep_poll(struct weft_sleep *sleep, weft_waker *waker);

/// Asks the sleep to end at once with -ECANCELED; poll it until READY.
WEFT_API void weft_sleep_cancel(struct weft_sleep *sleep);

/// After READY: 0, -ECANCELED, or -EAGAIN if a foreign thread polled it and weft_runtime_default()
/// could not be made.
WEFT_API int weft_sleep_result(const struct weft_sleep *sleep);

/// Leaf future for the next tick of an interval; caller-owned. Embed it, or await or spawn
/// `&tick.future`. Must stay in place from the first poll until READY. But for `future` its fields are
/// private.
struct weft_tick_future {
    struct weft_future future;
    struct weft_sleep sleep;
    struct weft_interval *interval;
    weft_time *due;
};

/// Prepares a future that is READY at the next tick: weft_interval_tick() for whoever has no stack to
/// park. `*due` (may be NULL) is then the moment the tick was due. The interval is borrowed until READY,
/// and has one tick at a time; ticks that were missed meanwhile are treated as it says. On every error
/// `*due` is left alone and the tick is still to come: prepare another future for it.
///
/// Result:     0; -ECANCELED; -EAGAIN as weft_sleep_result()
WEFT_API void weft_interval_tick_future(struct weft_tick_future *tick, weft_time *due,
                                        struct weft_interval *interval);

/// Leaf future for the end of a task; caller-owned. Embed it, or await or spawn `&join.future`. Must
/// stay in place from the first poll until READY.
struct weft_join_future {
    struct weft_future future;
    uint64_t opaque[12];
};

/// Prepares a future that is READY with what the task returned. It borrows the handle, which is still
/// the caller's when it is READY. Cancelling it ends the wait with -ECANCELED; the task goes on.
///
/// Result:     that of the task; -ECANCELED; -EDEADLK, -ESRCH or -ENOTSUP as weft_join()
WEFT_API void weft_join_future_init(struct weft_join_future *join, weft_task *task);

WEFT_END_DECLS

#endif
