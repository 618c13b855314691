// select_test.c - selecting from channels and the objects of weft/sync.h, by threads of both kinds.
#include "support/test.h"

#include "support/chans.h"
#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

static void destroy(weft_chan *chan)
{
    CHECK_EQ(weft_chan_destroy(chan), 0); // nobody is left in its queues
}

/// Somebody who selects: a virtual thread, or run_selector_outside().
struct selector {
    struct weft_case *cases;
    size_t count;
    weft_time deadline;
    _Atomic int rc; // 1000: not yet
};

static int run_selector(void *arg)
{
    struct selector *s = arg;
    atomic_store(&s->rc, weft_select(s->cases, s->count, s->deadline));
    return 0;
}

static void *run_selector_outside(void *arg)
{
    run_selector(arg);
    return NULL;
}

static struct selector selector_of(struct weft_case *cases, size_t count)
{
    return (struct selector){ cases, count, WEFT_FOREVER, 1000 };
}

/// Spawns it and lets it wait.
static weft_task *spawn_selector(struct selector *s)
{
    weft_task *task;
    CHECK_OK(weft_spawn(&task, run_selector, s, NULL));
    let_others_run();
    CHECK_EQ(atomic_load(&s->rc), 1000);
    return task;
}

static void join_selector(weft_task *task, struct selector *s, int rc)
{
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&s->rc), rc);
}

TEST_EVERYWHERE(what_is_ready_is_committed_and_nothing_else)
{
    weft_chan *full = make(1);
    weft_chan *empty = make(1);
    uint64_t in = 0;
    uint64_t out = 7;
    put(full, 5);
    struct weft_case receives[] = { weft_case_send(full, &out), weft_case_recv(full, &in) };
    CHECK_EQ(weft_select(receives, 2, WEFT_FOREVER), 1);
    CHECK_EQ(receives[1].result, 0);
    CHECK_EQ(in, 5u);
    CHECK_EQ(weft_chan_len(full), 0u);
    put(full, 6);
    struct weft_case sends[] = { weft_case_recv(empty, &in), weft_case_send(full, &out),
                                 weft_case_send(empty, &out) };
    CHECK_EQ(weft_select(sends, 3, WEFT_FOREVER), 2);
    CHECK_EQ(in, 5u);
    CHECK_EQ(get(empty), 7u);
    CHECK_EQ(get(full), 6u);
    destroy(full);
    destroy(empty);
}

/// As they are, cases can be selected from again and again.
TEST_EVERYWHERE(cases_are_used_again)
{
    weft_chan *a = make(4);
    weft_chan *b = make(4);
    uint64_t item = 0;
    uint64_t sum = 0;
    struct weft_case cases[] = { weft_case_recv(a, &item), weft_case_recv(b, &item) };
    for (uint64_t i = 0; i < 8; i++) {
        put(i % 2 == 0 ? a : b, i);
    }
    for (int i = 0; i < 8; i++) {
        CHECK_GE(weft_select(cases, 2, WEFT_FOREVER), 0);
        sum += item;
    }
    CHECK_EQ(sum, 28u);
    CHECK_EQ(weft_select_try(cases, 2), -EAGAIN);
    for (uint64_t i = 0; i < 9; i++) { // it has to wait each time, or each third time not
        struct selector s = selector_of(cases, 2);
        weft_task *task = NULL;
        if (i % 3 < 2) {
            task = spawn_selector(&s);
        }
        put(i % 2 == 0 ? a : b, 100 + i);
        if (task != NULL) {
            join_selector(task, &s, (int)(i % 2));
        } else {
            CHECK_EQ(weft_select(cases, 2, WEFT_FOREVER), (int)(i % 2));
        }
        CHECK_EQ(item, 100 + i);
    }
    destroy(a);
    destroy(b);
}

/// Everything that has a queue: one select waits for all of it, and each wakes it in turn.
struct everything {
    weft_chan *receives;
    weft_chan *sends; // full
    weft_chan *reserves;
    struct weft_token token;
    struct weft_event event;
    struct weft_notify notify;
    struct weft_semaphore semaphore;
    uint64_t in, out;
};

enum { RECV, SEND, RESERVE, TOKEN, EVENT, NOTIFY, SEMAPHORE, KINDS };

