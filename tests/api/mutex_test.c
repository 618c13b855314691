// mutex_test.c - mutex and condition variable. What they share with others is in sync_test.c.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <weft.h>

TEST(a_zeroed_mutex_is_free_and_needs_no_runtime)
{
    static struct weft_mutex zeroed;
    struct weft_mutex mutex = WEFT_MUTEX_INIT;
    CHECK_EQ(weft_mutex_try_lock(&zeroed), 0);
    CHECK_EQ(weft_mutex_try_lock(&zeroed), -EAGAIN);
    CHECK_EQ(weft_mutex_fini(&zeroed), -EBUSY);
    weft_mutex_unlock(&zeroed);
    CHECK_EQ(weft_mutex_fini(&zeroed), 0);
    weft_mutex_init(&mutex);
    CHECK_EQ(weft_mutex_lock(&mutex, 0), 0); // free: the deadline does not matter
    weft_mutex_unlock(&mutex);
}

struct turns {
    struct weft_mutex mutex;
    int holders;       // under mutex
    int turns;         // under mutex
    int order[64];     // under mutex: who got it
    _Atomic int ready; // tasks that are about to lock
};

struct turn {
    struct turns *all;
    int number;
    int times;
    bool yields; // while it has the mutex
};

static int lock_then_count(void *arg)
{
    struct turn *turn = arg;
    struct turns *all = turn->all;
    atomic_fetch_add(&all->ready, 1);
    for (int i = 0; i < turn->times; i++) {
        CHECK_EQ(weft_mutex_lock(&all->mutex, WEFT_FOREVER), 0);
        CHECK_EQ(all->holders++, 0);
        if (all->turns < 64) {
            all->order[all->turns] = turn->number;
        }
        all->turns++;
        if (turn->yields) {
            (void)weft_yield();
        }
        CHECK_EQ(all->holders--, 1);
        weft_mutex_unlock(&all->mutex);
    }
    return 0;
}

TEST_EVERYWHERE(waiters_get_the_mutex_in_the_order_in_which_they_came)
{
    enum { COUNT = 10 };
    static struct turns all;
    struct turn turns[COUNT];
    weft_task *tasks[COUNT];
    CHECK_EQ(weft_mutex_lock(&all.mutex, WEFT_FOREVER), 0);
    for (int i = 0; i < COUNT; i++) {
        turns[i] = (struct turn){ .all = &all, .number = i, .times = 1 };
        CHECK_OK(weft_spawn(&tasks[i], lock_then_count, &turns[i], NULL));
        let_others_run();
    }
    weft_mutex_unlock(&all.mutex);
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(all.order[i], i);
    }
    CHECK_EQ(weft_mutex_fini(&all.mutex), 0);
}

/// Who runs may lock again before the one that it has woken runs: no hand-off to a young waiter.
TEST_EVERYWHERE(a_running_thread_overtakes_a_young_waiter)
{
    static struct turns all;
    struct turn turn = { .all = &all, .number = 1, .times = 1 };
    weft_task *task;
    CHECK_EQ(weft_mutex_lock(&all.mutex, WEFT_FOREVER), 0);
    CHECK_OK(weft_spawn(&task, lock_then_count, &turn, NULL));
    let_others_run();
    weft_mutex_unlock(&all.mutex);
    CHECK_EQ(weft_mutex_try_lock(&all.mutex), 0);
    weft_mutex_unlock(&all.mutex);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(all.turns, 1);
}

static void work_under_mutex(struct turns *all, weft_time duration)
{
    CHECK_EQ(weft_mutex_lock(&all->mutex, WEFT_FOREVER), 0);
    CHECK_EQ(weft_sleep(duration), 0);
    weft_mutex_unlock(&all->mutex);
}

/// A loop that has the mutex nearly always: its unlock frees the mutex and its next lock takes it
/// at once. A waiter gets it all the same, once it has waited for a millisecond and lost again.
TEST_EVERYWHERE(a_waiter_older_than_a_millisecond_is_handed_the_mutex)
{
    static struct turns all;
    struct turn turn = { .all = &all, .number = 1, .times = 1 };
    weft_task *task;
    CHECK_EQ(weft_mutex_lock(&all.mutex, WEFT_FOREVER), 0);
    CHECK_OK(weft_spawn(&task, lock_then_count, &turn, NULL));
    let_others_run();
    weft_mutex_unlock(&all.mutex);
    int rounds = 0;
    while (all.turns == 0) {
        work_under_mutex(&all, 400 * WEFT_US);
        rounds++;
        CHECK_LE(rounds, 50);
    }
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(all.turns, 1);
    CHECK_EQ(weft_mutex_fini(&all.mutex), 0);
}

