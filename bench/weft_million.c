// weft_million.c - very many virtual threads asleep until one instant.
//
// Memory is taken when all of them sleep and none has been woken. `spawn` runs from the first
// spawn to the moment the last thread has gone to sleep, `wake` from the instant they asked for to
// the moment the last one has run; its CPU time begins when all sleep.
#include <errno.h>

#include "weft_bench.h"

static struct {
    uint64_t asleep, awake, count;
    weft_time until;
    double last;
    weft_waker main;
} herd;

static int sleeper(void *arg)
{
    (void)arg;
    herd.asleep++;
    int rc = weft_sleep_until(herd.until);
    if (++herd.awake == herd.count) {
        herd.last = contender_now_ns();
        weft_waker_wake_by_ref(&herd.main);
    }
    return rc;
}

static int start(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int rc = weft_go(sleeper, NULL);
        if (rc < 0) {
            return rc;
        }
        if (i % 1000 == 999) {
            weft_yield();
        }
    }
    while (herd.asleep < count) {
        weft_yield();
    }
    return 0;
}

static int million_main(void *arg)
{
    struct weft_bench *bench = arg;
    double count = (double)bench->count;
    struct contender_memory before, after;
    int rc = weft_waker_self(&herd.main);
    if (rc < 0) {
        return rc;
    }
    herd.count = bench->count;
    herd.until = weft_after(contender_herd_ns(bench->count));
    contender_memory(&before);
    double t0 = contender_now_ns(), cpu0 = contender_cpu_ns();
    rc = start(bench->count);
    double t1 = contender_now_ns(), cpu1 = contender_cpu_ns();
    if (rc == 0 && t1 >= (double)herd.until) {
        rc = -ETIME; // some were woken before the last slept: nothing to compare
    }
    if (rc == 0) {
        contender_memory(&after);
        while (herd.awake < herd.count) {
            weft_park(WEFT_FOREVER);
        }
        contender_add(bench->out, "resident_bytes_per_task",
                      (after.resident_bytes - before.resident_bytes) / count);
        contender_add(bench->out, "page_table_bytes_per_task",
                      (after.page_table_bytes - before.page_table_bytes) / count);
        contender_add(bench->out, "spawn_cpu_ns_per_task", (cpu1 - cpu0) / count);
        contender_add(bench->out, "wake_cpu_ns_per_task", (contender_cpu_ns() - cpu1) / count);
        contender_add(bench->out, "spawn_ms", (t1 - t0) / 1e6);
        contender_add(bench->out, "wake_ms", (herd.last - (double)herd.until) / 1e6);
    }
    weft_waker_drop(&herd.main);
    return rc;
}

int weft_million(struct contender_result *out, uint64_t count)
{
    struct weft_bench bench = { out, count, 0 };
    herd.asleep = herd.awake = 0;
    return weft_bench_run(million_main, &bench, 1, WEFT_IO_AUTO, 0);
}
