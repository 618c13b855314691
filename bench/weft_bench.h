// weft_bench.h - weft's side of each row, and what its files share.
//
// All of it is written against the public API, except the raw switch, which has none.
#ifndef WEFT_BENCH_WEFT_BENCH_H
#define WEFT_BENCH_WEFT_BENCH_H

#include <weft.h>

#include "contender.h"
#include "serve.h"

/// A benchmark that runs inside the runtime.
struct weft_bench {
    struct contender_result *out;
    uint64_t count;
    int tasks; // yield: how many take turns; spawn: how many in a batch
};

/// Runs `fn(bench)` as the main thread of a runtime with so many carriers. Spinning is for the
/// wake-up row only.
int weft_bench_run(weft_fn fn, struct weft_bench *bench, int carriers, enum weft_io io,
                   weft_time idle_spin_ns);

/// Serves; returns a negative errno when it cannot, -ENOENT if there is no server of that name.
int weft_net_serve(const char *name, enum serve_mode mode, const char *address);

int weft_switch(struct contender_result *out, uint64_t count);
int weft_yield_2(struct contender_result *out, uint64_t count);
int weft_yield_1000(struct contender_result *out, uint64_t count);
int weft_yield_10000(struct contender_result *out, uint64_t count);
int weft_spawn_one(struct contender_result *out, uint64_t count);
int weft_spawn_1000(struct contender_result *out, uint64_t count);
int weft_million(struct contender_result *out, uint64_t count);
int weft_million_futures(struct contender_result *out, uint64_t count);
int weft_timers_one(struct contender_result *out, uint64_t count);
int weft_timers_among(struct contender_result *out, uint64_t count);
int weft_timers_fire(struct contender_result *out, uint64_t count);
int weft_wake_uring(struct contender_result *out, uint64_t count);
int weft_wake_epoll(struct contender_result *out, uint64_t count);
int weft_wake_spin(struct contender_result *out, uint64_t count);

#endif
