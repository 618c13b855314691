// stage_alloc.c - base/alloc.h on the engine's memory, which knows what was freed.
#include "base/alloc.h"
#include "mc.h"

void *weft__alloc(const struct weft_allocator *allocator, size_t size_bytes, size_t align)
{
    (void)allocator;
    (void)align;
    return mc_alloc(size_bytes);
}

void *weft__alloc_raw(const struct weft_allocator *allocator, size_t size_bytes, size_t align)
{
    return weft__alloc(allocator, size_bytes, align);
}

void weft__free(const struct weft_allocator *allocator, void *memory, size_t size_bytes)
{
    (void)allocator;
    (void)size_bytes;
    mc_free(memory);
}
