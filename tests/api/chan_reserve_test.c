// chan_reserve_test.c - permits of channels: room first, the item later.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

static weft_chan *make(size_t capacity)
{
    weft_chan *chan;
    CHECK_OK(weft_chan_create(&chan, sizeof(uint64_t), capacity));
    return chan;
}

static uint64_t get(weft_chan *chan)
{
    uint64_t item = 0;
    CHECK_EQ(weft_chan_try_recv(&item, chan), 0);
    return item;
}

static int commit(weft_chan *chan, uint64_t item)
{
    return weft_chan_commit(chan, &item);
}

static int put(weft_chan *chan, uint64_t item)
{
    return weft_chan_try_send(chan, &item);
}

TEST(permits_and_items_fill_the_capacity_together)
{
    weft_chan *chan = make(3);
    CHECK_EQ(weft_chan_try_reserve(chan), 0);
    CHECK_EQ(weft_chan_reserve(chan, 1), 0);
    CHECK_EQ(weft_chan_len(chan), 0u);
    CHECK_EQ(put(chan, 1), 0);
    CHECK_EQ(put(chan, 2), -EAGAIN);
    CHECK_EQ(weft_chan_try_reserve(chan), -EAGAIN);
    CHECK_EQ(weft_chan_reserve(chan, 1), -ETIMEDOUT);
    CHECK_EQ(weft_chan_destroy(chan), -EBUSY);
    CHECK_EQ(commit(chan, 3), 0); // after the one that was sent meanwhile
    weft_chan_abort(chan);
    CHECK_EQ(put(chan, 4), 0);
    CHECK_EQ(put(chan, 5), -EAGAIN);
    CHECK_EQ(weft_chan_len(chan), 3u);
    CHECK_EQ(get(chan), 1u);
    CHECK_EQ(get(chan), 3u);
    CHECK_EQ(get(chan), 4u);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

/// What is taken out while permits are held goes round the ring as ever.
TEST(the_ring_wraps_around_beside_permits)
{
    weft_chan *chan = make(3);
    uint64_t next = 0;
    for (uint64_t round = 0; round < 20; round++) {
        CHECK_EQ(weft_chan_try_reserve(chan), 0);
        CHECK_EQ(put(chan, 2 * round), 0);
        CHECK_EQ(commit(chan, 2 * round + 1), 0);
        CHECK_EQ(get(chan), next++);
        CHECK_EQ(get(chan), next++);
    }
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

TEST(a_rendezvous_has_no_room_to_keep)
{
    weft_chan *chan = make(0);
    struct weft_sync_future f;
    CHECK_EQ(weft_chan_try_reserve(chan), -EINVAL);
    CHECK_EQ(weft_chan_reserve(chan, WEFT_FOREVER), -EINVAL);
    weft_chan_reserve_future(&f, chan);
    weft_waker nobody = { NULL, NULL };
    CHECK_EQ(f.future.poll(&f.future, &nobody), WEFT_READY);
    CHECK_EQ(f.future.result, -EINVAL);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

TEST(a_permit_ends_with_a_commit_to_a_closed_channel)
{
    weft_chan *chan = make(1);
    CHECK_EQ(weft_chan_try_reserve(chan), 0);
    weft_chan_close(chan);
    CHECK_EQ(weft_chan_try_reserve(chan), -EPIPE);
    CHECK_EQ(weft_chan_reserve(chan, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_chan_destroy(chan), -EBUSY);
    CHECK_EQ(commit(chan, 1), -EPIPE);
    uint64_t item;
    CHECK_EQ(weft_chan_try_recv(&item, chan), -EPIPE);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

/// A virtual thread that does one thing.
struct one {
    weft_chan *chan;
    int (*call)(struct one *one);
    uint64_t item;
    weft_time deadline;
    _Atomic int rc; // 1: not yet
};

static int reserve(struct one *one)
{
    return weft_chan_reserve(one->chan, one->deadline);
}

static int send(struct one *one)
{
    return weft_chan_send(one->chan, &one->item, one->deadline);
}

static int receive(struct one *one)
{
    return weft_chan_recv(&one->item, one->chan, one->deadline);
}

static int run_one(void *arg)
{
    struct one *one = arg;
    atomic_store(&one->rc, one->call(one));
    return 0;
}

static weft_task *start(struct one *one, weft_chan *chan, int (*call)(struct one *), uint64_t item)
{
    weft_task *task;
    *one = (struct one){
        .chan = chan, .call = call, .item = item, .deadline = WEFT_FOREVER, .rc = 1
    };
    CHECK_OK(weft_spawn(&task, run_one, one, NULL));
    let_others_run();
    return task;
}

static void end(weft_task *task, struct one *one, int rc)
{
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&one->rc), rc);
}

TEST_EVERYWHERE(who_waits_for_a_permit_stands_in_line_with_senders)
{
    weft_chan *chan = make(1);
    struct one ones[4];
    weft_task *tasks[4];
    CHECK_EQ(put(chan, 1), 0);
    tasks[0] = start(&ones[0], chan, reserve, 0);
    tasks[1] = start(&ones[1], chan, send, 2);
    tasks[2] = start(&ones[2], chan, reserve, 0);
    tasks[3] = start(&ones[3], chan, send, 3);
    CHECK_EQ(weft_chan_destroy(chan), -EBUSY);
    CHECK_EQ(get(chan), 1u);
    end(tasks[0], &ones[0], 0); // has the only slot now
    CHECK_EQ(atomic_load(&ones[1].rc), 1);
    weft_chan_abort(chan);
    end(tasks[1], &ones[1], 0);
    CHECK_EQ(get(chan), 2u);
    end(tasks[2], &ones[2], 0);
    CHECK_EQ(atomic_load(&ones[3].rc), 1);
    CHECK_EQ(commit(chan, 9), 0);
    CHECK_EQ(get(chan), 9u);
    end(tasks[3], &ones[3], 0);
    CHECK_EQ(get(chan), 3u);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

/// An item that waits for room goes straight to a receiver, past those that wait for permits.
TEST_EVERYWHERE(items_reach_receivers_although_permits_fill_the_channel)
{
    weft_chan *chan = make(1);
    struct one ones[3];
    weft_task *tasks[3];
    CHECK_EQ(weft_chan_try_reserve(chan), 0);
    tasks[0] = start(&ones[0], chan, reserve, 0);
    tasks[1] = start(&ones[1], chan, send, 5);
    CHECK_EQ(get(chan), 5u);
    end(tasks[1], &ones[1], 0);
    tasks[2] = start(&ones[2], chan, receive, 0);
    CHECK_EQ(put(chan, 6), 0); // and past the permit itself
    end(tasks[2], &ones[2], 0);
    CHECK_EQ(ones[2].item, 6u);
    tasks[2] = start(&ones[2], chan, receive, 0);
    CHECK_EQ(commit(chan, 7), 0);
    end(tasks[2], &ones[2], 0);
    CHECK_EQ(ones[2].item, 7u);
    end(tasks[0], &ones[0], 0); // it went from hand to hand: its room was free
    weft_chan_abort(chan);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

TEST_EVERYWHERE(a_wait_for_a_permit_ends_early)
{
    weft_chan *chan = make(1);
    struct one one;
    CHECK_EQ(put(chan, 1), 0);
    weft_task *task = start(&one, chan, reserve, 0);
    weft_task_cancel(task);
    end(task, &one, -ECANCELED);
    CHECK_EQ(weft_chan_reserve(chan, weft_after(WEFT_MS)), -ETIMEDOUT);
    task = start(&one, chan, reserve, 0);
    weft_chan_close(chan);
    end(task, &one, -EPIPE);
    CHECK_EQ(get(chan), 1u);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

TEST_EVERYWHERE(a_future_that_is_cancelled_gives_its_permit_back)
{
    weft_chan *chan = make(1);
    struct weft_sync_future first;
    struct weft_sync_future second;
    weft_chan_reserve_future(&first, chan);
    CHECK_EQ(poll_once(&first.future), WEFT_READY);
    CHECK_EQ(first.future.result, 0);
    weft_chan_reserve_future(&first, chan);
    weft_chan_reserve_future(&second, chan);
    CHECK_EQ(poll_once(&first.future), WEFT_PENDING);
    CHECK_EQ(poll_once(&second.future), WEFT_PENDING);
    weft_chan_abort(chan);              // the first is chosen
    first.future.cancel(&first.future); // and passes it on
    CHECK_EQ(poll_to_the_end(&first.future), -ECANCELED);
    CHECK_EQ(poll_to_the_end(&second.future), 0);
    weft_chan_reserve_future(&first, chan);
    CHECK_EQ(poll_once(&first.future), WEFT_PENDING);
    weft_chan_close(chan);
    first.future.cancel(&first.future);
    CHECK_EQ(poll_to_the_end(&first.future), -ECANCELED); // there was no permit to pass on
    CHECK_EQ(commit(chan, 1), -EPIPE);
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

// Several that commit or abort, and one that counts; the channel never holds more than it may.

enum { RESERVERS = 4 };

struct storm {
    weft_chan *chan;
    uint64_t rounds;
    _Atomic uint64_t committed;
    struct weft_wait_group sending;
};

static int reserve_often(void *arg)
{
    struct storm *storm = arg;
    for (uint64_t i = 0; i < storm->rounds; i++) {
        CHECK_EQ(weft_chan_reserve(storm->chan, WEFT_FOREVER), 0);
        if (i % 5 == 0) {
            (void)weft_yield();
        }
        if (i % 3 == 0) {
            weft_chan_abort(storm->chan);
        } else {
            CHECK_EQ(commit(storm->chan, 1), 0);
            atomic_fetch_add(&storm->committed, 1);
        }
    }
    weft_wait_group_done(&storm->sending);
    return 0;
}

static void *reserve_outside(void *arg)
{
    reserve_often(arg);
    return NULL;
}

static int close_after_all(void *arg)
{
    struct storm *storm = arg;
    CHECK_EQ(weft_wait_group_wait(&storm->sending, WEFT_FOREVER), 0);
    weft_chan_close(storm->chan);
    return 0;
}

TEST_EVERYWHERE(permits_are_neither_lost_nor_doubled)
{
    static struct storm storm;
    bool foreign = test_driver() != TEST_DRIVER_SIM;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    pthread_t thread = 0;
    uint64_t item;
    uint64_t received = 0;
    storm = (struct storm){ .chan = make(3), .rounds = test_scaled(2000) };
    CHECK_OK(weft_wait_group_add(&storm.sending, RESERVERS + foreign));
    for (int i = 0; i < RESERVERS; i++) {
        CHECK_OK(weft_spawn(NULL, reserve_often, &storm, &attr));
    }
    if (foreign) {
        thread = foreign_begin(reserve_outside, &storm);
    }
    weft_task *closer;
    CHECK_OK(weft_spawn(&closer, close_after_all, &storm, NULL));
    while (weft_chan_recv(&item, storm.chan, WEFT_FOREVER) == 0) {
        received++;
        CHECK_LE(weft_chan_len(storm.chan), 3u);
    }
    CHECK_OK(weft_join(NULL, closer, WEFT_FOREVER));
    if (foreign) {
        foreign_end(thread);
    }
    CHECK_EQ(received, atomic_load(&storm.committed));
    CHECK_EQ(weft_chan_destroy(storm.chan), 0); // all permits are back
}
