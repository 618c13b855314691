// select_apart_test.c - selecting from tasks that end and descriptors that become ready.
#include "support/test.h"

#include "support/chans.h"
#include "support/waiting.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>
#include <weft.h>

/// A task that ends with a result when it is told to.
struct worker {
    struct weft_event go;
    int result;
};

static int work(void *arg)
{
    struct worker *w = arg;
    (void)weft_event_wait(&w->go, WEFT_FOREVER);
    return w->result;
}

static weft_task *start(struct worker *w, int result)
{
    weft_task *task;
    *w = (struct worker){ .go = WEFT_EVENT_INIT, .result = result };
    CHECK_OK(weft_spawn(&task, work, w, NULL));
    return task;
}

static int set_later(void *event)
{
    let_others_run();
    weft_event_set(event);
    return 0;
}

TEST_EVERYWHERE(the_first_task_that_ends)
{
    struct worker workers[3];
    struct weft_case cases[3];
    for (int i = 0; i < 3; i++) {
        cases[i] = weft_case_join(start(&workers[i], -100 - i));
    }
    CHECK_EQ(weft_select_try(cases, 3), -EAGAIN);
    CHECK_EQ(weft_select(cases, 3, weft_after(WEFT_MS)), -ETIMEDOUT);
    static const int order[] = { 1, 2, 0 };
    for (int i = 0; i < 3; i++) {
        int next = order[i];
        CHECK_OK(weft_go(set_later, &workers[next].go));
        CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), next); // those before are never ready again
        CHECK_EQ(cases[next].result, -100 - next);
    }
    CHECK_EQ(weft_select(cases, 3, 1), -ETIMEDOUT);
}

TEST_EVERYWHERE(a_task_that_has_ended_is_ready)
{
    struct worker worker;
    weft_task *task = start(&worker, 42);
    weft_event_set(&worker.go);
    while (!weft_task_done(task)) {
        CHECK_OK(weft_sleep(WEFT_US));
    }
    struct weft_case cases[] = { weft_case_join(task) };
    CHECK_EQ(weft_select_try(cases, 1), 0);
    CHECK_EQ(cases[0].result, 42);
    CHECK_EQ(weft_select_try(cases, 1), -EAGAIN);
}

TEST_EVERYWHERE(a_handle_that_was_not_joined_is_still_good)
{
    struct worker worker;
    weft_chan *chan = make(1);
    uint64_t item = 0;
    weft_task *task = start(&worker, 3);
    struct weft_case cases[] = { weft_case_join(task), weft_case_join(task),
                                 weft_case_recv(chan, &item) };
    put(chan, 1);
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 2);
    CHECK_EQ(weft_select(cases, 3, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_event_set(&worker.go);
    int result = 0;
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 3);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

TEST_EVERYWHERE(nobody_waits_for_his_own_end)
{
    weft_chan *chan = make(1);
    uint64_t item = 0;
    put(chan, 1);
    struct weft_case cases[] = { weft_case_recv(chan, &item), weft_case_join(weft_self()) };
    CHECK_EQ(weft_select(cases, 2, 1), -EDEADLK);
    CHECK_EQ(weft_select_try(cases, 2), -EDEADLK);
    CHECK_EQ(weft_chan_len(chan), 1u); // nothing was committed
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

struct foreign {
    struct weft_case cases[2];
    int rc;
};

static void *select_outside(void *arg)
{
    struct foreign *f = arg;
    f->rc = weft_select(f->cases, 2, WEFT_FOREVER);
    return NULL;
}

static int join_from_outside(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20; i++) {
        struct worker worker;
        weft_chan *chan = make(0);
        uint64_t item = 0;
        weft_task *task = start(&worker, 9);
        struct foreign f = { { weft_case_recv(chan, &item), weft_case_join(task) }, 1 };
        pthread_t thread = foreign_begin(select_outside, &f);
        weft_event_set(&worker.go);
        foreign_end(thread);
        CHECK_EQ(f.rc, 1);
        CHECK_EQ(f.cases[1].result, 9);
        CHECK_EQ(weft_chan_destroy(chan), 0);
    }
    return 0;
}

TEST_DRIVERS(foreign_threads_join)
{
    CHECK_OK(weft_run(join_from_outside, NULL, NULL));
}

// Descriptors.

static void make_pair(weft_dgram *pair[2], int fds[2])
{
    CHECK_OK(weft_dgram_pair(pair, WEFT_ADDR_UNIXGRAM));
    fds[0] = weft_dgram_fd(pair[0]);
    fds[1] = weft_dgram_fd(pair[1]);
}

static void close_pair(weft_dgram *pair[2])
{
    CHECK_EQ(weft_dgram_close(pair[0]), 0);
    CHECK_EQ(weft_dgram_close(pair[1]), 0);
}

static void send_byte(weft_dgram *from)
{
    CHECK_OK(weft_dgram_send(from, "x", 1, WEFT_FOREVER));
}

static void receive_byte(weft_dgram *at)
{
    char byte;
    CHECK_EQ(weft_dgram_recv(at, &byte, 1, NULL, WEFT_FOREVER), 1);
}

static int send_later(void *dgram)
{
    let_others_run();
    send_byte(dgram);
    return 0;
}

TEST_EVERYWHERE(a_descriptor_becomes_ready)
{
    weft_dgram *pair[2];
    int fds[2];
    weft_chan *chan = make(0);
    uint64_t item = 0;
    make_pair(pair, fds);
    struct weft_case cases[] = { weft_case_recv(chan, &item), weft_case_fd(fds[0], POLLIN),
                                 weft_case_fd(fds[1], POLLIN) };
    CHECK_EQ(weft_select_try(cases, 3), -EAGAIN);
    CHECK_EQ(weft_select(cases, 3, weft_after(WEFT_MS)), -ETIMEDOUT);
    for (int round = 0; round < 3; round++) {
        int to = round % 2;
        CHECK_OK(weft_go(send_later, pair[1 - to]));
        CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 1 + to);
        CHECK((cases[1 + to].result & POLLIN) != 0);
        receive_byte(pair[to]);
    }
    cases[2] = weft_case_fd(fds[1], POLLOUT);
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 2);
    CHECK((cases[2].result & POLLOUT) != 0);
    CHECK_EQ(weft_chan_destroy(chan), 0);
    close_pair(pair);
}

