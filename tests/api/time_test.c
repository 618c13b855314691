// time_test.c - the clock, sleeping, and deadlines of calls.
#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

TEST_EVERYWHERE(the_clock_goes_forward)
{
    weft_time last = weft_now();
    CHECK_GT(last, 0u);
    for (int i = 0; i < 1000; i++) {
        weft_time now = weft_now();
        CHECK_GE(now, last);
        last = now;
        if (i % 10 == 0) {
            CHECK_OK(weft_yield());
        }
    }
}

static void check_saturation(void)
{
    weft_time now = weft_now();
    CHECK_GE(weft_after(0), now);
    CHECK_GE(weft_after(WEFT_S), now + WEFT_S);
    CHECK_LT(weft_after(WEFT_S), now + 100 * WEFT_S);
    CHECK_EQ(weft_after(WEFT_FOREVER), WEFT_FOREVER);
    CHECK_EQ(weft_after(WEFT_FOREVER - 1), WEFT_FOREVER);
    CHECK_EQ(weft_after(WEFT_FOREVER - now), WEFT_FOREVER);
    weft_time half = WEFT_FOREVER / 2;
    CHECK_GE(weft_after(half), half);
    CHECK_LT(weft_after(half), WEFT_FOREVER);
}

TEST_EVERYWHERE(after_saturates)
{
    check_saturation();
}

TEST(time_outside_a_runtime)
{
    check_saturation();
    CHECK_EQ(weft_sleep(3600 * WEFT_S), -EPERM); // and does not block
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_sleep_until(0), -EPERM);
}

TEST_EVERYWHERE(sleep_is_never_early)
{
    static const weft_time durations[] = { 0,     1,     100,    65535,   65536,
                                           65537, 99999, 300000, 1 << 20, 4194304 + 1 };
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        weft_time before = weft_now();
        CHECK_OK(weft_sleep(durations[i]));
        CHECK_GE(weft_now(), before + durations[i]);
        weft_time when = weft_after(durations[i]);
        CHECK_OK(weft_sleep_until(when));
        CHECK_GE(weft_now(), when);
    }
}

TEST_EVERYWHERE(a_sleep_in_the_past_only_yields)
{
    struct weft_attr attr = stay_here();
    static const weft_time past[] = { 0, 1, 12345 };
    for (size_t i = 0; i < sizeof past / sizeof past[0]; i++) {
        atomic_int other = 0;
        CHECK_OK(weft_spawn(NULL, count, &other, &attr));
        CHECK_OK(weft_sleep_until(past[i]));
        CHECK_EQ(atomic_load(&other), 1);
    }
    atomic_int other = 0;
    CHECK_OK(weft_spawn(NULL, count, &other, &attr));
    CHECK_OK(weft_sleep(0));
    CHECK_EQ(atomic_load(&other), 1);
}

static int sleep_days(void *arg)
{
    (void)arg;
    weft_time start = weft_now();
    for (int day = 1; day <= 30; day++) {
        weft_time when = start + (weft_time)day * 24 * 3600 * WEFT_S;
        CHECK_OK(weft_sleep_until(when));
        CHECK_GE(weft_now(), when);
        CHECK_LT(weft_now(), when + WEFT_MS);
    }
    return 0;
}

TEST(a_simulated_month_passes_in_no_time)
{
    struct weft_sim_options options = { .seed = test_seed() };
    struct weft_sim_result result;
    CHECK_EQ(weft_sim_run(&result, sleep_days, NULL, &options), 0);
    CHECK_GE(result.virtual_ns, 30 * 24 * 3600 * WEFT_S);
    CHECK_LT(result.steps, 100000u);
}

struct sleeper {
    weft_time when;
    int *log;
    int *used;
    int number;
};

static int sleep_and_log(void *arg)
{
    struct sleeper *sleeper = arg;
    CHECK_OK(weft_sleep_until(sleeper->when));
    sleeper->log[(*sleeper->used)++] = sleeper->number;
    return 0;
}

TEST_EVERYWHERE(sleepers_of_a_carrier_wake_in_the_order_of_their_deadlines)
{
    struct weft_attr attr = stay_here();
    enum { COUNT = 30 };
    struct sleeper sleepers[COUNT];
    weft_task *tasks[COUNT];
    int log[COUNT];
    int used = 0;
    weft_time start = weft_after(50 * WEFT_MS); // time enough for all to go to sleep
    for (int i = 0; i < COUNT; i++) {
        int number = i * 7 % COUNT;
        sleepers[i] = (struct sleeper){ start + (weft_time)number * 2 * (1 << 16), log, &used,
                                        number };
        CHECK_OK(weft_spawn(&tasks[i], sleep_and_log, &sleepers[i], &attr));
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
    }
    CHECK_EQ(used, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(log[i], i);
    }
}

static int wait_to_be_cancelled(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_FOREVER);
}

/// One timer serves all deadlines of a task and is re-armed lazily: shorter after longer and longer
/// after shorter, ended by the deadline or before it.
TEST_EVERYWHERE(deadlines_of_one_task_follow_each_other)
{
    weft_task *task;
    CHECK_OK(weft_spawn(&task, wait_to_be_cancelled, NULL, NULL));
    uint64_t random = test_seed();
    for (int i = 0; i < 60; i++) {
        weft_time deadline = weft_after(test_random(&random) %
                                        (WEFT_US << (test_random(&random) % 11)));
        switch (test_random(&random) % 4) {
        case 0: CHECK_EQ(weft_join(NULL, task, deadline), -ETIMEDOUT); break;
        case 1: CHECK_EQ(weft_sleep_until(deadline), 0); break;
        case 2: {
            int rc;
            while ((rc = weft_park(deadline)) == 0) {
            }
            CHECK_EQ(rc, -ETIMEDOUT);
            break;
        }
        case 3: { // woken at once, long before the deadline
            weft_waker waker;
            CHECK_OK(weft_waker_self(&waker));
            weft_waker_wake(&waker);
            CHECK_EQ(weft_park(weft_after(3600 * WEFT_S)), 0);
            continue;
        }
        }
        CHECK_GE(weft_now(), deadline);
    }
    weft_task_cancel(task);
    int result;
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(result, -ECANCELED);
}

TEST_EVERYWHERE(a_deadline_in_the_past_ends_a_call_that_would_wait)
{
    weft_task *task;
    CHECK_OK(weft_spawn(&task, wait_to_be_cancelled, NULL, NULL));
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_join(NULL, task, (weft_time)i), -ETIMEDOUT);
        CHECK_EQ(weft_park((weft_time)i), -ETIMEDOUT);
    }
    weft_task_cancel(task);
    while (!weft_task_done(task)) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(weft_join(NULL, task, 0), 0); // what is there already is not late
}

static int nap(void *arg)
{
    weft_time when = weft_after(*(weft_time *)arg);
    CHECK_OK(weft_sleep_until(when));
    CHECK_GE(weft_now(), when);
    return 0;
}

TEST_EVERYWHERE(thousands_of_sleepers_wake)
{
    enum { MOST = 5000 };
    static weft_time durations[MOST];
    int total = (int)test_scaled(MOST);
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    uint64_t random = test_seed();
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < total; i++) {
        durations[i] = test_random(&random) % (20 * WEFT_MS);
        CHECK_OK(weft_scope_spawn(&scope, nap, &durations[i]));
    }
    CHECK_EQ(weft_scope_join(&scope), 0);
}
