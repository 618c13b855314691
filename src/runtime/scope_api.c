// scope_api.c - the public face of scopes: checks who calls, then task/scope.c.
#include <errno.h>

#include <weft/scope.h>

#include "sched/crew.h"
#include "task/host.h"
#include "task/scope.h"

#define KNOWN_FLAGS (WEFT__SCOPE_POLICY | WEFT_SCOPE_SHIELD | WEFT_SCOPE_WORK)

int weft_scope_init(struct weft_scope *public_scope, int flags, weft_time deadline)
{
    struct weft__scope *scope = weft__scope_of(public_scope);
    struct weft__task *task = weft__thread_self();
    *scope = (struct weft__scope){ .open = false };
    if (task == NULL) {
        return weft__no_task();
    }
    if ((flags & ~KNOWN_FLAGS) != 0 || (flags & WEFT__SCOPE_POLICY) > WEFT_SCOPE_COLLECT) {
        return -EINVAL;
    }
    weft__scope_open(scope, task, flags, deadline);
    return 0;
}

void weft_scope_set_attr(struct weft_scope *public_scope, const struct weft_attr *attr)
{
    weft__scope_of(public_scope)->attr = *attr;
}

/// Spawns into the scope, whose attributes count where there are no others.
static int spawn_into(weft_task **task, struct weft__scope *scope, struct weft__spawn *spawn)
{
    struct weft__crew *crew = weft__crew_self();
    if (task != NULL) {
        *task = NULL;
    }
    if (!scope->open || crew == NULL || crew != scope->owner->crew) {
        return weft__no_task();
    }
    if (spawn->attr == NULL && scope->attr.size != 0) {
        spawn->attr = &scope->attr;
    }
    spawn->scope = scope;
    int rc = weft__spawn(task, crew, weft__carrier_self(), spawn);
    // Refused: it is cancelled already, or being shut down, which those at work in it must not feel.
    if (rc < 0 && rc != -ECANCELED) {
        weft__scope_cancel(scope, rc);
    }
    return rc;
}

int weft_scope_spawn_task_at(weft_task **task, struct weft_scope *scope, weft_fn fn, void *arg,
                             const struct weft_attr *attr, const char *file, int line)
{
    struct weft__spawn spawn = { .fn = fn, .arg = arg, .attr = attr, .file = file, .line = line };
    return spawn_into(task, weft__scope_of(scope), &spawn);
}

int weft_scope_spawn_future_at(weft_task **task, struct weft_scope *scope,
                               struct weft_future *future, const struct weft_attr *attr,
                               const char *file, int line)
{
    struct weft__spawn spawn = {
        .is_future = true, .arg = future, .attr = attr, .file = file, .line = line
    };
    return spawn_into(task, weft__scope_of(scope), &spawn);
}

int weft_scope_spawn_at(struct weft_scope *scope, weft_fn fn, void *arg, const char *file, int line)
{
    return weft_scope_spawn_task_at(NULL, scope, fn, arg, NULL, file, line);
}

void weft_scope_cancel(struct weft_scope *public_scope)
{
    struct weft__scope *scope = weft__scope_of(public_scope);
    if (scope->open && weft__runtime_refuses(scope->owner->crew, weft__carrier_self()) == 0) {
        weft__scope_cancel(scope, -ECANCELED);
    }
}

int weft_scope_cause(const struct weft_scope *public_scope)
{
    const struct weft__scope *scope = (const struct weft__scope *)(const void *)public_scope;
    int cause = atomic_load_explicit(&scope->cause, memory_order_acquire);
    return cause == 0 && scope->open && weft__scope_stopped(scope) ? -ECANCELED : cause;
}

int weft_scope_join(struct weft_scope *public_scope)
{
    struct weft__scope *scope = weft__scope_of(public_scope);
    struct weft__task *task = weft__thread_self();
    // A child's innermost scope is this one, too, until it opens its own: so look at the owner.
    if (!scope->open || task == NULL || task->scope != scope || task != scope->owner) {
        return weft__no_task();
    }
    weft__charge(task);
    return weft__scope_join(scope);
}

int weft_work_begin(void)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    weft__work_begin(task);
    return 0;
}

void weft_work_end(void)
{
    struct weft__task *task = weft__thread_self();
    if (task != NULL) {
        weft__work_end(task);
    }
}
