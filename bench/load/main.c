// main.c - weft-load: asks an echo server and reports what it took.
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

#include "load.h"
#include "load_report.h"

#define DEFAULT_SECONDS 10
#define WARM_NS 500000000u
#define OPEN_QUANTUM_NS 5000 // what is due must not wait for the end of a long time slice

struct command {
    struct load_plan plan;
    struct load_result result;
    const struct load_core *core;
    bool json;
};

static void usage(FILE *out)
{
    fputs("usage: weft-load ADDRESS [options]\n"
          "  ADDRESS            tcp://A.B.C.D:PORT or unix:///PATH of a server that echoes\n"
          "  --connections N    (default 50)\n"
          "  --depth N          requests in flight on each connection (default 1)\n"
          "  --size BYTES       of a request (default 64)\n"
          "  --rate N           requests per second, sent when they are due whether or not the\n"
          "                     server keeps up; latency counts from then (default: closed loop)\n"
          "  --seconds N        how long to measure (default 10, unless --count is given)\n"
          "  --count N          how many requests to measure\n"
          "  --plain            plain system calls and epoll instead of weft\n"
          "  --json             the result as JSON\n"
          "WEFT_IO=uring|epoll chooses weft's driver.\n",
          out);
}

static _Noreturn void wrong(const char *option, const char *text, const char *what)
{
    fprintf(stderr, "weft-load: %s '%s': %s\n", option, text, what);
    exit(2);
}

static double number(const char *option, const char *text, double min, double max, bool whole)
{
    char what[96], *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= min && value <= max) ||
        (whole && value != (double)(uint64_t)value)) {
        snprintf(what, sizeof what, "not a%s number from %g to %g", whole ? " whole" : "", min,
                 max);
        wrong(option, text, what);
    }
    return value;
}

static void parse(struct command *command, int argc, char **argv)
{
    enum { CONNECTIONS = 1, DEPTH, SIZE, RATE, SECONDS, COUNT, PLAIN, JSON, HELP };
    static const struct option options[] = {
        { "connections", 1, NULL, CONNECTIONS },
        { "depth", 1, NULL, DEPTH },
        { "size", 1, NULL, SIZE },
        { "rate", 1, NULL, RATE },
        { "seconds", 1, NULL, SECONDS },
        { "count", 1, NULL, COUNT },
        { "plain", 0, NULL, PLAIN },
        { "json", 0, NULL, JSON },
        { "help", 0, NULL, HELP },
        { NULL, 0, NULL, 0 },
    };
    struct load_plan *plan = &command->plan;
    command->core = &load_weft;
    *plan = (struct load_plan){ .connections = 50, .depth = 1, .size_bytes = 64 };
    for (int option, i; (option = getopt_long(argc, argv, "", options, &i)) != -1;) {
        const char *name = option != '?' ? options[i].name : NULL;
        switch (option) {
        case CONNECTIONS:
            plan->connections = (unsigned)number(name, optarg, 1, LOAD_CONNECTIONS_MAX, true);
            break;
        case DEPTH: plan->depth = (unsigned)number(name, optarg, 1, LOAD_DEPTH_MAX, true); break;
        case SIZE: plan->size_bytes = (size_t)number(name, optarg, 1, LOAD_SIZE_MAX, true); break;
        case RATE: plan->rate = number(name, optarg, 1e-3, 1e9, false); break;
        case SECONDS:
            plan->duration_ns = (uint64_t)(number(name, optarg, 1e-3, 1e6, false) * 1e9);
            break;
        case COUNT: plan->count = (uint64_t)number(name, optarg, 1, 1e15, true); break;
        case PLAIN: command->core = &load_epoll; break;
        case JSON: command->json = true; break;
        case HELP: usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    if (optind + 1 != argc) {
        usage(stderr);
        exit(2);
    }
    if (load_address_parse(&plan->address, argv[optind]) < 0) {
        wrong("address", argv[optind], "expected tcp://A.B.C.D:PORT or unix:///PATH");
    }
    if (plan->count == 0 && plan->duration_ns == 0) {
        plan->duration_ns = DEFAULT_SECONDS * 1000000000u;
    }
    plan->warm_ns = WARM_NS;
}

static const char *explain(int rc)
{
    return rc == -EBADMSG ? "a reply was not what had been sent"
           : rc == -EPIPE ? "the server closed a connection"
                          : strerror(-rc);
}

static int run(void *arg)
{
    struct command *command = arg;
    struct load *load;
    int rc = command->core->open(&load, &command->plan);
    if (rc == 0) {
        rc = command->core->run(load, &command->result);
        command->core->close(load);
    }
    return rc;
}

static int run_on_weft(struct command *command)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    options.quantum_ns = command->plan.rate > 0 ? OPEN_QUANTUM_NS : 0;
    return weft_run(run, command, &options);
}

int main(int argc, char **argv)
{
    static struct command command;
    parse(&command, argc, argv);
    int rc = command.core == &load_weft ? run_on_weft(&command) : run(&command);
    if (rc < 0) {
        fprintf(stderr, "weft-load: %s: %s\n", command.plan.address.text, explain(rc));
        return 1;
    }
    load_report(stdout, command.json, &command.plan, &command.result);
    return 0;
}
