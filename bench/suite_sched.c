// suite_sched.c - the rows of `sched`: Tokio's shapes, an uneven load, and what stealing costs idle.
#include <stddef.h>

#include "suite.h"

#define MILLION 1000000
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL, 0, NULL                                                                  \
    }

// weft in its two forms, virtual threads and futures. Tokio's tasks are futures, Go's have stacks.
#define WEFTS 2
#define ONE(shape)                                                                                 \
    {                                                                                              \
        { "weft", NULL, "sched/" shape "/stealing-1", 0, NULL },                                   \
            { "weft-futures", NULL, "sched-futures/" shape "/stealing-1", 0, NULL },               \
            { "weft-locality", NULL, "sched/" shape "/plain-1", 0, NULL },                         \
            { "weft-futures-locality", NULL, "sched-futures/" shape "/plain-1", 0, NULL },         \
            { "go", "go", "sched/" shape "/1", 1, NULL },                                          \
            { "tokio-1-worker", "tokio", "sched/" shape "/1-worker", 1, NULL }, END,               \
    }
#define TWO(shape)                                                                                 \
    {                                                                                              \
        { "weft", NULL, "sched/" shape "/stealing-2", 0, NULL },                                   \
            { "weft-futures", NULL, "sched-futures/" shape "/stealing-2", 0, NULL },               \
            { "weft-locality", NULL, "sched/" shape "/plain-2", 0, NULL },                         \
            { "weft-futures-locality", NULL, "sched-futures/" shape "/plain-2", 0, NULL },         \
            { "weft-steal", NULL, "sched/" shape "/steal-2", 0, NULL },                            \
            { "go", "go", "sched/" shape "/2", 1, NULL },                                          \
            { "tokio-2-workers", "tokio", "sched/" shape "/2-workers", 1, NULL }, END,             \
    }

static const struct contender spawn_1[] = ONE("spawn-many");
static const struct contender spawn_2[] = TWO("spawn-many");
static const struct contender yield_1[] = ONE("yield-many");
static const struct contender yield_2[] = TWO("yield-many");
static const struct contender ping_1[] = ONE("ping-pong");
static const struct contender ping_2[] = TWO("ping-pong");
static const struct contender chain_1[] = ONE("chained-spawn");
static const struct contender chain_2[] = TWO("chained-spawn");

// Ahead of no stealing by 1.7 at least.
static const struct contender skew[] = {
    { "weft-steal", NULL, "sched/skew/steal-2", 0, NULL },
    { "weft-stealing", NULL, "sched/skew/stealing-2", 0, NULL },
    { "weft-locality", NULL, "sched/skew/plain-2", 1 / 1.7, NULL },
    { "go", "go", "sched/skew/2", 0, NULL },
    { "tokio-2-workers", "tokio", "sched/skew/2-workers", 0, NULL },
    END,
};

// Threads that have started may not be taken, so the second carrier finds nothing.
static const struct contender idle[] = {
    { "weft-steal", NULL, "sched/idle/steal-2", 0, NULL },
    { "weft-locality", NULL, "sched/idle/plain-2", 1.03, NULL },
    END,
};

const struct row suite_sched_rows[] = {
    { "sched", "spawn-many", "one task starts 10,000, one worker", spawn_1, MILLION, MILLION / 10,
      0, 1, false, NULL, 0, WEFTS },
    { "sched", "spawn-many-2", "the same with two workers", spawn_2, MILLION, MILLION / 10, 0, 2,
      false, NULL, 0, WEFTS },
    { "sched", "yield-many", "200 tasks yield 1,000 times each, one worker", yield_1, 2 * MILLION,
      MILLION / 5, 0, 1, false, NULL, 0, WEFTS },
    { "sched", "yield-many-2", "the same with two workers", yield_2, 2 * MILLION, MILLION / 5, 0, 2,
      false, NULL, 0, WEFTS },
    { "sched", "ping-pong", "1,000 tasks, each starts one and exchanges messages, one worker",
      ping_1, MILLION / 10, MILLION / 100, 0, 1, false, NULL, 0, WEFTS },
    { "sched", "ping-pong-2", "the same with two workers", ping_2, MILLION / 10, MILLION / 100, 0,
      2, false, NULL, 0, WEFTS },
    { "sched", "chained-spawn", "each task starts the next one, one worker", chain_1, MILLION / 2,
      MILLION / 20, 0, 1, false, NULL, 0, WEFTS },
    { "sched", "chained-spawn-2", "the same with two workers", chain_2, MILLION / 2, MILLION / 20,
      0, 2, false, NULL, 0, WEFTS },
    { "sched", "skew", "tasks of some microseconds, all started on one of two workers", skew,
      MILLION / 10, MILLION / 100, 0, 2, false, NULL, 0, 0 },
    { "sched", "steal-idle", "threads on one of two carriers yield and wake each other", idle,
      2 * MILLION, MILLION / 5, 0, 2, false, "cpu_ns_per_op", 0, 0 },
    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, 0, 0 },
};
