// Schedulers written by programs: what their tasks can do on OS threads that are not carriers.
#include "support/test.h"

#include "support/onpool.h"
#include "support/waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#define TASKS 200

static int sleeps(void *arg)
{
    (void)arg;
    check_on_pool();
    CHECK(weft_task_scheduler(weft_self()) == &pool->base);
    for (int i = 0; i < 3; i++) {
        weft_time before = weft_now();
        CHECK_OK(weft_sleep(2 * WEFT_MS));
        CHECK_GE(weft_now(), before + 2 * WEFT_MS);
        check_on_pool();
    }
    CHECK_OK(weft_yield());
    check_on_pool();
    for (int i = 0; i < 2000; i++) {
        CHECK_OK(weft_checkpoint());
    }
    check_on_pool();
    return 0;
}

TEST_DRIVERS(tasks_run_on_the_pool_and_sleep)
{
    run_on_pool(sleeps, THREADS);
}

TEST_DRIVERS(a_pool_of_one_takes_threads_that_stay)
{
    run_on_pool(sleeps, 1);
}

// I/O.

static int echo_lines(void *arg)
{
    const int *fds = arg;
    char buffer[64];
    ssize_t n;
    while ((n = weft_read(fds[0], buffer, sizeof buffer, weft_after(60 * WEFT_S))) > 0) {
        check_on_pool();
        CHECK_OK(weft_write_full(NULL, fds[1], buffer, (size_t)n, WEFT_FOREVER));
        check_on_pool();
    }
    CHECK_EQ(n, 0);
    CHECK_OK(weft_close(fds[1]));
    return 0;
}

static int does_io(void *arg)
{
    (void)arg;
    int there[2];
    int back[2];
    CHECK_EQ(pipe2(there, O_NONBLOCK | O_CLOEXEC), 0);
    CHECK_EQ(pipe2(back, O_NONBLOCK | O_CLOEXEC), 0);
    int ends[2] = { there[0], back[1] };
    struct weft_attr attr = on_pool();
    attr.migratable = true;
    weft_task *echo;
    int result = -1;
    char buffer[16] = "";
    CHECK_OK(weft_spawn(&echo, echo_lines, ends, &attr));
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(weft_write(there[1], "hello", 5, WEFT_FOREVER), 5);
        CHECK_OK(weft_read_full(NULL, back[0], buffer, 5, WEFT_FOREVER));
        CHECK_STR(buffer, "hello");
        check_on_pool();
    }
    CHECK_EQ(weft_read(back[0], buffer, 1, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    check_on_pool();
    CHECK_OK(weft_close(there[1]));
    CHECK_OK(weft_join(&result, echo, WEFT_FOREVER));
    CHECK_OK(result);
    CHECK_EQ(weft_read(back[0], buffer, 1, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(there[0]));
    CHECK_OK(weft_close(back[0]));
    CHECK_EQ(weft_read(back[0], buffer, 1, WEFT_FOREVER), -EBADF);
    return 0;
}

TEST_DRIVERS(tasks_of_the_pool_do_io)
{
    run_on_pool(does_io, THREADS);
}

TEST_DRIVERS(tasks_of_a_pool_of_one_do_io)
{
    run_on_pool(does_io, 1);
}

static int waits_for_a_close(void *arg)
{
    char byte;
    CHECK_EQ(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER), -EBADF);
    check_on_pool();
    return 0;
}

static int closes_what_is_read(void *arg)
{
    (void)arg;
    int fds[2];
    CHECK_EQ(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    struct weft_attr attr = on_pool();
    attr.place = WEFT_PLACE_CARRIER;
    weft_task *readers[2];
    for (int i = 0; i < 2; i++) {
        attr.carrier = i;
        CHECK_OK(weft_spawn(&readers[i], waits_for_a_close, &fds[0], &attr));
    }
    CHECK_OK(weft_sleep(1 * WEFT_MS));
    CHECK_OK(weft_close(fds[0]));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_join(NULL, readers[i], WEFT_FOREVER));
    }
    return weft_close(fds[1]);
}

TEST_DRIVERS(closing_ends_reads_of_the_pool)
{
    run_on_pool(closes_what_is_read, THREADS);
}

