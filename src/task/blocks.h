// blocks.h - control blocks of tasks that have no stack to live on.
#ifndef WEFT_TASK_BLOCKS_H
#define WEFT_TASK_BLOCKS_H

#include "base/lock.h"
#include "task/task.h"

struct weft_allocator;
struct weft__block_chunk;

/// Type-stable: chunks are freed only by fini. Zeroed plus an allocator means empty.
struct weft__blocks {
    const struct weft_allocator *allocator;
    struct weft__lock lock;
    // Under lock.
    struct weft__task *batches; // of free blocks, see blocks.c
    struct weft__block_chunk *chunks;
};

/// What a carrier holds of free blocks, two batches at most; the owner's alone. Zeroed means empty, and
/// it may be forgotten with what is in it: the blocks are in their chunks.
struct weft__block_cache {
    struct weft__node *free;
    int count;               // of these, less than a batch
    struct weft__task *full; // one more batch, or NULL
};

/// A block whose word is zero, or NULL. `cache` is NULL for a thread without one.
struct weft__task *weft__block_take(struct weft__blocks *blocks, struct weft__block_cache *cache);
void weft__block_give(struct weft__blocks *blocks, struct weft__block_cache *cache,
                      struct weft__task *task);

/// Calls visit for every block ever made; stops when it returns non-zero, and returns that.
int weft__blocks_each(struct weft__blocks *blocks, int (*visit)(void *block, void *arg), void *arg);

/// Frees everything; no block is in use.
void weft__blocks_fini(struct weft__blocks *blocks);

#endif
