// search_model.c - carriers that offer tasks and carriers that have nothing to do (sched/search.c).
//
// Owners put something on offer and are then busy for ever: they never look at their own lane again.
// Idle carriers look, sleep and are sent. If what is on offer is overlooked while a carrier sleeps,
// nobody takes it and the engine reports that everybody sleeps (S1 to S3). Whoever takes the last
// sends all carriers home. At the end each start of a search has had its stop (S4).
//
// A lane is two numbers here, one that owners write and one that thieves move: offer_model.c has the
// real one. They are relaxed, so that only the protocol's
// fences make sure that one side sees the other.
//
// Sources: sched/search.c sched/park.c sched/inbox.c
// Headers: sched/inbox.h
// With: stage.c
#include <string.h>

#include "mc.h"
#include "sched/crew.h"
#include "sched/park.h"
#include "sched/search.h"
#include "stage.h"

enum { CARRIERS = 3 };

static struct weft__carrier carriers[CARRIERS];
static struct weft__cluster clusters[2];
static struct weft__help help[2]; // of each cluster
static struct weft__crew crew;
static _Atomic uint32_t tails[CARRIERS + 1], heads[CARRIERS + 1]; // the last lane is everybody's
static _Atomic uint32_t expected;                                 // things that nobody has taken
static uint32_t each;                                             // things per owner
static int searchers;                                             // that look but once
static bool by_halves, with_common_queue;

static uint32_t on_offer(int lane)
{
    return atomic_load_explicit(&tails[lane], memory_order_relaxed) -
           atomic_load_explicit(&heads[lane], memory_order_relaxed);
}

weft_time weft__wheel_next(const struct weft__wheel *wheel)
{
    (void)wheel;
    return WEFT_FOREVER;
}

// The two sides.

static void send_home(struct weft__carrier *self)
{
    for (int i = 0; i < crew.capacity; i++) {
        if (&carriers[i] != self && carriers[i].driver != NULL) {
            weft__put(&carriers[i], &carriers[i].control.node, self);
        }
    }
    self->stop = true;
}

/// As steal.c does: who leaves something behind asks for help, and so does who was too late.
static void rob(struct weft__carrier *self, struct weft__carrier *victim)
{
    int lane = victim->number;
    if (on_offer(lane) == 0 && with_common_queue) {
        lane = CARRIERS;
    }
    uint32_t head = atomic_load_explicit(&heads[lane], memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&tails[lane], memory_order_relaxed) - head;
    uint32_t left = by_halves ? count / 2 : 0;
    bool torn = count > 2 * each; // the two were read at different moments
    if (torn) {
        // The old tail is not seen for ever: this one is new, and so are all that are read later.
        stage_catch_up(&tails[lane]);
    }
    bool late = torn || (count > 0 && !atomic_compare_exchange_strong_explicit(
                                          &heads[lane], &head, head + count - left,
                                          memory_order_relaxed, memory_order_relaxed));
    if (!late && count > left &&
        atomic_fetch_sub_explicit(&expected, count - left, memory_order_relaxed) == count - left) {
        send_home(self);
    }
    if (late || left > 0) {
        weft__search_ask(victim, self);
    }
    if (with_common_queue && on_offer(CARRIERS) > 0) {
        weft__search_ask(self, self); // F2
    }
}

/// On its own account: counted under the work-stealing policy.
static bool look(struct weft__carrier *carrier)
{
    bool counted = carrier->freely;
    if (counted && !weft__search_start(carrier)) {
        return false;
    }
    struct weft__carrier *victim = weft__search_take(carrier);
    if (victim != NULL || with_common_queue) {
        rob(carrier, victim != NULL ? victim : carrier);
    }
    if (counted) {
        weft__search_stop(carrier, carrier);
    }
    return victim != NULL || carrier->stop;
}

/// weft__carrier_loop() with nothing but stealing in it.
static void idle_carrier(void *arg)
{
    struct weft__carrier *carrier = arg;
    carrier->driver_state = &carrier->driver_state; // on its own thread: park.c, P5
    while (!carrier->stop) {
        struct weft__carrier *victim = weft__search_sent(carrier);
        if (victim != NULL) {
            rob(carrier, victim);
            weft__search_stop(victim, carrier);
        } else if (weft__inbox_take(&carrier->inbox) != NULL) {
            carrier->stop = true;
        } else if (!look(carrier)) {
            weft__sleep(carrier);
        }
    }
    struct weft__carrier *sent_to = weft__search_sent(carrier);
    if (sent_to != NULL) {
        weft__search_stop(sent_to, carrier);
    }
}

/// Looks once and is busy for ever then.
static void busy_searcher(void *arg)
{
    (void)look(arg);
}

/// One that leaves (sched/retire.c): it was idle, woke up for another reason and was told. Somebody who
/// saw it idle may still send it to search, and it passes that on (S7).
static void leaving_carrier(void *arg)
{
    struct weft__carrier *carrier = arg;
    if (weft__sleep_begin(carrier)) {
        weft__sleep_end(carrier);
    }
    carrier->leaving = true;
    while (!carrier->stop) {
        struct weft__carrier *victim = weft__search_sent(carrier);
        if (victim != NULL) {
            weft__search_stop(victim, carrier);
            weft__search_ask(victim, carrier);
        } else if (weft__inbox_take(&carrier->inbox) != NULL) {
            carrier->stop = true;
        } else {
            weft__sleep(carrier);
        }
    }
    if (weft__search_sent(carrier) != NULL) {
        weft__search_stop(&carriers[0], carrier);
    }
}

