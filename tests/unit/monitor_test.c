// monitor_test.c - the mark of a stuck carrier, written by two that do not wait for each other
// (diag/monitor.c, M4): whichever was too late, the next look puts it right.
#include "support/test.h"

#include <stdlib.h>
#include <unistd.h>
#include <weft.h>

#include "sched/crew.h"

static weft_runtime *runtime;

static void run(weft_fn fn)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    unsetenv("WEFT_STUCK_MS");
    unsetenv("WEFT_STUCK_REMEDY");
    weft_task *task;
    options.carriers = 2;
    options.stuck_ns = 2 * WEFT_MS;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(weft_runtime_spawn(&task, runtime, fn, NULL, NULL));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int announces(void *arg)
{
    (void)arg;
    struct weft__carrier *carrier = weft__carrier_self();
    CHECK_OK(weft_block_begin());
    for (int i = 0; i < 3; i++) {
        weft__tally_set(&carrier->stuck, 0); // as a monitor that looked before the announcement
        while (weft__tally_get(&carrier->stuck) == 0) {
            usleep(100);
        }
    }
    CHECK_OK(weft_block_end());
    return 0;
}

TEST_DRIVERS(an_announced_call_is_marked_again)
{
    run(announces);
}

static int leaves_a_mark(void *arg)
{
    (void)arg;
    struct weft__carrier *self = weft__carrier_self();
    struct weft__carrier *other = &self->crew->carriers[1 - self->number];
    while (atomic_load(&other->state) != WEFT__CARRIER_PARKED) {
        usleep(100);
    }
    weft__tally_set(&other->stuck, 1); // as a monitor that looked before it went to sleep
    while (weft__tally_get(&other->stuck) != 0) {
        CHECK_OK(weft_sleep(WEFT_MS));
    }
    return 0;
}

TEST_DRIVERS(a_mark_on_one_that_sleeps_goes_away)
{
    run(leaves_a_mark);
}
