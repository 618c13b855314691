// gdb_test_program.c - tasks in every state, then an abort(), for gdb_test.py to look at. With an
// argument: one sleeping task, a line on standard output, and nothing more.
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <weft.h>

static int dream(int depth)
{
    int rc = depth > 0 ? dream(depth - 1) : weft_sleep(3600 * WEFT_S);
    return rc < 0 ? rc : depth;
}

static int napper(void *arg)
{
    (void)arg;
    return dream(3);
}

static enum weft_poll never_poll(struct weft_future *future, weft_waker *waker)
{
    (void)future, (void)waker;
    return WEFT_PENDING;
}

static int unstarted(void *arg)
{
    (void)arg;
    return 0;
}

static int aborter(void *arg)
{
    (void)arg;
    weft_task *task;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = "unstarted";
    if (weft_spawn(&task, unstarted, NULL, &attr) < 0) {
        return -1;
    }
    abort();
}

static int run(void *arg)
{
    (void)arg;
    struct weft_future never;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    attr.name = "napper";
    for (int i = 0; i < 40; i++) { // more than one slab, and more than one colour
        if (weft_spawn(&task, napper, NULL, &attr) < 0) {
            return -1;
        }
    }
    attr.name = "big napper";
    attr.stack_size_bytes = (size_t)1 << 20;
    if (weft_spawn(&task, napper, NULL, &attr) < 0) {
        return -1;
    }
    weft_future_init(&never, never_poll, NULL);
    attr.name = "never";
    if (weft_spawn_future(&task, &never, &attr) < 0) {
        return -1;
    }
    weft_sleep(10 * WEFT_MS);
    attr.name = "aborter";
    attr.stack_size_bytes = 0;
    return weft_spawn(&task, aborter, NULL, &attr) < 0 ? -1 : weft_join(NULL, task, WEFT_FOREVER);
}

static int idle(void *arg)
{
    (void)arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    attr.name = "napper";
    if (weft_spawn(&task, napper, NULL, &attr) < 0) {
        return -1;
    }
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // gdb is not our parent
    weft_sleep(10 * WEFT_MS);
    puts("idle");
    fflush(stdout);
    return weft_join(NULL, task, WEFT_FOREVER);
}

int main(int argc, char **argv)
{
    (void)argv;
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    return weft_run(argc > 1 ? idle : run, NULL, &options) < 0;
}
