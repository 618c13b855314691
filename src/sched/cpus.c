// cpus.c - the affinity mask and the cgroup quota.
#include "sched/cpus.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"

#define FOLDER_BYTES 4608
#define PATH_BYTES (FOLDER_BYTES + 32)
#define TEXT_BYTES 4096

int weft__cpus_allowed(struct weft__cpu_set *set)
{
    *set = (struct weft__cpu_set){ 0 };
    int rc = weft__sys_affinity((cpu_set_t *)(void *)set->words, sizeof set->words);
    return rc < 0 ? rc : 0;
}

int weft__cpus_keep_on(const struct weft__cpu_set *set)
{
    return weft__sys_set_affinity((const cpu_set_t *)(const void *)set->words, sizeof set->words);
}

static int affinity_count(void)
{
    struct weft__cpu_set set;
    int count = weft__cpus_allowed(&set) < 0 ? 0 : weft__cpu_set_count(&set);
    return count > 0 ? count : 1;
}

static int ceil_quota(long long quota_us, long long period_us)
{
    if (quota_us <= 0 || period_us <= 0) {
        return INT_MAX; // no limit
    }
    long long cpus = (quota_us - 1) / period_us + 1; // a sum could overflow
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
}

/// cgroup v2: "max 100000" or "150000 100000" in cpu.max.
static int quota_v2(const char *folder)
{
    char path[PATH_BYTES];
    char text[128];
    long long quota;
    long long period;
    (void)snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (weft__sys_read_file(path, text, sizeof text) <= 0 ||
        sscanf(text, "%lld %lld", &quota, &period) != 2) {
        return INT_MAX;
    }
    return ceil_quota(quota, period);
}

static long long read_number(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    char text[64];
    long long value;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (weft__sys_read_file(path, text, sizeof text) <= 0 || sscanf(text, "%lld", &value) != 1) {
        return -1;
    }
    return value;
}

static int quota_v1(const char *folder)
{
    return ceil_quota(read_number(folder, "cpu.cfs_quota_us"),
                      read_number(folder, "cpu.cfs_period_us"));
}

/// The tightest quota from `mount`/`group` up to `mount`: each level may have one.
static int walk_up(const char *root, const char *mount, const char *group,
                   int (*quota)(const char *folder))
{
    char folder[FOLDER_BYTES];
    int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
    if (length < 0 || (size_t)length >= sizeof folder) {
        return INT_MAX;
    }
    size_t stop = strlen(root) + strlen(mount);
    int least = INT_MAX;
    for (;;) {
        int here = quota(folder);
        least = here < least ? here : least;
        char *slash = strrchr(folder + stop, '/');
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

/// Whether "cpu" is in a list like "cpuset,cpu,cpuacct"; kernels differ in the order.
static bool names_cpu(const char *controllers)
{
    const char *at = controllers;
    while ((at = strstr(at, "cpu")) != NULL) {
        bool starts = at == controllers || at[-1] == ',';
        if (starts && (at[3] == '\0' || at[3] == ',')) {
            return true;
        }
        at++;
    }
    return false;
}

/// /proc/self/cgroup has lines "0::/path" (v2) and "4:cpu,cpuacct:/path" (v1).
int weft__cpus_quota(const char *root)
{
    char path[PATH_BYTES];
    char text[TEXT_BYTES];
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (weft__sys_read_file(path, text, sizeof text) <= 0) {
        return INT_MAX;
    }
    int least = INT_MAX;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        controllers++;
        int here = INT_MAX;
        if (*controllers == '\0') {
            here = walk_up(root, "/sys/fs/cgroup", group, quota_v2);
        } else if (names_cpu(controllers)) {
            here = walk_up(root, "/sys/fs/cgroup/cpu", group, quota_v1);
        }
        least = here < least ? here : least;
    }
    return least;
}

int weft__cpus_usable(const char *root)
{
    int cpus = affinity_count();
    int limit = weft__cpus_quota(root);
    return limit < cpus ? (limit > 0 ? limit : 1) : cpus;
}
