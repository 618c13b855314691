// future_test.c - stackless tasks: spawning and awaiting futures, cancelling them, sleeping leaves.
// Wakers and parking are in waker_test.c.
#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <weft.h>

/// Is PENDING a number of times, waking itself; counts what is done to it.
struct counting {
    struct weft_future future; // first member
    int left;                  // PENDING so often
    int after_cancel;          // and so often after a cancel
    int64_t value;             // the result, unless cancelled
    int polls;
    int cancels;
    bool ready;
    bool stubborn; // ignores the cancel
    bool quiet;    // does not wake itself until cancelled
};

static enum weft_poll counting_poll(struct weft_future *future, weft_waker *waker)
{
    struct counting *counting = (struct counting *)future;
    CHECK(!counting->ready);
    counting->polls++;
    bool cancelled = counting->cancels > 0 && !counting->stubborn;
    int *left = cancelled ? &counting->after_cancel : &counting->left;
    if (*left > 0) {
        --*left;
        if (!counting->quiet || cancelled) {
            weft_waker_wake_by_ref(waker);
        }
        return WEFT_PENDING;
    }
    future->result = cancelled ? -ECANCELED : counting->value;
    counting->ready = true;
    return WEFT_READY;
}

static void counting_cancel(struct weft_future *future)
{
    ((struct counting *)future)->cancels++;
}

static void counting_init(struct counting *counting, int left, int64_t value)
{
    *counting = (struct counting){ .left = left, .value = value };
    weft_future_init(&counting->future, counting_poll, counting_cancel);
}

TEST_EVERYWHERE(await_gives_the_result)
{
    struct counting counting;
    static const int64_t values[] = { 0, 42, -EIO, INT64_MAX, INT64_MIN };
    for (int i = 0; i < 5; i++) {
        counting_init(&counting, i, values[i]);
        CHECK_EQ(weft_await(&counting.future, WEFT_FOREVER), values[i]);
        CHECK_EQ(counting.polls, i + 1); // by a wake-up each: never for nothing here
        CHECK_EQ(counting.cancels, 0);
    }
}

TEST(await_outside_a_virtual_thread_does_not_poll)
{
    struct counting counting;
    counting_init(&counting, 0, 1);
    CHECK_EQ(weft_await(&counting.future, WEFT_FOREVER), -EPERM);
    CHECK_EQ(counting.polls, 0);
    weft_task *task = (weft_task *)&task;
    CHECK_EQ(weft_spawn_future(&task, &counting.future, NULL), -EPERM);
    CHECK_EQ(task, (weft_task *)NULL);
}

TEST_EVERYWHERE(await_past_its_deadline_cancels_once_and_polls_to_the_end)
{
    struct counting counting;
    counting_init(&counting, INT32_MAX, 42);
    counting.quiet = true;
    counting.after_cancel = 5;
    weft_time deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_await(&counting.future, deadline), -ETIMEDOUT);
    CHECK_GE(weft_now(), deadline);
    CHECK(counting.ready);
    CHECK_EQ(counting.cancels, 1);
    CHECK_EQ(counting.after_cancel, 0);
}

TEST_EVERYWHERE(a_result_that_came_in_spite_of_the_deadline_wins)
{
    struct counting counting;
    counting_init(&counting, 400, 42);
    counting.stubborn = true;
    CHECK_EQ(weft_await(&counting.future, 1), 42);
    CHECK(counting.ready);
    CHECK_LE(counting.cancels, 1);
    counting_init(&counting, 0, 43);
    CHECK_EQ(weft_await(&counting.future, 1), 43); // ready at once: not even asked to end
    CHECK_EQ(counting.cancels, 0);
}

TEST_EVERYWHERE(await_in_a_cancelled_scope_ends_the_future)
{
    struct counting counting;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(WEFT_MS)));
    counting_init(&counting, INT32_MAX, 42);
    counting.quiet = true;
    counting.after_cancel = 3;
    CHECK_EQ(weft_await(&counting.future, WEFT_FOREVER), -ECANCELED);
    CHECK(counting.ready);
    CHECK_EQ(counting.cancels, 1);
    counting_init(&counting, 1, 42); // level-triggered: the next one, too
    CHECK_EQ(weft_await(&counting.future, WEFT_FOREVER), -ECANCELED);
    counting_init(&counting, 0, 42); // what is ready needs no waiting
    CHECK_EQ(weft_await(&counting.future, WEFT_FOREVER), 42);
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
}

TEST_EVERYWHERE(a_future_without_cancel_is_awaited_to_its_end)
{
    struct counting counting;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&scope);
    counting_init(&counting, 3, 42);
    weft_future_init(&counting.future, counting_poll, NULL);
    CHECK_EQ(weft_await(&counting.future, 1), 42);
    CHECK(counting.ready);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
}

