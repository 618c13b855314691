// contender.h - the protocol between weft-bench and the programs it compares.
//
// A contender is a child process, called as `program BENCH COUNT`. It prepares, prints "ready" and
// then, for each line that it reads, runs the benchmark once and prints one line of
// `metric=value` pairs. It ends at the end of its input. Instead of any line it may print
// "skip: reason". Preparing and ending are thus never part of what is measured, and weft-bench can
// let the contenders take turns.
#ifndef WEFT_BENCH_CONTENDER_H
#define WEFT_BENCH_CONTENDER_H

#include <stdint.h>

#define CONTENDER_METRICS_MAX 8

struct contender_result {
    unsigned used;
    struct {
        const char *metric; // the unit is part of the name: "ns_per_op"
        double value;
    } at[CONTENDER_METRICS_MAX];
};

struct contender_bench {
    const char *name;
    /// Runs the benchmark once. Returns 0 or a negative errno, which skips the contender.
    int (*run)(struct contender_result *out, uint64_t count);
};

/// Adds one metric to a result. Borrows `metric`.
void contender_add(struct contender_result *out, const char *metric, double value);

/// Serves `bench` until the end of the input. Returns the exit code of the process.
int contender_serve(const struct contender_bench *bench, uint64_t count);

/// Finds `argv[1]` in `benches` (ended by a NULL name) and serves it.
int contender_main(int argc, char **argv, const struct contender_bench *benches);

/// Nanoseconds of CLOCK_MONOTONIC and of this thread's or process's CPU time.
double contender_now_ns(void);
double contender_cpu_ns(void);

/// The first `want` CPUs this process may run on. Returns how many there are, at most `want`.
int contender_cpus(int *cpus, int want);

#endif
