// waiting.h - what tests of waiting need: others that wait, as virtual threads, futures and foreign
// threads, and knowing that they do.
#ifndef WEFT_TEST_WAITING_H
#define WEFT_TEST_WAITING_H

#include "support/test.h"

#include <pthread.h>
#include <weft.h>

/// For a task that shares the caller's carrier under every policy, because what a program has placed
/// nobody takes: it runs when the caller waits or yields, and in the order of spawning.
static inline struct weft_attr stay_here(void)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = weft_carrier_id();
    return attr;
}

/// Lets the other tasks of this carrier run until they all wait, or have ended.
static inline void let_others_run(void)
{
    for (int i = 0; i < 30; i++) {
        (void)weft_yield();
    }
}

/// A future that a virtual thread polls by hand.
static inline enum weft_poll poll_once(struct weft_future *future)
{
    weft_waker waker;
    CHECK_OK(weft_waker_self(&waker));
    enum weft_poll poll = future->poll(future, &waker);
    weft_waker_drop(&waker);
    return poll;
}

/// Polls until it is READY, which must be soon: somebody is about to complete it.
static inline int64_t poll_to_the_end(struct weft_future *future)
{
    while (poll_once(future) == WEFT_PENDING) {
        (void)weft_yield();
    }
    return future->result;
}

/// Calls `fn(arg)` in a thread of its own; with foreign_end() for its end. Not in the simulator.
static inline pthread_t foreign_begin(void *(*fn)(void *arg), void *arg)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

static inline int join_thread(void *arg)
{
    return pthread_join(*(pthread_t *)arg, NULL);
}

/// From a virtual thread: parks until the thread has ended.
static inline void foreign_end(pthread_t thread)
{
    CHECK_EQ(weft_blocking(join_thread, &thread, WEFT_FOREVER), 0);
}

#endif
