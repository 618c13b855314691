// broadcast_model.c - places in a ring of one item (chan/broadcast.c, R1 to R4).
//
// What an item stands for is plain. What a receiver gets and what it misses add up; who is forgotten
// sleeps for ever. The last one out frees the channel.
//
// Sources: chan/broadcast.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_alloc.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/broadcast.h>

#include "mc.h"
#include "stage_sync.h"

static weft_broadcast *broadcast;
static struct weft_broadcast_receiver receivers[2];
static int written[2];
static int total[2]; // received and missed, by receiver
static _Atomic int users;

static void leave(void)
{
    if (atomic_fetch_sub_explicit(&users, 1, memory_order_acq_rel) == 1) {
        mc_assert(weft_broadcast_destroy(broadcast) == 0);
    }
}

static __attribute__((noinline)) void send_item(uint64_t item)
{
    written[item] = 1;
    mc_assert(weft_broadcast_send(broadcast, &item) >= 0);
}

static void send_two_and_close(void *unused)
{
    (void)unused;
    send_item(0);
    send_item(1);
    weft_broadcast_close(broadcast);
    leave();
}

static void send_one_and_close(void *unused)
{
    (void)unused;
    send_item(0);
    weft_broadcast_close(broadcast);
    leave();
}

static __attribute__((noinline)) int receive_item(intptr_t number, weft_time deadline)
{
    uint64_t item = 2;
    int rc = weft_broadcast_recv(&item, &receivers[number], deadline);
    mc_assert((rc >= 0) == (item < 2));
    if (rc >= 0) {
        mc_assert(written[item] == 1);
        total[number] += rc + 1;
        mc_assert(item + 1 == (uint64_t)total[number]);
    }
    return rc;
}

static void receive_to_close(void *number)
{
    int rc;
    while ((rc = receive_item((intptr_t)number, WEFT_FOREVER)) >= 0) {
    }
    mc_assert(rc == -EPIPE);
    mc_assert(weft_broadcast_unsubscribe(&receivers[(intptr_t)number]) == 0);
    leave();
}

// Late once, and no item is lost by that.
static void be_late_and_receive(void *number)
{
    int rc = receive_item((intptr_t)number, 10);
    mc_assert(rc >= 0 || rc == -ETIMEDOUT || rc == -EPIPE);
    receive_to_close(number);
}

static void reset(int count, int subscribed)
{
    stage_sync_init();
    mc_assert(weft_broadcast_create(&broadcast, sizeof(uint64_t), 1) == 0);
    for (int i = 0; i < 2; i++) {
        written[i] = total[i] = 0;
    }
    for (int i = 0; i < subscribed; i++) {
        weft_broadcast_subscribe(&receivers[i], broadcast);
    }
    atomic_init(&users, count);
    mc_name(broadcast, 64, "broadcast");
}

static void lagging(void)
{
    reset(2, 1);
    stage_sync_thread(send_two_and_close, NULL);
    stage_sync_thread(receive_to_close, (void *)0);
}

static void late(void)
{
    reset(2, 1);
    stage_sync_thread(send_two_and_close, NULL);
    stage_sync_thread(be_late_and_receive, (void *)0);
}

static void two_receivers(void)
{
    reset(3, 2);
    stage_sync_thread(send_one_and_close, NULL);
    stage_sync_thread(receive_to_close, (void *)0);
    mc_thread(receive_to_close, (void *)1);
}

static void check_lagging(void)
{
    mc_assert(total[0] == 2);
}

static void check_two(void)
{
    mc_assert(total[0] == 1 && total[1] == 1);
}

const struct mc_model mc_models[] = {
    { .name = "broadcast_lagging", .setup = lagging, .check = check_lagging },
    { .name = "broadcast_late", .setup = late, .check = check_lagging },
    { .name = "broadcast_two_receivers",
      .setup = two_receivers,
      .check = check_two,
      .max_bound = 1 },
    { .name = NULL },
};
