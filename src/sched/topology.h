// topology.h - which CPUs carriers are put on, and which of them share a cache.
#ifndef WEFT_SCHED_TOPOLOGY_H
#define WEFT_SCHED_TOPOLOGY_H

#include "base/base.h"
#include "sched/cpu_set.h"

struct weft_allocator;

/// A CPU that a carrier may be put on.
struct weft__cpu {
    int number;
    int core;    // the lowest CPU of its core: SMT siblings have the same
    int rank;    // how many usable siblings have a lower number
    int cluster; // CPUs that share a last-level cache, from 0 up without holes
    int node;    // NUMA node; -1: unknown
};

/// The usable CPUs in the order in which carriers take them.
struct weft__topology {
    const struct weft_allocator *allocator;
    struct weft__cpu *cpus;
    int count;
    int room;       // of the array
    char note[160]; // what could not be found out, and what is done instead; "": nothing is amiss
};

/// Where a carrier runs.
struct weft__seat {
    int cpu; // -1: any CPU of its cluster
    int cluster;
    int node;
};

/// Looks the CPUs of `allowed` up in sysfs. Cores come before their SMT siblings, and clusters one
/// after the other, so that few carriers share one cache. `root` is "" or, for tests, the folder
/// under which sys/ is found. -ENOMEM; -ENODEV: none of the CPUs is online.
int weft__topology_discover(struct weft__topology *topology, const struct weft_allocator *allocator,
                            const char *root, const struct weft__cpu_set *allowed);

/// Reads the user's own map, "0-3,8;4-7": lists of CPUs, a semicolon between clusters, in the order
/// in which carriers take them. `allowed` NULL allows everything. -EINVAL with the reason in `note`;
/// -ENOMEM.
int weft__topology_parse(struct weft__topology *topology, const struct weft_allocator *allocator,
                         const char *map, const struct weft__cpu_set *allowed);

/// Fills in core and node from sysfs, where they are to be found.
void weft__topology_look_up(struct weft__topology *topology, const char *root);

void weft__topology_fini(struct weft__topology *topology);

/// Places `carriers` carriers, the carriers of a cluster one after the other. Those that find no CPU
/// left share their cluster's. Returns the number of clusters that are used.
int weft__topology_seats(const struct weft__topology *topology, struct weft__seat *seats,
                         int carriers);

/// The CPUs of a cluster.
void weft__topology_cluster(const struct weft__topology *topology, int cluster,
                            struct weft__cpu_set *set);

/// Adds a CPU at the end. -ENOMEM.
int weft__topology_add(struct weft__topology *topology, int number, int cluster);

#endif
