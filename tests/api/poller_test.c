// Pollers: loops of the program's in the place where a carrier would sleep.
#include "support/test.h"

#include "../../examples/pollers.h"
#include "support/waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 20

static struct loop loop;
static char logged[512];

static void note_log(void *ctx, enum weft_log_level level, const char *module, const char *message)
{
    (void)ctx;
    (void)level;
    (void)module;
    (void)snprintf(logged, sizeof logged, "%s", message);
}

static void run_with(int carriers, weft_fn fn)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carriers;
    options.log = note_log;
    CHECK_OK(weft_run(fn, NULL, &options));
}

// What a carrier does must go on whatever its poller does.

static int pong(void *arg)
{
    const int *fds = arg;
    char byte;
    while (weft_read(fds[0], &byte, 1, WEFT_FOREVER) == 1) {
        CHECK_EQ(weft_write(fds[1], &byte, 1, WEFT_FOREVER), 1);
    }
    return 0;
}

/// I/O with a peer on carrier `there`.
static void ping(int there)
{
    int to[2];
    int from[2];
    weft_task *peer;
    char byte = 'x';
    CHECK_EQ(pipe2(to, O_NONBLOCK | O_CLOEXEC), 0);
    CHECK_EQ(pipe2(from, O_NONBLOCK | O_CLOEXEC), 0);
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = there;
    int ends[2] = { to[0], from[1] };
    CHECK_OK(weft_spawn(&peer, pong, ends, &attr));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(weft_write(to[1], &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(from[0], &byte, 1, WEFT_FOREVER), 1);
    }
    CHECK_OK(weft_close(to[1]));
    CHECK_OK(weft_join(NULL, peer, WEFT_FOREVER));
    CHECK_OK(weft_close(to[0]));
    CHECK_OK(weft_close(from[0]));
    CHECK_OK(weft_close(from[1]));
}

struct hands {
    struct weft_semaphore mine;
    struct weft_semaphore yours;
};

static int hands_back(void *arg)
{
    struct hands *hands = arg;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(weft_semaphore_acquire(&hands->yours, 1, WEFT_FOREVER));
        CHECK_OK(weft_semaphore_release(&hands->mine, 1));
    }
    return 0;
}

static void *hands_back_outside(void *arg)
{
    hands_back(arg);
    return NULL;
}

static void hand_over(struct hands *hands)
{
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(weft_semaphore_release(&hands->yours, 1));
        CHECK_OK(weft_semaphore_acquire(&hands->mine, 1, WEFT_FOREVER));
    }
}

/// From carrier 0, whose poller may sleep meanwhile.
static void work(void)
{
    for (int i = 0; i < 5; i++) {
        weft_time before = weft_now();
        CHECK_OK(weft_sleep(2 * WEFT_MS));
        CHECK_GE(weft_now(), before + 2 * WEFT_MS);
    }
    ping(0);
    ping(weft_carrier_count() - 1);
    struct hands hands;
    weft_task *other;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = weft_carrier_count() - 1;
    CHECK_OK(weft_semaphore_init(&hands.mine, 0));
    CHECK_OK(weft_semaphore_init(&hands.yours, 0));
    CHECK_OK(weft_spawn(&other, hands_back, &hands, &attr));
    hand_over(&hands);
    CHECK_OK(weft_join(NULL, other, WEFT_FOREVER));
    pthread_t thread = foreign_begin(hands_back_outside, &hands);
    hand_over(&hands);
    foreign_end(thread);
    for (unsigned long i = 1; i <= ROUNDS; i++) {
        loop_post(&loop, 1);
        while (atomic_load(&loop.handled) < i) {
            CHECK_OK(weft_sleep(50 * WEFT_US));
        }
    }
}

static void with_poller(weft_fn body, weft_poller_wake_fn wake)
{
    CHECK_OK(loop_init(&loop));
    CHECK_OK(weft_poller_register(&loop.poller, NULL, 0, body, wake, &loop));
    work();
    loop_stop(&loop);
    int result = -1;
    CHECK_OK(weft_poller_join(&result, loop.poller, WEFT_FOREVER));
    CHECK_OK(result);
    CHECK_EQ(atomic_load(&loop.handled), ROUNDS);
    loop_fini(&loop);
}

