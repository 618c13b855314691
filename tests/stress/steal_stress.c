// Work that may move: unstarted threads, migratable threads and futures are created on one carrier
// and spread over idle ones, while they sleep, wait, read, join and are cancelled.
#include "support/searches.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft.h>

static const int carrier_counts[] = { 1, 2, 4, 16, 100 };

static uint64_t moved; // tasks, in all crews

static void run(weft_fn body, uint64_t seed, const struct weft_options *options)
{
    struct weft_stats stats = { .size = sizeof stats };
    weft_runtime *runtime;
    weft_task *task;
    int result;
    CHECK_OK(weft_runtime_create(&runtime, options));
    CHECK_OK(weft_runtime_spawn(&task, runtime, body, &seed, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 0);
    check_searches(runtime);
    CHECK_OK(weft_stats_get(runtime, WEFT_STATS_ALL, &stats));
    moved += stats.stolen_directed + stats.stolen_pulled;
    printf(
        "# %d carriers, policy %d: %llu searches, %llu denied, %llu stolen when sent, %llu idly, "
        "%llu in %llu batches\n",
        options->carriers, (int)options->policy, (unsigned long long)stats.searches,
        (unsigned long long)stats.searches_denied, (unsigned long long)stats.stolen_directed,
        (unsigned long long)stats.stolen_pulled, (unsigned long long)stats.batch_tasks,
        (unsigned long long)stats.batches);
    CHECK_OK(weft_runtime_destroy(runtime));
}

/// Calls `body` in a task on every number of carriers, more than there are CPUs on purpose, under both
/// policies.
static void on_every_crew(weft_fn body)
{
    uint64_t random = test_seed();
    for (size_t i = 0; i < 2 * sizeof carrier_counts / sizeof carrier_counts[0]; i++) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        options.carriers = carrier_counts[i / 2];
        options.steal = WEFT_STEAL_ON;
        options.policy = i % 2 == 0 ? WEFT_POLICY_LOCALITY : WEFT_POLICY_STEALING;
        options.ring_entries = 16; // a hundred rings
        options.receive_buffers = 8;
        options.grace_ns = 3600 * WEFT_S; // a hang is the runner's to notice
        run(body, test_random(&random), &options);
    }
}

static uint64_t burn(uint64_t rounds)
{
    uint64_t random = rounds;
    for (uint64_t i = 0; i < rounds; i++) {
        (void)test_random(&random);
    }
    return random;
}

// Threads. A started one that is not migratable stays where it started (promise 4).

struct life {
    uint64_t seed;
    bool migratable;
};

static _Atomic uint64_t ended;

static int pause_somehow(uint64_t *random)
{
    switch (test_random(random) % 4) {
    case 0: return weft_sleep(test_random(random) % (100 * WEFT_US));
    case 1: return weft_park(weft_after(test_random(random) % (100 * WEFT_US)));
    default: return weft_yield();
    }
}

static int live(void *arg)
{
    struct life *life = arg;
    uint64_t random = life->seed;
    int here = weft_carrier_id();
    pid_t thread = gettid(); // pthread_self() may be asked once by the compiler
    for (uint64_t i = test_random(&random) % 6; i > 0; i--) {
        int rc = pause_somehow(&random);
        CHECK(rc == 0 || rc == -ECANCELED || rc == -ETIMEDOUT);
        CHECK(weft_self() != NULL);
        if (!life->migratable) {
            CHECK_EQ(weft_carrier_id(), here);
            CHECK_EQ(gettid(), thread);
        }
        if (rc == -ECANCELED) {
            break;
        }
    }
    (void)burn(test_random(&random) % 2000);
    atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
    return (int)(life->seed & 0xffff);
}

