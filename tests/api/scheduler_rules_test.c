// Schedulers written by programs: how they are chosen, how long they live, whom they delegate to, and
// what weft refuses.
#include "support/test.h"

#include "../../examples/sched_deadline.h"
#include "support/onpool.h"
#include "support/waiting.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_int destroyed;

static void count_destroy(struct weft_scheduler *self)
{
    atomic_fetch_add(&destroyed, 1);
    pool_destroy(self);
}

static const struct weft_scheduler_ops counted_ops = { pool_push, pool_push, NULL, count_destroy };

static int spawns_and_lets_go(void *arg)
{
    (void)arg;
    struct weft_attr attr = on_pool();
    weft_task *task;
    static atomic_int ready;
    CHECK_OK(weft_spawn(&task, waits_for_cancel, &ready, &attr));
    weft_scheduler_release(&pool->base);
    CHECK_OK(weft_sleep(1 * WEFT_MS));
    CHECK_EQ(atomic_load(&destroyed), 0);
    weft_task_cancel(task);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    while (atomic_load(&destroyed) == 0) { // by a carrier, soon
        CHECK_OK(weft_yield());
    }
    return 0;
}

TEST_DRIVERS(a_scheduler_is_destroyed_after_its_last_task)
{
    CHECK_OK(pool_create(&pool, 2));
    pool->base.ops = &counted_ops;
    CHECK_OK(weft_run(spawns_and_lets_go, NULL, NULL));
    CHECK_EQ(atomic_load(&destroyed), 1);
}

static void count_only(struct weft_scheduler *self)
{
    (void)self;
    atomic_fetch_add(&destroyed, 1);
}

TEST(a_scheduler_is_destroyed_with_the_last_reference)
{
    static const struct weft_scheduler_ops ops = { pool_push, pool_push, NULL, count_only };
    struct weft_scheduler scheduler;
    weft_scheduler_init(&scheduler, &ops, "counted", 0);
    CHECK(weft_scheduler_retain(&scheduler) == &scheduler);
    weft_scheduler_release(&scheduler);
    CHECK_EQ(atomic_load(&destroyed), 0);
    weft_scheduler_release(&scheduler);
    CHECK_EQ(atomic_load(&destroyed), 1);
}

// For all tasks of a runtime.

static int is_on_pool(void *arg)
{
    *(bool *)arg = is_of_pool(pthread_self());
    return 0;
}

static int looks_where_tasks_run(void *arg)
{
    bool here = false;
    bool moves = false;
    bool stays = false;
    CHECK(is_on_pool(&here) == 0);
    CHECK_EQ(here, *(bool *)arg);
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    CHECK_OK(weft_spawn(&task, is_on_pool, &stays, &attr));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    attr.migratable = true;
    CHECK_OK(weft_spawn(&task, is_on_pool, &moves, &attr));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK(moves);
    CHECK_EQ(stays, *(bool *)arg);
    return 0;
}

TEST_DRIVERS(a_runtime_has_a_scheduler_for_all)
{
    for (int threads = 1; threads <= 2; threads++) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        bool all = threads == 1;
        CHECK_OK(pool_create(&pool, threads));
        options.scheduler = &pool->base;
        CHECK_OK(weft_run(looks_where_tasks_run, &all, &options));
        CHECK_OK(weft_run(looks_where_tasks_run, &all, &options)); // one after the other is fine
        weft_scheduler_release(&pool->base);
    }
}

static int make_pool(struct weft_scheduler **scheduler, void *arg)
{
    int rc = pool_create(&pool, *(int *)arg);
    *scheduler = rc == 0 ? &pool->base : NULL;
    if (rc == 0) {
        pool->base.ops = &counted_ops;
    }
    return rc;
}

