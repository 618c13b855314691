// blocking_model.c - jobs for the pool of OS threads, and who waits for them (blocking/pool.c, Q1 to Q5;
// blocking/job.c, J1).
//
// Threads outside submit jobs, wait for them, give up and call them off; those of the pool are made, sleep,
// are too late and end. A job that is forgotten leaves its waiter asleep for ever. What a job does is plain,
// and its storage is freed as soon as its owner may know that it is over; the pool goes when all have done.
//
// Sources: blocking/pool.c blocking/job.c task/wait.c task/run.c
// With: stage.c stage_alloc.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/lock.h"
#include "base/sys.h"
#include "blocking/pool.h"
#include "mc.h"
#include "stage.h"
#include "task/wait.h"

enum { THREADS = 8, RESULT = 7, JOBS = 2 };

static struct weft__crew crew;
static struct weft_job *jobs[JOBS];
static int calls[JOBS];    // plain: by whoever runs the job
static _Atomic int users;  // of the pool
static _Atomic int owners; // of the first job
static bool has_run, was_called_off;

struct weft__carrier *weft__carrier_self(void)
{
    return NULL;
}

struct weft__task *weft__thread_self(void)
{
    return NULL;
}

struct weft__crew *weft__crew_self(void)
{
    return NULL;
}

struct weft__crew *weft__crew_of(weft_runtime *runtime)
{
    (void)runtime;
    return &crew;
}

int weft__runtime_refuses(const struct weft__crew *which, const struct weft__carrier *self)
{
    (void)which;
    (void)self;
    return 0;
}

uint32_t weft__fork_generation(void)
{
    return 0;
}

weft_time weft__clock_ns(void)
{
    return 1;
}

// The machine.

static _Atomic uint32_t ended[THREADS];
static void *(*_Atomic thread_body)(void *arg);

static void run_thread(void *arg)
{
    (void)atomic_load_explicit(&thread_body, memory_order_relaxed)(arg);
    _Atomic uint32_t *mine = &ended[mc_self()];
    atomic_store_explicit(mine, 1, memory_order_release);
    mc_futex_wake(mine, 1);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    (void)attr;
    atomic_store_explicit(&thread_body, body, memory_order_relaxed);
    *thread = (pthread_t)mc_thread(run_thread, arg);
    return 0;
}

pthread_t pthread_self(void)
{
    return (pthread_t)mc_self();
}

int pthread_join(pthread_t thread, void **result)
{
    (void)result;
    while (atomic_load_explicit(&ended[thread], memory_order_acquire) == 0) {
        mc_futex_wait(&ended[thread], 0);
    }
    return 0;
}

int pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread;
    (void)name;
    return 0;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    (void)how;
    (void)set;
    (void)old;
    return 0;
}

static struct weft__lock *lock_of(pthread_mutex_t *mutex)
{
    return (struct weft__lock *)(void *)mutex;
}

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    (void)mutex; // zeroed
    (void)attr;
    return 0;
}

int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    mc_assert(weft__lock_try(lock_of(mutex)));
    return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    weft__lock_acquire(lock_of(mutex));
    return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    weft__lock_release(lock_of(mutex));
    return 0;
}

static _Atomic uint32_t *signals_of(pthread_cond_t *cond)
{
    return (_Atomic uint32_t *)(void *)cond;
}

int pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    (void)cond;
    (void)attr;
    return 0;
}

int pthread_cond_destroy(pthread_cond_t *cond)
{
    (void)cond;
    return 0;
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    uint32_t seen = atomic_load_explicit(signals_of(cond), memory_order_relaxed);
    pthread_mutex_unlock(mutex);
    mc_futex_wait(signals_of(cond), seen);
    return pthread_mutex_lock(mutex);
}

int pthread_cond_broadcast(pthread_cond_t *cond)
{
    atomic_fetch_add_explicit(signals_of(cond), 1, memory_order_relaxed);
    mc_futex_wake(signals_of(cond), INT_MAX);
    return 0;
}

