// rescue_model.c - the monitor takes tasks from a carrier that it thinks stuck (diag/rescue.c).
//
// It is mistaken, and does so once: the carrier goes on as it likes, and another one looks for tasks to
// steal meanwhile. What the monitor has taken, or has kept somebody else from taking, must not be forgotten
// because of that: then a carrier would sleep for ever.
//
// Sources: diag/rescue.c sched/annex.c sched/steal.c sched/policy_stealing.c sched/search.c sched/offer.c
// Sources: sched/inject.c sched/park.c sched/inbox.c sched/wheel.c
// With: stage.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include "base/sys.h"
#include "diag/rescue.h"
#include "sched/annex.h"
#include "stage_steal.h"

static struct weft__runtime runtime;
static struct weft__crew *const crew = &runtime.crew;
static struct weft__carrier *stuck, *helper;
static struct weft__annex annex; // of the stuck one

weft_time weft__clock_ns(void)
{
    return 1;
}

static bool open_inbox(struct weft__carrier *carrier)
{
    struct weft__node *node = carrier->annex != NULL ? weft__annex_take_inbox(carrier->annex)
                                                     : weft__inbox_take(&carrier->inbox);
    bool any = node != NULL;
    for (struct weft__node *after; node != NULL; node = after) {
        after = node->next;
        if (node->kind == WEFT__NODE_TASK) {
            run(carrier, node);
        } else {
            carrier->stop = true;
        }
    }
    return any;
}

/// weft__carrier_loop() with nothing but stealing in it.
static void run_carrier(void *arg)
{
    struct weft__carrier *carrier = arg;
    while (!carrier->stop) {
        if (!carrier->aside) {
            weft__steal_sent(carrier);
        }
        if (!run_one(carrier) && !open_inbox(carrier) &&
            (carrier->aside || !weft__steal_idly(carrier))) {
            weft__sleep(carrier);
        }
    }
    weft__steal_leave(carrier);
}

static void rescue(void *unused)
{
    (void)unused;
    weft__rescue(&runtime, stuck);
}

/// The first carriers are `active`, the others are there for one scene.
static void reset(int active, int stuck_one, int helping_one, bool freely)
{
    memset(&runtime, 0, sizeof runtime);
    memset(&annex, 0, sizeof annex);
    stuck = &carriers[stuck_one];
    helper = &carriers[helping_one];
    set_stage(crew, CARRIERS, freely, stuck);
    atomic_init(&crew->active, active);
    for (int i = 0; i < CARRIERS; i++) {
        weft__wheel_init(&carriers[i].wheel, 1);
        mc_name(&carriers[i].inbox, sizeof carriers[i].inbox,
                i == stuck_one ? "inbox" : "inbox there");
    }
    weft__wheel_init(&annex.wheel, 1);
    weft__annex_init(&annex, stuck);
    stuck->annex = &annex;
    mc_name(&annex.lock, sizeof annex.lock, "lock");
}

static void carrier_runs(struct weft__carrier *carrier)
{
    carrier->driver = &stage_driver;
    mc_thread(run_carrier, carrier);
}

/// A thief that meets the monitor leaves it to him.
static void offered(void)
{
    reset(2, 0, 1, false);
    shared_before(stuck, 1, 2);
    mc_thread(sharing_owner, stuck);
    mc_thread(rescue, NULL);
    carrier_runs(helper);
}

static void refilled(void)
{
    reset(2, 0, 1, false);
    shared_before(stuck, SLOTS + 2, SLOTS + 2);
    for (int i = 0; i < SLOTS - 1; i++) {
        (void)run_one(stuck);
    }
    mc_thread(refilling_owner, stuck);
    mc_thread(rescue, NULL);
    carrier_runs(helper);
}

/// The helper is the spare one, which takes what can come back. The rest was in nobody's hands meanwhile.
static void with_spare_one(int active, int stuck_one)
{
    reset(active, stuck_one, CARRIERS - 1, true);
    helper->aside = true;
    helper->freely = helper->offering = false;
    crew->spare = helper;
    tasks[0].migratable = tasks[0].started = false;
}

/// The carrier that is not stuck any more looks for it.
static void injected(void)
{
    with_spare_one(1, 0);
    atomic_init(&expected, 2);
    weft__free_inject(&tasks[0]);
    weft__free_inject(&tasks[1]);
    carrier_runs(stuck);
    carrier_runs(helper);
    mc_thread(rescue, NULL);
}

static void deserted(void)
{
    with_spare_one(2, 1);
    crew->steals_globally = false;
    crew->cluster_count = 2;
    clusters[0] = (struct weft__cluster){ .first = 0, .count = 1 };
    clusters[1] = (struct weft__cluster){ .first = 1, .count = 2 };
    for (int i = 0; i < CARRIERS; i++) {
        carriers[i].cluster = i == 0 ? 0 : 1;
        carriers[i].worker.inject = &help[carriers[i].cluster].inject;
    }
    atomic_init(&expected, 1);
    weft__free_inject(&tasks[0]);
    carrier_runs(&carriers[0]);
    mc_thread(leaving_owner, stuck);
    mc_thread(rescue, NULL);
}

const struct mc_model mc_models[] = {
    { .name = "rescue_offered",
      .setup = offered,
      .check = check,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = "rescue_refilled",
      .setup = refilled,
      .check = check,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = "rescue_injected",
      .setup = injected,
      .check = check,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = "rescue_deserted",
      .setup = deserted,
      .check = check,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = NULL },
};
