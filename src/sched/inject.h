// inject.h - the queue that belongs to no carrier; see inject.c.
#ifndef WEFT_SCHED_INJECT_H
#define WEFT_SCHED_INJECT_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/node.h"
#include "sched/counts.h"

/// Zeroed means empty.
struct weft__inject {
    _Alignas(WEFT__LINE_PAIR) _Atomic size_t count; // written under lock; anyone looks
    struct weft__lock lock;
    struct weft__fifo nodes; // under lock
    _Atomic uint64_t most;   // there ever were; likewise
};

/// Appends all of `batch`, which is empty afterwards; any thread.
void weft__inject_push(struct weft__inject *inject, struct weft__fifo *batch);

/// Moves up to `most` of the oldest to the end of `into` and returns how many; any thread.
size_t weft__inject_take(struct weft__inject *inject, struct weft__fifo *into, size_t most);

/// How many there are, as far as this thread knows.
static inline size_t weft__inject_count(struct weft__inject *inject)
{
    return atomic_load_explicit(&inject->count, memory_order_relaxed);
}

#endif
