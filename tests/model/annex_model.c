// annex_model.c - a stuck carrier comes back while others help its tasks (sched/annex.c, N1 to N5).
//
// A producer hands over requests, which only the carrier may carry out, and a task that may move. A
// rescuer, who thinks that the carrier is stuck, sorts its inbox; the carrier opens it, and sleeps when it
// finds nothing, until it has seen all requests. If what the rescuer has kept is forgotten, the carrier
// sleeps for ever, which the engine reports as a deadlock. Its kick wants the lock, as the program does
// that is called by it (a poller's `wake`): who kicked under the lock would wait for ever, too. Somebody also
// wants to disarm a timer that both the carrier and the rescuer may fire.
//
// Sources: sched/annex.c sched/park.c sched/inbox.c sched/wheel.c
// Headers: base/lock.h
// With: stage.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <string.h>

#include "mc.h"
#include "sched/annex.h"
#include "sched/park.h"
#include "stage.h"

enum { REQUESTS = 2, NOW = 1 << 20 };

static struct weft__carrier carrier;
static struct weft__annex annex;
static struct weft__request requests[REQUESTS];
static struct weft__task mover;
static int last_request; // the carrier's
static int runs;         // of the mover by the carrier
static int taken;        // by the rescuer
static int expected;     // requests
static struct weft__timer timer;
static int ends; // of the timer's wait, by whoever ends it: plain, so races are seen

static void kick(void *state, void *from)
{
    weft__lock_acquire(&annex.lock);
    weft__lock_release(&annex.lock);
    stage_driver.kick(state, from);
}

static struct weft__driver strict_driver; // whose kick wants the lock

static bool takes(const struct weft__task *task)
{
    mc_assert(task == &mover);
    return true;
}

static void see(struct weft__node *node)
{
    if (node->kind == WEFT__NODE_TASK) {
        runs++;
        return;
    }
    int number = (int)(weft__container_of(node, struct weft__request, node) - requests) + 1;
    mc_assert(number == last_request + 1); // N3
    last_request = number;
}

static void run_carrier(void *unused)
{
    (void)unused;
    while (last_request < expected) {
        struct weft__node *node = weft__annex_take_inbox(&annex);
        if (node == NULL) {
            weft__sleep(&carrier);
        }
        while (node != NULL) {
            struct weft__node *next = node->next;
            see(node);
            node = next;
        }
    }
}

static void rescue(void *unused)
{
    (void)unused;
    struct weft__fifo loot = { 0 };
    (void)weft__annex_rescue(&annex, NOW, takes, &loot);
    for (struct weft__node *node; (node = weft__fifo_pop(&loot)) != NULL;) {
        mc_assert(node == &mover.node);
        taken++;
    }
}

static void rescue_twice(void *unused)
{
    rescue(unused);
    rescue(unused);
}

static void produce(void *unused)
{
    (void)unused;
    for (int i = 0; i < expected; i++) {
        weft__put(&carrier, &requests[i].node, NULL);
    }
}

static void produce_mover(void *unused)
{
    (void)unused;
    weft__put(&carrier, &requests[0].node, NULL);
    weft__put(&carrier, &mover.node, NULL);
    weft__put(&carrier, &requests[1].node, NULL);
}

static void fired(struct weft__timer *which)
{
    mc_assert(which == &timer);
    ends++;
}

static void fire(void *unused)
{
    (void)unused;
    (void)weft__annex_fire(&annex, NOW);
}

static void disarm(void *unused)
{
    (void)unused;
    if (weft__annex_disarm(&annex, &timer)) {
        ends++;
    }
}

// Ops that are cancelled elsewhere: the carrier has to come by (N7).

static int cancelled; // under the annex's lock
static int flushed;   // likewise: of these, seen by a poll
static struct weft__op ops[2];

static void note_cancel(void *state, struct weft__op *op)
{
    (void)state;
    (void)op;
    cancelled++;
}

static int note_poll(void *state)
{
    (void)state;
    flushed = cancelled;
    return 0;
}

static const struct weft__driver beside = { .cancel = note_cancel, .poll = note_poll };

