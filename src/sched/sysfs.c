// sysfs.c - cores, shared caches and NUMA nodes, as the kernel's files tell them.
//
//     sys/devices/system/cpu/online                            CPUs that are running
//     sys/devices/system/cpu/cpuN/topology/core_cpus_list      SMT siblings (thread_siblings_list
//                                                              before Linux 5.3)
//     sys/devices/system/cpu/cpuN/cache/indexI/level, type, shared_cpu_list
//     sys/devices/system/node/online, nodeN/cpulist
//
// Each of them may be missing: in virtual machines, in sandboxes, on processors whose firmware is
// silent. Then less is known, nothing fails. Numbers may have holes, and a cache may be shared with
// CPUs that we may not use.
//
// A cluster is the CPUs that share the highest cache level. Where that belongs to a single core
// everywhere (Arm servers with a system cache that nobody reports) it says nothing about who is near
// to whom, and NUMA nodes are used instead.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "sched/topology.h"

#define PATH_BYTES 512
#define TEXT_BYTES 4096
#define CACHES_MAX 16

/// What one cache says of itself.
struct cache {
    int level;
    struct weft__cpu_set shared;
};

static bool read_text(char *text, const char *root, const char *folder, int number,
                      const char *name)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/sys/devices/system/%s%d/%s", root, folder, number,
                          name);
    return length > 0 && (size_t)length < sizeof path &&
           weft__sys_read_file(path, text, TEXT_BYTES) > 0;
}

static bool read_set(struct weft__cpu_set *set, const char *root, const char *folder, int number,
                     const char *name)
{
    char text[TEXT_BYTES];
    return read_text(text, root, folder, number, name) && weft__cpu_set_parse(set, text);
}

static bool read_online(struct weft__cpu_set *set, const char *root, const char *what)
{
    char path[PATH_BYTES];
    char text[TEXT_BYTES];
    int length = snprintf(path, sizeof path, "%s/sys/devices/system/%s/online", root, what);
    return length > 0 && (size_t)length < sizeof path &&
           weft__sys_read_file(path, text, sizeof text) > 0 && weft__cpu_set_parse(set, text);
}

static bool read_siblings(struct weft__cpu_set *set, const char *root, int cpu)
{
    bool read = read_set(set, root, "cpu/cpu", cpu, "topology/core_cpus_list") ||
                read_set(set, root, "cpu/cpu", cpu, "topology/thread_siblings_list");
    return read && weft__cpu_set_has(set, cpu);
}

static bool read_cache(struct cache *cache, const char *root, int cpu, int index)
{
    char text[TEXT_BYTES];
    char name[64];
    (void)snprintf(name, sizeof name, "cache/index%d/type", index);
    if (!read_text(text, root, "cpu/cpu", cpu, name) || text[0] == 'I') {
        return false; // Instruction
    }
    (void)snprintf(name, sizeof name, "cache/index%d/level", index);
    if (!read_text(text, root, "cpu/cpu", cpu, name) || sscanf(text, "%d", &cache->level) != 1) {
        return false;
    }
    (void)snprintf(name, sizeof name, "cache/index%d/shared_cpu_list", index);
    return read_set(&cache->shared, root, "cpu/cpu", cpu, name) &&
           weft__cpu_set_has(&cache->shared, cpu);
}

/// The highest cache of a CPU: the lowest CPU that shares it, or -1. `*wide` becomes true when it
/// reaches beyond one core.
static int last_level(const char *root, const struct weft__cpu *cpu, bool *wide)
{
    struct cache best = { .level = 0 };
    struct cache cache;
    for (int i = 0; i < CACHES_MAX; i++) {
        if (read_cache(&cache, root, cpu->number, i) && cache.level > best.level) {
            best = cache;
        }
    }
    if (best.level == 0) {
        return -1;
    }
    struct weft__cpu_set core = { 0 };
    if (!read_siblings(&core, root, cpu->number)) {
        weft__cpu_set_add(&core, cpu->number);
    }
    for (size_t i = 0; i < WEFT__ARRAY_LEN(core.words); i++) {
        *wide = *wide || (best.shared.words[i] & ~core.words[i]) != 0;
    }
    return weft__cpu_set_next(&best.shared, 0);
}

static void look_up_nodes(struct weft__topology *topology, const char *root)
{
    struct weft__cpu_set nodes;
    struct weft__cpu_set members;
    if (!read_online(&nodes, root, "node")) {
        return;
    }
    for (int n = weft__cpu_set_next(&nodes, 0); n >= 0; n = weft__cpu_set_next(&nodes, n + 1)) {
        bool read = read_set(&members, root, "node/node", n, "cpulist");
        for (int i = 0; read && i < topology->count; i++) {
            if (weft__cpu_set_has(&members, topology->cpus[i].number)) {
                topology->cpus[i].node = n;
            }
        }
    }
}

