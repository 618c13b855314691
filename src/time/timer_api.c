// timer_api.c - the public face of timers: finds out where it is called from.
#include <errno.h>

#include "sched/crew.h"
#include "time/timer.h"

int weft_timer_init(struct weft_timer *timer, weft_timer_fn fn, void *arg)
{
    struct weft__carrier *carrier = weft__carrier_near();
    if (carrier == NULL) {
        return weft__no_task();
    }
    weft__user_timer_init(weft__user_timer_of(timer), carrier, fn, arg);
    return 0;
}

void weft_timer_set(struct weft_timer *timer, weft_time when)
{
    struct weft__user_timer *ours = weft__user_timer_of(timer);
    struct weft__carrier *self = weft__carrier_self();
    struct weft__crew *crew = ours->carrier->crew;
    if (weft__likely(self != NULL && self->crew == crew)) {
        weft__user_timer_set(ours, when, self);
    } else if (weft__runtime_refuses(crew, self) == 0) {
        weft__crew_enter(crew); // the timer may fire, and the crew go, before we have looked around
        weft__user_timer_set(ours, when, self);
        weft__crew_leave(crew);
    }
}

int weft_timer_stop(struct weft_timer *public_timer)
{
    struct weft__user_timer *timer = weft__user_timer_of(public_timer);
    struct weft__carrier *self = weft__carrier_self();
    if (self == timer->carrier) {
        return weft__user_timer_stop(timer, self, NULL);
    }
    struct weft__task *task = weft__thread_self();
    int rc = weft__runtime_refuses(timer->carrier->crew, self);
    if (rc < 0) {
        return rc;
    }
    if (task == NULL && weft__crew_self() != NULL) {
        return -EDEADLK;
    }
    return weft__user_timer_stop(timer, self, task);
}