static int threads_body(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    int count = (int)test_scaled(3000);
    struct life *lives = calloc((size_t)count, sizeof *lives);
    weft_task **tasks = calloc((size_t)count, sizeof(weft_task *));
    CHECK(lives != NULL && tasks != NULL);
    atomic_store(&ended, 0);
    for (int i = 0; i < count; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        lives[i] = (struct life){ test_random(&random), test_random(&random) % 2 == 0 };
        attr.migratable = lives[i].migratable;
        CHECK_OK(weft_spawn(&tasks[i], live, &lives[i], &attr));
        if (test_random(&random) % 8 == 0) {
            weft_task_cancel(tasks[test_random(&random) % (uint64_t)(i + 1)]);
        }
        if (test_random(&random) % 64 == 0) {
            CHECK_OK(weft_sleep(test_random(&random) % (200 * WEFT_US)));
        }
    }
    for (int i = 0; i < count; i++) {
        int result;
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, (int)(lives[i].seed & 0xffff));
    }
    CHECK_EQ(atomic_load(&ended), (uint64_t)count);
    free(tasks);
    free(lives);
    return 0;
}

TEST_DRIVERS(threads_move_and_nothing_is_lost)
{
    on_every_crew(threads_body);
    CHECK_GT(moved, 0);
}

// Futures that are woken from anywhere: each leaves its waker in a slot, and ringers take them.

struct sleeper {
    struct weft_future future; // first member
    _Atomic int full;          // 1: waker is there for the taking
    weft_waker waker;
    uint64_t polls; // plain: whoever polls it sees what the poll before wrote
    uint64_t until;
};

struct dormitory {
    struct sleeper *sleepers;
    int count;
    _Atomic int awake; // futures that have not ended
};

static enum weft_poll doze(struct weft_future *future, weft_waker *waker)
{
    struct sleeper *sleeper = (struct sleeper *)future;
    if (++sleeper->polls >= sleeper->until) {
        future->result = 7;
        return WEFT_READY;
    }
    if (sleeper->polls % 3 == 0) {
        weft_waker_wake_by_ref(waker);
    } else if (atomic_load_explicit(&sleeper->full, memory_order_acquire) == 0) {
        weft_waker_clone(&sleeper->waker, waker);
        atomic_store_explicit(&sleeper->full, 1, memory_order_release);
    }
    return WEFT_PENDING;
}

static bool ring_one(struct sleeper *sleeper)
{
    if (atomic_load_explicit(&sleeper->full, memory_order_acquire) != 1) {
        return false;
    }
    int full = 1;
    if (!atomic_compare_exchange_strong(&sleeper->full, &full, 2)) {
        return false;
    }
    weft_waker waker = sleeper->waker;
    atomic_store_explicit(&sleeper->full, 0, memory_order_release);
    weft_waker_wake(&waker);
    return true;
}

static int ring(void *arg)
{
    struct dormitory *dormitory = arg;
    while (atomic_load(&dormitory->awake) > 0) {
        for (int i = 0; i < dormitory->count; i++) {
            (void)ring_one(&dormitory->sleepers[i]);
        }
        (void)weft_yield();
    }
    return 0;
}

enum { RINGERS = 3 };

static int futures_body(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    struct dormitory dormitory = { .count = (int)test_scaled(500) };
    weft_task **tasks = calloc((size_t)dormitory.count, sizeof(weft_task *));
    weft_task *ringers[RINGERS];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.migratable = true;
    dormitory.sleepers = calloc((size_t)dormitory.count, sizeof *dormitory.sleepers);
    CHECK(tasks != NULL && dormitory.sleepers != NULL);
    atomic_store(&dormitory.awake, 1);
    for (int i = 0; i < RINGERS; i++) {
        CHECK_OK(weft_spawn(&ringers[i], ring, &dormitory, &attr));
    }
    for (int i = 0; i < dormitory.count; i++) {
        struct sleeper *sleeper = &dormitory.sleepers[i];
        sleeper->until = 1 + test_random(&random) % 40;
        weft_future_init(&sleeper->future, doze, NULL);
        CHECK_OK(weft_spawn_future(&tasks[i], &sleeper->future, NULL));
    }
    for (int i = 0; i < dormitory.count; i++) {
        int result;
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, 7);
    }
    atomic_store(&dormitory.awake, 0);
    for (int i = 0; i < RINGERS; i++) {
        CHECK_OK(weft_join(NULL, ringers[i], WEFT_FOREVER));
    }
    for (int i = 0; i < dormitory.count; i++) {
        if (atomic_load(&dormitory.sleepers[i].full) == 1) {
            weft_waker_drop(&dormitory.sleepers[i].waker);
        }
    }
    free(tasks);
    free(dormitory.sleepers);
    return 0;
}

