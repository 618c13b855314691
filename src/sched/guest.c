// guest.c - running tasks on OS threads that are not carriers; see guest.h.
//
// Locks: none. Checked by: tests/model (guest), tests/api/scheduler_test.c.
#include "sched/guest.h"

#include <errno.h>
#include <pthread.h>

#include "base/sys.h"
#include "sched/crew.h"
#include "task/host.h"
#include "task/overflow.h"
#include "task/run.h"

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

bool weft__task_claim(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_acquire);
    return (word & WEFT__WORD_LIFE) == WEFT__WORD_ACTIVE &&
           atomic_exchange_explicit(&task->handed, 0, memory_order_relaxed) == 1;
}

/// Switches to the task, or polls it, and settles what it left. The task is its scheduler's again, or
/// its home's, or gone, when this returns.
static void run(struct weft__task *task, struct weft__guest *guest)
{
    struct weft__runner *runner = &guest->runner;
    if (weft__likely(task->kind == &weft__kind_thread)) {
        int cancelled = weft__thread_enter(task, runner);
        (void)weft__context_resume(&runner->context, &task->context, cancelled, runner->control);
        weft__thread_left(task, runner);
    } else {
        (void)weft__word_clear_notified(task);
        weft__future_poll(task);
    }
    guest->current = NULL;
    weft__task_hand(task);
    if (weft__task_settle(task, runner)) {
        task->sched->ops->on_continue(task->sched, task);
    }
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
    run(task, &guest);
    weft__guest_set_self(NULL);
    weft__crew_leave(crew);
    weft__context_forget(&guest.runner.context);
    errno = saved_errno;
    return 0;
}

void weft__visit_home(struct weft__task *task)
{
    if (task->visits++ > 0) {
        return;
    }
    weft_assert(task->abroad);
    task->abroad = false;
    task->sched = &task->crew->sched;
    task->migratable = false;
    task->movable = false;
    if (weft__carrier_self() != task->home) {
        (void)weft__thread_leave(task, WEFT__YIELDED);
    }
}

/// G1: the task is its own scheduler's again. It is still running.
static void go_abroad(struct weft__task *task)
{
    task->visits = 0;
    task->sched = task->own;
    task->migratable = task->roams;
    task->movable = task->roams;
    task->abroad = true;
}

void weft__visit_over(struct weft__task *task)
{
    if (--task->visits == 0) {
        go_abroad(task);
        (void)weft__thread_leave(task, WEFT__YIELDED);
    }
}

/// G7: the caller has looked at what it waits for, and a wake since then is in the word, or was taken
/// from it by the run at home.
void weft__abroad_park(struct weft__task *task, weft_time deadline)
{
    enum weft__verdict verdict = WEFT__PARKED;
    atomic_store_explicit(&task->waits_since, weft__host_now(task), memory_order_relaxed);
    if (deadline != WEFT_FOREVER) {
        task->noticed = false;
        weft__visit_home(task);
        weft__host_arm(task, deadline);
        verdict = task->noticed ? WEFT__YIELDED : WEFT__PARKED;
        go_abroad(task); // and leaves from home: its own scheduler hears of the wake
    }
    (void)weft__thread_leave(task, verdict);
}

int weft__abroad_checkpoint(struct weft__task *task)
{
    struct weft__carrier *carrier = weft__carrier_self(); // not NULL: its scheduler has delegated
    struct weft__guest *guest = weft__guest_self();
    weft_time *slice_end = carrier != NULL ? &carrier->slice_end : &guest->slice_end;
    weft_time now = weft__host_now(task);
    if (*slice_end == 0) {
        *slice_end = now + task->home->quantum_ns;
    }
    if (--task->budget <= 0 || now >= *slice_end) {
        return weft__thread_leave(task, WEFT__YIELDED);
    }
    return weft__scope_cancelled(task) ? -ECANCELED : 0;
}
