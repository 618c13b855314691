// poller.c - a virtual thread in the place where its carrier would sleep.
//
// The danger: the same as in park.c, but the one who goes to sleep is the program, in a call that we
// do not know. So the announcement and the look are separate calls, and whoever makes ready has two
// ways to end the sleep, because we do not know which the program watches:
//
//     making ready                        try_park
//     push the node                         take completions; state = PARKED; fence; look
//     fence (seq_cst)                     can_park
//     PARKED -> RUNNING?                    state still PARKED? then block
//       kick: the descriptor is readable  ... wakes, by the descriptor or by `wake`
//       ring: call `wake`                 unpark: state = RUNNING
//
//   Q1  The driver is told to be watched from outside (lookout) in try_park, before PARKED: what it
//       completes later makes the descriptor readable, and so does a kick, which is a token.
//   Q2  Whoever moves PARKED to RUNNING kicks first and rings second, both after the move. So a poller
//       that asks can_park inside the lock that `wake` takes either sees RUNNING, or is asleep on that
//       lock's condition when `wake` comes.
//   Q3  A body may return while somebody is on his way to ring. He counts himself in before he reads the
//       slot, and out as his last touch; who leaves empties the slot before it looks at the count. At
//       least one sees the other (both fence).
//   Q4  Others find the poller in its slot, and nobody counts the looks of its own carrier's loop. So it
//       is put there only when its body is certain to run, and taken out by the carrier's thread.
//   Q5  A wake of its thread that comes while that is not parked, a cancel perhaps, may find it asleep in
//       a call of the program's. It leaves a mark in the thread's word, and then does what a push does:
//       so try_park looks at that, too, when it has announced.
//   Q6  A poller that parks a second time without a step between has ignored what its carrier was woken
//       for; one that never asked for the descriptor cannot hear of completions. Neither may sleep.
//   Q7  A resident is weft's own poller (WEFT_POLLER=tasks, runtime/poller_task.c). It has the slot when
//       no other poller has it, exists as long as its carrier, and nobody wakes it but the carrier. One
//       of the program's takes its place; meanwhile it waits in maybe_yield and has no turn.
//   Q8  Somebody's call for help keeps a poller awake (search.c, S1). It wanted to sleep, so it is idle,
//       whatever it says: its carrier looks for tasks in the next step. Else it would neither sleep nor help.
//   Q9  One that was refused may have been sent to search meanwhile. It does not sleep before its carrier has
//       done so: others rely on a search that goes on (search.c, S3), and looking has taken the kick.
//
// Rejected: the ring's own descriptor (with deferred task work nothing is posted until the owner
// enters the kernel: it is not readable); a lock around the call of `wake` (it is the program's code).
// Locks: none. Checked by: tests/model/poller_model.c, poller_help_model.c, tests/api/poller_test.c.
#include "sched/poller.h"

#include "sched/annex.h"

#include <sched.h>

#include "sched/crew.h"
#include "sched/park.h"
#include "task/host.h"
#include "task/word.h"

bool weft__poller_enter(struct weft__poller *poller, struct weft__carrier *carrier)
{
    poller->carrier = carrier;
    poller->stepped = true;
    if (poller == carrier->resident) { // Q7
        struct weft__poller *none = NULL;
        return atomic_compare_exchange_strong_explicit(&carrier->poller, &none, poller,
                                                       memory_order_release, memory_order_relaxed);
    }
    return !atomic_exchange_explicit(&carrier->polled, true, memory_order_acquire);
}

void weft__poller_show(struct weft__poller *poller)
{
    atomic_store_explicit(&poller->carrier->poller, poller, memory_order_release);
}

void weft__poller_leave(struct weft__poller *poller)
{
    struct weft__carrier *carrier = poller->carrier;
    if (poller->parked) {
        weft__poller_unpark(poller);
    }
    bool resides = poller == carrier->resident;
    if (atomic_load_explicit(&carrier->poller, memory_order_relaxed) == poller) {
        struct weft__poller *next = resides ? NULL : carrier->resident;
        atomic_store_explicit(&carrier->poller, next, memory_order_relaxed);
    }
    atomic_thread_fence(memory_order_seq_cst); // Q3
    while (atomic_load_explicit(&carrier->ringing, memory_order_acquire) != 0) {
        sched_yield();
    }
    if (!resides) {
        atomic_store_explicit(&carrier->polled, false, memory_order_relaxed); // after the fence
    }
}

void weft__poller_ring(struct weft__carrier *carrier)
{
    atomic_fetch_add_explicit(&carrier->ringing, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); // Q3
    const struct weft__poller *poller = atomic_load_explicit(&carrier->poller,
                                                             memory_order_acquire);
    if (poller != NULL && poller->wake != NULL) {
        poller->wake(poller->arg);
    }
    atomic_fetch_sub_explicit(&carrier->ringing, 1, memory_order_release);
}

