// Carriers on CPUs, on this machine: who is pinned where, and what happens when that is impossible.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static struct gathered logged;
static cpu_set_t all;

static struct weft_options options_with(enum weft_topology topology, const char *cpus)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    unsetenv("WEFT_CPUS");
    unsetenv("WEFT_TOPOLOGY");
    unsetenv("WEFT_CARRIERS");
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    options.topology = topology;
    options.cpus = cpus;
    options.log = gather_log;
    options.log_ctx = &logged;
    gathered_clear(&logged);
    return options;
}

static struct weft_carrier_info info_of(weft_runtime *runtime, int carrier)
{
    struct weft_carrier_info info = { .size = sizeof info };
    CHECK_OK(weft_carrier_info(runtime, carrier, &info));
    return info;
}

static int first_cpu(void)
{
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    return cpu;
}

/// All CPUs of the machine as a map, each a cluster of its own.
static const char *map_of_all(void)
{
    static char map[8 * CPU_SETSIZE];
    size_t used = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            used += (size_t)snprintf(map + used, sizeof map - used, "%s%d", used > 0 ? ";" : "",
                                     cpu);
        }
    }
    return map;
}

static int get_mask(void *set)
{
    return sched_getaffinity(0, sizeof(cpu_set_t), set) == 0 ? 0 : -errno;
}

/// The mask of a carrier's thread.
static cpu_set_t mask_of(weft_runtime *runtime, int carrier)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    cpu_set_t mask;
    weft_task *task;
    int rc;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = carrier;
    CHECK_OK(weft_runtime_spawn(&task, runtime, get_mask, &mask, &attr));
    CHECK_OK(weft_join(&rc, task, WEFT_FOREVER));
    CHECK_OK(rc);
    return mask;
}

