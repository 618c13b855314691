// resize.c - more carriers, or fewer, while the runtime runs.
//
// Carriers with numbers below `active` are in use. A new one is started when it is needed for the first
// time, and keeps its thread and its driver from then on; one that is no longer wanted leaves
// (sched/retire.c), and stays when it is wanted again. So a number that was good once is good for ever.
//
//     resize                              a carrier, on receipt
//     active = n                          told = 0
//     each one that may be concerned:     number < active? stay : leave
//       if told was 0: told = 1, send
//
//   Z1  One resize at a time. What a carrier does follows from `active` when it looks, not from the
//       message; whoever finds `told` set has published `active` before the carrier clears it and looks.
//   Z2  Whoever chose a carrier before `active` went down is late: that carrier passes it on.
//   Z3  Carriers are added before `active` goes up. If one cannot start, those that did stay behind, asleep:
//       nothing has changed, and the next attempt finds them.
//   Z4  None is added once a shutdown has begun: that asks each one there is, under the same lock.
//   Z5  Carriers are told under the lock and roused after it, and so is the log: both may call the program
//       (a poller's `wake`), which may wait for somebody who wants the lock.
//
// Locks: runtime.resizing. Checked by: tests/model/resize_model.c, tests/api/resize_test.c.
#include <errno.h>
#include <string.h>

#include "io/descriptors.h"
#include "runtime/runtime.h"
#include "sched/park.h"
#include "sched/retire.h"
#include "sched/size_watch.h"
#include "sched/steal.h"
#include "time/timer.h"

static void leave(struct weft__carrier *carrier)
{
    weft__retire_begin(carrier);
    if (carrier->freely) {
        weft__free_desert(carrier, carrier);
    }
    weft__uses_move(carrier);
    struct weft__timer end = { 0 };
    struct weft__timer *aside = &end;
    weft__wheel_take(&carrier->wheel, weft__sleep_owns, &aside);
    while (aside != &end) {
        struct weft__timer *timer = aside;
        weft__wheel_remove(&carrier->wheel, timer);
        weft__sleep_move(timer); // calls wakers, the program's, which may cancel others of these
    }
}

void weft__carrier_resized(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)request;
    (void)atomic_exchange_explicit(&carrier->told, 0, memory_order_acq_rel); // Z1
    bool leaves = carrier->number >= weft__crew_active(carrier->crew);
    if (leaves && !carrier->leaving) {
        leave(carrier);
    }
    carrier->leaving = leaves;
    weft__size_watches_tell(carrier);
}

static void tell(struct weft__carrier *carrier)
{
    if (atomic_exchange_explicit(&carrier->told, 1, memory_order_acq_rel) == 0) {
        weft__inbox_push(&carrier->inbox, &carrier->resized.node);
    }
}

/// What there is to do when the lock is free (Z5).
struct change {
    int before;
    int low; // from this one to before `high` they were told
    int high;
};

static int start_up_to(struct weft__runtime *runtime, int carriers)
{
    struct weft__crew *crew = &runtime->crew;
    int rc = 0;
    for (int next = weft__crew_started(crew); next < carriers && rc == 0; next++) {
        rc = weft__carrier_start(runtime, next);
        if (rc == 0) {
            atomic_store_explicit(&crew->started, next + 1, memory_order_release);
            rc = weft__resident_start(&crew->carriers[next]); // or it sleeps by itself: Z3
        }
    }
    return rc;
}

/// Under lock.
static int resize(struct weft__runtime *runtime, int carriers, struct change *change)
{
    struct weft__crew *crew = &runtime->crew;
    if (atomic_load_explicit(&crew->root.cause, memory_order_relaxed) != WEFT__STAGE_NONE) {
        return -ECANCELED; // Z4
    }
    int before = weft__crew_active(crew);
    int rc = start_up_to(runtime, carriers);
    if (rc < 0 || carriers == before) {
        return rc;
    }
    atomic_store_explicit(&crew->active, carriers, memory_order_relaxed);
    change->before = before;
    change->low = carriers < before ? carriers : before;
    change->high = carriers < before ? before : carriers;
    for (int i = change->low; i < change->high; i++) {
        tell(&crew->carriers[i]);
    }
    weft__lookout_wake(&crew->lookout); // there may be more to watch
    return 0;
}

/// Z5.
static void follow(struct weft__runtime *runtime, int carriers, int rc, const struct change *change)
{
    for (int i = change->low; i < change->high; i++) {
        weft__rouse(&runtime->crew.carriers[i], weft__carrier_self());
    }
    if (change->low < change->high) {
        weft__log(&runtime->log, WEFT_LOG_INFO, "runtime", "%d carriers, where there were %d",
                  carriers, change->before);
    } else if (rc < 0 && rc != -ECANCELED) {
        weft__log(&runtime->log, WEFT_LOG_ERROR, "runtime",
                  "carrier %d cannot start: %s (check ulimit -n, -u and -v)",
                  weft__crew_started(&runtime->crew), strerror(-rc));
    }
}

int weft_runtime_resize(weft_runtime *runtime, int carriers)
{
    struct weft__crew *crew = runtime != NULL ? &runtime->crew : weft__crew_self();
    if (crew == NULL) {
        return weft__no_task();
    }
    int rc = weft__runtime_refuses(crew, weft__carrier_self());
    if (rc < 0) {
        return rc;
    }
    struct weft__runtime *its = weft__runtime_of(crew);
    if (carriers < 1 || carriers > its->options.max_carriers) {
        return -EINVAL;
    }
    struct change change = { 0 };
    weft__crew_enter(crew);
    weft__lock_acquire(&its->resizing);
    rc = resize(its, carriers, &change);
    weft__lock_release(&its->resizing);
    follow(its, carriers, rc, &change);
    weft__crew_leave(crew);
    return rc;
}
