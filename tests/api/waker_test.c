// waker_test.c - wakers and what is made of them: parking, foreign loops, references.
#include "support/test.h"

#include "support/hand.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <weft.h>

TEST(there_is_no_waker_outside_a_task)
{
    weft_waker waker;
    memset(&waker, 0xee, sizeof waker);
    CHECK_EQ(weft_waker_self(&waker), -EPERM);
    CHECK(waker.vtable == NULL && waker.data == NULL);
    CHECK_EQ(weft_park(WEFT_FOREVER), -EPERM);
}

TEST_EVERYWHERE(a_park_after_a_wake_returns_at_once)
{
    weft_waker waker;
    weft_waker copy;
    CHECK_OK(weft_waker_self(&waker));
    weft_waker_clone(&copy, &waker);
    for (int i = 0; i < 10; i++) {
        weft_waker_wake_by_ref(&waker);
        weft_waker_wake_by_ref(&copy); // two wakes are one
        CHECK_EQ(weft_park(WEFT_FOREVER), 0);
        weft_time deadline = weft_after(100 * WEFT_US);
        int rc;
        while ((rc = weft_park(deadline)) == 0) {
        }
        CHECK_EQ(rc, -ETIMEDOUT);
        CHECK_GE(weft_now(), deadline);
    }
    weft_waker_wake(&copy);
    CHECK_EQ(weft_park(WEFT_FOREVER), 0);
    weft_waker_drop(&waker);
}

TEST_EVERYWHERE(a_cancel_ends_a_park)
{
    struct weft_scope scope;
    int rc;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(WEFT_MS)));
    while ((rc = weft_park(WEFT_FOREVER)) == 0) {
    }
    CHECK_EQ(rc, -ECANCELED);
    CHECK_EQ(weft_park(WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
}

static int hand_out_waker(void *arg)
{
    return weft_waker_self(arg);
}

/// A waker keeps the block of its task, not the task: waking one that has ended does nothing, and
/// does not reach whoever came after it.
TEST_EVERYWHERE(wakers_outlive_their_task)
{
    for (int i = 0; i < 100; i++) {
        weft_waker waker;
        weft_waker copy;
        weft_task *task;
        int result;
        CHECK_OK(weft_spawn(&task, hand_out_waker, &waker, NULL));
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, 0);
        weft_waker_wake_by_ref(&waker);
        weft_waker_clone(&copy, &waker);
        weft_waker_wake(&copy);
        weft_waker_wake_by_ref(&waker);
        weft_waker_drop(&waker);
    }
}

struct mail {
    weft_waker waker;
    atomic_int ready;
    atomic_int posted;
    struct weft_timer timer;
};

static int receive(void *arg)
{
    struct mail *mail = arg;
    CHECK_OK(weft_waker_self(&mail->waker));
    atomic_store(&mail->ready, 1);
    while (!atomic_load(&mail->posted)) {
        CHECK_OK(weft_park(WEFT_FOREVER));
    }
    return 9;
}

static void post(void *arg)
{
    struct mail *mail = arg;
    atomic_store(&mail->posted, 1);
    weft_waker_wake(&mail->waker);
}

TEST_EVERYWHERE(timer_functions_wake_tasks)
{
    for (int carrier = 0; carrier < weft_carrier_count(); carrier++) {
        struct mail mail = { .ready = 0 };
        struct weft_attr attr = WEFT_ATTR_INIT;
        weft_task *task;
        int result;
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = carrier;
        CHECK_OK(weft_spawn(&task, receive, &mail, &attr));
        while (!atomic_load(&mail.ready)) {
            CHECK_OK(weft_yield());
        }
        CHECK_OK(weft_timer_init(&mail.timer, post, &mail));
        weft_timer_set(&mail.timer, weft_after(100 * WEFT_US));
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, 9);
        CHECK_EQ(weft_timer_stop(&mail.timer), 0);
    }
}

