// stack.c - the pool of stacks, and the caches in front of it.
//
// A slot is in one of these states; "warm" means that its pages are resident.
//
//     fresh --take--> in use --give--> warm in a cache --overfull--> warm in the pool
//                        ^                   |                            |
//                        +-------take--------+------------refill----------+
//                        |                                                | too many: zap()
//                        +----------------------take--------------------- cold in the pool
//
// Caches belong to one carrier and know no lock. A refill brings half a cache of warm slots, never
// cold or fresh ones: linking those would touch their pages, so they are taken one at a time.
//
//   S1  Free warm slots are linked through the first word of their blocks; a cold slot's pages are
//       not touched, it is a bit in its slab.
//   S2  pool->lock covers the lists and bits, and is never held over a system call.
//   S3  pool->grow is held while a slab is mapped, so that two threads do not both map one.
#include "task/stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include <weft/runtime.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/lock.h"
#include "base/sanitizer.h"
#include "base/sys.h"
#include "task/slab.h"

#if WEFT__ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

#define MIN_SHIFT 17
#define MAX_SHIFT 30
_Static_assert((size_t)1 << MIN_SHIFT == WEFT__STACK_MIN_BYTES, "smallest group");
_Static_assert((size_t)1 << MAX_SHIFT == WEFT__STACK_MAX_BYTES, "largest group");

// Slabs grow with the number of threads: a small program reserves 4 MiB, and a million threads
// need about 250 slabs of 1 GiB.
#define FIRST_SLAB_SLOTS 16
#define MAX_SLAB_SLOTS 4096
#define MAX_SLAB_BYTES ((size_t)1 << 30)
#define BLOCK_MAX_BYTES 1024

// What the pool keeps warm of the sizes that no cache holds.
#define WARM_MAX_BYTES ((size_t)4 << 20)

/// All slots of one size.
struct group {
    // Under the pool's lock; visitors read `slabs` without.
    _Atomic(struct weft__slab *) slabs;
    struct weft__slab *last;   // fresh slots come from here
    struct weft__slab *recent; // where a cold slot was put or found last
    void *warm;
    int warm_count;
    uint64_t cold_count;
    // Under the pool's grow lock.
    uint32_t next_slots;
};

struct weft__stack_pool {
    const struct weft_allocator *allocator;
    const struct weft_stack_provider *provider;
    size_t block_bytes;
    int cache_slots;
    _Atomic size_t default_bytes; // the size that caches hold; 0: that of the first take
    struct weft__lock lock;
    pthread_mutex_t grow;
    struct group groups[MAX_SHIFT - MIN_SHIFT + 1];
};

static void **link_of(void *block)
{
    return block;
}

static char *slot_of(void *block, size_t size_bytes)
{
    return (char *)block - ((uintptr_t)block & (size_bytes - 1));
}

static struct group *group_of(struct weft__stack_pool *pool, size_t size_bytes)
{
    return &pool->groups[__builtin_ctzll(size_bytes) - MIN_SHIFT];
}

// LeakSanitizer looks for pointers in the stacks of OS threads only. It is shown each slot in use,
// from the end of the guard up.
static void announce_use(void *block, size_t size_bytes)
{
#if WEFT__ASAN
    char *low = slot_of(block, size_bytes) + WEFT__STACK_GUARD_BYTES;
    __lsan_register_root_region(low, size_bytes - WEFT__STACK_GUARD_BYTES);
#else
    (void)block;
    (void)size_bytes;
#endif
}

static void announce_end(void *block, size_t size_bytes)
{
#if WEFT__ASAN
    char *low = slot_of(block, size_bytes) + WEFT__STACK_GUARD_BYTES;
    __lsan_unregister_root_region(low, size_bytes - WEFT__STACK_GUARD_BYTES);
    __asan_unpoison_memory_region(low, (size_t)((char *)block - low));
#else
    (void)block;
    (void)size_bytes;
#endif
}

int weft__stack_pool_create(struct weft__stack_pool **out, const struct weft__stack_config *config)
{
    *out = NULL;
    if (config->block_bytes < sizeof(void *) || config->block_bytes > BLOCK_MAX_BYTES) {
        return -EINVAL;
    }
    struct weft__stack_pool *pool = weft__alloc(config->allocator, sizeof *pool,
                                                _Alignof(struct weft__stack_pool));
    if (pool == NULL) {
        return -ENOMEM;
    }
    pool->allocator = config->allocator;
    pool->provider = config->provider;
    pool->block_bytes = config->block_bytes;
    atomic_init(&pool->default_bytes, config->default_bytes);
    pool->cache_slots = WEFT__SIZED(config->cache_slots > 0 ? config->cache_slots : 1, 1);
    pthread_mutex_init(&pool->grow, NULL);
    for (size_t i = 0; i < WEFT__ARRAY_LEN(pool->groups); i++) {
        pool->groups[i].next_slots = WEFT__SIZED(FIRST_SLAB_SLOTS, 4);
    }
    *out = pool;
    return 0;
}

