// resize.c - a runtime that grows under load and shrinks when it is idle. A keeper looks at how many jobs
// wait, and gives the program a carrier more, or one less.
#include <stdatomic.h>
#include <stdio.h>
#include <weft.h>

#define MOST 3
#define BURSTS 12
#define JOBS (BURSTS * 6)

static _Atomic int waiting; // jobs that have come and not begun
static _Atomic int done;
static _Atomic int widest = 1;

static int work(void *arg)
{
    weft_time until = weft_after(2 * WEFT_MS);
    (void)arg;
    atomic_fetch_sub(&waiting, 1);
    while (weft_now() < until) {
        // Hard at work, and soon done: the others on this carrier wait.
    }
    atomic_fetch_add(&done, 1);
    return 0;
}

static void resize(int carriers, const char *why)
{
    if (weft_runtime_resize(NULL, carriers) == 0) {
        printf("%d carriers: %s\n", carriers, why);
    }
}

/// Looks every few milliseconds. More at once when work waits; fewer only after a while without any, or
/// each pause would cost a carrier.
static int keep_size(void *arg)
{
    int idle = 0;
    (void)arg;
    while (weft_sleep(5 * WEFT_MS) == 0) {
        int carriers = weft_runtime_carriers(weft_runtime_current());
        int jobs = atomic_load(&waiting);
        idle = jobs > 0 ? 0 : idle + 1;
        if (jobs > carriers && carriers < MOST) {
            resize(carriers + 1, "there is work that waits");
            atomic_store(&widest, carriers + 1);
        } else if (idle >= 4 && carriers > 1) {
            resize(carriers - 1, "there is nothing to do");
            idle = 0;
        }
    }
    return 0;
}

/// Bursts of jobs. Each is placed where there is less to do, and so finds the new carriers.
static int load(void)
{
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_LIGHTER;
    weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < JOBS; i++) {
        atomic_fetch_add(&waiting, 1);
        weft_scope_spawn(&scope, work, NULL);
        if (i % (JOBS / BURSTS) == 0) {
            weft_sleep(4 * WEFT_MS);
        }
    }
    return weft_scope_join(&scope);
}

static int run(void *arg)
{
    weft_task *keeper;
    (void)arg;
    int rc = weft_spawn(&keeper, keep_size, NULL, NULL);
    if (rc < 0) {
        return rc;
    }
    rc = load();
    printf("%d jobs done, on up to %d carriers\n", atomic_load(&done), atomic_load(&widest));
    while (rc == 0 && weft_runtime_carriers(weft_runtime_current()) > 1) {
        rc = weft_sleep(5 * WEFT_MS); // a quiet time
    }
    weft_task_cancel(keeper);
    weft_join(NULL, keeper, WEFT_FOREVER);
    return rc;
}

int main(void)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    options.max_carriers = MOST;
    return weft_run(run, NULL, &options) < 0 || atomic_load(&done) != JOBS;
}
