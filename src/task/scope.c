// scope.c - children that cannot outlive their scope, and cancellation that reaches them.
//
// Scopes form a tree across tasks: a task's own scopes nest on its stack, the outermost of them
// stands in the scope the task was born in, and so on to the runtime's root.
//
//     root <- S (owned by A) <- U (owned by T, a child of S) <- V's birth scope is U
//
//   S1  A scope stays open while a child is counted, and outer scopes stay open while inner ones
//       are. So any task may read the fixed fields and the cause of every scope around it.
//   S2  The cause is set once. Then children and owner are marked LOOK and woken. They look for
//       themselves: cancellation changes nobody's state but by waking. A root's cause is different:
//       it is the stage of the runtime's shutdown, and the runtime marks and wakes every task.
//   S3  A child is counted and linked under the lock, after a look at the cause. Either it sees the
//       cause, or the cancel sees it.
//   S4  A task that finds an outer scope cancelled cancels its own scopes inside that one, and so
//       tells *its* children: cancellation travels down task by task. It looks before each of its
//       runs, so it does that wherever it waits, behind a shield of its own, too.
//   S5  Last touch: a leaving child releases the lock and then, if it was the last one and the
//       owner waits, completes the owner's wait, which it has taken out under the lock. The owner
//       leaves only through that wait, or by having seen no child at all under the lock. An owner
//       that waits with a future (future/scope_future.c) is called instead.
//   S6  Nobody is woken under the lock (a scheduler is called by a wake). The one cancel in progress
//       walks with a cursor that leaving children move along.
//   S7  A shutdown is felt in a scope when its stage is past the scope's cover: a work guard covers
//       the drain, a shield both stages, and what is inside has at least the cover of what is around
//       it. It is never written into the scopes between, or it would come to a guard as somebody
//       else's cancel. A task that lost its LOOK behind a cover has seen the stage, so whoever takes
//       the cover away sees it as well and marks the task again.
//
// Rejected: draining as a cause that a real one may replace (two cancels walk one list of children,
// and everyone who reads a cause has to tell the two apart).
// Locks: scope.lock, alone. Checked by: tests/model (scope last touch), tests/api/scope_test.c.
#include "task/scope.h"

#include <errno.h>

#include "base/assert.h"
#include "task/host.h"
#include "task/task.h"
#include "task/wait.h"

static int load_cause(const struct weft__scope *scope)
{
    return atomic_load_explicit(&scope->cause, memory_order_acquire);
}

static void deadline_fired(struct weft__timer *timer)
{
    struct weft__scope *scope = weft__container_of(timer, struct weft__scope, deadline);
    struct weft__task *owner = scope->owner;
    weft__scope_cancel(scope, -ETIMEDOUT);
    weft__task_unbind(owner); // last: until here it can run, and end the scope, on this thread only
}

struct weft__task *weft__scope_timed(struct weft__timer *timer)
{
    return timer->fire == deadline_fired
               ? weft__container_of(timer, struct weft__scope, deadline)->owner
               : NULL;
}

static const struct weft__scope *root_of(const struct weft__scope *scope)
{
    return scope->root != NULL ? scope->root : scope;
}

bool weft__scope_stopped(const struct weft__scope *scope)
{
    return load_cause(root_of(scope)) > scope->cover;
}

bool weft__scope_advance(struct weft__scope *root, enum weft__stage from, enum weft__stage to)
{
    int stage = (int)from;
    return atomic_compare_exchange_strong_explicit(&root->cause, &stage, (int)to,
                                                   memory_order_release, memory_order_relaxed);
}

/// Marks the running task, because something that hid a cancel or a shutdown from it is gone.
static void look_again(struct weft__task *task)
{
    atomic_fetch_or_explicit(&task->word, WEFT__WORD_LOOK, memory_order_relaxed);
}

void weft__work_end(struct weft__task *task)
{
    weft_assert(task->guards > 0 && "weft_work_end() without weft_work_begin()");
    if (--task->guards == 0 && load_cause(root_of(task->scope)) != WEFT__STAGE_NONE) {
        look_again(task);
    }
}

/// S7: what hides the shutdown from the task itself.
static uint8_t cover_around(const struct weft__task *task)
{
    uint8_t cover = task->scope->cover;
    return task->guards > 0 && cover < WEFT__STAGE_DRAIN ? WEFT__STAGE_DRAIN : cover;
}