void weft__stack_pool_destroy(struct weft__stack_pool *pool)
{
    for (size_t i = 0; i < WEFT__ARRAY_LEN(pool->groups); i++) {
        struct weft__slab *slab = atomic_load(&pool->groups[i].slabs);
        while (slab != NULL) {
            struct weft__slab *next = atomic_load(&slab->next);
            weft__slab_close(slab, pool->provider);
            slab = next;
        }
    }
    pthread_mutex_destroy(&pool->grow);
    weft__free(pool->allocator, pool, sizeof *pool);
}

// ---------------------------------------------------------------------------------------------
// Taking.

static void set_cold(struct group *group, struct weft__slab *slab, uint32_t slot, bool cold)
{
    uint64_t bits = atomic_load_explicit(&slab->cold[slot / 64], memory_order_relaxed);
    bits ^= UINT64_C(1) << slot % 64;
    atomic_store_explicit(&slab->cold[slot / 64], bits, memory_order_relaxed);
    slab->cold_count += cold ? 1 : -1U;
    group->cold_count += cold ? 1 : UINT64_MAX;
    group->recent = slab;
}

// Under the lock. NULL if there is no cold slot.
static void *take_cold(struct group *group)
{
    if (group->cold_count == 0) {
        return NULL;
    }
    struct weft__slab *slab = group->recent;
    if (slab->cold_count == 0) {
        slab = atomic_load_explicit(&group->slabs, memory_order_relaxed);
        while (slab->cold_count == 0) {
            slab = atomic_load_explicit(&slab->next, memory_order_relaxed);
        }
    }
    uint32_t word = 0;
    uint64_t bits;
    while ((bits = atomic_load_explicit(&slab->cold[word], memory_order_relaxed)) == 0) {
        word++;
    }
    uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
    set_cold(group, slab, slot, false);
    return weft__slab_block(slab, slot);
}

// Under the lock. False if the newest slab is used up.
static bool take_fresh(struct group *group, struct weft__slab **slab, uint32_t *slot, bool *guarded)
{
    *slab = group->last;
    if (*slab == NULL) {
        return false;
    }
    *slot = atomic_load_explicit(&(*slab)->used, memory_order_relaxed);
    if (*slot == (*slab)->slots) {
        return false;
    }
    *guarded = *slot < (*slab)->touched;
    if (!*guarded) {
        (*slab)->touched = *slot + 1;
    }
    atomic_store_explicit(&(*slab)->used, *slot + 1, memory_order_release);
    return true;
}

// Under the lock. Moves up to `count` warm slots to the cache.
static void refill(struct group *group, struct weft__stack_cache *cache, int count)
{
    while (count-- > 0 && group->warm != NULL) {
        void *block = group->warm;
        group->warm = *link_of(block);
        group->warm_count--;
        *link_of(block) = cache->free;
        cache->free = block;
        cache->count++;
    }
}

// Returns the block of a free slot, or NULL if a slab has to be mapped first.
static void *take_from_pool(struct weft__stack_pool *pool, struct weft__stack_cache *cache,
                            struct group *group)
{
    struct weft__slab *slab = NULL;
    uint32_t slot = 0;
    bool guarded = true;
    weft__lock_acquire(&pool->lock);
    void *block = group->warm;
    if (block != NULL) {
        group->warm = *link_of(block);
        group->warm_count--;
        if (cache != NULL) {
            refill(group, cache, pool->cache_slots / 2);
        }
    } else {
        block = take_cold(group);
        if (block == NULL && take_fresh(group, &slab, &slot, &guarded)) {
            block = weft__slab_block(slab, slot);
        }
    }
    weft__lock_release(&pool->lock);
    if (!guarded) {
        weft__slab_guard(slab, slot);
    }
    return block;
}

static uint32_t slab_slots(const struct group *group, unsigned shift)
{
    uint32_t fit = (uint32_t)(MAX_SLAB_BYTES >> shift);
    return group->next_slots < fit ? group->next_slots : fit;
}

