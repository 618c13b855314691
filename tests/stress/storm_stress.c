// Storms: tasks and foreign threads spawn, cancel, sleep, wake, join and release, all at once, on
// every number of carriers. Everything that was started has to end, with the right result.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft.h>

static const int carrier_counts[] = { 1, 2, 4, 16 };

/// Calls `body` on every number of carriers, with and without idle spinning.
static void on_every_crew(void (*body)(weft_runtime *runtime, uint64_t seed))
{
    uint64_t random = test_seed();
    for (size_t i = 0; i < 2 * sizeof carrier_counts / sizeof carrier_counts[0]; i++) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        weft_runtime *runtime;
        options.carriers = carrier_counts[i / 2];
        options.idle_spin_ns = i % 2 == 0 ? 0 : 30 * WEFT_US;
        options.grace_ns = 3600 * WEFT_S; // a hang is the runner's to notice
        CHECK_OK(weft_runtime_create(&runtime, &options));
        body(runtime, test_random(&random));
        CHECK_OK(weft_runtime_destroy(runtime));
    }
}

enum { FOREIGN_THREADS = 3 };

struct foreign {
    weft_runtime *runtime;
    uint64_t random;
    void *arg;
};

static void with_foreign_threads(weft_runtime *runtime, uint64_t seed, void *(*fn)(void *),
                                 void *arg)
{
    pthread_t threads[FOREIGN_THREADS];
    struct foreign foreign[FOREIGN_THREADS];
    for (int i = 0; i < FOREIGN_THREADS; i++) {
        foreign[i] = (struct foreign){ runtime, test_random(&seed), arg };
        CHECK_EQ(pthread_create(&threads[i], NULL, fn, &foreign[i]), 0);
    }
    for (int i = 0; i < FOREIGN_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

// Spawn, cancel, sleep, join, release.

static _Atomic int64_t begun;
static _Atomic int64_t ended;

static int some_life(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    int rc = 0;
    atomic_fetch_add(&begun, 1);
    for (uint64_t i = test_random(&random) % 4; i > 0 && rc == 0; i--) {
        switch (test_random(&random) % 4) {
        case 0: rc = weft_yield(); break;
        case 1: rc = weft_sleep(test_random(&random) % (300 * WEFT_US)); break;
        case 2: rc = weft_park(weft_after(test_random(&random) % (300 * WEFT_US))); break;
        default: rc = weft_checkpoint();
        }
        rc = rc == -ETIMEDOUT ? 0 : rc;
    }
    CHECK(rc == 0 || rc == -ECANCELED);
    atomic_fetch_add(&ended, 1);
    return rc;
}

/// One random thing with one of the handles.
static void meddle(weft_task **handle, weft_runtime *runtime, uint64_t *random)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    int result = 1;
    int rc;
    attr.place = test_random(random) % 2 == 0 ? WEFT_PLACE_SPREAD : WEFT_PLACE_CURRENT;
    if (*handle == NULL) {
        void *arg = (void *)(uintptr_t)(test_random(random) >> 1);
        CHECK_OK(weft_runtime_spawn(handle, runtime, some_life, arg, &attr));
        return;
    }
    switch (test_random(random) % 5) {
    case 0: weft_task_cancel(*handle); return;
    case 1:
        weft_task_release(*handle);
        *handle = NULL;
        return;
    case 2: rc = weft_join(&result, *handle, weft_after(test_random(random) % WEFT_MS)); break;
    case 3: rc = weft_join(&result, *handle, 0); break;
    default: rc = weft_join(&result, *handle, WEFT_FOREVER);
    }
    CHECK(rc == 0 || rc == -ETIMEDOUT);
    if (rc == 0) {
        CHECK(result == 0 || result == -ECANCELED);
        *handle = NULL;
    }
}

enum { HANDLES = 16 };

static void churn(weft_runtime *runtime, uint64_t random, uint64_t rounds)
{
    weft_task *handles[HANDLES] = { NULL };
    for (; rounds > 0; rounds--) {
        meddle(&handles[test_random(&random) % HANDLES], runtime, &random);
    }
    for (int i = 0; i < HANDLES; i++) {
        weft_task_release(handles[i]);
    }
}

static int churn_task(void *arg)
{
    churn(weft_runtime_current(), (uint64_t)(uintptr_t)arg, test_scaled(3000));
    return 0;
}

static void *churn_thread(void *arg)
{
    struct foreign *foreign = arg;
    churn(foreign->runtime, foreign->random, test_scaled(3000));
    return NULL;
}

static void spawn_storm(weft_runtime *runtime, uint64_t seed)
{
    weft_task *tasks[8];
    for (int i = 0; i < 8; i++) {
        void *arg = (void *)(uintptr_t)(test_random(&seed) >> 1);
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, churn_task, arg, NULL));
    }
    with_foreign_threads(runtime, seed, churn_thread, NULL);
    for (int i = 0; i < 8; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_OK(weft_runtime_shutdown(runtime, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&begun), atomic_load(&ended));
}

