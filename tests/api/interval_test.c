// interval_test.c - ticks and the three ways to treat missed ones, exact on the simulated clock.
#include "support/hand.h"

#include <errno.h>
#include <sched.h>
#include <weft.h>

#define PERIOD (10 * WEFT_MS)

static weft_time tick(struct weft_interval *interval)
{
    weft_time due = 0;
    CHECK_EQ(weft_interval_tick(&due, interval), 0);
    CHECK_GE(weft_now(), due);
    return due;
}

/// On time every policy keeps the schedule, without drift.
static int check_on_time(void *arg)
{
    (void)arg;
    for (int policy = WEFT_MISSED_BURST; policy <= WEFT_MISSED_SKIP; policy++) {
        struct weft_interval interval;
        weft_time first = weft_after(3 * WEFT_MS);
        CHECK_EQ(weft_interval_init(&interval, first, PERIOD, (enum weft_missed)policy), 0);
        for (weft_time i = 0; i < 100; i++) {
            CHECK_EQ(tick(&interval), first + i * PERIOD);
            CHECK_LT(weft_now(), first + i * PERIOD + WEFT_MS);
            CHECK_OK(weft_sleep(PERIOD / 2)); // busy for less than a period
        }
    }
    return 0;
}

/// Misses the ticks at 10, 20 and 30 ms: delivers them at once, then goes on at 40 ms.
static int check_burst(void *arg)
{
    (void)arg;
    struct weft_interval interval;
    weft_time first = weft_after(PERIOD);
    CHECK_OK(weft_interval_init(&interval, first, PERIOD, WEFT_MISSED_BURST));
    CHECK_EQ(tick(&interval), first);
    CHECK_OK(weft_sleep_until(first + 35 * WEFT_MS));
    weft_time late = weft_now();
    for (weft_time i = 1; i <= 3; i++) {
        CHECK_EQ(tick(&interval), first + i * PERIOD);
    }
    CHECK_LT(weft_now(), late + WEFT_MS);
    for (weft_time i = 4; i < 8; i++) {
        CHECK_EQ(tick(&interval), first + i * PERIOD);
        CHECK_LT(weft_now(), first + i * PERIOD + WEFT_MS);
    }
    return 0;
}

/// The late tick starts a fresh period: 10 ms after it, and every 10 ms from there.
static int check_delay(void *arg)
{
    (void)arg;
    struct weft_interval interval;
    weft_time first = weft_after(PERIOD);
    CHECK_OK(weft_interval_init(&interval, first, PERIOD, WEFT_MISSED_DELAY));
    CHECK_EQ(tick(&interval), first);
    CHECK_OK(weft_sleep_until(first + 35 * WEFT_MS));
    weft_time before = weft_now();
    CHECK_EQ(tick(&interval), first + PERIOD);
    weft_time after = weft_now();
    CHECK_LT(after, before + WEFT_MS);
    weft_time fresh = tick(&interval);
    CHECK_GE(fresh, before + PERIOD);
    CHECK_LE(fresh, after + PERIOD);
    for (weft_time i = 1; i < 4; i++) {
        CHECK_EQ(tick(&interval), fresh + i * PERIOD);
    }
    return 0;
}

/// The late tick is delivered once, those behind it are dropped, the next one is on the schedule.
static int check_skip(void *arg)
{
    (void)arg;
    struct weft_interval interval;
    weft_time first = weft_after(PERIOD);
    CHECK_OK(weft_interval_init(&interval, first, PERIOD, WEFT_MISSED_SKIP));
    CHECK_EQ(tick(&interval), first);
    CHECK_OK(weft_sleep_until(first + 35 * WEFT_MS));
    CHECK_EQ(tick(&interval), first + PERIOD);
    CHECK_LT(weft_now(), first + 36 * WEFT_MS);
    for (weft_time i = 4; i < 8; i++) {
        CHECK_EQ(tick(&interval), first + i * PERIOD);
    }
    CHECK_OK(weft_sleep_until(first + 1234567 * WEFT_MS)); // a hundred thousand missed at once
    CHECK_EQ(tick(&interval), first + 8 * PERIOD);
    CHECK_EQ(tick(&interval), first + 1234570 * WEFT_MS);
    return 0;
}

static void simulate(weft_fn fn)
{
    for (uint64_t i = 0; i < 10; i++) {
        struct weft_sim_options options = { .seed = test_seed() + i };
        CHECK_EQ(weft_sim_run(NULL, fn, NULL, &options), 0);
    }
}

