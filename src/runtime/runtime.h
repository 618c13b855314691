// runtime.h - a runtime: a crew of carriers with options, a driver and a place in the registry.
#ifndef WEFT_RUNTIME_RUNTIME_H
#define WEFT_RUNTIME_RUNTIME_H

#include <weft/runtime.h>

#include "base/log.h"
#include "sched/crew.h"
#include "sched/driver.h"

struct weft__runtime {
    struct weft__crew crew;

    // Fixed once made.
    struct weft_options options; // resolved
    struct weft__log log;
    const struct weft__driver *driver; // of the carriers
    const struct weft__driver *real;   // the same, or what driver threads have

    struct weft__cpu_set allowed; // what carriers are pinned inside of, if they are

    struct weft__monitor *monitor; // NULL: nobody watches (diag/monitor.c)

    struct weft__lock resizing; // starting carriers, and how many are active; asking all of them

    // Starting: carriers report here one by one. Under `resizing` once the runtime is made.
    _Atomic uint32_t reported;
    _Atomic int start_error;
    _Atomic bool pin_failed; // logged once

    // Shutting down: written by whoever begins it, before the carriers are asked.
    weft_time force_at;
    struct weft__timer force_timer; // then carrier 0's

    // Under the registry's lock.
    struct weft__runtime *next;
    struct weft__runtime **link;
};

static inline struct weft__runtime *weft__runtime_of(struct weft__crew *crew)
{
    return weft__container_of(crew, struct weft__runtime, crew);
}

/// Allocates a runtime from resolved options: memory, root scope, carriers without threads or
/// drivers. Undone by weft__runtime_free().
int weft__runtime_alloc(struct weft__runtime **runtime, const struct weft_options *resolved,
                        const struct weft__log *log, const struct weft__driver *driver);

/// Frees the memory. Tasks whose handles are still out keep theirs: then a warning is logged.
void weft__runtime_free(struct weft__runtime *runtime);

// start.c

/// weft_runtime_create() on a machine of which `root` and `allowed` tell, as below.
int weft__runtime_create_at(weft_runtime **runtime, const struct weft_options *options,
                            const char *root, const struct weft__cpu_set *allowed);

/// Starts the thread of one more carrier, which takes nothing that may move before it is told to stay. 0 or a
/// negative errno, after having logged it. Under `resizing`.
int weft__carrier_start(struct weft__runtime *runtime, int number);

// resize.c

/// What carrier->resized does.
void weft__carrier_resized(struct weft__request *request, struct weft__carrier *carrier);

// seats.c

/// Puts the carriers on CPUs, if the options say so. `root` is "" or a test's; `allowed` has the CPUs
/// that may be used, NULL: it is a simulation, and nobody is pinned. -EINVAL after having logged why.
int weft__runtime_seat(struct weft__runtime *runtime, const char *root,
                       const struct weft__cpu_set *allowed);

/// Keeps the calling thread where its carrier is seated. If that fails it floats.
void weft__carrier_pin(struct weft__carrier *carrier);

// poller_task.c: pollers of weft's own, for WEFT_POLLER=tasks.

/// Makes the carriers' pollers, before the carriers run; undone by free.
int weft__residents_make(struct weft__runtime *runtime);
void weft__residents_free(struct weft__runtime *runtime);

/// Starts one, when its carrier runs. If it cannot be started the carrier sleeps by itself.
int weft__resident_start(struct weft__carrier *carrier);

/// Starts them all. After an error the runtime can only be shut down.
int weft__residents_start(struct weft__runtime *runtime);

// registry.c: all runtimes of the process, for dumps, and what a fork leaves of them.

void weft__registry_add(struct weft__runtime *runtime);
void weft__registry_remove(struct weft__runtime *runtime);

/// Calls visit for each runtime, under the registry's lock; stops when it returns non-zero.
int weft__registry_each(int (*visit)(struct weft__runtime *runtime, void *arg), void *arg);

/// Makes forks safe from now on. Called before the first lock of this layer is taken.
void weft__registry_prepare(void);

// default.c: its lock is taken across forks, before the registry's.

void weft__default_lock(void);
void weft__default_unlock(void);

// shutdown.c

/// Begins to drain, and counts the runtime's grace period from `now`. False: somebody has done that
/// before.
bool weft__shutdown_begin(struct weft__runtime *runtime, weft_time now);

// roll.c

/// Calls visit(task) for every task that has not been freed. It may be freed, and its block reused,
/// while visit looks at it: type-stable memory is all that is promised.
void weft__runtime_each_task(struct weft__runtime *runtime,
                             void (*visit)(struct weft__task *task, void *arg), void *arg);

/// The same in the order of the tasks' numbers, for the simulator: nobody runs meanwhile. Without
/// memory for the list the order is any.
void weft__runtime_each_by_number(struct weft__runtime *runtime,
                                  void (*visit)(struct weft__task *task, void *arg), void *arg);

// diag/dump.c

/// Writes every task of the runtime to its log, as errors.
void weft__dump_to_log(struct weft__runtime *runtime, const char *why);

/// Names the task of a control block, for the report of a stack overflow. Async-signal-safe.
void weft__describe_block(void *block, char *text, size_t size_bytes);

#endif