// Being scheduled: it stands in no lane, its carrier's loop knows it.

static void is_ready(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)carrier;
    weft__container_of(request, struct weft__poller, request)->ready = true;
}

static void make_ready(struct weft_scheduler *sched, struct weft__task *task)
{
    struct weft__poller *poller = weft__container_of(sched, struct weft__poller, sched);
    struct weft__carrier *self = weft__carrier_self();
    struct weft__crew *crew = task->crew;
    if (self == poller->carrier) {
        poller->ready = true;
        return;
    }
    poller->request = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = is_ready };
    weft__crew_enter(crew); // as crew.c does for a task that is handed over
    weft__put(poller->carrier, &poller->request.node, self);
    weft__crew_leave(crew);
}

static void start(struct weft_scheduler *sched, struct weft__task *task)
{
    struct weft__poller *poller = weft__container_of(sched, struct weft__poller, sched);
    if (poller != poller->carrier->resident) { // that is there, or another has taken its place
        weft__poller_show(poller);             // Q4
    }
    make_ready(sched, task);
}

const struct weft_scheduler_ops weft__poller_ops = {
    .on_start = start,
    .on_continue = make_ready,
};

bool weft__poller_turn(struct weft__carrier *carrier)
{
    struct weft__poller *poller = atomic_load_explicit(&carrier->poller, memory_order_acquire);
    if (poller == NULL || !(poller->ready || poller->waiting)) {
        return false;
    }
    // A step without work leaves that to the wait, which does not come unless the resident waits.
    if (poller->waiting && poller != carrier->resident) {
        weft__carrier_polled(carrier, carrier->driver->poll(carrier->driver_state));
    }
    poller->ready = poller->waiting = false;
    weft__carrier_run(carrier, poller->task);
    return true;
}

// Sleeping.

static bool in_flight(const struct weft__driver *driver, void *state)
{
    const struct weft__op_counts *counts = driver->counts(state);
    return atomic_load_explicit(&counts->submitted, memory_order_relaxed) !=
           atomic_load_explicit(&counts->completed, memory_order_relaxed);
}

static bool has_ops(struct weft__carrier *carrier)
{
    const struct weft__annex *annex = carrier->annex;
    return in_flight(carrier->driver, carrier->driver_state) ||
           (annex != NULL && in_flight(annex->driver, annex->driver_state));
}

/// Q6. NULL: it may sleep.
static const char *fault(struct weft__poller *poller)
{
    if (!poller->stepped) {
        return "it was woken and has not called weft_poller_maybe_yield()";
    }
    if (!poller->watches && poller->wake == NULL) {
        return "nothing can wake it: it has no wake function and does not watch weft_poller_fd()";
    }
    if (!poller->watches && has_ops(poller->carrier)) {
        return "operations are in flight and it does not watch weft_poller_fd()";
    }
    return NULL;
}

bool weft__poller_try_park(struct weft__poller *poller)
{
    struct weft__carrier *carrier = poller->carrier;
    if (weft__unlikely(carrier->annex != NULL) && weft__annex_watch(carrier->annex)) {
        return false;
    }
    int events = carrier->driver->lookout(carrier->driver_state, &poller->fd, &poller->due);
    if (events < 0) {
        return false; // no memory for a descriptor: it stays awake
    }
    weft__carrier_polled(carrier, events);
    if (events > 0 || poller->due == 0 || weft__carrier_has_work(carrier) ||
        carrier->sent_to != 0) { // Q9
        return false;
    }
    const char *why = fault(poller);
    if (why != NULL) {
        if (!poller->warned) {
            weft__poller_report(poller, why);
        }
        poller->warned = true;
        return false;
    }
    poller->parked = weft__sleep_begin(carrier);
    poller->refused = !poller->parked;                               // Q8
    if (poller->parked && weft__word_clear_notified(poller->task)) { // Q5
        poller->parked = false;
        weft__sleep_end(carrier);
    }
    return poller->parked;
}

void weft__host_rouse(struct weft__task *task)
{
    struct weft__carrier *self = weft__carrier_self();
    if (!weft__word_retain_if(task, WEFT__WORD_POLLER)) {
        return;
    }
    struct weft__crew *crew = task->crew;
    weft__crew_enter(crew);
    weft__rouse(task->home, self);
    weft__task_release(task, self);
    weft__crew_leave(crew);
}

bool weft__poller_can_park(const struct weft__poller *poller)
{
    struct weft__carrier *carrier = poller->carrier;
    return poller->parked &&
           atomic_load_explicit(&carrier->state, memory_order_relaxed) == WEFT__CARRIER_PARKED;
}

void weft__poller_unpark(struct weft__poller *poller)
{
    poller->parked = false;
    poller->stepped = false;
    weft__sleep_end(poller->carrier);
}
