// chan_model.c - a channel of capacity 0 or 1 between two or three threads (chan/chan.c, C1 to C5).
//
// Items carry a plain value that the sender wrote before; each is received once and in order. The
// channel is freed by the last one out. Whoever is forgotten sleeps for ever.
//
// Sources: chan/chan.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/chan.h>

#include "base/alloc.h"
#include "mc.h"
#include "stage_sync.h"

static weft_chan *chan;
static int written[3];  // plain: what an item stands for
static int received[3]; // how often
static int outcome;     // of the one that may fail
static _Atomic int users;

void *weft__alloc(const struct weft_allocator *allocator, size_t size_bytes, size_t align)
{
    (void)allocator;
    (void)align;
    return mc_alloc(size_bytes);
}

void weft__free(const struct weft_allocator *allocator, void *memory, size_t size_bytes)
{
    (void)allocator;
    (void)size_bytes;
    mc_free(memory);
}

// The last one out frees the channel.
static void leave(void)
{
    if (atomic_fetch_sub_explicit(&users, 1, memory_order_acq_rel) == 1) {
        mc_assert(weft_chan_destroy(chan) == 0);
    }
}

static __attribute__((noinline)) int send_item(intptr_t number, weft_time deadline)
{
    uint64_t item = (uint64_t)number;
    written[number] = 1;
    return weft_chan_send(chan, &item, deadline);
}

static __attribute__((noinline)) int receive_item(weft_time deadline)
{
    uint64_t item = 3;
    int rc = weft_chan_recv(&item, chan, deadline);
    mc_assert((rc == 0) == (item < 3));
    if (rc == 0) {
        mc_assert(written[item] == 1);
        received[item]++;
    }
    return rc;
}

static void send_one(void *number)
{
    mc_assert(send_item((intptr_t)number, WEFT_FOREVER) == 0);
    leave();
}

static void send_two(void *unused)
{
    (void)unused;
    mc_assert(send_item(0, WEFT_FOREVER) == 0);
    mc_assert(send_item(1, WEFT_FOREVER) == 0);
    leave();
}

static void receive_two(void *unused)
{
    (void)unused;
    mc_assert(receive_item(WEFT_FOREVER) == 0);
    mc_assert(receive_item(WEFT_FOREVER) == 0);
    leave();
}

static void receive_two_in_order(void *unused)
{
    (void)unused;
    mc_assert(receive_item(WEFT_FOREVER) == 0);
    mc_assert(received[0] == 1);
    mc_assert(receive_item(WEFT_FOREVER) == 0);
    leave();
}

static void send_or_be_late(void *unused)
{
    (void)unused;
    outcome = send_item(0, 10);
    mc_assert(outcome == 0 || outcome == -ETIMEDOUT);
    weft_chan_close(chan);
    leave();
}

static void receive_until_closed(void *unused)
{
    (void)unused;
    int rc;
    while ((rc = receive_item(WEFT_FOREVER)) == 0) {
    }
    mc_assert(rc == -EPIPE);
    leave();
}

static void receive_or_be_late(void *unused)
{
    (void)unused;
    outcome = receive_item(10);
    mc_assert(outcome == 0 || outcome == -ETIMEDOUT);
    leave();
}

// A permit is ended by a commit or given back; both let the other sender in.
static __attribute__((noinline)) int commit_item(uint64_t item)
{
    written[item] = 1;
    return weft_chan_commit(chan, &item);
}

static void reserve_and_commit(void *unused)
{
    (void)unused;
    mc_assert(weft_chan_reserve(chan, WEFT_FOREVER) == 0);
    mc_assert(commit_item(0) == 0);
    leave();
}

static void reserve_or_be_late(void *unused)
{
    (void)unused;
    outcome = weft_chan_reserve(chan, 10);
    mc_assert(outcome == 0 || outcome == -ETIMEDOUT);
    if (outcome == 0) {
        weft_chan_abort(chan);
    }
    leave();
}

static void send_and_receive(void *unused)
{
    (void)unused;
    mc_assert(send_item(0, WEFT_FOREVER) == 0);
    mc_assert(receive_item(WEFT_FOREVER) == 0);
    leave();
}

static void reset(size_t capacity, int count)
{
    stage_sync_init();
    mc_assert(weft_chan_create(&chan, sizeof(uint64_t), capacity) == 0);
    for (int i = 0; i < 3; i++) {
        written[i] = received[i] = 0;
    }
    outcome = 0;
    atomic_init(&users, count);
    mc_name(chan, 64, "chan");
}

static void pair(size_t capacity)
{
    reset(capacity, 2);
    stage_sync_thread(send_two, NULL);
    mc_thread(receive_two_in_order, NULL);
}

static void rendezvous(void)
{
    pair(0);
}

static void one_slot(void)
{
    pair(1);
}

static void two_senders(void)
{
    reset(0, 3);
    stage_sync_thread(send_one, (void *)0);
    mc_thread(send_one, (void *)1);
    stage_sync_thread(receive_two, NULL);
}

static void late_sender(void)
{
    reset(0, 2);
    stage_sync_thread(send_or_be_late, NULL);
    stage_sync_thread(receive_until_closed, NULL);
}

static void late_receiver(void)
{
    reset(1, 2);
    stage_sync_thread(send_one, (void *)0);
    stage_sync_thread(receive_or_be_late, NULL);
}

static void permit(void)
{
    reset(1, 3);
    stage_sync_thread(reserve_and_commit, NULL);
    mc_thread(send_one, (void *)1);
    stage_sync_thread(receive_two, NULL);
}

static void late_permit(void)
{
    reset(1, 2);
    stage_sync_thread(reserve_or_be_late, NULL);
    stage_sync_thread(send_and_receive, NULL);
}

static void check_permit(void)
{
    mc_assert(received[0] == 1);
}

static void check(void)
{
    mc_assert(received[0] == 1 && received[1] == 1);
}

static void check_late(void)
{
    mc_assert(received[0] == (outcome == 0));
}

const struct mc_model mc_models[] = {
    { .name = "chan_rendezvous", .setup = rendezvous, .check = check },
    { .name = "chan_one_slot", .setup = one_slot, .check = check },
    { .name = "chan_two_senders", .setup = two_senders, .check = check, .max_bound = 1 },
    { .name = "chan_late_sender", .setup = late_sender, .check = check_late },
    { .name = "chan_late_receiver", .setup = late_receiver, .check = check_late },
    { .name = "chan_permit", .setup = permit, .check = check, .max_bound = 1 },
    { .name = "chan_late_permit", .setup = late_permit, .check = check_permit },
    { .name = NULL },
};
