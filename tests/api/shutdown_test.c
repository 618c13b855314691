// Shutting down: cancel, grace period, those who do not listen, and nothing left afterwards.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <weft.h>

static struct gathered logged;

static struct weft_options quiet(int carriers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carriers;
    options.log = gather_log;
    options.log_ctx = &logged;
    return options;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static _Atomic int started;
static _Atomic int cancelled;

static int sleep_for_ever(void *arg)
{
    (void)arg;
    atomic_fetch_add(&started, 1);
    int rc = weft_sleep(WEFT_FOREVER);
    CHECK_EQ(rc, -ECANCELED);
    CHECK_EQ(weft_yield(), -ECANCELED); // level-triggered
    atomic_fetch_add(&cancelled, 1);
    return rc;
}

static int leave_a_hundred(void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    (void)arg;
    for (int i = 0; i < 100; i++) {
        weft_task *task;
        CHECK_OK(weft_spawn(&task, sleep_for_ever, NULL, &attr));
        weft_task_release(task);
    }
    return 3;
}

TEST_DRIVERS(the_end_of_the_first_thread_cancels_everything)
{
    struct weft_options options = quiet(3);
    CHECK_EQ(weft_run(leave_a_hundred, NULL, &options), 3);
    CHECK_EQ(atomic_load(&cancelled), 100);
    CHECK_EQ(logged.count, 0);
}

// Those who do not listen.

static _Atomic bool let_go;
static sem_t is_deaf;

static int deaf(void *arg)
{
    (void)arg;
    sem_post(&is_deaf);
    while (!atomic_load(&let_go)) {
        (void)weft_yield();
    }
    return 0;
}

static int start_deaf(void *arg)
{
    (void)arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = "deaf as a post";
    weft_task *task;
    CHECK_OK(weft_spawn(&task, deaf, NULL, &attr));
    weft_task_release(task);
    return weft_yield();
}

TEST_DRIVERS(tasks_that_ignore_the_cancel_are_named)
{
    struct weft_options options = quiet(2);
    options.grace_ns = 1;
    CHECK_EQ(weft_run(start_deaf, NULL, &options), -EBUSY);
    CHECK_LOGGED(&logged, "did not end within the grace period");
    CHECK_LOGGED(&logged, "\"deaf as a post\"");
    CHECK_LOGGED(&logged, "spawned at shutdown_test.c:");
    exit(0); // with carriers that are still running
}

TEST_DRIVERS(a_process_with_tasks_left_ends_with_its_main_function)
{
    pid_t pid = fork();
    CHECK_OK(pid);
    if (pid == 0) {
        struct weft_options options = quiet(2);
        options.grace_ns = WEFT_MS;
        exit(weft_run(start_deaf, NULL, &options) == -EBUSY ? 33 : 1);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 33);
}

TEST_DRIVERS(a_second_shutdown_waits_again)
{
    struct weft_options options = quiet(2);
    weft_runtime *runtime;
    weft_task *task;
    sem_init(&is_deaf, 0, 0);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(weft_runtime_spawn(&task, runtime, deaf, NULL, NULL));
    sem_wait(&is_deaf);
    CHECK_EQ(weft_runtime_shutdown(runtime, WEFT_MS), -EBUSY);
    CHECK_EQ(weft_runtime_shutdown(runtime, 0), -EBUSY);
    CHECK_EQ(weft_runtime_spawn(NULL, runtime, nothing, NULL, NULL), -ECANCELED);
    CHECK(!weft_task_done(task));
    atomic_store(&let_go, true);
    CHECK_EQ(weft_runtime_shutdown(runtime, WEFT_FOREVER), 0);
    CHECK(weft_task_done(task));
    CHECK_EQ(weft_runtime_shutdown(runtime, 0), 0);
    CHECK_OK(weft_join(NULL, task, 0));
    gathered_clear(&logged);
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
    CHECK_EQ(logged.count, 0);
}

TEST_DRIVERS(destroy_keeps_a_runtime_with_tasks_and_may_be_repeated)
{
    struct weft_options options = quiet(2);
    options.grace_ns = WEFT_MS;
    weft_runtime *runtime;
    sem_init(&is_deaf, 0, 0);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(weft_runtime_spawn(NULL, runtime, deaf, NULL, NULL));
    sem_wait(&is_deaf);
    CHECK_EQ(weft_runtime_destroy(runtime), -EBUSY);
    CHECK_EQ(weft_runtime_carriers(runtime), 2);
    atomic_store(&let_go, true);
    while (weft_runtime_destroy(runtime) == -EBUSY) {
    }
}

// A grace period of nothing is enough when there is nothing to wait for.

TEST_DRIVERS(without_tasks_no_grace_is_needed)
{
    setenv("WEFT_GRACE_MS", "0", 1);
    struct weft_options options = quiet(8);
    for (uint64_t i = test_scaled(200); i > 0; i--) {
        weft_runtime *runtime;
        CHECK_OK(weft_runtime_create(&runtime, &options));
        CHECK_OK(weft_runtime_destroy(runtime));
        CHECK_EQ(weft_run(nothing, NULL, &options), 0);
    }
    CHECK_EQ(logged.count, 0);
}

static int spawn_when_cancelled(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    weft_task *task = (weft_task *)arg;
    struct weft_scope scope;
    CHECK_EQ(weft_spawn(&task, nothing, NULL, NULL), -ECANCELED);
    CHECK(task == NULL);
    CHECK_EQ(weft_go(nothing, NULL), -ECANCELED);
    CHECK_EQ(weft_runtime_spawn(&task, weft_runtime_current(), nothing, NULL, NULL), -ECANCELED);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_EQ(weft_scope_spawn(&scope, nothing, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    atomic_fetch_add(&cancelled, 1);
    return 0;
}

static int start_late_spawner(void *arg)
{
    CHECK_OK(weft_go(spawn_when_cancelled, arg));
    return weft_yield();
}

TEST_DRIVERS(nothing_new_starts_during_a_shutdown)
{
    struct weft_options options = quiet(2);
    CHECK_EQ(weft_run(start_late_spawner, &options, &options), 0);
    CHECK_EQ(atomic_load(&cancelled), 1);
}

static int cleanup_child(void *arg)
{
    CHECK_OK(weft_sleep(2 * WEFT_MS));
    atomic_fetch_add((_Atomic int *)arg, 1);
    return 0;
}

static int clean_up_behind_a_shield(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    struct weft_scope shield;
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_ALL | WEFT_SCOPE_SHIELD, weft_after(WEFT_S * 60)));
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK_OK(weft_scope_spawn(&shield, cleanup_child, arg));
    CHECK_EQ(weft_scope_join(&shield), 0);
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    return 0;
}

static int start_cleaners(void *arg)
{
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_go(clean_up_behind_a_shield, arg));
    }
    return weft_yield();
}

