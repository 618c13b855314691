// sched_pool.h - a scheduler: a fixed pool of OS threads that take turns at one queue.
//
// The queue is linked through the tasks' attachments, so nothing is allocated and nothing can fail.
#ifndef EXAMPLE_SCHED_POOL_H
#define EXAMPLE_SCHED_POOL_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <weft.h>

#define POOL_MOST_THREADS 16

struct pool {
    struct weft_scheduler base; // first: weft knows the pool by it
    pthread_mutex_t mutex;
    pthread_cond_t ready;
    weft_task *first; // under mutex, linked by weft_task_attachment()
    weft_task *last;
    bool stop;
    uint64_t runs;
    pthread_t threads[POOL_MOST_THREADS];
    int count;
};

static void pool_push(struct weft_scheduler *base, weft_task *task)
{
    struct pool *pool = (struct pool *)base;
    weft_task_attach(task, NULL);
    pthread_mutex_lock(&pool->mutex);
    if (pool->first == NULL) {
        pool->first = task;
    } else {
        weft_task_attach(pool->last, task);
    }
    pool->last = task;
    pthread_cond_signal(&pool->ready);
    pthread_mutex_unlock(&pool->mutex);
}

// NULL when the pool ends.
static weft_task *pool_take(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    while (pool->first == NULL && !pool->stop) {
        pthread_cond_wait(&pool->ready, &pool->mutex);
    }
    weft_task *task = pool->first;
    if (task != NULL) {
        pool->first = (weft_task *)weft_task_attachment(task);
        pool->runs++;
    }
    pthread_mutex_unlock(&pool->mutex);
    return task;
}

static void *pool_thread(void *arg)
{
    struct pool *pool = (struct pool *)arg;
    weft_task *task;
    while ((task = pool_take(pool)) != NULL) {
        if (weft_task_run(task) < 0) { // it was given to us, and once: nothing else can be wrong
            abort();
        }
    }
    return NULL;
}

static void pool_publish(struct weft_scheduler *base, weft_stat_fn report, void *ctx)
{
    struct pool *pool = (struct pool *)base;
    pthread_mutex_lock(&pool->mutex);
    uint64_t runs = pool->runs;
    pthread_mutex_unlock(&pool->mutex);
    report(ctx, "threads", (uint64_t)pool->count);
    report(ctx, "runs", runs);
}

// No task is left, so the threads are idle, or about to be.
static void pool_destroy(struct weft_scheduler *base)
{
    struct pool *pool = (struct pool *)base;
    pthread_mutex_lock(&pool->mutex);
    pool->stop = true;
    pthread_cond_broadcast(&pool->ready);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->count; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_cond_destroy(&pool->ready);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

static const struct weft_scheduler_ops pool_ops = { pool_push, pool_push, pool_publish,
                                                    pool_destroy };

// The caller has a reference, and ends it with weft_scheduler_release(). A pool of one thread keeps
// every task on it, so it takes threads that are not migratable, too.
static inline int pool_create(struct pool **out, int threads)
{
    struct pool *pool = (struct pool *)calloc(1, sizeof *pool);
    *out = NULL;
    if (pool == NULL || threads < 1 || threads > POOL_MOST_THREADS) {
        free(pool);
        return pool == NULL ? -ENOMEM : -EINVAL;
    }
    weft_scheduler_init(&pool->base, &pool_ops, "pool",
                        threads == 1 ? WEFT_SCHEDULER_KEEPS_THREAD : 0);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->ready, NULL);
    int rc = 0;
    while (pool->count < threads && rc == 0) {
        rc = -pthread_create(&pool->threads[pool->count], NULL, pool_thread, pool);
        pool->count += rc == 0;
    }
    if (rc < 0) {
        weft_scheduler_release(&pool->base);
        return rc;
    }
    *out = pool;
    return 0;
}

#endif
