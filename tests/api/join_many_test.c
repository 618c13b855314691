// join_many_test.c - waiting for several tasks: all, until one fails, any, a race; and for one as a
// future.
#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

enum { MOST = WEFT_JOIN_MOST };

/// Sleeps, and returns `value`, or -ECANCELED if it was cancelled.
struct sleeper {
    weft_time ns;
    int value;
    bool stubborn;
};

static int sleep_for(void *arg)
{
    const struct sleeper *sleeper = arg;
    weft_time until = weft_after(sleeper->ns);
    int rc = weft_sleep_until(until);
    return rc < 0 && !sleeper->stubborn ? rc : sleeper->value;
}

static struct sleeper sleepers[200];
static weft_task *tasks[200];

static void start(int number, weft_time ns, int value)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    sleepers[number] = (struct sleeper){ ns, value, false };
    CHECK_OK(weft_spawn(&tasks[number], sleep_for, &sleepers[number], &attr));
}

static void check_released(int count)
{
    for (int i = 0; i < count; i++) {
        CHECK_EQ(tasks[i], (weft_task *)NULL);
    }
}

static void release(int count)
{
    for (int i = 0; i < count; i++) {
        weft_task_release(tasks[i]);
        tasks[i] = NULL;
    }
}

TEST_EVERYWHERE(join_all_gives_all_results)
{
    int results[200] = { 0 };
    for (int i = 0; i < 200; i++) {
        start(i, (weft_time)(i % 7) * 100 * WEFT_US, i - 50);
    }
    CHECK_OK(weft_join_all(results, tasks, 200, WEFT_FOREVER));
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(results[i], i - 50);
    }
    check_released(200);
    CHECK_OK(weft_join_all(NULL, tasks, 200, WEFT_FOREVER)); // nobody is left
    CHECK_OK(weft_join_all(NULL, NULL, 0, 1));
}

