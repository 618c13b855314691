// call.c - submitting an op and waiting for it.
//
//   C1  A cancelled task starts nothing: what it would have done has not happened.
//   C2  The wait can only be asked to end (task/wait.h, ASK): asking passes a cancel to the driver,
//       and the op's own end completes the wait. So no op outlives its buffer.
//   C3  Bytes win: a cancel or a deadline shows only when the op itself says -ECANCELED.
#include "io/call.h"

#include <errno.h>

#include "task/host.h"
#include "task/scope.h"

static void ended(struct weft__op *op)
{
    struct weft__call *call = weft__container_of(op, struct weft__call, op);
    weft__complete(&call->wait, op->result);
}

static void ask(struct weft__wait *wait)
{
    struct weft__call *call = weft__container_of(wait, struct weft__call, wait);
    call->carrier->driver->cancel(call->carrier->driver_state, &call->op);
}

/// One submission from start to end.
static int64_t run_once(struct weft__call *call, struct weft__task *task, const char *what,
                        weft_time deadline)
{
    struct weft__carrier *carrier = task->home;
    call->op.done = ended;
    call->carrier = carrier;
    weft__wait_init(&call->wait, task, WEFT__WAIT_ASK, what);
    call->wait.ask = ask;
    if (carrier->driver->submit(carrier->driver_state, &call->op)) {
        weft__charge(task);
        return call->op.result;
    }
    task->in_flight++;
    weft__block(&call->wait, deadline);
    task->in_flight--;
    return call->wait.result;
}

int64_t weft__call(struct weft__call *call, const char *what, weft_time deadline)
{
    struct weft__task *task = weft__thread_self();
    if (weft__unlikely(task == NULL)) {
        return weft__no_task();
    }
    if (weft__scope_cancelled(task)) {
        return -ECANCELED;
    }
    for (;;) {
        int64_t result = run_once(call, task, what, deadline);
        int why = call->wait.why;
        if (result == -ECANCELED) {
            return why != 0 ? why : -EBADF;
        }
        if (result != -EINTR) {
            return result;
        }
        // A signal, or a worker of the kernel that was asked to stop.
        if (why != 0) {
            return why;
        }
    }
}
