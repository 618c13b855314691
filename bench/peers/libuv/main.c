// main.c - libuv's side of weft-bench: timers, by the protocol described in bench/contender.h, and
// the servers of net.c.
//
// libuv counts in milliseconds; delays and instants are rounded to them.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "../../contender.h"
#include "net.h"

static struct {
    uint64_t fired, count;
    double last;
} burst;

static void ignore(uv_timer_t *timer)
{
    (void)timer;
}

static void count_down(uv_timer_t *timer)
{
    (void)timer;
    if (++burst.fired == burst.count) {
        burst.last = contender_now_ns();
    }
}

static uint64_t delay_ms(uint64_t *random)
{
    return contender_delay_ns(random) / 1000000;
}

static uv_timer_t *make(uint64_t count)
{
    uv_timer_t *timers = calloc(count, sizeof *timers);
    for (uint64_t i = 0; timers != NULL && i < count; i++) {
        uv_timer_init(uv_default_loop(), &timers[i]);
    }
    return timers;
}

static void destroy(uv_timer_t *timers, uint64_t count)
{
    for (uint64_t i = 0; timers != NULL && i < count; i++) {
        uv_close((uv_handle_t *)&timers[i], NULL);
    }
    uv_run(uv_default_loop(), UV_RUN_NOWAIT); // closes them; others may still be armed
    free(timers);
}

static int timers_one(struct contender_result *out, uint64_t count)
{
    uv_timer_t *timer = make(1);
    uint64_t random = CONTENDER_SEED;
    double t0 = contender_cpu_ns();
    for (uint64_t i = 0; i < count; i++) {
        uv_timer_start(timer, ignore, delay_ms(&random), 0);
        uv_timer_stop(timer);
    }
    double t1 = contender_cpu_ns();
    contender_add(out, "ns_per_arm_and_cancel", (t1 - t0) / (double)count);
    destroy(timer, 1);
    return 0;
}

static int timers_among(struct contender_result *out, uint64_t count)
{
    uint64_t extra = count / 10, random = CONTENDER_SEED;
    uv_timer_t *standing = make(count), *timers = make(extra);
    if (standing == NULL || timers == NULL) {
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < count; i++) {
        uv_timer_start(&standing[i], ignore, delay_ms(&random), 0);
    }
    double t0 = contender_cpu_ns();
    for (uint64_t i = 0; i < extra; i++) {
        uv_timer_start(&timers[i], ignore, delay_ms(&random), 0);
    }
    double t1 = contender_cpu_ns();
    for (uint64_t i = 0, at = 0; i < extra; i++, at = contender_step(at, extra)) {
        uv_timer_stop(&timers[at]);
    }
    double t2 = contender_cpu_ns();
    contender_add(out, "ns_per_arm_and_cancel", (t2 - t0) / (double)extra);
    contender_add(out, "ns_per_arm", (t1 - t0) / (double)extra);
    contender_add(out, "ns_per_cancel", (t2 - t1) / (double)extra);
    destroy(timers, extra);
    destroy(standing, count);
    return 0;
}

static int timers_fire(struct contender_result *out, uint64_t count)
{
    uv_timer_t *timers = make(count);
    if (timers == NULL) {
        return -ENOMEM;
    }
    burst.fired = 0;
    burst.count = count;
    uint64_t wait_ms = contender_burst_ns(count) / 1000000;
    uv_update_time(uv_default_loop());
    double when = (double)(uv_now(uv_default_loop()) + wait_ms) * 1e6;
    for (uint64_t i = 0; i < count; i++) {
        uv_timer_start(&timers[i], count_down, wait_ms, 0);
    }
    if (contender_now_ns() >= when) {
        return -ETIME;
    }
    double cpu = contender_cpu_ns();
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    contender_add(out, "cpu_ns_per_timer", (contender_cpu_ns() - cpu) / (double)count);
    contender_add(out, "late_ns_per_timer", (burst.last - when) / (double)count);
    destroy(timers, count);
    return 0;
}

static const struct contender_bench benches[] = {
    { "timers-one", timers_one },
    { "timers-among", timers_among },
    { "timers-fire", timers_fire },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "serve") == 0) {
        return libuv_serve(argv[2], argv[3]);
    }
    if (argc != 3) {
        fprintf(stderr, "usage: libuv BENCH COUNT | libuv serve MODE ADDRESS\n");
        return 2;
    }
    return contender_main(argv[1], argv[2], benches);
}