TEST_DRIVERS(without_a_topology_carriers_float)
{
    struct weft_options options = options_with(WEFT_TOPOLOGY_AUTO, NULL);
    weft_runtime *runtime;
    options.carriers = 3;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_EQ(weft_runtime_clusters(runtime), 1);
    for (int i = 0; i < 3; i++) {
        struct weft_carrier_info info = info_of(runtime, i);
        char name[32];
        (void)snprintf(name, sizeof name, "carrier-%d", i);
        CHECK_STR(info.name, name);
        CHECK_EQ(info.cpu, -1);
        CHECK_EQ(info.cluster, 0);
        CHECK_EQ(info.cluster_first, 0);
        CHECK_EQ(info.cluster_count, 3);
        cpu_set_t mask = mask_of(runtime, i);
        CHECK(CPU_EQUAL(&mask, &all));
    }
    struct weft_carrier_info info = { .size = sizeof info };
    CHECK_EQ(weft_carrier_info(runtime, 3, &info), -EINVAL);
    CHECK_EQ(weft_carrier_info(runtime, -1, &info), -EINVAL);
    info.size--;
    CHECK_EQ(weft_carrier_info(runtime, 0, &info), -EINVAL);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int dump(void *arg)
{
    *(const char **)arg = dump_text();
    return 0;
}

/// Each carrier on a CPU of its own, named for it.
static void check_pinned(weft_runtime *runtime, int clusters)
{
    cpu_set_t taken;
    CPU_ZERO(&taken);
    CHECK_EQ(weft_runtime_clusters(runtime), clusters);
    for (int i = 0; i < weft_runtime_carriers(runtime); i++) {
        struct weft_carrier_info info = info_of(runtime, i);
        cpu_set_t mask = mask_of(runtime, i);
        char name[WEFT_CARRIER_NAME_BYTES];
        (void)snprintf(name, sizeof name, "carrier-%d-cluster%d-core%d", i, info.cluster, info.cpu);
        CHECK_STR(info.name, name);
        CHECK_EQ(CPU_COUNT(&mask), 1);
        CHECK(CPU_ISSET(info.cpu, &mask));
        CHECK(!CPU_ISSET(info.cpu, &taken));
        CPU_SET(info.cpu, &taken);
        CHECK_LE(info.cluster_first, i);
        CHECK_LT(i, info.cluster_first + info.cluster_count);
    }
}

TEST_DRIVERS(a_map_says_who_runs_where)
{
    struct weft_options options = options_with(WEFT_TOPOLOGY_AUTO, map_of_all());
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_EQ(logged.count, 0);
    CHECK_EQ(weft_runtime_carriers(runtime), CPU_COUNT(&all));
    check_pinned(runtime, CPU_COUNT(&all));
    CHECK_EQ(info_of(runtime, 0).cpu, first_cpu());
    CHECK_OK(weft_runtime_destroy(runtime));
    cpu_set_t mask;
    CHECK_OK(get_mask(&mask));
    CHECK(CPU_EQUAL(&mask, &all)); // ours was left alone
}

TEST(the_environment_has_the_same_map)
{
    struct weft_options options = options_with(WEFT_TOPOLOGY_AUTO, NULL);
    weft_runtime *runtime;
    setenv("WEFT_CPUS", map_of_all(), 1);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    check_pinned(runtime, CPU_COUNT(&all));
    CHECK_OK(weft_runtime_destroy(runtime));
    setenv("WEFT_TOPOLOGY", "off", 1); // is stronger
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_EQ(info_of(runtime, 0).cpu, -1);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_DRIVERS(the_machine_says_who_runs_where)
{
    struct weft_options options = options_with(WEFT_TOPOLOGY_ON, NULL);
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    if (info_of(runtime, 0).cpu < 0) {
        CHECK_LOGGED(&logged,
                     "2 topology: the cgroup may use "); // nothing else makes them float here
    } else {
        check_pinned(runtime, weft_runtime_clusters(runtime));
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST(dumps_have_the_whole_name)
{
    struct weft_options options = options_with(WEFT_TOPOLOGY_AUTO, map_of_all());
    const char *text;
    options.carriers = 1;
    CHECK_OK(weft_run(dump, &text, &options));
    char name[64];
    (void)snprintf(name, sizeof name, " carrier-0-cluster0-core%d, spawned", first_cpu());
    CHECK(strstr(text, name) != NULL);
}

static int blocking_mask(void *set)
{
    return (int)weft_blocking(get_mask, set, WEFT_FOREVER);
}

TEST_DRIVERS(threads_of_the_blocking_pool_are_not_pinned)
{
    struct weft_options options = options_with(WEFT_TOPOLOGY_AUTO, map_of_all());
    cpu_set_t mask;
    CHECK_OK(weft_run(blocking_mask, &mask, &options));
    CHECK(CPU_EQUAL(&mask, &all));
}

TEST(carriers_without_a_cpu_of_their_own_share_a_cluster)
{
    struct weft_options options = options_with(WEFT_TOPOLOGY_AUTO, map_of_all());
    weft_runtime *runtime;
    int cpus = CPU_COUNT(&all);
    options.carriers = 2 * cpus + 1;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_EQ(logged.count, 1);
    CHECK_LOGGED(&logged, "have none of their own");
    struct weft_carrier_info own = info_of(runtime, 0);
    CHECK_EQ(own.cluster_count, 3);
    for (int i = 1; i < 3; i++) {
        struct weft_carrier_info info = info_of(runtime, i);
        cpu_set_t mask = mask_of(runtime, i);
        CHECK_EQ(info.cpu, -1);
        CHECK_EQ(info.cluster, 0);
        CHECK_EQ(CPU_COUNT(&mask), 1);
        CHECK(CPU_ISSET(own.cpu, &mask));
        CHECK(strstr(info.name, "-cluster0") != NULL);
        CHECK(strstr(info.name, "core") == NULL);
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST(a_map_with_a_cpu_that_is_not_ours_is_refused)
{
    struct weft_options options = options_with(WEFT_TOPOLOGY_AUTO, "8191");
    weft_runtime *runtime = (void *)&options;
    CHECK_EQ(weft_runtime_create(&runtime, &options), -EINVAL);
    CHECK(runtime == NULL);
    CHECK_EQ(logged.count, 1);
    CHECK_LOGGED(&logged, "1 options: weft_options.cpus (WEFT_CPUS) = \"8191\" is not allowed: CPU "
                          "8191 is not one that this process may use");
    options.topology = WEFT_TOPOLOGY_OFF; // then nobody asks
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(weft_runtime_destroy(runtime));
}

static void forbid_pinning(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        SKIP("no seccomp filters here");
    }
}

TEST_DRIVERS(where_pinning_is_forbidden_carriers_float)
{
    struct weft_options options = options_with(WEFT_TOPOLOGY_AUTO, map_of_all());
    weft_runtime *runtime;
    forbid_pinning();
    options.carriers = 3;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_EQ(logged.count, 1);
    CHECK_LOGGED(&logged, "2 topology: threads cannot be pinned, carriers float: Operation not "
                          "permitted");
    CHECK_EQ(weft_runtime_clusters(runtime), 1);
    CHECK_EQ(info_of(runtime, 2).cpu, -1);
    CHECK_STR(info_of(runtime, 2).name, "carrier-2");
    cpu_set_t mask = mask_of(runtime, 2);
    CHECK(CPU_EQUAL(&mask, &all));
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int count_clusters(void *clusters)
{
    *(int *)clusters = weft_runtime_clusters(weft_runtime_current());
    return 0;
}

TEST(simulated_carriers_form_the_clusters_of_a_map)
{
    struct weft_sim_options options = { .size = sizeof options, .carriers = 5 };
    int clusters = 0;
    (void)options_with(WEFT_TOPOLOGY_AUTO, NULL);
    CHECK_OK(weft_sim_run(NULL, count_clusters, &clusters, &options));
    CHECK_EQ(clusters, 1);
    setenv("WEFT_CPUS", "8000-8001;7000;6000-6001", 1); // CPUs that no machine needs to have
    CHECK_OK(weft_sim_run(NULL, count_clusters, &clusters, &options));
    CHECK_EQ(clusters, 3);
}
