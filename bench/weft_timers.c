// weft_timers.c - arming, cancelling and firing timers on one carrier.
#include <errno.h>
#include <stdlib.h>

#include "weft_bench.h"

static struct {
    uint64_t fired, count;
    double last;
    weft_waker main;
} burst;

static void ignore(void *arg)
{
    (void)arg;
}

static void count_down(void *arg)
{
    (void)arg;
    if (++burst.fired == burst.count) {
        burst.last = contender_now_ns();
        weft_waker_wake_by_ref(&burst.main);
    }
}

static int one_main(void *arg)
{
    struct weft_bench *bench = arg;
    struct weft_timer timer;
    int rc = weft_timer_init(&timer, ignore, NULL);
    if (rc < 0) {
        return rc;
    }
    uint64_t random = CONTENDER_SEED;
    weft_time now = weft_now();
    double t0 = contender_cpu_ns();
    for (uint64_t i = 0; i < bench->count; i++) {
        weft_timer_set(&timer, now + contender_delay_ns(&random));
        weft_timer_stop(&timer);
    }
    double t1 = contender_cpu_ns();
    contender_add(bench->out, "ns_per_arm_and_cancel", (t1 - t0) / (double)bench->count);
    return 0;
}

int weft_timers_one(struct contender_result *out, uint64_t count)
{
    struct weft_bench bench = { out, count, 0 };
    return weft_bench_run(one_main, &bench, 1, WEFT_IO_AUTO, 0);
}

static int make(struct weft_timer **timers, uint64_t count, weft_timer_fn fn)
{
    *timers = calloc(count, sizeof **timers);
    if (*timers == NULL) {
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < count; i++) {
        int rc = weft_timer_init(&(*timers)[i], fn, NULL);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static void stop(struct weft_timer *timers, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        weft_timer_stop(&timers[i]);
    }
}

static int among_main(void *arg)
{
    struct weft_bench *bench = arg;
    uint64_t extra = bench->count / 10;
    struct weft_timer *standing = NULL, *timers = NULL;
    int rc = make(&standing, bench->count, ignore);
    rc = rc < 0 ? rc : make(&timers, extra, ignore);
    if (rc < 0) {
        goto free_timers;
    }
    uint64_t random = CONTENDER_SEED;
    weft_time now = weft_now();
    for (uint64_t i = 0; i < bench->count; i++) {
        weft_timer_set(&standing[i], now + contender_delay_ns(&random));
    }
    double t0 = contender_cpu_ns();
    for (uint64_t i = 0; i < extra; i++) {
        weft_timer_set(&timers[i], now + contender_delay_ns(&random));
    }
    double t1 = contender_cpu_ns();
    for (uint64_t i = 0, at = 0; i < extra; i++, at = contender_step(at, extra)) {
        weft_timer_stop(&timers[at]);
    }
    double t2 = contender_cpu_ns();
    stop(standing, bench->count);
    contender_add(bench->out, "ns_per_arm_and_cancel", (t2 - t0) / (double)extra);
    contender_add(bench->out, "ns_per_arm", (t1 - t0) / (double)extra);
    contender_add(bench->out, "ns_per_cancel", (t2 - t1) / (double)extra);
free_timers:
    free(timers);
    free(standing);
    return rc;
}

int weft_timers_among(struct contender_result *out, uint64_t count)
{
    struct weft_bench bench = { out, count, 0 };
    return weft_bench_run(among_main, &bench, 1, WEFT_IO_AUTO, 0);
}

static int fire_main(void *arg)
{
    struct weft_bench *bench = arg;
    struct weft_timer *timers = NULL;
    int rc = make(&timers, bench->count, count_down);
    if (rc < 0) {
        goto free_timers;
    }
    rc = weft_waker_self(&burst.main);
    if (rc < 0) {
        goto free_timers;
    }
    burst.fired = 0;
    burst.count = bench->count;
    weft_time when = weft_after(contender_burst_ns(bench->count));
    for (uint64_t i = 0; i < bench->count; i++) {
        weft_timer_set(&timers[i], when);
    }
    if (weft_now() >= when) {
        rc = -ETIME;
        stop(timers, bench->count);
        goto drop_waker;
    }
    double cpu = contender_cpu_ns();
    while (burst.fired < burst.count) {
        weft_park(WEFT_FOREVER);
    }
    double count = (double)bench->count;
    contender_add(bench->out, "cpu_ns_per_timer", (contender_cpu_ns() - cpu) / count);
    contender_add(bench->out, "late_ns_per_timer", (burst.last - (double)when) / count);
drop_waker:
    weft_waker_drop(&burst.main);
free_timers:
    free(timers);
    return rc;
}

int weft_timers_fire(struct contender_result *out, uint64_t count)
{
    struct weft_bench bench = { out, count, 0 };
    return weft_bench_run(fire_main, &bench, 1, WEFT_IO_AUTO, 0);
}
