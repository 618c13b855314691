// task.h - what a scheduler runs: the control block, its state word, and who may touch what.
//
//   T1  Only weft__wake() makes a task runnable; only a carrier's
//       step, or a thread that hands over in it (sched/relay.h), runs one.
//   T2  A task is in at most one lane, and only while ACTIVE and not running.
//   T3  A control block is type-stable: a late wake may look at the word of a task that has ended,
//       or whose block another task uses by now. The first finds DONE or zero and does nothing, the
//       second wakes that task for nothing, which every wait has to bear anyway.
//   T4  Whoever holds a counted reference keeps the block from being reused. The running task holds
//       one itself, until it has ended.
#ifndef WEFT_TASK_TASK_H
#define WEFT_TASK_TASK_H

#include <stdatomic.h>

#include <weft/future.h>
#include <weft/scheduler.h>
#include <weft/task.h>

#include "base/base.h"
#include "base/lock.h"
#include "base/node.h"
#include "base/timer.h"
#include "task/context.h"
#include "task/cxx.h"

struct weft__annex;
struct weft__carrier;
struct weft__crew;
struct weft__hold;
struct weft__scope;
struct weft__wait;
struct weft__local_value;

// The state word.
//
//      63      32 31        8 7 6          5         4          3           2       1 0
//     | unused   | refs:24   |P| CANCELLED| RESIDENT| DETACHED | LOOK      |NOTIFIED| life |
//
// life, with the function behind each arrow (all in word.h):
//
//     0 DONE or free --word_init--> ACTIVE --word_park--> IDLE --word_wake--> ACTIVE
//                                   ACTIVE --word_end--> DONE --last reference--> free (all zero)
//
// ACTIVE covers queued and running: a yield needs no atomic, a park one RMW, a wake one.
#define WEFT__WORD_LIFE UINT64_C(0x3)
#define WEFT__WORD_DONE UINT64_C(0)
#define WEFT__WORD_IDLE UINT64_C(1)
#define WEFT__WORD_ACTIVE UINT64_C(2)
#define WEFT__WORD_NOTIFIED UINT64_C(0x4)   // woken while ACTIVE: do not park
#define WEFT__WORD_LOOK UINT64_C(0x8)       // something around the task may be cancelled
#define WEFT__WORD_DETACHED UINT64_C(0x10)  // nobody has a handle; for dumps
#define WEFT__WORD_RESIDENT UINT64_C(0x20)  // nobody waits for its end; runtime/poller_task.c
#define WEFT__WORD_CANCELLED UINT64_C(0x40) // weft_task_cancel(): the task as a whole
#define WEFT__WORD_POLLER UINT64_C(0x80)    // sleeps where no wake reaches it; sched/poller.c
#define WEFT__WORD_REF UINT64_C(0x100)
#define WEFT__WORD_REFS UINT64_C(0xffffff00)

/// How the two kinds of task differ. A virtual thread is switched to (run.h), a future is polled.
struct weft__kind {
    const char *name;
    /// Gives the block back; the word is zero by now. `carrier` is where we run, or NULL.
    void (*free)(struct weft__task *task, struct weft__carrier *carrier);
};

/// Why a task stopped running.
enum weft__verdict {
    WEFT__YIELDED, ///< is to be queued again
    WEFT__PARKED,  ///< is to become IDLE
    WEFT__SETTLED, ///< is IDLE, or elsewhere, already: hands off
    WEFT__ENDED,
};

#define WEFT__TASK_NAME_BYTES 32

struct weft__task {
    // The hot line: what a scheduler touches for every run.
    struct weft__node node;       // the lane's, while in one
    _Atomic uint64_t word;        // anyone's, see above
    struct weft__context context; // virtual threads: valid while not running
    const struct weft__kind *kind;
    struct weft_scheduler *sched; // who is told that it is ready; home's own during a visit
    struct weft__carrier *home;   // while it runs: where; fixed at first run unless movable

    // The second line: what a run, a join and a release touch besides. Ten thousand threads that
    // take turns are bound by the lines they touch, so each line more is felt.
    _Alignas(WEFT__LINE) struct weft__context
        *return_to;             // where a virtual thread switches back to; its carrier's
    int saved_errno;            // the carrier's, between runs
    int result;                 // the task's; anyone's who knows that it has ended
    int16_t budget;             // operations left in this run; the task's
    _Atomic uint16_t in_flight; // timers and operations that home holds for it: bound to home
    uint16_t guards;            // work guards it is inside of; the task's
    uint8_t verdict;            // enum weft__verdict
    bool movable;               // future, unstarted and not placed, or created migratable
    bool migratable;
    bool started;
    bool noticed;        // a run began with a notification since this was cleared
    bool abroad;         // runs where a scheduler of the program's says, and not as a guest at home
    uint8_t stack_shift; // the whole slot's size is 2 to the power of this; 0: a future; fixed
    bool tied; // uses what belongs to its carrier, or may be given it; then it is never movable
    struct weft__cxx cxx;      // exceptions it is handling, while it does not run; the carrier's
    _Atomic uintptr_t joiners; // anyone's, see join.c
    struct weft__crew *crew;   // the carriers it belongs to; fixed

