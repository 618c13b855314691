// handle_test.c - handles of tasks: joining, keeping, giving away, from tasks and OS threads.
#include "support/waiting.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <weft.h>

struct gate {
    atomic_int open;
    atomic_int passed;
    int result;
};

static int pass_the_gate(void *arg)
{
    struct gate *gate = arg;
    while (!atomic_load(&gate->open)) {
        CHECK_OK(weft_sleep(10 * WEFT_US));
    }
    atomic_fetch_add(&gate->passed, 1);
    return gate->result;
}

TEST_EVERYWHERE(a_join_that_was_late_can_be_repeated)
{
    struct gate gate = { .result = -EXDEV };
    weft_task *task;
    int result = 77;
    CHECK_OK(weft_spawn(&task, pass_the_gate, &gate, NULL));
    for (int i = 0; i < 5; i++) {
        weft_time deadline = weft_after((weft_time)i * 100 * WEFT_US);
        CHECK_EQ(weft_join(&result, task, deadline), -ETIMEDOUT);
        CHECK_GE(weft_now(), deadline);
        CHECK_EQ(result, 77);
        CHECK(!weft_task_done(task));
    }
    atomic_store(&gate.open, 1);
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(result, -EXDEV);
}

static int join_myself(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_join(NULL, weft_self(), WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(weft_join(NULL, weft_self(), 0), -EDEADLK);
    return 0;
}

TEST_EVERYWHERE(a_task_cannot_join_itself)
{
    weft_task *task;
    int result;
    CHECK_OK(weft_spawn(&task, join_myself, NULL, NULL));
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(result, 0);
}

struct joiner {
    weft_task *target; // owned
    weft_time deadline;
    int rc;
    int result;
};

static int join_target(void *arg)
{
    struct joiner *joiner = arg;
    joiner->rc = weft_join(&joiner->result, joiner->target, joiner->deadline);
    if (joiner->rc != 0) {
        CHECK_EQ(joiner->rc, -ETIMEDOUT);
        weft_task_release(joiner->target);
    }
    return 0;
}

/// Some of the joiners are late and leave the list in the middle while others stay.
TEST_EVERYWHERE(several_joiners_get_the_result)
{
    enum { JOINERS = 12 };
    struct gate gate = { .result = 4711 };
    struct joiner joiners[JOINERS];
    weft_task *task;
    weft_task *tasks[JOINERS];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_spawn(&task, pass_the_gate, &gate, NULL));
    for (int i = 0; i < JOINERS; i++) {
        bool late = i % 3 == 1;
        joiners[i] = (struct joiner){ .target = weft_task_retain(task),
                                      .deadline = late ? weft_after(WEFT_MS) : WEFT_FOREVER };
        CHECK_OK(weft_spawn(&tasks[i], join_target, &joiners[i], &attr));
    }
    for (int i = 1; i < JOINERS; i += 3) {
        CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
        CHECK_EQ(joiners[i].rc, -ETIMEDOUT);
    }
    atomic_store(&gate.open, 1);
    for (int i = 0; i < JOINERS; i++) {
        if (i % 3 != 1) {
            CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
            CHECK_EQ(joiners[i].rc, 0);
            CHECK_EQ(joiners[i].result, 4711);
        }
    }
    int result;
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0); // long after the end
    CHECK_EQ(result, 4711);
}

// A task hands out its own handle while somebody else, who believes to have the only one, joins.

struct generous {
    struct weft_scope scope;
    struct joiner joiners[3];
    int count;
};

static int hand_yourself_out(void *arg)
{
    struct generous *generous = arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < generous->count; i++) {
        struct joiner *joiner = &generous->joiners[i];
        *joiner = (struct joiner){ .target = weft_task_retain(weft_self()),
                                   .deadline = i == 2 ? weft_after(20 * WEFT_US) : WEFT_FOREVER };
        CHECK_OK(weft_scope_spawn_task(NULL, &generous->scope, join_target, joiner, &attr));
    }
    for (int i = generous->count; i > 0; i--) {
        CHECK_OK(weft_yield());
    }
    return 11;
}

TEST_EVERYWHERE(a_task_hands_out_its_own_handle)
{
    uint64_t random = test_seed();
    for (uint64_t round = test_scaled(2000); round > 0; round--) {
        struct generous generous = { .count = 1 + (int)(test_random(&random) % 3) };
        struct weft_attr attr = WEFT_ATTR_INIT;
        weft_task *task;
        int result = 0;
        attr.place = WEFT_PLACE_SPREAD;
        CHECK_OK(weft_scope_init(&generous.scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        CHECK_OK(
            weft_scope_spawn_task(&task, &generous.scope, hand_yourself_out, &generous, &attr));
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, 11);
        CHECK_EQ(weft_scope_join(&generous.scope), 0);
        for (int i = 0; i < generous.count; i++) {
            CHECK(generous.joiners[i].rc == 0 ? generous.joiners[i].result == 11 : i == 2);
        }
    }
}

static int end_at_once(void *arg)
{
    (void)arg;
    return 3;
}

TEST_EVERYWHERE(a_task_that_was_joined_is_done)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (uint64_t i = test_scaled(2000); i > 0; i--) {
        weft_task *task;
        int result;
        CHECK_OK(weft_spawn(&task, end_at_once, NULL, &attr));
        CHECK_EQ(weft_join(NULL, weft_task_retain(task), WEFT_FOREVER), 0);
        CHECK(weft_task_done(task));
        CHECK_EQ(weft_join(&result, task, 0), 0); // no deadline is too short for what is over
        CHECK_EQ(result, 3);
    }
}

