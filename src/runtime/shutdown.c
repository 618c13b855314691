// shutdown.c - ending everything: first what is idle, then what is at work.
//
// A shutdown has two stages (task/scope.h). The drain cancels every task that is not inside a work
// guard, and nothing new starts in the root scope; the force cancels those inside guards, too. The
// stage is the root's cause. It is set first, then all tasks are marked and woken, and each looks
// for itself.
//
// The danger: a task that is being spawned while all are visited learns of nothing.
//
//     spawn                               begin, force
//     publish the task                    set the stage
//     fence (seq_cst)                     fence (seq_cst)
//     stage set? mark the task            visit all tasks
//
//   D1  A carrier that has seen no shutdown spawns without the fence. So the beginner asks every
//       carrier to answer that it has seen the drain. Whatever it spawned before is published by
//       then, and whoever answers last visits all tasks. They are visited once before that as well,
//       because a carrier that is busy may take its time to answer.
//   D2  After its answer a carrier spawns with the fence. So the force needs no answers: either it
//       finds the task, or the spawner sees the force. A task that was published before the last
//       answer is found by the force, or its fence comes before that of the visit which follows the
//       answer, and then the task sees the force when that visit wakes it.
//   D3  The last one to end is noticed. A carrier that has answered sees the stage and reports each
//       end; what ended there before is counted before its answer; and the waiter does not believe
//       a count before it has all answers. Another thread that runs tasks answers nothing: it counts,
//       bumps `endings`, and looks for the stage after a fence. Either it finds it and wakes the
//       waiter, or the waiter's look at `endings` finds the bump, or its futex call does.
//   D4  The force comes with the second request, or when nine tenths of the grace period have
//       passed: of the runtime's by a timer on carrier 0, of a waiter's own by the waiter. The last
//       tenth is for those who are forced.
//
// Locks: none. Checked by: tests/model (shutdown, force), tests/api/shutdown_test.c, drain_test.c,
// tests/stress/drain_stress.c.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/sys.h"
#include "runtime/runtime.h"
#include "sched/park.h"

static void tell(struct weft__task *task, void *arg)
{
    (void)arg;
    weft__interrupt(task, WEFT__WORD_LOOK);
}

static void tell_all(struct weft__runtime *runtime)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (runtime->crew.simulated) {
        weft__runtime_each_by_number(runtime, tell, NULL);
    } else {
        weft__runtime_each_task(runtime, tell, NULL);
    }
}

/// When a grace period that begins at `now` comes to its last tenth.
static weft_time last_tenth(weft_time now, weft_time grace_ns)
{
    weft_time wait_ns = grace_ns - grace_ns / 10;
    bool ever = grace_ns != WEFT_FOREVER && wait_ns < WEFT_FOREVER - now;
    return ever ? now + wait_ns : WEFT_FOREVER;
}

static void force(struct weft__runtime *runtime)
{
    if (weft__scope_advance(&runtime->crew.root, WEFT__STAGE_DRAIN, WEFT__STAGE_FORCE)) {
        weft__log(&runtime->log, WEFT_LOG_INFO, "runtime",
                  "shutdown is forced, %" PRIu64 " tasks left", weft__crew_live(&runtime->crew));
        tell_all(runtime);
    }
}

static void force_timer_fired(struct weft__timer *timer)
{
    force(weft__container_of(timer, struct weft__runtime, force_timer));
}

static void drain_seen(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)request;
    struct weft__crew *crew = carrier->crew;
    struct weft__runtime *runtime = weft__runtime_of(crew);
    if (carrier->number == 0 && runtime->force_at != WEFT_FOREVER) {
        weft__wheel_add(&carrier->wheel, &runtime->force_timer, runtime->force_at);
    }
    uint32_t before = atomic_fetch_add_explicit(&crew->acknowledged, 1, memory_order_release);
    if (before + 1 == atomic_load_explicit(&crew->asked, memory_order_relaxed)) {
        tell_all(runtime); // its fence acquires the other answers, and releases what follows
        atomic_fetch_add_explicit(&crew->endings, 1, memory_order_relaxed);
        weft__futex_wake(&crew->endings, INT_MAX);
    }
}

