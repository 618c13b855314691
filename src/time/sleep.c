// sleep.c - the leaf future for time.
//
// The timer's function runs on its carrier while the sleep may be polled elsewhere (a future moves,
// a foreign loop polls). They meet under a lock; releasing it is the timer's last touch, so a poller
// that saw `fired` under the lock may free the storage.
//
// On a carrier with an annex (sched/annex.h) the timer is there: anyone may take it out, and who does, or
// whoever fires it, ends the sleep.
//
// If the carrier leaves (sched/retire.c) the timer is taken out of its wheel and the sleep is `adrift`: whoever
// polls it next arms it where he is. Not while a cancel is on its way to the timer, which ends it there.
#include <errno.h>

#include <weft/future.h>

#include "base/lock.h"
#include "sched/annex.h"
#include "time/timer.h"

enum phase { FRESH, ARMED, READY };

struct sleep {
    struct weft_future future; // its result is set when READY
    struct weft__user_timer timer;
    weft_time when;
    struct weft__annex *annex; // where the timer is; NULL: in its carrier's own wheel
    struct weft__lock lock;
    uint8_t phase; // enum phase; the poller's
    bool cancelled;
    bool fired;       // under lock
    bool adrift;      // under lock; in no wheel
    weft_waker waker; // under lock; owned while ARMED and not fired
};
_Static_assert(sizeof(struct sleep) <= sizeof(struct weft_sleep), "public size");

static struct sleep *of(struct weft_sleep *sleep)
{
    return (struct sleep *)(void *)sleep;
}

static void timer_fired(void *arg)
{
    struct sleep *sleep = arg;
    struct weft__user_timer *timer = &sleep->timer;
    weft__lock_acquire(&sleep->lock);
    while (weft__user_timer_queued(timer)) { // a cancel is on its way to us: let it arrive
        weft__lock_release(&sleep->lock);
        weft__user_timer_stop(timer, timer->carrier, NULL);
        weft__lock_acquire(&sleep->lock);
    }
    weft_waker waker = sleep->waker;
    sleep->fired = true;
    weft__lock_release(&sleep->lock);
    weft_waker_wake(&waker);
}

static void end(struct sleep *sleep)
{
    weft__lock_acquire(&sleep->lock);
    weft_waker waker = sleep->waker;
    sleep->fired = true;
    weft__lock_release(&sleep->lock);
    weft_waker_wake(&waker);
}

/// Out of the annex, on whatever thread.
static void annex_fired(struct weft__timer *timer)
{
    end(weft__container_of(timer, struct sleep, timer.timer));
}

static enum weft_poll ready(struct sleep *sleep, int error)
{
    sleep->future.result = sleep->cancelled ? -ECANCELED : error;
    sleep->phase = READY;
    return WEFT_READY;
}

static enum weft_poll arm(struct sleep *sleep, const weft_waker *waker)
{
    if (sleep->cancelled || sleep->when <= weft_now()) {
        return ready(sleep, 0);
    }
    struct weft__carrier *self = weft__carrier_self();
    struct weft__carrier *near = weft__carrier_near();
    struct weft__carrier *carrier = near != NULL ? near : weft__default_carrier();
    if (carrier == NULL) { // a foreign thread, and no default runtime: the log says why
        return ready(sleep, -EAGAIN);
    }
    sleep->phase = ARMED;
    weft_waker_clone(&sleep->waker, waker);
    weft__user_timer_init(&sleep->timer, carrier, timer_fired, sleep);
    if (weft__unlikely(carrier->annex != NULL) && carrier == self) {
        sleep->annex = carrier->annex;
        sleep->timer.timer.fire = annex_fired;
        weft__annex_arm(sleep->annex, &sleep->timer.timer, sleep->when);
        return WEFT_PENDING;
    }
    weft__user_timer_set(&sleep->timer, sleep->when, self);
    return WEFT_PENDING;
}

bool weft__sleep_owns(struct weft__timer *base)
{
    const struct weft__user_timer *timer = weft__user_timer_in(base);
    return timer != NULL && timer->fn == timer_fired;
}

