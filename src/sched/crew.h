// crew.h - the carriers of one runtime and what they share.
#ifndef WEFT_SCHED_CREW_H
#define WEFT_SCHED_CREW_H

#include "base/lock.h"
#include "sched/carrier.h"
#include "sched/inject.h"
#include "sched/topology.h"
#include "task/blocks.h"
#include "task/scope.h"

struct weft__beyond;
struct weft__blocking;
struct weft__log;
struct weft__size_watch;
struct weft__driver_threads;

/// Who uses which descriptor; see io/descriptors.h.
struct weft__descriptors {
    _Atomic uint64_t *users;
    uint32_t count;
    struct weft__lock lock;
    struct weft__beyond *closings; // of descriptors beyond the table, at the moment; under lock
};

/// Carriers that share a last-level cache: number `first` and those that follow.
struct weft__cluster {
    int first;
    int count;
};

struct weft__crew {
    // Fixed once the carriers run.
    struct weft__carrier *carriers; // room for `capacity`
    int capacity;
    struct weft__carrier *spare; // one more that is not active, for when others are stuck; or NULL
    struct weft__cluster *clusters; // room for `capacity`; without a topology one has all carriers
    int cluster_count;
    struct weft__topology topology; // no CPUs: all carriers float
    struct weft__help *help;        // one for each cluster; NULL unless carriers share (steal.c)
    bool steals_globally;           // or else within a cluster
    struct weft_scheduler sched;    // the policy
    struct weft_scheduler abroad;   // of tasks on a scheduler of the program's (guest.h, G4)
    struct weft_scheduler delegate; // what schedulers of the program's hand tasks to (scheduler.c)
    struct weft_scheduler *chosen;  // one of those for all tasks that it takes, or NULL
    struct weft__stack_pool *stacks;
    _Atomic int trimmers;    // carriers that will look for stacks that are not needed (trim.c)
    size_t stack_size_bytes; // default for virtual threads
    const struct weft_allocator *allocator;
    struct weft__blocking *blocking;             // blocking/pool.h
    struct weft__driver_threads *driver_threads; // io/remote.h; NULL: carriers have drivers
    struct weft__descriptors descriptors;
    bool simulated;      // then foreign threads are refused
    uint32_t generation; // of the process that made it: forks that lay before

    // How many carriers there are. The first of them, always: no number is ever skipped.
    _Atomic int started; // have a thread and a driver, and keep them; only grows
    _Atomic int active;  // of these, take what may move and what is placed nowhere in particular

    struct weft__lock watching;
    struct weft__size_watch *watches; // under that lock (size_watch.h)

    struct weft__inject inject;   // ready tasks of no carrier and no cluster (policy_stealing.c)
    struct weft__scope root;      // every weft_go lives in it
    struct weft__blocks blocks;   // control blocks of futures
    _Atomic uint32_t next_spread; // round robin

    // Other threads count here what carriers count in their own counters.
    _Atomic uint64_t foreign_spawned;
    _Atomic uint64_t foreign_ended;
    _Atomic uint64_t foreign_ids;
    struct weft__foreign_counts foreign_counts;
    _Atomic uint64_t stuck;   // tasks that the monitor reported
    _Atomic uint64_t held_up; // threads that waited behind them and could not be helped
    _Atomic uint64_t rescued; // tasks that were taken over from stuck carriers

    struct weft__lookout lookout; // of the monitor

    // Wakes by other threads than the simulation's own.
    _Atomic uint32_t refused_wakes;

    // Threads of other crews, or of none, that are handing over a task right now; see crew.c.
    _Atomic uint32_t visitors;

    // Shutting down (the stage is the root's cause): whoever ends a task bumps `endings` and wakes
    // those who wait for zero.
    _Atomic uint32_t endings;
    _Atomic uint32_t asked; // carriers whether they have seen that it has begun; 0: none so far
    _Atomic uint32_t acknowledged; // of these, those that have
};

/// For whoever has to see every carrier that runs: dumps, statistics, the shutdown, what was placed on a
/// carrier by its number. Acquires: what they need is there.
static inline int weft__crew_started(const struct weft__crew *crew)
{
    return atomic_load_explicit(&crew->started, memory_order_acquire);
}

/// For whoever chooses a carrier. It may be less by the time the choice is made: a carrier that was
/// active once goes on and sends elsewhere what it should not have got.
static inline int weft__crew_active(const struct weft__crew *crew)
{
    return atomic_load_explicit(&crew->active, memory_order_relaxed);
}