TEST_DRIVERS(shields_are_waited_for)
{
    struct weft_options options = quiet(2);
    _Atomic int cleaned = 0;
    options.grace_ns = 60 * WEFT_S;
    CHECK_EQ(weft_run(start_cleaners, &cleaned, &options), 0);
    CHECK_EQ(atomic_load(&cleaned), 20);
}

// Several threads shut one runtime down.

static void *shut_down(void *arg)
{
    CHECK_EQ(weft_runtime_shutdown(arg, WEFT_FOREVER), 0);
    return NULL;
}

TEST_DRIVERS(several_threads_may_wait_for_the_end)
{
    struct weft_options options = quiet(3);
    for (uint64_t i = test_scaled(40); i > 0; i--) {
        weft_runtime *runtime;
        pthread_t threads[4];
        CHECK_OK(weft_runtime_create(&runtime, &options));
        for (int k = 0; k < 20; k++) {
            CHECK_OK(weft_runtime_spawn(NULL, runtime, sleep_for_ever, NULL, NULL));
        }
        for (int k = 0; k < 4; k++) {
            CHECK_EQ(pthread_create(&threads[k], NULL, shut_down, runtime), 0);
        }
        for (int k = 0; k < 4; k++) {
            pthread_join(threads[k], NULL);
        }
        CHECK_OK(weft_runtime_destroy(runtime));
    }
}

// Spawns from everywhere while the runtime shuts down: each either runs and ends, or is refused.

