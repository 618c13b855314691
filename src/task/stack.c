// stack.c - the pool of stacks, and the caches in front of it.
//
// A slot is in one of these states; "warm" means that its pages are resident.
//
//     fresh --take--> in use --give--> warm in a cache ---a batch---> warm in the pool
//                        ^                   |                            |
//                        +-------take--------+-----------a batch----------+
//                        |                                                | not needed: zap()
//                        +----------------------take--------------------- cold in the pool
//
// A slot that was cold costs page faults, microseconds instead of nanoseconds, and a program that starts
// ten thousand threads does so again. So what is warm beyond the limit stays so for a while: each look,
// a second apart, finds how few were in the pool since the one before, which so many nobody has needed.
//
// Caches belong to one carrier and know no lock. They are small, two batches at most, and slots travel
// between them and the pool by whole batches: one carrier may spawn what another one ends, and what
// piled up in the latter's cache would be missed by the former, who would touch fresh pages instead.
// Only warm slots come in batches: linking cold or fresh ones would touch their pages, so they are
// taken one at a time.
//
//   S1  A batch is a block that lists the others, so nobody has to touch one to find the next, each in
//       a page of its own; a cold slot's pages are not touched at all, it is a bit in its slab.
//   S2  pool->lock covers the lists and bits, and is never held over a system call.
//   S3  pool->grow is held while a slab is mapped, so that two threads do not both map one.
//
// Rejected: caches as large as what may stay warm (see above); giving a slot back to the carrier that
// took it, one at a time (a read-modify-write on the other's line for each, and no use where the taker
// has gone to sleep).
#include "task/stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
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

// A free block that stands for others.
struct batch {
    struct batch *next;
    int count; // of `others`
    _Alignas(void *) char kept[WEFT__STACK_KEPT_TO -
                               WEFT__STACK_KEPT_FROM]; // the task layer's (stack.h)
    void *others[];
};
_Static_assert(offsetof(struct batch, kept) == WEFT__STACK_KEPT_FROM &&
                   offsetof(struct batch, others) == WEFT__STACK_KEPT_TO,
               "as promised there");

// Slots that go to the kernel at a time: about as many as it takes in a tenth of a millisecond.
#define ZAP_AT_ONCE 128
#define LOOK_EVERY_NS WEFT_S
#define ZAP_EVERY_NS WEFT_MS
// So many takes ahead: each block is a cache miss in a page of its own.
#define PREFETCHED 2
#define PREFETCHED_LINES 7

/// All slots of one size.
struct group {
    // Under the pool's lock; visitors read `slabs` without.
    _Atomic(struct weft__slab *) slabs;
    struct weft__slab *last;   // fresh slots come from here
    struct weft__slab *recent; // where a cold slot was put or found last
    struct batch *warm;
    int warm_count; // in all of them
    int warm_least; // since the last look
    int unneeded;   // of these, that the last look found
    weft_time looked;
    uint64_t cold_count;
    // Under the pool's grow lock.
    uint32_t next_slots;
};

struct weft__stack_pool {
    const struct weft_allocator *allocator;
    const struct weft_stack_provider *provider;
    size_t block_bytes;
    int batch;                    // slots that travel together
    int cache_slots;              // a cache's limit
    int warm_max;                 // the pool's, of the cached size
    _Atomic size_t default_bytes; // the size that caches hold; 0: that of the first take
    _Alignas(WEFT__LINE_PAIR) struct weft__lock lock; // away from what every take reads
    pthread_mutex_t grow;
    struct group groups[MAX_SHIFT - MIN_SHIFT + 1];
};

