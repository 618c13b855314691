// stack_test.c - the pool of stacks: geometry, caches, give-back, guards, exhaustion.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/runtime.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "task/guard.h"
#include "task/stack.h"

#define KIB ((size_t)1024)
#define DEFAULT_SIZE (256 * KIB)
#define BLOCK_BYTES 576

struct slot {
    char *block;
    char *low;
    size_t size_bytes;
};

static struct weft__stack_pool *make_pool(int cache_slots,
                                          const struct weft_stack_provider *provider)
{
    struct weft__stack_config config = {
        .provider = provider,
        .block_bytes = BLOCK_BYTES,
        .cache_slots = cache_slots,
    };
    struct weft__stack_pool *pool;
    CHECK_OK(weft__stack_pool_create(&pool, &config));
    return pool;
}

static struct slot take(struct weft__stack_pool *pool, struct weft__stack_cache *cache,
                        size_t size_bytes)
{
    void *block;
    void *low;
    CHECK_OK(weft__stack_take(pool, cache, size_bytes, &block, &low));
    return (struct slot){ block, low, size_bytes };
}

/// True: the pool has more than it keeps.
static bool give(struct weft__stack_pool *pool, struct weft__stack_cache *cache, struct slot slot)
{
    return weft__stack_give(pool, cache, slot.block, slot.size_bytes);
}

static char *slot_base(struct slot slot)
{
    return slot.low - WEFT__STACK_GUARD_BYTES;
}

// The kernel's opinion, so that asking does not end the test.
static bool readable(const void *address)
{
    int fd = weft__sys_eventfd(0);
    CHECK_OK(fd);
    int rc = weft__sys_write_all(fd, (const char *)((uintptr_t)address & ~(uintptr_t)7), 8);
    weft__sys_close(fd);
    return rc != -EFAULT;
}

static bool is_zero(const char *memory, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (memory[i] != 0) {
            return false;
        }
    }
    return true;
}

// ---------------------------------------------------------------------------------------------
// Geometry.

static void check_slot(struct slot slot)
{
    CHECK_EQ((uintptr_t)slot.block % WEFT__LINE, 0);
    CHECK_EQ((uintptr_t)slot_base(slot) % weft__sys_page_bytes(), 0);
    CHECK_LE(slot.block + BLOCK_BYTES, slot_base(slot) + slot.size_bytes);
    CHECK_GE(slot.block - slot.low,
             (ptrdiff_t)(slot.size_bytes - WEFT__STACK_GUARD_BYTES - 1024 - BLOCK_BYTES));
    // Block and at least 2 KiB of frames share a page.
    CHECK_GE((uintptr_t)slot.block % 4096, 2048);
    CHECK_LE((uintptr_t)slot.block % 4096 + BLOCK_BYTES, 4096);
    memset(slot.block, 0xa5, BLOCK_BYTES);
    memset(slot.block - 2048, 0x5a, 2048);
    *slot.low = 1;
}

TEST(every_size_has_room_for_block_and_stack)
{
    struct weft__stack_pool *pool = make_pool(4, NULL);
    for (size_t size = WEFT__STACK_MIN_BYTES; size <= WEFT__STACK_MAX_BYTES; size *= 2) {
        struct slot slots[3];
        for (int i = 0; i < 3; i++) {
            slots[i] = take(pool, NULL, size);
            check_slot(slots[i]);
            for (int j = 0; j < i; j++) {
                CHECK_NE(slot_base(slots[i]), slot_base(slots[j]));
            }
        }
        for (int i = 0; i < 3; i++) {
            give(pool, NULL, slots[i]);
        }
    }
    weft__stack_pool_destroy(pool);
}

TEST(other_sizes_are_refused)
{
    static const size_t sizes[] = { 0,       4096, 64 * KIB, 192 * KIB, 257 * KIB, (size_t)2 << 30,
                                    SIZE_MAX };
    struct weft__stack_pool *pool = make_pool(4, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = pool;
        void *low = pool;
        CHECK_EQ(weft__stack_take(pool, NULL, sizes[i], &block, &low), -EINVAL);
        CHECK_EQ(block, NULL);
        CHECK_EQ(low, NULL);
    }
    weft__stack_pool_destroy(pool);
    struct weft__stack_config config = { .block_bytes = 1025, .cache_slots = 1 };
    CHECK_EQ(weft__stack_pool_create(&pool, &config), -EINVAL);
    CHECK_EQ(pool, NULL);
}

