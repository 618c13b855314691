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
//       themselves: cancellation changes nobody's state but by waking.
//   S3  A child is counted and linked under the lock, after a look at the cause. Either it sees the
//       cause, or the cancel sees it.
//   S4  A task that finds an outer scope cancelled cancels its own scopes inside that one, and so
//       tells *its* children: cancellation travels down task by task. It looks before each of its
//       runs, so it does that wherever it waits, behind a shield of its own, too.
//   S5  Last touch: a leaving child releases the lock and then, if it was the last one and the
//       owner waits, completes the owner's wait. The owner leaves only through that wait, or by
//       having seen no child at all under the lock.
//   S6  Nobody is woken under the lock (a scheduler is called by a wake). The one cancel in progress
//       walks with a cursor that leaving children move along.
//
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
    scope->owner->in_flight--;
    weft__scope_cancel(scope, -ETIMEDOUT);
}

void weft__scope_open(struct weft__scope *scope, struct weft__task *owner, int flags,
                      weft_time deadline)
{
    *scope = (struct weft__scope){
        .parent = owner->scope,
        .owner = owner,
        .policy = (uint8_t)(flags & ~WEFT_SCOPE_SHIELD),
        .shield = (flags & WEFT_SCOPE_SHIELD) != 0,
        .open = true,
        .deadline.fire = deadline_fired,
    };
    owner->scope = scope;
    if (deadline != WEFT_FOREVER && deadline <= weft__host_now(owner)) {
        weft__scope_cancel(scope, -ETIMEDOUT);
    } else if (deadline != WEFT_FOREVER) {
        weft__host_timer_set(owner, &scope->deadline, deadline);
    }
    (void)weft__scope_cancelled(owner); // S4: a scope opened inside a cancelled one is cancelled
}

int weft__scope_enter(struct weft__scope *scope, struct weft__task *child)
{
    if (scope->owner == NULL) {
        return load_cause(scope) != 0 ? -ECANCELED : 0;
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
        if (scope->policy == WEFT_SCOPE_ALL) {
            weft__scope_cancel(scope, result);
        }
    } else if (scope->policy == WEFT_SCOPE_FIRST) {
        weft__scope_cancel(scope, WEFT_CAUSE_WON);
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
    struct weft__wait *waiter = --scope->live == 0 ? scope->waiter : NULL;
    weft__lock_release(&scope->lock);
    if (waiter != NULL) {
        weft__complete(waiter, 0);
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
    if (scope->owner == NULL) {
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

/// Whether `scope` or one around it, up to the next shield, was cancelled.
static bool cancelled_around(const struct weft__scope *scope)
{
    for (; scope != NULL; scope = scope->parent) {
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
static bool look_outwards(struct weft__task *task)
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

struct joining {
    struct weft__wait wait;
    struct weft__scope *scope;
};

static void cancel_children(struct weft__wait *wait)
{
    weft__scope_cancel(weft__container_of(wait, struct joining, wait)->scope, -ECANCELED);
}

static void await_children(struct weft__scope *scope)
{
    struct joining joining = { .scope = scope };
    weft__wait_init(&joining.wait, scope->owner, WEFT__WAIT_ASK, "scope join");
    joining.wait.ask = cancel_children;
    weft__lock_acquire(&scope->lock);
    bool waiting = scope->live > 0;
    if (waiting) {
        scope->waiter = &joining.wait;
    }
    weft__lock_release(&scope->lock);
    if (waiting) {
        int rc = weft__block(&joining.wait, WEFT_FOREVER);
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

int weft__scope_join(struct weft__scope *scope)
{
    struct weft__task *owner = scope->owner;
    await_children(scope);
    if (weft__timer_armed(&scope->deadline)) {
        weft__host_timer_set(owner, &scope->deadline, WEFT_FOREVER);
    }
    scope->open = false;
    owner->scope = scope->parent;
    if (scope->shield) {
        // What the shield hid counts again.
        atomic_fetch_or_explicit(&owner->word, WEFT__WORD_LOOK, memory_order_relaxed);
    }
    return verdict(scope);
}
