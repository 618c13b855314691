// io_future.c - one operation of a driver as a future. What the operations are is in io_leaves.c; futures
// of several, one after the other, are in io_full.c and io_splice.c.
//
// The danger: the op is the driver's, on one carrier, until its own end; the future may be polled and
// cancelled from others meanwhile (futures move), and its storage goes when it is READY.
//
//     poll, cancel: the owner                  the op's carrier
//     clone the waker                          done: the op is over, unless a request is on its way
//     begin:  here: submit                     request: submit the op, or
//             elsewhere: request, to the inbox   cancel it, or, if it has ended meanwhile,
//     over? READY                                it is over now
//     cancel: here: to the driver
//             elsewhere: request, to the inbox
//
//   I1  The bell (task/bell.h) is rung on the op's carrier when the op has ended and no request is on
//       its way to it. Releasing its lock is the carrier's last touch.
//   I2  A request is sent only while none is on its way and the op has not ended: once to begin, where
//       the task is on a thread of its scheduler's (sched/guest.h), and once to cancel. A cancel that
//       finds the former on its way leaves word: then the op is not begun.
//   I3  An op in flight is listed under its descriptor, so that weft_close() finds it (io/close.c, F1).
//   I4  As for calls (io/call.c): a cancelled future starts nothing, bytes win over the cancel, and what
//       a signal has cut short is begun again.
//   I5  An op whose carrier leaves is asked to end, and begun again where the future is polled then, if
//       nothing had happened.
//   I6  The ops of a series follow each other on the carrier, without the owner, and it is listed from its
//       beginning to its end, as a call that holds its descriptors (io/hold.h). Like that it stays on a
//       carrier that leaves, and out of its annex.
//
// Locks: the bell's, alone. Checked by: tests/unit/io_future_test.c.
#include "future/io_future.h"

#include <errno.h>
#include <sys/uio.h>

#include "sched/crew.h"
#include "sched/park.h"

enum phase { FRESH, IN_FLIGHT, READY };

/// Ops of a series that end at once before others have their turn.
#define ROUNDS_MOST WEFT__SIZED(16, 1)

static struct weft__io_future *of(struct weft_future *future)
{
    return weft__container_of(future, struct weft__io_future, future);
}

/// On the op's carrier: I1.
static void settle(struct weft__io_future *io, bool arrived)
{
    weft_waker waker = { NULL, NULL };
    weft__lock_acquire(&io->bell.lock);
    if (arrived) {
        io->queued = false;
    } else {
        io->ended = true;
    }
    if (io->ended && !io->queued) {
        waker = weft__bell_take(&io->bell);
    }
    weft__lock_release(&io->bell.lock);
    weft_waker_wake(&waker);
}

static void op_done(struct weft__op *op);

static struct weft__io_series *series_of(struct weft__io_future *io)
{
    return weft__container_of(io, struct weft__io_series, io);
}

static bool submit(struct weft__io_future *io)
{
    return io->carrier->driver->submit(io->carrier->driver_state, &io->op);
}

/// An op of a series has ended. True: it goes on, and op_done() will be called; else op.result is final.
/// I4: what has happened counts, and who was asked to end begins no other.
static bool goes_on(struct weft__io_future *io)
{
    for (int rounds = 0;; rounds++) {
        bool again = io->op.result == -EINTR && !io->asked;
        enum weft__io_step step = again ? WEFT__IO_GO_ON : io->next(io);
        if (step == WEFT__IO_OVER) {
            return false;
        }
        if (io->asked) {
            io->op.result = -ECANCELED;
            return false;
        }
        io->op.done = op_done;
        if (step == WEFT__IO_LATER || rounds == ROUNDS_MOST) {
            io->paused = true;
            weft__carrier_flush_later(io->carrier, &series_of(io)->pause);
            return true;
        }
        if (!submit(io)) {
            return true;
        }
    }
}

