// timer_race_test.c - one timer, many hands: sets from several threads at once, and the last wins.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <weft.h>

static atomic_int rung;

static void ring(void *arg)
{
    (void)arg;
    atomic_fetch_add(&rung, 1);
}

struct setter {
    struct weft_timer *timer;
    weft_time when;
    atomic_int done;
};

static int set_once(void *arg)
{
    struct setter *setter = arg;
    weft_timer_set(setter->timer, setter->when);
    atomic_store(&setter->done, 1);
    return 0;
}

/// Sets the timer from another carrier and comes back as soon as that has been said, which on real
/// carriers is before the request has arrived: we are the timer's carrier and do not step meanwhile.
static void set_elsewhere(struct weft_timer *timer, weft_time when)
{
    struct setter setter = { timer, when, 0 };
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = (weft_carrier_id() + 1) % weft_carrier_count();
    CHECK_OK(weft_spawn(&task, set_once, &setter, &attr));
    if (test_driver() == TEST_DRIVER_SIM) {
        CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
        return;
    }
    while (!atomic_load(&setter.done)) {
    }
    weft_task_release(task);
}

TEST_EVERYWHERE(the_last_request_wins_even_on_its_way)
{
    weft_time far = weft_after(3600 * WEFT_S);
    for (uint64_t i = test_scaled(100); i > 0; i--) {
        struct weft_timer timer;
        CHECK_OK(weft_timer_init(&timer, ring, NULL));

        set_elsewhere(&timer, far);
        CHECK_EQ(weft_timer_stop(&timer), 1); // armed, though the wheel may not know it yet
        CHECK_EQ(weft_timer_stop(&timer), 0);

        set_elsewhere(&timer, far);
        weft_timer_set(&timer, WEFT_FOREVER); // ours is later
        CHECK_EQ(weft_timer_stop(&timer), 0);

        weft_timer_set(&timer, far);
        set_elsewhere(&timer, WEFT_FOREVER); // theirs is later
        CHECK_EQ(weft_timer_stop(&timer), 0);

        set_elsewhere(&timer, 1);
        weft_timer_set(&timer, far);
        CHECK_OK(weft_yield());
        CHECK_EQ(weft_timer_stop(&timer), 1);

        set_elsewhere(&timer, WEFT_FOREVER);
        set_elsewhere(&timer, far); // two wishes, one request
        CHECK_EQ(weft_timer_stop(&timer), 1);
        memset(&timer, 0xee, sizeof timer);
    }
}

struct storm {
    struct weft_timer timer;
    uint64_t rounds;
    atomic_int at_work;
};

static void set_many(struct storm *storm, uint64_t random)
{
    for (uint64_t i = 0; i < storm->rounds; i++) {
        uint64_t dice = test_random(&random);
        weft_timer_set(&storm->timer, dice % 4 == 0   ? WEFT_FOREVER
                                      : dice % 4 == 1 ? 1
                                                      : weft_after(dice % 200000));
        if (weft_self() != NULL && dice % 16 == 0) {
            CHECK_OK(weft_yield());
        }
    }
}

static int storm_task(void *arg)
{
    set_many(arg, test_seed() ^ weft_task_id(weft_self()));
    return 0;
}

TEST_EVERYWHERE(many_carriers_set_one_timer)
{
    struct storm storm = { .rounds = test_scaled(3000) };
    for (int carrier = 0; carrier < weft_carrier_count(); carrier++) {
        struct weft_scope scope;
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        atomic_store(&rung, 0);
        CHECK_OK(weft_timer_init_on(&storm.timer, weft_runtime_current(), carrier, ring, NULL));
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        weft_scope_set_attr(&scope, &attr);
        for (int i = 0; i < 2 * weft_carrier_count(); i++) {
            CHECK_OK(weft_scope_spawn(&scope, storm_task, &storm));
        }
        CHECK_EQ(weft_scope_join(&scope), 0);
        weft_timer_set(&storm.timer, weft_after(3600 * WEFT_S));
        CHECK_EQ(weft_timer_stop(&storm.timer), 1);
        int before = atomic_load(&rung);
        CHECK_OK(weft_sleep(WEFT_MS));
        CHECK_EQ(atomic_load(&rung), before);
        memset(&storm.timer, 0xee, sizeof storm.timer);
    }
}

static void *storm_thread(void *arg)
{
    set_many(arg, test_seed() ^ (uint64_t)pthread_self());
    return NULL;
}

TEST_DRIVERS(many_threads_set_one_timer)
{
    enum { THREADS = 3 };
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    for (int round = 0; round < 5; round++) {
        struct storm storm = { .rounds = test_scaled(3000) };
        pthread_t threads[THREADS];
        weft_task *task;
        CHECK_OK(weft_timer_init_on(&storm.timer, runtime, 0, ring, NULL));
        CHECK_OK(weft_runtime_spawn(&task, runtime, storm_task, &storm, NULL));
        for (int i = 0; i < THREADS; i++) {
            CHECK_EQ(pthread_create(&threads[i], NULL, storm_thread, &storm), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        }
        CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
        weft_timer_set(&storm.timer, weft_after(3600 * WEFT_S));
        CHECK_EQ(weft_timer_stop(&storm.timer), 1);
        int before = atomic_load(&rung);
        weft_timer_set(&storm.timer, 1); // it still works
        while (atomic_load(&rung) == before) {
            sched_yield();
        }
        CHECK_EQ(weft_timer_stop(&storm.timer), 0);
        CHECK_EQ(atomic_load(&rung), before + 1);
        memset(&storm.timer, 0xee, sizeof storm.timer);
    }
    CHECK_EQ(weft_runtime_destroy(runtime), 0);
}

/// A function that rings while others try to stop it: after the stop it is not running.
struct ringer {
    struct weft_timer timer;
    atomic_int inside;
    atomic_int rings;
};

static void ring_for_a_while(void *arg)
{
    struct ringer *ringer = arg;
    atomic_store(&ringer->inside, 1);
    for (int i = 0; i < 50; i++) {
        (void)weft_now();
    }
    weft_timer_set(&ringer->timer, weft_after(WEFT_US)); // again
    atomic_fetch_add(&ringer->rings, 1);
    atomic_store(&ringer->inside, 0);
}

TEST_EVERYWHERE(stop_waits_for_the_function)
{
    for (uint64_t i = test_scaled(300); i > 0; i--) {
        struct ringer ringer = { .inside = 0 };
        int carrier = (int)(i % (uint64_t)weft_carrier_count());
        CHECK_OK(weft_timer_init_on(&ringer.timer, weft_runtime_current(), carrier,
                                    ring_for_a_while, &ringer));
        weft_timer_set(&ringer.timer, 1);
        while (atomic_load(&ringer.rings) == 0) {
            CHECK_OK(weft_yield());
        }
        CHECK_EQ(weft_timer_stop(&ringer.timer), 1); // it always sets itself again
        CHECK_EQ(atomic_load(&ringer.inside), 0);
        memset(&ringer, 0xee, sizeof ringer);
    }
}
