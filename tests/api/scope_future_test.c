// scope_future_test.c - futures as children of a scope, and its join as a future.
#include "support/test.h"

#include "support/hand.h"
#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

static int give_back(void *arg)
{
    return *(int *)arg;
}

static int sleep_for_ever(void *arg)
{
    int rc = weft_sleep_until(WEFT_FOREVER);
    atomic_fetch_add((atomic_int *)arg, rc == -ECANCELED);
    return rc;
}

static void open_scope(struct weft_scope *scope, int flags)
{
    CHECK_OK(weft_scope_init(scope, flags, WEFT_FOREVER));
}

static int64_t await_join(struct weft_scope *scope, weft_time deadline)
{
    struct weft_scope_future join;
    weft_scope_join_future(&join, scope);
    int64_t rc = weft_await(&join.future, deadline);
    weft_future_fini(&join.future);
    return rc;
}

/// The scope is closed: whoever opened it may open and join others.
static void check_closed(struct weft_scope *scope)
{
    struct weft_scope next;
    CHECK_EQ(weft_scope_join(scope), -EPERM);
    open_scope(&next, WEFT_SCOPE_ALL);
    CHECK_EQ(weft_scope_join(&next), 0);
}

TEST_EVERYWHERE(without_children_it_is_ready_at_once)
{
    struct weft_scope scope;
    struct weft_scope_future join;
    open_scope(&scope, WEFT_SCOPE_FIRST);
    weft_scope_join_future(&join, &scope);
    CHECK_EQ(poll_once(&join.future), WEFT_READY);
    CHECK_EQ(join.future.result, -ECHILD);
    check_closed(&scope);
}

TEST_EVERYWHERE(it_gives_what_a_join_gives)
{
    int results[3] = { 0, -EIO, -EPERM };
    struct weft_scope scope;
    open_scope(&scope, WEFT_SCOPE_COLLECT);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_scope_spawn(&scope, give_back, &results[i]));
    }
    CHECK_EQ(await_join(&scope, WEFT_FOREVER), 2);
    check_closed(&scope);
    open_scope(&scope, WEFT_SCOPE_FIRST);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_scope_spawn(&scope, give_back, &results[2 - i]));
    }
    CHECK_EQ(await_join(&scope, WEFT_FOREVER), 0);
    CHECK_EQ(weft_scope_cause(&scope), WEFT_CAUSE_WON);
    check_closed(&scope);
}

/// The scope, and so the owner, is cancelled while the owner awaits it: the children are still awaited.
TEST_EVERYWHERE(a_failure_cancels_the_others_and_is_the_result)
{
    atomic_int cancelled = 0;
    int failure = -EIO;
    struct weft_scope scope;
    open_scope(&scope, WEFT_SCOPE_ALL);
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, &cancelled));
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, &cancelled));
    CHECK_OK(weft_scope_spawn(&scope, give_back, &failure));
    CHECK_EQ(await_join(&scope, WEFT_FOREVER), -EIO);
    CHECK_EQ(atomic_load(&cancelled), 2);
    check_closed(&scope);
}

