// Clusters, cores and nodes from made-up machines, maps of users, and where carriers are put.
#include "sched/topology.h"

#include "support/fake_root.h"

#include <errno.h>
#include <stdarg.h>

#define CPU "/sys/devices/system/cpu"
#define NODE "/sys/devices/system/node"
#define MOST 1024

static struct weft__topology found;
static struct weft__seat seats[MOST];

/// One file of one CPU.
__attribute__((format(printf, 3, 4))) static void cpu_file(int cpu, const char *name,
                                                           const char *format, ...)
{
    char path[256];
    char text[256];
    va_list args;
    (void)snprintf(path, sizeof path, CPU "/cpu%d/%s", cpu, name);
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    write_file(path, text);
}

static void add_cache(int cpu, int index, int level, const char *type, const char *shared)
{
    char name[64];
    (void)snprintf(name, sizeof name, "cache/index%d/level", index);
    cpu_file(cpu, name, "%d\n", level);
    (void)snprintf(name, sizeof name, "cache/index%d/type", index);
    cpu_file(cpu, name, "%s\n", type);
    (void)snprintf(name, sizeof name, "cache/index%d/shared_cpu_list", index);
    cpu_file(cpu, name, "%s\n", shared);
}

/// A CPU as servers have them: its siblings, level 1 and 2 of its core, level 3 of many.
static void add_cpu(int cpu, const char *siblings, const char *last_level)
{
    cpu_file(cpu, "topology/core_cpus_list", "%s\n", siblings);
    add_cache(cpu, 0, 1, "Data", siblings);
    add_cache(cpu, 1, 1, "Instruction", siblings);
    add_cache(cpu, 2, 2, "Unified", siblings);
    if (last_level != NULL) {
        add_cache(cpu, 3, 3, "Unified", last_level);
    }
}

/// `clusters` caches of `cores` cores each. With SMT the siblings are numbered after all cores.
static void add_machine(int clusters, int cores, bool smt)
{
    int total = clusters * cores;
    char text[64];
    (void)snprintf(text, sizeof text, "0-%d\n", total * (smt ? 2 : 1) - 1);
    write_file(CPU "/online", text);
    for (int cpu = 0; cpu < total; cpu++) {
        char siblings[32];
        char shared[64];
        int first = cpu / cores * cores;
        if (smt) {
            (void)snprintf(siblings, sizeof siblings, "%d,%d", cpu, cpu + total);
            (void)snprintf(shared, sizeof shared, "%d-%d,%d-%d", first, first + cores - 1,
                           first + total, first + total + cores - 1);
            add_cpu(cpu + total, siblings, shared);
        } else {
            (void)snprintf(siblings, sizeof siblings, "%d", cpu);
            (void)snprintf(shared, sizeof shared, "%d-%d", first, first + cores - 1);
        }
        add_cpu(cpu, siblings, shared);
    }
}

static int discover(const char *allowed)
{
    struct weft__cpu_set set;
    CHECK(weft__cpu_set_parse(&set, allowed));
    return weft__topology_discover(&found, NULL, root, &set);
}

/// The carriers as "cluster:cpu", in order.
static const char *seated(int carriers)
{
    static char text[16 * MOST];
    size_t used = 0;
    (void)weft__topology_seats(&found, seats, carriers);
    for (int i = 0; i < carriers; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d:%d", i > 0 ? " " : "",
                                 seats[i].cluster, seats[i].cpu);
    }
    return text;
}

/// Promises that hold on every machine: no CPU twice, carriers of a cluster one after the other,
/// clusters numbered without holes.
static void check_seats(int carriers)
{
    struct weft__cpu_set taken = { 0 };
    int clusters = weft__topology_seats(&found, seats, carriers);
    CHECK_EQ(seats[0].cluster, 0);
    CHECK_EQ(seats[carriers - 1].cluster, clusters - 1);
    for (int i = 0; i < carriers; i++) {
        if (i > 0) {
            CHECK_GE(seats[i].cluster, seats[i - 1].cluster);
            CHECK_LE(seats[i].cluster, seats[i - 1].cluster + 1);
        }
        if (seats[i].cpu >= 0) {
            CHECK(!weft__cpu_set_has(&taken, seats[i].cpu));
            weft__cpu_set_add(&taken, seats[i].cpu);
        }
    }
    int pinned = carriers < found.count ? carriers : found.count;
    CHECK_EQ(weft__cpu_set_count(&taken), pinned);
}

TEST(two_clusters_of_eight)
{
    make_root();
    add_machine(2, 8, false);
    CHECK_OK(discover("0-15"));
    CHECK_EQ(found.count, 16);
    CHECK_STR(found.note, "");
    CHECK_STR(seated(3), "0:0 0:1 0:2");
    CHECK_STR(seated(9), "0:0 0:1 0:2 0:3 0:4 0:5 0:6 0:7 1:8");
    for (int carriers = 1; carriers <= 40; carriers++) {
        check_seats(carriers);
    }
    struct weft__cpu_set set;
    weft__topology_cluster(&found, 1, &set);
    CHECK_EQ(weft__cpu_set_count(&set), 8);
    CHECK_EQ(weft__cpu_set_next(&set, 0), 8);
    weft__topology_fini(&found);
    remove_root();
}

