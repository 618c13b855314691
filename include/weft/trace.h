// weft/trace.h - a function that sees every scheduling decision.
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include <weft/base.h>

WEFT_BEGIN_DECLS

enum weft_trace_kind {
    WEFT_TRACE_SUBMIT = 1, ///< the task has become ready: it was spawned or woken
    WEFT_TRACE_RUN,        ///< it begins to run
    WEFT_TRACE_PARK,       ///< it is going to wait; if it is woken at that moment it runs on
    WEFT_TRACE_STEAL,      ///< another carrier has taken it over
};

/// One event. Valid during the call; fields may be added at the end.
struct weft_trace_event {
    size_t size; ///< sizeof(struct weft_trace_event) of the library
    enum weft_trace_kind kind;
    uint64_t task; ///< weft_task_id()
    int source;    ///< number of the carrier whose task it is; of a steal: whose it was, the victim
    int thief; ///< of a steal: who took it; else the carrier on which the event happens, -1: none
    uint64_t depth;   ///< ready tasks of the source, about; of a steal: those on offer
    bool directed;    ///< of a steal: the thief was sent there; else it looked by itself
    bool from_poller; ///< the thief, or the carrier of the event, has a poller of the program's
};

/// Called on the thread where the event happens, in the middle of a scheduling decision: it must be
/// quick, must not park, and may call nothing of weft.
typedef void (*weft_trace_fn)(void *ctx, const struct weft_trace_event *event);

/// Has `fn` called for every event of all runtimes in the process; NULL: nobody is. While it is off it
/// costs one branch. The function that was set before may still be running on other threads for a
/// moment, so let it and what `ctx` points to live on.
///
/// Call from:  anywhere, one thread at a time.
WEFT_API void weft_trace_set(weft_trace_fn fn, void *ctx);

WEFT_END_DECLS

#endif
