// Forks: the child has none of the carriers; it may exec or start afresh, and says so otherwise.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <weft.h>

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

/// The thread sanitizer kills a forked child that makes threads; so does qemu-user.
static bool child_may_make_threads(void)
{
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
    return false;
#else
    return !test_is_emulated();
#endif
}

/// The address sanitizer's allocator may be locked for ever in the child of a busy process.
static bool child_of_busy_process_may_allocate(void)
{
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
    return false;
#else
    return true;
#endif
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int thirteen(void *arg)
{
    (void)arg;
    CHECK_OK(weft_sleep(WEFT_US));
    return 13;
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

static void expect_success(pid_t pid)
{
    int status;
    CHECK_OK(pid);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

static int in_new_runtime(void *arg)
{
    (void)arg;
    weft_task *task;
    int result;
    CHECK_OK(weft_spawn(&task, thirteen, NULL, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    return result;
}

static void start_afresh(void)
{
    if (child_may_make_threads()) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        options.carriers = 2;
        CHECK_EQ(weft_run(in_new_runtime, NULL, &options), 13);
    }
    CHECK_EQ(weft_sim_run(NULL, in_new_runtime, NULL, NULL), 13);
}

struct parent {
    weft_runtime *runtime;
    weft_task *task;
    struct weft_timer timer;
};

static void set_up(struct parent *parent)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&parent->runtime, &options));
    CHECK_OK(weft_runtime_spawn(&parent->task, parent->runtime, wait_for_cancel, NULL, NULL));
    CHECK_OK(weft_timer_init_on(&parent->timer, parent->runtime, 1, never, NULL));
    weft_timer_set(&parent->timer, weft_after(3600 * WEFT_S));
}

static void tear_down(struct parent *parent)
{
    int result;
    CHECK_EQ(weft_timer_stop(&parent->timer), 1);
    weft_task_cancel(parent->task);
    CHECK_OK(weft_join(&result, parent->task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_runtime_destroy(parent->runtime));
}

static void check_refusals(struct parent *parent)
{
    weft_task *task = parent->task;
    struct weft_timer timer;
    struct weft_future future;
    weft_future_init(&future, NULL, NULL);
    CHECK_EQ(weft_runtime_spawn(&task, parent->runtime, nothing, NULL, NULL), -ESRCH);
    CHECK(task == NULL);
    CHECK_EQ(weft_runtime_spawn_future(NULL, parent->runtime, &future, NULL), -ESRCH);
    CHECK_EQ(weft_join(NULL, parent->task, WEFT_FOREVER), -ESRCH);
    CHECK_EQ(weft_join(NULL, parent->task, 0), -ESRCH);
    CHECK_EQ(weft_timer_init_on(&timer, parent->runtime, 0, never, NULL), -ESRCH);
    CHECK_EQ(weft_runtime_resize(parent->runtime, 1), -ESRCH);
    CHECK_EQ(weft_shutdown_request(parent->runtime), -ESRCH);
    CHECK_EQ(weft_runtime_shutdown(parent->runtime, WEFT_FOREVER), -ESRCH);
    CHECK_EQ(weft_runtime_destroy(parent->runtime), -ESRCH);
    weft_task_cancel(parent->task);
    CHECK(!weft_task_done(parent->task));
    CHECK_EQ(weft_runtime_carriers(parent->runtime), 2);
    weft_task_release(weft_task_retain(parent->task));
}

TEST_DRIVERS(the_child_of_a_plain_thread)
{
    struct parent parent;
    set_up(&parent);
    pid_t pid = fork();
    if (pid == 0) {
        check_refusals(&parent);
        CHECK(weft_runtime_current() == NULL);
        CHECK_EQ(weft_yield(), -EPERM);
        start_afresh();
        check_refusals(&parent);
        _exit(0);
    }
    expect_success(pid);
    tear_down(&parent);
}

TEST_DRIVERS(timers_of_the_parent_do_nothing_in_the_child)
{
    struct parent parent;
    set_up(&parent);
    pid_t pid = fork();
    if (pid == 0) {
        weft_timer_set(&parent.timer, 1);
        CHECK_EQ(weft_timer_stop(&parent.timer), -ESRCH);
        _exit(0);
    }
    expect_success(pid);
    tear_down(&parent);
}

TEST_DRIVERS(a_shut_down_runtime_in_the_child)
{
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_runtime_shutdown(runtime, WEFT_S));
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_EQ(weft_runtime_destroy(runtime), -ESRCH);
        _exit(0);
    }
    expect_success(pid);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// The fork may come while a carrier holds the lock of the stacks, which the child inherits locked.

static _Atomic bool enough;

static int use_stacks(void *arg)
{
    while (!atomic_load(&enough)) {
        weft_task *task;
        CHECK_OK(weft_spawn(&task, nothing, NULL, arg));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    }
    return 0;
}

struct held {
    sem_t ready;
    weft_waker waker;
};

static int leave_a_waker(void *arg)
{
    struct held *held = arg;
    CHECK_OK(weft_waker_self(&held->waker));
    sem_post(&held->ready);
    return 0;
}

TEST_DRIVERS(handles_of_the_parent_are_let_go_at_once_in_the_child)
{
    struct parent parent;
    struct held held;
    struct weft_attr uncached = WEFT_ATTR_INIT; // not of the default size
    weft_task *users[2];
    weft_task *ended;
    set_up(&parent);
    uncached.stack_size_bytes = (size_t)128 << 10;
    sem_init(&held.ready, 0, 0);
    CHECK_OK(weft_runtime_spawn(&ended, parent.runtime, nothing, NULL, &uncached));
    CHECK_OK(weft_join(NULL, weft_task_retain(ended), WEFT_FOREVER));
    CHECK_OK(weft_runtime_spawn(NULL, parent.runtime, leave_a_waker, &held, &uncached));
    sem_wait(&held.ready);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_runtime_spawn(&users[i], parent.runtime, use_stacks, &uncached, NULL));
    }
    for (uint64_t i = test_scaled(200); i > 0; i--) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            weft_task_release(ended);
            weft_waker_drop(&held.waker);
            weft_task_cancel(parent.task);
            weft_task_release(parent.task);
            _exit(0);
        }
        expect_success(pid);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_join(NULL, users[i], WEFT_FOREVER));
    }
    weft_task_release(ended);
    weft_waker_drop(&held.waker);
    CHECK(!weft_task_done(parent.task));
    tear_down(&parent);
}

