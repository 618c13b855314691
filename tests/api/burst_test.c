// burst_test.c - many threads at a time: the next ones find their stacks warm, and when there are no next
// ones the memory goes back.
#include "support/test.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weft.h>

enum { THREADS = 4000 };

static struct weft_event gate;

static int wait_at_gate(void *arg)
{
    (void)arg;
    return weft_event_wait(&gate, WEFT_FOREVER);
}

/// All of them live at the same time.
static void burst(void)
{
    struct weft_scope scope;
    weft_event_init(&gate);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(weft_scope_spawn(&scope, wait_at_gate, NULL));
    }
    weft_event_set(&gate);
    CHECK_OK(weft_scope_join(&scope));
    CHECK_OK(weft_event_fini(&gate));
}

static long resident_pages(void)
{
    long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%ld %ld", &all, &resident), 2);
    CHECK_EQ(fclose(file), 0);
    return resident;
}

static long page_faults(void)
{
    struct rusage usage;
    CHECK_OK(getrusage(RUSAGE_SELF, &usage));
    return usage.ru_minflt;
}

static int burst_again(void *arg)
{
    (void)arg;
    burst();
    long before = page_faults();
    burst();
    CHECK_LT(page_faults() - before, THREADS / 4);
    return 0;
}

static int burst_and_rest(void *arg)
{
    (void)arg;
    burst();
    long most = resident_pages();
    while (most - resident_pages() < THREADS / 2) { // or else the test lasts too long
        CHECK_OK(weft_sleep(100 * WEFT_MS));
    }
    return 0;
}

static struct weft_options small_cache(void)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    if (test_is_slow() || test_is_emulated()) {
        SKIP("what a sanitizer, or an emulator, needs for itself is more");
    }
    options.carriers = 1;
    options.stack_cache = 16;
    return options;
}

static void run(weft_fn fn)
{
    struct weft_options options = small_cache();
    CHECK_OK(weft_run(fn, NULL, &options));
}

TEST_DRIVERS(threads_of_a_second_burst_find_warm_stacks)
{
    run(burst_again);
}

TEST_DRIVERS(the_memory_of_a_burst_goes_back)
{
    run(burst_and_rest);
}

static int burst_once(void *arg)
{
    (void)arg;
    burst();
    return 0;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void run_in(weft_runtime *runtime, weft_fn fn)
{
    weft_task *task;
    CHECK_OK(weft_runtime_spawn(&task, runtime, fn, NULL, NULL));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
}

/// Gives stacks back on this thread: the carrier has gone on to the next task by then.
static void join_late(weft_runtime *runtime)
{
    weft_task *tasks[64];
    for (int i = 0; i < 64; i++) {
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, nothing, NULL, NULL));
    }
    for (int i = 0; i < 64; i++) {
        while (!weft_task_done(tasks[i])) {
            sched_yield();
        }
    }
    run_in(runtime, nothing);
    for (int i = 0; i < 64; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
}

// A thread that is none of weft's cannot look again in a second.
TEST_DRIVERS(who_joins_from_outside_leaves_stacks_warm)
{
    struct weft_options options = small_cache();
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    run_in(runtime, burst_once);
    join_late(runtime);
    long before = page_faults();
    run_in(runtime, burst_once);
    CHECK_LT(page_faults() - before, THREADS / 4);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int burst_and_leak(void *arg)
{
    static weft_task *leaked;
    burst();
    *(long *)arg = resident_pages();
    return weft_spawn(&leaked, nothing, NULL, NULL);
}

TEST_DRIVERS(a_leaked_handle_does_not_keep_a_burst)
{
    struct weft_options options = small_cache();
    long most = 0;
    options.log_level = WEFT_LOG_ERROR; // the handle is what we test
    CHECK_OK(weft_run(burst_and_leak, &most, &options));
    CHECK_GT(most - resident_pages(), THREADS / 2);
}
