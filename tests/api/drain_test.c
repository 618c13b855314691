// drain_test.c - graceful shutdown: idle tasks end at once, work in flight is finished, and then force.
//
// The bodies call weft_shutdown_request() from inside. They are cancelled by it themselves, but
// weft_join() is not a cancellation point, so they can still wait for the others.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft.h>

static const struct weft_attr spread = { .size = sizeof(struct weft_attr),
                                         .place = WEFT_PLACE_SPREAD };

static atomic_int ready;
static atomic_int finished;

/// Lets the others run until `count` of them have said that they are ready.
static void await_ready(int count)
{
    while (atomic_load(&ready) < count) {
        (void)weft_yield();
    }
}

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

static int be_idle(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ready, 1);
    return weft_sleep(WEFT_FOREVER);
}

static int work_for_ever(void *arg)
{
    CHECK_OK(weft_work_begin());
    int rc = be_idle(arg);
    weft_work_end();
    return rc;
}

TEST_EVERYWHERE(idle_tasks_are_cancelled_at_once)
{
    weft_task *tasks[20];
    CHECK(!weft_shutting_down());
    for (int i = 0; i < 20; i++) {
        tasks[i] = start(be_idle, NULL);
    }
    await_ready(20);
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK(weft_shutting_down());
    CHECK_EQ(weft_cancelled(), -ECANCELED);
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(result_of(tasks[i]), -ECANCELED);
    }
    weft_task *task;
    CHECK_EQ(weft_spawn(&task, be_idle, NULL, NULL), -ECANCELED);
    CHECK_EQ(weft_go(be_idle, NULL), -ECANCELED);
}

// Work in flight.

static int nap(void *arg)
{
    (void)arg;
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK_EQ(weft_cancelled(), 0);
    atomic_fetch_add(&finished, 1);
    return 0;
}

static int answer_one_request(void *arg)
{
    CHECK_OK(weft_work_begin());
    atomic_fetch_add(&ready, 1);
    while (!weft_shutting_down()) {
        CHECK_OK(weft_yield());
    }
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK_OK(weft_yield());
    CHECK_OK(weft_checkpoint());
    CHECK_EQ(nap(arg), 0);
    CHECK_EQ(weft_go(nap, NULL), -ECANCELED); // the root scope is outside the guard
    weft_work_end();
    CHECK_EQ(weft_cancelled(), -ECANCELED);
    return weft_sleep(WEFT_FOREVER);
}

TEST_EVERYWHERE(work_in_flight_is_finished)
{
    weft_task *tasks[10];
    for (int i = 0; i < 10; i++) {
        tasks[i] = start(answer_one_request, NULL);
    }
    await_ready(10);
    CHECK_OK(weft_shutdown_request(NULL));
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(result_of(tasks[i]), -ECANCELED);
    }
    CHECK_EQ(atomic_load(&finished), 10);
}

static int work_below(void *arg)
{
    int depth = *(int *)arg;
    int below = depth - 1;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &spread);
    atomic_fetch_add(&ready, depth == 3);
    while (!weft_shutting_down()) {
        CHECK_OK(weft_yield());
    }
    CHECK_OK(weft_sleep(WEFT_US));
    for (int i = 0; i < 3 && depth > 0; i++) {
        CHECK_OK(weft_scope_spawn(&scope, work_below, &below));
    }
    CHECK_EQ(weft_scope_cause(&scope), 0);
    CHECK_EQ(weft_scope_join(&scope), 0);
    atomic_fetch_add(&finished, 1);
    return 0;
}

static int work_with_children(void *arg)
{
    (void)arg;
    int depth = 3;
    CHECK_OK(weft_work_begin());
    CHECK_EQ(work_below(&depth), 0);
    weft_work_end();
    return weft_yield();
}

TEST_EVERYWHERE(children_of_work_are_started_and_finished)
{
    weft_task *task = start(work_with_children, NULL);
    await_ready(1);
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK_EQ(result_of(task), -ECANCELED);
    CHECK_EQ(atomic_load(&finished), 1 + 3 + 9 + 27);
}

