// simend_test.c - the edges of a simulation: the end of virtual time, a stack that overflows, other
// runtimes next to it, and a dump that is taken while it starts.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <weft.h>

static struct gathered logged;

static struct weft_sim_options quiet(void)
{
    gathered_clear(&logged);
    return (struct weft_sim_options){ .seed = test_seed(), .log = gather_log, .log_ctx = &logged };
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

// The end of virtual time.

static int clean_up_slowly(void *arg)
{
    struct weft_scope scope;
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    CHECK_OK(weft_sleep(3600 * WEFT_S));
    CHECK_EQ(weft_scope_join(&scope), 0);
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

static int leave_one(void *arg)
{
    CHECK_OK(weft_go(clean_up_slowly, arg));
    CHECK_OK(weft_sleep(WEFT_MS));
    return 17;
}

TEST(a_grace_period_may_last_for_ever)
{
    static const weft_time long_ones[] = { WEFT_FOREVER, WEFT_FOREVER - 1, 3601 * WEFT_S };
    struct weft_sim_options options = quiet();
    atomic_int cleaned = 0;
    for (int i = 0; i < 3; i++) {
        options.grace_ns = long_ones[i];
        CHECK_EQ(weft_sim_run(NULL, leave_one, &cleaned, &options), 17);
        CHECK_EQ(atomic_load(&cleaned), i + 1);
    }
    CHECK_EQ(logged.count, 0);
    options.grace_ns = 3599 * WEFT_S;
    CHECK_EQ(weft_sim_run(NULL, leave_one, &cleaned, &options), -EBUSY);
}

static int sleep_until_late(void *arg)
{
    weft_time when = *(const weft_time *)arg;
    CHECK_OK(weft_sleep_until(when));
    CHECK_GE(weft_now(), when);
    CHECK_LT(weft_now(), WEFT_FOREVER);
    CHECK_OK(weft_yield());
    return 3;
}

TEST(virtual_time_ends_before_for_ever)
{
    static weft_time late[] = { WEFT_FOREVER / 2, WEFT_FOREVER - 3600 * WEFT_S,
                                WEFT_FOREVER - 40 * WEFT_US, WEFT_FOREVER - 1 };
    for (int i = 0; i < 4; i++) {
        struct weft_sim_options options = quiet();
        struct weft_sim_result result;
        options.limit_steps = 100000;
        CHECK_EQ(weft_sim_run(&result, sleep_until_late, &late[i], &options), 3);
        CHECK_GE(result.virtual_ns, late[i] - WEFT_S); // it starts at one second
        CHECK_LT(result.steps, 1000);
    }
}

static int sleep_on_and_on(void *arg)
{
    (void)arg;
    for (;;) {
        CHECK_OK(weft_sleep(WEFT_FOREVER / 8));
    }
    return 0;
}

/// A sleep that would end after the end of time is one for ever, and nobody is left to end it.
TEST(a_sleep_past_the_end_of_time_is_reported)
{
    struct weft_sim_options options = quiet();
    options.limit_steps = 100000;
    CHECK_EQ(weft_sim_run(NULL, sleep_on_and_on, NULL, &options), -EDEADLK);
    CHECK_LOGGED(&logged, "everyone is asleep");
    CHECK_LOGGED(&logged, "\"main\" thread, waiting, sleep for ");
}

// An overflow says in which thread it was. The process that has it is a child of ours.

static volatile int bottomless = 1;

static __attribute__((noinline)) int recurse(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    return bottomless ? recurse(depth + 1) + frame[0] : 0;
}

static int overflow(void *arg)
{
    (void)arg;
    return recurse(0);
}

static int start_the_overflow(void *arg)
{
    (void)arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    attr.name = "digger";
    CHECK_OK(weft_spawn(&task, overflow, NULL, &attr));
    return weft_join(NULL, task, WEFT_FOREVER);
}

TEST(an_overflow_in_a_simulation_is_reported)
{
    char text[2048];
    int status;
    struct captured captured = capture_stderr();
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); // sanitizers have a handler of their own
        (void)weft_sim_run(NULL, start_the_overflow, NULL, NULL);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    captured_end(&captured, text, sizeof text);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGSEGV);
    CHECK(strstr(text, "weft: stack overflow in virtual thread \"digger\" (id ") != NULL);
}

