// scheduler.c - schedulers of the program's: who uses them, and what they delegate to.
//
// A reference is a maker's, a task's, or of a runtime that uses the scheduler for all its tasks. A
// scheduler serves one crew at a time; `crew` and `builtin` change only while no task is on it.
#include <errno.h>

#include "base/assert.h"
#include "sched/crew.h"
#include "sched/guest.h"
#include "sched/park.h"

#define KNOWN_FLAGS WEFT_SCHEDULER_KEEPS_THREAD

/// weft_scheduler.opaque
struct custom {
    struct weft__lock lock;
    uint32_t refs;                // under lock
    uint32_t users;               // of them tasks and runtimes; under lock
    const void *sealed;           // points at itself once set up
    struct weft__crew *crew;      // under lock: whose tasks are on it
    struct weft__request request; // of the last task to the carrier that destroys
};
_Static_assert(sizeof(struct custom) <= sizeof(((struct weft_scheduler *)0)->opaque),
               "public size");

static struct custom *of(struct weft_scheduler *scheduler)
{
    return (struct custom *)(void *)scheduler->opaque;
}

void weft_scheduler_init(struct weft_scheduler *scheduler, const struct weft_scheduler_ops *ops,
                         const char *name, unsigned flags)
{
    *scheduler = (struct weft_scheduler){ .ops = ops, .name = name, .flags = flags };
    of(scheduler)->refs = 1;
    of(scheduler)->sealed = scheduler;
}

struct weft_scheduler *weft_scheduler_retain(struct weft_scheduler *scheduler)
{
    struct custom *custom = of(scheduler);
    weft__lock_acquire(&custom->lock);
    weft_assert(custom->refs > 0 && "a scheduler that was destroyed is retained");
    custom->refs++;
    weft__lock_release(&custom->lock);
    return scheduler;
}

static bool is_sound(struct weft_scheduler *scheduler)
{
    const struct weft_scheduler_ops *ops = scheduler->ops;
    return of(scheduler)->sealed == scheduler && ops != NULL && ops->on_start != NULL &&
           ops->on_continue != NULL && (scheduler->flags & ~KNOWN_FLAGS) == 0;
}

int weft__scheduler_enter(struct weft_scheduler *scheduler, struct weft__crew *crew)
{
    struct custom *custom = of(scheduler);
    if (!is_sound(scheduler)) {
        return -EINVAL;
    }
    weft__lock_acquire(&custom->lock);
    weft_assert(custom->refs > 0 && "a scheduler that was destroyed is used");
    bool free = custom->crew == crew || custom->users == 0;
    if (free && custom->crew != crew) {
        custom->crew = crew;
        scheduler->builtin = &crew->delegate;
    }
    if (free) {
        custom->users++;
        custom->refs++;
    }
    weft__lock_release(&custom->lock);
    return free ? 0 : -EBUSY;
}

/// True: it was the last reference.
static bool drop(struct weft_scheduler *scheduler, uint32_t users)
{
    struct custom *custom = of(scheduler);
    weft__lock_acquire(&custom->lock);
    weft_assert(custom->refs > 0 && "a scheduler was released twice");
    custom->users -= users;
    bool last = --custom->refs == 0;
    weft__lock_release(&custom->lock);
    return last;
}

static void destroy(struct weft_scheduler *scheduler)
{
    if (scheduler->ops->destroy != NULL) {
        scheduler->ops->destroy(scheduler);
    }
}

static void destroy_here(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)carrier;
    struct custom *custom = weft__container_of(request, struct custom, request);
    destroy(weft__container_of(custom, struct weft_scheduler, opaque));
}

void weft__scheduler_leave(struct weft_scheduler *scheduler, struct weft__carrier *carrier)
{
    if (!drop(scheduler, 1)) {
        return;
    }
    if (carrier == NULL) {
        destroy(scheduler);
        return;
    }
    // Not on this thread, which may be one that the scheduler wants to join.
    struct custom *custom = of(scheduler);
    custom->request = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = destroy_here };
    weft__put(carrier, &custom->request.node, weft__carrier_self());
}

void weft_scheduler_release(struct weft_scheduler *scheduler)
{
    if (scheduler != NULL && drop(scheduler, 0)) {
        destroy(scheduler);
    }
}

void weft_scheduler_stats(struct weft_scheduler *scheduler, weft_stat_fn report, void *ctx)
{
    struct custom *custom = of(scheduler);
    weft__lock_acquire(&custom->lock);
    uint32_t users = custom->users;
    weft__lock_release(&custom->lock);
    report(ctx, "users", users);
    if (scheduler->ops->publish != NULL) {
        scheduler->ops->publish(scheduler, report, ctx);
    }
}

/// A hand-over is a run: the obligation passes to the task's home.
static struct weft_scheduler *take_over(struct weft__task *task)
{
    bool given = task->own != NULL && weft__task_claim(task);
    weft_assert(given && "a scheduler delegated a task that it was not given");
    if (!task->roams) {
        weft_assert((task->kept_on == NULL || task->kept_on == task->home) &&
                    "a scheduler that keeps a task on its thread delegated it");
        task->kept_on = task->home;
    }
    return &task->crew->sched;
}

static void delegate_start(struct weft_scheduler *self, struct weft__task *task)
{
    (void)self;
    struct weft_scheduler *builtin = take_over(task);
    builtin->ops->on_start(builtin, task);
}

static void delegate_continue(struct weft_scheduler *self, struct weft__task *task)
{
    (void)self;
    struct weft_scheduler *builtin = take_over(task);
    builtin->ops->on_continue(builtin, task);
}

const struct weft_scheduler_ops weft__delegate_ops = {
    .on_start = delegate_start,
    .on_continue = delegate_continue,
};
