// scope.h - scopes from the inside: a node in the tree of cancellation, and a counter of children.
#ifndef WEFT_TASK_SCOPE_H
#define WEFT_TASK_SCOPE_H

#include <stdatomic.h>

#include <weft/scope.h>

#include "base/base.h"
#include "base/lock.h"
#include "base/timer.h"
#include "task/task.h"

struct weft__wait;

/// The part of the flags that says how children's results decide.
#define WEFT__SCOPE_POLICY 0xf

/// How far a runtime's shutdown has come; the cause of its root scope. It only grows.
enum weft__stage {
    WEFT__STAGE_NONE,
    WEFT__STAGE_DRAIN, ///< everything is cancelled but work in flight
    WEFT__STAGE_FORCE, ///< and that, too
};

/// The private layout of struct weft_scope. A runtime's root scope is one too: it has no owner, and
/// the runtime counts and finds its children without a list.
struct weft__scope {
    // Fixed while open.
    struct weft__scope *parent; // what is around it, across tasks; NULL for a root
    struct weft__scope *root;   // the outermost; NULL for a root
    struct weft__task *owner;   // NULL for a root
    uint8_t policy;
    uint8_t cover; // enum weft__stage: a shutdown is felt inside only when it is past this
    bool shield;
    bool open;
    bool timed; // its deadline was armed

    _Atomic int cause; // 0 until cancelled, then for good; anyone's

    struct weft__lock lock;
    // Under lock.
    uint32_t live;
    uint32_t failed;
    int first_error;
    struct weft__task *children;
    struct weft__task *cursor; // the next child that a cancel in progress will visit
    struct weft__wait *waiter; // the owner, joining

    // The owner's.
    struct weft__timer deadline;
    struct weft_attr attr; // for children that bring none; size 0: not set
};
_Static_assert(sizeof(struct weft__scope) <= sizeof(struct weft_scope), "public size too small");

static inline struct weft__scope *weft__scope_of(struct weft_scope *scope)
{
    return (struct weft__scope *)(void *)scope;
}

/// Opens a scope as the innermost of `owner`, which is the running task.
void weft__scope_open(struct weft__scope *scope, struct weft__task *owner, int flags,
                      weft_time deadline);

/// Counts a new child. -ECANCELED if the scope was cancelled, or a shutdown is felt in it: then it
/// is not counted.
int weft__scope_enter(struct weft__scope *scope, struct weft__task *child);

/// Lets a child's result decide the scope's fate by its policy. The child is still counted.
void weft__scope_settle(struct weft__scope *scope, int result);

/// A child is gone. The scope may vanish as soon as this is called for the last one.
void weft__scope_leave(struct weft__scope *scope, struct weft__task *child);

/// Cancels: sets the cause if there is none, tells children and owner. Not for a root.
void weft__scope_cancel(struct weft__scope *scope, int cause);

/// Moves a root from one stage of the shutdown to the next. True: it did, and the caller tells all
/// tasks. False: it was not at `from`.
bool weft__scope_advance(struct weft__scope *root, enum weft__stage from, enum weft__stage to);

/// Whether the runtime's shutdown is felt inside the scope: no guard or shield around hides it.
bool weft__scope_stopped(const struct weft__scope *scope);

/// The owner of the scope whose deadline this is; NULL: it is no scope's.
struct weft__task *weft__scope_timed(struct weft__timer *timer);

/// Looks at the scopes around a task that was marked LOOK. Use weft__scope_cancelled().
bool weft__scope_look(struct weft__task *task);

/// Whether the task must stop: it, or a scope around it inside the innermost shield, was cancelled.
/// Passes what it finds on to the task's own scopes. Nearly free unless marked LOOK. For the task
/// itself, or the carrier that is about to run it.
static inline bool weft__scope_cancelled(struct weft__task *task)
{
    return weft__unlikely((weft__word_peek(task) & WEFT__WORD_LOOK) != 0) && weft__scope_look(task);
}

/// Waits for all children and closes; the caller is the owner and this its innermost scope.
int weft__scope_join(struct weft__scope *scope);

/// The two halves of that. Has `wait` completed when no child is left, or its function called if its
/// mode is CALL: once, from whatever thread the last child ends on. False: there is none, and nothing
/// will be. One at a time, the owner's.
bool weft__scope_watch(struct weft__scope *scope, struct weft__wait *wait);
/// There are no children: closes.
int weft__scope_close(struct weft__scope *scope);

/// A work guard around what the running task does: hides a shutdown until that is forced, from the
/// task and from scopes that are opened inside. Guards nest.
static inline void weft__work_begin(struct weft__task *task)
{
    task->guards++;
}

void weft__work_end(struct weft__task *task);

#endif
