// barrier_test.c - barrier and wait group. What they share with others is in sync_test.c.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

TEST(a_barrier_needs_parties)
{
    static struct weft_barrier zeroed;
    struct weft_barrier b = WEFT_BARRIER_INIT(1);
    CHECK_EQ(weft_barrier_wait(&zeroed, 1), -EINVAL);
    CHECK_EQ(weft_barrier_init(&zeroed, 0), -EINVAL);
    CHECK_EQ(weft_barrier_wait(&b, 1), 1); // alone: always the leader
    CHECK_EQ(weft_barrier_wait(&b, 1), 1);
    CHECK_EQ(weft_barrier_init(&b, 2), 0);
    CHECK_EQ(weft_barrier_wait(&b, 1), -ETIMEDOUT);
    CHECK_EQ(weft_barrier_fini(&b), 0);
}

struct meeting {
    struct weft_barrier barrier;
    int parties;
    int rounds;
    _Atomic int leaders;
    _Atomic int arrived; // in all rounds
};

static int meet(void *arg)
{
    struct meeting *m = arg;
    for (int round = 1; round <= m->rounds; round++) {
        atomic_fetch_add(&m->arrived, 1);
        int rc = weft_barrier_wait(&m->barrier, WEFT_FOREVER);
        CHECK(rc == 0 || rc == 1);
        atomic_fetch_add(&m->leaders, rc);
        int arrived = atomic_load(&m->arrived);
        CHECK_GE(arrived, round * m->parties); // all have come, and no party is a round ahead
        CHECK_LT(arrived, (round + 1) * m->parties);
    }
    return 0;
}

/// A party that is a future.
struct party {
    struct weft_future future;
    struct weft_sync_future wait;
    struct meeting *meeting;
    int left;
    bool begun;
};

static enum weft_poll party_poll(struct weft_future *future, weft_waker *waker)
{
    struct party *p = (struct party *)future;
    while (p->left > 0) {
        if (!p->begun) {
            atomic_fetch_add(&p->meeting->arrived, 1);
            weft_barrier_wait_future(&p->wait, &p->meeting->barrier);
            p->begun = true;
        }
        if (p->wait.future.poll(&p->wait.future, waker) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
        CHECK(p->wait.future.result == 0 || p->wait.future.result == 1);
        atomic_fetch_add(&p->meeting->leaders, (int)p->wait.future.result);
        p->begun = false;
        p->left--;
    }
    future->result = 0;
    return WEFT_READY;
}

static void *meet_outside(void *arg)
{
    meet(arg);
    return NULL;
}

TEST_EVERYWHERE(parties_meet_again_and_again_with_one_leader_each_time)
{
    enum { TASKS = 5, FUTURES = 3 };
    static struct meeting m;
    struct party parties[FUTURES];
    weft_task *tasks[TASKS + FUTURES];
    pthread_t thread = 0;
    bool foreign = test_driver() != TEST_DRIVER_SIM;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    m.parties = TASKS + FUTURES + foreign;
    m.rounds = (int)test_scaled(100);
    CHECK_OK(weft_barrier_init(&m.barrier, (uint32_t)m.parties));
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], meet, &m, &attr));
    }
    for (int i = 0; i < FUTURES; i++) {
        parties[i] = (struct party){ .meeting = &m, .left = m.rounds };
        weft_future_init(&parties[i].future, party_poll, NULL);
        CHECK_OK(weft_spawn_future(&tasks[TASKS + i], &parties[i].future, &attr));
    }
    if (foreign) {
        thread = foreign_begin(meet_outside, &m);
    }
    for (int i = 0; i < TASKS + FUTURES; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    if (foreign) {
        foreign_end(thread);
    }
    CHECK_EQ(atomic_load(&m.leaders), m.rounds);
    CHECK_EQ(weft_barrier_fini(&m.barrier), 0);
}

