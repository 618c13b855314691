// sync_test.c - what all means of synchronisation promise, told once and checked for each of them:
// deadlines, cancellation, ending with waiters, futures, foreign threads, who may call what.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <weft.h>

union object {
    struct weft_mutex mutex;
    struct weft_rwlock rwlock;
    struct weft_semaphore semaphore;
    struct weft_notify notify;
    struct weft_event event;
    struct weft_barrier barrier;
    struct weft_wait_group group;
    struct weft_once once;
    struct weft_token token;
};

/// One way to wait. An object is zeroed, then `block` makes it one that waiters wait for. `allow`
/// lets one waiter go, or all; who has gone calls `after`. `restore` takes `block` back instead.
struct way {
    const char *name;
    bool deaf;  // not a cancellation point
    bool stays; // what a cancelled future was given stays with it
    int result; // what a waiter gets that was let go
    void (*block)(union object *o);
    int (*wait)(union object *o, weft_time deadline);
    void (*prepare)(struct weft_sync_future *f, union object *o);
    void (*allow)(union object *o);
    void (*after)(union object *o);
    void (*restore)(union object *o);
    int (*fini)(union object *o);
};

static void nothing(union object *o)
{
    (void)o;
}

// The mutex.

static void mutex_block(union object *o)
{
    CHECK_OK(weft_mutex_lock(&o->mutex, WEFT_FOREVER));
}
static int mutex_wait(union object *o, weft_time deadline)
{
    return weft_mutex_lock(&o->mutex, deadline);
}
static void mutex_prepare(struct weft_sync_future *f, union object *o)
{
    weft_mutex_lock_future(f, &o->mutex);
}
static void mutex_allow(union object *o)
{
    weft_mutex_unlock(&o->mutex);
}
static int mutex_fini(union object *o)
{
    return weft_mutex_fini(&o->mutex);
}

// The reader-writer lock: reading, writing, upgrading.

static void rwlock_block(union object *o)
{
    CHECK_OK(weft_rwlock_write(&o->rwlock, WEFT_FOREVER));
}
static int rwlock_read_wait(union object *o, weft_time deadline)
{
    return weft_rwlock_read(&o->rwlock, deadline);
}
static int rwlock_write_wait(union object *o, weft_time deadline)
{
    return weft_rwlock_write(&o->rwlock, deadline);
}
static void rwlock_read_prepare(struct weft_sync_future *f, union object *o)
{
    weft_rwlock_read_future(f, &o->rwlock);
}
static void rwlock_write_prepare(struct weft_sync_future *f, union object *o)
{
    weft_rwlock_write_future(f, &o->rwlock);
}
static void rwlock_read_unlock(union object *o)
{
    weft_rwlock_read_unlock(&o->rwlock);
}
static void rwlock_write_unlock(union object *o)
{
    weft_rwlock_write_unlock(&o->rwlock);
}
static int rwlock_fini(union object *o)
{
    return weft_rwlock_fini(&o->rwlock);
}

// The semaphore.

static int semaphore_wait(union object *o, weft_time deadline)
{
    return weft_semaphore_acquire(&o->semaphore, 3, deadline);
}
static void semaphore_prepare(struct weft_sync_future *f, union object *o)
{
    weft_semaphore_acquire_future(f, &o->semaphore, 3);
}
static void semaphore_allow(union object *o)
{
    CHECK_OK(weft_semaphore_release(&o->semaphore, 3));
}
static int semaphore_fini(union object *o)
{
    return weft_semaphore_fini(&o->semaphore);
}

// Notify: one, last, all.

static int notify_wait(union object *o, weft_time deadline)
{
    return weft_notify_wait(&o->notify, deadline);
}
static void notify_prepare(struct weft_sync_future *f, union object *o)
{
    weft_notify_wait_future(f, &o->notify);
}
static void notify_allow(union object *o)
{
    weft_notify_one(&o->notify);
}
static int notify_fini(union object *o)
{
    return weft_notify_fini(&o->notify);
}

// The event.

