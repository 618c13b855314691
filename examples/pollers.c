// pollers.c - the loops of pollers.h, each on carrier 0 beside a virtual thread that sleeps and posts.
//
//     $ pollers
//     spinning     handled 10 of 10 jobs
//     blocking     handled 10 of 10 jobs
//     with a lock  handled 10 of 10 jobs
//     cooperative  handled 10 of 10 jobs
//     stealable    handled 10 of 10 jobs
#include "pollers.h"

#include <stdio.h>

#define JOBS 10

static int post(struct loop *loop)
{
    for (int i = 0; i < JOBS; i++) {
        loop_post(loop, 1);
        int rc = weft_sleep(1 * WEFT_MS); // on the same carrier: its timer ends the loop's sleep
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int run(const char *name, weft_fn body, weft_poller_wake_fn wake)
{
    struct loop loop;
    int rc = loop_init(&loop);
    if (rc < 0) {
        return rc;
    }
    rc = weft_poller_register(&loop.poller, NULL, 0, body, wake, &loop);
    if (rc == 0) {
        rc = post(&loop);
        loop_stop(&loop);
        (void)weft_poller_join(NULL, loop.poller, WEFT_FOREVER);
        printf("%-12s handled %lu of %d jobs\n", name, atomic_load(&loop.handled), JOBS);
    }
    loop_fini(&loop);
    return rc;
}

static int run_stealable(void)
{
    struct loop loop;
    weft_task *task;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.migratable = true;
    int rc = loop_init(&loop);
    if (rc < 0) {
        return rc;
    }
    rc = weft_spawn(&task, loop_yield, &loop, &attr);
    if (rc == 0) {
        rc = post(&loop);
        loop_stop(&loop);
        (void)weft_join(NULL, task, WEFT_FOREVER);
        printf("%-12s handled %lu of %d jobs\n", "stealable", atomic_load(&loop.handled), JOBS);
    }
    loop_fini(&loop);
    return rc;
}

static int all(void *arg)
{
    (void)arg;
    int rc = run("spinning", loop_spin, NULL);
    rc = rc == 0 ? run("blocking", loop_block, NULL) : rc;
    rc = rc == 0 ? run("with a lock", loop_lock, loop_wake) : rc;
    rc = rc == 0 ? run("cooperative", loop_cooperate, NULL) : rc;
    return rc == 0 ? run_stealable() : rc;
}

int main(void)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    return weft_run(all, NULL, &options) < 0;
}
