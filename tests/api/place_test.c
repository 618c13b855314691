// Where new tasks start.
#include "support/test.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft.h>

enum { MOST = 16 };

static int counts[MOST];

static int count_here(void *arg)
{
    (void)arg;
    counts[weft_carrier_id()]++;
    return 0;
}

struct burst {
    int tasks;
    enum weft_place place;
};

static int spawn_burst(void *arg)
{
    const struct burst *burst = arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = burst->place;
    for (int i = 0; i < MOST; i++) {
        counts[i] = 0;
    }
    for (int i = 0; i < burst->tasks; i++) {
        CHECK_OK(weft_spawn(NULL, count_here, NULL, &attr));
    }
    while (true) {
        struct weft_stats stats = { .size = sizeof stats };
        CHECK_OK(weft_stats_get(weft_runtime_current(), WEFT_STATS_ALL, &stats));
        if (stats.live == 1) {
            return 0;
        }
        CHECK_OK(weft_sleep(WEFT_MS));
    }
}

/// In the simulator nobody runs while a burst is spawned: load is what was spawned so far.
static void check_even(int carriers, int tasks, int slack)
{
    struct weft_sim_options options = { .size = sizeof options,
                                        .carriers = carriers,
                                        .seed = test_seed() };
    struct burst burst = { tasks, WEFT_PLACE_LIGHTER };
    CHECK_OK(weft_sim_run(NULL, spawn_burst, &burst, &options));
    int sum = 0;
    for (int i = 0; i < carriers; i++) {
        printf("carrier %d: %d\n", i, counts[i]);
        CHECK_GE(counts[i], tasks / carriers - slack);
        CHECK_LE(counts[i], tasks / carriers + slack);
        sum += counts[i];
    }
    CHECK_EQ(sum, tasks);
}

TEST(a_burst_is_spread_by_load)
{
    unsetenv("WEFT_STEAL"); // thieves would change what is counted
    unsetenv("WEFT_SCHED");
    check_even(1, 10, 0);
    check_even(2, 100, 1);
    check_even(3, 300, 3);
    check_even(8, 800,
               10); // round robin would be exact; drawing one at random is off by 20 or more
    check_even(16, 1600, 10);
}

// On a real machine a carrier that is stuck is left alone.

struct jam {
    int jammed[2]; // pipes
    int release[2];
};

static int block_carrier(void *arg)
{
    struct jam *jam = arg;
    char data;
    CHECK_EQ(write(jam->jammed[1], "x", 1), 1);
    CHECK_EQ(read(jam->release[0], &data, 1), 1); // the OS thread, on purpose
    return 0;
}

static int where(void *arg)
{
    (void)arg;
    return weft_carrier_id();
}

TEST_DRIVERS(a_carrier_with_much_to_do_is_left_alone)
{
    enum { TASKS = 20 };
    struct weft_options options = WEFT_OPTIONS_INIT;
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct jam jam;
    char data;
    weft_runtime *runtime;
    weft_task *blocked;
    weft_task *task;
    int carrier;
    unsetenv("WEFT_STEAL");
    CHECK_EQ(pipe(jam.jammed), 0);
    CHECK_EQ(pipe(jam.release), 0);
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = 1;
    CHECK_OK(weft_runtime_spawn(&blocked, runtime, block_carrier, &jam, &attr));
    CHECK_EQ(read(jam.jammed[0], &data, 1), 1);
    attr.place = WEFT_PLACE_LIGHTER;
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_runtime_spawn(&task, runtime, where, NULL, &attr));
        if (weft_join(&carrier, task, weft_after(5 * WEFT_S)) < 0) {
            FAIL("a task was put where nothing runs");
        }
        CHECK_EQ(carrier, 0);
        // What ran there may still be counted as ready: wait until that carrier is idle.
        struct weft_stats stats = { .size = sizeof stats, .ready = 1 };
        while (stats.ready > 0) {
            CHECK_OK(weft_stats_get(runtime, 0, &stats));
            sched_yield();
        }
    }
    CHECK_EQ(write(jam.release[1], "x", 1), 1);
    CHECK_OK(weft_join(NULL, blocked, WEFT_FOREVER));
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_EVERYWHERE(round_robin_is_exact_and_others_are_refused)
{
    struct burst burst = { 10 * TEST_CARRIERS, WEFT_PLACE_SPREAD };
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task = weft_self();
    attr.place = (enum weft_place)(WEFT_PLACE_LIGHTER + 1);
    CHECK_EQ(weft_spawn(&task, where, NULL, &attr), -EINVAL);
    CHECK(task == NULL);
    CHECK_OK(spawn_burst(&burst));
    int sum = 0;
    for (int i = 0; i < TEST_CARRIERS; i++) {
        CHECK(counts[i] == 10 || test_steals());
        sum += counts[i];
    }
    CHECK_EQ(sum, burst.tasks);
}
