// select_future_test.c - a select as a future: awaited, spawned, polled by hand and by foreign loops.
#include "support/test.h"

#include "support/chans.h"
#include "support/waiting.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <weft.h>

static void destroy(weft_chan *chan)
{
    CHECK_EQ(weft_chan_destroy(chan), 0); // nobody is left in its queues
}

TEST_EVERYWHERE(it_is_ready_at_once)
{
    weft_chan *chan = make(1);
    uint64_t item = 0;
    struct weft_selection selection;
    put(chan, 4);
    struct weft_case cases[] = { weft_case_none(), weft_case_recv(chan, &item) };
    weft_select_future(&selection, cases, 2);
    CHECK_EQ(poll_once(&selection.future), WEFT_READY);
    CHECK_EQ(selection.future.result, 1);
    CHECK_EQ(item, 4u);
    destroy(chan);
}

/// What each kind waits for, and making it ready.
struct all {
    weft_chan *in, *out;
    struct weft_token token;
    struct weft_event event;
    struct weft_event go;
    uint64_t got, gives;
    weft_task *task;
    weft_dgram *pair[2];
    struct weft_case cases[8];
};

enum { RECV, SEND, TOKEN, EVENT, JOIN, FD, TIME, KINDS };

static int wait_for_go(void *arg)
{
    (void)weft_event_wait(arg, WEFT_FOREVER);
    return 21;
}

static void all_init(struct all *a, bool soon)
{
    a->in = make(0);
    a->out = make(0);
    weft_token_init(&a->token, NULL);
    weft_event_init(&a->event);
    weft_event_init(&a->go);
    a->got = 0;
    a->gives = 7;
    CHECK_OK(weft_spawn(&a->task, wait_for_go, &a->go, NULL));
    CHECK_OK(weft_dgram_pair(a->pair, WEFT_ADDR_UNIXGRAM));
    a->cases[RECV] = weft_case_recv(a->in, &a->got);
    a->cases[SEND] = weft_case_send(a->out, &a->gives);
    a->cases[TOKEN] = weft_case_token(&a->token);
    a->cases[EVENT] = weft_case_event(&a->event);
    a->cases[JOIN] = weft_case_join(a->task);
    a->cases[FD] = weft_case_fd(weft_dgram_fd(a->pair[0]), POLLIN);
    a->cases[TIME] = weft_case_time(weft_after(soon ? 2 * WEFT_MS : 3600 * WEFT_S));
}

static void all_ready(struct all *a, int kind)
{
    uint64_t item = 0;
    switch (kind) {
    case RECV: put(a->in, 3); break;
    case SEND:
        CHECK_OK(weft_chan_recv(&item, a->out, WEFT_FOREVER));
        CHECK_EQ(item, 7u);
        break;
    case TOKEN: weft_token_cancel(&a->token); break;
    case EVENT: weft_event_set(&a->event); break;
    case JOIN: weft_event_set(&a->go); break;
    case FD: CHECK_OK(weft_dgram_send(a->pair[1], "x", 1, WEFT_FOREVER)); break;
    default: break; // it comes by itself
    }
}

static void all_fini(struct all *a, int committed)
{
    static const int results[] = { 0, 0, 0, 0, 21, POLLIN, 0 };
    if (committed < KINDS) {
        CHECK_EQ(a->cases[committed].result, results[committed]);
    }
    if (committed != JOIN) {
        weft_event_set(&a->go);
        CHECK_OK(weft_join(NULL, a->task, WEFT_FOREVER));
    }
    CHECK_EQ(a->got, committed == RECV ? 3u : 0u);
    destroy(a->in);
    destroy(a->out);
    CHECK_EQ(weft_token_fini(&a->token), 0);
    CHECK_EQ(weft_event_fini(&a->event), 0);
    CHECK_EQ(weft_dgram_close(a->pair[0]), 0);
    CHECK_EQ(weft_dgram_close(a->pair[1]), 0);
}

