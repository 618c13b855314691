// carrier.h - an OS thread that runs tasks, with its lanes, its wheel and its driver.
#ifndef WEFT_SCHED_CARRIER_H
#define WEFT_SCHED_CARRIER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "base/node.h"
#include "base/rng.h"
#include "sched/counts.h"
#include "sched/driver.h"
#include "sched/inbox.h"
#include "sched/inject.h"
#include "sched/offer.h"
#include "sched/lookout.h"
#include "sched/wheel.h"
#include "task/blocks.h"
#include "task/context.h"
#include "task/stack.h"
#include "task/task.h"

struct weft__annex;
struct weft__chunk;
struct weft__poller;
struct weft__crew;
struct weft__inject;
struct weft__use;

/// carrier.state. SEARCHING carries the victim's number above these bits (search.c).
#define WEFT__CARRIER_RUNNING UINT64_C(0)
#define WEFT__CARRIER_PARKED UINT64_C(1)
#define WEFT__CARRIER_SEARCHING UINT64_C(2)
#define WEFT__CARRIER_SHIFT 8

/// A function to call on a carrier's thread, sent through its inbox; in the sender's storage.
struct weft__request {
    struct weft__node node; // kind REQUEST
    void (*fn)(struct weft__request *request, struct weft__carrier *carrier);
};

/// Something that has collected work during a step and hands it to the driver at the end of it; in
/// its owner's storage, on its own carrier.
struct weft__flush {
    struct weft__flush *next;
    struct weft__flush **link; // NULL: not on the list
    void (*fn)(struct weft__flush *flush, struct weft__carrier *carrier);
};

/// What the work-stealing policy keeps of a carrier (policy_stealing.c).
struct weft__worker {
    struct weft__node *lifo;     // made ready last
    unsigned lifo_run;           // taken from there in a row
    unsigned since_look;         // tasks since the last look at the common queue
    unsigned interval;           // so many between two looks
    struct weft__inject *inject; // the common queue: the crew's, or the cluster's; fixed
    int64_t average_ns;          // of a task
};

struct weft__carrier {
    // Anyone's.
    _Alignas(WEFT__LINE_PAIR) _Atomic uint64_t state;
    _Alignas(WEFT__LINE_PAIR) struct weft__inbox inbox;
    _Atomic uint64_t placed; // tasks that others spawned here because it was the lighter one
    _Alignas(WEFT__LINE_PAIR) struct weft__offer offer;
    struct weft__inject spill; // more of the same, which `offer` has no room for (steal.c)

    // The poller: anyone may look at these, who has woken the carrier (poller.c).
    _Atomic bool polled; // somebody is its poller, or is about to be
    _Atomic(struct weft__poller *) poller;
    _Atomic uint32_t ringing;

    // From here on the owner's alone, unless it says otherwise.
    _Alignas(WEFT__LINE_PAIR) struct weft__fifo local;
    struct weft__task *current; // running now, or NULL
    _Atomic(struct weft__task *)
        ended; // dumps read it; its stack has been left, its reference not yet given back
    _Atomic(struct weft__task *) announced; // the monitor reads it: said that it may block (diag)
    struct weft__flush *flushes;            // what wants to be called at the end of this step
    struct weft__use **uses;                // calls in flight, by descriptor (io/descriptors.h)
    struct weft__chunk *chunks;             // output memory kept for reuse (net/chunk.c)
    unsigned chunks_kept;
    unsigned buffers_held;      // receive buffers that connections hold (net/pieces.c)
    unsigned buffers_limit;     // so many at most
    unsigned lingering;         // connections and listeners that are closed and not yet free
    unsigned draining;          // of these, connections whose peers are still listened to
    struct weft__flush *drains; // what is to be told to hurry when the carrier stops
    unsigned relay_left;        // hand-overs from thread to thread before the loop's turn
    struct weft__runner runner; // the carrier's own loop
    weft_time coarse_now;       // the clock when it was last read
    weft_time slice_end;        // of the running task; 0: not asked for yet
    struct weft__stack_cache stacks;
    struct weft__timer trims_stacks; // trim.c
    struct weft__block_cache blocks;
    uint64_t next_id;
    struct weft__rng random; // for choices that are to be fair (src/select, steal.c)
    weft_time quantum_ns;
    weft_time spin_ns;
    bool stop;
    bool uncounted;   // the task that ends next, at once, was not counted when it began
    bool leaving;     // runs only what cannot move (retire.c)
    bool polls;       // its poller has I/O to do, so it does not look for tasks to steal
    bool shares;      // puts tasks that may move on offer; fixed
    bool freely;      // under the work-stealing policy; fixed
    bool offering;    // there may be something in `offer` and `spill`; always true for `freely`
    bool aside;       // the spare one: runs what it is given, and looks for nothing; fixed
    bool offers_turn; // or else that of `local`
    int sent_to;      // number + 1 of the carrier to rob; 0: none
    struct weft__worker worker;

    // Fixed once the carrier runs; anyone may read.
    int number;
    int cluster; // in crew->clusters
    int cpu;     // kept on this one; -1: it floats, in its cluster if that has CPUs of its own
    int node;    // NUMA; -1: unknown
    struct weft__poller *resident; // has the poller's place while no other does; NULL: none
    struct weft__crew *crew;
    const struct weft__driver *driver;
    void *driver_state;
    struct weft__sim_clock *sim; // NULL: the real clock
    struct weft__annex *annex;   // NULL: nothing is done about it when it is stuck (annex.h)
    pthread_t thread;
    int tid;                // the kernel's number of that
    _Atomic uint64_t stuck; // 1: a task blocks it, or says so; cleared when the loop has its turn
    struct weft__lookout *lookout; // NULL: nobody watches
    struct weft__request control;  // the runtime's: stop, or report that you saw the root's cause
    struct weft__request resized;  // the runtime's: look whether you are to leave; while `told`
    _Atomic uint32_t told;

