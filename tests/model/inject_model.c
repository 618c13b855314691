// inject_model.c - threads that leave tasks in the common queue and carriers that take batches from it
// (sched/inject.c, J1 and J2).
//
// What is pushed is plain: the race detector checks that it arrives with its content. Everything is had
// once, in order, or is still there at the end; and who pushed and then has a fence is seen by who has
// a fence and then looks at the count (J1).
//
// Sources: sched/inject.c
// Headers: sched/inject.h base/lock.h
// With: stage.c stage_lock.c
#include <string.h>

#include "mc.h"
#include "sched/inject.h"
#include "stage.h"

enum { NODES = 4, PRODUCERS = 2 };

struct item {
    struct weft__node node;
    int producer, number; // plain
    int had;
};

static struct weft__inject inject;
static struct item items[NODES];
static _Atomic int pushed, looked;
static int found;

static void produce(void *arg)
{
    int producer = (int)(intptr_t)arg;
    struct weft__fifo batch = { 0 };
    for (int i = 0; i < NODES / PRODUCERS; i++) {
        struct item *item = &items[producer * NODES / PRODUCERS + i];
        item->producer = producer;
        item->number = i + 1;
        weft__fifo_push(&batch, &item->node);
    }
    weft__inject_push(&inject, &batch);
    mc_assert(batch.head == NULL && batch.count == 0);
}

static void have(struct weft__fifo *batch)
{
    int last[PRODUCERS] = { 0 };
    for (struct weft__node *node; (node = weft__fifo_pop(batch)) != NULL;) {
        struct item *item = weft__container_of(node, struct item, node);
        item->had++;
        mc_assert(item->number > last[item->producer]); // J2
        last[item->producer] = item->number;
    }
}

static void take(void *arg)
{
    struct weft__fifo batch = { 0 };
    size_t most = (size_t)(intptr_t)arg;
    size_t taken = weft__inject_take(&inject, &batch, most);
    mc_assert(taken <= most && batch.count == taken);
    have(&batch);
}

static void push_and_look(void *unused)
{
    produce(unused);
    atomic_thread_fence(memory_order_seq_cst);
    pushed = atomic_load_explicit(&looked, memory_order_relaxed) + 1;
}

static void sleep_and_look(void *unused)
{
    (void)unused;
    atomic_store_explicit(&looked, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    found = weft__inject_count(&inject) > 0;
}

static void reset(void)
{
    memset(&inject, 0, sizeof inject);
    memset(items, 0, sizeof items);
    atomic_init(&pushed, 0);
    atomic_init(&looked, 0);
    found = 0;
    mc_name(&inject.count, sizeof inject.count, "count");
    mc_name(&inject.lock, sizeof inject.lock, "lock");
}

static void batches(void)
{
    reset();
    mc_thread(produce, (void *)0);
    mc_thread(produce, (void *)1);
    mc_thread(take, (void *)1);
    mc_thread(take, (void *)NODES);
}

static void announced(void)
{
    reset();
    mc_thread(push_and_look, (void *)0);
    mc_thread(sleep_and_look, NULL);
}

static void check_batches(void)
{
    struct weft__fifo batch = { 0 };
    (void)weft__inject_take(&inject, &batch, NODES);
    have(&batch);
    mc_assert(weft__inject_count(&inject) == 0);
    for (int i = 0; i < NODES; i++) {
        mc_assert(items[i].had == 1);
    }
}

static void check_announced(void)
{
    mc_assert(found || atomic_load(&pushed) == 2); // one sees the other
}

const struct mc_model mc_models[] = {
    { .name = "inject_batches", .setup = batches, .check = check_batches, .never_spurious = 1 },
    { .name = "inject_announced", .setup = announced, .check = check_announced },
    { .name = NULL },
};
