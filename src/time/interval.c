// interval.c - a tick every period.
#include <errno.h>

#include <weft/future.h>

#include "base/base.h"

int weft_interval_init(struct weft_interval *interval, weft_time first, weft_time period_ns,
                       enum weft_missed missed)
{
    *interval = (struct weft_interval){ .next = WEFT_FOREVER, .period = WEFT_FOREVER };
    if (period_ns == 0 || (unsigned)missed > WEFT_MISSED_SKIP) {
        return -EINVAL;
    }
    *interval = (struct weft_interval){ first, period_ns, missed };
    return 0;
}

static weft_time add(weft_time a, weft_time b)
{
    return b < WEFT_FOREVER - a ? a + b : WEFT_FOREVER;
}

/// The tick after the one that was due at `interval->next` and is delivered at `now`.
static weft_time following(const struct weft_interval *interval, weft_time now)
{
    weft_time next = add(interval->next, interval->period);
    if (next > now || next == WEFT_FOREVER) {
        return next;
    }
    switch (interval->missed) {
    case WEFT_MISSED_DELAY: return add(now, interval->period);
    case WEFT_MISSED_SKIP:
        return add(now, interval->period - (now - interval->next) % interval->period);
    case WEFT_MISSED_BURST: break;
    }
    return next;
}

/// The tick that was due has come.
static void deliver(weft_time *due, struct weft_interval *interval)
{
    if (due != NULL) {
        *due = interval->next;
    }
    interval->next = following(interval, weft_now());
}

int weft_interval_tick(weft_time *due, struct weft_interval *interval)
{
    int rc = weft_sleep_until(interval->next);
    if (rc < 0) {
        return rc;
    }
    deliver(due, interval);
    return 0;
}

// The same as a future: a sleep, and what follows it.

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct weft_tick_future *tick = weft__container_of(future, struct weft_tick_future, future);
    if (weft_sleep_poll(&tick->sleep, waker) == WEFT_PENDING) {
        return WEFT_PENDING;
    }
    future->result = weft_sleep_result(&tick->sleep);
    if (future->result == 0) {
        deliver(tick->due, tick->interval);
    }
    return WEFT_READY;
}

static void cancel(struct weft_future *future)
{
    weft_sleep_cancel(&weft__container_of(future, struct weft_tick_future, future)->sleep);
}

void weft_interval_tick_future(struct weft_tick_future *tick, weft_time *due,
                               struct weft_interval *interval)
{
    weft_future_init(&tick->future, poll, cancel);
    weft_sleep_init(&tick->sleep, interval->next);
    tick->interval = interval;
    tick->due = due;
}