TEST_EVERYWHERE(a_deadline_cancels_the_scope_and_waits_for_it)
{
    atomic_int cancelled = 0;
    struct weft_scope scope;
    open_scope(&scope, WEFT_SCOPE_COLLECT);
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, &cancelled));
    CHECK_EQ(await_join(&scope, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(atomic_load(&cancelled), 1);
    CHECK_EQ(weft_scope_cause(&scope), -ECANCELED);
    check_closed(&scope);
}

// Futures as children.

TEST_EVERYWHERE(futures_are_children)
{
    enum { CHILDREN = 5 };
    struct script scripts[CHILDREN];
    int result = 0;
    struct weft_scope scope;
    open_scope(&scope, WEFT_SCOPE_COLLECT);
    for (int i = 0; i < CHILDREN; i++) {
        script_init(&scripts[i], i, i % 2 == 0 ? 7 : -EIO);
        CHECK_OK(weft_scope_spawn_future(NULL, &scope, &scripts[i].future, NULL));
        CHECK_OK(weft_scope_spawn(&scope, give_back, &result)); // and threads
    }
    CHECK_EQ(await_join(&scope, WEFT_FOREVER), CHILDREN / 2);
    for (int i = 0; i < CHILDREN; i++) {
        CHECK(scripts[i].ready);
        CHECK_EQ(scripts[i].polls, i + 1);
    }
    check_closed(&scope);
}

TEST_EVERYWHERE(a_cancelled_scope_cancels_futures_in_it)
{
    struct weft_sleep sleep;
    struct script late;
    weft_task *task;
    int result;
    struct weft_scope scope;
    open_scope(&scope, WEFT_SCOPE_ALL);
    weft_sleep_init(&sleep, WEFT_FOREVER);
    script_init(&late, 0, 0);
    CHECK_OK(weft_scope_spawn_future(&task, &scope, &sleep.future, NULL));
    let_others_run();
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_spawn_future(NULL, &scope, &late.future, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_EQ(weft_sleep_result(&sleep), -ECANCELED);
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(late.polls, 0);
}

TEST(outside_a_task_nothing_is_spawned)
{
    struct weft_scope scope;
    struct weft_scope_future join;
    struct script script;
    struct hand hand = { 0 };
    weft_task *task = (weft_task *)&script;
    script_init(&script, 0, 0);
    CHECK_EQ(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_scope_spawn_future(&task, &scope, &script.future, NULL), -EPERM);
    CHECK(task == NULL);
    weft_scope_join_future(&join, &scope);
    CHECK_EQ(hand_poll(&hand, &join.future), WEFT_READY);
    CHECK_EQ(join.future.result, -EPERM);
}

// Together with others.

TEST_EVERYWHERE(it_loses_a_race_only_when_its_children_have_ended)
{
    atomic_int cancelled = 0;
    struct weft_scope scope;
    struct weft_scope_future join;
    struct weft_sleep sleep;
    struct weft_combine race;
    open_scope(&scope, WEFT_SCOPE_ALL);
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, &cancelled));
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, &cancelled));
    weft_scope_join_future(&join, &scope);
    weft_sleep_init(&sleep, weft_after(WEFT_MS));
    struct weft_branch branches[2] = { { .future = &join.future }, { .future = &sleep.future } };
    weft_combine_select(&race, branches, 2);
    CHECK_EQ(weft_await(&race.future, WEFT_FOREVER), 1);
    CHECK_EQ(join.future.result, -ECANCELED);
    CHECK_EQ(atomic_load(&cancelled), 2);
    check_closed(&scope);
}

TEST_EVERYWHERE(it_wins_a_race)
{
    int result = -EIO;
    struct weft_scope scope;
    struct weft_scope_future join;
    struct weft_sleep sleep;
    struct weft_combine race;
    open_scope(&scope, WEFT_SCOPE_COLLECT);
    CHECK_OK(weft_scope_spawn(&scope, give_back, &result));
    weft_scope_join_future(&join, &scope);
    weft_sleep_init(&sleep, WEFT_FOREVER);
    struct weft_branch branches[2] = { { .future = &sleep.future }, { .future = &join.future } };
    weft_combine_race(&race, branches, 2);
    CHECK_EQ(weft_await(&race.future, WEFT_FOREVER), 1);
    CHECK_EQ(weft_sleep_result(&sleep), -ECANCELED);
    check_closed(&scope);
}

// Who may poll it, and what may happen in between.

