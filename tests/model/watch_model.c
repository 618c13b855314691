// watch_model.c - the latest value and who waits for it (chan/watch.c, W1 to W4).
//
// What the setter wrote before is plain, and so is the value: who has waited sees both. Who misses a
// change sleeps for ever. The last one out frees the watch.
//
// Sources: chan/watch.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_alloc.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/watch.h>

#include "mc.h"
#include "stage_sync.h"

static weft_watch *watch;
static int written[4]; // plain: by value
static int outcome;
static _Atomic int users;

static void leave(void)
{
    if (atomic_fetch_sub_explicit(&users, 1, memory_order_acq_rel) == 1) {
        mc_assert(weft_watch_destroy(watch) == 0);
    }
}

static __attribute__((noinline)) void set_value(uint64_t value)
{
    written[value] = 1;
    mc_assert(weft_watch_set(watch, &value) == 0);
}

static void set_one(void *unused)
{
    (void)unused;
    set_value(2);
    leave();
}

static void set_two(void *unused)
{
    (void)unused;
    set_value(2);
    set_value(3);
    leave();
}

static void set_and_close(void *unused)
{
    (void)unused;
    set_value(2);
    weft_watch_close(watch);
    leave();
}

// Without a look at the value: the generation alone shows what was done before (W1).
static void wait_for_change(void *unused)
{
    (void)unused;
    mc_assert(weft_watch_wait(watch, 1, WEFT_FOREVER) == 0);
    mc_assert(written[2] == 1);
    leave();
}

static __attribute__((noinline)) uint64_t look(uint64_t *value)
{
    uint64_t seen = weft_watch_get(value, watch);
    mc_assert(seen == *value); // as set_value() is called
    return seen;
}

static void follow_to_third(void *unused)
{
    (void)unused;
    uint64_t value;
    uint64_t seen = look(&value);
    while (seen < 3) {
        mc_assert(weft_watch_wait(watch, seen, WEFT_FOREVER) == 0);
        uint64_t now = look(&value);
        mc_assert(now > seen && written[value] == 1);
        seen = now;
    }
    leave();
}

static void follow_to_close(void *unused)
{
    (void)unused;
    uint64_t value;
    uint64_t seen = look(&value);
    int rc;
    while ((rc = weft_watch_wait(watch, seen, WEFT_FOREVER)) == 0) {
        seen = look(&value);
    }
    mc_assert(rc == -EPIPE && seen == 2);
    leave();
}

// A value that is borrowed stays as it is, and its memory is used again.
static void borrow(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        uint64_t generation;
        const uint64_t *value = weft_watch_borrow(&generation, watch);
        mc_assert(*value == generation);
        mc_assert(*value == generation);
        weft_watch_return(watch, value);
    }
    leave();
}

static void wait_or_be_late(void *unused)
{
    (void)unused;
    outcome = weft_watch_wait(watch, 1, 10);
    mc_assert(outcome == 0 || outcome == -ETIMEDOUT);
    leave();
}

static void reset(int count)
{
    uint64_t first = 1;
    stage_sync_init();
    mc_assert(weft_watch_create(&watch, sizeof first, &first) == 0);
    for (int i = 0; i < 4; i++) {
        written[i] = 0;
    }
    outcome = 0;
    atomic_init(&users, count);
    mc_name(watch, 64, "watch");
}

static void change(void)
{
    reset(2);
    stage_sync_thread(set_one, NULL);
    stage_sync_thread(wait_for_change, NULL);
}

static void follow(void)
{
    reset(2);
    stage_sync_thread(set_two, NULL);
    mc_thread(follow_to_third, NULL);
}

static void closed(void)
{
    reset(2);
    stage_sync_thread(set_and_close, NULL);
    stage_sync_thread(follow_to_close, NULL);
}

static void borrowed(void)
{
    reset(2);
    stage_sync_thread(set_two, NULL);
    stage_sync_thread(borrow, NULL);
}

static void late(void)
{
    reset(2);
    stage_sync_thread(set_one, NULL);
    stage_sync_thread(wait_or_be_late, NULL);
}

static void two_followers(void)
{
    reset(3);
    stage_sync_thread(set_one, NULL);
    stage_sync_thread(wait_for_change, NULL);
    mc_thread(wait_for_change, NULL);
}

static void check(void)
{
    mc_assert(written[2] == 1);
}

const struct mc_model mc_models[] = {
    { .name = "watch_change", .setup = change, .check = check },
    { .name = "watch_follow", .setup = follow, .check = check },
    { .name = "watch_closed", .setup = closed, .check = check },
    { .name = "watch_borrowed", .setup = borrowed, .check = check },
    { .name = "watch_late", .setup = late, .check = check },
    { .name = "watch_two_followers", .setup = two_followers, .check = check, .max_bound = 1 },
    { .name = NULL },
};