TEST_DRIVERS(a_scheduler_is_chosen_by_name)
{
    static int threads = 2;
    static int bad = 0;
    bool all = false;
    CHECK_OK(weft_scheduler_register("my pool", make_pool, &threads));
    CHECK_OK(weft_scheduler_register("broken", make_pool, &bad));
    CHECK_EQ(weft_scheduler_register("my pool", make_pool, &threads), -EEXIST);
    CHECK_EQ(weft_scheduler_register("locality", make_pool, &threads), -EEXIST);
    CHECK_EQ(weft_scheduler_register("", make_pool, &threads), -EINVAL);
    CHECK_EQ(weft_scheduler_register(NULL, make_pool, &threads), -EINVAL);
    CHECK_EQ(weft_scheduler_register("x", NULL, &threads), -EINVAL);
    CHECK_EQ(weft_scheduler_register("a name that has more than 31 bytes", make_pool, NULL),
             -EINVAL);
    setenv("WEFT_SCHED", "my pool", 1);
    CHECK_OK(weft_run(looks_where_tasks_run, &all, NULL));
    CHECK_EQ(atomic_load(&destroyed), 1);
    setenv("WEFT_SCHED", "broken", 1);
    CHECK_EQ(weft_run(looks_where_tasks_run, &all, NULL), -EINVAL);
    setenv("WEFT_SCHED", "nobody", 1);
    CHECK_EQ(weft_run(looks_where_tasks_run, &all, NULL), -EINVAL);
    for (int i = 2; i < 32; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        CHECK_OK(weft_scheduler_register(name, make_pool, &threads));
    }
    CHECK_EQ(weft_scheduler_register("one more", make_pool, &threads), -ENOSPC);
}

static int is_on_builtin(void *arg)
{
    *(bool *)arg = weft_task_scheduler(weft_self()) == NULL;
    return 0;
}

/// As all options: what the program says beats the environment, which is not even looked at then.
TEST_DRIVERS(a_policy_of_the_options_beats_a_name_of_the_environment)
{
    static int threads = 2;
    static const char *const names[] = { "the pool", "nobody", "stealing", "locality" };
    CHECK_OK(weft_scheduler_register("the pool", make_pool, &threads));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (int policy = WEFT_POLICY_LOCALITY; policy <= WEFT_POLICY_STEALING; policy++) {
            struct weft_options options = WEFT_OPTIONS_INIT;
            bool builtin = false;
            options.policy = (enum weft_policy)policy;
            setenv("WEFT_SCHED", names[i], 1);
            CHECK_OK(weft_run(is_on_builtin, &builtin, &options));
            CHECK(builtin);
        }
    }
    CHECK(pool == NULL); // it was never made
}

// Delegating.

struct delegating {
    struct weft_scheduler base;
    atomic_int starts;
    atomic_int continues;
};

static void delegate_start(struct weft_scheduler *self, weft_task *task)
{
    atomic_fetch_add(&((struct delegating *)self)->starts, 1);
    self->builtin->ops->on_start(self->builtin, task);
}

static void delegate_continue(struct weft_scheduler *self, weft_task *task)
{
    atomic_fetch_add(&((struct delegating *)self)->continues, 1);
    self->builtin->ops->on_continue(self->builtin, task);
}

static const struct weft_scheduler_ops delegating_ops = { delegate_start, delegate_continue, NULL,
                                                          NULL };

static int is_delegated(void *arg)
{
    struct delegating *delegating = arg;
    int home = weft_carrier_id();
    CHECK_GE(home, 0);
    int before = atomic_load(&delegating->continues);
    CHECK_OK(weft_yield());
    CHECK_OK(weft_sleep(1 * WEFT_MS));
    CHECK_EQ(weft_carrier_id(), home);
    CHECK_GE(atomic_load(&delegating->continues), before + 2);
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(1 * WEFT_S)));
    return weft_scope_join(&scope);
}

TEST_EVERYWHERE(a_scheduler_may_delegate)
{
    static struct delegating delegating;
    weft_scheduler_init(&delegating.base, &delegating_ops, "delegating",
                        WEFT_SCHEDULER_KEEPS_THREAD);
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.scheduler = &delegating.base;
    weft_task *tasks[6];
    for (int i = 0; i < 6; i++) {
        attr.migratable = i % 2 == 0;
        attr.place = i < 3 ? WEFT_PLACE_CURRENT : WEFT_PLACE_SPREAD;
        CHECK_OK(weft_spawn(&tasks[i], is_delegated, &delegating, &attr));
    }
    for (int i = 0; i < 6; i++) {
        int result = -1;
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_OK(result);
    }
    CHECK_EQ(atomic_load(&delegating.starts), 6);
    weft_scheduler_release(&delegating.base);
}

// Refusals and misuse.

/// Keeps what it was given.
struct keeper {
    struct weft_scheduler base;
    _Atomic(weft_task *) task;
};

static void keep(struct weft_scheduler *self, weft_task *task)
{
    atomic_store(&((struct keeper *)self)->task, task);
}

static const struct weft_scheduler_ops keeper_ops = { keep, keep, NULL, NULL };
static struct keeper keeper;

