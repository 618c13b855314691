// Trees of scopes with random cancels, and timers that are set and stopped from everywhere.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft.h>

static const int carrier_counts[] = { 1, 2, 4, 16 };

static struct weft_options crew(size_t i)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carrier_counts[i / 2 % 4];
    options.idle_spin_ns = i % 2 == 0 ? 0 : 30 * WEFT_US;
    options.grace_ns = 3600 * WEFT_S;
    return options;
}

enum { CREWS = 8, BRANCHES = 4 };

// Trees.

struct branch {
    uint64_t random;
    int depth;
    _Atomic int *alive; // of the scope it lives in
};

static uint64_t below(struct branch *self, uint64_t limit)
{
    return test_random(&self->random) % limit;
}

static int grow(void *arg);

/// Opens a scope, fills it with children, disturbs them, and joins: none is left.
static int shoot(struct branch *self)
{
    static const int policies[] = { WEFT_SCOPE_ALL, WEFT_SCOPE_FIRST, WEFT_SCOPE_COLLECT };
    struct branch children[BRANCHES];
    weft_task *handles[BRANCHES] = { NULL };
    _Atomic int alive = 0;
    struct weft_scope scope;
    weft_time deadline = below(self, 3) == 0 ? weft_after(below(self, 400 * WEFT_US))
                                             : WEFT_FOREVER;
    int flags = policies[below(self, 3)] | (below(self, 10) == 0 ? WEFT_SCOPE_SHIELD : 0);
    CHECK_OK(weft_scope_init(&scope, flags, deadline));
    for (int i = 0; i < BRANCHES; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = below(self, 2) == 0 ? WEFT_PLACE_SPREAD : WEFT_PLACE_CURRENT;
        children[i] = (struct branch){ test_random(&self->random), self->depth - 1, &alive };
        int rc = weft_scope_spawn_task(&handles[i], &scope, grow, &children[i], &attr);
        CHECK(rc == 0 || rc == -ECANCELED);
    }
    switch (below(self, 5)) {
    case 0: weft_scope_cancel(&scope); break;
    case 1: (void)weft_sleep(below(self, 200 * WEFT_US)); break;
    case 2:
        if (handles[1] != NULL) {
            weft_task_cancel(handles[1]);
        }
        break;
    default: (void)weft_yield();
    }
    int rc = weft_scope_join(&scope);
    CHECK_EQ(atomic_load(&alive), 0);
    for (int i = 0; i < BRANCHES; i++) {
        CHECK(handles[i] == NULL || weft_task_done(handles[i]));
        weft_task_release(handles[i]);
    }
    return rc;
}

static int grow(void *arg)
{
    struct branch self = *(struct branch *)arg;
    int rc = 0;
    if (self.alive != NULL) {
        atomic_fetch_add(self.alive, 1);
    }
    if (self.depth > 0) {
        (void)shoot(&self);
    } else {
        rc = weft_sleep(below(&self, 200 * WEFT_US));
    }
    rc = below(&self, 6) == 0 ? -EIO : rc;
    if (self.alive != NULL) {
        atomic_fetch_sub(self.alive, 1);
    }
    return rc;
}

static int plant(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    for (uint64_t i = test_scaled(60); i > 0; i--) {
        struct branch root = { test_random(&random), 3, NULL };
        (void)grow(&root);
    }
    return 0;
}

TEST_DRIVERS(trees_of_scopes)
{
    uint64_t random = test_seed();
    for (size_t i = 0; i < CREWS; i++) {
        struct weft_options options = crew(i);
        (void)test_random(&random);
        CHECK_EQ(weft_run(plant, &random, &options), 0);
    }
}

// Timers: each belongs to one carrier and is set from all sides. What is set last before a stop
// either fires or is called off; after a stop nothing happens.

enum { TIMERS = 12 };

struct alarm {
    struct weft_timer timer;
    pthread_mutex_t lock; // one setter at a time, so that the books can be kept
    _Atomic int fired;
};

static struct alarm alarms[TIMERS];

static void ring(void *arg)
{
    atomic_fetch_add(&((struct alarm *)arg)->fired, 1);
}

/// Sets a timer once and stops it: it fires once or is called off.
static void set_and_stop(struct alarm *alarm, uint64_t *random)
{
    int before = atomic_load(&alarm->fired);
    weft_timer_set(&alarm->timer, weft_after(test_random(random) % (100 * WEFT_US)));
    for (uint64_t spins = test_random(random) % 2000; spins > 0; spins--) {
        atomic_thread_fence(memory_order_seq_cst);
    }
    int called_off = weft_timer_stop(&alarm->timer);
    int rang = atomic_load(&alarm->fired) - before;
    CHECK_EQ(called_off + rang, 1);
}

