// stage_actor.c - tasks that threads of the model play. See stage.h.
#include "stage.h"

#include <string.h>

#include "task/host.h"
#include "task/word.h"

static struct stage_actor *actor_of(struct weft__task *task)
{
    return weft__container_of(task, struct stage_actor, task);
}

static void to_lane(struct weft_scheduler *self, struct weft__task *task)
{
    (void)self;
    struct stage_actor *actor = actor_of(task);
    uint32_t before = atomic_exchange_explicit(&actor->lane, 1, memory_order_release);
    mc_assert(before == 0); // T2
    mc_event_set(&actor->lane);
}

static const struct weft_scheduler_ops ops = { .on_start = to_lane, .on_continue = to_lane };
struct weft_scheduler stage_scheduler = { .ops = &ops };

void stage_actor_init(struct stage_actor *actor, const char *name)
{
    memset(actor, 0, sizeof *actor);
    actor->task.sched = &stage_scheduler;
    actor->task.kind = &weft__kind_thread;
    actor->task.budget = INT16_MAX;
    actor->now = 1;
    weft__word_init(&actor->task, 1, 0);
    mc_name(actor, sizeof *actor, name);
}

weft_time weft__host_now(struct weft__task *task)
{
    return actor_of(task)->now;
}

void weft__host_park(struct weft__task *task, weft_time deadline)
{
    struct stage_actor *actor = actor_of(task);
    if (weft__word_park(task)) {
        bool expires = deadline != WEFT_FOREVER && mc_choose(2) == 1;
        if (expires) {
            actor->now = deadline > actor->now ? deadline : actor->now;
            weft__wake(task);
        }
        while (atomic_exchange_explicit(&actor->lane, 0, memory_order_acquire) == 0) {
            mc_event_wait(&actor->lane);
        }
    }
    weft__word_clear_notified(task);
}
