// blocking_test.c - calls that block run on threads of their own: results, limits, withdrawal, drain.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft.h>

static int return_arg(void *arg)
{
    return *(int *)arg;
}

static int count(void *arg)
{
    return atomic_fetch_add((atomic_int *)arg, 1);
}

static int own_tid(void *arg)
{
    *(pid_t *)arg = gettid();
    return 0;
}

/// A job that tells when it has begun and ends when it is told to.
struct gate {
    sem_t entered;
    sem_t leave;
};

static void gate_init(struct gate *gate)
{
    sem_init(&gate->entered, 0, 0);
    sem_init(&gate->leave, 0, 0);
}

static int pass(void *arg)
{
    struct gate *gate = arg;
    sem_post(&gate->entered);
    while (sem_wait(&gate->leave) < 0) {
    }
    return 7;
}

static struct weft_blocking_stats stats_of(weft_runtime *runtime)
{
    struct weft_blocking_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_blocking_stats(runtime, &stats));
    CHECK_EQ(stats.size, sizeof stats);
    return stats;
}

static struct weft_options options_with(int threads, weft_time idle_ns)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    options.blocking_threads = threads;
    options.blocking_idle_ns = idle_ns;
    return options;
}

static void run(weft_fn fn, void *arg, int threads, weft_time idle_ns)
{
    struct weft_options options = options_with(threads, idle_ns);
    CHECK_EQ(weft_run(fn, arg, &options), 0);
}

static weft_runtime *create(int threads)
{
    weft_runtime *runtime;
    struct weft_options options = options_with(threads, 0);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    return runtime;
}

TEST_EVERYWHERE(a_blocking_call_returns_what_its_function_returns)
{
    int values[] = { 0, 5, -EIO, -ETIMEDOUT, -ECANCELED };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        CHECK_EQ(weft_blocking(return_arg, &values[i], WEFT_FOREVER), values[i]);
    }
    CHECK_EQ(weft_blocking(NULL, NULL, WEFT_FOREVER), -EINVAL);
}

static int look_around(void *arg)
{
    sigset_t mask;
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    for (int signal = 1; signal < 32; signal++) {
        bool special = signal == SIGKILL || signal == SIGSTOP;
        CHECK_EQ(sigismember(&mask, signal), special ? 0 : 1);
    }
    CHECK(weft_self() == NULL);
    CHECK_EQ(weft_carrier_id(), -1);
    CHECK_EQ(weft_blocking(return_arg, arg, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_sleep(1), -EPERM);
    *(pid_t *)arg = gettid();
    return 0;
}

static int run_elsewhere(void *arg)
{
    pid_t tid = 0;
    pid_t again = 0;
    (void)arg;
    CHECK_EQ(weft_blocking(look_around, &tid, WEFT_FOREVER), 0);
    CHECK_NE(tid, gettid());
    // Whoever rests is called again: no second thread is made for jobs that do not overlap.
    for (int i = 0; i < 50; i++) {
        while (stats_of(weft_runtime_current()).idle == 0) {
            CHECK_OK(weft_yield());
        }
        CHECK_EQ(weft_blocking(own_tid, &again, WEFT_FOREVER), 0);
        CHECK_EQ(again, tid);
    }
    CHECK_EQ(stats_of(weft_runtime_current()).most_threads, 1);
    return 0;
}

TEST_DRIVERS(a_blocking_call_runs_on_a_thread_of_the_pool_with_signals_blocked)
{
    run(run_elsewhere, NULL, 0, 0);
}

TEST(a_blocking_call_needs_a_virtual_thread)
{
    int value = 1;
    CHECK_EQ(weft_blocking(return_arg, &value, WEFT_FOREVER), -EPERM);
    struct weft_job job;
    CHECK_EQ(weft_job_submit(&job, NULL, return_arg, &value), -EINVAL);
}

enum { CROWD = 40 };

static int meet(void *arg)
{
    pthread_barrier_wait(arg);
    return 0;
}

static int meet_blocking(void *arg)
{
    return weft_blocking(meet, arg, WEFT_FOREVER);
}

static int meet_all(void *arg)
{
    pthread_barrier_t barrier;
    struct weft_scope scope;
    (void)arg;
    pthread_barrier_init(&barrier, NULL, CROWD);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < CROWD; i++) {
        CHECK_OK(weft_scope_spawn(&scope, meet_blocking, &barrier));
    }
    CHECK_EQ(weft_scope_join(&scope), 0);
    pthread_barrier_destroy(&barrier);
    struct weft_blocking_stats stats = stats_of(weft_runtime_current());
    CHECK_EQ(stats.most_threads, CROWD);
    CHECK_EQ(stats.submitted, CROWD);
    CHECK_EQ(stats.queued, 0);
    return 0;
}

