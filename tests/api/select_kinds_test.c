// select_kinds_test.c - selecting from mailboxes, broadcasts, watches and oneshots.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

enum { MAILBOX, BROADCAST, WATCH, ONESHOT, GONE, KINDS };

struct all {
    weft_mailbox *mailbox;
    weft_broadcast *broadcast;
    struct weft_broadcast_receiver receiver;
    weft_watch *watch;
    struct weft_oneshot oneshot, unwanted;
    uint64_t storage[2];
    uint64_t got[KINDS];
    struct weft_case cases[KINDS];
};

static void all_init(struct all *a)
{
    uint64_t initial = 5;
    CHECK_OK(weft_mailbox_create(&a->mailbox, sizeof(uint64_t), 0));
    CHECK_OK(weft_broadcast_create(&a->broadcast, sizeof(uint64_t), 2));
    weft_broadcast_subscribe(&a->receiver, a->broadcast);
    CHECK_OK(weft_watch_create(&a->watch, sizeof(uint64_t), &initial));
    weft_oneshot_init(&a->oneshot, &a->storage[0], sizeof(uint64_t));
    weft_oneshot_init(&a->unwanted, &a->storage[1], sizeof(uint64_t));
    for (int i = 0; i < KINDS; i++) {
        a->got[i] = 0;
    }
    a->cases[MAILBOX] = weft_case_mailbox(a->mailbox, &a->got[MAILBOX]);
    a->cases[BROADCAST] = weft_case_broadcast(&a->receiver, &a->got[BROADCAST]);
    a->cases[WATCH] = weft_case_watch(a->watch, weft_watch_generation(a->watch));
    a->cases[ONESHOT] = weft_case_oneshot(&a->oneshot, &a->got[ONESHOT]);
    a->cases[GONE] = weft_case_oneshot_closed(&a->unwanted);
}

static void all_ready(struct all *a, int kind)
{
    uint64_t item = 100 + (uint64_t)kind;
    switch (kind) {
    case MAILBOX: CHECK_OK(weft_mailbox_send(a->mailbox, &item)); break;
    case BROADCAST: CHECK_EQ(weft_broadcast_send(a->broadcast, &item), 1); break;
    case WATCH: CHECK_OK(weft_watch_set(a->watch, &item)); break;
    case ONESHOT: CHECK_OK(weft_oneshot_send(&a->oneshot, &item)); break;
    default: weft_oneshot_close(&a->unwanted); break;
    }
}

static void all_close(struct all *a, int kind)
{
    switch (kind) {
    case MAILBOX: weft_mailbox_close(a->mailbox); break;
    case BROADCAST: weft_broadcast_close(a->broadcast); break;
    case WATCH: weft_watch_close(a->watch); break;
    default: weft_oneshot_close(&a->oneshot); break;
    }
}

/// Nobody stands in a queue, and what was not committed was given nothing.
static void all_fini(struct all *a, int committed)
{
    for (int i = 0; i < KINDS; i++) {
        bool filled = i == committed && i != WATCH && i != GONE;
        CHECK_EQ(a->got[i], filled ? 100 + (uint64_t)i : 0);
    }
    CHECK_EQ(weft_mailbox_destroy(a->mailbox), 0);
    CHECK_EQ(weft_broadcast_unsubscribe(&a->receiver), 0);
    CHECK_EQ(weft_broadcast_destroy(a->broadcast), 0);
    CHECK_EQ(weft_watch_destroy(a->watch), 0);
    CHECK_EQ(weft_oneshot_fini(&a->oneshot), 0);
    CHECK_EQ(weft_oneshot_fini(&a->unwanted), 0);
}

struct selector {
    struct weft_case *cases;
    int rc;
};

static int run_selector(void *arg)
{
    struct selector *s = arg;
    s->rc = weft_select(s->cases, KINDS, WEFT_FOREVER);
    return 0;
}

