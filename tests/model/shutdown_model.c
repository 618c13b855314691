// shutdown_model.c - shutting down while tasks are spawned, run and end (runtime/shutdown.c, D1;
// sched/crew.c; sched/spawn.c).
//
// One carrier with its real loop, one task: a future that ends when it is cancelled. One thread
// shuts down, stops the carrier and frees the crew. A foreign thread spawns the task meanwhile, or
// wakes it. A task that does not learn of the cancel, or an end that nobody notices, leaves the
// shutdown waiting for ever. A thread that touches the crew after it was freed is reported.
//
// Sources: runtime/shutdown.c runtime/roll.c sched/spawn.c sched/crew.c sched/host.c sched/step.c
// Sources: sched/inbox.c sched/park.c sched/wheel.c task/scope.c task/run.c task/future.c
// Sources: task/waker.c task/join.c sched/guest.c sched/scheduler.c
// Headers: sched/crew.h sched/carrier.h task/word.h
// With: stage.c stage_carrier.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <errno.h>
#include <string.h>

#include "mc.h"
#include "runtime/runtime.h"
#include "sched/guest.h"
#include "sched/park.h"
#include "stage.h"
#include "task/local.h"
#include "task/word.h"

enum { CARRIER_THREAD };

static struct weft__runtime runtime;
static struct weft__carrier carrier;
static struct weft__task block; // the only one; stays when the crew goes
static struct weft_future future;
static bool is_cancelled; // the future's own
static int ends;
static int spawned;
static _Atomic int has_stopped;  // the carrier's thread
static _Atomic int has_returned; // the spawning thread

