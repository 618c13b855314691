// slab_test.c - guards, stack providers, exhaustion and large numbers of stacks.
#include "support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <weft/runtime.h>

#include "base/sys.h"
#include "task/slab.h"
#include "task/guard.h"
#include "task/stack.h"

#define KIB ((size_t)1024)
#define SIZE (128 * KIB)
#define BLOCK_BYTES 576

static bool readable(const void *address)
{
    int fd = weft__sys_eventfd(0);
    CHECK_OK(fd);
    int rc = weft__sys_write_all(fd, (const char *)((uintptr_t)address & ~(uintptr_t)7), 8);
    weft__sys_close(fd);
    return rc != -EFAULT;
}

// A stack provider that counts and can be told to refuse.
struct provider {
    struct weft_stack_provider base;
    int maps;
    int unmaps;
    size_t max_bytes; // refuses more at once
    int left;         // refuses when it is 0
    bool lock;
};

static int provider_map(void *ctx, void **base, size_t size_bytes, size_t align)
{
    struct provider *provider = ctx;
    if (size_bytes > provider->max_bytes || provider->left == 0) {
        return -ENOMEM;
    }
    CHECK_OK(weft__sys_map(base, size_bytes, align));
    if (provider->lock && mlock(*base, size_bytes) < 0) {
        SKIP("may not lock memory");
    }
    provider->left--;
    provider->maps++;
    return 0;
}

static void provider_unmap(void *ctx, void *base, size_t size_bytes)
{
    struct provider *provider = ctx;
    memset(base, 1, size_bytes); // all of it can be used again: no guard is left behind
    weft__sys_unmap(base, size_bytes);
    provider->unmaps++;
}

static struct weft__stack_pool *make_pool(struct provider *provider)
{
    struct weft__stack_config config = { .block_bytes = BLOCK_BYTES, .cache_slots = 4 };
    if (provider != NULL) {
        provider->base = (struct weft_stack_provider){ provider_map, provider_unmap, provider };
        config.provider = &provider->base;
    }
    struct weft__stack_pool *pool;
    CHECK_OK(weft__stack_pool_create(&pool, &config));
    return pool;
}

static int take(struct weft__stack_pool *pool, size_t size_bytes, char **block, char **low)
{
    void *block_at;
    void *low_at;
    int rc = weft__stack_take(pool, NULL, size_bytes, &block_at, &low_at);
    *block = block_at;
    *low = low_at;
    return rc;
}

TEST(a_guard_lies_below_every_stack)
{
    struct weft__stack_pool *pool = make_pool(NULL);
    for (size_t size = SIZE; size <= 1024 * SIZE; size *= 4) {
        char *block;
        char *low;
        struct weft__guard_owner found = { NULL, 0 };
        CHECK_OK(take(pool, size, &block, &low));
        CHECK(readable(low));
        CHECK(!readable(low - 8));
        CHECK(!readable(low - WEFT__STACK_GUARD_BYTES));
        CHECK(weft__slab_find_guard(low - 1, &found));
        CHECK_EQ(found.block, block);
        CHECK(weft__slab_find_guard(low - WEFT__STACK_GUARD_BYTES, &found));
        CHECK_EQ(found.block, block);
        CHECK(!weft__slab_find_guard(low, &found));
        CHECK(!weft__slab_find_guard(block, &found));
    }
    int elsewhere = 0;
    struct weft__guard_owner found;
    CHECK(!weft__slab_find_guard(&elsewhere, &found));
    CHECK(!weft__slab_find_guard(NULL, &found));
    CHECK_EQ(weft__guard_missing(), 0);
    weft__stack_pool_destroy(pool);
}

TEST(a_provider_gets_all_its_memory_back_without_guards)
{
    struct provider provider = { .max_bytes = SIZE_MAX, .left = 100 };
    struct weft__stack_pool *pool = make_pool(&provider);
    char *block;
    char *low;
    for (int i = 0; i < 50; i++) {
        CHECK_OK(take(pool, SIZE, &block, &low));
        CHECK(!readable(low - 1));
    }
    CHECK_OK(take(pool, 4 * SIZE, &block, &low));
    CHECK_GE(provider.maps, 2);
    weft__stack_pool_destroy(pool);
    CHECK_EQ(provider.unmaps, provider.maps);
    struct weft__guard_owner found;
    CHECK(!weft__slab_find_guard(low - 1, &found));
}

