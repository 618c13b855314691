// scope_model.c - children that leave, fail or are cancelled while their scope is joined
// (task/scope.c, S2 to S7).
//
// The scope dies when its join returns: a child that touches it later is reported. The children
// were entered before the threads start (spawn_model.c has children that are entered while a cancel
// is on its way). They are played by threads: they block until cancelled where the model says so,
// then end as weft__task_end() would end them. A cancel that does not reach a child, or a last
// child that does not wake the owner, leaves somebody asleep. So does a shutdown that is forgotten
// behind a guard. A shutdown is played by a thread that tells everyone, as the runtime does.
//
// Sources: task/scope.c task/wait.c task/run.c future/scope_future.c
// Headers: task/word.h base/lock.h task/bell.h
// With: stage.c stage_actor.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include "mc.h"
#include "stage.h"
#include "task/host.h"
#include "task/scope.h"
#include "task/wait.h"
#include "task/word.h"

enum { CHILDREN = 2, FAILURE = -EIO };

static struct stage_actor owner, child[CHILDREN];
static struct weft__scope root, outer, scope;
static int results[CHILDREN]; // with which the children end
static int verdict;           // what the join returned
static int blocked[CHILDREN]; // what blocking children got
static int note;              // left by whoever cancels, for whoever learns of it

static void own(void *unused)
{
    (void)unused;
    verdict = weft__scope_join(&scope);
    mc_assert(scope.live == 0 && scope.children == NULL && owner.task.scope == &outer);
    mc_forbid(&scope, sizeof scope);
}

// The same with a future. It is polled for nothing now and then.

static void waker_clone(weft_waker *copy, const weft_waker *waker)
{
    *copy = *waker;
}

static void waker_wake(weft_waker *waker)
{
    weft__wake(waker->data);
}

static void waker_drop(weft_waker *waker)
{
    (void)waker;
}

static __attribute__((noinline)) int await(struct weft__task *task)
{
    static const struct weft_waker_vtable vtable = { .clone = waker_clone,
                                                     .wake = waker_wake,
                                                     .drop = waker_drop };
    weft_waker waker = { &vtable, task };
    struct weft_scope_future join;
    weft_scope_join_future(&join, (struct weft_scope *)(void *)&scope);
    while (join.future.poll(&join.future, &waker) == WEFT_PENDING) {
        weft__host_park(task, WEFT_FOREVER);
    }
    return (int)join.future.result;
}

static void own_future(void *unused)
{
    (void)unused;
    verdict = await(&owner.task);
    mc_assert(scope.live == 0 && scope.children == NULL && owner.task.scope == &outer);
    mc_forbid(&scope, sizeof scope);
}

struct weft__task *weft__thread_self(void)
{
    return &owner.task;
}

int weft__no_task(void)
{
    return -EPERM;
}

void weft_future_init(struct weft_future *future, weft_poll_fn poll, weft_cancel_fn cancel)
{
    *future = (struct weft_future){ .poll = poll, .cancel = cancel };
}

static void end(int number)
{
    struct weft__task *task = &child[number].task;
    weft__scope_settle(task->birth, results[number]);
    weft__scope_leave(task->birth, task);
    weft__word_end(task);
}

static void run_child(void *arg)
{
    end((int)(intptr_t)arg);
}

static void run_and_decide(void *arg)
{
    note = 1;
    end((int)(intptr_t)arg);
}

static __attribute__((noinline)) int block_for_ever(struct weft__task *task)
{
    struct weft__wait wait;
    weft__wait_init(&wait, task, WEFT__WAIT_WITHDRAW, "model");
    return weft__block(&wait, WEFT_FOREVER);
}

static void run_until_cancelled(void *arg)
{
    int number = (int)(intptr_t)arg;
    blocked[number] = block_for_ever(&child[number].task);
    mc_assert(note == 1); // a cancel publishes
    end(number);
}

static void cancel_outer(void *unused)
{
    (void)unused;
    note = 1;
    weft__scope_cancel(&outer, -ECANCELED);
}

// Whoever cancels knows that the scope is open, for instance because it is a child of it.
static void cancel_from_child(void *arg)
{
    int number = (int)(intptr_t)arg;
    weft__scope_cancel(&scope, FAILURE);
    end(number);
}

// A shutdown.

static void advance(enum weft__stage from, enum weft__stage to, int children)
{
    bool advanced = weft__scope_advance(&root, from, to);
    mc_assert(advanced);
    weft__interrupt(&owner.task, WEFT__WORD_LOOK);
    for (int i = 0; i < children; i++) {
        weft__interrupt(&child[i].task, WEFT__WORD_LOOK);
    }
}

static void drain(void *unused)
{
    (void)unused;
    note = 1;
    advance(WEFT__STAGE_NONE, WEFT__STAGE_DRAIN, 0);
}

static void drain_and_force(void *unused)
{
    (void)unused;
    advance(WEFT__STAGE_NONE, WEFT__STAGE_DRAIN, 1);
    note = 1;
    advance(WEFT__STAGE_DRAIN, WEFT__STAGE_FORCE, 1);
}

static void drain_and_cancel(void *unused)
{
    (void)unused;
    advance(WEFT__STAGE_NONE, WEFT__STAGE_DRAIN, 0);
    cancel_outer(NULL);
}

static void block_until_drained(void)
{
    blocked[0] = block_for_ever(&owner.task);
    mc_assert(note == 1);
}

// Looks from inside its guard, and so may lose its LOOK; then the guard ends.
static void work_and_end(void *unused)
{
    (void)unused;
    mc_assert(!weft__scope_cancelled(&owner.task));
    weft__work_end(&owner.task);
    block_until_drained();
}

