// thread.c - virtual threads: a task with its own stack.
#include "base/assert.h"
#include "task/host.h"
#include "task/task.h"

void weft__thread_entry(void *arg)
{
    struct weft__task *task = arg;
    task->result = task->fn(task->arg);
    weft__locals_end(task);
    if (weft__unlikely(task->scope != task->birth)) {
        weft__host_die(task, "ended with an open scope: call weft_scope_join() before returning");
    }
    weft__host_exit(task);
}

const struct weft__kind weft__kind_thread = {
    .name = "thread",
    .free = weft__thread_free,
};
