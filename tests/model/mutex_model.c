// mutex_model.c - lock, unlock, hand-off and giving up (sync/mutex.c, M1 to M4; sync/queue.h).
//
// The mutex lies in a block that the last user frees after fini. What it protects is plain: only the
// mutex can order it. A waiter that is forgotten sleeps for ever.
//
// Sources: sync/mutex.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/mutex.h>

#include "mc.h"
#include "stage_sync.h"

struct shared {
    struct weft_mutex mutex;
    int holders; // under mutex
    int users;   // under mutex
    int turns;   // under mutex
};

static struct shared *shared;
static struct stage_wakeup wakeup;
static int late; // those who got nothing

static void turn(void)
{
    mc_assert(shared->holders++ == 0);
    shared->turns++;
    mc_assert(shared->holders-- == 1);
}

// The last one out frees the memory.
static void unlock_and_leave(void)
{
    int users = --shared->users;
    weft_mutex_unlock(&shared->mutex);
    if (users == 0) {
        mc_assert(weft_mutex_fini(&shared->mutex) == 0);
        mc_free(shared);
    }
}

static void use(void *unused)
{
    (void)unused;
    mc_assert(weft_mutex_lock(&shared->mutex, WEFT_FOREVER) == 0);
    turn();
    unlock_and_leave();
}

static void use_twice(void *unused)
{
    (void)unused;
    mc_assert(weft_mutex_lock(&shared->mutex, WEFT_FOREVER) == 0);
    turn();
    weft_mutex_unlock(&shared->mutex);
    use(NULL);
}

// Gives up at some moment, or never; says so under the mutex.
static void use_or_be_late(void *unused)
{
    (void)unused;
    int rc = weft_mutex_lock(&shared->mutex, 10);
    mc_assert(rc == 0 || rc == -ETIMEDOUT);
    if (rc == 0) {
        turn();
        weft_mutex_unlock(&shared->mutex);
    }
    while (weft_mutex_try_lock(&shared->mutex) != 0) {
        mc_relax();
    }
    late += rc < 0;
    unlock_and_leave();
}

// A future that is cancelled at some moment, or never.
static __attribute__((noinline)) int64_t lock_as_future(bool cancels)
{
    struct weft_sync_future f;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_mutex_lock_future(&f, &shared->mutex);
    while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        if (cancels) {
            cancels = false;
            f.future.cancel(&f.future);
        } else {
            stage_sync_sleep(&wakeup);
        }
    }
    return f.future.result;
}

static void use_as_future(void *cancels)
{
    int64_t rc = lock_as_future(cancels != NULL);
    mc_assert(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        turn();
        unlock_and_leave();
        return;
    }
    while (weft_mutex_try_lock(&shared->mutex) != 0) {
        mc_relax();
    }
    late++;
    unlock_and_leave();
}

// The queue as setup has left it: the mutex is free, the first future was woken to compete for it, the
// second one waits. Whoever overtakes both unlocks without the lock, because somebody is on his way.
static struct weft_sync_future futures[2];
static struct stage_wakeup wakeups[2];

static void give_up(void *unused)
{
    (void)unused;
    weft_waker waker = stage_sync_waker(&wakeups[0]);
    futures[0].future.cancel(&futures[0].future);
    mc_assert(futures[0].future.poll(&futures[0].future, &waker) == WEFT_READY);
    mc_assert(futures[0].future.result == -ECANCELED);
}

static void use_second_future(void *unused)
{
    (void)unused;
    weft_waker waker = stage_sync_waker(&wakeups[1]);
    while (futures[1].future.poll(&futures[1].future, &waker) == WEFT_PENDING) {
        stage_sync_sleep(&wakeups[1]);
    }
    turn();
    unlock_and_leave();
}

static void unlock(void *unused)
{
    (void)unused;
    turn();
    weft_mutex_unlock(&shared->mutex);
}

static void end_when_free(void *unused)
{
    (void)unused;
    while (weft_mutex_fini(&shared->mutex) != 0) {
        mc_relax();
    }
    mc_free(shared);
}

static void reset(int users)
{
    stage_sync_init();
    atomic_init(&wakeup.woken, 0);
    late = 0;
    shared = mc_alloc(sizeof *shared);
    shared->users = users;
    mc_name(&shared->mutex, sizeof shared->mutex, "mutex");
}

static void two_tasks(void)
{
    reset(2);
    stage_sync_thread(use_twice, NULL);
    stage_sync_thread(use, NULL);
}

static void three_tasks(void)
{
    reset(3);
    stage_sync_thread(use, NULL);
    stage_sync_thread(use, NULL);
    stage_sync_thread(use, NULL);
}

static void task_and_foreign(void)
{
    reset(2);
    stage_sync_thread(use_twice, NULL);
    mc_thread(use, NULL);
}

static void task_late(void)
{
    reset(2);
    stage_sync_thread(use_twice, NULL);
    stage_sync_thread(use_or_be_late, NULL);
}

static void foreign_late(void)
{
    reset(2);
    stage_sync_thread(use_twice, NULL);
    mc_thread(use_or_be_late, NULL);
}

static void late_and_third(void)
{
    reset(3);
    stage_sync_thread(use, NULL);
    stage_sync_thread(use_or_be_late, NULL);
    stage_sync_thread(use, NULL);
}

static void future(void)
{
    reset(2);
    stage_sync_thread(use_twice, NULL);
    mc_thread(use_as_future, NULL);
}

static void future_cancelled(void)
{
    static int yes;
    reset(3);
    stage_sync_thread(use, NULL);
    mc_thread(use_as_future, &yes);
    stage_sync_thread(use, NULL);
}

static void woken_gives_up(void)
{
    reset(2);
    mc_assert(weft_mutex_try_lock(&shared->mutex) == 0);
    for (int i = 0; i < 2; i++) {
        atomic_init(&wakeups[i].woken, 0);
        weft_waker waker = stage_sync_waker(&wakeups[i]);
        weft_mutex_lock_future(&futures[i], &shared->mutex);
        mc_assert(futures[i].future.poll(&futures[i].future, &waker) == WEFT_PENDING);
    }
    weft_mutex_unlock(&shared->mutex);
    stage_sync_thread(use, NULL);
    mc_thread(give_up, NULL);
    mc_thread(use_second_future, NULL);
}

static void ended_by_another(void)
{
    reset(0);
    mc_assert(weft_mutex_try_lock(&shared->mutex) == 0);
    mc_thread(unlock, NULL);
    mc_thread(end_when_free, NULL);
}

const struct mc_model mc_models[] = {
    { .name = "mutex_two_tasks", .setup = two_tasks },
    { .name = "mutex_three_tasks", .setup = three_tasks, .max_bound = 2 },
    { .name = "mutex_task_and_foreign", .setup = task_and_foreign },
    { .name = "mutex_task_late", .setup = task_late },
    { .name = "mutex_foreign_late", .setup = foreign_late },
    { .name = "mutex_late_and_third", .setup = late_and_third, .max_bound = 1 },
    { .name = "mutex_future", .setup = future },
    { .name = "mutex_future_cancelled", .setup = future_cancelled, .max_bound = 1 },
    { .name = "mutex_woken_gives_up", .setup = woken_gives_up },
    { .name = "mutex_ended_by_another", .setup = ended_by_another },
    { .name = NULL },
};
