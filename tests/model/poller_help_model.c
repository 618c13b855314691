// poller_help_model.c - a poller whose carrier is asked to help another one (sched/poller.c, Q8; search.c).
//
// An owner shares two tasks and is then busy for ever. The carrier that could help it has a poller, which
// says that it has I/O of its own, so its carrier does not look for tasks by itself; it sleeps in a call of
// the program's, by weft_poll_guard(). If the request is lost the poller sleeps for ever; if it keeps the
// poller awake and nobody answers it, they go round in a circle. The poller's thread is a thread of the
// model, and what its carrier does while it waits in maybe_yield, a real step, is done on the same thread.
//
// Sources: runtime/poller_api.c sched/poller.c sched/step.c sched/steal.c sched/search.c
// Sources: sched/offer.c sched/inject.c sched/park.c sched/inbox.c sched/wheel.c
// With: stage.c stage_carrier.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <string.h>

#include "mc.h"
#include "sched/crew.h"
#include "sched/park.h"
#include "sched/poller.h"
#include "sched/steal.h"
#include "stage.h"
#include "task/join.h"
#include "task/run.h"
#include "task/word.h"

enum { CARRIERS = 3, TASKS = 2, POLLER_THREAD = 0 };

static struct weft__carrier carriers[CARRIERS];
static struct weft__cluster cluster;
static struct weft__help help;
static struct weft__crew crew;
static struct weft__poller poller;
static struct weft__task its; // the poller's thread
static struct weft__task tasks[TASKS];
static int runs[TASKS]; // plain
static _Atomic int expected;
static int kernel; // its address is what the poller sleeps on

struct weft__task *weft__thread_self(void)
{
    return mc_self() == POLLER_THREAD ? &its : NULL;
}

struct weft__carrier *weft__carrier_self(void)
{
    return NULL; // nobody is woken here
}

int weft__no_task(void)
{
    return -EPERM;
}

// Tasks end when they run.

static void run(struct weft__task *task)
{
    runs[task - tasks]++;
    if (atomic_fetch_sub_explicit(&expected, 1, memory_order_relaxed) == 1) {
        weft__put(&carriers[1], &carriers[1].control.node, NULL);
    }
}

void weft__future_poll(struct weft__task *task)
{
    run(task);
    task->verdict = WEFT__SETTLED;
}

/// The poller waits for the end of a step.
int weft__switch(struct weft__context *from, struct weft__context *to, int value)
{
    (void)to;
    (void)value;
    mc_assert(from == &its.context && its.verdict == WEFT__SETTLED);
    (void)weft__step(&carriers[1]);
    poller.waiting = false;
    return 0;
}

// The driver: what a kick makes readable. Looking takes kicks that came before.

static int lookout(void *state, int *fd, weft_time *until)
{
    (void)state;
    (void)mc_event_wait_briefly(&kernel);
    *fd = 0;
    *until = WEFT_FOREVER;
    return 0;
}

static int poll_nothing(void *state)
{
    (void)state;
    return 0;
}

static void kick(void *state, void *from)
{
    (void)state;
    (void)from;
    mc_event_set(&kernel);
}

static const struct weft__op_counts *counts(void *state)
{
    (void)state;
    static const struct weft__op_counts none;
    return &none;
}

static const struct weft__driver driver = {
    .name = "event",
    .poll = poll_nothing,
    .lookout = lookout,
    .kick = kick,
    .counts = counts,
};

static int block(void *arg, int fd, weft_time until)
{
    (void)arg;
    (void)fd;
    (void)until;
    mc_event_wait(&kernel);
    return 0;
}

static void stop(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)request;
    carrier->stop = true;
}

static bool is_over(void)
{
    return carriers[1].stop;
}

/// One that it was sent on.
static void end_search(void)
{
    int ran = weft_poller_maybe_yield(&poller, true);
    mc_assert(ran == 0);
}

