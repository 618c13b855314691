// pool.h - OS threads for calls that block. One pool per runtime; it has no threads until it is used.
#ifndef WEFT_BLOCKING_POOL_H
#define WEFT_BLOCKING_POOL_H

#include <weft/blocking.h>

#include "base/base.h"
#include "sched/crew.h"
#include "sched/driver.h"

struct weft__pool;

struct weft__pool_config {
    const struct weft_allocator *allocator;
    uint32_t threads;  // at most
    weft_time idle_ns; // after so long without a job a thread ends
};

int weft__pool_create(struct weft__pool **pool, const struct weft__pool_config *config);

/// Refuses new jobs, runs those that are queued, and waits until all threads have ended. NULL is
/// fine.
void weft__pool_drain(struct weft__pool *pool);

/// Frees a pool that was drained. NULL is fine.
void weft__pool_destroy(struct weft__pool *pool);

/// Queues the job: `struct weft__offload`'s send. -ECANCELED when drained, -EAGAIN when there is no
/// thread and none can be made. Any thread.
int weft__pool_send(void *pool, struct weft__job *job);

/// Takes the job back if it has not begun: `struct weft__offload`'s recall. Any thread.
bool weft__pool_recall(void *pool, struct weft__job *job);

void weft__pool_stats(struct weft__pool *pool, struct weft_blocking_stats *stats);

/// weft__pool_send() to the pool of a crew, from whatever thread this is: looks whether the crew may
/// be used from here, and stays a visitor while it does.
int weft__pool_submit(struct weft__crew *crew, struct weft__job *job);

#endif
