// weft_chan_others.c - mailboxes, oneshots, broadcast channels and watches.
#include <errno.h>
#include <stdatomic.h>

#include "weft_chan.h"

enum { BATCH = 1000, SENDERS = 4, RECEIVERS = 4, BURST = 64, MAIL_BURST = 16 };

static weft_mailbox *mailbox;
static _Atomic int senders;
static uint64_t per_task;

/// As weft_chan_bounded.c does it.
static int mail_batches(uint64_t count, bool sends)
{
    int rc = weft_mailbox_create(&mailbox, sizeof(uint64_t), 0);
    if (rc < 0) {
        return rc;
    }
    for (uint64_t i = 0; i < BATCH; i++) { // so that the segments are there
        rc |= weft_mailbox_send(mailbox, &i);
    }
    for (uint64_t i = 0; i < BATCH; i++) {
        rc |= weft_mailbox_recv(&per_task, mailbox, WEFT_FOREVER);
    }
    chan_begin();
    for (uint64_t done = 0; done < count && rc == 0; done += BATCH) {
        uint64_t item;
        double t = chan_clock();
        for (uint64_t i = 0; i < BATCH; i++) {
            rc |= weft_mailbox_send(mailbox, &i);
        }
        if (sends) {
            chan_add(t);
        }
        t = chan_clock();
        for (uint64_t i = 0; i < BATCH; i++) {
            rc |= weft_mailbox_recv(&item, mailbox, WEFT_FOREVER);
        }
        if (!sends) {
            chan_add(t);
        }
    }
    chan_end((count + BATCH - 1) / BATCH * BATCH);
    weft_mailbox_destroy(mailbox);
    return rc;
}

static int play_mail_send(uint64_t count)
{
    return mail_batches(count, true);
}

static int play_mail_recv(uint64_t count)
{
    return mail_batches(count, false);
}

// Sending never waits, so after each burst the senders let the receiver run; what they send in one
// round is less than what a task may do in one, or the mailbox would grow.
static int mail_all(void *arg)
{
    int rc = 0;
    (void)arg;
    for (uint64_t i = 0; i < per_task && rc == 0; i++) {
        rc = weft_mailbox_send(mailbox, &i);
        if (i % MAIL_BURST == MAIL_BURST - 1) {
            weft_yield();
        }
    }
    if (atomic_fetch_sub(&senders, 1) == 1) {
        weft_mailbox_close(mailbox);
    }
    return rc;
}

static int read_all(void *arg)
{
    uint64_t item;
    (void)arg;
    while (weft_mailbox_recv(&item, mailbox, WEFT_FOREVER) == 0) {
    }
    return 0;
}

static int play_mail_4x1(uint64_t count)
{
    weft_task *tasks[SENDERS + 1] = { NULL };
    int rc = weft_mailbox_create(&mailbox, sizeof(uint64_t), 0);
    if (rc < 0) {
        return rc;
    }
    atomic_store(&senders, SENDERS);
    per_task = count / SENDERS;
    chan_begin();
    rc = chan_spawn(&tasks[0], read_all, NULL);
    for (int i = 0; i < SENDERS && rc == 0; i++) {
        rc = chan_spawn_here(&tasks[1 + i], mail_all, NULL);
    }
    int joined = chan_join(tasks, SENDERS + 1);
    chan_end(per_task * SENDERS);
    weft_mailbox_destroy(mailbox);
    return rc < 0 ? rc : joined;
}

static int play_oneshot(uint64_t count)
{
    int rc = 0;
    chan_begin();
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        struct weft_oneshot oneshot;
        uint64_t value, got;
        weft_oneshot_init(&oneshot, &value, sizeof value);
        rc |= weft_oneshot_send(&oneshot, &i);
        rc |= weft_oneshot_recv(&got, &oneshot, WEFT_FOREVER);
        rc |= weft_oneshot_fini(&oneshot);
    }
    chan_end(count);
    return rc;
}

// A question with the place for its answer goes to a server.

struct question {
    uint64_t number;
    struct weft_oneshot answer;
};

static weft_chan *questions;

