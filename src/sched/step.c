// step.c - a carrier is a step function: inbox, tasks for one quantum, timers, poll.
#include "base/relax.h"
#include "base/sys.h"
#include "sched/clock.h"
#include "sched/park.h"
#include "task/run.h"

/// The clock is read once per so many tasks.
#define TASKS_PER_LOOK WEFT__SIZED(16, 2)

weft_time weft__carrier_now(struct weft__carrier *carrier)
{
    if (weft__unlikely(carrier->sim != NULL)) {
        carrier->sim->now += weft__rng_below(&carrier->sim->rng, 64);
        carrier->coarse_now = carrier->sim->now;
    } else {
        carrier->coarse_now = weft__clock_ns();
    }
    return carrier->coarse_now;
}

void weft__carrier_open_inbox(struct weft__carrier *carrier)
{
    struct weft__node *node = weft__inbox_take(&carrier->inbox);
    while (node != NULL) {
        struct weft__node *next = node->next;
        if (node->kind == WEFT__NODE_TASK) {
            weft__fifo_push(&carrier->local, node);
        } else {
            struct weft__request *request = weft__container_of(node, struct weft__request, node);
            request->fn(request, carrier); // its storage may be gone afterwards
        }
        node = next;
    }
}

/// Fetches what the next two runs will touch: the next task's saved registers, and the control
/// block after that. With thousands of stacks each of these would otherwise be a cache miss.
static inline void prefetch_next(const struct weft__carrier *carrier)
{
    struct weft__node *node = carrier->local.head;
    if (node != NULL) {
        const struct weft__task *task = weft__container_of(node, struct weft__task, node);
        weft__context_prefetch(&task->context);
        __builtin_prefetch((const char *)task + WEFT__LINE, 1);
        __builtin_prefetch(node->next, 1);
    }
}

static inline void run_one(struct weft__carrier *carrier, struct weft__task *task)
{
    carrier->current = task;
    carrier->slice_end = 0;
    if (weft__unlikely(carrier->sim != NULL)) {
        weft__sim_note(carrier->sim, task->id);
    }
    bool ready = weft__run_inlined(task, &carrier->runner);
    carrier->current = NULL;
    if (ready) {
        if (weft__likely(task->home == carrier)) {
            weft__fifo_push(&carrier->local, &task->node);
        } else {
            task->sched->ops->on_continue(task->sched, task);
        }
    }
}

static void run_tasks(struct weft__carrier *carrier)
{
    // coarse_now may have been read by a task, too: one that uses up its slice ends the quantum.
    weft_time quantum_end = carrier->coarse_now + carrier->quantum_ns;
    for (unsigned ran = 1; carrier->local.head != NULL; ran++) {
        struct weft__node *node = weft__fifo_pop(&carrier->local);
        prefetch_next(carrier);
        run_one(carrier, weft__container_of(node, struct weft__task, node));
        if (ran % TASKS_PER_LOOK == 0) {
            (void)weft__carrier_now(carrier);
        }
        if (weft__unlikely(carrier->coarse_now >= quantum_end)) {
            return;
        }
    }
}

static void fire_timers(struct weft__carrier *carrier)
{
    if (carrier->wheel.armed == 0) {
        return;
    }
    weft_time now = weft__carrier_now(carrier);
    // Bounded by what was armed before: a function that sets its timer for the past must not keep
    // the carrier here for ever.
    for (size_t left = carrier->wheel.armed; left > 0; left--) {
        struct weft__timer *timer = weft__wheel_pop(&carrier->wheel, now);
        if (timer == NULL) {
            return;
        }
        timer->fire(timer);
    }
}

bool weft__step(struct weft__carrier *carrier)
{
    weft__carrier_open_inbox(carrier);
    run_tasks(carrier);
    fire_timers(carrier);
    carrier->driver->poll(carrier->driver_state);
    return carrier->local.head != NULL || !weft__inbox_empty(&carrier->inbox);
}

/// Stays awake for a while, because waking a sleeping thread costs tens of microseconds. True:
/// something came in.
static bool spin(struct weft__carrier *carrier)
{
    weft_time until = weft__carrier_now(carrier) + carrier->spin_ns;
    weft_time next = weft__wheel_next(&carrier->wheel);
    weft_time now;
    do {
        for (int i = 0; i < 32; i++) {
            if (!weft__inbox_empty(&carrier->inbox)) {
                return true;
            }
            weft__cpu_relax();
        }
        if (carrier->driver->poll(carrier->driver_state) > 0) {
            return true;
        }
        now = weft__carrier_now(carrier);
    } while (now < until && now < next);
    return false;
}

void weft__carrier_loop(struct weft__carrier *carrier)
{
    (void)weft__carrier_now(carrier); // dumps count from coarse_now
    while (!carrier->stop) {
        if (weft__step(carrier) || carrier->stop) {
            continue;
        }
        if (carrier->spin_ns == 0 || !spin(carrier)) {
            weft__sleep(carrier);
            (void)weft__carrier_now(carrier);
        }
    }
}
