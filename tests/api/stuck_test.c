// Tasks that hold their carrier: noticed, named, traced, once; and who is left alone.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static struct gathered logged;
static int told[2]; // a pipe: the log hook writes when something is reported
static _Atomic int reports;

static void hear(void *ctx, enum weft_log_level level, const char *module, const char *message)
{
    gather_log(ctx, level, module, message);
    if (strncmp(message, "a task has held", 15) == 0) {
        atomic_fetch_add(&reports, 1);
        CHECK_EQ(write(told[1], "x", 1), 1);
    }
}

static struct weft_options watched(void)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    unsetenv("WEFT_STUCK_MS");
    options.stuck_ns = 5 * WEFT_MS;
    options.carriers = 2;
    options.log = hear;
    options.log_ctx = &logged;
    CHECK_EQ(pipe(told), 0);
    return options;
}

static int run_named(weft_runtime *runtime, weft_fn fn, const char *name)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    int rc;
    attr.name = name;
    CHECK_OK(weft_runtime_spawn(&task, runtime, fn, NULL, &attr));
    CHECK_OK(weft_join(&rc, task, WEFT_FOREVER));
    return rc;
}

static uint64_t stuck_count(weft_runtime *runtime)
{
    struct weft_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_stats_get(runtime, WEFT_STATS_ALL, &stats));
    return stats.stuck;
}

static int reads_until_told(void *arg)
{
    char data;
    (void)arg;
    return read(told[0], &data, 1) == 1 ? 0 : -errno; // plain read(2), on purpose
}

TEST_DRIVERS(a_task_in_a_system_call_is_reported)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(run_named(runtime, reads_until_told, "plain reader"));
    CHECK_EQ(stuck_count(runtime), 1);
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&reports), 1);
    CHECK_LOGGED(&logged, "2 stuck: a task has held its carrier for ");
    CHECK_LOGGED(&logged, " ms, in system call ");
    CHECK_LOGGED(&logged, " \"plain reader\" thread, running, carrier ");
    CHECK_LOGGED(&logged, "spawned at stuck_test.c:");
    if (!test_is_emulated()) {
        CHECK_LOGGED(&logged, " ms, in system call read, ");
        CHECK_LOGGED(&logged, "2 stuck:   #0 ");
        CHECK_LOGGED(&logged, "stuck_test+0x"); // a frame of ours
    }
}

static int sleeps_for_long(void *arg)
{
    struct timespec pause = { 0, 50000000 };
    (void)arg;
    return nanosleep(&pause, NULL) == 0 ? 0 : -errno;
}

static int sleeps_until_told(void *arg)
{
    (void)arg;
    while (atomic_load(&reports) == 0) { // one sleep should do, but machines may be busy
        CHECK_OK(sleeps_for_long(NULL)); // not -EINTR
    }
    return 0;
}

TEST_DRIVERS(looking_does_not_disturb_what_sleeps)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(run_named(runtime, sleeps_until_told, "sleeper"));
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&reports), 1);
    CHECK_LOGGED(&logged, "\"sleeper\"");
}

static _Atomic uint64_t sink;

static int computes_until_told(void *arg)
{
    int before = *(int *)arg;
    while (atomic_load(&reports) == before) {
        atomic_fetch_add_explicit(&sink, 1, memory_order_relaxed);
    }
    return 0;
}

static int computes(void *arg)
{
    (void)arg;
    return computes_until_told(&(int){ 0 });
}

TEST_DRIVERS(a_task_that_computes_is_reported)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(run_named(runtime, computes, "busy"));
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&reports), 1);
    CHECK_LOGGED(&logged, " ms, computing, and 0 ready ones wait behind it: task ");
    CHECK_LOGGED(&logged, "\"busy\"");
    if (!test_is_slow() && !test_is_emulated()) { // sanitizers hold signals back
        CHECK_LOGGED(&logged, "2 stuck:   #0 stuck_test+0x");
        CHECK_LOGGED(&logged, "2 stuck:   #1 ");
    }
}

static void own_handler(int signo)
{
    (void)signo;
}

TEST(a_program_with_its_own_handler_keeps_it)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    CHECK(signal(SIGURG, own_handler) != SIG_ERR);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(run_named(runtime, computes, "busy"));
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&reports), 1);
    CHECK(!gathered_has(&logged, "#0"));
    CHECK(signal(SIGURG, SIG_DFL) == own_handler);
}

