// cancel_test.c - cancellation: level-triggered, through nested scopes and tasks, around shields.
#include "support/waiting.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <weft.h>

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

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

static void wait_until(atomic_int *value, int wanted)
{
    while (atomic_load(value) != wanted) {
        (void)weft_yield();
    }
}

/// Gives up when the caller is cancelled.
static void wait_until_at_least(atomic_int *value, int wanted)
{
    while (atomic_load(value) < wanted && weft_yield() == 0) {
    }
}

/// Every call that can be cancelled says so, however often it is made.
static void expect_cancelled(void)
{
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_cancelled(), -ECANCELED);
        CHECK_EQ(weft_yield(), -ECANCELED);
        CHECK_EQ(weft_checkpoint(), -ECANCELED);
        CHECK_EQ(weft_sleep(WEFT_S), -ECANCELED);
        CHECK_EQ(weft_sleep_until(0), -ECANCELED);
        CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
        CHECK_EQ(weft_park(WEFT_FOREVER), -ECANCELED);
        struct weft_interval interval;
        CHECK_OK(weft_interval_init(&interval, 1, WEFT_MS, WEFT_MISSED_SKIP));
        CHECK_EQ(weft_interval_tick(NULL, &interval), -ECANCELED);
    }
}

static void expect_not_cancelled(void)
{
    CHECK_EQ(weft_cancelled(), 0);
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_checkpoint(), 0);
    CHECK_EQ(weft_sleep(10), 0);
    CHECK_EQ(weft_park(weft_after(10)), -ETIMEDOUT);
}

TEST_EVERYWHERE(cancel_is_level_triggered_until_the_scope_ends)
{
    struct weft_scope scope;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        expect_not_cancelled();
        weft_scope_cancel(&scope);
        expect_cancelled();
        CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
        expect_not_cancelled();
    }
}

TEST_EVERYWHERE(a_cancelled_yield_still_yields)
{
    atomic_int other = 0;
    struct weft_attr attr = stay_here();
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&scope);
    CHECK_OK(weft_spawn(NULL, count, &other, &attr));
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK_EQ(atomic_load(&other), 1);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
}

static int cancelled_from_the_start(void *arg)
{
    expect_cancelled();
    atomic_fetch_add((atomic_int *)arg, 1);
    return -ECANCELED;
}

TEST_EVERYWHERE(cancel_before_the_start)
{
    atomic_int ran = 0;
    weft_task *task;
    int result;
    CHECK_OK(weft_spawn(&task, cancelled_from_the_start, &ran, NULL));
    weft_task_cancel(task);
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(atomic_load(&ran), 1); // it starts: only it knows what to clean up
}

struct running {
    int canceller; // its carrier
    atomic_bool started;
};

static int cancelled_while_running(void *arg)
{
    struct running *running = arg;
    expect_not_cancelled();
    atomic_store(&running->started, true);
    while (weft_cancelled() == 0) {
        if (weft_carrier_id() == running->canceller || test_driver() == TEST_DRIVER_SIM) {
            (void)weft_yield(); // the canceller shares our OS thread
        }
    }
    expect_cancelled();
    return 0;
}

TEST_EVERYWHERE(cancel_while_running)
{
    for (int i = 0; i < weft_carrier_count(); i++) {
        struct running running = { .canceller = weft_carrier_id() };
        weft_task *task;
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = i;
        CHECK_OK(weft_spawn(&task, cancelled_while_running, &running, &attr));
        while (!atomic_load(&running.started)) {
            CHECK_OK(weft_yield());
        }
        weft_task_cancel(task);
        weft_task_cancel(task);
        CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    }
    expect_not_cancelled(); // its parent is not concerned
}

static int cancelled_while_asleep(void *arg)
{
    atomic_store((atomic_int *)arg, 1);
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
    expect_cancelled();
    return -EIO;
}

