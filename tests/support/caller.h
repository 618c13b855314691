// caller.h - somebody else who makes one call that waits: a virtual thread or a foreign one.
#ifndef WEFT_TEST_CALLER_H
#define WEFT_TEST_CALLER_H

#include "support/waiting.h"

#include <stdatomic.h>

struct caller {
    int (*call)(struct caller *caller);
    void *object;
    uint64_t value; // what is sent, or was received
    weft_time deadline;
    weft_task *task;
    pthread_t thread;
    _Atomic int rc; // 1000: it has not returned
};

enum { STILL_WAITS = 1000 };

static inline int caller_run(void *arg)
{
    struct caller *caller = arg;
    atomic_store(&caller->rc, caller->call(caller));
    return 0;
}

static inline void *caller_run_outside(void *arg)
{
    caller_run(arg);
    return NULL;
}

static inline void caller_init(struct caller *caller, int (*call)(struct caller *), void *object)
{
    *caller = (struct caller){ .call = call, .object = object, .deadline = WEFT_FOREVER };
    atomic_store(&caller->rc, STILL_WAITS);
}

/// Starts a virtual thread that makes the call, and lets it run until it waits.
static inline void caller_start(struct caller *caller, int (*call)(struct caller *), void *object)
{
    caller_init(caller, call, object);
    CHECK_OK(weft_spawn(&caller->task, caller_run, caller, NULL));
    let_others_run();
    CHECK_EQ(atomic_load(&caller->rc), STILL_WAITS);
}

/// The same in a thread of its own, which may wait, or not yet.
static inline void caller_start_outside(struct caller *caller, int (*call)(struct caller *),
                                        void *object)
{
    caller_init(caller, call, object);
    caller->thread = foreign_begin(caller_run_outside, caller);
}

/// What the call has returned, when it has.
static inline int caller_end(struct caller *caller)
{
    CHECK_OK(weft_join(NULL, caller->task, WEFT_FOREVER));
    return atomic_load(&caller->rc);
}

static inline int caller_end_outside(struct caller *caller)
{
    CHECK_EQ(pthread_join(caller->thread, NULL), 0);
    return atomic_load(&caller->rc);
}

#endif
