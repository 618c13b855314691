// weft/sim.h - runs a program deterministically: one OS thread, virtual time, a seeded order.
//
// The same steps that carriers take are called in an order drawn from the seed; each step and each
// look at the clock costs a little virtual time, also drawn. The same seed gives the same run, so a
// failure found with seed 4711 is found again with seed 4711. Hours of sleeping pass in
// milliseconds.
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include <weft/base.h>
#include <weft/runtime.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/// Zero means the default.
struct weft_sim_options {
    size_t size;          ///< sizeof(struct weft_sim_options), or 0 for the present one
    uint64_t seed;        ///< every seed is a different order; 0 is a seed like any other
    int carriers;         ///< logical carriers, 1..64; 2
    weft_time limit_ns;   ///< virtual time after which the run fails with -ETIME; none
    uint64_t limit_steps; ///< steps after which the run fails with -ETIME (a livelock); none
    weft_time grace_ns;   ///< virtual grace period after `fn` returned; 10 s
    weft_log_fn log;      ///< NULL: standard error
    void *log_ctx;
};

struct weft_sim_result {
    uint64_t trace_hash;  ///< over every scheduling decision; equal for equal runs of one binary
    weft_time virtual_ns; ///< virtual time that passed
    uint64_t steps;       ///< carrier steps taken
    int result;           ///< what `fn` returned, if it did
};

/// Runs `fn(arg)` in a simulated runtime until it and everything it started has ended, and returns
/// what it returned. `result` and `options` may be NULL.
///
/// Call from:  a plain OS thread. Inside, foreign threads cannot take part: their calls return
///             -ENOTSUP.
/// Errors:     -EDEADLK  called from inside a task, or everyone was asleep with nothing to wake
///                       them; the tasks are dumped to the log
///             -ETIME    a limit was reached; the tasks are dumped to the log
///             -EBUSY    tasks were left after the grace period
///             -EINVAL, -ENOMEM
WEFT_API int weft_sim_run(struct weft_sim_result *result, weft_fn fn, void *arg,
                          const struct weft_sim_options *options);

WEFT_END_DECLS

#endif