TEST_DRIVERS(the_pool_grows_until_every_job_runs)
{
    run(meet_all, NULL, 0, 0);
}

static int grow_twice(void *arg)
{
    int value = 3;
    (void)arg;
    CHECK_EQ(meet_all(NULL), 0);
    while (stats_of(weft_runtime_current()).threads > 0) {
        CHECK_OK(weft_sleep(100 * WEFT_US));
    }
    CHECK_EQ(stats_of(weft_runtime_current()).completed, CROWD);
    CHECK_EQ(weft_blocking(return_arg, &value, WEFT_FOREVER), 3); // and grows again
    return 0;
}

/// How many threads there are without a runtime: sanitizers start one of their own with the first.
static int threads_at_rest(void)
{
    CHECK_OK(weft_runtime_destroy(create(1)));
    return count_threads();
}

TEST_DRIVERS(idle_threads_end)
{
    int before = threads_at_rest();
    run(grow_twice, NULL, 0, 1 * WEFT_MS);
    CHECK(threads_fall_to(before));
}

struct crowded {
    struct gate gate;
    atomic_int calls;
    atomic_int answers;
};

static int occupy(void *arg)
{
    struct crowded *crowded = arg;
    return weft_blocking(pass, &crowded->gate, WEFT_FOREVER) == 7 ? 0 : -EPROTO;
}

static int call_counted(void *arg)
{
    struct crowded *crowded = arg;
    int rc = weft_blocking(count, &crowded->calls, WEFT_FOREVER);
    atomic_fetch_add(&crowded->answers, 1);
    return rc;
}