/// It is listed, and over.
static void finish(struct weft__io_future *io)
{
    weft__use_end(&io->use);
    if (weft__unlikely(io->two)) {
        weft__use_end(&series_of(io)->also);
    }
    settle(io, false);
}

static void op_done(struct weft__op *op)
{
    struct weft__io_future *io = weft__container_of(op, struct weft__io_future, op);
    if (weft__likely(io->next == NULL) || !goes_on(io)) {
        finish(io);
    }
}

/// The carrier's step has come to its end.
static void after_pause(struct weft__flush *pause, struct weft__carrier *carrier)
{
    struct weft__io_future *io = &weft__container_of(pause, struct weft__io_series, pause)->io;
    (void)carrier;
    io->paused = false;
    if (io->asked) {
        io->op.result = -ECANCELED;
        finish(io);
    } else if (submit(io)) {
        op_done(&io->op);
    }
}

static void ask_driver(struct weft__io_future *io)
{
    io->asked = true;
    if (!io->paused) { // else it is looked at soon
        io->carrier->driver->cancel(io->carrier->driver_state, &io->op);
    }
}

/// I3: the descriptor is about to be closed; or I5.
static void ask(struct weft__io_future *io, enum weft__ask_why why)
{
    if (why == WEFT__ASK_MOVES && (io->next != NULL || !weft__op_may_move(&io->op))) {
        return;
    }
    io->closed |= why == WEFT__ASK_CLOSES;
    io->moves |= why == WEFT__ASK_MOVES;
    ask_driver(io);
}

static void asked(struct weft__use *use, struct weft__carrier *carrier, enum weft__ask_why why)
{
    (void)carrier;
    ask(weft__container_of(use, struct weft__io_future, use), why);
}

static void asked_also(struct weft__use *use, struct weft__carrier *carrier, enum weft__ask_why why)
{
    (void)carrier;
    ask(&weft__container_of(use, struct weft__io_series, also)->io, why);
}

/// The op is in flight on this carrier.
static void list(struct weft__io_future *io, struct weft__carrier *carrier)
{
    weft__use_begin(&io->use, carrier, io->use.fd, asked);
    if (weft__unlikely(io->two)) {
        struct weft__use *also = &series_of(io)->also;
        weft__use_begin(also, carrier, also->fd, asked_also);
    }
}

// With a remedy the op is in the carrier's annex (sched/annex.h): it may be cancelled, and ends, anywhere,
// and no request is needed.

static void beside_finish(struct weft__op *op)
{
    struct weft__io_future *io = weft__container_of(op, struct weft__io_future, op);
    weft__use_gone(&io->use);
    settle(io, false);
}

static void beside_done(struct weft__op *op)
{
    struct weft__io_future *io = weft__container_of(op, struct weft__io_future, op);
    weft__use_unlink(&io->use);
    weft__annex_ended(io->carrier->annex, op, beside_finish);
}

/// Under the annex's lock.
static void beside_asked(struct weft__use *use, struct weft__carrier *carrier,
                         enum weft__ask_why why)
{
    struct weft__io_future *io = weft__container_of(use, struct weft__io_future, use);
    if (why != WEFT__ASK_CLOSES) {
        return; // it keeps nobody here
    }
    io->closed = true;
    carrier->annex->driver->cancel(carrier->annex->driver_state, &io->op);
}

/// True: it has ended. The waker is in place: the end may come at once, elsewhere.
static bool submit_beside(struct weft__io_future *io, struct weft__carrier *carrier)
{
    struct weft__annex *annex = carrier->annex;
    io->op.done = beside_done;
    weft__lock_acquire(&annex->lock);
    bool ended = annex->driver->submit(annex->driver_state, &io->op);
    if (!ended) {
        weft__use_begin_beside(&io->use, carrier, io->use.fd, beside_asked);
    }
    weft__lock_release(&annex->lock);
    return ended;
}

static enum weft_poll ready(struct weft__io_future *io, int64_t result)
{
    io->phase = READY;
    io->future.result = result;
    return WEFT_READY;
}

