// thread.c - virtual threads: a task with its own stack.
#include "base/assert.h"
#include "task/host.h"
#include "task/task.h"

void weft__thread_entry(void *arg)
{
    struct weft__task *task = arg;
    task->result = task->fn(task->arg);
    weft__locals_end(task);
    weft_assert(task->scope == task->birth && "a scope was not joined before its thread ended");
    weft__host_exit(task);
}

const struct weft__kind weft__kind_thread = {
    .name = "thread",
    .free = weft__thread_free,
};