TEST_EVERYWHERE(cancel_while_asleep_and_after_the_end)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < 20; i++) {
        atomic_int stage = 0;
        int result;
        weft_task *task;
        CHECK_OK(weft_spawn(&task, cancelled_while_asleep, &stage, &attr));
        wait_until(&stage, 1);
        weft_task_cancel(task);
        CHECK_EQ(weft_join(&result, weft_task_retain(task), WEFT_FOREVER), 0);
        CHECK_EQ(result, -EIO);
        weft_task_cancel(task);
        CHECK(weft_task_done(task));
        weft_task_release(task);
    }
}

static int cancel_myself(void *arg)
{
    (void)arg;
    weft_task_cancel(weft_self());
    expect_cancelled();
    return 0;
}

TEST_EVERYWHERE(a_task_may_cancel_itself)
{
    weft_task *task;
    CHECK_OK(weft_spawn(&task, cancel_myself, NULL, NULL));
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
}

static int finish_when_told(void *arg)
{
    while (atomic_load((atomic_int *)arg) == 0) {
        CHECK_OK(weft_yield());
    }
    return 5;
}

TEST_EVERYWHERE(join_is_not_a_cancellation_point)
{
    atomic_int go_on = 0;
    struct weft_scope scope;
    weft_task *task;
    int result;
    CHECK_OK(weft_spawn(&task, finish_when_told, &go_on, NULL));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_join(&result, task, weft_after(WEFT_MS)), -ETIMEDOUT); // its own deadline
    atomic_store(&go_on, 1);
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(result, 5);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
}

TEST_EVERYWHERE(a_shield_hides_what_is_cancelled_outside)
{
    struct weft_scope outer;
    struct weft_scope shield;
    struct weft_scope inside;
    atomic_int ran = 0;
    CHECK_OK(weft_scope_init(&outer, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&outer);
    expect_cancelled();
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_ALL | WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    expect_not_cancelled();
    CHECK_OK(weft_scope_init(&inside, WEFT_SCOPE_ALL, WEFT_FOREVER));
    expect_not_cancelled();
    CHECK_OK(weft_scope_spawn(&inside, count, &ran));
    CHECK_EQ(weft_scope_join(&inside), 0);
    CHECK_EQ(atomic_load(&ran), 1);
    CHECK_OK(weft_scope_spawn(&shield, count, &ran));
    CHECK_EQ(weft_scope_join(&shield), 0);
    CHECK_EQ(weft_scope_cause(&shield), 0);
    CHECK_EQ(atomic_load(&ran), 2);
    expect_cancelled();
    CHECK_EQ(weft_scope_join(&outer), -ECANCELED);
    expect_not_cancelled();
}

TEST_EVERYWHERE(a_shield_hides_nothing_inside)
{
    struct weft_scope outer;
    struct weft_scope shield;
    struct weft_scope inside;
    CHECK_OK(weft_scope_init(&outer, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    CHECK_OK(weft_scope_init(&inside, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&outer);
    expect_not_cancelled();
    weft_scope_cancel(&inside);
    expect_cancelled();
    CHECK_EQ(weft_scope_join(&inside), -ECANCELED);
    expect_not_cancelled();
    weft_scope_cancel(&shield);
    expect_cancelled();
    CHECK_EQ(weft_scope_join(&shield), -ECANCELED);
    expect_cancelled();
    CHECK_EQ(weft_scope_join(&outer), -ECANCELED);
    expect_not_cancelled();
}

TEST_EVERYWHERE(a_deadline_inside_a_shield_counts)
{
    struct weft_scope outer;
    struct weft_scope shield;
    atomic_int cancelled = 0;
    CHECK_OK(weft_scope_init(&outer, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&outer);
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_SHIELD, soon()));
    CHECK_OK(weft_scope_spawn(&shield, count_cancel, &cancelled));
    CHECK_EQ(weft_scope_cause(&shield), 0);
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_scope_cause(&shield), -ETIMEDOUT);
    CHECK_EQ(weft_scope_join(&shield), -ETIMEDOUT);
    CHECK_EQ(atomic_load(&cancelled), 1);
    CHECK_EQ(weft_scope_join(&outer), -ECANCELED);
}

TEST_EVERYWHERE(an_expired_outer_deadline_is_a_cancel_inside)
{
    struct weft_scope outer;
    struct weft_scope inner;
    struct weft_scope shield;
    atomic_int cancelled = 0;
    CHECK_OK(weft_scope_init(&outer, WEFT_SCOPE_ALL, soon()));
    CHECK_OK(weft_scope_init(&inner, WEFT_SCOPE_ALL, weft_after(60 * WEFT_S)));
    CHECK_OK(weft_scope_spawn(&inner, count_cancel, &cancelled));
    CHECK_EQ(weft_scope_join(&inner), -ECANCELED); // the cause is outside
    CHECK_EQ(atomic_load(&cancelled), 1);
    CHECK_EQ(weft_scope_cause(&inner), -ECANCELED);
    CHECK_EQ(weft_scope_cause(&outer), -ETIMEDOUT);
    expect_cancelled();
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_SHIELD, weft_after(60 * WEFT_S)));
    expect_not_cancelled();
    CHECK_EQ(weft_scope_join(&shield), 0);
    CHECK_OK(weft_scope_init(&inner, WEFT_SCOPE_COLLECT, WEFT_FOREVER)); // born cancelled
    CHECK_EQ(weft_scope_cause(&inner), -ECANCELED);
    CHECK_EQ(weft_scope_spawn(&inner, count, &cancelled), -ECANCELED);
    CHECK_EQ(weft_scope_join(&inner), -ECANCELED);
    CHECK_EQ(weft_scope_join(&outer), -ETIMEDOUT);
    expect_not_cancelled();
}

