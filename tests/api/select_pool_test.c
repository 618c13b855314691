// select_pool_test.c - tasks that a scheduler of the program runs, on OS threads of its own, select.
#include "support/test.h"

#include "support/chans.h"
#include "support/onpool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <weft.h>

enum { ROUNDS = 50 };

/// Two tasks of the pool meet: each is on both sides of two channels.
struct side {
    weft_chan *in, *out;
    uint64_t received;
};

static int fight(void *arg)
{
    struct side *side = arg;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t got = 0;
        struct weft_case cases[] = { weft_case_recv(side->in, &got),
                                     weft_case_send(side->out, &round) };
        int rc = weft_select(cases, 2, WEFT_FOREVER);
        check_on_pool();
        CHECK(rc == 0 || rc == 1);
        CHECK_EQ(got, rc == 0 ? round : 0);
        side->received += got;
    }
    return 0;
}

static int meets(void *arg)
{
    (void)arg;
    weft_chan *a = make(0);
    weft_chan *b = make(0);
    struct side sides[2] = { { a, b, 0 }, { b, a, 0 } };
    struct weft_attr attr = on_pool();
    weft_task *task;
    attr.migratable = pool->count > 1;
    CHECK_OK(weft_spawn(&task, fight, &sides[1], &attr));
    CHECK_OK(fight(&sides[0]));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(sides[0].received + sides[1].received, (uint64_t)ROUNDS * (ROUNDS + 1) / 2);
    CHECK_EQ(weft_chan_destroy(a), 0);
    CHECK_EQ(weft_chan_destroy(b), 0);
    return 0;
}

TEST_DRIVERS(selects_of_the_pool_meet)
{
    run_on_pool(meets, THREADS);
    run_on_pool(meets, 1);
}

static int write_byte(void *arg)
{
    (void)weft_sleep(100 * WEFT_US);
    CHECK_EQ(weft_write(*(int *)arg, "x", 1, WEFT_FOREVER), 1);
    return 3;
}

/// What needs the driver or the wheel, both of which are at home.
static int waits_at_home(void *arg)
{
    (void)arg;
    int ends[2];
    char byte;
    weft_chan *chan = make(0);
    uint64_t item;
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    for (int round = 0; round < ROUNDS; round++) {
        weft_task *task;
        CHECK_OK(weft_spawn(&task, write_byte, &ends[1], NULL));
        struct weft_case cases[] = { weft_case_recv(chan, &item), weft_case_fd(ends[0], POLLIN),
                                     weft_case_join(task) };
        int first = weft_select(cases, 3, WEFT_FOREVER);
        check_on_pool();
        CHECK(first == 1 || first == 2);
        if (first == 1) {
            CHECK_EQ(cases[1].result, POLLIN);
            CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        } else {
            CHECK_EQ(cases[2].result, 3);
        }
        CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1);
    }
    struct weft_case cases[] = { weft_case_recv(chan, &item), weft_case_fd(ends[0], POLLIN),
                                 weft_case_time(weft_after(WEFT_MS)) };
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 2);
    cases[2] = weft_case_none();
    CHECK_EQ(weft_select(cases, 3, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_select_try(cases, 3), -EAGAIN);
    check_on_pool();
    CHECK_OK(weft_close(ends[0]));
    CHECK_OK(weft_close(ends[1]));
    CHECK_EQ(weft_chan_destroy(chan), 0);
    return 0;
}

TEST_DRIVERS(descriptors_and_joins_and_time)
{
    run_on_pool(waits_at_home, THREADS);
    run_on_pool(waits_at_home, 1);
}

/// Futures are polled where the scheduler says. There is no driver there.
static int awaits(void *arg)
{
    (void)arg;
    weft_chan *chan = make(0);
    uint64_t item = 0;
    struct weft_selection selection;
    struct weft_case cases[] = { weft_case_recv(chan, &item), weft_case_time(weft_after(WEFT_MS)) };
    weft_select_future(&selection, cases, 2);
    CHECK_EQ(weft_await(&selection.future, WEFT_FOREVER), 1);
    struct weft_case fd[] = { weft_case_recv(chan, &item), weft_case_fd(0, POLLIN) };
    weft_select_future(&selection, fd, 2);
    CHECK_EQ(weft_await(&selection.future, WEFT_FOREVER), -EPERM);
    struct weft_attr attr = on_pool();
    weft_task *task;
    int result = -1;
    weft_select_future(&selection, cases, 1);
    CHECK_OK(weft_spawn_future(&task, &selection.future, &attr));
    uint64_t sent = 17;
    CHECK_OK(weft_chan_send(chan, &sent, WEFT_FOREVER));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 0);
    CHECK_EQ(item, 17u);
    CHECK_EQ(weft_chan_destroy(chan), 0);
    return 0;
}

TEST_DRIVERS(futures_of_the_pool_select)
{
    run_on_pool(awaits, THREADS);
}