static int uses_connections(void *arg)
{
    (void)arg;
    weft_listener *listener = NULL;
    weft_conn *conn = NULL;
    CHECK_EQ(weft_listen(&listener, "tcp://127.0.0.1:0", NULL), -EXDEV);
    CHECK_EQ(weft_dial(&conn, "tcp://127.0.0.1:1", NULL, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_conn_adopt(&conn, 0), -EXDEV);
    CHECK(listener == NULL && conn == NULL);
    return 0;
}

TEST_DRIVERS(connections_belong_to_carriers)
{
    run_on_pool(uses_connections, THREADS);
}

// Waiting for each other.

struct shared {
    struct weft_mutex mutex;
    int counter;
    weft_chan *chan;
};

static int adds_up(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_mutex_lock(&shared->mutex, i % 2 ? WEFT_FOREVER : weft_after(60 * WEFT_S)));
        shared->counter++;
        if (i % 7 == 0) {
            CHECK_OK(weft_yield());
        }
        weft_mutex_unlock(&shared->mutex);
        CHECK_OK(weft_chan_send(shared->chan, &i, WEFT_FOREVER));
        check_on_pool();
    }
    return 0;
}

static int synchronises(void *arg)
{
    (void)arg;
    struct shared shared = { .counter = 0 };
    struct weft_scope scope;
    struct weft_attr attr = on_pool();
    weft_mutex_init(&shared.mutex);
    CHECK_OK(weft_chan_create(&shared.chan, sizeof(int), 4));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(60 * WEFT_S)));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 10; i++) {
        CHECK_OK(weft_scope_spawn(&scope, adds_up, &shared));
    }
    long sum = 0;
    for (int i = 0; i < 10 * 20; i++) {
        int item;
        CHECK_OK(weft_chan_recv(&item, shared.chan, weft_after(60 * WEFT_S)));
        sum += item;
    }
    CHECK_OK(weft_scope_join(&scope));
    CHECK_EQ(sum, 10 * 190);
    CHECK_EQ(shared.counter, 200);
    CHECK_OK(weft_chan_destroy(shared.chan));
    weft_mutex_fini(&shared.mutex);
    return 0;
}

TEST_DRIVERS(tasks_of_the_pool_synchronise)
{
    run_on_pool(synchronises, THREADS);
}

