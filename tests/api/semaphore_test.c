// semaphore_test.c - counting semaphore. What it shares with others is in sync_test.c.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

TEST(permits_are_counted)
{
    struct weft_semaphore s = WEFT_SEMAPHORE_INIT(5);
    CHECK_EQ(weft_semaphore_available(&s), 5);
    CHECK_EQ(weft_semaphore_try_acquire(&s, 6), -EAGAIN);
    CHECK_EQ(weft_semaphore_try_acquire(&s, 3), 0);
    CHECK_EQ(weft_semaphore_try_acquire(&s, 3), -EAGAIN);
    CHECK_EQ(weft_semaphore_acquire(&s, 2, 0), 0);
    CHECK_EQ(weft_semaphore_available(&s), 0);
    CHECK_EQ(weft_semaphore_acquire(&s, 1, 1), -ETIMEDOUT);
    CHECK_EQ(weft_semaphore_release(&s, 7), 0); // more than it began with
    CHECK_EQ(weft_semaphore_available(&s), 7);
    CHECK_EQ(weft_semaphore_fini(&s), 0);
}

TEST(numbers_that_make_no_sense_are_refused)
{
    struct weft_semaphore s;
    CHECK_EQ(weft_semaphore_init(&s, WEFT_SEMAPHORE_MAX + 1), -EINVAL);
    CHECK_EQ(weft_semaphore_init(&s, WEFT_SEMAPHORE_MAX - 1), 0);
    CHECK_EQ(weft_semaphore_release(&s, 2), -EOVERFLOW);
    CHECK_EQ(weft_semaphore_release(&s, UINT64_MAX), -EOVERFLOW);
    CHECK_EQ(weft_semaphore_release(&s, 1), 0);
    CHECK_EQ(weft_semaphore_available(&s), WEFT_SEMAPHORE_MAX);
    CHECK_EQ(weft_semaphore_try_acquire(&s, 0), -EINVAL);
    CHECK_EQ(weft_semaphore_acquire(&s, 0, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_semaphore_acquire(&s, UINT64_MAX, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_semaphore_try_acquire(&s, WEFT_SEMAPHORE_MAX), 0);
    CHECK_EQ(weft_semaphore_available(&s), 0);
}

struct taker {
    struct weft_semaphore *semaphore;
    uint64_t count;
    weft_time deadline;
    _Atomic int rc; // 1: not yet
};

static int take(void *arg)
{
    struct taker *t = arg;
    atomic_store(&t->rc, weft_semaphore_acquire(t->semaphore, t->count, t->deadline));
    return 0;
}

static weft_task *spawn_taker(struct taker *t, struct weft_semaphore *s, uint64_t count)
{
    weft_task *task;
    *t = (struct taker){ .semaphore = s, .count = count, .deadline = WEFT_FOREVER, .rc = 1 };
    CHECK_OK(weft_spawn(&task, take, t, NULL));
    let_others_run();
    CHECK_EQ(atomic_load(&t->rc), 1);
    return task;
}

/// Who wants many is not overtaken by those who want few and came later.
TEST_EVERYWHERE(permits_go_to_waiters_in_their_order)
{
    struct weft_semaphore s = WEFT_SEMAPHORE_INIT(1);
    struct taker many;
    struct taker few;
    struct taker one;
    weft_task *tasks[3];
    tasks[0] = spawn_taker(&many, &s, 3);
    CHECK_EQ(weft_semaphore_try_acquire(&s, 1), -EAGAIN); // there is one, but not for us
    tasks[1] = spawn_taker(&few, &s, 2);
    tasks[2] = spawn_taker(&one, &s, 1);
    CHECK_EQ(weft_semaphore_release(&s, 1), 0);
    let_others_run();
    CHECK_EQ(atomic_load(&many.rc), 1);
    CHECK_EQ(weft_semaphore_available(&s), 2);
    CHECK_EQ(weft_semaphore_release(&s, 3), 0); // five: three and two
    let_others_run();
    CHECK_EQ(atomic_load(&many.rc), 0);
    CHECK_EQ(atomic_load(&few.rc), 0);
    CHECK_EQ(atomic_load(&one.rc), 1);
    CHECK_EQ(weft_semaphore_release(&s, 4), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_EQ(weft_semaphore_available(&s), 3);
    CHECK_EQ(weft_semaphore_fini(&s), 0);
}

/// The first one wants more than there is, and the second would be content. When the first one goes,
/// by deadline or cancel, the second is served.
TEST_EVERYWHERE(a_waiter_that_gives_up_lets_the_next_one_go)
{
    struct weft_semaphore s = WEFT_SEMAPHORE_INIT(2);
    struct taker many;
    struct taker few;
    struct weft_sync_future f;
    weft_semaphore_acquire_future(&f, &s, 5);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_task *first = spawn_taker(&many, &s, 4);
    weft_task *second = spawn_taker(&few, &s, 2);
    f.future.cancel(&f.future);
    CHECK_EQ(poll_once(&f.future), WEFT_READY);
    let_others_run();
    CHECK_EQ(atomic_load(&few.rc), 1);
    weft_task_cancel(first);
    CHECK_OK(weft_join(NULL, second, WEFT_FOREVER));
    CHECK_OK(weft_join(NULL, first, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&many.rc), -ECANCELED);
    CHECK_EQ(atomic_load(&few.rc), 0);
    CHECK_EQ(weft_semaphore_available(&s), 0);
    CHECK_EQ(weft_semaphore_fini(&s), 0);
}

TEST_EVERYWHERE(a_late_first_waiter_lets_the_next_one_go)
{
    struct weft_semaphore s = WEFT_SEMAPHORE_INIT(2);
    struct taker few;
    struct weft_sync_future f;
    weft_semaphore_acquire_future(&f, &s, 5);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_task *task = spawn_taker(&few, &s, 2);
    CHECK_EQ(weft_await(&f.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&few.rc), 0);
}

TEST_EVERYWHERE(an_overflow_with_waiters_is_refused_too)
{
    struct weft_semaphore s = WEFT_SEMAPHORE_INIT(WEFT_SEMAPHORE_MAX - 5);
    struct taker all;
    weft_task *task = spawn_taker(&all, &s, WEFT_SEMAPHORE_MAX);
    CHECK_EQ(weft_semaphore_release(&s, 6), -EOVERFLOW);
    CHECK_EQ(weft_semaphore_release(&s, 5), 0);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(weft_semaphore_available(&s), 0);
}

// Everybody takes and gives back, some give up: permits are conserved, and never too many are out.

enum { PERMITS = 7 };

struct bank {
    struct weft_semaphore semaphore;
    _Atomic int out;
};

struct client {
    struct bank *bank;
    uint64_t random;
    int times;
    int got;
};

static void use_permits(struct client *c, uint64_t count, bool parks)
{
    int out = atomic_fetch_add(&c->bank->out, (int)count) + (int)count;
    CHECK_LE(out, PERMITS);
    c->got++;
    if (parks && test_random(&c->random) % 4 == 0) {
        (void)weft_yield();
    }
    atomic_fetch_sub(&c->bank->out, (int)count);
    CHECK_EQ(weft_semaphore_release(&c->bank->semaphore, count), 0);
}

static int be_client(void *arg)
{
    struct client *c = arg;
    for (int i = 0; i < c->times; i++) {
        uint64_t count = 1 + test_random(&c->random) % PERMITS;
        bool patient = test_random(&c->random) % 3 != 0;
        weft_time wait = test_random(&c->random) % (100 * WEFT_US);
        weft_time deadline = patient ? WEFT_FOREVER : weft_after(wait);
        int rc = weft_semaphore_acquire(&c->bank->semaphore, count, deadline);
        CHECK(rc == 0 || (rc == -ETIMEDOUT && !patient));
        if (rc == 0) {
            use_permits(c, count, weft_self() != NULL);
        }
    }
    return 0;
}

static void *be_foreign_client(void *arg)
{
    be_client(arg);
    return NULL;
}

static void run_bank(int threads)
{
    enum { CLIENTS = 12, MOST_THREADS = 2 };
    static struct bank bank;
    struct client clients[CLIENTS + MOST_THREADS];
    weft_task *tasks[CLIENTS];
    pthread_t foreign[MOST_THREADS];
    uint64_t random = test_seed();
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    bank = (struct bank){ .out = 0 };
    CHECK_OK(weft_semaphore_init(&bank.semaphore, PERMITS));
    for (int i = 0; i < CLIENTS + threads; i++) {
        uint64_t seed = test_random(&random);
        clients[i] = (struct client){ .bank = &bank, .random = seed };
        clients[i].times = (int)test_scaled(200);
    }
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], be_client, &clients[i], &attr));
    }
    for (int i = 0; i < threads; i++) {
        foreign[i] = foreign_begin(be_foreign_client, &clients[CLIENTS + i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    for (int i = 0; i < threads; i++) {
        foreign_end(foreign[i]);
    }
    CHECK_EQ(weft_semaphore_available(&bank.semaphore), PERMITS);
    CHECK_EQ(weft_semaphore_fini(&bank.semaphore), 0);
}

TEST_EVERYWHERE(permits_are_conserved)
{
    run_bank(test_driver() == TEST_DRIVER_SIM ? 0 : 2);
}
