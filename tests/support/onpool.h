// onpool.h - tests that run on a pool of OS threads, which is a scheduler (examples/sched_pool.h).
#ifndef WEFT_TEST_ONPOOL_H
#define WEFT_TEST_ONPOOL_H

#include "support/test.h"

#include "../../examples/sched_pool.h"

#include <stdatomic.h>

#define THREADS 3

static struct pool *pool;

static inline struct weft_attr on_pool(void)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.scheduler = &pool->base;
    attr.migratable = true;
    return attr;
}

/// Runs body(arg) as a task of a pool of `threads`, in a fresh runtime of two carriers.
static inline int start_on_pool(void *arg)
{
    struct weft_attr attr = on_pool();
    weft_task *task;
    int result = 0;
    attr.migratable = pool->count > 1;
    CHECK_OK(weft_spawn(&task, *(weft_fn *)arg, NULL, &attr));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    return result;
}

static inline void run_on_pool(weft_fn body, int threads)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    CHECK_OK(pool_create(&pool, threads));
    CHECK_OK(weft_run(start_on_pool, &body, &options));
    weft_scheduler_release(&pool->base);
}

static inline bool is_of_pool(pthread_t thread)
{
    for (int i = 0; i < pool->count; i++) {
        if (pthread_equal(pool->threads[i], thread)) {
            return true;
        }
    }
    return false;
}

/// Not inlined, and opaque: what a compiler remembers of the thread before a park is wrong after it.
__attribute__((noinline, unused)) static void check_on_pool(void)
{
    __asm__ volatile("");
    CHECK(is_of_pool(pthread_self()));
    CHECK_EQ(weft_carrier_id(), -1);
    CHECK_EQ(weft_carrier_count(), 2);
    CHECK(weft_runtime_current() != NULL);
}

static inline int waits_for_cancel(void *arg)
{
    atomic_int *ready = arg;
    atomic_fetch_add(ready, 1);
    int rc = weft_sleep(WEFT_FOREVER);
    check_on_pool();
    return rc;
}

#endif