TEST_DRIVERS(futures_move_and_no_wake_is_lost)
{
    on_every_crew(futures_body);
}

// Migratable threads that read and write: an operation binds them, between operations they move.

struct pair {
    int there[2];
    int back[2];
    int rounds;
};

static int echo(void *arg)
{
    struct pair *pair = arg;
    for (char byte;;) {
        int64_t got = weft_read(pair->there[0], &byte, 1, weft_after(60 * WEFT_S));
        if (got <= 0) {
            return (int)got;
        }
        CHECK_EQ(weft_write(pair->back[1], &byte, 1, WEFT_FOREVER), 1);
        (void)burn(300);
    }
}

static int talk(void *arg)
{
    struct pair *pair = arg;
    for (int i = 0; i < pair->rounds; i++) {
        char sent = (char)i, got = 0;
        CHECK_EQ(weft_write(pair->there[1], &sent, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(pair->back[0], &got, 1, weft_after(60 * WEFT_S)), 1);
        CHECK_EQ(got, sent);
        (void)burn(300);
        if (i % 5 == 0) {
            CHECK_OK(weft_yield());
        }
    }
    CHECK_OK(weft_close(pair->there[1]));
    return 0;
}

enum { PAIRS = 8 };

static int pipes_body(void *arg)
{
    struct pair pairs[PAIRS];
    weft_task *tasks[2 * PAIRS];
    struct weft_attr attr = WEFT_ATTR_INIT;
    (void)arg;
    attr.migratable = true;
    for (int i = 0; i < PAIRS; i++) {
        pairs[i].rounds = (int)test_scaled(200);
        CHECK_EQ(pipe(pairs[i].there), 0);
        CHECK_EQ(pipe(pairs[i].back), 0);
        CHECK_OK(weft_spawn(&tasks[2 * i], echo, &pairs[i], &attr));
        CHECK_OK(weft_spawn(&tasks[2 * i + 1], talk, &pairs[i], &attr));
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        int result;
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, 0);
    }
    for (int i = 0; i < PAIRS; i++) {
        close(pairs[i].there[0]);
        close(pairs[i].back[0]);
        close(pairs[i].back[1]);
    }
    return 0;
}

TEST_DRIVERS(threads_that_read_and_write_move)
{
    on_every_crew(pipes_body);
}

// The simulator: the same seed steals the same tasks.

static int simulate(void *arg)
{
    int rc = threads_body(arg);
    return rc == 0 ? futures_body(arg) : rc;
}

TEST(thieves_in_the_simulator_are_deterministic)
{
    setenv("WEFT_STEAL", "on", 1);
    uint64_t random = test_seed();
    for (int round = 0; round < 6; round++) {
        setenv("WEFT_SCHED", round % 2 == 0 ? "locality" : "stealing", 1);
        struct weft_sim_result results[2];
        struct weft_sim_options options = { .seed = test_random(&random), .carriers = 5 };
        for (int i = 0; i < 2; i++) {
            uint64_t seed = options.seed;
            CHECK_EQ(weft_sim_run(&results[i], simulate, &seed, &options), 0);
        }
        CHECK_EQ(results[0].trace_hash, results[1].trace_hash);
        CHECK_EQ(results[0].steps, results[1].steps);
    }
}
