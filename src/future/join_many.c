// join_many.c - waiting for several tasks at once.
//
// The danger: the group of waits lies on the waiter's stack, and each of the tasks may end at any
// moment, on any thread.
//
//     the end of a task                       the waiter
//     is it the first? note its number        watch all of them (task/join.h)
//     copy whom to wake                       until `ended` says enough: park
//     ended++   (last touch)                  unwatch the others; those that are too late to unwatch
//     wake                                      are about to end: wait until `ended` counts them
//
//   M1  `ended` counts the watched tasks that have called. Adding to it is the caller's last touch of
//       the group. The waiter leaves when it has counted all that it could not unwatch.
//   M2  `first` is set once, before its task is counted; so who sees the count sees it, and the result.
//   M3  A waiter of another crew than the thread that wakes it may be gone after the last touch, and
//       its runtime with it: that crew is entered before.
//
// Locks: none. Checked by: tests/model/join_many_model.c, tests/api/join_many_test.c.
#include <errno.h>

#include "base/sys.h"
#include "sched/crew.h"
#include "task/host.h"
#include "task/join.h"
#include "task/wait.h"

struct group;

struct watch {
    struct weft__wait wait;
    struct weft__task *task; // NULL: nobody to watch
    struct group *group;
    bool watching; // the waiter's
};

struct group {
    _Atomic uint32_t ended; // foreign waiters sleep on it
    _Atomic uint32_t first; // 1 + number of the task that decides; 0: none yet
    // Fixed while tasks are watched.
    struct weft__task *waiter; // NULL: a foreign thread
    bool failures;             // only those decide
    // The waiter's.
    uint32_t out; // watches that call, or have called
    size_t count;
    struct watch watches[WEFT_JOIN_MOST];
};

static void note_first(struct group *group, const struct watch *watch)
{
    if (group->failures && watch->task->result >= 0) {
        return;
    }
    uint32_t none = 0;
    uint32_t number = 1 + (uint32_t)(watch - group->watches);
    atomic_compare_exchange_strong_explicit(&group->first, &none, number, memory_order_relaxed,
                                            memory_order_relaxed);
}

static void count_end(struct group *group)
{
    atomic_fetch_add_explicit(&group->ended, 1, memory_order_release); // M1
}

static void wake_waiter(struct group *group, struct weft__task *waiter)
{
    struct weft__carrier *self = weft__carrier_self();
    if (weft__likely(self != NULL && self->crew == waiter->crew)) {
        count_end(group);
        weft__wake(waiter);
        return;
    }
    struct weft__crew *crew = waiter->crew; // M3
    weft__crew_enter(crew);
    count_end(group);
    weft__wake(waiter);
    weft__crew_leave(crew);
}

static void task_ended(struct weft__wait *wait)
{
    struct watch *watch = weft__container_of(wait, struct watch, wait);
    struct group *group = watch->group;
    note_first(group, watch);
    if (group->waiter != NULL) {
        wake_waiter(group, group->waiter);
        return;
    }
    _Atomic uint32_t *futex = &group->ended;
    count_end(group);
    weft__futex_wake(futex, 1);
}

static void watch_all(struct group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        struct watch *watch = &group->watches[i];
        if (watch->task == NULL) {
            continue;
        }
        group->out++;
        weft__wait_init(&watch->wait, NULL, WEFT__WAIT_CALL, "join");
        watch->wait.ask = task_ended;
        watch->watching = true;
        if (!weft__task_watch(watch->task, &watch->wait)) {
            watch->watching = false;
            note_first(group, watch);
            count_end(group);
        }
    }
}

static bool is_enough(struct group *group, bool one)
{
    uint32_t ended = atomic_load_explicit(&group->ended, memory_order_acquire);
    return ended == group->out ||
           (one && atomic_load_explicit(&group->first, memory_order_relaxed) != 0);
}

static int await_as_task(struct group *group, bool one, weft_time deadline)
{
    struct weft__task *task = group->waiter;
    while (!is_enough(group, one)) {
        if (deadline != WEFT_FOREVER && weft__host_now(task) >= deadline) {
            return -ETIMEDOUT;
        }
        atomic_store_explicit(&task->waits_for, "join", memory_order_relaxed);
        weft__host_park(task, deadline);
        atomic_store_explicit(&task->waits_for, NULL, memory_order_relaxed);
    }
    return 0;
}

static int await_as_foreigner(struct group *group, bool one, weft_time deadline)
{
    for (;;) {
        uint32_t seen = atomic_load_explicit(&group->ended, memory_order_relaxed);
        if (is_enough(group, one)) {
            return 0;
        }
        if (weft__futex_wait(&group->ended, seen, deadline) == -ETIMEDOUT) {
            return -ETIMEDOUT;
        }
    }
}

/// Waits until all have ended, or with `one`: until one has that decides.
static int await(struct group *group, bool one, weft_time deadline)
{
    return group->waiter != NULL ? await_as_task(group, one, deadline)
                                 : await_as_foreigner(group, one, deadline);
}

