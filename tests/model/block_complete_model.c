// block_complete_model.c - a wait on a stack, its completer, and a waiter that gives up
// (task/wait.c, B1 to B5).
//
// The wait lives in the frame of block(): when that returns, the frame is gone, and the engine
// reports whoever touches it later, or earlier without an order. Results are plain, so that only
// the wait's own state can make them visible. The waiter is a task or a foreign thread.
//
// Sources: task/wait.c task/run.c
// Headers: task/word.h base/lock.h
// With: stage.c stage_actor.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include "base/lock.h"
#include "mc.h"
#include "stage.h"
#include "task/wait.h"
#include "task/word.h"

enum { RESULT = 42 };

static struct stage_actor actor;
static _Atomic(struct weft__wait *) published; // for completers without a lock
static struct weft__lock lock;
static struct weft__wait *listed; // under lock
static _Atomic int is_listed;     // so that completers do not come before there is anything to do
static _Atomic int cancelled;
static int outcome;   // what weft__block returned
static int committed; // the completer's: 1 won, -1 lost, 0 found no wait any more

// A cancel sets its cause before it sets LOOK, as scope.c does.
bool weft__scope_look(struct weft__task *task)
{
    atomic_fetch_and_explicit(&task->word, ~WEFT__WORD_LOOK, memory_order_acquire);
    if (atomic_load_explicit(&cancelled, memory_order_relaxed) == 0) {
        return false;
    }
    atomic_fetch_or_explicit(&task->word, WEFT__WORD_LOOK, memory_order_relaxed);
    return true;
}

static void cancel(void *unused)
{
    (void)unused;
    atomic_store_explicit(&cancelled, 1, memory_order_relaxed);
    weft__interrupt(&actor.task, WEFT__WORD_LOOK);
}

// A wait that cannot be withdrawn: its completer needs no lock and touches it last.

static __attribute__((noinline)) void block_until_done(struct weft__task *task)
{
    struct weft__wait wait;
    weft__wait_init(&wait, task, WEFT__WAIT_DEAF, "model");
    atomic_store_explicit(&published, &wait, memory_order_release);
    outcome = weft__block(&wait, WEFT_FOREVER);
    mc_assert(wait.result == RESULT);
}

static void task_waits(void *unused)
{
    (void)unused;
    block_until_done(&actor.task);
}

static void foreign_waits(void *unused)
{
    (void)unused;
    block_until_done(NULL);
}

static void complete(void *unused)
{
    (void)unused;
    struct weft__wait *wait;
    while ((wait = atomic_load_explicit(&published, memory_order_acquire)) == NULL) {
        mc_relax();
    }
    weft__complete(wait, RESULT);
}

// A wait that is asked to end: asking brings the completer to complete it.

static _Atomic int asked;

static void ask(struct weft__wait *wait)
{
    (void)wait;
    int before = atomic_exchange_explicit(&asked, 1, memory_order_release);
    mc_assert(before == 0); // B5
}

static __attribute__((noinline)) void block_until_asked(void)
{
    struct weft__wait wait;
    weft__wait_init(&wait, &actor.task, WEFT__WAIT_ASK, "model");
    wait.ask = ask;
    atomic_store_explicit(&published, &wait, memory_order_release);
    outcome = weft__block(&wait, WEFT_FOREVER);
    mc_assert(wait.result == RESULT);
}

static void task_waits_to_be_asked(void *unused)
{
    (void)unused;
    block_until_asked();
}

static void complete_when_asked(void *unused)
{
    (void)unused;
    while (atomic_load_explicit(&asked, memory_order_acquire) == 0) {
        mc_relax();
    }
    weft__complete(atomic_load_explicit(&published, memory_order_relaxed), RESULT);
}

// A wait that may be withdrawn: completers find it in a list and commit under the list's lock.

