// join_test.c - joiners that come, leave late and are woken while the task ends (task/join.c).
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft.h>

#include "task/join.h"
#include "task/task.h"

struct target {
    atomic_int go;
    weft_time end;
    int result;
};

static int end_when_told(void *arg)
{
    struct target *target = arg;
    while (!atomic_load(&target->go)) {
        CHECK_OK(weft_yield());
    }
    CHECK_OK(weft_sleep_until(target->end));
    return target->result;
}

struct joiner {
    weft_task *target; // owned
    weft_time deadline;
    int rc;
    int result;
};

static int join_once(void *arg)
{
    struct joiner *joiner = arg;
    joiner->rc = weft_join(&joiner->result, joiner->target, joiner->deadline);
    if (joiner->rc < 0) {
        weft_task_release(joiner->target);
    }
    return 0;
}

TEST_EVERYWHERE(a_late_joiner_leaves_no_trace)
{
    struct target target = { .result = 1 };
    weft_task *task;
    CHECK_OK(weft_spawn(&task, end_when_told, &target, NULL));
    CHECK_EQ(atomic_load(&task->joiners), 0u);
    CHECK(!weft__task_ended(task));
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_join(NULL, task, weft_after(10 * WEFT_US)), -ETIMEDOUT);
        CHECK_EQ(atomic_load(&task->joiners), 0u);
    }
    atomic_store(&target.go, 1);
    CHECK_EQ(weft_join(NULL, weft_task_retain(task), WEFT_FOREVER), 0);
    CHECK(weft__task_ended(task));
    weft_task_release(task);
}

/// Joiners leave from the front, the middle and the end of the list, in a random order.
TEST_EVERYWHERE(late_joiners_leave_in_any_order)
{
    enum { JOINERS = 10 };
    uint64_t random = test_seed();
    for (uint64_t round = test_scaled(20); round > 0; round--) {
        struct target target = { .result = 3 };
        struct joiner joiners[JOINERS];
        weft_task *task;
        weft_task *tasks[JOINERS];
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        CHECK_OK(weft_spawn(&task, end_when_told, &target, NULL));
        for (int i = 0; i < JOINERS; i++) {
            joiners[i] = (struct joiner){
                .target = weft_task_retain(task),
                .deadline = i == 4 ? WEFT_FOREVER
                                   : weft_after(test_random(&random) % (500 * WEFT_US)),
            };
            CHECK_OK(weft_spawn(&tasks[i], join_once, &joiners[i], &attr));
        }
        for (int i = 0; i < JOINERS; i++) {
            if (i != 4) {
                CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
                CHECK_EQ(joiners[i].rc, -ETIMEDOUT);
            }
        }
        CHECK(!weft_task_done(tasks[4]));
        atomic_store(&target.go, 1);
        CHECK_EQ(weft_join(NULL, tasks[4], WEFT_FOREVER), 0);
        CHECK_EQ(joiners[4].rc, 0);
        CHECK_EQ(joiners[4].result, 3);
        weft_task_release(task);
    }
}

/// The end and the deadlines fall together: every joiner gets the result or is late, none is lost.
TEST_EVERYWHERE(joiners_race_with_the_end)
{
    enum { JOINERS = 6 };
    uint64_t random = test_seed();
    int late = 0;
    int rounds = (int)test_scaled(300);
    for (int round = 0; round < rounds; round++) {
        struct target target = { .go = 1, .end = weft_after(200 * WEFT_US), .result = round };
        struct joiner joiners[JOINERS];
        weft_task *task;
        weft_task *tasks[JOINERS];
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        CHECK_OK(weft_spawn(&task, end_when_told, &target, &attr));
        for (int i = 0; i < JOINERS; i++) {
            joiners[i] = (struct joiner){
                .target = weft_task_retain(task),
                .deadline = target.end - 50 * WEFT_US + test_random(&random) % (150 * WEFT_US),
            };
            CHECK_OK(weft_spawn(&tasks[i], join_once, &joiners[i], &attr));
        }
        for (int i = 0; i < JOINERS; i++) {
            CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
            CHECK(joiners[i].rc == 0 || joiners[i].rc == -ETIMEDOUT);
            CHECK(joiners[i].rc != 0 || joiners[i].result == round);
            CHECK(joiners[i].rc == 0 || weft_now() >= joiners[i].deadline);
            late += joiners[i].rc != 0;
        }
        CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    }
    printf("%d of %d were late\n", late, rounds * JOINERS);
}

static void *join_from_a_thread(void *arg)
{
    (void)join_once(arg);
    return NULL;
}

TEST_DRIVERS(foreign_joiners_race_with_the_end)
{
    enum { JOINERS = 3 };
    weft_runtime *runtime;
    uint64_t random = test_seed();
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    for (uint64_t round = test_scaled(100); round > 0; round--) {
        struct target target = { .go = 1, .end = weft_after(200 * WEFT_US), .result = 8 };
        struct joiner joiners[JOINERS];
        pthread_t threads[JOINERS];
        weft_task *task;
        CHECK_OK(weft_runtime_spawn(&task, runtime, end_when_told, &target, NULL));
        for (int i = 0; i < JOINERS; i++) {
            joiners[i] = (struct joiner){
                .target = weft_task_retain(task),
                .deadline = target.end - 50 * WEFT_US + test_random(&random) % (200 * WEFT_US),
            };
            CHECK_EQ(pthread_create(&threads[i], NULL, join_from_a_thread, &joiners[i]), 0);
        }
        for (int i = 0; i < JOINERS; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
            CHECK(joiners[i].rc == 0 || joiners[i].rc == -ETIMEDOUT);
            CHECK(joiners[i].rc != 0 || joiners[i].result == 8);
        }
        CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}
