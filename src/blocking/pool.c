// pool.c - a queue of jobs and the threads that serve it.
//
// The danger: a job is queued while the threads are going to sleep or to end, each believing that
// somebody else will look. Everything is decided under one lock, and each side leaves it knowing who
// looks next:
//
//     sending                                    a thread
//     queue the job                              take a job, or else:
//     more jobs than threads on their way?       late? leave, and end
//       call an idle one, or make a new one      stand in the idle list, unlock, sleep
//     unlock, wake the one that was called       called? it left the list: look at the queue
//
//   Q1  While a job is queued, a thread is on its way (called or made, and has not looked yet), or
//       all that there may be are busy; and a busy one looks before it sleeps. So no job is
//       forgotten.
//   Q2  A call takes its thread out of the idle list. So nobody is called twice, and a thread whose
//       time is up knows under the lock whether a call was faster.
//   Q3  No job is queued without a thread: the first one is made before its job is accepted.
//   Q4  Threads are called last in, first out, so that the surplus ones stay idle and end.
//   Q5  A thread that ends joins the one that ended before it; draining joins the last. So all are
//       joined, and nobody collects them while the pool is in use.
//
// A new thread is made under the lock: that keeps Q1 and Q3 simple, and growing is rare.
// Rejected: one condition variable for all (it wakes the longest idle, against Q4).
// Locks: pool.lock, alone. Checked by: tests/model/blocking_model.c, tests/api/blocking_test.c.
#include "blocking/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sys.h"
#include "sched/cpus.h"

#define THREAD_NAME_BYTES 16 // the kernel's limit

/// A thread while it is idle; on its own stack.
struct worker {
    struct worker *next;
    struct worker **link;
    _Atomic uint32_t called; // a futex; set under the lock by whoever took it off the list
};

struct weft__blocking {
    struct weft__blocking_config config; // fixed
    const struct weft__cpu_set *cpus;    // fixed; NULL: those of whoever makes a thread

    pthread_mutex_t lock;
    // Under lock.
    struct weft__job *first;
    struct weft__job **last; // where the next one is put
    struct worker *idle;     // most recent first
    uint32_t coming;         // threads that were called or made and have not looked yet
    uint32_t named;          // threads, ever
    bool draining;
    bool any_ended;
    pthread_t ended;                  // the last one to end, if any_ended; nobody has joined it yet
    struct weft_blocking_stats stats; // `running` is worked out when it is asked for

    pthread_cond_t empty; // there are no threads left
};

// The queue, under the lock.

static void push(struct weft__blocking *pool, struct weft__job *job)
{
    job->next = NULL;
    job->link = pool->last;
    job->queued_at = weft__clock_ns();
    *pool->last = job;
    pool->last = &job->next;
    pool->stats.queued++;
}

static void unlink_job(struct weft__blocking *pool, struct weft__job *job)
{
    *job->link = job->next;
    if (job->next != NULL) {
        job->next->link = job->link;
    } else {
        pool->last = job->link;
    }
    job->link = NULL;
    pool->stats.queued--;
}

static struct weft__job *take(struct weft__blocking *pool)
{
    struct weft__job *job = pool->first;
    if (job != NULL) {
        weft_time now = weft__clock_ns();
        weft_time waited = now > job->queued_at ? now - job->queued_at : 0;
        if (waited > pool->stats.longest_wait_ns) {
            pool->stats.longest_wait_ns = waited;
        }
        unlink_job(pool, job);
    }
    return job;
}

// The threads.

static void leave_idle(struct weft__blocking *pool, struct worker *worker)
{
    *worker->link = worker->next;
    if (worker->next != NULL) {
        worker->next->link = worker->link;
    }
    pool->stats.idle--;
}

static void enter_idle(struct weft__blocking *pool, struct worker *worker)
{
    atomic_store_explicit(&worker->called, 0, memory_order_relaxed);
    worker->next = pool->idle;
    worker->link = &pool->idle;
    if (worker->next != NULL) {
        worker->next->link = &worker->next;
    }
    pool->idle = worker;
    pool->stats.idle++;
}

/// Takes the thread off the idle list; the caller wakes it after it has released the lock. It may
/// have ended by then: waking uses only the address.
static _Atomic uint32_t *call(struct weft__blocking *pool, struct worker *worker)
{
    leave_idle(pool, worker);
    atomic_store_explicit(&worker->called, 1, memory_order_relaxed);
    pool->coming++;
    return &worker->called;
}

/// Sleeps until called. False: nobody did in time, and the thread ends. The lock is held before and
/// after.
static bool rest(struct weft__blocking *pool)
{
    struct worker worker;
    weft_time now = weft__clock_ns();
    weft_time idle = pool->config.idle_ns;
    weft_time until = idle < WEFT_FOREVER - now ? now + idle : WEFT_FOREVER;
    enter_idle(pool, &worker);
    pthread_mutex_unlock(&pool->lock);
    while (atomic_load_explicit(&worker.called, memory_order_relaxed) == 0 &&
           weft__futex_wait(&worker.called, 0, until) != -ETIMEDOUT) {
    }
    pthread_mutex_lock(&pool->lock);
    if (atomic_load_explicit(&worker.called, memory_order_relaxed) != 0) {
        pool->coming--;
        return true;
    }
    leave_idle(pool, &worker);
    return false;
}