static int event_wait(union object *o, weft_time deadline)
{
    return weft_event_wait(&o->event, deadline);
}
static void event_prepare(struct weft_sync_future *f, union object *o)
{
    weft_event_wait_future(f, &o->event);
}
static void event_allow(union object *o)
{
    weft_event_set(&o->event);
}
static int event_fini(union object *o)
{
    return weft_event_fini(&o->event);
}

// The wait group.

static void group_block(union object *o)
{
    CHECK_OK(weft_wait_group_add(&o->group, 1));
}
static int group_wait(union object *o, weft_time deadline)
{
    return weft_wait_group_wait(&o->group, deadline);
}
static void group_prepare(struct weft_sync_future *f, union object *o)
{
    weft_wait_group_wait_future(f, &o->group);
}
static void group_allow(union object *o)
{
    weft_wait_group_done(&o->group);
}
static int group_fini(union object *o)
{
    return weft_wait_group_fini(&o->group);
}

// Once: success lets all go, failure makes one of them try.

static void once_block(union object *o)
{
    CHECK_EQ(weft_once_begin(&o->once, WEFT_FOREVER), 1);
}
static int once_wait(union object *o, weft_time deadline)
{
    return weft_once_begin(&o->once, deadline);
}
static void once_prepare(struct weft_sync_future *f, union object *o)
{
    weft_once_begin_future(f, &o->once);
}
static void once_fail(union object *o)
{
    weft_once_end(&o->once, -EIO);
}
static int once_fini(union object *o)
{
    return weft_once_fini(&o->once);
}

// The token.

static int token_wait(union object *o, weft_time deadline)
{
    return weft_token_wait(&o->token, deadline);
}
static void token_prepare(struct weft_sync_future *f, union object *o)
{
    weft_token_wait_future(f, &o->token);
}
static void token_allow(union object *o)
{
    weft_token_cancel(&o->token);
}
static int token_fini(union object *o)
{
    return weft_token_fini(&o->token);
}

// clang-format off
static const struct way ways[] = {
    { "mutex", true, false, 0, mutex_block, mutex_wait, mutex_prepare, mutex_allow, mutex_allow,
      mutex_allow, mutex_fini },
    { "rwlock read", true, false, 0, rwlock_block, rwlock_read_wait, rwlock_read_prepare,
      rwlock_write_unlock, rwlock_read_unlock, rwlock_write_unlock, rwlock_fini },
    { "rwlock write", true, false, 0, rwlock_block, rwlock_write_wait, rwlock_write_prepare,
      rwlock_write_unlock, rwlock_write_unlock, rwlock_write_unlock, rwlock_fini },
    { "semaphore", false, false, 0, nothing, semaphore_wait, semaphore_prepare, semaphore_allow,
      semaphore_allow, nothing, semaphore_fini },
    { "notify", false, false, 0, nothing, notify_wait, notify_prepare, notify_allow, notify_allow,
      nothing, notify_fini },
    { "event", false, true, 0, nothing, event_wait, event_prepare, event_allow, nothing, nothing,
      event_fini },
    { "wait group", false, true, 0, group_block, group_wait, group_prepare, group_allow, nothing,
      group_allow, group_fini },
    { "once", false, false, 1, once_block, once_wait, once_prepare, once_fail, once_fail, once_fail,
      once_fini },
    { "token", false, true, 0, nothing, token_wait, token_prepare, token_allow, nothing, nothing,
      token_fini },
};
// clang-format on
enum { WAYS = sizeof ways / sizeof ways[0] };

static void start(const struct way *way, union object *o)
{
    memset(o, 0, sizeof *o);
    way->block(o);
}

/// A virtual thread that waits.
struct waiter {
    const struct way *way;
    union object *o;
    weft_time deadline;
    _Atomic int rc;    // what the wait returned
    _Atomic bool over; // it has returned
    bool pass_on;      // calls `after`
};

static int run_waiter(void *arg)
{
    struct waiter *w = arg;
    int rc = w->way->wait(w->o, w->deadline);
    atomic_store(&w->rc, rc);
    atomic_store(&w->over, true);
    if (rc >= 0 && w->pass_on) {
        w->way->after(w->o);
    }
    return 0;
}

