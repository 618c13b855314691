// spawn_api.c - the public ways to start a task.
#include <errno.h>

#include <weft/scope.h>

#include "runtime/runtime.h"

void weft_attr_init(struct weft_attr *attr)
{
    *attr = (struct weft_attr)WEFT_ATTR_INIT;
}

/// Spawns into the root scope of the runtime we are in.
static int spawn_here(weft_task **task, struct weft__spawn *spawn)
{
    struct weft__carrier *self = weft__carrier_self();
    struct weft__crew *crew = weft__likely(self != NULL) ? self->crew : weft__crew_self();
    if (task != NULL) {
        *task = NULL;
    }
    if (crew == NULL) {
        return weft__no_task();
    }
    spawn->scope = &crew->root;
    return weft__spawn(task, crew, self, spawn);
}

static int spawn_there(weft_task **task, weft_runtime *runtime, struct weft__spawn *spawn)
{
    struct weft__carrier *self = weft__carrier_self();
    struct weft__crew *crew = &runtime->crew;
    if (task != NULL) {
        *task = NULL;
    }
    int rc = weft__runtime_refuses(crew, self);
    if (rc < 0) {
        return rc;
    }
    spawn->scope = &crew->root;
    return weft__spawn(task, crew, self != NULL && self->crew == crew ? self : NULL, spawn);
}

int weft_spawn_at(weft_task **task, weft_fn fn, void *arg, const struct weft_attr *attr,
                  const char *file, int line)
{
    struct weft__spawn spawn = { .fn = fn, .arg = arg, .attr = attr, .file = file, .line = line };
    return spawn_here(task, &spawn);
}

int weft_go_at(weft_fn fn, void *arg, const char *file, int line)
{
    struct weft__spawn spawn = { .fn = fn, .arg = arg, .file = file, .line = line };
    return spawn_here(NULL, &spawn);
}

int weft_spawn_future_at(weft_task **task, struct weft_future *future, const struct weft_attr *attr,
                         const char *file, int line)
{
    struct weft__spawn spawn = {
        .is_future = true, .arg = future, .attr = attr, .file = file, .line = line
    };
    return spawn_here(task, &spawn);
}

int weft_go_future_at(struct weft_future *future, weft_ended_fn ended, const char *file, int line)
{
    struct weft__spawn spawn = {
        .is_future = true, .ended = ended, .arg = future, .file = file, .line = line
    };
    return ended != NULL ? spawn_here(NULL, &spawn) : -EINVAL;
}

int weft_runtime_spawn_at(weft_task **task, weft_runtime *runtime, weft_fn fn, void *arg,
                          const struct weft_attr *attr, const char *file, int line)
{
    struct weft__spawn spawn = { .fn = fn, .arg = arg, .attr = attr, .file = file, .line = line };
    return spawn_there(task, runtime, &spawn);
}

int weft_runtime_spawn_future_at(weft_task **task, weft_runtime *runtime,
                                 struct weft_future *future, const struct weft_attr *attr,
                                 const char *file, int line)
{
    struct weft__spawn spawn = {
        .is_future = true, .arg = future, .attr = attr, .file = file, .line = line
    };
    return spawn_there(task, runtime, &spawn);
}
