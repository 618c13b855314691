// child.h - weft-bench's side of the protocol in contender.h.
#ifndef WEFT_BENCH_CHILD_H
#define WEFT_BENCH_CHILD_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "suite.h"

#define CHILD_METRICS_MAX 8
#define CHILD_LINE_MAX 512

struct child {
    pid_t pid; // 0: not running
    int to, from;
    unsigned slack; // times the planned instants are farther off; survives child_stop()
    char skipped[CHILD_LINE_MAX]; // why it takes no part; "" if it does
    char line[CHILD_LINE_MAX];
};

struct child_result {
    unsigned used;
    char metric[CHILD_METRICS_MAX][48];
    double value[CHILD_METRICS_MAX];
};

/// Starts a contender on the given CPUs and waits until it is ready. On failure sets `skipped`. The
/// struct is zeroed before the first start.
void child_start(struct child *child, const struct contender *contender, const char *peers,
                 uint64_t count, const cpu_set_t *cpus);

/// Lets it run one round. Returns 0, or -1 with `skipped` set, or 1: it was late, has ended and may
/// be started again, with more slack.
int child_round(struct child *child, struct child_result *out);

/// Ends the process, if there is one.
void child_stop(struct child *child);

#endif
