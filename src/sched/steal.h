// steal.h - what a carrier does with tasks that may move; see steal.c.
#ifndef WEFT_SCHED_STEAL_H
#define WEFT_SCHED_STEAL_H

#include "sched/annex.h"
#include "sched/carrier.h"
#include "sched/policy_stealing.h"
#include "sched/search.h"

struct weft__crew;

/// Whether the task, which the caller has to himself, may be queued elsewhere than at home.
static inline bool weft__task_may_move(const struct weft__task *task)
{
    return task->movable && task->own == NULL && weft__task_unbound(task);
}

/// Whether the spare carrier may have it: that never starts a pinned thread.
static inline bool weft__spare_takes(const struct weft__task *task)
{
    return task->migratable && !task->homeward && weft__task_may_move(task);
}

/// Whether a carrier that shares has anything on offer, or for the taking.
static inline bool weft__shared_ready(struct weft__carrier *carrier)
{
    return carrier->offering && (weft__carrier_offered(carrier) > 0 ||
                                 (carrier->freely && weft__free_has_ready(carrier)));
}

/// Takes in tasks that came from elsewhere. They are on offer here.
void weft__steal_receive(struct weft__carrier *carrier, struct weft__fifo *loot);

/// Queues a ready task on its home, whose thread this is: on offer if it may move, else in `local`.
void weft__share(struct weft__carrier *carrier, struct weft__task *task);

/// Sends a task that is about to be queued back to where it belongs, if it is free to go. The caller
/// has it to himself.
void weft__task_return(struct weft__task *task);

/// Makes `carrier` the home of a task that was taken from another, under the rules of H2.
void weft__task_rehome(struct weft__task *task, struct weft__carrier *carrier);

/// Sends a task whose home is stuck to a carrier that is not, if it may move. `self` is the calling
/// carrier, of whatever crew, or NULL. The caller has the task to himself.
void weft__task_evade(struct weft__task *task, struct weft__carrier *self);

/// The next ready task of a carrier that shares: `local` and `offer` take turns.
struct weft__node *weft__next_shared(struct weft__carrier *carrier);

/// Takes what `victim` has on offer, for somebody who saw it stuck. On the carrier's thread, from its
/// inbox.
void weft__steal_for(struct weft__carrier *carrier, struct weft__carrier *victim);

/// Robs the carrier that this one was sent to, if it was.
void weft__steal_sent(struct weft__carrier *carrier);

/// For a carrier without work: robs whoever asked for help, else the busier of two others. True:
/// there is work now.
bool weft__steal_idly(struct weft__carrier *carrier);

/// Ends a search that a carrier did not get to, because it stops.
void weft__steal_leave(struct weft__carrier *carrier);

/// Prepares the carriers of a crew for stealing, `freely` under the work-stealing policy. 0 or
/// -ENOMEM. Undone by weft__steal_fini().
int weft__steal_init(struct weft__crew *crew, bool freely);

/// The clusters of the crew have changed; its carriers do not run yet.
void weft__steal_seat(struct weft__crew *crew);
void weft__steal_fini(struct weft__crew *crew);

#endif