static int serve(void *arg)
{
    struct question *question;
    (void)arg;
    while (weft_chan_recv(&question, questions, WEFT_FOREVER) == 0) {
        int rc = weft_oneshot_send(&question->answer, &question->number);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int ask(uint64_t number)
{
    struct question question = { .number = number };
    struct question *pointer = &question;
    uint64_t answer;
    weft_oneshot_init(&question.answer, &answer, sizeof answer);
    int rc = weft_chan_send(questions, &pointer, WEFT_FOREVER);
    rc = rc < 0 ? rc : weft_oneshot_recv(NULL, &question.answer, WEFT_FOREVER);
    weft_oneshot_fini(&question.answer);
    return rc;
}

static int play_call(uint64_t count)
{
    weft_task *task;
    int rc = weft_chan_create(&questions, sizeof(struct question *), 1);
    rc = rc < 0 ? rc : chan_spawn(&task, serve, NULL);
    if (rc < 0) {
        return rc;
    }
    chan_begin();
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        rc = ask(i);
    }
    chan_end(count);
    weft_chan_close(questions);
    int joined = chan_join(&task, 1);
    weft_chan_destroy(questions);
    return rc < 0 ? rc : joined;
}

// One sends a burst, four receive it and say so.

static weft_broadcast *news;
static weft_chan *acks;
static struct weft_broadcast_receiver subscriptions[RECEIVERS];

static int hear(void *arg)
{
    uint64_t item;
    int rc;
    for (uint64_t i = 1; (rc = weft_broadcast_recv(&item, arg, WEFT_FOREVER)) == 0; i++) {
        if (i % BURST == 0) {
            rc = weft_chan_send(acks, &i, WEFT_FOREVER);
            if (rc < 0) {
                return rc;
            }
        }
    }
    weft_broadcast_unsubscribe(arg);
    return rc == -EPIPE ? 0 : -EIO; // it must not miss anything
}

static int collect_acks(void)
{
    uint64_t item;
    int rc = 0;
    for (int i = 0; i < RECEIVERS && rc == 0; i++) {
        rc = weft_chan_recv(&item, acks, WEFT_FOREVER);
    }
    return rc;
}

static int tell(uint64_t count)
{
    int rc = 0;
    uint64_t bursts = count / RECEIVERS / BURST + 1;
    chan_begin();
    for (uint64_t burst = 0; burst < bursts && rc == 0; burst++) {
        for (uint64_t i = 0; i < BURST && rc >= 0; i++) {
            rc = weft_broadcast_send(news, &i);
        }
        rc = rc < 0 ? rc : collect_acks();
    }
    chan_end(bursts * BURST * RECEIVERS);
    return rc;
}

static int play_broadcast(uint64_t count)
{
    weft_task *tasks[RECEIVERS] = { NULL };
    int rc = weft_broadcast_create(&news, sizeof(uint64_t), BURST);
    rc = rc < 0 ? rc : weft_chan_create(&acks, sizeof(uint64_t), RECEIVERS);
    for (int i = 0; i < RECEIVERS && rc == 0; i++) {
        weft_broadcast_subscribe(&subscriptions[i], news);
        rc = chan_spawn(&tasks[i], hear, &subscriptions[i]);
    }
    if (rc < 0) {
        return rc;
    }
    rc = tell(count);
    weft_broadcast_close(news);
    int joined = chan_join(tasks, RECEIVERS);
    weft_broadcast_destroy(news);
    weft_chan_destroy(acks);
    return rc < 0 ? rc : joined;
}

// One sets, four follow and say so.

static weft_watch *watch;

static int follow(void *arg)
{
    uint64_t value;
    uint64_t seen = 1;
    int rc;
    (void)arg;
    while ((rc = weft_watch_wait(watch, seen, WEFT_FOREVER)) == 0) {
        seen = weft_watch_get(&value, watch);
        rc = weft_chan_send(acks, &seen, WEFT_FOREVER);
        if (rc < 0) {
            break;
        }
    }
    return rc == -EPIPE ? 0 : rc;
}

static int set_all(uint64_t count)
{
    int rc = 0;
    chan_begin();
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        rc = weft_watch_set(watch, &i);
        rc = rc < 0 ? rc : collect_acks();
    }
    chan_end(count);
    return rc;
}

static int play_watch(uint64_t count)
{
    weft_task *tasks[RECEIVERS] = { NULL };
    uint64_t first = 0;
    int rc = weft_watch_create(&watch, sizeof first, &first);
    rc = rc < 0 ? rc : weft_chan_create(&acks, sizeof(uint64_t), RECEIVERS);
    for (int i = 0; i < RECEIVERS && rc == 0; i++) {
        rc = chan_spawn(&tasks[i], follow, NULL);
    }
    if (rc < 0) {
        return rc;
    }
    rc = set_all(count);
    weft_watch_close(watch);
    int joined = chan_join(tasks, RECEIVERS);
    weft_watch_destroy(watch);
    weft_chan_destroy(acks);
    return rc < 0 ? rc : joined;
}

static int watch_alone(uint64_t count, bool sets)
{
    uint64_t value = 0;
    int rc = weft_watch_create(&watch, sizeof value, &value);
    if (rc < 0) {
        return rc;
    }
    chan_begin();
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        if (sets) {
            rc = weft_watch_set(watch, &i);
        } else {
            rc = weft_watch_get(&value, watch) == 0;
        }
    }
    chan_end(count);
    weft_watch_destroy(watch);
    return rc == 0 ? 0 : -EIO;
}

static int play_watch_set(uint64_t count)
{
    return watch_alone(count, true);
}

static int play_watch_get(uint64_t count)
{
    return watch_alone(count, false);
}

const struct chan_workload chan_others[] = {
    { "unbounded-send", play_mail_send },
    { "unbounded-recv", play_mail_recv },
    { "unbounded-4x1", play_mail_4x1 },
    { "oneshot", play_oneshot },
    { "call", play_call },
    { "broadcast-x4", play_broadcast },
    { "watch-set", play_watch_set },
    { "watch-get", play_watch_get },
    { "watch-x4", play_watch },
    { NULL, NULL },
};