TEST(neighbours_have_different_colours)
{
    enum { SLOTS = 128 };
    struct weft__stack_pool *pool = make_pool(4, NULL);
    bool seen[256] = { false }; // what a TLB may look at of a page's number
    int pages = 0;
    size_t lines = 0; // bit n: some block starts at line n of its page
    for (int i = 0; i < SLOTS; i++) {
        struct slot slot = take(pool, NULL, DEFAULT_SIZE);
        size_t page = (uintptr_t)slot.block / weft__sys_page_bytes() % 256;
        pages += !seen[page];
        seen[page] = true;
        lines |= (size_t)1 << (uintptr_t)slot.block / WEFT__LINE % 64;
    }
    CHECK_GE(pages, 48); // each slab starts anew
    CHECK_EQ(__builtin_popcountll(lines), 16);
    weft__stack_pool_destroy(pool);
}

TEST(a_sleeping_thread_needs_one_page)
{
    if (weft__sys_page_bytes() != 4096) {
        SKIP("larger pages");
    }
    struct weft__stack_pool *pool = make_pool(4, NULL);
    for (int i = 0; i < 40; i++) {
        struct slot slot = take(pool, NULL, DEFAULT_SIZE);
        memset(slot.block - 1536, 1, 1536 + BLOCK_BYTES);
        unsigned char pages[DEFAULT_SIZE / 4096];
        int resident = 0;
        size_t usable = DEFAULT_SIZE - WEFT__STACK_GUARD_BYTES;
        CHECK_OK(weft__sys_resident(slot.low, usable, pages));
        for (size_t page = 0; page < usable / 4096; page++) {
            resident += pages[page] & 1;
        }
        CHECK_EQ(resident, 1);
    }
    weft__stack_pool_destroy(pool);
}

TEST(touched_is_the_distance_to_the_deepest_page)
{
    size_t page = weft__sys_page_bytes();
    struct weft__stack_pool *pool = make_pool(4, NULL);
    struct slot slot = take(pool, NULL, DEFAULT_SIZE);
    char *end = slot.block + BLOCK_BYTES;
    char *top = (char *)(((uintptr_t)end + page - 1) & ~(page - 1));
    CHECK_EQ(weft__stack_touched(slot.low, end), 0);
    slot.block[0] = 1;
    CHECK_EQ(weft__stack_touched(slot.low, end), page);
    *(top - 5 * page) = 1;
    CHECK_EQ(weft__stack_touched(slot.low, end), 5 * page);
    slot.low[0] = 1;
    CHECK_EQ(weft__stack_touched(slot.low, end), top - slot.low);
    weft__stack_pool_destroy(pool);
}

// ---------------------------------------------------------------------------------------------
// Caches and give-back.

TEST(a_cache_gives_the_warmest_slot_first)
{
    struct weft__stack_pool *pool = make_pool(8, NULL);
    struct weft__stack_cache cache = { 0 };
    struct slot first = take(pool, &cache, DEFAULT_SIZE);
    struct slot second = take(pool, &cache, DEFAULT_SIZE);
    give(pool, &cache, first);
    CHECK_EQ(take(pool, &cache, DEFAULT_SIZE).block, first.block);
    CHECK_EQ(cache.count, 0);
    give(pool, &cache, second);
    CHECK_EQ(cache.count, 1);
    CHECK_EQ(take(pool, &cache, DEFAULT_SIZE).block, second.block);
    weft__stack_pool_destroy(pool);
}

TEST(only_one_size_is_cached)
{
    struct weft__stack_pool *pool = make_pool(8, NULL);
    struct weft__stack_cache cache = { 0 };
    give(pool, &cache, take(pool, &cache, DEFAULT_SIZE));
    CHECK_EQ(cache.count, 1);
    struct slot large = take(pool, &cache, 4 * DEFAULT_SIZE);
    CHECK_EQ(cache.count, 1);
    give(pool, &cache, large);
    CHECK_EQ(cache.count, 1);
    CHECK_EQ(take(pool, &cache, 4 * DEFAULT_SIZE).block, large.block);
    weft__stack_pool_destroy(pool);
}

