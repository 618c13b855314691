// guest_thread.c - what an OS thread that is not a carrier needs to run a task: see guest.h.
#include <errno.h>
#include <pthread.h>

#include "sched/crew.h"
#include "sched/guest.h"
#include "task/overflow.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t leaving; // has a value on threads that were given a signal stack
static int key_rc;

static void give_back(void *value)
{
    (void)value;
    weft__overflow_thread_fini();
}

static void make_key(void)
{
    key_rc = -pthread_key_create(&leaving, give_back);
}

/// A signal stack for the thread, until it ends.
static int prepare_thread(void)
{
    (void)pthread_once(&once, make_key);
    if (key_rc < 0 || pthread_getspecific(leaving) != NULL) {
        return key_rc;
    }
    int rc = weft__overflow_thread_init();
    if (rc == 0) {
        rc = -pthread_setspecific(leaving, &leaving);
        if (rc < 0) {
            weft__overflow_thread_fini();
        }
    }
    return rc;
}

/// A thread that must not move stays where it ran first.
static bool may_run_here(struct weft__task *task)
{
    const void *here = &errno;
    if (!task->roams && task->kept_on == NULL) {
        task->kept_on = here;
    }
    return task->roams || task->kept_on == here;
}

int weft__guest_run(struct weft__task *task)
{
    struct weft__crew *crew = task->crew;
    int rc = prepare_thread();
    if (rc < 0) {
        return rc;
    }
    if (task->own == NULL || !weft__task_claim(task)) {
        return -EINVAL;
    }
    if (!may_run_here(task)) {
        weft__task_hand(task);
        return -EXDEV;
    }
    struct weft__guest guest = { .current = task };
    weft__context_adopt(&guest.runner.context);
    guest.runner.errno_at = &errno;
    guest.runner.cxx = weft__cxx_of_thread();
    guest.runner.control = weft__context_control();
    int saved_errno = errno;
    weft__crew_enter(crew); // the task may end, and be the crew's last
    weft__guest_set_self(&guest);
    weft__guest_turn(task, &guest);
    weft__guest_set_self(NULL);
    weft__crew_leave(crew);
    weft__context_forget(&guest.runner.context);
    errno = saved_errno;
    return 0;
}
