// main.c - weft-bench: which rows to run, on which CPUs, and how often.
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "contend.h"
#include "handoff/handoff.h"
#include "machine.h"
#include "net/isolate.h"
#include "net/net.h"
#include "report.h"
#include "suite.h"

#define DEFAULT_RUNS 11
#define QUICK_RUNS 3

struct settings {
    bool json, quick;
    unsigned runs; // 0: the row's own
    int cpu;       // -1: the first allowed
    const char *peers;
    char **suites;
    int suites_used;
};

static void usage(FILE *out)
{
    fputs("usage: weft-bench [suite|row...] [options]\n"
          "  --list        name the suites and rows\n"
          "  --json        results as JSON on standard output\n"
          "  --runs N      rounds of each row (default 11, fewer for the long ones)\n"
          "  --cpu N       first CPU to pin the contenders to (default: the first allowed)\n"
          "  --quick       few rounds of few operations: to see that everything runs\n"
          "  --no-peers    weft and the floors only\n"
          "  --client NAME what the client of the echo rows runs on: plain (default) or weft\n"
          "  --peers DIR   where bench/peers/build put the peers (default: bench-peers beside\n"
          "                this program)\n",
          out);
}

static void list(void)
{
    const struct row *row;
    for (unsigned i = 0; (row = suite_row(i)) != NULL; i++) {
        printf("%-8s %-17s %s\n", row->suite, row->name, row->what);
        for (const struct contender *c = row->contenders; c->label != NULL; c++) {
            printf("%s%s", c == row->contenders ? "                              " : ", ",
                   c->label);
        }
        putchar('\n');
    }
}

static unsigned number(const char *text, const char *option, unsigned max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value > max) {
        fprintf(stderr, "weft-bench: %s: '%s' is not a number from 0 to %u\n", option, text, max);
        exit(2);
    }
    return (unsigned)value;
}

static const char *default_peers(void)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) {
        return NULL;
    }
    path[length] = '\0';
    char *name = strrchr(path, '/') + 1;
    snprintf(name, sizeof path - (size_t)(name - path), "bench-peers");
    return path;
}

// The hand-off experiment belongs to the scheduler's table, too.
static bool selects(const char *name, const struct row *row)
{
    bool belongs = strcmp(row->suite, "handoff") == 0 && strcmp(name, "sched") == 0;
    return belongs || strcmp(row->suite, name) == 0 || strcmp(row->name, name) == 0;
}

static bool is_known(const char *name)
{
    const struct row *row;
    for (unsigned i = 0; (row = suite_row(i)) != NULL; i++) {
        if (selects(name, row)) {
            return true;
        }
    }
    return false;
}

static bool is_wanted(const struct settings *settings, const struct row *row)
{
    for (int i = 0; i < settings->suites_used; i++) {
        if (selects(settings->suites[i], row)) {
            return true;
        }
    }
    return settings->suites_used == 0;
}

// The `want` allowed CPUs from the chosen one on, going round at the end.
static unsigned choose_cpus(cpu_set_t *out, int first, unsigned want)
{
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(out);
    unsigned chosen = 0;
    for (int i = 0; i < CPU_SETSIZE && chosen < want; i++) {
        int cpu = ((first < 0 ? 0 : first) + i) % CPU_SETSIZE;
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, out);
            chosen++;
        }
    }
    return chosen;
}

static void keep(struct samples *samples, const struct child_result *result)
{
    for (unsigned m = 0; m < result->used; m++) {
        memcpy(samples->metric[m], result->metric[m], sizeof samples->metric[m]);
        samples->value[m][samples->rounds] = result->value[m];
    }
    samples->metrics = result->used;
    samples->rounds++;
}

static void play(struct child *child, struct samples *samples, const struct settings *settings,
                 const struct contender *contender, uint64_t count, const cpu_set_t *cpus)
{
    struct child_result result;
    int rc = 1;
    while (rc == 1 && child->skipped[0] == '\0') {
        if (child->pid == 0) {
            child_start(child, contender, settings->peers, count, cpus);
        }
        rc = child->skipped[0] == '\0' ? child_round(child, &result) : -1;
    }
    if (rc == 0) {
        keep(samples, &result);
    } else {
        memcpy(samples->skipped, child->skipped, sizeof samples->skipped);
    }
}

