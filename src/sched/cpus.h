// cpus.h - how many carriers this process should have.
#ifndef WEFT_SCHED_CPUS_H
#define WEFT_SCHED_CPUS_H

#include "base/base.h"
#include "sched/cpu_set.h"

/// The affinity mask. -EINVAL or what the kernel says: then the set is empty.
int weft__cpus_allowed(struct weft__cpu_set *set);

/// Keeps the calling thread on these CPUs.
int weft__cpus_keep_on(const struct weft__cpu_set *set);

/// The cgroup's quota in CPUs, rounded up; INT_MAX without one.
int weft__cpus_quota(const char *root);

/// CPUs in the affinity mask, capped by the cgroup's quota (rounded up), at least 1. `root` is ""
/// or, for tests, the folder under which proc/ and sys/ are found.
int weft__cpus_usable(const char *root);

#endif
