// timer_model.c - timers set, fired and stopped by different threads (time/timer.c, U1 to U4;
// time/sleep.c).
//
// A real carrier loop has the wheel. Its clock stands still until it sleeps, then time may pass as
// far as the next expiry. Timers live in frames of foreign threads and die when those return: after
// a stop, or after a sleep was READY, the carrier must not touch them any more. A forgotten wish
// leaves a timer that never fires, and whoever waits for it asleep.
//
// Sources: time/timer.c time/sleep.c sched/step.c sched/inbox.c sched/park.c sched/wheel.c
// Sources: task/wait.c task/run.c
// Headers: time/timer.h base/lock.h
// With: stage.c stage_carrier.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include "base/sys.h"
#include "mc.h"
#include "sched/park.h"
#include "stage.h"
#include "time/timer.h"

static const weft_time soon = 2 * WEFT__WHEEL_TICK_NS;

static struct weft__carrier carrier;
static struct weft__request stop_request;
static int fired;      // the carrier's while it runs
static int called_off; // what stop said

weft_time weft_now(void)
{
    return WEFT__WHEEL_TICK_NS;
}

// Foreign threads have no carrier of their own and use the one there is.
struct weft__carrier *weft__carrier_self(void)
{
    return NULL;
}

struct weft__carrier *weft__carrier_near(void)
{
    return NULL;
}

struct weft__carrier *weft__default_carrier(void)
{
    return &carrier;
}

static void run_carrier(void *unused)
{
    (void)unused;
    weft__carrier_loop(&carrier);
}

static void stop_carrier(struct weft__request *request, struct weft__carrier *here)
{
    (void)request;
    here->stop = true;
}

static void leave(void)
{
    weft__put(&carrier, &stop_request.node, NULL);
}

static void count_fire(void *arg)
{
    (void)arg;
    fired++;
}

// Set and stopped by one thread, while it may fire.

static __attribute__((noinline)) void set_and_stop(void)
{
    struct weft__user_timer timer;
    weft__user_timer_init(&timer, &carrier, count_fire, NULL);
    weft__user_timer_set(&timer, soon, NULL);
    called_off = weft__user_timer_stop(&timer, NULL, NULL);
    mc_assert(fired + called_off == 1); // U1, and never after the stop
}

static void user_sets_and_stops(void *unused)
{
    (void)unused;
    set_and_stop();
    leave();
}

// Set by two threads at once: it fires (U3). The carrier stops there, or sleeps for ever.

static struct weft__user_timer shared;

static void fire_and_stop(void *arg)
{
    (void)arg;
    fired++;
    carrier.stop = true;
}

static void user_sets(void *unused)
{
    (void)unused;
    weft__user_timer_set(&shared, soon, NULL);
}

// Set again by the same thread before the first wish was seen: the last set wins (U3).

static void user_sets_again(void *unused)
{
    (void)unused;
    weft__user_timer_set(&shared, WEFT_FOREVER, NULL);
    weft__user_timer_set(&shared, soon, NULL);
}

static void user_calls_off(void *unused)
{
    (void)unused;
    weft__user_timer_set(&shared, soon, NULL);
    weft__user_timer_set(&shared, WEFT_FOREVER, NULL);
    called_off = weft__user_timer_stop(&shared, NULL, NULL);
    mc_assert(called_off == 0 && fired <= 1);
    mc_forbid(&shared, sizeof shared);
    leave();
}

// A sleep polled by a foreign loop: its waker is a futex.

static _Atomic uint32_t is_woken;

static void waker_clone(weft_waker *copy, const weft_waker *waker)
{
    *copy = *waker;
}

static void waker_wake(weft_waker *waker)
{
    (void)waker;
    atomic_store_explicit(&is_woken, 1, memory_order_release);
    weft__futex_wake(&is_woken, 1);
}

static void waker_wake_by_ref(const weft_waker *waker)
{
    (void)waker;
    mc_fail("a sleep wakes once, by value");
}

static void waker_drop(weft_waker *waker)
{
    (void)waker;
}

static const struct weft_waker_vtable vtable = {
    .clone = waker_clone,
    .wake = waker_wake,
    .wake_by_ref = waker_wake_by_ref,
    .drop = waker_drop,
};

static __attribute__((noinline)) void sleep_through(bool is_cancelled)
{
    struct weft_sleep sleep;
    weft_waker waker = { &vtable, NULL };
    weft_sleep_init(&sleep, soon);
    bool is_first = true;
    while (weft_sleep_poll(&sleep, &waker) == WEFT_PENDING) {
        if (is_first && is_cancelled) {
            weft_sleep_cancel(&sleep);
        }
        is_first = false;
        while (atomic_exchange_explicit(&is_woken, 0, memory_order_acquire) == 0) {
            weft__futex_wait(&is_woken, 0, WEFT_FOREVER);
        }
    }
    mc_assert(weft_sleep_result(&sleep) == (is_cancelled ? -ECANCELED : 0));
}

static void user_sleeps(void *unused)
{
    (void)unused;
    sleep_through(false);
    leave();
}

static void user_cancels(void *unused)
{
    (void)unused;
    sleep_through(true);
    leave();
}

static void reset(weft_timer_fn fire, void (*first)(void *), void (*second)(void *))
{
    stage_carrier_init(&carrier, "carrier");
    stop_request = (struct weft__request){ { NULL, WEFT__NODE_REQUEST }, stop_carrier };
    fired = called_off = 0;
    atomic_init(&is_woken, 0);
    weft__user_timer_init(&shared, &carrier, fire, NULL);
    mc_name(&shared, sizeof shared, "timer");
    mc_name(&shared.wish, sizeof shared.wish, "wish");
    mc_name(&shared.queued, sizeof shared.queued, "queued");
    mc_thread(run_carrier, NULL);
    mc_thread(first, NULL);
    if (second != NULL) {
        mc_thread(second, NULL);
    }
}

static void stop_against_fire(void)
{
    reset(count_fire, user_sets_and_stops, NULL);
}

static void two_setters(void)
{
    reset(fire_and_stop, user_sets, user_sets);
}

static void set_again(void)
{
    reset(fire_and_stop, user_sets_again, NULL);
}

static void call_off(void)
{
    reset(count_fire, user_calls_off, NULL);
}

static void sleep_fires(void)
{
    reset(count_fire, user_sleeps, NULL);
}

static void sleep_cancelled(void)
{
    reset(count_fire, user_cancels, NULL);
}

const struct mc_model mc_models[] = {
    { .name = "timer_stop_against_fire", .setup = stop_against_fire },
    { .name = "timer_call_off", .setup = call_off },
    { .name = "timer_set_again", .setup = set_again },
    { .name = "timer_two_setters", .setup = two_setters },
    { .name = "sleep_fires", .setup = sleep_fires },
    { .name = "sleep_cancelled", .setup = sleep_cancelled },
    { .name = NULL },
};