TEST_DRIVERS(foreign_threads_wake_tasks)
{
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    for (uint64_t i = test_scaled(500); i > 0; i--) {
        struct mail mail = { .ready = 0 };
        weft_task *task;
        int result;
        CHECK_OK(weft_runtime_spawn(&task, runtime, receive, &mail, NULL));
        while (!atomic_load(&mail.ready)) {
            sched_yield();
        }
        post(&mail);
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, 9);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}

// A loop of somebody else's: a plain OS thread that sleeps on a semaphore.

struct loop {
    sem_t wakes;
    atomic_int alive; // owned wakers
    atomic_int woken;
};

static const struct weft_waker_vtable loop_vtable;

static void loop_clone(weft_waker *copy, const weft_waker *waker)
{
    struct loop *loop = waker->data;
    atomic_fetch_add(&loop->alive, 1);
    *copy = (weft_waker){ &loop_vtable, loop };
}

static void loop_wake_by_ref(const weft_waker *waker)
{
    struct loop *loop = waker->data;
    atomic_fetch_add(&loop->woken, 1);
    sem_post(&loop->wakes);
}

static void loop_drop(weft_waker *waker)
{
    struct loop *loop = waker->data;
    atomic_fetch_sub(&loop->alive, 1);
}

static void loop_wake(weft_waker *waker)
{
    struct loop *loop = waker->data;
    atomic_fetch_sub(&loop->alive, 1); // the loop may go as soon as it has been woken
    loop_wake_by_ref(waker);
}

static const struct weft_waker_vtable loop_vtable = {
    .clone = loop_clone,
    .wake = loop_wake,
    .wake_by_ref = loop_wake_by_ref,
    .drop = loop_drop,
};

static void loop_init(struct loop *loop, weft_waker *waker)
{
    *loop = (struct loop){ .alive = 0 };
    CHECK_EQ(sem_init(&loop->wakes, 0, 0), 0);
    *waker = (weft_waker){ &loop_vtable, loop };
}

TEST_DRIVERS(a_foreign_loop_drives_a_sleep)
{
    struct loop loop;
    weft_waker waker;
    loop_init(&loop, &waker);
    for (int i = 1; i <= 20; i++) {
        struct weft_sleep sleep;
        weft_time when = weft_after((weft_time)i * 50 * WEFT_US);
        weft_sleep_init(&sleep, when);
        while (weft_sleep_poll(&sleep, &waker) == WEFT_PENDING) {
            CHECK_LE(atomic_load(&loop.alive), 1);
            CHECK_EQ(sem_wait(&loop.wakes), 0);
        }
        CHECK_GE(weft_now(), when);
        CHECK_EQ(weft_sleep_result(&sleep), 0);
        CHECK_EQ(weft_sleep_poll(&sleep, &waker), WEFT_READY);
        memset(&sleep, 0xee, sizeof sleep);
        CHECK_EQ(atomic_load(&loop.alive), 0);
    }
}

TEST_DRIVERS(a_foreign_loop_cancels_a_sleep)
{
    struct loop loop;
    weft_waker waker;
    loop_init(&loop, &waker);
    uint64_t random = test_seed();
    for (uint64_t i = test_scaled(1000); i > 0; i--) {
        struct weft_sleep sleep;
        weft_sleep_init(&sleep, i % 2 ? weft_after(test_random(&random) % 60000) : WEFT_FOREVER);
        if (test_random(&random) % 8 == 0) {
            weft_sleep_cancel(&sleep); // before the first poll
            CHECK_EQ(weft_sleep_poll(&sleep, &waker), WEFT_READY);
            CHECK_EQ(weft_sleep_result(&sleep), -ECANCELED);
            continue;
        }
        enum weft_poll state = weft_sleep_poll(&sleep, &waker);
        for (uint64_t spin = test_random(&random) % 2000; spin > 0; spin--) {
            atomic_signal_fence(memory_order_seq_cst);
        }
        weft_sleep_cancel(&sleep);
        weft_sleep_cancel(&sleep);
        while (state == WEFT_PENDING) {
            CHECK_EQ(sem_wait(&loop.wakes), 0);
            state = weft_sleep_poll(&sleep, &waker);
        }
        int rc = weft_sleep_result(&sleep);
        CHECK(rc == 0 || rc == -ECANCELED);
        CHECK(rc == -ECANCELED || i % 2 != 0);
        memset(&sleep, 0xee, sizeof sleep);
        CHECK_EQ(atomic_load(&loop.alive), 0);
    }
}

