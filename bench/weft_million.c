// weft_million.c - very many tasks asleep until one instant: virtual threads, and spawned futures.
//
// Memory is taken when all of them sleep and none has been woken. `spawn` runs from the first
// spawn to the moment the last task has gone to sleep, `wake` from the instant they asked for to
// the moment the last one has run; its CPU time begins when all sleep.
//
// The storage of futures is the caller's and counts for what a task takes in all; what the runtime
// takes for each is measured from when that storage is there.
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
    struct sleeper *sleepers; // of futures
} herd;

static void woke(void)
{
    if (++herd.awake == herd.count) {
        herd.last = contender_now_ns();
        weft_waker_wake_by_ref(&herd.main);
    }
}

// Threads.

static int sleep_in_thread(void *arg)
{
    (void)arg;
    herd.asleep++;
    int rc = weft_sleep_until(herd.until);
    woke();
    return rc;
}

static int spawn_thread(uint64_t number)
{
    (void)number;
    return weft_go(sleep_in_thread, NULL);
}

// Futures.

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct sleeper *sleeper = (struct sleeper *)(void *)future;
    if (weft_sleep_poll(&sleeper->sleep, waker) == WEFT_PENDING) {
        herd.asleep++;
        return WEFT_PENDING;
    }
    woke();
    future->result = sleeper->sleep.future.result;
    return WEFT_READY;
}

static void cancel(struct weft_future *future)
{
    weft_sleep_cancel(&((struct sleeper *)(void *)future)->sleep);
}

static int prepare_futures(void)
{
    herd.sleepers = calloc(herd.count, sizeof *herd.sleepers);
    if (herd.sleepers == NULL) {
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < herd.count; i++) {
        weft_future_init(&herd.sleepers[i].future, poll, cancel);
        weft_sleep_init(&herd.sleepers[i].sleep, herd.until);
    }
    return 0;
}

static int spawn_future(uint64_t number)
{
    return weft_spawn_future(NULL, &herd.sleepers[number].future, NULL);
}

// Both.

static int start(int (*spawn)(uint64_t number))
{
    for (uint64_t i = 0; i < herd.count; i++) {
        int rc = spawn(i);
        if (rc < 0) {
            return rc;
        }
        if (i % 1000 == 999) {
            weft_yield();
        }
    }
    while (herd.asleep < herd.count) {
        weft_yield();
    }
    return 0;
}

static int measure(struct weft_bench *bench, bool futures)
{
    double count = (double)bench->count;
    struct contender_memory before, prepared, after;
    herd.count = bench->count;
    herd.until = weft_after(contender_herd_ns(bench->count));
    contender_memory(&before);
    int rc = futures ? prepare_futures() : 0;
    contender_memory(&prepared);
    double t0 = contender_now_ns(), cpu0 = contender_cpu_ns();
    rc = rc < 0 ? rc : start(futures ? spawn_future : spawn_thread);
    double t1 = contender_now_ns(), cpu1 = contender_cpu_ns();
    if (rc < 0 || t1 >= (double)herd.until) {
        return rc < 0 ? rc : -ETIME; // some were woken before the last slept: nothing to compare
    }
    contender_memory(&after);
    while (herd.awake < herd.count) {
        weft_park(WEFT_FOREVER);
    }
    contender_add(bench->out, "resident_bytes_per_task",
                  (after.resident_bytes - before.resident_bytes) / count);
    if (futures) {
        contender_add(bench->out, "runtime_bytes_per_task",
                      (after.resident_bytes - prepared.resident_bytes) / count);
    } else {
        contender_add(bench->out, "page_table_bytes_per_task",
                      (after.page_table_bytes - before.page_table_bytes) / count);
    }
    contender_add(bench->out, "spawn_cpu_ns_per_task", (cpu1 - cpu0) / count);
    contender_add(bench->out, "wake_cpu_ns_per_task", (contender_cpu_ns() - cpu1) / count);
    contender_add(bench->out, "spawn_ms", (t1 - t0) / 1e6);
    contender_add(bench->out, "wake_ms", (herd.last - (double)herd.until) / 1e6);
    return 0; // the storage is in use until the process ends
}

static int measure_with_waker(struct weft_bench *bench, bool futures)
{
    int rc = weft_waker_self(&herd.main);
    if (rc == 0) {
        rc = measure(bench, futures);
        weft_waker_drop(&herd.main);
    }
    return rc;
}

static int threads_main(void *bench)
{
    return measure_with_waker(bench, false);
}

static int futures_main(void *bench)
{
    return measure_with_waker(bench, true);
}

static int run(weft_fn fn, struct contender_result *out, uint64_t count)
{
    struct weft_bench bench = { out, count, 0 };
    herd.asleep = herd.awake = 0;
    return weft_bench_run(fn, &bench, 1, WEFT_IO_AUTO, 0);
}

int weft_million(struct contender_result *out, uint64_t count)
{
    return run(threads_main, out, count);
}

int weft_million_futures(struct contender_result *out, uint64_t count)
{
    return run(futures_main, out, count);
}
