// The simulator: the same seed gives the same run; virtual time; failures that are noticed.
#include "support/test.h"

#include "support/gather.h"
#include "support/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <weft.h>

static struct gathered logged;

static struct weft_sim_options quiet(uint64_t seed, int carriers)
{
    gathered_clear(&logged);
    return (struct weft_sim_options){
        .size = sizeof(struct weft_sim_options),
        .seed = seed,
        .carriers = carriers,
        .log = gather_log,
        .log_ctx = &logged,
    };
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

// A program that does a bit of everything, in an order that its seed decides.

struct node {
    uint64_t random;
    int depth;
};

static void bump(void *arg)
{
    ++*(int *)arg;
}

static int busy(void *arg)
{
    struct node here = *(struct node *)arg;
    struct node children[4];
    struct weft_scope scope;
    struct weft_timer timer;
    struct weft_attr attr = WEFT_ATTR_INIT;
    int fired = 0;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, weft_after(20 * WEFT_MS)));
    weft_scope_set_attr(&scope, &attr);
    CHECK_OK(weft_timer_init(&timer, bump, &fired));
    weft_timer_set(&timer, weft_after(test_random(&here.random) % WEFT_MS));
    for (int i = 0; i < 4 && here.depth > 0; i++) {
        children[i] = (struct node){ test_random(&here.random), here.depth - 1 };
        (void)weft_scope_spawn(&scope, busy, &children[i]);
        if (test_random(&here.random) % 3 == 0) {
            (void)weft_yield();
        }
    }
    int rc = weft_sleep(test_random(&here.random) % (2 * WEFT_MS));
    if (test_random(&here.random) % 8 == 0) {
        weft_scope_cancel(&scope);
    }
    int failed = weft_scope_join(&scope);
    int called_off = weft_timer_stop(&timer);
    CHECK_EQ(called_off + fired, 1);
    return rc < 0 ? rc : failed < 0 ? failed : 0;
}

static struct weft_sim_result run_busy(uint64_t seed, int carriers)
{
    struct weft_sim_options options = quiet(seed, carriers);
    struct weft_sim_result result;
    struct node root = { seed, 3 };
    int rc = weft_sim_run(&result, busy, &root, &options);
    CHECK_EQ(rc, result.result);
    CHECK_EQ(logged.count, 0);
    return result;
}

TEST(the_same_seed_gives_the_same_run)
{
    uint64_t random = test_seed();
    for (uint64_t i = test_scaled(60); i > 0; i--) {
        uint64_t seed = test_random(&random);
        int carriers = 1 + (int)(seed % 8);
        struct weft_sim_result first = run_busy(seed, carriers);
        struct weft_sim_result second = run_busy(seed, carriers);
        CHECK_EQ(first.trace_hash, second.trace_hash);
        CHECK_EQ(first.virtual_ns, second.virtual_ns);
        CHECK_EQ(first.steps, second.steps);
        CHECK_EQ(first.result, second.result);
    }
}

/// Prints the trace for the test below, which runs this one in another process.
TEST(the_trace_can_be_printed)
{
    struct weft_sim_result result = run_busy(test_seed(), 3);
    dprintf(STDOUT_FILENO, "trace %016" PRIx64 "\n", result.trace_hash);
}

TEST(the_same_seed_gives_the_same_run_in_another_process)
{
    if (test_is_emulated()) {
        SKIP("the emulator cannot execute a program");
    }
    char *clutter = malloc(12345);
    struct weft_sim_result result = run_busy(test_seed(), 3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(trace_of_another_process(), result.trace_hash);
    }
    free(clutter);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int spread_twelve(void *arg)
{
    (void)arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct weft_scope scope;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 12; i++) {
        CHECK_OK(weft_scope_spawn(&scope, nothing, NULL));
    }
    return weft_scope_join(&scope);
}

TEST(different_seeds_give_different_runs)
{
    enum { SEEDS = 200 };
    uint64_t hashes[SEEDS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) { // 0 is a seed like any other
        struct weft_sim_options options = quiet(seed, 4);
        struct weft_sim_result result;
        CHECK_EQ(weft_sim_run(&result, spread_twelve, NULL, &options), 0);
        hashes[seed] = result.trace_hash;
    }
    qsort(hashes, SEEDS, sizeof hashes[0], compare);
    for (int i = 1; i < SEEDS; i++) {
        CHECK_NE(hashes[i - 1], hashes[i]);
    }
}

static int sleep_for_hours(void *arg)
{
    (void)arg;
    weft_time before = weft_now();
    for (int i = 0; i < 1000; i++) {
        CHECK_OK(weft_sleep(3600 * WEFT_S));
    }
    CHECK_GE(weft_now() - before, 1000 * 3600 * WEFT_S);
    return 0;
}

TEST(hours_pass_quickly)
{
    weft_time before = weft_now();
    struct weft_sim_options options = quiet(1, 2);
    struct weft_sim_result result;
    CHECK_EQ(weft_sim_run(&result, sleep_for_hours, NULL, &options), 0);
    CHECK_GE(result.virtual_ns, 1000 * 3600 * WEFT_S);
    CHECK_LT(result.virtual_ns, 1001 * 3600 * WEFT_S);
    CHECK_LT(weft_now() - before, 20 * WEFT_S);
}

