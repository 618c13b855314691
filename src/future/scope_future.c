// scope_future.c - joining a scope as a future.
//
// The last child calls back, on its own carrier, while the owner may poll: task/bell.h. Children that
// are started after that, before the owner has looked, are waited for once more.
#include <errno.h>

#include "sched/carrier.h"
#include "task/bell.h"
#include "task/scope.h"
#include "task/wait.h"

enum phase { FRESH, WATCHING, READY };

struct scope_future {
    struct weft_future future;
    struct weft__wait wait; // the scope's, while WATCHING and not rung
    struct weft__scope *scope;
    uint8_t phase; // enum phase
    struct weft__bell bell;
};
_Static_assert(sizeof(struct scope_future) <= sizeof(struct weft_scope_future), "public size");

static struct scope_future *of(struct weft_future *future)
{
    return weft__container_of(future, struct scope_future, future);
}

static enum weft_poll ready(struct scope_future *join, int result)
{
    join->phase = READY;
    join->future.result = result;
    return WEFT_READY;
}

static void last_child_left(struct weft__wait *wait)
{
    weft__bell_ring(&weft__container_of(wait, struct scope_future, wait)->bell);
}

/// As weft_scope_join(): by the owner, inside no other scope of its own.
static bool may_join(const struct weft__scope *scope)
{
    const struct weft__task *task = weft__thread_self();
    return scope->open && task != NULL && task == scope->owner && task->scope == scope;
}

static enum weft_poll watch(struct scope_future *join, const weft_waker *waker)
{
    struct weft__scope *scope = join->scope;
    if (!may_join(scope)) {
        return ready(join, weft__no_task());
    }
    weft__bell_set(&join->bell, waker);
    weft__wait_init(&join->wait, NULL, WEFT__WAIT_CALL, "scope join");
    join->wait.ask = last_child_left;
    join->phase = WATCHING;
    if (weft__scope_watch(scope, &join->wait)) {
        return WEFT_PENDING;
    }
    weft__bell_drop(&join->bell);
    return ready(join, weft__scope_close(scope));
}

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct scope_future *join = of(future);
    if (join->phase == READY) {
        return WEFT_READY;
    }
    if (join->phase == WATCHING && !weft__bell_rung(&join->bell, waker)) {
        return WEFT_PENDING;
    }
    return watch(join, waker);
}

/// A join cannot be called off: the children are told to end, and waited for.
static void cancel(struct weft_future *future)
{
    struct weft__scope *scope = of(future)->scope;
    if (may_join(scope)) {
        weft__scope_cancel(scope, -ECANCELED);
    }
}

void weft_scope_join_future(struct weft_scope_future *public_join, struct weft_scope *scope)
{
    struct scope_future *join = (struct scope_future *)(void *)public_join;
    *join = (struct scope_future){ .scope = weft__scope_of(scope) };
    weft_future_init(&join->future, poll, cancel);
}