static void *run_waiter_thread(void *arg)
{
    run_waiter(arg);
    return NULL;
}

static struct waiter waiter_of(const struct way *way, union object *o)
{
    return (struct waiter){ .way = way, .o = o, .deadline = WEFT_FOREVER, .pass_on = true };
}

/// Spawns it on this carrier and lets it run until it waits.
static weft_task *spawn_waiter(struct waiter *w)
{
    weft_task *task;
    CHECK_OK(weft_spawn(&task, run_waiter, w, NULL));
    let_others_run();
    CHECK(!atomic_load(&w->over));
    return task;
}

TEST_EVERYWHERE(a_deadline_ends_the_wait_and_nothing_is_taken)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        start(way, &o);
        weft_time deadline = weft_after(WEFT_MS);
        CHECK_EQ(way->wait(&o, deadline), -ETIMEDOUT);
        CHECK_GE(weft_now(), deadline);
        CHECK_EQ(way->wait(&o, 1), -ETIMEDOUT); // in the past
        way->allow(&o);
        CHECK_EQ(way->wait(&o, 1), way->result); // there, so the deadline does not matter
        way->after(&o);
        CHECK_EQ(way->fini(&o), 0);
    }
}

TEST_EVERYWHERE(a_cancel_ends_the_wait_unless_it_is_deaf)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        start(way, &o);
        struct waiter w = waiter_of(way, &o);
        weft_task *task = spawn_waiter(&w);
        weft_task_cancel(task);
        let_others_run();
        CHECK_EQ(atomic_load(&w.over), !way->deaf);
        if (way->deaf) {
            way->allow(&o);
        }
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_EQ(atomic_load(&w.rc), way->deaf ? way->result : -ECANCELED);
        if (!way->deaf) {
            way->restore(&o);
        }
        CHECK_EQ(way->fini(&o), 0);
    }
}

TEST_EVERYWHERE(in_a_cancelled_scope_only_the_deaf_get_anything)
{
    struct weft_scope scope;
    union object objects[WAYS];
    for (int i = 0; i < WAYS; i++) {
        start(&ways[i], &objects[i]);
        ways[i].allow(&objects[i]);
    }
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&scope);
    for (int i = 0; i < WAYS; i++) {
        const struct way *way = &ways[i];
        int expected = way->deaf ? way->result : -ECANCELED;
        CHECK_EQ(way->wait(&objects[i], WEFT_FOREVER), expected);
        if (way->deaf) {
            way->after(&objects[i]);
        }
        CHECK_EQ(way->fini(&objects[i]), 0);
    }
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
}

TEST_EVERYWHERE(ending_an_object_with_waiters_is_refused)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        start(way, &o);
        struct waiter w = waiter_of(way, &o);
        weft_task *task = spawn_waiter(&w);
        CHECK_EQ(way->fini(&o), -EBUSY);
        way->allow(&o);
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_EQ(atomic_load(&w.rc), way->result);
        CHECK_EQ(way->fini(&o), 0);
    }
}

TEST_EVERYWHERE(a_future_waits_as_well)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        struct weft_sync_future f;
        start(way, &o);
        way->prepare(&f, &o);
        CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
        CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
        CHECK_EQ(way->fini(&o), -EBUSY);
        way->allow(&o);
        CHECK_EQ(poll_to_the_end(&f.future), way->result);
        CHECK_EQ(f.future.poll(&f.future, NULL), WEFT_READY); // and stays so
        way->after(&o);
        way->prepare(&f, &o);
        if (poll_once(&f.future) == WEFT_READY) { // nothing to wait for
            CHECK_EQ(f.future.result, way->result);
            way->after(&o);
        } else {
            f.future.cancel(&f.future);
            CHECK_EQ(poll_once(&f.future), WEFT_READY);
        }
    }
}

