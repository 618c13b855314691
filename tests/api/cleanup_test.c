// cleanup_test.c - in which order things end when scopes are cancelled, from inside and outside.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <weft.h>

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

static int cancel_scope(void *arg)
{
    weft_scope_cancel(arg);
    return 0;
}

TEST_EVERYWHERE(a_child_may_cancel_its_scope_during_the_join)
{
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < 50; i++) {
        atomic_int cancelled = 0;
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        CHECK_OK(weft_scope_spawn_task(NULL, &scope, count_cancel, &cancelled, &attr));
        CHECK_OK(weft_scope_spawn_task(NULL, &scope, count_cancel, &cancelled, &attr));
        (void)weft_scope_spawn_task(NULL, &scope, cancel_scope, &scope, &attr);
        CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
        CHECK_EQ(weft_scope_cause(&scope), -ECANCELED);
        CHECK_EQ(atomic_load(&cancelled), 2);
        memset(&scope, 0xee, sizeof scope); // a late touch would be seen
    }
}

struct log {
    char text[32];
    atomic_int used;
};

static void note(struct log *log, char letter)
{
    log->text[atomic_fetch_add(&log->used, 1)] = letter;
}

static void note_local(void *value)
{
    note(value, 'l');
}

static const struct weft_local local = { "log", note_local, NULL };

/// A child that takes its time to clean up: the join waits for it whatever the clock says.
static int clean_up_slowly(void *arg)
{
    struct log *log = arg;
    struct weft_scope shield;
    CHECK_OK(weft_local_set(&local, log));
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
    note(log, 'c');
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    CHECK_OK(weft_sleep(3 * WEFT_MS));
    CHECK_EQ(weft_scope_join(&shield), 0);
    note(log, 's');
    return 0;
}

TEST_EVERYWHERE(a_join_returns_after_the_childrens_cleanup)
{
    struct log log = { "", 0 };
    struct weft_scope outer;
    struct weft_scope inner;
    weft_time deadline = soon();
    CHECK_OK(weft_scope_init(&outer, WEFT_SCOPE_ALL, deadline));
    CHECK_OK(weft_scope_init(&inner, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&inner, clean_up_slowly, &log));
    CHECK_EQ(weft_scope_join(&inner), -ECANCELED);
    CHECK_GE(weft_now(), deadline + 3 * WEFT_MS);
    note(&log, 'i');
    CHECK_EQ(weft_scope_join(&outer), -ETIMEDOUT);
    note(&log, 'o');
    CHECK_STR(log.text, "cslio"); // the child's cleanup, its local values, the inner, the outer
}

struct victim {
    weft_task *task;
    struct weft_scope *scope;
    atomic_int ready;
    atomic_int cancelled;
};

static int sleep_in_a_scope(void *arg)
{
    struct victim *victim = arg;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, count_cancel, &victim->cancelled));
    victim->scope = &scope;
    atomic_store(&victim->ready, 1);
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
    while (atomic_load(&victim->ready) != 2) { // the foreign call must be over before the scope is
        (void)weft_yield();
    }
    return weft_scope_join(&scope);
}

TEST_DRIVERS(foreign_threads_cancel_scopes_and_tasks)
{
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    for (int i = 0; i < 50; i++) {
        struct victim victim = { NULL, NULL, 0, 0 };
        int result;
        CHECK_OK(weft_runtime_spawn(&victim.task, runtime, sleep_in_a_scope, &victim, NULL));
        while (atomic_load(&victim.ready) == 0) {
            sched_yield();
        }
        if (i % 2 == 0) {
            weft_scope_cancel(victim.scope);
        } else {
            weft_task_cancel(victim.task);
        }
        atomic_store(&victim.ready, 2);
        CHECK_EQ(weft_join(&result, victim.task, WEFT_FOREVER), 0);
        CHECK_EQ(result, -ECANCELED);
        CHECK_EQ(atomic_load(&victim.cancelled), 1);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}

static int fail(void *arg)
{
    (void)arg;
    return -EIO;
}

static int fail_inside(void *arg)
{
    struct weft_scope inner;
    CHECK_OK(weft_scope_init(&inner, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&inner, fail, NULL));
    CHECK_EQ(weft_scope_join(&inner), -EIO);
    CHECK_EQ(weft_sleep(10), 0); // the failure stays in its scope
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

TEST_EVERYWHERE(a_failure_that_is_handled_does_not_spread)
{
    atomic_int handled = 0;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, fail_inside, &handled));
    CHECK_OK(weft_scope_spawn(&scope, fail_inside, &handled));
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_EQ(atomic_load(&handled), 2);
}