TEST_EVERYWHERE(tasks_on_all_carriers_exclude_each_other)
{
    enum { COUNT = 12 };
    static struct turns all;
    struct turn turns[COUNT];
    weft_task *tasks[COUNT];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    int times = (int)test_scaled(400);
    for (int i = 0; i < COUNT; i++) {
        turns[i] = (struct turn){ .all = &all, .number = i, .times = times, .yields = i % 3 == 0 };
        CHECK_OK(weft_spawn(&tasks[i], lock_then_count, &turns[i], &attr));
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_EQ(all.turns, COUNT * times);
    CHECK_EQ(weft_mutex_fini(&all.mutex), 0);
}

/// Locks as a future, again and again.
struct locker {
    struct weft_future future;
    struct weft_sync_future lock;
    struct turns *all;
    int left;
};

static enum weft_poll locker_poll(struct weft_future *future, weft_waker *waker)
{
    struct locker *locker = (struct locker *)future;
    while (locker->left > 0) {
        if (locker->lock.future.poll(&locker->lock.future, waker) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
        CHECK_EQ(locker->lock.future.result, 0);
        CHECK_EQ(locker->all->holders++, 0);
        locker->all->turns++;
        CHECK_EQ(locker->all->holders--, 1);
        weft_mutex_unlock(&locker->all->mutex);
        locker->left--;
        weft_mutex_lock_future(&locker->lock, &locker->all->mutex);
    }
    future->result = 0;
    return WEFT_READY;
}

static void locker_init(struct locker *locker, struct turns *all, int times)
{
    locker->all = all;
    locker->left = times;
    weft_mutex_lock_future(&locker->lock, &all->mutex);
    weft_future_init(&locker->future, locker_poll, NULL);
}

static void *lock_outside(void *arg)
{
    lock_then_count(arg);
    return NULL;
}

TEST_DRIVERS(tasks_futures_and_foreign_threads_exclude_each_other)
{
    enum { COUNT = 6, THREADS = 2 };
    static struct turns all;
    static struct locker lockers[COUNT];
    struct turn turns[COUNT + THREADS];
    weft_task *tasks[2 * COUNT];
    pthread_t threads[THREADS];
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    int times = (int)test_scaled(1000);
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    for (int i = 0; i < COUNT + THREADS; i++) {
        turns[i] = (struct turn){ .all = &all, .times = times, .yields = i < COUNT && i % 2 };
    }
    for (int i = 0; i < COUNT; i++) {
        locker_init(&lockers[i], &all, times);
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, lock_then_count, &turns[i], NULL));
        CHECK_OK(weft_runtime_spawn_future(&tasks[COUNT + i], runtime, &lockers[i].future, NULL));
    }
    for (int i = 0; i < THREADS; i++) {
        threads[i] = foreign_begin(lock_outside, &turns[COUNT + i]);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < 2 * COUNT; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_EQ(all.turns, (2 * COUNT + THREADS) * times);
    CHECK_EQ(weft_mutex_fini(&all.mutex), 0);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// Condition variables: a store of items.

struct store {
    struct weft_mutex mutex;
    struct weft_cond changed;
    int items;      // under mutex
    int taken;      // under mutex
    bool broadcast; // fixed
};

static void tell(struct store *store)
{
    if (store->broadcast) {
        weft_cond_broadcast(&store->changed);
    } else {
        weft_cond_signal(&store->changed);
    }
}

static int put_many(void *arg)
{
    struct store *store = arg;
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_mutex_lock(&store->mutex, WEFT_FOREVER), 0);
        store->items++;
        weft_mutex_unlock(&store->mutex);
        tell(store); // without the mutex
    }
    return 0;
}

static int take_many(void *arg)
{
    struct store *store = arg;
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_mutex_lock(&store->mutex, WEFT_FOREVER), 0);
        while (store->items == 0) {
            CHECK_EQ(weft_cond_wait(&store->changed, &store->mutex, WEFT_FOREVER), 0);
        }
        store->items--;
        store->taken++;
        weft_mutex_unlock(&store->mutex);
    }
    return 0;
}

static void exchange(bool broadcast)
{
    enum { PAIRS = 4 };
    static struct store store;
    weft_task *tasks[2 * PAIRS];
    struct weft_attr attr = WEFT_ATTR_INIT;
    store = (struct store){ .broadcast = broadcast };
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < PAIRS; i++) {
        CHECK_OK(weft_spawn(&tasks[2 * i], take_many, &store, &attr));
        CHECK_OK(weft_spawn(&tasks[2 * i + 1], put_many, &store, &attr));
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_EQ(store.taken, 200 * PAIRS);
    CHECK_EQ(store.items, 0);
    CHECK_EQ(weft_cond_fini(&store.changed), 0);
    CHECK_EQ(weft_mutex_fini(&store.mutex), 0);
}

TEST_EVERYWHERE(signals_lose_no_item)
{
    exchange(false);
}

TEST_EVERYWHERE(broadcasts_lose_no_item)
{
    exchange(true);
}

struct cond_waiter {
    struct weft_mutex mutex;
    struct weft_cond cond;
    weft_time deadline;
    int waiting; // under mutex
    int woken;   // under mutex
};