TEST_DRIVERS(a_sleep_without_a_default_runtime_ends_at_once)
{
    struct rlimit all;
    struct loop loop;
    struct weft_sleep sleep;
    weft_waker waker;
    loop_init(&loop, &waker);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    struct rlimit none = { 0, all.rlim_max };
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    weft_sleep_init(&sleep, weft_after(3600 * WEFT_S));
    CHECK_EQ(weft_sleep_poll(&sleep, &waker), WEFT_READY);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
    CHECK_EQ(weft_sleep_result(&sleep), -EAGAIN);
    CHECK_EQ(weft_sleep_poll(&sleep, &waker), WEFT_READY);
    weft_sleep_init(&sleep, weft_after(WEFT_MS)); // now there is one
    while (weft_sleep_poll(&sleep, &waker) == WEFT_PENDING) {
        CHECK_EQ(sem_wait(&loop.wakes), 0);
    }
    CHECK_EQ(weft_sleep_result(&sleep), 0);
    CHECK_EQ(atomic_load(&loop.alive), 0);
}

/// The waker of the latest poll is the one that counts, and the one before is given back.
TEST_DRIVERS(a_sleep_follows_whoever_polls_it)
{
    struct loop loops[2];
    weft_waker wakers[2];
    loop_init(&loops[0], &wakers[0]);
    loop_init(&loops[1], &wakers[1]);
    for (int i = 0; i < 20; i++) {
        struct weft_sleep sleep;
        weft_sleep_init(&sleep, WEFT_FOREVER);
        CHECK_EQ(weft_sleep_poll(&sleep, &wakers[0]), WEFT_PENDING);
        CHECK_EQ(weft_sleep_poll(&sleep, &wakers[0]), WEFT_PENDING);
        CHECK_EQ(atomic_load(&loops[0].alive), 1);
        CHECK_EQ(weft_sleep_poll(&sleep, &wakers[1]), WEFT_PENDING);
        CHECK_EQ(atomic_load(&loops[0].alive), 0);
        CHECK_EQ(atomic_load(&loops[1].alive), 1);
        weft_sleep_cancel(&sleep);
        CHECK_EQ(sem_wait(&loops[1].wakes), 0);
        CHECK_EQ(weft_sleep_poll(&sleep, &wakers[0]), WEFT_READY);
        CHECK_EQ(weft_sleep_result(&sleep), -ECANCELED);
        CHECK_EQ(atomic_load(&loops[0].alive), 0);
        CHECK_EQ(atomic_load(&loops[1].alive), 0);
        CHECK_EQ(atomic_load(&loops[0].woken), 0);
    }
}

struct relay {
    struct weft_sleep sleep;
    weft_time when;
};

static int poll_to_the_end(void *arg)
{
    struct relay *relay = arg;
    weft_waker waker;
    CHECK_OK(weft_waker_self(&waker));
    while (weft_sleep_poll(&relay->sleep, &waker) == WEFT_PENDING) {
        CHECK_OK(weft_park(WEFT_FOREVER));
    }
    CHECK_GE(weft_now(), relay->when);
    weft_waker_drop(&waker);
    return weft_sleep_result(&relay->sleep);
}

