// roll.c - visiting all tasks of a runtime: as they stand in memory, or in the order of their numbers.
#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/runtime.h"

struct visitor {
    void (*visit)(struct weft__task *task, void *arg);
    void *arg;
};

static int visit_block(void *block, void *arg)
{
    struct visitor *visitor = arg;
    struct weft__task *task = block;
    if ((atomic_load_explicit(&task->word, memory_order_acquire) & WEFT__WORD_REFS) != 0) {
        visitor->visit(task, visitor->arg);
    }
    return 0;
}

void weft__runtime_each_task(struct weft__runtime *runtime,
                             void (*visit)(struct weft__task *task, void *arg), void *arg)
{
    struct visitor visitor = { visit, arg };
    weft__stack_pool_each(runtime->crew.stacks, visit_block, &visitor);
    weft__blocks_each(&runtime->crew.blocks, visit_block, &visitor);
}

struct roll {
    struct weft__task **tasks;
    size_t count;
    size_t room;
};

static void call_the_roll(struct weft__task *task, void *arg)
{
    struct roll *roll = arg;
    if (roll->count < roll->room) {
        roll->tasks[roll->count] = task;
    }
    roll->count++;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = (*(struct weft__task *const *)a)->id;
    uint64_t y = (*(struct weft__task *const *)b)->id;
    return (x > y) - (x < y);
}

void weft__runtime_each_by_number(struct weft__runtime *runtime,
                                  void (*visit)(struct weft__task *task, void *arg), void *arg)
{
    struct roll roll = { 0 };
    weft__runtime_each_task(runtime, call_the_roll, &roll);
    size_t size = (roll.count + 1) * sizeof(struct weft__task *);
    roll.tasks = weft__alloc(NULL, size, _Alignof(struct weft__task *));
    if (roll.tasks == NULL) {
        weft__runtime_each_task(runtime, visit, arg);
        return;
    }
    roll.room = roll.count;
    roll.count = 0;
    weft__runtime_each_task(runtime, call_the_roll, &roll);
    qsort(roll.tasks, roll.count, sizeof(struct weft__task *), by_number);
    for (size_t i = 0; i < roll.count; i++) {
        visit(roll.tasks[i], arg);
    }
    weft__free(NULL, roll.tasks, size);
}
