// lookout_model.c - a watcher that goes to sleep while a carrier wakes up (sched/lookout.c, W1 to W3).
//
// Carriers are parked, wake up, tell the watcher and stay awake, as one that is stuck does. The
// watcher has to see each of them. If it misses one it sleeps for ever, which the engine reports as
// a deadlock.
//
// Sources: sched/lookout.c sched/park.c sched/inbox.c
// With: stage.c
#include <string.h>

#include "mc.h"
#include "sched/park.h"
#include "sched/lookout.h"
#include "stage.h"

enum { MAX_CARRIERS = 2 };

static struct weft__carrier carriers[MAX_CARRIERS];
static struct weft__lookout lookout;
static _Atomic int count;
static bool seen[MAX_CARRIERS];

weft_time weft__wheel_next(const struct weft__wheel *wheel)
{
    (void)wheel;
    return WEFT_FOREVER;
}

static void run_carrier(void *arg)
{
    struct weft__carrier *carrier = &carriers[(intptr_t)arg];
    weft__sleep_end(carrier);
    weft__lookout_wake(&lookout);
}

/// Sees each carrier awake once.
static void run_watcher(void *unused)
{
    (void)unused;
    for (int left = count; left > 0;) {
        mc_assert(weft__lookout_sleep(&lookout, carriers, &count));
        for (int i = 0; i < count; i++) {
            if (!seen[i] && atomic_load_explicit(&carriers[i].state, memory_order_relaxed) ==
                                WEFT__CARRIER_RUNNING) {
                seen[i] = true;
                left--;
            }
        }
        mc_relax();
    }
}

static void run_until_over(void *unused)
{
    (void)unused;
    while (weft__lookout_sleep(&lookout, carriers, &count)) {
        mc_relax();
    }
}

static void end_it(void *unused)
{
    (void)unused;
    weft__lookout_end(&lookout);
}

static void wake_up(void *unused)
{
    (void)unused;
    weft__sleep_end(&carriers[0]);
    weft__lookout_wake(&lookout);
}

static void reset(int carriers_used)
{
    memset(carriers, 0, sizeof carriers);
    memset(&lookout, 0, sizeof lookout);
    memset(seen, 0, sizeof seen);
    count = carriers_used;
    for (int i = 0; i < count; i++) {
        atomic_init(&carriers[i].state, WEFT__CARRIER_PARKED);
        mc_name(&carriers[i].state, sizeof carriers[i].state, "state");
        mc_name(&carriers[i].inbox, sizeof carriers[i].inbox, "inbox");
    }
    mc_name(&lookout.asleep, sizeof lookout.asleep, "asleep");
    mc_name(&lookout.over, sizeof lookout.over, "over");
}

static void one_carrier(void)
{
    reset(1);
    mc_thread(run_watcher, NULL);
    mc_thread(run_carrier, (void *)0);
}

static void two_carriers(void)
{
    reset(2);
    mc_thread(run_watcher, NULL);
    mc_thread(run_carrier, (void *)0);
    mc_thread(run_carrier, (void *)1);
}

static void ending(void)
{
    reset(1);
    mc_thread(run_until_over, NULL);
    mc_thread(wake_up, NULL);
    mc_thread(end_it, NULL);
}

const struct mc_model mc_models[] = {
    { .name = "lookout_one_carrier", .setup = one_carrier },
    { .name = "lookout_two_carriers", .setup = two_carriers },
    { .name = "lookout_ending", .setup = ending },
    { .name = NULL },
};
