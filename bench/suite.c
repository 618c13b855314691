// suite.c - the table of everything weft-bench measures.
//
// Goals are those of the project: a ratio against a floor says how much weft may add, a ratio
// against a peer how far it must be ahead.
#include "suite.h"

#include <stddef.h>

#define MILLION 1000000
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL, 0, NULL                                                                  \
    }

// The floor that does what this build of weft does: keep the floating-point control words per
// context, or not.
#if WEFT_BENCH_FPU
#define PLAIN_GOAL 0
#define FPU_GOAL 1.3
#else
#define PLAIN_GOAL 1.3
#define FPU_GOAL 0
#endif

static const struct contender switch_pair[] = {
    { "weft", NULL, "switch", 0, NULL },
    { "floor", NULL, "floor/switch", PLAIN_GOAL, NULL },
    { "floor-fpu", NULL, "floor/switch-fpu", FPU_GOAL, NULL },
    { "boost-fcontext", "boost", "fcontext", 0, NULL },
    { "boost-fiber", "boost", "fiber", 0, NULL },
    END,
};

#define TASK_CONTENDERS(bench, go_goal, tokio_goal)                                                \
    {                                                                                              \
        { "weft", NULL, bench, 0, NULL }, { "go", "go", bench, go_goal, NULL },                    \
            { "tokio", "tokio", bench, tokio_goal, NULL },                                         \
            { "tokio-1-worker", "tokio", bench "/1-worker", tokio_goal, NULL }, END,               \
    }

static const struct contender yield_2[] = TASK_CONTENDERS("yield-2", 0.333, 0.333);
static const struct contender yield_1000[] = TASK_CONTENDERS("yield-1000", 1, 1);
static const struct contender yield_10000[] = TASK_CONTENDERS("yield-10000", 1, 1);
static const struct contender spawn_one[] = TASK_CONTENDERS("spawn-one", 0.5, 0.5);
static const struct contender spawn_1000[] = TASK_CONTENDERS("spawn-1000", 0.5, 0.5);
static const struct contender million_futures[] = {
    { "weft", NULL, "million-futures", 0, NULL },
    { "go", "go", "million", 0, NULL },
    { "tokio", "tokio", "million", 0, NULL },
    { "tokio-1-worker", "tokio", "million/1-worker", 0, NULL },
    END,
};
static const struct contender million[] = TASK_CONTENDERS("million", 0, 0);

#define TIMER_CONTENDERS(bench)                                                                    \
    {                                                                                              \
        { "weft", NULL, bench, 0, NULL }, { "go", "go", bench, 1, NULL },                          \
            { "tokio", "tokio", bench, 1, NULL }, { "libuv", "libuv", bench, 1, NULL }, END,       \
    }

static const struct contender timers_one[] = TIMER_CONTENDERS("timers-one");
static const struct contender timers_among[] = TIMER_CONTENDERS("timers-among");
static const struct contender timers_fire[] = TIMER_CONTENDERS("timers-fire");

static const struct contender wake[] = {
    { "weft-uring", NULL, "wake/uring", 0, NULL },
    { "weft-epoll", NULL, "wake/epoll", 0, NULL },
    { "futex", NULL, "floor/futex", 1.3, NULL },
    { "eventfd-read", NULL, "floor/eventfd-read", 1.3, NULL },
    { "eventfd-epoll", NULL, "floor/eventfd-epoll", 1.3, NULL },
    { "eventfd-epoll-et", NULL, "floor/eventfd-epoll-et", 1.3, NULL },
    { "uring-poll-defer", NULL, "floor/uring-poll-defer", 1.3, NULL },
    { "msg-defer", NULL, "floor/msg-defer", 1.3, NULL },
    { "msg-coop", NULL, "floor/msg-coop", 1.3, NULL },
    { "sync-msg-defer", NULL, "floor/sync-msg-defer", 1.3, NULL },
    { "sync-msg-coop", NULL, "floor/sync-msg-coop", 1.3, NULL },
    { "ring-eventfd", NULL, "floor/ring-eventfd", 1.3, NULL },
    END,
};

static const struct contender wake_spin[] = {
    { "weft-uring", NULL, "wake-spin/uring", 0, NULL },
    { "spin", NULL, "floor/spin", 0, NULL },
    END,
};

const struct row suite_core_rows[] = {
    { "switch", "switch", "raw context switch between two contexts", switch_pair, 20 * MILLION,
      2 * MILLION, 0, 1, false, NULL, 0, 0 },
    { "yield", "yield-2", "2 tasks yield in turn", yield_2, 2 * MILLION, MILLION / 4, 0, 1, false,
      NULL, 0, 0 },
    { "yield", "yield-1000", "1,000 tasks yield in turn", yield_1000, 2 * MILLION, MILLION / 4, 0,
      1, false, NULL, 0, 0 },
    { "yield", "yield-10000", "10,000 tasks yield in turn", yield_10000, 2 * MILLION, MILLION / 4,
      0, 1, false, NULL, 0, 0 },
    { "spawn", "spawn-one", "spawn a task and join it", spawn_one, MILLION / 2, MILLION / 20, 0, 1,
      false, NULL, 0, 0 },
    { "spawn", "spawn-1000", "spawn 1,000 tasks, then join them", spawn_1000, MILLION / 2,
      MILLION / 20, 0, 1, false, NULL, 0, 0 },
    { "million", "million", "sleeping tasks: memory of each, starting and waking all", million,
      MILLION, MILLION / 10, 3, 1, true, "resident_bytes_per_task", 4.6 * 1024, 0 },
    { "million", "million-futures", "the same with stackless tasks", million_futures, MILLION,
      MILLION / 10, 3, 1, true, "runtime_bytes_per_task", 512, 0 },
    { "timers", "timers-one", "arm a timer and cancel it, nothing else armed", timers_one, MILLION,
      MILLION / 10, 0, 1, false, NULL, 0, 0 },
    { "timers", "timers-among", "arm, then cancel timers while a million others are armed",
      timers_among, MILLION, MILLION / 10, 5, 1, false, NULL, 0, 0 },
    { "timers", "timers-fire", "a million timers for one instant", timers_fire, MILLION,
      MILLION / 10, 5, 1, false, "*", 0, 0 },
    { "wake", "wake", "wake a task asleep on another CPU, and back", wake, 5000, 1000, 0, 2, false,
      NULL, 0, 0 },
    { "wake", "wake-spin", "the same while both sides spin before they sleep", wake_spin, 200000,
      20000, 0, 2, false, NULL, 0, 0 },
    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, 0, 0 },
};

const struct row *suite_row(unsigned index)
{
    static const struct row *const parts[] = { suite_core_rows,    suite_sched_rows,
                                               suite_handoff_rows, suite_sync_rows,
                                               suite_chan_rows,    suite_select_rows,
                                               suite_net_rows };
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (const struct row *row = parts[i]; row->name != NULL; row++) {
            if (index-- == 0) {
                return row;
            }
        }
    }
    return NULL;
}
