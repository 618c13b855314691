// spawn_model.c - a child is spawned into a scope that is being cancelled (sched/spawn.c,
// task/scope.c S3).
//
// The owner spawns a child and joins; a sibling fails at the same time, which cancels the scope.
// The child blocks until it is cancelled. Either the spawn is refused, or the child learns of the
// cancel: one that was entered, but missed by the cancel, would sleep for ever, and so would the
// owner.
//
// Sources: sched/spawn.c task/scope.c task/wait.c task/run.c
// Headers: task/word.h base/lock.h
// With: stage.c stage_actor.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include "mc.h"
#include "sched/crew.h"
#include "stage.h"
#include "task/host.h"
#include "task/local.h"
#include "task/scope.h"
#include "task/wait.h"
#include "task/word.h"

enum { FAILURE = -EIO, REFUSED = 2 };

static struct stage_actor owner, sibling, child;
static struct weft__crew crew;
static struct weft__carrier carrier;
static struct weft__scope scope;
static struct weft_future future;
static int verdict, blocked;

// What spawning needs besides the sources: memory is one block, and nobody has locals.

const struct weft__kind weft__kind_future = { .name = "future", .free = weft__future_free };

struct weft__task *weft__block_take(struct weft__blocks *blocks, struct weft__block_cache *cache)
{
    (void)blocks;
    (void)cache;
    return &child.task;
}

void weft__block_give(struct weft__blocks *blocks, struct weft__block_cache *cache,
                      struct weft__task *block)
{
    (void)blocks;
    (void)cache;
    (void)block;
}

void weft__locals_end(struct weft__task *task)
{
    (void)task;
}

// The threads.

static void end(struct weft__task *task, int result)
{
    weft__scope_settle(&scope, result);
    weft__scope_leave(&scope, task);
    (void)weft__word_end(task);
}

static void own(void *unused)
{
    (void)unused;
    const struct weft__spawn spawn = {
        .is_future = true,
        .arg = &future,
        .scope = &scope,
        .file = "",
        .line = 1,
    };
    int rc = weft__spawn(NULL, &crew, &carrier, &spawn);
    if (rc < 0) {
        mc_assert(rc == -ECANCELED);
        // Its result is used, or clang would make a store of it, which may miss the sleeper.
        uint32_t lane = atomic_exchange_explicit(&child.lane, REFUSED, memory_order_release);
        mc_assert(lane == 0);
        mc_event_set(&child.lane);
    }
    verdict = weft__scope_join(&scope);
}

static void fail(void *unused)
{
    (void)unused;
    end(&sibling.task, FAILURE);
}

static __attribute__((noinline)) int block_for_ever(struct weft__task *task)
{
    struct weft__wait wait;
    weft__wait_init(&wait, task, WEFT__WAIT_WITHDRAW, "model");
    return weft__block(&wait, WEFT_FOREVER);
}

static void run_child(void *unused)
{
    (void)unused;
    uint32_t lane;
    while ((lane = atomic_exchange_explicit(&child.lane, 0, memory_order_acquire)) == 0) {
        mc_event_wait(&child.lane);
    }
    if (lane == REFUSED) {
        return;
    }
    child.task.budget = INT16_MAX;
    weft__word_clear_notified(&child.task);
    blocked = block_for_ever(&child.task);
    end(&child.task, 0);
}

static void one_fails(void)
{
    stage_actor_init(&owner, "owner");
    stage_actor_init(&sibling, "sibling");
    stage_actor_init(&child, "child");
    atomic_init(&child.task.word, 0);
    crew = (struct weft__crew){ .carriers = &carrier, .capacity = 1, .sched = stage_scheduler };
    atomic_init(&crew.started, 1);
    atomic_init(&crew.active, 1);
    carrier.next_id = 0;
    atomic_init(&carrier.counts.spawned, 0);
    verdict = blocked = 0;
    owner.task.scope = &crew.root;
    weft__scope_open(&scope, &owner.task, WEFT_SCOPE_ALL, WEFT_FOREVER);
    int rc = weft__scope_enter(&scope, &sibling.task);
    mc_assert(rc == 0);
    mc_name(&scope, sizeof scope, "scope");
    mc_name(&scope.cause, sizeof scope.cause, "cause");
    mc_name(&scope.lock, sizeof scope.lock, "lock");
    mc_name(&child.task.word, sizeof child.task.word, "child.word");
    mc_name(&child.lane, sizeof child.lane, "child.lane");
    mc_thread(own, NULL);
    mc_thread(fail, NULL);
    mc_thread(run_child, NULL);
}

static void check(void)
{
    mc_assert(verdict == FAILURE);
    mc_assert(blocked == 0 || blocked == -ECANCELED);
}

const struct mc_model mc_models[] = {
    { .name = "spawn_while_one_fails",
      .setup = one_fails,
      .check = check,
      .never_spurious = 1,
      .max_bound = 2 },
    { .name = NULL },
};
