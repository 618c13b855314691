// wait_test.c - blocking and completing (task/wait.c): modes, withdrawal, and the one commit point.
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <weft.h>

#include "base/lock.h"
#include "sched/carrier.h"
#include "task/task.h"
#include "task/wait.h"

static void wait_until(atomic_int *value, int wanted)
{
    while (atomic_load(value) != wanted) {
        (void)weft_yield();
    }
}

static int spawn_on(weft_task **task, int carrier, weft_fn fn, void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = carrier;
    return weft_spawn(task, fn, arg, &attr);
}

/// One blocked task and how it ended.
struct blocked {
    enum weft__wait_mode mode;
    weft_time deadline;
    struct weft__wait wait;
    weft_task *task;
    atomic_int ready;
    int rc;
    atomic_int asked;
};

static void count_ask(struct weft__wait *wait)
{
    struct blocked *blocked = weft__container_of(wait, struct blocked, wait);
    atomic_fetch_add(&blocked->asked, 1);
}

static int block(void *arg)
{
    struct blocked *blocked = arg;
    weft__wait_init(&blocked->wait, weft__thread_self(), blocked->mode, "a test");
    blocked->wait.ask = count_ask;
    atomic_store(&blocked->ready, 1);
    blocked->rc = weft__block(&blocked->wait, blocked->deadline);
    CHECK(atomic_load(&weft__thread_self()->waits_for) == NULL);
    return 0;
}

static void start(struct blocked *blocked, enum weft__wait_mode mode, weft_time deadline,
                  int carrier)
{
    memset(blocked, 0, sizeof *blocked);
    blocked->mode = mode;
    blocked->deadline = deadline;
    CHECK_OK(spawn_on(&blocked->task, carrier, block, blocked));
    wait_until(&blocked->ready, 1);
    const char *what = NULL; // unless it is over already, because the deadline was short
    while (!weft_task_done(blocked->task) &&
           (what = atomic_load(&blocked->task->waits_for)) == NULL) {
        CHECK_OK(weft_yield());
    }
    if (what != NULL) {
        CHECK_STR(what, "a test");
    }
}

static void finish(struct blocked *blocked)
{
    CHECK_EQ(weft_join(NULL, blocked->task, WEFT_FOREVER), 0);
}

TEST_EVERYWHERE(completing_hands_over_the_result)
{
    static const enum weft__wait_mode modes[] = { WEFT__WAIT_WITHDRAW, WEFT__WAIT_DEAF,
                                                  WEFT__WAIT_ASK, WEFT__WAIT_ASK_LATE };
    for (int i = 0; i < 4 * weft_carrier_count(); i++) {
        struct blocked blocked;
        struct weft__wakee wakee;
        start(&blocked, modes[i % 4], WEFT_FOREVER, i / 4);
        if (modes[i % 4] == WEFT__WAIT_ASK || modes[i % 4] == WEFT__WAIT_ASK_LATE) {
            weft__complete(&blocked.wait, 40 + i);
        } else {
            CHECK(weft__commit(&blocked.wait, 40 + i, &wakee));
            weft__wakee_wake(&wakee);
        }
        finish(&blocked);
        CHECK_EQ(blocked.rc, 0);
        CHECK_EQ(blocked.wait.result, 40 + i);
        CHECK_EQ(atomic_load(&blocked.asked), 0);
        CHECK(!weft__commit(&blocked.wait, 1, &wakee)); // once is all
    }
}

TEST_EVERYWHERE(spurious_wakes_do_not_end_a_wait)
{
    struct blocked blocked;
    struct weft__wakee wakee;
    start(&blocked, WEFT__WAIT_WITHDRAW, WEFT_FOREVER, 1);
    for (int i = 0; i < 100; i++) {
        weft__wake(blocked.task);
        CHECK_OK(weft_yield());
        CHECK(!weft_task_done(blocked.task));
    }
    CHECK(weft__commit(&blocked.wait, -7, &wakee));
    CHECK_EQ(wakee.task, blocked.task);
    weft__wakee_wake(&wakee);
    finish(&blocked);
    CHECK_EQ(blocked.wait.result, -7);
}

