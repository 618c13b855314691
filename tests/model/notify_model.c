// notify_model.c - permits, notifications and who misses none (sync/notify.c, N1 to N6).
//
// The producer adds a plain item before it notifies; a consumer that was notified sees it. A
// notification that is lost leaves the consumer asleep.
//
// Sources: sync/notify.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h task/bell.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/notify.h>

#include "mc.h"
#include "stage_sync.h"

static struct weft_notify notify;
static struct stage_wakeup wakeup, left_behind;
static int items[2];      // plain
static _Atomic int ready; // those who are about to wait, or were prepared

static void wait_for_item(void *unused)
{
    (void)unused;
    mc_assert(weft_notify_wait(&notify, WEFT_FOREVER) == 0);
    mc_assert(items[0] == 1);
}

static void notify_one(void *number)
{
    items[(intptr_t)number] = 1;
    weft_notify_one(&notify);
}

static void notify_last(void *number)
{
    items[(intptr_t)number] = 1;
    weft_notify_last(&notify);
}

// Two producers, and one consumer that looks for both items: they may share one permit (N3).
static _Atomic int left;

static void count_and_notify(void *number)
{
    items[(intptr_t)number] = 1;
    atomic_fetch_sub_explicit(&left, 1, memory_order_relaxed);
    weft_notify_one(&notify);
}

static void wait_for_both(void *unused)
{
    (void)unused;
    while (atomic_load_explicit(&left, memory_order_relaxed) > 0) {
        mc_assert(weft_notify_wait(&notify, WEFT_FOREVER) == 0);
    }
}

// The last permit, if it is left over, carries both items.
static void check_both(void)
{
    mc_assert(items[0] == 1 && items[1] == 1);
}

static void take_permit_of_two(void *unused)
{
    (void)unused;
    while (atomic_load_explicit(&ready, memory_order_relaxed) < 2) {
        mc_relax();
    }
    if (weft_notify_try_wait(&notify) == 0) {
        mc_assert(items[0] == 1 && items[1] == 1); // N3
    }
}

static void notify_and_say(void *number)
{
    items[(intptr_t)number] = 1;
    weft_notify_one(&notify);
    atomic_fetch_add_explicit(&ready, 1, memory_order_relaxed);
}

// A future that was prepared misses no notification of all (N4), though it is polled later.
static __attribute__((noinline)) void await_all(void)
{
    struct weft_sync_future f;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_notify_wait_future(&f, &notify);
    atomic_store_explicit(&ready, 1, memory_order_release);
    while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        stage_sync_sleep(&wakeup);
    }
    mc_assert(f.future.result == 0);
    mc_assert(items[0] == 1);
}

static void future_waits_for_all(void *unused)
{
    (void)unused;
    await_all();
}

static void notify_all(void *unused)
{
    (void)unused;
    while (atomic_load_explicit(&ready, memory_order_acquire) == 0) {
        mc_relax();
    }
    items[0] = 1;
    weft_notify_all(&notify);
}

// A future that goes from one task to another is polled with another waker: that one is woken, once it
// makes sense to poll, and not before (queue.h, Q6).
static __attribute__((noinline)) void await_elsewhere(void)
{
    struct weft_sync_future f;
    weft_waker before = stage_sync_waker(&left_behind);
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_notify_wait_future(&f, &notify);
    if (f.future.poll(&f.future, &before) == WEFT_PENDING &&
        f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        stage_sync_sleep(&wakeup);
        mc_assert(f.future.poll(&f.future, &waker) == WEFT_READY);
    }
    mc_assert(f.future.result == 0);
    mc_assert(items[0] == 1);
}

static void future_moves(void *unused)
{
    (void)unused;
    await_elsewhere();
}

// Chosen or not, cancelled at once: then the other one is told instead (N5).
static __attribute__((noinline)) void wait_and_cancel(void)
{
    struct weft_sync_future f;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_notify_wait_future(&f, &notify);
    bool cancelled = false;
    while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        if (!cancelled) {
            cancelled = true;
            f.future.cancel(&f.future);
        } else {
            stage_sync_sleep(&wakeup);
        }
    }
    if (f.future.result == 0) { // the permit was there
        weft_notify_one(&notify);
    }
}

static void future_gives_up(void *unused)
{
    (void)unused;
    wait_and_cancel();
}

