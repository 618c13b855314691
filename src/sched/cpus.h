// cpus.h - how many carriers this process should have.
#ifndef WEFT_SCHED_CPUS_H
#define WEFT_SCHED_CPUS_H

#include "base/base.h"

/// CPUs in the affinity mask, capped by the cgroup's quota (rounded up), at least 1. `root` is ""
/// or, for tests, the folder under which proc/ and sys/ are found.
int weft__cpus_usable(const char *root);

#endif
