// shutdown.c - cancelling everything and waiting for it.
//
// Every task must learn of the cancel, also one that is being spawned right now. A spawn looks at
// the root's cause before it publishes the task; so the cause is set first, then each carrier is
// asked to say that it has seen it (whatever it spawned before is published by then, whatever it
// spawns later is refused), then all tasks are visited. They are visited once before that too,
// because a carrier that is busy may take its time to answer. Foreign threads look at the cause once
// more after publishing.
//
//   D1  The last one to end is noticed. A carrier that has answered sees `stopping` and reports each
//       end; what ended there before is counted before its answer; and the waiter does not believe
//       a count before it has all answers.
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/sys.h"
#include "runtime/runtime.h"
#include "sched/park.h"

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

static void tell(struct weft__task *task, void *arg)
{
    (void)arg;
    weft__interrupt(task, WEFT__WORD_LOOK);
}

void weft__runtime_cancel(struct weft__runtime *runtime)
{
    weft__scope_cancel(&runtime->crew.root, -ECANCELED);
    atomic_thread_fence(memory_order_seq_cst);
    weft__runtime_each_task(runtime, tell, NULL);
}

static void cause_seen(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)request;
    struct weft__crew *crew = carrier->crew;
    atomic_fetch_add_explicit(&crew->acknowledged, 1, memory_order_release);
    atomic_fetch_add_explicit(&crew->endings, 1, memory_order_release);
    weft__futex_wake(&crew->endings, INT_MAX);
}

static void ask_carriers(struct weft__crew *crew)
{
    for (int i = 0; i < crew->count; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        carrier->control.fn = cause_seen;
        weft__put(carrier, &carrier->control.node, NULL);
    }
}

static void note_unless_done(struct weft__task *task, void *arg)
{
    *(bool *)arg |= !weft_task_done(task);
}

/// A task that is DONE wakes its joiners before it is counted as ended, which is a matter of
/// moments: it does not make anybody late.
static bool anyone_left(struct weft__runtime *runtime)
{
    bool left = false;
    if (weft__crew_live(&runtime->crew) != 0) {
        weft__runtime_each_task(runtime, note_unless_done, &left);
    }
    return left;
}

/// Waits for the carriers' answers, visits all tasks once more, waits for the last one to end.
static bool wait_for_tasks(struct weft__runtime *runtime, weft_time deadline)
{
    struct weft__crew *crew = &runtime->crew;
    for (;;) {
        uint32_t endings = atomic_load_explicit(&crew->endings, memory_order_acquire);
        bool answered = atomic_load_explicit(&crew->acknowledged, memory_order_acquire) ==
                        (uint32_t)crew->count;
        if (answered && !atomic_exchange_explicit(&crew->told, true, memory_order_relaxed)) {
            weft__runtime_each_task(runtime, tell, NULL);
        }
        bool empty = weft__crew_live(crew) == 0;
        if (answered && empty) {
            return true;
        }
        // Carriers without tasks answer soon: that is not on the tasks' time.
        weft_time until = empty ? WEFT_FOREVER : deadline;
        if (weft__futex_wait(&crew->endings, endings, until) == -ETIMEDOUT &&
            anyone_left(runtime)) {
            return false;
        }
    }
}

int weft_runtime_shutdown(weft_runtime *runtime, weft_time grace_ns)
{
    struct weft__crew *crew = &runtime->crew;
    struct weft__carrier *self = weft__carrier_self();
    int rc = weft__runtime_refuses(crew, self);
    if (rc < 0) {
        return rc;
    }
    if (self != NULL && self->crew == crew) {
        return -EDEADLK;
    }
    weft_time deadline = weft_after(grace_ns);
    if (atomic_exchange_explicit(&crew->stopping, 1, memory_order_relaxed) == 0) {
        weft__runtime_cancel(runtime);
        ask_carriers(crew);
    }
    if (!wait_for_tasks(runtime, deadline)) {
        weft__dump_to_log(runtime, "these tasks did not end within the grace period");
        return -EBUSY;
    }
    return 0;
}

int weft_run(weft_fn fn, void *arg, const struct weft_options *options)
{
    if (weft__carrier_self() != NULL) {
        return -EDEADLK;
    }
    weft_runtime *runtime;
    weft_task *task;
    int result = 0;
    int rc = weft_runtime_create(&runtime, options);
    if (rc < 0) {
        return rc;
    }
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = "main";
    rc = weft_runtime_spawn_at(&task, runtime, fn, arg, &attr, "weft_run", 0);
    if (rc == 0) {
        rc = weft_join(&result, task, WEFT_FOREVER);
    } else {
        weft__log(&runtime->log, WEFT_LOG_ERROR, "runtime", "the first thread cannot start: %s",
                  strerror(-rc));
    }
    int rc_destroy = weft_runtime_destroy(runtime);
    if (rc < 0) {
        return rc;
    }
    return rc_destroy < 0 ? rc_destroy : result;
}
