// mailbox_model.c - senders under a lock, a receiver without it (chan/mailbox.c, M1 to M5).
//
// Segments hold two items here and one spare is kept, so three items go over the end of a segment
// and into memory that was used before. Items stand for something plain; each is received once and
// in its sender's order. The last one out frees the mailbox.
//
// Sources: chan/mailbox.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_alloc.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/mailbox.h>

#include "mc.h"
#include "stage_sync.h"

enum { ITEMS = 6 };

static weft_mailbox *mailbox;
static struct stage_wakeup wakeup;
static int written[ITEMS];  // plain: what an item stands for
static int received[ITEMS]; // how often; the receivers' own
static int outcome;
static _Atomic int users;

static void leave(void)
{
    if (atomic_fetch_sub_explicit(&users, 1, memory_order_acq_rel) == 1) {
        mc_assert(weft_mailbox_destroy(mailbox) == 0);
    }
}

static __attribute__((noinline)) int send_item(uint64_t item)
{
    written[item] = 1;
    return weft_mailbox_send(mailbox, &item);
}

static void note(int rc, uint64_t item)
{
    mc_assert((rc == 0) == (item < ITEMS));
    if (rc == 0) {
        mc_assert(written[item] == 1);
        received[item]++;
    }
}

static __attribute__((noinline)) int receive_item(weft_time deadline)
{
    uint64_t item = ITEMS;
    int rc = weft_mailbox_recv(&item, mailbox, deadline);
    note(rc, item);
    return rc;
}

static void send_three(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; i < 3; i++) {
        mc_assert(send_item(i) == 0);
    }
    leave();
}

static void send_one(void *number)
{
    mc_assert(send_item((uint64_t)(uintptr_t)number) == 0);
    leave();
}

static void receive_three(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++) {
        mc_assert(receive_item(WEFT_FOREVER) == 0);
        mc_assert(received[i] == 1);
    }
    leave();
}

static void receive_two(void *unused)
{
    (void)unused;
    mc_assert(receive_item(WEFT_FOREVER) == 0);
    mc_assert(receive_item(WEFT_FOREVER) == 0);
    leave();
}

static void receive_to_close(void *unused)
{
    (void)unused;
    int rc;
    while ((rc = receive_item(WEFT_FOREVER)) == 0) {
    }
    mc_assert(rc == -EPIPE);
    leave();
}

static void send_and_close(void *unused)
{
    (void)unused;
    mc_assert(send_item(0) == 0);
    weft_mailbox_close(mailbox);
    leave();
}

static void receive_or_be_late(void *unused)
{
    (void)unused;
    outcome = receive_item(10);
    mc_assert(outcome == 0 || outcome == -ETIMEDOUT);
    leave();
}

static void await_one(void *unused)
{
    (void)unused;
    struct weft_sync_future f;
    uint64_t item = ITEMS;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_mailbox_recv_future(&f, &item, mailbox);
    while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        stage_sync_sleep(&wakeup);
    }
    note((int)f.future.result, item);
    leave();
}

// Two that receive: the receiver's side is plain, so one of them comes after the other (M2).
static void receive_against(void *unused)
{
    (void)unused;
    uint64_t item = ITEMS;
    int rc = weft_mailbox_try_recv(&item, mailbox);
    mc_assert(rc == 0 || rc == -EBUSY);
    note(rc, item);
}

static void reset(int count)
{
    stage_sync_init();
    mc_assert(weft_mailbox_create(&mailbox, sizeof(uint64_t), 0) == 0);
    for (int i = 0; i < ITEMS; i++) {
        written[i] = received[i] = 0;
    }
    outcome = 0;
    atomic_init(&wakeup.woken, 0);
    atomic_init(&users, count);
    mc_name(mailbox, 512, "mailbox");
}

static void segments(void)
{
    reset(2);
    stage_sync_thread(send_three, NULL);
    mc_thread(receive_three, NULL);
}

// The second segment is the first one again, while its next item may already be sent.
static void recycled(void)
{
    reset(2);
    for (uint64_t i = 3; i < ITEMS; i++) {
        mc_assert(send_item(i) == 0);
        mc_assert(receive_item(WEFT_FOREVER) == 0);
    }
    stage_sync_thread(send_three, NULL);
    mc_thread(receive_three, NULL);
}

static void two_senders(void)
{
    reset(3);
    stage_sync_thread(send_one, (void *)0);
    mc_thread(send_one, (void *)1);
    stage_sync_thread(receive_two, NULL);
}

static void closed(void)
{
    reset(2);
    stage_sync_thread(send_and_close, NULL);
    stage_sync_thread(receive_to_close, NULL);
}

static void late(void)
{
    reset(2);
    stage_sync_thread(send_one, (void *)0);
    stage_sync_thread(receive_or_be_late, NULL);
}

static void future(void)
{
    reset(2);
    stage_sync_thread(send_one, (void *)0);
    mc_thread(await_one, NULL);
}

static void rivals(void)
{
    reset(2);
    mc_assert(send_item(0) == 0);
    mc_assert(send_item(1) == 0);
    stage_sync_thread(receive_against, NULL);
    mc_thread(receive_against, NULL);
}

static void check_three(void)
{
    mc_assert(received[0] == 1 && received[1] == 1 && received[2] == 1);
}

static void check_two(void)
{
    mc_assert(received[0] == 1 && received[1] == 1);
}

static void check_one(void)
{
    mc_assert(received[0] == 1);
}

static void check_late(void)
{
    mc_assert(received[0] == (outcome == 0));
}

static void check_rivals(void)
{
    mc_assert(received[0] == 1); // one of them, or each of them
    mc_assert(weft_mailbox_len(mailbox) == (size_t)(1 - received[1]));
    mc_assert(weft_mailbox_destroy(mailbox) == 0);
}

const struct mc_model mc_models[] = {
    { .name = "mailbox_segments", .setup = segments, .check = check_three },
    { .name = "mailbox_recycled", .setup = recycled, .check = check_three },
    { .name = "mailbox_two_senders", .setup = two_senders, .check = check_two, .max_bound = 1 },
    { .name = "mailbox_closed", .setup = closed, .check = check_one },
    { .name = "mailbox_late", .setup = late, .check = check_late },
    { .name = "mailbox_future", .setup = future, .check = check_one },
    { .name = "mailbox_rivals", .setup = rivals, .check = check_rivals },
    { .name = NULL },
};