TEST_DRIVERS(the_childs_dump_knows_only_its_own_tasks)
{
    struct parent parent;
    set_up(&parent);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_STR(dump_text(), "");
        _exit(0);
    }
    expect_success(pid);
    tear_down(&parent);
}

TEST_DRIVERS(the_default_runtime_is_made_anew)
{
    if (!child_may_make_threads()) {
        SKIP("no threads after fork");
    }
    weft_runtime *runtime = weft_runtime_default();
    CHECK(runtime != NULL);
    pid_t pid = fork();
    if (pid == 0) {
        weft_task *task;
        int result;
        CHECK(weft_runtime_default() != runtime);
        CHECK_OK(weft_runtime_spawn(&task, weft_runtime_default(), thirteen, NULL, NULL));
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK_EQ(result, 13);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            CHECK_EQ(weft_join(NULL, task, 0), -ESRCH);
            start_afresh();
            _exit(0);
        }
        expect_success(grandchild);
        _exit(0);
    }
    expect_success(pid);
    CHECK_OK(weft_runtime_spawn(NULL, weft_runtime_default(), thirteen, NULL, NULL));
}

// From inside a task.

static void check_inside(weft_task *sibling, weft_runtime *runtime)
{
    struct weft_scope scope;
    weft_task *task;
    weft_waker waker;
    struct weft_timer timer;
    CHECK(weft_self() == NULL);
    CHECK(weft_runtime_current() == NULL);
    CHECK_EQ(weft_carrier_id(), -1);
    CHECK_EQ(weft_spawn(&task, nothing, NULL, NULL), -ESRCH);
    CHECK_EQ(weft_go(nothing, NULL), -ESRCH);
    CHECK_EQ(weft_sleep(WEFT_S), -ESRCH);
    CHECK_EQ(weft_yield(), -ESRCH);
    CHECK_EQ(weft_checkpoint(), -ESRCH);
    CHECK_EQ(weft_cancelled(), -ESRCH);
    CHECK_EQ(weft_park(WEFT_FOREVER), -ESRCH);
    CHECK_EQ(weft_waker_self(&waker), -ESRCH);
    CHECK_EQ(weft_timer_init(&timer, never, NULL), -ESRCH);
    CHECK_EQ(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER), -ESRCH);
    CHECK_EQ(weft_scope_spawn(&scope, nothing, NULL), -ESRCH);
    CHECK_EQ(weft_scope_join(&scope), -ESRCH);
    CHECK_EQ(weft_join(NULL, sibling, WEFT_FOREVER), -ESRCH);
    CHECK_EQ(weft_runtime_spawn(NULL, runtime, nothing, NULL, NULL), -ESRCH);
    CHECK_EQ(weft_runtime_shutdown(runtime, 0), -ESRCH);
}