TEST_DRIVERS(spawn_cancel_sleep_join)
{
    on_every_crew(spawn_storm);
    CHECK_GT(atomic_load(&ended), 0);
}

// Joins: many wait for one, from tasks and foreign threads, while it ends.

struct crowd {
    weft_task *target;
    _Atomic int joined;
};

static int short_life(void *arg)
{
    uint64_t spins = (uint64_t)(uintptr_t)arg % 50;
    for (; spins > 0; spins--) {
        (void)weft_yield();
    }
    return 1234;
}

static int join_target(void *arg)
{
    struct crowd *crowd = arg;
    int result;
    CHECK_OK(weft_join(&result, crowd->target, WEFT_FOREVER));
    CHECK_EQ(result, 1234);
    atomic_fetch_add(&crowd->joined, 1);
    return 0;
}

static int join_impatiently(void *arg)
{
    struct crowd *crowd = arg;
    int result = 0;
    while (weft_join(&result, crowd->target, weft_after(20 * WEFT_US)) == -ETIMEDOUT) {
    }
    CHECK_EQ(result, 1234);
    atomic_fetch_add(&crowd->joined, 1);
    return 0;
}

static void join_round(weft_runtime *runtime, uint64_t *random)
{
    struct crowd crowd = { NULL, 0 };
    weft_task *joiners[12];
    void *arg = (void *)(uintptr_t)(test_random(random) >> 1);
    CHECK_OK(weft_runtime_spawn(&crowd.target, runtime, short_life, arg, NULL));
    for (int i = 0; i < 12; i++) {
        weft_task_retain(crowd.target);
        CHECK_OK(weft_runtime_spawn(&joiners[i], runtime,
                                    i % 2 == 0 ? join_target : join_impatiently, &crowd, NULL));
    }
    weft_task_retain(crowd.target);
    CHECK_EQ(join_target(&crowd), 0);
    for (int i = 0; i < 12; i++) {
        CHECK_OK(weft_join(NULL, joiners[i], WEFT_FOREVER));
    }
    CHECK_EQ(atomic_load(&crowd.joined), 13);
    weft_task_release(crowd.target);
}

static void *join_thread(void *arg)
{
    struct foreign *foreign = arg;
    for (uint64_t i = test_scaled(150); i > 0; i--) {
        join_round(foreign->runtime, &foreign->random);
    }
    return NULL;
}

static void join_storm(weft_runtime *runtime, uint64_t seed)
{
    with_foreign_threads(runtime, seed, join_thread, NULL);
}

TEST_DRIVERS(many_join_one)
{
    on_every_crew(join_storm);
}

// Ping-pong: two tasks wake each other by wakers; a lost wake-up is a hang.

struct side {
    _Atomic(weft_waker *) waker; // published by its owner
    weft_waker own;
    _Atomic uint64_t seen; // the last number that was served to this side
    struct side *other;
    uint64_t rounds;
    bool serves_first;
};

static void serve(struct side *side, uint64_t number)
{
    atomic_store(&side->other->seen, number);
    weft_waker_wake_by_ref(atomic_load(&side->other->waker));
}