    // The third line: what a start and an end touch besides; with the next one, its place in the world.
    // Fixed but for what is the task's own: scope, locals, deadline and hold.
    _Alignas(WEFT__LINE) struct weft__scope *scope; // innermost
    struct weft__scope *birth;                      // the scope it is a child of
    union {
        weft_fn fn;          // of a virtual thread
        weft_ended_fn ended; // of a future; NULL: whoever joins it knows
    };
    void *arg; // virtual thread: its argument; future: the struct weft_future
    struct weft__local_value *locals;
    struct weft_scheduler *own;  // of the program's; NULL: the built-in one
    struct weft__timer deadline; // one per task, re-armed lazily: it may fire for nothing

    struct weft__annex
        *timed_at;           // of the deadline: where it was armed last; NULL: in home's own wheel
    struct weft__hold *hold; // innermost: descriptors that a call of several ops keeps, io/hold.h
    void *attachment;        // that scheduler's word
    const void *kept_on;     // OS thread it may not leave; NULL: none yet
    struct weft__carrier *origin; // where it comes back to; home's, or whoever queues it
    // Fixed at spawn; a dump copies them.
    uint64_t id;
    void *stack_low; // NULL for a future
    const char *file;
    int line;
    // Of a scheduler of the program's (sched/guest.h).
    bool roams;             // migratable, when abroad
    bool timed;             // its deadline may be in the wheel
    uint8_t visits;         // calls it is inside of that brought it home
    _Atomic uint8_t handed; // its scheduler may run it, once
    bool homeward; // the task's own: the spare carrier does not take it (diag/rescue.c, Z4)
    // The task's own; a dump reads them without asking.
    _Atomic(const char *) waits_for; // NULL: not blocked
    _Atomic uint64_t waits_since;
    // Under birth->lock.
    struct weft__task *sibling_next;
    struct weft__task **sibling_link;

    char name[WEFT__TASK_NAME_BYTES]; // fixed
};

/// The running task makes or uses something that belongs to its home: a connection, a listener. It stays with
/// it from now on, and so do the threads that it starts here, which may be given it.
static inline void weft__task_tie(struct weft__task *task)
{
    if (weft__unlikely(!task->tied)) {
        task->tied = true;
        task->movable = false;
        task->origin = task->home;
    }
}

/// One more thing that home holds for the task; the running task's.
static inline void weft__task_bind(struct weft__task *task)
{
    uint16_t count = atomic_load_explicit(&task->in_flight, memory_order_relaxed);
    atomic_store_explicit(&task->in_flight, (uint16_t)(count + 1), memory_order_relaxed);
}

/// One thing less; on home's thread. Whoever finds the task unbound may let it run elsewhere and sees
/// all that was done to what bound it.
static inline void weft__task_unbind(struct weft__task *task)
{
    uint16_t count = atomic_load_explicit(&task->in_flight, memory_order_relaxed);
    atomic_store_explicit(&task->in_flight, (uint16_t)(count - 1), memory_order_release);
}

static inline bool weft__task_unbound(const struct weft__task *task)
{
    return atomic_load_explicit(&task->in_flight, memory_order_acquire) == 0;
}

static inline uint64_t weft__word_peek(const struct weft__task *task)
{
    return atomic_load_explicit(&task->word, memory_order_relaxed);
}

// run.c: the flow of a task.

/// Makes the task runnable if it is not, and hands it to its scheduler. The only way to do so.
void weft__wake(struct weft__task *task);

/// weft__wake() by who has a counted reference, which is given back with it: one RMW for both. False: the
/// task has ended, or needs it to be woken, and the reference is still the caller's.
bool weft__wake_release(struct weft__task *task);

/// weft__wake() for a task that has to look at its scopes; `flags` as for weft__word_wake().
void weft__interrupt(struct weft__task *task, uint64_t flags);

/// What an OS thread needs to run tasks.
struct weft__runner {
    struct weft__context context;  // its own, to which virtual threads switch back
    int *errno_at;                 // its errno, which tasks exchange with their own
    struct weft__cxx *cxx;         // its exception state, likewise
    uint64_t control;              // its floating-point control words
    struct weft__carrier *carrier; // NULL: not a carrier
};

/// Polls a future once and sets its verdict.
void weft__future_poll(struct weft__task *task);

/// Gives a counted reference back; `carrier` is where we run, or NULL.
void weft__task_release(struct weft__task *task, struct weft__carrier *carrier);

extern const struct weft__kind weft__kind_thread;
extern const struct weft__kind weft__kind_future;

// Each kind's `free`, implemented where the memory is known (sched/spawn.c).
void weft__thread_free(struct weft__task *task, struct weft__carrier *carrier);
void weft__future_free(struct weft__task *task, struct weft__carrier *carrier);

/// What task.deadline fires: a wake (sched/host.c).
void weft__deadline_fired(struct weft__timer *timer);

// thread.c: the virtual-thread side of a switch.

/// Switches from the running virtual thread back to its carrier. Returns, when it runs again,
/// -ECANCELED if it must stop, else 0: the carrier looks, so that callers may end with this call.
static inline int weft__thread_leave(struct weft__task *task, enum weft__verdict verdict)
{
    task->verdict = (uint8_t)verdict;
    return weft__context_switch(&task->context, task->return_to, 0);
}

/// The first function on a virtual thread's stack.
void weft__thread_entry(void *task);

// local.c: task-local values.

/// Copies the inheritable values of `parent`. 0 or -ENOMEM, then nothing was copied.
int weft__locals_inherit(struct weft__task *child, const struct weft__task *parent);

/// Frees what holds the values of a task that will never run again; the values are left alone.
void weft__locals_forget(struct weft__task *task);

/// Destroys all values of the ending task; runs in the task.
void weft__locals_end(struct weft__task *task);

#endif
