// task_test.c - virtual threads from outside: spawn, placement, attributes, identity, yielding.
// Handles are in handle_test.c, cancellation in cancel_test.c, promises in promise_test.c.
#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft.h>

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int give_back(void *arg)
{
    return *(int *)arg;
}

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

static int spawn_and_join(weft_fn fn, void *arg, const struct weft_attr *attr)
{
    weft_task *task;
    int result;
    CHECK_OK(weft_spawn(&task, fn, arg, attr));
    CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
    return result;
}

TEST_EVERYWHERE(join_gives_what_the_function_returned)
{
    static const int values[] = { 0, 1, -1, -EIO, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        int value = values[i];
        CHECK_EQ(spawn_and_join(give_back, &value, NULL), value);
    }
    weft_task *task;
    CHECK_OK(weft_spawn(&task, nothing, NULL, NULL));
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
}

struct self_check {
    weft_task *task;
    bool ran;
};

static int compare_handle(void *arg)
{
    struct self_check *check = arg;
    CHECK_EQ(check->task, weft_self());
    check->ran = true;
    return 0;
}

TEST_EVERYWHERE(handle_is_stored_before_the_task_can_run)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < 300; i++) {
        struct self_check check = { NULL, false };
        CHECK_OK(weft_spawn(&check.task, compare_handle, &check, &attr));
        CHECK_EQ(weft_join(NULL, check.task, WEFT_FOREVER), 0);
        CHECK(check.ran);
    }
}

static atomic_int went;

TEST_EVERYWHERE(go_runs_detached)
{
    for (int i = 0; i < 100; i++) {
        CHECK_OK(weft_go(count, &went));
    }
    while (atomic_load(&went) < 100) {
        CHECK_OK(weft_yield());
    }
}

TEST(calls_that_need_a_task_are_refused_outside)
{
    weft_task *task = (weft_task *)&task;
    CHECK_EQ(weft_spawn(&task, nothing, NULL, NULL), -EPERM);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_EQ(weft_go(nothing, NULL), -EPERM);
    CHECK_EQ(weft_yield(), -EPERM);
    CHECK_EQ(weft_checkpoint(), -EPERM);
    CHECK_EQ(weft_cancelled(), -EPERM);
    CHECK_EQ(weft_self(), (weft_task *)NULL);
    CHECK_EQ(weft_runtime_current(), (weft_runtime *)NULL);
    CHECK_EQ(weft_carrier_id(), -1);
    CHECK_EQ(weft_carrier_count(), 0);
    CHECK_EQ(weft_task_id(NULL), 0u);
    CHECK_STR(weft_task_name(NULL), "");
    weft_task_release(NULL);
}

static void expect_invalid(const struct weft_attr *attr)
{
    atomic_int ran = 0;
    weft_task *task = weft_self();
    CHECK_EQ(weft_spawn(&task, count, &ran, attr), -EINVAL);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_OK(weft_yield());
    CHECK_EQ(atomic_load(&ran), 0);
}

