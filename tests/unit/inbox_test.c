// inbox_test.c - the lane from everyone to one carrier: order, completeness, emptiness.
#include "support/test.h"

#include <pthread.h>
#include <stdlib.h>

#include "sched/inbox.h"

struct item {
    struct weft__node node; // first member
    int producer;
    uint64_t number;
};

static struct weft__inbox inbox;

TEST(an_empty_inbox_gives_nothing)
{
    CHECK(weft__inbox_empty(&inbox));
    CHECK(weft__inbox_take(&inbox) == NULL);
}

TEST(all_is_taken_at_once_the_oldest_first)
{
    struct item items[5];
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 5; i++) {
            items[i].number = i;
            weft__inbox_push(&inbox, &items[i].node);
            CHECK(!weft__inbox_empty(&inbox));
        }
        struct weft__node *node = weft__inbox_take(&inbox);
        CHECK(weft__inbox_empty(&inbox));
        for (uint64_t i = 0; i < 5; i++, node = node->next) {
            CHECK(node != NULL);
            CHECK_EQ(((struct item *)node)->number, i);
        }
        CHECK(node == NULL);
    }
}

enum { PRODUCERS = 3 };
static uint64_t each;

static void *produce(void *arg)
{
    struct item *items = arg;
    for (uint64_t i = 0; i < each; i++) {
        items[i].number = i; // published by the push
        weft__inbox_push(&inbox, &items[i].node);
    }
    return NULL;
}

TEST(nothing_is_lost_and_each_producers_order_is_kept)
{
    pthread_t threads[PRODUCERS];
    uint64_t next[PRODUCERS] = { 0 };
    struct item *items[PRODUCERS];
    each = test_scaled(200000);
    for (int i = 0; i < PRODUCERS; i++) {
        items[i] = calloc(each, sizeof *items[i]);
        CHECK(items[i] != NULL);
        for (uint64_t j = 0; j < each; j++) {
            items[i][j].producer = i;
            items[i][j].number = UINT64_MAX;
        }
        CHECK_EQ(pthread_create(&threads[i], NULL, produce, items[i]), 0);
    }
    for (uint64_t taken = 0; taken < PRODUCERS * each;) {
        struct weft__node *node = weft__inbox_take(&inbox);
        while (node != NULL) {
            struct weft__node *following = node->next;
            struct item *item = (struct item *)node;
            CHECK_EQ(item->number, next[item->producer]);
            next[item->producer]++;
            taken++;
            node = following;
        }
    }
    for (int i = 0; i < PRODUCERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        free(items[i]);
    }
    CHECK(weft__inbox_empty(&inbox));
    CHECK(weft__inbox_take(&inbox) == NULL);
}
