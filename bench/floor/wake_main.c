// wake_main.c - the bare wake-up mechanisms, as a table or as contenders of weft-bench.
//
//     floor-wake                  all mechanisms in turn, medians, a Markdown table
//     floor-wake MECHANISM COUNT  the protocol of contender.h
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../contender.h"
#include "wake.h"

#define TABLE_ROUNDS 15
#define TABLE_TRIPS 2000
#define MECHANISMS_MAX 32

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

struct samples {
    double trip[TABLE_ROUNDS], call[TABLE_ROUNDS], cpu[TABLE_ROUNDS];
    int error;
};

static int table(void)
{
    static struct samples samples[MECHANISMS_MAX];
    int cpus[2];
    if (contender_cpus(cpus, 2) < 2) {
        fprintf(stderr, "floor-wake: needs two CPUs\n");
        return 77;
    }
    for (unsigned round = 0; round < TABLE_ROUNDS; round++) {
        for (unsigned i = 0; wake_mechanisms[i] != NULL; i++) {
            struct wake_result r = { 0 };
            if (samples[i].error == 0) {
                samples[i].error = wake_measure(&r, wake_mechanisms[i], cpus, TABLE_TRIPS);
            }
            samples[i].trip[round] = r.round_trip_ns;
            samples[i].call[round] = r.wake_call_ns;
            samples[i].cpu[round] = r.cpu_ns;
        }
    }
    printf("| mechanism | round trip, us | wake call, us | CPU per wake, us | what |\n");
    printf("|---|---|---|---|---|\n");
    for (unsigned i = 0; wake_mechanisms[i] != NULL; i++) {
        struct samples *s = &samples[i];
        const struct wake_mechanism *m = wake_mechanisms[i];
        if (s->error < 0) {
            printf("| %s | skipped: %s | | | %s |\n", m->name, strerror(-s->error), m->what);
            continue;
        }
        printf("| %s | %.2f | %.2f | %.2f | %s |\n", m->name, median(s->trip, TABLE_ROUNDS) / 1e3,
               median(s->call, TABLE_ROUNDS) / 1e3, median(s->cpu, TABLE_ROUNDS) / 1e3, m->what);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        return table();
    }
    if (argc == 3 && wake_serve(argv[1], argv[2])) {
        return 0;
    }
    fprintf(stderr, "usage: %s [MECHANISM COUNT]\n", argv[0]);
    return 2;
}
