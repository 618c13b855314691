// report.c - turning samples into something to read.
#include "report.h"

#include "stats.h"

#define BUSY_LOAD 1.0 // when weft-bench starts; it has added nothing by then

static void text_line(FILE *out, const struct row *row, const struct contender *contender,
                      const struct samples *samples, const struct samples *weft, const char *metric)
{
    struct summary s;
    if (samples->skipped[0] != '\0') {
        fprintf(out, "  %-26s skipped: %s\n", contender->label, samples->skipped);
        return;
    }
    if (!stats_summarise(&s, samples, weft, metric)) {
        return;
    }
    fprintf(out, "  %-26s %12.1f  %12.1f %12.1f", contender->label, s.median, s.min, s.max);
    if (s.weft_ratio > 0) {
        fprintf(out, "  %8.2f", s.weft_ratio);
        double goal = stats_goal(row, contender, samples, metric);
        if (goal > 0) {
            fprintf(out, "  at most %.2f: %s", goal, s.weft_ratio <= goal ? "met" : "missed");
        }
    } else if (samples == weft && stats_has_own_goal(row, metric)) {
        fprintf(out, "            at most %.0f: %s", row->goal_value,
                s.median <= row->goal_value ? "met" : "missed");
    }
    fputc('\n', out);
}

static void text_row(FILE *out, const struct row *row, const struct samples *samples,
                     unsigned long long count)
{
    const struct samples *names = stats_widest(row, samples);
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

// How weft, in each of its forms, compares with contender `i`; or whether weft's own goal is met.
static void json_comparison(FILE *out, const struct row *row, unsigned i,
                            const struct samples *samples, const char *metric)
{
    unsigned wefts = row->wefts > 0 ? row->wefts : 1;
    struct summary s;
    stats_summarise(&s, &samples[i], &samples[i], metric);
    if (i < wefts) {
        if (stats_has_own_goal(row, metric)) {
            fprintf(out, ", \"goal\": %.3f, \"met\": %s", row->goal_value,
                    s.median <= row->goal_value ? "true" : "false");
        }
        return;
    }
    double goal = stats_goal(row, &row->contenders[i], &samples[i], metric);
    bool met = true;
    for (unsigned w = 0; w < wefts; w++) {
        double ratio = stats_ratio(&samples[w], &samples[i], metric);
        met = met && ratio > 0 && ratio <= goal;
        if (wefts == 1 && ratio > 0) {
            fprintf(out, ", \"weft_ratio\": %.4f", ratio);
        } else if (wefts > 1) {
            fputs(w == 0 ? ", \"weft_ratios\": {" : ", ", out);
            json_string(out, row->contenders[w].label);
            fprintf(out, ": %.4f%s", ratio, w == wefts - 1 ? "}" : "");
        }
    }
    if (goal > 0) {
        fprintf(out, ", \"goal\": %.3f, \"met\": %s", goal, met ? "true" : "false");
    }
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
        stats_summarise(&s, &samples[i], &samples[0], metric);
        fprintf(out, "%s\n        {", m == 0 ? "" : ",");
        json_field(out, "unit", metric);
        fprintf(out, ", \"median\": %.3f, \"min\": %.3f, \"max\": %.3f", s.median, s.min, s.max);
        json_comparison(out, row, i, samples, metric);
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
            stats_widest(row, samples)->rounds);
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
        if (machine->load_average >= BUSY_LOAD) {
            fprintf(out, "The machine is busy (load average %.1f): measure again when it is not.\n",
                    machine->load_average);
        }
        return;
    }
    fputs("{\n  \"machine\": {", out);
    json_field(out, "kernel", machine->kernel);
    fputs(", ", out);
    json_field(out, "cpu", machine->cpu);
    fprintf(out, ", \"cpus\": %d, \"memory_bytes\": %llu, \"load_average\": %.2f, ", machine->cpus,
            machine->memory_bytes, machine->load_average);
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
    } else if (row->wefts > 1) {
        report_wide(out, row, samples, count);
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
