// poller_api.c - the public face of pollers: registering, joining, and who may call what.
#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/runtime.h"
#include "sched/lookout.h"
#include "sched/poller.h"

static int run_body(void *arg)
{
    struct weft__poller *poller = arg;
    int result = poller->body(poller->arg);
    poller->carrier->polls = false;
    weft__poller_leave(poller);
    poller->carrier->uncounted = poller == poller->carrier->resident;
    return result;
}

void weft__poller_report(const struct weft__poller *poller, const char *why)
{
    weft__log(&weft__runtime_of(poller->carrier->crew)->log, WEFT_LOG_ERROR, "poller",
              "the poller of carrier %d may not block: %s", poller->carrier->number, why);
}

static int check(struct weft__crew *crew, int carrier, weft_fn body)
{
    if (crew == NULL) {
        return weft__no_task();
    }
    int rc = weft__runtime_refuses(crew, weft__carrier_self());
    if (rc < 0) {
        return rc;
    }
    if (body == NULL || !weft__crew_has(crew, carrier)) {
        return -EINVAL;
    }
    return crew->simulated ? -ENOTSUP : 0;
}

int weft__poller_start(struct weft__poller *poller, const char *site)
{
    struct weft__crew *crew = poller->carrier->crew;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = "poller";
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = poller->carrier->number;
    struct weft__spawn spawn = {
        .fn = run_body,
        .arg = poller,
        .attr = &attr,
        .scope = &crew->root,
        .policy = &poller->sched,
        .uncounted = poller == poller->carrier->resident,
        .file = site,
    };
    struct weft__carrier *self = weft__carrier_self();
    return weft__spawn(&poller->task, crew, self != NULL && self->crew == crew ? self : NULL,
                       &spawn);
}

int weft_poller_register(weft_poller **out, weft_runtime *runtime, int carrier, weft_fn body,
                         weft_poller_wake_fn wake, void *arg)
{
    struct weft__crew *crew = runtime != NULL ? &runtime->crew : weft__crew_self();
    *out = NULL;
    int rc = check(crew, carrier, body);
    if (rc < 0) {
        return rc;
    }
    struct weft__poller *poller = weft__alloc(crew->allocator, sizeof *poller,
                                              _Alignof(struct weft__poller));
    if (poller == NULL) {
        return -ENOMEM;
    }
    poller->body = body;
    poller->wake = wake;
    poller->arg = arg;
    poller->sched.ops = &weft__poller_ops;
    if (!weft__poller_enter(poller, &crew->carriers[carrier])) {
        rc = -EBUSY;
        goto free_poller;
    }
    *out = poller;
    rc = weft__poller_start(poller, "weft_poller_register");
    if (rc == 0) {
        return 0;
    }
    *out = NULL;
    weft__poller_leave(poller);
free_poller:
    weft__free(crew->allocator, poller, sizeof *poller);
    return rc;
}

int weft_poller_join(int *result, weft_poller *poller, weft_time deadline)
{
    const struct weft_allocator *allocator = poller->carrier->crew->allocator;
    int rc = weft_join(result, poller->task, deadline);
    if (rc == 0) {
        weft__free(allocator, poller, sizeof *poller);
    }
    return rc;
}

static bool is_inside(const weft_poller *poller)
{
    return weft__thread_self() == poller->task;
}

int weft_poller_maybe_yield(weft_poller *poller, bool had_io)
{
    struct weft__carrier *carrier = poller->carrier;
    if (!is_inside(poller)) {
        return weft__no_task();
    }
    weft_assert(!poller->parked && "weft_poller_unpark() comes before weft_poller_maybe_yield()");
    carrier->polls = had_io && !poller->refused;
    poller->refused = false;
    poller->stepped = true;
    poller->waiting = true;
    uint64_t before = weft__tally_get(&carrier->counts.runs);
    int rc = weft__thread_leave(poller->task, WEFT__SETTLED);
    return rc < 0 ? rc : weft__tally_get(&carrier->counts.runs) != before;
}

bool weft_poller_try_park(weft_poller *poller)
{
    return is_inside(poller) && !poller->parked && weft__poller_try_park(poller);
}

bool weft_poller_can_park(const weft_poller *poller)
{
    // What the poller itself has made ready since goes past the carrier's state.
    return is_inside(poller) && weft__poller_can_park(poller) &&
           !weft__carrier_has_work(poller->carrier);
}

void weft_poller_unpark(weft_poller *poller)
{
    weft_assert(is_inside(poller) && poller->parked && "unpark follows a try_park that was true");
    weft__poller_unpark(poller);
    (void)weft__carrier_now(poller->carrier);
    if (poller->carrier->lookout != NULL) {
        weft__lookout_wake(poller->carrier->lookout);
    }
}

int weft_poller_fd(weft_poller *poller)
{
    struct weft__carrier *carrier = poller->carrier;
    if (!is_inside(poller)) {
        return weft__no_task();
    }
    if (!poller->watches) {
        int events = carrier->driver->lookout(carrier->driver_state, &poller->fd, &poller->due);
        if (events < 0) {
            return events;
        }
        weft__carrier_polled(carrier, events);
        poller->watches = true;
    }
    return poller->fd;
}

weft_time weft_poller_next_deadline(const weft_poller *poller)
{
    weft_time next = is_inside(poller) ? weft__carrier_expiry(poller->carrier) : 0;
    return poller->parked && poller->due < next ? poller->due : next;
}

int weft_poll_guard(weft_poller *poller, weft_poll_block_fn block, void *arg)
{
    int fd = weft_poller_fd(poller);
    if (fd < 0) {
        return fd;
    }
    int rc = 0;
    if (weft_poller_try_park(poller)) {
        if (weft_poller_can_park(poller)) {
            rc = block(arg, fd, weft_poller_next_deadline(poller));
        }
        weft_poller_unpark(poller);
    }
    return rc;
}
