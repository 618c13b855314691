// stats.c - what a runtime has counted, as a struct and as text.
#include "diag/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "blocking/pool.h"
#include "runtime/runtime.h"
#include "sched/search.h"

#define ROW(name, shown, who, grows, time, meaning)                                                \
    {                                                                                              \
#name, shown, meaning, offsetof(struct weft_stats, name),                                  \
            sizeof(((struct weft_stats *)0)->name), WEFT__STAT_##who, grows, time                  \
    }
#define COUNTER(name, shown, who, meaning)                                                         \
    ROW(name, "weft_" shown "_total", who, true, false, meaning)
#define GAUGE(name, shown, who, meaning) ROW(name, "weft_" shown, who, false, false, meaning)

const struct weft__stat weft__stats_table[] = {
    COUNTER(spawned, "tasks_spawned", THREADS, "Tasks started."),
    COUNTER(ended, "tasks_ended", THREADS, "Tasks that ended."),
    GAUGE(live, "tasks_live", RUNTIME, "Tasks that were started and have not ended."),
    COUNTER(runs, "task_runs", CARRIERS, "Times that a task was run."),
    COUNTER(budget_yields, "budget_yields", CARRIERS,
            "Runs that were cut short because their budget or time slice was used up."),
    COUNTER(announced, "blocking_announced", CARRIERS,
            "Blocking calls that tasks announced by weft_block_begin()."),
    COUNTER(stuck, "tasks_stuck", RUNTIME,
            "Tasks that were reported because they held their carrier for too long."),
    COUNTER(held_up, "tasks_held_up", RUNTIME,
            "Threads that were ready or due behind those and could not be helped."),
    COUNTER(rescued, "tasks_rescued", RUNTIME,
            "Tasks that ran elsewhere because their carrier was stuck, or had announced it."),
    COUNTER(steps, "steps", CARRIERS, "Turns of a carrier's loop."),
    COUNTER(timers, "timers_fired", CARRIERS, "Timers and deadlines that came due."),
    COUNTER(polls, "polls", CARRIERS, "Times that the driver was asked for events."),
    COUNTER(events, "events", CARRIERS, "Events that the driver had."),
    COUNTER(sleeps, "sleeps", CARRIERS, "Times that a carrier slept for want of work."),
    ROW(idle_spin_ns, "weft_idle_spin_seconds_total", CARRIERS, true, true,
        "Time that a carrier spent awake without work."),
    GAUGE(ready, "ready_tasks", CARRIERS, "Tasks waiting to be run when the last turn began."),
    GAUGE(ready_most, "ready_tasks_max", CARRIERS, "The most tasks that waited at a time."),
    COUNTER(ready_sum, "ready_tasks_sum", CARRIERS,
            "Waiting tasks added up over all turns; divide by weft_steps_total for the average."),
    COUNTER(inbox, "inbox_nodes", CARRIERS, "Tasks and requests that came from other threads."),
    GAUGE(inbox_most, "inbox_nodes_max", CARRIERS, "The most of them that one turn found."),
    COUNTER(wakes_sent, "wakes_sent", THREADS, "Sleeping carriers that were woken."),
    COUNTER(wakes_suppressed, "wakes_suppressed", THREADS,
            "Times that the carrier was awake already."),

    GAUGE(offered, "offered_tasks", CARRIERS, "Tasks that other carriers may take now."),
    GAUGE(offered_most, "offered_tasks_max", CARRIERS, "The most of them when a turn began."),
    COUNTER(offered_sum, "offered_tasks_sum", CARRIERS,
            "Tasks on offer added up over all turns; divide by weft_steps_total for the average."),
    COUNTER(searches, "searches", THREADS, "Carriers that were sent, or went, to look for tasks."),
    COUNTER(searches_denied, "searches_denied", CARRIERS,
            "Requests for help that found enough others searching."),
    COUNTER(stolen_directed, "tasks_stolen_directed", CARRIERS,
            "Tasks taken by a carrier that was sent for them."),
    COUNTER(stolen_pulled, "tasks_stolen_pulled", CARRIERS,
            "Tasks taken by a carrier that had nothing to do."),
    COUNTER(lifo_hits, "lifo_hits", CARRIERS,
            "Tasks that ran next because they were made ready last."),
    COUNTER(overflows, "offer_overflows", CARRIERS,
            "Times that a carrier had more tasks than it could offer."),
    COUNTER(batches, "inject_batches", CARRIERS,
            "Times that a carrier took its share of the common queue."),
    COUNTER(batch_tasks, "inject_tasks", CARRIERS, "Tasks in these."),
    GAUGE(common, "inject_queue_tasks", RUNTIME, "Tasks in the common queue now."),
    GAUGE(common_most, "inject_queue_tasks_max", RUNTIME,
          "The most that were in the common queue, or in a cluster's."),

    COUNTER(io.submitted, "io_submitted", CARRIERS, "Operations begun."),
    COUNTER(io.completed, "io_completed", CARRIERS, "Operations ended."),
    COUNTER(io.cancels, "io_cancels", CARRIERS, "Requests to end an operation early."),
    COUNTER(io.enters, "io_system_calls", CARRIERS, "System calls that submit or wait."),
    COUNTER(io.queue_full, "io_queue_full", CARRIERS, "Submissions that had to wait for room."),
    COUNTER(io.submit_refused, "io_submit_refused", CARRIERS,
            "Times that the kernel was short of memory and was asked again."),
    COUNTER(io.cq_overflows, "io_cq_overflows", CARRIERS,
            "Times that completions came faster than they were taken."),
    COUNTER(io.no_buffers, "io_no_buffers", CARRIERS, "Receives that waited for a buffer."),
    COUNTER(io.multishot_ends, "io_multishot_ends", CARRIERS,
            "Operations with many results that the kernel ended."),
    COUNTER(io.short_writes, "io_short_writes", CARRIERS, "Writes that took a part only."),
    COUNTER(io.offloaded, "io_offloaded", CARRIERS, "Operations that went to the blocking pool."),

    GAUGE(blocking.threads, "blocking_threads", RUNTIME, "Threads of the blocking pool."),
    GAUGE(blocking.idle, "blocking_threads_idle", RUNTIME, "Of these, waiting for a job."),
    GAUGE(blocking.running, "blocking_threads_running", RUNTIME, "Of these, in a job."),
    GAUGE(blocking.queued, "blocking_jobs_queued", RUNTIME, "Jobs waiting for a thread."),
    GAUGE(blocking.most_threads, "blocking_threads_max", RUNTIME, "The most threads at a time."),
    GAUGE(blocking.most_queued, "blocking_jobs_queued_max", RUNTIME, "The most jobs that waited."),
    COUNTER(blocking.submitted, "blocking_jobs_submitted", RUNTIME, "Jobs accepted."),
    COUNTER(blocking.completed, "blocking_jobs_completed", RUNTIME, "Jobs run."),
    COUNTER(blocking.withdrawn, "blocking_jobs_withdrawn", RUNTIME,
            "Jobs called off before they began."),
    COUNTER(blocking.refused_threads, "blocking_threads_refused", RUNTIME,
            "Times that the system refused to make a thread."),
    ROW(blocking.longest_wait_ns, "weft_blocking_longest_wait_seconds", RUNTIME, false, true,
        "The longest that a job waited for a thread."),
};
const size_t weft__stats_rows = WEFT__ARRAY_LEN(weft__stats_table);

