// inject.c - tasks that no carrier has taken yet: made ready by threads outside, or too many for the
// offer of the carrier that made them ready.
//
//   J1  `count` is a hint that follows the list: whoever sees 0 goes on without the lock. Who must not
//       miss anything (a carrier that goes to sleep) has a fence before its look, and who pushes has
//       one after it (search.c, S1 and S2).
//   J2  Nodes come out in the order they went in; a batch stays together unless it is cut.
//
// A lock, because batches make it rare: a carrier looks once in 8 to 255 tasks and takes its share of
// all at once.
// Locks: inject.lock, alone. Checked by: tests/model/inject_model.c, tests/unit/inject_test.c.
#include "sched/inject.h"

static void set_count(struct weft__inject *inject)
{
    atomic_store_explicit(&inject->count, inject->nodes.count, memory_order_relaxed);
}

void weft__inject_push(struct weft__inject *inject, struct weft__fifo *batch)
{
    if (batch->head == NULL) {
        return;
    }
    weft__lock_acquire(&inject->lock);
    if (inject->nodes.head == NULL) {
        inject->nodes.head = batch->head;
    } else {
        inject->nodes.tail->next = batch->head;
    }
    inject->nodes.tail = batch->tail;
    inject->nodes.count += batch->count;
    weft__tally_most(&inject->most, inject->nodes.count);
    set_count(inject);
    weft__lock_release(&inject->lock);
    *batch = (struct weft__fifo){ 0 };
}

size_t weft__inject_take(struct weft__inject *inject, struct weft__fifo *into, size_t most)
{
    if (weft__inject_count(inject) == 0) {
        return 0;
    }
    size_t taken = 0;
    weft__lock_acquire(&inject->lock);
    for (struct weft__node *node; taken < most && (node = weft__fifo_pop(&inject->nodes)) != NULL;
         taken++) {
        weft__node_prefetch(node);
        weft__fifo_push(into, node);
    }
    set_count(inject);
    weft__lock_release(&inject->lock);
    return taken;
}
