// Threads that weft did not make: what they may do with a runtime, and what a simulation refuses.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <weft.h>

static weft_runtime *make(int carriers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    options.carriers = carriers;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    return runtime;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int wait_for_cancel(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_FOREVER);
}

static void never(void *arg)
{
    (void)arg;
    FAIL("the timer fired");
}

TEST(calls_that_need_a_task_say_so)
{
    struct weft_scope scope;
    struct weft_interval interval;
    struct weft_future future;
    struct weft_timer timer;
    weft_waker waker;
    weft_task *task = (weft_task *)&scope;
    weft_time due;
    CHECK_EQ(weft_spawn(&task, nothing, NULL, NULL), -EPERM);
    CHECK(task == NULL);
    CHECK_EQ(weft_go(nothing, NULL), -EPERM);
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_sleep_until(0), -EPERM);
    CHECK_EQ(weft_yield(), -EPERM);
    CHECK_EQ(weft_checkpoint(), -EPERM);
    CHECK_EQ(weft_cancelled(), -EPERM);
    CHECK_EQ(weft_park(WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_waker_self(&waker), -EPERM);
    CHECK(waker.vtable == NULL && waker.data == NULL);
    CHECK_EQ(weft_timer_init(&timer, never, NULL), -EPERM);
    CHECK_EQ(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_scope_spawn(&scope, nothing, NULL), -EPERM);
    CHECK_EQ(weft_scope_join(&scope), -EPERM);
    CHECK_OK(weft_interval_init(&interval, 0, WEFT_S, WEFT_MISSED_SKIP));
    CHECK_EQ(weft_interval_tick(&due, &interval), -EPERM);
    weft_future_init(&future, NULL, NULL);
    CHECK_EQ(weft_await(&future, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_spawn_future(&task, &future, NULL), -EPERM);
    struct weft_local key = { .name = "key" };
    CHECK_EQ(weft_local_set(&key, &key), -EPERM);
    CHECK(weft_local_get(&key) == NULL);
    CHECK(weft_self() == NULL);
    CHECK_EQ(weft_task_id(NULL), 0);
    CHECK_STR(weft_task_name(NULL), "");
    weft_task_release(NULL);
}

static int add_one(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    return weft_carrier_id();
}

TEST_DRIVERS(spawns_go_round_robin_or_where_they_are_told)
{
    weft_runtime *runtime = make(3);
    weft_task *tasks[30];
    int ran_on[3] = { 0 };
    _Atomic int count = 0;
    for (int i = 0; i < 30; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = i % 2 == 0 ? WEFT_PLACE_CURRENT : WEFT_PLACE_SPREAD;
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, add_one, &count, &attr));
    }
    for (int i = 0; i < 30; i++) {
        int carrier;
        CHECK_OK(weft_join(&carrier, tasks[i], WEFT_FOREVER));
        ran_on[carrier]++;
    }
    CHECK_EQ(atomic_load(&count), 30);
    for (int i = 0; i < 3; i++) {
        CHECK(ran_on[i] == 10 || test_steals()); // they were spread, not placed
        struct weft_attr attr = WEFT_ATTR_INIT;
        int carrier;
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = i;
        CHECK_OK(weft_runtime_spawn(&tasks[0], runtime, add_one, &count, &attr));
        CHECK_OK(weft_join(&carrier, tasks[0], WEFT_FOREVER));
        CHECK_EQ(carrier, i);
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_DRIVERS(bad_attributes_are_refused)
{
    weft_runtime *runtime = make(2);
    weft_task *task = (weft_task *)&runtime;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.size = 1;
    CHECK_EQ(weft_runtime_spawn(&task, runtime, nothing, NULL, &attr), -EINVAL);
    CHECK(task == NULL);
    weft_attr_init(&attr);
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = 2;
    CHECK_EQ(weft_runtime_spawn(&task, runtime, nothing, NULL, &attr), -EINVAL);
    attr.carrier = -1;
    CHECK_EQ(weft_runtime_spawn(&task, runtime, nothing, NULL, &attr), -EINVAL);
    weft_attr_init(&attr);
    attr.place = (enum weft_place)9;
    CHECK_EQ(weft_runtime_spawn(&task, runtime, nothing, NULL, &attr), -EINVAL);
    weft_attr_init(&attr);
    attr.stack_size_bytes = 4096;
    CHECK_EQ(weft_runtime_spawn(&task, runtime, nothing, NULL, &attr), -EINVAL);
    attr.stack_size_bytes = (size_t)4 << 30;
    CHECK_EQ(weft_runtime_spawn(&task, runtime, nothing, NULL, &attr), -EINVAL);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_DRIVERS(a_foreign_thread_joins_with_a_deadline_and_cancels)
{
    weft_runtime *runtime = make(2);
    weft_task *task;
    int result = 1;
    CHECK_OK(weft_runtime_spawn(&task, runtime, wait_for_cancel, NULL, NULL));
    CHECK_EQ(weft_join(&result, task, 0), -ETIMEDOUT);
    weft_time before = weft_now();
    CHECK_EQ(weft_join(&result, task, before + 2 * WEFT_MS), -ETIMEDOUT);
    CHECK_GE(weft_now(), before + 2 * WEFT_MS);
    CHECK_EQ(result, 1);
    CHECK(!weft_task_done(task));
    weft_task_cancel(task);
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// Many foreign threads join the same task, each with its own handle.

static void *join_it(void *arg)
{
    int result;
    CHECK_OK(weft_join(&result, arg, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    return NULL;
}

TEST_DRIVERS(many_threads_join_one_task)
{
    weft_runtime *runtime = make(2);
    pthread_t threads[8];
    weft_task *task;
    CHECK_OK(weft_runtime_spawn(&task, runtime, wait_for_cancel, NULL, NULL));
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, join_it, weft_task_retain(task)), 0);
    }
    weft_task_cancel(task);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_OK(weft_join(NULL, task, 0));
    CHECK_OK(weft_runtime_destroy(runtime));
}

// Timers and wakers from outside.

static void post(void *arg)
{
    sem_post(arg);
}

TEST_DRIVERS(a_foreign_thread_sets_and_stops_timers)
{
    weft_runtime *runtime = make(2);
    struct weft_timer timer;
    sem_t fired;
    sem_init(&fired, 0, 0);
    CHECK_EQ(weft_timer_init_on(&timer, runtime, 2, post, &fired), -EINVAL);
    CHECK_EQ(weft_timer_init_on(&timer, runtime, -1, post, &fired), -EINVAL);
    for (int carrier = 0; carrier < 2; carrier++) {
        CHECK_OK(weft_timer_init_on(&timer, runtime, carrier, post, &fired));
        CHECK_EQ(weft_timer_stop(&timer), 0);
        weft_timer_set(&timer, weft_after(3600 * WEFT_S));
        CHECK_EQ(weft_timer_stop(&timer), 1);
        weft_time due = weft_after(WEFT_MS);
        weft_timer_set(&timer, due);
        sem_wait(&fired);
        CHECK_GE(weft_now(), due);
        CHECK_EQ(weft_timer_stop(&timer), 0);
        weft_timer_set(&timer, 0);
        sem_wait(&fired);
        weft_timer_set(&timer, weft_after(3600 * WEFT_S));
        weft_timer_set(&timer, WEFT_FOREVER);
        CHECK_EQ(weft_timer_stop(&timer), 0);
        CHECK_EQ(sem_trywait(&fired), -1);
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

struct mailbox {
    weft_waker waker;
    sem_t ready;
    _Atomic int value;
};

static int receive(void *arg)
{
    struct mailbox *box = arg;
    CHECK_OK(weft_waker_self(&box->waker));
    sem_post(&box->ready);
    while (atomic_load(&box->value) == 0) {
        int rc = weft_park(WEFT_FOREVER);
        if (rc < 0) {
            return rc;
        }
    }
    return atomic_load(&box->value);
}

TEST_DRIVERS(a_foreign_thread_wakes_a_parked_one)
{
    weft_runtime *runtime = make(2);
    for (int i = 1; i <= 200; i++) {
        struct mailbox box = { .value = 0 };
        weft_task *task;
        int result;
        sem_init(&box.ready, 0, 0);
        CHECK_OK(weft_runtime_spawn(&task, runtime, receive, &box, NULL));
        sem_wait(&box.ready);
        weft_waker_wake_by_ref(&box.waker); // for nothing
        atomic_store(&box.value, i);
        weft_waker_wake(&box.waker);
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK_EQ(result, i);
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

// A carrier that is alone has nobody who would come for what was put there: it has to be woken.

struct parked {
    struct weft_future future;
    weft_waker waker;
    atomic_int polls;
};

static enum weft_poll parks_once(struct weft_future *future, weft_waker *waker)
{
    struct parked *parked = (struct parked *)(void *)future;
    if (atomic_load(&parked->polls) > 0) {
        return WEFT_READY;
    }
    weft_waker_clone(&parked->waker, waker);
    atomic_store(&parked->polls, 1);
    return WEFT_PENDING;
}

static uint64_t sleeps_of(weft_runtime *runtime)
{
    struct weft_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_stats_get(runtime, 0, &stats));
    return stats.sleeps;
}

/// Waits until the carrier has gone to sleep once more; returns how often it has.
static uint64_t await_sleep(weft_runtime *runtime, uint64_t before)
{
    uint64_t now;
    while ((now = sleeps_of(runtime)) <= before) {
        sched_yield();
    }
    return now;
}

TEST_DRIVERS(a_foreign_thread_wakes_the_only_carrier_of_work_stealing)
{
    enum { TIMES = 50 };
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    weft_task *task;
    atomic_int ran = 0;
    options.carriers = 1;
    options.max_carriers = 1; // there will never be another
    options.policy = WEFT_POLICY_STEALING;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    uint64_t slept = await_sleep(runtime, 0);
    for (int i = 0; i < TIMES; i++) {
        struct parked parked = { .polls = 0 };
        weft_future_init(&parked.future, parks_once, NULL);
        CHECK_OK(weft_runtime_spawn_future(&task, runtime, &parked.future, NULL));
        while (atomic_load(&parked.polls) == 0) {
            sched_yield();
        }
        slept = await_sleep(runtime, slept);
        weft_waker_wake(&parked.waker);
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        slept = await_sleep(runtime, slept);
        CHECK_OK(weft_runtime_spawn(&task, runtime, add_one, &ran, NULL));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        slept = await_sleep(runtime, slept);
    }
    CHECK_EQ(atomic_load(&ran), TIMES);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_DRIVERS(a_waker_may_outlive_its_task)
{
    weft_runtime *runtime = make(2);
    struct mailbox box = { .value = 1 };
    weft_waker copy;
    sem_init(&box.ready, 0, 0);
    weft_task *task;
    CHECK_OK(weft_runtime_spawn(&task, runtime, receive, &box, NULL));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    weft_waker_clone(&copy, &box.waker);
    weft_waker_wake(&box.waker);
    weft_waker_drop(&copy);
    CHECK_OK(weft_runtime_destroy(runtime));
}

/// However much of its budget a task has used up, a wake before a park ends that park.
TEST_EVERYWHERE(a_wake_before_a_park_is_not_lost)
{
    weft_waker own;
    CHECK_OK(weft_waker_self(&own));
    for (int i = 0; i < 1000; i++) {
        weft_waker_wake_by_ref(&own);
        CHECK_EQ(weft_park(weft_after(3600 * WEFT_S)), 0);
    }
    weft_waker_drop(&own);
}

// A simulation does not know foreign threads.

struct inside {
    weft_runtime *runtime;
    weft_task *task;
    struct weft_timer timer;
};

static void *try_everything(void *arg)
{
    struct inside *inside = arg;
    struct weft_timer timer;
    struct weft_future future;
    weft_task *task = inside->task;
    weft_future_init(&future, NULL, NULL);
    CHECK_EQ(weft_runtime_spawn(&task, inside->runtime, nothing, NULL, NULL), -ENOTSUP);
    CHECK(task == NULL);
    CHECK_EQ(weft_runtime_spawn_future(&task, inside->runtime, &future, NULL), -ENOTSUP);
    CHECK_EQ(weft_join(NULL, inside->task, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_timer_init_on(&timer, inside->runtime, 0, never, NULL), -ENOTSUP);
    CHECK_EQ(weft_timer_stop(&inside->timer), -ENOTSUP);
    weft_timer_set(&inside->timer, 1);
    weft_task_cancel(inside->task);
    CHECK_EQ(weft_runtime_resize(inside->runtime, 1), -ENOTSUP);
    CHECK_EQ(weft_shutdown_request(inside->runtime), -ENOTSUP);
    CHECK_EQ(weft_runtime_shutdown(inside->runtime, WEFT_FOREVER), -ENOTSUP);
    CHECK_GT(count_dumped("task "), 0);
    return NULL;
}

static int with_a_foreigner(void *arg)
{
    (void)arg;
    struct inside inside = { .runtime = weft_runtime_current() };
    pthread_t thread;
    int result;
    CHECK_OK(weft_spawn(&inside.task, wait_for_cancel, NULL, NULL));
    CHECK_OK(weft_timer_init(&inside.timer, never, NULL));
    weft_timer_set(&inside.timer, weft_after(WEFT_S));
    CHECK_OK(weft_yield());
    CHECK_EQ(pthread_create(&thread, NULL, try_everything, &inside), 0);
    pthread_join(thread, NULL);
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK_EQ(weft_timer_stop(&inside.timer), 1);
    CHECK(!weft_task_done(inside.task));
    weft_task_cancel(inside.task);
    CHECK_OK(weft_join(&result, inside.task, WEFT_FOREVER));
    return result;
}

TEST(a_simulation_refuses_foreign_threads)
{
    CHECK_EQ(weft_sim_run(NULL, with_a_foreigner, NULL, NULL), -ECANCELED);
}