static void everything_init(struct everything *e, struct weft_case cases[KINDS])
{
    *e = (struct everything){ .receives = make(1),
                              .sends = make(0),
                              .reserves = make(1),
                              .token = WEFT_TOKEN_INIT,
                              .event = WEFT_EVENT_INIT,
                              .notify = WEFT_NOTIFY_INIT,
                              .semaphore = WEFT_SEMAPHORE_INIT(1),
                              .in = 99,
                              .out = 50 };
    put(e->reserves, 1);
    cases[RECV] = weft_case_recv(e->receives, &e->in);
    cases[SEND] = weft_case_send(e->sends, &e->out);
    cases[RESERVE] = weft_case_reserve(e->reserves);
    cases[TOKEN] = weft_case_token(&e->token);
    cases[EVENT] = weft_case_event(&e->event);
    cases[NOTIFY] = weft_case_notify(&e->notify);
    cases[SEMAPHORE] = weft_case_semaphore(&e->semaphore, 2);
}

static void make_ready(struct everything *e, int kind)
{
    switch (kind) {
    case RECV: put(e->receives, 3); break;
    case SEND: CHECK_EQ(get(e->sends), 50u); break;
    case RESERVE: CHECK_EQ(get(e->reserves), 1u); break;
    case TOKEN: weft_token_cancel(&e->token); break;
    case EVENT: weft_event_set(&e->event); break;
    case NOTIFY: weft_notify_one(&e->notify); break;
    default: CHECK_OK(weft_semaphore_release(&e->semaphore, 1)); break;
    }
}

/// What was not committed is as it was, and nobody stands in a queue.
static void everything_fini(struct everything *e, int committed)
{
    CHECK_EQ(e->in, committed == RECV ? 3u : 99u);
    CHECK_EQ(weft_chan_len(e->receives), 0u);
    CHECK_EQ(weft_semaphore_available(&e->semaphore), committed == SEMAPHORE ? 0u : 1u);
    CHECK_EQ(weft_notify_try_wait(&e->notify), -EAGAIN);
    CHECK_EQ(weft_token_is_cancelled(&e->token), committed == TOKEN);
    if (committed == RESERVE) {
        CHECK_OK(weft_chan_commit(e->reserves, &e->out));
        CHECK_EQ(get(e->reserves), 50u);
    }
    destroy(e->receives);
    destroy(e->sends);
    destroy(e->reserves);
    CHECK_EQ(weft_token_fini(&e->token), 0);
    CHECK_EQ(weft_event_fini(&e->event), 0);
    CHECK_EQ(weft_notify_fini(&e->notify), 0);
    CHECK_EQ(weft_semaphore_fini(&e->semaphore), 0);
}

TEST_EVERYWHERE(each_kind_wakes_the_one_who_waits_for_all)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct everything e;
        struct weft_case cases[KINDS];
        everything_init(&e, cases);
        struct selector s = selector_of(cases, KINDS);
        weft_task *task = spawn_selector(&s);
        make_ready(&e, kind);
        join_selector(task, &s, kind);
        CHECK_EQ(cases[kind].result, 0);
        everything_fini(&e, kind);
    }
}

TEST_EVERYWHERE(each_kind_may_be_ready_already)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct everything e;
        struct weft_case cases[KINDS];
        weft_task *sender = NULL;
        struct selector plain = selector_of(NULL, 0);
        struct weft_case receive;
        uint64_t received = 0;
        everything_init(&e, cases);
        CHECK_EQ(weft_select_try(cases, KINDS), -EAGAIN);
        CHECK_EQ(weft_select(cases, KINDS, 1), -ETIMEDOUT);
        if (kind == SEND) { // at capacity 0 somebody has to wait there
            receive = weft_case_recv(e.sends, &received);
            plain = selector_of(&receive, 1);
            sender = spawn_selector(&plain);
        } else {
            make_ready(&e, kind);
        }
        CHECK_EQ(kind % 2 == 0 ? weft_select(cases, KINDS, 1) : weft_select_try(cases, KINDS),
                 kind);
        if (sender != NULL) {
            join_selector(sender, &plain, 0);
            CHECK_EQ(received, 50u);
        }
        everything_fini(&e, kind);
    }
}

TEST_DRIVERS(foreign_threads_select)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct everything e;
        struct weft_case cases[KINDS];
        everything_init(&e, cases);
        struct selector s = selector_of(cases, KINDS);
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, run_selector_outside, &s), 0);
        make_ready(&e, kind); // at capacity 0 we wait for him; else he may be late or early
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(atomic_load(&s.rc), kind);
        everything_fini(&e, kind);
    }
}

