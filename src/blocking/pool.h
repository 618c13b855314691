// pool.h - OS threads for calls that block. One pool per runtime; it has no threads until it is used.
#ifndef WEFT_BLOCKING_POOL_H
#define WEFT_BLOCKING_POOL_H

#include <weft/blocking.h>

#include "base/base.h"
#include "sched/crew.h"
#include "sched/driver.h"

struct weft__blocking;

struct weft__blocking_config {
    const struct weft_allocator *allocator;
    uint32_t threads;  // at most
    weft_time idle_ns; // after so long without a job a thread ends
};

int weft__blocking_create(struct weft__blocking **pool, const struct weft__blocking_config *config);

/// Refuses new jobs, runs those that are queued, and waits until all threads have ended. NULL is
/// fine.
void weft__blocking_drain(struct weft__blocking *pool);

/// Frees a pool that was drained. NULL is fine.
void weft__blocking_destroy(struct weft__blocking *pool);

/// Queues the job: `struct weft__offload`'s send. -ECANCELED when drained, -EAGAIN when there is no
/// thread and none can be made. Any thread.
int weft__blocking_send(void *pool, struct weft__job *job);

/// Takes the job back if it has not begun: `struct weft__offload`'s recall. Any thread.
bool weft__blocking_recall(void *pool, struct weft__job *job);

/// Lets the pool's threads run on these CPUs, whoever makes them: a carrier that is pinned would pass
/// its own CPU on. Before the first job; the set outlives the pool.
void weft__blocking_keep_on(struct weft__blocking *pool, const struct weft__cpu_set *cpus);

void weft__blocking_stats(struct weft__blocking *pool, struct weft_blocking_stats *stats);

/// weft__blocking_send() to the pool of a crew, from whatever thread this is: looks whether the crew may
/// be used from here, and stays a visitor while it does.
int weft__blocking_submit(struct weft__crew *crew, struct weft__job *job);

#endif