TEST_EVERYWHERE(a_guard_that_begins_during_the_drain_guards)
{
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK_OK(weft_work_begin());
    CHECK_OK(weft_yield());
    CHECK_EQ(nap(NULL), 0);
    weft_work_end();
    CHECK_EQ(weft_yield(), -ECANCELED);
}

TEST_EVERYWHERE(the_outermost_guard_counts)
{
    CHECK_OK(weft_work_begin());
    CHECK_OK(weft_work_begin());
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK_OK(weft_yield());
    weft_work_end();
    CHECK_OK(weft_yield());
    CHECK_OK(weft_work_begin());
    weft_work_end();
    CHECK_OK(weft_yield());
    weft_work_end();
    CHECK_EQ(weft_yield(), -ECANCELED);
}

// A server: its scope is drained, the work of those in it goes on.

static int idle_or_work(void *arg)
{
    return arg != NULL ? answer_one_request(NULL) : be_idle(NULL);
}

static int serve(void *arg)
{
    int policy = *(int *)arg;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, policy, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &spread);
    for (int i = 0; i < 10; i++) {
        CHECK_OK(weft_scope_spawn(&scope, idle_or_work, i % 2 == 0 ? NULL : arg));
    }
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_scope_cause(&scope), -ECANCELED);
    CHECK_EQ(weft_scope_spawn(&scope, idle_or_work, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_EQ(weft_scope_cause(&scope), -ECANCELED);
    return 0;
}

TEST_EVERYWHERE(a_drained_scope_lets_its_children_work)
{
    static int policies[] = { WEFT_SCOPE_COLLECT, WEFT_SCOPE_ALL, WEFT_SCOPE_FIRST };
    weft_task *tasks[3];
    for (int i = 0; i < 3; i++) {
        tasks[i] = start(serve, &policies[i]);
    }
    await_ready(30);
    CHECK_OK(weft_shutdown_request(NULL));
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(result_of(tasks[i]), 0);
    }
    CHECK_EQ(atomic_load(&finished), 15);
}

static int fail_after_the_drain(void *arg)
{
    (void)arg;
    CHECK_OK(weft_work_begin());
    atomic_fetch_add(&ready, 1);
    while (!weft_shutting_down()) {
        CHECK_OK(weft_yield());
    }
    CHECK_OK(weft_sleep(WEFT_MS));
    return -EIO; // and so ends the guard
}

static int serve_until_one_fails(void *arg)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, work_for_ever, arg));
    CHECK_OK(weft_scope_spawn(&scope, fail_after_the_drain, arg));
    return weft_scope_join(&scope);
}

TEST_EVERYWHERE(a_failure_during_the_drain_cancels_work)
{
    weft_task *task = start(serve_until_one_fails, NULL);
    await_ready(2);
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK_EQ(result_of(task), -EIO);
}

// A guard hides the shutdown and nothing else.