TEST(foreign_threads_have_deadlines)
{
    weft_chan *chan = make(0);
    uint64_t item = 0;
    struct weft_case cases[] = { weft_case_recv(chan, &item), weft_case_send(chan, &item) };
    CHECK_EQ(weft_select(cases, 2, weft_after(2 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases, 2, 0), -ETIMEDOUT);
    struct weft_case moment[] = { weft_case_recv(chan, &item),
                                  weft_case_time(weft_after(2 * WEFT_MS)) };
    CHECK_EQ(weft_select(moment, 2, WEFT_FOREVER), 1);
    CHECK_EQ(weft_select(moment, 2, WEFT_FOREVER), 1); // again: it is in the past now
    CHECK_EQ(weft_select(NULL, 0, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_select(NULL, 0, WEFT_FOREVER), -EDEADLK);
    struct weft_case never[] = { weft_case_none(), weft_case_recv(NULL, &item) };
    CHECK_EQ(weft_select(never, 2, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(weft_select_try(never, 2), -EAGAIN);
    struct weft_case fd = weft_case_fd(0, 1);
    CHECK_EQ(weft_select(&fd, 1, 1), -EPERM);
    CHECK_EQ(weft_select_try(&fd, 1), -EPERM);
    destroy(chan);
}

TEST_EVERYWHERE(without_cases_it_waits_to_be_cancelled)
{
    struct weft_case never[] = { weft_case_none(),        weft_case_token(NULL),
                                 weft_case_join(NULL),    weft_case_fd(-1, 1),
                                 weft_case_event(NULL),   weft_case_time(WEFT_FOREVER),
                                 weft_case_send(NULL, "") };
    CHECK_EQ(weft_select(NULL, 0, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_select(never, 7, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_select_try(never, 7), -EAGAIN);
    CHECK_EQ(weft_select_try(NULL, 0), -EAGAIN);
    for (size_t count = 0; count <= 7; count += 7) {
        struct selector s = selector_of(never, count);
        weft_task *task = spawn_selector(&s);
        weft_task_cancel(task);
        join_selector(task, &s, -ECANCELED);
    }
}

TEST_EVERYWHERE(cancel_and_deadline_leave_everything_as_it_was)
{
    struct everything e;
    struct weft_case cases[KINDS];
    everything_init(&e, cases);
    weft_time before = weft_now();
    CHECK_EQ(weft_select(cases, KINDS, weft_after(3 * WEFT_MS)), -ETIMEDOUT);
    CHECK_GE(weft_now(), before + 3 * WEFT_MS);
    struct selector s = selector_of(cases, KINDS);
    weft_task *task = spawn_selector(&s);
    weft_task_cancel(task);
    join_selector(task, &s, -ECANCELED);
    everything_fini(&e, KINDS);
}

static int select_cancelled(void *arg)
{
    struct selector *s = arg;
    weft_task_cancel(weft_self());
    atomic_store(&s->rc, weft_select(s->cases, s->count, s->deadline));
    return 0;
}

/// As the calls of its cases: a cancelled task does nothing any more, but may try.
TEST_EVERYWHERE(a_cancelled_task_commits_nothing)
{
    weft_chan *chan = make(1);
    uint64_t item = 0;
    weft_task *task;
    put(chan, 1);
    struct weft_case cases[] = { weft_case_recv(chan, &item) };
    struct selector s = selector_of(cases, 1);
    CHECK_OK(weft_spawn(&task, select_cancelled, &s, NULL));
    join_selector(task, &s, -ECANCELED);
    CHECK_EQ(weft_chan_len(chan), 1u);
    CHECK_EQ(get(chan), 1u);
    destroy(chan);
}

TEST_EVERYWHERE(time_is_a_case)
{
    weft_chan *chan = make(0);
    uint64_t item;
    weft_time late = weft_after(3600 * WEFT_S);
    struct weft_case cases[] = { weft_case_time(late), weft_case_recv(chan, &item),
                                 weft_case_none() };
    CHECK_EQ(weft_select(cases, 3, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_time early = weft_after(2 * WEFT_MS);
    cases[2] = weft_case_time(early);
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 2);
    CHECK_GE(weft_now(), early);
    late = weft_after(2 * WEFT_MS);
    cases[0] = weft_case_time(late);
    CHECK_EQ(weft_select(cases, 1, late), 0); // rather than -ETIMEDOUT
    CHECK_GE(weft_now(), late);
    destroy(chan);
}

/// Each of those that are ready has the same chance: also if they stand side by side.
TEST_EVERYWHERE(it_is_fair)
{
    enum { CASES = 8, ROUNDS = 3000 };
    static const unsigned ready[] = { 0xff, 0x03, 0x07, 0x81 };
    struct weft_event events[CASES];
    struct weft_case cases[CASES];
    for (size_t r = 0; r < sizeof ready / sizeof ready[0]; r++) {
        int counts[CASES] = { 0 };
        int many = __builtin_popcount(ready[r]);
        for (int i = 0; i < CASES; i++) {
            weft_event_init(&events[i]);
            cases[i] = weft_case_event(&events[i]);
            if ((ready[r] >> i & 1) != 0) {
                weft_event_set(&events[i]);
            }
        }
        for (int i = 0; i < ROUNDS; i++) {
            int chosen = weft_select(cases, CASES, WEFT_FOREVER);
            CHECK(chosen >= 0 && chosen < CASES);
            counts[chosen]++;
        }
        for (int i = 0; i < CASES; i++) {
            int expected = (ready[r] >> i & 1) != 0 ? ROUNDS / many : 0;
            CHECK_LE(counts[i], expected + expected / 4); // ROUNDS / 8 +- 5 standard deviations
            CHECK_GE(counts[i], expected - expected / 4);
        }
    }
}

TEST_EVERYWHERE(a_closed_channel_is_ready)
{
    weft_chan *a = make(0);
    weft_chan *b = make(1);
    uint64_t item = 0;
    struct weft_case cases[] = { weft_case_recv(a, &item), weft_case_recv(b, &item) };
    struct selector s = selector_of(cases, 2);
    weft_task *task = spawn_selector(&s);
    weft_chan_close(b);
    join_selector(task, &s, 1);
    CHECK_EQ(cases[1].result, -EPIPE);
    CHECK_EQ(weft_select(cases, 2, WEFT_FOREVER), 1); // and again
    CHECK_EQ(cases[1].result, -EPIPE);
    cases[1] = weft_case_none();
    CHECK_EQ(weft_select(cases, 2, 1), -ETIMEDOUT);
    cases[0] = weft_case_send(a, &item);
    s = selector_of(cases, 2);
    task = spawn_selector(&s);
    weft_chan_close(a);
    join_selector(task, &s, 0);
    CHECK_EQ(cases[0].result, -EPIPE);
    CHECK_EQ(weft_select_try(cases, 2), 0);
    CHECK_EQ(cases[0].result, -EPIPE);
    destroy(a);
    destroy(b);
}

/// One call of close wakes a select once, in however many cases the channel stands.
TEST_EVERYWHERE(the_same_channel_in_several_cases)
{
    weft_chan *chan = make(0);
    uint64_t in[2] = { 0, 0 };
    struct weft_case cases[] = { weft_case_recv(chan, &in[0]), weft_case_recv(chan, &in[1]) };
    struct selector s = selector_of(cases, 2);
    weft_task *task = spawn_selector(&s);
    put(chan, 4);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    int chosen = atomic_load(&s.rc);
    CHECK(chosen == 0 || chosen == 1);
    CHECK_EQ(in[chosen], 4u);
    CHECK_EQ(in[1 - chosen], 0u);
    uint64_t item = 1;
    CHECK_EQ(weft_chan_try_send(chan, &item), -EAGAIN); // it has left
    s = selector_of(cases, 2);
    task = spawn_selector(&s);
    weft_chan_close(chan);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(cases[atomic_load(&s.rc)].result, -EPIPE);
    destroy(chan);
}

TEST_EVERYWHERE(a_select_does_not_meet_itself)
{
    for (int partner = 0; partner < 3; partner++) {
        weft_chan *chan = make(0);
        uint64_t in[2] = { 0, 0 };
        uint64_t out[2] = { 10, 11 };
        struct weft_case cases[2][2];
        for (int i = 0; i < 2; i++) {
            cases[i][0] = weft_case_recv(chan, &in[i]);
            cases[i][1] = weft_case_send(chan, &out[i]);
        }
        CHECK_EQ(weft_select_try(cases[0], 2), -EAGAIN);
        CHECK_EQ(weft_select(cases[0], 2, weft_after(WEFT_MS)), -ETIMEDOUT);
        struct selector s = selector_of(cases[0], 2);
        weft_task *task = spawn_selector(&s);
        if (partner == 0) {
            put(chan, 5);
            join_selector(task, &s, 0);
            CHECK_EQ(in[0], 5u);
        } else if (partner == 1) {
            CHECK_EQ(get(chan), 10u);
            join_selector(task, &s, 1);
        } else {
            int other = weft_select(cases[1], 2, WEFT_FOREVER);
            join_selector(task, &s, 1 - other);
            CHECK_EQ(in[other == 0 ? 1 : 0], other == 0 ? 10u : 11u);
        }
        CHECK_EQ(weft_chan_try_recv(&in[0], chan), -EAGAIN);
        destroy(chan);
    }
}

/// With room in it one of the two is always possible.
TEST_EVERYWHERE(both_sides_of_a_buffered_channel)
{
    weft_chan *chan = make(2);
    uint64_t in = 0;
    uint64_t out = 3;
    int balance = 0;
    struct weft_case cases[] = { weft_case_recv(chan, &in), weft_case_send(chan, &out) };
    for (int i = 0; i < 100; i++) {
        balance += weft_select(cases, 2, 1) == 1 ? 1 : -1;
        CHECK(balance >= 0 && balance <= 2);
        CHECK_EQ(weft_chan_len(chan), (size_t)balance);
    }
    destroy(chan);
}

/// What a waiter before it in the queue leaves behind is not lost when that is a select which was
/// committed elsewhere.
TEST_EVERYWHERE(who_stands_behind_a_select_is_served)
{
    struct weft_semaphore semaphore = WEFT_SEMAPHORE_INIT(1);
    weft_chan *chan = make(0);
    uint64_t item = 0;
    struct weft_case big[] = { weft_case_semaphore(&semaphore, 2), weft_case_recv(chan, &item) };
    struct weft_case small[] = { weft_case_semaphore(&semaphore, 1) };
    struct selector first = selector_of(big, 2);
    struct selector second = selector_of(small, 1);
    weft_task *big_task = spawn_selector(&first);
    weft_task *small_task = spawn_selector(&second); // nobody overtakes
    put(chan, 1);
    join_selector(big_task, &first, 1);
    join_selector(small_task, &second, 0);
    CHECK_EQ(weft_semaphore_available(&semaphore), 0u);
    destroy(chan);
}

TEST_EVERYWHERE(errors_of_a_call_are_results_of_its_case)
{
    struct weft_semaphore semaphore = WEFT_SEMAPHORE_INIT(1);
    weft_chan *chan = make(0);
    struct weft_case cases[] = { weft_case_semaphore(&semaphore, 0) };
    CHECK_EQ(weft_select(cases, 1, WEFT_FOREVER), 0);
    CHECK_EQ(cases[0].result, -EINVAL);
    cases[0] = weft_case_reserve(chan);
    CHECK_EQ(weft_select_try(cases, 1), 0);
    CHECK_EQ(cases[0].result, -EINVAL);
    destroy(chan);
}

TEST_EVERYWHERE(as_many_cases_as_there_may_be)
{
    static struct weft_event events[WEFT_SELECT_MAX];
    static struct weft_case cases[WEFT_SELECT_MAX + 1];
    for (int i = 0; i <= WEFT_SELECT_MAX; i++) {
        int scattered = (int)((unsigned)i * 389u % WEFT_SELECT_MAX);
        weft_event_init(&events[scattered]);
        cases[i] = weft_case_event(&events[scattered]);
    }
    CHECK_EQ(weft_select(cases, WEFT_SELECT_MAX + 1, 1), -EINVAL);
    CHECK_EQ(weft_select_try(cases, WEFT_SELECT_MAX + 1), -EINVAL);
    struct selector s = selector_of(cases, WEFT_SELECT_MAX);
    weft_task *task = spawn_selector(&s);
    weft_event_set(&events[389 * 7 % WEFT_SELECT_MAX]);
    join_selector(task, &s, 7);
    for (int i = 0; i < WEFT_SELECT_MAX; i++) {
        CHECK_EQ(weft_event_fini(&events[i]), 0);
    }
}

/// A timer function cannot wait; what is ready it may take.
struct in_timer {
    struct weft_case cases[1];
    int ready, waiting;
    weft_chan *chan;
    struct weft_event over;
};

static void timer_selects(void *arg)
{
    struct in_timer *t = arg;
    t->ready = weft_select(t->cases, 1, WEFT_FOREVER);
    t->waiting = weft_select(t->cases, 1, WEFT_FOREVER);
    weft_event_set(&t->over);
}

TEST_EVERYWHERE(timer_functions_only_take_what_is_ready)
{
    struct in_timer t = { .chan = make(1), .over = WEFT_EVENT_INIT };
    struct weft_timer timer;
    uint64_t item = 0;
    t.cases[0] = weft_case_recv(t.chan, &item);
    put(t.chan, 8);
    CHECK_OK(weft_timer_init(&timer, timer_selects, &t));
    weft_timer_set(&timer, weft_after(WEFT_MS));
    CHECK_OK(weft_event_wait(&t.over, WEFT_FOREVER));
    CHECK_EQ(t.ready, 0);
    CHECK_EQ(item, 8u);
    CHECK_EQ(t.waiting, -EPERM);
    CHECK_GE(weft_timer_stop(&timer), 0);
    destroy(t.chan);
}
