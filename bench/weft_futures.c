// weft_futures.c - very many spawned futures asleep until one instant.
//
// As weft_million.c, with stackless tasks. Their storage is the caller's and counts for what a task
// takes in all; what the runtime takes for each is measured from when that storage is there.
#include <errno.h>
#include <stdlib.h>

#include "weft_bench.h"

struct sleeper {
    struct weft_future future;
    struct weft_sleep sleep;
};

static struct {
    uint64_t asleep, awake, count;
    weft_time until;
    double last;
    weft_waker main;
} herd;

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct sleeper *sleeper = (struct sleeper *)(void *)future;
    if (weft_sleep_poll(&sleeper->sleep, waker) == WEFT_PENDING) {
        herd.asleep++;
        return WEFT_PENDING;
    }
    if (++herd.awake == herd.count) {
        herd.last = contender_now_ns();
        weft_waker_wake_by_ref(&herd.main);
    }
    future->result = sleeper->sleep.future.result;
    return WEFT_READY;
}

static void cancel(struct weft_future *future)
{
    weft_sleep_cancel(&((struct sleeper *)(void *)future)->sleep);
}

static void prepare(struct sleeper *sleepers, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        weft_future_init(&sleepers[i].future, poll, cancel);
        weft_sleep_init(&sleepers[i].sleep, herd.until);
    }
}

static int start(struct sleeper *sleepers, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int rc = weft_spawn_future(NULL, &sleepers[i].future, NULL);
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

static int measure(struct weft_bench *bench, struct sleeper *sleepers)
{
    double count = (double)bench->count;
    struct contender_memory before, prepared, after;
    contender_memory(&before);
    prepare(sleepers, bench->count);
    contender_memory(&prepared);
    double t0 = contender_now_ns(), cpu0 = contender_cpu_ns();
    int rc = start(sleepers, bench->count);
    double t1 = contender_now_ns(), cpu1 = contender_cpu_ns();
    if (rc < 0 || t1 >= (double)herd.until) {
        return rc < 0 ? rc : -ETIME; // some were woken before the last slept
    }
    contender_memory(&after);
    while (herd.awake < herd.count) {
        weft_park(WEFT_FOREVER);
    }
    contender_add(bench->out, "resident_bytes_per_task",
                  (after.resident_bytes - before.resident_bytes) / count);
    contender_add(bench->out, "runtime_bytes_per_task",
                  (after.resident_bytes - prepared.resident_bytes) / count);
    contender_add(bench->out, "spawn_cpu_ns_per_task", (cpu1 - cpu0) / count);
    contender_add(bench->out, "wake_cpu_ns_per_task", (contender_cpu_ns() - cpu1) / count);
    contender_add(bench->out, "spawn_ms", (t1 - t0) / 1e6);
    contender_add(bench->out, "wake_ms", (herd.last - (double)herd.until) / 1e6);
    return 0;
}

static int futures_main(void *arg)
{
    struct weft_bench *bench = arg;
    int rc = weft_waker_self(&herd.main);
    if (rc < 0) {
        return rc;
    }
    struct sleeper *sleepers = calloc(bench->count, sizeof *sleepers);
    herd.count = bench->count;
    herd.until = weft_after(contender_herd_ns(bench->count));
    rc = sleepers != NULL ? measure(bench, sleepers) : -ENOMEM;
    weft_waker_drop(&herd.main);
    return rc; // the storage is in use until the process ends
}

int weft_million_futures(struct contender_result *out, uint64_t count)
{
    struct weft_bench bench = { out, count, 0 };
    herd.asleep = herd.awake = 0;
    return weft_bench_run(futures_main, &bench, 1, WEFT_IO_AUTO, 0);
}
