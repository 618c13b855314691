// contender.h - the protocol between weft-bench and the programs it compares.
//
// A contender is a child process, called as `program BENCH COUNT`. It prepares, prints "ready" and
// then, for each line that it reads, runs the benchmark once and prints one line of
// `metric=value` pairs. It ends at the end of its input. Instead of any line it may print
// "skip: reason", or "late" if the machine was too busy for an instant that the round had planned;
// weft-bench then starts it again with a larger WEFT_BENCH_SLACK. Preparing and ending are thus never
// part of what is measured, and weft-bench can let the contenders take turns.
#ifndef WEFT_BENCH_CONTENDER_H
#define WEFT_BENCH_CONTENDER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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
    /// Runs the benchmark once. Returns 0 or a negative errno: -ETIME says "late", any other
    /// skips the contender.
    int (*run)(struct contender_result *out, uint64_t count);
};

/// Adds one metric to a result. Borrows `metric`.
void contender_add(struct contender_result *out, const char *metric, double value);

/// Serves `bench` until the end of the input. Returns the exit code of the process.
int contender_serve(const struct contender_bench *bench, uint64_t count);

/// Finds `name` in `benches` (ended by a NULL name) and serves it.
int contender_main(const char *name, const char *count, const struct contender_bench *benches);

/// Nanoseconds of CLOCK_MONOTONIC and of this process's CPU time.
double contender_now_ns(void);
double contender_cpu_ns(void);

/// The first `want` CPUs this process may run on. Returns how many there are, at most `want`.
int contender_cpus(int *cpus, int want);

struct contender_memory {
    double resident_bytes, page_table_bytes;
};

/// What the process occupies now, from /proc.
void contender_memory(struct contender_memory *out);

// What the peers in other languages repeat, so that all of them do the same work.

#define CONTENDER_SEED 88172645463325252u

/// Steps of the generator that one task of the row `skew` makes: some microseconds.
#define CONTENDER_SKEW_ROUNDS 4000

/// The next pseudo-random delay, between one minute and 61 minutes: it never comes.
static inline uint64_t contender_delay_ns(uint64_t *random)
{
    uint64_t x = *random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *random = x;
    return 60000000000u + x % 3600000000000u;
}

/// Walks over all of 0..count-1 in an order that caches do not guess; count > 7919.
static inline uint64_t contender_step(uint64_t at, uint64_t count)
{
    at += 7919;
    return at >= count ? at - count : at;
}

/// WEFT_BENCH_SLACK, or 1.
uint64_t contender_slack(void);

/// How long to sleep so that `count` tasks all sleep before the first is woken.
static inline uint64_t contender_herd_ns(uint64_t count)
{
    return (500000000u + count * 12000) * contender_slack();
}

/// How far off an instant must be so that `count` timers are armed before it comes.
static inline uint64_t contender_burst_ns(uint64_t count)
{
    return (200000000u + count * 3000) * contender_slack();
}

#ifdef __cplusplus
}
#endif

#endif