TEST(eight_clusters_of_sixteen)
{
    make_root();
    add_machine(8, 16, false);
    CHECK_OK(discover("0-127"));
    CHECK_EQ(weft__topology_seats(&found, seats, 128), 8);
    for (int i = 0; i < 128; i++) {
        CHECK_EQ(seats[i].cpu, i);
        CHECK_EQ(seats[i].cluster, i / 16);
    }
    CHECK_EQ(weft__topology_seats(&found, seats, 17), 2);
    check_seats(300);
    weft__topology_fini(&found);
    remove_root();
}

TEST(cores_are_taken_before_their_siblings)
{
    make_root();
    add_machine(2, 2, true); // cluster 0: 0,1,4,5; cluster 1: 2,3,6,7
    CHECK_OK(discover("0-7"));
    CHECK_STR(seated(2), "0:0 0:1");
    CHECK_STR(seated(4), "0:0 0:1 1:2 1:3");
    CHECK_STR(seated(5), "0:0 0:1 0:4 1:2 1:3");
    CHECK_STR(seated(8), "0:0 0:1 0:4 0:5 1:2 1:3 1:6 1:7");
    weft__topology_fini(&found);
    // A core whose first thread is not ours is a core like any other.
    CHECK_OK(discover("1,4-5"));
    CHECK_STR(seated(3), "0:1 0:4 0:5");
    CHECK_STR(seated(2), "0:1 0:4");
    weft__topology_fini(&found);
    remove_root();
}

TEST(neighbouring_siblings_are_known_by_the_old_name_too)
{
    make_root();
    for (int cpu = 0; cpu < 4; cpu++) {
        cpu_file(cpu, "topology/thread_siblings_list", "%d-%d\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
        add_cache(cpu, 0, 2, "Unified", "0-3");
    }
    CHECK_OK(discover("0-3"));
    CHECK_STR(seated(2), "0:0 0:2");
    CHECK_STR(found.note, "");
    weft__topology_fini(&found);
    remove_root();
}

TEST(carriers_without_a_cpu_share_those_of_a_cluster)
{
    make_root();
    add_machine(2, 2, false);
    CHECK_OK(discover("0-3"));
    CHECK_STR(seated(7), "0:0 0:1 0:-1 0:-1 1:2 1:3 1:-1");
    weft__topology_fini(&found);
    remove_root();
}

TEST(cpus_that_are_offline_are_left_out)
{
    make_root();
    add_machine(2, 4, false);
    write_file(CPU "/online", "0-1,3,6-7\n");
    CHECK_OK(discover("0-7"));
    CHECK_STR(seated(5), "0:0 0:1 0:3 1:6 1:7");
    weft__topology_fini(&found);
    CHECK_EQ(discover("4-5"), -ENODEV);
    remove_root();
}

TEST(a_mask_may_leave_out_a_cluster_or_most_of_one)
{
    make_root();
    add_machine(3, 4, false);
    CHECK_OK(discover("8-11"));
    CHECK_STR(seated(4), "0:8 0:9 0:10 0:11");
    weft__topology_fini(&found);
    CHECK_OK(discover("0-3,11"));
    CHECK_STR(seated(5), "0:0 0:1 0:2 0:3 1:11");
    weft__topology_fini(&found);
    CHECK_OK(discover("1,6,9")); // one CPU of each: the caches are still wide
    CHECK_STR(seated(3), "0:1 1:6 2:9");
    CHECK_STR(found.note, "");
    weft__topology_fini(&found);
    remove_root();
}

TEST(numbers_may_have_holes)
{
    make_root();
    write_file(CPU "/online", "2,40,700,8191\n");
    add_cpu(2, "2", "2,8191");
    add_cpu(8191, "8191", "2,8191");
    add_cpu(40, "40", "40,700");
    add_cpu(700, "700", "40,700");
    CHECK_OK(discover("0-8191"));
    CHECK_STR(seated(4), "0:2 0:8191 1:40 1:700");
    weft__topology_fini(&found);
    remove_root();
}

static void add_nodes(void)
{
    write_file(NODE "/online", "0,2\n");
    write_file(NODE "/node0/cpulist", "0-1\n");
    write_file(NODE "/node2/cpulist", "2-3\n");
}

TEST(nodes_are_found)
{
    make_root();
    add_machine(2, 2, false);
    add_nodes();
    CHECK_OK(discover("0-3"));
    (void)weft__topology_seats(&found, seats, 6);
    static const int nodes[] = { 0, 0, 0, 2, 2, 2 };
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(seats[i].node, nodes[i]);
    }
    weft__topology_fini(&found);
    remove_root();
}

TEST(without_caches_nodes_are_clusters)
{
    make_root();
    add_nodes();
    CHECK_OK(discover("0-3"));
    CHECK_STR(seated(4), "0:0 0:1 1:2 1:3");
    CHECK_STR(found.note, "sysfs says nothing about the caches of CPU 0: clusters are NUMA nodes");
    weft__topology_fini(&found);
    remove_root();
}

