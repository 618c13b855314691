// semaphore_model.c - permits that go straight to who waits (sync/semaphore.c, S1 and S2).
//
// Permits are conserved: they are counted at the end. What a permit stands for is plain, so the
// semaphore has to order it from the one who gives to the one who gets. Whoever is forgotten sleeps
// for ever.
//
// Sources: sync/semaphore.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/semaphore.h>

#include "mc.h"
#include "stage_sync.h"

static struct weft_semaphore semaphore;
static struct stage_wakeup wakeup;
static int made[2];      // plain: what the permits stand for
static uint64_t permits; // those that are nobody's at the end
static int given_up;

static void give_one(void *number)
{
    made[(intptr_t)number] = 1;
    mc_assert(weft_semaphore_release(&semaphore, 1) == 0);
}

static void take_two(void *unused)
{
    (void)unused;
    mc_assert(weft_semaphore_acquire(&semaphore, 2, WEFT_FOREVER) == 0);
    mc_assert(made[0] == 1 && made[1] == 1);
}

static void give_two(void *unused)
{
    (void)unused;
    made[0] = made[1] = 1;
    mc_assert(weft_semaphore_release(&semaphore, 2) == 0);
}

static void take_one(void *unused)
{
    (void)unused;
    mc_assert(weft_semaphore_acquire(&semaphore, 1, WEFT_FOREVER) == 0);
    mc_assert(made[0] == 1);
}

// Takes one and gives it back.
static void borrow_one(void *unused)
{
    (void)unused;
    mc_assert(weft_semaphore_acquire(&semaphore, 1, WEFT_FOREVER) == 0);
    made[0]++;
    mc_assert(weft_semaphore_release(&semaphore, 1) == 0);
}

// Wants more than there will ever be, and stands in the way of who comes later, until it gives up.
static void want_much(void *unused)
{
    (void)unused;
    int rc = -ETIMEDOUT;
    struct weft_sync_future f;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_semaphore_acquire_future(&f, &semaphore, 3);
    if (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        f.future.cancel(&f.future);
        mc_assert(f.future.poll(&f.future, &waker) == WEFT_READY);
        rc = (int)f.future.result;
    }
    mc_assert(rc == -ECANCELED);
    given_up++;
}

static void take_one_or_be_late(void *unused)
{
    (void)unused;
    int rc = weft_semaphore_acquire(&semaphore, 1, 10);
    mc_assert(rc == 0 || rc == -ETIMEDOUT);
    given_up += rc < 0;
    if (rc == 0) {
        mc_assert(made[0] == 1);
    }
}

// Chosen or not, cancelled at once: what it was given goes to the other one.
static __attribute__((noinline)) int64_t take_as_future(void)
{
    struct weft_sync_future f;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_semaphore_acquire_future(&f, &semaphore, 1);
    bool cancelled = false;
    while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        if (!cancelled) {
            cancelled = true;
            f.future.cancel(&f.future);
        } else {
            stage_sync_sleep(&wakeup);
        }
    }
    return f.future.result;
}

static void take_and_cancel(void *unused)
{
    (void)unused;
    int64_t rc = take_as_future();
    mc_assert(rc == 0 || rc == -ECANCELED);
    if (rc == 0) { // there before it was cancelled
        mc_assert(weft_semaphore_release(&semaphore, 1) == 0);
    }
}

static void reset(uint64_t count)
{
    stage_sync_init();
    mc_assert(weft_semaphore_init(&semaphore, count) == 0);
    atomic_init(&wakeup.woken, 0);
    made[0] = made[1] = 0;
    given_up = 0;
    permits = 0;
    mc_name(&semaphore, sizeof semaphore, "semaphore");
}

static void two_givers(void)
{
    reset(0);
    stage_sync_thread(take_two, NULL);
    stage_sync_thread(give_one, (void *)0);
    mc_thread(give_one, (void *)1);
}

static void two_takers(void)
{
    reset(0);
    stage_sync_thread(take_one, NULL);
    mc_thread(take_one, NULL);
    stage_sync_thread(give_two, NULL);
}

static void borrowers(void)
{
    reset(1);
    permits = 1;
    stage_sync_thread(borrow_one, NULL);
    stage_sync_thread(borrow_one, NULL);
}

static void first_gives_up(void)
{
    reset(0);
    mc_thread(want_much, NULL);
    stage_sync_thread(take_one, NULL);
    stage_sync_thread(give_one, (void *)0);
}

static void late(void)
{
    reset(0);
    stage_sync_thread(take_one_or_be_late, NULL);
    stage_sync_thread(give_one, (void *)0);
}

static void cancelled(void)
{
    reset(0);
    mc_thread(take_and_cancel, NULL);
    stage_sync_thread(take_one, NULL);
    stage_sync_thread(give_one, (void *)0);
}

static void check(void)
{
    mc_assert(weft_semaphore_available(&semaphore) == permits);
    mc_assert(weft_semaphore_fini(&semaphore) == 0);
}

static void check_late(void)
{
    permits = (uint64_t)given_up;
    check();
}

const struct mc_model mc_models[] = {
    { .name = "semaphore_two_givers", .setup = two_givers, .check = check },
    { .name = "semaphore_two_takers", .setup = two_takers, .check = check },
    { .name = "semaphore_borrowers", .setup = borrowers, .check = check },
    { .name = "semaphore_first_gives_up", .setup = first_gives_up, .check = check },
    { .name = "semaphore_late", .setup = late, .check = check_late },
    { .name = "semaphore_cancelled", .setup = cancelled, .check = check },
    { .name = NULL },
};