static int play(void *arg)
{
    struct side *side = arg;
    CHECK_OK(weft_waker_self(&side->own));
    atomic_store(&side->waker, &side->own);
    while (atomic_load(&side->other->waker) == NULL) {
        (void)weft_yield();
    }
    for (uint64_t i = 1; i <= side->rounds; i++) {
        if (side->serves_first) {
            serve(side, i);
        }
        while (atomic_load(&side->seen) < i) {
            CHECK_EQ(weft_park(WEFT_FOREVER), 0);
        }
        if (!side->serves_first) {
            serve(side, i);
        }
    }
    return 0;
}

static void ping_pong(weft_runtime *runtime, uint64_t seed)
{
    enum { PAIRS = 8 };
    static struct side sides[PAIRS][2];
    weft_task *tasks[PAIRS][2];
    uint64_t carriers = (uint64_t)weft_runtime_carriers(runtime);
    for (int i = 0; i < 2 * PAIRS; i++) {
        struct side *side = &sides[i / 2][i % 2];
        *side = (struct side){ .other = &sides[i / 2][1 - i % 2],
                               .rounds = test_scaled(2000),
                               .serves_first = i % 2 == 0 };
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = (int)(test_random(&seed) % carriers);
        CHECK_OK(
            weft_runtime_spawn(&tasks[i / 2][i % 2], runtime, play, &sides[i / 2][i % 2], &attr));
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i][0], WEFT_FOREVER));
        CHECK_OK(weft_join(NULL, tasks[i][1], WEFT_FOREVER));
        weft_waker_drop(&sides[i][0].own);
        weft_waker_drop(&sides[i][1].own);
    }
}

TEST_DRIVERS(ping_pong_across_carriers)
{
    on_every_crew(ping_pong);
}

// Foreign threads wake sleepers in random order; each token is taken exactly once.

struct well {
    _Atomic uint64_t tokens;
    _Atomic uint64_t taken;
    _Atomic bool dry;
    weft_waker wakers[HANDLES];
    _Atomic int next;
    _Atomic int ready; // wakers that may be used
};

static int draw_tokens(void *arg)
{
    struct well *well = arg;
    weft_waker own;
    CHECK_OK(weft_waker_self(&own));
    well->wakers[atomic_fetch_add(&well->next, 1)] = own;
    atomic_fetch_add(&well->ready, 1);
    while (!atomic_load(&well->dry)) {
        uint64_t tokens = atomic_load(&well->tokens);
        if (tokens == 0) {
            CHECK_EQ(weft_park(WEFT_FOREVER), 0);
        } else if (atomic_compare_exchange_strong(&well->tokens, &tokens, tokens - 1)) {
            atomic_fetch_add(&well->taken, 1);
        }
    }
    return 0;
}

static void *pour_tokens(void *arg)
{
    struct foreign *foreign = arg;
    struct well *well = foreign->arg;
    for (uint64_t i = test_scaled(5000); i > 0; i--) {
        atomic_fetch_add(&well->tokens, 1);
        weft_waker_wake_by_ref(&well->wakers[test_random(&foreign->random) % HANDLES]);
    }
    return NULL;
}

static void wake_storm(weft_runtime *runtime, uint64_t seed)
{
    static struct well well;
    weft_task *tasks[HANDLES];
    well = (struct well){ .dry = false };
    for (int i = 0; i < HANDLES; i++) {
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, draw_tokens, &well, NULL));
    }
    while (atomic_load(&well.ready) < HANDLES) {
        sched_yield();
    }
    with_foreign_threads(runtime, seed, pour_tokens, &well);
    while (atomic_load(&well.taken) < FOREIGN_THREADS * test_scaled(5000)) {
        sched_yield(); // a lost wake-up hangs here
    }
    atomic_store(&well.dry, true);
    for (int i = 0; i < HANDLES; i++) {
        weft_waker_wake(&well.wakers[i]);
    }
    for (int i = 0; i < HANDLES; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
}

TEST_DRIVERS(foreign_threads_wake)
{
    on_every_crew(wake_storm);
}
