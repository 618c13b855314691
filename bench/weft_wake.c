// weft_wake.c - two virtual threads on two carriers, on two CPUs, wake each other.
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#include "weft_bench.h"

struct side {
    _Alignas(128) _Atomic uint32_t token;
    weft_waker waker;
};

static struct side sides[2];
static int cpus[2];
static uint64_t trips, warm;
static double t0, t1, cpu0, cpu1;
static int echo_error; // written before side 0 is woken for the first time

static void wake(int to)
{
    atomic_store_explicit(&sides[to].token, 1, memory_order_release);
    weft_waker_wake_by_ref(&sides[to].waker);
}

static void wait(int me)
{
    while (atomic_exchange_explicit(&sides[me].token, 0, memory_order_acquire) == 0) {
        weft_park(WEFT_FOREVER);
    }
}

// Pins the carrier: a virtual thread stays on the OS thread it started on.
static int settle(int me)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[me], &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0) {
        return -EPERM;
    }
    return 0;
}

static int echo(void *arg)
{
    (void)arg;
    int rc = settle(1);
    if (rc == 0) {
        rc = weft_waker_self(&sides[1].waker);
    }
    echo_error = rc;
    wake(0); // side 0 waits for this one before it starts the clock
    for (uint64_t i = 0; i < warm + trips && rc == 0; i++) {
        wait(1);
        wake(0);
    }
    return rc;
}

static int wake_main(void *arg)
{
    struct weft_bench *bench = arg;
    trips = bench->count;
    warm = trips / 20 + 10;
    int rc = settle(0);
    rc = rc < 0 ? rc : weft_waker_self(&sides[0].waker);
    if (rc < 0) {
        return rc;
    }
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = !weft_carrier_id();
    weft_task *task;
    rc = weft_spawn(&task, echo, NULL, &attr);
    if (rc < 0) {
        goto drop_waker;
    }
    wait(0);
    if (echo_error < 0) {
        rc = echo_error;
        weft_task_release(task);
        goto drop_waker;
    }
    for (uint64_t i = 0; i < warm + trips; i++) {
        if (i == warm) {
            t0 = contender_now_ns();
            cpu0 = contender_cpu_ns();
        }
        wake(1);
        wait(0);
    }
    cpu1 = contender_cpu_ns();
    t1 = contender_now_ns();
    rc = weft_join(NULL, task, WEFT_FOREVER);
    weft_waker_drop(&sides[1].waker);
    contender_add(bench->out, "round_trip_ns", (t1 - t0) / (double)trips);
    contender_add(bench->out, "cpu_ns_per_wake", (cpu1 - cpu0) / (double)trips / 2);
drop_waker:
    weft_waker_drop(&sides[0].waker);
    return rc;
}

static int run(struct contender_result *out, uint64_t count, enum weft_io io, weft_time spin_ns)
{
    struct weft_bench bench = { out, count, 0 };
    if (contender_cpus(cpus, 2) < 2) {
        return -EOPNOTSUPP; // needs two CPUs
    }
    return weft_bench_run(wake_main, &bench, 2, io, spin_ns);
}

int weft_wake_uring(struct contender_result *out, uint64_t count)
{
    return run(out, count, WEFT_IO_URING, 0);
}

int weft_wake_epoll(struct contender_result *out, uint64_t count)
{
    return run(out, count, WEFT_IO_EPOLL, 0);
}

int weft_wake_spin(struct contender_result *out, uint64_t count)
{
    return run(out, count, WEFT_IO_AUTO, 10 * WEFT_MS);
}
