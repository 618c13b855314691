// timer_test.c - timers that call a function: armed, moved and stopped from everywhere.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

struct bell {
    struct weft_timer timer;
    atomic_int rung;
    atomic_ullong at; // of the last ringing
    int carrier;      // where it has to ring
    weft_time when;   // not before
};

static void ring(void *arg)
{
    struct bell *bell = arg;
    weft_time now = weft_now();
    CHECK_EQ(weft_carrier_id(), bell->carrier);
    CHECK_EQ(weft_self(), (weft_task *)NULL);
    CHECK_GE(now, bell->when);
    atomic_store(&bell->at, now);
    atomic_fetch_add(&bell->rung, 1);
}

static void make_bell(struct bell *bell, int carrier)
{
    *bell = (struct bell){ .carrier = carrier };
    CHECK_OK(weft_timer_init_on(&bell->timer, weft_runtime_current(), carrier, ring, bell));
}

static void wait_for_ring(struct bell *bell, int times)
{
    while (atomic_load(&bell->rung) < times) {
        CHECK_OK(weft_sleep(20 * WEFT_US));
    }
    CHECK_EQ(atomic_load(&bell->rung), times);
}

TEST_EVERYWHERE(a_timer_rings_once_and_never_early)
{
    struct bell bell = { .carrier = weft_carrier_id() };
    CHECK_OK(weft_timer_init(&bell.timer, ring, &bell));
    for (int i = 1; i <= 10; i++) {
        bell.when = weft_after((weft_time)i * 50 * WEFT_US);
        weft_timer_set(&bell.timer, bell.when);
        wait_for_ring(&bell, i);
    }
    CHECK_EQ(weft_timer_stop(&bell.timer), 0);
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK_EQ(atomic_load(&bell.rung), 10);
}

TEST_EVERYWHERE(a_moment_in_the_past_rings_soon)
{
    static const weft_time past[] = { 0, 1, 1000 };
    for (int carrier = 0; carrier < weft_carrier_count(); carrier++) {
        struct bell bell;
        make_bell(&bell, carrier);
        for (int i = 0; i < 3; i++) {
            weft_timer_set(&bell.timer, past[i]);
            wait_for_ring(&bell, i + 1);
        }
        CHECK_EQ(weft_timer_stop(&bell.timer), 0);
    }
}

TEST_EVERYWHERE(timers_move_in_both_directions)
{
    for (int carrier = 0; carrier < weft_carrier_count(); carrier++) {
        struct bell bell;
        make_bell(&bell, carrier);
        weft_timer_set(&bell.timer, weft_after(3600 * WEFT_S));
        weft_timer_set(&bell.timer, weft_after(100 * WEFT_US)); // forward
        wait_for_ring(&bell, 1);
        weft_timer_set(&bell.timer, weft_after(WEFT_S));
        bell.when = weft_after(2 * WEFT_MS);
        weft_timer_set(&bell.timer, bell.when); // several wishes are one
        wait_for_ring(&bell, 2);
        CHECK_EQ(weft_timer_stop(&bell.timer), 0);
        CHECK_EQ(atomic_load(&bell.rung), 2);
    }
}

TEST_EVERYWHERE(forever_disarms)
{
    for (int carrier = 0; carrier < weft_carrier_count(); carrier++) {
        struct bell bell;
        make_bell(&bell, carrier);
        weft_timer_set(&bell.timer, weft_after(3600 * WEFT_S));
        weft_timer_set(&bell.timer, WEFT_FOREVER);
        CHECK_EQ(weft_timer_stop(&bell.timer), 0); // nothing was pending any more
        weft_timer_set(&bell.timer, WEFT_FOREVER); // disarming twice is fine
        CHECK_EQ(weft_timer_stop(&bell.timer), 0);
        CHECK_EQ(atomic_load(&bell.rung), 0);
    }
}

TEST_EVERYWHERE(stop_says_whether_it_called_something_off)
{
    for (int carrier = 0; carrier < weft_carrier_count(); carrier++) {
        struct bell bell;
        make_bell(&bell, carrier);
        CHECK_EQ(weft_timer_stop(&bell.timer), 0); // never set
        weft_timer_set(&bell.timer, weft_after(3600 * WEFT_S));
        CHECK_EQ(weft_timer_stop(&bell.timer), 1);
        CHECK_EQ(weft_timer_stop(&bell.timer), 0);
        weft_timer_set(&bell.timer, weft_after(50 * WEFT_US)); // it may be set again
        wait_for_ring(&bell, 1);
        CHECK_EQ(weft_timer_stop(&bell.timer), 0);
    }
}