TEST_EVERYWHERE(only_the_owner_joins)
{
    atomic_int cancelled = 0;
    struct weft_scope scope, inner;
    struct weft_scope_future join;
    weft_task *task;
    int result;
    open_scope(&scope, WEFT_SCOPE_ALL);
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, &cancelled));
    weft_scope_join_future(&join, &scope);
    CHECK_OK(weft_spawn_future(&task, &join.future, NULL)); // a task of its own
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(result, -EPERM);
    open_scope(&inner, WEFT_SCOPE_ALL);
    CHECK_EQ(await_join(&scope, WEFT_FOREVER), -EPERM);
    CHECK_EQ(await_join(&inner, WEFT_FOREVER), 0);
    CHECK_EQ(weft_scope_cause(&scope), 0);
    weft_scope_cancel(&scope);
    CHECK_EQ(await_join(&scope, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(atomic_load(&cancelled), 1);
}

TEST_EVERYWHERE(children_that_come_later_are_waited_for)
{
    struct weft_event events[2] = { { { 0 } }, { { 0 } } };
    struct weft_sync_future waits[2];
    struct hand before = { 0 }, hand = { 0 };
    struct weft_scope scope;
    struct weft_scope_future join;
    open_scope(&scope, WEFT_SCOPE_ALL);
    weft_scope_join_future(&join, &scope);
    for (int i = 0; i < 2; i++) {
        weft_event_wait_future(&waits[i], &events[i]);
        CHECK_OK(weft_scope_spawn_future(NULL, &scope, &waits[i].future, NULL));
        CHECK_EQ(hand_poll(&before, &join.future), WEFT_PENDING);
        CHECK_EQ(hand_poll(&hand, &join.future), WEFT_PENDING);
        let_others_run();
        CHECK_EQ(atomic_load(&hand.woken), 0);
        weft_event_set(&events[i]);
        while (atomic_load(&hand.woken) == 0) { // no child is left
            CHECK_OK(weft_yield());
        }
    }
    CHECK_EQ(hand_drive(&hand, &join.future), 0);
    CHECK_EQ(atomic_load(&before.woken), 0);
    CHECK_EQ(atomic_load(&before.clones), 0);
    check_closed(&scope);
}

// The owner is cancelled while it awaits.

struct cancelled_owner {
    struct weft_event waiting;
    atomic_int cancelled;
    int64_t result;
};

static int own(void *arg)
{
    struct cancelled_owner *owner = arg;
    struct weft_scope scope;
    open_scope(&scope, WEFT_SCOPE_COLLECT);
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, &owner->cancelled));
    weft_event_set(&owner->waiting);
    owner->result = await_join(&scope, WEFT_FOREVER);
    return 0;
}

TEST_EVERYWHERE(a_cancelled_owner_still_waits_for_its_children)
{
    struct cancelled_owner owner = { .result = 0 };
    weft_task *task;
    int result;
    CHECK_OK(weft_spawn(&task, own, &owner, NULL));
    CHECK_OK(weft_event_wait(&owner.waiting, WEFT_FOREVER));
    weft_task_cancel(task);
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(owner.result, -ECANCELED);
    CHECK_EQ(atomic_load(&owner.cancelled), 1);
}

// On several carriers.

enum { ROUNDS = 200, CREW = 4 };

static int spread(void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    (void)arg;
    attr.place = WEFT_PLACE_SPREAD;
    for (int round = 0; round < ROUNDS; round++) {
        struct script scripts[CREW];
        int result = 0;
        struct weft_scope scope;
        open_scope(&scope, WEFT_SCOPE_ALL);
        weft_scope_set_attr(&scope, &attr);
        for (int i = 0; i < CREW; i++) {
            script_init(&scripts[i], i % 2, 0);
            CHECK_OK(weft_scope_spawn_future(NULL, &scope, &scripts[i].future, NULL));
            CHECK_OK(weft_scope_spawn(&scope, give_back, &result));
        }
        CHECK_EQ(await_join(&scope, WEFT_FOREVER), 0);
        for (int i = 0; i < CREW; i++) {
            CHECK(scripts[i].ready);
        }
    }
    return 0;
}

TEST_DRIVERS(the_last_child_ends_anywhere)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 3;
    CHECK_EQ(weft_run(spread, NULL, &options), 0);
}