/// Sets it several times and stops it: at most one expiry per set.
static void move_about(struct alarm *alarm, uint64_t *random)
{
    int before = atomic_load(&alarm->fired);
    int sets = 1 + (int)(test_random(random) % 5);
    for (int i = 0; i < sets; i++) {
        weft_timer_set(&alarm->timer, weft_after(test_random(random) % (50 * WEFT_US)));
    }
    if (test_random(random) % 4 == 0) {
        weft_timer_set(&alarm->timer, WEFT_FOREVER);
    }
    (void)weft_timer_stop(&alarm->timer);
    int rang = atomic_load(&alarm->fired) - before;
    CHECK_LE(rang, sets);
    CHECK_EQ(weft_timer_stop(&alarm->timer), 0);
    CHECK_EQ(atomic_load(&alarm->fired) - before, rang);
}

static void use_alarms(uint64_t random, uint64_t rounds)
{
    for (; rounds > 0; rounds--) {
        struct alarm *alarm = &alarms[test_random(&random) % TIMERS];
        if (pthread_mutex_trylock(&alarm->lock) == 0) {
            if (test_random(&random) % 2 == 0) {
                set_and_stop(alarm, &random);
            } else {
                move_about(alarm, &random);
            }
            pthread_mutex_unlock(&alarm->lock);
        }
        if (weft_self() != NULL) {
            (void)weft_yield();
        }
    }
}

static int alarm_task(void *arg)
{
    use_alarms((uint64_t)(uintptr_t)arg, test_scaled(1500));
    return 0;
}

static void *alarm_thread(void *arg)
{
    use_alarms((uint64_t)(uintptr_t)arg, test_scaled(1500));
    return NULL;
}

static void alarm_storm(weft_runtime *runtime, uint64_t random)
{
    weft_task *tasks[6];
    pthread_t threads[3];
    for (int i = 0; i < TIMERS; i++) {
        pthread_mutex_init(&alarms[i].lock, NULL);
        CHECK_OK(weft_timer_init_on(&alarms[i].timer, runtime, i % weft_runtime_carriers(runtime),
                                    ring, &alarms[i]));
    }
    for (int i = 0; i < 6; i++) {
        void *arg = (void *)(uintptr_t)(test_random(&random) >> 1);
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, alarm_task, arg, NULL));
    }
    for (int i = 0; i < 3; i++) {
        void *arg = (void *)(uintptr_t)(test_random(&random) >> 1);
        CHECK_EQ(pthread_create(&threads[i], NULL, alarm_thread, arg), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 6; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
}

TEST_DRIVERS(timers_from_everywhere)
{
    uint64_t random = test_seed();
    for (size_t i = 0; i < CREWS; i++) {
        struct weft_options options = crew(i);
        weft_runtime *runtime;
        CHECK_OK(weft_runtime_create(&runtime, &options));
        alarm_storm(runtime, test_random(&random));
        CHECK_OK(weft_runtime_destroy(runtime));
    }
}

// Runtimes: made and destroyed by several threads while each is full of sleepers.

static int rest(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    return weft_sleep(test_random(&random) % (2 * WEFT_MS));
}

static int fill(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < 50; i++) {
        weft_task *task;
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        void *seed = (void *)(uintptr_t)(test_random(&random) >> 1);
        CHECK_OK(weft_spawn(&task, rest, seed, &attr));
        weft_task_release(task);
    }
    return weft_sleep(test_random(&random) % WEFT_MS);
}

static void *build_and_raze(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    for (uint64_t i = test_scaled(60); i > 0; i--) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        options.carriers = 1 + (int)(test_random(&random) % 4);
        options.grace_ns = 3600 * WEFT_S;
        void *seed = (void *)(uintptr_t)(test_random(&random) >> 1);
        CHECK_EQ(weft_run(fill, seed, &options), 0);
    }
    return NULL;
}

TEST_DRIVERS(runtimes_come_and_go_full_of_sleepers)
{
    pthread_t threads[3];
    uint64_t random = test_seed();
    for (int i = 0; i < 3; i++) {
        void *seed = (void *)(uintptr_t)(test_random(&random) >> 1);
        CHECK_EQ(pthread_create(&threads[i], NULL, build_and_raze, seed), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
}