TEST_EVERYWHERE(awaiting_such_a_future_obeys_the_deadline)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        struct weft_sync_future f;
        start(way, &o);
        way->prepare(&f, &o);
        CHECK_EQ(weft_await(&f.future, weft_after(WEFT_MS)), -ETIMEDOUT);
        way->restore(&o);
        CHECK_EQ(way->fini(&o), 0);
    }
}

TEST_EVERYWHERE(a_future_that_is_cancelled_leaves_the_queue)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        struct weft_sync_future f;
        start(way, &o);
        way->prepare(&f, &o);
        f.future.cancel(&f.future); // before the first poll
        CHECK_EQ(poll_once(&f.future), WEFT_READY);
        CHECK_EQ(f.future.result, -ECANCELED);
        way->prepare(&f, &o);
        CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
        f.future.cancel(&f.future);
        CHECK_EQ(poll_once(&f.future), WEFT_READY);
        CHECK_EQ(f.future.result, -ECANCELED);
        way->restore(&o);
        CHECK_EQ(way->fini(&o), 0);
    }
}

/// The first in the queue is chosen and cancelled before it has noticed. The second gets it.
TEST_EVERYWHERE(a_future_that_is_cancelled_after_it_was_chosen_passes_it_on)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        struct weft_sync_future f;
        start(way, &o);
        way->prepare(&f, &o);
        CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
        struct waiter w = waiter_of(way, &o);
        weft_task *task = spawn_waiter(&w);
        way->allow(&o);
        f.future.cancel(&f.future);
        CHECK_EQ(poll_once(&f.future), WEFT_READY);
        CHECK_EQ(f.future.result, way->stays ? way->result : -ECANCELED);
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_EQ(atomic_load(&w.rc), way->result);
        CHECK_EQ(way->fini(&o), 0);
    }
}

static void count_wake(const weft_waker *waker)
{
    atomic_fetch_add((_Atomic int *)waker->data, 1);
}

static void count_wake_and_drop(weft_waker *waker)
{
    count_wake(waker);
    *waker = (weft_waker){ NULL, NULL };
}

static void copy_waker(weft_waker *copy, const weft_waker *waker)
{
    *copy = *waker;
}

static void drop_waker(weft_waker *waker)
{
    *waker = (weft_waker){ NULL, NULL };
}

static const struct weft_waker_vtable counting = {
    .clone = copy_waker,
    .wake = count_wake_and_drop,
    .wake_by_ref = count_wake,
    .drop = drop_waker,
};

TEST_EVERYWHERE(the_waker_of_the_last_poll_is_woken)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        struct weft_sync_future f;
        _Atomic int wakes[2] = { 0, 0 };
        weft_waker first = { &counting, &wakes[0] };
        weft_waker second = { &counting, &wakes[1] };
        start(way, &o);
        way->prepare(&f, &o);
        CHECK_EQ(f.future.poll(&f.future, &first), WEFT_PENDING);
        CHECK_EQ(f.future.poll(&f.future, &second), WEFT_PENDING);
        way->allow(&o);
        CHECK_EQ(atomic_load(&wakes[0]), 0);
        CHECK_EQ(atomic_load(&wakes[1]), 1);
        CHECK_EQ(f.future.poll(&f.future, &first), WEFT_READY);
        CHECK_EQ(f.future.result, way->result);
        way->after(&o);
    }
}

/// Waiters of all kinds in one queue; each passes on what it got.
TEST_EVERYWHERE(futures_and_threads_wait_together)
{
    enum { COUNT = 12 };
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        struct weft_sync_future futures[COUNT];
        struct waiter waiters[COUNT];
        weft_task *tasks[COUNT];
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        start(way, &o);
        for (int i = 0; i < COUNT; i++) {
            way->prepare(&futures[i], &o);
            CHECK_EQ(poll_once(&futures[i].future), WEFT_PENDING);
            waiters[i] = waiter_of(way, &o);
            CHECK_OK(weft_spawn(&tasks[i], run_waiter, &waiters[i], &attr));
        }
        way->allow(&o);
        for (int i = 0; i < COUNT; i++) {
            CHECK_EQ(weft_await(&futures[i].future, WEFT_FOREVER), way->result);
            way->after(&o);
        }
        for (int i = 0; i < COUNT; i++) {
            CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
            CHECK_EQ(atomic_load(&waiters[i].rc), way->result);
        }
        CHECK_EQ(way->fini(&o), 0);
    }
}