void weft__sleep_move(struct weft__timer *base)
{
    struct weft__user_timer *timer = weft__user_timer_in(base);
    struct sleep *sleep = timer->arg;
    weft_waker waker = { NULL, NULL };
    weft__lock_acquire(&sleep->lock);
    if (weft__user_timer_queued(timer)) {
        weft__wheel_add(&timer->carrier->wheel, base, base->when);
    } else {
        waker = sleep->waker;
        sleep->adrift = true;
    }
    weft__lock_release(&sleep->lock);
    weft_waker_wake(&waker);
}

static enum weft_poll look(struct sleep *sleep, const weft_waker *waker)
{
    weft_waker old = { NULL, NULL };
    weft_waker fresh = { NULL, NULL };
    bool same = sleep->waker.vtable == waker->vtable && sleep->waker.data == waker->data;
    if (!same) {
        weft_waker_clone(&fresh, waker); // foreign code: not under the lock
    }
    weft__lock_acquire(&sleep->lock);
    bool fired = sleep->fired;
    bool adrift = sleep->adrift;
    if (!fired && !adrift && !same) {
        old = sleep->waker;
        sleep->waker = fresh;
    } else if (fired || adrift) {
        old = fresh;
    }
    sleep->adrift = false;
    weft__lock_release(&sleep->lock);
    if (old.vtable != NULL) {
        weft_waker_drop(&old);
    }
    return fired ? ready(sleep, 0) : adrift ? arm(sleep, waker) : WEFT_PENDING;
}

enum weft_poll weft_sleep_poll(struct weft_sleep *public_sleep, weft_waker *waker)
{
    struct sleep *sleep = of(public_sleep);
    switch ((enum phase)sleep->phase) {
    case FRESH: return arm(sleep, waker);
    case ARMED: return look(sleep, waker);
    case READY: break;
    }
    return WEFT_READY;
}

/// On the timer's own carrier: nothing can fire meanwhile.
static void end_here(struct sleep *sleep)
{
    weft_waker waker = { NULL, NULL };
    weft__lock_acquire(&sleep->lock);
    if (!sleep->fired && !sleep->adrift) {
        (void)weft__user_timer_stop(&sleep->timer, sleep->timer.carrier, NULL);
        sleep->fired = true;
        waker = sleep->waker;
    }
    weft__lock_release(&sleep->lock);
    weft_waker_wake(&waker);
}

/// From elsewhere only the timer ends an armed sleep, so that nothing has to be waited for here: it
/// is brought forward to now. Under the lock, so that it cannot fire between the look and the request.
static void end_there(struct sleep *sleep, struct weft__carrier *self)
{
    weft__lock_acquire(&sleep->lock);
    if (!sleep->fired && !sleep->adrift) {
        weft__user_timer_set(&sleep->timer, 1, self);
    }
    weft__lock_release(&sleep->lock);
}

void weft_sleep_cancel(struct weft_sleep *public_sleep)
{
    struct sleep *sleep = of(public_sleep);
    if (sleep->phase == READY || sleep->cancelled) {
        return;
    }
    sleep->cancelled = true;
    if (sleep->phase == ARMED && sleep->annex != NULL) {
        if (weft__annex_disarm(sleep->annex, &sleep->timer.timer)) {
            end(sleep);
        }
    } else if (sleep->phase == ARMED) {
        struct weft__carrier *self = weft__carrier_self();
        if (self == sleep->timer.carrier) {
            end_here(sleep);
        } else {
            end_there(sleep, self);
        }
    }
}

int weft_sleep_result(const struct weft_sleep *sleep)
{
    return (int)sleep->future.result;
}

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    return weft_sleep_poll(weft__container_of(future, struct weft_sleep, future), waker);
}

static void cancel(struct weft_future *future)
{
    weft_sleep_cancel(weft__container_of(future, struct weft_sleep, future));
}

void weft_sleep_init(struct weft_sleep *sleep, weft_time when)
{
    *of(sleep) = (struct sleep){ .future = { .poll = poll, .cancel = cancel }, .when = when };
}
