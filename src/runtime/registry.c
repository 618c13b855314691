// registry.c - the runtimes of this process, and what a fork leaves of them.
//
// After a fork the child has one thread and none of the carriers. Its runtimes are forgotten (their
// memory stays), its generation differs from theirs, and calls on them return -ESRCH. The registry's
// lock is taken across the fork, so that the child finds it free and the list whole; so are the other
// locks that are not part of a runtime.
#include <errno.h>
#include <pthread.h>

#include "diag/backtrace.h"
#include "io/perform.h"
#include "runtime/runtime.h"
#include "runtime/schedulers.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct weft__runtime *runtimes; // under lock
static _Atomic uint32_t generation;

static void before_fork(void)
{
    weft__default_lock();
    pthread_mutex_lock(&lock);
    weft__schedulers_before_fork();
    weft__modes_before_fork();
}

static void after_fork_in_parent(void)
{
    weft__modes_after_fork();
    weft__schedulers_after_fork();
    pthread_mutex_unlock(&lock);
    weft__default_unlock();
}

static void after_fork_in_child(void)
{
    runtimes = NULL;
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    weft__forget_self_after_fork();
    weft__backtrace_after_fork();
    weft__modes_after_fork();
    weft__schedulers_after_fork();
    pthread_mutex_unlock(&lock);
    weft__default_unlock();
}

static void prepare_for_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void weft__registry_prepare(void)
{
    pthread_once(&once, prepare_for_forks);
}

uint32_t weft__fork_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

void weft__registry_add(struct weft__runtime *runtime)
{
    weft__registry_prepare();
    pthread_mutex_lock(&lock);
    runtime->crew.generation = weft__fork_generation();
    runtime->next = runtimes;
    runtime->link = &runtimes;
    if (runtimes != NULL) {
        runtimes->link = &runtime->next;
    }
    runtimes = runtime;
    pthread_mutex_unlock(&lock);
}

void weft__registry_remove(struct weft__runtime *runtime)
{
    pthread_mutex_lock(&lock);
    *runtime->link = runtime->next;
    if (runtime->next != NULL) {
        runtime->next->link = runtime->link;
    }
    pthread_mutex_unlock(&lock);
}

int weft__registry_each(int (*visit)(struct weft__runtime *runtime, void *arg), void *arg)
{
    int rc = 0;
    pthread_mutex_lock(&lock);
    for (struct weft__runtime *runtime = runtimes; runtime != NULL && rc == 0;
         runtime = runtime->next) {
        rc = visit(runtime, arg);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

int weft__runtime_refuses(const struct weft__crew *crew, const struct weft__carrier *self)
{
    if (crew->generation != weft__fork_generation()) {
        return -ESRCH;
    }
    bool ours = self != NULL && self->crew == crew;
    bool simulated = crew->simulated || (self != NULL && self->crew->simulated);
    return simulated && !ours ? -ENOTSUP : 0;
}