static int own_a_scope(void *arg)
{
    struct weft_scope *scope = arg;
    CHECK_OK(weft_scope_init(scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    weft_scope_set_attr(scope, &spread);
    CHECK_OK(weft_scope_spawn(scope, work_for_ever, NULL));
    CHECK_OK(weft_scope_spawn(scope, work_for_ever, NULL));
    return weft_scope_join(scope);
}

TEST_EVERYWHERE(a_guard_in_a_cancelled_scope_is_cancelled)
{
    struct weft_scope scope;
    weft_task *task = start(own_a_scope, &scope);
    await_ready(2);
    weft_scope_cancel(&scope);
    CHECK_EQ(result_of(task), -ECANCELED);
    CHECK(!weft_shutting_down());
}

TEST_EVERYWHERE(a_drained_scope_can_still_be_cancelled)
{
    struct weft_scope scope;
    weft_task *task = start(own_a_scope, &scope);
    await_ready(2);
    CHECK_OK(weft_shutdown_request(NULL));
    for (int i = 0; i < 10; i++) {
        (void)weft_yield();
    }
    weft_scope_cancel(&scope);
    CHECK_EQ(result_of(task), -ECANCELED);
}

/// The owner waits for its children, has felt the drain, and is then cancelled from further out.
static int own_an_inner_scope(void *arg)
{
    struct weft_scope inner;
    (void)arg;
    CHECK_EQ(own_a_scope(&inner), -ECANCELED);
    return 0;
}

static int own_an_outer_scope(void *arg)
{
    struct weft_scope *outer = arg;
    CHECK_OK(weft_scope_init(outer, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(outer, own_an_inner_scope, NULL));
    return weft_scope_join(outer);
}

TEST_EVERYWHERE(a_drained_owner_passes_a_later_cancel_on)
{
    struct weft_scope outer;
    weft_task *task = start(own_an_outer_scope, &outer);
    await_ready(2);
    CHECK_OK(weft_shutdown_request(NULL));
    weft_scope_cancel(&outer);
    CHECK_EQ(result_of(task), -ECANCELED);
}

TEST_EVERYWHERE(a_cancelled_task_does_not_hide_in_a_guard)
{
    weft_task *task = start(work_for_ever, NULL);
    await_ready(1);
    weft_task_cancel(task);
    CHECK_EQ(result_of(task), -ECANCELED);
}

TEST_EVERYWHERE(deadlines_come_through_a_guard)
{
    struct weft_scope scope;
    CHECK_OK(weft_work_begin());
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(WEFT_MS)));
    CHECK_OK(weft_scope_spawn(&scope, be_idle, NULL));
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
    CHECK_OK(weft_yield());
    weft_work_end();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_WORK, weft_after(WEFT_MS)));
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
}

// Force.

TEST_EVERYWHERE(a_second_request_forces)
{
    weft_task *tasks[10];
    for (int i = 0; i < 10; i++) {
        tasks[i] = start(work_for_ever, NULL);
    }
    await_ready(10);
    CHECK_OK(weft_shutdown_request(NULL));
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_join(NULL, tasks[i], weft_after(10 * WEFT_US)), -ETIMEDOUT);
    }
    CHECK_OK(weft_work_begin());
    CHECK_OK(weft_yield());
    CHECK_OK(weft_shutdown_request(NULL));
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(result_of(tasks[i]), -ECANCELED);
    }
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK_OK(weft_shutdown_request(NULL)); // any more change nothing
    weft_work_end();
}

static int scope_of_work(void *arg)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT | WEFT_SCOPE_WORK, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, nap, NULL));
    CHECK_OK(weft_scope_spawn(&scope, be_idle, NULL));
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED); // by force
    CHECK_EQ(weft_scope_spawn(&scope, nap, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_EQ(weft_scope_cause(&scope), -ECANCELED);
    (void)arg;
    return 5;
}

TEST_EVERYWHERE(a_scope_of_work_is_a_guard)
{
    weft_task *task = start(scope_of_work, NULL);
    await_ready(1);
    CHECK_OK(weft_shutdown_request(NULL));
    while (atomic_load(&finished) == 0) {
        (void)weft_yield();
    }
    CHECK(!weft_task_done(task));
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK_EQ(result_of(task), 5);
}

static void shielded(int flags, int around)
{
    struct weft_scope outer;
    struct weft_scope inner;
    CHECK_OK(weft_scope_init(&outer, around, WEFT_FOREVER));
    CHECK_OK(weft_scope_init(&inner, flags, WEFT_FOREVER));
    CHECK_OK(weft_yield());
    CHECK_OK(weft_scope_spawn(&inner, nap, NULL));
    CHECK_EQ(weft_scope_join(&inner), 0);
    (void)weft_scope_join(&outer);
}

TEST_EVERYWHERE(shields_hold_where_guards_break)
{
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK_OK(weft_shutdown_request(NULL));
    shielded(WEFT_SCOPE_SHIELD, WEFT_SCOPE_ALL);
    shielded(WEFT_SCOPE_SHIELD, WEFT_SCOPE_WORK);
    shielded(WEFT_SCOPE_WORK, WEFT_SCOPE_SHIELD);
    shielded(WEFT_SCOPE_SHIELD | WEFT_SCOPE_WORK, WEFT_SCOPE_ALL);
    shielded(WEFT_SCOPE_ALL, WEFT_SCOPE_SHIELD);
    CHECK_OK(weft_work_begin());
    shielded(WEFT_SCOPE_SHIELD, WEFT_SCOPE_ALL);
    weft_work_end();
    struct weft_scope shield;
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    CHECK_OK(weft_work_begin());
    CHECK_OK(weft_yield());
    weft_work_end();
    CHECK_OK(weft_yield());
    CHECK_EQ(weft_scope_join(&shield), 0);
    CHECK_EQ(weft_yield(), -ECANCELED);
}

// Where a request may come from.

static void request_from_timer(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_work_begin(), -EPERM);
    weft_work_end(); // which does nothing here
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK(weft_shutting_down());
}

