// mailbox_test.c - a channel without bound: many send, one receives.
#include "support/caller.h"
#include "support/test.h"

#include <errno.h>
#include <string.h>
#include <weft.h>

static weft_mailbox *make(size_t limit)
{
    weft_mailbox *mailbox;
    CHECK_OK(weft_mailbox_create(&mailbox, sizeof(uint64_t), limit));
    return mailbox;
}

static int send_item(weft_mailbox *mailbox, uint64_t item)
{
    return weft_mailbox_send(mailbox, &item);
}

static uint64_t get(weft_mailbox *mailbox)
{
    uint64_t item = UINT64_MAX;
    CHECK_EQ(weft_mailbox_recv(&item, mailbox, WEFT_FOREVER), 0);
    return item;
}

/// In bursts of all sizes, over the ends of segments.
TEST(items_come_out_in_the_order_in_which_they_went_in)
{
    weft_mailbox *mailbox = make(0);
    uint64_t in = 0;
    uint64_t out = 0;
    for (uint64_t burst = 1; burst < 3000; burst = burst * 3 / 2 + 1) {
        for (uint64_t i = 0; i < burst; i++) {
            CHECK_EQ(send_item(mailbox, in++), 0);
        }
        CHECK_EQ(weft_mailbox_len(mailbox), in - out);
        uint64_t left = burst / 3;
        while (in - out > left) {
            CHECK_EQ(get(mailbox), out++);
        }
    }
    while (out < in) {
        CHECK_EQ(get(mailbox), out++);
    }
    uint64_t item = 5;
    CHECK_EQ(weft_mailbox_len(mailbox), 0u);
    CHECK_EQ(weft_mailbox_try_recv(&item, mailbox), -EAGAIN);
    CHECK_EQ(weft_mailbox_recv(&item, mailbox, 1), -ETIMEDOUT);
    CHECK_EQ(item, 5u);
    CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
    CHECK_EQ(weft_mailbox_destroy(NULL), 0);
}

TEST(items_of_any_size)
{
    static const size_t sizes[] = { 1, 3, 8, 16, 100, 4096 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        weft_mailbox *mailbox;
        unsigned char in[4096];
        unsigned char out[4096];
        CHECK_OK(weft_mailbox_create(&mailbox, sizes[i], 0));
        for (int round = 0; round < 40; round++) {
            memset(in, round + 1, sizeof in);
            CHECK_EQ(weft_mailbox_send(mailbox, in), 0);
        }
        for (int round = 0; round < 30; round++) { // the others are freed with it
            memset(in, round + 1, sizeof in);
            memset(out, 0, sizeof out);
            CHECK_EQ(weft_mailbox_try_recv(out, mailbox), 0);
            CHECK_EQ(memcmp(in, out, sizes[i]), 0);
            CHECK(sizes[i] == sizeof out || out[sizes[i]] == 0);
        }
        CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
    }
}

TEST(sizes_that_make_no_sense_are_refused)
{
    weft_mailbox *mailbox = (weft_mailbox *)&mailbox;
    CHECK_EQ(weft_mailbox_create(&mailbox, 0, 5), -EINVAL);
    CHECK(mailbox == NULL);
    CHECK_EQ(weft_mailbox_create(&mailbox, SIZE_MAX / 2, 5), -EINVAL);
}

TEST(a_limit_is_kept)
{
    weft_mailbox *mailbox = make(3);
    for (uint64_t round = 0; round < 10; round++) {
        CHECK_EQ(send_item(mailbox, 1), 0);
        CHECK_EQ(send_item(mailbox, 2), 0);
        CHECK_EQ(send_item(mailbox, 3), 0);
        CHECK_EQ(send_item(mailbox, 4), -ENOBUFS);
        CHECK_EQ(get(mailbox), 1u);
        CHECK_EQ(send_item(mailbox, 4), 0);
        CHECK_EQ(get(mailbox), 2u);
        CHECK_EQ(get(mailbox), 3u);
        CHECK_EQ(get(mailbox), 4u);
    }
    CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
}