TEST_EVERYWHERE(join_all_past_its_deadline_releases_nothing)
{
    int results[3] = { 0 };
    start(0, 0, 1);
    start(1, 3600 * WEFT_S, 2);
    start(2, 0, 3);
    CHECK_EQ(weft_join_all(results, tasks, 3, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_task_cancel(tasks[1]);
    CHECK_OK(weft_join_all(results, tasks, 3, WEFT_FOREVER));
    CHECK_EQ(results[0], 1);
    CHECK_EQ(results[1], -ECANCELED);
    CHECK_EQ(results[2], 3);
}

TEST_EVERYWHERE(try_join_all_cancels_the_others_at_the_first_failure)
{
    int results[5];
    int error = 1;
    for (int i = 0; i < 5; i++) {
        start(i, 3600 * WEFT_S, i);
    }
    sleepers[4].stubborn = true;
    weft_task *failing;
    struct sleeper fails = { WEFT_MS, -EIO, false };
    CHECK_OK(weft_spawn(&failing, sleep_for, &fails, NULL));
    weft_task_cancel(tasks[3]); // the first failure
    CHECK_OK(weft_try_join_all(&error, results, tasks, 5, WEFT_FOREVER));
    CHECK_EQ(error, -ECANCELED);
    CHECK_EQ(results[0], -ECANCELED);
    CHECK_EQ(results[4], 4); // ended, but as it liked
    check_released(5);
    tasks[1] = failing;
    start(0, 3600 * WEFT_S, 0);
    CHECK_OK(weft_try_join_all(&error, results, tasks, 5, WEFT_FOREVER));
    CHECK_EQ(error, -EIO);
    CHECK_EQ(results[1], -EIO);
    for (int i = 0; i < 5; i++) {
        start(i, (weft_time)i * 100 * WEFT_US, i);
    }
    CHECK_OK(weft_try_join_all(&error, NULL, tasks, 5, WEFT_FOREVER));
    CHECK_EQ(error, 0);
    check_released(5);
}

TEST_EVERYWHERE(try_join_all_past_its_deadline_leaves_the_tasks_alone)
{
    int error;
    size_t index;
    start(0, 3600 * WEFT_S, 0);
    start(1, 0, 0);
    CHECK_OK(weft_join_any(&index, tasks, 2, WEFT_FOREVER));
    CHECK_EQ(index, 1u);
    CHECK_EQ(weft_try_join_all(&error, NULL, tasks, 2, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK(!weft_task_done(tasks[0]));
    weft_task_cancel(tasks[0]);
    CHECK_OK(weft_try_join_all(&error, NULL, tasks, 2, WEFT_FOREVER));
    CHECK_EQ(error, -ECANCELED);
}

TEST_EVERYWHERE(join_any_gives_them_as_they_end)
{
    enum { COUNT = 20 };
    bool seen[COUNT] = { false };
    for (int i = 0; i < COUNT; i++) {
        start(i, (weft_time)((i * 7) % COUNT) * 300 * WEFT_US, i);
    }
    for (int i = 0; i < COUNT; i++) {
        size_t index = 99;
        int result;
        CHECK_OK(weft_join_any(&index, tasks, COUNT, WEFT_FOREVER));
        CHECK_LT(index, (size_t)COUNT);
        CHECK(weft_task_done(tasks[index]));
        CHECK(!seen[index]);
        seen[index] = true;
        CHECK_OK(weft_join(&result, tasks[index], 1));
        CHECK_EQ(result, (int)index);
        tasks[index] = NULL;
    }
    size_t index;
    CHECK_EQ(weft_join_any(&index, tasks, COUNT, WEFT_FOREVER), -ECHILD);
    CHECK_EQ(weft_join_any(&index, NULL, 0, WEFT_FOREVER), -ECHILD);
}

TEST_EVERYWHERE(join_any_has_a_deadline)
{
    size_t index;
    start(0, 3600 * WEFT_S, 0);
    start(1, 3600 * WEFT_S, 0);
    weft_time deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_join_any(&index, tasks, 2, deadline), -ETIMEDOUT);
    CHECK_GE(weft_now(), deadline);
    CHECK_EQ(weft_join_any(&index, tasks, 2, 1), -ETIMEDOUT);
    weft_task_cancel(tasks[1]);
    CHECK_OK(weft_join_any(&index, tasks, 2, WEFT_FOREVER));
    CHECK_EQ(index, 1u);
    CHECK_OK(weft_join_any(&index, tasks, 2, 1)); // what has ended needs no time
    weft_task_cancel(tasks[0]);
    CHECK_OK(weft_join_all(NULL, tasks, 2, WEFT_FOREVER));
}

TEST_EVERYWHERE(a_race_has_one_winner_and_ends_all)
{
    for (int round = 0; round < 5; round++) {
        size_t winner;
        int result;
        for (int i = 0; i < 5; i++) {
            start(i, i == round ? WEFT_MS : 3600 * WEFT_S, 10 + i);
        }
        CHECK_OK(weft_join_race(&winner, &result, tasks, 5, WEFT_FOREVER));
        CHECK_EQ(winner, (size_t)round);
        CHECK_EQ(result, 10 + round);
        check_released(5);
    }
    CHECK_EQ(weft_join_race(NULL, NULL, tasks, 5, WEFT_FOREVER), -ECHILD);
    start(0, 3600 * WEFT_S, 0);
    CHECK_EQ(weft_join_race(NULL, NULL, tasks, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK(!weft_task_done(tasks[0]));
    weft_task_cancel(tasks[0]);
    CHECK_OK(weft_join_race(NULL, NULL, tasks, 1, WEFT_FOREVER));
}

TEST_EVERYWHERE(what_cannot_be_joined_is_refused)
{
    size_t index;
    weft_task *self = weft_self();
    CHECK_EQ(weft_join_all(NULL, &self, 1, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(weft_join_any(&index, &self, 1, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(weft_try_join_all(NULL, NULL, &self, 1, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(weft_join_any(&index, tasks, MOST + 1, WEFT_FOREVER), -E2BIG);
    CHECK_EQ(weft_try_join_all(NULL, NULL, tasks, MOST + 1, WEFT_FOREVER), -E2BIG);
    CHECK_EQ(weft_join_race(NULL, NULL, tasks, MOST + 1, WEFT_FOREVER), -E2BIG);
}

/// Not a cancellation point: the tasks are waited for.
TEST_EVERYWHERE(a_cancelled_task_still_joins)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < 3; i++) {
        start(i, WEFT_MS, i);
    }
    weft_scope_cancel(&scope);
    size_t index;
    CHECK_OK(weft_join_any(&index, tasks, 3, WEFT_FOREVER));
    CHECK_OK(weft_join_all(NULL, tasks, 3, WEFT_FOREVER));
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
}

/// Many that end at about the same time, on all carriers, while the waiter comes and goes.
TEST_EVERYWHERE(ends_race_with_the_waiter)
{
    uint64_t random = test_seed();
    for (uint64_t round = 0; round < test_scaled(60); round++) {
        int count = 1 + (int)(test_random(&random) % MOST);
        size_t index;
        for (int i = 0; i < count; i++) {
            start(i, test_random(&random) % (100 * WEFT_US), i);
        }
        int rc = weft_join_any(&index, tasks, (size_t)count,
                               weft_after(test_random(&random) % (120 * WEFT_US)));
        CHECK(rc == -ETIMEDOUT || (rc == 0 && weft_task_done(tasks[index])));
        if (test_random(&random) % 2 == 0) {
            CHECK_OK(weft_join_race(&index, NULL, tasks, (size_t)count, WEFT_FOREVER));
        } else {
            CHECK_OK(weft_try_join_all(&rc, NULL, tasks, (size_t)count, WEFT_FOREVER));
            CHECK_EQ(rc, 0);
        }
    }
}

// From foreign threads.

static void *foreign_joins(void *arg)
{
    (void)arg;
    size_t index;
    int error;
    CHECK_EQ(weft_join_any(&index, tasks, 3, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_task_cancel(tasks[2]);
    CHECK_OK(weft_join_any(&index, tasks, 3, WEFT_FOREVER));
    CHECK_EQ(index, 2u);
    CHECK_OK(weft_try_join_all(&error, NULL, tasks, 3, WEFT_FOREVER));
    CHECK_EQ(error, -ECANCELED);
    return NULL;
}

static int run_foreign(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        start(i, 3600 * WEFT_S, i);
    }
    foreign_end(foreign_begin(foreign_joins, NULL));
    check_released(3);
    return 0;
}

TEST_DRIVERS(foreign_threads_join_several)
{
    CHECK_OK(weft_run(run_foreign, NULL, NULL));
}

// As a future.

TEST_EVERYWHERE(a_future_awaits_a_task)
{
    struct weft_join_future join;
    start(0, WEFT_MS, 42);
    weft_join_future_init(&join, tasks[0]);
    CHECK_EQ(weft_await(&join.future, WEFT_FOREVER), 42);
    weft_join_future_init(&join, tasks[0]); // it has ended
    CHECK_EQ(weft_await(&join.future, WEFT_FOREVER), 42);
    weft_join_future_init(&join, weft_self());
    CHECK_EQ(weft_await(&join.future, WEFT_FOREVER), -EDEADLK);
    release(1);
}

TEST_EVERYWHERE(a_join_that_is_cancelled_leaves_the_task_alone)
{
    struct weft_join_future join;
    start(0, 3600 * WEFT_S, 42);
    weft_join_future_init(&join, tasks[0]);
    CHECK_EQ(weft_await(&join.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK(!weft_task_done(tasks[0]));
    weft_join_future_init(&join, tasks[0]);
    weft_future_cancel(&join.future); // before its first poll
    CHECK_EQ(weft_await(&join.future, WEFT_FOREVER), -ECANCELED);
    weft_task_cancel(tasks[0]);
    CHECK_OK(weft_join(NULL, tasks[0], WEFT_FOREVER));
}

TEST_EVERYWHERE(futures_of_tasks_combine)
{
    enum { COUNT = 150 };
    static struct weft_join_future joins[COUNT];
    static struct weft_branch branches[COUNT];
    struct weft_combine combine;
    for (int i = 0; i < COUNT; i++) {
        start(i, i == 77 ? 100 * WEFT_US : 3600 * WEFT_S, i);
        weft_join_future_init(&joins[i], tasks[i]);
        branches[i] = (struct weft_branch){ .future = &joins[i].future };
    }
    weft_combine_select(&combine, branches, COUNT);
    CHECK_EQ(weft_await(&combine.future, WEFT_FOREVER), 77);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(joins[i].future.result, i == 77 ? 77 : -ECANCELED);
        weft_task_cancel(tasks[i]);
    }
    CHECK_OK(weft_join_all(NULL, tasks, COUNT, WEFT_FOREVER));
}

/// Cancelled while the task ends on another carrier.
TEST_EVERYWHERE(a_join_is_cancelled_while_the_task_ends)
{
    uint64_t random = test_seed();
    for (uint64_t round = 0; round < test_scaled(200); round++) {
        struct weft_join_future join;
        start(0, test_random(&random) % (50 * WEFT_US), 5);
        weft_join_future_init(&join, tasks[0]);
        int64_t result = weft_await(&join.future,
                                    weft_after(test_random(&random) % (50 * WEFT_US)));
        CHECK(result == 5 || result == -ETIMEDOUT);
        CHECK_OK(weft_join(NULL, tasks[0], WEFT_FOREVER));
    }
}
