// latch_model.c - waiting until others have come to a point (net/latch.h, G1).
//
// One of the others joins later, if somebody is missing then (G2).
//
// What each does before it comes is plain, so the race detector proves that the waiter sees it. The wait
// lives in the waiter's frame, and the engine reports whoever touches it after that has returned.
//
// Sources: task/wait.c task/run.c
// Headers: net/latch.h task/word.h
// With: stage.c stage_actor.c
// Flags: -DWEFT_TINY=1
#include "mc.h"
#include "net/latch.h"
#include "stage.h"

enum { OTHERS = 2 };

static struct stage_actor actor;
static struct weft__latch latch;
static int done[OTHERS];
static int seen;

static __attribute__((noinline)) void wait_for_others(void)
{
    weft__latch_wait(&latch, &actor.task);
}

static void waits(void *unused)
{
    (void)unused;
    wait_for_others();
    for (int i = 0; i < OTHERS; i++) {
        seen += done[i];
    }
}

static void comes(void *arg)
{
    done[(intptr_t)arg] = 1;
    weft__latch_arrive(&latch);
}

static void setup(void)
{
    stage_actor_init(&actor, "actor");
    atomic_init(&latch.left, OTHERS + 1);
    latch.waiter = NULL;
    seen = 0;
    mc_name(&latch.left, sizeof latch.left, "left");
    mc_thread(waits, NULL);
    for (intptr_t i = 0; i < OTHERS; i++) {
        done[i] = 0;
        mc_thread(comes, (void *)i);
    }
}

static void check(void)
{
    mc_assert(seen == OTHERS);
}

// The waiter could not be started: somebody comes in its place.
static void setup_without(void)
{
    atomic_init(&latch.left, OTHERS);
    latch.waiter = NULL;
    for (intptr_t i = 0; i < OTHERS; i++) {
        done[i] = 0;
        mc_thread(comes, (void *)i);
    }
}

static int joined;

static void joins(void *unused)
{
    (void)unused;
    joined = weft__latch_join(&latch);
    if (joined) {
        done[1] = 1;
        weft__latch_arrive(&latch);
    }
}

static void setup_joined(void)
{
    stage_actor_init(&actor, "actor");
    atomic_init(&latch.left, 2);
    latch.waiter = NULL;
    seen = 0;
    joined = 0;
    done[0] = done[1] = 0;
    mc_name(&latch.left, sizeof latch.left, "left");
    mc_thread(waits, NULL);
    mc_thread(comes, NULL);
    mc_thread(joins, NULL);
}

static void check_joined(void)
{
    mc_assert(seen == 1 + joined);
}

const struct mc_model mc_models[] = {
    { .name = "latch_waits", .setup = setup, .check = check },
    { .name = "latch_joined", .setup = setup_joined, .check = check_joined },
    { .name = "latch_without_waiter", .setup = setup_without },
    { .name = NULL },
};
