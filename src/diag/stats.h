// stats.h - the one table of statistics.
#ifndef WEFT_DIAG_STATS_H
#define WEFT_DIAG_STATS_H

#include <weft/stats.h>

#include "base/base.h"

/// Whose counters a row has.
enum weft__stat_owner {
    WEFT__STAT_CARRIERS, // each carrier's
    WEFT__STAT_THREADS,  // each carrier's and those of threads outside
    WEFT__STAT_RUNTIME,  // the runtime's as a whole
};

struct weft__stat {
    const char *field;  // in struct weft_stats
    const char *metric; // in Prometheus
    const char *help;
    size_t offset;
    uint8_t bytes;
    uint8_t owner;    // enum weft__stat_owner
    bool counter;     // only grows
    bool is_duration; // nanoseconds, shown in seconds
};

extern const struct weft__stat weft__stats_table[];
extern const size_t weft__stats_rows;

#endif