/// On every way in: nothing runs and no handle is left.
TEST_EVERYWHERE(a_spawn_without_a_function_is_refused)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task = weft_self();
    attr.name = "nobody";
    CHECK_EQ(weft_spawn(&task, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(task, (weft_task *)NULL);
    task = weft_self();
    CHECK_EQ(weft_spawn(&task, NULL, &attr, &attr), -EINVAL);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_EQ(weft_go(NULL, &attr), -EINVAL);
    task = weft_self();
    CHECK_EQ(weft_runtime_spawn(&task, weft_runtime_current(), NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_EQ(weft_runtime_spawn(NULL, weft_runtime_current(), NULL, NULL, NULL), -EINVAL);
}

TEST_DRIVERS(a_run_without_a_function_is_refused)
{
    weft_runtime *runtime;
    weft_task *task = (weft_task *)&runtime;
    CHECK_EQ(weft_run(NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_sim_run(NULL, NULL, NULL, NULL), -EINVAL);
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_EQ(weft_runtime_spawn(&task, runtime, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_EVERYWHERE(bad_attributes_are_refused)
{
    struct weft_attr good;
    memset(&good, 0xff, sizeof good);
    weft_attr_init(&good);
    static const struct weft_attr same = WEFT_ATTR_INIT;
    CHECK_EQ(good.size, same.size);
    CHECK_EQ(good.stack_size_bytes, 0u);
    CHECK_EQ(good.place, WEFT_PLACE_CURRENT);
    CHECK(good.name == NULL && !good.migratable && !good.inherit && good.carrier == 0);
    CHECK_EQ(spawn_and_join(nothing, NULL, &good), 0);

    struct weft_attr attr = good;
    attr.size = 0;
    expect_invalid(&attr);
    attr.size = sizeof attr - 1;
    expect_invalid(&attr);

    attr = good;
    attr.stack_size_bytes = 1;
    expect_invalid(&attr);
    attr.stack_size_bytes = (128 << 10) - 1;
    expect_invalid(&attr);
    attr.stack_size_bytes = ((size_t)1 << 30) + 1;
    expect_invalid(&attr);

    attr = good;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = -1;
    expect_invalid(&attr);
    attr.carrier = weft_carrier_count();
    expect_invalid(&attr);
    attr.place = (enum weft_place)99;
    attr.carrier = 0;
    expect_invalid(&attr);
}

__attribute__((noinline)) static int touch(size_t size_bytes)
{
    volatile char *frame = __builtin_alloca(size_bytes);
    for (size_t i = 0; i < size_bytes; i += 1024) {
        frame[i] = 1;
    }
    return frame[0];
}

static int use_stack(void *arg)
{
    size_t size_bytes = *(size_t *)arg;
    int64_t page = sysconf(_SC_PAGESIZE);
    int64_t before = weft_task_stack_used(weft_self());
    CHECK_GT(before, 0);
    CHECK_EQ(before % page, 0);
    CHECK_LT(before, 64 << 10);
    CHECK_EQ(touch(size_bytes), 1);
    int64_t after = weft_task_stack_used(weft_self());
    CHECK_EQ(after % page, 0);
    CHECK_GE(after, (int64_t)size_bytes);
    CHECK_LT(after, (int64_t)size_bytes + (96 << 10));
    return 0;
}

TEST_EVERYWHERE(stack_sizes_are_rounded_up_and_usage_is_told)
{
    static const struct {
        size_t asked;
        size_t usable; // the guard takes 64 KiB of the rounded size
    } sizes[] = { { 512 << 10, 400 << 10 },
                  { (1 << 20) + 1, 1800 << 10 },
                  { 128 << 10, 24 << 10 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.stack_size_bytes = sizes[i].asked;
        size_t usable = sizes[i].usable;
        CHECK_EQ(spawn_and_join(use_stack, &usable, &attr), 0);
    }
}

TEST_EVERYWHERE(stack_usage_of_an_ended_task_can_be_asked)
{
    weft_task *task;
    CHECK_OK(weft_spawn(&task, nothing, NULL, NULL));
    weft_task_retain(task);
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    CHECK_GT(weft_task_stack_used(task), 0);
    weft_task_release(task);
}

static int check_name(void *arg)
{
    CHECK_STR(weft_task_name(weft_self()), arg);
    return 0;
}

TEST_EVERYWHERE(names_are_copied_and_cut_to_31_bytes)
{
    static const char *const names[][2] = {
        { "", "" },
        { "worker", "worker" },
        { "1234567890123456789012345678901", "1234567890123456789012345678901" },
        { "12345678901234567890123456789012", "1234567890123456789012345678901" },
        { "1234567890123456789012345678901 and much more", "1234567890123456789012345678901" },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[64];
        char wanted[64];
        (void)snprintf(name, sizeof name, "%s", names[i][0]);
        (void)snprintf(wanted, sizeof wanted, "%s", names[i][1]);
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.name = name;
        weft_task *task;
        CHECK_OK(weft_spawn(&task, check_name, wanted, &attr));
        memset(name, 'x', sizeof name);
        CHECK_STR(weft_task_name(task), wanted);
        CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    }
    char none[] = "";
    CHECK_EQ(spawn_and_join(check_name, none, NULL), 0);
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int store_id(void *arg)
{
    *(uint64_t *)arg = weft_task_id(weft_self());
    return 0;
}

TEST_EVERYWHERE(ids_are_never_used_twice)
{
    enum { TASKS = 600 };
    static uint64_t ids[TASKS + 1];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    ids[TASKS] = weft_task_id(weft_self());
    for (int i = 0; i < TASKS; i += 2) { // blocks are reused: ids must not be
        weft_task *tasks[2];
        CHECK_OK(weft_spawn(&tasks[0], store_id, &ids[i], NULL));
        CHECK_OK(weft_spawn(&tasks[1], store_id, &ids[i + 1], &attr));
        uint64_t known[2] = { weft_task_id(tasks[0]), weft_task_id(tasks[1]) };
        CHECK_EQ(weft_join(NULL, tasks[0], WEFT_FOREVER), 0);
        CHECK_EQ(weft_join(NULL, tasks[1], WEFT_FOREVER), 0);
        CHECK_EQ(ids[i], known[0]);
        CHECK_EQ(ids[i + 1], known[1]);
    }
    qsort(ids, TASKS + 1, sizeof ids[0], compare_ids);
    CHECK_GT(ids[0], 0u);
    for (int i = 0; i < TASKS; i++) {
        CHECK_LT(ids[i], ids[i + 1]);
    }
}

static int where_am_i(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_carrier_count(), TEST_CARRIERS);
    CHECK(weft_runtime_current() != NULL);
    CHECK_EQ(weft_runtime_carriers(weft_runtime_current()), TEST_CARRIERS);
    return weft_carrier_id();
}

/// Children that are not placed start beside their parent, unless somebody takes them.
static int start_children_here(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        int carrier = spawn_and_join(where_am_i, NULL, NULL);
        CHECK(carrier == weft_carrier_id() || test_steals());
    }
    return 0;
}

TEST_EVERYWHERE(placement_is_obeyed)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    for (int i = 0; i < weft_carrier_count(); i++) {
        attr.carrier = i;
        CHECK_EQ(spawn_and_join(where_am_i, NULL, &attr), i);
        CHECK_EQ(spawn_and_join(start_children_here, NULL, &attr), 0);
    }
    attr.place = WEFT_PLACE_SPREAD;
    int seen[TEST_CARRIERS] = { 0 };
    for (int i = 0; i < 10 * TEST_CARRIERS; i++) {
        seen[spawn_and_join(where_am_i, NULL, &attr)]++;
    }
    for (int i = 0; i < TEST_CARRIERS; i++) {
        CHECK(seen[i] == 10 || test_steals());
    }
}

TEST_DRIVERS(foreign_threads_spawn_round_robin)
{
    struct weft_options options = WEFT_OPTIONS_INIT; // they win over the environment
    options.carriers = TEST_CARRIERS;
    options.policy = WEFT_POLICY_LOCALITY;
    options.steal = WEFT_STEAL_OFF;
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    int seen[TEST_CARRIERS] = { 0 };
    for (int i = 0; i < 10 * TEST_CARRIERS; i++) {
        weft_task *task;
        int carrier;
        CHECK_OK(weft_runtime_spawn(&task, runtime, where_am_i, NULL, NULL));
        CHECK_EQ(weft_join(&carrier, task, WEFT_FOREVER), 0);
        seen[carrier]++;
    }
    for (int i = 0; i < TEST_CARRIERS; i++) {
        CHECK_EQ(seen[i], 10);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}

struct turns {
    char log[64];
    size_t used;
};

struct turner {
    struct turns *turns;
    char letter;
};

static int take_turns(void *arg)
{
    struct turner *turner = arg;
    for (int i = 0; i < 4; i++) {
        turner->turns->log[turner->turns->used++] = turner->letter;
        CHECK_OK(weft_yield());
    }
    return 0;
}

TEST_EVERYWHERE(yield_is_round_robin)
{
    struct weft_attr attr = stay_here();
    struct turns turns = { "", 0 };
    struct turner turners[3] = { { &turns, 'a' }, { &turns, 'b' }, { &turns, 'c' } };
    weft_task *tasks[3];
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_spawn(&tasks[i], take_turns, &turners[i], &attr));
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
    }
    CHECK_STR(turns.log, "abcabcabcabc");
}

TEST_EVERYWHERE(checkpoint_yields_when_the_budget_is_used_up)
{
    struct weft_attr attr = stay_here();
    atomic_int other = 0;
    CHECK_OK(weft_spawn(NULL, count, &other, &attr));
    CHECK_OK(weft_checkpoint()); // starts the slice
    int calls = 1;
    while (atomic_load(&other) == 0) {
        CHECK_OK(weft_checkpoint());
        CHECK_LE(++calls, 128);
    }
}

TEST_EVERYWHERE(checkpoint_yields_when_the_time_slice_is_over)
{
    struct weft_attr attr = stay_here();
    atomic_int other = 0;
    CHECK_OK(weft_yield()); // a fresh slice and a fresh budget
    CHECK_OK(weft_spawn(NULL, count, &other, &attr));
    CHECK_OK(weft_checkpoint());
    weft_time slice_end = weft_after(51 * WEFT_US);
    while (weft_now() < slice_end) {
        CHECK_EQ(atomic_load(&other), 0); // nobody runs between: there is no preemption
    }
    CHECK_OK(weft_checkpoint());
    CHECK_EQ(atomic_load(&other), 1);
}

TEST_EVERYWHERE(cancelled_never_yields)
{
    struct weft_attr attr = stay_here();
    atomic_int other = 0;
    CHECK_OK(weft_spawn(NULL, count, &other, &attr));
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(weft_cancelled(), 0);
    }
    CHECK_EQ(atomic_load(&other), 0);
    CHECK_OK(weft_yield());
    CHECK_EQ(atomic_load(&other), 1);
}

static int keep_errno(void *arg)
{
    int mine = *(int *)arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    errno = mine;
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_yield());
        CHECK_EQ(errno, mine);
        CHECK_OK(weft_sleep(20 * WEFT_US));
        CHECK_EQ(errno, mine);
        CHECK_EQ(spawn_and_join(nothing, NULL, &attr), 0);
        CHECK_EQ(errno, mine);
    }
    return 0;
}

TEST_EVERYWHERE(errno_belongs_to_the_task)
{
    enum { TASKS = 8 };
    weft_task *tasks[TASKS];
    int numbers[TASKS];
    for (int i = 0; i < TASKS; i++) {
        numbers[i] = 1000 + i;
        CHECK_OK(weft_spawn(&tasks[i], keep_errno, &numbers[i], NULL));
    }
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
    }
}

static void fail_and_wake(void *arg)
{
    CHECK_EQ(close(-1), -1);
    CHECK_EQ(errno, EBADF);
    weft_waker_wake(arg);
}

/// The carrier's own calls fail while the task is parked.
TEST_EVERYWHERE(errno_survives_what_its_carrier_does_meanwhile)
{
    struct weft_timer timer;
    weft_waker waker;
    CHECK_OK(weft_timer_init(&timer, fail_and_wake, &waker));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_waker_self(&waker));
        weft_timer_set(&timer, weft_after(10 * WEFT_US));
        errno = 4711;
        while (waker.data != NULL) {
            CHECK_OK(weft_park(WEFT_FOREVER));
            CHECK_EQ(errno, 4711);
        }
    }
    CHECK_EQ(weft_timer_stop(&timer), 0);
}