/// After a stop the storage is the caller's: it is overwritten at once, thousands of times.
TEST_EVERYWHERE(stop_gives_the_storage_back)
{
    uint64_t random = test_seed();
    for (uint64_t i = test_scaled(1000); i > 0; i--) {
        struct bell bell;
        make_bell(&bell, (int)(test_random(&random) % (uint64_t)weft_carrier_count()));
        for (uint64_t sets = test_random(&random) % 4; sets > 0; sets--) {
            weft_timer_set(&bell.timer, weft_after(test_random(&random) % 100000));
        }
        if (test_random(&random) % 4 == 0) {
            CHECK_OK(weft_sleep(test_random(&random) % 100000));
        }
        int before = atomic_load(&bell.rung);
        int called_off = weft_timer_stop(&bell.timer);
        CHECK(called_off == 0 || called_off == 1);
        CHECK_GE(atomic_load(&bell.rung), before);
        memset(&bell, 0xee, sizeof bell);
    }
}

TEST_EVERYWHERE(stop_is_not_a_cancellation_point)
{
    struct weft_scope scope;
    struct bell bell;
    make_bell(&bell, (weft_carrier_id() + 1) % weft_carrier_count());
    weft_timer_set(&bell.timer, weft_after(3600 * WEFT_S));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_timer_stop(&bell.timer), 1);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
}

struct repeater {
    struct weft_timer timer;
    int left;
    weft_time next;
    weft_time step;
    atomic_int done;
    int stop_result;
};

static void repeat(void *arg)
{
    struct repeater *repeater = arg;
    CHECK_GE(weft_now(), repeater->next);
    if (--repeater->left == 0) {
        repeater->stop_result = weft_timer_stop(&repeater->timer);
        weft_timer_set(&repeater->timer, WEFT_FOREVER);
        atomic_store(&repeater->done, 1);
        return;
    }
    repeater->next = repeater->step != 0 ? weft_after(repeater->step) : 0;
    weft_timer_set(&repeater->timer, repeater->next);
}

TEST_EVERYWHERE(a_timer_may_set_and_stop_itself)
{
    struct repeater repeater = { .left = 20, .step = 30 * WEFT_US };
    CHECK_OK(weft_timer_init(&repeater.timer, repeat, &repeater));
    weft_timer_set(&repeater.timer, 1);
    while (!atomic_load(&repeater.done)) {
        CHECK_OK(weft_sleep(50 * WEFT_US));
    }
    CHECK_EQ(repeater.left, 0);
    CHECK_EQ(repeater.stop_result, 0);
    CHECK_EQ(weft_timer_stop(&repeater.timer), 0);
}

/// A timer that is always overdue must leave room for tasks; this one is stopped by one.
TEST_EVERYWHERE(a_timer_that_is_always_due_starves_nobody)
{
    struct repeater repeater = { .left = INT32_MAX };
    CHECK_OK(weft_timer_init(&repeater.timer, repeat, &repeater));
    weft_timer_set(&repeater.timer, 0);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_yield());
        CHECK_OK(weft_sleep(10 * WEFT_US));
    }
    CHECK_EQ(weft_timer_stop(&repeater.timer), 1);
    CHECK_LT(repeater.left, INT32_MAX);
}

static void stop_with_wish(void *arg)
{
    struct repeater *repeater = arg;
    weft_timer_set(&repeater->timer, weft_after(WEFT_S));
    repeater->stop_result = weft_timer_stop(&repeater->timer);
    atomic_store(&repeater->done, 1);
}

TEST_EVERYWHERE(stop_in_its_own_function_calls_off_a_new_expiry)
{
    struct repeater repeater = { .left = 1 };
    CHECK_OK(weft_timer_init(&repeater.timer, stop_with_wish, &repeater));
    weft_timer_set(&repeater.timer, 1);
    while (!atomic_load(&repeater.done)) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(repeater.stop_result, 1);
}

struct order {
    struct weft_timer timer;
    int number;
};

static int order_log[64];
static int order_used;

static void note_order(void *arg)
{
    order_log[order_used++] = ((struct order *)arg)->number;
}

TEST_EVERYWHERE(timers_fire_in_order)
{
    enum { COUNT = 40 };
    static struct order orders[COUNT];
    uint64_t random = test_seed();
    int shuffled[COUNT] = { 0 };
    weft_time start = weft_after(5 * WEFT_MS);
    for (int i = 0; i < COUNT; i++) {
        int other = (int)(test_random(&random) % (uint64_t)(i + 1));
        shuffled[i] = shuffled[other];
        shuffled[other] = i;
    }
    for (int i = 0; i < COUNT; i++) {
        int number = shuffled[i];
        orders[number].number = number;
        CHECK_OK(weft_timer_init(&orders[number].timer, note_order, &orders[number]));
        weft_timer_set(&orders[number].timer, start + (weft_time)number * 2 * (1 << 16));
    }
    CHECK_OK(weft_sleep_until(start + (weft_time)COUNT * 2 * (1 << 16)));
    CHECK_EQ(order_used, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(order_log[i], i);
    }
}

TEST_EVERYWHERE(timers_of_one_moment_fire_as_they_were_set)
{
    enum { COUNT = 40 };
    static struct order orders[COUNT];
    weft_time when = weft_after(5 * WEFT_MS);
    for (int i = 0; i < COUNT; i++) {
        orders[i].number = i;
        CHECK_OK(weft_timer_init(&orders[i].timer, note_order, &orders[i]));
        weft_timer_set(&orders[i].timer, when);
    }
    CHECK_OK(weft_sleep_until(when + (1 << 17)));
    CHECK_EQ(order_used, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(order_log[i], i);
    }
}

