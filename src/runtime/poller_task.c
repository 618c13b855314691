// poller_task.c - pollers of weft's own: with WEFT_POLLER=tasks a virtual thread on each carrier waits
// for the kernel, by the contract of weft/poller.h.
//
//   V1  It rests only when its carrier has nothing to do, and rests as the carrier itself would: in the
//       driver, until a completion, a kick or the next timer. So no descriptor is needed to watch, but
//       for that of an annex: a step that found something there has not left it watched.
//   V2  A poller of the program's takes its place (sched/poller.c, Q7), and gives it back by ending.
//   V3  It ends with the first stage of a shutdown, like any task, and the carrier sleeps by itself from
//       then on; or when its carrier stops, in the last turn of its loop. Nobody waits for it: it is not
//       counted among tasks.
#include <errno.h>

#include "base/alloc.h"
#include "runtime/runtime.h"
#include "sched/annex.h"
#include "sched/poller.h"

static bool may_rest(struct weft__carrier *carrier)
{
    struct weft__annex *annex = carrier->annex;
    return !weft__carrier_has_work(carrier) &&
           (annex == NULL || (!weft__annex_watch(annex) && !weft__carrier_has_work(carrier)));
}

static int reside(void *arg)
{
    struct weft__poller *poller = arg;
    struct weft__carrier *carrier = poller->carrier;
    while (weft_poller_maybe_yield(poller, false) >= 0 && !carrier->stop) {
        if (may_rest(carrier)) {
            weft__carrier_rest(carrier);
        }
    }
    return 0;
}

int weft__residents_make(struct weft__runtime *runtime)
{
    struct weft__crew *crew = &runtime->crew;
    if (runtime->options.poller != WEFT_POLLER_TASKS) {
        return 0;
    }
    for (int i = 0; i < crew->capacity; i++) {
        if (crew->carriers[i].aside) {
            continue;
        }
        struct weft__poller *poller = weft__alloc(crew->allocator, sizeof *poller,
                                                  _Alignof(struct weft__poller));
        if (poller == NULL) {
            return -ENOMEM;
        }
        poller->carrier = &crew->carriers[i];
        poller->body = reside;
        poller->arg = poller;
        poller->sched.ops = &weft__poller_ops;
        crew->carriers[i].resident = poller;
    }
    return 0;
}

void weft__residents_free(struct weft__runtime *runtime)
{
    struct weft__crew *crew = &runtime->crew;
    for (int i = 0; i < crew->capacity; i++) {
        struct weft__poller *poller = crew->carriers[i].resident;
        if (poller != NULL) {
            weft__free(crew->allocator, poller, sizeof *poller);
        }
    }
}

int weft__resident_start(struct weft__carrier *carrier)
{
    struct weft__poller *poller = carrier->resident;
    if (poller == NULL || !weft__poller_enter(poller, carrier)) {
        return 0;
    }
    int rc = weft__poller_start(poller, "WEFT_POLLER=tasks");
    if (rc < 0) {
        weft__poller_leave(poller);
        return rc;
    }
    weft_task_release(poller->task);
    return 0;
}

int weft__residents_start(struct weft__runtime *runtime)
{
    struct weft__crew *crew = &runtime->crew;
    int rc = 0;
    for (int i = 0; i < weft__crew_started(crew) && rc == 0; i++) {
        rc = weft__resident_start(&crew->carriers[i]);
    }
    return rc;
}
