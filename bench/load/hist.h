// hist.h - a histogram of latencies: every value within 0.8%, whatever its size.
//
// Each power of two is cut into 128 equal steps, so the relative error is the same for nanoseconds
// and for minutes, recording is a shift and an increment, and histograms can be added up.
#ifndef WEFT_BENCH_LOAD_HIST_H
#define WEFT_BENCH_LOAD_HIST_H

#include <stdint.h>

#define HIST_BITS 7
#define HIST_SLOTS ((64 - HIST_BITS + 1) << HIST_BITS)

struct hist {
    uint64_t count, min, max;
    double sum;
    uint64_t at[HIST_SLOTS];
};

void hist_clear(struct hist *hist);

static inline unsigned hist_slot(uint64_t value)
{
    if (value < (1u << HIST_BITS)) {
        return (unsigned)value;
    }
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HIST_BITS;
    return (shift << HIST_BITS) + (unsigned)(value >> shift);
}

/// Counts `value` as often as `times` says.
static inline void hist_add(struct hist *hist, uint64_t value, uint64_t times)
{
    hist->at[hist_slot(value)] += times;
    hist->count += times;
    hist->sum += (double)value * (double)times;
    hist->min = value < hist->min ? value : hist->min;
    hist->max = value > hist->max ? value : hist->max;
}

void hist_merge(struct hist *into, const struct hist *from);

/// The value that `percent` of all values do not exceed: the upper end of its step, and never more
/// than the greatest value seen. 0 if there are none.
uint64_t hist_percentile(const struct hist *hist, double percent);

double hist_mean(const struct hist *hist);

#endif
