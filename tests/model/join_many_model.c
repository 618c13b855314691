// join_many_model.c - a waiter for several tasks while they end (future/join_many.c, M1 and M2).
//
// The group is in the frame of the call and dies when that returns: an end that touches it later is
// found. A forgotten wake leaves the waiter asleep. Results are plain.
//
// Sources: future/join_many.c task/join.c task/wait.c task/run.c
// With: stage.c stage_actor.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include "mc.h"
#include "sched/crew.h"
#include "stage_sync.h"
#include "task/join.h"
#include "task/word.h"

enum { TASKS = 2 };

static struct weft__task tasks[TASKS];
static weft_task *handles[TASKS];
static _Atomic int frees;
static int ends_with[TASKS];

static void free_block(struct weft__task *freed, struct weft__carrier *carrier)
{
    (void)freed;
    (void)carrier;
    atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
}

static const struct weft__kind kind = { .name = "model", .free = free_block };

int weft__runtime_refuses(const struct weft__crew *crew, const struct weft__carrier *self)
{
    (void)crew;
    (void)self;
    return 0;
}

void weft_task_cancel(weft_task *task)
{
    weft__interrupt(task, WEFT__WORD_CANCELLED);
}

void weft_task_release(weft_task *task)
{
    weft__task_release(task, NULL);
}

static void end(void *number)
{
    struct weft__task *task = &tasks[(intptr_t)number];
    task->result = ends_with[(intptr_t)number];
    weft__task_end(task, NULL);
    weft__task_release(task, NULL);
}

static void await_any(void *unused)
{
    (void)unused;
    size_t index = 9;
    mc_assert(weft_join_any(&index, handles, TASKS, WEFT_FOREVER) == 0);
    mc_assert(index < TASKS && tasks[index].result == ends_with[index]);
}

static void await_any_or_be_late(void *unused)
{
    (void)unused;
    size_t index = 9;
    int rc = weft_join_any(&index, handles, TASKS, 10);
    mc_assert(rc == -ETIMEDOUT || (rc == 0 && tasks[index].result == ends_with[index]));
}

static void race(void *unused)
{
    (void)unused;
    int result = 0;
    mc_assert(weft_join_race(NULL, &result, handles, TASKS, WEFT_FOREVER) == 0);
    mc_assert(result == ends_with[0] || result == ends_with[1]);
}

static void try_all(void *unused)
{
    (void)unused;
    int error = 0;
    int results[TASKS] = { 0 };
    mc_assert(weft_try_join_all(&error, results, handles, TASKS, WEFT_FOREVER) == 0);
    mc_assert(error == -EIO && results[0] == ends_with[0] && results[1] == ends_with[1]);
}

static void reset(int first, int second)
{
    stage_sync_init();
    atomic_init(&frees, 0);
    ends_with[0] = first;
    ends_with[1] = second;
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct weft__task){ .kind = &kind, .sched = &stage_scheduler };
        weft__word_init(&tasks[i], 2, 0);
        handles[i] = &tasks[i];
    }
    mc_name(tasks, sizeof tasks, "tasks");
}

static void start_ends(void)
{
    mc_thread(end, (void *)0);
    mc_thread(end, (void *)1);
}

static void any_foreign(void)
{
    reset(5, 6);
    mc_thread(await_any, NULL);
    start_ends();
}

static void any_task(void)
{
    reset(5, 6);
    stage_sync_thread(await_any, NULL);
    start_ends();
}

static void any_late(void)
{
    reset(5, 6);
    stage_sync_thread(await_any_or_be_late, NULL);
    start_ends();
}

static void race_of_two(void)
{
    reset(5, 6);
    mc_thread(race, NULL);
    start_ends();
}

static void one_fails(void)
{
    reset(5, -EIO);
    mc_thread(try_all, NULL);
    start_ends();
}

static void check_released(void)
{
    mc_assert(atomic_load_explicit(&frees, memory_order_relaxed) == TASKS);
}

const struct mc_model mc_models[] = {
    { .name = "join_any_foreign", .setup = any_foreign, .never_spurious = 1 },
    { .name = "join_any_task", .setup = any_task, .never_spurious = 1 },
    { .name = "join_any_late", .setup = any_late, .never_spurious = 1 },
    { .name = "join_race", .setup = race_of_two, .check = check_released, .never_spurious = 1 },
    { .name = "join_try_all", .setup = one_fails, .check = check_released, .never_spurious = 1 },
    { .name = NULL },
};