/// Armed on one carrier, polled on another: the timer stays where it was armed.
TEST_EVERYWHERE(a_sleep_may_be_polled_on_another_carrier)
{
    for (int i = 0; i < 30; i++) {
        struct relay relay = { .when = weft_after((weft_time)(i % 5) * 50 * WEFT_US + 1) };
        struct weft_attr attr = WEFT_ATTR_INIT;
        weft_waker waker;
        weft_task *task;
        int result;
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = i % weft_carrier_count();
        CHECK_OK(weft_waker_self(&waker));
        weft_sleep_init(&relay.sleep, relay.when);
        (void)weft_sleep_poll(&relay.sleep, &waker);
        CHECK_OK(weft_spawn(&task, poll_to_the_end, &relay, &attr));
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, 0);
        weft_waker_drop(&waker);
    }
}

struct slow {
    struct weft_future future;
    struct weft_sleep sleep;
};

static enum weft_poll slow_poll(struct weft_future *future, weft_waker *waker)
{
    struct slow *slow = (struct slow *)future;
    if (weft_sleep_poll(&slow->sleep, waker) == WEFT_PENDING) {
        return WEFT_PENDING;
    }
    future->result = weft_carrier_id();
    return WEFT_READY;
}

TEST_DRIVERS(foreign_threads_spawn_futures)
{
    weft_runtime *runtime;
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    for (int i = 0; i < 20; i++) {
        struct slow slow;
        struct weft_attr attr = WEFT_ATTR_INIT;
        weft_task *task;
        int result;
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = i % 2;
        weft_future_init(&slow.future, slow_poll, NULL);
        weft_sleep_init(&slow.sleep, weft_after(50 * WEFT_US));
        CHECK_OK(weft_runtime_spawn_future(&task, runtime, &slow.future, &attr));
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, i % 2);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}

// Somebody completes two waits, and the second is polled with a new waker in between.

struct between {
    struct hand first, before, after; // `first` is woken first, and polls `second`
    struct weft_sync_future second;
    enum weft_poll polled;
    int woken;
};

static void between_wake(weft_waker *waker)
{
    struct between *between = waker->data;
    between->polled = hand_poll(&between->after, &between->second.future);
    between->woken = atomic_load(&between->after.woken);
    *waker = hand_waker(&between->first);
    hand_wake(waker);
}

static void between_clone(weft_waker *copy, const weft_waker *waker)
{
    atomic_fetch_add(&((struct between *)waker->data)->first.clones, 1);
    *copy = *waker;
}

/// The last of two waits is claimed and not yet done: a poll has nothing to do but to wait for it.
TEST(a_poll_of_a_wait_that_is_being_completed_waits_for_that)
{
    static const struct weft_waker_vtable vtable = { .clone = between_clone, .wake = between_wake };
    struct weft_event event = { 0 };
    struct weft_sync_future first;
    struct between between = { .polled = WEFT_READY };
    weft_waker waker = { &vtable, &between };
    weft_event_wait_future(&first, &event);
    weft_event_wait_future(&between.second, &event);
    CHECK_EQ(weft_future_poll(&first.future, &waker), WEFT_PENDING);
    CHECK_EQ(hand_poll(&between.before, &between.second.future), WEFT_PENDING);
    weft_event_set(&event);
    CHECK_EQ(between.polled, WEFT_PENDING);
    CHECK_EQ(between.woken, 0);
    CHECK_EQ(atomic_load(&between.first.woken), 1);
    CHECK_EQ(atomic_load(&between.before.woken), 0);
    CHECK_EQ(atomic_load(&between.after.woken), 1);
    CHECK_EQ(hand_poll(&between.after, &between.second.future), WEFT_READY);
    CHECK_EQ(hand_poll(&between.first, &first.future), WEFT_READY);
    CHECK_EQ(between.first.clones + between.before.clones + between.after.clones, 0);
    CHECK_OK(weft_event_fini(&event));
}