static atomic_int crowd;

static void count_crowd(void *arg)
{
    (void)arg;
    atomic_fetch_add(&crowd, 1);
}

TEST_EVERYWHERE(a_hundred_thousand_timers)
{
    int total = (int)test_scaled(100000);
    struct weft_timer *timers = calloc((size_t)total, sizeof *timers);
    uint64_t random = test_seed();
    int called_off = 0;
    CHECK(timers != NULL);
    for (int i = 0; i < total; i++) {
        CHECK_OK(weft_timer_init(&timers[i], count_crowd, NULL));
        weft_timer_set(&timers[i], weft_after(test_random(&random) % (20 * WEFT_MS)));
    }
    for (int i = 0; i < total; i += 3) {
        called_off += weft_timer_stop(&timers[i]);
    }
    while (atomic_load(&crowd) + called_off < total) {
        CHECK_OK(weft_sleep(WEFT_MS));
    }
    CHECK_EQ(atomic_load(&crowd) + called_off, total);
    CHECK_GT(atomic_load(&crowd), 0);
    free(timers);
}

static void refuse_to_block(void *arg)
{
    struct weft_scope scope;
    struct weft_timer inner;
    weft_task *task;
    weft_waker waker;
    CHECK_EQ(weft_sleep(1), -EPERM);
    CHECK_EQ(weft_yield(), -EPERM);
    CHECK_EQ(weft_checkpoint(), -EPERM);
    CHECK_EQ(weft_park(0), -EPERM);
    CHECK_EQ(weft_cancelled(), -EPERM);
    CHECK_EQ(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_scope_join(&scope), -EPERM);
    CHECK_EQ(weft_waker_self(&waker), -EPERM);
    CHECK_EQ(weft_timer_init(&inner, ring, NULL), 0);
    CHECK_OK(weft_spawn(&task, (weft_fn)arg, NULL, NULL)); // spawning is allowed
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), -EPERM);
    weft_task_release(task);
}

static atomic_int spawned_ran;

static int run_from_timer(void *arg)
{
    (void)arg;
    atomic_store(&spawned_ran, 1);
    return 0;
}

TEST_EVERYWHERE(timer_functions_cannot_block_but_may_spawn)
{
    struct weft_timer timer;
    CHECK_OK(weft_timer_init(&timer, refuse_to_block, (void *)(uintptr_t)run_from_timer));
    weft_timer_set(&timer, 1);
    while (!atomic_load(&spawned_ran)) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(weft_timer_stop(&timer), 0);
}

struct remote_stop {
    struct weft_timer timer;
    struct bell *bell;
    atomic_int result;
};

static void stop_elsewhere(void *arg)
{
    struct remote_stop *stop = arg;
    atomic_store(&stop->result, weft_timer_stop(&stop->bell->timer));
}

TEST_EVERYWHERE(a_timer_function_cannot_stop_a_timer_of_another_carrier)
{
    struct bell bell;
    struct remote_stop stop = { .bell = &bell, .result = 1 };
    make_bell(&bell, (weft_carrier_id() + 1) % weft_carrier_count());
    weft_timer_set(&bell.timer, weft_after(3600 * WEFT_S));
    CHECK_OK(weft_timer_init(&stop.timer, stop_elsewhere, &stop));
    weft_timer_set(&stop.timer, 1);
    while (atomic_load(&stop.result) == 1) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(atomic_load(&stop.result), -EDEADLK);
    CHECK_EQ(weft_timer_stop(&bell.timer), 1);
}

TEST(timers_need_a_carrier)
{
    struct weft_timer timer;
    CHECK_EQ(weft_timer_init(&timer, ring, NULL), -EPERM);
}

TEST_DRIVERS(foreign_threads_set_and_stop_timers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    struct bell bell = { .carrier = 1 };
    CHECK_EQ(weft_timer_init_on(&bell.timer, runtime, -1, ring, &bell), -EINVAL);
    CHECK_EQ(weft_timer_init_on(&bell.timer, runtime, 2, ring, &bell), -EINVAL);
    CHECK_EQ(weft_timer_init_on(&bell.timer, runtime, 1, ring, &bell), 0);
    for (int i = 1; i <= 200; i++) {
        bell.when = weft_after(20 * WEFT_US);
        weft_timer_set(&bell.timer, weft_after(WEFT_S));
        weft_timer_set(&bell.timer, bell.when);
        while (atomic_load(&bell.rung) < i) {
            sched_yield();
        }
        CHECK_EQ(weft_timer_stop(&bell.timer), 0);
        CHECK_EQ(atomic_load(&bell.rung), i);
        bell.when = 0;
        weft_timer_set(&bell.timer, weft_after(3600 * WEFT_S));
        CHECK_EQ(weft_timer_stop(&bell.timer), 1);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}