/// Under the lock no carrier is added, and later ones are not: whoever adds them looks at the stage. They
/// are roused after it (resize.c, Z5).
static void ask_carriers(struct weft__runtime *runtime)
{
    struct weft__crew *crew = &runtime->crew;
    weft__lock_acquire(&runtime->resizing);
    int count = weft__crew_started(crew);
    atomic_store_explicit(&crew->asked, (uint32_t)count, memory_order_relaxed);
    for (int i = 0; i < count; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        carrier->control.fn = drain_seen;
        weft__inbox_push(&carrier->inbox, &carrier->control.node);
    }
    weft__lock_release(&runtime->resizing);
    for (int i = 0; i < count; i++) {
        weft__rouse(&crew->carriers[i], NULL);
    }
}

bool weft__shutdown_begin(struct weft__runtime *runtime, weft_time now)
{
    struct weft__crew *crew = &runtime->crew;
    if (!weft__scope_advance(&crew->root, WEFT__STAGE_NONE, WEFT__STAGE_DRAIN)) {
        return false;
    }
    weft__log(&runtime->log, WEFT_LOG_INFO, "runtime", "shutdown begins");
    runtime->force_at = last_tenth(now, runtime->options.grace_ns);
    runtime->force_timer = (struct weft__timer){ .fire = force_timer_fired };
    tell_all(runtime);
    ask_carriers(runtime);
    return true;
}

int weft_shutdown_request(weft_runtime *runtime)
{
    struct weft__crew *crew = runtime != NULL ? &runtime->crew : weft__crew_self();
    if (crew == NULL) {
        return weft__no_task();
    }
    int rc = weft__runtime_refuses(crew, weft__carrier_self());
    if (rc < 0) {
        return rc;
    }
    weft__crew_enter(crew); // once its tasks have ended, nothing else keeps the runtime
    if (!weft__shutdown_begin(weft__runtime_of(crew), weft_now())) {
        force(weft__runtime_of(crew));
    }
    weft__crew_leave(crew);
    return 0;
}

bool weft_shutting_down(void)
{
    const struct weft__crew *crew = weft__crew_self();
    return crew != NULL && weft__scope_stopped(&crew->root);
}

static void note_unless_done(struct weft__task *task, void *arg)
{
    uint64_t word = weft__word_peek(task);
    *(bool *)arg |= (word & WEFT__WORD_LIFE) != WEFT__WORD_DONE &&
                    (word & WEFT__WORD_RESIDENT) == 0;
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

/// Waits for the carriers' answers, and for the last task to end.
static bool wait_for_tasks(struct weft__runtime *runtime, weft_time deadline)
{
    struct weft__crew *crew = &runtime->crew;
    for (;;) {
        uint32_t endings = atomic_load_explicit(&crew->endings, memory_order_acquire);
        uint32_t asked = atomic_load_explicit(&crew->asked, memory_order_relaxed);
        bool answered = asked != 0 &&
                        atomic_load_explicit(&crew->acknowledged, memory_order_acquire) == asked;
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
    int rc = weft__runtime_refuses(crew, weft__carrier_self());
    if (rc < 0) {
        return rc;
    }
    if (weft__crew_self() == crew) {
        return -EDEADLK;
    }
    weft_time now = weft_now();
    weft_time deadline = weft_after(grace_ns);
    (void)weft__shutdown_begin(runtime, now);
    if (wait_for_tasks(runtime, last_tenth(now, grace_ns))) {
        return 0;
    }
    force(runtime);
    if (wait_for_tasks(runtime, deadline)) {
        return 0;
    }
    weft__dump_to_log(runtime, "these tasks did not end within the grace period");
    return -EBUSY;
}

int weft_run(weft_fn fn, void *arg, const struct weft_options *options)
{
    if (weft__crew_self() != NULL) {
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
