// Everything at once: threads and futures, pinned, placed, spread and migratable, sleep, park, wake, use
// channels, timers and pipes, have children and cancel each other, while foreign threads join in. On
// every number of carriers, more than there are CPUs on purpose, under every policy and in every poller
// mode.
//
// What has to hold: no wake-up is lost (a waiter with a token would hang), no
// operation outlives its buffer, a task runs on one carrier at a time, a pinned thread never changes its
// OS thread, a scope leaks no child; timers are never early; and searches balance.
#include "support/searches.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft.h>

static const int carrier_counts[] = { 1, 2, 4, 16, 100 };

enum { WAITERS = 8, FOREIGN = 2, DEEPEST = 2, LONGEST_PAUSE_NS = 100 * 1000 };

/// Who parks for good until it gets a token: a thread or a future.
struct waiter {
    struct weft_future future; // first member
    weft_waker waker;
    _Atomic bool has_waker;
    _Atomic uint64_t tokens;
    _Atomic int inside; // promise 3
    struct village *village;
};

/// What the tasks of one crew share.
struct village {
    weft_runtime *runtime;
    weft_chan *chan; // of uint64_t
    struct waiter waiters[WAITERS];
    weft_task *waiter_tasks[WAITERS];
    _Atomic uint64_t given; // tokens
    _Atomic uint64_t taken;
    _Atomic uint64_t sent; // sums of numbers
    _Atomic uint64_t received;
    _Atomic uint64_t lives; // that have ended
    _Atomic bool over;
};

/// A virtual thread.
struct life {
    struct village *village;
    uint64_t random;
    int depth;
    bool migratable;
    pid_t thread;
    _Atomic int inside;
    uint64_t turns; // plain: whoever runs it next sees what was written here
};

// Promises 3 and 4: between enter() and leave() a task runs; it leaves before every call that may park.

static void enter(struct life *life)
{
    CHECK_EQ(atomic_exchange_explicit(&life->inside, 1, memory_order_relaxed), 0);
    life->turns++;
    if (!life->migratable) {
        CHECK_EQ(gettid(), life->thread);
    }
}

static void leave(struct life *life)
{
    CHECK_EQ(atomic_exchange_explicit(&life->inside, 0, memory_order_relaxed), 1);
}

/// Random pauses: one in four is over before it begins.
static weft_time some_time(struct life *life)
{
    return test_random(&life->random) % 4 * (test_random(&life->random) % LONGEST_PAUSE_NS) / 3;
}

// What lives do. Each returns 0, or -ECANCELED if the task was cancelled.

static int rest(struct life *life)
{
    weft_time until = weft_after(some_time(life));
    int kind = (int)(test_random(&life->random) % 3);
    leave(life);
    int rc = kind == 0 ? weft_yield() : kind == 1 ? weft_sleep_until(until) : weft_park(until);
    enter(life);
    CHECK(rc != -ETIMEDOUT || weft_now() >= until);
    CHECK(kind != 1 || rc == -ECANCELED || weft_now() >= until);
    return rc == -ECANCELED ? rc : 0;
}

static void give_token(struct village *village, uint64_t *random)
{
    struct waiter *waiter = &village->waiters[test_random(random) % WAITERS];
    if (atomic_load_explicit(&waiter->has_waker, memory_order_acquire)) {
        atomic_fetch_add(&village->given, 1);
        atomic_fetch_add(&waiter->tokens, 1);
        weft_waker_wake_by_ref(&waiter->waker);
    }
}

static int trade(struct life *life)
{
    struct village *village = life->village;
    uint64_t number = 1 + test_random(&life->random) % 1000;
    weft_time until = weft_after(some_time(life));
    bool sends = test_random(&life->random) % 2 == 0;
    leave(life);
    int rc = sends ? weft_chan_send(village->chan, &number, until)
                   : weft_chan_recv(&number, village->chan, until);
    enter(life);
    if (rc == 0) {
        atomic_fetch_add(sends ? &village->sent : &village->received, number);
    }
    CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED);
    return rc == -ECANCELED ? rc : 0;
}

struct alarm {
    weft_waker waker;
    _Atomic bool rang;
};

static void ring(void *arg)
{
    struct alarm *alarm = arg;
    atomic_store_explicit(&alarm->rang, true, memory_order_release);
    weft_waker_wake_by_ref(&alarm->waker);
}