static int cancels(void *arg)
{
    (void)arg;
    atomic_int ready = 0;
    int spawned = 0;
    struct weft_scope scope;
    struct weft_attr attr = on_pool();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, weft_after(5 * WEFT_MS)));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 5; i++) {
        spawned += weft_scope_spawn(&scope, waits_for_cancel, &ready) == 0; // not when it is late
    }
    CHECK_EQ(weft_scope_join(&scope), -ETIMEDOUT);
    CHECK_EQ(weft_scope_cause(&scope), -ETIMEDOUT);
    CHECK_EQ(atomic_load(&ready), spawned);
    check_on_pool();

    weft_task *task;
    int result = 0;
    CHECK_OK(weft_spawn(&task, waits_for_cancel, &ready, &attr));
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_spawn(&task, waits_for_cancel, &ready, &attr));
    CHECK_EQ(weft_join(&result, task, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    return 0;
}

TEST_DRIVERS(scopes_and_cancellation_reach_the_pool)
{
    run_on_pool(cancels, THREADS);
}

// What a task takes along.

static struct weft_local key = { .name = "key" };

__attribute__((noinline)) static void set_errno(int value)
{
    __asm__ volatile("");
    errno = value;
}

__attribute__((noinline)) static int get_errno(void)
{
    __asm__ volatile("");
    return errno;
}

static int keeps_its_own(void *arg)
{
    int mine = (int)(intptr_t)arg;
    CHECK_OK(weft_local_set(&key, arg));
    set_errno(mine);
    for (int i = 0; i < 20; i++) {
        if (i % 5 == 0) {
            CHECK_OK(weft_sleep(WEFT_US));
        }
        CHECK_OK(weft_yield());
        CHECK(weft_local_get(&key) == arg);
        CHECK_EQ(get_errno(), mine);
    }
    return 0;
}

static int keep_their_own(void *arg)
{
    (void)arg;
    struct weft_scope scope;
    struct weft_attr attr = on_pool();
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (intptr_t i = 1; i <= 20; i++) {
        CHECK_OK(weft_scope_spawn(&scope, keeps_its_own, (void *)i));
    }
    return weft_scope_join(&scope);
}

TEST_DRIVERS(errno_and_locals_travel_along)
{
    run_on_pool(keep_their_own, THREADS);
}

static void timer_fired(void *arg)
{
    CHECK_GE(weft_carrier_id(), 0); // at home
    weft_event_set(arg);
}

static int answer(void *arg)
{
    return *(int *)arg;
}

static int uses_timers_and_jobs(void *arg)
{
    (void)arg;
    struct weft_timer timer;
    struct weft_event event;
    weft_event_init(&event);
    CHECK_OK(weft_timer_init(&timer, timer_fired, &event));
    weft_timer_set(&timer, weft_after(1 * WEFT_MS));
    CHECK_OK(weft_event_wait(&event, WEFT_FOREVER));
    weft_timer_set(&timer, weft_after(60 * WEFT_S));
    CHECK_EQ(weft_timer_stop(&timer), 1);
    CHECK_EQ(weft_timer_stop(&timer), 0);
    check_on_pool();
    int value = 42;
    CHECK_EQ(weft_blocking(answer, &value, WEFT_FOREVER), 42);
    check_on_pool();
    struct weft_job job;
    int result = 0;
    CHECK_OK(weft_job_submit(&job, NULL, answer, &value));
    CHECK_OK(weft_job_wait(&result, &job, WEFT_FOREVER));
    CHECK_EQ(result, 42);
    weft_event_fini(&event);
    return 0;
}

TEST_DRIVERS(timers_and_blocking_calls_work_in_the_pool)
{
    run_on_pool(uses_timers_and_jobs, THREADS);
}

// Futures.

struct countdown {
    struct weft_future future;
    struct weft_sleep sleep;
    int left;
};

static enum weft_poll countdown_poll(struct weft_future *future, weft_waker *waker)
{
    struct countdown *self = (struct countdown *)future;
    check_on_pool();
    CHECK_EQ(weft_sleep(1), -EPERM);
    CHECK_EQ(weft_yield(), -EPERM);
    while (self->left > 0) {
        if (weft_sleep_poll(&self->sleep, waker) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
        self->left--;
        weft_sleep_init(&self->sleep, weft_after(1 * WEFT_MS));
    }
    future->result = 7;
    return WEFT_READY;
}

static int runs_futures(void *arg)
{
    (void)arg;
    struct countdown countdowns[10];
    weft_task *tasks[10];
    struct weft_attr attr = on_pool();
    attr.migratable = false; // futures always are
    for (int i = 0; i < 10; i++) {
        weft_future_init(&countdowns[i].future, countdown_poll, NULL);
        weft_sleep_init(&countdowns[i].sleep, weft_after(1 * WEFT_MS));
        countdowns[i].left = 3;
        CHECK_OK(weft_spawn_future(&tasks[i], &countdowns[i].future, &attr));
    }
    for (int i = 0; i < 10; i++) {
        int result = 0;
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, 7);
    }
    struct countdown mine;
    weft_future_init(&mine.future, countdown_poll, NULL);
    mine.left = 0;
    return 0;
}

TEST_DRIVERS(futures_run_on_the_pool)
{
    run_on_pool(runs_futures, THREADS);
}

// Many of them, and their end.

static int busy(void *arg)
{
    atomic_int *ended = arg;
    CHECK_OK(weft_yield());
    if (weft_task_id(weft_self()) % 3 == 0) {
        CHECK_OK(weft_sleep(WEFT_US));
    }
    atomic_fetch_add(ended, 1);
    return 0;
}

static int spawns_many(void *arg)
{
    (void)arg;
    static atomic_int ended;
    struct weft_attr attr = on_pool();
    weft_task *tasks[TASKS];
    int plain = 0;
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], busy, &ended, i % 4 == 0 ? NULL : &attr));
        plain += weft_task_scheduler(tasks[i]) == NULL;
    }
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_EQ(atomic_load(&ended), TASKS);
    CHECK_EQ(plain, TASKS / 4); // not inherited
    return 0;
}

TEST_DRIVERS(many_tasks_on_both_kinds_of_threads)
{
    run_on_pool(spawns_many, THREADS);
}

static int leaves_some_behind(void *arg)
{
    (void)arg;
    static atomic_int ready;
    struct weft_attr attr = on_pool();
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_spawn(NULL, waits_for_cancel, &ready, &attr));
    }
    return 0;
}

TEST_DRIVERS(a_shutdown_ends_what_the_pool_runs)
{
    run_on_pool(leaves_some_behind, THREADS);
}
