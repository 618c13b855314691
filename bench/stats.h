// stats.h - medians, ratios and goals of one row.
#ifndef WEFT_BENCH_STATS_H
#define WEFT_BENCH_STATS_H

#include "report.h"

struct summary {
    double median, min, max;
    double weft_ratio; // median over the rounds of weft / this contender; 0 without weft
};

/// False: the contender did not measure this metric.
bool stats_summarise(struct summary *out, const struct samples *samples, const struct samples *weft,
                     const char *metric);

/// The median over the rounds of weft / other; 0 if one of them has none.
double stats_ratio(const struct samples *weft, const struct samples *other, const char *metric);

/// What weft / this contender may be at most, if the row's goal is about this metric; 0: no goal.
double stats_goal(const struct row *row, const struct contender *contender,
                  const struct samples *samples, const char *metric);

/// Whether the row sets a limit to weft's own value of this metric.
bool stats_has_own_goal(const struct row *row, const char *metric);

/// The contender that knows the most metrics names them: weft may be the one that was skipped.
const struct samples *stats_widest(const struct row *row, const struct samples *samples);

/// The text report of a row with several kinds of weft: a line for each contender, and the ratios of
/// each kind of weft to each of the others.
void report_wide(FILE *out, const struct row *row, const struct samples *samples,
                 unsigned long long count);

#endif