TEST(memory_that_cannot_be_marked_is_guarded_by_mappings)
{
    struct provider provider = { .max_bytes = 8 * SIZE, .left = 4, .lock = true };
    struct weft__stack_pool *pool = make_pool(&provider);
    char *block;
    char *low;
    for (int i = 0; i < 10; i++) {
        CHECK_OK(take(pool, SIZE, &block, &low));
        CHECK(!readable(low - 1));
        CHECK(readable(low));
    }
    CHECK_EQ(weft__guard_missing(), 0);
    weft__stack_pool_destroy(pool);
    CHECK_EQ(provider.unmaps, provider.maps);
}

TEST(a_provider_short_of_space_is_asked_for_less)
{
    struct provider provider = { .max_bytes = SIZE + weft__sys_page_bytes(), .left = 5 };
    struct weft__stack_pool *pool = make_pool(&provider);
    char *block;
    char *low;
    for (int i = 0; i < 5; i++) {
        CHECK_OK(take(pool, SIZE, &block, &low));
    }
    CHECK_EQ(provider.maps, 5);
    CHECK_EQ(take(pool, SIZE, &block, &low), -ENOMEM);
    CHECK_EQ(block, NULL);
    CHECK_EQ(take(pool, 2 * SIZE, &block, &low), -ENOMEM);
    weft__stack_pool_destroy(pool);
    CHECK_EQ(provider.unmaps, 5);
}

TEST(an_exhausted_pool_recovers_when_a_slot_comes_back)
{
    struct provider provider = { .max_bytes = SIZE + weft__sys_page_bytes(), .left = 1 };
    struct weft__stack_pool *pool = make_pool(&provider);
    char *first;
    char *block;
    char *low;
    CHECK_OK(take(pool, SIZE, &first, &low));
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(take(pool, SIZE, &block, &low), -ENOMEM);
        weft__stack_give(pool, NULL, first, SIZE);
        CHECK_OK(take(pool, SIZE, &block, &low));
        CHECK_EQ(block, first);
    }
    weft__stack_pool_destroy(pool);
}

static void *no_memory(void *ctx, size_t size_bytes, size_t align)
{
    (void)ctx;
    (void)size_bytes;
    (void)align;
    return NULL;
}

static void never_called(void *ctx, void *memory, size_t size_bytes)
{
    (void)ctx;
    FAIL("free(%p, %zu)", memory, size_bytes);
}

TEST(a_pool_without_memory_is_an_error)
{
    struct weft_allocator allocator = { no_memory, never_called, NULL };
    struct weft__stack_config config = {
        .allocator = &allocator,
        .block_bytes = BLOCK_BYTES,
        .cache_slots = 4,
    };
    struct weft__stack_pool *pool = (void *)&config;
    CHECK_EQ(weft__stack_pool_create(&pool, &config), -ENOMEM);
    CHECK_EQ(pool, NULL);
}

static int count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    int lines = 0;
    for (int c; (c = fgetc(maps)) != EOF;) {
        lines += c == '\n';
    }
    fclose(maps);
    return lines;
}

// Guards take page tables, 256 bytes a stack of this size, which is why it is not a million here.
TEST(a_hundred_thousand_stacks_need_few_mappings)
{
    uint64_t count = test_scaled(100000);
    struct weft__stack_pool *pool = make_pool(NULL);
    char **blocks = malloc(count * sizeof *blocks);
    CHECK(blocks != NULL);
    int before = count_mappings();
    for (uint64_t i = 0; i < count; i++) {
        char *low;
        CHECK_OK(take(pool, SIZE, &blocks[i], &low));
    }
    if (weft__guard_missing() == 0) {
        CHECK_LE(count_mappings() - before, WEFT__SIZED(200, 4000));
    }
    for (uint64_t i = 0; i < count; i++) {
        weft__stack_give(pool, NULL, blocks[i], SIZE);
    }
    free(blocks);
    weft__stack_pool_destroy(pool);
}
