// fd.c - cases that wait for a descriptor: an op of the driver in the case's own memory.
//
// All of it happens on one carrier: the task that selects is bound to it while ops are in flight, and
// their ends come between its tasks. The op belongs to the driver until its end, cancelled or not
// (sched/op.h), so a select that has committed another case asks it to end and waits for that.
#include <errno.h>

#include "sched/guest.h"
#include "select/select.h"

static void ended(struct weft__op *op);

static int fd_of(const struct weft__case *c)
{
    return (int)c->fd;
}

/// weft_close() wants it to end. A select does not move before it is over.
static void closes(struct weft__use *use, struct weft__carrier *carrier, enum weft__ask_why why)
{
    struct weft__case_fd *poll = weft__container_of(use, struct weft__case_fd, use);
    if (why == WEFT__ASK_MOVES) {
        return;
    }
    poll->closed = true;
    carrier->driver->cancel(carrier->driver_state, &poll->op);
}

/// What the op's result means, or WAITS if it has to be done once more: a signal came, or the kernel
/// was asked to stop a worker.
static int meaning(const struct weft__case_fd *poll)
{
    int64_t result = poll->op.result;
    if (result == -ECANCELED && !poll->asked) {
        return -EBADF; // closed, or whoever owns the descriptor has ended its ops
    }
    return result == -EINTR && !poll->asked ? WEFT__SYNC_WAITS : (int)result;
}

/// WAITS: it is in flight.
static int submit(struct weft__select *select, struct weft__case *c)
{
    struct weft__case_fd *poll = &c->wait.poll;
    struct weft__carrier *carrier = select->task->home;
    int rc = WEFT__SYNC_WAITS;
    do {
        poll->op = (struct weft__op){
            .done = ended, .code = WEFT__OP_POLL, .fd = fd_of(c), .flags = (uint32_t)c->want
        };
        if (!carrier->driver->submit(carrier->driver_state, &poll->op)) {
            weft__use_begin(&poll->use, carrier, fd_of(c), closes);
            select->ops++;
            weft__task_bind(select->task);
            c->waits = true;
            return WEFT__SYNC_WAITS;
        }
        rc = meaning(poll);
    } while (rc == WEFT__SYNC_WAITS);
    return rc;
}

static void ended(struct weft__op *op)
{
    struct weft__case *c = weft__case_of(op);
    struct weft__select *select = c->wait.poll.select;
    struct weft__batch batch;
    weft__use_end(&c->wait.poll.use);
    select->ops--;
    c->waits = false;
    c->result = meaning(&c->wait.poll);
    if (c->result == WEFT__SYNC_WAITS) {
        c->result = submit(select, c);
    }
    struct weft__task *task = select->task;
    bool waits = c->result == WEFT__SYNC_WAITS || (select->leaving && select->ops > 0);
    weft__batch_init(&batch);
    bool claimed = !waits && weft__main_claim(&select->main, &c->wait, c->result, &batch);
    weft__task_unbind(task); // until here the task could run nowhere but on this thread
    if (claimed) {
        weft__batch_finish(&batch); // the select may be gone
    }
}

int weft__case_fd_begin(struct weft__select *select, struct weft__case *c)
{
    struct weft__case_fd *poll = &c->wait.poll;
    if (c->want > UINT16_MAX) {
        return -EINVAL; // as weft_poll()
    }
    int rc = weft__task_is_at(select->task, select->task->home)
                 ? weft__descriptor_use(select->task->home, fd_of(c))
                 : -EPERM; // a future that is polled away from its home
    poll->late = rc == -EAGAIN;
    if (rc < 0) {
        return rc;
    }
    poll->select = select;
    poll->asked = false;
    poll->closed = false;
    return submit(select, c);
}

void weft__case_fd_ask(struct weft__select *select, struct weft__case *c)
{
    struct weft__carrier *carrier = select->task->home;
    c->wait.poll.asked = true;
    carrier->driver->cancel(carrier->driver_state, &c->wait.poll.op);
}
