// word_test.c - the transitions of a task's state word (task/word.h), alone and under fire.
#include "support/test.h"

#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#include "task/word.h"

static struct weft__task task; // only its word is used here

static uint64_t life(void)
{
    return weft__word_peek(&task) & WEFT__WORD_LIFE;
}

static uint64_t refs(void)
{
    return (weft__word_peek(&task) & WEFT__WORD_REFS) / WEFT__WORD_REF;
}

static bool has(uint64_t flag)
{
    return (weft__word_peek(&task) & flag) != 0;
}

TEST(a_free_block_ignores_everybody)
{
    CHECK(!weft__word_wake(&task, WEFT__WORD_LOOK | WEFT__WORD_CANCELLED));
    CHECK_EQ(weft__word_peek(&task), 0u); // and its page stays clean
}

TEST(a_fresh_task_is_active)
{
    weft__word_init(&task, 2, WEFT__WORD_DETACHED);
    CHECK_EQ(life(), WEFT__WORD_ACTIVE);
    CHECK_EQ(refs(), 2u);
    CHECK(has(WEFT__WORD_DETACHED));
    CHECK(!has(WEFT__WORD_NOTIFIED | WEFT__WORD_LOOK | WEFT__WORD_CANCELLED));
}

TEST(a_wake_of_an_active_task_keeps_it_from_parking_once)
{
    weft__word_init(&task, 1, 0);
    CHECK(!weft__word_wake(&task, 0));
    CHECK(!weft__word_wake(&task, 0));
    CHECK(has(WEFT__WORD_NOTIFIED));
    CHECK(!weft__word_park(&task));
    CHECK_EQ(life(), WEFT__WORD_ACTIVE);
    CHECK(!has(WEFT__WORD_NOTIFIED));
    CHECK(weft__word_park(&task));
    CHECK_EQ(life(), WEFT__WORD_IDLE);
}

TEST(one_wake_of_an_idle_task_queues_it)
{
    weft__word_init(&task, 1, 0);
    CHECK(weft__word_park(&task));
    CHECK(weft__word_wake(&task, 0));
    CHECK_EQ(life(), WEFT__WORD_ACTIVE);
    CHECK(!has(WEFT__WORD_NOTIFIED));
    CHECK(!weft__word_wake(&task, 0));
    CHECK(has(WEFT__WORD_NOTIFIED));
}

TEST(a_run_takes_the_notification_that_came_while_queued)
{
    weft__word_init(&task, 1, 0);
    CHECK(!weft__word_wake(&task, 0));
    weft__word_clear_notified(&task);
    CHECK(!has(WEFT__WORD_NOTIFIED));
    weft__word_clear_notified(&task);
    CHECK(weft__word_park(&task));
}

TEST(flags_travel_with_the_wake)
{
    weft__word_init(&task, 1, 0);
    CHECK(!weft__word_wake(&task, WEFT__WORD_LOOK));
    CHECK(has(WEFT__WORD_LOOK) && !has(WEFT__WORD_CANCELLED));
    CHECK(!weft__word_park(&task));
    CHECK(weft__word_park(&task));
    CHECK(weft__word_wake(&task, WEFT__WORD_LOOK | WEFT__WORD_CANCELLED));
    CHECK(has(WEFT__WORD_LOOK) && has(WEFT__WORD_CANCELLED)); // parking and waking keep them
    CHECK_EQ(refs(), 1u);
}

TEST(the_last_reference_frees)
{
    weft__word_init(&task, 3, 0);
    weft__word_retain(&task);
    weft__word_retain(&task);
    CHECK_EQ(refs(), 5u);
    CHECK(!weft__word_release(&task));
    CHECK(!weft__word_wake(&task, WEFT__WORD_LOOK));
    CHECK(!weft__word_release(&task));
    (void)weft__word_end(&task);
    CHECK_EQ(life(), WEFT__WORD_DONE);
    CHECK_EQ(refs(), 3u);
    uint64_t word = weft__word_peek(&task);
    CHECK(!weft__word_wake(&task, WEFT__WORD_CANCELLED)); // too late: changes nothing
    CHECK_EQ(weft__word_peek(&task), word);
    CHECK(!weft__word_release(&task));
    CHECK(!weft__word_release(&task));
    CHECK(weft__word_release(&task));
    CHECK_EQ(weft__word_peek(&task), 0u);
}

