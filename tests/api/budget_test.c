// budget_test.c - a task whose calls all complete at once still lets the others run.
#include "support/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

static int set(void *arg)
{
    atomic_store((atomic_int *)arg, 1);
    return 0;
}

static void cancelled_sleep(void)
{
    CHECK_EQ(weft_sleep(WEFT_S), -ECANCELED);
}

static void cancelled_park(void)
{
    CHECK_EQ(weft_park(WEFT_FOREVER), -ECANCELED);
}

static void empty_scope(void)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    (void)weft_scope_join(&scope);
}

/// Calls `call` until another task of this carrier has run, which it can only do if a call yields.
static void call_until_other_runs(void (*call)(void))
{
    atomic_int other = 0;
    struct weft_scope scope;
    struct weft_attr here = WEFT_ATTR_INIT;
    here.place = WEFT_PLACE_CARRIER;
    here.carrier = weft_carrier_id();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn_task(NULL, &scope, set, &other, &here));
    struct weft_scope cancelled;
    CHECK_OK(weft_scope_init(&cancelled, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&cancelled);
    while (atomic_load(&other) == 0) {
        call();
    }
    CHECK_EQ(weft_scope_join(&cancelled), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), 0);
}

TEST_EVERYWHERE(cancelled_sleeps_yield)
{
    call_until_other_runs(cancelled_sleep);
}

TEST_EVERYWHERE(cancelled_parks_yield)
{
    call_until_other_runs(cancelled_park);
}

TEST_EVERYWHERE(joins_of_empty_scopes_yield)
{
    call_until_other_runs(empty_scope);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

TEST_EVERYWHERE(joins_of_ended_tasks_yield)
{
    enum { TASKS = 200 }; // more than a run's budget
    weft_task *tasks[TASKS];
    atomic_int other = 0;
    struct weft_attr here = WEFT_ATTR_INIT;
    here.place = WEFT_PLACE_CARRIER;
    here.carrier = weft_carrier_id();
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], nothing, NULL, &here));
    }
    while (!weft_task_done(tasks[TASKS - 1])) {
        CHECK_OK(weft_yield());
    }
    weft_task *task;
    CHECK_OK(weft_spawn(&task, set, &other, &here));
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_EQ(atomic_load(&other), 1);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
}