static weft_task *kept(void)
{
    weft_task *task;
    while ((task = atomic_exchange(&keeper.task, NULL)) == NULL) {
        usleep(100);
    }
    return task;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int spawns_what_is_refused(void *arg)
{
    (void)arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task = (weft_task *)&attr;
    attr.scheduler = &keeper.base;
    CHECK_EQ(weft_spawn(&task, nothing, NULL, &attr), -EINVAL); // it would move
    CHECK(task == NULL);
    attr.migratable = true;
    keeper.base.flags = 0x80;
    CHECK_EQ(weft_spawn(&task, nothing, NULL, &attr), -EINVAL); // unknown flags
    keeper.base.flags = 0;
    struct weft_scheduler raw = { .ops = &keeper_ops };
    attr.scheduler = &raw;
    CHECK_EQ(weft_spawn(&task, nothing, NULL, &attr), -EINVAL); // not set up
    weft_scheduler_init(&raw, &(struct weft_scheduler_ops){ .on_start = keep }, "half", 0);
    CHECK_EQ(weft_spawn(&task, nothing, NULL, &attr), -EINVAL);
    return 0;
}

TEST_DRIVERS(spawns_that_a_scheduler_cannot_take_are_refused)
{
    weft_scheduler_init(&keeper.base, &keeper_ops, "keeper", 0);
    CHECK_OK(weft_run(spawns_what_is_refused, NULL, NULL));
    weft_scheduler_release(&keeper.base);
}

static void *runs_elsewhere(void *task)
{
    CHECK_EQ(weft_task_run(task), -EXDEV);
    return NULL;
}

static int yields_once(void *arg)
{
    CHECK_EQ(weft_task_run(arg), -EDEADLK);
    CHECK_EQ(weft_run(nothing, NULL, NULL), -EDEADLK);
    CHECK_OK(weft_yield());
    return 5;
}

static int waits_for_event(void *arg)
{
    return weft_event_wait(arg, WEFT_FOREVER);
}

static int tries_to_run(void *arg)
{
    CHECK_EQ(weft_task_run(arg), -EDEADLK);
    return 0;
}

TEST_DRIVERS(misuse_of_run_is_refused)
{
    weft_runtime *runtime;
    weft_task *task;
    weft_task *other;
    int result = 0;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_scheduler_init(&keeper.base, &keeper_ops, "keeper", WEFT_SCHEDULER_KEEPS_THREAD);
    attr.scheduler = &keeper.base;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_runtime_spawn(&other, runtime, tries_to_run, &attr, NULL));
    CHECK_OK(weft_join(NULL, other, WEFT_FOREVER));
    CHECK_OK(weft_runtime_spawn(&other, runtime, nothing, NULL, NULL));
    CHECK_EQ(weft_task_run(other), -EINVAL); // of the built-in scheduler
    CHECK_OK(weft_runtime_spawn(&task, runtime, yields_once, other, &attr));
    CHECK(kept() == task);
    CHECK(!weft_task_done(task));
    CHECK_OK(weft_task_run(task)); // until it yields
    CHECK(kept() == task);
    pthread_t thread = foreign_begin(runs_elsewhere, task);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_OK(weft_task_run(task));
    CHECK(weft_task_done(task));
    CHECK_EQ(weft_task_run(task), -EINVAL); // it has ended
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 5);
    CHECK_OK(weft_join(NULL, other, WEFT_FOREVER));

    struct weft_event event;
    weft_event_init(&event);
    CHECK_OK(weft_runtime_spawn(&task, runtime, waits_for_event, &event, &attr));
    CHECK(kept() == task);
    CHECK_OK(weft_task_run(task));
    CHECK_EQ(weft_task_run(task), -EINVAL); // parked
    weft_event_set(&event);
    CHECK(kept() == task);
    CHECK_OK(weft_task_run(task));
    CHECK_EQ(weft_task_run(task), -EINVAL);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    weft_event_fini(&event);
    weft_scheduler_release(&keeper.base);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// Somebody who was given nothing tries to run whatever he can.

enum { RIVALS = 8, RIVAL_ROUNDS = 200 };

static weft_task *rivals[RIVALS];
static atomic_int inside[RIVALS];
static atomic_bool rivals_over;
static atomic_int calls[RIVALS]; // of the scheduler, that it has not answered; attached to the task

static void note_call(struct weft_scheduler *self, weft_task *task)
{
    (void)self;
    atomic_fetch_add((atomic_int *)weft_task_attachment(task), 1);
}

static const struct weft_scheduler_ops noting_ops = { note_call, note_call, NULL, NULL };