struct weft__carrier *weft__carrier_self(void)
{
    return mc_self() == CARRIER_THREAD ? &carrier : NULL;
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

void weft__log(const struct weft__log *log, enum weft_log_level level, const char *module,
               const char *format, ...)
{
    (void)log;
    (void)level;
    (void)module;
    (void)format;
}

weft_time weft_after(weft_time duration_ns)
{
    (void)duration_ns;
    return WEFT_FOREVER;
}

int weft__runtime_refuses(const struct weft__crew *crew, const struct weft__carrier *self)
{
    (void)crew;
    (void)self;
    return 0;
}

// Memory: one block.

struct weft__task *weft__block_take(struct weft__blocks *blocks, struct weft__block_cache *cache)
{
    (void)blocks;
    (void)cache;
    return &block;
}

void weft__block_give(struct weft__blocks *blocks, struct weft__block_cache *cache,
                      struct weft__task *task)
{
    (void)blocks;
    (void)cache;
    (void)task;
}

int weft__blocks_each(struct weft__blocks *blocks, int (*visit)(void *block, void *arg), void *arg)
{
    (void)blocks;
    return visit(&block, arg);
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

// The task.

static enum weft_poll poll_future(struct weft_future *self, weft_waker *waker)
{
    (void)self;
    (void)waker;
    ends += is_cancelled;
    return is_cancelled ? WEFT_READY : WEFT_PENDING;
}

static void cancel_future(struct weft_future *self)
{
    (void)self;
    is_cancelled = true;
}

// A scheduler of the program's with one lane, and the thread that runs what is in it.

static struct weft_scheduler own;
static _Atomic uint32_t lane;

static void give(struct weft_scheduler *self, struct weft__task *task)
{
    (void)self;
    (void)task;
    // Its result is used, or clang would make a store of it, which may miss the sleeper.
    uint32_t before = atomic_exchange_explicit(&lane, 1, memory_order_release);
    mc_assert(before == 0);
    mc_event_set(&lane);
}

static const struct weft_scheduler_ops own_ops = { .on_start = give, .on_continue = give };

static void run_guest(void *unused)
{
    (void)unused;
    while (ends == 0) {
        if (atomic_exchange_explicit(&lane, 0, memory_order_acquire) == 0) {
            mc_event_wait(&lane);
            continue;
        }
        struct weft__guest guest = { .current = &block };
        bool claimed = weft__task_claim(&block);
        mc_assert(claimed);
        weft__crew_enter(&runtime.crew);
        weft__guest_turn(&block, &guest);
        weft__crew_leave(&runtime.crew);
    }
}

static const struct weft_attr *attr; // NULL: the built-in scheduler

static int spawn(struct weft__task **handle, struct weft__carrier *self)
{
    const struct weft__spawn request = {
        .is_future = true,
        .arg = &future,
        .attr = attr,
        .scope = &runtime.crew.root,
        .file = "",
        .line = 1,
    };
    return weft__spawn(handle, &runtime.crew, self, &request);
}

// The threads.

static void run_carrier(void *unused)
{
    (void)unused;
    weft__carrier_loop(&carrier);
    atomic_store_explicit(&has_stopped, 1, memory_order_release);
}

static void stop(struct weft__request *request, struct weft__carrier *here)
{
    (void)request;
    here->stop = true;
}

static void stop_carrier(void)
{
    carrier.control.fn = stop;
    weft__put(&carrier, &carrier.control.node, NULL);
}

static void shut_down_and_stop(void)
{
    int rc = weft_runtime_shutdown(&runtime, WEFT_FOREVER);
    mc_assert(rc == 0);
    mc_assert(ends == 1); // the task was there from the start
    stop_carrier();
    while (atomic_load_explicit(&has_stopped, memory_order_acquire) == 0) {
        mc_relax();
    }
}

// Frees the crew as weft_runtime_destroy() does.
static void shut_down_and_free(void *unused)
{
    (void)unused;
    shut_down_and_stop();
    weft__crew_await_visitors(&runtime.crew);
    mc_forbid(&runtime, sizeof runtime);
}

static void count_handle(struct weft__task *task, void *arg)
{
    (void)task;
    ++*(int *)arg;
}

// Frees the task's block, too, as weft__runtime_free() does: not while somebody has a handle.
static void shut_down_and_free_all(void *unused)
{
    (void)unused;
    int handles = 0;
    shut_down_and_stop();
    weft__runtime_each_task(&runtime, count_handle, &handles);
    if (handles == 0) {
        weft__crew_await_visitors(&runtime.crew);
        mc_forbid(&runtime, sizeof runtime);
        mc_forbid(&block, sizeof block);
    }
}

// A spawn that comes while a shutdown runs may still succeed; the next shutdown waits for it.
static void shut_down_twice(void *unused)
{
    (void)unused;
    int rc = weft_runtime_shutdown(&runtime, WEFT_FOREVER);
    mc_assert(rc == 0);
    while (atomic_load_explicit(&has_returned, memory_order_acquire) == 0) {
        mc_relax();
    }
    rc = weft_runtime_shutdown(&runtime, WEFT_FOREVER);
    mc_assert(rc == 0);
    stop_carrier();
}

static void spawn_from_outside(void *unused)
{
    (void)unused;
    int rc = spawn(NULL, NULL);
    mc_assert(rc == 0 || rc == -ECANCELED);
    spawned = rc == 0;
    atomic_store_explicit(&has_returned, 1, memory_order_release);
}

// Has a reference on the task, so that its block stays; the crew stays only as long as it must.
static void wake_from_outside(void *unused)
{
    (void)unused;
    weft__wake(&block);
}

static void release_from_outside(void *unused)
{
    (void)unused;
    weft__host_release(&block);
}

static void reset(void)
{
    memset(&runtime, 0, sizeof runtime);
    memset(&block, 0, sizeof block);
    stage_carrier_init(&carrier, "carrier");
    carrier.crew = &runtime.crew;
    carrier.control.node.kind = WEFT__NODE_REQUEST;
    runtime.crew.carriers = &carrier;
    runtime.crew.capacity = 1;
    atomic_init(&runtime.crew.started, 1);
    atomic_init(&runtime.crew.active, 1);
    runtime.options.grace_ns = WEFT_FOREVER;
    runtime.crew.sched.ops = &weft__locality_ops;
    runtime.crew.abroad.ops = &weft__abroad_ops;
    weft_future_init(&future, poll_future, cancel_future);
    is_cancelled = false;
    ends = spawned = 0;
    attr = NULL;
    atomic_init(&lane, 0);
    atomic_init(&has_stopped, 0);
    atomic_init(&has_returned, 0);
    mc_name(&runtime, sizeof runtime, "runtime");
    mc_name(&runtime.crew.root.cause, sizeof(int), "cause");
    mc_name(&runtime.crew.endings, sizeof(uint32_t), "endings");
    mc_name(&runtime.crew.acknowledged, sizeof(uint32_t), "acknowledged");
    mc_name(&runtime.crew.visitors, sizeof(uint32_t), "visitors");
    mc_name(&runtime.crew.foreign_spawned, sizeof(uint64_t), "foreign_spawned");
    mc_name(&carrier.counts.ended, sizeof(uint64_t), "ended");
    mc_name(&block, sizeof block, "task");
    mc_name(&block.word, sizeof block.word, "word");
    mc_thread(run_carrier, NULL);
}

static void one_task(void)
{
    reset();
    int rc = spawn(NULL, &carrier); // lands in `local`
    mc_assert(rc == 0);
    mc_thread(shut_down_and_free, NULL);
}

static void guest(void)
{
    static struct weft_attr on_own;
    reset();
    weft_scheduler_init(&own, &own_ops, "own", 0);
    on_own = (struct weft_attr)WEFT_ATTR_INIT;
    on_own.scheduler = &own;
    attr = &on_own;
    int rc = spawn(NULL, &carrier);
    mc_assert(rc == 0);
    mc_thread(shut_down_and_free, NULL);
    mc_thread(run_guest, NULL);
}

/// It ends by itself, and need not see the shutdown.
static void guest_ends(void)
{
    guest();
    is_cancelled = true;
}

static void late_wake(void)
{
    reset();
    struct weft__task *handle;
    int rc = spawn(&handle, &carrier);
    mc_assert(rc == 0);
    mc_thread(shut_down_and_free, NULL);
    mc_thread(wake_from_outside, NULL);
}

static void late_release(void)
{
    reset();
    struct weft__task *handle;
    int rc = spawn(&handle, &carrier);
    mc_assert(rc == 0);
    mc_thread(shut_down_and_free_all, NULL);
    mc_thread(release_from_outside, NULL);
}

static void late_spawn(void)
{
    reset();
    mc_thread(shut_down_twice, NULL);
    mc_thread(spawn_from_outside, NULL);
}

static void check(void)
{
    mc_assert(ends == spawned);
}

const struct mc_model mc_models[] = {
    { .name = "shutdown_one_task", .setup = one_task, .max_bound = 2 },
    { .name = "shutdown_guest", .setup = guest, .never_spurious = 1, .max_bound = 1 },
    { .name = "shutdown_guest_ends", .setup = guest_ends, .never_spurious = 1, .max_bound = 1 },
    { .name = "shutdown_late_wake", .setup = late_wake, .never_spurious = 1, .max_bound = 1 },
    { .name = "shutdown_late_release", .setup = late_release, .never_spurious = 1, .max_bound = 1 },
    { .name = "shutdown_late_spawn",
      .setup = late_spawn,
      .check = check,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = NULL },
};
