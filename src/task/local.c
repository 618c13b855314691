// local.c - task-local values: a short list per task, newest first.
#include <errno.h>

#include "task/host.h"
#include "task/local.h"

struct weft__local_value {
    struct weft__local_value *next;
    const struct weft_local *key;
    void *value;
};

static struct weft__local_value **find(struct weft__task *task, const struct weft_local *key)
{
    struct weft__local_value **link = &task->locals;
    while (*link != NULL && (*link)->key != key) {
        link = &(*link)->next;
    }
    return link;
}

void *weft__local_get(struct weft__task *task, const struct weft_local *key)
{
    struct weft__local_value *local = *find(task, key);
    return local != NULL ? local->value : NULL;
}

static int add(struct weft__task *task, const struct weft_local *key, void *value)
{
    struct weft__local_value *local = weft__host_alloc(task, sizeof *local);
    if (local == NULL) {
        return -ENOMEM;
    }
    *local = (struct weft__local_value){ task->locals, key, value };
    task->locals = local;
    return 0;
}

int weft__local_set(struct weft__task *task, const struct weft_local *key, void *value)
{
    struct weft__local_value **link = find(task, key);
    struct weft__local_value *local = *link;
    if (local == NULL) {
        return value != NULL ? add(task, key, value) : 0;
    }
    if (value != NULL) {
        local->value = value;
    } else {
        *link = local->next;
        weft__host_free(task, local, sizeof *local);
    }
    return 0;
}

void weft__locals_end(struct weft__task *task)
{
    // A destroy function may set values again; go on until it stops.
    while (task->locals != NULL) {
        struct weft__local_value *local = task->locals;
        task->locals = local->next;
        if (local->key->destroy != NULL && local->value != NULL) { // NULL: inherit() gave nothing
            local->key->destroy(local->value);
        }
        weft__host_free(task, local, sizeof *local);
    }
}

void weft__locals_forget(struct weft__task *task)
{
    while (task->locals != NULL) {
        struct weft__local_value *local = task->locals;
        task->locals = local->next;
        weft__host_free(task, local, sizeof *local);
    }
}

int weft__locals_inherit(struct weft__task *child, const struct weft__task *parent)
{
    for (struct weft__local_value *local = parent->locals; local != NULL; local = local->next) {
        if (local->key->inherit == NULL) {
            continue;
        }
        int rc = add(child, local->key, NULL);
        if (rc < 0) {
            weft__locals_end(child);
            return rc;
        }
        child->locals->value = local->key->inherit(local->value);
    }
    return 0;
}