TEST(the_cached_size_may_be_given_in_advance)
{
    struct weft__stack_config config = {
        .block_bytes = BLOCK_BYTES,
        .cache_slots = 8,
        .default_bytes = DEFAULT_SIZE,
    };
    struct weft__stack_pool *pool;
    struct weft__stack_cache cache = { 0 };
    CHECK_OK(weft__stack_pool_create(&pool, &config));
    give(pool, &cache, take(pool, &cache, 2 * DEFAULT_SIZE));
    CHECK_EQ(cache.count, 0);
    give(pool, &cache, take(pool, &cache, DEFAULT_SIZE));
    CHECK_EQ(cache.count, 1);
    weft__stack_pool_destroy(pool);
}

TEST(an_overfull_cache_feeds_another)
{
    enum { SLOTS = 20 };
    int cache_slots = WEFT__SIZED(8, 1);
    struct weft__stack_pool *pool = make_pool(cache_slots, NULL);
    struct weft__stack_cache mine = { 0 };
    struct weft__stack_cache other = { 0 };
    struct slot slots[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        slots[i] = take(pool, &mine, DEFAULT_SIZE);
    }
    for (int i = 0; i < cache_slots + 1; i++) {
        CHECK_LE(mine.count, cache_slots);
        memset(slots[i].block, 0x77, 64);
        give(pool, &mine, slots[i]);
    }
    int kept = mine.count;
    CHECK_LT(kept, cache_slots + 1);
    struct slot again = take(pool, &other, DEFAULT_SIZE);
    CHECK_EQ(again.block[32], 0x77); // warm: it was not given back to the kernel
    CHECK_LE(other.count, cache_slots / 2);
    CHECK_EQ(mine.count, kept);
    weft__stack_pool_destroy(pool);
}

TEST(drained_caches_lose_nothing)
{
    enum { SLOTS = 100 };
    struct weft__stack_pool *pool = make_pool(8, NULL);
    struct weft__stack_cache cache = { 0 };
    struct slot slots[SLOTS];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < SLOTS; i++) {
            slots[i] = take(pool, &cache, DEFAULT_SIZE);
            memset(slots[i].block, i, BLOCK_BYTES);
        }
        for (int i = 0; i < SLOTS; i++) {
            CHECK_EQ(slots[i].block[BLOCK_BYTES - 1], (char)i); // nobody else has it
            give(pool, &cache, slots[i]);
        }
        weft__stack_cache_drain(pool, &cache);
        CHECK_EQ(cache.count, 0);
    }
    weft__stack_pool_destroy(pool);
}

TEST(idle_slots_give_their_pages_back_and_read_as_zero)
{
    enum { SLOTS = 64 };
    struct weft__stack_pool *pool = make_pool(1, NULL);
    struct slot slots[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        slots[i] = take(pool, NULL, DEFAULT_SIZE);
        memset(slots[i].low, 0xff, (size_t)(slots[i].block - slots[i].low) + BLOCK_BYTES);
    }
    for (int i = 0; i < SLOTS; i++) {
        memset(slots[i].block + WEFT__STACK_KEPT_FROM, 0, 8); // the task layer's word
        give(pool, NULL, slots[i]);
    }
    weft__stack_shed(pool);
    int cold = 0;
    for (int i = 0; i < SLOTS; i++) {
        CHECK(is_zero(slots[i].block + WEFT__STACK_KEPT_FROM, 8));
        cold += weft__stack_touched(slots[i].low, slots[i].block - 4096) == 0;
        CHECK(!readable(slots[i].low - 1)); // the guard stays
    }
    CHECK_GE(cold, SLOTS - 2);
    for (int i = 0; i < SLOTS; i++) {
        check_slot(take(pool, NULL, DEFAULT_SIZE));
    }
    weft__stack_pool_destroy(pool);
}

/// Takes all of them, and gives them back. True: the pool has more than it keeps.
static bool use(struct weft__stack_pool *pool, struct slot *slots, int count)
{
    bool many = false;
    for (int i = 0; i < count; i++) {
        slots[i] = take(pool, NULL, DEFAULT_SIZE);
        memset(slots[i].low, 0xff, (size_t)(slots[i].block - slots[i].low) + BLOCK_BYTES);
    }
    for (int i = 0; i < count; i++) {
        many = give(pool, NULL, slots[i]);
    }
    return many;
}