// A quick run of a server row is short anyway compared with starting its servers.
static unsigned runs_of(const struct settings *settings, const struct row *row)
{
    unsigned runs = row->runs > 0 ? row->runs : DEFAULT_RUNS;
    unsigned quick = row->contenders[0].serves != NULL ? 1 : QUICK_RUNS;
    runs = settings->quick && runs > quick ? quick : runs;
    return settings->runs > 0 ? settings->runs : runs;
}

static void run_row(const struct settings *settings, const struct row *row)
{
    static struct samples samples[CONTENDERS_MAX];
    static struct child children[CONTENDERS_MAX];
    memset(samples, 0, sizeof samples);
    memset(children, 0, sizeof children);
    cpu_set_t cpus;
    choose_cpus(&cpus, settings->cpu, row->cpus);
    uint64_t count = settings->quick ? row->quick_count : row->count;
    unsigned runs = runs_of(settings, row);
    if (row->contenders[0].serves != NULL) {
        net_isolate();
    }
    for (unsigned round = 0; round < runs; round++) {
        for (unsigned i = 0; row->contenders[i].label != NULL; i++) {
            struct child *child = &children[i];
            play(child, &samples[i], settings, &row->contenders[i], count, &cpus);
            if (row->fresh) {
                child_stop(child);
            }
        }
    }
    for (unsigned i = 0; row->contenders[i].label != NULL; i++) {
        child_stop(&children[i]);
    }
    report_row(stdout, settings->json, row, samples, count);
}

static void choose_client(const char *name)
{
    if (strcmp(name, "plain") != 0 && strcmp(name, "weft") != 0) {
        fprintf(stderr, "weft-bench: --client: '%s' is neither plain nor weft\n", name);
        exit(2);
    }
    setenv(NET_CLIENT, name, 1); // for the children that are clients
}

static void parse(struct settings *settings, int argc, char **argv)
{
    enum { LIST = 1, JSON, RUNS, CPU, QUICK, NO_PEERS, PEERS, CLIENT, HELP };
    static const struct option options[] = {
        { "list", 0, NULL, LIST },         { "json", 0, NULL, JSON },
        { "runs", 1, NULL, RUNS },         { "cpu", 1, NULL, CPU },
        { "quick", 0, NULL, QUICK },       { "help", 0, NULL, HELP },
        { "no-peers", 0, NULL, NO_PEERS }, { "peers", 1, NULL, PEERS },
        { "client", 1, NULL, CLIENT },     { NULL, 0, NULL, 0 },
    };
    *settings = (struct settings){ .cpu = -1, .peers = default_peers() };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case LIST: list(); exit(0);
        case JSON: settings->json = true; break;
        case RUNS: settings->runs = number(optarg, "--runs", RUNS_MAX); break;
        case CPU: settings->cpu = (int)number(optarg, "--cpu", CPU_SETSIZE - 1); break;
        case QUICK: settings->quick = true; break;
        case NO_PEERS: settings->peers = NULL; break;
        case PEERS: settings->peers = optarg; break;
        case CLIENT: choose_client(optarg); break;
        case HELP: usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    settings->suites = argv + optind;
    settings->suites_used = argc - optind;
    for (int i = 0; i < settings->suites_used; i++) {
        if (!is_known(settings->suites[i])) {
            fprintf(stderr, "weft-bench: no suite or row '%s'; --list names them\n",
                    settings->suites[i]);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--contend") == 0) {
        return contend(argv[2], argv[3]);
    }
    if (argc == 5 && strcmp(argv[1], "--serve") == 0) {
        return contend_serve(argv[2], argv[3], argv[4]);
    }
    if (argc > 5 && strcmp(argv[1], "--load") == 0) {
        const char *const *server = (const char *const *)&argv[4];
        return strncmp(argv[2], "handoff/", 8) == 0 ? handoff_main(argv[2], argv[3], server)
                                                    : net_main(argv[2], argv[3], server);
    }
    struct settings settings;
    parse(&settings, argc, argv);
    signal(SIGPIPE, SIG_IGN); // a contender may die; its row says so
    struct machine machine;
    machine_look(&machine, settings.peers);
    report_begin(stdout, settings.json, &machine);
    const struct row *row;
    for (unsigned i = 0; (row = suite_row(i)) != NULL; i++) {
        if (is_wanted(&settings, row)) {
            run_row(&settings, row);
        }
    }
    report_end(stdout, settings.json);
    return 0;
}
