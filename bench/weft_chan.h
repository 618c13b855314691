// weft_chan.h - weft's side of the channel rows: what their files share.
#ifndef WEFT_BENCH_WEFT_CHAN_H
#define WEFT_BENCH_WEFT_CHAN_H

#include "weft_bench.h"

/// One workload. Sets up what it needs, calls chan_begin(), does `count` operations, calls chan_end()
/// with how many times something was delivered, and cleans up. It runs twice, first to warm up.
typedef int (*chan_play)(uint64_t count);

struct chan_workload {
    const char *name;
    chan_play play;
};

void chan_begin(void);
void chan_end(uint64_t operations);

/// For what is measured in pieces: adds a piece that began at `since`, on the clock of the row.
void chan_add(double since);
double chan_clock(void);

/// Spawns on this carrier, or, where the row spreads its tasks, on the other one.
int chan_spawn(weft_task **task, weft_fn fn, void *arg);

/// Spawns on this carrier.
int chan_spawn_here(weft_task **task, weft_fn fn, void *arg);

/// Joins tasks; NULL ones were not spawned.
int chan_join(weft_task **tasks, int count);

extern const struct chan_workload chan_bounded[], chan_others[], chan_selects[], sync_workloads[];

/// Plays weft's part in the row `name` ("chan/..." or "sync/..."). Returns the exit code of the process.
int weft_chan_contend(const char *name, const char *count);

#endif
