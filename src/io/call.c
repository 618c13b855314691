// call.c - submitting an op and waiting for it.
//
//   C1  A cancelled task starts nothing: what it would have done has not happened.
//   C2  The wait can only be asked to end (task/wait.h, ASK): asking passes a cancel to the driver,
//       and the op's own end completes the wait. So no op outlives its buffer.
//   C3  Bytes win: a cancel or a deadline shows only when the op itself says -ECANCELED.
//   C4  An op in flight is listed under its descriptors, so that weft_close() finds it.
//   C5  A thread that may move starts no op on a carrier that leaves (sched/retire.c): it goes elsewhere
//       first. An op that it has in flight when the carrier begins to leave is asked to end; if nothing
//       had happened it begins again at the thread's new home, else what did happen is the result.
#include "io/call.h"

#include <errno.h>

#include "io/hold.h"
#include "sched/guest.h"
#include "sched/retire.h"
#include "sched/steal.h"
#include "task/host.h"
#include "task/scope.h"

static void ended(struct weft__op *op)
{
    struct weft__call *call = weft__container_of(op, struct weft__call, op);
    weft__use_end(&call->uses[0]);
    if (weft__unlikely(call->uses[1].link != NULL)) {
        weft__use_end(&call->uses[1]);
    }
    if (weft__unlikely(call->hold != NULL)) {
        call->hold->call = NULL;
    }
    weft__complete(&call->wait, op->result);
}

static void ask(struct weft__wait *wait)
{
    struct weft__call *call = weft__container_of(wait, struct weft__call, wait);
    call->carrier->driver->cancel(call->carrier->driver_state, &call->op);
}

static bool may_move(const struct weft__call *call)
{
    const struct weft__task *task = call->wait.task;
    return task->movable && task->own == NULL && call->hold == NULL && weft__op_may_move(&call->op);
}

/// C4, C5.
static void ask_call(struct weft__call *call, struct weft__carrier *carrier, enum weft__ask_why why)
{
    if (why == WEFT__ASK_MOVES && !may_move(call)) {
        return;
    }
    call->closed |= why == WEFT__ASK_CLOSES;
    call->moves |= why == WEFT__ASK_MOVES;
    carrier->driver->cancel(carrier->driver_state, &call->op);
}

static void ask_first(struct weft__use *use, struct weft__carrier *carrier, enum weft__ask_why why)
{
    ask_call(weft__container_of(use, struct weft__call, uses[0]), carrier, why);
}

static void ask_second(struct weft__use *use, struct weft__carrier *carrier, enum weft__ask_why why)
{
    ask_call(weft__container_of(use, struct weft__call, uses[1]), carrier, why);
}

// A call of a thread that may move, with a remedy: its op is in the carrier's annex (sched/annex.h), and
// binds the thread to nothing.

static void beside_finish(struct weft__op *op)
{
    struct weft__call *call = weft__container_of(op, struct weft__call, op);
    weft__use_gone(&call->uses[0]);
    weft__complete(&call->wait, op->result);
}

static void beside_done(struct weft__op *op)
{
    struct weft__call *call = weft__container_of(op, struct weft__call, op);
    weft__use_unlink(&call->uses[0]);
    weft__annex_ended(call->carrier->annex, op, beside_finish);
}

static void beside_ask(struct weft__wait *wait)
{
    struct weft__call *call = weft__container_of(wait, struct weft__call, wait);
    weft__annex_cancel(call->carrier->annex, &call->op, wait->task->home);
}

/// Under the annex's lock.
static void beside_asked(struct weft__use *use, struct weft__carrier *carrier,
                         enum weft__ask_why why)
{
    struct weft__call *call = weft__container_of(use, struct weft__call, uses[0]);
    if (why != WEFT__ASK_CLOSES) {
        return; // it keeps nobody here
    }
    call->closed = true;
    carrier->annex->driver->cancel(carrier->annex->driver_state, &call->op);
}

