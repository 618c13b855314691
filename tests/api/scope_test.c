// scope_test.c - scopes by themselves: policies, results, causes, spawning, misuse. Nesting and
// cancellation are in cancel_test.c.
#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <weft.h>

static int give_back(void *arg)
{
    return *(int *)arg;
}

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

static int sleep_for_ever(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_FOREVER);
}

/// Sleeps for ever and counts when that was cancelled.
static int count_cancel(void *arg)
{
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
    atomic_fetch_add((atomic_int *)arg, 1);
    return -ECANCELED;
}

/// A deadline that comes soon, but not before we are ready for it on a machine that is busy.
static weft_time soon(void)
{
    return weft_after(test_driver() == TEST_DRIVER_SIM ? WEFT_MS : 50 * WEFT_MS);
}

TEST_EVERYWHERE(all_succeeds_when_every_child_does)
{
    atomic_int ran = 0;
    int positive = 5;
    struct weft_scope scope;
    CHECK_EQ(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_scope_spawn(&scope, count, &ran), 0);
    }
    CHECK_EQ(weft_scope_spawn(&scope, give_back, &positive), 0); // positive is a success
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_EQ(atomic_load(&ran), 10);
    CHECK_EQ(weft_scope_cause(&scope), 0);
}

TEST_EVERYWHERE(all_fails_with_the_first_error_and_cancels_the_others)
{
    atomic_int cancelled = 0;
    int io = -EIO;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weft_scope_spawn(&scope, count_cancel, &cancelled));
    }
    CHECK_OK(weft_scope_spawn(&scope, give_back, &io));
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED); // the owner is inside, too
    CHECK_EQ(weft_scope_cause(&scope), -EIO);
    CHECK_EQ(weft_scope_join(&scope), -EIO);
    CHECK_EQ(atomic_load(&cancelled), 5);
    CHECK_EQ(weft_scope_cause(&scope), -EIO);
}

TEST_EVERYWHERE(empty_scopes)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_FIRST, WEFT_FOREVER));
    CHECK_EQ(weft_scope_join(&scope), -ECHILD);
    CHECK_EQ(weft_scope_cause(&scope), 0);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    CHECK_EQ(weft_scope_join(&scope), 0);
}

TEST_EVERYWHERE(first_success_cancels_the_others)
{
    atomic_int cancelled = 0;
    int zero = 0;
    int io = -EIO;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_FIRST, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, give_back, &io)); // a failure decides nothing
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weft_scope_spawn(&scope, count_cancel, &cancelled));
    }
    CHECK_OK(weft_scope_spawn(&scope, give_back, &zero));
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_EQ(atomic_load(&cancelled), 5);
    CHECK_EQ(weft_scope_cause(&scope), WEFT_CAUSE_WON);
}

TEST_EVERYWHERE(first_without_a_success_gives_the_first_error)
{
    int errors[] = { -EIO, -ENOENT, -EBADF };
    struct weft_attr attr = stay_here(); // so that they end one after the other
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_FIRST, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_scope_spawn(&scope, give_back, &errors[i]));
    }
    CHECK_EQ(weft_scope_join(&scope), -EIO);
    CHECK_EQ(weft_scope_cause(&scope), 0);
}

TEST_EVERYWHERE(first_that_was_cancelled_or_late_says_so)
{
    int io = -EIO;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_FIRST, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, give_back, &io));
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, NULL));
    CHECK_OK(weft_yield());
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_EQ(weft_scope_cause(&scope), -ECANCELED);

    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_FIRST, soon()));
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, NULL));
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
    CHECK_EQ(weft_scope_cause(&scope), -ETIMEDOUT);
}

TEST_EVERYWHERE(collect_counts_failures)
{
    atomic_int ran = 0;
    int io = -EIO;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_scope_spawn(&scope, give_back, &io));
        CHECK_OK(weft_scope_spawn(&scope, count, &ran));
    }
    CHECK_OK(weft_sleep(WEFT_MS)); // failures do not cancel
    CHECK_EQ(weft_scope_join(&scope), 4);
    CHECK_EQ(atomic_load(&ran), 4);
    CHECK_EQ(weft_scope_cause(&scope), 0);
}

TEST_EVERYWHERE(collect_that_was_cancelled_or_late_says_so)
{
    int io = -EIO;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, give_back, &io));
    CHECK_OK(weft_yield());
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);

    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, soon()));
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, NULL));
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
}

