// alloc.c - the one door through which the library takes small memory.
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include <weft/runtime.h>

static void *default_alloc(size_t size_bytes, size_t align)
{
    if (align <= _Alignof(max_align_t)) {
        return calloc(1, size_bytes);
    }
    void *memory;
    if (posix_memalign(&memory, align, size_bytes) != 0) {
        return NULL;
    }
    return memset(memory, 0, size_bytes);
}

void *weft__alloc(const struct weft_allocator *allocator, size_t size_bytes, size_t align)
{
    if (allocator == NULL) {
        return default_alloc(size_bytes, align);
    }
    void *memory = allocator->alloc(allocator->ctx, size_bytes, align);
    return memory == NULL ? NULL : memset(memory, 0, size_bytes);
}

void *weft__alloc_raw(const struct weft_allocator *allocator, size_t size_bytes, size_t align)
{
    if (allocator != NULL) {
        return allocator->alloc(allocator->ctx, size_bytes, align);
    }
    return align <= _Alignof(max_align_t) ? malloc(size_bytes) : default_alloc(size_bytes, align);
}

void weft__free(const struct weft_allocator *allocator, void *memory, size_t size_bytes)
{
    if (memory == NULL) {
        return;
    }
    if (allocator == NULL) {
        free(memory);
    } else {
        allocator->free(allocator->ctx, memory, size_bytes);
    }
}