static void unwatch_all(struct group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        struct watch *watch = &group->watches[i];
        if (watch->watching && weft__task_unwatch(watch->task, &watch->wait)) {
            group->out--;
        }
        watch->watching = false;
    }
    (void)await(group, false, WEFT_FOREVER); // M1: they are in hand, so that is soon
}

/// The number of the task that decided, or -1.
static int first_of(struct group *group)
{
    return (int)atomic_load_explicit(&group->first, memory_order_relaxed) - 1;
}

/// Who waits, or why he may not.
static int may_join(struct weft__task **waiter, weft_task *const *tasks, size_t count)
{
    struct weft__carrier *self = weft__carrier_self();
    struct weft__task *thread = weft__thread_self();
    *waiter = thread;
    for (size_t i = 0; i < count; i++) {
        int rc = tasks[i] != NULL ? weft__runtime_refuses(tasks[i]->crew, self) : 0;
        if (rc < 0) {
            return rc;
        }
        if (tasks[i] != NULL && tasks[i] == thread) {
            return -EDEADLK;
        }
    }
    if (self != NULL && thread == NULL) {
        return -EPERM; // a timer function or a future
    }
    if (thread != NULL) {
        weft__charge(thread);
    }
    return 0;
}

static int group_init(struct group *group, weft_task *const *tasks, size_t count, bool failures)
{
    if (count > WEFT_JOIN_MOST) {
        return -E2BIG;
    }
    int rc = may_join(&group->waiter, tasks, count);
    if (rc < 0) {
        return rc;
    }
    atomic_store_explicit(&group->ended, 0, memory_order_relaxed);
    atomic_store_explicit(&group->first, 0, memory_order_relaxed);
    group->failures = failures;
    group->out = 0;
    group->count = count;
    for (size_t i = 0; i < count; i++) {
        group->watches[i].task = tasks[i];
        group->watches[i].group = group;
        group->watches[i].watching = false;
    }
    watch_all(group);
    return 0;
}

static void cancel_others(weft_task *const *tasks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tasks[i] != NULL) {
            weft_task_cancel(tasks[i]); // the one that has ended does not mind
        }
    }
}

/// All have ended.
static void take_results(int *results, weft_task **tasks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tasks[i] == NULL) {
            continue;
        }
        if (results != NULL) {
            results[i] = tasks[i]->result;
        }
        weft_task_release(tasks[i]);
        tasks[i] = NULL;
    }
}

int weft_join_all(int *results, weft_task **tasks, size_t count, weft_time deadline)
{
    struct weft__task *waiter;
    int rc = may_join(&waiter, tasks, count);
    for (size_t i = 0; i < count && rc == 0; i++) {
        int result;
        if (tasks[i] != NULL) {
            rc = weft__task_join(tasks[i], waiter, &result, deadline);
        }
    }
    if (rc == 0) {
        take_results(results, tasks, count);
    }
    return rc;
}

/// Waits for one that decides, then cancels the others and waits for them.
static int join_and_cancel(struct group *group, weft_task *const *tasks, size_t count,
                           weft_time deadline)
{
    int rc = await(group, true, deadline);
    if (rc == 0 && first_of(group) >= 0) {
        cancel_others(tasks, count);
        rc = await(group, false, deadline);
    }
    unwatch_all(group);
    return rc;
}

int weft_try_join_all(int *error, int *results, weft_task **tasks, size_t count, weft_time deadline)
{
    struct group group;
    int rc = group_init(&group, tasks, count, true);
    if (rc < 0) {
        return rc;
    }
    rc = join_and_cancel(&group, tasks, count, deadline);
    if (rc < 0) {
        return rc;
    }
    int first = first_of(&group);
    if (error != NULL) {
        *error = first >= 0 ? tasks[first]->result : 0;
    }
    take_results(results, tasks, count);
    return 0;
}

static int join_some(size_t *index, weft_task *const *tasks, size_t count, bool cancels,
                     weft_time deadline)
{
    struct group group;
    int rc = group_init(&group, tasks, count, false);
    if (rc < 0) {
        return rc;
    }
    if (group.out == 0) {
        return -ECHILD;
    }
    if (cancels) {
        rc = join_and_cancel(&group, tasks, count, deadline);
    } else {
        rc = await(&group, true, deadline);
        unwatch_all(&group);
    }
    if (rc == 0 || (!cancels && first_of(&group) >= 0)) {
        *index = (size_t)first_of(&group);
        rc = 0;
    }
    return rc;
}

int weft_join_any(size_t *index, weft_task *const *tasks, size_t count, weft_time deadline)
{
    return join_some(index, tasks, count, false, deadline);
}

int weft_join_race(size_t *winner, int *result, weft_task **tasks, size_t count, weft_time deadline)
{
    size_t index = 0;
    int rc = join_some(&index, tasks, count, true, deadline);
    if (rc < 0) {
        return rc;
    }
    if (winner != NULL) {
        *winner = index;
    }
    if (result != NULL) {
        *result = tasks[index]->result;
    }
    take_results(NULL, tasks, count);
    return 0;
}
