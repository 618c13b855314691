// scheduler_api.c - schedulers of the program's: their names, and running a task on their threads.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "runtime/schedulers.h"
#include "sched/guest.h"

#define NAMES 32
#define NAME_BYTES 32

struct entry {
    char name[NAME_BYTES];
    weft_scheduler_factory factory;
    void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[NAMES]; // under lock; only grows
static size_t count;                // under lock

static const char *const builtins[] = { "locality", "stealing" };

bool weft__scheduler_is_builtin(const char *name)
{
    for (size_t i = 0; i < WEFT__ARRAY_LEN(builtins); i++) {
        if (strcmp(builtins[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void weft__schedulers_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void weft__schedulers_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/// Under lock.
static struct entry *find(const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(entries[i].name, name) == 0) {
            return &entries[i];
        }
    }
    return NULL;
}

int weft_scheduler_register(const char *name, weft_scheduler_factory factory, void *arg)
{
    size_t length = name != NULL ? strnlen(name, NAME_BYTES) : 0;
    if (length == 0 || length >= NAME_BYTES || factory == NULL) {
        return -EINVAL;
    }
    int rc = 0;
    pthread_mutex_lock(&lock);
    if (weft__scheduler_is_builtin(name) || find(name) != NULL) {
        rc = -EEXIST;
    } else if (count == NAMES) {
        rc = -ENOSPC;
    } else {
        struct entry *entry = &entries[count++];
        memcpy(entry->name, name, length + 1);
        entry->factory = factory;
        entry->arg = arg;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

/// "locality, pool, edf"
static void list_names(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < WEFT__ARRAY_LEN(builtins) + count && used < size; i++) {
        const char *name = i < WEFT__ARRAY_LEN(builtins)
                               ? builtins[i]
                               : entries[i - WEFT__ARRAY_LEN(builtins)].name;
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", name);
    }
    pthread_mutex_unlock(&lock);
}

/// Called without the lock: a factory may register another name.
static int make(struct weft_scheduler **scheduler, const char *name, const struct weft__log *log)
{
    struct entry entry = { .factory = NULL };
    pthread_mutex_lock(&lock);
    const struct entry *found = find(name);
    if (found != NULL) {
        entry = *found;
    }
    pthread_mutex_unlock(&lock);
    if (entry.factory == NULL) {
        char names[256];
        list_names(names, sizeof names);
        weft__log(log, WEFT_LOG_ERROR, "options",
                  "WEFT_SCHED=\"%.64s\" is not allowed: it must be one of %s", name, names);
        return -EINVAL;
    }
    int rc = entry.factory(scheduler, entry.arg);
    if (rc < 0) {
        weft__log(log, WEFT_LOG_ERROR, "runtime", "the scheduler \"%s\" cannot be made: %s", name,
                  strerror(-rc));
    }
    return rc;
}

int weft__scheduler_choose(struct weft__runtime *runtime, bool policy_given)
{
    struct weft_scheduler *scheduler = runtime->options.scheduler;
    const char *name = scheduler == NULL && !policy_given ? getenv("WEFT_SCHED") : NULL;
    bool named = name != NULL && name[0] != '\0' && !weft__scheduler_is_builtin(name);
    int rc = named ? make(&scheduler, name, &runtime->log) : 0;
    if (rc < 0 || scheduler == NULL) {
        return rc;
    }
    rc = weft__scheduler_enter(scheduler, &runtime->crew);
    if (rc == 0) {
        runtime->crew.chosen = scheduler;
    } else {
        weft__log(&runtime->log, WEFT_LOG_ERROR, "runtime", "the scheduler cannot be used: %s",
                  rc == -EBUSY ? "it serves another runtime" : "it was not set up");
    }
    if (named) {
        weft_scheduler_release(scheduler); // the factory's, which is the runtime's now
    }
    return rc;
}

void weft__scheduler_let_go(struct weft__runtime *runtime)
{
    if (runtime->crew.chosen != NULL) {
        weft__scheduler_leave(runtime->crew.chosen, NULL);
        runtime->crew.chosen = NULL;
    }
}

int weft_task_run(weft_task *task)
{
    if (weft__crew_self() != NULL) {
        return -EDEADLK;
    }
    int rc = weft__runtime_refuses(task->crew, NULL);
    return rc < 0 ? rc : weft__guest_run(task);
}

void *weft_task_attachment(const weft_task *task)
{
    return task->attachment;
}

void weft_task_attach(weft_task *task, void *attachment)
{
    task->attachment = attachment;
}

struct weft_scheduler *weft_task_scheduler(const weft_task *task)
{
    return task->own;
}