TEST(ticks_on_time_keep_the_schedule)
{
    simulate(check_on_time);
}

TEST(burst_delivers_missed_ticks_at_once)
{
    simulate(check_burst);
}

TEST(delay_starts_a_fresh_period)
{
    simulate(check_delay);
}

TEST(skip_drops_missed_ticks)
{
    simulate(check_skip);
}

TEST_EVERYWHERE(ticks_are_never_early)
{
    struct weft_interval interval;
    weft_time first = weft_now();
    CHECK_OK(weft_interval_init(&interval, first, 200 * WEFT_US, WEFT_MISSED_BURST));
    for (weft_time i = 0; i < 20; i++) {
        CHECK_EQ(tick(&interval), first + i * 200 * WEFT_US);
    }
    CHECK_EQ(weft_interval_tick(NULL, &interval), 0);
}

TEST_EVERYWHERE(a_cancelled_tick_is_still_to_come)
{
    struct weft_interval interval;
    struct weft_scope scope;
    weft_time due = 77;
    weft_time first = weft_after(WEFT_MS);
    CHECK_OK(weft_interval_init(&interval, first, WEFT_MS, WEFT_MISSED_SKIP));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_interval_tick(&due, &interval), -ECANCELED);
    CHECK_EQ(due, 77u);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_EQ(tick(&interval), first);
}

/// A period that leads past the end of time: the tick never comes, but can be cancelled.
TEST_EVERYWHERE(an_interval_may_outlast_time)
{
    struct weft_interval interval;
    struct weft_scope scope;
    weft_time first = weft_now();
    CHECK_OK(weft_interval_init(&interval, first, WEFT_FOREVER - 1, WEFT_MISSED_BURST));
    CHECK_EQ(tick(&interval), first);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(WEFT_MS)));
    CHECK_EQ(weft_interval_tick(NULL, &interval), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
}

TEST(bad_intervals_are_refused)
{
    struct weft_interval interval;
    CHECK_EQ(weft_interval_init(&interval, 1, 0, WEFT_MISSED_BURST), -EINVAL);
    CHECK_EQ(weft_interval_init(&interval, 1, 1, (enum weft_missed)3), -EINVAL);
    CHECK_EQ(weft_interval_init(&interval, 1, 1, (enum weft_missed) - 1), -EINVAL);
    CHECK_EQ(weft_interval_init(&interval, 1, 1, WEFT_MISSED_BURST), 0);
    CHECK_EQ(weft_interval_tick(NULL, &interval), -EPERM); // outside a virtual thread
}

// Ticks as futures.

/// Awaits a tick: 0 or an error.
static int64_t await_tick(weft_time *due, struct weft_interval *interval, weft_time deadline)
{
    struct weft_tick_future tick_future;
    weft_interval_tick_future(&tick_future, due, interval);
    int64_t result = weft_await(&tick_future.future, deadline);
    weft_future_fini(&tick_future.future);
    return result;
}

/// The schedule is the one that threads see, also behind a delay of 35 ms, for every policy.
static int check_futures_keep_the_schedule(void *arg)
{
    (void)arg;
    for (int policy = WEFT_MISSED_BURST; policy <= WEFT_MISSED_SKIP; policy++) {
        struct weft_interval threads;
        struct weft_interval futures;
        weft_time first = weft_after(PERIOD);
        CHECK_OK(weft_interval_init(&threads, first, PERIOD, (enum weft_missed)policy));
        futures = threads;
        for (int i = 0; i < 12; i++) {
            weft_time seen = 0;
            weft_time due = 0;
            if (i == 4) {
                CHECK_OK(weft_sleep(3 * PERIOD + PERIOD / 2));
            }
            CHECK_EQ(await_tick(&due, &futures, WEFT_FOREVER), 0);
            CHECK_GE(weft_now(), due);
            CHECK_OK(weft_interval_tick(&seen, &threads));
            // A period that begins with the late tick begins when that is delivered.
            CHECK(seen == due || (policy == WEFT_MISSED_DELAY && seen - due < WEFT_MS));
        }
    }
    return 0;
}

TEST(futures_keep_the_schedule)
{
    simulate(check_futures_keep_the_schedule);
}

