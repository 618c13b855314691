// inbox.h - the lane by which everyone else hands work to a carrier.
#ifndef WEFT_SCHED_INBOX_H
#define WEFT_SCHED_INBOX_H

#include <stdatomic.h>

#include "base/node.h"

/// Zeroed means empty.
struct weft__inbox {
    _Atomic(struct weft__node *) top;
};

/// Puts a node in; any thread.
void weft__inbox_push(struct weft__inbox *inbox, struct weft__node *node);

/// Takes everything, oldest first, linked by next; NULL when empty. The owner only.
struct weft__node *weft__inbox_take(struct weft__inbox *inbox);

/// Whether there is nothing to take, as far as this thread knows.
static inline bool weft__inbox_empty(struct weft__inbox *inbox)
{
    return atomic_load_explicit(&inbox->top, memory_order_relaxed) == NULL;
}

#endif
