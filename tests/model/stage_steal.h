// stage_steal.h - carriers with the real lanes, and tasks that may move, for models of who takes what.
//
// Each task is run once, plainly, where it is at home, so that two who have it are a data race; whoever
// runs the last sends all carriers home. Included by one model each: everything is its own.
#ifndef MODEL_STAGE_STEAL_H
#define MODEL_STAGE_STEAL_H

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
static struct weft__task tasks[TASKS];
static int runs[TASKS];      // plain
static _Atomic int expected; // that nobody has run
static int first, last;      // what sharing_owner() shares

static void send_home(struct weft__carrier *self)
{
    for (int i = 0; i < self->crew->capacity; i++) {
        if (&carriers[i] != self && carriers[i].driver != NULL) {
            weft__put(&carriers[i], &carriers[i].control.node, self);
        }
    }
    self->stop = true;
}

static void run(struct weft__carrier *self, struct weft__node *node)
{
    struct weft__task *task = weft__container_of(node, struct weft__task, node);
    mc_assert(task->home == self); // steal.c, H1
    runs[task - tasks]++;
    if (atomic_fetch_sub_explicit(&expected, 1, memory_order_relaxed) == 1) {
        send_home(self);
    }
}

static bool run_one(struct weft__carrier *carrier)
{
    struct weft__node *node = carrier->offering ? weft__next_shared(carrier)
                                                : weft__fifo_pop(&carrier->local);
    if (node != NULL) {
        run(carrier, node);
    }
    return node != NULL;
}

static void share(struct weft__carrier *carrier)
{
    for (int i = first; i < last; i++) {
        weft__share(carrier, &tasks[i]);
    }
}

/// Asks for help with the one that would be its own next work, as at the end of a step (H5), and is busy
/// then.
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
    (void)run_one(arg);
    (void)run_one(arg);
}

/// It was the only one of its cluster, which tasks may not leave otherwise.
static void leaving_owner(void *arg)
{
    struct weft__carrier *carrier = arg;
    atomic_store_explicit(&carrier->crew->active, 1, memory_order_relaxed);
    carrier->leaving = true;
    weft__free_desert(carrier, carrier);
}

/// Before anybody else is there the owner has shared so many; it shares up to `end` when they are.
static void shared_before(struct weft__carrier *owner, int count, int end)
{
    first = 0;
    last = count;
    share(owner);
    first = count;
    last = end;
    atomic_init(&expected, end);
}

/// Zeroed `crew` gets so many carriers in one cluster, and tasks at home at `owner`.
static void set_stage(struct weft__crew *crew, int count, bool freely, struct weft__carrier *owner)
{
    memset(help, 0, sizeof help);
    memset(runs, 0, sizeof runs);
    crew->carriers = carriers;
    crew->capacity = count;
    atomic_init(&crew->started, count);
    atomic_init(&crew->active, count);
    crew->clusters = clusters;
    clusters[0] = (struct weft__cluster){ .first = 0, .count = count };
    crew->cluster_count = 1;
    crew->help = help;
    crew->steals_globally = true;
    for (int i = 0; i < count; i++) {
        struct weft__carrier *carrier = &carriers[i];
        memset(carrier, 0, offsetof(struct weft__carrier, wheel));
        carrier->number = i;
        carrier->crew = crew;
        carrier->shares = true;
        carrier->freely = carrier->offering = freely;
        carrier->worker.inject = &crew->inject;
        carrier->control = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST };
        carrier->driver_state = &carrier->driver_state;
        mc_name(&carrier->state, sizeof carrier->state, carrier == owner ? "state" : "state there");
        mc_name(&carrier->offer.head, sizeof carrier->offer.head,
                carrier == owner ? "head" : "head there");
        mc_name(&carrier->offer.tail, sizeof carrier->offer.tail,
                carrier == owner ? "tail" : "tail there");
        mc_name(&carrier->spill.count, sizeof carrier->spill.count, "spill");
    }
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct weft__task){ .movable = true, .migratable = true, .started = true };
        tasks[i].crew = crew;
        tasks[i].home = tasks[i].origin = owner;
    }
    mc_name(help, sizeof help, "help");
    mc_name(&help[0].searchers, sizeof help[0].searchers, "searchers");
    mc_name(&help[0].idle, sizeof help[0].idle, "idle");
    mc_name(&help[0].wanted, sizeof help[0].wanted, "wanted");
    mc_name(&crew->inject.count, sizeof crew->inject.count, "inject");
    mc_name(&crew->active, sizeof crew->active, "active");
    mc_name(&expected, sizeof expected, "expected");
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

#endif
