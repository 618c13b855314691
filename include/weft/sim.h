// weft/sim.h - runs a program deterministically: one OS thread, virtual time, a seeded order.
//
// The same steps that carriers take are called in an order drawn from the seed; each step and each
// look at the clock costs a little virtual time, also drawn. The same seed gives the same run, so a
// failure found with seed 4711 is found again with seed 4711. Hours of sleeping pass in
// milliseconds.
//
// Sockets that weft makes are simulated, too: TCP, UDP and Unix sockets with the semantics of Linux,
// on a network inside the run that delays and, if told to, loses, cuts, resets and shortens. Every
// address is an address of this network, and Unix sockets have a name space of their own without
// files. Descriptors that weft did not make (files, pipes, real sockets) are refused with -ENOTSUP.
// A connection that is established outlives a cut of any length; there is no TIME_WAIT.
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include <weft/base.h>
#include <weft/runtime.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/// The simulated network. Zero means the default, which is a network without faults. What is "per
/// million" happens so often in a million cases, 1,000,000 always. Unix sockets are inside one machine:
/// of all this only `short_per_million`, `accept_error_per_million` and the sizes apply to them.
struct weft_sim_net {
    weft_time latency_ns; ///< from one end to the other takes at least so long; 20 us
    weft_time jitter_ns;  ///< and up to so much longer, drawn for each segment; 20 us

    // Streams. What is sent arrives whole and in order, or the connection reports an error.
    uint32_t reset_per_million; ///< a segment resets its connection: both ends see -ECONNRESET
    uint32_t short_per_million; ///< a read or write transfers only a part of what it could, and a
                                ///< segment is cut in two

    // Links: of a connection, or from a datagram socket to the others.
    uint32_t cut_per_million; ///< with a segment the link goes dead for a while: segments wait,
                              ///< datagrams are lost; a connect gives up after 127 s
    weft_time cut_ns;         ///< and at most so long, drawn; 200 ms

    // Datagrams (UDP).
    uint32_t loss_per_million;
    uint32_t dup_per_million;     ///< arrives twice
    uint32_t reorder_per_million; ///< is overtaken by later ones

    uint32_t accept_error_per_million; ///< an accept fails: -EMFILE, or -ECONNABORTED and the
                                       ///< connection is gone
    uint32_t buffer_bytes;             ///< SO_SNDBUF and SO_RCVBUF of a new socket; 64 KiB
    uint32_t descriptors;              ///< so many may be open, then -EMFILE; 1,000,000
};

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
    struct weft_sim_net net;
};

struct weft_sim_result {
    uint64_t trace_hash;  ///< over every scheduling decision and everything that happened on the
                          ///< network; equal for equal runs of one binary
    weft_time virtual_ns; ///< virtual time that passed
    uint64_t steps;       ///< carrier steps taken
    int result;           ///< what `fn` returned, if it did
};

/// Runs `fn(arg)` in a simulated runtime until it and everything it started has ended, and returns
/// what it returned. `result` and `options` may be NULL.
///
/// Call from:  a plain OS thread. Inside, foreign threads cannot take part: their calls return
///             -ENOTSUP, and their wakes are ignored.
/// Errors:     -EDEADLK  called from inside a task, or everyone was asleep with nothing to wake
///                       them; the tasks are dumped to the log
///             -ETIME    a limit was reached; the tasks are dumped to the log
///             -EBUSY    tasks were left after the grace period
///             -EINVAL, -ENOMEM
WEFT_API int weft_sim_run(struct weft_sim_result *result, weft_fn fn, void *arg,
                          const struct weft_sim_options *options);

WEFT_END_DECLS

#endif
