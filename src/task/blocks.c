// blocks.c - chunks of control blocks, and the batches of free ones that carriers exchange.
//
// A carrier takes and gives without a lock, in its own cache. What it lacks or has too much of travels by
// whole batches, because one carrier may spawn what another one ends: so a batch is one list that nobody
// has to walk.
//
//     blocks.batches -> block --sibling_next--> block --sibling_next--> ...   each the first of a batch
//                         | node.next             | node.next
//                       block                   block                         node.ahead of the first: how many
//
// A free block's word is zero, and nobody looks at these fields of it.
// Lock: blocks.lock, alone; one in BATCH spawns takes it.
#include "task/blocks.h"

#include "base/alloc.h"

#define BATCH WEFT__SIZED(64, 2)

struct weft__block_chunk {
    struct weft__block_chunk *next; // fixed once published
    struct weft__task blocks[BATCH];
};

static struct weft__task *to_task(struct weft__node *node)
{
    return weft__container_of(node, struct weft__task, node);
}

/// Puts a batch among the others. Under lock.
static void push_batch(struct weft__blocks *blocks, struct weft__task *first, int count)
{
    first->node.ahead = count;
    first->sibling_next = blocks->batches;
    blocks->batches = first;
}

/// A chunk is a batch. Called with the lock held, which it gives up for the allocation.
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
    for (int i = 0; i + 1 < BATCH; i++) {
        chunk->blocks[i].node.next = &chunk->blocks[i + 1].node;
    }
    chunk->blocks[BATCH - 1].node.next = NULL;
    push_batch(blocks, &chunk->blocks[0], BATCH);
}

/// A batch, or for who has no cache to keep the rest in, the first of one. NULL: there is no memory.
static struct weft__task *take_batch(struct weft__blocks *blocks, bool whole)
{
    weft__lock_acquire(&blocks->lock);
    if (blocks->batches == NULL) {
        grow(blocks);
    }
    struct weft__task *first = blocks->batches;
    if (first != NULL) {
        blocks->batches = first->sibling_next;
    }
    if (first != NULL && !whole && first->node.next != NULL) {
        push_batch(blocks, to_task(first->node.next), first->node.ahead - 1);
    }
    weft__lock_release(&blocks->lock);
    return first;
}

/// The next spawn writes all of it, and it may have been gone from the cache for long.
static void prefetch(const struct weft__node *node)
{
    for (uintptr_t at = 0; node != NULL && at < sizeof(struct weft__task); at += WEFT__LINE) {
        __builtin_prefetch((const char *)node + at, 1);
    }
}

static WEFT__NOINLINE struct weft__node *refill(struct weft__blocks *blocks,
                                                struct weft__block_cache *cache)
{
    struct weft__task *batch = cache->full;
    cache->full = NULL;
    if (batch == NULL) {
        batch = take_batch(blocks, true);
    }
    if (batch == NULL) {
        return NULL;
    }
    cache->count = batch->node.ahead;
    return &batch->node;
}

struct weft__task *weft__block_take(struct weft__blocks *blocks, struct weft__block_cache *cache)
{
    if (cache == NULL) {
        return take_batch(blocks, false);
    }
    struct weft__node *node = weft__likely(cache->free != NULL) ? cache->free
                                                                : refill(blocks, cache);
    if (node == NULL) {
        return NULL;
    }
    cache->free = node->next;
    cache->count--;
    prefetch(node->next);
    return to_task(node);
}

/// Adds one to the first batch, if that is not a whole one.
static void give_one(struct weft__blocks *blocks, struct weft__task *task)
{
    weft__lock_acquire(&blocks->lock);
    struct weft__task *first = blocks->batches;
    int count = 0;
    task->node.next = NULL;
    if (first != NULL && first->node.ahead < BATCH) {
        count = first->node.ahead;
        blocks->batches = first->sibling_next;
        task->node.next = &first->node;
    }
    push_batch(blocks, task, count + 1);
    weft__lock_release(&blocks->lock);
}

/// The cache has a whole batch in `free`.
static WEFT__NOINLINE void set_aside(struct weft__blocks *blocks, struct weft__block_cache *cache)
{
    struct weft__task *surplus = cache->full;
    cache->full = to_task(cache->free);
    cache->full->node.ahead = cache->count;
    cache->free = NULL;
    cache->count = 0;
    if (surplus != NULL) {
        weft__lock_acquire(&blocks->lock);
        push_batch(blocks, surplus, surplus->node.ahead);
        weft__lock_release(&blocks->lock);
    }
}

void weft__block_give(struct weft__blocks *blocks, struct weft__block_cache *cache,
                      struct weft__task *task)
{
    if (cache == NULL) {
        give_one(blocks, task);
        return;
    }
    task->node.next = cache->free;
    cache->free = &task->node;
    if (weft__unlikely(++cache->count == BATCH)) {
        set_aside(blocks, cache);
    }
}

int weft__blocks_each(struct weft__blocks *blocks, int (*visit)(void *block, void *arg), void *arg)
{
    weft__lock_acquire(&blocks->lock);
    struct weft__block_chunk *chunk = blocks->chunks;
    weft__lock_release(&blocks->lock);
    int rc = 0;
    for (; chunk != NULL && rc == 0; chunk = chunk->next) {
        for (int i = 0; i < BATCH && rc == 0; i++) {
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
    blocks->batches = NULL;
}