struct flood {
    weft_runtime *runtime;
    _Atomic int accepted;
    _Atomic int ended;
};

static int flood_leaf(void *arg)
{
    struct flood *flood = arg;
    (void)weft_sleep(WEFT_FOREVER);
    atomic_fetch_add(&flood->ended, 1);
    return 0;
}

static int flood_task(void *arg)
{
    struct flood *flood = arg;
    while (weft_go(flood_leaf, flood) == 0) {
        atomic_fetch_add(&flood->accepted, 1);
        (void)weft_yield();
    }
    return 0;
}

static void *flood_thread(void *arg)
{
    struct flood *flood = arg;
    while (weft_runtime_spawn(NULL, flood->runtime, flood_leaf, flood, NULL) == 0) {
        atomic_fetch_add(&flood->accepted, 1);
    }
    return NULL;
}

TEST_DRIVERS(every_task_learns_of_the_shutdown)
{
    for (uint64_t i = test_scaled(40); i > 0; i--) {
        struct weft_options options = quiet(2);
        static struct flood flood;
        pthread_t threads[2];
        flood = (struct flood){ .runtime = NULL };
        CHECK_OK(weft_runtime_create(&flood.runtime, &options));
        CHECK_OK(weft_runtime_spawn(NULL, flood.runtime, flood_task, &flood, NULL));
        CHECK_OK(weft_runtime_spawn(NULL, flood.runtime, flood_task, &flood, NULL));
        for (int k = 0; k < 2; k++) {
            CHECK_EQ(pthread_create(&threads[k], NULL, flood_thread, &flood), 0);
        }
        while (atomic_load(&flood.accepted) < 100) {
            sched_yield();
        }
        CHECK_EQ(weft_runtime_shutdown(flood.runtime, WEFT_FOREVER), 0);
        for (int k = 0; k < 2; k++) {
            pthread_join(threads[k], NULL);
        }
        CHECK_EQ(weft_runtime_shutdown(flood.runtime, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&flood.accepted), atomic_load(&flood.ended));
        CHECK_OK(weft_runtime_destroy(flood.runtime));
    }
    CHECK_EQ(logged.count, 0);
}

// Promise 7: if every task honours cancellation, shutdown finishes within its grace period and
// nothing leaks.

struct tree {
    int depth;
    uint64_t random;
};

static int polite(void *arg)
{
    struct tree here = *(struct tree *)arg;
    struct tree below = { here.depth - 1, here.random };
    struct weft_scope scope;
    int rc = weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER);
    CHECK_OK(rc);
    for (int i = 0; i < 3 && below.depth > 0; i++) {
        (void)weft_scope_spawn(&scope, polite, &below);
    }
    switch (test_random(&below.random) % 3) {
    case 0: rc = weft_sleep(WEFT_FOREVER); break;
    case 1: rc = weft_park(WEFT_FOREVER); break;
    default:
        while ((rc = weft_checkpoint()) == 0) {
        }
    }
    (void)weft_scope_join(&scope);
    return rc;
}

static int start_polite(void *arg)
{
    static struct tree trees[10];
    for (int i = 0; i < 10; i++) {
        trees[i] = (struct tree){ 4, test_random(arg) };
        weft_task *task;
        CHECK_OK(weft_spawn(&task, polite, &trees[i], NULL));
        weft_task_release(task);
    }
    return weft_sleep(WEFT_MS);
}

TEST_DRIVERS(promise_7_shutdown_finishes_and_nothing_leaks)
{
    struct weft_options options = quiet(4);
    uint64_t random = test_seed();
    options.grace_ns = 30 * WEFT_S;
    CHECK_EQ(weft_run(start_polite, &random, &options), 0);
    int descriptors = count_descriptors();
    int threads = count_threads();
    for (int i = 0; i < 5; i++) {
        weft_time before = weft_now();
        CHECK_EQ(weft_run(start_polite, &random, &options), 0);
        CHECK_LT(weft_now() - before, options.grace_ns);
    }
    CHECK_EQ(count_descriptors(), descriptors);
    CHECK(threads_fall_to(threads));
    CHECK_EQ(logged.count, 0);
}