TEST_EVERYWHERE(a_deadline_cancels_with_its_own_cause)
{
    atomic_int cancelled = 0;
    struct weft_scope scope;
    weft_time deadline = soon();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, deadline));
    CHECK_OK(weft_scope_spawn(&scope, count_cancel, &cancelled));
    CHECK_OK(weft_sleep(10));
    CHECK_EQ(weft_scope_cause(&scope), 0);
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED); // not -ETIMEDOUT: that is a call's own
    CHECK_GE(weft_now(), deadline);
    CHECK_EQ(weft_scope_cause(&scope), -ETIMEDOUT);
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
    CHECK_EQ(atomic_load(&cancelled), 1);
    CHECK_OK(weft_sleep(10)); // over with the scope
}

TEST_EVERYWHERE(a_deadline_in_the_past_cancels_at_once)
{
    atomic_int ran = 0;
    struct weft_scope scope;
    CHECK_EQ(weft_scope_init(&scope, WEFT_SCOPE_ALL, 1), 0);
    CHECK_EQ(weft_scope_cause(&scope), -ETIMEDOUT);
    CHECK_EQ(weft_cancelled(), -ECANCELED);
    CHECK_EQ(weft_scope_spawn(&scope, count, &ran), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
    CHECK_EQ(atomic_load(&ran), 0);
}

TEST_EVERYWHERE(a_deadline_that_was_not_needed_leaves_nothing_behind)
{
    struct weft_scope scope;
    weft_time deadline = soon();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, deadline));
    CHECK_EQ(weft_scope_join(&scope), 0);
    memset(&scope, 0xee, sizeof scope); // a timer that still pointed here would crash
    CHECK_OK(weft_sleep_until(deadline + WEFT_MS));
}

TEST_EVERYWHERE(bad_flags_make_a_dead_scope)
{
    static const int flags[] = { 3, 4, 8, 64, -1, WEFT_SCOPE_WORK | 3, WEFT_SCOPE_SHIELD | 8 };
    atomic_int ran = 0;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        struct weft_scope scope;
        weft_task *task = weft_self();
        CHECK_EQ(weft_scope_init(&scope, flags[i], WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_scope_spawn(&scope, count, &ran), -EPERM);
        CHECK_EQ(weft_scope_spawn_task(&task, &scope, count, &ran, NULL), -EPERM);
        CHECK_EQ(task, (weft_task *)NULL);
        weft_scope_cancel(&scope);
        CHECK_EQ(weft_scope_join(&scope), -EPERM);
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(atomic_load(&ran), 0);
}

TEST(a_scope_outside_a_task_is_dead)
{
    atomic_int ran = 0;
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    memset(&scope, 0xff, sizeof scope);
    CHECK_EQ(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER), -EPERM);
    weft_scope_set_attr(&scope, &attr);
    CHECK_EQ(weft_scope_spawn(&scope, count, &ran), -EPERM);
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_join(&scope), -EPERM);
    CHECK_EQ(atomic_load(&ran), 0);
}

static int join_the_parents_scope(void *arg)
{
    CHECK_EQ(weft_scope_join(arg), -EPERM);
    return 0;
}

TEST_EVERYWHERE(only_the_owner_joins_and_only_its_innermost_scope)
{
    struct weft_scope outer;
    struct weft_scope inner;
    weft_task *stranger;
    CHECK_OK(weft_scope_init(&outer, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&outer, join_the_parents_scope, &outer));
    CHECK_OK(weft_spawn(&stranger, join_the_parents_scope, &outer, NULL));
    CHECK_EQ(weft_join(NULL, stranger, WEFT_FOREVER), 0);
    CHECK_OK(weft_scope_init(&inner, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_EQ(weft_scope_join(&outer), -EPERM);
    CHECK_EQ(weft_scope_join(&inner), 0);
    CHECK_EQ(weft_scope_join(&inner), -EPERM);
    CHECK_EQ(weft_scope_join(&outer), 0);
    CHECK_EQ(weft_scope_join(&outer), -EPERM);
    CHECK_EQ(weft_scope_spawn(&outer, join_the_parents_scope, &outer), -EPERM);
}

static int spawn_sibling(void *arg)
{
    static atomic_int generation;
    if (atomic_fetch_add(&generation, 1) < 20) {
        CHECK_EQ(weft_scope_spawn(arg, spawn_sibling, arg), 0);
    }
    return weft_sleep(10 * WEFT_US);
}

TEST_EVERYWHERE(children_may_spawn_into_their_own_scope)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, spawn_sibling, &scope));
    CHECK_EQ(weft_scope_join(&scope), 0);
}

static void expect_spawn_failure(int policy)
{
    atomic_int cancelled = 0;
    atomic_int ran = 0;
    struct weft_attr bad = WEFT_ATTR_INIT;
    struct weft_scope scope;
    weft_task *task = weft_self();
    bad.stack_size_bytes = 1;
    CHECK_OK(weft_scope_init(&scope, policy, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, count_cancel, &cancelled));
    CHECK_EQ(weft_scope_spawn_task(&task, &scope, count, &ran, &bad), -EINVAL);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_EQ(weft_scope_cause(&scope), -EINVAL);
    CHECK_EQ(weft_scope_spawn(&scope, count, &ran), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -EINVAL);
    CHECK_EQ(atomic_load(&ran), 0);
    CHECK_EQ(atomic_load(&cancelled), 1);
}