static int use_timer(struct life *life)
{
    struct alarm alarm = { .rang = false };
    struct weft_timer timer;
    weft_time when = weft_after(some_time(life));
    int rc = 0;
    CHECK_OK(weft_waker_self(&alarm.waker));
    CHECK_OK(weft_timer_init(&timer, ring, &alarm));
    weft_timer_set(&timer, when);
    while (rc == 0 && !atomic_load_explicit(&alarm.rang, memory_order_acquire)) {
        leave(life);
        rc = weft_park(WEFT_FOREVER);
        enter(life);
    }
    CHECK(rc == -ECANCELED || weft_now() >= when);
    leave(life);
    CHECK_OK(weft_timer_stop(&timer));
    enter(life);
    weft_waker_drop(&alarm.waker);
    return rc;
}

// Promise 2: a read that has given up is over. What is written later is for the next read and never
// reaches the old buffer.

enum { BYTES = 24, CANARY = 0x5a };

struct pipe_use {
    int ends[2];
    uint64_t random;
};

static int write_slowly(void *arg)
{
    struct pipe_use *use = arg;
    for (int i = 0; i < BYTES; i++) {
        char byte = (char)i;
        if (test_random(&use->random) % 4 == 0) {
            int rc = weft_sleep(test_random(&use->random) % LONGEST_PAUSE_NS);
            if (rc < 0) {
                return rc;
            }
        }
        ssize_t rc = weft_write(use->ends[1], &byte, 1, WEFT_FOREVER);
        if (rc < 0) {
            return (int)rc;
        }
        CHECK_EQ(rc, 1);
    }
    return 0;
}

static int read_impatiently(struct life *life, int fd)
{
    char buffers[2][BYTES];
    int got = 0;
    memset(buffers, CANARY, sizeof buffers);
    for (int turn = 0; got < BYTES; turn = 1 - turn) {
        weft_time until = weft_after(some_time(life));
        leave(life);
        ssize_t rc = weft_read(fd, buffers[turn], BYTES, until);
        enter(life);
        for (int i = 0; i < BYTES; i++) { // the buffer of the read before, too
            CHECK_EQ(buffers[turn][i], i < rc ? got + i : CANARY);
            CHECK_EQ(buffers[1 - turn][i], CANARY);
        }
        if (rc != -ETIMEDOUT) {
            CHECK(rc > 0 || rc == -ECANCELED);
            if (rc < 0) {
                return (int)rc;
            }
            got += (int)rc;
        }
        memset(buffers, CANARY, sizeof buffers);
    }
    return 0;
}

static int use_pipe(struct life *life)
{
    struct pipe_use use = { .random = test_random(&life->random) };
    struct weft_scope scope;
    if (pipe2(use.ends, O_CLOEXEC) < 0) {
        return 0; // as many as there may be
    }
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    (void)weft_scope_spawn(&scope, write_slowly, &use);
    int rc = read_impatiently(life, use.ends[0]);
    if (rc < 0) {
        weft_scope_cancel(&scope);
    }
    leave(life);
    int joined = weft_scope_join(&scope);
    CHECK(joined == 0 || joined == -ECANCELED);
    CHECK_OK(weft_close(use.ends[0]));
    CHECK_OK(weft_close(use.ends[1]));
    enter(life);
    return rc;
}

// Promise 5.

enum { MOST_CHILDREN = 4 };

static int live(void *arg);

static struct weft_attr draw_attr(struct life *child, uint64_t *random, int carriers)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    static const enum weft_place places[] = { WEFT_PLACE_CURRENT, WEFT_PLACE_CURRENT,
                                              WEFT_PLACE_SPREAD, WEFT_PLACE_LIGHTER,
                                              WEFT_PLACE_CARRIER };
    attr.place = places[test_random(random) % 5];
    attr.carrier = (int)(test_random(random) % (uint64_t)carriers);
    attr.migratable = child->migratable = test_random(random) % 2 == 0;
    return attr;
}

static int have_children(struct life *life)
{
    struct life children[MOST_CHILDREN];
    struct weft_scope scope;
    int count = life->depth < DEEPEST ? (int)(test_random(&life->random) % MOST_CHILDREN) + 1 : 0;
    bool hurries = test_random(&life->random) % 4 == 0;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT,
                             hurries ? weft_after(some_time(life)) : WEFT_FOREVER));
    for (int i = 0; i < count; i++) {
        children[i] = (struct life){ .village = life->village,
                                     .random = test_random(&life->random),
                                     .depth = life->depth + 1 };
        struct weft_attr attr = draw_attr(&children[i], &life->random, weft_carrier_count());
        if (weft_scope_spawn_task(NULL, &scope, live, &children[i], &attr) < 0) {
            children[i].turns = UINT64_MAX; // it was too late for that
        }
    }
    if (test_random(&life->random) % 4 == 0) {
        weft_scope_cancel(&scope);
    }
    leave(life);
    (void)weft_scope_join(&scope);
    enter(life);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(atomic_load_explicit(&children[i].inside, memory_order_relaxed), 0);
        CHECK_GT(children[i].turns, 0u); // it has run, and ended
    }
    return weft_cancelled();
}

