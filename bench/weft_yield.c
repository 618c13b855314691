// weft_yield.c - tasks on one carrier that yield in turn.
//
// All tasks draw from one shared counter, so what is counted is yields that happened, whatever
// order the scheduler runs the tasks in. The clock starts when all are warm.
#include <errno.h>
#include <stdlib.h>

#include "weft_bench.h"

static struct {
    uint64_t drawn, warm, end;
    double t0, t1;
} turn;

static int yielder(void *arg)
{
    (void)arg;
    for (;;) {
        uint64_t mine = turn.drawn++;
        if (mine == turn.warm) {
            turn.t0 = contender_cpu_ns();
        } else if (mine >= turn.end) {
            if (mine == turn.end) {
                turn.t1 = contender_cpu_ns();
            }
            return 0;
        }
        weft_yield();
    }
}

static int yield_main(void *arg)
{
    struct weft_bench *bench = arg;
    weft_task **tasks = calloc((size_t)bench->tasks, sizeof(weft_task *));
    if (tasks == NULL) {
        return -ENOMEM;
    }
    turn.drawn = 0;
    turn.warm = (uint64_t)bench->tasks * 3 + 1000;
    turn.end = turn.warm + bench->count;
    int rc = 0, spawned = 0;
    for (; spawned < bench->tasks && rc == 0; spawned++) {
        rc = weft_spawn(&tasks[spawned], yielder, NULL, NULL);
    }
    for (int i = 0; i < spawned; i++) {
        if (tasks[i] != NULL) {
            weft_join(NULL, tasks[i], WEFT_FOREVER);
        }
    }
    free(tasks);
    if (rc == 0) {
        contender_add(bench->out, "ns_per_yield", (turn.t1 - turn.t0) / (double)bench->count);
    }
    return rc;
}

static int run(struct contender_result *out, uint64_t count, int tasks)
{
    struct weft_bench bench = { out, count, tasks };
    return weft_bench_run(yield_main, &bench, 1, WEFT_IO_AUTO, 0);
}

int weft_yield_2(struct contender_result *out, uint64_t count)
{
    return run(out, count, 2);
}

int weft_yield_1000(struct contender_result *out, uint64_t count)
{
    return run(out, count, 1000);
}

int weft_yield_10000(struct contender_result *out, uint64_t count)
{
    return run(out, count, 10000);
}
