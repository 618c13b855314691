// force_model.c - a task is spawned inside a work guard while a shutdown drains and then forces
// (runtime/shutdown.c, D1 and D2; sched/spawn.c).
//
// A parent, born in the root scope, spawns a child into a scope that is a work guard, before, while or
// after its carrier answers that it has seen the drain. Both are futures that end when they are
// cancelled; the child is not before the force. One thread requests the shutdown twice. A child that
// does not learn of the force leaves its carrier asleep for ever. With two carriers the one that
// answers last need not be the one that spawns; to keep that small there is no parent, the carrier
// spawns the child by itself before it begins to loop, and the other one does nothing but answer.
// (shutdown_model.c has whoever waits for the end.)
//
// Sources: runtime/shutdown.c runtime/roll.c sched/spawn.c sched/crew.c sched/host.c sched/step.c
// Sources: sched/inbox.c sched/park.c sched/wheel.c task/scope.c task/run.c task/future.c
// Sources: task/waker.c task/join.c
// Headers: sched/crew.h sched/carrier.h task/word.h
// With: stage.c stage_carrier.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <errno.h>
#include <string.h>

#include "mc.h"
#include "runtime/runtime.h"
#include "sched/park.h"
#include "stage.h"
#include "task/local.h"
#include "task/word.h"

enum { PARENT, CHILD, TASKS };
enum { MAX_CARRIERS = 2 };

static struct weft__runtime runtime;
static struct weft__carrier carriers[MAX_CARRIERS];
static struct weft__task blocks[TASKS];
static int wanted; // the block that the next spawn takes
static struct weft_future futures[TASKS];
static bool is_cancelled[TASKS]; // the future's own
static struct weft__task owner;  // of the guard; it takes no part
static struct weft__scope guard;
static int forced; // written before the second request
static int ends, spawned;

struct weft__carrier *weft__carrier_self(void)
{
    int thread = mc_self();
    return thread < runtime.crew.capacity ? &carriers[thread] : NULL;
}

struct weft__carrier *weft__carrier_near(void)
{
    return weft__carrier_self();
}

struct weft__crew *weft__crew_self(void)
{
    return weft__carrier_self() != NULL ? &runtime.crew : NULL;
}

int sched_yield(void)
{
    mc_relax();
    return 0;
}

weft_time weft_now(void)
{
    return 0;
}

weft_time weft_after(weft_time duration_ns)
{
    (void)duration_ns;
    return WEFT_FOREVER;
}

void weft__log(const struct weft__log *log, enum weft_log_level level, const char *module,
               const char *format, ...)
{
    (void)log;
    (void)level;
    (void)module;
    (void)format;
}

int weft__runtime_refuses(const struct weft__crew *crew, const struct weft__carrier *self)
{
    (void)crew;
    (void)self;
    return 0;
}

// Memory: two blocks. The second is taken on a carrier, and whoever visits it finds it free before.

struct weft__task *weft__block_take(struct weft__blocks *unused, struct weft__block_cache *cache)
{
    (void)unused;
    (void)cache;
    return &blocks[wanted];
}

void weft__block_give(struct weft__blocks *unused, struct weft__block_cache *cache,
                      struct weft__task *task)
{
    (void)unused;
    (void)cache;
    (void)task;
}

int weft__blocks_each(struct weft__blocks *unused, int (*visit)(void *block, void *arg), void *arg)
{
    (void)unused;
    visit(&blocks[PARENT], arg);
    return visit(&blocks[CHILD], arg);
}

int weft__stack_pool_each(struct weft__stack_pool *pool, int (*visit)(void *block, void *arg),
                          void *arg)
{
    (void)pool;
    (void)visit;
    (void)arg;
    return 0;
}

void weft__locals_end(struct weft__task *task)
{
    (void)task;
}

// The tasks.

static int spawn(int number, struct weft__scope *scope)
{
    const struct weft__spawn request = {
        .is_future = true,
        .arg = &futures[number],
        .scope = scope,
        .file = "",
        .line = 1,
    };
    wanted = number;
    return weft__spawn(NULL, &runtime.crew, &carriers[0], &request);
}

// The carrier stops with the last one.
static void end(bool ended)
{
    ends += ended;
    carriers[0].stop = ends == spawned;
}