TEST_EVERYWHERE(a_late_or_cancelled_waiter_withdraws)
{
    struct blocked blocked;
    struct weft__wakee wakee;
    weft_time deadline = weft_after(200 * WEFT_US);
    start(&blocked, WEFT__WAIT_WITHDRAW, deadline, 1);
    finish(&blocked);
    CHECK_EQ(blocked.rc, -ETIMEDOUT);
    CHECK_GE(weft_now(), deadline);
    CHECK(!weft__commit(&blocked.wait, 0, &wakee));

    start(&blocked, WEFT__WAIT_WITHDRAW, WEFT_FOREVER, 1);
    weft_task_cancel(blocked.task);
    finish(&blocked);
    CHECK_EQ(blocked.rc, -ECANCELED);
    CHECK(!weft__commit(&blocked.wait, 0, &wakee));
}

TEST_EVERYWHERE(a_deaf_waiter_hears_only_its_deadline)
{
    struct blocked blocked;
    weft_time deadline = weft_after(2 * WEFT_MS);
    start(&blocked, WEFT__WAIT_DEAF, deadline, 1);
    weft_task_cancel(blocked.task);
    finish(&blocked);
    CHECK_EQ(blocked.rc, -ETIMEDOUT);
    CHECK_GE(weft_now(), deadline);
}

TEST_EVERYWHERE(a_wait_that_cannot_be_withdrawn_is_asked_once)
{
    struct blocked blocked;
    weft_time deadline = weft_after(WEFT_MS);
    start(&blocked, WEFT__WAIT_ASK, deadline, 1);
    weft_task_cancel(blocked.task);
    wait_until(&blocked.asked, 1);
    CHECK_OK(weft_sleep_until(deadline + WEFT_MS)); // cancelled, and late as well
    for (int i = 0; i < 10; i++) {
        weft__wake(blocked.task);
        CHECK_OK(weft_yield());
    }
    CHECK(!weft_task_done(blocked.task));
    weft__complete(&blocked.wait, 5);
    finish(&blocked);
    CHECK_EQ(blocked.rc, 0);
    CHECK_EQ(atomic_load(&blocked.asked), 1);
    CHECK_EQ(blocked.wait.result, 5);
}

TEST_EVERYWHERE(a_wait_that_is_asked_when_late_is_deaf_to_cancellation)
{
    struct blocked blocked;
    weft_time deadline = weft_after(2 * WEFT_MS);
    start(&blocked, WEFT__WAIT_ASK_LATE, deadline, 1);
    weft_task_cancel(blocked.task);
    wait_until(&blocked.asked, 1);
    CHECK_GE(weft_now(), deadline);
    CHECK(!weft_task_done(blocked.task));
    weft__complete(&blocked.wait, 6);
    finish(&blocked);
    CHECK_EQ(blocked.rc, 0);
    CHECK_EQ(atomic_load(&blocked.asked), 1);
    CHECK_EQ(blocked.wait.result, 6);
}

/// Between CLAIMED and DONE somebody fills the wait in: it must not be left, however late it is.
TEST_EVERYWHERE(a_claimed_wait_is_seen_through)
{
    struct blocked blocked;
    struct weft__wakee wakee = { NULL, NULL };
    start(&blocked, WEFT__WAIT_WITHDRAW, weft_after(WEFT_MS), 1);
    uint32_t open = WEFT__WAIT_OPEN;
    if (!atomic_compare_exchange_strong(&blocked.wait.state, &open, WEFT__WAIT_CLAIMED)) {
        finish(&blocked); // a slow machine: it was late before we came
        SKIP("the deadline passed before the claim");
    }
    CHECK_OK(weft_sleep(3 * WEFT_MS));
    weft_task_cancel(blocked.task);
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK(!weft_task_done(blocked.task));
    wakee.task = blocked.task;
    blocked.wait.result = 8;
    atomic_store(&blocked.wait.state, WEFT__WAIT_DONE);
    weft__wakee_wake(&wakee);
    finish(&blocked);
    CHECK_EQ(blocked.rc, 0);
    CHECK_EQ(blocked.wait.result, 8);
}

