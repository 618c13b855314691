// Stealing between clusters: made-up machines of several last-level caches, more carriers than there
// are CPUs, both policies, both scopes. Every steal is seen by the trace function.
#include "support/test.h"

#include "support/fake_root.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft.h>

#include "runtime/runtime.h"
#include "sched/search.h"

enum { MOST_CLUSTERS = 8, MOST_CARRIERS = 160, MOST_TASKS = 1 << 20 };

struct layout {
    const char *name;
    int clusters;
    int sizes[MOST_CLUSTERS];
};

static const struct layout layouts[] = {
    { "2x8", 2, { 8, 8 } },
    { "odd", 4, { 1, 5, 2, 3 } },
    { "one of 70", 1, { 70 } },
    { "67 and 2", 2, { 67, 2 } },
    { "8x16", 8, { 16, 16, 16, 16, 16, 16, 16, 16 } },
};

static int count_carriers(const struct layout *layout)
{
    int count = 0;
    for (int i = 0; i < layout->clusters; i++) {
        count += layout->sizes[i];
    }
    return count;
}

// What the trace function sees.

static int cluster_of[MOST_CARRIERS];
static atomic_uchar pinned[MOST_TASKS]; // by task number: has started and must not move
static bool may_cross;
static _Atomic uint64_t near_steals, far_steals;
static _Atomic uint64_t directed[MOST_CARRIERS], pulled[MOST_CARRIERS]; // by thief

static void note(void *ctx, const struct weft_trace_event *event)
{
    (void)ctx;
    if (event->kind != WEFT_TRACE_STEAL) {
        return;
    }
    bool near = cluster_of[event->source] == cluster_of[event->thief];
    CHECK(near || may_cross);
    CHECK_NE(event->source, event->thief);
    CHECK_EQ(atomic_load(&pinned[event->task % MOST_TASKS]), 0); // promise 4
    atomic_fetch_add(near ? &near_steals : &far_steals, 1);
    atomic_fetch_add(event->directed ? &directed[event->thief] : &pulled[event->thief], 1);
}

static void begin_trace(weft_runtime *runtime, bool crossing)
{
    for (int i = 0; i < weft_runtime_carriers(runtime); i++) {
        struct weft_carrier_info info = { .size = sizeof info };
        CHECK_OK(weft_carrier_info(runtime, i, &info));
        cluster_of[i] = info.cluster;
    }
    may_cross = crossing;
    memset(pinned, 0, sizeof pinned);
    memset(directed, 0, sizeof directed);
    memset(pulled, 0, sizeof pulled);
    atomic_store(&near_steals, 0);
    atomic_store(&far_steals, 0);
    weft_trace_set(note, NULL);
}

/// The statistics say the same.
static void compare_with_statistics(weft_runtime *runtime)
{
    for (int i = 0; i < weft_runtime_carriers(runtime); i++) {
        struct weft_stats stats = { .size = sizeof stats };
        CHECK_OK(weft_stats_get(runtime, i, &stats));
        CHECK_EQ(stats.stolen_directed, atomic_load(&directed[i]));
        CHECK_EQ(stats.stolen_pulled, atomic_load(&pulled[i]));
    }
}

/// Every start of a search is matched by one stop, in each cluster. Who was sent last may be on its way.
static void check_searches(weft_runtime *runtime)
{
    struct weft__crew *crew = weft__crew_of(runtime);
    for (int i = 0; i < crew->cluster_count; i++) {
        while (atomic_load(&crew->help[i].searchers) != 0) {
            sched_yield();
        }
    }
}

// The work: each cluster's first carrier makes tasks that may move until they start, or always.

struct job {
    uint64_t seed;
    int cluster; // where it was made
    bool migratable;
};

struct spinner {
    struct weft_future future; // first member
    int left;
    int cluster;
};

static void check_cluster(int made_in)
{
    CHECK(may_cross || cluster_of[weft_carrier_id()] == made_in);
}

static void burn(uint64_t rounds)
{
    for (uint64_t random = rounds; rounds > 0; rounds--) {
        (void)test_random(&random);
    }
}

static int live(void *arg)
{
    const struct job *job = arg;
    uint64_t random = job->seed;
    uint64_t id = weft_task_id(weft_self());
    int here = weft_carrier_id();
    pid_t thread = gettid(); // pthread_self() may be asked once by the compiler
    if (!job->migratable) {
        atomic_store(&pinned[id % MOST_TASKS], 1);
    }
    for (uint64_t i = test_random(&random) % 5; i > 0; i--) {
        check_cluster(job->cluster);
        burn(test_random(&random) % 500);
        int rc = i % 3 == 0 ? weft_sleep(test_random(&random) % (50 * WEFT_US)) : weft_yield();
        CHECK_OK(rc);
        if (!job->migratable) { // promise 4
            CHECK_EQ(weft_carrier_id(), here);
            CHECK_EQ(gettid(), thread);
        }
    }
    return 0;
}