TEST(without_anything_there_is_one_cluster)
{
    make_root();
    CHECK_OK(discover("3,5"));
    CHECK_STR(seated(3), "0:3 0:5 0:-1");
    CHECK_STR(found.note,
              "sysfs says nothing about the caches of CPU 3: all carriers are one cluster");
    CHECK_EQ(seats[0].node, -1);
    weft__topology_fini(&found);
    CHECK_OK(discover("5"));
    CHECK_STR(found.note, ""); // a single CPU misses nothing
    weft__topology_fini(&found);
    remove_root();
}

TEST(caches_of_single_cores_make_no_clusters)
{
    make_root();
    for (int cpu = 0; cpu < 4; cpu++) {
        char siblings[32];
        (void)snprintf(siblings, sizeof siblings, "%d-%d", cpu / 2 * 2, cpu / 2 * 2 + 1);
        add_cpu(cpu, siblings, NULL);
    }
    CHECK_OK(discover("0-3"));
    CHECK_STR(seated(4), "0:0 0:2 0:1 0:3");
    CHECK_STR(found.note,
              "sysfs knows of no cache that several cores share: all carriers are one cluster");
    weft__topology_fini(&found);
    remove_root();
}

TEST(rubbish_in_sysfs_is_as_good_as_nothing)
{
    static const char *const rubbish[] = {
        "\n", "x", "3-1\n", "0,\n", "9999999999", "-1", "0-8192"
    };
    for (size_t i = 0; i < sizeof rubbish / sizeof rubbish[0]; i++) {
        make_root();
        add_machine(2, 2, false);
        cpu_file(3, "cache/index3/shared_cpu_list", "%s", rubbish[i]);
        cpu_file(3, "cache/index2/level", "%s", rubbish[i]);
        cpu_file(1, "topology/core_cpus_list", "%s", rubbish[i]);
        write_file(CPU "/online", rubbish[i]);
        write_file(NODE "/online", rubbish[i]);
        CHECK_OK(discover("0-3"));
        check_seats(4);
        weft__topology_fini(&found);
        remove_root();
    }
}

static const char *mapped(const char *map, int carriers)
{
    CHECK_OK(weft__topology_parse(&found, NULL, map, NULL));
    const char *text = seated(carriers);
    weft__topology_fini(&found);
    return text;
}

TEST(a_map_is_taken_as_it_stands)
{
    CHECK_STR(mapped("0", 1), "0:0");
    CHECK_STR(mapped("0-3", 4), "0:0 0:1 0:2 0:3");
    CHECK_STR(mapped("6,2-3;9;0-1", 6), "0:6 0:2 0:3 1:9 2:0 2:1");
    CHECK_STR(mapped("6,2-3;9;0-1", 4), "0:6 0:2 0:3 1:9");
    CHECK_STR(mapped("1;0", 5), "0:1 0:-1 0:-1 1:0 1:-1");
    CHECK_STR(mapped("8191", 1), "0:8191");
}

static void check_refused(const char *map, const char *allowed, const char *why)
{
    struct weft__cpu_set set;
    if (allowed != NULL) {
        CHECK(weft__cpu_set_parse(&set, allowed));
    }
    printf("\"%s\"\n", map);
    CHECK_EQ(weft__topology_parse(&found, NULL, map, allowed != NULL ? &set : NULL), -EINVAL);
    CHECK(found.cpus == NULL);
    if (strstr(found.note, why) == NULL) {
        FAIL("\"%s\" does not say \"%s\"", found.note, why);
    }
}

TEST(a_bad_map_is_refused_with_the_place)
{
    check_refused("", NULL, "character 1");
    check_refused("a", NULL, "character 1");
    check_refused("0,", NULL, "character 3");
    check_refused("0;;1", NULL, "character 3");
    check_refused("0;", NULL, "character 3");
    check_refused("0 ,1", NULL, "character 2");
    check_refused("0-", NULL, "character 3");
    check_refused("3-1", NULL, "character 4");
    check_refused("-1", NULL, "character 1");
    check_refused("8192", NULL, "below 8192");
    check_refused("0-99999999999999999999", NULL, "below 8192");
    check_refused("0-3,2", NULL, "CPU 2 stands in it twice");
    check_refused("0;1;0", NULL, "CPU 0 stands in it twice");
    check_refused("0-3", "0-2", "CPU 3 is not one that this process may use");
}

TEST(sets_are_walked_and_counted)
{
    struct weft__cpu_set set;
    CHECK(weft__cpu_set_parse(&set, "0-1,63-64,8191\n"));
    CHECK_EQ(weft__cpu_set_count(&set), 5);
    static const int members[] = { 0, 1, 63, 64, 8191, -1 };
    int at = 0;
    for (int cpu = weft__cpu_set_next(&set, 0);; cpu = weft__cpu_set_next(&set, cpu + 1)) {
        CHECK_EQ(cpu, members[at++]);
        if (cpu < 0) {
            break;
        }
    }
}
