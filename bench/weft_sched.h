// weft_sched.h - weft's side of the rows of `sched`, with virtual threads and with futures.
#ifndef WEFT_BENCH_WEFT_SCHED_H
#define WEFT_BENCH_WEFT_SCHED_H

#include <stdatomic.h>

#include <weft.h>

#include "contender.h"

extern const struct contender_bench weft_sched_benches[];
extern const struct contender_bench weft_sched_future_benches[];

// How many do it at a time, and how often: as the peers.
enum { SCHED_SPAWNED = 10000, SCHED_YIELDERS = 200, SCHED_YIELDS = 1000 };
enum { SCHED_PINGS = 1000, SCHED_CHAIN = 1000, SCHED_SKEWED = 2000 };

enum sched_policy { STEALING, STEAL, PLAIN };

struct sched_round {
    struct contender_result *out;
    uint64_t count;
    int (*once)(struct sched_round *round); // does so many operations, or a negative errno
    _Atomic int64_t left;
    int links; // of a chain, that are left; whoever runs has it
    _Atomic int error;
    void *storage; // the shape's own; kept for all rounds
    struct weft_event over;
};

/// Does `count` operations or more, in the main thread of a runtime of its own.
int sched_run(struct contender_result *out, uint64_t count, int (*once)(struct sched_round *round),
              int carriers, enum sched_policy policy);

/// So many will say that they are through; the last of them ends sched_wait_for_all().
void sched_expect(struct sched_round *round, int64_t count);
void sched_one_less(struct sched_round *round);
int sched_wait_for_all(struct sched_round *round);
/// Ends it with this error instead.
void sched_failed(struct sched_round *round, int error);

#define SCHED_BENCH(shape, carriers, policy)                                                       \
    static int shape##_##carriers##_##policy(struct contender_result *out, uint64_t count)         \
    {                                                                                              \
        return sched_run(out, count, shape, carriers, policy);                                     \
    }

#endif