/// Whether the program may name the carrier of that number: it runs, and is not the spare one.
static inline bool weft__crew_has(const struct weft__crew *crew, int number)
{
    return number >= 0 && number < weft__crew_started(crew) && !crew->carriers[number].aside;
}

/// Those of a cluster that are active; there may be none.
static inline struct weft__cluster weft__crew_cluster(const struct weft__crew *crew, int number)
{
    struct weft__cluster cluster = crew->clusters[number];
    int left = weft__crew_active(crew) - cluster.first;
    cluster.count = left < 0 ? 0 : left < cluster.count ? left : cluster.count;
    return cluster;
}

/// Puts carriers where `seats` says, one for each of the capacity; NULL: they all float, in one cluster.
void weft__crew_seat(struct weft__crew *crew, const struct weft__seat *seats);

/// "carrier-1-cluster0-core3", "carrier-1-cluster0" or "carrier-1": what is known of its place. The
/// core is the CPU's number. Longer than the 15 characters that a thread's name may have.
void weft__carrier_name(const struct weft__carrier *carrier, char *name, size_t size_bytes);

/// The crew whose carrier or task this thread is running; NULL outside of all of them. current.c.
WEFT__NOINLINE struct weft__crew *weft__crew_self(void);

/// Tasks that have been spawned and not ended. Exact when it says 0: see crew.c.
uint64_t weft__crew_live(struct weft__crew *crew);

/// Around whatever a thread of another crew, or of none, does with a crew that its own action may
/// allow to go: handing over a task, giving back its last handle, setting a timer. See crew.c.
static inline void weft__crew_enter(struct weft__crew *crew)
{
    atomic_fetch_add_explicit(&crew->visitors, 1, memory_order_relaxed);
}

static inline void weft__crew_leave(struct weft__crew *crew)
{
    atomic_fetch_sub_explicit(&crew->visitors, 1, memory_order_release);
}

/// Waits until no visitor is inside. The carriers have stopped, so it is a matter of moments.
void weft__crew_await_visitors(struct weft__crew *crew);

/// Why a foreign thread (`self` is not of the crew) may not use it: -ESRCH after a fork, -ENOTSUP
/// when simulated, else 0. Implemented by the runtime layer, which knows about forks.
int weft__runtime_refuses(const struct weft__crew *crew, const struct weft__carrier *self);

/// The crew of a runtime. Implemented by the runtime layer.
struct weft__crew *weft__crew_of(weft_runtime *runtime);

/// Where its runtime logs. Implemented by the runtime layer.
const struct weft__log *weft__crew_log(struct weft__crew *crew);

/// Counts the forks that lie between the first process and this one. Implemented by the runtime
/// layer.
uint32_t weft__fork_generation(void);

/// What a spawn needs to know.
struct weft__spawn {
    bool is_future;
    weft_fn fn;          // of a virtual thread
    weft_ended_fn ended; // of a future, or NULL
    void *arg;           // the function's argument, or the struct weft_future
    const struct weft_attr *attr;
    struct weft__scope *scope;     // the child's birth scope
    struct weft_scheduler *policy; // who is told when it is ready; NULL: as usual
    bool uncounted;                // nobody waits for its end (carrier.uncounted)
    const char *file;
    int line;
};

/// Creates a task and queues it. `self` is the calling carrier if it belongs to the crew, else
/// NULL. With `handle`, a reference for the caller is stored there before the task can run.
int weft__spawn(struct weft__task **handle, struct weft__crew *crew, struct weft__carrier *self,
                const struct weft__spawn *spawn);

/// More stacks lie idle than are kept: sees to it that those go which are not needed (trim.c). `self` is the
/// calling carrier, or NULL.
void weft__stacks_are_many(struct weft__crew *crew, struct weft__carrier *self);

/// The one of two carriers, drawn at random, that has less to do, for a task that the caller is about
/// to spawn there (place.c).
struct weft__carrier *weft__place_lighter(struct weft__crew *crew, struct weft__carrier *self);

/// The operations of the locality policy: a ready task goes to its home.
extern const struct weft_scheduler_ops weft__locality_ops;

/// The operations of the work-stealing policy: what may move goes where it was made ready.
extern const struct weft_scheduler_ops weft__stealing_ops;

/// Locality with stealing: what may move is on offer there, and comes back after it was taken.
extern const struct weft_scheduler_ops weft__sharing_ops;

#endif