TEST(a_simulation_leaves_no_signal_stack_behind)
{
    stack_t before;
    stack_t after;
    CHECK_EQ(sigaltstack(NULL, &before), 0);
    CHECK_EQ(weft_sim_run(NULL, nothing, NULL, NULL), 0);
    CHECK_EQ(sigaltstack(NULL, &after), 0);
    CHECK_EQ(after.ss_flags, before.ss_flags);
    CHECK_EQ(after.ss_sp, before.ss_sp);
}

// Other runtimes are out of reach: what they do is in no seed.

struct outside {
    weft_runtime *runtime;
    weft_task *task;
    struct weft_timer timer;
    struct weft_scope scope;
    atomic_int open;
};

static void never(void *arg)
{
    (void)arg;
    FAIL("the timer fired");
}

static int sleep_in_a_scope(void *arg)
{
    struct outside *outside = arg;
    CHECK_OK(weft_scope_init(&outside->scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    atomic_store(&outside->open, 1);
    (void)weft_sleep(WEFT_FOREVER);
    CHECK_EQ(weft_scope_cause(&outside->scope), -ECANCELED);
    return weft_scope_join(&outside->scope);
}

static int reach_out(void *arg)
{
    struct outside *outside = arg;
    struct weft_timer timer;
    struct weft_future future;
    weft_task *task = outside->task;
    weft_future_init(&future, NULL, NULL);
    CHECK_EQ(weft_join(NULL, outside->task, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_join(NULL, outside->task, 0), -ENOTSUP);
    CHECK_EQ(weft_runtime_spawn(&task, outside->runtime, nothing, NULL, NULL), -ENOTSUP);
    CHECK(task == NULL);
    CHECK_EQ(weft_runtime_spawn_future(NULL, outside->runtime, &future, NULL), -ENOTSUP);
    CHECK_EQ(weft_timer_init_on(&timer, outside->runtime, 0, never, NULL), -ENOTSUP);
    CHECK_EQ(weft_timer_stop(&outside->timer), -ENOTSUP);
    weft_timer_set(&outside->timer, 1);
    weft_task_cancel(outside->task);
    weft_scope_cancel(&outside->scope);
    CHECK_EQ(weft_runtime_shutdown(outside->runtime, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_runtime_destroy(outside->runtime), -ENOTSUP);
    weft_task_release(weft_task_retain(outside->task)); // this much is fine
    return 7;
}

TEST_DRIVERS(a_simulated_task_does_not_reach_other_runtimes)
{
    struct outside outside = { .open = 0 };
    int result;
    CHECK_OK(weft_runtime_create(&outside.runtime, NULL));
    CHECK_OK(weft_runtime_spawn(&outside.task, outside.runtime, sleep_in_a_scope, &outside, NULL));
    CHECK_OK(weft_timer_init_on(&outside.timer, outside.runtime, 0, never, NULL));
    weft_timer_set(&outside.timer, weft_after(3600 * WEFT_S));
    while (!atomic_load(&outside.open)) {
        sched_yield();
    }
    CHECK_EQ(weft_sim_run(NULL, reach_out, &outside, NULL), 7);
    CHECK_EQ(weft_join(NULL, outside.task, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_scope_cause(&outside.scope), 0);
    CHECK_EQ(weft_timer_stop(&outside.timer), 1);
    weft_task_cancel(outside.task);
    CHECK_OK(weft_join(&result, outside.task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_runtime_destroy(outside.runtime));
}

// Dumps from another thread.

static atomic_bool stop;

static void *dump_on_and_on(void *arg)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK_OK(fd);
    while (!atomic_load(&stop)) {
        CHECK_OK(weft_dump_tasks(fd));
    }
    close(fd);
    return arg;
}

static int nap(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_MS);
}

static int nap_together(void *arg)
{
    (void)arg;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < 8; i++) {
        CHECK_OK(weft_scope_spawn(&scope, nap, NULL));
    }
    return weft_scope_join(&scope);
}

TEST(dumps_may_be_taken_while_simulations_come_and_go)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, dump_on_and_on, NULL), 0);
    for (uint64_t i = test_scaled(200); i > 0; i--) {
        struct weft_sim_options options = { .seed = i, .carriers = 1 + (int)(i % 4) };
        CHECK_EQ(weft_sim_run(NULL, nap_together, NULL, &options), 0);
    }
    atomic_store(&stop, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
