// report.h - medians and ratios of one row, as text or JSON.
#ifndef WEFT_BENCH_REPORT_H
#define WEFT_BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "child.h"
#include "machine.h"
#include "suite.h"

#define RUNS_MAX 101

/// Everything that was measured of one contender. A round's place is the same in all metrics and
/// contenders, so ratios are taken between rounds that followed each other.
struct samples {
    unsigned rounds;
    char metric[CHILD_METRICS_MAX][48];
    unsigned metrics;
    double value[CHILD_METRICS_MAX][RUNS_MAX];
    char skipped[CHILD_LINE_MAX];
};

void report_begin(FILE *out, bool json, const struct machine *machine);
void report_row(FILE *out, bool json, const struct row *row, const struct samples *samples,
                unsigned long long count);
void report_end(FILE *out, bool json);

#endif