TEST_EVERYWHERE(a_spawn_that_fails_makes_the_scope_fail)
{
    expect_spawn_failure(WEFT_SCOPE_ALL);
    expect_spawn_failure(WEFT_SCOPE_FIRST);
    expect_spawn_failure(WEFT_SCOPE_COLLECT);
    expect_spawn_failure(WEFT_SCOPE_ALL | WEFT_SCOPE_SHIELD);
}

TEST_EVERYWHERE(a_child_without_a_function_makes_the_scope_fail)
{
    struct weft_scope scope;
    weft_task *task = weft_self();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_EQ(weft_scope_spawn(&scope, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_scope_join(&scope), -EINVAL);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    CHECK_EQ(weft_scope_spawn_task(&task, &scope, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_EQ(weft_scope_join(&scope), -EINVAL);
}

TEST_EVERYWHERE(spawning_into_a_cancelled_scope_runs_nothing)
{
    atomic_int ran = 0;
    struct weft_scope scope;
    weft_task *task = weft_self();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&scope);
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_spawn(&scope, count, &ran), -ECANCELED);
    CHECK_EQ(weft_scope_spawn_task(&task, &scope, count, &ran, NULL), -ECANCELED);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_EQ(weft_scope_cause(&scope), -ECANCELED);
    CHECK_OK(weft_yield());
    CHECK_EQ(atomic_load(&ran), 0);
}

static int check_attr(void *arg)
{
    CHECK_STR(weft_task_name(weft_self()), arg);
    return weft_carrier_id();
}

static char scope_name[] = "from the scope";
static char own_name[] = "my own";

TEST_EVERYWHERE(children_get_the_scopes_attributes_unless_they_bring_their_own)
{
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *tasks[3];
    int carriers[3];
    attr.name = scope_name;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = weft_carrier_count() - 1;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    attr.carrier = 0;
    attr.name = own_name;
    CHECK_OK(weft_scope_spawn_task(&tasks[0], &scope, check_attr, scope_name, NULL));
    CHECK_OK(weft_scope_spawn_task(&tasks[1], &scope, check_attr, own_name, &attr));
    weft_attr_init(&attr);
    CHECK_OK(weft_scope_spawn_task(&tasks[2], &scope, check_attr, scope_name + strlen(scope_name),
                                   &attr));
    CHECK_OK(weft_scope_spawn(&scope, check_attr, scope_name));
    CHECK_EQ(weft_scope_join(&scope), 0);
    for (int i = 0; i < 3; i++) { // handles outlive the scope
        CHECK(weft_task_done(tasks[i]));
        CHECK_EQ(weft_join(&carriers[i], tasks[i], WEFT_FOREVER), 0);
    }
    CHECK_EQ(carriers[0], weft_carrier_count() - 1);
    CHECK_EQ(carriers[1], 0);
    CHECK(carriers[2] == weft_carrier_id() || test_steals()); // it was not placed
}

struct child {
    weft_task *task;
    int result;
};

static int see_my_handle(void *arg)
{
    struct child *child = arg;
    CHECK_EQ(child->task, weft_self());
    return child->result;
}

TEST_EVERYWHERE(a_childs_handle_is_stored_before_it_runs)
{
    struct child children[30];
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    for (int i = 0; i < 30; i++) {
        children[i].result = -i;
        CHECK_OK(
            weft_scope_spawn_task(&children[i].task, &scope, see_my_handle, &children[i], &attr));
    }
    for (int i = 0; i < 30; i++) {
        int result;
        CHECK_EQ(weft_join(&result, children[i].task, WEFT_FOREVER), 0);
        CHECK_EQ(result, -i);
    }
    CHECK_EQ(weft_scope_join(&scope), 29);
}

static int own_a_scope(void *arg)
{
    int depth = *(int *)arg;
    struct weft_scope scope;
    if (depth == 0) {
        return -ENOTEMPTY;
    }
    int next = depth - 1;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, NULL));
    CHECK_OK(weft_scope_spawn(&scope, own_a_scope, &next));
    int rc = weft_scope_join(&scope);
    CHECK_EQ(rc, -ENOTEMPTY);
    return rc;
}

TEST_EVERYWHERE(an_error_travels_up_through_nested_scopes)
{
    int depth = 20;
    CHECK_EQ(own_a_scope(&depth), -ENOTEMPTY);
}
