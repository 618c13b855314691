// instructions.c - user-space instructions per echo request, counted by callgrind.
//
// The server runs twice, for few and for many requests; the difference of the two counts is what the
// requests took, and starting, connecting and ending cancel out. Repeatable where times are not, but
// blind to the kernel: it says what a runtime adds, not what a request costs.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../temp.h"
#include "net.h"

#define FEW 500
#define ARGS_MAX 16

static bool have_valgrind(void)
{
    char path[4096];
    const char *at = getenv("PATH");
    for (; at != NULL && *at != '\0'; at += strspn(at, ":")) {
        size_t length = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/valgrind", (int)length, at);
        if (access(path, X_OK) == 0) {
            return true;
        }
        at += length;
    }
    return false;
}

// What callgrind counted in all; 0 if it says nothing.
static double total(const char *path)
{
    char line[512];
    double value = 0;
    FILE *f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "totals: ", 8) == 0 || strncmp(line, "summary: ", 9) == 0) {
            value += strtod(strchr(line, ' '), NULL);
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return value;
}

static int ask(struct net_job *job, uint64_t requests)
{
    static struct load_result result;
    struct load_plan plan = {
        .address = job->server.address,
        .connections = job->connections,
        .depth = job->depth,
        .size_bytes = 64,
        .count = requests,
    };
    struct load *load;
    int rc = net_core->open(&load, &plan);
    if (rc == 0) {
        rc = net_core->run(load, &result);
        net_core->close(load);
    }
    return rc;
}

static int count(struct net_job *job, uint64_t requests, double *out)
{
    char file[256], option[320];
    const char *argv[ARGS_MAX] = { "valgrind", "--tool=callgrind", "-q", "--log-file=/dev/null",
                                   option };
    unsigned used = 5;
    for (unsigned i = 0; job->argv[i] != NULL && used < ARGS_MAX - 1; i++) {
        argv[used++] = job->argv[i];
    }
    int rc = temp_make(file, sizeof file, "callgrind");
    if (rc < 0) {
        return rc;
    }
    snprintf(option, sizeof option, "--callgrind-out-file=%s", file);
    if (server_start(&job->server, argv, "echo", job->is_tcp, job->server_cpu) == 0) {
        rc = ask(job, requests);
        server_stop(&job->server, SIGTERM);
        *out = total(file);
        rc = rc < 0 ? rc : *out > 0 ? 0 : -ENODATA;
    } else {
        fprintf(stderr, "weft-bench: %s: %s\n", job->argv[0], job->server.why);
        rc = -ENOEXEC;
    }
    temp_remove(file);
    return rc;
}

static int run(struct net_job *job, struct contender_result *out)
{
    double few, many;
    int rc = count(job, FEW, &few);
    rc = rc < 0 ? rc : count(job, FEW + job->count, &many);
    if (rc == 0) {
        contender_add(out, "instructions_per_request", (many - few) / (double)job->count);
    }
    return rc;
}

static int look(struct net_job *job)
{
    if (have_valgrind()) {
        return 0;
    }
    snprintf(job->server.why, sizeof job->server.why, "valgrind is not installed");
    return -EOPNOTSUPP;
}

const struct net_kind net_instructions = { "instructions", NULL, false, look, run };
