// event_model.c - events and wait groups (sync/event.c, E1; sync/group.c, G1 and G2).
//
// What was done before is plain, so whoever was woken, or found that he need not wait, has to see it.
// Whoever is forgotten sleeps for ever.
//
// Sources: sync/event.c sync/group.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/barrier.h>
#include <weft/notify.h>

#include "mc.h"
#include "stage_sync.h"

static struct weft_event event;
static struct weft_wait_group group;
static int done[2]; // plain

static void set(void *unused)
{
    (void)unused;
    done[0] = 1;
    weft_event_set(&event);
}

static void await_event(void *unused)
{
    (void)unused;
    mc_assert(weft_event_wait(&event, WEFT_FOREVER) == 0);
    mc_assert(done[0] == 1);
}

static void await_event_or_be_late(void *unused)
{
    (void)unused;
    int rc = weft_event_wait(&event, 10);
    mc_assert(rc == -ETIMEDOUT || (rc == 0 && done[0] == 1));
}

static void look_at_event(void *unused)
{
    (void)unused;
    if (weft_event_is_set(&event)) {
        mc_assert(done[0] == 1);
    }
}

// Who has waited may go although it is off again.
static void set_and_clear(void *unused)
{
    set(unused);
    weft_event_clear(&event);
    weft_event_set(&event);
}

static void finish(void *number)
{
    done[(intptr_t)number] = 1;
    weft_wait_group_done(&group);
}

static void await_group(void *unused)
{
    (void)unused;
    mc_assert(weft_wait_group_wait(&group, WEFT_FOREVER) == 0);
    mc_assert(done[0] == 1 && done[1] == 1);
}

static void await_group_or_be_late(void *unused)
{
    (void)unused;
    int rc = weft_wait_group_wait(&group, 10);
    mc_assert(rc == -ETIMEDOUT || (rc == 0 && done[0] == 1 && done[1] == 1));
}

static void look_at_group(void *unused)
{
    (void)unused;
    if (weft_wait_group_count(&group) == 0) {
        mc_assert(done[0] == 1 && done[1] == 1);
    }
}

// Ends a group in a block of its own, which another one still counts down.
static struct weft_wait_group *block;

static void finish_block(void *unused)
{
    (void)unused;
    weft_wait_group_done(block);
}

static void end_block(void *unused)
{
    (void)unused;
    while (weft_wait_group_fini(block) != 0) {
        mc_relax();
    }
    mc_free(block);
}

static void finish_alone(void *unused)
{
    (void)unused;
    done[0] = done[1] = 1;
    weft_wait_group_done(&group);
}

static void reset(void)
{
    stage_sync_init();
    weft_event_init(&event);
    weft_wait_group_init(&group);
    mc_assert(weft_wait_group_add(&group, 2) == 0);
    done[0] = done[1] = 0;
    mc_name(&event, sizeof event, "event");
    mc_name(&group, sizeof group, "group");
}

static void event_two_waiters(void)
{
    reset();
    stage_sync_thread(await_event, NULL);
    mc_thread(await_event, NULL);
    mc_thread(set, NULL);
}

static void event_late(void)
{
    reset();
    stage_sync_thread(await_event_or_be_late, NULL);
    mc_thread(set, NULL);
    mc_thread(look_at_event, NULL);
}

static void event_cleared(void)
{
    reset();
    stage_sync_thread(await_event, NULL);
    mc_thread(set_and_clear, NULL);
}

static void group_two_done(void)
{
    reset();
    stage_sync_thread(await_group, NULL);
    mc_thread(finish, (void *)0);
    mc_thread(finish, (void *)1);
}

static void group_late(void)
{
    reset();
    mc_thread(await_group_or_be_late, NULL);
    stage_sync_thread(finish, (void *)0);
    mc_thread(finish, (void *)1);
}

static void group_looked_at(void)
{
    reset();
    mc_thread(look_at_group, NULL);
    mc_thread(finish, (void *)0);
    mc_thread(finish, (void *)1);
}

// The end wakes one, another only looks.
static void group_seen(void)
{
    reset();
    weft_wait_group_done(&group);
    stage_sync_thread(await_group, NULL);
    mc_thread(finish_alone, NULL);
    mc_thread(look_at_group, NULL);
}

static void group_ended(void)
{
    reset();
    block = mc_alloc(sizeof *block);
    weft_wait_group_init(block);
    mc_assert(weft_wait_group_add(block, 1) == 0);
    mc_thread(finish_block, NULL);
    mc_thread(end_block, NULL);
}

static void check_event(void)
{
    mc_assert(weft_event_is_set(&event));
    mc_assert(weft_event_fini(&event) == 0);
}

static void check_group(void)
{
    mc_assert(weft_wait_group_count(&group) == 0);
    mc_assert(weft_wait_group_fini(&group) == 0);
}

const struct mc_model mc_models[] = {
    { .name = "event_two_waiters",
      .setup = event_two_waiters,
      .check = check_event,
      .never_spurious = 1 },
    { .name = "event_late", .setup = event_late, .check = check_event, .never_spurious = 1 },
    { .name = "event_cleared", .setup = event_cleared, .check = check_event },
    { .name = "group_two_done",
      .setup = group_two_done,
      .check = check_group,
      .never_spurious = 1 },
    { .name = "group_late", .setup = group_late, .check = check_group, .never_spurious = 1 },
    { .name = "group_looked_at", .setup = group_looked_at, .check = check_group },
    { .name = "group_seen", .setup = group_seen, .check = check_group, .never_spurious = 1 },
    { .name = "group_ended", .setup = group_ended },
    { .name = NULL },
};