static int sleep_for_ever(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_FOREVER);
}

/// It passes the cancel on to children on all carriers before it runs again.
static int keep_errno_when_cancelled(void *arg)
{
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 2 * weft_carrier_count(); i++) {
        CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, NULL));
    }
    atomic_store((atomic_int *)arg, 1);
    errno = 4711;
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(errno, 4711);
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK_EQ(errno, 4711);
    int rc = weft_scope_join(&scope);
    CHECK_EQ(errno, 4711);
    return rc;
}

TEST_EVERYWHERE(errno_survives_a_cancel)
{
    for (int i = 0; i < 20; i++) {
        atomic_int ready = 0;
        weft_task *task;
        int result;
        CHECK_OK(weft_spawn(&task, keep_errno_when_cancelled, &ready, NULL));
        while (!atomic_load(&ready)) {
            CHECK_OK(weft_yield());
        }
        weft_task_cancel(task);
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, -ECANCELED);
    }
}

static atomic_int late_spawn;

static int spawn_while_shutting_down(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
    weft_task *task = weft_self();
    CHECK_EQ(weft_spawn(&task, count, &late_spawn, NULL), -ECANCELED);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_EQ(weft_go(count, &late_spawn), -ECANCELED);
    atomic_fetch_sub(&late_spawn, 1);
    return 0;
}

static int start_sleeper(void *arg)
{
    CHECK_OK(weft_go(spawn_while_shutting_down, arg));
    return weft_yield();
}

TEST_DRIVERS(nothing_starts_during_the_shutdown)
{
    CHECK_EQ(weft_run(start_sleeper, NULL, NULL), 0);
    CHECK_EQ(atomic_load(&late_spawn), -1);
    atomic_store(&late_spawn, 0);
    CHECK_EQ(weft_sim_run(NULL, start_sleeper, NULL, NULL), 0);
    CHECK_EQ(atomic_load(&late_spawn), -1);
}
