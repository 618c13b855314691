// pool_test.c - the pool of blocking threads when the system gives no more threads.
//
// The linker sends the library's pthread_create through the function below; see tests/meson.build.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "blocking/pool.h"

static atomic_bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg)
{
    return atomic_load(&no_threads) ? EAGAIN : __real_pthread_create(thread, attr, fn, arg);
}

struct test_job {
    struct weft__job job;
    sem_t begun;
    sem_t leave;
    atomic_int runs;
    bool waits;
};

static void run(struct weft__job *base)
{
    struct test_job *job = weft__container_of(base, struct test_job, job);
    atomic_fetch_add(&job->runs, 1);
    bool waits = job->waits;
    sem_post(&job->begun);
    if (waits) {
        sem_wait(&job->leave);
    }
}

static void init(struct test_job *job, bool waits)
{
    *job = (struct test_job){ .job.run = run, .waits = waits };
    sem_init(&job->begun, 0, 0);
    sem_init(&job->leave, 0, 0);
}

static struct weft__blocking *create(uint32_t threads, weft_time idle_ns)
{
    struct weft__blocking *pool;
    struct weft__blocking_config config = { .threads = threads, .idle_ns = idle_ns };
    CHECK_OK(weft__blocking_create(&pool, &config));
    return pool;
}

static struct weft_blocking_stats stats_of(struct weft__blocking *pool)
{
    struct weft_blocking_stats stats;
    weft__blocking_stats(pool, &stats);
    return stats;
}

TEST(without_any_thread_a_job_is_refused)
{
    struct test_job job;
    struct weft__blocking *pool = create(4, WEFT_S);
    init(&job, false);
    atomic_store(&no_threads, true);
    CHECK_EQ(weft__blocking_send(pool, &job.job), -EAGAIN);
    CHECK_EQ(stats_of(pool).queued, 0);
    CHECK_EQ(stats_of(pool).refused_threads, 1);
    CHECK_EQ(atomic_load(&job.runs), 0);
    atomic_store(&no_threads, false);
    CHECK_OK(weft__blocking_send(pool, &job.job));
    sem_wait(&job.begun);
    weft__blocking_drain(pool);
    weft__blocking_destroy(pool);
}

TEST(with_other_threads_alive_a_job_waits_for_one_of_them)
{
    struct test_job holder;
    struct test_job job;
    struct weft__blocking *pool = create(4, WEFT_FOREVER);
    init(&holder, true);
    init(&job, false);
    CHECK_OK(weft__blocking_send(pool, &holder.job));
    sem_wait(&holder.begun);
    atomic_store(&no_threads, true);
    CHECK_OK(weft__blocking_send(pool, &job.job));
    CHECK_EQ(stats_of(pool).queued, 1);
    CHECK_EQ(stats_of(pool).threads, 1);
    CHECK_EQ(atomic_load(&job.runs), 0);
    sem_post(&holder.leave);
    sem_wait(&job.begun);
    CHECK_EQ(atomic_load(&job.runs), 1);
    weft__blocking_drain(pool);
    CHECK_EQ(stats_of(pool).threads, 0);
    CHECK_EQ(stats_of(pool).completed, 2);
    weft__blocking_destroy(pool);
}

TEST(a_job_is_taken_back_only_before_it_begins)
{
    struct test_job holder;
    struct test_job jobs[3];
    struct weft__blocking *pool = create(1, WEFT_S);
    init(&holder, true);
    CHECK_OK(weft__blocking_send(pool, &holder.job));
    sem_wait(&holder.begun);
    for (int i = 0; i < 3; i++) {
        init(&jobs[i], false);
        CHECK_OK(weft__blocking_send(pool, &jobs[i].job));
    }
    CHECK(!weft__blocking_recall(pool, &holder.job));
    CHECK(weft__blocking_recall(pool, &jobs[1].job)); // the middle, then the last
    CHECK(weft__blocking_recall(pool, &jobs[2].job));
    CHECK(!weft__blocking_recall(pool, &jobs[2].job));
    CHECK_OK(weft__blocking_send(pool, &jobs[1].job)); // and again
    sem_post(&holder.leave);
    weft__blocking_drain(pool);
    CHECK_EQ(atomic_load(&jobs[0].runs), 1);
    CHECK_EQ(atomic_load(&jobs[1].runs), 1);
    CHECK_EQ(atomic_load(&jobs[2].runs), 0);
    CHECK_EQ(stats_of(pool).withdrawn, 2);
    weft__blocking_destroy(pool);
}

TEST(a_drained_pool_takes_no_jobs)
{
    struct test_job job;
    struct weft__blocking *pool = create(1, WEFT_S);
    init(&job, false);
    weft__blocking_drain(pool);
    CHECK_EQ(weft__blocking_send(pool, &job.job), -ECANCELED);
    CHECK_EQ(atomic_load(&job.runs), 0);
    weft__blocking_destroy(pool);
}