static int live(void *arg)
{
    static int (*const deeds[])(struct life *) = { rest,     rest,          rest,
                                                   trade,    trade,         use_timer,
                                                   use_pipe, have_children, have_children };
    struct life *life = arg;
    struct village *village = life->village;
    int rc = 0;
    life->thread = gettid();
    enter(life);
    for (int i = 0; i < 6 && rc == 0; i++) {
        give_token(village, &life->random);
        rc = deeds[test_random(&life->random) % (sizeof deeds / sizeof deeds[0])](life);
    }
    CHECK(rc == 0 || rc == -ECANCELED);
    leave(life);
    atomic_fetch_add(&village->lives, 1);
    return 0;
}

// Promise 1: every token is taken. Nobody else wakes a waiter.

static void take_tokens(struct waiter *waiter)
{
    CHECK_EQ(atomic_exchange_explicit(&waiter->inside, 1, memory_order_relaxed), 0);
    uint64_t tokens = atomic_exchange(&waiter->tokens, 0);
    atomic_fetch_add(&waiter->village->taken, tokens);
    CHECK_EQ(atomic_exchange_explicit(&waiter->inside, 0, memory_order_relaxed), 1);
}

static void publish(struct waiter *waiter, const weft_waker *waker)
{
    if (!atomic_load_explicit(&waiter->has_waker, memory_order_relaxed)) {
        weft_waker_clone(&waiter->waker, waker);
        atomic_store_explicit(&waiter->has_waker, true, memory_order_release);
    }
}

static enum weft_poll wait_as_future(struct weft_future *future, weft_waker *waker)
{
    struct waiter *waiter = (struct waiter *)future;
    publish(waiter, waker);
    take_tokens(waiter);
    return atomic_load(&waiter->village->over) ? WEFT_READY : WEFT_PENDING;
}

static int wait_as_thread(void *arg)
{
    struct waiter *waiter = arg;
    weft_waker own;
    CHECK_OK(weft_waker_self(&own));
    publish(waiter, &own);
    weft_waker_drop(&own);
    while (!atomic_load(&waiter->village->over)) {
        take_tokens(waiter);
        CHECK_OK(weft_park(WEFT_FOREVER));
    }
    return 0;
}

static void start_waiters(struct village *village)
{
    for (int i = 0; i < WAITERS; i++) {
        struct waiter *waiter = &village->waiters[i];
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.migratable = i % 4 == 0;
        waiter->village = village;
        if (i % 2 == 0) {
            CHECK_OK(weft_spawn(&village->waiter_tasks[i], wait_as_thread, waiter, &attr));
        } else {
            weft_future_init(&waiter->future, wait_as_future, NULL);
            CHECK_OK(weft_spawn_future(&village->waiter_tasks[i], &waiter->future, NULL));
        }
        while (!atomic_load_explicit(&waiter->has_waker, memory_order_acquire)) {
            CHECK_OK(weft_yield());
        }
    }
}

static void end_waiters(struct village *village)
{
    while (atomic_load(&village->taken) != atomic_load(&village->given)) {
        CHECK_OK(weft_sleep(50 * WEFT_US)); // a lost wake-up hangs here
    }
    atomic_store(&village->over, true);
    for (int i = 0; i < WAITERS; i++) {
        weft_waker_wake(&village->waiters[i].waker);
        CHECK_OK(weft_join(NULL, village->waiter_tasks[i], WEFT_FOREVER));
    }
}

// The storm.

struct foreigner {
    struct village *village;
    uint64_t random;
    int count;
    pthread_t thread;
};

/// Lives that a foreign thread starts, joins, and sometimes cancels.
static void *join_in(void *arg)
{
    struct foreigner *foreigner = arg;
    struct village *village = foreigner->village;
    for (int i = 0; i < foreigner->count; i++) {
        struct life life = { .village = village, .random = test_random(&foreigner->random) };
        struct weft_attr attr = draw_attr(&life, &foreigner->random,
                                          weft_runtime_carriers(village->runtime));
        weft_task *task;
        CHECK_OK(weft_runtime_spawn(&task, village->runtime, live, &life, &attr));
        give_token(village, &foreigner->random);
        if (test_random(&foreigner->random) % 4 == 0) {
            weft_task_cancel(task);
        }
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    }
    return NULL;
}

static int join_foreigner(void *arg)
{
    struct foreigner *foreigner = arg;
    return -pthread_join(foreigner->thread, NULL);
}