static void cancel_op(void *arg)
{
    weft__annex_cancel(&annex, arg, NULL);
}

static void run_until_flushed(void *unused)
{
    (void)unused;
    while (flushed < 2) {
        struct weft__node *node = weft__annex_take_inbox(&annex);
        if (node == NULL) {
            weft__sleep(&carrier);
        }
        while (node != NULL) {
            struct weft__node *next = node->next;
            struct weft__request *request = weft__container_of(node, struct weft__request, node);
            request->fn(request, &carrier);
            node = next;
        }
        (void)weft__annex_poll(&annex);
    }
}

static void check_once(void)
{
    mc_assert(runs + taken == 1);
}

static void check_end(void)
{
    mc_assert(ends == 1);
}

static void reset(int requests_used, bool strict)
{
    memset(&carrier, 0, offsetof(struct weft__carrier, wheel));
    memset(&annex, 0, sizeof annex);
    memset(&mover, 0, sizeof mover);
    weft__wheel_init(&carrier.wheel, 0);
    weft__wheel_init(&annex.wheel, 0);
    weft__annex_init(&annex, &carrier);
    carrier.annex = &annex;
    strict_driver = stage_driver;
    strict_driver.kick = kick;
    carrier.driver = strict ? &strict_driver : &stage_driver;
    carrier.driver_state = &carrier.driver_state;
    mover.node.kind = WEFT__NODE_TASK;
    for (int i = 0; i < REQUESTS; i++) {
        requests[i] = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST };
    }
    timer = (struct weft__timer){ .fire = fired };
    last_request = runs = taken = ends = 0;
    expected = requests_used;
    mc_name(&carrier.state, sizeof carrier.state, "state");
    mc_name(&carrier.inbox, sizeof carrier.inbox, "inbox");
    mc_name(&carrier.driver_state, sizeof carrier.driver_state, "driver");
    mc_name(&annex.lock, sizeof annex.lock, "lock");
}

static void one_request(void)
{
    reset(1, false);
    mc_thread(run_carrier, NULL);
    mc_thread(produce, NULL);
    mc_thread(rescue, NULL);
}

static void strict_kick(void)
{
    reset(1, true);
    mc_thread(run_carrier, NULL);
    mc_thread(produce, NULL);
    mc_thread(rescue, NULL);
}

static void in_order(void)
{
    reset(2, false);
    mc_thread(run_carrier, NULL);
    mc_thread(produce, NULL);
    mc_thread(rescue, NULL);
}

static void again(void)
{
    reset(1, false);
    mc_thread(run_carrier, NULL);
    mc_thread(produce, NULL);
    mc_thread(rescue_twice, NULL);
}

static void with_a_task(void)
{
    reset(2, false);
    mc_thread(run_carrier, NULL);
    mc_thread(produce_mover, NULL);
    mc_thread(rescue, NULL);
}

static void timers(void)
{
    reset(0, false);
    weft__annex_arm(&annex, &timer, 1);
    mc_thread(fire, NULL);
    mc_thread(rescue, NULL);
    mc_thread(disarm, NULL);
}

static void nudges(void)
{
    reset(0, false);
    cancelled = flushed = 0;
    annex.driver = &beside;
    annex.driver_state = &annex.driver_state;
    mc_thread(run_until_flushed, NULL);
    mc_thread(cancel_op, &ops[0]);
    mc_thread(cancel_op, &ops[1]);
}

const struct mc_model mc_models[] = {
    { .name = "annex_one_request", .setup = one_request },
    { .name = "annex_strict_kick", .setup = strict_kick, .max_bound = 2 },
    { .name = "annex_in_order", .setup = in_order, .max_bound = 2 },
    { .name = "annex_again", .setup = again, .max_bound = 2 },
    { .name = "annex_with_a_task", .setup = with_a_task, .check = check_once, .max_bound = 1 },
    { .name = "annex_nudges", .setup = nudges, .max_bound = 2 },
    { .name = "annex_timers", .setup = timers, .check = check_end },
    { .name = NULL },
};