/// Who gives up has not come: the others wait for one more.
TEST_EVERYWHERE(a_party_that_gives_up_is_not_counted)
{
    struct weft_barrier b = WEFT_BARRIER_INIT(3);
    struct weft_sync_future first;
    struct weft_sync_future second;
    weft_barrier_wait_future(&first, &b);
    CHECK_EQ(poll_once(&first.future), WEFT_PENDING);
    CHECK_EQ(weft_barrier_fini(&b), -EBUSY);
    CHECK_EQ(weft_barrier_wait(&b, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_barrier_wait_future(&second, &b);
    CHECK_EQ(poll_once(&second.future), WEFT_PENDING);
    second.future.cancel(&second.future);
    CHECK_EQ(poll_once(&second.future), WEFT_READY);
    CHECK_EQ(second.future.result, -ECANCELED);
    CHECK_EQ(poll_once(&first.future), WEFT_PENDING);
    weft_barrier_wait_future(&second, &b);
    CHECK_EQ(poll_once(&second.future), WEFT_PENDING);
    CHECK_EQ(weft_barrier_wait(&b, WEFT_FOREVER), 1);
    first.future.cancel(&first.future); // too late: it was there
    CHECK_EQ(poll_to_the_end(&first.future), 0);
    CHECK_EQ(poll_to_the_end(&second.future), 0);
    CHECK_EQ(weft_barrier_fini(&b), 0);
}

/// Parties whose deadlines pass while the last one comes: those that say 0 or 1 are exactly as many
/// as the barrier has.
struct hasty {
    struct weft_barrier *barrier;
    weft_time deadline;
    _Atomic int *met;
};

static int meet_hastily(void *arg)
{
    struct hasty *h = arg;
    int rc = weft_barrier_wait(h->barrier, h->deadline);
    CHECK(rc >= 0 || rc == -ETIMEDOUT);
    atomic_fetch_add(h->met, rc >= 0);
    return 0;
}

TEST_EVERYWHERE(a_generation_is_complete_or_nobody_has_met)
{
    enum { PARTIES = 4 };
    uint64_t random = test_seed();
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int round = 0; round < (int)test_scaled(100); round++) {
        struct weft_barrier b = WEFT_BARRIER_INIT(PARTIES);
        struct hasty hasty[PARTIES];
        weft_task *tasks[PARTIES];
        _Atomic int met = 0;
        for (int i = 0; i < PARTIES; i++) {
            weft_time deadline = weft_after(test_random(&random) % (500 * WEFT_US));
            hasty[i] = (struct hasty){ .barrier = &b, .deadline = deadline, .met = &met };
            CHECK_OK(weft_spawn(&tasks[i], meet_hastily, &hasty[i], &attr));
            (void)weft_sleep(test_random(&random) % (150 * WEFT_US));
        }
        for (int i = 0; i < PARTIES; i++) {
            CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
        }
        CHECK(atomic_load(&met) == 0 || atomic_load(&met) == PARTIES);
        CHECK_EQ(weft_barrier_fini(&b), 0);
    }
}

TEST(a_wait_group_counts)
{
    struct weft_wait_group g = WEFT_WAIT_GROUP_INIT;
    CHECK_EQ(weft_wait_group_wait(&g, 1), 0);
    CHECK_EQ(weft_wait_group_add(&g, 2), 0);
    CHECK_EQ(weft_wait_group_count(&g), 2);
    CHECK_EQ(weft_wait_group_wait(&g, 1), -ETIMEDOUT);
    CHECK_EQ(weft_wait_group_fini(&g), -EBUSY);
    weft_wait_group_done(&g);
    CHECK_EQ(weft_wait_group_wait(&g, 1), -ETIMEDOUT);
    weft_wait_group_done(&g);
    CHECK_EQ(weft_wait_group_wait(&g, 1), 0);
    CHECK_EQ(weft_wait_group_add(&g, 0), 0);
    CHECK_EQ(weft_wait_group_fini(&g), 0);
}

struct job {
    struct weft_wait_group *group;
    int value; // plain: the group makes it visible
};

static int work(void *arg)
{
    struct job *job = arg;
    (void)weft_yield();
    job->value = 42;
    weft_wait_group_done(job->group);
    return 0;
}

TEST_EVERYWHERE(a_wait_group_makes_visible_what_was_done)
{
    enum { JOBS = 20 };
    static struct job jobs[JOBS];
    static struct weft_wait_group g;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int round = 0; round < 5; round++) { // it may be used again
        CHECK_EQ(weft_wait_group_add(&g, JOBS), 0);
        for (int i = 0; i < JOBS; i++) {
            jobs[i] = (struct job){ .group = &g };
            CHECK_OK(weft_spawn(NULL, work, &jobs[i], &attr));
        }
        CHECK_EQ(weft_wait_group_wait(&g, WEFT_FOREVER), 0);
        for (int i = 0; i < JOBS; i++) {
            CHECK_EQ(jobs[i].value, 42);
        }
    }
    CHECK_EQ(weft_wait_group_fini(&g), 0);
}

/// The counter was zero for a moment: who waited then goes, who came later does not.
TEST_EVERYWHERE(zero_lets_go_who_waited_and_nobody_else)
{
    struct weft_wait_group g = WEFT_WAIT_GROUP_INIT;
    struct weft_sync_future early;
    struct weft_sync_future late;
    CHECK_EQ(weft_wait_group_add(&g, 1), 0);
    weft_wait_group_wait_future(&early, &g);
    CHECK_EQ(poll_once(&early.future), WEFT_PENDING);
    weft_wait_group_done(&g);
    CHECK_EQ(weft_wait_group_add(&g, 1), 0);
    weft_wait_group_wait_future(&late, &g);
    CHECK_EQ(poll_once(&late.future), WEFT_PENDING);
    CHECK_EQ(poll_to_the_end(&early.future), 0);
    CHECK_EQ(poll_once(&late.future), WEFT_PENDING);
    weft_wait_group_done(&g);
    CHECK_EQ(poll_to_the_end(&late.future), 0);
    CHECK_EQ(weft_wait_group_fini(&g), 0);
}