    _Alignas(WEFT__LINE_PAIR) struct weft__carrier_counts counts;
    _Alignas(WEFT__LINE_PAIR) struct weft__wheel wheel;
};

/// How many tasks others may take from the carrier, as far as this thread knows.
static inline uint64_t weft__carrier_offered(struct weft__carrier *carrier)
{
    return weft__offer_count(&carrier->offer) + weft__inject_count(&carrier->spill);
}

/// Counts a poll of the driver, or a wait in it, and what came of it.
static inline void weft__carrier_polled(struct weft__carrier *carrier, int events)
{
    weft__tally(&carrier->counts.polls, 1);
    weft__tally(&carrier->counts.events, (uint64_t)events);
}

/// annex.c: the earlier of `next` and the first expiry there.
weft_time weft__annex_expiry(struct weft__annex *annex, weft_time next);

/// When the carrier has to be awake: for the first of its timers.
static inline weft_time weft__carrier_expiry(struct weft__carrier *carrier)
{
    weft_time next = weft__wheel_next(&carrier->wheel);
    return weft__likely(carrier->annex == NULL) ? next : weft__annex_expiry(carrier->annex, next);
}

// current.c

/// The carrier whose thread we are on, or NULL. Never inlined: a virtual thread may be on another
/// OS thread after each park, and compilers keep thread-local addresses.
WEFT__NOINLINE struct weft__carrier *weft__carrier_self(void);
WEFT__NOINLINE void weft__carrier_set_self(struct weft__carrier *carrier);

/// Prepares the calling OS thread to run tasks for `carrier`.
void weft__carrier_adopt(struct weft__carrier *carrier);

/// The running task, of either kind, or NULL.
WEFT__NOINLINE struct weft__task *weft__task_self(void);

/// The running virtual thread, or NULL.
WEFT__NOINLINE struct weft__task *weft__thread_self(void);

/// weft__carrier_self(), or the home of the task that runs on an OS thread that is not a carrier; NULL
/// outside of all runtimes.
WEFT__NOINLINE struct weft__carrier *weft__carrier_near(void);

/// What a call says that needs a task and has none: -EPERM, or -ESRCH in the child of a fork.
WEFT__NOINLINE int weft__no_task(void);

/// Marks the calling thread as one that was inside a runtime when its process forked.
void weft__forget_self_after_fork(void);

/// A carrier for a foreign thread that needs one: of the default runtime, or NULL. Implemented by
/// the runtime layer.
struct weft__carrier *weft__default_carrier(void);

/// Reads the clock, real or simulated, and remembers it as coarse_now.
weft_time weft__carrier_now(struct weft__carrier *carrier);

/// Puts it on a list of its carrier, unless it is on one already.
static inline void weft__carrier_list(struct weft__flush **list, struct weft__flush *flush)
{
    if (flush->link == NULL) {
        flush->next = *list;
        flush->link = list;
        if (flush->next != NULL) {
            flush->next->link = &flush->next;
        }
        *list = flush;
    }
}

/// Has `flush->fn` called at the end of this step, once, unless it is on the list already. It is off
/// the list when it is called.
static inline void weft__carrier_flush_later(struct weft__carrier *carrier,
                                             struct weft__flush *flush)
{
    weft__carrier_list(&carrier->flushes, flush);
}

/// Takes it off the list, if it is on it.
static inline void weft__carrier_flush_not(struct weft__flush *flush)
{
    if (flush->link != NULL) {
        *flush->link = flush->next;
        if (flush->next != NULL) {
            flush->next->link = flush->link;
        }
        flush->link = NULL;
    }
}

// host.c

/// For a virtual thread that is about to make something that belongs to its home for good: takes it away
/// from the spare carrier, if that runs it, and to its own (diag/rescue.c, Z4). So it may yield, and wait
/// for as long as that is stuck. Only if there is no memory for its timers to travel it stays.
void weft__task_leave_spare(struct weft__task *task);

// step.c

/// Inbox, tasks for one quantum, timers, flush, and a poll if there is more to do. False: nothing
/// is, and the caller waits in the driver, which polls as well: one system call less per turn.
bool weft__step(struct weft__carrier *carrier);

/// Whether there is something to do without waiting.
bool weft__carrier_has_work(struct weft__carrier *carrier);

/// Runs a task that stands in no lane.
void weft__carrier_run(struct weft__carrier *carrier, struct weft__task *task);

/// Takes in what others sent: tasks to `local`, requests are carried out. On the carrier's thread.
void weft__carrier_open_inbox(struct weft__carrier *carrier);

/// No task is left on the carrier: tells those in `drains` to come to an end.
void weft__carrier_hurry(struct weft__carrier *carrier);

/// Nothing is to be done: spins, if it is told to, and sleeps until something is.
void weft__carrier_rest(struct weft__carrier *carrier);

/// Steps and sleeps until the carrier is told to stop. The body of a carrier's thread.
void weft__carrier_loop(struct weft__carrier *carrier);

#endif