static __attribute__((noinline)) void block_or_withdraw(struct weft__task *task, int mode,
                                                        weft_time deadline)
{
    struct weft__wait wait;
    weft__wait_init(&wait, task, (enum weft__wait_mode)mode, "model");
    weft__lock_acquire(&lock);
    listed = &wait;
    weft__lock_release(&lock);
    atomic_store_explicit(&is_listed, 1, memory_order_relaxed);
    outcome = weft__block(&wait, deadline);
    if (outcome == 0) {
        mc_assert(wait.result == RESULT);
        return;
    }
    weft__lock_acquire(&lock); // B3
    listed = NULL;
    weft__lock_release(&lock);
}

static void task_may_be_late(void *unused)
{
    (void)unused;
    block_or_withdraw(&actor.task, WEFT__WAIT_DEAF, 10);
}

static void task_may_be_cancelled(void *unused)
{
    (void)unused;
    block_or_withdraw(&actor.task, WEFT__WAIT_WITHDRAW, WEFT_FOREVER);
}

static void foreign_may_be_late(void *unused)
{
    (void)unused;
    block_or_withdraw(NULL, WEFT__WAIT_DEAF, 10);
}

static void commit(void *unused)
{
    (void)unused;
    struct weft__wakee wakee;
    while (atomic_load_explicit(&is_listed, memory_order_relaxed) == 0) {
        mc_relax();
    }
    weft__lock_acquire(&lock);
    bool wake = false;
    if (listed != NULL) {
        wake = weft__commit(listed, RESULT, &wakee);
        committed = wake ? 1 : -1;
        listed = NULL;
    }
    weft__lock_release(&lock);
    if (wake) {
        weft__wakee_wake(&wakee);
    }
}

static void start(void (*waiter)(void *), void (*completer)(void *), void (*third)(void *))
{
    stage_actor_init(&actor, "actor");
    mc_name(&actor.task.word, sizeof actor.task.word, "word");
    mc_name(&actor.lane, sizeof actor.lane, "lane");
    atomic_init(&published, NULL);
    atomic_init(&cancelled, 0);
    atomic_init(&asked, 0);
    atomic_init(&is_listed, 0);
    atomic_init(&lock.state, 0);
    mc_name(&lock, sizeof lock, "lock");
    mc_name(&published, sizeof published, "published");
    mc_name(&cancelled, sizeof cancelled, "cancelled");
    listed = NULL;
    outcome = committed = 0;
    mc_thread(waiter, NULL);
    mc_thread(completer, NULL);
    if (third != NULL) {
        mc_thread(third, NULL);
    }
}

static void task_done(void)
{
    start(task_waits, complete, NULL);
}

static void foreign_done(void)
{
    start(foreign_waits, complete, NULL);
}

static void task_asked(void)
{
    start(task_waits_to_be_asked, complete_when_asked, cancel);
}

static void task_late(void)
{
    start(task_may_be_late, commit, NULL);
}

static void foreign_late(void)
{
    start(foreign_may_be_late, commit, NULL);
}

static void task_cancelled(void)
{
    start(task_may_be_cancelled, commit, cancel);
}

// The waiter got a result, or it gave up and the completer knows: never both, never neither.
static void check(void)
{
    mc_assert(outcome == 0);
}

static void check_late(void)
{
    mc_assert(outcome == 0 || outcome == -ETIMEDOUT);
    mc_assert((outcome == 0) == (committed == 1)); // B1
}

static void check_cancelled(void)
{
    mc_assert(outcome == 0 || outcome == -ECANCELED);
    mc_assert((outcome == 0) == (committed == 1));
}

const struct mc_model mc_models[] = {
    { .name = "block_task_done", .setup = task_done, .check = check },
    { .name = "block_foreign_done", .setup = foreign_done, .check = check },
    { .name = "block_task_asked", .setup = task_asked, .check = check },
    { .name = "block_task_late", .setup = task_late, .check = check_late },
    { .name = "block_foreign_late", .setup = foreign_late, .check = check_late },
    { .name = "block_task_cancelled", .setup = task_cancelled, .check = check_cancelled },
    { .name = NULL },
};