static void busy_owner(void *arg)
{
    struct weft__carrier *carrier = arg;
    for (uint32_t i = 0; i < each; i++) {
        atomic_store_explicit(&tails[carrier->number], i + 1, memory_order_relaxed);
        weft__search_ask(carrier, carrier);
    }
}

static void reset_with(int count, int owners, uint32_t things, void (*last)(void *carrier))
{
    memset(&crew, 0, sizeof crew);
    memset(help, 0, sizeof help);
    crew.carriers = carriers;
    crew.capacity = count;
    atomic_init(&crew.started, count);
    atomic_init(&crew.active, count);
    crew.clusters = clusters;
    clusters[0] = (struct weft__cluster){ .first = 0, .count = count };
    crew.cluster_count = 1;
    crew.help = help;
    crew.steals_globally = true;
    each = things;
    by_halves = false;
    with_common_queue = false;
    memset(tails, 0, sizeof tails);
    memset(heads, 0, sizeof heads);
    atomic_init(&expected, (uint32_t)owners * things);
    for (int i = 0; i < count; i++) {
        struct weft__carrier *carrier = &carriers[i];
        memset(carrier, 0, offsetof(struct weft__carrier, wheel));
        carrier->number = i;
        carrier->crew = &crew;
        carrier->shares = true;
        carrier->control = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST };
        carrier->driver_state = &carrier->driver_state;
        carrier->driver = i >= owners ? &stage_driver : NULL;
        mc_name(&carrier->state, sizeof carrier->state, i < 2 ? "state1" : "state2");
        mc_thread(i < owners               ? busy_owner
                  : i < owners + searchers ? busy_searcher
                  : i == count - 1         ? last
                                           : idle_carrier,
                  carrier);
    }
    mc_name(&help[0].searchers, sizeof help[0].searchers, "searchers");
    mc_name(&help[0].idle, sizeof help[0].idle, "idle");
    mc_name(&help[0].wanted, sizeof help[0].wanted, "wanted");
    mc_name(&help[1].searchers, sizeof help[1].searchers, "searchers there");
    mc_name(&help[1].idle, sizeof help[1].idle, "idle there");
    mc_name(&help[1].wanted, sizeof help[1].wanted, "wanted there");
    mc_name(tails, sizeof tails, "tails");
    mc_name(heads, sizeof heads, "heads");
    mc_name(&expected, sizeof expected, "expected");
}

static void reset(int count, int owners, uint32_t things)
{
    reset_with(count, owners, things, idle_carrier);
}

static void one_helper(void)
{
    reset(2, 1, 2);
}

static void two_helpers(void)
{
    reset(3, 1, 2);
    by_halves = true;
}

static void two_owners(void)
{
    reset(3, 2, 1);
}

/// What a thread outside puts into the common queue is announced for a carrier, too (F2).
static void outsider(void *arg)
{
    struct weft__carrier *carrier = arg;
    atomic_fetch_add_explicit(&tails[CARRIERS], 1, memory_order_relaxed);
    weft__search_ask(carrier, NULL);
}

/// Half of a cluster may search on their own account, rounded up.
static void count_searchers(void)
{
    for (int i = 0; i < crew.capacity; i++) {
        carriers[i].freely = true;
    }
}

static void counted(void)
{
    reset(3, 1, 1);
    count_searchers();
    clusters[0].count = 2; // so one may search
}

/// The first carrier is alone in its cluster, the others are in the second, where one may search.
static void divide(void)
{
    crew.cluster_count = 2;
    clusters[0] = (struct weft__cluster){ .first = 0, .count = 1 };
    clusters[1] = (struct weft__cluster){ .first = 1, .count = crew.capacity - 1 };
    for (int i = 1; i < crew.capacity; i++) {
        carriers[i].cluster = 1;
    }
    count_searchers();
}

/// Who sees a searcher in its cluster and sleeps is not forgotten when that one stops (S6).
static void clusters_counted(void)
{
    searchers = 1;
    reset(3, 1, 1);
    searchers = 0;
    divide();
}

/// Nor when it was a search that had nobody to send.
static void clusters_in_vain(void)
{
    reset(3, 2, 1);
    divide();
}

/// Nobody helps another cluster: all that is wanted there is left alone.
static void clusters_apart(void)
{
    reset(3, 2, 1);
    divide();
    crew.steals_globally = false;
    atomic_init(&expected, 1);
}

static void from_outside(void)
{
    reset(2, 1, 1);
    count_searchers();
    with_common_queue = true;
    atomic_init(&expected, 2);
    mc_thread(outsider, &carriers[1]);
}

static void one_leaves(void)
{
    reset_with(3, 1, 1, leaving_carrier);
}

static void check(void)
{
    mc_assert(atomic_load(&expected) == 0);
    mc_assert(atomic_load(&help[0].searchers) == 0); // S4
    mc_assert(atomic_load(&help[1].searchers) == 0);
}

static void check_apart(void)
{
    check();
    mc_assert(on_offer(0) == 1);
}

const struct mc_model mc_models[] = {
    { .name = "search_one_helper", .setup = one_helper, .check = check },
    { .name = "search_two_helpers",
      .setup = two_helpers,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "search_two_owners", .setup = two_owners, .check = check, .never_spurious = 1 },
    { .name = "search_counted",
      .setup = counted,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "search_from_outside",
      .setup = from_outside,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "search_clusters_counted",
      .setup = clusters_counted,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "search_clusters_in_vain",
      .setup = clusters_in_vain,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "search_clusters_apart",
      .setup = clusters_apart,
      .check = check_apart,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "search_one_leaves", .setup = one_leaves, .check = check, .never_spurious = 1 },
    { .name = NULL },
};
