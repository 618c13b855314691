// chan_test.c - channels between virtual threads, futures and foreign threads.
#include "support/test.h"

#include "support/chans.h"
#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <weft.h>

TEST(items_come_out_in_the_order_in_which_they_went_in)
{
    weft_chan *chan = make(3);
    uint64_t item = 99;
    CHECK_EQ(weft_chan_capacity(chan), 3u);
    CHECK_EQ(weft_chan_try_recv(&item, chan), -EAGAIN);
    CHECK_EQ(item, 99u);
    for (uint64_t round = 0; round < 10; round++) { // wraps around
        put(chan, 3 * round);
        put(chan, 3 * round + 1);
        CHECK_EQ(get(chan), 3 * round);
        put(chan, 3 * round + 2);
        CHECK_EQ(weft_chan_len(chan), 2u);
        put(chan, 77);
        CHECK_EQ(weft_chan_try_send(chan, &item), -EAGAIN);
        CHECK_EQ(weft_chan_send(chan, &item, 1), -ETIMEDOUT);
        CHECK_EQ(get(chan), 3 * round + 1);
        CHECK_EQ(get(chan), 3 * round + 2);
        CHECK_EQ(get(chan), 77u);
    }
    CHECK_EQ(weft_chan_recv(&item, chan, 1), -ETIMEDOUT);
    CHECK_EQ(weft_chan_destroy(chan), 0);
    CHECK_EQ(weft_chan_destroy(NULL), 0);
}

TEST(items_of_any_size)
{
    static const size_t sizes[] = { 1, 3, 8, 16, 100, 4096 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        weft_chan *chan;
        unsigned char in[4096];
        unsigned char out[4096];
        CHECK_OK(weft_chan_create(&chan, sizes[i], 2));
        for (int round = 0; round < 5; round++) {
            memset(in, round + 1, sizeof in);
            memset(out, 0, sizeof out);
            CHECK_EQ(weft_chan_try_send(chan, in), 0);
            CHECK_EQ(weft_chan_try_recv(out, chan), 0);
            CHECK_EQ(memcmp(in, out, sizes[i]), 0);
            CHECK(sizes[i] == sizeof out || out[sizes[i]] == 0); // and not a byte more
        }
        CHECK_EQ(weft_chan_destroy(chan), 0);
    }
}

TEST(sizes_that_make_no_sense_are_refused)
{
    weft_chan *chan = (weft_chan *)&chan;
    CHECK_EQ(weft_chan_create(&chan, 0, 5), -EINVAL);
    CHECK(chan == NULL);
    CHECK_EQ(weft_chan_create(&chan, SIZE_MAX / 2, 5), -EINVAL);
    CHECK_EQ(weft_chan_create(&chan, 8, SIZE_MAX / 8), -EINVAL);
    CHECK_EQ(weft_chan_create(&chan, 1, SIZE_MAX), -EINVAL);
}

