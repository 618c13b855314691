// trace.c - telling the program's trace function what happens; see weft/trace.h.
#include "task/trace.h"

#include "sched/crew.h"

#define TRACERS 64

_Atomic(const struct weft__tracer *) weft__tracer;

// Used in turn: who still has one from before reads a pair that belongs together, until 63 others
// were set meanwhile.
static struct weft__tracer tracers[TRACERS];
static _Atomic unsigned next;

void weft_trace_set(weft_trace_fn fn, void *ctx)
{
    struct weft__tracer *tracer = NULL;
    if (fn != NULL) {
        tracer = &tracers[atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % TRACERS];
        *tracer = (struct weft__tracer){ fn, ctx };
    }
    atomic_store_explicit(&weft__tracer, tracer, memory_order_release);
}

static void send(struct weft_trace_event *event)
{
    const struct weft__tracer *tracer = atomic_load_explicit(&weft__tracer, memory_order_acquire);
    event->size = sizeof *event;
    if (tracer != NULL) {
        tracer->fn(tracer->ctx, event);
    }
}

static bool has_poller(const struct weft__carrier *carrier)
{
    if (carrier == NULL) {
        return false;
    }
    const struct weft__poller *poller = atomic_load_explicit(&carrier->poller,
                                                             memory_order_relaxed);
    return poller != NULL && poller != carrier->resident;
}

void weft__trace_send(enum weft_trace_kind kind, const struct weft__task *task)
{
    struct weft__carrier *self = weft__carrier_self();
    struct weft__carrier *home = task->home;
    send(&(struct weft_trace_event){
        .kind = kind,
        .task = task->id,
        .source = home->number,
        .thief = self != NULL ? self->number : -1,
        .depth = self == home ? home->local.count : weft__tally_get(&home->counts.ready),
        .from_poller = has_poller(self),
    });
}

void weft__trace_steal(const struct weft__task *task, const struct weft__carrier *victim,
                       const struct weft__carrier *thief, uint64_t depth, bool directed)
{
    send(&(struct weft_trace_event){
        .kind = WEFT_TRACE_STEAL,
        .task = task->id,
        .source = victim->number,
        .thief = thief->number,
        .depth = depth,
        .directed = directed,
        .from_poller = has_poller(thief),
    });
}
