// sim_heap.h - the memory of one simulated run, which a failed run gives back as a whole.
#ifndef WEFT_RUNTIME_SIM_HEAP_H
#define WEFT_RUNTIME_SIM_HEAP_H

#include <weft/runtime.h>

#include "base/lock.h"

struct weft__sim_block;

struct weft__sim_heap {
    struct weft_allocator allocator;
    struct weft__lock lock;
    struct weft__sim_block *blocks; // under lock
};

/// NULL: no memory.
struct weft__sim_heap *weft__sim_heap_create(void);

/// With `everything`, frees what is left of the blocks: tasks were stopped in the middle of their
/// work, and nobody else will. Otherwise blocks that are left keep the heap: the runtime's, because
/// handles of tasks are still out, or the program's own leaks, which a leak checker shall see.
void weft__sim_heap_destroy(struct weft__sim_heap *heap, bool everything);

#endif
