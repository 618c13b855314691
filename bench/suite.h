// suite.h - what weft-bench can measure: suites of rows, rows of contenders.
#ifndef WEFT_BENCH_SUITE_H
#define WEFT_BENCH_SUITE_H

#include <stdbool.h>
#include <stdint.h>

#define CONTENDERS_MAX 20

/// One side of a comparison: a child process that speaks the protocol of contender.h.
struct contender {
    const char *label;
    const char *program; // in the peers' directory; NULL: weft-bench itself
    const char *bench;   // what to ask the program for
    double goal;         // the row's goal metric: weft / this is at most so much; 0: no goal
    /// If set, the program is a server: it is started as `program SERVES MODE ADDRESS` (serve.h) by a
    /// client, which is weft-bench itself and does what `bench` says.
    const char *serves;
};

/// One thing that is measured. The first contender is weft.
struct row {
    const char *suite;
    const char *name;
    const char *what;
    const struct contender *contenders; // ended by a NULL label
    uint64_t count, quick_count;        // operations a round
    unsigned runs;                      // rounds; 0: the default
    unsigned cpus;                      // how many CPUs a contender is pinned to
    bool fresh;                         // a new process for each round
    const char *goal_metric;            // NULL: the first one; "*": all
    double goal_value;                  // weft's own value is at most so much; 0: no goal
    unsigned wefts; // how many contenders at the front are weft; 0: one. More: a wide table
};

/// Row `index` of all; NULL after the last.
const struct row *suite_row(unsigned index);

/// Its parts, each ended by a NULL name.
extern const struct row suite_core_rows[], suite_sched_rows[], suite_sync_rows[], suite_chan_rows[],
    suite_select_rows[], suite_net_rows[], suite_handoff_rows[];

#endif