TEST(a_closed_channel_is_drained)
{
    weft_chan *chan = make(2);
    uint64_t item = 0;
    put(chan, 1);
    put(chan, 2);
    CHECK(!weft_chan_is_closed(chan));
    weft_chan_close(chan);
    weft_chan_close(chan);
    CHECK(weft_chan_is_closed(chan));
    CHECK_EQ(weft_chan_try_send(chan, &item), -EPIPE);
    CHECK_EQ(weft_chan_send(chan, &item, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(get(chan), 1u);
    CHECK_EQ(weft_chan_try_recv(&item, chan), 0);
    CHECK_EQ(item, 2u);
    CHECK_EQ(weft_chan_try_recv(&item, chan), -EPIPE);
    CHECK_EQ(weft_chan_recv(&item, chan, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(item, 2u);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

/// A virtual thread that sends or receives one item.
struct side {
    weft_chan *chan;
    bool sends;
    uint64_t item;
    weft_time deadline;
    _Atomic int rc; // 1: not yet
};

static int run_side(void *arg)
{
    struct side *s = arg;
    int rc = s->sends ? weft_chan_send(s->chan, &s->item, s->deadline)
                      : weft_chan_recv(&s->item, s->chan, s->deadline);
    atomic_store(&s->rc, rc);
    return 0;
}

static void *run_side_outside(void *arg)
{
    run_side(arg);
    return NULL;
}

static struct side side_of(weft_chan *chan, bool sends, uint64_t item)
{
    return (struct side){
        .chan = chan, .sends = sends, .item = item, .deadline = WEFT_FOREVER, .rc = 1
    };
}

static weft_task *spawn_side(struct side *s)
{
    weft_task *task;
    CHECK_OK(weft_spawn(&task, run_side, s, NULL));
    let_others_run();
    CHECK_EQ(atomic_load(&s->rc), 1);
    return task;
}

static void join_side(weft_task *task, struct side *s, int rc)
{
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&s->rc), rc);
}

/// Senders that wait are served in their order, behind what is in the ring.
TEST_EVERYWHERE(senders_wait_while_it_is_full)
{
    for (size_t capacity = 0; capacity < 3; capacity++) {
        weft_chan *chan = make(capacity);
        struct side senders[3];
        weft_task *tasks[3];
        for (uint64_t i = 0; i < capacity; i++) {
            put(chan, i);
        }
        for (uint64_t i = 0; i < 3; i++) {
            senders[i] = side_of(chan, true, capacity + i);
            tasks[i] = spawn_side(&senders[i]);
        }
        CHECK_EQ(weft_chan_len(chan), capacity);
        CHECK_EQ(weft_chan_destroy(chan), -EBUSY);
        for (uint64_t i = 0; i < capacity + 3; i++) {
            CHECK_EQ(get(chan), i);
        }
        for (int i = 0; i < 3; i++) {
            join_side(tasks[i], &senders[i], 0);
        }
        CHECK_EQ(weft_chan_destroy(chan), 0);
    }
}

TEST_EVERYWHERE(receivers_wait_while_it_is_empty)
{
    for (size_t capacity = 0; capacity < 3; capacity++) {
        weft_chan *chan = make(capacity);
        struct side receivers[3];
        weft_task *tasks[3];
        for (int i = 0; i < 3; i++) {
            receivers[i] = side_of(chan, false, 0);
            tasks[i] = spawn_side(&receivers[i]);
        }
        CHECK_EQ(weft_chan_destroy(chan), -EBUSY);
        for (uint64_t i = 0; i < 3; i++) {
            put(chan, 10 + i); // straight to a receiver, also at capacity 0
            CHECK_EQ(weft_chan_len(chan), 0u);
        }
        for (uint64_t i = 0; i < 3; i++) {
            join_side(tasks[i], &receivers[i], 0);
            CHECK_EQ(receivers[i].item, 10 + i);
        }
        CHECK_EQ(weft_chan_destroy(chan), 0);
    }
}

TEST_EVERYWHERE(a_rendezvous_needs_both)
{
    weft_chan *chan = make(0);
    uint64_t item = 1;
    CHECK_EQ(weft_chan_try_send(chan, &item), -EAGAIN);
    CHECK_EQ(weft_chan_send(chan, &item, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_chan_try_recv(&item, chan), -EAGAIN);
    struct side sender = side_of(chan, true, 5);
    weft_task *task = spawn_side(&sender);
    CHECK_EQ(weft_chan_try_recv(&item, chan), 0);
    CHECK_EQ(item, 5u);
    join_side(task, &sender, 0);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

TEST_EVERYWHERE(closing_wakes_both_sides)
{
    for (int sends = 0; sends < 2; sends++) {
        weft_chan *chan = make(1);
        struct side sides[3];
        weft_task *tasks[3];
        if (sends) {
            put(chan, 1);
        }
        for (int i = 0; i < 3; i++) {
            sides[i] = side_of(chan, sends, 7);
            tasks[i] = spawn_side(&sides[i]);
        }
        weft_chan_close(chan);
        for (int i = 0; i < 3; i++) {
            join_side(tasks[i], &sides[i], -EPIPE);
        }
        CHECK_EQ(weft_chan_len(chan), (size_t)sends); // what was sent before is kept
        CHECK_EQ(weft_chan_destroy(chan), 0);
    }
}

TEST_EVERYWHERE(a_cancelled_or_late_side_leaves_nothing_behind)
{
    for (int sends = 0; sends < 2; sends++) {
        weft_chan *chan = make(0);
        struct side s = side_of(chan, sends, 7);
        weft_task *task = spawn_side(&s);
        weft_task_cancel(task);
        join_side(task, &s, -ECANCELED);
        s = side_of(chan, sends, 7);
        s.deadline = weft_after(WEFT_MS);
        CHECK_OK(weft_spawn(&task, run_side, &s, NULL));
        join_side(task, &s, -ETIMEDOUT);
        uint64_t item;
        CHECK_EQ(weft_chan_try_recv(&item, chan), -EAGAIN);
        CHECK_EQ(weft_chan_try_send(chan, &item), -EAGAIN);
        CHECK_EQ(weft_chan_destroy(chan), 0);
    }
}

TEST_EVERYWHERE(futures_send_and_receive)
{
    weft_chan *chan = make(1);
    struct weft_sync_future send;
    struct weft_sync_future recv;
    uint64_t in = 5;
    uint64_t out = 0;
    weft_chan_recv_future(&recv, &out, chan);
    CHECK_EQ(poll_once(&recv.future), WEFT_PENDING);
    put(chan, 4);
    recv.future.cancel(&recv.future); // too late: it has an item, which is not lost
    CHECK_EQ(poll_to_the_end(&recv.future), 0);
    CHECK_EQ(out, 4u);
    put(chan, 5);
    in = 6;
    weft_chan_send_future(&send, chan, &in);
    CHECK_EQ(poll_once(&send.future), WEFT_PENDING);
    CHECK_EQ(get(chan), 5u);
    CHECK_EQ(poll_to_the_end(&send.future), 0);
    weft_chan_send_future(&send, chan, &in);
    CHECK_EQ(weft_await(&send.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_chan_recv_future(&recv, &out, chan);
    CHECK_EQ(poll_once(&recv.future), WEFT_READY);
    CHECK_EQ(out, 6u);
    weft_chan_recv_future(&recv, &out, chan);
    CHECK_EQ(poll_once(&recv.future), WEFT_PENDING);
    weft_chan_close(chan);
    CHECK_EQ(poll_to_the_end(&recv.future), -EPIPE);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

TEST(foreign_threads_wait_on_both_sides)
{
    for (size_t capacity = 0; capacity < 2; capacity++) {
        weft_chan *chan = make(capacity);
        for (uint64_t i = 0; i < test_scaled(200); i++) {
            struct side s = side_of(chan, i % 2, i);
            pthread_t thread = foreign_begin(run_side_outside, &s);
            uint64_t item = i;
            if (i % 2) {
                CHECK_EQ(get(chan), i);
            } else {
                CHECK_EQ(weft_chan_send(chan, &item, WEFT_FOREVER), 0);
            }
            CHECK_EQ(pthread_join(thread, NULL), 0);
            CHECK_EQ(atomic_load(&s.rc), 0);
            CHECK_EQ(s.item, i);
        }
        CHECK_EQ(weft_chan_destroy(chan), 0);
    }
}

// Many to many: each item arrives once, and each sender's in order at each receiver.

enum { SENDERS = 4, RECEIVERS = 4 };

struct traffic {
    weft_chan *chan;
    uint64_t per_sender;
    struct weft_wait_group sending;
    _Atomic uint64_t received;
    _Atomic uint64_t sum;
};

struct end {
    struct traffic *traffic;
    uint64_t number;
};

static int send_all(void *arg)
{
    struct end *e = arg;
    for (uint64_t i = 1; i <= e->traffic->per_sender; i++) {
        uint64_t item = e->number << 32 | i;
        CHECK_EQ(weft_chan_send(e->traffic->chan, &item, WEFT_FOREVER), 0);
    }
    weft_wait_group_done(&e->traffic->sending);
    return 0;
}

static int receive_all(void *arg)
{
    struct end *e = arg;
    uint64_t last[SENDERS + 1] = { 0 };
    uint64_t item;
    int rc;
    while ((rc = weft_chan_recv(&item, e->traffic->chan, WEFT_FOREVER)) == 0) {
        uint64_t *seen = &last[item >> 32];
        CHECK_GT(item & UINT32_MAX, *seen);
        *seen = item & UINT32_MAX;
        atomic_fetch_add(&e->traffic->received, 1);
        atomic_fetch_add(&e->traffic->sum, item & UINT32_MAX);
    }
    CHECK_EQ(rc, -EPIPE);
    return 0;
}

static void *send_all_outside(void *arg)
{
    send_all(arg);
    return NULL;
}

static void *receive_all_outside(void *arg)
{
    receive_all(arg);
    return NULL;
}

static void exchange(size_t capacity)
{
    static struct traffic t;
    struct end ends[SENDERS + RECEIVERS + 2];
    weft_task *tasks[SENDERS + RECEIVERS];
    pthread_t threads[2] = { 0, 0 };
    bool foreign = test_driver() != TEST_DRIVER_SIM;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    uint64_t senders = SENDERS + foreign;
    t = (struct traffic){ .chan = make(capacity), .per_sender = test_scaled(500) };
    CHECK_OK(weft_wait_group_add(&t.sending, (uint32_t)senders));
    for (uint64_t i = 0; i < SENDERS + RECEIVERS + 2; i++) {
        ends[i] = (struct end){ .traffic = &t, .number = i < SENDERS ? i : SENDERS };
    }
    for (int i = 0; i < SENDERS + RECEIVERS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], i < SENDERS ? send_all : receive_all, &ends[i], &attr));
    }
    if (foreign) {
        threads[0] = foreign_begin(send_all_outside, &ends[SENDERS + RECEIVERS]);
        threads[1] = foreign_begin(receive_all_outside, &ends[SENDERS + RECEIVERS + 1]);
    }
    CHECK_EQ(weft_wait_group_wait(&t.sending, WEFT_FOREVER), 0);
    weft_chan_close(t.chan);
    for (int i = 0; i < SENDERS + RECEIVERS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    if (foreign) {
        foreign_end(threads[0]);
        foreign_end(threads[1]);
    }
    CHECK_EQ(atomic_load(&t.received), senders * t.per_sender);
    CHECK_EQ(atomic_load(&t.sum), senders * (t.per_sender * (t.per_sender + 1) / 2));
    CHECK_EQ(weft_chan_destroy(t.chan), 0);
}

TEST_EVERYWHERE(many_to_many_through_a_rendezvous)
{
    exchange(0);
}

TEST_EVERYWHERE(many_to_many_through_one_slot)
{
    exchange(1);
}

TEST_EVERYWHERE(many_to_many_through_a_ring)
{
    exchange(16);
}
