// future.c - a blocking call as a future.
//
// The pool's thread may end the job while the future is polled elsewhere: task/bell.h.
#include <errno.h>

#include "blocking/pool.h"
#include "task/bell.h"

enum phase { FRESH, SENT, READY };

struct blocking_future {
    struct weft_future future;
    struct weft__job job;
    struct weft__crew *crew; // NULL: that of the first poller
    weft_fn fn;
    void *arg;
    uint8_t phase; // enum phase; the poller's
    bool cancelled;
    struct weft__bell bell;
};
_Static_assert(sizeof(struct blocking_future) <= sizeof(struct weft_blocking_future),
               "public size");

static void finish(struct blocking_future *blocking, int result)
{
    blocking->future.result = result;
    weft__bell_ring(&blocking->bell);
}

static void run(struct weft__job *job)
{
    struct blocking_future *blocking = weft__container_of(job, struct blocking_future, job);
    finish(blocking, blocking->fn(blocking->arg));
}

static enum weft_poll ready(struct blocking_future *blocking)
{
    blocking->phase = READY;
    return WEFT_READY;
}

static enum weft_poll fail(struct blocking_future *blocking, int error)
{
    blocking->future.result = error;
    return ready(blocking);
}

static enum weft_poll send(struct blocking_future *blocking, const weft_waker *waker)
{
    if (blocking->cancelled) {
        return fail(blocking, -ECANCELED);
    }
    if (blocking->crew == NULL) {
        blocking->crew = weft__crew_self();
    }
    if (blocking->crew == NULL || blocking->fn == NULL) {
        return fail(blocking, -EINVAL);
    }
    weft__bell_set(&blocking->bell, waker);
    bool simulated = blocking->crew->simulated; // once the job is over, the crew may go
    int rc = weft__blocking_submit(blocking->crew, &blocking->job);
    if (rc < 0) {
        weft__bell_drop(&blocking->bell);
        return fail(blocking, rc);
    }
    blocking->phase = SENT;
    return simulated ? ready(blocking) : WEFT_PENDING;
}

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct blocking_future *blocking = weft__container_of(future, struct blocking_future, future);
    switch ((enum phase)blocking->phase) {
    case FRESH: return send(blocking, waker);
    case SENT: return weft__bell_rung(&blocking->bell, waker) ? ready(blocking) : WEFT_PENDING;
    case READY: break;
    }
    return WEFT_READY;
}

static bool is_over(struct blocking_future *blocking)
{
    weft__lock_acquire(&blocking->bell.lock);
    bool over = blocking->bell.waker.vtable == NULL;
    weft__lock_release(&blocking->bell.lock);
    return over;
}

/// As weft_job_cancel(): the crew of a job that is over may be gone.
static void cancel(struct weft_future *future)
{
    struct blocking_future *blocking = weft__container_of(future, struct blocking_future, future);
    blocking->cancelled = true;
    if (blocking->phase == SENT && !is_over(blocking) &&
        weft__runtime_refuses(blocking->crew, weft__carrier_self()) == 0 &&
        weft__blocking_recall(blocking->crew->blocking, &blocking->job)) {
        finish(blocking, -ECANCELED);
    }
}

void weft_blocking_future_init(struct weft_blocking_future *public_blocking, weft_runtime *runtime,
                               weft_fn fn, void *arg)
{
    struct blocking_future *blocking = (struct blocking_future *)(void *)public_blocking;
    *blocking = (struct blocking_future){
        .job.run = run,
        .crew = runtime != NULL ? weft__crew_of(runtime) : NULL,
        .fn = fn,
        .arg = arg,
    };
    weft_future_init(&blocking->future, poll, cancel);
}
