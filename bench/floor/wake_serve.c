// wake_serve.c - a bare wake-up mechanism as a contender of weft-bench.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../contender.h"
#include "wake.h"

static const struct wake_mechanism *chosen;

static int run(struct contender_result *out, uint64_t count)
{
    int cpus[2];
    if (contender_cpus(cpus, 2) < 2) {
        return -EOPNOTSUPP; // needs two CPUs
    }
    struct wake_result r;
    int rc = wake_measure(&r, chosen, cpus, (unsigned)count);
    if (rc < 0) {
        return rc;
    }
    contender_add(out, "round_trip_ns", r.round_trip_ns);
    contender_add(out, "cpu_ns_per_wake", r.cpu_ns);
    return 0;
}

bool wake_serve(const char *mechanism, const char *count)
{
    for (unsigned i = 0; wake_mechanisms[i] != NULL; i++) {
        if (strcmp(wake_mechanisms[i]->name, mechanism) == 0) {
            struct contender_bench bench = { mechanism, run };
            chosen = wake_mechanisms[i];
            contender_serve(&bench, strtoull(count, NULL, 10));
            return true;
        }
    }
    return false;
}