// Adds a slab unless another thread just did.
static int grow(struct weft__stack_pool *pool, struct group *group, unsigned shift)
{
    struct weft__slab *slab;
    int rc = 0;
    pthread_mutex_lock(&pool->grow);
    struct weft__slab *last = group->last; // written under both locks
    if (last == NULL || atomic_load_explicit(&last->used, memory_order_relaxed) == last->slots) {
        rc = weft__slab_open(&slab, pool->provider, shift, slab_slots(group, shift),
                             pool->block_bytes);
        if (rc == 0) {
            if (group->next_slots < WEFT__SIZED(MAX_SLAB_SLOTS, 64)) {
                group->next_slots *= 2;
            }
            weft__lock_acquire(&pool->lock);
            atomic_store_explicit(last == NULL ? &group->slabs : &last->next, slab,
                                  memory_order_release);
            group->last = slab;
            weft__lock_release(&pool->lock);
        }
    }
    pthread_mutex_unlock(&pool->grow);
    return rc;
}

static WEFT__NOINLINE int take_slowly(struct weft__stack_pool *pool,
                                      struct weft__stack_cache *cache, size_t size_bytes,
                                      void **block)
{
    if (size_bytes < WEFT__STACK_MIN_BYTES || size_bytes > WEFT__STACK_MAX_BYTES ||
        (size_bytes & (size_bytes - 1)) != 0) {
        return -EINVAL;
    }
    size_t default_bytes = 0;
    if (atomic_compare_exchange_strong(&pool->default_bytes, &default_bytes, size_bytes)) {
        default_bytes = size_bytes;
    }
    if (size_bytes != default_bytes) {
        cache = NULL;
    }
    struct group *group = group_of(pool, size_bytes);
    while ((*block = take_from_pool(pool, cache, group)) == NULL) {
        int rc = grow(pool, group, (unsigned)__builtin_ctzll(size_bytes));
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static bool is_cached(const struct weft__stack_pool *pool, const struct weft__stack_cache *cache,
                      size_t size_bytes)
{
    return cache != NULL &&
           size_bytes == atomic_load_explicit(&pool->default_bytes, memory_order_relaxed);
}

/// The lines that a spawn writes: the block's first ones, and the frame below it. There may be no
/// block; that is why it counts in integers.
static inline void prefetch_block(const void *block)
{
    uintptr_t below = (uintptr_t)block - WEFT__LINE;
    for (uintptr_t line = 0; line < 5; line++) {
        __builtin_prefetch((const void *)(below + line * WEFT__LINE), 1);
    }
}

int weft__stack_take(struct weft__stack_pool *pool, struct weft__stack_cache *cache,
                     size_t size_bytes, void **block, void **low)
{
    if (weft__likely(is_cached(pool, cache, size_bytes) && cache->free != NULL)) {
        *block = cache->free;
        cache->free = *link_of(*block);
        cache->count--;
        prefetch_block(cache->free); // whoever spawns one thread often spawns another
    } else {
        int rc = take_slowly(pool, cache, size_bytes, block);
        if (rc < 0) {
            *block = NULL;
            *low = NULL;
            return rc;
        }
    }
    *low = slot_of(*block, size_bytes) + WEFT__STACK_GUARD_BYTES;
    announce_use(*block, size_bytes);
    return 0;
}

// ---------------------------------------------------------------------------------------------
// Giving back.

// Under the lock.
static struct weft__slab *slab_of(struct group *group, const char *slot)
{
    struct weft__slab *slab = group->recent;
    if (slab == NULL) {
        slab = atomic_load_explicit(&group->slabs, memory_order_relaxed);
    }
    for (;;) {
        const char *base = atomic_load_explicit(&slab->base, memory_order_relaxed);
        if (slot >= base && slot < base + ((size_t)slab->slots << slab->shift)) {
            return slab;
        }
        slab = atomic_load_explicit(&slab->next, memory_order_relaxed);
        if (slab == NULL) {
            slab = atomic_load_explicit(&group->slabs, memory_order_relaxed);
        }
    }
}

// Gives the pages of neighbouring slots back to the kernel and marks the slots cold. One call for
// several of them costs a third, and interrupts other processors (TLB) once. Guards stay.
static void zap_run(struct weft__stack_pool *pool, size_t size_bytes, char *start, char *end)
{
    struct group *group = group_of(pool, size_bytes);
    char *pages = start + WEFT__STACK_GUARD_BYTES;
    weft__sys_advise(pages, (size_t)(end - pages), MADV_DONTNEED);
    weft__lock_acquire(&pool->lock);
    for (; start < end; start += size_bytes) {
        struct weft__slab *slab = slab_of(group, start);
        const char *base = atomic_load_explicit(&slab->base, memory_order_relaxed);
        set_cold(group, slab, (uint32_t)((size_t)(start - base) >> slab->shift), true);
    }
    weft__lock_release(&pool->lock);
}

static void zap(struct weft__stack_pool *pool, size_t size_bytes, void *chain)
{
    char *start = NULL;
    char *end = NULL;
    while (chain != NULL) {
        char *slot = slot_of(chain, size_bytes);
        chain = *link_of(chain);
        if (start != NULL && slot == end) {
            end += size_bytes;
        } else if (start != NULL && slot + size_bytes == start) {
            start = slot;
        } else {
            if (start != NULL) {
                zap_run(pool, size_bytes, start, end);
            }
            start = slot;
            end = slot + size_bytes;
        }
    }
    if (start != NULL) {
        zap_run(pool, size_bytes, start, end);
    }
}

// Takes a chain of `count` blocks that ends with `tail`.
static void give_to_pool(struct weft__stack_pool *pool, size_t size_bytes, void *chain, void *tail,
                         int count)
{
    struct group *group = group_of(pool, size_bytes);
    bool cached = size_bytes == atomic_load_explicit(&pool->default_bytes, memory_order_relaxed);
    int warm_max = cached ? 2 * pool->cache_slots : (int)(WARM_MAX_BYTES / size_bytes);
    *link_of(tail) = NULL;
    weft__lock_acquire(&pool->lock);
    bool keep = group->warm_count + count <= warm_max;
    if (keep) {
        *link_of(tail) = group->warm;
        group->warm = chain;
        group->warm_count += count;
    }
    weft__lock_release(&pool->lock);
    if (!keep) {
        zap(pool, size_bytes, chain);
    }
}

// Returns all but the `keep` most recently used slots to the pool.
static void cache_shrink(struct weft__stack_pool *pool, struct weft__stack_cache *cache, int keep)
{
    void **split = &cache->free;
    for (int i = 0; i < keep; i++) {
        split = link_of(*split);
    }
    void *chain = *split;
    void *tail = chain;
    while (*link_of(tail) != NULL) {
        tail = *link_of(tail);
    }
    *split = NULL;
    int count = cache->count - keep;
    cache->count = keep;
    give_to_pool(pool, atomic_load(&pool->default_bytes), chain, tail, count);
}

void weft__stack_give(struct weft__stack_pool *pool, struct weft__stack_cache *cache, void *block,
                      size_t size_bytes)
{
    announce_end(block, size_bytes);
    if (!is_cached(pool, cache, size_bytes)) {
        give_to_pool(pool, size_bytes, block, block, 1);
        return;
    }
    *link_of(block) = cache->free;
    cache->free = block;
    cache->count++;
    if (weft__unlikely(cache->count > pool->cache_slots)) {
        cache_shrink(pool, cache, cache->count / 2);
    }
}

void weft__stack_cache_drain(struct weft__stack_pool *pool, struct weft__stack_cache *cache)
{
    if (cache->count > 0) {
        cache_shrink(pool, cache, 0);
    }
}

// ---------------------------------------------------------------------------------------------
// Looking.

static int visit_slab(const struct weft__slab *slab, int (*visit)(void *block, void *arg),
                      void *arg)
{
    uint32_t used = atomic_load_explicit(&slab->used, memory_order_acquire);
    int rc = 0;
    for (uint32_t slot = 0; slot < used && rc == 0; slot++) {
        uint64_t cold = atomic_load_explicit(&slab->cold[slot / 64], memory_order_relaxed);
        if ((cold >> slot % 64 & 1) == 0) {
            rc = visit(weft__slab_block(slab, slot), arg);
        }
    }
    return rc;
}

int weft__stack_pool_each(struct weft__stack_pool *pool, int (*visit)(void *block, void *arg),
                          void *arg)
{
    int rc = 0;
    for (size_t i = 0; i < WEFT__ARRAY_LEN(pool->groups) && rc == 0; i++) {
        struct weft__slab *slab = atomic_load_explicit(&pool->groups[i].slabs,
                                                       memory_order_acquire);
        while (slab != NULL && rc == 0) {
            rc = visit_slab(slab, visit, arg);
            slab = atomic_load_explicit(&slab->next, memory_order_acquire);
        }
    }
    return rc;
}
