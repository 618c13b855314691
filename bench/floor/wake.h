// wake.h - what every bare wake-up mechanism offers to the measuring loop.
//
// Two sides, 0 and 1, sit on two CPUs and pass a token back and forth. `wait` returns once for
// every `wake` of the same side; a side is never woken twice before it has waited.
#ifndef WEFT_BENCH_FLOOR_WAKE_H
#define WEFT_BENCH_FLOOR_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wake_pair;

struct wake_mechanism {
    const char *name;
    const char *what;
    int (*open)(struct wake_pair *pair);           // 0 or a negative errno; on the main thread
    int (*attach)(struct wake_pair *pair, int me); // may be NULL; on the side's own thread
    void (*wake)(struct wake_pair *pair, int to);  // called by the other side
    void (*wait)(struct wake_pair *pair, int me);
    void (*flush)(struct wake_pair *pair, int me); // may be NULL; sends what wake left queued
    void (*close)(struct wake_pair *pair);         // after both threads have ended
    unsigned ring_flags;                           // io_uring mechanisms only
};

struct wake_pair {
    const struct wake_mechanism *mechanism;
    void *state; // the mechanism's own
};

struct wake_result {
    double round_trip_ns;
    double wake_call_ns; // wall time of the call that wakes a sleeping target
    double cpu_ns;       // CPU time of one side for one wake, one wait and being woken
};

extern const struct wake_mechanism wake_spin, wake_futex, wake_eventfd_read, wake_eventfd_epoll,
    wake_eventfd_epoll_et;
extern const struct wake_mechanism wake_uring_poll_defer, wake_uring_poll_coop,
    wake_uring_read_defer, wake_msg_defer, wake_msg_coop, wake_msg_joined_defer,
    wake_sync_msg_defer, wake_sync_msg_coop, wake_ring_eventfd;

/// All mechanisms, ended by NULL.
extern const struct wake_mechanism *const wake_mechanisms[];

/// Runs `count` round trips between `cpu[0]` and `cpu[1]`. Returns 0 or a negative errno.
int wake_measure(struct wake_result *out, const struct wake_mechanism *mechanism, const int cpu[2],
                 unsigned count);

/// Serves one mechanism by the protocol of contender.h. False if there is none of that name.
bool wake_serve(const char *mechanism, const char *count);

#endif