static int shielded_from_my_own_cancel(void *arg)
{
    struct weft_scope shield;
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    atomic_store((atomic_int *)arg, 1);
    wait_until(arg, 2);
    expect_not_cancelled();
    CHECK_EQ(weft_scope_join(&shield), 0);
    expect_cancelled();
    return 0;
}

TEST_EVERYWHERE(a_shield_hides_the_cancel_of_the_task)
{
    atomic_int stage = 0;
    weft_task *task;
    CHECK_OK(weft_spawn(&task, shielded_from_my_own_cancel, &stage, NULL));
    wait_until(&stage, 1);
    weft_task_cancel(task);
    atomic_store(&stage, 2);
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
}

// Who tells the children of a scope when something further out is cancelled? Its owner, so the
// owner has to notice wherever it waits.
struct family {
    struct weft_scope *outer;
    weft_fn wait; // how the owner of the inner scope waits
    weft_task *child;
    atomic_int children_cancelled;
    atomic_int ready;
};

static int wait_in_join(void *arg)
{
    struct family *family = arg;
    return weft_join(NULL, weft_task_retain(family->child), WEFT_FOREVER);
}

static int wait_in_sleep(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_FOREVER);
}

static int wait_in_a_shield(void *arg)
{
    struct family *family = arg;
    struct weft_scope shield;
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    int rc = weft_join(NULL, weft_task_retain(family->child), WEFT_FOREVER);
    CHECK_EQ(weft_scope_join(&shield), 0);
    return rc;
}

static int wait_in_a_shielded_sleep(void *arg)
{
    struct family *family = arg;
    struct weft_scope shield;
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    while (!weft_task_done(family->child)) {
        CHECK_OK(weft_sleep(10 * WEFT_US));
    }
    CHECK_EQ(weft_scope_join(&shield), 0);
    return 0;
}

static int wait_in_scope_join(void *arg)
{
    (void)arg;
    return 0;
}

static int own_the_inner_scope(void *arg)
{
    struct family *family = arg;
    struct weft_scope inner;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&inner, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn_task(&family->child, &inner, count_cancel,
                                   &family->children_cancelled, &attr));
    CHECK_OK(weft_scope_spawn_task(NULL, &inner, count_cancel, &family->children_cancelled, &attr));
    atomic_store(&family->ready, 1);
    (void)family->wait(family);
    CHECK_EQ(weft_scope_join(&inner), -ECANCELED);
    CHECK_EQ(weft_scope_cause(&inner), -ECANCELED);
    CHECK_EQ(atomic_load(&family->children_cancelled), 2);
    weft_task_release(family->child);
    return -ECANCELED;
}

