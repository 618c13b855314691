// future.c - a select as a future.
//
//     FRESH --poll--> WAITING --chosen, time, cancel--> LEAVING --nothing in flight--> READY
//        +-- a case is ready: READY
//
// That the main waiter's bell was rung says that somebody has committed a case (sync/queue.h, Q6).
// Time is a sleep of its own, for the earliest of the time cases.
#include <errno.h>

#include "sched/guest.h"
#include "select/select.h"

enum phase { FRESH, WAITING, LEAVING, READY };

struct selection {
    struct weft_future future;
    struct weft__select select;
    // The poller's.
    uint8_t phase; // enum phase
    bool cancelled;
    bool late;                 // a descriptor has still to be begun
    bool sleeps;               // `sleep` is armed
    bool has_ops;              // when LEAVING: there were ops in flight
    struct weft__case *chosen; // when LEAVING; NULL: `why`
    int why;
    struct weft_case *cases;
    size_t count;
    struct weft_sleep sleep;
};
_Static_assert(sizeof(struct selection) <= sizeof(struct weft_selection), "public size");

static const struct weft__sync_ops future_ops = {
    .what = "select",
    .mode = WEFT__WAIT_WITHDRAW,
};

static enum weft_poll ready(struct selection *s, int64_t result)
{
    s->future.result = result;
    s->phase = READY;
    return WEFT_READY;
}

/// The main waiter, for which nobody knows it yet.
static void prepare_main(struct selection *s, const weft_waker *waker)
{
    weft__waiter_init(&s->select.main, &future_ops, NULL, NULL);
    weft__wait_init(&s->select.main.wait, NULL, future_ops.mode, future_ops.what);
    s->select.main.is_future = true;
    weft__bell_set(&s->select.main.bell, waker);
}

/// Nobody can commit the select any more: leaves everything. In flight may still be a sleep and ops.
static void leave(struct selection *s, struct weft__case *chosen, int why, const weft_waker *waker)
{
    s->phase = LEAVING;
    s->chosen = chosen;
    s->why = why;
    weft__select_leave(&s->select, chosen);
    if (s->sleeps) {
        weft_sleep_cancel(&s->sleep);
    }
    weft_assert(s->select.ops == 0 ||
                s->select.task->home == weft__carrier_self()); // documented in weft/select.h
    weft__select_end_apart(&s->select, chosen);
    if (s->select.ops > 0) { // as in thread.c
        s->has_ops = true;
        prepare_main(s, waker);
    }
}

static enum weft_poll poll_leaving(struct selection *s, weft_waker *waker)
{
    if (s->sleeps && weft_sleep_poll(&s->sleep, waker) == WEFT_PENDING) {
        return WEFT_PENDING;
    }
    s->sleeps = false;
    if (s->has_ops && !weft__bell_rung(&s->select.main.bell, waker)) {
        return WEFT_PENDING;
    }
    struct weft__case *chosen = s->chosen;
    if (chosen == NULL && s->why == -ECANCELED) {
        chosen = weft__select_late(&s->select); // apart.c, S9
    }
    if (chosen == NULL) {
        return ready(s, s->why);
    }
    if (chosen->kind == WEFT__CASE_JOIN) {
        weft__case_join_take(chosen);
    }
    return ready(s, weft__case_index(&s->select, chosen));
}

/// Somebody has committed a case.
static enum weft_poll poll_done(struct selection *s, weft_waker *waker)
{
    struct weft__select *select = &s->select;
    struct weft__case *chosen = weft__case_of(select->main.chosen);
    chosen->result = select->main.wait.result;
    leave(s, chosen, 0, waker);
    return poll_leaving(s, waker);
}

/// Withdraws for `chosen`, or because of `why`; if somebody was faster his case stands.
static enum weft_poll withdraw(struct selection *s, struct weft__case *chosen, int why,
                               weft_waker *waker)
{
    if (!weft__select_withdraw(&s->select)) {
        return weft__bell_rung(&s->select.main.bell, waker) ? poll_done(s, waker) : WEFT_PENDING;
    }
    weft__bell_drop(&s->select.main.bell);
    leave(s, chosen, why, waker);
    return poll_leaving(s, waker);
}

static enum weft_poll poll_waiting(struct selection *s, weft_waker *waker)
{
    struct weft__select *select = &s->select;
    if (weft__bell_rung(&s->select.main.bell, waker)) {
        return poll_done(s, waker);
    }
    if (s->late) {
        struct weft__case *begun = weft__select_begin_apart(select, &s->late);
        if (begun != NULL) {
            weft__bell_drop(&s->select.main.bell);
            leave(s, begun, 0, waker);
            return poll_leaving(s, waker);
        }
        if (s->late) {
            weft_waker_wake_by_ref(waker);
        }
    }
    if (s->sleeps && weft_sleep_poll(&s->sleep, waker) == WEFT_READY) {
        int rc = weft_sleep_result(&s->sleep);
        s->sleeps = false;
        select->time->result = 0;
        return withdraw(s, rc == 0 ? select->time : NULL, rc, waker);
    }
    return WEFT_PENDING;
}

static enum weft_poll start(struct selection *s, weft_waker *waker)
{
    struct weft__select *select = &s->select;
    struct weft__task *task = weft__task_self();
    int rc = weft__select_begin(select, s->cases, s->count, task);
    if (rc == 0 && (select->unlike & WEFT__CASES_FD) != 0 &&
        !weft__task_is_at(task, weft__carrier_self())) {
        rc = -EPERM; // on a thread of the program's scheduler, where there is no driver
    }
    if (rc == 0) {
        rc = weft__select_attempt(select, true);
    }
    if (rc != WEFT__SYNC_WAITS) {
        return ready(s, rc);
    }
    prepare_main(s, waker);
    rc = weft__select_enter(select);
    if (rc != WEFT__SYNC_WAITS) {
        weft__bell_drop(&s->select.main.bell);
        return ready(s, rc);
    }
    s->phase = WAITING;
    s->late = true;
    if (select->time != NULL) {
        s->sleeps = true;
        weft_sleep_init(&s->sleep, select->when);
    }
    return poll_waiting(s, waker);
}

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct selection *s = weft__container_of(future, struct selection, future);
    switch ((enum phase)s->phase) {
    case FRESH: return s->cancelled ? ready(s, -ECANCELED) : start(s, waker);
    case WAITING: return poll_waiting(s, waker);
    case LEAVING: return poll_leaving(s, waker);
    case READY: break;
    }
    return WEFT_READY;
}

static void cancel(struct weft_future *future)
{
    struct selection *s = weft__container_of(future, struct selection, future);
    s->cancelled = true;
    if (s->phase == WAITING && weft__select_withdraw(&s->select)) {
        weft_waker waker = weft__bell_take(&s->select.main.bell);
        leave(s, NULL, -ECANCELED, &waker);
        weft_waker_wake(&waker);
    }
}

void weft_select_future(struct weft_selection *selection, struct weft_case *cases, size_t count)
{
    struct selection *s = (struct selection *)(void *)selection;
    *s = (struct selection){ .phase = FRESH, .cases = cases, .count = count };
    weft_future_init(&s->future, poll, cancel);
}
