// monitor.c - a thread that notices tasks which hold their carrier.
//
// Carriers do nothing for it but wake it when they were all asleep (sched/lookout.c). It looks at each
// one a few times per threshold: how many steps and runs it has counted, how many hand-overs are left
// before the loop's turn, and which task is running. If all of that is the same for longer than the
// threshold, it was one run of one task all the time. These are glances at what somebody else writes,
// as in a dump; before it speaks it looks once more.
//
// A thread that is ready and gets no CPU looks the same. So a task that computes is reported only when
// its carrier has used that much CPU time; one that waits in a system call needs none.
//
// With a remedy (WEFT_STUCK_REMEDY), what may move is taken elsewhere as long as a carrier is stuck,
// every millisecond (diag/rescue.c). Without one, if carriers share (WEFT_STEAL), what a stuck one has
// on offer is taken by another that is sent there: its owner may have asked nobody, because the first
// task on offer is its own next work. And it is marked, so that tasks which may move are woken
// elsewhere (sched/steal.c, H7).
//
//   M1  A task is reported once, however often it does it again (unless too many others did it since).
//   M2  A task that announced what it does (weft_block_begin) is not reported.
//   M3  A request that sends a carrier is under way until that has carried it out. Then it may be used
//       again, and when all are back the monitor's memory may go.
//   M4  The monitor and the carrier both write the mark, and neither waits for the other. So the monitor may
//       erase the one that a task has just made (weft_block_begin), or leave one behind on a carrier that
//       sleeps by now. Either is put right at the next look, which comes as long as a mark is there.
//   M5  Between two looks it sleeps on `called`, which it has read before the first of them. So who marks
//       a carrier and calls, or ends it and calls, is seen by a look, or ends the sleep.
#include "diag/monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <weft/topology.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "diag/backtrace.h"
#include "diag/dump.h"
#include "diag/rescue.h"
#include "diag/system_call.h"
#include "sched/park.h"
#include "sched/poller.h"
#include "sched/steal.h"

#define LOOKS_PER_THRESHOLD 4
#define REMEMBERED 64
#define NAMED 8 // of those who wait behind a stuck task
#define RESCUE_NS (1 * WEFT_MS)

/// What a carrier was doing at a glance.
struct glance {
    uint64_t steps;
    uint64_t runs;
    unsigned relay_left;
    struct weft__task *task; // NULL: none
};

struct weft__monitor {
    struct weft__runtime *runtime;
    pthread_t thread;
    _Atomic uint32_t called;       // a futex; how often (M5)
    uint64_t reported[REMEMBERED]; // numbers of tasks (M1)
    struct mark {
        struct glance glance;
        weft_time since;
        weft_time cpu_ns;          // what the carrier's thread had used then
        struct weft__request help; // goes to another carrier
        struct weft__carrier *carrier;
        _Atomic bool under_way; // M3
    } marks[];                  // of each carrier
};

static size_t size_of(const struct weft__runtime *runtime)
{
    return sizeof(struct weft__monitor) + (size_t)runtime->crew.capacity * sizeof(struct mark);
}

/// Reads what the carrier is writing.
__attribute__((noinline, no_sanitize("thread"))) static struct glance look(
    struct weft__carrier *carrier)
{
    struct glance glance = { .task = NULL };
    if (atomic_load_explicit(&carrier->state, memory_order_relaxed) != WEFT__CARRIER_PARKED) {
        glance.steps = weft__tally_get(&carrier->counts.steps);
        glance.runs = weft__tally_get(&carrier->counts.runs);
        glance.relay_left = *(volatile unsigned *)&carrier->relay_left;
        glance.task = *(struct weft__task *const volatile *)&carrier->current;
    }
    // Not even the task's word is looked at: it may have ended, and its memory be another's.
    const struct weft__poller *resident = carrier->resident;
    if (resident != NULL && glance.task == *(struct weft__task *const volatile *)&resident->task) {
        glance.task = NULL; // it spins, as a carrier without work does (weft_options.idle_spin_ns)
    }
    return glance;
}

static bool is_same(const struct glance *a, const struct glance *b)
{
    return a->task == b->task && a->steps == b->steps && a->runs == b->runs &&
           a->relay_left == b->relay_left;
}

/// Those who are ready at a carrier, or due, and wait for its thread.
struct behind {
    const struct weft__carrier *carrier;
    const struct weft__task *current;
    weft_time now;
    uint64_t count;
    char lines[NAMED][256]; // the first ones, described
};

/// Whether a task waits whose timer in the carrier's own wheel has expired. That may be an early one, of
/// a deadline that was moved since (host.c): then it would have been looked at, at least.
__attribute__((noinline, no_sanitize("thread"))) static bool is_due(const struct weft__task *task,
                                                                    weft_time now)
{
    const volatile struct weft__timer *timer = &task->deadline;
    return timer->link != NULL && *(struct weft__annex *const volatile *)&task->timed_at == NULL &&
           timer->when <= now;
}

