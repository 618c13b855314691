// cpu_set.h - sets of CPUs and the lists in which the kernel and users write them.
#ifndef WEFT_SCHED_CPU_SET_H
#define WEFT_SCHED_CPU_SET_H

#include "base/base.h"

/// More than any kernel is built for today.
#define WEFT__CPUS_MAX 8192

/// In the layout that the kernel's affinity calls use.
struct weft__cpu_set {
    unsigned long words[WEFT__CPUS_MAX / (8 * sizeof(unsigned long))];
};

static inline bool weft__cpu_set_has(const struct weft__cpu_set *set, int cpu)
{
    unsigned bits = 8 * sizeof(unsigned long);
    return (set->words[(unsigned)cpu / bits] >> ((unsigned)cpu % bits) & 1) != 0;
}

static inline void weft__cpu_set_add(struct weft__cpu_set *set, int cpu)
{
    unsigned bits = 8 * sizeof(unsigned long);
    set->words[(unsigned)cpu / bits] |= 1UL << ((unsigned)cpu % bits);
}

/// The lowest CPU of the set that is not below `from`, or -1.
int weft__cpu_set_next(const struct weft__cpu_set *set, int from);

int weft__cpu_set_count(const struct weft__cpu_set *set);

/// Reads one element of a list, "5" or "0-3", at `*at` and moves behind it. False: there is none, or
/// it runs backwards, or past WEFT__CPUS_MAX.
bool weft__cpu_range(const char **at, int *first, int *last);

/// Reads a list like "0-3,8" up to the end of its line. False: it is not one; what could be read of
/// it is in the set.
bool weft__cpu_set_parse(struct weft__cpu_set *set, const char *text);

#endif