static void be_busy(struct village *village, uint64_t *random)
{
    int count = (int)test_scaled(200);
    struct life *lives = calloc((size_t)count, sizeof *lives);
    weft_task **tasks = calloc((size_t)count, sizeof(weft_task *));
    CHECK(lives != NULL && tasks != NULL);
    for (int i = 0; i < count; i++) {
        lives[i] = (struct life){ .village = village, .random = test_random(random) };
        struct weft_attr attr = draw_attr(&lives[i], random, weft_carrier_count());
        CHECK_OK(weft_spawn(&tasks[i], live, &lives[i], &attr));
        if (test_random(random) % 8 == 0) {
            weft_task_cancel(tasks[test_random(random) % (uint64_t)(i + 1)]);
        }
        if (test_random(random) % 32 == 0) {
            CHECK_OK(weft_sleep(test_random(random) % LONGEST_PAUSE_NS));
        }
    }
    for (int i = 0; i < count; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_GE(atomic_load(&village->lives), (uint64_t)count);
    free(tasks);
    free(lives);
}

static int storm(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    static struct village village; // one storm at a time
    struct foreigner foreigners[FOREIGN];
    memset(&village, 0, sizeof village);
    village.runtime = weft_runtime_current();
    CHECK_OK(weft_chan_create(&village.chan, sizeof(uint64_t), test_random(&random) % 4));
    start_waiters(&village);
    for (int i = 0; i < FOREIGN; i++) {
        foreigners[i] = (struct foreigner){ &village, test_random(&random), (int)test_scaled(20),
                                            0 };
        CHECK_EQ(pthread_create(&foreigners[i].thread, NULL, join_in, &foreigners[i]), 0);
    }
    be_busy(&village, &random);
    for (int i = 0; i < FOREIGN; i++) {
        CHECK_OK(weft_blocking(join_foreigner, &foreigners[i], WEFT_FOREVER));
    }
    end_waiters(&village);
    for (uint64_t number; weft_chan_try_recv(&number, village.chan) == 0;) {
        atomic_fetch_add(&village.received, number);
    }
    CHECK_EQ(atomic_load(&village.received), atomic_load(&village.sent));
    CHECK_OK(weft_chan_destroy(village.chan));
    return 0;
}

static void run(const struct weft_options *options, uint64_t seed)
{
    struct weft_stats stats = { .size = sizeof stats };
    weft_runtime *runtime;
    weft_task *task;
    int result;
    CHECK_OK(weft_runtime_create(&runtime, options));
    CHECK_OK(weft_runtime_spawn(&task, runtime, storm, &seed, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 0);
    check_searches(runtime);
    CHECK_OK(weft_stats_get(runtime, WEFT_STATS_ALL, &stats));
    printf("%d carriers: %llu tasks, %llu timers, %llu searches, %llu stolen\n", options->carriers,
           (unsigned long long)stats.spawned, (unsigned long long)stats.timers,
           (unsigned long long)stats.searches,
           (unsigned long long)(stats.stolen_directed + stats.stolen_pulled));
    CHECK_OK(weft_runtime_destroy(runtime)); // nothing is left
}

static void on_every_crew(enum weft_policy policy, enum weft_steal steal,
                          enum weft_poller_mode mode)
{
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof carrier_counts / sizeof carrier_counts[0]; i++) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        options.carriers = carrier_counts[i];
        options.policy = policy;
        options.steal = steal;
        options.poller = mode;
        options.poller_threads = 1 + (int)(test_random(&random) % 3);
        options.ring_entries = 16; // a hundred rings
        options.receive_buffers = 8;
        options.grace_ns = 3600 * WEFT_S; // a hang is the runner's to notice
        run(&options, test_random(&random));
    }
}

#define IN_EVERY_MODE(name, policy, steal)                                                         \
    TEST_DRIVERS(name##_where_carriers_poll)                                                       \
    {                                                                                              \
        on_every_crew(policy, steal, WEFT_POLLER_CARRIER);                                         \
    }                                                                                              \
    TEST_DRIVERS(name##_where_threads_poll)                                                        \
    {                                                                                              \
        on_every_crew(policy, steal, WEFT_POLLER_THREADS);                                         \
    }                                                                                              \
    TEST_EPOLL(name##_where_tasks_poll)                                                            \
    {                                                                                              \
        on_every_crew(policy, steal, WEFT_POLLER_TASKS);                                           \
    }

IN_EVERY_MODE(locality, WEFT_POLICY_LOCALITY, WEFT_STEAL_OFF)
IN_EVERY_MODE(locality_with_stealing, WEFT_POLICY_LOCALITY, WEFT_STEAL_ON)
IN_EVERY_MODE(work_stealing, WEFT_POLICY_STEALING, WEFT_STEAL_OFF)