static int wait_once(void *arg)
{
    struct cond_waiter *w = arg;
    CHECK_EQ(weft_mutex_lock(&w->mutex, WEFT_FOREVER), 0);
    w->waiting++;
    int rc = weft_cond_wait(&w->cond, &w->mutex, w->deadline);
    CHECK_EQ(weft_mutex_try_lock(&w->mutex), -EAGAIN); // locked again, whatever happened
    w->woken++;
    weft_mutex_unlock(&w->mutex);
    return rc;
}

TEST_EVERYWHERE(a_signal_wakes_one_and_a_broadcast_all)
{
    enum { COUNT = 5 };
    struct weft_attr attr = stay_here(); // for let_others_run()
    static struct cond_waiter w;
    weft_task *tasks[COUNT];
    w.deadline = WEFT_FOREVER;
    memset(&w.cond, 0xff, sizeof w.cond); // whatever was in that memory
    weft_cond_init(&w.cond);
    weft_cond_signal(&w.cond); // nobody waits: forgotten
    weft_cond_broadcast(&w.cond);
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_spawn(&tasks[i], wait_once, &w, &attr));
    }
    let_others_run();
    CHECK_EQ(w.waiting, COUNT);
    CHECK_EQ(w.woken, 0);
    CHECK_EQ(weft_cond_fini(&w.cond), -EBUSY);
    weft_cond_signal(&w.cond);
    let_others_run();
    CHECK_EQ(w.woken, 1);
    weft_cond_signal(&w.cond);
    let_others_run();
    CHECK_EQ(w.woken, 2);
    weft_cond_broadcast(&w.cond);
    for (int i = 0; i < COUNT; i++) {
        int result;
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, 0);
    }
    CHECK_EQ(w.woken, COUNT);
    CHECK_EQ(weft_cond_fini(&w.cond), 0);
}

TEST_EVERYWHERE(a_wait_that_is_late_or_cancelled_locks_the_mutex_again)
{
    static struct cond_waiter w;
    weft_task *task;
    int result;
    w.deadline = weft_after(WEFT_MS);
    CHECK_EQ(wait_once(&w), -ETIMEDOUT);
    w.deadline = WEFT_FOREVER;
    CHECK_OK(weft_spawn(&task, wait_once, &w, NULL));
    let_others_run();
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_spawn(&task, wait_once, &w, NULL));
    weft_task_cancel(task); // before it waits
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(weft_cond_fini(&w.cond), 0);
    CHECK_EQ(weft_mutex_fini(&w.mutex), 0);
}

TEST_EVERYWHERE(a_future_waits_for_a_condition)
{
    struct weft_mutex mutex = WEFT_MUTEX_INIT;
    struct weft_cond cond = WEFT_COND_INIT;
    struct weft_cond_future f;
    CHECK_EQ(weft_mutex_try_lock(&mutex), 0);
    weft_cond_wait_future(&f, &cond, &mutex);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    CHECK_EQ(weft_mutex_try_lock(&mutex), 0); // it has unlocked
    weft_cond_signal(&cond);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING); // woken, but the mutex is ours
    weft_mutex_unlock(&mutex);
    CHECK_EQ(poll_to_the_end(&f.future), 0);
    CHECK_EQ(weft_mutex_try_lock(&mutex), -EAGAIN);

    weft_cond_wait_future(&f, &cond, &mutex);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    CHECK_EQ(weft_await(&f.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_mutex_try_lock(&mutex), -EAGAIN);
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft_cond_fini(&cond), 0);
    CHECK_EQ(weft_mutex_fini(&mutex), 0);
}

/// A future that was signalled and is cancelled passes the signal on; after a broadcast there is
/// nobody to pass it on to.
TEST_EVERYWHERE(a_cancelled_future_passes_a_signal_on)
{
    static struct cond_waiter w;
    struct weft_cond_future f;
    weft_task *task;
    int result;
    w.deadline = WEFT_FOREVER;
    CHECK_EQ(weft_mutex_try_lock(&w.mutex), 0);
    weft_cond_wait_future(&f, &w.cond, &w.mutex);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    CHECK_OK(weft_spawn(&task, wait_once, &w, NULL));
    let_others_run();
    CHECK_EQ(w.waiting, 1);
    weft_cond_signal(&w.cond);
    f.future.cancel(&f.future);
    CHECK_EQ(poll_to_the_end(&f.future), -ECANCELED);
    weft_mutex_unlock(&w.mutex);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 0);
    CHECK_EQ(weft_mutex_fini(&w.mutex), 0);
}

static void *take_outside(void *arg)
{
    take_many(arg);
    return NULL;
}

TEST_DRIVERS(foreign_threads_wait_for_conditions)
{
    static struct store store;
    weft_runtime *runtime;
    weft_task *task;
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    pthread_t thread = foreign_begin(take_outside, &store);
    CHECK_OK(weft_runtime_spawn(&task, runtime, put_many, &store, NULL));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(store.taken, 200);
    CHECK_OK(weft_runtime_destroy(runtime));
}