static uint64_t read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_carrier(struct weft_stats *stats, const struct weft__carrier *carrier)
{
    const struct weft__carrier_counts *counts = &carrier->counts;
    stats->spawned += read_counter(&counts->spawned);
    stats->ended += read_counter(&counts->ended);
    stats->runs += read_counter(&counts->runs);
    stats->budget_yields += read_counter(&counts->budget_yields);
    stats->announced += read_counter(&counts->announced);
    stats->steps += read_counter(&counts->steps);
    stats->timers += read_counter(&counts->timers);
    stats->polls += read_counter(&counts->polls);
    stats->events += read_counter(&counts->events);
    stats->sleeps += read_counter(&counts->sleeps);
    stats->idle_spin_ns += read_counter(&counts->spin_ns);
    stats->ready += read_counter(&counts->ready);
    stats->ready_most = greater(stats->ready_most, read_counter(&counts->ready_most));
    stats->ready_sum += read_counter(&counts->ready_sum);
    stats->inbox += read_counter(&counts->inbox_nodes);
    stats->inbox_most = greater(stats->inbox_most, read_counter(&counts->inbox_most));
    stats->wakes_sent += read_counter(&counts->kicks);
    stats->wakes_suppressed += read_counter(&counts->kicks_saved);
    stats->lifo_hits += read_counter(&counts->lifo_hits);
    stats->overflows += read_counter(&counts->overflows);
    stats->batches += read_counter(&counts->batches);
    stats->batch_tasks += read_counter(&counts->injected);
}

static void add_stealing(struct weft_stats *stats, struct weft__carrier *carrier)
{
    const struct weft__carrier_counts *counts = &carrier->counts;
    stats->offered += carrier->shares ? weft__carrier_offered(carrier) : 0;
    stats->offered_most = greater(stats->offered_most, read_counter(&counts->offered_most));
    stats->offered_sum += read_counter(&counts->offered_sum);
    stats->searches += read_counter(&counts->searches_started);
    stats->searches_denied += read_counter(&counts->searches_denied);
    stats->stolen_directed += read_counter(&counts->stolen_sent);
    stats->stolen_pulled += read_counter(&counts->stolen_idly);
}

static void add_common(struct weft_stats *stats, struct weft__inject *inject)
{
    stats->common += weft__inject_count(inject);
    stats->common_most = greater(stats->common_most, read_counter(&inject->most));
}

/// The common queue, or those of the clusters.
static void add_queues(struct weft_stats *stats, struct weft__crew *crew)
{
    add_common(stats, &crew->inject);
    for (int i = 0; i < crew->cluster_count && crew->help != NULL; i++) {
        add_common(stats, &crew->help[i].inject);
    }
}