static int spins(void *arg)
{
    (void)arg;
    with_poller(loop_spin, NULL);
    CHECK_EQ(atomic_load(&loop.sleeps), 0);
    return 0;
}

TEST_DRIVERS(a_poller_spins)
{
    run_with(2, spins);
}

static int blocks(void *arg)
{
    (void)arg;
    with_poller(loop_block, NULL);
    CHECK_GT(atomic_load(&loop.sleeps), 0);
    CHECK_STR(logged, "");
    return 0;
}

TEST_DRIVERS(a_poller_blocks_with_a_permit)
{
    run_with(2, blocks);
    run_with(1, blocks);
}

static int blocks_on_lock(void *arg)
{
    (void)arg;
    with_poller(loop_lock, loop_wake);
    CHECK_GT(atomic_load(&loop.sleeps), 0);
    return 0;
}

TEST_DRIVERS(a_poller_blocks_with_a_lock)
{
    run_with(2, blocks_on_lock);
}

static int cooperates(void *arg)
{
    (void)arg;
    with_poller(loop_cooperate, NULL);
    return 0;
}

TEST_DRIVERS(a_poller_cooperates)
{
    run_with(2, cooperates);
}

static int is_stealable(void *arg)
{
    (void)arg;
    weft_task *task;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.migratable = true;
    CHECK_OK(loop_init(&loop));
    CHECK_OK(weft_spawn(&task, loop_yield, &loop, &attr));
    work();
    loop_stop(&loop);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    loop_fini(&loop);
    return 0;
}

TEST_DRIVERS(the_same_loop_is_an_ordinary_thread)
{
    run_with(2, is_stealable);
}

// The slot.

static int returns_at_once(void *arg)
{
    return *(int *)arg;
}

