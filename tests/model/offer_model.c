// offer_model.c - an owner and thieves at one offer lane (sched/offer.c, O1 to O4).
//
// The owner pushes, pops and pushes again, over the end of the ring; thieves take halves. Every node
// is written before its push and read by whoever gets it, plainly: the race detector checks O2 and
// O3. At the end each node was had exactly once (O1), or is still there.
//
// Sources: sched/offer.c
// With: stage.c
// Flags: -DWEFT_TINY=1
#include <string.h>

#include "mc.h"
#include "sched/offer.h"
#include "stage.h"

enum { NODES = 7, SLOTS = WEFT__OFFER_SLOTS };

struct item {
    struct weft__node node;
    int value; // plain
    int had;   // plain: written by whoever got it
};

static struct weft__offer offer;
static struct item items[NODES];
static int refused;

static bool push(int i)
{
    items[i].value = i + 1;
    return weft__offer_push(&offer, &items[i].node) != 0;
}

static void have(struct weft__node *node)
{
    struct item *item = weft__container_of(node, struct item, node);
    mc_assert(item->value == (int)(item - items) + 1);
    item->had++;
}

static void pop(void)
{
    struct weft__node *node = weft__offer_pop(&offer);
    if (node != NULL) {
        have(node);
    }
}

static void thief(void *unused)
{
    (void)unused;
    struct weft__fifo loot = { 0 };
    int count = weft__offer_steal(&offer, &loot);
    mc_assert(count <= SLOTS / 2);
    for (struct weft__node *node; (node = weft__fifo_pop(&loot)) != NULL; count--) {
        have(node);
    }
    mc_assert(count <= 0);
}

/// Pushes one more than there is room for, unless somebody takes one meanwhile.
static void owner_full(void *unused)
{
    (void)unused;
    for (int i = 4; i < NODES - 1; i++) {
        refused += !push(i);
    }
    pop();
    refused += !push(NODES - 1);
}

static void owner_little(void *unused)
{
    (void)unused;
    mc_assert(push(2));
    pop();
    pop();
    pop();
}

static void reset(int offered)
{
    memset(&offer, 0, sizeof offer);
    memset(items, 0, sizeof items);
    refused = 0;
    // Indices about to come round.
    atomic_init(&offer.head, (uint64_t)0xfffffffeu << 32 | 0xfffffffeu);
    atomic_init(&offer.tail, 0xfffffffeu);
    for (int i = 0; i < offered; i++) {
        mc_assert(push(i));
    }
    mc_name(&offer.head, sizeof offer.head, "head");
    mc_name(&offer.tail, sizeof offer.tail, "tail");
    mc_name(offer.slots, sizeof offer.slots, "slots");
}

static void full(void)
{
    reset(SLOTS);
    mc_thread(owner_full, NULL);
    mc_thread(thief, NULL);
    mc_thread(thief, NULL);
}

static void little(void)
{
    reset(2);
    mc_thread(owner_little, NULL);
    mc_thread(thief, NULL);
    mc_thread(thief, NULL);
}

static void drain(void)
{
    for (struct weft__node *node; (node = weft__offer_pop(&offer)) != NULL;) {
        have(node);
    }
}

static void check_full(void)
{
    drain();
    int had = 0;
    for (int i = 0; i < NODES; i++) {
        mc_assert(items[i].had <= 1);
        had += items[i].had;
    }
    mc_assert(had == NODES - refused);
}

static void check_little(void)
{
    drain();
    for (int i = 0; i < 3; i++) {
        mc_assert(items[i].had == 1);
    }
}

const struct mc_model mc_models[] = {
    { .name = "offer_full", .setup = full, .check = check_full },
    { .name = "offer_little", .setup = little, .check = check_little },
    { .name = NULL },
};
