// client.c - one row of the experiment: starts a back end and a front, asks at a fixed rate.
//
// The front has two CPUs. Where there are more, back end and generator have the next two; else all
// three share, and the generator sleeps between requests, because spinning would take a CPU away from
// those whom it measures.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "../net/net.h"
#include "../serve.h"
#include "handoff.h"
#include "http.h"

#define FRONT_CPUS 2
#define ALL_CPUS 4
#define WARM_NS 300000000u

static struct {
    struct server front, backend;
    char request[HTTP_MESSAGE_MAX], reply[HTTP_MESSAGE_MAX];
    struct load_plan plan;
    struct load_result result;
    struct load *load;
    struct net_watch watch;
    double sleeps0, sleeps1;
} self;

struct places {
    cpu_set_t front, backend, client;
    bool shared;
};

static int choose_places(struct places *out)
{
    int cpus[ALL_CPUS];
    int found = contender_cpus(cpus, ALL_CPUS);
    if (found < FRONT_CPUS) {
        return -1;
    }
    CPU_ZERO(&out->front);
    CPU_SET(cpus[0], &out->front);
    CPU_SET(cpus[1], &out->front);
    out->backend = out->client = out->front;
    out->shared = found < ALL_CPUS;
    if (!out->shared) {
        CPU_ZERO(&out->backend);
        CPU_SET(cpus[2], &out->backend);
        CPU_ZERO(&out->client);
        CPU_SET(cpus[3], &out->client);
    }
    return 0;
}

static void mark(void *arg, bool ended)
{
    *(ended ? &self.sleeps1 : &self.sleeps0) = server_sleeps(&self.front);
    net_mark(arg, ended);
}

static int make_plan(double rate, uint64_t count, bool shares_cpu)
{
    int request = http_request(self.request, HANDOFF_TARGET, strlen(HANDOFF_TARGET));
    int reply = http_reply(self.reply, 200, false, HANDOFF_TARGET, strlen(HANDOFF_TARGET));
    if (request < 0 || reply < 0) {
        return -EMSGSIZE;
    }
    self.watch.server = &self.front;
    self.plan = (struct load_plan){
        .address = self.front.address,
        .connections = HANDOFF_CONNECTIONS,
        .depth = 1,
        .size_bytes = (size_t)request,
        .request = self.request,
        .reply = self.reply,
        .reply_bytes = (size_t)reply,
        .rate = rate,
        .count = count,
        .warm_ns = WARM_NS,
        .shares_cpu = shares_cpu,
        .mark = mark,
        .mark_arg = &self.watch,
    };
    return 0;
}

static int round_once(struct contender_result *out, uint64_t count)
{
    (void)count;
    int rc = net_core->run(self.load, &self.result);
    if (rc < 0) {
        return rc;
    }
    const struct hist *latency = &self.result.latency_ns;
    double requests = (double)self.result.requests;
    contender_add(out, "p50_us", (double)hist_percentile(latency, 50) / 1e3);
    contender_add(out, "p99_us", (double)hist_percentile(latency, 99) / 1e3);
    contender_add(out, "p99.9_us", (double)hist_percentile(latency, 99.9) / 1e3);
    net_add_cpu(out, &self.watch, "server_cpu_us_per_request", requests);
    contender_add(out, "sleeps_per_request", (self.sleeps1 - self.sleeps0) / requests);
    contender_add(out, "requests_per_s", requests * 1e9 / (double)self.result.span_ns);
    return 0;
}

static int skip(const char *what, const char *why)
{
    printf("skip: %s%s\n", what, why);
    return 0;
}

static int start_both(const struct places *places, const char *const *argv)
{
    static const char *const backend[] = { "/proc/self/exe", "--serve", HANDOFF_BACKEND_NAME,
                                           NULL };
    char address[64];
    // The same port of another loopback address.
    snprintf(address, sizeof address, "tcp://127.0.0.2:%d", server_port());
    if (server_start_at(&self.backend, backend, HANDOFF_MODE, address, &places->backend) < 0) {
        return skip("back end: ", self.backend.why) - 1;
    }
    setenv(HANDOFF_BACKEND, address, 1);
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", server_port());
    if (server_start_at(&self.front, argv, HANDOFF_MODE, address, &places->front) < 0) {
        return skip("", self.front.why) - 1;
    }
    return 0;
}

static int play(const char *bench, double rate, uint64_t count, const struct places *places)
{
    sched_setaffinity(0, sizeof places->client, &places->client);
    prctl(PR_SET_TIMERSLACK, 1); // what is due must not wait for 50 us
    int rc = make_plan(rate, count, places->shared);
    rc = rc < 0 ? rc : net_core->open(&self.load, &self.plan);
    if (rc < 0) {
        return skip("", strerror(-rc));
    }
    return contender_serve(&(struct contender_bench){ bench, round_once }, count);
}

int handoff_main(const char *bench, const char *count, const char *const *argv)
{
    struct places places;
    char *end;
    double rate = strtod(strchr(bench, '/') + 1, &end);
    signal(SIGPIPE, SIG_IGN);
    if (!(rate > 0) || *end != '\0') {
        return skip("", "no such benchmark");
    }
    if (choose_places(&places) < 0) {
        return skip("", "needs two CPUs");
    }
    int code = 0;
    if (start_both(&places, argv) == 0) {
        code = play(bench, rate, strtoull(count, NULL, 10), &places);
    }
    server_stop(&self.front, SIGKILL);
    server_stop(&self.backend, SIGKILL);
    return code;
}

int handoff_serve(const char *name, const char *address)
{
    return strcmp(name, HANDOFF_BACKEND_NAME) == 0 ? handoff_backend(address)
                                                   : handoff_front(name, address);
}
