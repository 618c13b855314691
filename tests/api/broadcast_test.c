// broadcast_test.c - every receiver gets every item, or learns how many it has missed.
#include "support/caller.h"
#include "support/test.h"

#include <errno.h>
#include <weft.h>

static weft_broadcast *make(size_t capacity)
{
    weft_broadcast *broadcast;
    CHECK_OK(weft_broadcast_create(&broadcast, sizeof(uint64_t), capacity));
    return broadcast;
}

static int send_item(weft_broadcast *broadcast, uint64_t item)
{
    return weft_broadcast_send(broadcast, &item);
}

/// Receives the item that is expected, after so many were missed.
static void expect(struct weft_broadcast_receiver *receiver, uint64_t item, int missed)
{
    uint64_t got = 0;
    CHECK_EQ(weft_broadcast_recv(&got, receiver, WEFT_FOREVER), missed);
    CHECK_EQ(got, item);
}

TEST(every_receiver_gets_every_item)
{
    weft_broadcast *broadcast = make(4);
    struct weft_broadcast_receiver first;
    struct weft_broadcast_receiver second;
    uint64_t item = 7;
    CHECK_EQ(send_item(broadcast, 0), 0); // nobody hears it
    weft_broadcast_subscribe(&first, broadcast);
    CHECK_EQ(weft_broadcast_try_recv(&item, &first), -EAGAIN);
    CHECK_EQ(weft_broadcast_recv(&item, &first, 1), -ETIMEDOUT);
    CHECK_EQ(item, 7u);
    CHECK_EQ(send_item(broadcast, 1), 1);
    weft_broadcast_subscribe(&second, broadcast);
    CHECK_EQ(weft_broadcast_destroy(broadcast), -EBUSY);
    CHECK_EQ(send_item(broadcast, 2), 2);
    CHECK_EQ(weft_broadcast_len(&first), 2u);
    CHECK_EQ(weft_broadcast_len(&second), 1u);
    expect(&first, 1, 0);
    expect(&first, 2, 0);
    expect(&second, 2, 0);
    CHECK_EQ(weft_broadcast_try_recv(&item, &second), -EAGAIN);
    CHECK_EQ(weft_broadcast_unsubscribe(&first), 0);
    CHECK_EQ(send_item(broadcast, 3), 1);
    CHECK_EQ(weft_broadcast_unsubscribe(&second), 0);
    CHECK_EQ(weft_broadcast_destroy(broadcast), 0);
    CHECK_EQ(weft_broadcast_destroy(NULL), 0);
}

TEST(who_lags_learns_how_many_it_has_missed)
{
    for (size_t capacity = 1; capacity < 6; capacity++) {
        weft_broadcast *broadcast = make(capacity);
        struct weft_broadcast_receiver slow;
        weft_broadcast_subscribe(&slow, broadcast);
        uint64_t sent = 0;
        uint64_t next = 0;
        for (uint64_t burst = 0; burst < 20; burst++) {
            for (uint64_t i = 0; i < burst; i++) {
                CHECK_EQ(send_item(broadcast, sent++), 1);
            }
            uint64_t kept = sent - next < capacity ? sent - next : capacity;
            CHECK_EQ(weft_broadcast_len(&slow), kept);
            if (kept > 0) {
                uint64_t oldest = sent - kept;
                expect(&slow, oldest, (int)(oldest - next));
                next = oldest + 1;
            }
        }
        CHECK_EQ(weft_broadcast_unsubscribe(&slow), 0);
        CHECK_EQ(weft_broadcast_destroy(broadcast), 0);
    }
}

TEST(sizes_that_make_no_sense_are_refused)
{
    weft_broadcast *broadcast = (weft_broadcast *)&broadcast;
    CHECK_EQ(weft_broadcast_create(&broadcast, 0, 1), -EINVAL);
    CHECK(broadcast == NULL);
    CHECK_EQ(weft_broadcast_create(&broadcast, 1, 0), -EINVAL);
    CHECK_EQ(weft_broadcast_create(&broadcast, 8, SIZE_MAX / 8), -EINVAL);
    CHECK_EQ(weft_broadcast_create(&broadcast, SIZE_MAX, 1), -EINVAL);
}