/// Q5. The lock is held before, and released.
static void end(struct weft__blocking *pool)
{
    pthread_t before = pool->ended;
    bool any = pool->any_ended;
    pool->ended = pthread_self();
    pool->any_ended = true;
    if (--pool->stats.threads == 0) {
        pthread_cond_broadcast(&pool->empty);
    }
    pthread_mutex_unlock(&pool->lock);
    if (any) {
        pthread_join(before, NULL);
    }
}

static void *worker_main(void *arg)
{
    struct weft__blocking *pool = arg;
    char name[THREAD_NAME_BYTES];
    if (pool->cpus != NULL) {
        (void)weft__cpus_keep_on(pool->cpus);
    }
    pthread_mutex_lock(&pool->lock);
    pool->coming--;
    (void)snprintf(name, sizeof name, "blocking-%u", pool->named++);
    (void)pthread_setname_np(pthread_self(), name);
    for (;;) {
        struct weft__job *job = take(pool);
        if (job != NULL) {
            pthread_mutex_unlock(&pool->lock);
            job->run(job);
            pthread_mutex_lock(&pool->lock);
            pool->stats.completed++;
        } else if (pool->draining || !rest(pool)) {
            break;
        }
    }
    end(pool);
    return NULL;
}

/// All signals are blocked from the thread's first instruction on.
static int make_thread(struct weft__blocking *pool)
{
    sigset_t all;
    sigset_t old;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&thread, NULL, worker_main, pool);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        pool->stats.refused_threads++;
        return -EAGAIN;
    }
    pool->coming++;
    pool->stats.threads++;
    if (pool->stats.threads > pool->stats.most_threads) {
        pool->stats.most_threads = pool->stats.threads;
    }
    return 0;
}

int weft__blocking_send(void *state, struct weft__job *job)
{
    struct weft__blocking *pool = state;
    _Atomic uint32_t *wake = NULL;
    int rc = 0;
    pthread_mutex_lock(&pool->lock);
    if (pool->draining) {
        rc = -ECANCELED;
        goto unlock;
    }
    if (pool->coming <= pool->stats.queued) { // what is on its way is for the jobs before us
        if (pool->idle != NULL) {
            wake = call(pool, pool->idle);
        } else if (pool->stats.threads < pool->config.threads && make_thread(pool) < 0 &&
                   pool->stats.threads == 0) {
            rc = -EAGAIN; // Q3
            goto unlock;
        }
    }
    push(pool, job);
    pool->stats.submitted++;
    if (pool->stats.queued > pool->stats.most_queued) {
        pool->stats.most_queued = pool->stats.queued;
    }
unlock:
    pthread_mutex_unlock(&pool->lock);
    if (wake != NULL) {
        weft__futex_wake(wake, 1);
    }
    return rc;
}

bool weft__blocking_recall(void *state, struct weft__job *job)
{
    struct weft__blocking *pool = state;
    pthread_mutex_lock(&pool->lock);
    bool queued = job->link != NULL;
    if (queued) {
        unlink_job(pool, job);
        pool->stats.withdrawn++;
    }
    pthread_mutex_unlock(&pool->lock);
    return queued;
}

int weft__blocking_create(struct weft__blocking **out, const struct weft__blocking_config *config)
{
    struct weft__blocking *pool = weft__alloc(config->allocator, sizeof *pool,
                                              _Alignof(struct weft__blocking));
    *out = NULL;
    if (pool == NULL) {
        return -ENOMEM;
    }
    pool->config = *config;
    pool->last = &pool->first;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->empty, NULL);
    *out = pool;
    return 0;
}

void weft__blocking_keep_on(struct weft__blocking *pool, const struct weft__cpu_set *cpus)
{
    pool->cpus = cpus;
}

void weft__blocking_drain(struct weft__blocking *pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->draining = true;
    while (pool->idle != NULL) {
        weft__futex_wake(call(pool, pool->idle), 1);
    }
    while (pool->stats.threads > 0) {
        pthread_cond_wait(&pool->empty, &pool->lock);
    }
    bool any = pool->any_ended;
    pool->any_ended = false;
    pthread_mutex_unlock(&pool->lock);
    if (any) {
        pthread_join(pool->ended, NULL);
    }
}

void weft__blocking_destroy(struct weft__blocking *pool)
{
    if (pool == NULL) {
        return;
    }
    weft_assert(pool->stats.threads == 0 && pool->first == NULL);
    pthread_cond_destroy(&pool->empty);
    pthread_mutex_destroy(&pool->lock);
    weft__free(pool->config.allocator, pool, sizeof *pool);
}

void weft__blocking_stats(struct weft__blocking *pool, struct weft_blocking_stats *stats)
{
    pthread_mutex_lock(&pool->lock);
    *stats = pool->stats;
    pthread_mutex_unlock(&pool->lock);
    stats->running = stats->threads - stats->idle;
}
