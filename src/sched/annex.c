// annex.c - what a carrier keeps for tasks that may move, under a lock.
//
// A carrier's wheel and driver are its own, without locks, and what waits there waits for its thread. If
// a task blocks that thread, tasks that could run elsewhere wait as well: for a timer that has expired,
// for an inbox that nobody opens, for a completion that nobody takes. So a runtime with a remedy
// (weft_options.remedy) gives each carrier an annex, and what concerns tasks that may move is there. The
// owner comes by in every step; if it is stuck, the monitor comes instead (diag/rescue.c). Pinned
// threads, connections and all that belongs to one carrier stay where they were: nobody else touches
// them.
//
// The danger: a stuck carrier may come back at any moment, in the middle of a rescue. Each of the two
// could run the same task, or one could go to sleep on what the other has put aside for it.
//
//     rescuer                                  owner
//     lock, or give up                         inbox not empty? lock
//     take the inbox whole                     what was kept, then the inbox, whole
//     tasks that may move: ours                unlock
//     the rest: to `kept`, in order
//     anything kept? marker into the inbox     going to sleep: state = PARKED, fence,
//     unlock                                     inbox empty? sleep
//     anything kept? fence, kick (weft__rouse)
//
//   N1  The inbox of a carrier with an annex is taken under the lock. So it is taken by one of the two.
//   N2  If something is kept, the marker is in the inbox. So everybody who looks whether the inbox is
//       empty, going to sleep above all, need not know about `kept`; and the marker is put there as
//       anything else is, so that a sleeper is woken for it (park.c). But the kick comes after the
//       lock: it may call the program (a poller's `wake`), and that may wait for somebody who wants it.
//   N3  `kept` came before whatever is in the inbox, and is handed out before it: the order in which
//       one producer pushed remains (I2 in inbox.c). It stays as it is while a rescuer takes the same
//       kinds of tasks as before: however much was kept, only what is new is looked at.
//   N4  A timer in the wheel here binds its task to no carrier: whoever wants to disarm it takes the
//       lock. Only the owner arms, so nobody has to wake it for an earlier expiry.
//   N5  What is due is taken out under the lock and fired without it. A deadline is then nothing but a
//       wake of its task, which may have gone meanwhile (task.h, T3); the owner of another timer keeps
//       its storage until it has fired (time/sleep.c).
//   N6  The driver here has only operations whose end any thread may see to: of calls of threads that may
//       move, and of futures. Completions are taken under the lock; what they lead to, wakers of the
//       program's among it, is called without.
//   N7  Only the owner and the monitor enter the kernel for it: an operation belongs to the OS thread
//       that handed it over, and ends with it. Who has cancelled one elsewhere asks the owner to come by.
//
// Rejected: a lock around the carrier's own wheel and driver (everything would pay for it, and a rescuer
// would meet completions of connections, which are no business of his); a thread that keeps timers and
// operations of all that may move (two hand-overs for each wait, stuck or not); taking single nodes out of
// the inbox (it is a stack; who pops from it needs a guard against ABA and turns the order round).
// Locks: annex.lock. Checked by: tests/model/annex_model.c, tests/api/remedy_test.c.
#include "sched/annex.h"

#include <poll.h>

#include "base/sys.h"

#include "sched/park.h"
#include "task/task.h"

#define BATCH WEFT__SIZED(32, 2)

/// A timer that was due: the deadline of a task, or another.
struct expiry {
    struct weft__task *task;
    struct weft__timer *timer;
};

static void marker_arrived(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)request;
    (void)carrier; // never called: whoever takes the inbox takes it out
}

/// The step that has opened the inbox comes by.
static void nudged(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)carrier;
    struct weft__annex *annex = weft__container_of(request, struct weft__annex, nudge);
    atomic_store_explicit(&annex->nudged, 0, memory_order_release);
}

void weft__annex_init(struct weft__annex *annex, struct weft__carrier *carrier)
{
    annex->carrier = carrier;
    annex->marker = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = marker_arrived };
    annex->nudge = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = nudged };
    annex->due = WEFT_FOREVER;
}

void weft__annex_arm(struct weft__annex *annex, struct weft__timer *timer, weft_time when)
{
    weft__lock_acquire(&annex->lock);
    weft__wheel_add(&annex->wheel, timer, when < WEFT_FOREVER ? when : WEFT_FOREVER - 1);
    weft__lock_release(&annex->lock);
}

