// weft/topology.h - carriers on CPUs: pinning, clusters that share a cache, NUMA nodes.
//
// By default carriers float: the kernel moves them from CPU to CPU as it likes. With
// weft_options.topology (WEFT_TOPOLOGY=on) each is kept on one CPU of the affinity mask, cores before
// their SMT siblings, and the carriers whose CPUs share a last-level cache form a cluster. A map of
// one's own says which CPUs and which clusters: weft_options.cpus (WEFT_CPUS="0-3,8;4-7").
//
// What cannot be had is left out, and said once to the log, as a warning: without information about
// caches, clusters are NUMA nodes, or all carriers are one; carriers for which there is no CPU left
// float inside a cluster; and all float where the kernel forbids pinning, or where the cgroup's quota
// is smaller than its CPUs, because those are then shared with others. (A map overrides the quota.)
//
// Threads and processes that a virtual thread starts inherit the one CPU of its carrier, as always
// in Linux. The threads of weft_blocking() do not.
#ifndef WEFT_TOPOLOGY_H
#define WEFT_TOPOLOGY_H

#include <weft/base.h>
#include <weft/runtime.h>

WEFT_BEGIN_DECLS

#define WEFT_CARRIER_NAME_BYTES 48

/// Where a carrier runs.
struct weft_carrier_info {
    size_t size;       ///< sizeof(struct weft_carrier_info), set by the caller
    int cpu;           ///< the CPU that it is kept on; -1: it floats
    int node;          ///< its NUMA node; -1: unknown
    int cluster;       ///< from 0 up
    int cluster_first; ///< the carriers of its cluster are this one
    int cluster_count; ///< and those that follow, so many in all
    /// "carrier-1-cluster0-core3", where the core is the number of the CPU; "carrier-1-cluster0" if it
    /// floats in its cluster, "carrier-1" without a topology. Dumps have it, too. The kernel's name of
    /// the thread is "carrier-1" always, because that may have 15 characters only.
    char name[WEFT_CARRIER_NAME_BYTES];
};

/// Says where a carrier of the runtime runs.
///
/// Call from:  any thread.
/// Errors:     -EINVAL  no such carrier, or `info->size` is not set
WEFT_API int weft_carrier_info(const weft_runtime *runtime, int carrier,
                               struct weft_carrier_info *info);

/// How many clusters the runtime's carriers form; 1 without a topology.
WEFT_API int weft_runtime_clusters(const weft_runtime *runtime);

WEFT_END_DECLS

#endif