void weft__topology_look_up(struct weft__topology *topology, const char *root)
{
    for (int i = 0; i < topology->count; i++) {
        struct weft__cpu_set siblings;
        struct weft__cpu *cpu = &topology->cpus[i];
        if (read_siblings(&siblings, root, cpu->number)) {
            cpu->core = weft__cpu_set_next(&siblings, 0);
        }
    }
    look_up_nodes(topology, root);
}

/// Negative, 0 or positive, as the first pair of numbers that differ.
static int compare(const int *a, const int *b, int count)
{
    for (int i = 0; i < count; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

static int by_core(const void *left, const void *right)
{
    const struct weft__cpu *a = left;
    const struct weft__cpu *b = right;
    return compare((int[]){ a->core, a->number }, (int[]){ b->core, b->number }, 2);
}

static int by_cluster(const void *left, const void *right)
{
    const struct weft__cpu *a = left;
    const struct weft__cpu *b = right;
    return compare((int[]){ a->cluster, a->number }, (int[]){ b->cluster, b->number }, 2);
}

static int by_preference(const void *left, const void *right)
{
    const struct weft__cpu *a = left;
    const struct weft__cpu *b = right;
    return compare((int[]){ a->rank, a->cluster, a->number },
                   (int[]){ b->rank, b->cluster, b->number }, 3);
}

/// Turns whatever `cluster` holds for each CPU, the same for those that belong together, into
/// numbers from 0 up, and puts the CPUs in order.
static void put_in_order(struct weft__topology *topology)
{
    struct weft__cpu *cpus = topology->cpus;
    size_t count = (size_t)topology->count;
    qsort(cpus, count, sizeof *cpus, by_core);
    for (size_t i = 1; i < count; i++) {
        cpus[i].rank = cpus[i].core == cpus[i - 1].core ? cpus[i - 1].rank + 1 : 0;
    }
    qsort(cpus, count, sizeof *cpus, by_cluster);
    int cluster = 0;
    int key = cpus[0].cluster;
    for (size_t i = 0; i < count; i++) {
        cluster += cpus[i].cluster != key;
        key = cpus[i].cluster;
        cpus[i].cluster = cluster;
    }
    qsort(cpus, count, sizeof *cpus, by_preference);
}

/// Without caches to go by: NUMA nodes, if every CPU has one, else one cluster.
static void use_nodes(struct weft__topology *topology, const char *why)
{
    bool known = true;
    for (int i = 0; i < topology->count; i++) {
        known = known && topology->cpus[i].node >= 0;
    }
    for (int i = 0; i < topology->count; i++) {
        topology->cpus[i].cluster = known ? topology->cpus[i].node : 0;
    }
    if (topology->count > 1) {
        (void)snprintf(topology->note, sizeof topology->note, "%s: %s", why,
                       known ? "clusters are NUMA nodes" : "all carriers are one cluster");
    }
}

static void find_clusters(struct weft__topology *topology, const char *root)
{
    bool wide = false;
    char why[80];
    for (int i = 0; i < topology->count; i++) {
        struct weft__cpu *cpu = &topology->cpus[i];
        cpu->cluster = last_level(root, cpu, &wide);
        if (cpu->cluster < 0) {
            (void)snprintf(why, sizeof why, "sysfs says nothing about the caches of CPU %d",
                           cpu->number);
            use_nodes(topology, why);
            return;
        }
    }
    if (!wide) {
        use_nodes(topology, "sysfs knows of no cache that several cores share");
    }
}

int weft__topology_discover(struct weft__topology *topology, const struct weft_allocator *allocator,
                            const char *root, const struct weft__cpu_set *allowed)
{
    *topology = (struct weft__topology){ .allocator = allocator };
    struct weft__cpu_set online;
    bool known = read_online(&online, root, "cpu");
    for (int n = weft__cpu_set_next(allowed, 0); n >= 0; n = weft__cpu_set_next(allowed, n + 1)) {
        int rc = !known || weft__cpu_set_has(&online, n) ? weft__topology_add(topology, n, 0) : 0;
        if (rc < 0) {
            weft__topology_fini(topology);
            return rc;
        }
    }
    if (topology->count == 0) {
        return -ENODEV;
    }
    weft__topology_look_up(topology, root);
    find_clusters(topology, root);
    put_in_order(topology);
    return 0;
}