bool weft__annex_disarm(struct weft__annex *annex, struct weft__timer *timer)
{
    weft__lock_acquire(&annex->lock);
    bool armed = weft__timer_armed(timer);
    if (armed) {
        weft__wheel_remove(&annex->wheel, timer);
    }
    weft__lock_release(&annex->lock);
    return armed;
}

bool weft__annex_deadline_stands(struct weft__task *task, weft_time when)
{
    struct weft__annex *annex = task->timed_at;
    struct weft__timer *timer = &task->deadline;
    if (annex == NULL) {
        return false;
    }
    weft__lock_acquire(&annex->lock);
    bool armed = weft__timer_armed(timer);
    bool early = armed && timer->when <= when;
    if (armed && !early) {
        weft__wheel_remove(&annex->wheel, timer);
    }
    weft__lock_release(&annex->lock);
    if (!early) {
        task->timed_at = NULL;
    }
    return early;
}

/// Takes out up to BATCH timers that are due. Under lock.
static int take_due(struct weft__annex *annex, weft_time now, struct expiry *due)
{
    int count = 0;
    struct weft__timer *timer;
    while (count < BATCH && (timer = weft__wheel_pop(&annex->wheel, now)) != NULL) {
        bool is_deadline = timer->fire == weft__deadline_fired;
        struct weft__task *task = weft__container_of(timer, struct weft__task, deadline);
        due[count++] = (struct expiry){ is_deadline ? task : NULL, timer };
    }
    return count;
}

/// N5.
static void fire(const struct expiry *due, int count)
{
    for (int i = 0; i < count; i++) {
        if (due[i].task != NULL) {
            weft__wake(due[i].task);
        } else {
            due[i].timer->fire(due[i].timer);
        }
    }
}

int weft__annex_fire(struct weft__annex *annex, weft_time now)
{
    struct expiry due[BATCH];
    int total = 0;
    int count;
    do {
        weft__lock_acquire(&annex->lock);
        count = annex->wheel.armed > 0 ? take_due(annex, now, due) : 0;
        weft__lock_release(&annex->lock);
        fire(due, count);
        total += count;
    } while (count == BATCH);
    return total;
}

weft_time weft__annex_expiry(struct weft__annex *annex, weft_time next)
{
    weft__lock_acquire(&annex->lock);
    weft_time first = weft__wheel_next(&annex->wheel);
    first = annex->due < first ? annex->due : first;
    weft__lock_release(&annex->lock);
    return first < next ? first : next;
}

int weft__annex_open(struct weft__annex *annex, const struct weft__driver *driver,
                     struct weft__driver_config config)
{
    weft__wheel_init(&annex->wheel, weft__clock_ns());
    config.shared = true;
    annex->driver = driver;
    int rc = driver->open(&annex->driver_state, &config);
    if (rc == 0) {
        int fd; // is made now: later its number may be one that the program has just closed
        rc = driver->lookout(annex->driver_state, &fd, &annex->due);
    }
    return rc < 0 ? rc : 0;
}

void weft__annex_ended(struct weft__annex *annex, struct weft__op *op,
                       void (*finish)(struct weft__op *op))
{
    op->finish = finish;
    op->next = annex->ended;
    annex->ended = op;
}

/// What has ended, the oldest first. Under lock.
static struct weft__op *take_ended(struct weft__annex *annex)
{
    struct weft__op *first = NULL;
    for (struct weft__op *op = annex->ended, *next; op != NULL; op = next) {
        next = op->next;
        op->next = first;
        first = op;
    }
    annex->ended = NULL;
    return first;
}

/// N6.
static void finish_all(struct weft__op *op)
{
    while (op != NULL) {
        struct weft__op *next = op->next;
        op->finish(op); // which may free it
        op = next;
    }
}

int weft__annex_poll(struct weft__annex *annex)
{
    weft__lock_acquire(&annex->lock);
    int events = annex->driver->poll(annex->driver_state);
    struct weft__op *ended = take_ended(annex);
    weft__lock_release(&annex->lock);
    finish_all(ended);
    return events;
}