TEST(a_closed_mailbox_is_drained)
{
    weft_mailbox *mailbox = make(0);
    uint64_t item = 9;
    CHECK_EQ(send_item(mailbox, 1), 0);
    CHECK(!weft_mailbox_is_closed(mailbox));
    weft_mailbox_close(mailbox);
    weft_mailbox_close(mailbox);
    CHECK(weft_mailbox_is_closed(mailbox));
    CHECK_EQ(send_item(mailbox, 2), -EPIPE);
    CHECK_EQ(get(mailbox), 1u);
    CHECK_EQ(weft_mailbox_try_recv(&item, mailbox), -EPIPE);
    CHECK_EQ(weft_mailbox_recv(&item, mailbox, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(item, 9u);
    CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
}

static int receive(struct caller *caller)
{
    return weft_mailbox_recv(&caller->value, caller->object, caller->deadline);
}

TEST_EVERYWHERE(one_receiver_waits_and_a_second_is_refused)
{
    weft_mailbox *mailbox = make(0);
    struct caller caller;
    struct weft_sync_future f;
    uint64_t item;
    caller_start(&caller, receive, mailbox);
    CHECK_EQ(weft_mailbox_destroy(mailbox), -EBUSY);
    CHECK_EQ(weft_mailbox_try_recv(&item, mailbox), -EBUSY);
    CHECK_EQ(weft_mailbox_recv(&item, mailbox, WEFT_FOREVER), -EBUSY);
    weft_mailbox_recv_future(&f, &item, mailbox);
    CHECK_EQ(poll_once(&f.future), WEFT_READY);
    CHECK_EQ(f.future.result, -EBUSY);
    CHECK_EQ(send_item(mailbox, 4), 0);
    CHECK_EQ(send_item(mailbox, 5), 0);
    CHECK_EQ(caller_end(&caller), 0);
    CHECK_EQ(caller.value, 4u);
    CHECK_EQ(get(mailbox), 5u);
    CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
}

TEST_EVERYWHERE(a_wait_ends_early)
{
    weft_mailbox *mailbox = make(0);
    struct caller caller;
    uint64_t item;
    caller_start(&caller, receive, mailbox);
    weft_task_cancel(caller.task);
    CHECK_EQ(caller_end(&caller), -ECANCELED);
    CHECK_EQ(weft_mailbox_recv(&item, mailbox, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(send_item(mailbox, 1), 0); // kept for the next one
    CHECK_EQ(get(mailbox), 1u);
    caller_start(&caller, receive, mailbox);
    weft_mailbox_close(mailbox);
    CHECK_EQ(caller_end(&caller), -EPIPE);
    CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
}

TEST_EVERYWHERE(futures_receive)
{
    weft_mailbox *mailbox = make(0);
    struct weft_sync_future f;
    uint64_t item = 0;
    weft_mailbox_recv_future(&f, &item, mailbox);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    CHECK_EQ(send_item(mailbox, 3), 0);
    f.future.cancel(&f.future); // too late
    CHECK_EQ(poll_to_the_end(&f.future), 0);
    CHECK_EQ(item, 3u);
    weft_mailbox_recv_future(&f, &item, mailbox);
    CHECK_EQ(weft_await(&f.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(send_item(mailbox, 4), 0);
    weft_mailbox_recv_future(&f, &item, mailbox);
    CHECK_EQ(poll_once(&f.future), WEFT_READY);
    CHECK_EQ(item, 4u);
    weft_mailbox_recv_future(&f, &item, mailbox);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_mailbox_close(mailbox);
    CHECK_EQ(poll_to_the_end(&f.future), -EPIPE);
    CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
}

TEST(foreign_threads_send_and_receive)
{
    weft_mailbox *mailbox = make(0);
    for (uint64_t i = 0; i < test_scaled(300); i++) {
        struct caller caller;
        caller_start_outside(&caller, receive, mailbox);
        CHECK_EQ(send_item(mailbox, i), 0);
        CHECK_EQ(caller_end_outside(&caller), 0);
        CHECK_EQ(caller.value, i);
    }
    CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
}

// Many senders: each item arrives once, and each sender's in order.

enum { SENDERS = 4 };

struct scene {
    weft_mailbox *mailbox;
    uint64_t per_sender;
    _Atomic int senders;
};

struct part {
    struct scene *scene;
    uint64_t number;
};

static int send_often(void *arg)
{
    struct part *part = arg;
    struct scene *scene = part->scene;
    for (uint64_t i = 1; i <= scene->per_sender; i++) {
        CHECK_EQ(send_item(scene->mailbox, part->number << 32 | i), 0);
        if (i % 16 == 0 && weft_self() != NULL) {
            (void)weft_yield();
        }
    }
    if (atomic_fetch_sub(&scene->senders, 1) == 1) {
        weft_mailbox_close(scene->mailbox);
    }
    return 0;
}

static void *send_outside(void *arg)
{
    send_often(arg);
    return NULL;
}

static int receive_in_turn(weft_mailbox *mailbox, uint64_t turn, uint64_t *item)
{
    struct weft_sync_future f;
    if (turn % 3 == 0) {
        weft_mailbox_recv_future(&f, item, mailbox);
        return (int)weft_await(&f.future, WEFT_FOREVER);
    }
    if (turn % 3 == 1) {
        int rc = weft_mailbox_recv(item, mailbox, weft_after(turn % 20 * WEFT_US));
        return rc == -ETIMEDOUT ? weft_mailbox_recv(item, mailbox, WEFT_FOREVER) : rc;
    }
    return weft_mailbox_recv(item, mailbox, WEFT_FOREVER);
}

TEST_EVERYWHERE(many_senders_one_receiver)
{
    static struct scene scene;
    static struct part parts[SENDERS + 1];
    uint64_t last[SENDERS + 1] = { 0 };
    uint64_t received = 0;
    uint64_t item;
    int rc;
    bool foreign = test_driver() != TEST_DRIVER_SIM;
    pthread_t thread = 0;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    scene = (struct scene){ .mailbox = make(0), .per_sender = test_scaled(4000) };
    atomic_store(&scene.senders, SENDERS + foreign);
    for (uint64_t i = 0; i < SENDERS; i++) {
        parts[i] = (struct part){ &scene, i };
        CHECK_OK(weft_spawn(NULL, send_often, &parts[i], &attr));
    }
    if (foreign) {
        parts[SENDERS] = (struct part){ &scene, SENDERS };
        thread = foreign_begin(send_outside, &parts[SENDERS]);
    }
    while ((rc = receive_in_turn(scene.mailbox, received, &item)) == 0) {
        CHECK_EQ(item & UINT32_MAX, last[item >> 32] + 1);
        last[item >> 32]++;
        received++;
    }
    CHECK_EQ(rc, -EPIPE);
    CHECK_EQ(received, (uint64_t)(SENDERS + foreign) * scene.per_sender);
    if (foreign) {
        foreign_end(thread);
    }
    CHECK_EQ(weft_mailbox_destroy(scene.mailbox), 0);
}

// Two that receive at once: one of them is told, and nothing is lost or doubled.

struct rival {
    weft_mailbox *mailbox;
    uint64_t count;
    uint64_t sum;
};

static int receive_against(void *arg)
{
    struct rival *rival = arg;
    uint64_t item;
    int rc;
    while ((rc = weft_mailbox_try_recv(&item, rival->mailbox)) != -EPIPE) {
        CHECK(rc == 0 || rc == -EBUSY || rc == -EAGAIN);
        if (rc == 0) {
            rival->count++;
            rival->sum += item;
        } else {
            (void)weft_yield();
        }
    }
    return 0;
}

TEST_EVERYWHERE(two_receivers_get_everything_once)
{
    static struct rival rivals[2];
    weft_task *tasks[2];
    uint64_t count = test_scaled(5000);
    weft_mailbox *mailbox = make(0);
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < 2; i++) {
        rivals[i] = (struct rival){ .mailbox = mailbox };
        CHECK_OK(weft_spawn(&tasks[i], receive_against, &rivals[i], &attr));
    }
    for (uint64_t i = 1; i <= count; i++) {
        CHECK_EQ(send_item(mailbox, i), 0);
        if (i % 50 == 0) {
            (void)weft_yield();
        }
    }
    weft_mailbox_close(mailbox);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_EQ(rivals[0].count + rivals[1].count, count);
    CHECK_EQ(rivals[0].sum + rivals[1].sum, count * (count + 1) / 2);
    CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
}
