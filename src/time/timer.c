// timer.c - timers in caller-owned storage, set and stopped from any thread.
//
// A timer's wheel is touched by its carrier only. Other threads leave a wish and send the timer
// through the carrier's inbox, at most once at a time:
//
//     set, elsewhere                      the carrier, on receipt
//     wish = when                         queued = 0
//     if queued was 0: queued = 1, send   take the wish, obey it if there is one
//
//   U1  A wish is taken once (exchanged for NONE), so an expiry never comes twice for one set.
//   U2  A set on the carrier itself drops an older wish: the last set wins.
//   U3  The sender that finds `queued` set has published its wish before the carrier clears the
//       flag and looks: nothing is forgotten.
//   U4  Stop ends with the timer out of the wheel, out of the inbox, and its function not running.
//       From elsewhere it is a request behind the timer's own, answered by completing a wait; the
//       answer is the carrier's last touch.
//
// Locks: none. Checked by: tests/model (timer fire against cancel), tests/api/timer_test.c.
#include "time/timer.h"

#include "base/relax.h"
#include "sched/park.h"
#include "task/host.h"
#include "task/wait.h"

#define NO_WISH UINT64_C(0)

static void apply(struct weft__user_timer *timer, weft_time when)
{
    struct weft__wheel *wheel = &timer->carrier->wheel;
    if (weft__timer_armed(&timer->timer)) {
        weft__wheel_remove(wheel, &timer->timer);
    }
    if (when != WEFT_FOREVER) {
        weft__wheel_add(wheel, &timer->timer, when);
    }
}

static void fired(struct weft__timer *base)
{
    struct weft__user_timer *timer = weft__container_of(base, struct weft__user_timer, timer);
    timer->fn(timer->arg); // which may have ended the timer: nothing after this
}

struct weft__user_timer *weft__user_timer_in(struct weft__timer *base)
{
    return base->fire == fired ? weft__container_of(base, struct weft__user_timer, timer) : NULL;
}

/// The timer's request has arrived at its carrier.
static void received(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)carrier;
    struct weft__user_timer *timer = weft__container_of(request, struct weft__user_timer, request);
    atomic_exchange_explicit(&timer->queued, 0, memory_order_acq_rel);
    uint64_t wish = atomic_exchange_explicit(&timer->wish, NO_WISH, memory_order_relaxed);
    if (wish != NO_WISH) {
        apply(timer, wish);
    }
}

void weft__user_timer_init(struct weft__user_timer *timer, struct weft__carrier *carrier,
                           weft_timer_fn fn, void *arg)
{
    *timer = (struct weft__user_timer){
        .timer.fire = fired,
        .request = { .node.kind = WEFT__NODE_REQUEST, .fn = received },
        .carrier = carrier,
        .fn = fn,
        .arg = arg,
    };
}

void weft__user_timer_set(struct weft__user_timer *timer, weft_time when,
                          struct weft__carrier *self)
{
    when = when == NO_WISH ? 1 : when;
    if (self == timer->carrier) {
        atomic_store_explicit(&timer->wish, NO_WISH, memory_order_relaxed);
        apply(timer, when);
        return;
    }
    atomic_store_explicit(&timer->wish, when, memory_order_relaxed);
    if (atomic_exchange_explicit(&timer->queued, 1, memory_order_acq_rel) == 0) {
        weft__put(timer->carrier, &timer->request.node, self);
    }
}

/// On the timer's carrier: takes it out of the wheel. 1 if an expiry was pending.
static int disarm(struct weft__user_timer *timer)
{
    uint64_t wish = atomic_load_explicit(&timer->wish, memory_order_relaxed);
    if (wish != NO_WISH) {
        wish = atomic_exchange_explicit(&timer->wish, NO_WISH, memory_order_relaxed);
    }
    bool pending = wish != NO_WISH ? wish != WEFT_FOREVER : weft__timer_armed(&timer->timer);
    apply(timer, WEFT_FOREVER);
    return pending;
}

static int stop_here(struct weft__user_timer *timer)
{
    int pending = disarm(timer);
    while (weft__user_timer_queued(timer)) {
        // A set from elsewhere is on its way; it has to arrive before the storage is free.
        weft__carrier_open_inbox(timer->carrier);
        weft__cpu_relax();
    }
    return pending;
}

struct stopping {
    struct weft__request request;
    struct weft__wait wait;
    struct weft__user_timer *timer;
};

static void stop_received(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)carrier;
    struct stopping *stopping = weft__container_of(request, struct stopping, request);
    weft__complete_from_anywhere(&stopping->wait, disarm(stopping->timer));
}

int weft__user_timer_stop(struct weft__user_timer *timer, struct weft__carrier *self,
                          struct weft__task *task)
{
    if (self == timer->carrier) {
        return stop_here(timer);
    }
    struct stopping stopping = {
        .request = { .node.kind = WEFT__NODE_REQUEST, .fn = stop_received },
        .timer = timer,
    };
    weft__wait_init(&stopping.wait, task, WEFT__WAIT_ASK_LATE, "timer stop"); // and never late
    weft__put(timer->carrier, &stopping.request.node, self);
    weft__block(&stopping.wait, WEFT_FOREVER);
    return (int)stopping.wait.result;
}