static enum weft_poll spin(struct weft_future *future, weft_waker *waker)
{
    struct spinner *spinner = (struct spinner *)future;
    check_cluster(spinner->cluster);
    burn(100);
    if (spinner->left-- == 0) {
        return WEFT_READY;
    }
    weft_waker_wake_by_ref(waker);
    return WEFT_PENDING;
}

static int make_tasks(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    int count = (int)test_scaled(300);
    int cluster = cluster_of[weft_carrier_id()];
    struct job *jobs = calloc((size_t)count, sizeof *jobs);
    struct spinner *spinners = calloc((size_t)count, sizeof *spinners);
    weft_task **tasks = calloc((size_t)count, sizeof(weft_task *));
    CHECK(jobs != NULL && spinners != NULL && tasks != NULL);
    for (int i = 0; i < count; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        jobs[i] = (struct job){ test_random(&random), cluster, i % 3 == 1 };
        attr.migratable = jobs[i].migratable;
        if (i % 3 == 2) {
            spinners[i].left = (int)(test_random(&random) % 10);
            spinners[i].cluster = cluster;
            weft_future_init(&spinners[i].future, spin, NULL);
            CHECK_OK(weft_spawn_future(&tasks[i], &spinners[i].future, NULL));
        } else {
            CHECK_OK(weft_spawn(&tasks[i], live, &jobs[i], &attr));
        }
    }
    for (int i = 0; i < count; i++) {
        int result = -1;
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, 0);
    }
    free(jobs);
    free(spinners);
    free(tasks);
    return 0;
}

/// Every other cluster makes tasks, the rest have nothing of their own.
static int work(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    uint64_t seeds[MOST_CLUSTERS];
    weft_task *makers[MOST_CLUSTERS];
    weft_runtime *runtime = weft_runtime_current();
    int clusters = weft_runtime_clusters(runtime);
    for (int i = 0; i < clusters; i += 2) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_CARRIER;
        while (cluster_of[attr.carrier] != i) {
            attr.carrier++;
        }
        seeds[i] = test_random(&random);
        CHECK_OK(weft_spawn(&makers[i], make_tasks, &seeds[i], &attr));
    }
    for (int i = 0; i < clusters; i += 2) {
        int result = -1;
        CHECK_OK(weft_join(&result, makers[i], WEFT_FOREVER));
        CHECK_EQ(result, 0);
    }
    return 0;
}

// Made-up machines.

/// CPUs of which each has a cache together with those of its cluster.
static void write_machine(const struct layout *layout)
{
    int first = 0;
    make_root();
    for (int i = 0; i < layout->clusters; i++) {
        char shared[32];
        (void)snprintf(shared, sizeof shared, "%d-%d\n", first, first + layout->sizes[i] - 1);
        for (int k = 0; k < layout->sizes[i]; k++) {
            char path[128];
            int at = snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index0/",
                              first + k);
            (void)snprintf(path + at, sizeof path - (size_t)at, "level");
            write_file(path, "3\n");
            (void)snprintf(path + at, sizeof path - (size_t)at, "type");
            write_file(path, "Unified\n");
            (void)snprintf(path + at, sizeof path - (size_t)at, "shared_cpu_list");
            write_file(path, shared);
        }
        first += layout->sizes[i];
    }
}

static void ignore(void *ctx, enum weft_log_level level, const char *module, const char *message)
{
    (void)ctx; // most of the CPUs do not exist, so nobody can be kept on them
    (void)level;
    (void)module;
    (void)message;
}

static weft_runtime *start(const struct layout *layout, struct weft_options options)
{
    weft_runtime *runtime;
    struct weft__cpu_set allowed;
    char all[32];
    write_machine(layout);
    options.carriers = count_carriers(layout);
    options.topology = WEFT_TOPOLOGY_ON;
    options.steal = WEFT_STEAL_ON;
    options.ring_entries = 16; // there are many rings
    options.receive_buffers = 8;
    options.grace_ns = 3600 * WEFT_S;
    options.log = ignore;
    (void)snprintf(all, sizeof all, "0-%d", options.carriers - 1);
    CHECK(weft__cpu_set_parse(&allowed, all));
    CHECK_OK(weft__runtime_create_at(&runtime, &options, root, &allowed));
    remove_root();
    CHECK_EQ(weft_runtime_clusters(runtime), layout->clusters);
    return runtime;
}

static void run_on(const struct layout *layout, enum weft_policy policy,
                   enum weft_steal_scope scope, uint64_t seed)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_task *task;
    int result = -1;
    options.policy = policy;
    options.steal_scope = scope;
    weft_runtime *runtime = start(layout, options);
    begin_trace(runtime, scope == WEFT_STEAL_GLOBAL);
    CHECK_OK(weft_runtime_spawn(&task, runtime, work, &seed, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 0);
    check_searches(runtime);
    CHECK_OK(weft_runtime_shutdown(runtime, 3600 * WEFT_S));
    weft_trace_set(NULL, NULL);
    compare_with_statistics(runtime);
    printf("# %s, policy %d, scope %d: %llu steals in a cluster, %llu between clusters\n",
           layout->name, (int)policy, (int)scope, (unsigned long long)atomic_load(&near_steals),
           (unsigned long long)atomic_load(&far_steals));
    CHECK_OK(weft_runtime_destroy(runtime));
}