TEST_EVERYWHERE(each_kind_wakes_the_one_who_waits_for_all)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct all a;
        weft_task *task;
        all_init(&a);
        struct selector s = { a.cases, -1 };
        CHECK_OK(weft_spawn(&task, run_selector, &s, NULL));
        let_others_run();
        CHECK(!weft_task_done(task));
        all_ready(&a, kind);
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_EQ(s.rc, kind);
        CHECK_EQ(a.cases[kind].result, 0);
        all_fini(&a, kind);
    }
}

TEST_EVERYWHERE(each_kind_may_be_ready_already)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct all a;
        all_init(&a);
        CHECK_EQ(weft_select_try(a.cases, KINDS), -EAGAIN);
        CHECK_EQ(weft_select(a.cases, KINDS, weft_after(WEFT_MS)), -ETIMEDOUT);
        all_ready(&a, kind);
        CHECK_EQ(kind % 2 == 0 ? weft_select_try(a.cases, KINDS)
                               : weft_select(a.cases, KINDS, WEFT_FOREVER),
                 kind);
        all_fini(&a, kind);
    }
}

TEST_EVERYWHERE(each_kind_ends_a_future)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct all a;
        struct weft_selection selection;
        all_init(&a);
        weft_select_future(&selection, a.cases, KINDS);
        CHECK_EQ(poll_once(&selection.future), WEFT_PENDING);
        all_ready(&a, kind);
        CHECK_EQ(poll_to_the_end(&selection.future), kind);
        all_fini(&a, kind);
    }
}

TEST_EVERYWHERE(a_closed_one_is_ready)
{
    for (int kind = 0; kind < GONE; kind++) {
        struct all a;
        weft_task *task;
        all_init(&a);
        struct selector s = { a.cases, -1 };
        CHECK_OK(weft_spawn(&task, run_selector, &s, NULL));
        let_others_run();
        all_close(&a, kind);
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_EQ(s.rc, kind);
        CHECK_EQ(a.cases[kind].result, -EPIPE);
        CHECK_EQ(weft_select_try(a.cases, KINDS), kind); // and again
        CHECK_EQ(a.cases[kind].result, -EPIPE);
        CHECK_EQ(weft_select(a.cases, KINDS, WEFT_FOREVER), kind);
        all_fini(&a, KINDS);
    }
}

/// Who has committed another case is still listed for a moment. What comes then is not lost.
TEST_EVERYWHERE(what_comes_too_late_for_a_select_is_kept)
{
    for (int kind = 0; kind < ONESHOT + 1; kind++) {
        for (int other = 0; other < ONESHOT + 1; other++) {
            struct all a;
            struct weft_selection selection;
            all_init(&a);
            weft_select_future(&selection, a.cases, KINDS);
            CHECK_EQ(poll_once(&selection.future), WEFT_PENDING);
            all_ready(&a, kind);
            if (other != kind) {
                all_ready(&a, other); // before it has been polled
            }
            CHECK_EQ(poll_to_the_end(&selection.future), kind);
            CHECK_EQ(a.got[kind], kind == WATCH ? 0u : 100 + (uint64_t)kind);
            a.got[kind] = 0;
            if (other != kind) {
                a.cases[kind] = weft_case_none();
                CHECK_EQ(weft_select(a.cases, KINDS, WEFT_FOREVER), other);
            }
            all_fini(&a, other != kind ? other : KINDS);
        }
    }
}

/// How many were missed is what a broadcast's case results in.
TEST_EVERYWHERE(a_lagging_receiver_learns_of_it)
{
    struct all a;
    all_init(&a);
    for (uint64_t i = 0; i < 5; i++) {
        CHECK_EQ(weft_broadcast_send(a.broadcast, &i), 1);
    }
    CHECK_EQ(weft_select(a.cases, KINDS, WEFT_FOREVER), BROADCAST);
    CHECK_EQ(a.cases[BROADCAST].result, 3);
    CHECK_EQ(a.got[BROADCAST], 3u);
    CHECK_EQ(weft_select(a.cases, KINDS, WEFT_FOREVER), BROADCAST);
    CHECK_EQ(a.cases[BROADCAST].result, 0);
    CHECK_EQ(a.got[BROADCAST], 4u);
    a.got[BROADCAST] = 0;
    all_fini(&a, KINDS);
}
