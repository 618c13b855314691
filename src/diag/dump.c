// dump.c - all tasks in words.
//
// A task may end, and its block be reused, while we look. So a block is copied first and described
// afterwards, if it was the same task's before and after the copy: its number is unique, is written
// before the word says "in use", and the word is zeroed before that number can change. The picture is
// of no single moment.
#include "diag/dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/topology.h>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/runtime.h"
#include "sched/clock.h"
#include "task/host.h"

#define LINE_BYTES 512

/// Copies a block that others may be writing to. Word by word and uninstrumented, because a race
/// here is the point: a copy that was raced is thrown away.
__attribute__((noinline, no_sanitize("thread"))) static bool copy_task(struct weft__task *task,
                                                                       struct weft__task *copy)
{
    typedef uint64_t __attribute__((may_alias)) any_word;
    const volatile any_word *from = (const volatile any_word *)(const volatile void *)task;
    any_word *to = (any_word *)(void *)copy;
    uint64_t before = atomic_load_explicit(&task->word, memory_order_acquire) & WEFT__WORD_REFS;
    for (size_t i = 0; i < sizeof *copy / sizeof *to; i++) {
        to[i] = from[i];
    }
    atomic_thread_fence(memory_order_acquire);
    uint64_t id = *(volatile uint64_t *)&task->id;
    uint64_t after = atomic_load_explicit(&task->word, memory_order_relaxed) & WEFT__WORD_REFS;
    return before != 0 && after != 0 && id == copy->id;
}

/// Whether the task has ended and nobody has a handle: its block is just not given back yet.
static bool is_gone(const struct weft__task *copy, const struct weft__task *block)
{
    uint64_t word = atomic_load_explicit(&copy->word, memory_order_relaxed);
    return (word & WEFT__WORD_LIFE) == WEFT__WORD_DONE &&
           (word & WEFT__WORD_REFS) == WEFT__WORD_REF &&
           atomic_load_explicit(&copy->home->ended, memory_order_relaxed) == block;
}

static const char *state_name(uint64_t word, const char *waits_for, bool running)
{
    switch (word & WEFT__WORD_LIFE) {
    case WEFT__WORD_DONE: return "done";
    case WEFT__WORD_IDLE: return waits_for != NULL ? "waiting" : "parked";
    default: return running ? "running" : "ready";
    }
}

static const char *base_name(const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    return slash != NULL ? slash + 1 : (path != NULL ? path : "?");
}

static size_t add_wait(const struct weft__task *task, char *text, size_t size, weft_time now)
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

/// A glance at what the carrier runs; it does not wait for us.
__attribute__((noinline, no_sanitize("thread"))) static bool is_current(
    const struct weft__carrier *carrier, const struct weft__task *block)
{
    return *(struct weft__task *const volatile *)&carrier->current == block;
}

/// `7 "name" thread waiting, sleep for 12 ms, carrier 0, spawned at file.c:12, stack 8192`
/// `task` is a copy of what stands at `block`.
static void describe(const struct weft__task *task, const struct weft__task *block, char *text,
                     size_t size, weft_time now)
{
    const char *what = atomic_load_explicit(&task->waits_for, memory_order_relaxed);
    uint64_t word = atomic_load_explicit(&task->word, memory_order_acquire);
    bool running = is_current(task->home, block);
    size_t used = (size_t)snprintf(text, size, "task %" PRIu64 " \"%s\" %s, %s%s%s,", task->id,
                                   task->name, task->kind->name, state_name(word, what, running),
                                   word & WEFT__WORD_CANCELLED ? ", cancelled" : "",
                                   task->guards > 0 ? ", at work" : "");
    used += used < size ? add_wait(task, text + used, size - used, now) : 0;
    if (used < size) {
        char line[16] = "";
        if (task->line != 0) {
            (void)snprintf(line, sizeof line, ":%d", task->line);
        }
        char carrier[WEFT_CARRIER_NAME_BYTES];
        weft__carrier_name(task->home, carrier, sizeof carrier);
        carrier[strlen("carrier")] = task->home->crew->topology.count > 0 ? '-' : ' ';
        used += (size_t)snprintf(text + used, size - used, " %s, spawned at %s%s", carrier,
                                 base_name(task->file), line);
    }
    if (used < size && task->stack_low != NULL) {
        const char *high = (const char *)(block + 1);
        (void)snprintf(text + used, size - used, ", stack %" PRId64 " of %zu bytes",
                       weft__stack_touched(task->stack_low, high),
                       (size_t)((const char *)block - (const char *)task->stack_low));
    }
}

bool weft__describe_copy(struct weft__task *block, struct weft__task *copy, char *text,
                         size_t size_bytes, weft_time now)
{
    if (!copy_task(block, copy)) {
        return false;
    }
    describe(copy, block, text, size_bytes, now);
    return true;
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
    if (task->line != 0) {
        weft__text_add(&text, ":");
        weft__text_add_number(&text, (uint64_t)task->line);
    }
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

/// The log gets so many lines of a dump; weft_dump_tasks() writes them all.
#define LOG_LINES 50

struct log_dump {
    struct weft__runtime *runtime;
    size_t count;
};

void weft__host_die(const struct weft__task *task, const char *what)
{
    char who[256];
    char line[512];
    struct weft__text text;
    weft__describe_block((void *)(uintptr_t)task, who, sizeof who);
    weft__text_init(&text, line, sizeof line);
    weft__text_add(&text, "weft: virtual thread ");
    weft__text_add(&text, who);
    weft__text_add(&text, " ");
    weft__text_add(&text, what);
    weft__text_add(&text, "\n");
    (void)weft__sys_write_all(2, text.start, text.length);
    abort();
}

static void dump_line_to_log(struct weft__task *task, void *arg)
{
    struct log_dump *dump = arg;
    struct weft__task copy;
    char line[LINE_BYTES];
    if (!copy_task(task, &copy) || weft_task_done(&copy)) {
        return;
    }
    if (++dump->count > LOG_LINES) {
        return;
    }
    describe(&copy, task, line, sizeof line, runtime_now(dump->runtime, true));
    weft__log(&dump->runtime->log, WEFT_LOG_ERROR, "tasks", "%s", line);
}

void weft__dump_to_log(struct weft__runtime *runtime, const char *why)
{
    struct log_dump dump = { .runtime = runtime };
    weft__log(&runtime->log, WEFT_LOG_ERROR, "tasks", "%s:", why);
    weft__runtime_each_task(runtime, dump_line_to_log, &dump);
    if (dump.count > LOG_LINES) {
        weft__log(&runtime->log, WEFT_LOG_ERROR, "tasks", "and %zu more", dump.count - LOG_LINES);
    }
}

struct fd_dump {
    int fd;
    int rc;
    weft_time now;
};

static void dump_line_to_fd(struct weft__task *task, void *arg)
{
    struct fd_dump *dump = arg;
    struct weft__task copy;
    char line[LINE_BYTES + 1];
    if (dump->rc < 0 || !copy_task(task, &copy) || is_gone(&copy, task)) {
        return;
    }
    describe(&copy, task, line, LINE_BYTES, dump->now);
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
