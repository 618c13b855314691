// drain_stress.c - shutdowns that drain and force against spawns, guards and shields.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <weft.h>

static const struct weft_attr spread = { .size = sizeof(struct weft_attr),
                                         .place = WEFT_PLACE_SPREAD };

static weft_task *start(weft_fn fn, void *arg)
{
    weft_task *task;
    CHECK_OK(weft_spawn(&task, fn, arg, &spread));
    return task;
}

static int result_of(weft_task *task)
{
    int result;
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    return result;
}

// Force against spawns inside guards: nobody is forgotten.

struct flood {
    atomic_int started;
    atomic_int ended;
};

static int flood_leaf(void *arg)
{
    struct flood *flood = arg;
    (void)weft_sleep(WEFT_FOREVER);
    atomic_fetch_add(&flood->ended, 1);
    return 0;
}

static int flood_from_work(void *arg)
{
    struct flood *flood = arg;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT | WEFT_SCOPE_WORK, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &spread);
    while (weft_scope_spawn(&scope, flood_leaf, flood) == 0) {
        atomic_fetch_add(&flood->started, 1);
        (void)weft_yield();
    }
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    return 0;
}

static int request_twice(void *arg)
{
    struct flood *flood = arg;
    while (atomic_load(&flood->started) < 20) {
        (void)weft_yield();
    }
    CHECK_OK(weft_shutdown_request(NULL));
    while (atomic_load(&flood->started) < 40) {
        (void)weft_yield();
    }
    CHECK_OK(weft_shutdown_request(NULL));
    return 0;
}

TEST_EVERYWHERE(everyone_learns_of_the_force)
{
    static struct flood flood;
    weft_task *tasks[4];
    for (int i = 0; i < 3; i++) {
        tasks[i] = start(flood_from_work, &flood);
    }
    tasks[3] = start(request_twice, &flood);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(result_of(tasks[i]), 0);
    }
    CHECK_EQ(atomic_load(&flood.started), atomic_load(&flood.ended));
}

static void *request_twice_from_outside(void *arg)
{
    CHECK_OK(weft_shutdown_request(arg));
    CHECK_OK(weft_shutdown_request(arg));
    return NULL;
}

TEST_DRIVERS(everyone_learns_of_a_force_that_comes_with_the_drain)
{
    for (uint64_t i = test_scaled(100); i > 0; i--) {
        static struct flood flood;
        weft_runtime *runtime;
        pthread_t thread;
        flood = (struct flood){ .started = 0 };
        CHECK_OK(weft_runtime_create(&runtime, NULL));
        for (int k = 0; k < 3; k++) {
            CHECK_OK(weft_runtime_spawn(NULL, runtime, flood_from_work, &flood, NULL));
        }
        CHECK_EQ(pthread_create(&thread, NULL, request_twice_from_outside, runtime), 0);
        CHECK_EQ(weft_runtime_shutdown(runtime, WEFT_FOREVER), 0);
        pthread_join(thread, NULL);
        CHECK_EQ(atomic_load(&flood.started), atomic_load(&flood.ended));
        CHECK_OK(weft_runtime_destroy(runtime));
    }
}

// Random trees of scopes, guards and shields, drained and forced at random moments. What a task sees
// follows from what stands around it and from the stage; nobody is left over. On real carriers a task
// may feel a request a little later than it was made; in the simulator everyone does at once.

struct place {
    uint64_t random;
    int depth;
    bool guarded;  // from outside
    bool shielded; // likewise
};

static atomic_int requests; // counted before they are made

/// Blocks for a moment and checks the answer against what stands around.
static void check_felt(bool guarded, bool is_shielded)
{
    int cover = is_shielded ? 2 : guarded;
    bool stopped_before = atomic_load(&requests) > cover;
    int rc = weft_sleep(20 * WEFT_US);
    CHECK(rc == 0 || rc == -ECANCELED);
    if (atomic_load(&requests) <= cover) {
        CHECK_EQ(rc, 0);
    }
    if (stopped_before && test_driver() == TEST_DRIVER_NONE) {
        CHECK_EQ(rc, -ECANCELED);
    }
}

static void request(void)
{
    atomic_fetch_add(&requests, 1);
    CHECK_OK(weft_shutdown_request(NULL));
}

static int live_somewhere(void *arg)
{
    struct place here = *(struct place *)arg;
    uint64_t *random = &here.random;
    bool guard = test_random(random) % 3 == 0;
    int flags = WEFT_SCOPE_COLLECT;
    flags |= test_random(random) % 4 == 0 ? WEFT_SCOPE_WORK : 0;
    flags |= test_random(random) % 8 == 0 ? WEFT_SCOPE_SHIELD : 0;
    if (guard) {
        CHECK_OK(weft_work_begin());
    }
    check_felt(here.guarded || guard, here.shielded);
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, flags, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &spread);
    bool guarded = here.guarded || guard || (flags & WEFT_SCOPE_WORK) != 0;
    bool is_shielded = here.shielded || (flags & WEFT_SCOPE_SHIELD) != 0;
    struct place below[3];
    for (int i = 0; i < 3 && here.depth > 0; i++) {
        below[i] = (struct place){ test_random(random), here.depth - 1, guarded, is_shielded };
        int rc = weft_scope_spawn(&scope, live_somewhere, &below[i]);
        CHECK(rc == 0 || rc == -ECANCELED);
        check_felt(guarded, is_shielded);
    }
    int rc = weft_scope_join(&scope);
    CHECK(rc == 0 || (rc == -ECANCELED && !is_shielded));
    check_felt(here.guarded || guard, here.shielded);
    if (guard) {
        weft_work_end();
    }
    check_felt(here.guarded, here.shielded);
    return 0;
}

static int drain_a_random_tree(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    static struct place roots[8];
    weft_task *tasks[8];
    atomic_store(&requests, 0);
    for (int i = 0; i < 8; i++) {
        roots[i] = (struct place){ .random = test_random(&random), .depth = 3 };
        tasks[i] = start(live_somewhere, &roots[i]);
    }
    CHECK_OK(weft_sleep(test_random(&random) % (300 * WEFT_US)));
    request();
    if (test_random(&random) % 2 == 0) {
        CHECK_OK(weft_work_begin());
        CHECK_OK(weft_sleep(test_random(&random) % (300 * WEFT_US)));
        request();
        weft_work_end();
    }
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(result_of(tasks[i]), 0);
    }
    return 0;
}

TEST(random_trees_are_drained_in_the_simulator)
{
    uint64_t seed = test_seed();
    for (uint64_t i = test_scaled(1000); i > 0; i--) {
        struct weft_sim_options options = { .seed = test_random(&seed), .carriers = 3 };
        struct weft_sim_result first;
        struct weft_sim_result second;
        CHECK_OK(weft_sim_run(&first, drain_a_random_tree, &options.seed, &options));
        CHECK_OK(weft_sim_run(&second, drain_a_random_tree, &options.seed, &options));
        CHECK_EQ(first.trace_hash, second.trace_hash);
    }
}

TEST_DRIVERS(random_trees_are_drained)
{
    uint64_t seed = test_seed();
    for (uint64_t i = test_scaled(60); i > 0; i--) {
        uint64_t random = test_random(&seed);
        CHECK_OK(weft_run(drain_a_random_tree, &random, NULL));
    }
}
