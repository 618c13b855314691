// inject_test.c - the queue that belongs to no carrier: order, batches, and that nothing is lost.
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "sched/inject.h"

struct item {
    struct weft__node node; // first member
    uint64_t number;
    uint32_t had;
};

static struct weft__inject inject;

static void push_range(struct item *items, uint64_t from, uint64_t to)
{
    struct weft__fifo batch = { 0 };
    for (uint64_t i = from; i < to; i++) {
        items[i].number = i;
        weft__fifo_push(&batch, &items[i].node);
    }
    weft__inject_push(&inject, &batch);
    CHECK(batch.head == NULL);
}

TEST(nothing_comes_out_of_nothing)
{
    struct weft__fifo batch = { 0 };
    weft__inject_push(&inject, &batch);
    CHECK_EQ(weft__inject_take(&inject, &batch, 5), 0);
    CHECK_EQ(weft__inject_count(&inject), 0);
}

TEST(batches_are_joined_and_cut)
{
    struct item items[10];
    struct weft__fifo batch = { 0 };
    push_range(items, 0, 3);
    push_range(items, 3, 10);
    CHECK_EQ(weft__inject_count(&inject), 10);
    CHECK_EQ(weft__inject_take(&inject, &batch, 4), 4);
    CHECK_EQ(weft__inject_take(&inject, &batch, 100), 6);
    CHECK_EQ(batch.count, 10);
    for (uint64_t i = 0; i < 10; i++) {
        CHECK_EQ(((struct item *)weft__fifo_pop(&batch))->number, i);
    }
    CHECK_EQ(weft__inject_count(&inject), 0);
}

enum { TAKERS = 2, BATCH = 5 };
static _Atomic uint64_t left;

static void *take_on(void *unused)
{
    (void)unused;
    while (atomic_load(&left) > 0) {
        struct weft__fifo batch = { 0 };
        size_t taken = weft__inject_take(&inject, &batch, 3);
        for (struct weft__node *node; (node = weft__fifo_pop(&batch)) != NULL;) {
            ((struct item *)node)->had++;
        }
        atomic_fetch_sub(&left, taken);
    }
    return NULL;
}

TEST(everything_is_had_once)
{
    pthread_t takers[TAKERS];
    uint64_t total = test_scaled(50000) / BATCH * BATCH;
    struct item *items = calloc(total, sizeof *items);
    CHECK(items != NULL);
    atomic_store(&left, total);
    for (int i = 0; i < TAKERS; i++) {
        CHECK_EQ(pthread_create(&takers[i], NULL, take_on, NULL), 0);
    }
    for (uint64_t i = 0; i < total; i += BATCH) {
        push_range(items, i, i + BATCH);
    }
    for (int i = 0; i < TAKERS; i++) {
        pthread_join(takers[i], NULL);
    }
    for (uint64_t i = 0; i < total; i++) {
        CHECK_EQ(items[i].had, 1);
    }
    free(items);
}
