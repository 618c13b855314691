// The number of usable CPUs, against a made-up /proc and /sys.
#include "sched/cpus.h"

#include "support/fake_root.h"

#include <sched.h>

#define V2 "/sys/fs/cgroup"
#define V1 "/sys/fs/cgroup/cpu"

/// The CPUs of the machine, as if the affinity mask were all there is to it.
static int mask(void)
{
    cpu_set_t set;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    return CPU_COUNT(&set);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int usable_v2(const char *quota)
{
    make_root();
    write_file("/proc/self/cgroup", "0::/\n");
    write_file(V2 "/cpu.max", quota);
    int usable = weft__cpus_usable(root);
    remove_root();
    return usable;
}

TEST(without_cgroups_the_mask_decides)
{
    make_root();
    CHECK_EQ(weft__cpus_usable(root), mask());
    CHECK_EQ(weft__cpus_usable("/nowhere"), mask());
    remove_root();
    CHECK_GE(weft__cpus_usable(""), 1);
    CHECK_LE(weft__cpus_usable(""), mask());
}

TEST(the_mask_is_obeyed)
{
    cpu_set_t set;
    cpu_set_t one;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &set)) {
            CPU_SET(i, &one);
        }
    }
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    CHECK_EQ(weft__cpus_usable("/nowhere"), 1);
}

TEST(a_quota_of_version_2_is_rounded_up)
{
    CHECK_EQ(usable_v2("100000 100000\n"), 1);
    CHECK_EQ(usable_v2("1000 100000\n"), 1);
    CHECK_EQ(usable_v2("1 100000"), 1);
    CHECK_EQ(usable_v2("100001 100000\n"), least(2, mask()));
    CHECK_EQ(usable_v2("150000 100000\n"), least(2, mask()));
    CHECK_EQ(usable_v2("100000000 100000\n"), mask());
}

TEST(no_limit_and_nonsense_mean_the_mask)
{
    CHECK_EQ(usable_v2("max 100000\n"), mask());
    CHECK_EQ(usable_v2("max\n"), mask());
    CHECK_EQ(usable_v2(""), mask());
    CHECK_EQ(usable_v2("\n"), mask());
    CHECK_EQ(usable_v2("50000\n"), mask());
    CHECK_EQ(usable_v2("-1 100000\n"), mask());
    CHECK_EQ(usable_v2("0 100000\n"), mask());
    CHECK_EQ(usable_v2("50000 0\n"), mask());
    CHECK_EQ(usable_v2("50000 -7\n"), mask());
    CHECK_EQ(usable_v2("9223372036854775807 100000\n"), mask());
    CHECK_EQ(usable_v2("99999999999999999999999 100000\n"), mask());
    CHECK_EQ(usable_v2("9223372036854775807 1\n"), mask());
    CHECK_EQ(usable_v2("fifty percent\n"), mask());
}

TEST(the_tightest_level_counts)
{
    make_root();
    write_file("/proc/self/cgroup", "0::/slice/service/leaf\n");
    write_file(V2 "/slice/service/leaf/cpu.max", "max 100000\n");
    write_file(V2 "/slice/service/cpu.max", "700000 100000\n");
    write_file(V2 "/slice/cpu.max", "50000 100000\n");
    CHECK_EQ(weft__cpus_usable(root), 1);
    write_file(V2 "/slice/cpu.max", "max 100000\n");
    CHECK_EQ(weft__cpus_usable(root), least(7, mask()));
    write_file(V2 "/slice/service/leaf/cpu.max", "1000 100000\n");
    CHECK_EQ(weft__cpus_usable(root), 1);
    remove_root();
}

TEST(a_missing_group_folder_leaves_its_parents)
{
    // In a container the path is the host's, and only the mount's own root is there.
    make_root();
    write_file("/proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    write_file(V2 "/cpu.max", "20000 100000\n");
    CHECK_EQ(weft__cpus_usable(root), 1);
    remove_root();
}

static int usable_v1(const char *line, const char *quota, const char *period)
{
    make_root();
    write_file("/proc/self/cgroup", line);
    write_file(V1 "/group/cpu.cfs_quota_us", quota);
    write_file(V1 "/group/cpu.cfs_period_us", period);
    int usable = weft__cpus_usable(root);
    remove_root();
    return usable;
}

TEST(version_1_is_understood)
{
    CHECK_EQ(usable_v1("4:cpu:/group\n", "50000\n", "100000\n"), 1);
    CHECK_EQ(usable_v1("4:cpu,cpuacct:/group\n", "50000\n", "100000\n"), 1);
    CHECK_EQ(usable_v1("4:cpuacct,cpu:/group\n", "50000\n", "100000\n"), 1);
    CHECK_EQ(usable_v1("4:cpuset,cpu,cpuacct:/group\n", "50000\n", "100000\n"), 1);
    CHECK_EQ(usable_v1("9:memory:/m\n4:cpu:/group\n0::/\n", "50000\n", "100000\n"), 1);
    CHECK_EQ(usable_v1("4:cpu:/group", "50000", "100000"), 1);
}

TEST(other_controllers_of_version_1_do_not_count)
{
    CHECK_EQ(usable_v1("4:cpuacct:/group\n", "50000\n", "100000\n"), mask());
    CHECK_EQ(usable_v1("4:cpuset:/group\n", "50000\n", "100000\n"), mask());
    CHECK_EQ(usable_v1("4:cpuset,cpuacct:/group\n", "50000\n", "100000\n"), mask());
    CHECK_EQ(usable_v1("1:name=systemd:/group\n", "50000\n", "100000\n"), mask());
}

TEST(version_1_without_a_limit)
{
    CHECK_EQ(usable_v1("4:cpu:/group\n", "-1\n", "100000\n"), mask());
    CHECK_EQ(usable_v1("4:cpu:/group\n", "", ""), mask());
    CHECK_EQ(usable_v1("4:cpu:/group\n", "50000\n", ""), mask());
    CHECK_EQ(usable_v1("4:cpu:/group\n", "50000\n", "0\n"), mask());
    CHECK_EQ(usable_v1("4:cpu:/group\n", "none\n", "100000\n"), mask());
}

TEST(malformed_lines_are_skipped)
{
    make_root();
    write_file(V2 "/cpu.max", "1000 100000\n");
    write_file("/proc/self/cgroup", "");
    CHECK_EQ(weft__cpus_usable(root), mask());
    write_file("/proc/self/cgroup", "\n\n:\n0\n0:\nrubbish\n");
    CHECK_EQ(weft__cpus_usable(root), mask());
    write_file("/proc/self/cgroup", "rubbish\n0::/\n");
    CHECK_EQ(weft__cpus_usable(root), 1);
    write_file("/proc/self/cgroup", "0::/with:colons/in:it\n");
    CHECK_EQ(weft__cpus_usable(root), 1);
    write_file("/proc/self/cgroup", "0::");
    CHECK_EQ(weft__cpus_usable(root), 1);
    remove_root();
}

TEST(a_path_that_is_too_long_is_no_limit_and_no_crash)
{
    static char line[16384];
    make_root();
    (void)snprintf(line, sizeof line, "0::/");
    for (size_t i = 4; i < sizeof line - 2; i++) {
        line[i] = i % 100 == 0 ? '/' : 'g';
    }
    line[sizeof line - 2] = '\n';
    write_file("/proc/self/cgroup", line);
    CHECK_EQ(weft__cpus_usable(root), mask());
    remove_root();
}