TEST_EVERYWHERE(spawned_futures_are_tasks)
{
    enum { COUNT = 30 };
    static struct counting futures[COUNT];
    weft_task *tasks[COUNT];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    attr.name = "counting";
    for (int i = 0; i < COUNT; i++) {
        counting_init(&futures[i], i, i - 10);
        CHECK_OK(weft_spawn_future(&tasks[i], &futures[i].future, &attr));
        CHECK_EQ(weft_task_stack_used(tasks[i]), -ENOTSUP);
        CHECK_STR(weft_task_name(tasks[i]), "counting");
        CHECK_GT(weft_task_id(tasks[i]), 0u);
    }
    for (int i = 0; i < COUNT; i++) {
        int result;
        CHECK_EQ(weft_join(&result, tasks[i], WEFT_FOREVER), 0);
        CHECK_EQ(result, i - 10);
        CHECK_EQ(futures[i].future.result, i - 10);
        CHECK_EQ(futures[i].cancels, 0);
    }
    struct counting big;
    int result;
    counting_init(&big, 0, (INT64_C(5) << 32) + 7);
    CHECK_OK(weft_spawn_future(&tasks[0], &big.future, NULL));
    CHECK_EQ(weft_join(&result, tasks[0], WEFT_FOREVER), 0);
    CHECK_EQ(result, 7); // cut to int
    attr.carrier = -1;
    attr.place = WEFT_PLACE_CARRIER;
    CHECK_EQ(weft_spawn_future(&tasks[0], &big.future, &attr), -EINVAL);
    CHECK_EQ(tasks[0], (weft_task *)NULL);
}

TEST_EVERYWHERE(a_future_may_be_spawned_detached)
{
    struct counting counting;
    counting_init(&counting, 3, 0);
    CHECK_OK(weft_spawn_future(NULL, &counting.future, NULL));
    while (!counting.ready) {
        CHECK_OK(weft_yield());
    }
}

/// One that frees itself, and says so.
struct alone {
    struct weft_future future; // first member
    int left;
    _Atomic int *ended;
};

static enum weft_poll alone_poll(struct weft_future *future, weft_waker *waker)
{
    struct alone *alone = (struct alone *)future;
    if (weft_cancelled() == 0 && alone->left-- > 0) {
        weft_waker_wake_by_ref(waker);
        return WEFT_PENDING;
    }
    future->result = 7;
    return WEFT_READY;
}

static void free_alone(struct weft_future *future)
{
    struct alone *alone = (struct alone *)future;
    _Atomic int *ended = alone->ended;
    CHECK_EQ(future->result, 7);
    CHECK(weft_self() != NULL);
    weft_future_fini(future);
    free(alone);
    atomic_fetch_add(ended, 1);
}

static struct alone *alone_new(int left, _Atomic int *ended)
{
    struct alone *alone = malloc(sizeof *alone);
    CHECK(alone != NULL);
    weft_future_init(&alone->future, alone_poll, NULL);
    alone->left = left;
    alone->ended = ended;
    return alone;
}

TEST_EVERYWHERE(a_future_that_nobody_joins_says_when_it_has_ended)
{
    enum { COUNT = 200 };
    _Atomic int ended = 0;
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_go_future(&alone_new(i % 4, &ended)->future, free_alone));
    }
    while (atomic_load(&ended) < COUNT) {
        CHECK_OK(weft_yield());
    }
    struct weft_future future;
    weft_future_init(&future, alone_poll, NULL);
    CHECK_EQ(weft_go_future(&future, NULL), -EINVAL);
}

static void count_one(void *value)
{
    atomic_fetch_add((_Atomic int *)value, 1);
}

static const struct weft_local counted = { .name = "counted", .destroy = count_one };

static void set_and_free(struct weft_future *future)
{
    CHECK_OK(weft_local_set(&counted, ((struct alone *)future)->ended));
    free(future);
}

TEST_EVERYWHERE(what_its_last_function_sets_is_destroyed)
{
    _Atomic int destroyed = 0;
    CHECK_OK(weft_go_future(&alone_new(1, &destroyed)->future, set_and_free));
    weft_time late = weft_after(5 * WEFT_S);
    while (atomic_load(&destroyed) == 0) {
        CHECK_LT(weft_now(), late);
        CHECK_OK(weft_sleep(WEFT_MS));
    }
}

static int leave_one_behind(void *arg)
{
    return weft_go_future(&alone_new(INT32_MAX, arg)->future, free_alone);
}

TEST(a_future_that_nobody_joins_ends_with_its_runtime)
{
    _Atomic int ended = 0;
    CHECK_OK(weft_run(leave_one_behind, &ended, NULL));
    CHECK_EQ(atomic_load(&ended), 1);
    struct alone *alone = alone_new(0, &ended);
    CHECK_EQ(weft_go_future(&alone->future, free_alone), -EPERM);
    free(alone); // it was not
    CHECK_EQ(atomic_load(&ended), 1);
}

