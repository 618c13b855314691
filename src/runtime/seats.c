// seats.c - carriers are put on CPUs, and say where they are.
//
// Everything here is decided before the carriers' threads exist, and what is missing makes carriers
// float and is said once. Only a map that the user wrote and that does not fit is an error.
#include <errno.h>
#include <string.h>

#include <weft/topology.h>

#include "base/alloc.h"
#include "blocking/pool.h"
#include "runtime/runtime.h"
#include "sched/cpus.h"

static void warn(struct weft__runtime *runtime, const char *what, const char *then)
{
    weft__log(&runtime->log, WEFT_LOG_WARN, "topology", "%s%s%s", what, then[0] != '\0' ? ": " : "",
              then);
}

static int from_map(struct weft__runtime *runtime, const char *root,
                    const struct weft__cpu_set *allowed)
{
    struct weft__topology *topology = &runtime->crew.topology;
    const char *map = runtime->options.cpus;
    int rc = weft__topology_parse(topology, runtime->options.allocator, map, allowed);
    if (rc == -EINVAL) {
        weft__log(&runtime->log, WEFT_LOG_ERROR, "options",
                  "weft_options.cpus (WEFT_CPUS) = \"%.64s\" is not allowed: %s", map,
                  topology->note);
    } else if (rc == 0 && allowed != NULL) {
        weft__topology_look_up(topology, root);
    }
    return rc;
}

/// Leaves an empty topology behind when carriers have to float.
static int from_machine(struct weft__runtime *runtime, const char *root,
                        const struct weft__cpu_set *allowed)
{
    struct weft__topology *topology = &runtime->crew.topology;
    int rc = weft__topology_discover(topology, runtime->options.allocator, root, allowed);
    if (rc == -ENODEV) {
        warn(runtime, "the CPUs of this process are not to be found", "carriers float");
        return 0;
    }
    if (rc < 0) {
        return rc;
    }
    int quota = weft__cpus_quota(root);
    if (quota < topology->count) {
        weft__log(&runtime->log, WEFT_LOG_WARN, "topology",
                  "the cgroup may use %d of its %d CPUs at a time and shares them with others: "
                  "carriers float; to pin them nevertheless set WEFT_CPUS",
                  quota, topology->count);
        weft__topology_fini(topology);
    } else if (topology->note[0] != '\0') {
        warn(runtime, topology->note, "");
    }
    return 0;
}

/// Whether threads may be pinned at all: asks for what the caller has already.
static bool may_pin(struct weft__runtime *runtime, const struct weft__cpu_set *allowed)
{
    int rc = weft__cpus_keep_on(allowed);
    if (rc < 0) {
        warn(runtime, "threads cannot be pinned, carriers float", strerror(-rc));
    }
    return rc >= 0;
}

static int take_seats(struct weft__runtime *runtime)
{
    struct weft__crew *crew = &runtime->crew;
    const struct weft_allocator *allocator = runtime->options.allocator;
    size_t size = (size_t)crew->capacity * sizeof(struct weft__seat);
    struct weft__seat *seats = weft__alloc(allocator, size, _Alignof(struct weft__seat));
    if (seats == NULL) {
        return -ENOMEM;
    }
    int most = crew->capacity - (crew->spare != NULL); // that one floats
    (void)weft__topology_seats(&crew->topology, seats, most);
    weft__crew_seat(crew, seats);
    weft__free(allocator, seats, size);
    int count = weft__crew_active(crew);
    if (count > crew->topology.count) {
        weft__log(&runtime->log, WEFT_LOG_WARN, "topology",
                  "%d carriers for %d CPUs: %d have none of their own", count, crew->topology.count,
                  count - crew->topology.count);
    }
    return 0;
}

int weft__runtime_seat(struct weft__runtime *runtime, const char *root,
                       const struct weft__cpu_set *allowed)
{
    struct weft_options *options = &runtime->options;
    struct weft__topology *topology = &runtime->crew.topology;
    int rc = 0;
    if (options->cpus != NULL && options->topology != WEFT_TOPOLOGY_OFF) {
        rc = from_map(runtime, root, allowed);
    } else if (options->topology == WEFT_TOPOLOGY_ON && allowed != NULL) {
        rc = from_machine(runtime, root, allowed);
    }
    options->cpus = NULL; // was borrowed
    if (rc < 0 || topology->count == 0) {
        return rc;
    }
    if (allowed != NULL && !may_pin(runtime, allowed)) {
        weft__topology_fini(topology);
        return 0;
    }
    if (allowed != NULL) {
        runtime->allowed = *allowed;
        weft__blocking_keep_on(runtime->crew.blocking, &runtime->allowed);
    }
    return take_seats(runtime);
}

void weft__carrier_pin(struct weft__carrier *carrier)
{
    struct weft__runtime *runtime = weft__runtime_of(carrier->crew);
    struct weft__cpu_set set = { 0 };
    if (carrier->crew->topology.count == 0 || carrier->aside) {
        return;
    }
    if (carrier->cpu >= 0) {
        weft__cpu_set_add(&set, carrier->cpu);
    } else {
        weft__topology_cluster(&carrier->crew->topology, carrier->cluster, &set);
    }
    int rc = weft__cpus_keep_on(&set);
    if (rc < 0) {
        if (!atomic_exchange_explicit(&runtime->pin_failed, true, memory_order_relaxed)) {
            weft__log(&runtime->log, WEFT_LOG_WARN, "topology",
                      "carrier %d cannot be kept on CPU %d and floats: %s", carrier->number,
                      carrier->cpu, strerror(-rc));
        }
        carrier->cpu = -1;
    }
}

int weft_carrier_info(const weft_runtime *runtime, int number, struct weft_carrier_info *info)
{
    const struct weft__crew *crew = &runtime->crew;
    if (info->size != sizeof *info || !weft__crew_has(crew, number)) {
        return -EINVAL;
    }
    const struct weft__carrier *carrier = &crew->carriers[number];
    const struct weft__cluster *cluster = &crew->clusters[carrier->cluster];
    int active = weft__crew_active(crew);
    int end = active > number ? active : number + 1;
    end = end < cluster->first + cluster->count ? end : cluster->first + cluster->count;
    *info = (struct weft_carrier_info){
        .size = sizeof *info,
        .cpu = carrier->cpu,
        .node = carrier->node,
        .cluster = carrier->cluster,
        .cluster_first = cluster->first,
        .cluster_count = end - cluster->first,
    };
    weft__carrier_name(carrier, info->name, sizeof info->name);
    return 0;
}

int weft_runtime_clusters(const weft_runtime *runtime)
{
    return runtime->crew.cluster_count;
}