static void run_all(enum weft_policy policy)
{
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        run_on(&layouts[i], policy, WEFT_STEAL_CLUSTER, test_random(&random));
        run_on(&layouts[i], policy, WEFT_STEAL_GLOBAL, test_random(&random));
    }
}

TEST_DRIVERS(thieves_keep_to_their_scope_under_locality)
{
    run_all(WEFT_POLICY_LOCALITY);
}

TEST_DRIVERS(thieves_keep_to_their_scope_under_stealing)
{
    run_all(WEFT_POLICY_STEALING);
}

// A cluster that has nothing helps another.

static int works_until_others_help(void *arg)
{
    (void)arg;
    while (atomic_load(&far_steals) == 0) {
        CHECK_OK(weft_yield());
    }
    return 0;
}

static int offers_work(void *arg)
{
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    (void)arg;
    attr.migratable = true;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 8; i++) {
        CHECK_OK(weft_scope_spawn(&scope, works_until_others_help, NULL));
    }
    return weft_scope_join(&scope);
}

TEST_DRIVERS(a_cluster_without_work_helps_another)
{
    static const struct layout lonely = { "1 and 2", 2, { 1, 2 } };
    static const struct layout shared = { "2 and 3", 2, { 2, 3 } };
    for (int i = 0; i < 4; i++) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        weft_task *task;
        int result = -1;
        options.policy = i % 2 == 0 ? WEFT_POLICY_LOCALITY : WEFT_POLICY_STEALING;
        options.steal_scope = WEFT_STEAL_GLOBAL;
        weft_runtime *runtime = start(i < 2 ? &lonely : &shared, options);
        begin_trace(runtime, true);
        CHECK_OK(weft_runtime_spawn(&task, runtime, offers_work, NULL, NULL));
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK_EQ(result, 0);
        weft_trace_set(NULL, NULL);
        CHECK_GT(atomic_load(&far_steals), 0);
        CHECK_OK(weft_runtime_destroy(runtime));
    }
}

// The simulator has the clusters of a map, and draws who steals from the seed.

static int simulated(void *arg)
{
    const char *scope = getenv("WEFT_STEAL_SCOPE");
    begin_trace(weft_runtime_current(), scope != NULL && strcmp(scope, "global") == 0);
    int rc = work(arg);
    weft_trace_set(NULL, NULL);
    return rc;
}

static void write_map(const struct layout *layout, char *map, size_t size)
{
    size_t used = 0;
    int first = 0;
    for (int i = 0; i < layout->clusters; i++) {
        used += (size_t)snprintf(map + used, size - used, "%s%d-%d", i > 0 ? ";" : "", first,
                                 first + layout->sizes[i] - 1);
        first += layout->sizes[i];
    }
}

static void simulate(const struct layout *layout, const char *policy, const char *scope,
                     uint64_t seed)
{
    char map[256];
    struct weft_sim_result results[2];
    struct weft_sim_options options = { .seed = seed, .carriers = count_carriers(layout) };
    write_map(layout, map, sizeof map);
    setenv("WEFT_CPUS", map, 1);
    setenv("WEFT_STEAL", "on", 1);
    setenv("WEFT_STEAL_SCOPE", scope, 1);
    setenv("WEFT_SCHED", policy, 1);
    uint64_t steals[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_sim_run(&results[i], simulated, &seed, &options), 0);
        steals[i] = atomic_load(&near_steals) + atomic_load(&far_steals);
    }
    CHECK_EQ(results[0].trace_hash, results[1].trace_hash);
    CHECK_EQ(results[0].steps, results[1].steps);
    CHECK_EQ(steals[0], steals[1]);
    printf("# %s, %s, %s: %llu steals in a cluster, %llu between clusters\n", layout->name, policy,
           scope, (unsigned long long)atomic_load(&near_steals),
           (unsigned long long)atomic_load(&far_steals));
}

TEST(thieves_keep_to_their_scope_in_the_simulator)
{
    static const struct layout small[] = {
        // 64 carriers at most
        { "2x8", 2, { 8, 8 } },
        { "odd", 4, { 1, 5, 2, 3 } },
        { "1 and 63", 2, { 1, 63 } },
        { "8x8", 8, { 8, 8, 8, 8, 8, 8, 8, 8 } },
    };
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        for (int variant = 0; variant < 4; variant++) {
            simulate(&small[i], variant / 2 == 0 ? "locality" : "stealing",
                     variant % 2 == 0 ? "cluster" : "global", test_random(&random));
        }
    }
}