TEST(what_is_kept_outlives_the_close)
{
    weft_broadcast *broadcast = make(2);
    struct weft_broadcast_receiver receiver;
    uint64_t item = 9;
    weft_broadcast_subscribe(&receiver, broadcast);
    CHECK_EQ(send_item(broadcast, 1), 1);
    CHECK(!weft_broadcast_is_closed(broadcast));
    weft_broadcast_close(broadcast);
    weft_broadcast_close(broadcast);
    CHECK(weft_broadcast_is_closed(broadcast));
    CHECK_EQ(send_item(broadcast, 2), -EPIPE);
    expect(&receiver, 1, 0);
    CHECK_EQ(weft_broadcast_try_recv(&item, &receiver), -EPIPE);
    CHECK_EQ(weft_broadcast_recv(&item, &receiver, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(item, 9u);
    CHECK_EQ(weft_broadcast_unsubscribe(&receiver), 0);
    CHECK_EQ(weft_broadcast_destroy(broadcast), 0);
}

static int receive(struct caller *caller)
{
    return weft_broadcast_recv(&caller->value, caller->object, caller->deadline);
}

TEST_EVERYWHERE(receivers_wait_for_the_next_item)
{
    weft_broadcast *broadcast = make(2);
    struct weft_broadcast_receiver receivers[3];
    struct caller callers[3];
    uint64_t item;
    for (int i = 0; i < 3; i++) {
        weft_broadcast_subscribe(&receivers[i], broadcast);
        caller_start(&callers[i], receive, &receivers[i]);
    }
    CHECK_EQ(weft_broadcast_unsubscribe(&receivers[0]), -EBUSY);
    CHECK_EQ(weft_broadcast_try_recv(&item, &receivers[0]), -EBUSY); // one at a time
    CHECK_EQ(weft_broadcast_recv(&item, &receivers[0], WEFT_FOREVER), -EBUSY);
    CHECK_EQ(send_item(broadcast, 5), 3);
    CHECK_EQ(send_item(broadcast, 6), 3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(caller_end(&callers[i]), 0);
        CHECK_EQ(callers[i].value, 5u);
        expect(&receivers[i], 6, 0);
        CHECK_EQ(weft_broadcast_unsubscribe(&receivers[i]), 0);
    }
    CHECK_EQ(weft_broadcast_destroy(broadcast), 0);
}

TEST_EVERYWHERE(a_wait_ends_early)
{
    weft_broadcast *broadcast = make(2);
    struct weft_broadcast_receiver receiver;
    struct caller caller;
    weft_broadcast_subscribe(&receiver, broadcast);
    caller_start(&caller, receive, &receiver);
    weft_task_cancel(caller.task);
    CHECK_EQ(caller_end(&caller), -ECANCELED);
    uint64_t item;
    CHECK_EQ(weft_broadcast_recv(&item, &receiver, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(send_item(broadcast, 1), 1); // it has not been lost to the one that left
    expect(&receiver, 1, 0);
    caller_start(&caller, receive, &receiver);
    weft_broadcast_close(broadcast);
    CHECK_EQ(caller_end(&caller), -EPIPE);
    CHECK_EQ(weft_broadcast_unsubscribe(&receiver), 0);
    CHECK_EQ(weft_broadcast_destroy(broadcast), 0);
}

TEST_EVERYWHERE(futures_receive)
{
    weft_broadcast *broadcast = make(1);
    struct weft_broadcast_receiver receiver;
    struct weft_sync_future f;
    uint64_t item = 0;
    weft_broadcast_subscribe(&receiver, broadcast);
    weft_broadcast_recv_future(&f, &item, &receiver);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    CHECK_EQ(send_item(broadcast, 3), 1);
    f.future.cancel(&f.future); // too late
    CHECK_EQ(poll_to_the_end(&f.future), 0);
    CHECK_EQ(item, 3u);
    CHECK_EQ(send_item(broadcast, 4), 1);
    CHECK_EQ(send_item(broadcast, 5), 1);
    weft_broadcast_recv_future(&f, &item, &receiver);
    CHECK_EQ(poll_once(&f.future), WEFT_READY);
    CHECK_EQ(f.future.result, 1);
    CHECK_EQ(item, 5u);
    weft_broadcast_recv_future(&f, &item, &receiver);
    CHECK_EQ(weft_await(&f.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_broadcast_recv_future(&f, &item, &receiver);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_broadcast_close(broadcast);
    CHECK_EQ(poll_to_the_end(&f.future), -EPIPE);
    CHECK_EQ(weft_broadcast_unsubscribe(&receiver), 0);
    CHECK_EQ(weft_broadcast_destroy(broadcast), 0);
}

// Senders that never wait, and receivers of all kinds: each sees one order, and what it has received
// and missed adds up to what was sent.

enum { SENDERS = 2, RECEIVERS = 4 };

struct scene {
    weft_broadcast *broadcast;
    struct weft_broadcast_receiver receivers[RECEIVERS + 1];
    uint64_t per_sender;
    _Atomic int senders;
};

struct part {
    struct scene *scene;
    int number;
};

static int send_often(void *arg)
{
    struct part *part = arg;
    struct scene *scene = part->scene;
    for (uint64_t i = 1; i <= scene->per_sender; i++) {
        CHECK_GE(send_item(scene->broadcast, (uint64_t)part->number << 32 | i), 0);
        if (i % 5 == 0) {
            (void)weft_yield();
        }
    }
    if (atomic_fetch_sub(&scene->senders, 1) == 1) {
        weft_broadcast_close(scene->broadcast);
    }
    return 0;
}

static int receive_often(void *arg)
{
    struct part *part = arg;
    struct scene *scene = part->scene;
    struct weft_broadcast_receiver *receiver = &scene->receivers[part->number];
    uint64_t last[SENDERS] = { 0 };
    uint64_t total = 0;
    bool outside = part->number == RECEIVERS;
    for (uint64_t i = 0;; i++) {
        struct weft_sync_future f;
        uint64_t item = 0;
        int rc;
        if (i % 3 == 0 && !outside) {
            weft_broadcast_recv_future(&f, &item, receiver);
            rc = (int)weft_await(&f.future, WEFT_FOREVER);
        } else {
            rc = weft_broadcast_recv(&item, receiver, WEFT_FOREVER);
        }
        if (rc == -EPIPE) {
            break;
        }
        CHECK_GE(rc, 0);
        CHECK_GT(item & UINT32_MAX, last[item >> 32]);
        last[item >> 32] = item & UINT32_MAX;
        total += (uint64_t)rc + 1;
    }
    CHECK_EQ(total, SENDERS * scene->per_sender);
    CHECK_EQ(weft_broadcast_unsubscribe(receiver), 0);
    return 0;
}

static void *receive_outside(void *arg)
{
    receive_often(arg);
    return NULL;
}

TEST_EVERYWHERE(received_and_missed_add_up)
{
    static struct scene scene;
    static struct part parts[SENDERS + RECEIVERS + 1];
    weft_task *tasks[SENDERS + RECEIVERS];
    bool foreign = test_driver() != TEST_DRIVER_SIM;
    pthread_t thread = 0;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    scene = (struct scene){ .broadcast = make(8), .per_sender = test_scaled(2000) };
    atomic_store(&scene.senders, SENDERS);
    for (int i = 0; i < RECEIVERS + foreign; i++) {
        weft_broadcast_subscribe(&scene.receivers[i], scene.broadcast);
    }
    for (int i = 0; i < SENDERS + RECEIVERS; i++) {
        parts[i] = (struct part){ &scene, i < RECEIVERS ? i : i - RECEIVERS };
        CHECK_OK(
            weft_spawn(&tasks[i], i < RECEIVERS ? receive_often : send_often, &parts[i], &attr));
    }
    if (foreign) {
        parts[SENDERS + RECEIVERS] = (struct part){ &scene, RECEIVERS };
        thread = foreign_begin(receive_outside, &parts[SENDERS + RECEIVERS]);
    }
    for (int i = 0; i < SENDERS + RECEIVERS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    if (foreign) {
        foreign_end(thread);
    }
    CHECK_EQ(weft_broadcast_destroy(scene.broadcast), 0);
}
