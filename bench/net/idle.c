// idle.c - many connections that do nothing: what each costs the server, and how often that wakes up.
//
// A process may have so many descriptors and no more. So the connections are spread over shards, each a
// client process with a server of its own:
//
//     this process                 a shard
//     fork
//                                  starts its server, connects, measures memory
//     <-------------------------------- report
//     GO -------------------------------> counts from here
//     sleeps
//     GO -------------------------------> counts to here
//     <-------------------------------- report
//     GO -------------------------------> ends its server and itself
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "net.h"

#define WINDOW 512
#define NS_EACH 20000 // how long to look at so many connections: 100,000 for two seconds
#define SHARDS_MAX 64

struct report {
    int error; // negative errno
    double resident_bytes, page_table_bytes, sleeps;
};

struct shard {
    pid_t pid;
    int link; // to it
    unsigned count;
    struct report report;
};

static bool say(int link)
{
    char go = 0;
    return send(link, &go, 1, MSG_NOSIGNAL) == 1;
}

static bool hear(int link)
{
    char go;
    return recv(link, &go, 1, 0) == 1;
}

// The shard.

static int connect_all(const struct net_job *job, struct server *server, unsigned count,
                       struct report *report)
{
    struct server_memory before, after;
    int *fds = calloc(count, sizeof *fds); // open until this process ends
    if (fds == NULL) {
        return -ENOMEM;
    }
    if (server_start(server, job->argv, "echo", job->is_tcp, job->server_cpu) < 0) {
        fprintf(stderr, "weft-bench: %s: %s\n", job->argv[0], server->why);
        return -ENOEXEC;
    }
    server_memory(server, &before);
    int rc = net_connect_many(&server->address, fds, count, WINDOW, NULL);
    server_settle(server);
    server_memory(server, &after);
    report->resident_bytes = after.resident_bytes - before.resident_bytes;
    report->page_table_bytes = after.page_table_bytes - before.page_table_bytes;
    return rc;
}

static _Noreturn void be_shard(const struct net_job *job, unsigned count, int link)
{
    struct server server = { .out = -1 };
    struct report report = { 0 };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    report.error = connect_all(job, &server, count, &report);
    bool heard = send(link, &report, sizeof report, MSG_NOSIGNAL) == sizeof report && hear(link);
    double from = heard ? server_sleeps(&server) : 0;
    heard = heard && hear(link);
    report.sleeps = heard ? server_sleeps(&server) - from : 0;
    if (heard && send(link, &report, sizeof report, MSG_NOSIGNAL) == sizeof report) {
        (void)hear(link);
    }
    server_stop(&server, SIGKILL);
    _exit(0);
}

// This process.

static int start(struct shard *shard, const struct net_job *job, unsigned count)
{
    int links[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, links) < 0) {
        return -errno;
    }
    *shard = (struct shard){ .pid = fork(), .link = links[0], .count = count };
    if (shard->pid == 0) {
        close(links[0]);
        be_shard(job, count, links[1]);
    }
    close(links[1]);
    return shard->pid < 0 ? -errno : 0;
}

static int listen_to(struct shard *shard)
{
    ssize_t n = recv(shard->link, &shard->report, sizeof shard->report, 0);
    return n == sizeof shard->report ? shard->report.error : -EPIPE;
}

// One after the other, so that they do not disturb each other. How many were started is in `*used`.
static int start_all(struct shard *shards, unsigned *used, const struct net_job *job)
{
    unsigned left = (unsigned)job->count;
    unsigned needed = (left + job->share - 1) / job->share;
    int rc = needed <= SHARDS_MAX ? 0 : -EMFILE;
    while (rc == 0 && left > 0) {
        unsigned count = left / (needed - *used); // equal parts
        rc = start(&shards[*used], job, count);
        if (rc == 0) {
            rc = listen_to(&shards[(*used)++]);
        }
        left -= count;
    }
    return rc;
}

static int count_sleeps(struct shard *shards, unsigned used, uint64_t span_ns)
{
    int rc = 0;
    for (unsigned i = 0; i < used; i++) {
        rc = say(shards[i].link) ? rc : -EPIPE;
    }
    nanosleep(&(struct timespec){ (time_t)(span_ns / 1000000000), (long)(span_ns % 1000000000) },
              NULL);
    for (unsigned i = 0; i < used && rc == 0; i++) {
        rc = say(shards[i].link) ? listen_to(&shards[i]) : -EPIPE;
    }
    return rc;
}

static void stop_all(struct shard *shards, unsigned used)
{
    for (unsigned i = 0; i < used; i++) {
        (void)say(shards[i].link);
        close(shards[i].link);
        waitpid(shards[i].pid, NULL, 0);
    }
}

static void add_sums(struct contender_result *out, const struct shard *shards, unsigned used,
                     double slab_bytes, uint64_t span_ns)
{
    struct report sum = { 0 };
    double count = 0;
    for (unsigned i = 0; i < used; i++) {
        sum.resident_bytes += shards[i].report.resident_bytes;
        sum.page_table_bytes += shards[i].report.page_table_bytes;
        sum.sleeps += shards[i].report.sleeps;
        count += shards[i].count;
    }
    contender_add(out, "wakeups_per_s", sum.sleeps * 1e9 / (double)span_ns);
    contender_add(out, "resident_bytes_per_connection", sum.resident_bytes / count);
    contender_add(out, "page_table_bytes_per_connection", sum.page_table_bytes / count);
    contender_add(out, "kernel_bytes_per_connection", slab_bytes / count);
    contender_add(out, "connections", count);
    contender_add(out, "servers", used);
}

static int idle(struct net_job *job, struct contender_result *out)
{
    static struct shard shards[SHARDS_MAX];
    uint64_t span_ns = job->count * NS_EACH;
    unsigned used = 0;
    double slab_bytes = -server_slab_bytes();
    int rc = start_all(shards, &used, job);
    slab_bytes += server_slab_bytes();
    rc = rc < 0 ? rc : count_sleeps(shards, used, span_ns);
    if (rc == 0) {
        add_sums(out, shards, used, slab_bytes, span_ns);
    }
    stop_all(shards, used);
    return rc;
}

// Whether it can be served at all.
static int try_once(struct net_job *job)
{
    if (server_start(&job->server, job->argv, "echo", job->is_tcp, job->server_cpu) < 0) {
        return -ENOEXEC;
    }
    server_stop(&job->server, SIGKILL);
    return 0;
}

const struct net_kind net_idle = { "idle", NULL, true, try_once, idle };