TEST_EVERYWHERE(a_timer_function_may_request)
{
    struct weft_timer timer;
    CHECK_OK(weft_timer_init(&timer, request_from_timer, NULL));
    weft_timer_set(&timer, weft_after(WEFT_MS));
    weft_task *task = start(be_idle, NULL);
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(result_of(task), -ECANCELED);
    CHECK_EQ(weft_timer_stop(&timer), 0);
}

static enum weft_poll poll_request(struct weft_future *future, weft_waker *waker)
{
    (void)waker;
    if (weft_cancelled() == 0) {
        CHECK_EQ(weft_work_begin(), -EPERM);
        CHECK_OK(weft_shutdown_request(NULL));
        return WEFT_PENDING;
    }
    future->result = 7;
    return WEFT_READY;
}

TEST_EVERYWHERE(a_future_may_request_and_is_cancelled)
{
    struct weft_future future;
    weft_task *task;
    weft_future_init(&future, poll_request, NULL);
    CHECK_OK(weft_spawn_future(&task, &future, NULL));
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(result_of(task), 7);
}

static void *request_from_thread(void *runtime)
{
    CHECK(!weft_shutting_down());
    CHECK_OK(weft_shutdown_request(runtime));
    return NULL;
}

TEST_DRIVERS(any_thread_may_request)
{
    weft_runtime *runtime;
    weft_task *tasks[2];
    pthread_t thread;
    CHECK_EQ(weft_shutdown_request(NULL), -EPERM);
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_runtime_spawn(&tasks[0], runtime, be_idle, NULL, NULL));
    CHECK_OK(weft_runtime_spawn(&tasks[1], runtime, work_for_ever, NULL, NULL));
    while (atomic_load(&ready) < 2) {
        sched_yield();
    }
    CHECK_EQ(pthread_create(&thread, NULL, request_from_thread, runtime), 0);
    CHECK_EQ(result_of(tasks[0]), -ECANCELED);
    pthread_join(thread, NULL);
    CHECK(!weft_task_done(tasks[1]));
    CHECK_OK(weft_shutdown_request(runtime));
    CHECK_EQ(result_of(tasks[1]), -ECANCELED);
    CHECK_EQ(weft_runtime_shutdown(runtime, WEFT_FOREVER), 0);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_DRIVERS(a_request_may_come_before_anything_runs)
{
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_shutdown_request(runtime));
    CHECK_EQ(weft_runtime_spawn(NULL, runtime, be_idle, NULL, NULL), -ECANCELED);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int request_at_once(void *arg)
{
    (void)arg;
    CHECK_OK(weft_shutdown_request(NULL));
    return weft_yield();
}

TEST_DRIVERS(the_result_of_the_first_thread_is_returned)
{
    CHECK_EQ(weft_run(request_at_once, NULL, NULL), -ECANCELED);
}

TEST_DRIVERS(a_request_and_the_end_of_a_run_may_meet)
{
    for (uint64_t i = test_scaled(200); i > 0; i--) {
        weft_runtime *runtime;
        pthread_t threads[2];
        CHECK_OK(weft_runtime_create(&runtime, NULL));
        CHECK_OK(weft_runtime_spawn(NULL, runtime, work_for_ever, NULL, NULL));
        for (int k = 0; k < 2; k++) {
            CHECK_EQ(pthread_create(&threads[k], NULL, request_from_thread, runtime), 0);
        }
        CHECK_EQ(weft_runtime_shutdown(runtime, WEFT_FOREVER), 0);
        for (int k = 0; k < 2; k++) {
            pthread_join(threads[k], NULL);
        }
        CHECK_OK(weft_runtime_destroy(runtime));
    }
}