TEST_EVERYWHERE(a_tick_that_ends_early_is_still_to_come)
{
    struct weft_interval interval;
    struct weft_tick_future future;
    weft_time due = 77;
    weft_time first = weft_after(1000 * WEFT_S);
    CHECK_OK(weft_interval_init(&interval, first, WEFT_MS, WEFT_MISSED_SKIP));
    CHECK_EQ(await_tick(&due, &interval, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_interval_tick_future(&future, &due, &interval);
    weft_future_cancel(&future.future); // before it began
    CHECK_EQ(weft_await(&future.future, WEFT_FOREVER), -ECANCELED);
    struct hand hand = { 0 };
    weft_interval_tick_future(&future, &due, &interval);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    weft_future_cancel(&future.future); // while it waits
    CHECK_EQ(hand_drive(&hand, &future.future), -ECANCELED);
    CHECK_EQ(due, 77u);
    CHECK_EQ(interval.next, first);
}

/// A deadline that comes together with the tick: whoever wins, no tick is lost or seen twice.
TEST_EVERYWHERE(a_deadline_races_with_ticks)
{
    struct weft_interval interval;
    weft_time first = weft_after(WEFT_MS);
    weft_time period = 300 * WEFT_US;
    CHECK_OK(weft_interval_init(&interval, first, period, WEFT_MISSED_BURST));
    for (weft_time i = 0; i < 30; i++) {
        weft_time due = 0;
        int64_t result = await_tick(&due, &interval, first + i * period);
        if (result != 0) {
            CHECK_EQ(result, -ETIMEDOUT);
            CHECK_EQ(due, 0u);
            CHECK_EQ(await_tick(&due, &interval, WEFT_FOREVER), 0);
        }
        CHECK_EQ(due, first + i * period);
    }
}

/// A stackless task that counts ticks.
struct metronome {
    struct weft_machine machine; // first member
    struct weft_interval interval;
    struct weft_tick_future tick;
    weft_time due;
    int left;
};

static enum weft_poll beat(struct weft_future *future, weft_waker *waker)
{
    struct metronome *m = (struct metronome *)(void *)future;
    WEFT_MACHINE_BEGIN(&m->machine);
    while (m->left > 0) {
        weft_interval_tick_future(&m->tick, &m->due, &m->interval);
        WEFT_MACHINE_AWAIT(&m->machine, &m->tick.future, waker);
        if (m->tick.future.result < 0) {
            WEFT_MACHINE_RETURN(&m->machine, m->tick.future.result);
        }
        m->left--;
    }
    WEFT_MACHINE_END(&m->machine, 0);
}

TEST_EVERYWHERE(spawned_futures_tick)
{
    enum { COUNT = 20, TICKS = 5 };
    static struct metronome metronomes[COUNT];
    weft_task *tasks[COUNT];
    weft_time first = weft_after(WEFT_MS);
    for (int i = 0; i < COUNT; i++) {
        struct metronome *m = &metronomes[i];
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        weft_machine_init(&m->machine, beat);
        m->left = i == 0 ? 1000000 : TICKS;
        CHECK_OK(weft_interval_init(&m->interval, first, WEFT_MS, WEFT_MISSED_BURST));
        CHECK_OK(weft_spawn_future(&tasks[i], &m->machine.future, &attr));
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        int result;
        if (i == 0) {
            weft_task_cancel(tasks[0]);
        }
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, i == 0 ? -ECANCELED : 0);
        CHECK(i == 0 || metronomes[i].due == first + (TICKS - 1) * WEFT_MS);
    }
}

/// A loop of the program's own drives it, on a thread that no runtime knows.
TEST_DRIVERS(a_foreign_thread_drives_ticks)
{
    struct weft_interval interval;
    struct weft_tick_future future;
    struct hand hand = { 0 };
    weft_time due = 0;
    weft_time first = weft_after(2 * WEFT_MS);
    CHECK_OK(weft_interval_init(&interval, first, WEFT_MS, WEFT_MISSED_BURST));
    for (weft_time i = 0; i < 3; i++) {
        weft_interval_tick_future(&future, &due, &interval);
        while (hand_poll(&hand, &future.future) == WEFT_PENDING) {
            while (atomic_load(&hand.woken) == 0) {
                sched_yield();
            }
        }
        CHECK_EQ(future.future.result, 0);
        CHECK_EQ(due, first + i * WEFT_MS);
        CHECK_GE(weft_now(), due);
    }
}
