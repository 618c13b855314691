// stage_sync.h - who waits in a model of src/sync: virtual threads, foreign threads, futures.
#ifndef MODEL_STAGE_SYNC_H
#define MODEL_STAGE_SYNC_H

#include "stage.h"
#include "sync/waiter.h"

enum { STAGE_THREADS = 4 };

// From setup: from here on threads are foreign ones, unless stage_sync_thread() makes them virtual.
void stage_sync_init(void);

// Adds a thread of the model that plays a virtual thread.
void stage_sync_thread(void (*fn)(void *), void *arg);

// What a waker of stage_sync_waker() does: it sets an event.
struct stage_wakeup {
    _Atomic uint32_t woken;
};

// A waker without a count of references; the wake-up must outlive the future that it is polled with.
weft_waker stage_sync_waker(struct stage_wakeup *wakeup);

// Sleeps until it was woken.
void stage_sync_sleep(struct stage_wakeup *wakeup);

#endif
