// annex_test.c - a rescuer at the annex of a carrier without a thread (sched/annex.c): whom he looks at,
// what he leaves, and that he calls nobody under the lock.
#include "support/test.h"

#include <string.h>
#include <weft.h>

#include "sched/annex.h"
#include "sched/crew.h"
#include "sched/park.h"
#include "task/task.h"

enum { PINNED = 100 };

static struct weft__carrier carrier;
static struct weft__crew crew;
static struct weft__annex annex;
static struct weft__task pinned[PINNED];
static struct weft__task mover;
static int looks; // at tasks, by rescuers
static int kicks;

/// Stands for a kick that ends in the program's code: that may wait for whoever wants the lock.
static void kick(void *state, void *from)
{
    (void)state;
    (void)from;
    CHECK(weft__lock_try(&annex.lock));
    weft__lock_release(&annex.lock);
    kicks++;
}

static const struct weft__driver driver = { .name = "none", .kick = kick };

static void set_up(void)
{
    memset(&carrier, 0, sizeof carrier);
    memset(&annex, 0, sizeof annex);
    memset(&mover, 0, sizeof mover);
    carrier.crew = &crew;
    carrier.driver = &driver;
    weft__wheel_init(&annex.wheel, 0);
    weft__annex_init(&annex, &carrier);
    carrier.annex = &annex;
    mover.node.kind = WEFT__NODE_TASK;
    for (int i = 0; i < PINNED; i++) {
        memset(&pinned[i], 0, sizeof pinned[i]);
        pinned[i].node.kind = WEFT__NODE_TASK;
    }
    looks = kicks = 0;
}

static void sleeps(void)
{
    atomic_store(&carrier.state, WEFT__CARRIER_PARKED);
}

/// The carrier comes back meanwhile, finds an empty inbox, and goes to sleep.
static bool takes_mover(const struct weft__task *task)
{
    sleeps();
    looks++;
    return task == &mover;
}

static bool takes_all(const struct weft__task *task)
{
    (void)task;
    looks++;
    return true;
}

static void push(struct weft__task *task)
{
    weft__inbox_push(&carrier.inbox, &task->node);
}

static size_t rescue(weft__takes_fn takes)
{
    struct weft__fifo loot = { 0 };
    CHECK(weft__annex_rescue(&annex, 0, takes, &loot));
    return loot.count;
}

TEST(who_went_to_sleep_on_what_is_kept_is_woken_without_the_lock)
{
    set_up();
    push(&pinned[0]);
    push(&mover);
    CHECK_EQ(rescue(takes_mover), 1);
    CHECK_EQ(kicks, 1);
    CHECK(!weft__inbox_empty(&carrier.inbox));
    struct weft__node *node = weft__annex_take_inbox(&annex);
    CHECK(node == &pinned[0].node);
    CHECK(node->next == NULL);
}

TEST(nobody_is_woken_if_nothing_is_kept)
{
    set_up();
    push(&mover);
    CHECK_EQ(rescue(takes_mover), 1);
    CHECK_EQ(kicks, 0);
    CHECK(weft__inbox_empty(&carrier.inbox));
    CHECK(weft__annex_take_inbox(&annex) == NULL);
}

TEST(what_is_kept_is_looked_at_once)
{
    set_up();
    for (int i = 0; i < PINNED; i++) {
        push(&pinned[i]);
    }
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(rescue(takes_mover), 0);
    }
    CHECK_EQ(looks, PINNED);
    push(&mover);
    CHECK_EQ(rescue(takes_mover), 1);
    CHECK_EQ(looks, PINNED + 1);
}

TEST(a_rescuer_who_takes_more_looks_again)
{
    set_up();
    for (int i = 0; i < PINNED; i++) {
        push(&pinned[i]);
    }
    CHECK_EQ(rescue(takes_mover), 0);
    CHECK_EQ(rescue(takes_all), PINNED);
    CHECK(weft__inbox_empty(&carrier.inbox));
}

TEST(what_was_kept_comes_first)
{
    set_up();
    push(&pinned[0]);
    push(&pinned[1]);
    CHECK_EQ(rescue(takes_mover), 0);
    push(&pinned[2]);
    CHECK_EQ(rescue(takes_mover), 0);
    push(&pinned[3]);
    int next = 0;
    for (struct weft__node *node = weft__annex_take_inbox(&annex); node != NULL;
         node = node->next) {
        CHECK(node == &pinned[next].node);
        next++;
    }
    CHECK_EQ(next, 4);
}