// On the simulated clock a sleeper is late by at most one tick of the wheel plus one quantum, however
// busy the other carriers are.

static atomic_bool resting;

static int be_busy(void *arg)
{
    (void)arg;
    while (!atomic_load(&resting)) {
        CHECK_OK(weft_yield());
    }
    return 0;
}

static int sleep_on_time(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    for (int i = 0; i < 20; i++) {
        weft_time due = weft_after(test_random(&random) % WEFT_MS);
        CHECK_OK(weft_sleep_until(due));
        CHECK_LT(weft_now() - due, (1 << 16) + 50 * WEFT_US);
    }
    return 0;
}

static int all_are_busy(void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct weft_scope sleepers;
    struct weft_scope busy_ones;
    attr.place = WEFT_PLACE_SPREAD;
    atomic_store(&resting, false);
    CHECK_OK(weft_scope_init(&busy_ones, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&busy_ones, &attr);
    CHECK_OK(weft_scope_init(&sleepers, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&sleepers, &attr);
    for (int i = 0; i < weft_carrier_count(); i++) {
        CHECK_OK(weft_scope_spawn_task(NULL, &busy_ones, be_busy, NULL, &attr));
        CHECK_OK(weft_scope_spawn_task(NULL, &sleepers, sleep_on_time, arg, &attr));
    }
    CHECK_OK(weft_scope_join(&sleepers));
    atomic_store(&resting, true);
    return weft_scope_join(&busy_ones);
}

TEST(sleepers_are_on_time_while_all_carriers_are_busy)
{
    uint64_t seed = test_seed();
    for (uint64_t i = 0; i < test_scaled(5); i++) {
        struct weft_sim_options options = quiet(seed + i, 32);
        CHECK_EQ(weft_sim_run(NULL, all_are_busy, &seed, &options), 0);
    }
}

static int give_back(void *arg)
{
    return *(int *)arg;
}

TEST(results_are_passed_through)
{
    static int results[] = { 0, 5, -EIO, -EDEADLK, -ETIME };
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        struct weft_sim_options options = quiet(i, 0);
        struct weft_sim_result result;
        CHECK_EQ(weft_sim_run(&result, give_back, &results[i], &options), results[i]);
        CHECK_EQ(result.result, results[i]);
        CHECK_GT(result.steps, 0);
        CHECK_EQ(weft_sim_run(NULL, give_back, &results[i], NULL), results[i]);
    }
}

static int count_carriers(void *arg)
{
    (void)arg;
    CHECK_STR(weft_runtime_driver(weft_runtime_current()), "sim");
    CHECK_EQ(spread_twelve(NULL), 0);
    return weft_carrier_count();
}

TEST(one_to_sixty_four_carriers)
{
    for (int carriers = 1; carriers <= 64; carriers++) {
        struct weft_sim_options options = quiet(7, carriers);
        CHECK_EQ(weft_sim_run(NULL, count_carriers, NULL, &options), carriers);
    }
    CHECK_EQ(weft_sim_run(NULL, count_carriers, NULL, NULL), 2);
    setenv("WEFT_CARRIERS", "5", 1); // is for real runtimes
    CHECK_EQ(weft_sim_run(NULL, count_carriers, NULL, NULL), 2);
}

TEST(bad_options_are_refused)
{
    struct weft_sim_options options = quiet(1, 65);
    struct weft_sim_result result;
    CHECK_EQ(weft_sim_run(&result, nothing, NULL, &options), -EINVAL);
    CHECK_EQ(logged.count, 1);
    CHECK_LOGGED(&logged, "1..64");
    options = quiet(1, -1);
    CHECK_EQ(weft_sim_run(&result, nothing, NULL, &options), -EINVAL);
    CHECK_EQ(logged.count, 1);
    CHECK_LOGGED(&logged, "1..64");
    options = quiet(1, 1);
    options.size = 8;
    CHECK_EQ(weft_sim_run(&result, nothing, NULL, &options), -EINVAL);
    options.size = 0; // the present one
    CHECK_EQ(weft_sim_run(&result, nothing, NULL, &options), 0);
}

// Failures.

static int park_for_ever(void *arg)
{
    (void)arg;
    return weft_park(WEFT_FOREVER);
}

static weft_task *spawn_named(const char *name, weft_fn fn, void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = name;
    weft_task *task;
    CHECK_OK(weft_spawn(&task, fn, arg, &attr));
    return task;
}

static const struct weft_local key = { .name = "key" };

static int join_a_parked_one(void *arg)
{
    (void)arg;
    struct weft_scope scope;
    CHECK_OK(weft_local_set(&key, &logged));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, park_for_ever, NULL));
    return weft_join(NULL, spawn_named("parked for good", park_for_ever, NULL), WEFT_FOREVER);
}

