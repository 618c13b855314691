// weft_chan.c - runs one workload of the channel rows.
//
// On one CPU time is CPU time, so that other programs there do not show. On two it is the time that
// passes, because waiting for the other side is part of it.
#include "weft_chan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "allocated.h"

static struct {
    chan_play play;
    int carriers;
    bool spread;   // receivers are on the other carrier
    bool measures; // not: it warms up
    double t0, cpu0;
    double pieces; // of what is measured in pieces
    struct contender_result *out;
} now;

double chan_clock(void)
{
    return now.carriers == 1 ? contender_cpu_ns() : contender_now_ns();
}

void chan_begin(void)
{
    now.pieces = 0;
    allocated_begin();
    now.cpu0 = contender_cpu_ns();
    now.t0 = chan_clock();
}

void chan_add(double since)
{
    now.pieces += chan_clock() - since;
}

void chan_end(uint64_t operations)
{
    double span = now.pieces > 0 ? now.pieces : chan_clock() - now.t0;
    double cpu = contender_cpu_ns() - now.cpu0;
    double bytes = allocated_end();
    if (!now.measures) {
        return;
    }
    contender_add(now.out, "ns_per_op", span / (double)operations);
    if (now.carriers > 1) {
        contender_add(now.out, "cpu_ns_per_op", cpu / (double)operations);
    }
    if (bytes >= 0) {
        contender_add(now.out, "bytes_per_op", bytes / (double)operations);
    }
}

int chan_spawn(weft_task **task, weft_fn fn, void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    if (now.spread) {
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = !weft_carrier_id();
    }
    return weft_spawn(task, fn, arg, &attr);
}

int chan_spawn_here(weft_task **task, weft_fn fn, void *arg)
{
    return weft_spawn(task, fn, arg, NULL);
}

int chan_join(weft_task **tasks, int count)
{
    int rc = 0;
    for (int i = 0; i < count; i++) {
        if (tasks[i] != NULL) {
            int result = 0;
            int joined = weft_join(&result, tasks[i], WEFT_FOREVER);
            rc = rc < 0 ? rc : joined < 0 ? joined : result;
        }
    }
    return rc;
}

static int run_task(void *arg)
{
    struct weft_bench *bench = arg;
    now.measures = false;
    int rc = now.play(bench->count / 20 + 100);
    now.measures = true;
    return rc < 0 ? rc : now.play(bench->count);
}

static int run(struct contender_result *out, uint64_t count)
{
    struct weft_bench bench = { out, count, 0 };
    now.out = out;
    return weft_bench_run(run_task, &bench, now.carriers, WEFT_IO_AUTO, 0);
}

static const struct chan_workload *find(const struct chan_workload *list, const char *name,
                                        size_t length)
{
    for (; list->name != NULL; list++) {
        if (strlen(list->name) == length && memcmp(list->name, name, length) == 0) {
            return list;
        }
    }
    return NULL;
}

int weft_chan_contend(const char *name, const char *count)
{
    const struct contender_bench bench = { name, run };
    const char *workload = name + strlen("chan/");
    const char *form = strchr(workload, '/');
    size_t length = form != NULL ? (size_t)(form - workload) : strlen(workload);
    const struct chan_workload *found = find(chan_bounded, workload, length);
    found = found != NULL ? found : find(chan_others, workload, length);
    found = found != NULL ? found : find(chan_selects, workload, length);
    if (strncmp(name, "sync/", strlen("sync/")) == 0) {
        found = find(sync_workloads, workload, length);
    }
    if (found == NULL) {
        return contender_main(name, count, &(struct contender_bench){ NULL, NULL });
    }
    now.play = found->play;
    now.carriers = form != NULL ? 2 : 1;
    now.spread = form != NULL && strcmp(form, "/spread") == 0;
    return contender_serve(&bench, strtoull(count, NULL, 10));
}
