// report_wide.c - rows in which weft takes part in several forms: one line for each contender.
#include <string.h>

#include "stats.h"

#define LABEL_WIDTH 22
#define COLUMN_WIDTH 9

static int width_of(const char *name)
{
    int width = (int)strlen(name);
    return width > COLUMN_WIDTH ? width : COLUMN_WIDTH;
}

/// Contenders have one, but for the last; compilers cannot know that.
static const char *label_of(const struct contender *contender)
{
    return contender->label != NULL ? contender->label : "";
}

static void print_value(FILE *out, int width, double value)
{
    fprintf(out, "  %*.*f", width, value < 10 ? 3 : value < 1000 ? 1 : 0, value);
}

static void print_contender(FILE *out, const struct contender *contender,
                            const struct samples *samples, const struct samples *names)
{
    fprintf(out, "  %-*s", LABEL_WIDTH, contender->label);
    if (samples->skipped[0] != '\0') {
        fprintf(out, "  skipped: %s\n", samples->skipped);
        return;
    }
    for (unsigned m = 0; m < names->metrics; m++) {
        struct summary s;
        stats_summarise(&s, samples, samples, names->metric[m]);
        print_value(out, width_of(names->metric[m]), s.median);
    }
    fputc('\n', out);
}

static void print_own_goal(FILE *out, const struct row *row, const struct samples *samples,
                           const char *metric)
{
    for (unsigned i = 0; i < row->wefts; i++) {
        struct summary s;
        if (samples[i].skipped[0] == '\0' &&
            stats_summarise(&s, &samples[i], &samples[i], metric)) {
            fprintf(out, "  %s: %s at most %g: %s\n", row->contenders[i].label, metric,
                    row->goal_value, s.median <= row->goal_value ? "met" : "missed");
        }
    }
}

static void print_ratios(FILE *out, const struct row *row, const struct samples *samples,
                         const char *metric)
{
    fprintf(out, "  weft/this, %s\n  %-*s", metric, LABEL_WIDTH, "");
    for (unsigned i = 0; i < row->wefts; i++) {
        const char *label = label_of(&row->contenders[i]);
        fprintf(out, "  %*s", width_of(label), label);
    }
    fputc('\n', out);
    for (unsigned c = row->wefts; row->contenders[c].label != NULL; c++) {
        const struct contender *contender = &row->contenders[c];
        double goal = stats_goal(row, contender, &samples[c], metric);
        unsigned missed = 0;
        if (samples[c].skipped[0] != '\0') {
            continue;
        }
        fprintf(out, "  %-*s", LABEL_WIDTH, contender->label);
        for (unsigned i = 0; i < row->wefts; i++) {
            double ratio = stats_ratio(&samples[i], &samples[c], metric);
            fprintf(out, "  %*.3f", width_of(label_of(&row->contenders[i])), ratio);
            missed += goal > 0 && !(ratio > 0 && ratio <= goal);
        }
        if (goal > 0) {
            fprintf(out, "  at most %.2f: %s", goal, missed == 0 ? "met" : "missed");
            if (missed > 0) {
                fprintf(out, " by %u", missed);
            }
        }
        fputc('\n', out);
    }
}

void report_wide(FILE *out, const struct row *row, const struct samples *samples,
                 unsigned long long count)
{
    const struct samples *names = stats_widest(row, samples);
    fprintf(out, "\n%s: %s (%llu a round, %u rounds)\n  %-*s", row->name, row->what, count,
            names->rounds, LABEL_WIDTH, "medians");
    for (unsigned m = 0; m < names->metrics; m++) {
        fprintf(out, "  %*s", width_of(names->metric[m]), names->metric[m]);
    }
    fputc('\n', out);
    for (unsigned i = 0; row->contenders[i].label != NULL; i++) {
        print_contender(out, &row->contenders[i], &samples[i], names);
    }
    const char *metric = row->goal_metric != NULL ? row->goal_metric : names->metric[0];
    if (stats_has_own_goal(row, metric)) {
        print_own_goal(out, row, samples, metric);
    } else if (names->metrics > 0) {
        print_ratios(out, row, samples, metric);
    }
    fflush(out);
}
