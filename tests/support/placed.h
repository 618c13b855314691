// placed.h - tasks on a carrier of the test's choice, and what several tests do with them.
#ifndef WEFT_TEST_PLACED_H
#define WEFT_TEST_PLACED_H

#include "support/test.h"

#include <weft.h>

static inline struct weft_attr placed_on(int carrier)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = carrier;
    return attr;
}

/// From a task.
static inline weft_task *spawn_on(int carrier, weft_fn fn, void *arg)
{
    struct weft_attr attr = placed_on(carrier);
    weft_task *task;
    CHECK_OK(weft_spawn(&task, fn, arg, &attr));
    return task;
}

/// From anywhere.
static inline weft_task *spawn_in(weft_runtime *runtime, int carrier, bool migratable,
                                  const char *name, weft_fn fn, void *arg)
{
    struct weft_attr attr = placed_on(carrier);
    weft_task *task;
    attr.migratable = migratable;
    attr.name = name;
    CHECK_OK(weft_runtime_spawn(&task, runtime, fn, arg, &attr));
    return task;
}

static inline int join(weft_task *task)
{
    int result;
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    return result;
}

static inline void join_all(weft_task **tasks, int count)
{
    for (int i = 0; i < count; i++) {
        CHECK_OK(join(tasks[i]));
    }
}

/// Sends bytes to somebody who sends them back.
static inline void ping(int fd)
{
    for (int i = 0; i < 50; i++) {
        char byte = (char)i;
        char back = 0;
        CHECK_EQ(weft_write(fd, &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(fd, &back, 1, WEFT_FOREVER), 1);
        CHECK_EQ(back, byte);
    }
}

/// Sends back what comes, byte by byte, and closes the descriptor at the end.
static inline int pong(void *arg)
{
    int fd = *(int *)arg;
    char byte;
    while (weft_read(fd, &byte, 1, WEFT_FOREVER) == 1) {
        CHECK_EQ(weft_write(fd, &byte, 1, WEFT_FOREVER), 1);
    }
    return weft_close(fd);
}

#endif
