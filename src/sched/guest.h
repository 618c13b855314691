// guest.h - tasks that a scheduler of the program's runs, on OS threads that are not carriers.
//
// Such a thread has neither wheel nor driver, and nobody opens an inbox there. All of that stays with
// the task's home, and the task goes there when it needs it:
//
//     on its scheduler's thread              on the home carrier
//     weft__visit_begin()
//       sched = the built-in one
//       leave, still ready: home's inbox --> runs on, as one of the carrier's own threads
//                                            submits, arms, parks, is woken, all of it here
//                                            weft__visit_end()
//       <-- on_continue(its own scheduler)     sched = its own again; leave, still ready
//     runs on
//
//   G1  A task is `abroad` while its own scheduler decides where it runs. During a visit it is not: it
//       cannot be told from a task of the carrier's, may not migrate and is not offered.
//   G2  in_flight, the wheel, descriptors in use, the driver: only on the home's thread, so only in a
//       visit, or by a timer or op of the task's that ends there. A task abroad does not look at them.
//   G3  `sched` changes only while the task is running. Who wakes it reads `sched` after it has moved
//       the word from IDLE to ACTIVE, which acquires what was written before the park.
//   G4  `handed` says that the scheduler may run the task. It is set by weft__abroad_ops, through which
//       every task abroad is given to its scheduler, after the last touch of its last run, and taken
//       by exchange. So from the beginning of a run to the next callback whoever else wants to run the
//       task is refused, and who takes it sees all that the last run left.
//   G5  A visit runs no code of the program's. So a thread that is not migratable may make one: what
//       its own frames remember of the OS thread is valid again when they go on.
//   G6  A thread whose deadline may be in the wheel ends at home.
//   G7  A run takes the notification that it begins with. So a task that goes home to arm its deadline
//       and park there looks whether that run took one, and does not park if it did.
//
// Rejected: handing single ops and timers to the home by inbox, with the task running on meanwhile
// (each of a call's steps before and after the op needs the home as well, a deadline that is armed
// lazily is touched by two threads, and no hand-over is saved: the task waits anyway).
#ifndef WEFT_SCHED_GUEST_H
#define WEFT_SCHED_GUEST_H

#include "sched/carrier.h"

/// An OS thread while it runs a task; on its stack.
struct weft__guest {
    struct weft__runner runner;
    struct weft__task *current;
    weft_time slice_end; // of the running task; 0: not asked for yet
};

// current.c

/// The task that runs on this OS thread, which is not a carrier; NULL: none does.
WEFT__NOINLINE struct weft__guest *weft__guest_self(void);
WEFT__NOINLINE void weft__guest_set_self(struct weft__guest *guest);

// guest_thread.c

/// weft_task_run().
int weft__guest_run(struct weft__task *task);

// guest.c

/// Switches to the task, or polls it, and settles what it left. The task is its scheduler's again, or
/// its home's, or gone, when this returns.
void weft__guest_turn(struct weft__task *task, struct weft__guest *guest);

void weft__visit_home(struct weft__task *task);
void weft__visit_over(struct weft__task *task);

/// Around what needs the running thread's home; visits nest.
static inline void weft__visit_begin(struct weft__task *task)
{
    if (weft__unlikely(task->own != NULL)) {
        weft__visit_home(task);
    }
}

static inline void weft__visit_end(struct weft__task *task)
{
    if (weft__unlikely(task->own != NULL)) {
        weft__visit_over(task);
    }
}

/// Whether `carrier` is the running task's, for what belongs to a carrier and is used without a visit.
static inline bool weft__task_is_at(const struct weft__task *task,
                                    const struct weft__carrier *carrier)
{
    return task->home == carrier && !task->abroad;
}

/// The parks, yields and ends of a task abroad; sched/host.c.
void weft__abroad_park(struct weft__task *task, weft_time deadline);
int weft__abroad_checkpoint(struct weft__task *task);

/// Takes `handed` (G4). False: nobody may run the task now.
bool weft__task_claim(struct weft__task *task);

/// The task is its scheduler's to run (G4).
static inline void weft__task_hand(struct weft__task *task)
{
    atomic_store_explicit(&task->handed, 1, memory_order_release);
}

/// The scheduler of tasks abroad, crew->abroad: gives them to their own.
extern const struct weft_scheduler_ops weft__abroad_ops;

// scheduler.c

struct weft__crew;

/// Takes a reference for a task of the crew, or for the crew itself. -EBUSY: it serves another one;
/// -EINVAL: it was not set up properly.
int weft__scheduler_enter(struct weft_scheduler *scheduler, struct weft__crew *crew);

/// Gives it back; destroying the scheduler, if it was the last, is left to `carrier`. NULL: is done
/// here.
void weft__scheduler_leave(struct weft_scheduler *scheduler, struct weft__carrier *carrier);

/// Whether the scheduler may have the task.
static inline bool weft__scheduler_takes(const struct weft_scheduler *scheduler, bool migratable)
{
    return migratable || (scheduler->flags & WEFT_SCHEDULER_KEEPS_THREAD) != 0;
}

/// What schedulers of the program's are given to delegate to.
extern const struct weft_scheduler_ops weft__delegate_ops;

#endif
