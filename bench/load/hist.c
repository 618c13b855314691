// hist.c - reading a histogram.
#include "hist.h"

#include <string.h>

void hist_clear(struct hist *hist)
{
    memset(hist, 0, sizeof *hist);
    hist->min = UINT64_MAX;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    for (unsigned i = 0; i < HIST_SLOTS; i++) {
        into->at[i] += from->at[i];
    }
    into->count += from->count;
    into->sum += from->sum;
    into->min = from->min < into->min ? from->min : into->min;
    into->max = from->max > into->max ? from->max : into->max;
}

static uint64_t upper_end(unsigned slot)
{
    if (slot < (1u << HIST_BITS)) {
        return slot;
    }
    unsigned shift = (slot >> HIST_BITS) - 1;
    uint64_t step = slot - (shift << HIST_BITS);
    return ((step + 1) << shift) - 1; // the last slot's end wraps round to the greatest value
}

uint64_t hist_percentile(const struct hist *hist, double percent)
{
    double share = percent / 100 * (double)hist->count;
    uint64_t wanted = (uint64_t)share;
    wanted += (double)wanted < share; // round up: at least so many
    wanted = wanted == 0 ? 1 : wanted;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HIST_SLOTS && hist->count > 0; i++) {
        seen += hist->at[i];
        if (seen >= wanted) {
            uint64_t end = upper_end(i);
            return end < hist->max ? end : hist->max;
        }
    }
    return hist->max;
}

double hist_mean(const struct hist *hist)
{
    return hist->count > 0 ? hist->sum / (double)hist->count : 0;
}
