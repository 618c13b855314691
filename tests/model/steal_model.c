// steal_model.c - what others may take while its owner is busy: on offer, in `spill`, in the common queue
// (sched/steal.c, H8; sched/policy_stealing.c, F2 and F6).
//
// search_model.c plays the lanes; here they are the real ones. An owner does a few things and is then
// busy for ever. Idle carriers look, sleep and are sent. What is overlooked while they sleep leaves
// everybody asleep, which the engine reports. Each task is run once, plainly, by whoever has it, so that
// two who have it are a data race; at the end each start of a search has had its stop.
//
// Sources: sched/steal.c sched/policy_stealing.c sched/search.c sched/offer.c sched/inject.c
// Sources: sched/park.c sched/inbox.c
// With: stage.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <string.h>

#include "mc.h"
#include "sched/crew.h"
#include "sched/park.h"
#include "sched/steal.h"
#include "stage.h"

enum { CARRIERS = 3, TASKS = 8, SLOTS = WEFT__OFFER_SLOTS };

static struct weft__carrier carriers[CARRIERS];
static struct weft__cluster clusters[2];
static struct weft__help help[2];
static struct weft__crew crew;
static struct weft__task tasks[TASKS];
static int runs[TASKS]; // plain
static _Atomic int expected;

weft_time weft__wheel_next(const struct weft__wheel *wheel)
{
    (void)wheel;
    return WEFT_FOREVER;
}

static void send_home(struct weft__carrier *self)
{
    for (int i = 0; i < crew.capacity; i++) {
        if (&carriers[i] != self && carriers[i].driver != NULL) {
            weft__put(&carriers[i], &carriers[i].control.node, self);
        }
    }
    self->stop = true;
}

static void run(struct weft__carrier *self, struct weft__node *node)
{
    struct weft__task *task = weft__container_of(node, struct weft__task, node);
    mc_assert(task->home == self); // H1
    runs[task - tasks]++;
    if (atomic_fetch_sub_explicit(&expected, 1, memory_order_relaxed) == 1) {
        send_home(self);
    }
}

static struct weft__node *next(struct weft__carrier *carrier)
{
    return carrier->offering ? weft__next_shared(carrier) : weft__fifo_pop(&carrier->local);
}

static void run_one(struct weft__carrier *carrier)
{
    struct weft__node *node = next(carrier);
    if (node != NULL) {
        run(carrier, node);
    }
}

/// Stores are seen in finite time: who has seen that an owner has moved on sees soon by how much.
static void catch_up(struct weft__offer *offer)
{
    uint32_t next_one = (uint32_t)atomic_load_explicit(&offer->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&offer->tail, memory_order_relaxed);
    if ((int32_t)(tail - next_one) < 0) {
        (void)atomic_fetch_add_explicit(&offer->tail, 0, memory_order_relaxed);
    }
}