static int64_t run_beside(struct weft__call *call, struct weft__task *task, weft_time deadline)
{
    struct weft__carrier *carrier = task->home;
    struct weft__annex *annex = carrier->annex;
    call->op.done = beside_done;
    call->wait.ask = beside_ask;
    weft__lock_acquire(&annex->lock);
    bool ended = annex->driver->submit(annex->driver_state, &call->op);
    if (!ended) {
        weft__use_begin_beside(&call->uses[0], carrier, call->op.fd, beside_asked);
    }
    weft__lock_release(&annex->lock);
    if (ended) {
        weft__charge(task);
        return call->op.result;
    }
    weft__block(&call->wait, deadline);
    return call->wait.result;
}

/// One submission from start to end.
static int64_t run_once(struct weft__call *call, struct weft__task *task, const char *what,
                        weft_time deadline)
{
    struct weft__carrier *carrier = task->home;
    call->op.done = ended;
    call->carrier = carrier;
    call->uses[1].link = NULL;
    weft__wait_init(&call->wait, task, WEFT__WAIT_ASK, what);
    call->wait.ask = ask;
    if (weft__unlikely(carrier->annex != NULL) && call->op.code != WEFT__OP_SPLICE &&
        weft__task_may_move(task)) {
        return run_beside(call, task, deadline);
    }
    if (carrier->driver->submit(carrier->driver_state, &call->op)) {
        weft__charge(task);
        return call->op.result;
    }
    weft__use_begin(&call->uses[0], carrier, call->op.fd, ask_first);
    if (call->op.code == WEFT__OP_SPLICE) {
        weft__use_begin(&call->uses[1], carrier, call->op.from_fd, ask_second);
    }
    call->hold = weft__hold_of(task);
    if (weft__unlikely(call->hold != NULL)) {
        call->hold->call = call;
    }
    weft__task_bind(task);
    weft__block(&call->wait, deadline);
    weft__task_unbind(task);
    return call->wait.result;
}

static int use_descriptors(const struct weft__call *call, struct weft__carrier *carrier)
{
    int rc = weft__descriptor_use(carrier, call->op.fd);
    if (rc == 0 && weft__unlikely(call->op.code == WEFT__OP_SPLICE)) {
        rc = weft__descriptor_use(carrier, call->op.from_fd);
    }
    return rc;
}

static int64_t call_at_home(struct weft__call *call, struct weft__task *task, const char *what,
                            weft_time deadline)
{
    uint16_t file = weft__descriptor_closes(task->home, call->op.fd); // before it goes elsewhere
    call->closed = false;
    for (;;) {
        call->moves = false;
        if (weft__unlikely(task->home->leaving) && weft__retire_may_send(task)) {
            weft__host_yield(task); // C5
        }
        if (weft__hold_is_closed(task)) {
            return -EBADF;
        }
        int rc = use_descriptors(call, task->home);
        if (weft__unlikely(rc == -EAGAIN)) {
            weft__host_yield(task);
            continue;
        }
        if (weft__unlikely(rc < 0)) {
            return rc;
        }
        if (weft__unlikely(weft__descriptor_closes(task->home, call->op.fd) != file)) {
            return -EBADF; // close.c, F7
        }
        int64_t result = run_once(call, task, what, deadline);
        if (weft__likely(result != -ECANCELED && result != -EINTR)) {
            return result;
        }
        // Asked to end: by deadline or cancel, by weft_close(), or by whoever owns the descriptor.
        // Or else the carrier leaves; or a signal, or a worker of the kernel that was asked to stop: once more.
        int why = call->wait.why;
        if (why != 0 || call->closed || (result == -ECANCELED && !call->moves)) {
            return why != 0 ? why : -EBADF;
        }
    }
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
    weft__visit_begin(task);
    int64_t result = call_at_home(call, task, what, deadline);
    weft__visit_end(task);
    return result;
}

int64_t weft__write_now(int fd, const void *data, size_t size)
{
    struct weft__task *task = weft__thread_self();
    if (weft__unlikely(task == NULL || task->abroad || weft__scope_cancelled(task) ||
                       weft__hold_is_closed(task))) {
        return -EAGAIN;
    }
    struct weft__carrier *carrier = task->home;
    if (carrier->driver->write_now == NULL || weft__descriptor_use(carrier, fd) != 0) {
        return -EAGAIN;
    }
    int64_t n = carrier->driver->write_now(carrier->driver_state, fd, data, size);
    if (weft__likely(n != -EAGAIN)) {
        weft__charge(task);
    }
    return n;
}
