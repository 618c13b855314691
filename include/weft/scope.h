// weft/scope.h - structured concurrency: children that cannot outlive the scope they run in.
//
//     struct weft_scope scope;
//     weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(200 * WEFT_MS));
//     weft_scope_spawn(&scope, fetch_user, &user);
//     weft_scope_spawn(&scope, fetch_posts, &posts);
//     int rc = weft_scope_join(&scope); // 0, the first error, or -ETIMEDOUT; no child is left
//
// A scope is opened and joined by one virtual thread, its owner; scopes nest like blocks. Between
// init and join the owner runs *inside* the scope: when the scope is cancelled (by a failing child,
// its deadline, or weft_scope_cancel()) the owner's blocking calls return -ECANCELED as well, and
// go on doing so until the join.
#ifndef WEFT_SCOPE_H
#define WEFT_SCOPE_H

#include <weft/base.h>
#include <weft/future.h>
#include <weft/task.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/// How children's results decide the scope's fate; combine with SHIELD and WORK by `|`.
enum weft_scope_flags {
    WEFT_SCOPE_ALL = 0,     ///< the first child that fails cancels the others
    WEFT_SCOPE_FIRST = 1,   ///< the first child that succeeds cancels the others
    WEFT_SCOPE_COLLECT = 2, ///< children run to their end whatever the others do
    /// Hides cancellation and deadlines of everything outside the scope, never of what is inside.
    /// For cleanup that must finish; give it a deadline of its own.
    WEFT_SCOPE_SHIELD = 16,
    /// A work guard around everything inside the scope; see weft_work_begin().
    WEFT_SCOPE_WORK = 32,
};

/// What weft_scope_cause() says when a child of a WEFT_SCOPE_FIRST scope succeeded.
#define WEFT_CAUSE_WON 1

/// Caller-owned; opaque; must stay in place from init to join.
struct weft_scope {
    uint64_t opaque[32];
};

/// Opens a scope. When `deadline` comes the scope is cancelled: calls inside return -ECANCELED and
/// its join returns -ETIMEDOUT. The deadline is noticed when the owner's carrier gets its turn: an
/// owner that computes past it without a blocking call or a weft_checkpoint(), and has no children
/// left when it joins, is not late. An opened scope must be joined by the same virtual thread before
/// the function that holds it returns.
///
/// Call from:  a virtual thread. Elsewhere the scope is dead: spawning into it and joining it
///             return -EPERM, so a caller that checks only the join loses nothing.
/// Errors:     -EPERM  not called from a virtual thread
///             -EINVAL unknown flags
WEFT_API int weft_scope_init(struct weft_scope *scope, int flags, weft_time deadline);

/// Sets the attributes that children get when they are spawned without any of their own. Copied
/// except for the name's bytes.
///
/// Call from:  the owner.
WEFT_API void weft_scope_set_attr(struct weft_scope *scope, const struct weft_attr *attr);

/// Starts `fn(arg)` as a child of the scope. A spawn that fails makes the scope fail with the same
/// error, so it is enough to check the join.
///
/// Call from:  the owner or any task inside the scope.
/// Errors:     -ECANCELED  the scope was cancelled, or the runtime is shutting down and the scope is
///                         not inside a work guard; `fn` does not run
///             -ENOMEM     no memory for the stack; `fn` does not run
///             -EPERM      the scope was not opened
WEFT_API int weft_scope_spawn_at(struct weft_scope *scope, weft_fn fn, void *arg, const char *file,
                                 int line);
/// weft_scope_spawn(&scope, fn, arg): weft_scope_spawn_at() with the spawn site filled in.
#define weft_scope_spawn(scope, fn, arg)                                                           \
    weft_scope_spawn_at((scope), (fn), (arg), __FILE__, __LINE__)

/// The same with attributes (NULL: the scope's) and a handle, stored before the child can run.
/// `task` may be NULL. The handle does not keep the scope open.
WEFT_API int weft_scope_spawn_task_at(weft_task **task, struct weft_scope *scope, weft_fn fn,
                                      void *arg, const struct weft_attr *attr, const char *file,
                                      int line);
