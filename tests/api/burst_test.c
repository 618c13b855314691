// burst_test.c - many threads at a time: the next ones find their stacks warm, and when there are no next
// ones the memory goes back.
#include "support/test.h"

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

static void run(weft_fn fn)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    if (test_is_slow() || test_is_emulated()) {
        SKIP("what a sanitizer, or an emulator, needs for itself is more");
    }
    options.carriers = 1;
    options.stack_cache = 16;
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
