// crew.c - counting the tasks of a crew, and the locality policy.
//
// Each carrier counts in its own line what it spawned and what ended on it. The sum is exact when it
// is zero: `ended` is read first, everywhere, and `spawned` second. Both only grow and a task is
// counted as spawned before it can end, so if the later, larger reading equals the earlier one,
// nothing was alive in between.
#include "sched/crew.h"

#include "sched/park.h"

uint64_t weft__crew_live(struct weft__crew *crew)
{
    uint64_t ended = 0;
    for (int i = 0; i < crew->count; i++) {
        ended += atomic_load_explicit(&crew->carriers[i].counts.ended, memory_order_acquire);
    }
    uint64_t spawned = atomic_load_explicit(&crew->foreign_spawned, memory_order_acquire);
    for (int i = 0; i < crew->count; i++) {
        spawned += atomic_load_explicit(&crew->carriers[i].counts.spawned, memory_order_acquire);
    }
    return spawned - ended;
}

static void locality_ready(struct weft_scheduler *self, struct weft__task *task)
{
    (void)self;
    weft__put(task->home, &task->node, weft__carrier_self());
}

const struct weft_scheduler_ops weft__locality_ops = {
    .on_start = locality_ready,
    .on_continue = locality_ready,
};
