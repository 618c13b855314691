// alloc.h - the one door through which the library takes small memory.
#ifndef WEFT_BASE_ALLOC_H
#define WEFT_BASE_ALLOC_H

#include "base/base.h"

struct weft_allocator;

/// Zeroed memory, or NULL. `allocator` NULL means malloc.
void *weft__alloc(const struct weft_allocator *allocator, size_t size_bytes, size_t align);

/// The same without the zeroes.
void *weft__alloc_raw(const struct weft_allocator *allocator, size_t size_bytes, size_t align);

/// Gives memory back; `size_bytes` is what was asked for. NULL memory is fine.
void weft__free(const struct weft_allocator *allocator, void *memory, size_t size_bytes);

#endif
