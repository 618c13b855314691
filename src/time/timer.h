// timer.h - the private layout of struct weft_timer.
#ifndef WEFT_TIME_TIMER_H
#define WEFT_TIME_TIMER_H

#include <stdatomic.h>

#include <weft/time.h>

#include "sched/carrier.h"

/// A public timer. `wish` and `queued` are anyone's; the rest is its carrier's or fixed.
struct weft__user_timer {
    struct weft__timer timer;
    struct weft__request request; // in the carrier's inbox while `queued`
    struct weft__carrier *carrier;
    weft_timer_fn fn;
    void *arg;
    _Atomic uint64_t wish;   // what another thread asked for last and the carrier has not seen yet
    _Atomic uint32_t queued; // the request is on its way
};
_Static_assert(sizeof(struct weft__user_timer) <= sizeof(struct weft_timer), "public size");

static inline struct weft__user_timer *weft__user_timer_of(struct weft_timer *timer)
{
    return (struct weft__user_timer *)(void *)timer;
}

void weft__user_timer_init(struct weft__user_timer *timer, struct weft__carrier *carrier,
                           weft_timer_fn fn, void *arg);

/// Arms, moves or disarms from wherever we are: `self` is the carrier of this thread, or NULL.
void weft__user_timer_set(struct weft__user_timer *timer, weft_time when,
                          struct weft__carrier *self);

/// Whether a request from elsewhere is on its way to the carrier.
static inline bool weft__user_timer_queued(struct weft__user_timer *timer)
{
    return atomic_load_explicit(&timer->queued, memory_order_relaxed) != 0;
}

/// The timer that this is the wheel's part of; NULL: it is of another kind.
struct weft__user_timer *weft__user_timer_in(struct weft__timer *timer);

/// A sleep's timer is in the wheel of a carrier that leaves: lets it go, to be armed where it is polled
/// next. sleep.c.
bool weft__sleep_owns(struct weft__timer *timer);
void weft__sleep_move(struct weft__timer *timer);

/// Disarms and waits until the carrier is done with it: `task` is the waiting virtual thread, NULL
/// for a foreign OS thread. 1 if an expiry was called off, else 0.
int weft__user_timer_stop(struct weft__user_timer *timer, struct weft__carrier *self,
                          struct weft__task *task);

#endif