static int registers(void *arg)
{
    (void)arg;
    weft_poller *poller;
    weft_poller *second = (weft_poller *)&poller;
    int number = 41;
    int result = 0;
    CHECK_EQ(weft_poller_register(&poller, NULL, 0, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_poller_register(&poller, NULL, 2, returns_at_once, NULL, &number), -EINVAL);
    CHECK_EQ(weft_poller_register(&poller, NULL, -1, returns_at_once, NULL, &number), -EINVAL);
    CHECK(poller == NULL);
    CHECK_OK(loop_init(&loop));
    CHECK_OK(weft_poller_register(&loop.poller, NULL, 0, loop_block, NULL, &loop));
    CHECK_EQ(weft_poller_register(&second, NULL, 0, returns_at_once, NULL, &number), -EBUSY);
    CHECK(second == NULL);
    CHECK_OK(weft_poller_register(&second, NULL, 1, returns_at_once, NULL, &number));
    CHECK_OK(weft_poller_join(&result, second, WEFT_FOREVER));
    CHECK_EQ(result, 41);
    CHECK_EQ(weft_poller_join(NULL, loop.poller, weft_after(WEFT_MS)), -ETIMEDOUT);
    loop_stop(&loop);
    CHECK_OK(weft_poller_join(NULL, loop.poller, WEFT_FOREVER));
    loop_fini(&loop);
    for (int i = 0; i < 10; i++) { // the slot is free again as soon as the body has returned
        CHECK_OK(weft_poller_register(&poller, NULL, 0, returns_at_once, NULL, &number));
        CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
    }
    return 0;
}

TEST_DRIVERS(a_carrier_has_one_poller)
{
    run_with(2, registers);
}

static int takes_over(void *arg)
{
    weft_poller *first;
    weft_poller *second;
    int number = 1;
    int result = 0;
    (void)arg;
    CHECK_OK(weft_poller_register(&first, NULL, 1, returns_at_once, NULL, &number));
    int rc;
    while ((rc = weft_poller_register(&second, NULL, 1, returns_at_once, NULL, &number)) ==
           -EBUSY) {
        CHECK_OK(weft_yield()); // the body runs
    }
    CHECK_OK(rc);
    CHECK_OK(weft_poller_join(&result, second, WEFT_FOREVER));
    CHECK_OK(weft_poller_join(&result, first, WEFT_FOREVER));
    return 0;
}

TEST_DRIVERS(the_slot_is_free_when_the_body_has_returned_and_not_when_it_is_joined)
{
    run_with(2, takes_over);
}

TEST_DRIVERS(a_foreign_thread_registers_a_poller)
{
    weft_runtime *runtime;
    weft_poller *poller;
    int number = 7;
    int result = 0;
    CHECK_EQ(weft_poller_register(&poller, NULL, 0, returns_at_once, NULL, &number), -EPERM);
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_poller_register(&poller, runtime, 0, returns_at_once, NULL, &number));
    CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
    CHECK_EQ(result, 7);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int is_refused_outside(void *arg)
{
    (void)arg;
    CHECK_OK(loop_init(&loop));
    CHECK_OK(weft_poller_register(&loop.poller, NULL, 0, loop_block, NULL, &loop));
    CHECK_EQ(weft_poller_maybe_yield(loop.poller, false), -EPERM);
    CHECK_EQ(weft_poller_fd(loop.poller), -EPERM);
    CHECK_EQ(weft_poll_guard(loop.poller, loop_sleep_in_epoll, &loop), -EPERM);
    CHECK(!weft_poller_try_park(loop.poller));
    CHECK(!weft_poller_can_park(loop.poller));
    return 0;
}

TEST_DRIVERS(a_shutdown_ends_a_poller)
{
    weft_runtime *runtime;
    weft_task *task;
    int result = -1;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_runtime_spawn(&task, runtime, is_refused_outside, NULL, NULL));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_OK(weft_runtime_shutdown(runtime, 10 * WEFT_S));
    CHECK_OK(weft_poller_join(&result, loop.poller, WEFT_FOREVER));
    CHECK_OK(result);
    loop_fini(&loop);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// A shutdown, and a cancel, reach one that sleeps in its own call.

static atomic_bool at_work; // inside its guard
static weft_task *sleeper;

static int sleeps_in_poll(void *arg, int fd, weft_time until)
{
    struct pollfd watched = { .fd = fd, .events = POLLIN };
    (void)arg;
    atomic_store(&at_work, true);
    return poll(&watched, 1, until == WEFT_FOREVER ? -1 : 1000);
}

static int sleeps_at_work(void *arg)
{
    weft_poller **self = arg;
    int rc;
    sleeper = weft_self();
    CHECK_OK(weft_work_begin());
    while ((rc = weft_poller_maybe_yield(*self, false)) >= 0) {
        CHECK_OK(weft_poll_guard(*self, sleeps_in_poll, NULL));
    }
    weft_work_end();
    return rc;
}

static weft_runtime *start_sleeper(weft_poller **poller)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    options.carriers = 2;
    options.grace_ns = 3600 * WEFT_S; // a hang is the runner's to notice
    atomic_store(&at_work, false);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(weft_poller_register(poller, runtime, 1, sleeps_at_work, NULL, poller));
    while (!atomic_load(&at_work)) {
        usleep(100);
    }
    return runtime;
}

