// topology.c - the usable CPUs as an array, from a user's map, and carriers put on them.
#include "sched/topology.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

int weft__topology_add(struct weft__topology *topology, int number, int cluster)
{
    if (topology->count == topology->room) {
        int room = topology->room > 0 ? 2 * topology->room : WEFT__SIZED(64, 2);
        size_t size = (size_t)room * sizeof *topology->cpus;
        struct weft__cpu *cpus = weft__alloc(topology->allocator, size, _Alignof(struct weft__cpu));
        if (cpus == NULL) {
            return -ENOMEM;
        }
        if (topology->count > 0) {
            memcpy(cpus, topology->cpus, (size_t)topology->count * sizeof *cpus);
        }
        weft__free(topology->allocator, topology->cpus, (size_t)topology->room * sizeof *cpus);
        topology->cpus = cpus;
        topology->room = room;
    }
    topology->cpus[topology->count++] = (struct weft__cpu){
        .number = number,
        .core = number,
        .cluster = cluster,
        .node = -1,
    };
    return 0;
}

void weft__topology_fini(struct weft__topology *topology)
{
    weft__free(topology->allocator, topology->cpus,
               (size_t)topology->room * sizeof *topology->cpus);
    topology->cpus = NULL;
    topology->room = 0;
    topology->count = 0;
}

/// Adds one element of the map. -EINVAL with the reason in the note.
static int add_range(struct weft__topology *topology, int first, int last, int cluster,
                     const struct weft__cpu_set *allowed, struct weft__cpu_set *seen)
{
    for (int cpu = first; cpu <= last; cpu++) {
        const char *reason = weft__cpu_set_has(seen, cpu) ? "stands in it twice" : NULL;
        if (allowed != NULL && !weft__cpu_set_has(allowed, cpu)) {
            reason = "is not one that this process may use";
        }
        if (reason != NULL) {
            (void)snprintf(topology->note, sizeof topology->note, "CPU %d %s", cpu, reason);
            return -EINVAL;
        }
        weft__cpu_set_add(seen, cpu);
        int rc = weft__topology_add(topology, cpu, cluster);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int weft__topology_parse(struct weft__topology *topology, const struct weft_allocator *allocator,
                         const char *map, const struct weft__cpu_set *allowed)
{
    *topology = (struct weft__topology){ .allocator = allocator };
    struct weft__cpu_set seen = { 0 };
    const char *at = map;
    int cluster = 0;
    int rc = 0;
    for (;;) {
        int first;
        int last;
        bool good = weft__cpu_range(&at, &first, &last) &&
                    (*at == '\0' || *at == ',' || *at == ';');
        if (!good) {
            (void)snprintf(topology->note, sizeof topology->note,
                           "it must be lists of CPUs like 0-3,8 below %d, with a semicolon between "
                           "clusters; look at character %zu",
                           WEFT__CPUS_MAX, (size_t)(at - map) + 1);
            rc = -EINVAL;
        } else {
            rc = add_range(topology, first, last, cluster, allowed, &seen);
        }
        if (rc < 0) {
            weft__topology_fini(topology);
            return rc;
        }
        if (*at == '\0') {
            return 0;
        }
        cluster += *at++ == ';';
    }
}

int weft__topology_seats(const struct weft__topology *topology, struct weft__seat *seats,
                         int carriers)
{
    const struct weft__cpu *cpus = topology->cpus;
    int pinned = carriers < topology->count ? carriers : topology->count;
    int clusters = 0;
    for (int i = 0; i < pinned; i++) {
        clusters = cpus[i].cluster >= clusters ? cpus[i].cluster + 1 : clusters;
    }
    int used = 0;
    for (int cluster = 0; cluster < clusters; cluster++) {
        int node = -1;
        for (int i = 0; i < pinned; i++) {
            if (cpus[i].cluster == cluster) {
                seats[used++] = (struct weft__seat){ cpus[i].number, cluster, cpus[i].node };
                node = cpus[i].node;
            }
        }
        // Of those that are left over each cluster takes one in turn.
        for (int left = cluster; left < carriers - pinned; left += clusters) {
            seats[used++] = (struct weft__seat){ -1, cluster, node };
        }
    }
    return clusters;
}

void weft__topology_cluster(const struct weft__topology *topology, int cluster,
                            struct weft__cpu_set *set)
{
    *set = (struct weft__cpu_set){ 0 };
    for (int i = 0; i < topology->count; i++) {
        if (topology->cpus[i].cluster == cluster) {
            weft__cpu_set_add(set, topology->cpus[i].number);
        }
    }
}