void weft__annex_cancel(struct weft__annex *annex, struct weft__op *op, struct weft__carrier *self)
{
    weft__lock_acquire(&annex->lock);
    annex->driver->cancel(annex->driver_state, op);
    weft__lock_release(&annex->lock);
    // N7. The exchange releases the cancel to the owner, who takes the lock anyway.
    if (self != annex->carrier &&
        atomic_exchange_explicit(&annex->nudged, 1, memory_order_acquire) == 0) {
        weft__put(annex->carrier, &annex->nudge.node, self);
    }
}

static void watch_ended(struct weft__op *op)
{
    struct weft__annex *annex = weft__container_of(op, struct weft__annex, watch);
    annex->watching = false;
}

bool weft__annex_watch(struct weft__annex *annex)
{
    struct weft__carrier *carrier = annex->carrier;
    int fd = -1;
    weft__lock_acquire(&annex->lock);
    int events = annex->driver->lookout(annex->driver_state, &fd, &annex->due);
    if (events < 0) {
        annex->due = weft__clock_ns() + WEFT_MS; // no memory for a descriptor: asks every so often
    }
    bool again = events > 0 || annex->due == 0;
    struct weft__op *ended = take_ended(annex);
    weft__lock_release(&annex->lock);
    finish_all(ended);
    if (again || events < 0 || annex->watching) {
        return again;
    }
    weft__op_init(&annex->watch, WEFT__OP_POLL, fd, NULL, 0);
    annex->watch.flags = POLLIN;
    annex->watch.mode = WEFT__OP_UNCOUNTED;
    annex->watch.done = watch_ended;
    annex->watching = !carrier->driver->submit(carrier->driver_state, &annex->watch);
    return !annex->watching;
}

/// Appends what is in the inbox, but for the marker. Under lock.
static void empty_inbox(struct weft__annex *annex, struct weft__fifo *into)
{
    struct weft__node *node = weft__inbox_take(&annex->carrier->inbox);
    while (node != NULL) {
        struct weft__node *next = node->next;
        if (node != &annex->marker.node) {
            weft__fifo_push(into, node);
        }
        node = next;
    }
}

struct weft__node *weft__annex_take_inbox(struct weft__annex *annex)
{
    if (weft__inbox_empty(&annex->carrier->inbox)) {
        return NULL; // N2
    }
    weft__lock_acquire(&annex->lock);
    struct weft__fifo all = annex->kept;
    annex->kept = (struct weft__fifo){ 0 };
    empty_inbox(annex, &all);
    weft__lock_release(&annex->lock);
    return all.head;
}

/// N3. Returns whether something is kept, and so the owner has to be roused. Under lock.
static bool sort_inbox(struct weft__annex *annex, weft__takes_fn takes, struct weft__fifo *loot)
{
    struct weft__fifo arrived = { 0 };
    if (annex->kept_from != takes) {
        arrived = annex->kept;
        annex->kept = (struct weft__fifo){ 0 };
        annex->kept_from = takes;
    }
    empty_inbox(annex, &arrived);
    for (struct weft__node *node; (node = weft__fifo_pop(&arrived)) != NULL;) {
        bool ours = node->kind == WEFT__NODE_TASK &&
                    takes(weft__container_of(node, struct weft__task, node));
        weft__fifo_push(ours ? loot : &annex->kept, node);
    }
    if (annex->kept.head == NULL) {
        return false;
    }
    weft__inbox_push(&annex->carrier->inbox, &annex->marker.node); // N2
    return true;
}

bool weft__annex_rescue(struct weft__annex *annex, weft_time now, weft__takes_fn takes,
                        struct weft__fifo *loot)
{
    struct expiry due[BATCH];
    int count;
    do {
        if (!weft__lock_try(&annex->lock)) {
            return false;
        }
        count = take_due(annex, now, due);
        if (annex->driver_state != NULL) {
            (void)annex->driver->poll(annex->driver_state);
        }
        struct weft__op *ended = take_ended(annex);
        bool kept = !weft__inbox_empty(&annex->carrier->inbox) && sort_inbox(annex, takes, loot);
        weft__lock_release(&annex->lock);
        if (kept) {
            weft__rouse(annex->carrier, NULL);
        }
        fire(due, count);
        finish_all(ended);
    } while (count == BATCH);
    return true;
}