/// As with weft_poll(): a deadline in the past finds out.
TEST_EVERYWHERE(a_descriptor_that_is_ready_wins_over_the_deadline)
{
    weft_dgram *pair[2];
    int fds[2];
    make_pair(pair, fds);
    send_byte(pair[1]);
    while (weft_poll(fds[0], POLLIN, WEFT_FOREVER) < 0) {
    }
    struct weft_case cases[] = { weft_case_fd(fds[0], POLLIN) };
    CHECK_EQ(weft_select(cases, 1, 1), 0);
    CHECK((cases[0].result & POLLIN) != 0);
    CHECK_EQ(weft_select_try(cases, 1), 0);
    receive_byte(pair[0]);
    CHECK_EQ(weft_select_try(cases, 1), -EAGAIN);
    close_pair(pair);
}

static int put_later(void *chan)
{
    let_others_run();
    put(chan, 1);
    return 0;
}

/// What was begun for descriptors has ended when a select returns: its memory is used again at once.
TEST_EVERYWHERE(no_op_outlives_its_case)
{
    enum { PAIRS = 3 };
    weft_dgram *pairs[PAIRS][2];
    weft_chan *chan = make(0);
    uint64_t item = 0;
    for (int i = 0; i < PAIRS; i++) {
        int fds[2];
        make_pair(pairs[i], fds);
    }
    for (int round = 0; round < 50; round++) {
        struct weft_case cases[PAIRS + 1];
        for (int i = 0; i < PAIRS; i++) {
            cases[i] = weft_case_fd(weft_dgram_fd(pairs[i][0]), POLLIN);
        }
        cases[PAIRS] = weft_case_recv(chan, &item);
        CHECK_OK(weft_go(put_later, chan));
        CHECK_EQ(weft_select(cases, PAIRS + 1, WEFT_FOREVER), PAIRS);
        for (int i = 0; i <= PAIRS; i++) {
            cases[i] = weft_case_none();
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        close_pair(pairs[i]);
    }
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

struct selecting {
    struct weft_case cases[2];
    _Atomic int rc;
};

static int select_two(void *arg)
{
    struct selecting *s = arg;
    atomic_store(&s->rc, weft_select(s->cases, 2, WEFT_FOREVER));
    return 0;
}

TEST_EVERYWHERE(a_task_that_waits_for_a_descriptor_is_cancelled)
{
    weft_dgram *pair[2];
    int fds[2];
    weft_task *task;
    make_pair(pair, fds);
    struct selecting s = { { weft_case_fd(fds[0], POLLIN), weft_case_fd(fds[0], POLLPRI) }, 9 };
    CHECK_OK(weft_spawn(&task, select_two, &s, NULL));
    let_others_run();
    weft_task_cancel(task);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&s.rc), -ECANCELED);
    close_pair(pair);
}

static int closing(void *unused)
{
    (void)unused;
    int ends[2];
    weft_task *task;
    CHECK_OK(pipe(ends));
    weft_chan *chan = make(0);
    uint64_t item = 0;
    struct selecting s = { { weft_case_recv(chan, &item), weft_case_fd(ends[0], POLLIN) }, 9 };
    CHECK_OK(weft_spawn(&task, select_two, &s, NULL));
    let_others_run();
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&s.rc), 1);
    CHECK_EQ(s.cases[1].result, -EBADF);
    CHECK_EQ(weft_close(ends[1]), 0);
    s.cases[1] = weft_case_fd(ends[1], POLLOUT); // not open any more
    CHECK_EQ(weft_select(s.cases, 2, WEFT_FOREVER), 1);
    CHECK(s.cases[1].result == -EBADF || s.cases[1].result == POLLNVAL);
    CHECK_EQ(weft_chan_destroy(chan), 0);
    return 0;
}

