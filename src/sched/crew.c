// crew.c - counting the tasks of a crew, and the locality policy.
//
// Each carrier counts in its own line what it spawned and what ended on it. The sum is exact when it
// is zero: `ended` is read first, everywhere, and `spawned` second. Both only grow and a task is
// counted as spawned before it can end, so if the later, larger reading equals the earlier one,
// nothing was alive in between. Ends on other threads (guest.c) are counted for all of them together.
#include "sched/crew.h"

#include <sched.h>
#include <stdio.h>

#include "sched/park.h"
#include "sched/policy_stealing.h"
#include "sched/steal.h"

void weft__crew_seat(struct weft__crew *crew, const struct weft__seat *seats)
{
    static const struct weft__seat anywhere = { -1, 0, -1 };
    crew->cluster_count = 0;
    for (int i = 0; i < crew->capacity; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        const struct weft__seat *seat = seats != NULL && !carrier->aside ? &seats[i] : &anywhere;
        carrier->cluster = seat->cluster;
        carrier->cpu = seat->cpu;
        carrier->node = seat->node;
        if (carrier->aside) {
            continue; // nobody may look for it there
        }
        struct weft__cluster *cluster = &crew->clusters[seat->cluster];
        if (seat->cluster == crew->cluster_count) {
            *cluster = (struct weft__cluster){ .first = i };
            crew->cluster_count++;
        }
        cluster->count++;
    }
    if (crew->help != NULL) {
        weft__steal_seat(crew);
    }
}

void weft__carrier_name(const struct weft__carrier *carrier, char *name, size_t size_bytes)
{
    int used = snprintf(name, size_bytes, "carrier-%d", carrier->number);
    if (carrier->crew->topology.count > 0 && used > 0 && (size_t)used < size_bytes) {
        used += snprintf(name + used, size_bytes - (size_t)used, "-cluster%d", carrier->cluster);
    }
    if (carrier->cpu >= 0 && used > 0 && (size_t)used < size_bytes) {
        (void)snprintf(name + used, size_bytes - (size_t)used, "-core%d", carrier->cpu);
    }
}

uint64_t weft__crew_live(struct weft__crew *crew)
{
    uint64_t ended = atomic_load_explicit(&crew->foreign_ended, memory_order_acquire);
    int count = weft__crew_started(crew);
    for (int i = 0; i < count; i++) {
        ended += atomic_load_explicit(&crew->carriers[i].counts.ended, memory_order_acquire);
    }
    uint64_t spawned = atomic_load_explicit(&crew->foreign_spawned, memory_order_relaxed);
    count = weft__crew_started(crew); // whoever spawned what has ended had started before that
    for (int i = 0; i < count; i++) {
        spawned += atomic_load_explicit(&crew->carriers[i].counts.spawned, memory_order_relaxed);
    }
    return spawned - ended;
}

/// A task that was handed over may run and end, and its runtime be destroyed, before the thread that
/// handed it over has looked at the carrier's state. Carriers of the crew are joined before that
/// memory goes; everybody else says that he is here, and his goodbye is his last touch. The task is
/// ACTIVE but in no lane yet, so the crew exists when we enter.
static void visit(struct weft__task *task, struct weft__carrier *self)
{
    struct weft__crew *crew = task->crew;
    weft__crew_enter(crew);
    weft__put(task->home, &task->node, self);
    weft__crew_leave(crew);
}

void weft__crew_await_visitors(struct weft__crew *crew)
{
    while (atomic_load_explicit(&crew->visitors, memory_order_acquire) != 0) {
        sched_yield();
    }
}

static void locality_ready(struct weft_scheduler *policy, struct weft__task *task)
{
    (void)policy;
    struct weft__carrier *self = weft__carrier_self();
    if (weft__likely(self != NULL && self->crew == task->crew)) {
        weft__put(task->home, &task->node, self);
    } else {
        visit(task, self);
    }
}

const struct weft_scheduler_ops weft__locality_ops = {
    .on_start = locality_ready,
    .on_continue = locality_ready,
};

static void sharing_ready(struct weft_scheduler *policy, struct weft__task *task)
{
    if (weft__likely(!task->movable)) {
        locality_ready(policy, task); // it is where it belongs, and stays there
        return;
    }
    struct weft__carrier *self = weft__carrier_self();
    weft__task_return(task);
    if (weft__unlikely(weft__tally_get(&task->home->stuck) != 0) && task->home != self) {
        weft__task_evade(task, self);
    }
    if (task->home == self) {
        weft__share(self, task);
    } else if (self != NULL && self->crew == task->crew) {
        weft__put(task->home, &task->node, self);
    } else {
        visit(task, self);
    }
}

const struct weft_scheduler_ops weft__sharing_ops = {
    .on_start = sharing_ready,
    .on_continue = sharing_ready,
};

static void inject(struct weft__task *task)
{
    struct weft__crew *crew = task->crew;
    if (weft__unlikely(task->home->aside)) {
        task->home = task->origin; // nobody is sent to the spare one, and so nobody would look
    }
    weft__crew_enter(crew);
    weft__free_inject(task);
    weft__crew_leave(crew);
}

/// On the spare carrier: back to the others, unless they are all stuck.
static void ready_beside(struct weft__carrier *spare, struct weft__task *task)
{
    const struct weft__crew *crew = spare->crew;
    int count = weft__crew_active(crew);
    bool all = true;
    for (int i = 0; i < count && all; i++) {
        all = weft__tally_get(&crew->carriers[i].stuck) != 0;
    }
    if (all && weft__spare_takes(task)) {
        weft__task_rehome(task, spare);
        weft__share(spare, task);
    } else {
        inject(task);
    }
}

/// Whether what may move may move from one to the other: policy_stealing.c, F5.
static bool is_near(const struct weft__carrier *carrier, const struct weft__carrier *other)
{
    return carrier->crew->steals_globally || carrier->cluster == other->cluster;
}

static void stealing_continue(struct weft_scheduler *policy, struct weft__task *task)
{
    struct weft__carrier *self = weft__carrier_self();
    bool inside = self != NULL && self->crew == task->crew;
    bool aside = inside && self->aside;
    if (!weft__task_may_move(task) || (inside && !aside && !is_near(self, task->home))) {
        locality_ready(policy, task);
    } else if (weft__unlikely(aside)) {
        ready_beside(self, task);
    } else if (inside) {
        weft__free_ready(self, task);
    } else {
        inject(task);
    }
}

/// Where a task starts is the program's wish, if it has one.
static void stealing_start(struct weft_scheduler *policy, struct weft__task *task)
{
    struct weft__carrier *self = weft__carrier_self();
    if (task->home == self && weft__task_may_move(task)) {
        weft__free_ready(self, task);
    } else if (self != NULL && self->crew == task->crew && task->home != self) {
        locality_ready(policy, task);
    } else {
        stealing_continue(policy, task);
    }
}

const struct weft_scheduler_ops weft__stealing_ops = {
    .on_start = stealing_start,
    .on_continue = stealing_continue,
};