TEST_EVERYWHERE(each_kind_ends_a_spawned_one)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct all a;
        struct weft_selection selection;
        weft_task *task;
        int result = -1;
        all_init(&a, kind == TIME);
        weft_select_future(&selection, a.cases, KINDS);
        CHECK_OK(weft_spawn_future(&task, &selection.future, NULL));
        let_others_run();
        CHECK(!weft_task_done(task) || kind == TIME);
        all_ready(&a, kind);
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK_EQ(result, kind);
        all_fini(&a, kind);
    }
}

struct making {
    struct all *all;
    int kind;
};

static int make_later(void *arg)
{
    struct making *m = arg;
    let_others_run();
    all_ready(m->all, m->kind);
    return 0;
}

TEST_EVERYWHERE(each_kind_ends_an_awaited_one)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct all a;
        struct weft_selection selection;
        struct making making = { &a, kind };
        weft_task *maker;
        all_init(&a, kind == TIME);
        weft_select_future(&selection, a.cases, KINDS);
        CHECK_OK(weft_spawn(&maker, make_later, &making, NULL));
        CHECK_EQ(weft_await(&selection.future, WEFT_FOREVER), kind);
        CHECK_OK(weft_join(NULL, maker, WEFT_FOREVER));
        all_fini(&a, kind);
    }
}