static int fork_inside(void *arg)
{
    (void)arg;
    weft_runtime *runtime = weft_runtime_current();
    weft_task *sibling;
    struct weft_scope open;
    CHECK_OK(weft_spawn(&sibling, wait_for_cancel, NULL, NULL));
    CHECK_OK(weft_scope_init(&open, WEFT_SCOPE_ALL, weft_after(60 * WEFT_S)));
    CHECK_OK(weft_scope_spawn(&open, nothing, NULL));
    pid_t pid = fork();
    if (pid == 0) {
        check_inside(sibling, runtime);
        CHECK_EQ(weft_scope_spawn(&open, nothing, NULL), -ESRCH);
        CHECK_EQ(weft_scope_join(&open), -ESRCH);
        start_afresh();
        check_inside(sibling, runtime);
        _exit(0);
    }
    expect_success(pid);
    CHECK(weft_runtime_current() == runtime);
    CHECK_EQ(weft_scope_join(&open), 0);
    CHECK_OK(weft_sleep(WEFT_MS));
    weft_task_cancel(sibling);
    CHECK_OK(weft_join(NULL, sibling, WEFT_FOREVER));
    return 5;
}

TEST_DRIVERS(the_child_of_a_task)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 3;
    options.stack_size_bytes = (size_t)1 << 20;
    CHECK_EQ(weft_run(fork_inside, NULL, &options), 5);
    CHECK_EQ(weft_run(fork_inside, NULL, &options), 5);
}

TEST(the_child_of_a_simulated_task)
{
    CHECK_EQ(weft_sim_run(NULL, fork_inside, NULL, NULL), 5);
}

static int exec_inside(void *arg)
{
    (void)arg;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "test $0 = 7", "7", (char *)NULL);
        _exit(127);
    }
    expect_success(pid);
    return 0;
}

TEST_DRIVERS(a_child_may_exec)
{
    CHECK_EQ(weft_run(exec_inside, NULL, NULL), 0);
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_EQ(exec_inside(NULL), 0);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_DRIVERS(an_exec_inherits_no_descriptor)
{
    struct parent parent;
    char before[16];
    char command[128];
    set_up(&parent);
    int clean = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        clean += flags >= 0 && (flags & FD_CLOEXEC) == 0;
    }
    snprintf(before, sizeof before, "%d", clean);
    snprintf(command, sizeof command, "set -- /proc/self/fd/*; test $# -le $(($0 + 1))");
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, before, (char *)NULL);
        _exit(127);
    }
    expect_success(pid);
    tear_down(&parent);
}

// Forks in the middle of everything.

static _Atomic bool stop;

static void *spawn_on_and_on(void *arg)
{
    while (!atomic_load(&stop)) {
        weft_task *task;
        CHECK_OK(weft_runtime_spawn(&task, arg, nothing, NULL, NULL));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    }
    return NULL;
}

static void *create_on_and_on(void *arg)
{
    (void)arg;
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    while (!atomic_load(&stop)) {
        CHECK_EQ(weft_run(nothing, NULL, &options), 0);
    }
    return NULL;
}

static void *use_the_default(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        CHECK(weft_runtime_default() != NULL);
    }
    return NULL;
}

TEST_DRIVERS(forks_while_others_spawn_create_and_destroy)
{
    if (!child_may_make_threads() || !child_of_busy_process_may_allocate()) {
        SKIP("the sanitizer or emulator cannot do that");
    }
    struct parent parent;
    pthread_t threads[3];
    set_up(&parent);
    CHECK_EQ(pthread_create(&threads[0], NULL, spawn_on_and_on, parent.runtime), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, create_on_and_on, NULL), 0);
    CHECK_EQ(pthread_create(&threads[2], NULL, use_the_default, NULL), 0);
    for (uint64_t i = test_scaled(60); i > 0; i--) {
        pid_t pid = fork();
        if (pid == 0) {
            check_refusals(&parent);
            start_afresh();
            CHECK(weft_runtime_default() != NULL);
            _exit(0);
        }
        expect_success(pid);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    tear_down(&parent);
}
