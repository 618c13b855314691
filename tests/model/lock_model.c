// lock_model.c - the lock of base/lock.h: exclusion, order, no sleeper left behind, and L1.
//
// Each holder adds to a plain variable. The lock lies in a block that the last holder frees: a
// release that touches it after that is reported.
//
// Sources: base/lock.c
// Headers: base/lock.h
// With: stage.c
// Flags: -DWEFT_TINY=1
#include "base/lock.h"
#include "mc.h"

struct shared {
    struct weft__lock lock;
    int users; // under lock
    int turns; // under lock
};

static struct shared *shared;
static int turns_at_end;

static void use(int times)
{
    for (int i = 0; i < times; i++) {
        weft__lock_acquire(&shared->lock);
        shared->turns++;
        weft__lock_release(&shared->lock);
    }
}

// The last one out frees the memory that the lock is in.
static void leave(void)
{
    weft__lock_acquire(&shared->lock);
    int users = --shared->users;
    int turns = shared->turns;
    weft__lock_release(&shared->lock);
    if (users == 0) {
        turns_at_end = turns;
        mc_free(shared);
    }
}

static void use_once(void *unused)
{
    (void)unused;
    use(1);
    leave();
}

static void just_leave(void *unused)
{
    (void)unused;
    leave();
}

static void reset(int users)
{
    shared = mc_alloc(sizeof *shared);
    shared->users = users;
    turns_at_end = 0;
    mc_name(shared, sizeof *shared, "shared");
    mc_name(&shared->lock, sizeof shared->lock, "lock");
}

static void two_users(void)
{
    reset(2);
    mc_thread(use_once, NULL);
    mc_thread(use_once, NULL);
}

static void three_users(void)
{
    reset(3);
    mc_thread(just_leave, NULL);
    mc_thread(just_leave, NULL);
    mc_thread(just_leave, NULL);
}

static void check_two(void)
{
    mc_assert(turns_at_end == 2);
}

const struct mc_model mc_models[] = {
    { .name = "lock_two_users", .setup = two_users, .check = check_two },
    { .name = "lock_three_users", .setup = three_users },
    { .name = NULL },
};