#define weft_scope_spawn_task(task, scope, fn, arg, attr)                                          \
    weft_scope_spawn_task_at((task), (scope), (fn), (arg), (attr), __FILE__, __LINE__)

/// Runs a future as a child of the scope, as weft_spawn_future() does in the runtime's root scope. Its
/// `result` (cut to int) decides as a thread's does; a cancelled scope cancels it. The storage stays the
/// caller's and must live until the join. Errors as above; the future is not polled then.
WEFT_API int weft_scope_spawn_future_at(weft_task **task, struct weft_scope *scope,
                                        struct weft_future *future, const struct weft_attr *attr,
                                        const char *file, int line);
#define weft_scope_spawn_future(task, scope, future, attr)                                         \
    weft_scope_spawn_future_at((task), (scope), (future), (attr), __FILE__, __LINE__)

/// Cancels the scope: its children, and the owner's calls until the join.
///
/// Call from:  any thread, while the scope is open (a child may always do it).
WEFT_API void weft_scope_cancel(struct weft_scope *scope);

/// Why the scope was cancelled: 0 it was not; -ETIMEDOUT its deadline; -ECANCELED
/// weft_scope_cancel() or something outside, a shutdown included; WEFT_CAUSE_WON a child of a FIRST
/// scope succeeded; else the error of the child or the spawn that failed. Stays valid after the
/// join.
WEFT_API int weft_scope_cause(const struct weft_scope *scope);

/// Waits for all children, then closes the scope. Not a cancellation point: a cancellation from
/// outside is passed on to the children, and they are waited for.
///
/// Call from:  the owner.
/// Returns:    ALL:     0 if nothing failed, else the cause
///             FIRST:   0 if a child succeeded; the first error if all failed; -ECHILD without
///                      children; -ETIMEDOUT or -ECANCELED if that came first
///             COLLECT: the number of children that failed; -ETIMEDOUT or -ECANCELED if the scope
///                      was cancelled
///             -EPERM   the scope was not opened, or is not the caller's innermost one
WEFT_API int weft_scope_join(struct weft_scope *scope);

/// The join as a future; caller-owned. Await it for a join that cancels the scope at a deadline of its
/// own, or combine `&join.future` with others.
struct weft_scope_future {
    struct weft_future future;
    uint64_t opaque[12];
};

/// Prepares a future that is READY with what weft_scope_join() returns, and has then closed the scope.
/// Children may be spawned while it waits, also by the owner. As a join it cannot be called off:
/// cancelling the future cancels the scope, and it is READY when the children have ended. Once it was
/// polled it takes the place of weft_scope_join().
///
///     weft_scope_join_future(&join, &scope);
///     int64_t rc = weft_await(&join.future, weft_after(WEFT_S)); // late: the children are cancelled
///
/// Poll from:  the owner, alone or inside of combinators.
/// Result:     that of weft_scope_join(); -EPERM if the scope was not opened or is not the innermost one
///             of who polls: then it is still open
WEFT_API void weft_scope_join_future(struct weft_scope_future *join, struct weft_scope *scope);

/// Begins and ends a work guard: what the calling thread does in between is work in flight, and a
/// shutdown of the runtime lets it finish. Until the shutdown is forced (see
/// weft_shutdown_request()) calls inside do not fail with -ECANCELED for its sake, and scopes that
/// were opened inside take new children. Every other cancellation and deadline comes through, and so
/// does the shutdown as soon as the guard has ended: at the next blocking call.
///
///     while ((rc = read_request(conn, &request)) > 0) { // idle: a shutdown ends this at once
///         weft_work_begin();
///         rc = answer(conn, &request); // may sleep, call others, spawn into scopes of its own
///         weft_work_end();
///     }
///
/// Guards nest: the outermost counts. One that is still open when its thread returns ends with it. A
/// child of a scope that was opened outside the guard is not covered by it, and neither are tasks
/// started with weft_go() or weft_spawn(). Costs a few nanoseconds.
///
/// Call from:  a virtual thread.
/// Errors:     -EPERM  not called from a virtual thread; there is no guard then
WEFT_API int weft_work_begin(void);
/// Ends the innermost guard of the calling thread. Without one it is a programmer error.
WEFT_API void weft_work_end(void);

WEFT_END_DECLS

#endif
