// echo.c - requests of 64 bytes that are echoed, in a closed loop.
#include <errno.h>

#include "net.h"

#define SIZE_BYTES 64

static struct load_plan plan;
static struct load *load;
static struct net_watch watch;

static int open_all(struct net_job *job)
{
    watch.server = &job->server;
    plan = (struct load_plan){
        .address = job->server.address,
        .connections = job->connections,
        .depth = job->depth,
        .size_bytes = SIZE_BYTES,
        .count = job->count,
        .warm_count = job->count / 10,
        .mark = net_mark,
        .mark_arg = &watch,
    };
    return net_core->open(&load, &plan);
}

static int run(struct net_job *job, struct contender_result *out)
{
    (void)job;
    static struct load_result result;
    int rc = net_core->run(load, &result);
    if (rc < 0) {
        return rc;
    }
    double requests = (double)result.requests;
    net_add_cpu(out, &watch, "server_cpu_us_per_request", requests);
    contender_add(out, "requests_per_s", requests * 1e9 / (double)result.span_ns);
    contender_add(out, "p50_us", (double)hist_percentile(&result.latency_ns, 50) / 1e3);
    contender_add(out, "p99_us", (double)hist_percentile(&result.latency_ns, 99) / 1e3);
    contender_add(out, "p99.9_us", (double)hist_percentile(&result.latency_ns, 99.9) / 1e3);
    net_add_busy(out, &watch);
    return 0;
}

const struct net_kind net_echo = { "echo", "echo", false, open_all, run };
