// retire.c - a carrier that leaves keeps what cannot move, and sends away all else.
//
// A runtime that is made smaller does not take a carrier's thread away: wakers, timers and requests know
// carriers by address, and some will always be late. It tells the carrier to leave. From then on that
// runs only what cannot move, sleeps when there is none of it, and passes on whatever else arrives; so a
// late arrival costs one hand-over more, and there is nothing that it could be too late for.
//
//     anyone                         the carrier that leaves            one that stays
//     wakes a task that is           takes it from a lane:
//     homed here: inbox        -->     may it move? home = another -->  inbox, as usual
//                                      else runs it
//
//   R1  Nothing that may move is run by a carrier that leaves: each task is looked at when it is taken from
//       a lane, and no thread hands over to the next one past that look (relay_length in step.c).
//   R2  What keeps a task here is counted in in_flight: timers and operations. Timers can be taken along:
//       its own deadline is only taken out of the wheel, because whoever blocks arms it again; those of its scopes
//       travel with it and are armed at its new home before it runs. Operations end here first
//       (io/call.c, C5).
//   R3  A task with a timer in this wheel is bound to this carrier. So what R2 looks at, the task's own
//       list of scopes among it, is not touched by anyone else, parked or ready.
//   R4  A task that was sent belongs to its new carrier for good (steal.c, H2): it would come back with
//       each wake.
//   R5  A carrier that leaves does not search, is not idle in the sense of search.c, and takes nothing from
//       the common queue. Somebody who saw it idle before may send it to search nevertheless: it passes
//       that on (weft__steal_leave), so each start still has its stop (search.c, S4).
//   R6  Who is told to stay again does so from the next task on; nothing has to be undone.
//   R7  A task that leaves the spare carrier (diag/rescue.c, Z4) goes where it came from. If that leaves
//       meanwhile, it passes the task on.
//
// Rejected: ending the thread (each put would have to find out, before it kicks, whether there is still a
// driver to be kicked, and requests that were late would need somebody else to own wheel and driver);
// taking timers out of another thread's wheel.
// Locks: none; all is done on the carrier's own thread, and what crosses goes by inbox (park.c).
// Checked by: tests/model/search_model.c (R5), tests/api/resize_test.c.
#include "sched/retire.h"

#include "base/alloc.h"
#include "sched/crew.h"
#include "sched/park.h"
#include "sched/steal.h"
#include "task/scope.h"

/// A task that travels with timers.
struct parcel {
    struct weft__request request;
    struct weft__task *task;
    struct weft__timer *timers; // by `next`; out of any wheel
};

/// Whether its deadline is in the wheel. One in an annex (annex.c) binds nobody and stays where it is.
static bool is_timed(const struct weft__task *task)
{
    return task->timed_at == NULL && weft__timer_armed(&task->deadline);
}

/// How many timers of the task are in this carrier's wheel (R3).
static unsigned count_timers(const struct weft__task *task)
{
    unsigned count = is_timed(task);
    const struct weft__scope *scope = task->scope;
    for (; scope->owner == task; scope = scope->parent) {
        count += weft__timer_armed(&scope->deadline);
    }
    return count;
}

bool weft__retire_may_send(struct weft__task *task)
{
    unsigned bound = atomic_load_explicit(&task->in_flight, memory_order_acquire);
    return task->movable && task->own == NULL && (bound == 0 || bound == count_timers(task));
}

/// One that stays, near this one if carriers keep to their cluster. NULL: this one stays itself.
static struct weft__carrier *choose(struct weft__carrier *carrier)
{
    struct weft__crew *crew = carrier->crew;
    struct weft__cluster area = weft__crew_cluster(crew, carrier->cluster);
    if (crew->steals_globally || crew->help == NULL || area.count == 0) {
        area = (struct weft__cluster){ .first = 0, .count = weft__crew_active(crew) };
    }
    uint32_t turn = atomic_fetch_add_explicit(&crew->next_spread, 1, memory_order_relaxed);
    struct weft__carrier *chosen = &crew->carriers[area.first + (int)(turn % (uint32_t)area.count)];
    return chosen->number < carrier->number ? chosen : NULL;
}

static void settle_at(struct weft__task *task, struct weft__carrier *home)
{
    task->home = home;
    task->origin = home; // R4
}

static void arrive(struct weft__request *request, struct weft__carrier *carrier)
{
    struct parcel *parcel = weft__container_of(request, struct parcel, request);
    struct weft__task *task = parcel->task;
    for (struct weft__timer *timer = parcel->timers; timer != NULL;) {
        struct weft__timer *next = timer->next;
        weft__wheel_add(&carrier->wheel, timer, timer->when);
        timer = next;
    }
    weft__free(carrier->crew->allocator, parcel, sizeof *parcel);
    settle_at(task, carrier);
    if (carrier->shares) {
        weft__share(carrier, task);
    } else {
        weft__fifo_push(&carrier->local, &task->node);
    }
}

/// R2. False: there is no memory, and the task stays.
static bool send_with_timers(struct weft__carrier *carrier, struct weft__task *task,
                             struct weft__carrier *target)
{
    struct parcel *parcel = weft__alloc(carrier->crew->allocator, sizeof *parcel,
                                        _Alignof(struct parcel));
    if (parcel == NULL) {
        return false;
    }
    parcel->request = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = arrive };
    parcel->task = task;
    parcel->timers = NULL;
    for (struct weft__scope *scope = task->scope; scope->owner == task; scope = scope->parent) {
        if (weft__timer_armed(&scope->deadline)) {
            weft__wheel_remove(&carrier->wheel, &scope->deadline);
            scope->deadline.next = parcel->timers;
            parcel->timers = &scope->deadline;
        }
    }
    weft__put(target, &parcel->request.node, carrier);
    return true;
}

bool weft__retire_sends(struct weft__carrier *carrier, struct weft__task *task)
{
    if (!weft__retire_may_send(task)) {
        return false;
    }
    struct weft__carrier *target = carrier->aside ? task->origin : choose(carrier); // R7
    if (target == NULL) {
        return false;
    }
    if (is_timed(task)) {
        weft__wheel_remove(&carrier->wheel, &task->deadline);
        weft__task_unbind(task);
    }
    if (!weft__task_unbound(task)) {
        return send_with_timers(carrier, task, target);
    }
    settle_at(task, target);
    weft__put(target, &task->node, carrier);
    return true;
}

/// The task that a timer is of, if it is that of a task or of one of its scopes.
static struct weft__task *task_of(struct weft__timer *timer)
{
    if (timer->fire == weft__deadline_fired) {
        return weft__container_of(timer, struct weft__task, deadline);
    }
    return weft__scope_timed(timer);
}

static bool wake_owner(struct weft__timer *timer)
{
    struct weft__task *task = task_of(timer);
    if (task != NULL && weft__retire_may_send(task)) {
        weft__wake(task);
    }
    return false;
}

void weft__retire_begin(struct weft__carrier *carrier)
{
    carrier->leaving = true;
    carrier->relay_left = 0; // R1, if a running task has opened the inbox
    weft__wheel_take(&carrier->wheel, wake_owner, NULL); // takes none
}
