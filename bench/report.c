// report.c - turning samples into something to read.
#include "report.h"

#include <stdlib.h>
#include <string.h>

struct summary {
    double median, min, max;
    double weft_ratio; // median over the rounds of weft / this contender; 0 without weft
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *values, unsigned count, double *min, double *max)
{
    double sorted[RUNS_MAX];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, by_value);
    *min = sorted[0];
    *max = sorted[count - 1];
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static int metric_index(const struct samples *samples, const char *metric)
{
    for (unsigned i = 0; i < samples->metrics; i++) {
        if (strcmp(samples->metric[i], metric) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static bool summarise(struct summary *out, const struct samples *samples,
                      const struct samples *weft, const char *metric)
{
    int mine = metric_index(samples, metric), theirs = metric_index(weft, metric);
    *out = (struct summary){ 0 };
    if (mine < 0 || samples->rounds == 0) {
        return false;
    }
    out->median = median_of(samples->value[mine], samples->rounds, &out->min, &out->max);
    unsigned rounds = samples->rounds < weft->rounds ? samples->rounds : weft->rounds;
    if (theirs >= 0 && rounds > 0 && samples != weft) {
        double ratios[RUNS_MAX], low, high;
        for (unsigned i = 0; i < rounds; i++) {
            double value = samples->value[mine][i];
            ratios[i] = value > 0 ? weft->value[theirs][i] / value : 0;
        }
        out->weft_ratio = median_of(ratios, rounds, &low, &high);
    }
    return true;
}

// Whether the contender's goal, or weft's own, is about this metric.
static double goal_for(const struct row *row, const struct contender *contender,
                       const struct samples *samples, const char *metric)
{
    const char *about = row->goal_metric != NULL ? row->goal_metric : samples->metric[0];
    if (strcmp(about, "*") == 0) {
        return contender->goal;
    }
    return strcmp(about, metric) == 0 ? contender->goal : 0;
}

static bool has_own_goal(const struct row *row, const char *metric)
{
    return row->goal_value > 0 && row->goal_metric != NULL && strcmp(row->goal_metric, metric) == 0;
}

static void text_line(FILE *out, const struct row *row, const struct contender *contender,
                      const struct samples *samples, const struct samples *weft, const char *metric)
{
    struct summary s;
    if (samples->skipped[0] != '\0') {
        fprintf(out, "  %-26s skipped: %s\n", contender->label, samples->skipped);
        return;
    }
    if (!summarise(&s, samples, weft, metric)) {
        return;
    }
    fprintf(out, "  %-26s %12.1f  %12.1f %12.1f", contender->label, s.median, s.min, s.max);
    if (s.weft_ratio > 0) {
        fprintf(out, "  %8.2f", s.weft_ratio);
        double goal = goal_for(row, contender, samples, metric);
        if (goal > 0) {
            fprintf(out, "  at most %.2f: %s", goal, s.weft_ratio <= goal ? "met" : "missed");
        }
    } else if (samples == weft && has_own_goal(row, metric)) {
        fprintf(out, "            at most %.0f: %s", row->goal_value,
                s.median <= row->goal_value ? "met" : "missed");
    }
    fputc('\n', out);
}

// The contender that knows the most metrics names them: weft may be the one that was skipped.
static const struct samples *widest(const struct row *row, const struct samples *samples)
{
    const struct samples *best = samples;
    for (unsigned i = 0; row->contenders[i].label != NULL; i++) {
        if (samples[i].metrics > best->metrics) {
            best = &samples[i];
        }
    }
    return best;
}

static void text_row(FILE *out, const struct row *row, const struct samples *samples,
                     unsigned long long count)
{
    const struct samples *names = widest(row, samples);
    fprintf(out, "\n%s: %s (%llu a round, %u rounds)\n", row->name, row->what, count,
            names->rounds);
    for (unsigned m = 0; m < names->metrics || m == 0; m++) {
        const char *metric = names->metrics > 0 ? names->metric[m] : "nothing measured";
        fprintf(out, "  %-26s %12s  %12s %12s  %8s\n", metric, "median", "min", "max", "weft/this");
        for (unsigned i = 0; row->contenders[i].label != NULL; i++) {
            if (m == 0 || samples[i].skipped[0] == '\0') {
                text_line(out, row, &row->contenders[i], &samples[i], &samples[0], metric);
            }
        }
    }
    fflush(out);
}

static void json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        if ((unsigned char)*text >= 0x20) {
            fputc(*text, out);
        }
    }
    fputc('"', out);
}

static void json_field(FILE *out, const char *name, const char *text)
{
    fprintf(out, "\"%s\": ", name);
    json_string(out, text);
}

static void json_contender(FILE *out, const struct row *row, unsigned i,
                           const struct samples *samples)
{
    fprintf(out, "%s\n      {", i == 0 ? "" : ",");
    json_field(out, "name", row->contenders[i].label);
    if (samples[i].skipped[0] != '\0') {
        fputs(", ", out);
        json_field(out, "skipped", samples[i].skipped);
        fputc('}', out);
        return;
    }
    fputs(", \"metrics\": [", out);
    for (unsigned m = 0; m < samples[i].metrics; m++) {
        struct summary s;
        const char *metric = samples[i].metric[m];
        summarise(&s, &samples[i], &samples[0], metric);
        fprintf(out, "%s\n        {", m == 0 ? "" : ",");
        json_field(out, "unit", metric);
        fprintf(out, ", \"median\": %.3f, \"min\": %.3f, \"max\": %.3f", s.median, s.min, s.max);
        if (s.weft_ratio > 0) {
            fprintf(out, ", \"weft_ratio\": %.4f", s.weft_ratio);
            double goal = goal_for(row, &row->contenders[i], &samples[i], metric);
            if (goal > 0) {
                fprintf(out, ", \"goal\": %.3f, \"met\": %s", goal,
                        s.weft_ratio <= goal ? "true" : "false");
            }
        } else if (i == 0 && has_own_goal(row, metric)) {
            fprintf(out, ", \"goal\": %.3f, \"met\": %s", row->goal_value,
                    s.median <= row->goal_value ? "true" : "false");
        }
        fputc('}', out);
    }
    fputs("]}", out);
}

static bool json_rows_begun;

static void json_row(FILE *out, const struct row *row, const struct samples *samples,
                     unsigned long long count)
{
    fprintf(out, "%s\n    {", json_rows_begun ? "," : "");
    json_rows_begun = true;
    json_field(out, "suite", row->suite);
    fputs(", ", out);
    json_field(out, "row", row->name);
    fputs(", ", out);
    json_field(out, "what", row->what);
    fprintf(out, ", \"count\": %llu, \"rounds\": %u, \"contenders\": [", count,
            widest(row, samples)->rounds);
    for (unsigned i = 0; row->contenders[i].label != NULL; i++) {
        json_contender(out, row, i, samples);
    }
    fputs("]}", out);
}

void report_begin(FILE *out, bool json, const struct machine *machine)
{
    if (!json) {
        fprintf(out, "%s, %s, %d CPUs, %s, weft %s\n", machine->kernel, machine->cpu, machine->cpus,
                machine->compiler, machine->weft);
        for (unsigned i = 0; i < machine->versions_used; i++) {
            fprintf(out, "%s%s", i == 0 ? "" : ", ", machine->versions[i]);
        }
        fputs(machine->versions_used > 0 ? "\n" : "", out);
        return;
    }
    fputs("{\n  \"machine\": {", out);
    json_field(out, "kernel", machine->kernel);
    fputs(", ", out);
    json_field(out, "cpu", machine->cpu);
    fprintf(out, ", \"cpus\": %d, \"memory_bytes\": %llu, ", machine->cpus, machine->memory_bytes);
    json_field(out, "compiler", machine->compiler);
    fputs(", ", out);
    json_field(out, "weft", machine->weft);
    fputs(", \"peers\": [", out);
    for (unsigned i = 0; i < machine->versions_used; i++) {
        fputs(i == 0 ? "" : ", ", out);
        json_string(out, machine->versions[i]);
    }
    fputs("]},\n  \"rows\": [", out);
}

void report_row(FILE *out, bool json, const struct row *row, const struct samples *samples,
                unsigned long long count)
{
    if (json) {
        json_row(out, row, samples, count);
    } else {
        text_row(out, row, samples, count);
    }
}

void report_end(FILE *out, bool json)
{
    if (json) {
        fputs("\n  ]\n}\n", out);
    }
}