TEST_DRIVERS(a_forced_shutdown_ends_a_poller_that_sleeps_at_work)
{
    static weft_poller *poller;
    int result = 0;
    weft_runtime *runtime = start_sleeper(&poller);
    CHECK_OK(weft_shutdown_request(runtime));
    CHECK_EQ(weft_poller_join(&result, poller, weft_after(20 * WEFT_MS)),
             -ETIMEDOUT); // it is at work
    CHECK_OK(weft_shutdown_request(runtime));
    CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_DRIVERS(a_cancel_ends_a_poller_that_sleeps)
{
    static weft_poller *poller;
    int result = 0;
    weft_runtime *runtime = start_sleeper(&poller);
    weft_task_cancel(sleeper); // the guard hides a shutdown only
    CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int is_simulated(void *arg)
{
    weft_poller *poller;
    CHECK_EQ(weft_poller_register(&poller, NULL, 0, returns_at_once, NULL, arg), -ENOTSUP);
    return 0;
}

TEST(pollers_are_not_simulated)
{
    struct weft_sim_options options = { .seed = 1, .carriers = 1 };
    struct weft_sim_result result;
    CHECK_OK(weft_sim_run(&result, is_simulated, NULL, &options));
}

// The moment between the announcement and the sleep.

static struct weft_event go;
static atomic_int wakes;

static void count_wake(void *arg)
{
    (void)arg;
    atomic_fetch_add(&wakes, 1);
}

static int wakes_the_sleeper(void *arg)
{
    CHECK_EQ(weft_carrier_id(), 1);
    while (!atomic_load((atomic_bool *)arg)) { // parked, and not yet asleep
        CHECK_OK(weft_yield());
    }
    weft_event_set(&go); // somebody on carrier 0 waits for it
    return 0;
}

static int waits_to_go(void *arg)
{
    (void)arg;
    return weft_event_wait(&go, WEFT_FOREVER);
}

static int is_descheduled(void *arg)
{
    weft_poller **self = arg;
    static atomic_bool announced;
    weft_task *waiter;
    weft_task *waker;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    int fd = weft_poller_fd(*self);
    CHECK_GE(fd, 0);
    CHECK_OK(weft_spawn(&waiter, waits_to_go, NULL, &attr));
    attr.carrier = 1;
    CHECK_OK(weft_spawn(&waker, wakes_the_sleeper, &announced, &attr));
    while (!weft_poller_try_park(*self)) {
        CHECK_OK(weft_poller_maybe_yield(*self, false));
    }
    CHECK(weft_poller_can_park(*self));
    atomic_store(&announced, true);
    while (weft_poller_can_park(*self)) { // "descheduled": the wake comes before the blocking call
        usleep(100);
    }
    struct pollfd watched = { .fd = fd, .events = POLLIN };
    CHECK_EQ(poll(&watched, 1, 10000), 1); // and does not get lost if we block nevertheless
    while (atomic_load(&wakes) == 0) {
        usleep(100);
    }
    CHECK(!weft_poller_can_park(*self));
    weft_poller_unpark(*self);
    CHECK(!weft_poller_can_park(*self));
    while (!weft_task_done(waiter)) {
        CHECK_OK(weft_poller_maybe_yield(*self, false));
    }
    CHECK_OK(weft_join(NULL, waiter, WEFT_FOREVER));
    CHECK_OK(weft_join(NULL, waker, WEFT_FOREVER));
    return 0;
}

static int looks_before_it_sleeps(void *arg)
{
    (void)arg;
    static weft_poller *poller;
    int result = -1;
    weft_event_init(&go);
    CHECK_OK(weft_poller_register(&poller, NULL, 0, is_descheduled, count_wake, &poller));
    CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
    CHECK_OK(result);
    weft_event_fini(&go);
    return 0;
}

TEST_DRIVERS(work_that_comes_before_the_sleep_is_seen)
{
    run_with(2, looks_before_it_sleeps);
}

static int notes_run(void *arg)
{
    *(bool *)arg = true;
    return 0;
}

static int makes_work_itself(void *arg)
{
    weft_poller **self = arg;
    weft_task *task;
    bool ran = false;
    CHECK_GE(weft_poller_fd(*self), 0);
    while (!weft_poller_try_park(*self)) {
        CHECK_GE(weft_poller_maybe_yield(*self, false), 0);
    }
    CHECK(weft_poller_can_park(*self));
    CHECK_OK(weft_spawn(&task, notes_run, &ran, NULL));
    CHECK(!weft_poller_can_park(*self));
    weft_poller_unpark(*self);
    CHECK_EQ(weft_poller_maybe_yield(*self, false), 1);
    CHECK(ran);
    return weft_join(NULL, task, WEFT_FOREVER);
}

static int registers_one_that_makes_work(void *arg)
{
    (void)arg;
    static weft_poller *poller;
    int result = -1;
    CHECK_OK(weft_poller_register(&poller, NULL, 0, makes_work_itself, NULL, &poller));
    CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
    return result;
}

TEST_DRIVERS(work_that_the_poller_makes_before_the_sleep_is_seen)
{
    run_with(1, registers_one_that_makes_work);
}

// Pollers that do not let their carrier live.

static int reads_in_vain(void *arg)
{
    char byte;
    return weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER) == 1 ? 0 : -EIO;
}

static bool reader_moves;

static int ignores_completions(void *arg)
{
    weft_poller **self = arg;
    int fds[2];
    weft_task *reader;
    int result = -1;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.migratable = reader_moves;
    CHECK_EQ(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    CHECK_OK(weft_spawn(&reader, reads_in_vain, &fds[0], &attr));
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weft_poller_maybe_yield(*self, false));
        CHECK(!weft_poller_try_park(*self)); // a read is in flight, and it watches nothing
    }
    CHECK(strstr(logged, "operations are in flight") != NULL);
    CHECK_GE(weft_poller_fd(*self), 0);
    CHECK_OK(weft_poller_maybe_yield(*self, false));
    CHECK(weft_poller_try_park(*self));
    CHECK_EQ(write(fds[1], "x", 1), 1);
    struct pollfd watched = { .fd = weft_poller_fd(*self), .events = POLLIN };
    CHECK_EQ(poll(&watched, 1, 10000), 1); // the completion shows
    weft_poller_unpark(*self);
    while (!weft_task_done(reader)) {
        CHECK_OK(weft_poller_maybe_yield(*self, false));
    }
    CHECK_OK(weft_join(&result, reader, WEFT_FOREVER));
    CHECK_OK(result);
    close(fds[0]);
    close(fds[1]);
    return 0;
}