/// S7: what a scope that the task opens will cover.
static uint8_t cover_of(const struct weft__task *task, int flags)
{
    uint8_t cover = cover_around(task);
    if ((flags & WEFT_SCOPE_SHIELD) != 0) {
        return WEFT__STAGE_FORCE;
    }
    bool works = (flags & WEFT_SCOPE_WORK) != 0 && cover < WEFT__STAGE_DRAIN;
    return works ? WEFT__STAGE_DRAIN : cover;
}

void weft__scope_open(struct weft__scope *scope, struct weft__task *owner, int flags,
                      weft_time deadline)
{
    struct weft__scope *parent = owner->scope;
    *scope = (struct weft__scope){
        .parent = parent,
        .root = parent->root != NULL ? parent->root : parent,
        .owner = owner,
        .policy = (uint8_t)(flags & WEFT__SCOPE_POLICY),
        .cover = cover_of(owner, flags),
        .shield = (flags & WEFT_SCOPE_SHIELD) != 0,
        .open = true,
        .deadline.fire = deadline_fired,
    };
    owner->scope = scope;
    if (deadline != WEFT_FOREVER && deadline <= weft__host_now(owner)) {
        weft__scope_cancel(scope, -ETIMEDOUT);
    } else if (deadline != WEFT_FOREVER) {
        scope->timed = true;
        weft__host_timer_set(owner, &scope->deadline, deadline);
    }
    (void)weft__scope_cancelled(owner); // S4: a scope opened inside a cancelled one is cancelled
}

int weft__scope_enter(struct weft__scope *scope, struct weft__task *child)
{
    if (weft__scope_stopped(scope)) {
        return -ECANCELED;
    }
    if (scope->owner == NULL) {
        return 0;
    }
    weft__lock_acquire(&scope->lock);
    bool cancelled = load_cause(scope) != 0;
    if (!cancelled) {
        scope->live++;
        child->sibling_next = scope->children;
        child->sibling_link = &scope->children;
        if (scope->children != NULL) {
            scope->children->sibling_link = &child->sibling_next;
        }
        scope->children = child;
    }
    weft__lock_release(&scope->lock);
    return cancelled ? -ECANCELED : 0;
}

void weft__scope_settle(struct weft__scope *scope, int result)
{
    if (scope->owner == NULL) {
        return;
    }
    if (result < 0) {
        weft__lock_acquire(&scope->lock);
        scope->failed++;
        scope->first_error = scope->first_error == 0 ? result : scope->first_error;
        weft__lock_release(&scope->lock);
        // A child that was sent home by a shutdown does not fail those that are at work (S7).
        bool sent_home = result == -ECANCELED && weft__scope_stopped(scope);
        if (scope->policy == WEFT_SCOPE_ALL && !sent_home) {
            weft__scope_cancel(scope, result);
        }
    } else if (scope->policy == WEFT_SCOPE_FIRST) {
        weft__scope_cancel(scope, WEFT_CAUSE_WON);
    }
}

static void complete(struct weft__wait *waiter)
{
    if (weft__unlikely(waiter->mode == WEFT__WAIT_CALL)) {
        waiter->ask(waiter);
    } else {
        weft__complete(waiter, 0);
    }
}

void weft__scope_leave(struct weft__scope *scope, struct weft__task *child)
{
    if (scope->owner == NULL) {
        return;
    }
    weft__lock_acquire(&scope->lock);
    if (scope->cursor == child) {
        scope->cursor = child->sibling_next;
    }
    *child->sibling_link = child->sibling_next;
    if (child->sibling_next != NULL) {
        child->sibling_next->sibling_link = child->sibling_link;
    }
    struct weft__wait *waiter = NULL;
    if (--scope->live == 0) {
        waiter = scope->waiter;
        scope->waiter = NULL;
    }
    weft__lock_release(&scope->lock);
    if (waiter != NULL) {
        complete(waiter); // S5
    }
}

static struct weft__task *next_to_tell(struct weft__scope *scope)
{
    weft__lock_acquire(&scope->lock);
    struct weft__task *child = scope->cursor;
    if (child != NULL) {
        scope->cursor = child->sibling_next;
    }
    weft__lock_release(&scope->lock);
    return child;
}

void weft__scope_cancel(struct weft__scope *scope, int cause)
{
    int none = 0;
    if (!atomic_compare_exchange_strong_explicit(&scope->cause, &none, cause, memory_order_release,
                                                 memory_order_relaxed)) {
        return;
    }
    weft__lock_acquire(&scope->lock);
    scope->cursor = scope->children;
    weft__lock_release(&scope->lock);
    struct weft__task *child;
    while ((child = next_to_tell(scope)) != NULL) {
        // The child may have left by now; its block is type-stable (task.h, T3).
        weft__interrupt(child, WEFT__WORD_LOOK);
    }
    weft__interrupt(scope->owner, WEFT__WORD_LOOK);
}

