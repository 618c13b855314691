// net.c - the client of one row: finds its server, its CPUs and its kind.
#include "net.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

static const struct net_kind *const kinds[] = {
    &net_echo, &net_accept, &net_storm, &net_idle, &net_send, &net_receive, &net_instructions, NULL,
};

const struct load_core *net_core = &load_epoll;

static struct net_job job;
static const struct net_kind *kind;

void net_mark(void *arg, bool ended)
{
    struct net_watch *watch = arg;
    if (!ended) {
        watch->t0 = contender_now_ns();
        watch->client0 = contender_cpu_ns();
        watch->server0 = server_cpu_ns(watch->server);
    } else {
        watch->server1 = server_cpu_ns(watch->server);
        watch->client1 = contender_cpu_ns();
        watch->t1 = contender_now_ns();
    }
}

void net_add_cpu(struct contender_result *out, const struct net_watch *watch, const char *metric,
                 double things)
{
    contender_add(out, metric, (watch->server1 - watch->server0) / 1e3 / things);
}

void net_add_busy(struct contender_result *out, const struct net_watch *watch)
{
    double span = (watch->t1 - watch->t0) / 100;
    contender_add(out, "server_busy_percent", (watch->server1 - watch->server0) / span);
    contender_add(out, "client_busy_percent", (watch->client1 - watch->client0) / span);
}

// "tcp/echo/50x16": transport, kind, connections x depth.
static int parse(const char *bench)
{
    char name[64];
    unsigned connections = 1, depth = 1;
    job.is_tcp = strncmp(bench, "tcp/", 4) == 0;
    if (!job.is_tcp && strncmp(bench, "unix/", 5) != 0) {
        return -EINVAL;
    }
    int fields = sscanf(strchr(bench, '/') + 1, "%63[a-z]/%ux%u", name, &connections, &depth);
    if (fields != 1 && fields != 3) {
        return -EINVAL;
    }
    job.connections = connections;
    job.depth = depth;
    for (unsigned i = 0; kinds[i] != NULL; i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            kind = kinds[i];
            return 0;
        }
    }
    return -EINVAL;
}

static int pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) < 0 ? -errno : 0;
}

static int skip(const char *why)
{
    printf("skip: %s\n", why);
    return 0;
}

static int round_once(struct contender_result *out, uint64_t count)
{
    (void)count;
    return kind->round(&job, out);
}

// Opens what the rounds need and plays them.
static int play(void *arg)
{
    const char *bench = arg;
    int rc = kind->open != NULL ? kind->open(&job) : 0;
    if (rc < 0) {
        return skip(job.server.why[0] != '\0' ? job.server.why : strerror(-rc));
    }
    return contender_serve(&(struct contender_bench){ bench, round_once }, job.count);
}

// weft's carrier inherits the CPU. While it waits for the next round, in a system call, it has nothing
// else to do.
static int play_on_weft(char *bench)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    net_core = &load_weft;
    int rc = weft_run(play, bench, &options);
    return rc < 0 ? skip(strerror(-rc)) : rc;
}

static int prepare(const char *bench, const char *count)
{
    int cpus[2];
    if (parse(bench) < 0) {
        skip("no such benchmark");
        return -1;
    }
    job.count = strtoull(count, NULL, 10);
    if (contender_cpus(cpus, 2) < 2) {
        skip("needs two CPUs");
        return -1;
    }
    job.server_cpu = cpus[0];
    int rc = pin(cpus[1]);
    if (rc < 0) {
        skip(strerror(-rc));
        return -1;
    }
    // The server inherits it.
    unsigned wanted = kind->many ? (unsigned)job.count : job.connections;
    unsigned allowed = load_allow_files(wanted);
    if (allowed < wanted && (!kind->many || allowed == 0)) {
        skip("not allowed to open so many descriptors");
        return -1;
    }
    job.share = allowed;
    if (allowed < wanted && kind->mode != NULL) {
        job.count = allowed;
    }
    return 0;
}

int net_main(char *bench, const char *count, const char *const *argv)
{
    signal(SIGPIPE, SIG_IGN);
    job.argv = argv;
    if (prepare(bench, count) < 0) {
        return 0;
    }
    if (kind->mode != NULL &&
        server_start(&job.server, argv, kind->mode, job.is_tcp, job.server_cpu) < 0) {
        return skip(job.server.why);
    }
    const char *client = getenv(NET_CLIENT);
    bool on_weft = client != NULL && strcmp(client, "weft") == 0;
    int code = on_weft ? play_on_weft(bench) : play(bench);
    server_stop(&job.server, SIGKILL);
    return code;
}
