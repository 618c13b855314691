// blocks_test.c - control blocks of futures: each is somebody's once, and they travel between caches.
#include "support/test.h"

#include <pthread.h>
#include <stdlib.h>

#include "task/blocks.h"

enum { MANY = 1000 };

static int count_block(void *block, void *arg)
{
    (void)block;
    ++*(int *)arg;
    return 0;
}

static int made(struct weft__blocks *blocks)
{
    int count = 0;
    CHECK_EQ(weft__blocks_each(blocks, count_block, &count), 0);
    return count;
}

static void take_all(struct weft__blocks *blocks, struct weft__block_cache *cache,
                     struct weft__task **tasks)
{
    for (int i = 0; i < MANY; i++) {
        tasks[i] = weft__block_take(blocks, cache);
        CHECK(tasks[i] != NULL);
        CHECK_EQ(weft__word_peek(tasks[i]), 0);
        CHECK_EQ(tasks[i]->line, 0); // not taken by anybody else
        tasks[i]->line = 1;
    }
}

static void give_all(struct weft__blocks *blocks, struct weft__block_cache *cache,
                     struct weft__task **tasks)
{
    for (int i = 0; i < MANY; i++) {
        tasks[i]->line = 0;
        weft__block_give(blocks, cache, tasks[i]);
    }
}

TEST(what_one_takes_another_may_give)
{
    struct weft__blocks blocks = { 0 };
    struct weft__block_cache taker = { 0 };
    struct weft__block_cache giver = { 0 };
    struct weft__task *tasks[MANY];
    take_all(&blocks, &taker, tasks);
    give_all(&blocks, &giver, tasks);
    int before = made(&blocks);
    for (int round = 0; round < 20; round++) {
        take_all(&blocks, &taker, tasks);
        give_all(&blocks, &giver, tasks);
    }
    CHECK(made(&blocks) <= before + 200); // two batches stay behind
    weft__blocks_fini(&blocks);
}

TEST(who_has_no_cache_takes_and_gives_one_at_a_time)
{
    struct weft__blocks blocks = { 0 };
    struct weft__block_cache cache = { 0 };
    struct weft__task *tasks[MANY];
    take_all(&blocks, NULL, tasks);
    int before = made(&blocks);
    give_all(&blocks, NULL, tasks);
    take_all(&blocks, &cache, tasks);
    CHECK_EQ(made(&blocks), before);
    give_all(&blocks, NULL, tasks);
    take_all(&blocks, NULL, tasks);
    CHECK(made(&blocks) <= before + 200); // what the cache has kept
    weft__blocks_fini(&blocks);
}

TEST(the_next_one_is_the_one_that_was_given_last)
{
    struct weft__blocks blocks = { 0 };
    struct weft__block_cache cache = { 0 };
    struct weft__task *one = weft__block_take(&blocks, &cache);
    struct weft__task *other = weft__block_take(&blocks, &cache);
    CHECK(one != NULL && other != NULL && one != other);
    weft__block_give(&blocks, &cache, other);
    weft__block_give(&blocks, &cache, one);
    CHECK(weft__block_take(&blocks, &cache) == one);
    CHECK(weft__block_take(&blocks, &cache) == other);
    weft__blocks_fini(&blocks);
}

enum { THREADS = 3, ROUNDS = 30 };
static struct weft__blocks shared;

static void *take_and_give(void *arg)
{
    struct weft__block_cache own = { 0 };
    struct weft__block_cache *cache = arg != NULL ? &own : NULL;
    struct weft__task *tasks[MANY];
    for (int round = 0; round < ROUNDS; round++) {
        take_all(&shared, cache, tasks);
        give_all(&shared, cache, tasks);
    }
    return NULL;
}

TEST(threads_share_what_they_do_not_keep)
{
    pthread_t threads[THREADS];
    int dummy;
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, take_and_give, i > 0 ? &dummy : NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK(made(&shared) <= THREADS * (MANY + 200));
    weft__blocks_fini(&shared);
}
