// trace.h - telling the program's trace function what happens; see weft/trace.h.
#ifndef WEFT_TASK_TRACE_H
#define WEFT_TASK_TRACE_H

#include <stdatomic.h>

#include <weft/trace.h>

#include "base/base.h"

struct weft__carrier;
struct weft__task;

/// A function and its argument, which are set and read together. They are never freed: a program sets
/// a handful in its life.
struct weft__tracer {
    weft_trace_fn fn;
    void *ctx;
};

extern _Atomic(const struct weft__tracer *) weft__tracer; // NULL: off

// sched/trace.c

/// Something happens to `task` on the calling thread.
void weft__trace_send(enum weft_trace_kind kind, const struct weft__task *task);

/// `thief` has taken `task` from `victim`, on whose offer `depth` tasks stood.
void weft__trace_steal(const struct weft__task *task, const struct weft__carrier *victim,
                       const struct weft__carrier *thief, uint64_t depth, bool directed);

static inline bool weft__traced(void)
{
    return weft__unlikely(atomic_load_explicit(&weft__tracer, memory_order_relaxed) != NULL);
}

static inline void weft__trace(enum weft_trace_kind kind, const struct weft__task *task)
{
    if (weft__traced()) {
        weft__trace_send(kind, task);
    }
}

#endif