static void add_outside(struct weft_stats *stats, const struct weft__crew *crew)
{
    stats->spawned += read_counter(&crew->foreign_spawned);
    stats->ended += read_counter(&crew->foreign_ended);
    stats->wakes_sent += read_counter(&crew->foreign_counts.kicks);
    stats->wakes_suppressed += read_counter(&crew->foreign_counts.kicks_saved);
    stats->searches += read_counter(&crew->foreign_counts.searches_started);
}

int weft_stats_get(weft_runtime *runtime, int carrier, struct weft_stats *stats)
{
    struct weft__crew *crew = &runtime->crew;
    int count = weft__crew_started(crew);
    if (stats->size != sizeof *stats || carrier < WEFT_STATS_OUTSIDE || carrier >= count) {
        return -EINVAL;
    }
    if (crew->generation != weft__fork_generation()) {
        return -ESRCH;
    }
    *stats = (struct weft_stats){
        .size = sizeof *stats,
        .io.size = sizeof stats->io,
        .blocking.size = sizeof stats->blocking,
    };
    int first = carrier >= 0 ? carrier : 0;
    int end = carrier >= 0 ? carrier + 1 : carrier == WEFT_STATS_ALL ? count : 0;
    for (int i = first; i < end; i++) {
        add_carrier(stats, &crew->carriers[i]);
        add_stealing(stats, &crew->carriers[i]);
    }
    if (carrier < 0) {
        add_outside(stats, crew);
    }
    if (carrier == WEFT_STATS_ALL) {
        stats->live = weft__crew_live(crew);
        stats->stuck = read_counter(&crew->stuck);
        stats->held_up = read_counter(&crew->held_up);
        stats->rescued = read_counter(&crew->rescued);
        add_queues(stats, crew);
        weft__blocking_stats(crew->blocking, &stats->blocking);
        stats->blocking.size = sizeof stats->blocking;
    }
    if (stats->steps > 0) {
        stats->ready_average = (double)stats->ready_sum / (double)stats->steps;
        stats->offered_average = (double)stats->offered_sum / (double)stats->steps;
        stats->inbox_average = (double)stats->inbox / (double)stats->steps;
    }
    if (stats->polls > 0) {
        stats->events_average = (double)stats->events / (double)stats->polls;
    }
    return carrier == WEFT_STATS_OUTSIDE ? 0 : weft_io_stats(runtime, carrier, &stats->io);
}

/// A text that may be longer than its room.
struct page {
    char *text;
    size_t size;
    size_t length;
};

WEFT_PRINTF(2, 3) static void add(struct page *page, const char *format, ...)
{
    size_t room = page->length < page->size ? page->size - page->length : 0;
    va_list args;
    va_start(args, format);
    int added = vsnprintf(room > 0 ? page->text + page->length : NULL, room, format, args);
    va_end(args);
    page->length += added > 0 ? (size_t)added : 0;
}

static void add_value(struct page *page, const struct weft__stat *row,
                      const struct weft_stats *stats)
{
    const char *at = (const char *)stats + row->offset;
    uint32_t small = 0;
    uint64_t value = 0;
    if (row->bytes == sizeof small) {
        memcpy(&small, at, sizeof small);
        value = small;
    } else {
        memcpy(&value, at, sizeof value);
    }
    if (row->is_duration) {
        add(page, " %" PRIu64 ".%09" PRIu64 "\n", value / WEFT_S, value % WEFT_S);
    } else {
        add(page, " %" PRIu64 "\n", value);
    }
}

/// All samples of one row: the format wants them together.
static int add_row(struct page *page, const struct weft__stat *row, weft_runtime *runtime)
{
    struct weft_stats stats = { .size = sizeof stats };
    int rc = 0;
    add(page, "# HELP %s %s\n# TYPE %s %s\n", row->metric, row->help, row->metric,
        row->counter ? "counter" : "gauge");
    if (row->owner == WEFT__STAT_RUNTIME) {
        rc = weft_stats_get(runtime, WEFT_STATS_ALL, &stats);
        add(page, "%s", row->metric);
        add_value(page, row, &stats);
        return rc;
    }
    int count = weft__crew_started(&runtime->crew);
    for (int i = 0; i < count && rc == 0; i++) {
        rc = weft_stats_get(runtime, i, &stats);
        add(page, "%s{carrier=\"%d\"}", row->metric, i);
        add_value(page, row, &stats);
    }
    if (row->owner == WEFT__STAT_THREADS && rc == 0) {
        rc = weft_stats_get(runtime, WEFT_STATS_OUTSIDE, &stats);
        add(page, "%s{carrier=\"outside\"}", row->metric);
        add_value(page, row, &stats);
    }
    return rc;
}

int64_t weft_stats_prometheus(weft_runtime *runtime, char *text, size_t size_bytes)
{
    struct page page = { text, size_bytes, 0 };
    if (size_bytes > 0) {
        text[0] = '\0';
    }
    for (size_t i = 0; i < weft__stats_rows; i++) {
        int rc = add_row(&page, &weft__stats_table[i], runtime);
        if (rc < 0) {
            return rc;
        }
    }
    return (int64_t)page.length;
}