/// io_uring ignores the offset where there are no positions; POSIX refuses. Nothing is transferred to
/// learn about that.
static int check_position(const struct weft__io_future *io, const struct weft__crew *crew)
{
    if (!io->at_position || crew->simulated) {
        return 0;
    }
    if (io->op.offset < 0) {
        return -EINVAL;
    }
    bool writes = io->op.code == WEFT__OP_WRITE || io->op.code == WEFT__OP_WRITEV;
    ssize_t rc = writes ? pwritev(io->op.fd, NULL, 0, io->op.offset)
                        : preadv(io->op.fd, NULL, 0, io->op.offset);
    return rc < 0 ? -errno : 0;
}

/// What comes before the op: 0, or what the future ends with; -EAGAIN: ask again.
static int prepare(struct weft__io_future *io, struct weft__carrier *carrier)
{
    if (io->error < 0) {
        return io->error;
    }
    int rc = check_position(io, carrier->crew);
    rc = rc < 0 ? rc : weft__descriptor_use(carrier, io->use.fd);
    if (rc == 0 && weft__unlikely(io->two)) {
        rc = weft__descriptor_use(carrier, series_of(io)->also.fd);
    }
    if (rc < 0) {
        return rc;
    }
    uint16_t file = weft__descriptor_closes(carrier, io->use.fd);
    if (weft__unlikely(io->known && io->file != file)) {
        return -EBADF; // io/close.c, F7
    }
    io->known = true;
    io->file = file;
    return 0;
}

/// True: all is over.
static bool submit_first(struct weft__io_future *io)
{
    return submit(io) && (weft__likely(io->next == NULL) || !goes_on(io));
}

/// On the carrier, which has no task at the moment: what has no op is over at once.
static void begin_there(struct weft__io_future *io, struct weft__carrier *carrier, bool unwanted)
{
    int rc = unwanted ? -ECANCELED : prepare(io, carrier);
    io->begun = true;
    if (rc < 0) {
        io->op.result = rc == -EAGAIN ? -EINTR : rc; // somebody is inside close(2): once more
    } else if (!submit_first(io)) {
        list(io, carrier);
        return;
    }
    settle(io, false);
}

static void request_arrived(struct weft__request *request, struct weft__carrier *carrier)
{
    struct weft__io_future *io = weft__container_of(request, struct weft__io_future, request);
    if (io->begun) {
        if (!io->ended) { // written by this thread
            ask_driver(io);
        }
        settle(io, true);
        return;
    }
    weft__lock_acquire(&io->bell.lock);
    io->queued = false;
    bool unwanted = io->unwanted;
    weft__lock_release(&io->bell.lock);
    begin_there(io, carrier, unwanted);
}

static void send_request(struct weft__io_future *io, struct weft__carrier *self)
{
    struct weft__crew *crew = io->carrier->crew;
    weft__crew_enter(crew);
    weft__put(io->carrier, &io->request.node, self);
    weft__crew_leave(crew);
}

static enum weft_poll begin(struct weft__io_future *io, const weft_waker *waker);

/// The op has ended. I4.
static enum weft_poll end(struct weft__io_future *io, const weft_waker *waker)
{
    int64_t result = io->op.result;
    if (weft__likely(result != -ECANCELED && result != -EINTR)) {
        return ready(io, result);
    }
    if (io->cancelled || io->closed || (result == -ECANCELED && !io->moves)) {
        return ready(io, io->cancelled ? -ECANCELED : -EBADF);
    }
    return begin(io, waker);
}

/// The task runs on a thread of its scheduler's: its home has the driver.
static enum weft_poll begin_from_abroad(struct weft__io_future *io, const weft_waker *waker)
{
    weft__bell_set(&io->bell, waker);
    io->phase = IN_FLIGHT;
    io->begun = io->unwanted = false;
    io->queued = true;
    send_request(io, NULL);
    return WEFT_PENDING;
}

