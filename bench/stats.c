// stats.c - medians, ratios and goals of one row.
#include "stats.h"

#include <stdlib.h>
#include <string.h>

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

double stats_ratio(const struct samples *weft, const struct samples *other, const char *metric)
{
    int mine = metric_index(weft, metric), theirs = metric_index(other, metric);
    unsigned rounds = other->rounds < weft->rounds ? other->rounds : weft->rounds;
    if (mine < 0 || theirs < 0 || rounds == 0) {
        return 0;
    }
    double ratios[RUNS_MAX], low, high;
    for (unsigned i = 0; i < rounds; i++) {
        double value = other->value[theirs][i];
        ratios[i] = value > 0 ? weft->value[mine][i] / value : 0;
    }
    return median_of(ratios, rounds, &low, &high);
}

bool stats_summarise(struct summary *out, const struct samples *samples, const struct samples *weft,
                     const char *metric)
{
    int mine = metric_index(samples, metric);
    *out = (struct summary){ 0 };
    if (mine < 0 || samples->rounds == 0) {
        return false;
    }
    out->median = median_of(samples->value[mine], samples->rounds, &out->min, &out->max);
    out->weft_ratio = samples != weft ? stats_ratio(weft, samples, metric) : 0;
    return true;
}

// Whether the contender's goal, or weft's own, is about this metric.
double stats_goal(const struct row *row, const struct contender *contender,
                  const struct samples *samples, const char *metric)
{
    const char *about = row->goal_metric != NULL ? row->goal_metric : samples->metric[0];
    if (strcmp(about, "*") == 0) {
        return contender->goal;
    }
    return strcmp(about, metric) == 0 ? contender->goal : 0;
}

bool stats_has_own_goal(const struct row *row, const char *metric)
{
    return row->goal_value > 0 && row->goal_metric != NULL && strcmp(row->goal_metric, metric) == 0;
}

// The contender that knows the most metrics names them: weft may be the one that was skipped.
const struct samples *stats_widest(const struct row *row, const struct samples *samples)
{
    const struct samples *best = samples;
    for (unsigned i = 0; row->contenders[i].label != NULL; i++) {
        if (samples[i].metrics > best->metrics) {
            best = &samples[i];
        }
    }
    return best;
}
