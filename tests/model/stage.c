// stage.c - assertions, futexes and the driver of a model. See stage.h.
#include "stage.h"

#include <errno.h>

#include "base/assert.h"
#include "base/sys.h"
#include "sched/driver.h"

void weft__assert_failed(const char *what, const char *file, int line)
{
    mc_fail("assertion: %s (%s:%d)", what, file, line);
}

// Futexes. A deadline may have passed already, or never pass: sleeping for a while and then timing
// out is the same as being late to call.

int weft__futex_wait(_Atomic uint32_t *word, uint32_t expected, weft_time deadline)
{
    if (deadline != WEFT_FOREVER && mc_choose(2) == 1) {
        return -ETIMEDOUT;
    }
    return mc_futex_wait(word, expected);
}

int weft__futex_wake(_Atomic uint32_t *word, int count)
{
    return mc_futex_wake(word, count);
}

// The driver.

static int driver_poll(void *state)
{
    (void)state;
    return 0;
}

static int driver_wait(void *state, weft_time until)
{
    (void)until;
    mc_event_wait(state);
    return 0;
}

static void driver_kick(void *state, void *from)
{
    (void)from;
    mc_event_set(state);
}

const struct weft__driver stage_driver = {
    .name = "event",
    .poll = driver_poll,
    .wait = driver_wait,
    .kick = driver_kick,
};