TEST_DRIVERS(a_descriptor_is_closed_meanwhile)
{
    CHECK_OK(weft_run(closing, NULL, NULL));
}

static int hang_up(void *unused)
{
    (void)unused;
    int ends[2];
    CHECK_OK(pipe(ends));
    struct weft_case cases[] = { weft_case_fd(ends[0], POLLIN) };
    CHECK_EQ(weft_close(ends[1]), 0);
    CHECK_EQ(weft_select(cases, 1, WEFT_FOREVER), 0);
    CHECK((cases[0].result & POLLHUP) != 0);
    CHECK_EQ(weft_close(ends[0]), 0);
    return 0;
}

TEST_DRIVERS(a_hang_up_is_an_event)
{
    CHECK_OK(weft_run(hang_up, NULL, NULL));
}

/// A worker, a channel, a descriptor and a moment, each of which comes first once.
/// The end of a task is told to several cases one after the other: those that come too late meet a
/// select that leaves, and waits for its op.
static int ends_now(void *unused)
{
    (void)unused;
    return 7;
}

static int join_twice_beside_a_descriptor(void *unused)
{
    struct weft_case cases[4];
    int fds[2];
    (void)unused;
    CHECK_EQ(pipe(fds), 0);
    for (size_t i = 0; i < test_scaled(2000); i++) {
        weft_task *task;
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = 1;
        CHECK_OK(weft_spawn(&task, ends_now, NULL, &attr));
        (void)weft_task_retain(task);
        for (int k = 0; k < 3; k++) {
            cases[k] = weft_case_join(task);
        }
        cases[3] = weft_case_fd(fds[0], POLLIN);
        int chosen = weft_select(cases, 4, WEFT_FOREVER);
        CHECK(chosen >= 0 && chosen < 3);
        CHECK_EQ(cases[chosen].result, 7);
        weft_task_release(task);
    }
    CHECK_OK(weft_close(fds[0]));
    return weft_close(fds[1]);
}

TEST_DRIVERS(joins_that_come_too_late_find_a_select_that_leaves)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    CHECK_OK(weft_run(join_twice_beside_a_descriptor, NULL, &options));
}

/// Cases that have waited once are not looked at twice; a new one among them is.
TEST_EVERYWHERE(a_case_beside_one_that_has_waited)
{
    weft_chan *quiet = make(1);
    weft_chan *rendezvous = make(0);
    uint64_t item;
    struct weft_case cases[2] = { weft_case_recv(quiet, &item) };
    CHECK_EQ(weft_select(cases, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    cases[1] = weft_case_reserve(rendezvous);
    CHECK_EQ(weft_select(cases, 2, weft_after(WEFT_MS)), 1);
    CHECK_EQ(cases[1].result, -EINVAL);
    CHECK_EQ(weft_chan_destroy(quiet), 0);
    CHECK_EQ(weft_chan_destroy(rendezvous), 0);
}

static int poll_for_nonsense(void *unused)
{
    int fds[2];
    (void)unused;
    CHECK_EQ(pipe(fds), 0);
    struct weft_case nonsense = weft_case_fd(fds[0], -1);
    CHECK_EQ(weft_select(&nonsense, 1, weft_after(WEFT_MS)), 0);
    CHECK_EQ(nonsense.result, -EINVAL);
    CHECK_OK(weft_close(fds[0]));
    return weft_close(fds[1]);
}

TEST_DRIVERS(a_descriptor_with_nonsense_events)
{
    CHECK_OK(weft_run(poll_for_nonsense, NULL, NULL));
}

TEST_EVERYWHERE(everything_apart_at_once)
{
    weft_dgram *pair[2];
    int fds[2];
    make_pair(pair, fds);
    for (int first = 0; first < 4; first++) {
        struct worker worker;
        weft_chan *chan = make(0);
        uint64_t item = 0;
        weft_task *task = start(&worker, 5);
        weft_time when = weft_after(first == 3 ? 2 * WEFT_MS : 3600 * WEFT_S);
        struct weft_case cases[] = { weft_case_join(task), weft_case_recv(chan, &item),
                                     weft_case_fd(fds[0], POLLIN), weft_case_time(when) };
        switch (first) {
        case 0: CHECK_OK(weft_go(set_later, &worker.go)); break;
        case 1: CHECK_OK(weft_go(put_later, chan)); break;
        case 2: CHECK_OK(weft_go(send_later, pair[1])); break;
        default: break;
        }
        CHECK_EQ(weft_select(cases, 4, WEFT_FOREVER), first);
        if (first == 2) {
            receive_byte(pair[0]);
        }
        if (first != 0) {
            weft_event_set(&worker.go);
            CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        }
        CHECK_EQ(weft_chan_destroy(chan), 0);
    }
    close_pair(pair);
}