TEST_EVERYWHERE(releasing_a_handle_detaches_the_task)
{
    struct gate gates[50] = { { .result = 0 } };
    for (int i = 0; i < 50; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        weft_task *task;
        attr.place = WEFT_PLACE_SPREAD;
        CHECK_OK(weft_spawn(&task, pass_the_gate, &gates[i], &attr));
        CHECK_EQ(weft_task_retain(task), task);
        weft_task_release(task);
        weft_task_release(task);
    }
    for (int i = 0; i < 50; i++) {
        atomic_store(&gates[i].open, 1);
        while (!atomic_load(&gates[i].passed)) {
            CHECK_OK(weft_yield());
        }
    }
}

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

/// A loop of calls that never have to wait must not keep others from running.
TEST_EVERYWHERE(joins_that_end_at_once_use_up_the_budget)
{
    struct weft_attr attr = stay_here();
    atomic_int other = 0;
    weft_task *task;
    CHECK_OK(weft_spawn(&task, end_at_once, NULL, NULL));
    CHECK_EQ(weft_join(NULL, weft_task_retain(task), WEFT_FOREVER), 0);
    CHECK_OK(weft_spawn(NULL, count, &other, &attr));
    for (int calls = 0; atomic_load(&other) == 0; calls++) {
        CHECK_LE(calls, 128);
        CHECK_EQ(weft_join(NULL, weft_task_retain(task), WEFT_FOREVER), 0);
    }
    weft_task_release(task);
}

// Foreign OS threads.

static weft_runtime *runtime;

static void create_runtime(void)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
}

static void *join_from_a_thread(void *arg)
{
    struct joiner *joiner = arg;
    joiner->rc = weft_join(&joiner->result, joiner->target, joiner->deadline);
    if (joiner->rc != 0) {
        weft_task_release(joiner->target);
    }
    return NULL;
}

TEST_DRIVERS(foreign_threads_join)
{
    enum { THREADS = 6 };
    create_runtime();
    for (int round = 0; round < 20; round++) {
        struct gate gate = { .result = round };
        struct joiner joiners[THREADS];
        pthread_t threads[THREADS];
        weft_task *task;
        CHECK_OK(weft_runtime_spawn(&task, runtime, pass_the_gate, &gate, NULL));
        for (int i = 0; i < THREADS; i++) {
            joiners[i] = (struct joiner){ .target = weft_task_retain(task),
                                          .deadline = i % 2 ? weft_after(WEFT_MS) : WEFT_FOREVER };
            CHECK_EQ(pthread_create(&threads[i], NULL, join_from_a_thread, &joiners[i]), 0);
        }
        for (int i = 1; i < THREADS; i += 2) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
            CHECK_EQ(joiners[i].rc, -ETIMEDOUT);
            CHECK_GE(weft_now(), joiners[i].deadline);
        }
        atomic_store(&gate.open, 1);
        for (int i = 0; i < THREADS; i += 2) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
            CHECK_EQ(joiners[i].rc, 0);
            CHECK_EQ(joiners[i].result, round);
        }
        CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}

static void *spawn_and_join_many(void *arg)
{
    uint64_t *sum = arg;
    for (uint64_t i = test_scaled(400); i > 0; i--) {
        struct gate gate = { .open = 1, .result = (int)i };
        weft_task *task = NULL;
        int result;
        CHECK_OK(weft_runtime_spawn(&task, runtime, pass_the_gate, &gate, NULL));
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        *sum += (uint64_t)result;
    }
    return NULL;
}

TEST_DRIVERS(foreign_threads_spawn_and_join_at_the_same_time)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint64_t sums[THREADS] = { 0 };
    create_runtime();
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, spawn_and_join_many, &sums[i]), 0);
    }
    uint64_t rounds = test_scaled(400);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK_EQ(sums[i], rounds * (rounds + 1) / 2);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}

static int sleep_for_ever(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_FOREVER);
}

TEST_DRIVERS(foreign_threads_cancel_what_they_join)
{
    create_runtime();
    for (int i = 0; i < 200; i++) {
        weft_task *task;
        int result;
        CHECK_OK(weft_runtime_spawn(&task, runtime, sleep_for_ever, NULL, NULL));
        weft_task_cancel(task);
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, -ECANCELED);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}

struct foreign {
    weft_task *task;
    weft_runtime *runtime;
    int join_rc;
    int spawn_rc;
    atomic_int done;
};

static void *try_from_outside(void *arg)
{
    struct foreign *foreign = arg;
    weft_task *task = foreign->task;
    foreign->join_rc = weft_join(NULL, foreign->task, WEFT_FOREVER);
    foreign->spawn_rc = weft_runtime_spawn(&task, foreign->runtime, end_at_once, NULL, NULL);
    CHECK_EQ(task, (weft_task *)NULL);
    atomic_store(&foreign->done, 1);
    return NULL;
}

static int let_a_thread_try(void *arg)
{
    struct foreign *foreign = arg;
    pthread_t thread;
    foreign->task = weft_self();
    foreign->runtime = weft_runtime_current();
    CHECK_EQ(pthread_create(&thread, NULL, try_from_outside, foreign), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

TEST(the_simulator_refuses_foreign_threads)
{
    struct foreign foreign = { .join_rc = 0 };
    CHECK_EQ(weft_sim_run(NULL, let_a_thread_try, &foreign, NULL), 0);
    CHECK_EQ(foreign.join_rc, -ENOTSUP);
    CHECK_EQ(foreign.spawn_rc, -ENOTSUP);
}