/// One thread, and it is taken: the others wait in the queue until they are withdrawn.
static int withdraw(void *arg)
{
    struct crowded *crowded = arg;
    weft_task *holder;
    weft_task *queued;
    int result;
    gate_init(&crowded->gate);
    CHECK_OK(weft_spawn(&holder, occupy, crowded, NULL));
    while (sem_trywait(&crowded->gate.entered) < 0) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(weft_blocking(count, &crowded->calls, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_blocking(count, &crowded->calls, 0), -ETIMEDOUT);
    CHECK_OK(weft_spawn(&queued, call_counted, crowded, NULL));
    while (stats_of(weft_runtime_current()).queued == 0) {
        CHECK_OK(weft_yield());
    }
    weft_task_cancel(queued);
    CHECK_OK(weft_join(&result, queued, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(atomic_load(&crowded->calls), 0);
    struct weft_blocking_stats stats = stats_of(weft_runtime_current());
    CHECK_EQ(stats.withdrawn, 3);
    CHECK_EQ(stats.threads, 1);
    CHECK_EQ(stats.queued, 0);
    CHECK_EQ(stats.most_queued, 1);

    // One that runs is awaited, whatever happens to its caller.
    weft_task_cancel(holder);
    CHECK_EQ(weft_join(&result, holder, weft_after(2 * WEFT_MS)), -ETIMEDOUT);
    sem_post(&crowded->gate.leave);
    CHECK_OK(weft_join(&result, holder, WEFT_FOREVER));
    CHECK_EQ(result, 0);
    CHECK_EQ(weft_blocking(count, &crowded->calls, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&crowded->calls), 1);
    return 0;
}

TEST_DRIVERS(deadline_and_cancel_withdraw_what_is_queued_and_await_what_runs)
{
    static struct crowded crowded;
    run(withdraw, &crowded, 1, 0);
}

static int call_cancelled(void *arg)
{
    struct crowded *crowded = arg;
    while (weft_cancelled() == 0) {
        (void)weft_yield();
    }
    return weft_blocking(count, &crowded->calls, WEFT_FOREVER);
}

TEST_EVERYWHERE(a_cancelled_task_starts_no_blocking_call)
{
    static struct crowded crowded;
    weft_task *task;
    int result;
    CHECK_OK(weft_spawn(&task, call_cancelled, &crowded, NULL));
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(atomic_load(&crowded.calls), 0);
}

TEST(a_deadline_does_not_end_a_call_that_runs)
{
    struct gate gate;
    struct weft_job job;
    int result = 0;
    weft_runtime *runtime = create(0);
    gate_init(&gate);
    CHECK_OK(weft_job_submit(&job, runtime, pass, &gate));
    sem_wait(&gate.entered);
    CHECK_EQ(weft_job_wait(&result, &job, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    sem_post(&gate.leave);
    CHECK_EQ(weft_job_wait(&result, &job, WEFT_FOREVER), 0);
    CHECK_EQ(result, 7);
    CHECK_EQ(weft_job_wait(NULL, &job, 0), 0); // as often as one likes
    CHECK_OK(weft_runtime_destroy(runtime));
}

// Jobs from plain OS threads.

TEST(foreign_threads_submit_wait_and_cancel)
{
    struct gate gate;
    struct weft_job first;
    struct weft_job second;
    atomic_int calls = 0;
    int result = 1;
    weft_runtime *runtime = create(1);
    gate_init(&gate);
    CHECK_EQ(weft_job_submit(&first, runtime, NULL, NULL), -EINVAL);
    CHECK_OK(weft_job_submit(&first, runtime, pass, &gate));
    sem_wait(&gate.entered);
    CHECK_OK(weft_job_submit(&second, runtime, count, &calls));
    CHECK_EQ(weft_job_wait(&result, &second, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_job_cancel(&second), 1);
    CHECK_EQ(weft_job_cancel(&second), 0);
    CHECK_EQ(weft_job_wait(&result, &second, WEFT_FOREVER), 0);
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(weft_job_cancel(&first), 0);
    sem_post(&gate.leave);
    CHECK_EQ(weft_job_wait(&result, &first, WEFT_FOREVER), 0);
    CHECK_EQ(result, 7);
    CHECK_EQ(weft_job_cancel(&first), 0);
    CHECK_OK(weft_job_submit(&second, runtime, count, &calls)); // storage is reused
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(weft_job_wait(&result, &second, WEFT_FOREVER), 0); // also after the runtime is gone
    CHECK_EQ(atomic_load(&calls), 1);
}

struct shared_wait {
    struct weft_job job;
    sem_t ready;
};

static void *wait_for_it(void *arg)
{
    struct shared_wait *shared = arg;
    int result = 0;
    int rc;
    while ((rc = weft_job_wait(&result, &shared->job, WEFT_FOREVER)) == -EBUSY) {
        sched_yield(); // the other one is asking right now
    }
    CHECK_EQ(rc, 0);
    CHECK_EQ(result, 7);
    return NULL;
}

TEST(one_thread_waits_at_a_time)
{
    struct gate gate;
    struct shared_wait shared;
    pthread_t thread;
    weft_runtime *runtime = create(0);
    gate_init(&gate);
    CHECK_OK(weft_job_submit(&shared.job, runtime, pass, &gate));
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_it, &shared), 0);
    int rc;
    while ((rc = weft_job_wait(NULL, &shared.job, 0)) == -ETIMEDOUT) {
        sched_yield();
    }
    CHECK_EQ(rc, -EBUSY);
    sem_post(&gate.leave);
    pthread_join(thread, NULL);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST(destroying_a_runtime_runs_what_is_queued)
{
    enum { JOBS = 500 };
    static struct weft_job jobs[JOBS];
    atomic_int calls = 0;
    int before = threads_at_rest();
    weft_runtime *runtime = create(3);
    for (int i = 0; i < JOBS; i++) {
        CHECK_OK(weft_job_submit(&jobs[i], runtime, count, &calls));
    }
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&calls), JOBS);
    CHECK(threads_fall_to(before));
    for (int i = 0; i < JOBS; i++) {
        CHECK_EQ(weft_job_wait(NULL, &jobs[i], 0), 0);
    }
}

static int submit_and_wait(void *arg)
{
    struct weft_job job;
    struct weft_job late;
    int result;
    int value = 9;
    CHECK_OK(weft_job_submit(&job, NULL, return_arg, &value));
    CHECK_OK(weft_job_submit(&late, weft_runtime_current(), return_arg, &value));
    CHECK_EQ(weft_job_wait(&result, &job, WEFT_FOREVER), 0);
    CHECK_EQ(result, 9);
    CHECK_EQ(weft_job_wait(&result, &late, WEFT_FOREVER), 0);
    (void)arg;
    return 0;
}

TEST_EVERYWHERE(a_virtual_thread_submits_and_waits)
{
    CHECK_EQ(submit_and_wait(NULL), 0);
}

static int wait_cancelled(void *arg)
{
    int result = 1;
    int rc = weft_job_wait(&result, arg, WEFT_FOREVER);
    CHECK_EQ(result, 1);
    return rc;
}

static int cancel_a_waiter(void *arg)
{
    struct gate gate;
    struct weft_job job;
    weft_task *task;
    int result;
    (void)arg;
    gate_init(&gate);
    CHECK_OK(weft_job_submit(&job, NULL, pass, &gate));
    CHECK_OK(weft_spawn(&task, wait_cancelled, &job, NULL));
    CHECK_OK(weft_yield());
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    sem_post(&gate.leave);
    CHECK_EQ(weft_job_wait(&result, &job, WEFT_FOREVER), 0);
    CHECK_EQ(result, 7);
    return 0;
}

TEST_DRIVERS(a_cancelled_waiter_leaves_the_job_alone)
{
    run(cancel_a_waiter, NULL, 0, 0);
}

static void try_to_wait(void *arg)
{
    struct shared_wait *shared = arg;
    CHECK_EQ(weft_job_wait(NULL, &shared->job, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_blocking(return_arg, NULL, WEFT_FOREVER), -EPERM);
    sem_post(&shared->ready);
}

static int wait_in_a_timer(void *arg)
{
    struct shared_wait shared;
    struct gate gate;
    struct weft_timer timer;
    (void)arg;
    gate_init(&gate);
    sem_init(&shared.ready, 0, 0);
    CHECK_OK(weft_job_submit(&shared.job, NULL, pass, &gate));
    CHECK_OK(weft_timer_init(&timer, try_to_wait, &shared));
    weft_timer_set(&timer, 1);
    while (sem_trywait(&shared.ready) < 0) {
        CHECK_OK(weft_yield());
    }
    sem_post(&gate.leave);
    CHECK_EQ(weft_job_wait(NULL, &shared.job, WEFT_FOREVER), 0);
    return 0;
}

TEST_DRIVERS(a_timer_function_cannot_wait)
{
    run(wait_in_a_timer, NULL, 0, 0);
}

TEST(a_forked_child_cannot_wait_for_its_parents_jobs)
{
    struct gate gate;
    struct weft_job job;
    weft_runtime *runtime = create(0);
    gate_init(&gate);
    CHECK_OK(weft_job_submit(&job, runtime, pass, &gate));
    sem_wait(&gate.entered);
    pid_t child = fork();
    if (child == 0) {
        struct weft_job other;
        struct weft_blocking_stats stats = { .size = sizeof stats };
        bool good = weft_job_wait(NULL, &job, WEFT_FOREVER) == -ESRCH &&
                    weft_job_cancel(&job) == 0 &&
                    weft_job_submit(&other, runtime, count, &gate) == -ESRCH &&
                    weft_blocking_stats(runtime, &stats) == -ESRCH;
        _exit(good ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    sem_post(&gate.leave);
    CHECK_EQ(weft_job_wait(NULL, &job, WEFT_FOREVER), 0);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// Futures.

TEST_EVERYWHERE(a_blocking_future_is_awaited_and_spawned)
{
    struct weft_blocking_future blocking;
    weft_task *task;
    int value = 11;
    int result;
    weft_blocking_future_init(&blocking, NULL, return_arg, &value);
    CHECK_EQ(weft_await(&blocking.future, WEFT_FOREVER), 11);
    weft_blocking_future_init(&blocking, weft_runtime_current(), return_arg, &value);
    CHECK_OK(weft_spawn_future(&task, &blocking.future, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 11);
    weft_blocking_future_init(&blocking, NULL, NULL, NULL);
    CHECK_EQ(weft_await(&blocking.future, WEFT_FOREVER), -EINVAL);
}

static int cancel_futures(void *arg)
{
    struct crowded *crowded = arg;
    struct weft_blocking_future blocking;
    struct weft_job holder;
    weft_task *task;
    int result;
    gate_init(&crowded->gate);
    CHECK_OK(weft_job_submit(&holder, NULL, pass, &crowded->gate));
    sem_wait(&crowded->gate.entered);
    weft_blocking_future_init(&blocking, NULL, count, &crowded->calls);
    CHECK_EQ(weft_await(&blocking.future, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    weft_blocking_future_init(&blocking, NULL, count, &crowded->calls);
    CHECK_OK(weft_spawn_future(&task, &blocking.future, NULL));
    while (stats_of(weft_runtime_current()).queued == 0) {
        CHECK_OK(weft_yield());
    }
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(atomic_load(&crowded->calls), 0);
    sem_post(&crowded->gate.leave);
    CHECK_EQ(weft_job_wait(NULL, &holder, WEFT_FOREVER), 0);

    // One that runs is awaited.
    weft_blocking_future_init(&blocking, NULL, pass, &crowded->gate);
    CHECK_OK(weft_spawn_future(&task, &blocking.future, NULL));
    while (sem_trywait(&crowded->gate.entered) < 0) {
        CHECK_OK(weft_yield());
    }
    weft_task_cancel(task);
    CHECK_EQ(weft_join(&result, task, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    sem_post(&crowded->gate.leave);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 7);
    return 0;
}

TEST_DRIVERS(cancelling_a_blocking_future_withdraws_its_job)
{
    static struct crowded crowded;
    run(cancel_futures, &crowded, 1, 0);
}

// A waker that is not a task's.

struct loop {
    atomic_int wakes;
    atomic_int clones;
};

static void loop_clone(weft_waker *copy, const weft_waker *waker)
{
    atomic_fetch_add(&((struct loop *)waker->data)->clones, 1);
    *copy = *waker;
}

static void loop_drop(weft_waker *waker)
{
    atomic_fetch_sub(&((struct loop *)waker->data)->clones, 1);
}

static void loop_wake_by_ref(const weft_waker *waker)
{
    atomic_fetch_add(&((struct loop *)waker->data)->wakes, 1);
}

static void loop_wake(weft_waker *waker)
{
    loop_wake_by_ref(waker);
    loop_drop(waker);
}

static const struct weft_waker_vtable loop_vtable = { loop_clone, loop_wake, loop_wake_by_ref,
                                                      loop_drop };

TEST(a_foreign_loop_drives_a_blocking_future)
{
    struct loop loop = { 0 };
    struct gate gate;
    struct weft_blocking_future blocking;
    weft_waker waker = { &loop_vtable, &loop };
    weft_runtime *runtime = create(0);
    gate_init(&gate);
    weft_blocking_future_init(&blocking, runtime, pass, &gate);
    CHECK_EQ(blocking.future.poll(&blocking.future, &waker), WEFT_PENDING);
    CHECK_EQ(blocking.future.poll(&blocking.future, &waker), WEFT_PENDING);
    CHECK_EQ(atomic_load(&loop.wakes), 0);
    sem_post(&gate.leave);
    while (atomic_load(&loop.wakes) == 0) {
        sched_yield();
    }
    CHECK_EQ(blocking.future.poll(&blocking.future, &waker), WEFT_READY);
    CHECK_EQ(blocking.future.result, 7);
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&loop.clones), 0);
    CHECK_EQ(atomic_load(&loop.wakes), 1);
}

TEST(a_blocking_future_that_is_over_needs_no_runtime)
{
    struct loop loop = { 0 };
    struct gate gate;
    struct weft_blocking_future blocking;
    weft_waker waker = { &loop_vtable, &loop };
    weft_runtime *runtime = create(0);
    gate_init(&gate);
    weft_blocking_future_init(&blocking, runtime, pass, &gate);
    CHECK_EQ(blocking.future.poll(&blocking.future, &waker), WEFT_PENDING);
    sem_post(&gate.leave);
    CHECK_OK(weft_runtime_destroy(runtime)); // waits for the job
    blocking.future.cancel(&blocking.future);
    CHECK_EQ(blocking.future.poll(&blocking.future, &waker), WEFT_READY);
    CHECK_EQ(blocking.future.result, 7);
    CHECK_EQ(atomic_load(&loop.clones), 0);
}

// Everything at once.

struct storm {
    atomic_int calls;
    atomic_int done;
    atomic_int withdrawn;
    uint64_t seed;
};

static int storm_task(void *arg)
{
    struct storm *storm = arg;
    uint64_t random = storm->seed + weft_task_id(weft_self());
    for (int i = 0; i < 20; i++) {
        weft_time deadline = test_random(&random) % 2 == 0
                                 ? WEFT_FOREVER
                                 : weft_after(test_random(&random) % (50 * WEFT_US));
        int rc = weft_blocking(count, &storm->calls, deadline);
        CHECK(rc >= 0 || rc == -ETIMEDOUT || rc == -ECANCELED);
        atomic_fetch_add(rc >= 0 ? &storm->done : &storm->withdrawn, 1);
    }
    return 0;
}

static int storm_main(void *arg)
{
    struct storm *storm = arg;
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    uint64_t random = storm->seed;
    int tasks = (int)test_scaled(200);
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    for (int i = 0; i < tasks; i++) {
        weft_task *task;
        CHECK_OK(weft_scope_spawn_task(&task, &scope, storm_task, storm, &attr));
        if (test_random(&random) % 8 == 0) {
            weft_task_cancel(task);
        }
        weft_task_release(task);
    }
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_EQ(atomic_load(&storm->done), atomic_load(&storm->calls));
    CHECK_EQ(atomic_load(&storm->done) + atomic_load(&storm->withdrawn), tasks * 20);
    struct weft_blocking_stats stats = stats_of(weft_runtime_current());
    CHECK_EQ(stats.queued, 0);
    CHECK_LE(stats.most_threads, 4);
    return 0;
}

TEST_DRIVERS(no_job_is_lost_or_run_twice_in_a_storm)
{
    static struct storm storm;
    storm.seed = test_seed();
    run(storm_main, &storm, 4, 50 * WEFT_US); // threads come and go all the time
}
