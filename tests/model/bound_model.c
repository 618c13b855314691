// bound_model.c - a task that was stolen goes back where it came from, if nothing binds it (sched/steal.c, H3;
// task/task.h).
//
// Its deadline is in the wheel of the thief, which fires it; somebody else wakes the task at the same moment.
// If he finds it unbound it goes home to its origin, runs there and sets its deadline anew, in another wheel:
// all that is plain, so who lets it go before the thief has done with the timer is a data race. If he finds
// it bound, it runs where the timer is.
//
// Sources: sched/crew.c sched/host.c sched/steal.c sched/offer.c sched/park.c sched/inbox.c
// Sources: sched/wheel.c task/run.c
// Headers: task/task.h
// With: stage.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <string.h>

#include "mc.h"
#include "sched/crew.h"
#include "sched/park.h"
#include "stage.h"
#include "task/host.h"
#include "task/word.h"

enum { ORIGIN, THIEF, CARRIERS, FIRST = WEFT__WHEEL_TICK_NS, LATER = 100 * WEFT__WHEEL_TICK_NS };

static struct weft__crew crew;
static struct weft__carrier carriers[CARRIERS];
static struct weft__task task;
static int runs; // plain

struct weft__carrier *weft__carrier_self(void)
{
    int self = mc_self();
    return self == ORIGIN || self == THIEF ? &carriers[self] : NULL;
}

weft_time weft__clock_ns(void)
{
    return 1;
}

/// It runs, sets its deadline anew and goes on for ever. The other carrier may go.
static void run(struct weft__carrier *carrier)
{
    mc_assert(task.home == carrier);
    runs++;
    (void)weft__word_clear_notified(&task);
    weft__host_timer_set(&task, &task.deadline, LATER);
    struct weft__carrier *other = &carriers[CARRIERS - 1 - carrier->number];
    weft__put(other, &other->control.node, carrier);
    carrier->stop = true;
}

/// On offer here, or in `local`: it is all the same, nobody else is idle.
static bool has_task(struct weft__carrier *carrier)
{
    return weft__fifo_pop(&carrier->local) != NULL || weft__offer_pop(&carrier->offer) != NULL;
}

static void run_carrier(void *arg)
{
    struct weft__carrier *carrier = arg;
    while (!carrier->stop) {
        struct weft__timer *timer = weft__wheel_pop(&carrier->wheel, FIRST);
        struct weft__node *node = weft__inbox_take(&carrier->inbox);
        if (timer != NULL) {
            timer->fire(timer);
        }
        if (node != NULL && node->kind == WEFT__NODE_REQUEST) {
            carrier->stop = true;
        } else if (node != NULL || has_task(carrier)) {
            run(carrier);
        } else {
            weft__sleep(carrier);
        }
    }
}

static void wake(void *unused)
{
    (void)unused;
    weft__wake(&task);
}

static void both(void)
{
    memset(&crew, 0, sizeof crew);
    memset(&task, 0, sizeof task);
    runs = 0;
    crew.carriers = carriers;
    crew.capacity = CARRIERS;
    crew.sched.ops = &weft__sharing_ops;
    for (int i = 0; i < CARRIERS; i++) {
        struct weft__carrier *carrier = &carriers[i];
        memset(carrier, 0, sizeof *carrier);
        weft__wheel_init(&carrier->wheel, 0);
        carrier->number = i;
        carrier->crew = &crew;
        carrier->driver = &stage_driver;
        carrier->driver_state = &carrier->driver_state;
        carrier->control = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST };
        mc_name(&carrier->state, sizeof carrier->state, i == ORIGIN ? "state" : "state there");
        mc_name(&carrier->inbox, sizeof carrier->inbox, i == ORIGIN ? "inbox" : "inbox there");
        mc_thread(run_carrier, carrier);
    }
    task.node.kind = WEFT__NODE_TASK;
    task.kind = &weft__kind_future;
    task.movable = task.migratable = task.started = true;
    task.crew = &crew;
    task.sched = &crew.sched;
    task.home = &carriers[THIEF];
    task.origin = &carriers[ORIGIN];
    task.deadline.fire = weft__deadline_fired;
    weft__word_init(&task, 2, 0);
    weft__host_timer_set(&task, &task.deadline, FIRST);
    bool parked = weft__word_park(&task);
    mc_assert(parked);
    mc_name(&task, sizeof task, "task");
    mc_name(&task.word, sizeof task.word, "word");
    mc_name((void *)&task.in_flight, sizeof task.in_flight, "in_flight");
    mc_name(&task.deadline, sizeof task.deadline, "deadline");
    mc_thread(wake, NULL);
}

static void check(void)
{
    mc_assert(runs == 1);
}

const struct mc_model mc_models[] = {
    { .name = "bound_by_a_timer", .setup = both, .check = check, .max_bound = 2 },
    { .name = NULL },
};