/// Whether `scope` or one around it, up to the next shield, was cancelled; the root is not asked.
static bool cancelled_around(const struct weft__scope *scope)
{
    for (; scope->parent != NULL; scope = scope->parent) {
        if (load_cause(scope) != 0) {
            return true;
        }
        if (scope->shield) {
            return false;
        }
    }
    return false;
}

static void cancel_up_to(struct weft__scope *scope, const struct weft__scope *outer)
{
    for (; scope != outer; scope = scope->parent) {
        weft__scope_cancel(scope, -ECANCELED);
    }
}

/// Whether the task is cancelled, as seen from inside its innermost shield. S4: cancels each of its
/// own scopes that stands, with no shield between, in a cancelled one; also where a shield further
/// in hides that from the task itself, because it does not hide it from those scopes' children.
static bool cancelled_outwards(struct weft__task *task)
{
    bool cancelled = false;
    bool shielded = false;
    struct weft__scope *exposed = task->scope; // from here outwards no shield has been met
    struct weft__scope *scope = task->scope;
    for (; scope->owner == task; scope = scope->parent) {
        if (load_cause(scope) != 0) {
            cancel_up_to(exposed, scope);
            exposed = scope;
            cancelled = cancelled || !shielded;
        }
        if (scope->shield) {
            exposed = scope->parent;
            shielded = true;
        }
    }
    if ((weft__word_peek(task) & WEFT__WORD_CANCELLED) != 0 || cancelled_around(scope)) {
        cancel_up_to(exposed, scope);
        cancelled = cancelled || !shielded;
    }
    return cancelled;
}

static bool look_outwards(struct weft__task *task)
{
    return cancelled_outwards(task) || load_cause(root_of(task->scope)) > cover_around(task);
}

bool weft__scope_look(struct weft__task *task)
{
    if (look_outwards(task)) {
        return true;
    }
    // Nothing that concerns us, or a shield hides it. Stop looking, but look once more after saying
    // so: a cancel sets its cause before it sets LOOK.
    atomic_fetch_and_explicit(&task->word, ~WEFT__WORD_LOOK, memory_order_acquire);
    if (!look_outwards(task)) {
        return false;
    }
    atomic_fetch_or_explicit(&task->word, WEFT__WORD_LOOK, memory_order_relaxed);
    return true;
}

bool weft__scope_watch(struct weft__scope *scope, struct weft__wait *wait)
{
    weft__lock_acquire(&scope->lock);
    bool waits = scope->live > 0;
    if (waits) {
        scope->waiter = wait;
    }
    weft__lock_release(&scope->lock);
    return waits;
}

/// The owner is not interrupted: its looks, before each run and here, pass a cancel on (S4).
static void await_children(struct weft__scope *scope)
{
    struct weft__wait wait;
    weft__wait_init(&wait, scope->owner, WEFT__WAIT_PASS, "scope join");
    if (weft__scope_watch(scope, &wait)) {
        int rc = weft__block(&wait, WEFT_FOREVER);
        weft_assert(rc == 0);
    }
}

static int verdict(const struct weft__scope *scope)
{
    int cause = load_cause(scope);
    switch (scope->policy) {
    case WEFT_SCOPE_FIRST:
        if (cause == 0) {
            return scope->first_error != 0 ? scope->first_error : -ECHILD;
        }
        return cause == WEFT_CAUSE_WON ? 0 : cause;
    case WEFT_SCOPE_COLLECT: return cause != 0 ? cause : (int)scope->failed;
    default: return cause;
    }
}

int weft__scope_close(struct weft__scope *scope)
{
    struct weft__task *owner = scope->owner;
    if (scope->timed) {
        weft__host_timer_set(owner, &scope->deadline, WEFT_FOREVER);
    }
    if (weft__scope_stopped(scope)) {
        weft__scope_cancel(scope, -ECANCELED); // nobody is inside any more: for the verdict
    }
    scope->open = false;
    owner->scope = scope->parent;
    if (scope->shield || load_cause(scope->root) != WEFT__STAGE_NONE) {
        look_again(owner); // what the scope hid counts again
    }
    return verdict(scope);
}

int weft__scope_join(struct weft__scope *scope)
{
    await_children(scope);
    return weft__scope_close(scope);
}