TEST_EVERYWHERE(cancelling_a_spawned_future_asks_it_once)
{
    struct weft_attr attr = stay_here();
    struct counting counting;
    weft_task *task;
    int result;
    counting_init(&counting, INT32_MAX, 42);
    counting.quiet = true;
    counting.after_cancel = 4;
    CHECK_OK(weft_spawn_future(&task, &counting.future, &attr));
    CHECK_OK(weft_yield());
    CHECK_EQ(counting.polls, 1);
    weft_task_cancel(task);
    weft_task_cancel(task);
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(counting.cancels, 1);
    CHECK(counting.ready);
}

static enum weft_poll refuse_to_block(struct weft_future *future, weft_waker *waker)
{
    struct weft_scope scope;
    static struct counting inner;
    weft_waker mine;
    weft_task *other;
    counting_init(&inner, 0, 1);
    CHECK_EQ(weft_sleep(1), -EPERM);
    CHECK_EQ(weft_sleep_until(0), -EPERM);
    CHECK_EQ(weft_yield(), -EPERM);
    CHECK_EQ(weft_checkpoint(), -EPERM);
    CHECK_EQ(weft_park(1), -EPERM);
    CHECK_EQ(weft_await(&inner.future, 1), -EPERM);
    CHECK_EQ(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_scope_join(&scope), -EPERM);
    CHECK(weft_self() != NULL);
    CHECK_EQ(weft_join(NULL, weft_self(), 1), -EDEADLK);
    CHECK_OK(weft_spawn_future(&other, &inner.future, NULL)); // starting is not blocking
    CHECK_EQ(weft_join(NULL, other, 1), -EPERM);
    weft_task_release(other);
    CHECK_EQ(weft_cancelled(), 0);
    CHECK(weft_carrier_id() >= 0);
    CHECK_OK(weft_waker_self(&mine)); // a waker of the task itself
    CHECK_EQ(mine.data, waker->data);
    weft_waker_drop(&mine);
    future->result = 1;
    return WEFT_READY;
}

TEST_EVERYWHERE(futures_cannot_block)
{
    struct weft_future future;
    weft_task *task;
    int result;
    weft_future_init(&future, refuse_to_block, NULL);
    CHECK_OK(weft_spawn_future(&task, &future, NULL));
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    CHECK_EQ(result, 1);
}

/// The future of the documentation: some sleeps, one after the other.
struct countdown {
    struct weft_future future;
    struct weft_sleep sleep;
    int left;
    weft_time step;
};

static enum weft_poll countdown_poll(struct weft_future *future, weft_waker *waker)
{
    struct countdown *c = (struct countdown *)future;
    while (c->left > 0) {
        if (weft_sleep_poll(&c->sleep, waker) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
        if (weft_sleep_result(&c->sleep) < 0) {
            break;
        }
        if (--c->left > 0) {
            weft_sleep_init(&c->sleep, weft_after(c->step));
        }
    }
    future->result = weft_sleep_result(&c->sleep);
    return WEFT_READY;
}

static void countdown_cancel(struct weft_future *future)
{
    weft_sleep_cancel(&((struct countdown *)future)->sleep);
}

static void countdown_init(struct countdown *c, int ticks, weft_time step)
{
    weft_future_init(&c->future, countdown_poll, countdown_cancel);
    weft_sleep_init(&c->sleep, weft_after(step));
    c->left = ticks;
    c->step = step;
}

TEST_EVERYWHERE(a_countdown_of_sleeps)
{
    enum { COUNT = 40 };
    static struct countdown countdowns[COUNT];
    weft_task *tasks[COUNT];
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_time start = weft_now();
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < COUNT; i++) {
        countdown_init(&countdowns[i], 5, 200 * WEFT_US);
        CHECK_OK(weft_spawn_future(&tasks[i], &countdowns[i].future, &attr));
    }
    for (int i = 0; i < COUNT; i++) {
        int result;
        CHECK_EQ(weft_join(&result, tasks[i], WEFT_FOREVER), 0);
        CHECK_EQ(result, 0);
        CHECK_EQ(countdowns[i].left, 0);
    }
    CHECK_GE(weft_now(), start + 5 * 200 * WEFT_US);
    countdown_init(&countdowns[0], 3, 100 * WEFT_US);
    CHECK_EQ(weft_await(&countdowns[0].future, WEFT_FOREVER), 0);
}

TEST_EVERYWHERE(a_countdown_is_cancelled_wherever_it_is)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    uint64_t random = test_seed();
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < 60; i++) {
        struct countdown countdown;
        weft_task *task;
        int result;
        countdown_init(&countdown, 1000000, 30 * WEFT_US);
        if (i % 3 == 0) {
            countdown_init(&countdown, 1, WEFT_FOREVER);
        }
        CHECK_OK(weft_spawn_future(&task, &countdown.future, &attr));
        if (i % 2 == 0) {
            CHECK_OK(weft_sleep(test_random(&random) % 200000));
        }
        weft_task_cancel(task);
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, -ECANCELED);
    }
    struct countdown countdown;
    countdown_init(&countdown, 1, 3600 * WEFT_S);
    CHECK_EQ(weft_await(&countdown.future, weft_after(WEFT_MS)), -ETIMEDOUT);
}
