// stats.c - the drivers' counters, for anyone.
#include <errno.h>
#include <string.h>

#include <weft/io.h>

#include "io/remote.h"
#include "sched/annex.h"
#include "sched/crew.h"

/// The first of these count what operations are asked for, the others what it takes.
#define OPERATION_ROWS 3

/// Each counter of a driver and where it is shown.
static const struct {
    size_t from; // in struct weft__op_counts
    size_t to;   // in struct weft_io_stats
} table[] = {
#define ROW(name)                                                                                  \
    {                                                                                              \
        offsetof(struct weft__op_counts, name), offsetof(struct weft_io_stats, name)               \
    }
    ROW(submitted),      ROW(completed),      ROW(cancels),      ROW(enters),
    ROW(queue_full),     ROW(submit_refused), ROW(cq_overflows), ROW(no_buffers),
    ROW(multishot_ends), ROW(short_writes),   ROW(offloaded),
#undef ROW
};
_Static_assert(sizeof(struct weft__op_counts) == WEFT__ARRAY_LEN(table) * sizeof(uint64_t),
               "a counter is missing in the table");

/// Adds the counters from the given row on.
static void add(struct weft_io_stats *stats, const struct weft__op_counts *counts, size_t first)
{
    for (size_t i = first; i < WEFT__ARRAY_LEN(table); i++) {
        const _Atomic uint64_t *from = (const void *)((const char *)counts + table[i].from);
        uint64_t *to = (void *)((char *)stats + table[i].to);
        *to += atomic_load_explicit(from, memory_order_relaxed);
    }
}

/// A driver thread counts the same operations as the carriers that it serves.
static void add_carrier(struct weft_io_stats *stats, const struct weft__carrier *carrier)
{
    const struct weft__op_counts *real = weft__driver_threads_counts(carrier->crew->driver_threads,
                                                                     carrier->number);
    add(stats, carrier->driver->counts(carrier->driver_state), 0);
    if (real != NULL) {
        add(stats, real, OPERATION_ROWS);
    }
    struct weft__annex *annex = carrier->annex;
    if (annex != NULL) {
        add(stats, annex->driver->counts(annex->driver_state), 0);
    }
}

int weft_io_stats(weft_runtime *runtime, int carrier, struct weft_io_stats *stats)
{
    struct weft__crew *crew = weft__crew_of(runtime);
    int count = weft__crew_started(crew);
    if (stats->size != sizeof *stats || carrier < -1 || carrier >= count) {
        return -EINVAL;
    }
    if (crew->generation != weft__fork_generation()) {
        return -ESRCH;
    }
    *stats = (struct weft_io_stats){ .size = sizeof *stats };
    int first = carrier == -1 ? 0 : carrier;
    int end = carrier == -1 ? count : carrier + 1;
    for (int i = first; i < end; i++) {
        add_carrier(stats, &crew->carriers[i]);
    }
    return 0;
}