static void run_poller(void *unused)
{
    (void)unused;
    while (!is_over()) {
        int ran = weft_poller_maybe_yield(&poller, true);
        mc_assert(ran >= 0);
        if (!is_over()) {
            (void)weft_poll_guard(&poller, block, NULL);
        }
    }
    end_search();
}

/// Tries a second time before it lets its carrier work.
static void run_stubborn_poller(void *unused)
{
    (void)weft_poll_guard(&poller, block, NULL);
    run_poller(unused);
}

static void sharing_owner(void *arg)
{
    for (int i = 0; i < TASKS; i++) {
        weft__share(arg, &tasks[i]);
    }
}

/// Looks once and is then busy.
static void busy_thief(void *arg)
{
    struct weft__carrier *carrier = arg;
    if (weft__steal_idly(carrier)) {
        struct weft__node *node = weft__next_shared(carrier);
        if (node != NULL) {
            run(weft__container_of(node, struct weft__task, node));
        }
    }
}

static void reset(int count, void (*body)(void *))
{
    memset(&crew, 0, sizeof crew);
    memset(&help, 0, sizeof help);
    memset(runs, 0, sizeof runs);
    memset(&poller, 0, sizeof poller);
    crew.carriers = carriers;
    crew.capacity = count;
    atomic_init(&crew.started, count);
    atomic_init(&crew.active, count);
    crew.clusters = &cluster;
    cluster = (struct weft__cluster){ .first = 0, .count = count };
    crew.cluster_count = 1;
    crew.help = &help;
    crew.steals_globally = true;
    atomic_init(&expected, TASKS);
    for (int i = 0; i < count; i++) {
        stage_carrier_init(&carriers[i], i == 1 ? "carrier1" : "carrier");
        carriers[i].number = i;
        carriers[i].crew = &crew;
        carriers[i].shares = true;
        carriers[i].driver = &driver;
        carriers[i].control = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = stop };
    }
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct weft__task){ .kind = &weft__kind_future, .movable = true };
        tasks[i].migratable = tasks[i].started = true;
        tasks[i].crew = &crew;
        tasks[i].home = tasks[i].origin = &carriers[0];
        weft__word_init(&tasks[i], 2, 0);
    }
    its = (struct weft__task){ .crew = &crew, .home = &carriers[1] };
    weft__word_init(&its, 2, WEFT__WORD_POLLER);
    poller.task = &its;
    bool entered = weft__poller_enter(&poller, &carriers[1]);
    mc_assert(entered);
    weft__poller_show(&poller);
    mc_name(&carriers[1].state, sizeof carriers[1].state, "state1");
    mc_name(&help.searchers, sizeof help.searchers, "searchers");
    mc_name(&help.idle, sizeof help.idle, "idle");
    mc_name(&help.wanted, sizeof help.wanted, "wanted");
    mc_name(&expected, sizeof expected, "expected");
    mc_name(&kernel, sizeof kernel, "kernel");
    mc_thread(body, NULL); // POLLER_THREAD
}

static void asked(void)
{
    reset(2, run_poller);
    mc_thread(sharing_owner, &carriers[0]);
}

/// It was sent while it was refused to sleep, and tries again. Another one takes the request, leaves
/// something behind and relies on whoever searches already (search.c, S3).
static void stubborn(void)
{
    reset(3, run_stubborn_poller);
    bool may_sleep = weft__sleep_begin(&carriers[1]);
    mc_assert(may_sleep);
    sharing_owner(&carriers[0]);
    weft__sleep_end(&carriers[1]);
    mc_assert(carriers[1].sent_to != 0);
    mc_thread(busy_thief, &carriers[2]);
}

static void check(void)
{
    for (int i = 0; i < TASKS; i++) {
        mc_assert(runs[i] == 1);
    }
    mc_assert(atomic_load(&help.searchers) == 0); // search.c, S4
}

const struct mc_model mc_models[] = {
    { .name = "poller_is_asked",
      .setup = asked,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = "poller_is_stubborn",
      .setup = stubborn,
      .check = check,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = NULL },
};
