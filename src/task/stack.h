// stack.h - stacks for virtual threads: slabs, slots, guards, caches.
//
// A slab is a large mapping cut into slots of one size (a power of two). The top of each
// slot holds the control block of the thread that uses it; the stack grows down from there:
//
//     slot base                                                             slot end
//     | guard 64 KiB | ............ stack ............ | block | colour gap | a page | next slot
//                    ^ low                             ^ high = block address
//
// The colour gap (some lines, never touched) differs from slot to slot, and slots are a page more apart
// than they are large, so that thousands of stacks do not fight for the same cache and TLB sets.
//
// Memory is type-stable: a block's address is a block's address for as long as its runtime exists
// (with the default provider: as long as the process does, because slabs go to a process-wide pool
// for the next runtime). The task layer zeroes the block's state word before it gives a slot back,
// and a page that was returned to the kernel reads as zero, so a late wake-up may look at the word
// and finds "free". A part of the block is left alone for that; the rest is the pool's while it is free.
//
// Slots go back to the kernel whole or not at all: a thread that was deep once leaves its pages to
// the next ones, until its slot leaves the caches. Trimming each slot on its way would cost a
// system call per thread.
#ifndef WEFT_TASK_STACK_H
#define WEFT_TASK_STACK_H

#include <weft/time.h>

#include "base/base.h"

struct weft_allocator;
struct weft_stack_provider;
struct weft__stack_pool;

#define WEFT__STACK_GUARD_BYTES ((size_t)64 << 10)
#define WEFT__STACK_MIN_BYTES ((size_t)128 << 10)
#define WEFT__STACK_MAX_BYTES ((size_t)1 << 30)

struct weft__stack_config {
    const struct weft_allocator *allocator;
    const struct weft_stack_provider *provider; ///< NULL: mmap
    size_t block_bytes;                         ///< control block, at most 1024
    int cache_slots;                            ///< idle slots to keep for each cache
    int caches;                                 ///< how many there will be
    size_t default_bytes;                       ///< the size caches hold; 0: the first asked for
};

/// What the pool leaves alone of a free block: from this byte to that.
#define WEFT__STACK_KEPT_FROM 16
#define WEFT__STACK_KEPT_TO 128

#define WEFT__STACK_CACHE_SLOTS 64

/// What a carrier holds of idle slots of one size; the owner's alone. Zeroed means empty.
struct weft__stack_cache {
    int count;
    void *slots[WEFT__STACK_CACHE_SLOTS]; // blocks; the warmest is last
};

int weft__stack_pool_create(struct weft__stack_pool **pool,
                            const struct weft__stack_config *config);

/// Gives everything back. No slot is in use any more; caches need not be drained first.
void weft__stack_pool_destroy(struct weft__stack_pool *pool);

/// Takes a slot of `size_bytes` (a power of two, MIN..MAX), from `cache` if it has one, else from
/// the pool (refilling the cache by a batch). `cache` may be NULL for a thread without one. Only
/// the pool's default size is cached. Stores the address of the control block, whose bytes are
/// stale or zero, and the low end of the usable stack.
int weft__stack_take(struct weft__stack_pool *pool, struct weft__stack_cache *cache,
                     size_t size_bytes, void **block, void **low);

/// Gives a slot back. An overfull cache returns a batch to the pool. True: more than its limit lies idle
/// there, and the caller sees to it, by weft__stack_trim() in a second, or else by weft__stack_shed() now.
bool weft__stack_give(struct weft__stack_pool *pool, struct weft__stack_cache *cache, void *block,
                      size_t size_bytes);

/// Gives pages back to the kernel of slots that lay idle in the pool, beyond its limit, all the time between
/// two calls that are at least a second apart; some of them. Returns when to call it again, or
/// WEFT_FOREVER.
weft_time weft__stack_trim(struct weft__stack_pool *pool, weft_time now);

/// Gives pages back of some of those that lie idle in the pool beyond its limit, needed or not. True: there
/// are more.
bool weft__stack_shed(struct weft__stack_pool *pool);

/// Empties a cache into the pool.
void weft__stack_cache_drain(struct weft__stack_pool *pool, struct weft__stack_cache *cache);

/// Calls visit(block, arg) for every slot that was ever taken, except those whose pages went back
/// to the kernel; the others that are free now have a zero word. Runs while others take and give,
/// and may miss a slot that is just being taken. Stops early when visit returns non-zero, and
/// returns that.
int weft__stack_pool_each(struct weft__stack_pool *pool, int (*visit)(void *block, void *arg),
                          void *arg);

/// Bytes between `high` (rounded up) and the lowest page of [low, high) that was ever touched and
/// not given back since; whole pages. A slot out of a cache still has the pages of its former users.
int64_t weft__stack_touched(const void *low, const void *high);

#endif