static int blocks_twice(void *arg)
{
    (void)arg;
    CHECK_OK(reads_until_told(NULL));
    CHECK_OK(weft_yield());
    CHECK_OK(sleeps_for_long(NULL));
    return 0;
}

TEST_DRIVERS(a_task_is_reported_once)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(run_named(runtime, blocks_twice, "first"));
    CHECK_EQ(atomic_load(&reports), 1);
    CHECK_OK(run_named(runtime, reads_until_told, "second"));
    CHECK_EQ(stuck_count(runtime), 2);
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&reports), 2);
    CHECK_LOGGED(&logged, "\"second\"");
}

static int announces(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_block_end(), -EPERM);
    CHECK_OK(weft_block_begin());
    CHECK_OK(sleeps_for_long(NULL));
    CHECK_OK(weft_block_end());
    CHECK_EQ(weft_block_end(), -EPERM);
    struct weft_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_stats_get(weft_runtime_current(), weft_carrier_id(), &stats));
    CHECK_EQ(stats.announced, 1);
    return 0;
}

TEST_DRIVERS(an_announced_call_is_not_reported)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(run_named(runtime, announces, "announced"));
    CHECK_EQ(stuck_count(runtime), 0);
    CHECK_OK(run_named(runtime, reads_until_told, "not announced"));
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&reports), 1);
    CHECK(!gathered_has(&logged, "\"announced\""));
    CHECK_EQ(weft_block_begin(), -EPERM);
    CHECK_EQ(weft_block_end(), -EPERM);
}

static int tells(void *arg)
{
    (void)arg;
    return write(told[1], "x", 1) == 1 ? 0 : -errno;
}

/// Waits for a task that is on offer here. If nobody comes for it, both wait for ever.
static int blocks_on_its_neighbour(void *arg)
{
    (void)arg;
    weft_task *task;
    CHECK_OK(weft_spawn(&task, tells, NULL, NULL));
    CHECK_OK(weft_block_begin());
    CHECK_OK(reads_until_told(NULL));
    CHECK_OK(weft_block_end());
    return weft_join(NULL, task, WEFT_FOREVER);
}

TEST_DRIVERS(with_stealing_others_come_for_what_waits_behind_an_announced_call)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    options.steal = WEFT_STEAL_ON;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(run_named(runtime, blocks_on_its_neighbour, "announced"));
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

enum { CROWD = 1000 }; // more than the ring of an offer holds

static int last_one_tells(void *arg)
{
    _Atomic int *left = arg;
    return atomic_fetch_sub(left, 1) == 1 ? tells(NULL) : 0;
}

static int blocks_on_a_crowd(void *arg)
{
    (void)arg;
    static _Atomic int left;
    atomic_store(&left, CROWD);
    for (int i = 0; i < CROWD; i++) {
        CHECK_OK(weft_go(last_one_tells, &left));
    }
    CHECK_OK(weft_block_begin());
    CHECK_OK(reads_until_told(NULL));
    CHECK_OK(weft_block_end());
    return 0;
}

TEST_DRIVERS(with_stealing_all_that_waits_behind_a_call_is_taken)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    options.steal = WEFT_STEAL_ON;
    for (int i = 0; i < 2; i++) {
        options.policy = i == 0 ? WEFT_POLICY_LOCALITY : WEFT_POLICY_STEALING;
        CHECK_OK(weft_runtime_create(&runtime, &options));
        CHECK_OK(run_named(runtime, blocks_on_a_crowd, "announced"));
        CHECK_OK(weft_runtime_destroy(runtime));
    }
}

static int gets_stuck_on_its_neighbour(void *arg)
{
    (void)arg;
    weft_task *task;
    CHECK_OK(weft_spawn(&task, tells, NULL, NULL));
    CHECK_OK(reads_until_told(NULL)); // says nothing
    return weft_join(NULL, task, WEFT_FOREVER);
}

