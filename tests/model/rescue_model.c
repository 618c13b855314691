// rescue_model.c - the monitor takes tasks from a carrier that it thinks stuck (diag/rescue.c).
//
// It is mistaken, and does so once: the carrier goes on as it likes, and another one looks for tasks to
// steal meanwhile. What the monitor has taken, or has kept somebody else from taking, must not be forgotten
// because of that: then a carrier would sleep for ever. Each task is run once, plainly, where it is at home.
//
// Sources: diag/rescue.c sched/annex.c sched/steal.c sched/policy_stealing.c sched/search.c sched/offer.c
// Sources: sched/inject.c sched/park.c sched/inbox.c sched/wheel.c
// With: stage.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <string.h>

#include "base/sys.h"
#include "diag/rescue.h"
#include "mc.h"
#include "sched/annex.h"
#include "sched/park.h"
#include "sched/steal.h"
#include "stage.h"

enum { CARRIERS = 3, TASKS = 6, SLOTS = WEFT__OFFER_SLOTS };

static struct weft__runtime runtime;
static struct weft__crew *const crew = &runtime.crew;
static struct weft__carrier carriers[CARRIERS];
static struct weft__carrier *stuck, *helper;
static struct weft__annex annex; // of the stuck one
static struct weft__cluster clusters[2];
static struct weft__help help[2];
static struct weft__task tasks[TASKS];
static int runs[TASKS]; // plain
static _Atomic int expected;

weft_time weft__clock_ns(void)
{
    return 1;
}

static void send_home(struct weft__carrier *self)
{
    for (int i = 0; i < crew->capacity; i++) {
        if (&carriers[i] != self && carriers[i].driver != NULL) {
            weft__put(&carriers[i], &carriers[i].control.node, self);
        }
    }
    self->stop = true;
}

static void run(struct weft__carrier *self, struct weft__node *node)
{
    struct weft__task *task = weft__container_of(node, struct weft__task, node);
    mc_assert(task->home == self);
    runs[task - tasks]++;
    if (atomic_fetch_sub_explicit(&expected, 1, memory_order_relaxed) == 1) {
        send_home(self);
    }
}

static struct weft__node *next(struct weft__carrier *carrier)
{
    return carrier->offering ? weft__next_shared(carrier) : weft__fifo_pop(&carrier->local);
}

static bool run_one(struct weft__carrier *carrier)
{
    struct weft__node *node = next(carrier);
    if (node != NULL) {
        run(carrier, node);
    }
    return node != NULL;
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

static void running_owner(void *arg)
{
    (void)run_one(arg);
    (void)run_one(arg);
}

/// The first carriers are `active`, the others are there for one scene.
static void reset(int active, int stuck_one, int helping_one, bool freely)
{
    memset(&runtime, 0, sizeof runtime);
    memset(help, 0, sizeof help);
    memset(&annex, 0, sizeof annex);
    memset(runs, 0, sizeof runs);
    stuck = &carriers[stuck_one];
    helper = &carriers[helping_one];
    crew->carriers = carriers;
    crew->capacity = CARRIERS;
    atomic_init(&crew->started, CARRIERS);
    atomic_init(&crew->active, active);
    crew->clusters = clusters;
    clusters[0] = (struct weft__cluster){ .first = 0, .count = CARRIERS };
    crew->cluster_count = 1;
    crew->help = help;
    crew->steals_globally = true;
    for (int i = 0; i < CARRIERS; i++) {
        struct weft__carrier *carrier = &carriers[i];
        memset(carrier, 0, offsetof(struct weft__carrier, wheel));
        weft__wheel_init(&carrier->wheel, 1);
        carrier->number = i;
        carrier->crew = crew;
        carrier->shares = true;
        carrier->freely = carrier->offering = freely;
        carrier->worker.inject = &crew->inject;
        carrier->control = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST };
        carrier->driver_state = &carrier->driver_state;
        mc_name(&carrier->state, sizeof carrier->state, carrier == stuck ? "state" : "state there");
        mc_name(&carrier->inbox, sizeof carrier->inbox, carrier == stuck ? "inbox" : "inbox there");
    }
    weft__wheel_init(&annex.wheel, 1);
    weft__annex_init(&annex, stuck);
    stuck->annex = &annex;
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct weft__task){ .movable = true, .migratable = true, .started = true };
        tasks[i].crew = crew;
        tasks[i].home = tasks[i].origin = stuck;
    }
    mc_name(&stuck->offer.head, sizeof stuck->offer.head, "head");
    mc_name(&stuck->offer.tail, sizeof stuck->offer.tail, "tail");
    mc_name(&stuck->spill.count, sizeof stuck->spill.count, "spill");
    mc_name(&annex.lock, sizeof annex.lock, "lock");
    mc_name(help, sizeof help, "help");
    mc_name(&help[0].wanted, sizeof help[0].wanted, "wanted");
    mc_name(&crew->inject.count, sizeof crew->inject.count, "inject");
    mc_name(&crew->active, sizeof crew->active, "active");
    mc_name(&expected, sizeof expected, "expected");
}

static void carrier_runs(struct weft__carrier *carrier)
{
    carrier->driver = &stage_driver;
    mc_thread(run_carrier, carrier);
}

static void shared_before(int count, int end)
{
    first = 0;
    last = count;
    share(stuck);
    first = count;
    last = end;
    atomic_init(&expected, end);
}

/// A thief that meets the monitor leaves it to him.
static void offered(void)
{
    reset(2, 0, 1, false);
    shared_before(1, 2);
    mc_thread(sharing_owner, stuck);
    mc_thread(rescue, NULL);
    carrier_runs(helper);
}

static void refilled(void)
{
    reset(2, 0, 1, false);
    shared_before(SLOTS + 2, SLOTS + 2);
    for (int i = 0; i < SLOTS - 1; i++) {
        (void)run_one(stuck);
    }
    mc_thread(running_owner, stuck);
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

/// It leaves: it was the only one of its cluster, which tasks may not leave otherwise.
static void leave(void *arg)
{
    struct weft__carrier *carrier = arg;
    atomic_store_explicit(&crew->active, 1, memory_order_relaxed);
    carrier->leaving = true;
    weft__free_desert(carrier, carrier);
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
    mc_thread(leave, stuck);
    mc_thread(rescue, NULL);
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