/// Reads what others write, as a dump does. What the remedy helps is not counted: it is on its way.
__attribute__((noinline, no_sanitize("thread"))) static void find_behind(struct weft__task *task,
                                                                         void *arg)
{
    struct behind *behind = arg;
    bool helped = behind->carrier->annex != NULL && *(volatile bool *)&task->movable &&
                  task->migratable && weft__task_unbound(task);
    uint64_t word = weft__word_peek(task);
    uint64_t life = word & WEFT__WORD_LIFE;
    bool waits = life == WEFT__WORD_ACTIVE ||
                 (life == WEFT__WORD_IDLE && is_due(task, behind->now));
    if (task != behind->current && waits && !helped &&
        *(struct weft__carrier *const volatile *)&task->home == behind->carrier &&
        (word & WEFT__WORD_RESIDENT) == 0) { // which has nothing to do but to wait
        struct weft__task copy;
        char *line = behind->count < NAMED ? behind->lines[behind->count] : NULL;
        if (line == NULL ||
            weft__describe_copy(task, &copy, line, sizeof behind->lines[0], weft__clock_ns())) {
            behind->count++;
        }
    }
}

static void name_behind(struct weft__runtime *runtime, const struct behind *behind)
{
    uint64_t told = 0;
    for (; told < NAMED && told < behind->count; told++) {
        weft__log(&runtime->log, WEFT_LOG_WARN, "stuck", "  waits behind it: %s",
                  behind->lines[told]);
    }
    if (told < behind->count) {
        weft__log(&runtime->log, WEFT_LOG_WARN, "stuck", "  and %" PRIu64 " more",
                  behind->count - told);
    }
}

static void describe_doing(char *text, size_t size_bytes, const struct weft__trace *trace)
{
    const char *name = trace->blocked ? weft__system_call_name(trace->system_call) : NULL;
    if (!trace->blocked) {
        (void)snprintf(text, size_bytes, "computing");
    } else if (name != NULL) {
        (void)snprintf(text, size_bytes, "in system call %s", name);
    } else {
        (void)snprintf(text, size_bytes, "in system call %ld", trace->system_call);
    }
}

static void report(struct weft__monitor *monitor, struct weft__carrier *carrier,
                   const struct mark *mark, weft_time held_ns)
{
    const struct glance *glance = &mark->glance;
    struct weft__runtime *runtime = monitor->runtime;
    struct weft__task copy;
    struct weft__trace trace;
    char line[512];
    if (!weft__describe_copy(glance->task, &copy, line, sizeof line, weft__clock_ns())) {
        return;
    }
    uint64_t *memory = &monitor->reported[copy.id % REMEMBERED];
    if (*memory == copy.id) {
        return; // M1
    }
    bool computes = weft__sys_cpu_ns(carrier->thread) - mark->cpu_ns >= runtime->options.stuck_ns;
    weft__trace_take(&trace, carrier->thread, carrier->tid, copy.stack_low, glance->task, computes);
    struct glance now = look(carrier);
    if (!is_same(&now, glance) || (!computes && !trace.blocked)) {
        return; // it has moved on meanwhile, and who knows what we have seen
    }
    *memory = copy.id;
    struct behind behind = {
        .carrier = carrier,
        .current = glance->task,
        .now = weft__clock_ns(),
    };
    weft__runtime_each_task(runtime, find_behind, &behind);
    weft__tally(&runtime->crew.stuck, 1);
    weft__tally(&runtime->crew.held_up, behind.count);
    char doing[48];
    describe_doing(doing, sizeof doing, &trace);
    weft__log(&runtime->log, WEFT_LOG_WARN, "stuck",
              "a task has held its carrier for %" PRIu64 " ms, %s, and %" PRIu64
              " ready ones wait behind it: %s",
              held_ns / WEFT_MS, doing, behind.count, line);
    for (int i = 0; i < trace.count; i++) {
        weft__trace_describe(trace.frames[i], line, sizeof line);
        weft__log(&runtime->log, WEFT_LOG_WARN, "stuck", "  #%d %s", i, line);
    }
    name_behind(runtime, &behind);
}

static void take_over(struct weft__request *request, struct weft__carrier *helper)
{
    struct mark *mark = weft__container_of(request, struct mark, help);
    weft__steal_for(helper, mark->carrier);
    atomic_store_explicit(&mark->under_way, false, memory_order_release); // last touch
}

/// One that sleeps, or else the one with the least to do, among those that may steal from `victim`.
static struct weft__carrier *choose_helper(struct weft__crew *crew, struct weft__carrier *victim)
{
    struct weft__carrier *best = NULL;
    uint64_t least = UINT64_MAX;
    int count = weft__crew_active(crew);
    for (int i = 0; i < count; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        bool near = crew->steals_globally || carrier->cluster == victim->cluster;
        uint64_t state = atomic_load_explicit(&carrier->state, memory_order_relaxed);
        uint64_t load = state == WEFT__CARRIER_PARKED ? 0
                                                      : 1 + weft__tally_get(&carrier->counts.ready);
        if (carrier != victim && near && load < least) {
            best = carrier;
            least = load;
        }
    }
    return best;
}