TEST_DRIVERS(with_stealing_the_monitor_sends_others_for_what_waits)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    options.steal = WEFT_STEAL_ON;
    options.policy = WEFT_POLICY_LOCALITY; // the other one's slot is its carrier's alone
    options.log = gather_log;              // which tells nobody
    CHECK_OK(weft_runtime_create(&runtime, &options));
    for (int i = 0; i < 5; i++) {
        CHECK_OK(run_named(runtime, gets_stuck_on_its_neighbour, "stuck"));
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

// A task that may move and waits while its carrier gets stuck: whoever wakes it takes it elsewhere.

static struct weft_semaphore wake_it;
static _Atomic int waiting;

static int waits_and_tells(void *arg)
{
    atomic_fetch_add(&waiting, 1);
    CHECK_OK(weft_semaphore_acquire(&wake_it, 1, WEFT_FOREVER));
    return tells(arg);
}

static int gets_stuck_beside_a_waiter(void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    bool announce = arg != NULL;
    int before = atomic_load(&waiting);
    attr.migratable = true;
    CHECK_OK(weft_spawn(&task, waits_and_tells, NULL, &attr));
    while (atomic_load(&waiting) == before || weft_semaphore_available(&wake_it) > 0) {
        CHECK_OK(weft_yield());
    }
    CHECK_OK(weft_yield()); // now it is asleep, if it is here
    if (announce) {
        CHECK_OK(weft_block_begin());
    }
    atomic_fetch_add(&waiting, 1); // tells the test
    CHECK_OK(reads_until_told(NULL));
    if (announce) {
        CHECK_OK(weft_block_end());
    }
    return weft_join(NULL, task, WEFT_FOREVER);
}

static void wake_what_a_stuck_carrier_holds(bool announce)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    CHECK_OK(weft_semaphore_init(&wake_it, 0));
    options.steal = WEFT_STEAL_ON;
    options.stuck_ns = announce ? 0 : options.stuck_ns;
    options.log = gather_log;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    for (int i = 0; i < 10; i++) {
        weft_task *task;
        int before = atomic_load(&waiting);
        uint64_t stuck = stuck_count(runtime);
        CHECK_OK(weft_runtime_spawn(&task, runtime, gets_stuck_beside_a_waiter,
                                    announce ? &options : NULL, NULL));
        while (atomic_load(&waiting) < before + 2 || (!announce && stuck_count(runtime) == stuck)) {
            sched_yield();
        }
        CHECK_OK(weft_semaphore_release(&wake_it, 1));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_DRIVERS(with_stealing_what_is_woken_goes_round_an_announced_call)
{
    wake_what_a_stuck_carrier_holds(true);
}

TEST_DRIVERS(with_stealing_what_is_woken_goes_round_a_stuck_carrier)
{
    wake_what_a_stuck_carrier_holds(false);
}

static int yields_for_long(void *arg)
{
    weft_time end = weft_now() + 60 * WEFT_MS;
    (void)arg;
    while (weft_now() < end) {
        CHECK_OK(weft_yield());
    }
    return 0;
}

TEST_DRIVERS(tasks_that_yield_are_left_alone)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    weft_task *tasks[3];
    CHECK_OK(weft_runtime_create(&runtime, &options));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, yields_for_long, NULL, NULL));
    }
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&reports), 0);
}

/// How often a thread of this process went to sleep; -1: there is no such thread.
static long sleeps_of(const char *name)
{
    DIR *dir = opendir("/proc/self/task");
    long sleeps = -1;
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[512];
        char text[4096] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof text - 1) <= 0) {
            text[0] = '\0';
        }
        close(fd);
        const char *line = strstr(text, "\nvoluntary_ctxt_switches:");
        if (strstr(text, name) != NULL && line != NULL) {
            sleeps = strtol(line + strlen("\nvoluntary_ctxt_switches:"), NULL, 10);
        }
    }
    closedir(dir);
    return sleeps;
}

TEST_DRIVERS(the_monitor_sleeps_while_all_is_idle)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    if (test_is_emulated()) {
        SKIP("emulated threads are not in /proc as they should be");
    }
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(run_named(runtime, sleeps_for_long, "sleeper")); // so it was awake
    long before = -1;
    long now = -1;
    for (int i = 0; i < 50 && (now < 0 || now != before); i++) {
        before = sleeps_of("weft-monitor");
        CHECK_OK(nanosleep(&(struct timespec){ 0, 100000000 }, NULL)); // 80 looks, if it were awake
        now = sleeps_of("weft-monitor");
    }
    CHECK_EQ(now, before);
    atomic_store(&reports, 0);
    CHECK_OK(run_named(runtime, sleeps_until_told, "after the sleep"));
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_LOGGED(&logged, "\"after the sleep\"");
}

TEST(by_default_nobody_watches)
{
    struct weft_options options = watched();
    weft_runtime *runtime;
    options.stuck_ns = 0;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(run_named(runtime, sleeps_for_long, "sleeper"));
    CHECK_EQ(sleeps_of("weft-monitor"), -1);
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&reports), 0);
    setenv("WEFT_STUCK_MS", "5", 1);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(run_named(runtime, reads_until_told, "reader"));
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&reports), 1);
}
