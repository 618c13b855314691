// steal_model.c - what others may take while its owner is busy: on offer, in `spill`, in the common queue
// (sched/steal.c, H8; sched/policy_stealing.c, F2 and F6).
//
// search_model.c plays the lanes; here they are the real ones. An owner does a few things and is then
// busy for ever. Idle carriers look, sleep and are sent. What is overlooked while they sleep leaves
// everybody asleep, which the engine reports. At the end each start of a search has had its stop.
//
// Sources: sched/steal.c sched/policy_stealing.c sched/search.c sched/offer.c sched/inject.c
// Sources: sched/park.c sched/inbox.c
// With: stage.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include "stage_steal.h"

static struct weft__crew crew;

weft_time weft__wheel_next(const struct weft__wheel *wheel)
{
    (void)wheel;
    return WEFT_FOREVER;
}

/// Who has seen that an owner has moved on sees soon by how much.
static void catch_up(struct weft__offer *offer)
{
    uint32_t next_one = (uint32_t)atomic_load_explicit(&offer->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&offer->tail, memory_order_relaxed);
    if ((int32_t)(tail - next_one) < 0) {
        stage_catch_up(&offer->tail);
    }
}

/// weft__carrier_loop() with nothing but stealing in it.
static void idle_carrier(void *arg)
{
    struct weft__carrier *carrier = arg;
    while (!carrier->stop) {
        weft__steal_sent(carrier);
        if (run_one(carrier)) {
            continue;
        }
        if (weft__inbox_take(&carrier->inbox) != NULL) {
            carrier->stop = true;
        } else if (!weft__steal_idly(carrier)) {
            weft__sleep(carrier);
            catch_up(&carriers[0].offer);
        }
    }
    weft__steal_leave(carrier);
}

/// Looks once and is then busy with what it has found.
static void busy_thief(void *arg)
{
    struct weft__carrier *carrier = arg;
    if (weft__steal_idly(carrier)) {
        (void)run_one(carrier);
    }
}

static void yielding_owner(void *arg)
{
    for (int i = first; i < last; i++) {
        weft__free_yielded(arg, &tasks[i]);
    }
}

static void outsider(void *arg)
{
    weft__free_inject(arg);
}

// Scenes. Carrier 0 is the owner, unless it is said otherwise.

static void reset(int count, bool freely)
{
    memset(&crew, 0, sizeof crew);
    set_stage(&crew, count, freely, &carriers[0]);
}

static void thief(int number, void (*body)(void *))
{
    carriers[number].driver = &stage_driver;
    mc_thread(body, &carriers[number]);
}

static void refilled(void)
{
    reset(2, false);
    shared_before(&carriers[0], SLOTS + 2, SLOTS + 2);
    for (int i = 0; i < SLOTS - 1; i++) {
        (void)run_one(&carriers[0]);
    }
    mc_thread(refilling_owner, &carriers[0]);
    thief(1, idle_carrier);
}

static void spilled(void)
{
    reset(2, false);
    shared_before(&carriers[0], SLOTS, SLOTS + 1);
    mc_thread(sharing_owner, &carriers[0]);
    thief(1, idle_carrier);
}

/// One of the thieves meets the other, who leaves something behind.
static void two_thieves(void)
{
    reset(3, false);
    shared_before(&carriers[0], 1, 2);
    weft__search_ask(&carriers[0], &carriers[0]);
    mc_thread(sharing_owner, &carriers[0]);
    thief(1, idle_carrier);
    carriers[2].driver = NULL; // it never sleeps
    mc_thread(busy_thief, &carriers[2]);
}

static void overflowed(void)
{
    reset(2, true);
    first = 0;
    last = SLOTS;
    yielding_owner(&carriers[0]);
    first = SLOTS;
    last = SLOTS + 1;
    atomic_init(&expected, SLOTS + 1);
    mc_thread(yielding_owner, &carriers[0]);
    thief(1, idle_carrier);
}

static void from_outside(void)
{
    reset(2, true);
    atomic_init(&expected, 2);
    mc_thread(outsider, &tasks[0]);
    mc_thread(outsider, &tasks[1]);
    thief(1, idle_carrier);
}

/// Carrier 1 is alone in its cluster and leaves.
static void deserted(void)
{
    reset(2, true);
    crew.steals_globally = false;
    crew.cluster_count = 2;
    clusters[0] = (struct weft__cluster){ .first = 0, .count = 1 };
    clusters[1] = (struct weft__cluster){ .first = 1, .count = 1 };
    carriers[1].cluster = 1;
    for (int i = 0; i < 2; i++) {
        carriers[i].worker.inject = &help[i].inject;
    }
    tasks[0].home = tasks[0].origin = &carriers[1];
    atomic_init(&expected, 1);
    mc_name(&help[1].inject.count, sizeof help[1].inject.count, "inject there");
    mc_name(&help[1].wanted, sizeof help[1].wanted, "wanted there");
    thief(0, idle_carrier);
    mc_thread(leaving_owner, &carriers[1]);
    mc_thread(outsider, &tasks[0]);
}

const struct mc_model mc_models[] = {
    { .name = "steal_refilled",
      .setup = refilled,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "steal_spilled",
      .setup = spilled,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "steal_two_thieves",
      .setup = two_thieves,
      .check = check,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = "steal_overflowed",
      .setup = overflowed,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "steal_from_outside",
      .setup = from_outside,
      .check = check,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = "steal_deserted",
      .setup = deserted,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = NULL },
};