static void send_help(struct weft__monitor *monitor, struct weft__carrier *victim)
{
    struct mark *mark = &monitor->marks[victim->number];
    if (!victim->shares || weft__carrier_offered(victim) == 0 ||
        atomic_load_explicit(&mark->under_way, memory_order_acquire)) {
        return;
    }
    struct weft__carrier *helper = choose_helper(&monitor->runtime->crew, victim);
    if (helper != NULL) {
        mark->carrier = victim;
        mark->help = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = take_over };
        atomic_store_explicit(&mark->under_way, true, memory_order_relaxed);
        weft__put(helper, &mark->help.node, NULL);
    }
}

/// What a look at all carriers has left.
struct found {
    bool rescues; // the remedy is at work
    bool marked;  // a carrier is (M4)
};

static struct found look_at_all(struct weft__monitor *monitor, weft_time threshold)
{
    struct weft__crew *crew = &monitor->runtime->crew;
    weft_time now = weft__clock_ns();
    struct found found = { false, false };
    int count = weft__crew_started(crew);
    for (int i = 0; i < count; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        struct mark *mark = &monitor->marks[i];
        bool late = false;
        struct glance glance = look(carrier);
        struct weft__task *announced = atomic_load_explicit(&carrier->announced,
                                                            memory_order_relaxed);
        bool says_so = glance.task != NULL && announced == glance.task;
        if (glance.task == NULL || says_so || !is_same(&glance, &mark->glance)) {
            weft_time cpu_ns = glance.task != NULL ? weft__sys_cpu_ns(carrier->thread) : 0;
            mark->glance = glance;
            mark->since = now;
            mark->cpu_ns = cpu_ns;
            if ((weft__tally_get(&carrier->stuck) != 0) != says_so) {
                weft__tally_set(&carrier->stuck, says_so); // M4
            }
        } else if (now - mark->since >= threshold) {
            weft__tally_set(&carrier->stuck, 1);
            late = true;
        }
        bool marked = weft__tally_get(&carrier->stuck) != 0;
        found.marked |= marked;
        if (carrier->annex == NULL) {
            if (late) {
                send_help(monitor, carrier);
            }
        } else if (marked) {
            weft__rescue(monitor->runtime, carrier);
            found.rescues = true;
        }
        if (late) {
            report(monitor, carrier, mark, now - mark->since);
        }
    }
    return found;
}

static void *monitor_main(void *arg)
{
    struct weft__monitor *monitor = arg;
    struct weft__crew *crew = &monitor->runtime->crew;
    weft_time threshold = monitor->runtime->options.stuck_ns;
    weft_time pause = threshold / LOOKS_PER_THRESHOLD;
    pause = pause > WEFT_MS / 4 ? pause : WEFT_MS / 4;
    (void)pthread_setname_np(pthread_self(), "weft-monitor");
    struct found found = { false, false };
    uint32_t called = 0;
    while (found.marked ? atomic_load_explicit(&crew->lookout.over, memory_order_relaxed) == 0
                        : weft__lookout_sleep(&crew->lookout, crew->carriers, &crew->started)) {
        found = look_at_all(monitor, threshold);
        weft_time until = weft__clock_ns() +
                          (found.rescues && pause > RESCUE_NS ? RESCUE_NS : pause);
        (void)weft__futex_wait(&monitor->called, called, until);
        called = atomic_load_explicit(&monitor->called, memory_order_acquire); // M5
    }
    return NULL;
}

void weft__monitor_start(struct weft__runtime *runtime)
{
    const struct weft_options *options = &runtime->options;
    if (options->stuck_ns == 0 || options->stuck_ns == WEFT_FOREVER) {
        return;
    }
    struct weft__monitor *monitor = weft__alloc(options->allocator, size_of(runtime),
                                                _Alignof(struct weft__monitor));
    sigset_t all;
    sigset_t old;
    int rc = -ENOMEM;
    if (monitor != NULL) {
        monitor->runtime = runtime;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        rc = -pthread_create(&monitor->thread, NULL, monitor_main, monitor);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    if (rc < 0) {
        weft__log(&runtime->log, WEFT_LOG_WARN, "stuck", "nobody watches the carriers: %s",
                  strerror(-rc));
        weft__free(options->allocator, monitor, size_of(runtime));
        return;
    }
    runtime->monitor = monitor;
}

void weft__monitor_call(struct weft__runtime *runtime)
{
    struct weft__monitor *monitor = runtime->monitor;
    if (monitor != NULL) {
        atomic_fetch_add_explicit(&monitor->called, 1, memory_order_release); // M5
        weft__futex_wake(&monitor->called, 1);
    }
}

void weft__monitor_stop(struct weft__runtime *runtime)
{
    struct weft__monitor *monitor = runtime->monitor;
    if (monitor != NULL) {
        weft__lookout_end(&runtime->crew.lookout);
        weft__monitor_call(runtime);
        pthread_join(monitor->thread, NULL);
        for (int i = 0; i < runtime->crew.capacity; i++) {
            while (atomic_load_explicit(&monitor->marks[i].under_way, memory_order_acquire)) {
                sched_yield(); // M3: all tasks have ended, so it is a matter of moments
            }
        }
        weft__free(runtime->options.allocator, monitor, size_of(runtime));
        runtime->monitor = NULL;
    }
}
