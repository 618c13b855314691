// weft_spawn.c - starting virtual threads that do nothing, and joining them, on one carrier.
#include <errno.h>
#include <stdlib.h>

#include "weft_bench.h"

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int batch(weft_task **tasks, int size)
{
    for (int i = 0; i < size; i++) {
        int rc = weft_spawn(&tasks[i], nothing, NULL, NULL);
        if (rc < 0) {
            return rc; // the runtime ends those that did start
        }
    }
    for (int i = 0; i < size; i++) {
        weft_join(NULL, tasks[i], WEFT_FOREVER);
    }
    return 0;
}

static int spawn_main(void *arg)
{
    struct weft_bench *bench = arg;
    weft_task **tasks = calloc((size_t)bench->tasks, sizeof(weft_task *));
    if (tasks == NULL) {
        return -ENOMEM;
    }
    uint64_t batches = bench->count / (uint64_t)bench->tasks;
    uint64_t warm = batches / 20 + 2;
    double t0 = 0;
    int rc = 0;
    for (uint64_t i = 0; i < warm + batches && rc == 0; i++) {
        if (i == warm) {
            t0 = contender_cpu_ns();
        }
        rc = batch(tasks, bench->tasks);
    }
    if (rc == 0) {
        double ops = (double)batches * bench->tasks;
        contender_add(bench->out, "ns_per_task", (contender_cpu_ns() - t0) / ops);
    }
    free(tasks);
    return rc;
}

static int run(struct contender_result *out, uint64_t count, int batch_size)
{
    struct weft_bench bench = { out, count, batch_size };
    return weft_bench_run(spawn_main, &bench, 1, WEFT_IO_AUTO, 0);
}

int weft_spawn_one(struct contender_result *out, uint64_t count)
{
    return run(out, count, 1);
}

int weft_spawn_1000(struct contender_result *out, uint64_t count)
{
    return run(out, count, 1000);
}
