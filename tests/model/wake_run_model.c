// wake_run_model.c - waking a task while it runs, parks or is queued (task/word.h, W1 and W2).
//
// The task is a future on a real carrier loop. Each waker publishes something and wakes; the task
// looks, and parks until it has seen everything. What is published is relaxed, so that only the
// wake can make it visible: a wake that is lost, or that publishes nothing, leaves the task IDLE
// and the carrier asleep. That two carriers never run the task at once, and see each other's writes
// to it, is the race detector's business: the task's fields are plain.
//
// Sources: task/run.c sched/step.c sched/inbox.c sched/park.c sched/wheel.c
// Headers: task/word.h sched/inbox.h
// With: stage.c stage_carrier.c
// Flags: -DWEFT_TINY=1
#include "mc.h"
#include "sched/park.h"
#include "stage.h"
#include "task/join.h"
#include "task/run.h"
#include "task/word.h"

enum { WAKERS = 2 };

static struct weft__carrier carriers[2];
static int carrier_count;
static struct weft__task task;
static _Atomic int published[WAKERS];
static int wanted[WAKERS];
static int polls; // the task's own
static int frees;

void weft__future_poll(struct weft__task *running)
{
    polls++;
    running->verdict = WEFT__ENDED;
    for (int i = 0; i < WAKERS; i++) {
        if (atomic_load_explicit(&published[i], memory_order_relaxed) < wanted[i]) {
            running->verdict = WEFT__PARKED;
        }
    }
}

static void stop(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)request;
    carrier->stop = true;
}

void weft__task_end(struct weft__task *ended, struct weft__carrier *carrier)
{
    (void)weft__word_end(ended);
    carrier->stop = true;
    for (int i = 0; i < carrier_count; i++) {
        if (&carriers[i] != carrier) {
            weft__put(&carriers[i], &carriers[i].control.node, carrier);
        }
    }
}

// The scheduler: to the carrier that is next, round robin. Who wakes an IDLE task has it for
// himself until it is queued.

static void to_next_carrier(struct weft_scheduler *self, struct weft__task *ready)
{
    (void)self;
    int next = (ready->home->number + 1) % carrier_count;
    ready->home = &carriers[next];
    weft__put(ready->home, &ready->node, NULL);
}

static const struct weft_scheduler_ops ops = { .on_continue = to_next_carrier };
static struct weft_scheduler scheduler = { .ops = &ops };

static void run_carrier(void *arg)
{
    weft__carrier_loop(arg);
}

static void wake_once(void *arg)
{
    int waker = (int)(intptr_t)arg;
    atomic_store_explicit(&published[waker], 1, memory_order_relaxed);
    weft__wake(&task);
}

static void wake_twice(void *arg)
{
    int waker = (int)(intptr_t)arg;
    atomic_store_explicit(&published[waker], 1, memory_order_relaxed);
    weft__wake(&task);
    atomic_store_explicit(&published[waker], 2, memory_order_relaxed);
    weft__wake(&task);
}

// A waker that counts a reference gives it back with its wake, or afterwards if there was nobody left to
// wake.
static void wake_and_release(void *arg)
{
    int waker = (int)(intptr_t)arg;
    atomic_store_explicit(&published[waker], 1, memory_order_relaxed);
    if (!weft__wake_release(&task)) {
        weft__task_release(&task, NULL);
    }
}

static void reset(int count, int first, int second)
{
    carrier_count = count;
    polls = 0;
    wanted[0] = first;
    wanted[1] = second;
    task = (struct weft__task){ .kind = &weft__kind_future, .sched = &scheduler };
    task.home = &carriers[0];
    weft__word_init(&task, 2, 0); // one is ours: nobody frees it
    for (int i = 0; i < count; i++) {
        stage_carrier_init(&carriers[i], i == 0 ? "carrier0" : "carrier1");
        carriers[i].number = i;
        carriers[i].control = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = stop };
        mc_thread(run_carrier, &carriers[i]);
    }
    for (int i = 0; i < WAKERS; i++) {
        atomic_init(&published[i], 0);
    }
    weft__fifo_push(&carriers[0].local, &task.node);
    mc_name(&task, sizeof task, "task");
    mc_name(&task.word, sizeof task.word, "word");
    mc_name(published, sizeof published, "published");
}

static void again(void)
{
    reset(1, 2, 0);
    mc_thread(wake_twice, (void *)0);
}

static void two_wakers(void)
{
    reset(1, 1, 1);
    mc_thread(wake_once, (void *)0);
    mc_thread(wake_once, (void *)1);
}

static void moving(void)
{
    reset(2, 2, 0);
    mc_thread(wake_twice, (void *)0);
}

static void count_free(struct weft__task *freed, struct weft__carrier *carrier)
{
    (void)freed;
    (void)carrier;
    frees++;
}

static const struct weft__kind counted = { .name = "future", .free = count_free };

static void reset_counted(int first, int second)
{
    reset(1, first, second);
    frees = 0;
    task.kind = &counted;
    weft__word_init(&task, 3, 0); // its own, and each waker's
    mc_thread(wake_and_release, (void *)0);
    mc_thread(wake_and_release, (void *)1);
}

static void released(void)
{
    reset_counted(1, 1);
}

static void released_late(void)
{
    reset_counted(1, 0); // the second may come when it has ended
}

static void check_freed(void)
{
    mc_assert(polls > 0);
    mc_assert(frees == 1);
    mc_assert(atomic_load_explicit(&task.word, memory_order_relaxed) == 0);
}

static void check(void)
{
    mc_assert(polls > 0);
}

const struct mc_model mc_models[] = {
    { .name = "wake_run_again", .setup = again, .check = check },
    { .name = "wake_run_two_wakers", .setup = two_wakers, .check = check },
    { .name = "wake_run_released", .setup = released, .check = check_freed },
    { .name = "wake_run_released_late", .setup = released_late, .check = check_freed },
    { .name = "wake_run_moving", .setup = moving, .check = check, .never_spurious = 1 },
    { .name = NULL },
};