TEST_EVERYWHERE(a_deadline_or_cancel_leaves_everything_as_it_was)
{
    struct all a;
    struct weft_selection selection;
    weft_task *task;
    int result = 0;
    all_init(&a, false);
    weft_select_future(&selection, a.cases, KINDS);
    CHECK_EQ(weft_await(&selection.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_select_future(&selection, a.cases, KINDS);
    CHECK_OK(weft_spawn_future(&task, &selection.future, NULL));
    let_others_run();
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    all_fini(&a, KINDS);
}

TEST_EVERYWHERE(cancelled_before_it_begins)
{
    weft_chan *chan = make(1);
    uint64_t item = 0;
    struct weft_selection selection;
    put(chan, 4);
    struct weft_case cases[] = { weft_case_recv(chan, &item) };
    weft_select_future(&selection, cases, 1);
    selection.future.cancel(&selection.future);
    CHECK_EQ(poll_once(&selection.future), WEFT_READY);
    CHECK_EQ(selection.future.result, -ECANCELED);
    CHECK_EQ(weft_chan_len(chan), 1u);
    destroy(chan);
}

/// It has committed: a cancel is too late then.
TEST_EVERYWHERE(cancelled_after_it_was_chosen)
{
    weft_chan *chan = make(0);
    weft_chan *other = make(0);
    uint64_t item = 0;
    struct weft_selection selection;
    struct weft_case cases[] = { weft_case_recv(other, &item), weft_case_recv(chan, &item) };
    weft_select_future(&selection, cases, 2);
    CHECK_EQ(poll_once(&selection.future), WEFT_PENDING);
    put(chan, 6);
    selection.future.cancel(&selection.future);
    CHECK_EQ(poll_to_the_end(&selection.future), 1);
    CHECK_EQ(item, 6u);
    destroy(chan);
    destroy(other);
}

/// A waker that counts.
struct counting {
    _Atomic int owned;
    _Atomic int woken;
};

static void counting_clone(weft_waker *copy, const weft_waker *waker)
{
    struct counting *c = waker->data;
    atomic_fetch_add(&c->owned, 1);
    *copy = *waker;
}

static void counting_wake_by_ref(const weft_waker *waker)
{
    struct counting *c = waker->data;
    atomic_fetch_add(&c->woken, 1);
}

static void counting_drop(weft_waker *waker)
{
    struct counting *c = waker->data;
    atomic_fetch_sub(&c->owned, 1);
}

static void counting_wake(weft_waker *waker)
{
    counting_wake_by_ref(waker);
    counting_drop(waker);
}

static const struct weft_waker_vtable counting_vtable = {
    counting_clone,
    counting_wake,
    counting_wake_by_ref,
    counting_drop,
};

static enum weft_poll poll_with(struct weft_selection *selection, struct counting *c)
{
    weft_waker waker = { &counting_vtable, c };
    return selection->future.poll(&selection->future, &waker);
}

/// Outside of any runtime, with wakers that change from poll to poll: the last one is woken, and none
/// is kept.
TEST(foreign_loops_poll_it)
{
    for (int ending = 0; ending < 3; ending++) {
        weft_chan *a = make(0);
        weft_chan *b = make(0);
        struct weft_token token = WEFT_TOKEN_INIT;
        struct counting wakers[2] = { { 0, 0 }, { 0, 0 } };
        uint64_t item = 0;
        struct weft_selection selection;
        struct weft_case cases[] = { weft_case_recv(a, &item), weft_case_send(b, &item),
                                     weft_case_token(&token) };
        weft_select_future(&selection, cases, 3);
        CHECK_EQ(poll_with(&selection, &wakers[0]), WEFT_PENDING);
        CHECK_EQ(poll_with(&selection, &wakers[0]), WEFT_PENDING);
        CHECK_EQ(atomic_load(&wakers[0].owned), 1);
        CHECK_EQ(poll_with(&selection, &wakers[1]), WEFT_PENDING);
        CHECK_EQ(atomic_load(&wakers[0].owned), 0);
        if (ending == 0) {
            weft_token_cancel(&token);
        } else if (ending == 1) {
            put(a, 9);
        } else {
            selection.future.cancel(&selection.future);
        }
        CHECK_EQ(atomic_load(&wakers[0].woken), 0);
        CHECK_EQ(atomic_load(&wakers[1].woken), 1);
        CHECK_EQ(poll_with(&selection, &wakers[0]), WEFT_READY);
        CHECK_EQ(selection.future.result, ending == 0 ? 2 : ending == 1 ? 0 : -ECANCELED);
        CHECK_EQ(item, ending == 1 ? 9u : 0u);
        CHECK_EQ(atomic_load(&wakers[0].owned), 0);
        CHECK_EQ(atomic_load(&wakers[1].owned), 0);
        destroy(a);
        destroy(b);
        CHECK_EQ(weft_token_fini(&token), 0);
    }
}

TEST(foreign_loops_have_no_descriptors)
{
    struct counting c = { 0, 0 };
    struct weft_selection selection;
    struct weft_case cases[] = { weft_case_fd(0, POLLIN) };
    weft_select_future(&selection, cases, 1);
    CHECK_EQ(poll_with(&selection, &c), WEFT_READY);
    CHECK_EQ(selection.future.result, -EPERM);
    weft_select_future(&selection, cases, WEFT_SELECT_MAX + 1);
    CHECK_EQ(poll_with(&selection, &c), WEFT_READY);
    CHECK_EQ(selection.future.result, -EINVAL);
    CHECK_EQ(atomic_load(&c.owned), 0);
}

/// Two futures that select, and a thread that does, on the same two channels.
TEST_EVERYWHERE(futures_and_threads_meet)
{
    enum { ROUNDS = 100 };
    weft_chan *a = make(0);
    weft_chan *b = make(0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t in[2] = { 0, 0 };
        uint64_t out[2] = { 1000 + round, 2000 + round };
        struct weft_case first[] = { weft_case_recv(a, &in[0]), weft_case_send(b, &out[0]) };
        struct weft_case second[] = { weft_case_send(a, &out[1]), weft_case_recv(b, &in[1]) };
        struct weft_selection selections[2];
        weft_task *task;
        int result = -1;
        weft_select_future(&selections[0], first, 2);
        weft_select_future(&selections[1], second, 2);
        CHECK_OK(weft_spawn_future(&task, &selections[0].future, NULL));
        int chosen = round % 2 == 0 ? (int)weft_await(&selections[1].future, WEFT_FOREVER)
                                    : weft_select(second, 2, WEFT_FOREVER);
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK_EQ(result, chosen);
        CHECK_EQ(in[chosen], chosen == 0 ? out[1] : out[0]);
        CHECK_EQ(in[1 - chosen], 0u);
    }
    destroy(a);
    destroy(b);
}

TEST_EVERYWHERE(without_cases_it_waits_to_be_cancelled)
{
    struct weft_selection selection;
    weft_select_future(&selection, NULL, 0);
    CHECK_EQ(weft_await(&selection.future, weft_after(WEFT_MS)), -ETIMEDOUT);
}