static int ignores_its_carrier(void *arg)
{
    weft_poller **self = arg;
    CHECK_GE(weft_poller_fd(*self), 0);
    CHECK(weft_poller_try_park(*self));
    CHECK(!weft_poller_try_park(*self)); // it is parked
    weft_poller_unpark(*self);
    CHECK_STR(logged, "");
    CHECK(!weft_poller_try_park(*self)); // woken, and not let the carrier work
    CHECK(strstr(logged, "weft_poller_maybe_yield") != NULL);
    CHECK_OK(weft_poller_maybe_yield(*self, false));
    CHECK(weft_poller_try_park(*self));
    weft_poller_unpark(*self);
    return 0;
}

static weft_fn bad_body;

static int runs_bad_body(void *arg)
{
    (void)arg;
    static weft_poller *poller;
    int result = -1;
    weft_time until = weft_after(WEFT_MS);
    int last = weft_carrier_count() - 1;
    CHECK_OK(weft_poller_register(&poller, NULL, last, bad_body, count_wake, &poller));
    CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
    CHECK_OK(result);
    CHECK_OK(weft_sleep_until(until));
    return 0;
}

TEST_DRIVERS(a_poller_that_ignores_completions_is_caught)
{
    bad_body = ignores_completions;
    run_with(2, runs_bad_body);
}

// With a remedy those of threads that may move are in a driver of their own.
TEST_DRIVERS(a_poller_that_ignores_completions_of_threads_that_may_move_is_caught)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    options.remedy = WEFT_REMEDY_SPARE;
    options.stuck_ns = 60 * WEFT_S; // nobody is
    options.log = note_log;
    bad_body = ignores_completions;
    reader_moves = true;
    CHECK_OK(weft_run(runs_bad_body, NULL, &options));
}

TEST_DRIVERS(a_poller_that_ignores_its_carrier_is_caught)
{
    bad_body = ignores_its_carrier;
    run_with(2, runs_bad_body);
}

// `wake` may wait for a lock of the program's, whatever its owner is about to call.

static struct {
    weft_runtime *runtime;
    pthread_mutex_t mutex;
    sem_t held;
    sem_t entered;
    atomic_bool asleep;
    atomic_int sleeps;
    atomic_int sleeps_before; // it is told anything
    atomic_int wakes;
    atomic_int last_wake; // the one that wants the mutex
} strict;

static void wants_the_mutex(void *arg)
{
    (void)arg;
    int wake = atomic_fetch_add(&strict.wakes, 1) + 1;
    int last = atomic_load(&strict.last_wake);
    if (wake == last) {
        CHECK_EQ(sem_post(&strict.entered), 0);
        pthread_mutex_lock(&strict.mutex);
        pthread_mutex_unlock(&strict.mutex);
    }
    while (wake < last && atomic_load(&strict.sleeps) == atomic_load(&strict.sleeps_before)) {
        usleep(100); // until it sleeps again
    }
}

