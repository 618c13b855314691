// thread.c - virtual threads: a task with its own stack.
#include <errno.h>

#include "base/assert.h"
#include "task/stack.h"
#include "task/task.h"

/// Runs on the carrier's stack. errno belongs to the OS thread, so it is exchanged here, where that
/// cannot change under us.
static void thread_run(struct weft__task *task, struct weft__context *from)
{
    task->started = true;
    task->movable = task->migratable;
    task->return_to = from;
    errno = task->saved_errno;
    weft__context_switch(from, &task->context);
    task->saved_errno = errno;
}

void weft__thread_leave(struct weft__task *task, enum weft__verdict verdict)
{
    task->verdict = (uint8_t)verdict;
    weft__context_switch(&task->context, task->return_to);
}

void weft__thread_entry(void *arg)
{
    struct weft__task *task = arg;
    task->result = task->fn(task->arg);
    weft__locals_end(task);
    weft_assert(task->scope == task->birth && "a scope was not joined before its thread ended");
    task->verdict = WEFT__ENDED;
    weft__context_exit(&task->context, task->return_to);
}

const struct weft__kind weft__kind_thread = {
    .name = "thread",
    .run = thread_run,
    .free = weft__thread_free,
};
