// hold.c - see hold.h.
#include "io/hold.h"

#include "io/call.h"
#include "sched/guest.h"
#include "task/host.h"

/// On its carrier, while the task does not run.
static void close_hold(struct weft__hold *hold, struct weft__carrier *carrier)
{
    struct weft__hold *innermost = hold->task->hold;
    for (struct weft__hold *inner = innermost; inner != hold; inner = inner->outer) {
        inner->closed = true; // H3
    }
    hold->closed = true;
    if (innermost->call != NULL) {
        innermost->call->closed = true;
        carrier->driver->cancel(carrier->driver_state, &innermost->call->op);
    }
}

/// A hold does not move: it is listed here until its end.
static void first_closes(struct weft__use *use, struct weft__carrier *carrier,
                         enum weft__ask_why why)
{
    if (why == WEFT__ASK_CLOSES) {
        close_hold(weft__container_of(use, struct weft__hold, uses[0]), carrier);
    }
}

static void second_closes(struct weft__use *use, struct weft__carrier *carrier,
                          enum weft__ask_why why)
{
    if (why == WEFT__ASK_CLOSES) {
        close_hold(weft__container_of(use, struct weft__hold, uses[1]), carrier);
    }
}

static int look(struct weft__carrier *carrier, const int *fds, int count)
{
    int rc = weft__descriptor_use(carrier, fds[0]);
    return rc == 0 && count == 2 ? weft__descriptor_use(carrier, fds[1]) : rc;
}

int weft__hold_begin(struct weft__hold *hold, const int *fds, int count)
{
    struct weft__task *task = weft__thread_self();
    int rc;
    if (task == NULL) {
        return weft__no_task();
    }
    weft__visit_begin(task); // to weft__hold_end()
    while ((rc = look(task->home, fds, count)) == -EAGAIN) {
        weft__host_yield(task);
    }
    if (rc < 0) {
        weft__visit_end(task);
        return rc;
    }
    // Nothing parks between the look and the listing: close.c, F1.
    hold->outer = task->hold;
    hold->task = task;
    hold->call = NULL;
    hold->count = count;
    hold->closed = weft__hold_is_closed(task);
    weft__use_begin(&hold->uses[0], task->home, fds[0], first_closes);
    if (count == 2) {
        weft__use_begin(&hold->uses[1], task->home, fds[1], second_closes);
    }
    task->hold = hold;
    weft__task_bind(task);
    return 0;
}

void weft__hold_end(struct weft__hold *hold)
{
    struct weft__task *task = hold->task;
    weft__task_unbind(task);
    task->hold = hold->outer;
    for (int i = hold->count - 1; i >= 0; i--) {
        weft__use_end(&hold->uses[i]);
    }
    weft__visit_end(task);
}
