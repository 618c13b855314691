// cancel.c - waiting for a task no longer than so long, asking it to end, and what it sees of that.
//
// A cancel is a request. Every call of the task that can be cancelled returns -ECANCELED from then
// on; the task cleans up, returns, and only then is it over.
#include <errno.h>
#include <stdio.h>
#include <weft.h>

static int worker(void *arg)
{
    int *rounds = arg;
    int rc;
    while ((rc = weft_sleep(5 * WEFT_MS)) == 0) {
        ++*rounds;
    }
    printf("worker \"%s\": %s after %d rounds, cleaning up\n", weft_task_name(weft_self()),
           rc == -ECANCELED ? "cancelled" : "failed", *rounds);
    return rc;
}

/// Computes without ever blocking, so it looks whether it should stop.
static int cruncher(void *arg)
{
    unsigned *sum = arg;
    int rc = 0;
    for (unsigned i = 0; rc == 0; i++) {
        *sum += i * i;
        rc = i % 1024 == 0 ? weft_checkpoint() : 0; // lets others run when the time slice is over
    }
    return rc;
}

static int run(void *arg)
{
    (void)arg;
    int rounds = 0;
    unsigned sum = 0;
    int result = 0;
    weft_task *task;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = "patient";

    int rc = weft_spawn(&task, worker, &rounds, &attr);
    if (rc < 0) {
        return rc;
    }
    rc = weft_join(&result, task, weft_after(28 * WEFT_MS));
    printf("join with a deadline: %s\n", rc == -ETIMEDOUT ? "still running" : "failed");
    weft_task_cancel(task); // the handle is still ours
    rc = weft_join(&result, task, WEFT_FOREVER);
    printf("join after the cancel: %s, the worker returned %s\n", rc == 0 ? "ended" : "failed",
           result == -ECANCELED ? "-ECANCELED" : "something else");
    if (rc < 0 || result != -ECANCELED) {
        return -EPROTO;
    }

    rc = weft_spawn(&task, cruncher, &sum, NULL);
    if (rc < 0) {
        return rc;
    }
    rc = weft_sleep(5 * WEFT_MS); // runs again although the cruncher never blocks
    weft_task_cancel(task);
    weft_join(&result, task, WEFT_FOREVER);
    printf("the cruncher returned %s\n", result == -ECANCELED ? "-ECANCELED" : "something else");
    return rc < 0 || result != -ECANCELED ? -EPROTO : 0;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