static int count_cold(const struct slot *slots, int count)
{
    int cold = 0;
    for (int i = 0; i < count; i++) {
        cold += weft__stack_touched(slots[i].low, slots[i].block - 4096) == 0;
    }
    return cold;
}

TEST(idle_slots_stay_warm_as_long_as_they_are_needed)
{
    enum { SLOTS = 300, LIMIT = 2 };
    struct weft__stack_pool *pool = make_pool(1, NULL);
    struct slot slots[SLOTS], some[SLOTS / 2];
    weft_time now = 5 * WEFT_S;
    CHECK(use(pool, slots, SLOTS));
    CHECK_EQ(weft__stack_trim(pool, now), now + WEFT_S); // all were in use
    CHECK_EQ(weft__stack_trim(pool, now + WEFT_S / 2),
             now + WEFT_S); // who asks too early is told so
    use(pool, some, SLOTS / 2);
    CHECK_EQ(count_cold(slots, SLOTS), 0);
    now += WEFT_S;
    weft_time next = weft__stack_trim(pool, now); // half of them were not needed
    CHECK_EQ(next, now + WEFT_MS);
    CHECK_EQ(weft__stack_trim(pool, next), now + WEFT_S);
    CHECK_EQ(count_cold(slots, SLOTS), SLOTS / 2 - LIMIT);
    now += WEFT_S;
    while (next != WEFT_FOREVER) {
        next = weft__stack_trim(pool, now);
        now += WEFT_MS;
    }
    CHECK_EQ(count_cold(slots, SLOTS), SLOTS - LIMIT);
    CHECK(!use(pool, some, LIMIT)); // what stays is enough for these
    weft__stack_pool_destroy(pool);
}

TEST(what_is_needed_while_idle_slots_go_stays_warm)
{
    enum { SLOTS = 300 };
    struct weft__stack_pool *pool = make_pool(1, NULL);
    struct slot slots[SLOTS];
    weft_time now = 5 * WEFT_S;
    CHECK(use(pool, slots, SLOTS));
    CHECK_EQ(weft__stack_trim(pool, now), now + WEFT_S);
    now += WEFT_S;
    CHECK_EQ(weft__stack_trim(pool, now), now + WEFT_MS); // none was needed, and some have gone
    CHECK(use(pool, slots, SLOTS));
    CHECK_EQ(weft__stack_trim(pool, now + WEFT_MS), now + WEFT_S);
    CHECK_EQ(count_cold(slots, SLOTS), 0);
    weft__stack_pool_destroy(pool);
}

TEST(a_later_pool_gets_the_same_memory_zeroed)
{
    enum { SLOTS = WEFT__SIZED(16 + 32, 4 + 8 + 16 + 32) }; // whole slabs
    char *before[SLOTS];
    struct weft__stack_pool *pool = make_pool(8, NULL);
    for (int i = 0; i < SLOTS; i++) {
        struct slot slot = take(pool, NULL, DEFAULT_SIZE);
        check_slot(slot);
        before[i] = slot.block;
    }
    weft__stack_pool_destroy(pool);
    for (int i = 0; i < SLOTS; i++) {
        CHECK(is_zero(before[i], BLOCK_BYTES)); // readable as long as the process lives
    }
    pool = make_pool(8, NULL);
    for (int i = 0; i < SLOTS; i++) {
        struct slot slot = take(pool, NULL, DEFAULT_SIZE);
        bool known = false;
        for (int j = 0; j < SLOTS; j++) {
            known |= slot.block == before[j];
        }
        CHECK(known);
        CHECK(is_zero(slot.block, BLOCK_BYTES));
        CHECK(!readable(slot.low - 1));
    }
    weft__stack_pool_destroy(pool);
}

// ---------------------------------------------------------------------------------------------
// Visiting.

static int mark(void *block, void *arg)
{
    ++*(int *)arg;
    CHECK(((char *)block)[16] == 0x11 || ((char *)block)[16] == 0);
    ((char *)block)[16] = 0x22;
    return 0;
}

static int stop_at_third(void *block, void *arg)
{
    (void)block;
    return ++*(int *)arg == 3 ? -ECANCELED : 0;
}

