// sim_heap.c - an allocator that knows its blocks.
//
//     | ... padding ... | struct weft__sim_block | the caller's memory |
//     ^ base                                     ^ aligned as asked for
#include "runtime/sim_heap.h"

#include <stdlib.h>

#include "base/alloc.h"

struct weft__sim_block {
    struct weft__sim_block *next;
    struct weft__sim_block **link;
    void *base;
};

static void *heap_alloc(void *ctx, size_t size_bytes, size_t align)
{
    struct weft__sim_heap *heap = ctx;
    void *base;
    align = align < _Alignof(max_align_t) ? _Alignof(max_align_t) : align;
    size_t head = (sizeof(struct weft__sim_block) + align - 1) / align * align;
    if (size_bytes > SIZE_MAX - head || posix_memalign(&base, align, head + size_bytes) != 0) {
        return NULL;
    }
    struct weft__sim_block *block = (struct weft__sim_block *)(void *)((char *)base + head) - 1;
    block->base = base;
    weft__lock_acquire(&heap->lock);
    block->next = heap->blocks;
    block->link = &heap->blocks;
    if (block->next != NULL) {
        block->next->link = &block->next;
    }
    heap->blocks = block;
    weft__lock_release(&heap->lock);
    return block + 1;
}

static void heap_free(void *ctx, void *memory, size_t size_bytes)
{
    struct weft__sim_heap *heap = ctx;
    struct weft__sim_block *block = (struct weft__sim_block *)memory - 1;
    (void)size_bytes;
    weft__lock_acquire(&heap->lock);
    *block->link = block->next;
    if (block->next != NULL) {
        block->next->link = block->link;
    }
    weft__lock_release(&heap->lock);
    free(block->base);
}

struct weft__sim_heap *weft__sim_heap_create(void)
{
    struct weft__sim_heap *heap = weft__alloc(NULL, sizeof *heap, _Alignof(struct weft__sim_heap));
    if (heap != NULL) {
        heap->allocator = (struct weft_allocator){ heap_alloc, heap_free, heap };
    }
    return heap;
}

void weft__sim_heap_destroy(struct weft__sim_heap *heap, bool everything)
{
    while (everything && heap->blocks != NULL) {
        heap_free(heap, heap->blocks + 1, 0);
    }
    if (heap->blocks == NULL) {
        weft__free(NULL, heap, sizeof *heap);
    }
}