/// weft__carrier_loop() with nothing but stealing in it.
static void idle_carrier(void *arg)
{
    struct weft__carrier *carrier = arg;
    while (!carrier->stop) {
        weft__steal_sent(carrier);
        struct weft__node *node = next(carrier);
        if (node != NULL) {
            run(carrier, node);
        } else if (weft__inbox_take(&carrier->inbox) != NULL) {
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
        run_one(carrier);
    }
}

// Owners. Each leaves everything to others that it does not run itself.

static int first, last; // what the owner shares

static void share(struct weft__carrier *carrier)
{
    for (int i = first; i < last; i++) {
        weft__share(carrier, &tasks[i]);
    }
}

/// Asks for help with the one that would be its own next work, as at the end of a step (H5), and is busy then.
static void sharing_owner(void *arg)
{
    share(arg);
    if (weft__carrier_offered(arg) == 1) {
        weft__search_ask(arg, arg);
    }
}

/// Its ring has one, its `spill` the others: it fills the ring from there.
static void refilling_owner(void *arg)
{
    run_one(arg);
    run_one(arg);
}

static void yielding_owner(void *arg)
{
    for (int i = first; i < last; i++) {
        weft__free_yielded(arg, &tasks[i]);
    }
}

static void leaving_owner(void *arg)
{
    struct weft__carrier *carrier = arg;
    atomic_store_explicit(&crew.active, 1, memory_order_relaxed);
    carrier->leaving = true;
    weft__free_desert(carrier, carrier);
}

static void outsider(void *arg)
{
    weft__free_inject(arg);
}

// Scenes. Carrier 0 is the owner, unless it is said otherwise.

static void reset(int count, bool freely)
{
    memset(&crew, 0, sizeof crew);
    memset(help, 0, sizeof help);
    memset(runs, 0, sizeof runs);
    crew.carriers = carriers;
    crew.capacity = count;
    atomic_init(&crew.started, count);
    atomic_init(&crew.active, count);
    crew.clusters = clusters;
    clusters[0] = (struct weft__cluster){ .first = 0, .count = count };
    crew.cluster_count = 1;
    crew.help = help;
    crew.steals_globally = true;
    for (int i = 0; i < count; i++) {
        struct weft__carrier *carrier = &carriers[i];
        memset(carrier, 0, offsetof(struct weft__carrier, wheel));
        carrier->number = i;
        carrier->crew = &crew;
        carrier->shares = true;
        carrier->freely = carrier->offering = freely;
        carrier->worker.inject = &crew.inject;
        carrier->control = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST };
        carrier->driver_state = &carrier->driver_state;
        mc_name(&carrier->state, sizeof carrier->state, "state");
        mc_name(&carrier->offer.head, sizeof carrier->offer.head, i == 0 ? "head0" : "head");
        mc_name(&carrier->offer.tail, sizeof carrier->offer.tail, i == 0 ? "tail0" : "tail");
        mc_name(&carrier->spill.count, sizeof carrier->spill.count, "spill");
    }
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct weft__task){ .movable = true, .migratable = true, .started = true };
        tasks[i].crew = &crew;
        tasks[i].home = tasks[i].origin = &carriers[0];
    }
    mc_name(&help[0].searchers, sizeof help[0].searchers, "searchers");
    mc_name(&help[0].idle, sizeof help[0].idle, "idle");
    mc_name(&help[0].wanted, sizeof help[0].wanted, "wanted");
    mc_name(&crew.inject.count, sizeof crew.inject.count, "inject");
    mc_name(&expected, sizeof expected, "expected");
}

static void thief(int number, void (*body)(void *))
{
    carriers[number].driver = &stage_driver;
    mc_thread(body, &carriers[number]);
}

/// Before anybody else is there the owner has shared so many; it shares up to `end` when they are.
static void shared_before(int count, int end)
{
    first = 0;
    last = count;
    share(&carriers[0]);
    first = count;
    last = end;
    atomic_init(&expected, end);
}

static void refilled(void)
{
    reset(2, false);
    shared_before(SLOTS + 2, SLOTS + 2);
    for (int i = 0; i < SLOTS - 1; i++) {
        run_one(&carriers[0]);
    }
    mc_thread(refilling_owner, &carriers[0]);
    thief(1, idle_carrier);
}

static void spilled(void)
{
    reset(2, false);
    shared_before(SLOTS, SLOTS + 1);
    mc_thread(sharing_owner, &carriers[0]);
    thief(1, idle_carrier);
}

/// One of the thieves meets the other, who leaves something behind.
static void two_thieves(void)
{
    reset(3, false);
    shared_before(1, 2);
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
    mc_name(&crew.active, sizeof crew.active, "active");
    thief(0, idle_carrier);
    mc_thread(leaving_owner, &carriers[1]);
    mc_thread(outsider, &tasks[0]);
}

static void check(void)
{
    mc_assert(atomic_load(&expected) == 0);
    for (int i = 0; i < TASKS; i++) {
        mc_assert(runs[i] <= 1);
    }
    mc_assert(atomic_load(&help[0].searchers) == 0); // search.c, S4
    mc_assert(atomic_load(&help[1].searchers) == 0);
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
