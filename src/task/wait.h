// wait.h - the one thing a task can block on.
//
// Mutex, channel, join, sleep, select, await and I/O all make a wait, put it where whoever ends it
// finds it, and call weft__block(). A foreign OS thread does the same and sleeps on a futex.
#ifndef WEFT_TASK_WAIT_H
#define WEFT_TASK_WAIT_H

#include <stdatomic.h>

#include <weft/time.h>

#include "base/base.h"

struct weft__task;

enum weft__wait_state {
    WEFT__WAIT_OPEN,
    WEFT__WAIT_CLAIMED, ///< somebody is filling it in; DONE follows soon
    WEFT__WAIT_DONE,
};

/// What ends a wait early.
enum weft__wait_mode {
    WEFT__WAIT_WITHDRAW, ///< deadline and cancel: the waiter withdraws
    WEFT__WAIT_DEAF,     ///< only the deadline: the waiter withdraws
    WEFT__WAIT_ASK,      ///< both call ask(), once; then the end is awaited
    WEFT__WAIT_ASK_LATE, ///< only the deadline does
    WEFT__WAIT_PASS,     ///< neither; but the waiter looks, and so passes a cancel on to its scopes
    WEFT__WAIT_CALL,     ///< nobody blocks on it: its end calls ask(), for the last touch (join.h)
};

struct weft__wait {
    _Atomic uint32_t state;  // the single commit point
    uint8_t mode;            // enum weft__wait_mode
    int why;                 // why ask() was called: -ETIMEDOUT, -ECANCELED, or 0: it was not
    struct weft__task *task; // NULL: a foreign OS thread sleeps on `state`
    int64_t result;          // the completer's until DONE
    void (*ask)(struct weft__wait *wait);
    const char *what;        // for dumps, a constant: "join", "sleep"
    struct weft__wait *next; // for whoever keeps a list of waits
};

/// Prepares a wait of `task`, or of the calling foreign thread (NULL).
static inline void weft__wait_init(struct weft__wait *wait, struct weft__task *task,
                                   enum weft__wait_mode mode, const char *what)
{
    atomic_store_explicit(&wait->state, WEFT__WAIT_OPEN, memory_order_relaxed);
    wait->mode = (uint8_t)mode;
    wait->why = 0;
    wait->task = task;
    wait->result = 0;
    wait->ask = NULL;
    wait->what = what;
    wait->next = NULL;
}

/// Parks until the wait is DONE: returns 0, and wait->result is valid. Or the waiter withdrew:
/// -ETIMEDOUT or -ECANCELED, and the caller has to unlink the wait from wherever it stands.
int weft__block(struct weft__wait *wait, weft_time deadline);

/// Whom to wake after a wait was committed.
struct weft__wakee {
    struct weft__task *task;
    _Atomic uint32_t *futex;
};

/// OPEN to DONE with a result. True: `*wakee` is to be woken with weft__wakee_wake(), after locks
/// were released. False: the waiter has withdrawn. The caller must know that the wait still exists:
/// it holds the lock that the waiter needs to unlink, or the wait cannot be withdrawn.
bool weft__commit(struct weft__wait *wait, int64_t result, struct weft__wakee *wakee);

void weft__wakee_wake(const struct weft__wakee *wakee);

/// Ends a wait that is the caller's alone, because it cannot be withdrawn (ASK, ASK_LATE, PASS), or only
/// on this thread, and wakes.
void weft__complete(struct weft__wait *wait, int64_t result);

#endif