TEST(each_visits_every_slot_in_use_once)
{
    enum { SLOTS = 70 };
    struct weft__stack_pool *pool = make_pool(1, NULL);
    struct slot slots[SLOTS];
    int visits = 0;
    CHECK_EQ(weft__stack_pool_each(pool, mark, &visits), 0);
    CHECK_EQ(visits, 0);
    for (int i = 0; i < SLOTS; i++) {
        slots[i] = take(pool, NULL, i % 3 == 0 ? DEFAULT_SIZE : WEFT__STACK_MIN_BYTES << i % 7);
        slots[i].block[16] = 0x11;
    }
    CHECK_EQ(weft__stack_pool_each(pool, mark, &visits), 0);
    CHECK_EQ(visits, SLOTS);
    for (int i = 0; i < SLOTS; i++) {
        CHECK_EQ(slots[i].block[16], 0x22);
        slots[i].block[16] = 0;
    }
    visits = 0;
    CHECK_EQ(weft__stack_pool_each(pool, stop_at_third, &visits), -ECANCELED);
    CHECK_EQ(visits, 3);
    for (int i = 0; i < SLOTS; i++) {
        give(pool, NULL, slots[i]);
    }
    weft__stack_shed(pool);
    visits = 0;
    CHECK_EQ(weft__stack_pool_each(pool, mark, &visits), 0);
    CHECK_LE(visits, SLOTS / 2); // those that went cold are left out
    weft__stack_pool_destroy(pool);
}

struct crowd {
    struct weft__stack_pool *pool;
    _Atomic int stop;
    uint64_t seed;
};

/// At once, or as if a second had passed.
static void shrink(struct weft__stack_pool *pool, uint64_t *seed)
{
    static _Atomic weft_time now = WEFT_S;
    if (test_random(seed) % 2 == 0) {
        weft__stack_shed(pool);
    } else {
        (void)weft__stack_trim(pool, atomic_fetch_add(&now, WEFT_S));
    }
}

static void *take_and_give(void *arg)
{
    enum { HELD = 24 };
    struct crowd *crowd = arg;
    struct weft__stack_cache cache = { 0 };
    uint64_t seed = crowd->seed ^ (uintptr_t)&cache;
    struct slot held[HELD] = { { 0 } };
    for (uint64_t i = test_scaled(20000); i > 0; i--) {
        struct slot *slot = &held[test_random(&seed) % HELD];
        if (slot->block == NULL) {
            *slot = take(crowd->pool, test_random(&seed) % 4 == 0 ? NULL : &cache,
                         test_random(&seed) % 8 == 0 ? 2 * DEFAULT_SIZE : DEFAULT_SIZE);
            uintptr_t owner = (uintptr_t)slot;
            memcpy(slot->block + 64, &owner, sizeof owner);
        } else {
            uintptr_t owner;
            memcpy(&owner, slot->block + 64, sizeof owner);
            CHECK_EQ(owner, (uintptr_t)slot);
            if (give(crowd->pool, test_random(&seed) % 4 == 0 ? NULL : &cache, *slot)) {
                shrink(crowd->pool, &seed);
            }
            slot->block = NULL;
        }
    }
    weft__stack_cache_drain(crowd->pool, &cache);
    return NULL;
}

static int look(void *block, void *arg)
{
    _Atomic uint64_t *word = (_Atomic uint64_t *)block + WEFT__STACK_KEPT_FROM / sizeof *word;
    *(uint64_t *)arg += atomic_load_explicit(word, memory_order_relaxed);
    return 0;
}

static void *keep_visiting(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t sum = 0;
    while (atomic_load(&crowd->stop) == 0) {
        CHECK_EQ(weft__stack_pool_each(crowd->pool, look, &sum), 0);
    }
    return NULL;
}

TEST(threads_share_a_pool_while_others_look)
{
    struct crowd crowd = { .pool = make_pool(8, NULL), .seed = test_seed() };
    give(crowd.pool, NULL, take(crowd.pool, NULL, DEFAULT_SIZE)); // this size is cached
    pthread_t workers[4];
    pthread_t visitor;
    CHECK_EQ(pthread_create(&visitor, NULL, keep_visiting, &crowd), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_create(&workers[i], NULL, take_and_give, &crowd), 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_join(workers[i], NULL), 0);
    }
    atomic_store(&crowd.stop, 1);
    CHECK_EQ(pthread_join(visitor, NULL), 0);
    weft__stack_pool_destroy(crowd.pool);
}