/// The scheduler's thread: somebody may have been faster.
static void *runs_what_it_was_given(void *arg)
{
    (void)arg;
    while (!atomic_load(&rivals_over)) {
        for (int i = 0; i < RIVALS; i++) {
            if (atomic_exchange(&calls[i], 0) > 0) {
                int rc = weft_task_run(rivals[i]);
                CHECK(rc == 0 || rc == -EINVAL);
            }
        }
        sched_yield();
    }
    return NULL;
}

static int is_run_by_one(void *arg)
{
    int number = *(int *)arg;
    for (int i = 0; i < RIVAL_ROUNDS; i++) {
        CHECK_EQ(atomic_fetch_add(&inside[number], 1), 0); // promise 3
        CHECK_EQ(atomic_fetch_sub(&inside[number], 1), 1);
        CHECK_OK(i % 8 == 0 ? weft_sleep(WEFT_US) : weft_yield());
    }
    return 0;
}

static void *grabs(void *arg)
{
    (void)arg;
    while (!atomic_load(&rivals_over)) {
        for (int i = 0; i < RIVALS; i++) {
            int rc = weft_task_run(rivals[i]);
            CHECK(rc == 0 || rc == -EINVAL);
        }
        sched_yield();
    }
    return NULL;
}

TEST_DRIVERS(a_task_is_run_by_one_thread_at_a_time)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    pthread_t threads[2];
    int numbers[RIVALS];
    struct weft_scheduler noting;
    struct weft_attr attr = WEFT_ATTR_INIT;
    options.carriers = 2;
    weft_scheduler_init(&noting, &noting_ops, "noting", 0);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    attr.scheduler = &noting;
    attr.migratable = true;
    for (int i = 0; i < RIVALS; i++) {
        numbers[i] = i;
        attr.attachment = &calls[i];
        CHECK_OK(weft_runtime_spawn(&rivals[i], runtime, is_run_by_one, &numbers[i], &attr));
    }
    CHECK_EQ(pthread_create(&threads[0], NULL, runs_what_it_was_given, NULL), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, grabs, NULL), 0);
    for (int i = 0; i < RIVALS; i++) {
        weft_task_retain(rivals[i]); // for the one who still tries
        CHECK_OK(weft_join(NULL, rivals[i], WEFT_FOREVER));
    }
    atomic_store(&rivals_over, true);
    CHECK_EQ(pthread_join(threads[0], NULL), 0);
    CHECK_EQ(pthread_join(threads[1], NULL), 0);
    for (int i = 0; i < RIVALS; i++) {
        weft_task_release(rivals[i]);
    }
    weft_scheduler_release(&noting);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// The deadline scheduler.

#define JOBS 30

struct ordered {
    struct urgent urgent;
    int number;
};

static struct urgency *urgency;
static int order[JOBS];
static int ran;

static int notes_its_turn(void *arg)
{
    const struct ordered *self = arg;
    CHECK(pthread_equal(pthread_self(), urgency->thread));
    order[ran++] = self->number; // there is but one thread
    return 0;
}

static int spawns_jobs(void *arg)
{
    (void)arg;
    static struct ordered jobs[JOBS];
    struct weft_scope scope;
    uint64_t random = test_seed();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < JOBS; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.scheduler = &urgency->base;
        attr.attachment = &jobs[i].urgent;
        jobs[i].number = (int)(test_random(&random) % 1000);
        jobs[i].urgent.due = (weft_time)jobs[i].number;
        CHECK_OK(weft_scope_spawn_task(NULL, &scope, notes_its_turn, &jobs[i], &attr));
    }
    return weft_scope_join(&scope);
}

static int runs_the_boss(void *arg)
{
    struct urgent urgent = { .due = 0 };
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    attr.scheduler = &urgency->base;
    attr.attachment = &urgent;
    CHECK_OK(weft_spawn(&task, spawns_jobs, arg, &attr));
    return weft_join(NULL, task, WEFT_FOREVER);
}

static void find_depth(void *ctx, const char *name, uint64_t value)
{
    if (strcmp(name, "queue_depth") == 0) {
        *(uint64_t *)ctx = value;
    }
}

TEST_DRIVERS(the_most_urgent_task_runs_first)
{
    uint64_t depth = 99;
    CHECK_OK(urgency_create(&urgency));
    CHECK_OK(weft_run(runs_the_boss, NULL, NULL));
    CHECK_EQ(ran, JOBS);
    for (int i = 1; i < JOBS; i++) {
        CHECK_LE(order[i - 1], order[i]);
    }
    weft_scheduler_stats(&urgency->base, find_depth, &depth);
    CHECK_EQ(depth, 0);
    weft_scheduler_release(&urgency->base);
}
