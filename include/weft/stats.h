// weft/stats.h - what a runtime has counted, readable while it runs.
//
//     struct weft_stats stats = { .size = sizeof stats };
//     weft_stats_get(weft_runtime_current(), WEFT_STATS_ALL, &stats);
//
// Counting costs next to nothing and cannot be switched off. Each carrier counts in memory of its
// own; reading takes no lock that a carrier waits for, and the numbers are of no single moment.
// docs/statistics.md has the table of everything, with the names that Prometheus sees.
#ifndef WEFT_STATS_H
#define WEFT_STATS_H

#include <weft/base.h>
#include <weft/blocking.h>
#include <weft/io.h>
#include <weft/runtime.h>

WEFT_BEGIN_DECLS

/// Whose counters: a carrier's number, or one of these.
#define WEFT_STATS_ALL (-1)     ///< of all carriers and of threads outside, summed up
#define WEFT_STATS_OUTSIDE (-2) ///< of threads that are not carriers

/// Counted since the runtime was made, unless it says "now".
struct weft_stats {
    size_t size; ///< sizeof(struct weft_stats), set by the caller

    uint64_t spawned;       ///< tasks started from there
    uint64_t ended;         ///< tasks that ended there
    uint64_t live;          ///< tasks now; only with WEFT_STATS_ALL
    uint64_t runs;          ///< times that a task was run, until it parked, yielded or ended
    uint64_t budget_yields; ///< runs that were cut short because others were waiting long enough
    uint64_t announced;     ///< blocking calls that tasks announced by weft_block_begin()
    uint64_t stuck;         ///< tasks reported by weft_options.stuck_ns; only with WEFT_STATS_ALL
    uint64_t held_up; ///< threads ready or due behind those that could not be helped; likewise
    uint64_t rescued; ///< tasks that ran elsewhere because theirs was stuck; likewise

    uint64_t steps;         ///< turns of a carrier's loop
    uint64_t timers;        ///< timers and deadlines that came due
    uint64_t polls;         ///< times that a driver was asked for events, in a turn or asleep
    uint64_t events;        ///< what it had
    double events_average;  ///< that divided by `polls`
    uint64_t sleeps;        ///< times that a carrier had nothing to do and slept
    weft_time idle_spin_ns; ///< time spent awake with nothing to do (weft_options.idle_spin_ns)

    uint64_t ready;       ///< tasks that waited to be run when the last turn began: now, roughly
    uint64_t ready_most;  ///< the most there ever were, on one carrier
    uint64_t ready_sum;   ///< added up over all turns
    double ready_average; ///< that divided by `steps`
    uint64_t inbox;       ///< tasks and requests that came from other threads
    uint64_t inbox_most;  ///< the most that one turn found, on one carrier
    double inbox_average; ///< `inbox` divided by `steps`

    uint64_t wakes_sent;       ///< sleeping carriers that were woken: one system call each
    uint64_t wakes_suppressed; ///< times that this was not necessary

    uint64_t offered;         ///< tasks that other carriers may take now (weft_options.steal)
    uint64_t offered_most;    ///< the most there were when a turn began, on one carrier
    uint64_t offered_sum;     ///< added up over all turns
    double offered_average;   ///< that divided by `steps`
    uint64_t searches;        ///< carriers that were sent, or went, to look for tasks
    uint64_t searches_denied; ///< requests for help that found enough others searching
    uint64_t stolen_directed; ///< tasks taken by a carrier that was sent for them
    uint64_t stolen_pulled;   ///< tasks taken by a carrier that had nothing to do
    uint64_t lifo_hits;       ///< tasks that ran next because they were made ready last
    uint64_t overflows;       ///< times that a carrier had more tasks than it could offer
    uint64_t batches;         ///< times that a carrier took its share of the common queue
    uint64_t batch_tasks;     ///< tasks in these
    uint64_t common;          ///< tasks in the common queue now; only with WEFT_STATS_ALL
    uint64_t common_most;     ///< the most there ever were; likewise

    struct weft_io_stats io;             ///< the drivers' own
    struct weft_blocking_stats blocking; ///< the blocking pool's; only with WEFT_STATS_ALL
};

/// Fills in `*stats`.
///
/// Call from:  any thread.
/// Errors:     -EINVAL   no such carrier, or `stats->size` is not set
///             -ESRCH    the runtime belongs to the parent of this forked process
WEFT_API int weft_stats_get(weft_runtime *runtime, int carrier, struct weft_stats *stats);

/// Writes everything in the text format of Prometheus (version 0.0.4): what carriers count with a
/// label for each of them, `carrier="0"`, and for threads outside, `carrier="outside"`. Ends with a
/// zero byte. Returns the length of the whole text, without that: what does not fit into `size_bytes`
/// is cut off. `text` may be NULL if `size_bytes` is 0.
///
/// Call from:  any thread.
/// Errors:     -ESRCH  the runtime belongs to the parent of this forked process
WEFT_API int64_t weft_stats_prometheus(weft_runtime *runtime, char *text, size_t size_bytes);

WEFT_END_DECLS

#endif