static void expect_children_told(weft_fn wait)
{
    struct family family = { .wait = wait };
    struct weft_scope outer;
    CHECK_OK(weft_scope_init(&outer, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&outer, own_the_inner_scope, &family));
    wait_until(&family.ready, 1);
    CHECK_OK(weft_sleep(100 * WEFT_US));
    weft_scope_cancel(&outer);
    CHECK_EQ(weft_scope_join(&outer), -ECANCELED);
    CHECK_EQ(atomic_load(&family.children_cancelled), 2);

    weft_task *task; // the same by cancelling the owner as a whole
    struct family again = { .wait = wait };
    CHECK_OK(weft_spawn(&task, own_the_inner_scope, &again, NULL));
    wait_until(&again.ready, 1);
    CHECK_OK(weft_sleep(100 * WEFT_US));
    weft_task_cancel(task);
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&again.children_cancelled), 2);
}

TEST_EVERYWHERE(grandchildren_learn_of_a_cancel_from_an_owner_that_joins_the_scope)
{
    expect_children_told(wait_in_scope_join);
}

TEST_EVERYWHERE(grandchildren_learn_of_a_cancel_from_an_owner_that_sleeps)
{
    expect_children_told(wait_in_sleep);
}

TEST_EVERYWHERE(grandchildren_learn_of_a_cancel_from_an_owner_that_joins_a_task)
{
    expect_children_told(wait_in_join);
}

TEST_EVERYWHERE(grandchildren_learn_of_a_cancel_from_an_owner_behind_a_shield)
{
    expect_children_told(wait_in_a_shield);
}

TEST_EVERYWHERE(grandchildren_learn_of_a_cancel_from_an_owner_asleep_behind_a_shield)
{
    expect_children_told(wait_in_a_shielded_sleep);
}

// Children beget children while the scope is being cancelled: each of them is refused or told.

struct clan {
    struct weft_scope scope;
    atomic_int born;
    atomic_int ended;
    int most;
};

static int beget(void *arg)
{
    struct clan *clan = arg;
    while (atomic_load(&clan->born) < clan->most) {
        int rc = weft_scope_spawn(&clan->scope, beget, clan);
        if (rc < 0) {
            CHECK_EQ(rc, -ECANCELED);
            break;
        }
        atomic_fetch_add(&clan->born, 1);
        if (atomic_load(&clan->born) % 5 == 0) {
            (void)weft_yield();
        }
    }
    (void)weft_sleep(WEFT_FOREVER);
    atomic_fetch_add(&clan->ended, 1);
    return 0;
}

static int end_the_clan(void *arg)
{
    struct clan *clan = arg;
    wait_until_at_least(&clan->born, clan->most / 2);
    weft_scope_cancel(&clan->scope);
    return 0;
}

static int fail_the_clan(void *arg)
{
    struct clan *clan = arg;
    wait_until_at_least(&clan->born, clan->most / 3);
    return -ECANCELED;
}

TEST_EVERYWHERE(children_that_beget_children_are_all_cancelled)
{
    uint64_t random = test_seed();
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (uint64_t round = test_scaled(300); round > 0; round--) {
        struct clan clan = { .born = 1, .most = 10 + (int)(test_random(&random) % 60) };
        CHECK_OK(weft_scope_init(&clan.scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        weft_scope_set_attr(&clan.scope, &attr);
        CHECK_OK(weft_scope_spawn(&clan.scope, round % 2 ? end_the_clan : fail_the_clan, &clan));
        CHECK_OK(weft_scope_spawn(&clan.scope, beget, &clan));
        if (round % 3 == 0) {
            weft_scope_cancel(&clan.scope);
        }
        CHECK_EQ(weft_scope_join(&clan.scope), -ECANCELED);
        CHECK_EQ(atomic_load(&clan.ended), atomic_load(&clan.born));
    }
}
