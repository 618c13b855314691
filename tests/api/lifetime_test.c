// lifetime_test.c - threads that weft did not make are still busy with tasks and timers of a runtime
// that somebody else is destroying. Whatever they hold stays usable until they have given it back;
// the sanitizers say whether it did.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <weft.h>

enum { VISITORS = 4 };

struct visitor {
    weft_task *task;
    weft_waker waker;
    atomic_int ready; // the waker is there
    atomic_bool *start;
    void (*act)(struct visitor *visitor);
    struct {
        struct weft_future base;
        atomic_bool over;
    } future;
};

static weft_runtime *make(int carriers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    options.carriers = carriers;
    options.log_level = WEFT_LOG_ERROR; // handles that outlive the runtime are what we test
    CHECK_OK(weft_runtime_create(&runtime, &options));
    return runtime;
}

static void wait_for(atomic_int *value)
{
    while (atomic_load(value) == 0) {
        sched_yield();
    }
}

/// Parks until it is woken, or cancelled by the shutdown.
static int park_once(void *arg)
{
    struct visitor *visitor = arg;
    CHECK_OK(weft_waker_self(&visitor->waker));
    atomic_store(&visitor->ready, 1);
    return weft_park(WEFT_FOREVER);
}

static enum weft_poll end_when_told(struct weft_future *future, weft_waker *waker)
{
    struct visitor *visitor = (struct visitor *)((char *)future -
                                                 offsetof(struct visitor, future.base));
    if (atomic_load(&visitor->ready) == 0) {
        weft_waker_clone(&visitor->waker, waker);
        atomic_store(&visitor->ready, 1);
    }
    return atomic_load(&visitor->future.over) ? WEFT_READY : WEFT_PENDING;
}

/// The shutdown's cancel wakes it, too.
static void tell_it(struct weft_future *future)
{
    struct visitor *visitor = (struct visitor *)((char *)future -
                                                 offsetof(struct visitor, future.base));
    atomic_store(&visitor->future.over, true);
}

// What a visitor does; each of them ends what it holds.

static void join_it(struct visitor *visitor)
{
    weft_waker_drop(&visitor->waker);
    CHECK_OK(weft_join(NULL, visitor->task, WEFT_FOREVER));
}

static void join_in_vain_and_release(struct visitor *visitor)
{
    weft_waker_drop(&visitor->waker);
    int rc = weft_join(NULL, visitor->task, 0);
    if (rc < 0) {
        CHECK_EQ(rc, -ETIMEDOUT);
        weft_task_release(visitor->task);
    }
}

static void release_at_the_end(struct visitor *visitor)
{
    while (!weft_task_done(visitor->task)) {
        sched_yield();
    }
    weft_task_release(visitor->task);
    weft_waker_drop(&visitor->waker);
}

static void wake_it(struct visitor *visitor)
{
    weft_task_release(visitor->task);
    weft_waker_wake(&visitor->waker);
}

static void drop_the_waker(struct visitor *visitor)
{
    weft_task_release(visitor->task);
    weft_waker_drop(&visitor->waker);
}

static void cancel_it(struct visitor *visitor)
{
    weft_waker_drop(&visitor->waker);
    weft_task_cancel(visitor->task);
    weft_task_release(visitor->task);
}

static void (*const acts[])(struct visitor *) = { join_it,   join_in_vain_and_release,
                                                  wake_it,   release_at_the_end,
                                                  cancel_it, drop_the_waker };
enum { ACTS = sizeof acts / sizeof acts[0] };

static void *visit(void *arg)
{
    struct visitor *visitor = arg;
    while (!atomic_load(visitor->start)) {
        sched_yield();
    }
    visitor->act(visitor);
    return NULL;
}

static void spawn(struct visitor *visitor, weft_runtime *runtime, bool future)
{
    if (future) {
        weft_future_init(&visitor->future.base, end_when_told, tell_it);
        CHECK_OK(weft_runtime_spawn_future(&visitor->task, runtime, &visitor->future.base, NULL));
    } else {
        CHECK_OK(weft_runtime_spawn(&visitor->task, runtime, park_once, visitor, NULL));
    }
    wait_for(&visitor->ready);
}

static void destroy_under_visitors(bool futures, uint64_t rounds)
{
    for (uint64_t round = 0; round < rounds; round++) {
        weft_runtime *runtime = make(1 + (int)(round % 2));
        struct visitor visitors[VISITORS] = { 0 };
        pthread_t threads[VISITORS];
        atomic_bool start = false;
        for (int i = 0; i < VISITORS; i++) {
            visitors[i].start = &start;
            visitors[i].act = acts[(round / 2 + (uint64_t)i * (round % 3)) % ACTS];
            spawn(&visitors[i], runtime, futures);
            CHECK_EQ(pthread_create(&threads[i], NULL, visit, &visitors[i]), 0);
        }
        atomic_store(&start, true);
        CHECK_EQ(weft_runtime_destroy(runtime), 0);
        for (int i = 0; i < VISITORS; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        }
    }
}

TEST_DRIVERS(a_runtime_is_destroyed_while_threads_let_go_of_its_tasks)
{
    destroy_under_visitors(false, test_scaled(120));
}

TEST_DRIVERS(a_runtime_is_destroyed_while_threads_let_go_of_its_futures)
{
    destroy_under_visitors(true, test_scaled(120));
}

// The timer fires, and the runtime goes, before the thread that set it has come back.

struct bell {
    struct weft_timer timer;
    atomic_int rung;
};

static void ring(void *arg)
{
    atomic_store((atomic_int *)arg, 1);
}

static void *set_it(void *arg)
{
    weft_timer_set(arg, 1);
    return NULL;
}

TEST_DRIVERS(a_runtime_is_destroyed_while_a_thread_sets_a_timer)
{
    for (uint64_t round = test_scaled(200); round > 0; round--) {
        weft_runtime *runtime = make(1);
        struct bell bell = { .rung = 0 };
        pthread_t thread;
        CHECK_OK(weft_timer_init_on(&bell.timer, runtime, 0, ring, &bell.rung));
        CHECK_EQ(pthread_create(&thread, NULL, set_it, &bell.timer), 0);
        wait_for(&bell.rung);
        CHECK_EQ(weft_runtime_destroy(runtime), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
}

// So does a task that a thread starts, detached.

static int say_so(void *arg)
{
    ring(arg);
    return 0;
}

struct start {
    weft_runtime *runtime;
    atomic_int ran;
};

static void *start_it(void *arg)
{
    struct start *start = arg;
    CHECK_OK(weft_runtime_spawn(NULL, start->runtime, say_so, &start->ran, NULL));
    return NULL;
}

TEST_DRIVERS(a_runtime_is_destroyed_while_a_thread_starts_a_task)
{
    for (uint64_t round = test_scaled(200); round > 0; round--) {
        struct start start = { .runtime = make(1) };
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, start_it, &start), 0);
        wait_for(&start.ran);
        CHECK_EQ(weft_runtime_destroy(start.runtime), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
}
