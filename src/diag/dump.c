// dump.c - all tasks in words.
//
// A visitor holds a reference, so a task's fixed fields are stable while it looks; what changes is
// read once, without asking the task. The picture is of no single moment.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/runtime.h"
#include "sched/clock.h"

#define LINE_BYTES 512

static const char *state_name(uint64_t word, const char *waits_for)
{
    switch (word & WEFT__WORD_LIFE) {
    case WEFT__WORD_DONE: return "done";
    case WEFT__WORD_IDLE: return waits_for != NULL ? "waiting" : "parked";
    default: return "ready";
    }
}

static const char *base_name(const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    return slash != NULL ? slash + 1 : (path != NULL ? path : "?");
}

static size_t add_wait(struct weft__task *task, char *text, size_t size, weft_time now)
{
    const char *what = atomic_load_explicit(&task->waits_for, memory_order_relaxed);
    uint64_t since = atomic_load_explicit(&task->waits_since, memory_order_relaxed);
    if (what == NULL) {
        return 0;
    }
    if (since == 0) {
        since = now; // its first wait is just beginning
    }
    uint64_t ms = now > since ? (now - since) / WEFT_MS : 0;
    return (size_t)snprintf(text, size, " %s for %" PRIu64 " ms,", what, ms);
}

/// `7 "name" thread waiting, sleep for 12 ms, carrier 0, spawned at file.c:12, stack 8192`
static void describe(struct weft__task *task, char *text, size_t size, weft_time now)
{
    const char *what = atomic_load_explicit(&task->waits_for, memory_order_relaxed);
    uint64_t word = atomic_load_explicit(&task->word, memory_order_acquire);
    size_t used = (size_t)snprintf(text, size, "task %" PRIu64 " \"%s\" %s, %s%s,", task->id,
                                   task->name, task->kind->name, state_name(word, what),
                                   word & WEFT__WORD_CANCELLED ? ", cancelled" : "");
    used += used < size ? add_wait(task, text + used, size - used, now) : 0;
    if (used < size) {
        used += (size_t)snprintf(text + used, size - used, " carrier %d, spawned at %s:%d",
                                 task->home->number, base_name(task->file), task->line);
    }
    if (used < size && task->stack_low != NULL) {
        (void)snprintf(text + used, size - used, ", stack %" PRId64 " of %zu bytes",
                       weft_task_stack_used(task),
                       (size_t)((const char *)task - (const char *)task->stack_low));
    }
}

void weft__describe_block(void *block, char *out, size_t size_bytes)
{
    const struct weft__task *task = block;
    struct weft__text text;
    weft__text_init(&text, out, size_bytes);
    weft__text_add(&text, "\"");
    weft__text_add(&text, task->name);
    weft__text_add(&text, "\" (id ");
    weft__text_add_number(&text, task->id);
    weft__text_add(&text, ", spawned at ");
    weft__text_add(&text, base_name(task->file));
    weft__text_add(&text, ":");
    weft__text_add_number(&text, (uint64_t)task->line);
    weft__text_add(&text, ")");
}

/// The clock that the runtime's waits are counted by. A simulated one is only its own thread's.
static weft_time runtime_now(const struct weft__runtime *runtime, bool ours)
{
    if (!runtime->crew.simulated) {
        return weft__clock_ns();
    }
    return ours ? runtime->crew.carriers[0].sim->now : 0;
}

struct log_dump {
    struct weft__runtime *runtime;
};

static void dump_line_to_log(struct weft__task *task, void *arg)
{
    struct log_dump *dump = arg;
    char line[LINE_BYTES];
    if (weft_task_done(task)) {
        return;
    }
    describe(task, line, sizeof line, runtime_now(dump->runtime, true));
    weft__log(&dump->runtime->log, WEFT_LOG_ERROR, "tasks", "%s", line);
}

void weft__dump_to_log(struct weft__runtime *runtime, const char *why)
{
    struct log_dump dump = { runtime };
    weft__log(&runtime->log, WEFT_LOG_ERROR, "tasks", "%s:", why);
    weft__runtime_each_task(runtime, dump_line_to_log, &dump);
}

struct fd_dump {
    int fd;
    int rc;
    weft_time now;
};

static void dump_line_to_fd(struct weft__task *task, void *arg)
{
    struct fd_dump *dump = arg;
    char line[LINE_BYTES + 1];
    if (dump->rc < 0) {
        return;
    }
    describe(task, line, LINE_BYTES, dump->now);
    size_t length = strlen(line);
    line[length] = '\n';
    dump->rc = weft__sys_write_all(dump->fd, line, length + 1);
}

static int dump_runtime(struct weft__runtime *runtime, void *arg)
{
    struct fd_dump *dump = arg;
    struct weft__carrier *self = weft__carrier_self();
    dump->now = runtime_now(runtime, self != NULL && self->crew == &runtime->crew);
    weft__runtime_each_task(runtime, dump_line_to_fd, dump);
    return dump->rc;
}

int weft_dump_tasks(int fd)
{
    struct fd_dump dump = { .fd = fd };
    return weft__registry_each(dump_runtime, &dump);
}