// A block is in the last 4096 bytes of its slot.
static char *slot_of(void *block, size_t size_bytes)
{
    return (char *)block + (-(uintptr_t)block & 4095) - size_bytes;
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
    if (config->block_bytes < sizeof(struct batch) + sizeof(void *) ||
        config->block_bytes > BLOCK_MAX_BYTES) {
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
    int keep = WEFT__SIZED(config->cache_slots > 0 ? config->cache_slots : 1, 1);
    int listed = (int)((config->block_bytes - sizeof(struct batch)) / sizeof(void *));
    pool->cache_slots = keep < WEFT__STACK_CACHE_SLOTS ? keep : WEFT__STACK_CACHE_SLOTS;
    pool->batch = (pool->cache_slots + 1) / 2;
    pool->batch = pool->batch <= listed + 1 ? pool->batch : listed + 1;
    pool->warm_max = (2 + config->caches) * keep;
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

// Under the lock.
static void count_warm(struct group *group, int more)
{
    group->warm_count += more;
    group->warm_least = group->warm_count < group->warm_least ? group->warm_count
                                                              : group->warm_least;
}

// Under the lock. A warm slot, and with it its batch for the cache, which is empty; NULL if there is none.
static void *take_warm(struct group *group, struct weft__stack_cache *cache)
{
    struct batch *batch = group->warm;
    if (batch == NULL) {
        return NULL;
    }
    if (cache == NULL && batch->count > 0) {
        count_warm(group, -1);
        return batch->others[--batch->count];
    }
    group->warm = batch->next;
    count_warm(group, -1 - batch->count);
    if (cache != NULL) {
        memcpy(cache->slots, batch->others, (size_t)batch->count * sizeof batch->others[0]);
        cache->count = batch->count;
    }
    return batch;
}

// Returns the block of a free slot, or NULL if a slab has to be mapped first.
static void *take_from_pool(struct weft__stack_pool *pool, struct weft__stack_cache *cache,
                            struct group *group)
{
    struct weft__slab *slab = NULL;
    uint32_t slot = 0;
    bool guarded = true;
    weft__lock_acquire(&pool->lock);
    void *block = take_warm(group, cache);
    if (block == NULL) {
        block = take_cold(group);
    }
    if (block == NULL && take_fresh(group, &slab, &slot, &guarded)) {
        block = weft__slab_block(slab, slot);
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

static bool is_default(const struct weft__stack_pool *pool, size_t size_bytes)
{
    return size_bytes == atomic_load_explicit(&pool->default_bytes, memory_order_relaxed);
}

static bool is_cached(const struct weft__stack_pool *pool, const struct weft__stack_cache *cache,
                      size_t size_bytes)
{
    return cache != NULL && is_default(pool, size_bytes);
}

/// The lines that a spawn writes: the block's, and the frame below it.
static inline void prefetch_block(const void *block)
{
    uintptr_t below = (uintptr_t)block - WEFT__LINE;
    for (uintptr_t line = 0; line < PREFETCHED_LINES; line++) {
        __builtin_prefetch((const void *)(below + line * WEFT__LINE), 1);
    }
}

int weft__stack_take(struct weft__stack_pool *pool, struct weft__stack_cache *cache,
                     size_t size_bytes, void **block, void **low)
{
    if (weft__likely(is_cached(pool, cache, size_bytes) && cache->count > 0)) {
        *block = cache->slots[--cache->count];
        if (weft__likely(cache->count >=
                         PREFETCHED)) { // who spawns one thread often spawns another
            prefetch_block(cache->slots[cache->count - PREFETCHED]);
        }
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
        if (slot >= base && slot < base + slab->slots * slab->stride) {
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
    for (size_t stride = weft__slab_stride(size_bytes); start < end; start += stride) {
        struct weft__slab *slab = slab_of(group, start);
        const char *base = atomic_load_explicit(&slab->base, memory_order_relaxed);
        set_cold(group, slab, (uint32_t)((size_t)(start - base) / slab->stride), true);
    }
    weft__lock_release(&pool->lock);
}

// Neighbouring slots that go together.
struct run {
    char *start; // NULL: none
    char *end;
};

static void zap_slot(struct weft__stack_pool *pool, size_t size_bytes, struct run *run, char *slot)
{
    size_t stride = weft__slab_stride(size_bytes);
    if (run->start != NULL && slot == run->end) {
        run->end += stride;
    } else if (run->start != NULL && slot + stride == run->start) {
        run->start = slot;
    } else {
        if (run->start != NULL) {
            zap_run(pool, size_bytes, run->start, run->end);
        }
        *run = (struct run){ slot, slot + stride };
    }
}

// A batch is read before its own pages can go: it is the last of its slots.
static void zap(struct weft__stack_pool *pool, size_t size_bytes, struct batch *batch)
{
    struct run run = { NULL, NULL };
    while (batch != NULL) {
        struct batch *next = batch->next;
        for (int i = 0; i < batch->count; i++) {
            zap_slot(pool, size_bytes, &run, slot_of(batch->others[i], size_bytes));
        }
        zap_slot(pool, size_bytes, &run, slot_of(batch, size_bytes));
        batch = next;
    }
    if (run.start != NULL) {
        zap_run(pool, size_bytes, run.start, run.end);
    }
}

// Under the lock. Takes batches off until no more than `most` slots are left in others.
static struct batch *take_off(struct group *group, int most)
{
    struct batch *first = group->warm;
    struct batch **link = &group->warm;
    if (group->warm_count <= most) {
        return NULL;
    }
    while (*link != NULL && group->warm_count > most) {
        count_warm(group, -1 - (*link)->count);
        link = &(*link)->next;
    }
    struct batch *rest = *link;
    *link = NULL;
    group->warm = rest;
    return first;
}

static int warm_limit(const struct weft__stack_pool *pool, size_t size_bytes)
{
    return is_default(pool, size_bytes) ? pool->warm_max : (int)(WARM_MAX_BYTES / size_bytes);
}

/// At once, and some more, so that it is not for each one; but not too many. True: there are still more than
/// the limit.
static bool shed(struct weft__stack_pool *pool, size_t size_bytes)
{
    struct group *group = group_of(pool, size_bytes);
    struct batch *surplus = NULL;
    int limit = warm_limit(pool, size_bytes);
    weft__lock_acquire(&pool->lock);
    if (group->warm_count > limit) {
        int most = group->warm_count - ZAP_AT_ONCE;
        surplus = take_off(group, most > limit - limit / 4 ? most : limit - limit / 4);
    }
    bool many = group->warm_count > limit;
    weft__lock_release(&pool->lock);
    zap(pool, size_bytes, surplus);
    return many;
}

bool weft__stack_shed(struct weft__stack_pool *pool)
{
    return shed(pool, atomic_load_explicit(&pool->default_bytes, memory_order_relaxed));
}

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

// Under the lock. What was needed since the last look is needed, whatever that has found.
static void look(struct group *group, int limit, weft_time now)
{
    int idle = group->warm_least > limit ? group->warm_least - limit : 0;
    if (now >= group->looked + LOOK_EVERY_NS) {
        group->unneeded = idle;
        group->warm_least = group->warm_count;
        group->looked = now;
    }
    group->unneeded = lesser(group->unneeded, idle);
}

// Under the lock. When there is something to do again.
static weft_time next_trim(const struct group *group, int limit, weft_time now)
{
    if (group->warm_count <= limit) {
        return WEFT_FOREVER;
    }
    return group->unneeded > 0 ? now + ZAP_EVERY_NS : group->looked + LOOK_EVERY_NS;
}

weft_time weft__stack_trim(struct weft__stack_pool *pool, weft_time now)
{
    size_t size_bytes = atomic_load_explicit(&pool->default_bytes, memory_order_relaxed);
    struct group *group = group_of(pool, size_bytes);
    int limit = pool->warm_max;
    weft__lock_acquire(&pool->lock);
    look(group, limit, now);
    int before = group->warm_count;
    int most = lesser(group->unneeded, ZAP_AT_ONCE);
    struct batch *surplus = take_off(group, before - most > limit ? before - most : limit);
    int taken = before - group->warm_count;
    group->unneeded = group->unneeded > taken ? group->unneeded - taken : 0;
    weft_time next = next_trim(group, limit, now);
    weft__lock_release(&pool->lock);
    zap(pool, size_bytes, surplus);
    return next;
}

// Takes `count` blocks, which are listed in the last of them. True: the pool has more than it keeps.
static bool give_to_pool(struct weft__stack_pool *pool, size_t size_bytes, void *const *blocks,
                         int count)
{
    struct group *group = group_of(pool, size_bytes);
    struct batch *batch = blocks[count - 1];
    batch->count = count - 1;
    memcpy(batch->others, blocks, (size_t)batch->count * sizeof batch->others[0]);
    weft__lock_acquire(&pool->lock);
    batch->next = group->warm;
    group->warm = batch;
    count_warm(group, count);
    bool many = group->warm_count > warm_limit(pool, size_bytes);
    weft__lock_release(&pool->lock);
    return many;
}

// Sends the oldest batch, or what there is, to the pool. Returns as give_to_pool().
static WEFT__NOINLINE bool cache_shrink(struct weft__stack_pool *pool,
                                        struct weft__stack_cache *cache)
{
    int count = cache->count < pool->batch ? cache->count : pool->batch;
    bool many = give_to_pool(pool, atomic_load(&pool->default_bytes), cache->slots, count);
    cache->count -= count;
    memmove(cache->slots, cache->slots + count, (size_t)cache->count * sizeof cache->slots[0]);
    return many;
}

bool weft__stack_give(struct weft__stack_pool *pool, struct weft__stack_cache *cache, void *block,
                      size_t size_bytes)
{
    bool many = false;
    announce_end(block, size_bytes);
    if (!is_cached(pool, cache, size_bytes)) {
        many = give_to_pool(pool, size_bytes, &block, 1);
        if (many && !is_default(pool, size_bytes)) {
            (void)shed(pool, size_bytes); // there is never much
            return false;
        }
        return many;
    }
    if (weft__unlikely(cache->count == pool->cache_slots)) {
        many = cache_shrink(pool, cache);
    }
    cache->slots[cache->count++] = block;
    return many;
}

void weft__stack_cache_drain(struct weft__stack_pool *pool, struct weft__stack_cache *cache)
{
    while (cache->count > 0) {
        (void)cache_shrink(pool, cache);
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