static enum weft_poll wait_in_a_poll(struct weft_future *future, weft_waker *waker)
{
    (void)waker;
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        start(way, &o);
        CHECK_EQ(way->wait(&o, WEFT_FOREVER), -EPERM);
        way->allow(&o);
        CHECK_EQ(way->wait(&o, WEFT_FOREVER), way->result);
        way->after(&o);
        CHECK_EQ(way->fini(&o), 0);
    }
    future->result = 0;
    return WEFT_READY;
}

TEST_EVERYWHERE(a_future_cannot_make_a_call_that_waits)
{
    struct weft_future future;
    weft_task *task;
    weft_future_init(&future, wait_in_a_poll, NULL);
    CHECK_OK(weft_spawn_future(&task, &future, NULL));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
}

TEST(foreign_threads_wait_for_each_other)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        for (int i = 0; i < (int)test_scaled(50); i++) {
            union object o;
            start(way, &o);
            struct waiter w = waiter_of(way, &o);
            pthread_t thread = foreign_begin(run_waiter_thread, &w);
            if (i % 2 == 0) {
                sched_yield();
            }
            way->allow(&o);
            CHECK_EQ(pthread_join(thread, NULL), 0);
            CHECK_EQ(atomic_load(&w.rc), way->result);
            CHECK_EQ(way->fini(&o), 0);
        }
    }
}

TEST(foreign_threads_obey_their_deadline)
{
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        union object o;
        start(way, &o);
        weft_time deadline = weft_after(WEFT_MS);
        CHECK_EQ(way->wait(&o, deadline), -ETIMEDOUT);
        CHECK_GE(weft_now(), deadline);
        CHECK_EQ(way->wait(&o, 0), -ETIMEDOUT);
        way->restore(&o);
        CHECK_EQ(way->fini(&o), 0);
    }
}

TEST_DRIVERS(foreign_threads_and_tasks_wait_for_each_other)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        for (int i = 0; i < (int)test_scaled(40); i++) {
            union object o;
            weft_task *task;
            start(way, &o);
            struct waiter inside = waiter_of(way, &o);
            struct waiter outside = waiter_of(way, &o);
            CHECK_OK(weft_runtime_spawn(&task, runtime, run_waiter, &inside, NULL));
            pthread_t thread = foreign_begin(run_waiter_thread, &outside);
            way->allow(&o);
            CHECK_EQ(pthread_join(thread, NULL), 0);
            CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
            CHECK_EQ(atomic_load(&inside.rc), way->result);
            CHECK_EQ(atomic_load(&outside.rc), way->result);
            CHECK_EQ(way->fini(&o), 0);
        }
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

/// Whoever is late and whoever is let go decide it in one place: never both, never neither.
TEST_EVERYWHERE(deadline_and_permission_race)
{
    uint64_t random = test_seed();
    for (const struct way *way = ways; way < ways + WAYS; way++) {
        for (int i = 0; i < (int)test_scaled(60); i++) {
            union object o;
            weft_task *task;
            struct weft_attr attr = WEFT_ATTR_INIT;
            attr.place = WEFT_PLACE_SPREAD;
            start(way, &o);
            struct waiter w = waiter_of(way, &o);
            w.deadline = weft_after(test_random(&random) % (300 * WEFT_US));
            CHECK_OK(weft_spawn(&task, run_waiter, &w, &attr));
            CHECK_OK(weft_sleep(test_random(&random) % (300 * WEFT_US)));
            way->allow(&o);
            CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
            int rc = atomic_load(&w.rc);
            CHECK(rc == way->result || rc == -ETIMEDOUT);
            CHECK_EQ(way->wait(&o, weft_after(WEFT_S)), way->result); // it is not lost
            way->after(&o);
            CHECK_EQ(way->fini(&o), 0);
        }
    }
}