// The grace period.

static int hold_on(void *arg)
{
    weft_time *forced = arg;
    CHECK_OK(weft_work_begin());
    int rc = be_idle(NULL);
    *forced = weft_now();
    return rc;
}

struct grace {
    weft_time ns;
    weft_time requested;
    weft_time forced;
};

/// Nobody waits for the shutdown from outside: `fn` itself is at work.
static int hold_on_as_first_thread(void *arg)
{
    struct grace *grace = arg;
    CHECK_OK(weft_shutdown_request(NULL));
    grace->requested = weft_now();
    CHECK_EQ(hold_on(&grace->forced), -ECANCELED);
    return 3;
}

/// The first thread returns, and what it leaves is at work.
static int leave_one_that_holds_on(void *arg)
{
    struct grace *grace = arg;
    CHECK_OK(weft_go(hold_on, &grace->forced));
    await_ready(1);
    grace->requested = weft_now();
    return 3;
}

static void check_grace(const struct grace *grace)
{
    CHECK_GE(grace->forced - grace->requested, grace->ns / 10 * 9 - 50 * WEFT_MS);
    CHECK_LE(grace->forced - grace->requested, grace->ns);
}

TEST_DRIVERS(the_last_tenth_of_the_grace_period_is_for_the_forced)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    struct grace grace = { .ns = 2 * WEFT_S };
    options.grace_ns = grace.ns;
    CHECK_EQ(weft_run(hold_on_as_first_thread, &grace, &options), 3);
    check_grace(&grace);
    atomic_store(&ready, 0);
    CHECK_EQ(weft_run(leave_one_that_holds_on, &grace, &options), 3);
    check_grace(&grace);
}

TEST(the_simulator_has_a_last_tenth_as_well)
{
    struct weft_sim_options options = { .seed = test_seed(), .grace_ns = 1000 * WEFT_S };
    struct grace grace = { .ns = options.grace_ns };
    CHECK_EQ(weft_sim_run(NULL, hold_on_as_first_thread, &grace, &options), 3);
    check_grace(&grace);
    atomic_store(&ready, 0);
    CHECK_EQ(weft_sim_run(NULL, leave_one_that_holds_on, &grace, &options), 3);
    check_grace(&grace);
}

TEST_DRIVERS(without_grace_the_force_comes_at_once)
{
    weft_runtime *runtime;
    weft_task *task;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_runtime_spawn(&task, runtime, work_for_ever, NULL, NULL));
    (void)weft_runtime_shutdown(runtime, 0); // 0 or -EBUSY: a moment is not enough for everyone
    CHECK_EQ(result_of(task), -ECANCELED);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int request_and_work(void *arg)
{
    (void)arg;
    CHECK_OK(weft_work_begin());
    CHECK_OK(weft_shutdown_request(NULL));
    atomic_fetch_add(&ready, 1);
    CHECK_OK(weft_sleep(20 * WEFT_MS));
    atomic_fetch_add(&finished, 1);
    return 0;
}

TEST_DRIVERS(a_shutdown_joins_a_drain_that_has_begun)
{
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_runtime_spawn(NULL, runtime, request_and_work, NULL, NULL));
    while (atomic_load(&ready) == 0) {
        sched_yield();
    }
    CHECK_EQ(weft_runtime_shutdown(runtime, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&finished), 1);
    CHECK_EQ(weft_runtime_shutdown(runtime, 0), 0);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// Misuse.

static int end_what_was_not_begun(void *arg)
{
    (void)arg;
    weft_work_end();
    return 0;
}

TEST_DRIVERS(an_end_without_a_beginning_aborts)
{
    CHECK_EQ(weft_work_begin(), -EPERM);
    weft_work_end(); // outside a task there is nothing to end
    pid_t pid = fork();
    CHECK_OK(pid);
    if (pid == 0) {
        CHECK_OK(dup2(STDOUT_FILENO, STDERR_FILENO));
        _exit(weft_run(end_what_was_not_begun, NULL, NULL) + 1);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
}
