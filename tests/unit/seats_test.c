// A crew's carriers on the CPUs of made-up machines: quotas, clusters, names, what is said.
#include "runtime/runtime.h"

#include "runtime/options.h"
#include "support/fake_root.h"
#include "support/gather.h"

#include <errno.h>
#include <sched.h>

#include <weft/topology.h>

static struct gathered logged;
static struct weft__runtime *runtime;

/// A runtime without threads; its driver is never opened.
static int seat(int carriers, const char *map, const char *allowed)
{
    static const struct weft__driver driver = { .name = "none" };
    struct weft_options options = WEFT_OPTIONS_INIT;
    struct weft_options resolved;
    struct weft__log log;
    struct weft__cpu_set set;
    unsetenv("WEFT_CPUS");
    options.carriers = carriers;
    options.topology = WEFT_TOPOLOGY_ON;
    options.cpus = map;
    options.log = gather_log;
    options.log_ctx = &logged;
    gathered_clear(&logged);
    CHECK(weft__cpu_set_parse(&set, allowed));
    CHECK_OK(weft__options_resolve(&resolved, &log, &options));
    CHECK_OK(weft__runtime_alloc(&runtime, &resolved, &log, &driver));
    return weft__runtime_seat(runtime, root, &set);
}

/// CPU 0 is real, and others may be ours to name: pinning is only tried on what we have.
static const char *real_and_more(void)
{
    cpu_set_t set;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    if (!CPU_ISSET(0, &set)) {
        SKIP("CPU 0 is not ours");
    }
    return "0-7";
}

static void add_caches(void)
{
    for (int cpu = 0; cpu < 8; cpu++) {
        char path[128];
        (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index0/level", cpu);
        write_file(path, "3\n");
        (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index0/type", cpu);
        write_file(path, "Unified\n");
        (void)snprintf(path, sizeof path,
                       "/sys/devices/system/cpu/cpu%d/cache/index0/shared_cpu_list", cpu);
        write_file(path, cpu < 4 ? "0-3\n" : "4-7\n");
    }
}

static void limit(const char *quota)
{
    write_file("/proc/self/cgroup", "0::/\n");
    write_file("/sys/fs/cgroup/cpu.max", quota);
}

TEST(carriers_of_a_cluster_follow_one_another)
{
    make_root();
    add_caches();
    CHECK_OK(seat(7, NULL, real_and_more()));
    CHECK_EQ(logged.count, 0);
    CHECK_EQ(runtime->crew.cluster_count, 2);
    CHECK_EQ(runtime->crew.clusters[0].first, 0);
    CHECK_EQ(runtime->crew.clusters[0].count, 4);
    CHECK_EQ(runtime->crew.clusters[1].first, 4);
    CHECK_EQ(runtime->crew.clusters[1].count, 3);
    struct weft_carrier_info info = { .size = sizeof info };
    CHECK_OK(weft_carrier_info(runtime, 5, &info));
    CHECK_STR(info.name, "carrier-5-cluster1-core5");
    weft__runtime_free(runtime);
    remove_root();
}

TEST(a_quota_below_the_cpus_lets_carriers_float)
{
    make_root();
    add_caches();
    limit("250000 100000\n");
    CHECK_OK(seat(3, NULL, real_and_more()));
    CHECK_EQ(logged.count, 1);
    CHECK_LOGGED(&logged, "2 topology: the cgroup may use 3 of its 8 CPUs");
    CHECK_EQ(runtime->crew.cluster_count, 1);
    CHECK_EQ(runtime->crew.clusters[0].count, 3);
    CHECK_EQ(runtime->crew.carriers[0].cpu, -1);
    weft__runtime_free(runtime);
    // A map is the user's own decision.
    CHECK_OK(seat(3, "0,1;2", real_and_more()));
    CHECK_EQ(logged.count, 0);
    CHECK_EQ(runtime->crew.cluster_count, 2);
    weft__runtime_free(runtime);
    // As many as there are: they are ours.
    limit("800000 100000\n");
    CHECK_OK(seat(8, NULL, real_and_more()));
    CHECK_EQ(logged.count, 0);
    CHECK_EQ(runtime->crew.carriers[0].cpu, 0);
    weft__runtime_free(runtime);
    remove_root();
}

TEST(what_sysfs_does_not_say_is_said_once)
{
    make_root();
    CHECK_OK(seat(8, NULL, real_and_more()));
    CHECK_EQ(logged.count, 1);
    CHECK_LOGGED(&logged, "2 topology: sysfs says nothing about the caches of CPU 0: all carriers "
                          "are one cluster\n");
    CHECK_EQ(runtime->crew.cluster_count, 1);
    CHECK_EQ(runtime->crew.carriers[7].cpu, 7);
    weft__runtime_free(runtime);
    remove_root();
}

TEST(cpus_that_are_nowhere_online_let_carriers_float)
{
    make_root();
    write_file("/sys/devices/system/cpu/online", "64-71\n");
    CHECK_OK(seat(2, NULL, real_and_more()));
    CHECK_EQ(logged.count, 1);
    CHECK_LOGGED(&logged,
                 "2 topology: the CPUs of this process are not to be found: carriers float");
    CHECK_EQ(runtime->crew.carriers[1].cpu, -1);
    weft__runtime_free(runtime);
    remove_root();
}

TEST(nodes_are_looked_up_for_a_map_too)
{
    make_root();
    write_file("/sys/devices/system/node/online", "0-1\n");
    write_file("/sys/devices/system/node/node0/cpulist", "0-3\n");
    write_file("/sys/devices/system/node/node1/cpulist", "4-7\n");
    CHECK_OK(seat(2, "5;0", real_and_more()));
    CHECK_EQ(runtime->crew.carriers[0].node, 1);
    CHECK_EQ(runtime->crew.carriers[1].node, 0);
    weft__runtime_free(runtime);
    remove_root();
}
