// offer_test.c - the lane that others may take from: order, room, and that nothing is had twice.
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "sched/offer.h"

struct item {
    struct weft__node node; // first member
    uint32_t number;
    uint32_t had; // by whoever took it
};

enum { SLOTS = WEFT__OFFER_SLOTS, THIEVES = 3 };

static struct weft__offer offer;
static struct item items[SLOTS + 1];

static uint32_t pop_number(void)
{
    struct item *item = (struct item *)weft__offer_pop(&offer);
    return item != NULL ? item->number : UINT32_MAX;
}

static uint32_t fill(uint32_t count)
{
    uint32_t on_offer = 0;
    for (uint32_t i = 0; i < count; i++) {
        items[i].number = i;
        on_offer = weft__offer_push(&offer, &items[i].node);
    }
    return on_offer;
}

TEST(an_empty_offer_gives_nothing)
{
    struct weft__fifo loot = { 0 };
    CHECK(weft__offer_pop(&offer) == NULL);
    CHECK_EQ(weft__offer_steal(&offer, &loot), 0);
    CHECK(loot.head == NULL);
    CHECK_EQ(weft__offer_count(&offer), 0);
}

TEST(owner_and_thief_get_the_oldest_first)
{
    struct weft__fifo loot = { 0 };
    CHECK_EQ(fill(4), 4);
    CHECK_EQ(pop_number(), 0);
    CHECK_EQ(weft__offer_steal(&offer, &loot), 2); // half of three, rounded up
    CHECK_EQ(((struct item *)weft__fifo_pop(&loot))->number, 1);
    CHECK_EQ(((struct item *)weft__fifo_pop(&loot))->number, 2);
    CHECK_EQ(pop_number(), 3);
    CHECK_EQ(pop_number(), UINT32_MAX);
}

TEST(a_full_offer_refuses_and_has_room_again)
{
    struct weft__fifo loot = { 0 };
    for (int round = 0; round < 5; round++) { // round and round
        CHECK_EQ(fill(SLOTS), SLOTS);
        CHECK_EQ(weft__offer_push(&offer, &items[SLOTS].node), 0);
        CHECK_EQ(weft__offer_steal(&offer, &loot), SLOTS / 2);
        CHECK_EQ(weft__offer_push(&offer, &items[SLOTS].node), SLOTS / 2 + 1);
        while (weft__offer_pop(&offer) != NULL) {
        }
    }
}

TEST(a_thief_meets_another_and_gives_up)
{
    struct weft__fifo loot = { 0 };
    CHECK_EQ(fill(2), 2);
    atomic_store(&offer.head, 1); // one has claimed the first slot, and reads it
    CHECK_EQ(weft__offer_steal(&offer, &loot), -EBUSY);
    CHECK_EQ(pop_number(), 1); // the owner goes on
    CHECK_EQ(atomic_load(&offer.head), 2);
}

static _Atomic bool over;

static void *steal_on(void *unused)
{
    uint64_t stolen = 0;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        struct weft__fifo loot = { 0 };
        (void)weft__offer_steal(&offer, &loot);
        for (struct weft__node *node; (node = weft__fifo_pop(&loot)) != NULL; stolen++) {
            ((struct item *)node)->had++;
        }
    }
    (void)unused;
    return (void *)(uintptr_t)stolen;
}

TEST(every_task_is_had_once)
{
    pthread_t thieves[THIEVES];
    uint64_t total = test_scaled(1000000);
    uint64_t random = test_seed();
    uint64_t had = 0;
    struct item *many = calloc(total, sizeof *many);
    CHECK(many != NULL);
    for (int i = 0; i < THIEVES; i++) {
        CHECK_EQ(pthread_create(&thieves[i], NULL, steal_on, NULL), 0);
    }
    for (uint64_t i = 0; i < total;) {
        i += weft__offer_push(&offer, &many[i].node) != 0;
        if (test_random(&random) % 3 == 0) {
            struct item *item = (struct item *)weft__offer_pop(&offer);
            if (item != NULL) {
                item->had++;
                had++;
            }
        }
    }
    for (struct item *item; (item = (struct item *)weft__offer_pop(&offer)) != NULL; had++) {
        item->had++;
    }
    atomic_store(&over, true);
    for (int i = 0; i < THIEVES; i++) {
        void *stolen;
        pthread_join(thieves[i], &stolen);
        had += (uintptr_t)stolen;
    }
    CHECK_EQ(had, total);
    for (uint64_t i = 0; i < total; i++) {
        CHECK_EQ(many[i].had, 1);
    }
    free(many);
}
