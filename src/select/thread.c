// thread.c - a virtual or a foreign thread selects.
#include <errno.h>

#include "sched/guest.h"
#include "select/select.h"

static const struct weft__sync_ops thread_ops = {
    .what = "select",
    .mode = WEFT__WAIT_WITHDRAW,
};

static void prepare_main(struct weft__select *select, struct weft__task *self,
                         enum weft__wait_mode mode)
{
    weft__waiter_init(&select->main, &thread_ops, NULL, NULL);
    weft__wait_init(&select->main.wait, self, mode, thread_ops.what);
}

/// Begins what has no waiter. The case that was ready, or NULL.
static struct weft__case *begin_apart(struct weft__select *select)
{
    bool late;
    struct weft__case *ready = weft__select_begin_apart(select, &late);
    while (late && ready == NULL) {
        weft__host_yield(select->task); // a descriptor is just being closed
        ready = weft__select_begin_apart(select, &late);
    }
    return ready;
}

/// It stands in its queues. The case that was committed, or NULL, and why.
static struct weft__case *block(struct weft__select *select, weft_time deadline, int *why)
{
    struct weft__case *chosen = begin_apart(select);
    *why = 0;
    if (chosen != NULL) {
        return chosen;
    }
    bool has_time = select->time != NULL && select->when <= deadline;
    *why = weft__block(&select->main.wait, has_time ? select->when : deadline);
    if (*why == 0) {
        chosen = weft__case_of(select->main.chosen);
        chosen->result = select->main.wait.result;
    } else if (*why == -ETIMEDOUT && has_time) {
        chosen = select->time;
        chosen->result = 0;
    }
    return chosen;
}

/// Ends what is left. Returns when nobody knows the select any more.
static void leave(struct weft__select *select, struct weft__task *self,
                  const struct weft__case *chosen)
{
    weft__select_leave(select, chosen);
    weft__select_end_apart(select, chosen);
    if (select->ops > 0) {
        // Not before: the end of a task would claim it. No op ends in between (sched/op.h, O6).
        prepare_main(select, self, WEFT__WAIT_ASK_LATE); // and never late
        (void)weft__block(&select->main.wait, WEFT_FOREVER);
    }
}

WEFT__NOINLINE static int wait(struct weft__select *select, struct weft__task *self,
                               weft_time deadline)
{
    int why = self == NULL ? weft__sync_refuses() : 0;
    if (why < 0) {
        return why;
    }
    prepare_main(select, self, WEFT__WAIT_WITHDRAW);
    int rc = weft__select_enter(select);
    if (rc != WEFT__SYNC_WAITS) {
        return rc;
    }
    bool never = select->locks == NULL && (select->unlike & ~WEFT__CASES_NONE) == 0;
    if (never && self == NULL && deadline == WEFT_FOREVER) {
        return -EDEADLK;
    }
    struct weft__case *chosen = block(select, deadline, &why);
    leave(select, self, chosen);
    if (chosen == NULL && why == -ETIMEDOUT) {
        chosen = weft__select_late(select); // apart.c, S9
    }
    if (chosen == NULL) {
        return why;
    }
    if (chosen->kind == WEFT__CASE_JOIN) {
        weft__case_join_take(chosen);
    }
    return weft__case_index(select, chosen);
}

int weft_select(struct weft_case *cases, size_t count, weft_time deadline)
{
    struct weft__select select;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc == 0) {
        rc = weft__select_begin(&select, cases, count, self);
    }
    if (rc == 0) {
        // Who cannot wait has no second look.
        rc = weft__select_attempt(&select, self != NULL || weft__sync_refuses() == 0);
    }
    if (rc != WEFT__SYNC_WAITS) {
        return rc;
    }
    bool at_home = (select.unlike & WEFT__CASES_FD) != 0 && self != NULL; // where the driver is
    if (at_home) {
        weft__visit_begin(self);
    }
    rc = wait(&select, self, deadline);
    if (at_home) {
        weft__visit_end(self);
    }
    return rc;
}

int weft_select_try(struct weft_case *cases, size_t count)
{
    struct weft__select select;
    struct weft__task *self = weft__thread_self();
    int rc = weft__select_begin(&select, cases, count, self);
    if (rc < 0) {
        return rc;
    }
    if ((select.unlike & WEFT__CASES_FD) != 0) {
        rc = weft_select(cases, count, 1);
        return rc != -ETIMEDOUT ? rc : -EAGAIN;
    }
    rc = weft__select_attempt(&select, false);
    return rc != WEFT__SYNC_WAITS ? rc : -EAGAIN;
}
