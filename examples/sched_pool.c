// sched_pool.c - tasks that compute have a pool of OS threads of their own, so that those that serve
// never wait for them. The pool is a scheduler (sched_pool.h).
//
//     $ sched_pool
//     10 numbers were summed up by 2 threads: 4500; the carrier ticked meanwhile
#include "sched_pool.h"

#include <stdatomic.h>
#include <stdio.h>

static atomic_ulong total;

static int compute(void *arg)
{
    unsigned long sum = 0;
    for (unsigned long i = 0; i < *(unsigned long *)arg * 100; i++) {
        sum += i % 100 == 0;
        if (i % 64 == 0 && weft_checkpoint() < 0) { // lets the pool's other tasks run
            return -ECANCELED;
        }
    }
    atomic_fetch_add(&total, sum);
    return weft_sleep(1 * WEFT_MS); // at home; then the pool goes on with it
}

static void find_threads(void *ctx, const char *name, uint64_t value)
{
    if (name[0] == 't') {
        *(uint64_t *)ctx = value;
    }
}

static int body(void *arg)
{
    struct pool *pool = arg;
    unsigned long numbers[10];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.scheduler = &pool->base;
    attr.migratable = true; // the pool has two threads
    struct weft_scope scope;
    int rc = weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    weft_scope_set_attr(&scope, &attr);
    for (unsigned long i = 0; i < 10; i++) {
        numbers[i] = i * 100;
        weft_scope_spawn(&scope, compute, &numbers[i]);
    }
    (void)weft_sleep(1 * WEFT_MS); // a tick of those that serve
    rc = weft_scope_join(&scope);
    uint64_t threads = 0;
    weft_scheduler_stats(&pool->base, find_threads, &threads);
    printf("10 numbers were summed up by %d threads: %lu; the carrier ticked meanwhile\n",
           (int)threads, atomic_load(&total));
    return rc;
}

int main(void)
{
    struct pool *pool;
    int rc = pool_create(&pool, 2);
    if (rc == 0) {
        rc = weft_run(body, pool, NULL);
        weft_scheduler_release(&pool->base);
    }
    return rc < 0;
}
