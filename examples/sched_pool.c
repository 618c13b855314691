// sched_pool.c - tasks that compute have a pool of OS threads of their own, so that those that serve
// never wait for them. The pool is a scheduler (sched_pool.h). Whatever a task does works there as on a
// carrier: it locks, sleeps, writes to a pipe.
//
//     $ sched_pool
//     10 numbers were summed up by 2 threads: 4500; the carrier ticked meanwhile
#include "sched_pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define NUMBERS 10

static struct {
    struct weft_mutex mutex;
    unsigned long total; // under mutex
    int done[2];         // a pipe: a byte for each number
} shared;

static int add_to_total(unsigned long sum)
{
    int rc = weft_mutex_lock(&shared.mutex, WEFT_FOREVER);
    if (rc == 0) {
        shared.total += sum;
        weft_mutex_unlock(&shared.mutex);
    }
    return rc;
}

static int compute(void *arg)
{
    unsigned long sum = 0;
    for (unsigned long i = 0; i < *(unsigned long *)arg * 100; i++) {
        sum += i % 100 == 0;
        if (i % 64 == 0 && weft_checkpoint() < 0) { // lets the pool's other tasks run
            return -ECANCELED;
        }
    }
    int rc = add_to_total(sum);
    rc = rc == 0 ? weft_sleep(1 * WEFT_MS) : rc; // at home; then the pool goes on with it
    return rc == 0 ? (int)weft_write(shared.done[1], "x", 1, WEFT_FOREVER) : rc; // likewise
}

/// The carrier's own work: it waits for the pool as it would for a peer.
static int count_the_done(void)
{
    char byte;
    for (int i = 0; i < NUMBERS; i++) {
        int64_t n = weft_read(shared.done[0], &byte, 1, weft_after(60 * WEFT_S));
        if (n != 1) {
            return n < 0 ? (int)n : -EIO;
        }
    }
    return 0;
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
    unsigned long numbers[NUMBERS];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.scheduler = &pool->base;
    attr.migratable = true; // the pool has two threads
    struct weft_scope scope;
    int rc = weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    weft_scope_set_attr(&scope, &attr);
    for (unsigned long i = 0; i < NUMBERS; i++) {
        numbers[i] = i * 100;
        weft_scope_spawn(&scope, compute, &numbers[i]);
    }
    (void)weft_sleep(1 * WEFT_MS); // a tick of those that serve
    int rc_done = count_the_done();
    rc = weft_scope_join(&scope);
    rc = rc == 0 ? rc_done : rc;
    uint64_t threads = 0;
    weft_scheduler_stats(&pool->base, find_threads, &threads);
    printf("10 numbers were summed up by %d threads: %lu; the carrier ticked meanwhile\n",
           (int)threads, shared.total);
    return rc;
}

int main(void)
{
    struct pool *pool;
    weft_mutex_init(&shared.mutex);
    if (pipe2(shared.done, O_CLOEXEC) < 0 || pool_create(&pool, 2) < 0) {
        return 1;
    }
    int rc = weft_run(body, pool, NULL);
    weft_scheduler_release(&pool->base);
    close(shared.done[0]);
    close(shared.done[1]);
    weft_mutex_fini(&shared.mutex);
    return rc < 0;
}