TEST(everyone_asleep_is_a_deadlock)
{
    struct weft_sim_options options = quiet(4711, 3);
    struct weft_sim_result result;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_sim_run(&result, join_a_parked_one, NULL, &options), -EDEADLK);
        CHECK_LOGGED(&logged, "seed 4711");
        CHECK_LOGGED(&logged, "everyone is asleep");
        CHECK_LOGGED(&logged, "\"parked for good\" thread, waiting, park for ");
        CHECK_LOGGED(&logged, "\"main\" thread, waiting, join for ");
        CHECK_LOGGED(&logged, "spawned at sim_test.c:");
    }
    CHECK_EQ(weft_sim_run(&result, spread_twelve, NULL, &options), 0);
}

static void *wake_from_outside(void *arg)
{
    weft_waker *waker = arg;
    weft_waker_wake_by_ref(waker);
    weft_waker_wake(waker);
    return NULL;
}

static int wait_for_a_foreigner(void *arg)
{
    (void)arg;
    pthread_t thread;
    weft_waker waker;
    CHECK_OK(weft_waker_self(&waker));
    CHECK_EQ(pthread_create(&thread, NULL, wake_from_outside, &waker), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_park(weft_after(WEFT_S)), -ETIMEDOUT);
    return weft_park(WEFT_FOREVER);
}

TEST(wakes_from_outside_are_ignored_and_reported)
{
    struct weft_sim_options options = quiet(1, 2);
    CHECK_EQ(weft_sim_run(NULL, wait_for_a_foreigner, NULL, &options), -EDEADLK);
    CHECK_LOGGED(&logged, "2 wakes by threads outside the simulation were ignored");
    CHECK_LOGGED(&logged, "everyone is asleep");
}

static int sleep_on(void *arg)
{
    (void)arg;
    while (weft_sleep(WEFT_MS) == 0) {
    }
    return 0;
}

TEST(virtual_time_may_be_limited)
{
    struct weft_sim_options options = quiet(1, 2);
    struct weft_sim_result result;
    options.limit_ns = WEFT_S;
    CHECK_EQ(weft_sim_run(&result, sleep_on, NULL, &options), -ETIME);
    CHECK_GT(result.virtual_ns, WEFT_S);
    CHECK_LT(result.virtual_ns, WEFT_S + 10 * WEFT_MS);
    CHECK_LOGGED(&logged, "limit of virtual time");
    CHECK_LOGGED(&logged, "\"main\"");
    options.limit_ns = WEFT_S * 10;
    CHECK_EQ(weft_sim_run(&result, nothing, NULL, &options), 0);
}

static int spin(void *arg)
{
    (void)arg;
    while (weft_yield() == 0) {
    }
    return 0;
}

TEST(a_livelock_runs_into_the_limit_of_steps)
{
    struct weft_sim_options options = quiet(1, 2);
    struct weft_sim_result result;
    options.limit_steps = 1000;
    CHECK_EQ(weft_sim_run(&result, spin, NULL, &options), -ETIME);
    CHECK_EQ(result.steps, 1000);
    CHECK_LOGGED(&logged, "limit of steps");
}

static int deaf(void *arg)
{
    (void)arg;
    for (;;) {
        (void)weft_yield();
    }
    return 0;
}

static int leave_one_deaf(void *arg)
{
    (void)arg;
    weft_task_release(spawn_named("deaf", deaf, NULL));
    return 17;
}

TEST(tasks_that_do_not_end_within_the_grace_period)
{
    struct weft_sim_options options = quiet(1, 2);
    struct weft_sim_result result;
    options.grace_ns = 5 * WEFT_MS;
    CHECK_EQ(weft_sim_run(&result, leave_one_deaf, NULL, &options), -EBUSY);
    CHECK_EQ(result.result, 17);
    CHECK_GT(result.virtual_ns, 5 * WEFT_MS);
    CHECK_LOGGED(&logged, "\"deaf\"");
}

static int sleep_for_ever(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_FOREVER);
}

static int leave_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        CHECK_OK(weft_go(i % 2 == 0 ? sleep_for_ever : park_for_ever, NULL));
    }
    return 0;
}

TEST(the_end_of_the_first_thread_cancels_the_others)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct weft_sim_options options = quiet(seed, 4);
        CHECK_EQ(weft_sim_run(NULL, leave_many, NULL, &options), 0);
        CHECK_EQ(logged.count, 0);
    }
}

static int run_inside(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sim_run(NULL, nothing, NULL, NULL), -EDEADLK);
    CHECK_EQ(weft_run(nothing, NULL, NULL), -EDEADLK);
    return 0;
}

TEST(no_simulation_inside_a_simulation)
{
    struct weft_sim_options options = quiet(1, 2);
    CHECK_EQ(weft_sim_run(NULL, run_inside, NULL, &options), 0);
}

static void *simulate(void *arg)
{
    struct weft_sim_result *result = arg;
    struct node root = { 99, 3 };
    struct weft_sim_options options = { .seed = 99, .carriers = 4 };
    int rc = weft_sim_run(result, busy, &root, &options);
    CHECK_EQ(rc, result->result);
    return NULL;
}

TEST(simulations_side_by_side_do_not_disturb_each_other)
{
    pthread_t threads[4];
    struct weft_sim_result results[4];
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, simulate, &results[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(results[i].trace_hash, results[0].trace_hash);
    }
}