// Late or not: the notification is taken, or left for the next one.
static int outcome;

static void wait_or_be_late(void *unused)
{
    (void)unused;
    outcome = weft_notify_wait(&notify, 10);
    mc_assert(outcome == 0 || outcome == -ETIMEDOUT);
}

// One that waited alone may be late while another one comes to wait (N6).
static void wait_and_pass_on(void *unused)
{
    (void)unused;
    int rc = weft_notify_wait(&notify, 10);
    mc_assert(rc == 0 || rc == -ETIMEDOUT);
    if (rc == 0) {
        weft_notify_one(&notify);
    }
}

// It is notified with all, or by the permit, which may be left over.
static void tell_all(void *unused)
{
    (void)unused;
    weft_notify_all(&notify);
}

static void wait_for_any(void *unused)
{
    (void)unused;
    mc_assert(weft_notify_wait(&notify, WEFT_FOREVER) == 0);
}

static void check_left_over(void)
{
    (void)weft_notify_try_wait(&notify);
    mc_assert(weft_notify_fini(&notify) == 0);
}

static void check_late(void)
{
    int rc = weft_notify_try_wait(&notify);
    mc_assert((rc == 0) == (outcome < 0));
    mc_assert(weft_notify_fini(&notify) == 0);
}

static void reset(void)
{
    stage_sync_init();
    weft_notify_init(&notify);
    atomic_init(&wakeup.woken, 0);
    atomic_init(&left_behind.woken, 0);
    atomic_init(&ready, 0);
    atomic_init(&left, 2);
    items[0] = items[1] = 0;
    outcome = 0;
    mc_name(&notify, sizeof notify, "notify");
}

static void one(void)
{
    reset();
    stage_sync_thread(wait_for_item, NULL);
    mc_thread(notify_one, (void *)0);
}

static void last(void)
{
    reset();
    mc_thread(wait_for_item, NULL);
    stage_sync_thread(notify_last, (void *)0);
}

static void two_producers(void)
{
    reset();
    stage_sync_thread(wait_for_both, NULL);
    mc_thread(count_and_notify, (void *)0);
    mc_thread(count_and_notify, (void *)1);
}

static void shared_permit(void)
{
    reset();
    mc_thread(take_permit_of_two, NULL);
    mc_thread(notify_and_say, (void *)0);
    mc_thread(notify_and_say, (void *)1);
}

static void all(void)
{
    reset();
    mc_thread(future_waits_for_all, NULL);
    stage_sync_thread(notify_all, NULL);
}

static void cancelled(void)
{
    reset();
    mc_thread(future_gives_up, NULL);
    stage_sync_thread(wait_for_item, NULL);
    stage_sync_thread(notify_one, (void *)0);
}

static void late_and_second(void)
{
    reset();
    stage_sync_thread(wait_and_pass_on, NULL);
    mc_thread(wait_and_pass_on, NULL);
    stage_sync_thread(notify_one, (void *)0);
}

static void alone_or_all(void)
{
    reset();
    stage_sync_thread(wait_for_any, NULL);
    stage_sync_thread(tell_all, NULL);
    mc_thread(notify_one, (void *)0);
}

static void moved(void)
{
    reset();
    mc_thread(future_moves, NULL);
    stage_sync_thread(notify_one, (void *)0);
}

static void late(void)
{
    reset();
    stage_sync_thread(wait_or_be_late, NULL);
    stage_sync_thread(notify_one, (void *)0);
}

static void check(void)
{
    mc_assert(weft_notify_fini(&notify) == 0);
}

const struct mc_model mc_models[] = {
    { .name = "notify_one", .setup = one, .check = check },
    { .name = "notify_last", .setup = last, .check = check },
    { .name = "notify_two_producers", .setup = two_producers, .check = check_both },
    { .name = "notify_shared_permit", .setup = shared_permit, .check = check },
    { .name = "notify_all", .setup = all, .check = check },
    { .name = "notify_cancelled", .setup = cancelled, .check = check },
    { .name = "notify_late_and_second",
      .setup = late_and_second,
      .check = check_left_over,
      .max_bound = 1 },
    { .name = "notify_alone_or_all", .setup = alone_or_all, .check = check_left_over },
    { .name = "notify_moved", .setup = moved, .check = check },
    { .name = "notify_late", .setup = late, .check = check_late },
    { .name = NULL },
};