// Those who use it.

static int work(void *arg)
{
    calls[(intptr_t)arg]++;
    return RESULT;
}

static void submit(int number)
{
    int rc = weft_job_submit(jobs[number], (weft_runtime *)&crew, work, (void *)(intptr_t)number);
    mc_assert(rc == 0);
}

static __attribute__((noinline)) int await(int number, weft_time deadline)
{
    int result = 0;
    int rc = weft_job_wait(&result, jobs[number], deadline);
    return rc < 0 ? rc : result;
}

/// The last one closes the pool.
static void leave(void)
{
    if (atomic_fetch_sub_explicit(&users, 1, memory_order_acq_rel) == 1) {
        weft__blocking_drain(crew.blocking);
        weft__blocking_destroy(crew.blocking);
    }
}

static void own_one(void *arg)
{
    int number = (int)(intptr_t)arg;
    submit(number);
    int result = await(number, WEFT_FOREVER);
    mc_assert(result == RESULT && calls[number] == 1);
    mc_free(jobs[number]);
    leave();
}

static void own_again(void *unused)
{
    (void)unused;
    for (int i = 1; i <= 2; i++) {
        submit(0);
        int result = await(0, WEFT_FOREVER);
        mc_assert(result == RESULT && calls[0] == i);
    }
    mc_free(jobs[0]);
    leave();
}

static void own_and_give_up(void *unused)
{
    (void)unused;
    submit(0);
    int result = await(0, 2);
    if (result == -ETIMEDOUT) {
        result = await(0, WEFT_FOREVER);
    }
    mc_assert(result == RESULT && calls[0] == 1);
    mc_free(jobs[0]);
    leave();
}

static void leave_job(void)
{
    if (atomic_fetch_sub_explicit(&owners, 1, memory_order_acq_rel) == 1) {
        mc_free(jobs[0]);
    }
    leave();
}

static void call_off(void *unused)
{
    (void)unused;
    was_called_off = weft_job_cancel(jobs[0]) == 1;
    leave_job();
}

static void own_what_is_called_off(void *unused)
{
    (void)unused;
    submit(0);
    mc_thread(call_off, NULL);
    int result = await(0, WEFT_FOREVER);
    has_run = result == RESULT;
    mc_assert(has_run ? calls[0] == 1 : result == -ECANCELED && calls[0] == 0);
    leave_job();
}

static void check_called_off(void)
{
    mc_assert(has_run != was_called_off);
}

static void reset(int count, uint32_t threads)
{
    const struct weft__blocking_config config = {
        .threads = threads,
        .idle_ns = 1,
    };
    memset(&crew, 0, sizeof crew);
    memset(calls, 0, sizeof calls);
    memset(ended, 0, sizeof ended);
    int rc = weft__blocking_create(&crew.blocking, &config);
    mc_assert(rc == 0);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = mc_alloc(sizeof *jobs[i]);
        mc_name(jobs[i], sizeof *jobs[i], "job");
    }
    has_run = was_called_off = false;
    atomic_init(&users, count);
    atomic_init(&owners, count);
}

static void again(void)
{
    reset(1, 1);
    mc_thread(own_again, NULL);
}

static void gives_up(void)
{
    reset(1, 1);
    mc_thread(own_and_give_up, NULL);
}

static void called_off(void)
{
    reset(2, 1);
    mc_thread(own_what_is_called_off, NULL);
}

static void two_for_one(void)
{
    reset(2, 1);
    mc_thread(own_one, (void *)0);
    mc_thread(own_one, (void *)1);
}

const struct mc_model mc_models[] = {
    { .name = "blocking_again", .setup = again, .max_bound = 2 },
    { .name = "blocking_gives_up", .setup = gives_up },
    { .name = "blocking_called_off",
      .setup = called_off,
      .check = check_called_off,
      .max_bound = 2 },
    { .name = "blocking_two_for_one", .setup = two_for_one, .max_bound = 1, .never_spurious = 1 },
    { .name = NULL },
};
