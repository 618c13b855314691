// select.h - the private layout of cases, and what the files of this module share.
#ifndef WEFT_SELECT_SELECT_H
#define WEFT_SELECT_SELECT_H

#include <weft/select.h>

#include "base/rng.h"
#include "io/descriptors.h"
#include "sync/waiter.h"

enum weft__case_kind {
    // These have a waiter in the queue of an object.
    WEFT__CASE_RECV,
    WEFT__CASE_SEND,
    WEFT__CASE_RESERVE,
    WEFT__CASE_MAILBOX,
    WEFT__CASE_BROADCAST,
    WEFT__CASE_WATCH,
    WEFT__CASE_ONESHOT,
    WEFT__CASE_ONESHOT_CLOSED,
    WEFT__CASE_TOKEN,
    WEFT__CASE_EVENT,
    WEFT__CASE_NOTIFY,
    WEFT__CASE_SEMAPHORE,
    // These do not.
    WEFT__CASE_NONE,
    WEFT__CASE_TIME,
    WEFT__CASE_JOIN,
    WEFT__CASE_FD,
};

/// weft__select.unlike.
#define WEFT__CASES_NONE (1u << WEFT__CASE_NONE)
#define WEFT__CASES_FD (1u << WEFT__CASE_FD)
#define WEFT__CASES_APART (WEFT__CASES_FD | 1u << WEFT__CASE_JOIN)

struct weft__select;

/// A join: join.c.
struct weft__case_join {
    struct weft__wait wait;
    struct weft__select *select;
    _Atomic uint32_t over; // the call of the task's end has found the select committed elsewhere
};

/// A descriptor: fd.c. All of it is the carrier's.
struct weft__case_fd {
    struct weft__op op;
    struct weft__use use;
    struct weft__select *select;
    bool late;   // not begun yet: the descriptor is just being closed
    bool asked;  // to end
    bool closed; // by weft_close()
};

/// struct weft_case.
struct weft__case {
    int64_t result;
    // Fixed.
    uint64_t want; // item, count, moment, events
    union {
        void *object; // channel, token, task
        uint64_t fd;
    };
    uint32_t kind; // enum weft__case_kind

    // The selecting side's.
    bool waits;              // a join or descriptor that was begun, and is to be undone
    bool waited;             // of the first case: none was ready the last time
    uint16_t order;          // cases[i].order: which case is looked at as the i-th
    struct weft__case *next; // of those with a waiter: the next one by address of lock
    union weft__case_wait {
        struct weft__waiter waiter;
        struct weft__case_join join;
        struct weft__case_fd poll;
    } wait;
};
_Static_assert(sizeof(struct weft__case) <= sizeof(struct weft_case), "public size");
_Static_assert(offsetof(struct weft__case, result) == offsetof(struct weft_case, result), "layout");

struct weft__select {
    struct weft__waiter main; // what is committed: `chosen` is the address of a case's `wait`
    // Fixed.
    struct weft__case *cases;
    uint32_t count;
    // The selecting side's.
    uint32_t unlike;          // bits of the kinds among them that have no waiter
    struct weft__case *locks; // those with a waiter, by address of their lock
    struct weft__case *time;  // the earliest of the time cases, or NULL
    weft_time when;           // and its moment, or FOREVER
    // Of those with descriptors: the carrier's.
    struct weft__task *task; // who selects, or NULL; bound to its carrier while `ops` > 0
    uint32_t ops;            // in flight
    bool leaving;            // whose ends are all that is waited for
};

static inline bool weft__case_has_waiter(const struct weft__case *c)
{
    return c->kind < WEFT__CASE_NONE;
}

static inline struct weft__case *weft__case_of(void *wait)
{
    return weft__container_of(wait, struct weft__case, wait);
}

/// An index as weft_select() returns it.
static inline int weft__case_index(const struct weft__select *select, const struct weft__case *c)
{
    return (int)(c - select->cases);
}

// random.c

/// The generator of this thread.
struct weft__rng *weft__select_random(void);

// cases.c

/// Prepares the waiter of a case that has one.
void weft__case_prepare(struct weft__case *c);

/// Why this case must not be selected from here, or 0. `self` is the running task, or NULL.
int weft__case_refuses(const struct weft__case *c, struct weft__task *self);

// select.c: the protocol.

/// Looks at what is there, without committing anything. `self` is the running task, or NULL. 0, or what
/// the call returns.
int weft__select_begin(struct weft__select *select, struct weft_case *cases, size_t count,
                       struct weft__task *self);

/// Commits one case that is ready and returns its index, or WAITS. If the caller will wait then, it may
/// leave the looking to weft__select_enter().
int weft__select_attempt(struct weft__select *select, bool may_wait);

/// The same, but stands in all queues when it says WAITS. The main waiter is prepared.
int weft__select_enter(struct weft__select *select);

/// Withdraws the select, so that nobody can commit a case any more: true. False: somebody has.
bool weft__select_withdraw(struct weft__select *select);

/// Leaves all queues but that of the case which was chosen there (or NULL). Nobody can claim the
/// select any more.
void weft__select_leave(struct weft__select *select, const struct weft__case *chosen);

// apart.c

/// Begins the joins and descriptors that were not begun. The case that was ready, and has committed the
/// select; or NULL. `*late`: one has to be begun later, after others have run.
struct weft__case *weft__select_begin_apart(struct weft__select *select, bool *late);

/// Ends them. When select->ops is not 0 afterwards the end of the last op claims the main waiter, which
/// the caller prepares then: not before, or a task that ends just now would claim it.
void weft__select_end_apart(struct weft__select *select, const struct weft__case *chosen);

/// After a deadline and the end of all ops: a descriptor that was ready, or NULL.
struct weft__case *weft__select_late(struct weft__select *select);

// join.c

/// Whether it is ready: its task has ended.
bool weft__case_join_ready(const struct weft__case *c);
/// Begins to watch. False: it is ready now.
bool weft__case_join_begin(struct weft__select *select, struct weft__case *c);
/// Stops watching. Nobody can claim the select any more.
void weft__case_join_end(struct weft__case *c);
/// It is committed: takes the result and gives the handle back.
void weft__case_join_take(struct weft__case *c);

// fd.c

/// Begins to wait for the descriptor, on the carrier of select->task. WAITS; -EAGAIN: begin again, after
/// others have run; else it is ready with that.
int weft__case_fd_begin(struct weft__select *select, struct weft__case *c);
/// Asks it to end; it does when select->ops is 0.
void weft__case_fd_ask(struct weft__select *select, struct weft__case *c);

#endif