/// Holds the mutex while it resizes, but not before somebody in `wake` waits for it.
static void *resizes_under_the_mutex(void *arg)
{
    pthread_mutex_lock(&strict.mutex);
    CHECK_EQ(sem_post(&strict.held), 0);
    CHECK_EQ(sem_wait(&strict.entered), 0);
    CHECK_EQ(weft_runtime_resize(strict.runtime, 1), *(int *)arg);
    pthread_mutex_unlock(&strict.mutex);
    return NULL;
}

static int sleeps_while_it_can(void *arg, int fd, weft_time until)
{
    (void)fd;
    (void)until;
    atomic_fetch_add(&strict.sleeps, 1);
    atomic_store(&strict.asleep, true);
    while (weft_poller_can_park(*(weft_poller **)arg)) {
        usleep(100);
    }
    atomic_store(&strict.asleep, false);
    return 0;
}

static int sleeps_strictly(void *arg)
{
    weft_poller **self = arg;
    CHECK_OK(weft_work_begin());
    while (weft_poller_maybe_yield(*self, false) >= 0) {
        CHECK_OK(weft_poll_guard(*self, sleeps_while_it_can, self));
    }
    weft_work_end();
    return 0;
}

/// The poller of carrier 1 sleeps when `act` is called, and its `last_wake`th wake wants the mutex.
static void act_while_it_is_wanted(int last_wake, int resized, void (*act)(void))
{
    static weft_poller *poller;
    struct weft_options options = WEFT_OPTIONS_INIT;
    pthread_t thread;
    options.carriers = 2;
    options.grace_ns = 3600 * WEFT_S;
    atomic_store(&strict.sleeps, 0);
    atomic_store(&strict.wakes, 0);
    atomic_store(&strict.last_wake, 0);
    atomic_store(&strict.asleep, false);
    CHECK_EQ(pthread_mutex_init(&strict.mutex, NULL), 0);
    CHECK_EQ(sem_init(&strict.held, 0, 0), 0);
    CHECK_EQ(sem_init(&strict.entered, 0, 0), 0);
    CHECK_OK(weft_runtime_create(&strict.runtime, &options));
    CHECK_OK(weft_poller_register(&poller, strict.runtime, 1, sleeps_strictly, wants_the_mutex,
                                  &poller));
    CHECK_EQ(pthread_create(&thread, NULL, resizes_under_the_mutex, &resized), 0);
    CHECK_EQ(sem_wait(&strict.held), 0);
    while (!atomic_load(&strict.asleep)) {
        usleep(100);
    }
    atomic_store(&strict.sleeps_before, atomic_load(&strict.sleeps));
    atomic_store(&strict.last_wake, atomic_load(&strict.wakes) + last_wake);
    act();
    CHECK_EQ(pthread_join(thread, NULL), 0);
    atomic_store(&strict.last_wake, 0);
    CHECK_OK(weft_shutdown_request(strict.runtime));
    CHECK_OK(weft_shutdown_request(strict.runtime)); // forced: it is at work
    CHECK_OK(weft_poller_join(NULL, poller, WEFT_FOREVER));
    CHECK_OK(weft_runtime_destroy(strict.runtime));
    pthread_mutex_destroy(&strict.mutex);
}

static void makes_smaller(void)
{
    CHECK_OK(weft_runtime_resize(strict.runtime, 1));
}

TEST_DRIVERS(who_resizes_calls_wake_without_a_lock)
{
    act_while_it_is_wanted(1, 0, makes_smaller);
}

static void begins_to_shut_down(void)
{
    CHECK_OK(weft_shutdown_request(strict.runtime));
}

/// The first wake tells the poller's thread, the second one its carrier.
TEST_DRIVERS(who_shuts_down_calls_wake_without_a_lock)
{
    act_while_it_is_wanted(2, -ECANCELED, begins_to_shut_down);
}