TEST(the_end_may_keep_its_reference)
{
    weft__word_init(&task, 1, WEFT__WORD_DETACHED);
    CHECK(!weft__word_wake(&task, WEFT__WORD_LOOK | WEFT__WORD_CANCELLED));
    (void)weft__word_end(&task);
    CHECK_EQ(life(), WEFT__WORD_DONE);
    CHECK_EQ(refs(), 1u);
    CHECK(weft__word_release(&task));
    CHECK_EQ(weft__word_peek(&task), 0u);
}

TEST(the_end_knows_whether_there_are_handles)
{
    weft__word_init(&task, 2, 0);
    CHECK(weft__word_end(&task));
    weft__word_init(&task, 1, 0);
    CHECK(!weft__word_end(&task));
}

TEST(the_last_two_references_go_together)
{
    weft__word_init(&task, 3, 0);
    CHECK(weft__word_end(&task));
    CHECK(!weft__word_release_both(&task)); // the third is somebody else's
    CHECK_EQ(refs(), 3u);
    CHECK(!weft__word_release(&task));
    CHECK(weft__word_release_both(&task));
    CHECK_EQ(weft__word_peek(&task), 0u);
}

// Under fire: wakers publish a number and wake; the runner runs as a carrier would and must have
// seen every number when it parks for good.

enum { WAKERS = 3 };
static _Atomic uint64_t published[WAKERS];
static uint64_t each;
static sem_t queue;

static void *wake_many(void *arg)
{
    _Atomic uint64_t *mine = arg;
    for (uint64_t i = 1; i <= each; i++) {
        atomic_store_explicit(mine, i, memory_order_relaxed);
        if (weft__word_wake(&task, i % 7 == 0 ? WEFT__WORD_LOOK : 0)) {
            sem_post(&queue);
        }
    }
    return NULL;
}

static uint64_t seen(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < WAKERS; i++) {
        sum += atomic_load_explicit(&published[i], memory_order_relaxed);
    }
    return sum;
}

TEST(promise_1_no_wakeup_is_lost)
{
    pthread_t threads[WAKERS];
    each = test_scaled(300000);
    CHECK_EQ(sem_init(&queue, 0, 0), 0);
    weft__word_init(&task, 1, 0);
    for (int i = 0; i < WAKERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, wake_many, &published[i]), 0);
    }
    for (;;) {
        weft__word_clear_notified(&task);
        if (seen() == WAKERS * each) {
            break;
        }
        if (!weft__word_park(&task)) {
            continue;
        }
        CHECK_EQ(sem_wait(&queue), 0); // a lost wake-up stays here for ever
        int waiting;
        CHECK_EQ(sem_getvalue(&queue, &waiting), 0);
        CHECK_EQ(waiting, 0); // a task is queued at most once
        CHECK_EQ(life(), WEFT__WORD_ACTIVE);
    }
    for (int i = 0; i < WAKERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    (void)weft__word_end(&task);
    CHECK(weft__word_release(&task));
    CHECK_EQ(weft__word_peek(&task), 0u);
}

static atomic_int freed;

static void *share(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < each; i++) {
        weft__word_retain(&task);
        weft__word_retain(&task);
        CHECK(!weft__word_release(&task));
        weft__word_wake(&task, 0);
        CHECK(!weft__word_release(&task));
    }
    atomic_fetch_add(&freed, weft__word_release(&task));
    return NULL;
}

TEST(references_are_counted_exactly)
{
    pthread_t threads[WAKERS];
    each = test_scaled(200000);
    weft__word_init(&task, WAKERS + 1, 0);
    for (int i = 0; i < WAKERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, share, NULL), 0);
    }
    (void)weft__word_end(&task);
    atomic_fetch_add(&freed, weft__word_release(&task));
    for (int i = 0; i < WAKERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(atomic_load(&freed), 1);
    CHECK_EQ(weft__word_peek(&task), 0u);
}