/// The first cause stays, whatever comes later.
TEST_EVERYWHERE(the_first_cause_wins)
{
    atomic_int cancelled = 0;
    struct weft_scope scope;
    weft_time deadline = soon();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, deadline));
    CHECK_OK(weft_scope_spawn(&scope, count_cancel, &cancelled));
    CHECK_OK(weft_scope_spawn(&scope, fail, NULL));
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
    weft_scope_cancel(&scope);
    struct weft_scope shield;
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    CHECK_OK(weft_sleep_until(deadline + WEFT_MS));
    CHECK_EQ(weft_scope_join(&shield), 0);
    CHECK_EQ(weft_scope_join(&scope), -EIO);
    CHECK_EQ(weft_scope_cause(&scope), -EIO);
}

static atomic_int crowd_here;
static atomic_int crowd_may_go;
static atomic_int crowd_ended;

/// Every fourth of the crowd sleeps for ever; the others end by themselves while the cancel goes
/// round, so that it meets children who are just leaving.
static int join_the_crowd(void *arg)
{
    uint64_t number = (uint64_t)(uintptr_t)arg;
    atomic_fetch_add(&crowd_here, 1);
    if (number % 4 == 0) {
        CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
    }
    while (!atomic_load(&crowd_may_go)) {
        (void)weft_yield();
    }
    atomic_fetch_add(&crowd_ended, 1);
    return 0;
}

TEST_EVERYWHERE(a_cancel_reaches_everyone_in_a_crowd)
{
    int crowd = (int)test_scaled(600);
    for (int round = 0; round < 10; round++) {
        struct weft_scope scope;
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        atomic_store(&crowd_here, 0);
        atomic_store(&crowd_may_go, 0);
        atomic_store(&crowd_ended, 0);
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        weft_scope_set_attr(&scope, &attr);
        for (int i = 0; i < crowd; i++) {
            CHECK_OK(weft_scope_spawn(&scope, join_the_crowd, (void *)(uintptr_t)i));
        }
        while (atomic_load(&crowd_here) < crowd) {
            CHECK_OK(weft_yield());
        }
        atomic_store(&crowd_may_go, 1);
        weft_scope_cancel(&scope);
        CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
        CHECK_EQ(atomic_load(&crowd_ended), crowd);
    }
}

static void nest(int depth, struct weft_scope *outermost)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    if (depth > 0) {
        nest(depth - 1, outermost);
    } else {
        weft_scope_cancel(outermost);
    }
    CHECK_EQ(weft_sleep(1), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
}

TEST_EVERYWHERE(a_cancel_goes_through_a_hundred_scopes)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    nest(100, &scope);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_OK(weft_sleep(1));
}

static void cancel_from_timer(void *arg)
{
    weft_scope_cancel(arg);
}

TEST_EVERYWHERE(a_timer_function_may_cancel_a_scope)
{
    for (int carrier = 0; carrier < weft_carrier_count(); carrier++) {
        struct weft_scope scope;
        struct weft_timer timer;
        atomic_int cancelled = 0;
        CHECK_OK(
            weft_timer_init_on(&timer, weft_runtime_current(), carrier, cancel_from_timer, &scope));
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        CHECK_OK(weft_scope_spawn(&scope, count_cancel, &cancelled));
        weft_timer_set(&timer, weft_after(100 * WEFT_US));
        CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
        CHECK_EQ(weft_timer_stop(&timer), 0); // its function is over before the scope is
        CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
        CHECK_EQ(atomic_load(&cancelled), 1);
    }
}
