// chain.c - futures around one other: timeout, map, and-then, then-cancel. The parent's waker is passed
// on: there are two children at most.
#include <errno.h>

#include <weft/combine.h>

#include "base/base.h"

// Timeout.

/// weft_timeout.opaque
#define CHILD_READY UINT64_C(1)
#define SLEEP_READY UINT64_C(2)
#define IS_LATE UINT64_C(4) ///< the deadline has passed, and the child was cancelled because of it
#define IS_CANCELLED UINT64_C(8)

static struct weft_timeout *timeout_of(struct weft_future *future)
{
    return weft__container_of(future, struct weft_timeout, future);
}

static bool timeout_has(const struct weft_timeout *timeout, uint64_t flag)
{
    return (timeout->opaque & flag) != 0;
}

static void poll_child(struct weft_timeout *timeout, weft_waker *waker)
{
    if (!timeout_has(timeout, CHILD_READY) &&
        weft_future_poll(timeout->child, waker) == WEFT_READY) {
        timeout->opaque |= CHILD_READY;
        weft_future_cancel(&timeout->sleep.future);
    }
}

static void poll_sleep(struct weft_timeout *timeout, weft_waker *waker)
{
    if (timeout_has(timeout, SLEEP_READY) ||
        weft_future_poll(&timeout->sleep.future, waker) == WEFT_PENDING) {
        return;
    }
    timeout->opaque |= SLEEP_READY;
    if (!timeout_has(timeout, CHILD_READY)) {
        timeout->opaque |= IS_LATE;
        weft_future_cancel(timeout->child);
        poll_child(timeout, waker);
    }
}

static enum weft_poll timeout_poll(struct weft_future *future, weft_waker *waker)
{
    struct weft_timeout *timeout = timeout_of(future);
    poll_child(timeout, waker); // first: what is ready at once needs no timer
    poll_sleep(timeout, waker);
    if (!timeout_has(timeout, CHILD_READY) || !timeout_has(timeout, SLEEP_READY)) {
        return WEFT_PENDING;
    }
    int64_t result = timeout->child->result;
    bool late = timeout_has(timeout, IS_LATE) && !timeout_has(timeout, IS_CANCELLED);
    int error = weft_sleep_result(&timeout->sleep); // there was no timer
    future->result = late && result == -ECANCELED ? (error != 0 ? error : -ETIMEDOUT) : result;
    return WEFT_READY;
}

static void timeout_cancel(struct weft_future *future)
{
    struct weft_timeout *timeout = timeout_of(future);
    if (!timeout_has(timeout, IS_LATE)) {
        timeout->opaque |= IS_CANCELLED;
    }
    weft_future_cancel(timeout->child);
}

void weft_timeout_init(struct weft_timeout *timeout, struct weft_future *child, weft_time deadline)
{
    weft_future_init(&timeout->future, timeout_poll, timeout_cancel);
    timeout->child = child;
    timeout->opaque = deadline == WEFT_FOREVER ? SLEEP_READY : 0;
    weft_sleep_init(&timeout->sleep, deadline);
}

// Map.

static enum weft_poll map_poll(struct weft_future *future, weft_waker *waker)
{
    struct weft_map *map = weft__container_of(future, struct weft_map, future);
    if (weft_future_poll(map->child, waker) == WEFT_PENDING) {
        return WEFT_PENDING;
    }
    future->result = map->fn(map->child->result, map->arg);
    return WEFT_READY;
}

static void map_cancel(struct weft_future *future)
{
    weft_future_cancel(weft__container_of(future, struct weft_map, future)->child);
}

void weft_map_init(struct weft_map *map, struct weft_future *child, weft_map_fn fn, void *arg)
{
    weft_future_init(&map->future, map_poll, map_cancel);
    map->child = child;
    map->fn = fn;
    map->arg = arg;
}

// And-then. weft_and_then.opaque: IS_CANCELLED, IS_SECOND.

#define IS_SECOND UINT64_C(1)

static struct weft_and_then *and_then_of(struct weft_future *future)
{
    return weft__container_of(future, struct weft_and_then, future);
}

/// The first one has ended: is there another?
static bool goes_on(struct weft_and_then *then)
{
    int64_t result = then->child->result;
    if ((then->opaque & IS_SECOND) != 0 || result < 0) {
        return false;
    }
    struct weft_future *next = then->next(result, then->arg);
    if (next == NULL) {
        return false;
    }
    then->child = next;
    then->opaque |= IS_SECOND;
    if ((then->opaque & IS_CANCELLED) != 0) {
        weft_future_cancel(next);
    }
    return true;
}

static enum weft_poll and_then_poll(struct weft_future *future, weft_waker *waker)
{
    struct weft_and_then *then = and_then_of(future);
    do {
        if (weft_future_poll(then->child, waker) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
    } while (goes_on(then));
    future->result = then->child->result;
    return WEFT_READY;
}

static void and_then_cancel(struct weft_future *future)
{
    struct weft_and_then *then = and_then_of(future);
    then->opaque |= IS_CANCELLED;
    weft_future_cancel(then->child);
}

void weft_and_then_init(struct weft_and_then *then, struct weft_future *first,
                        weft_and_then_fn next, void *arg)
{
    weft_future_init(&then->future, and_then_poll, and_then_cancel);
    then->child = first;
    then->next = next;
    then->arg = arg;
    then->opaque = 0;
}

// Then-cancel. weft_then_cancel.opaque: CHILD_READY.

static struct weft_then_cancel *then_cancel_of(struct weft_future *future)
{
    return weft__container_of(future, struct weft_then_cancel, future);
}

static enum weft_poll then_cancel_poll(struct weft_future *future, weft_waker *waker)
{
    struct weft_then_cancel *then = then_cancel_of(future);
    if ((then->opaque & CHILD_READY) == 0) {
        if (weft_future_poll(then->child, waker) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
        then->opaque |= CHILD_READY;
        future->result = then->child->result;
    }
    if (future->result != -ECANCELED) {
        return WEFT_READY;
    }
    return weft_future_poll(then->cleanup, waker);
}

static void then_cancel_cancel(struct weft_future *future)
{
    weft_future_cancel(then_cancel_of(future)->child); // does nothing once that is READY
}

void weft_then_cancel_init(struct weft_then_cancel *then, struct weft_future *child,
                           struct weft_future *cleanup)
{
    weft_future_init(&then->future, then_cancel_poll, then_cancel_cancel);
    then->child = child;
    then->cleanup = cleanup;
    then->opaque = 0;
}