static enum weft_poll begin_here(struct weft__io_future *io, const weft_waker *waker)
{
    struct weft__carrier *carrier = io->carrier;
    int rc = prepare(io, carrier);
    if (weft__unlikely(rc == -EAGAIN)) { // somebody is inside close(2)
        io->phase = FRESH;
        weft_waker_wake_by_ref(waker);
        return WEFT_PENDING;
    }
    if (weft__unlikely(rc < 0)) {
        return ready(io, rc);
    }
    io->begun = true;
    if (weft__unlikely(carrier->annex != NULL) && io->next == NULL) {
        io->phase = IN_FLIGHT;
        weft__bell_set(&io->bell, waker);
        if (submit_beside(io, carrier)) {
            weft__bell_drop(&io->bell);
            return end(io, waker);
        }
        return WEFT_PENDING;
    }
    if (submit_first(io)) {
        io->phase = IN_FLIGHT; // for end(), which may have to begin again
        return end(io, waker);
    }
    list(io, carrier);
    weft__bell_set(&io->bell, waker); // done() is called by this thread, and later
    io->phase = IN_FLIGHT;
    return WEFT_PENDING;
}

static enum weft_poll begin(struct weft__io_future *io, const weft_waker *waker)
{
    struct weft__carrier *self = weft__carrier_self();
    if (io->cancelled || io->closed) {
        return ready(io, io->cancelled ? -ECANCELED : -EBADF);
    }
    const struct weft__task *task = self != NULL ? self->current : weft__task_self();
    if (task == NULL) {
        return ready(io, weft__no_task());
    }
    io->carrier = self != NULL ? self : task->home;
    io->op.done = op_done;
    io->ended = io->moves = io->asked = false;
    return self != NULL ? begin_here(io, waker) : begin_from_abroad(io, waker);
}

enum weft_poll weft__io_future_poll(struct weft_future *future, weft_waker *waker)
{
    struct weft__io_future *io = of(future);
    switch ((enum phase)io->phase) {
    case FRESH: return begin(io, waker);
    case IN_FLIGHT: return weft__bell_rung(&io->bell, waker) ? end(io, waker) : WEFT_PENDING;
    case READY: break;
    }
    return WEFT_READY;
}

/// From another thread: I2. Once it is sent the future is not over before it has arrived.
static void request_cancel(struct weft__io_future *io, struct weft__carrier *self)
{
    weft__lock_acquire(&io->bell.lock);
    bool send = !io->ended && !io->queued;
    io->unwanted = io->queued;
    io->queued = io->queued || send;
    weft__lock_release(&io->bell.lock);
    if (send) {
        send_request(io, self);
    }
}

static void cancel(struct weft_future *future)
{
    struct weft__io_future *io = of(future);
    io->cancelled = true;
    if (io->phase != IN_FLIGHT) {
        return;
    }
    struct weft__carrier *self = weft__carrier_self();
    if (io->next == NULL && io->op.done == beside_done) { // the op of a series is the carrier's
        weft__annex_cancel(io->carrier->annex, &io->op, self);
    } else if (self != io->carrier || !io->begun) {
        request_cancel(io, self);
    } else if (!io->ended) {
        ask_driver(io);
    }
}

void weft__io_future_init(struct weft__io_future *io, struct weft__op op, int error)
{
    *io = (struct weft__io_future){
        .op = op,
        .use = { .fd = op.fd },
        .error = error,
        .request = { .node.kind = WEFT__NODE_REQUEST, .fn = request_arrived },
    };
    weft_future_init(&io->future, weft__io_future_poll, cancel);
}

bool weft__io_future_fresh(const struct weft__io_future *io)
{
    return io->phase == FRESH;
}

void weft__io_series_init(struct weft__io_series *series, int fd,
                          enum weft__io_step (*next)(struct weft__io_future *io))
{
    series->io.next = next;
    series->io.two = fd != -1;
    series->also = (struct weft__use){ .fd = fd };
    series->pause = (struct weft__flush){ .fn = after_pause };
}
