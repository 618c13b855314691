// job.c - blocking calls made by virtual threads, and jobs that any thread submits and waits for.
//
// A job's storage is its owner's again as soon as the owner can know that it is over. So the pool's
// thread makes that known by its last touch, an exchange of `waiter`:
//
//     waiter:   NOBODY --weft_job_wait--> a wait on somebody's stack --too late--> NOBODY
//               any of these --run or recall--> OVER
//
//   J1  Whoever takes a wait out of `waiter`, by exchange or compare-and-exchange, decides its fate:
//       the job's end completes it, or its owner has given up and completes it himself.
//
// Checked by: tests/model/blocking_model.c, tests/api/blocking_test.c.
#include <errno.h>

#include "blocking/pool.h"
#include "task/host.h"
#include "task/scope.h"
#include "task/wait.h"

int weft__blocking_submit(struct weft__crew *crew, struct weft__job *job)
{
    struct weft__carrier *self = weft__carrier_self();
    int rc = weft__runtime_refuses(crew, self);
    if (rc < 0) {
        return rc;
    }
    if (crew->simulated) {
        job->link = NULL;
        job->run(job);
        return 0;
    }
    if (self != NULL && self->crew == crew) {
        return weft__blocking_send(crew->blocking, job);
    }
    weft__crew_enter(crew); // the job may be over, and the crew go, before we have looked around
    rc = weft__blocking_send(crew->blocking, job);
    weft__crew_leave(crew);
    return rc;
}

// A virtual thread makes one call and parks.

struct blocking {
    struct weft__job job;
    struct weft__wait wait;
    weft_fn fn;
    void *arg;
    bool recalled;
};

static void run_blocking(struct weft__job *job)
{
    struct blocking *call = weft__container_of(job, struct blocking, job);
    weft__complete(&call->wait, call->fn(call->arg));
}

static void recall_blocking(struct weft__wait *wait)
{
    struct blocking *call = weft__container_of(wait, struct blocking, wait);
    call->recalled = weft__blocking_recall(wait->task->crew->blocking, &call->job);
    if (call->recalled) {
        weft__complete(wait, 0);
    }
}

int weft_blocking(weft_fn fn, void *arg, weft_time deadline)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    if (fn == NULL) {
        return -EINVAL;
    }
    if (weft__scope_cancelled(task)) {
        return -ECANCELED;
    }
    if (task->crew->simulated) {
        weft__charge(task);
        return fn(arg);
    }
    struct blocking call = { .job.run = run_blocking, .fn = fn, .arg = arg };
    weft__wait_init(&call.wait, task, WEFT__WAIT_ASK, "blocking call");
    call.wait.ask = recall_blocking;
    int rc = weft__blocking_send(task->crew->blocking, &call.job);
    if (rc < 0) {
        return rc;
    }
    weft__block(&call.wait, deadline);
    return call.recalled ? call.wait.why : (int)call.wait.result;
}

// Jobs.

#define NOBODY ((uintptr_t)0)
#define OVER ((uintptr_t)1)

struct job {
    struct weft__job base;
    struct weft__crew *crew;
    weft_fn fn;
    void *arg;
    int result;          // valid once OVER
    uint32_t generation; // of the process that submitted it
    _Atomic uintptr_t waiter;
};
_Static_assert(sizeof(struct job) <= sizeof(struct weft_job), "public size");

static struct job *of(struct weft_job *job)
{
    return (struct job *)(void *)job;
}

static void finish(struct job *job, int result)
{
    job->result = result;
    uintptr_t waiter = atomic_exchange_explicit(&job->waiter, OVER, memory_order_acq_rel);
    if (waiter != NOBODY) {
        weft__complete_from_anywhere((struct weft__wait *)waiter, 0);
    }
}

static void run_job(struct weft__job *base)
{
    struct job *job = weft__container_of(base, struct job, base);
    finish(job, job->fn(job->arg));
}

int weft_job_submit(struct weft_job *public_job, weft_runtime *runtime, weft_fn fn, void *arg)
{
    struct weft__crew *crew = runtime != NULL ? weft__crew_of(runtime) : weft__crew_self();
    if (fn == NULL || crew == NULL) {
        return -EINVAL;
    }
    struct job *job = of(public_job);
    *job = (struct job){
        .base.run = run_job,
        .crew = crew,
        .fn = fn,
        .arg = arg,
        .generation = crew->generation,
    };
    return weft__blocking_submit(crew, &job->base);
}

struct waiting {
    struct weft__wait wait;
    struct job *job;
    bool gave_up;
};

/// J1: if the job's end was faster, it completes the wait.
static void give_up(struct weft__wait *wait)
{
    struct waiting *waiting = weft__container_of(wait, struct waiting, wait);
    uintptr_t mine = (uintptr_t)wait;
    waiting->gave_up = atomic_compare_exchange_strong_explicit(
        &waiting->job->waiter, &mine, NOBODY, memory_order_relaxed, memory_order_relaxed);
    if (waiting->gave_up) {
        weft__complete(wait, 0);
    }
}

/// 0 once the job is over.
static int await(struct job *job, struct weft__task *task, weft_time deadline)
{
    struct waiting waiting = { .job = job };
    weft__wait_init(&waiting.wait, task, WEFT__WAIT_ASK, "job");
    waiting.wait.ask = give_up;
    uintptr_t seen = NOBODY;
    if (!atomic_compare_exchange_strong_explicit(&job->waiter, &seen, (uintptr_t)&waiting.wait,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        return seen == OVER ? 0 : -EBUSY;
    }
    weft__block(&waiting.wait, deadline);
    return waiting.gave_up ? waiting.wait.why : 0;
}

int weft_job_wait(int *result, struct weft_job *public_job, weft_time deadline)
{
    struct job *job = of(public_job);
    struct weft__task *task = weft__thread_self();
    if (atomic_load_explicit(&job->waiter, memory_order_acquire) != OVER) {
        if (job->generation != weft__fork_generation()) {
            return -ESRCH;
        }
        if (task == NULL && weft__crew_self() != NULL) {
            return -EPERM;
        }
        int rc = await(job, task, deadline);
        if (rc < 0) {
            return rc;
        }
    }
    if (result != NULL) {
        *result = job->result;
    }
    return 0;
}

int weft_job_cancel(struct weft_job *public_job)
{
    struct job *job = of(public_job);
    if (atomic_load_explicit(&job->waiter, memory_order_relaxed) == OVER ||
        weft__runtime_refuses(job->crew, weft__carrier_self()) < 0 ||
        !weft__blocking_recall(job->crew->blocking, &job->base)) {
        return 0;
    }
    finish(job, -ECANCELED);
    return 1;
}

int weft_blocking_stats(weft_runtime *runtime, struct weft_blocking_stats *stats)
{
    struct weft__crew *crew = weft__crew_of(runtime);
    if (stats->size != sizeof *stats) {
        return -EINVAL;
    }
    if (crew->generation != weft__fork_generation()) {
        return -ESRCH;
    }
    weft__blocking_stats(crew->blocking, stats);
    stats->size = sizeof *stats;
    return 0;
}
