// put_sleep_model.c - handing work to a carrier that is going to sleep (sched/park.c, P1 to P5).
//
// The carrier takes what is in its inbox and sleeps when it finds nothing, until it has seen as
// many nodes as will come. Producers hand over nodes and look whether somebody has to be kicked. A
// lost wake-up leaves the carrier asleep for ever, which the engine reports as a deadlock. The
// driver is an event: it wakes, and orders no memory, so that all order comes from the sources.
//
// Sources: sched/inbox.c sched/park.c
// Headers: sched/inbox.h
// With: stage.c
#include <string.h>

#include "mc.h"
#include "sched/park.h"
#include "stage.h"

enum { MAX_NODES = 4, PRODUCERS = 3 };

struct item {
    struct weft__node node;
    int producer, number; // plain: the race detector checks I1
};

static struct weft__carrier carrier, other;
static struct item items[MAX_NODES];
static int expected;
static int last_number[PRODUCERS];

weft_time weft__wheel_next(const struct weft__wheel *wheel)
{
    (void)wheel;
    return WEFT_FOREVER;
}

// The two sides.

static void see(struct weft__node *node)
{
    struct item *item = weft__container_of(node, struct item, node);
    mc_assert(item->number == last_number[item->producer] + 1); // I2
    last_number[item->producer] = item->number;
}

static void run_carrier(void *unused)
{
    (void)unused;
    for (int seen = 0; seen < expected;) {
        struct weft__node *node = weft__inbox_take(&carrier.inbox);
        if (node == NULL) {
            weft__sleep(&carrier);
        }
        while (node != NULL) {
            struct weft__node *next = node->next;
            see(node);
            seen++;
            node = next;
        }
    }
}

/// One that is started later opens its driver itself (P5).
static void run_late_carrier(void *unused)
{
    carrier.driver = &stage_driver;
    carrier.driver_state = &carrier.driver_state;
    run_carrier(unused);
}

static void put(struct item *item, int producer, int number, struct weft__carrier *self)
{
    item->producer = producer;
    item->number = number;
    weft__put(&carrier, &item->node, self);
}

static void produce_one(void *arg)
{
    int producer = (int)(intptr_t)arg;
    put(&items[producer], producer, 1, NULL);
}

static void produce_two(void *arg)
{
    int producer = (int)(intptr_t)arg;
    put(&items[2 * producer], producer, 1, NULL);
    put(&items[2 * producer + 1], producer, 2, NULL);
}

static void produce_from_carrier(void *arg)
{
    int producer = (int)(intptr_t)arg;
    put(&items[producer], producer, 1, &other);
}

static void reset_with(int nodes, void (*body)(void *))
{
    memset(&carrier, 0, offsetof(struct weft__carrier, wheel));
    memset(&other, 0, offsetof(struct weft__carrier, wheel));
    memset(items, 0, sizeof items);
    memset(last_number, 0, sizeof last_number);
    carrier.driver = other.driver = &stage_driver;
    carrier.driver_state = &carrier.driver_state;
    other.driver_state = &other.driver_state;
    expected = nodes;
    mc_name(&carrier.state, sizeof carrier.state, "state");
    mc_name(&carrier.inbox, sizeof carrier.inbox, "inbox");
    mc_name(&carrier.driver_state, sizeof carrier.driver_state, "driver");
    mc_name(&items[0], sizeof items[0], "node0");
    mc_name(&items[1], sizeof items[1], "node1");
    mc_name(&items[2], sizeof items[2], "node2");
    mc_thread(body, NULL);
}

static void reset(int nodes)
{
    reset_with(nodes, run_carrier);
}

static void late_start(void)
{
    reset_with(1, run_late_carrier);
    mc_thread(produce_one, (void *)0);
}

static void one_producer(void)
{
    reset(2);
    mc_thread(produce_two, (void *)0);
}

static void two_producers(void)
{
    reset(2);
    mc_thread(produce_one, (void *)0);
    mc_thread(produce_from_carrier, (void *)1);
}

const struct mc_model mc_models[] = {
    { .name = "put_sleep_one_producer", .setup = one_producer },
    { .name = "put_sleep_two_producers", .setup = two_producers },
    { .name = "put_sleep_late_start", .setup = late_start },
    { .name = NULL },
};
