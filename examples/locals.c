// locals.c - values that belong to a task, not to an OS thread: a request id that follows the work.
//
// Thousands of virtual threads share a carrier, and with it every _Thread_local variable. A task-local
// value is the task's own, and a child can inherit it.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

static void *copy_id(void *value)
{
    int *copy = malloc(sizeof *copy);
    if (copy != NULL) {
        *copy = *(int *)value;
    }
    return copy;
}

static const struct weft_local request_id = {
    .name = "request id",
    .destroy = free,
    .inherit = copy_id,
};

static void say(const char *what)
{
    const int *id = weft_local_get(&request_id);
    printf("[request %d] %s\n", id != NULL ? *id : -1, what);
}

static int query(void *arg)
{
    int rc = weft_sleep(WEFT_MS);
    say(arg);
    return rc;
}

static int handle(void *arg)
{
    static char user[] = "asks for the user";
    static char posts[] = "asks for the posts";
    int *id = copy_id(arg);
    int rc = id != NULL ? weft_local_set(&request_id, id) : -ENOMEM;
    if (rc < 0) {
        free(id);
        return rc;
    }
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.inherit = true;
    struct weft_scope scope;
    weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    weft_scope_set_attr(&scope, &attr);
    weft_scope_spawn(&scope, query, user);
    weft_scope_spawn(&scope, query, posts);
    rc = weft_scope_join(&scope);
    say("answered");
    return rc; // the value is freed when its task has ended
}

static int run(void *arg)
{
    (void)arg;
    int ids[] = { 7, 8, 9 };
    struct weft_scope scope;
    weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    for (int i = 0; i < 3; i++) {
        weft_scope_spawn(&scope, handle, &ids[i]);
    }
    return weft_scope_join(&scope);
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
