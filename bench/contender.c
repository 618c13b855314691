// contender.c - the child's side of the protocol in contender.h.
#include "contender.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double contender_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

double contender_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t contender_slack(void)
{
    const char *text = getenv("WEFT_BENCH_SLACK");
    uint64_t slack = text != NULL ? strtoull(text, NULL, 10) : 0;
    return slack > 0 ? slack : 1;
}

int contender_cpus(int *cpus, int want)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0) {
        return 0;
    }
    int found = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && found < want; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            cpus[found++] = cpu;
        }
    }
    return found;
}

void contender_memory(struct contender_memory *out)
{
    char line[256];
    double kilobytes;
    *out = (struct contender_memory){ 0 };
    FILE *f = fopen("/proc/self/status", "re");
    if (f == NULL) {
        return;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "VmRSS: %lf", &kilobytes) == 1) {
            out->resident_bytes = kilobytes * 1024;
        } else if (sscanf(line, "VmPTE: %lf", &kilobytes) == 1) {
            out->page_table_bytes = kilobytes * 1024;
        }
    }
    fclose(f);
}

void contender_add(struct contender_result *out, const char *metric, double value)
{
    if (out->used == CONTENDER_METRICS_MAX) {
        abort();
    }
    out->at[out->used].metric = metric;
    out->at[out->used].value = value;
    out->used++;
}

int contender_serve(const struct contender_bench *bench, uint64_t count)
{
    char line[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        struct contender_result result = { 0 };
        int rc = bench->run(&result, count);
        if (rc == -ETIME) {
            puts("late");
            return 0;
        }
        if (rc < 0) {
            printf("skip: %s\n", strerror(-rc));
            return 0;
        }
        for (unsigned i = 0; i < result.used; i++) {
            printf("%s%s=%.3f", i == 0 ? "" : " ", result.at[i].metric, result.at[i].value);
        }
        putchar('\n');
    }
    return 0;
}

int contender_main(const char *name, const char *count, const struct contender_bench *benches)
{
    for (; benches->name != NULL; benches++) {
        if (strcmp(benches->name, name) == 0) {
            return contender_serve(benches, strtoull(count, NULL, 10));
        }
    }
    puts("skip: no such benchmark");
    return 0;
}
