// blocks.c - chunks of control blocks with one free list.
#include "task/blocks.h"

#include "base/alloc.h"

#define BLOCKS_PER_CHUNK WEFT__SIZED(64, 2)

struct weft__block_chunk {
    struct weft__block_chunk *next; // fixed once published
    struct weft__task blocks[BLOCKS_PER_CHUNK];
};

/// Called with the lock held, which it gives up for the allocation.
static void grow(struct weft__blocks *blocks)
{
    weft__lock_release(&blocks->lock);
    struct weft__block_chunk *chunk = weft__alloc(blocks->allocator, sizeof *chunk,
                                                  _Alignof(struct weft__block_chunk));
    weft__lock_acquire(&blocks->lock);
    if (chunk == NULL) {
        return;
    }
    chunk->next = blocks->chunks;
    blocks->chunks = chunk;
    for (int i = 0; i < BLOCKS_PER_CHUNK; i++) {
        chunk->blocks[i].node.next = blocks->free;
        blocks->free = &chunk->blocks[i].node;
    }
}

struct weft__task *weft__block_take(struct weft__blocks *blocks)
{
    weft__lock_acquire(&blocks->lock);
    if (blocks->free == NULL) {
        grow(blocks);
    }
    struct weft__node *node = blocks->free;
    if (node != NULL) {
        blocks->free = node->next;
    }
    weft__lock_release(&blocks->lock);
    return node != NULL ? weft__container_of(node, struct weft__task, node) : NULL;
}

void weft__block_give(struct weft__blocks *blocks, struct weft__task *task)
{
    weft__lock_acquire(&blocks->lock);
    task->node.next = blocks->free;
    blocks->free = &task->node;
    weft__lock_release(&blocks->lock);
}

int weft__blocks_each(struct weft__blocks *blocks, int (*visit)(void *block, void *arg), void *arg)
{
    weft__lock_acquire(&blocks->lock);
    struct weft__block_chunk *chunk = blocks->chunks;
    weft__lock_release(&blocks->lock);
    int rc = 0;
    for (; chunk != NULL && rc == 0; chunk = chunk->next) {
        for (int i = 0; i < BLOCKS_PER_CHUNK && rc == 0; i++) {
            rc = visit(&chunk->blocks[i], arg);
        }
    }
    return rc;
}

void weft__blocks_fini(struct weft__blocks *blocks)
{
    struct weft__block_chunk *chunk = blocks->chunks;
    while (chunk != NULL) {
        struct weft__block_chunk *next = chunk->next;
        weft__free(blocks->allocator, chunk, sizeof *chunk);
        chunk = next;
    }
    blocks->chunks = NULL;
    blocks->free = NULL;
}