static void work_and_join(void *unused)
{
    (void)unused;
    mc_assert(!weft__scope_cancelled(&owner.task));
    verdict = weft__scope_join(&scope);
    block_until_drained();
}

static void enter(int number, int result)
{
    static const char *const names[] = { "child0", "child1" };
    struct weft__task *task = &child[number].task;
    stage_actor_init(&child[number], names[number]);
    task->birth = task->scope = &scope;
    int rc = weft__scope_enter(&scope, task);
    mc_assert(rc == 0);
    results[number] = result;
    blocked[number] = 0;
}

static void reset_scopes(int flags)
{
    note = verdict = 0;
    blocked[0] = blocked[1] = 0;
    stage_actor_init(&owner, "owner");
    root = outer = (struct weft__scope){ .open = true };
    outer.parent = outer.root = &root;
    outer.owner = &owner.task;
    owner.task.scope = &outer;
    weft__scope_open(&scope, &owner.task, flags, WEFT_FOREVER);
    mc_name(&scope, sizeof scope, "scope");
    mc_name(&scope.cause, sizeof scope.cause, "cause");
    mc_name(&scope.lock, sizeof scope.lock, "lock");
    mc_name(&root.cause, sizeof root.cause, "stage");
}

static void reset(int children, int flags, int result)
{
    reset_scopes(flags);
    for (int i = 0; i < children; i++) {
        enter(i, i == 0 ? result : 0);
    }
    mc_thread(own, NULL);
}

static void two_leave(void)
{
    reset(2, WEFT_SCOPE_ALL, 0);
    mc_thread(run_child, (void *)0);
    mc_thread(run_child, (void *)1);
}

static void two_leave_future(void)
{
    reset_scopes(WEFT_SCOPE_ALL);
    enter(0, 0);
    enter(1, 0);
    mc_thread(own_future, NULL);
    mc_thread(run_child, (void *)0);
    mc_thread(run_child, (void *)1);
}

// One fails: the other is cancelled.
static void one_fails(void)
{
    reset(2, WEFT_SCOPE_ALL, FAILURE);
    mc_thread(run_and_decide, (void *)0);
    mc_thread(run_until_cancelled, (void *)1);
}

// One wins: the other is cancelled.
static void one_wins(void)
{
    reset(2, WEFT_SCOPE_FIRST, 0);
    mc_thread(run_and_decide, (void *)0);
    mc_thread(run_until_cancelled, (void *)1);
}

// A cancel from outside reaches the owner in its join, who passes it on.
static void outside(void)
{
    reset(1, WEFT_SCOPE_ALL, 0);
    mc_thread(run_until_cancelled, (void *)0);
    mc_thread(cancel_outer, NULL);
}

// Two cancels at once.
static void both_cancel(void)
{
    reset(2, WEFT_SCOPE_COLLECT, 0);
    mc_thread(cancel_from_child, (void *)0);
    mc_thread(cancel_from_child, (void *)1);
}

// The child of a guarding scope feels nothing before the force.
static void forced(void)
{
    reset(1, WEFT_SCOPE_COLLECT | WEFT_SCOPE_WORK, 0);
    mc_thread(run_until_cancelled, (void *)0);
    mc_thread(drain_and_force, NULL);
}

// The child has a guard, the owner has none and waits for it: drained, it still passes a cancel on.
static void drained_then_cancelled(void)
{
    reset(1, WEFT_SCOPE_COLLECT, 0);
    weft__work_begin(&child[0].task);
    mc_thread(run_until_cancelled, (void *)0);
    mc_thread(drain_and_cancel, NULL);
}

// A guard ends while a drain begins.
static void guard_ends(void)
{
    reset_scopes(WEFT_SCOPE_ALL);
    weft__work_begin(&owner.task);
    mc_thread(work_and_end, NULL);
    mc_thread(drain, NULL);
}

static void guarding_scope_ends(void)
{
    reset_scopes(WEFT_SCOPE_WORK);
    mc_thread(work_and_join, NULL);
    mc_thread(drain, NULL);
}

static void check_fine(void)
{
    mc_assert(verdict == 0);
}

static void check_failed(void)
{
    mc_assert(verdict == FAILURE);
    mc_assert(blocked[1] == 0 || blocked[1] == -ECANCELED);
}

static void check_outside(void)
{
    mc_assert(verdict == -ECANCELED);
}

static void check_drained(void)
{
    mc_assert(verdict == 0);
    mc_assert(blocked[0] == -ECANCELED);
}

const struct mc_model mc_models[] = {
    { .name = "scope_two_leave", .setup = two_leave, .check = check_fine },
    { .name = "scope_two_leave_future", .setup = two_leave_future, .check = check_fine },
    { .name = "scope_one_fails", .setup = one_fails, .check = check_failed, .never_spurious = 1 },
    { .name = "scope_one_wins",
      .setup = one_wins,
      .check = check_fine,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "scope_outside", .setup = outside, .check = check_outside },
    { .name = "scope_both_cancel",
      .setup = both_cancel,
      .check = check_failed,
      .never_spurious = 1 },
    { .name = "scope_forced",
      .setup = forced,
      .check = check_outside,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "scope_drained_then_cancelled",
      .setup = drained_then_cancelled,
      .check = check_outside,
      .max_bound = 2,
      .never_spurious = 1 },
    { .name = "scope_guard_ends", .setup = guard_ends, .check = check_drained },
    { .name = "scope_guarding_scope_ends", .setup = guarding_scope_ends, .check = check_drained },
    { .name = NULL },
};