// The race: one side withdraws, the other commits, and exactly one of them wins. The list's lock
// stands for whatever a real completer holds.

struct race {
    struct weft__lock lock;
    struct weft__wait *wait; // under lock: NULL once taken or unlinked
    atomic_int turn;
    weft_time deadline;
    bool foreign;
    int rc;
    int64_t result;
};

static void enter_race(struct race *race, struct weft__task *self)
{
    struct weft__wait wait;
    weft__wait_init(&wait, self, WEFT__WAIT_WITHDRAW, "a race");
    weft__lock_acquire(&race->lock);
    race->wait = &wait;
    weft__lock_release(&race->lock);
    atomic_store(&race->turn, 1);
    race->rc = weft__block(&wait, race->deadline);
    race->result = wait.result;
    if (race->rc < 0) {
        weft__lock_acquire(&race->lock);
        race->wait = NULL;
        weft__lock_release(&race->lock);
    }
    memset(&wait, 0xee, sizeof wait); // the frame is gone
}

static int race_task(void *arg)
{
    enter_race(arg, weft__thread_self());
    return 0;
}

static void *race_thread(void *arg)
{
    enter_race(arg, NULL);
    return NULL;
}

/// True if the completer won.
static bool complete_race(struct race *race)
{
    struct weft__wakee wakee;
    bool won = false;
    weft__lock_acquire(&race->lock);
    if (race->wait != NULL) {
        won = weft__commit(race->wait, 99, &wakee);
        race->wait = NULL;
    }
    weft__lock_release(&race->lock);
    if (won) {
        weft__wakee_wake(&wakee);
    }
    return won;
}

static void check_race(const struct race *race, bool won)
{
    if (won) {
        CHECK_EQ(race->rc, 0);
        CHECK_EQ(race->result, 99);
    } else {
        CHECK_EQ(race->rc, -ETIMEDOUT);
    }
}

TEST_EVERYWHERE(exactly_one_side_ends_a_wait)
{
    uint64_t random = test_seed();
    int wins = 0;
    int rounds = (int)test_scaled(2000);
    for (int i = 0; i < rounds; i++) {
        struct race race = { .deadline = weft_after(test_random(&random) % (150 * WEFT_US)) };
        weft_task *task;
        CHECK_OK(spawn_on(&task, i % weft_carrier_count(), race_task, &race));
        wait_until(&race.turn, 1);
        weft_time when = weft_after(test_random(&random) % (150 * WEFT_US));
        while (weft_now() < when) {
            CHECK_OK(weft_yield());
        }
        bool won = complete_race(&race);
        CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
        check_race(&race, won);
        wins += won;
    }
    CHECK_GT(wins, 0);
    CHECK_LT(wins, rounds);
}

TEST(exactly_one_side_ends_a_wait_of_a_foreign_thread)
{
    uint64_t random = test_seed();
    int rounds = (int)test_scaled(400);
    for (int i = 0; i < rounds; i++) {
        struct race race = { .deadline = weft_after(test_random(&random) % (150 * WEFT_US)) };
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, race_thread, &race), 0);
        while (atomic_load(&race.turn) == 0) {
            sched_yield();
        }
        weft_time when = weft_after(test_random(&random) % (150 * WEFT_US));
        while (weft_now() < when) {
        }
        bool won = complete_race(&race);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        check_race(&race, won);
        CHECK(won || weft_now() >= race.deadline);
    }
}
