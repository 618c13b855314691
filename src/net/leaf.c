// leaf.c - futures that make their progress on one carrier. leaf.h has the rules.
#include "net/leaf.h"

#include <errno.h>

#include "sched/crew.h"
#include "sched/guest.h"
#include "sched/park.h"

enum phase { FRESH, WAITING, READY };

static struct weft__leaf *of(struct weft_future *future)
{
    return weft__container_of(future, struct weft__leaf, future);
}

static enum weft_poll ready(struct weft__leaf *leaf, int64_t result)
{
    leaf->phase = READY;
    leaf->future.result = result;
    return WEFT_READY;
}

static enum weft_poll begin(struct weft__leaf *leaf, const weft_waker *waker)
{
    int64_t result = leaf->cancelled ? -ECANCELED : leaf->begin(leaf);
    if (weft__unlikely(result == WEFT__LEAF_AGAIN)) {
        weft_waker_wake_by_ref(waker);
        return WEFT_PENDING;
    }
    if (result != WEFT__LEAF_WAITS) {
        return ready(leaf, result);
    }
    weft__bell_set(&leaf->bell, waker); // it ends on this thread, and later
    leaf->phase = WAITING;
    return WEFT_PENDING;
}

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct weft__leaf *leaf = of(future);
    switch ((enum phase)leaf->phase) {
    case FRESH: return begin(leaf, waker);
    case WAITING:
        return weft__bell_rung(&leaf->bell, waker) ? ready(leaf, future->result) : WEFT_PENDING;
    case READY: break;
    }
    return WEFT_READY;
}

/// E2.
static void settle(struct weft__leaf *leaf, bool arrived)
{
    weft_waker waker = { NULL, NULL };
    weft__lock_acquire(&leaf->bell.lock);
    if (arrived) {
        leaf->queued = false;
    } else {
        leaf->ended = true;
    }
    if (leaf->ended && !leaf->queued) {
        waker = weft__bell_take(&leaf->bell);
    }
    weft__lock_release(&leaf->bell.lock);
    weft_waker_wake(&waker);
}

void weft__leaf_end(struct weft__leaf *leaf, int64_t result)
{
    leaf->future.result = result;
    settle(leaf, false);
}

static void request_arrived(struct weft__request *request, struct weft__carrier *carrier)
{
    struct weft__leaf *leaf = weft__container_of(request, struct weft__leaf, request);
    (void)carrier;
    if (!leaf->ended) { // written by this thread
        leaf->withdraw(leaf);
    }
    settle(leaf, true);
}

/// E3. Once it is sent the leaf is not over before it has arrived.
static void request_cancel(struct weft__leaf *leaf, struct weft__carrier *self)
{
    struct weft__crew *crew = leaf->carrier->crew;
    weft__lock_acquire(&leaf->bell.lock);
    bool send = !leaf->ended;
    leaf->queued = send;
    weft__lock_release(&leaf->bell.lock);
    if (send) {
        weft__crew_enter(crew);
        weft__put(leaf->carrier, &leaf->request.node, self);
        weft__crew_leave(crew);
    }
}

static void cancel(struct weft_future *future)
{
    struct weft__leaf *leaf = of(future);
    struct weft__carrier *self = weft__carrier_self();
    leaf->cancelled = true;
    if (leaf->phase != WAITING) {
        return;
    }
    if (self != leaf->carrier) {
        request_cancel(leaf, self);
    } else if (!leaf->ended) {
        leaf->withdraw(leaf);
    }
}

int weft__leaf_enter(struct weft__leaf *leaf, struct weft__carrier *carrier)
{
    struct weft__task *task = weft__task_self();
    if (task == NULL) {
        return weft__no_task();
    }
    if (!weft__task_is_at(task, carrier)) {
        return -EXDEV;
    }
    weft__task_tie(task);
    leaf->carrier = carrier;
    return 0;
}

int weft__leaf_enter_here(struct weft__leaf *leaf)
{
    struct weft__task *thread = weft__thread_self();
    if (thread != NULL && weft__task_is_at(thread, thread->home)) {
        weft__task_leave_spare(thread);
    }
    struct weft__task *task = weft__task_self();
    if (task != NULL && weft__unlikely(task->home->aside) && !task->abroad) {
        task->homeward = true; // of a future, until it is polled where it may stay
        return WEFT__LEAF_AGAIN;
    }
    if (task != NULL) {
        task->homeward = false;
    }
    return weft__leaf_enter(leaf, task != NULL ? task->home : NULL);
}

void weft__leaf_init(struct weft__leaf *leaf, int64_t (*begin_fn)(struct weft__leaf *leaf),
                     void (*withdraw)(struct weft__leaf *leaf))
{
    *leaf = (struct weft__leaf){
        .begin = begin_fn,
        .withdraw = withdraw,
        .request = { .node.kind = WEFT__NODE_REQUEST, .fn = request_arrived },
    };
    weft_future_init(&leaf->future, poll, cancel);
}
