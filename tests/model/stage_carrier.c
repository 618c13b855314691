// stage_carrier.c - what a carrier's loop needs besides the sources. See stage.h.
#include "stage.h"

#include <string.h>

#include "base/sys.h"
#include "sched/carrier.h"

// The clock of the one carrier that has timers. It moves when that carrier waits for an expiry.
static weft_time now;

weft_time weft__clock_ns(void)
{
    return now;
}

static int poll_nothing(void *state)
{
    (void)state;
    return 0;
}

static int wait_or_expire(void *state, weft_time until)
{
    if (until == WEFT_FOREVER) {
        mc_event_wait(state);
    } else if (!mc_event_wait_briefly(state)) {
        now = until > now ? until : now;
    }
    return 0;
}

static void kick(void *state, void *from)
{
    (void)from;
    mc_event_set(state);
}

static const struct weft__driver driver = {
    .name = "event",
    .poll = poll_nothing,
    .wait = wait_or_expire,
    .kick = kick,
};

void stage_carrier_init(struct weft__carrier *carrier, const char *name)
{
    memset(carrier, 0, sizeof *carrier);
    now = WEFT__WHEEL_TICK_NS;
    weft__wheel_init(&carrier->wheel, now);
    carrier->driver = &driver;
    carrier->driver_state = &carrier->driver_state;
    carrier->runner.carrier = carrier;
    carrier->quantum_ns = WEFT__WHEEL_TICK_NS;
    mc_name(carrier, sizeof *carrier, name);
    mc_name(&carrier->state, sizeof carrier->state, "state");
    mc_name(&carrier->inbox, sizeof carrier->inbox, "inbox");
    mc_name(&carrier->driver_state, sizeof carrier->driver_state, "driver");
}