// Refused if the force was first.
static void spawn_child(void)
{
    int rc = spawn(CHILD, &guard);
    mc_assert(rc == 0 || rc == -ECANCELED);
    spawned++;
    end(rc != 0);
}

static enum weft_poll poll_parent(struct weft_future *self, weft_waker *waker)
{
    (void)self;
    (void)waker;
    if (spawned == 1) {
        spawn_child();
    }
    end(is_cancelled[PARENT]);
    return is_cancelled[PARENT] ? WEFT_READY : WEFT_PENDING;
}

static enum weft_poll poll_child(struct weft_future *self, weft_waker *waker)
{
    (void)self;
    (void)waker;
    end(is_cancelled[CHILD]);
    return is_cancelled[CHILD] ? WEFT_READY : WEFT_PENDING;
}

static void cancel_future(struct weft_future *self)
{
    is_cancelled[self - futures] = true;
    mc_assert(self == &futures[PARENT] || forced == 1);
}

// The threads.

static void run_carrier(void *carrier)
{
    weft__carrier_loop(carrier);
}

static void spawn_and_run_carrier(void *carrier)
{
    spawn_child();
    weft__carrier_loop(carrier);
}

static void answer(void *arg)
{
    struct weft__carrier *carrier = arg;
    while (weft__inbox_empty(&carrier->inbox)) {
        weft__sleep(carrier);
    }
    weft__carrier_open_inbox(carrier);
}

static void request_twice(void *unused)
{
    (void)unused;
    int rc = weft_shutdown_request(&runtime);
    mc_assert(rc == 0);
    forced = 1;
    rc = weft_shutdown_request(&runtime);
    mc_assert(rc == 0);
}

static void reset(int count)
{
    static const char *const names[] = { "carrier0", "carrier1" };
    memset(&runtime, 0, sizeof runtime);
    memset(blocks, 0, sizeof blocks);
    memset(is_cancelled, 0, sizeof is_cancelled);
    runtime.crew.carriers = carriers;
    runtime.crew.capacity = count;
    atomic_init(&runtime.crew.started, count);
    atomic_init(&runtime.crew.active, count);
    runtime.crew.sched.ops = &weft__locality_ops;
    runtime.options.grace_ns = WEFT_FOREVER;
    wanted = forced = ends = spawned = 0;
    memset(&owner, 0, sizeof owner);
    owner.scope = &runtime.crew.root;
    weft__scope_open(&guard, &owner, WEFT_SCOPE_COLLECT | WEFT_SCOPE_WORK, WEFT_FOREVER);
    weft_future_init(&futures[PARENT], poll_parent, cancel_future);
    weft_future_init(&futures[CHILD], poll_child, cancel_future);
    mc_name(&runtime, sizeof runtime, "runtime");
    mc_name(&runtime.crew.root.cause, sizeof(int), "stage");
    mc_name(&runtime.crew.endings, sizeof(uint32_t), "endings");
    mc_name(&runtime.crew.acknowledged, sizeof(uint32_t), "acknowledged");
    mc_name(&blocks[PARENT].word, sizeof(uint64_t), "parent.word");
    mc_name(&blocks[CHILD].word, sizeof(uint64_t), "child.word");
    mc_name(&guard, sizeof guard, "guard");
    for (int i = 0; i < count; i++) {
        stage_carrier_init(&carriers[i], names[i]);
        carriers[i].number = i;
        carriers[i].crew = &runtime.crew;
        carriers[i].control.node.kind = WEFT__NODE_REQUEST;
    }
}

static void one_carrier(void)
{
    reset(1);
    int rc = spawn(PARENT, &runtime.crew.root);
    mc_assert(rc == 0);
    spawned++;
    mc_thread(run_carrier, &carriers[0]);
    mc_thread(request_twice, NULL);
}

static void two_carriers(void)
{
    reset(2);
    mc_thread(spawn_and_run_carrier, &carriers[0]);
    mc_thread(answer, &carriers[1]);
    mc_thread(request_twice, NULL);
}

const struct mc_model mc_models[] = {
    { .name = "force_one_carrier", .setup = one_carrier, .never_spurious = 1, .max_bound = 2 },
    { .name = "force_two_carriers", .setup = two_carriers, .never_spurious = 1, .max_bound = 1 },
    { .name = NULL },
};
