// chan_memory_test.c - what channels take of memory: nothing per item once they are warm, and an error
// where there is none.
//
// The linker sends the library's allocations through the functions below (--wrap).
#include "support/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <weft.h>

static _Atomic uint64_t allocations;
static _Atomic bool exhausted;

void *__real_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
int __real_posix_memalign(void **memory, size_t align, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
int __wrap_posix_memalign(void **memory, size_t align, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return atomic_load(&exhausted) ? NULL : __real_calloc(count, size);
}

void *__wrap_malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return atomic_load(&exhausted) ? NULL : __real_malloc(size);
}

int __wrap_posix_memalign(void **memory, size_t align, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return atomic_load(&exhausted) ? ENOMEM : __real_posix_memalign(memory, align, size);
}

TEST(without_memory_nothing_is_made)
{
    weft_chan *chan = (weft_chan *)&chan;
    weft_mailbox *mailbox = (weft_mailbox *)&mailbox;
    weft_broadcast *broadcast = (weft_broadcast *)&broadcast;
    weft_watch *watch = (weft_watch *)&watch;
    uint64_t value = 0;
    atomic_store(&exhausted, true);
    CHECK_EQ(weft_chan_create(&chan, 8, 8), -ENOMEM);
    CHECK_EQ(weft_mailbox_create(&mailbox, 8, 0), -ENOMEM);
    CHECK_EQ(weft_broadcast_create(&broadcast, 8, 8), -ENOMEM);
    CHECK_EQ(weft_watch_create(&watch, sizeof value, &value), -ENOMEM);
    atomic_store(&exhausted, false);
    CHECK(chan == NULL && mailbox == NULL && broadcast == NULL && watch == NULL);
}

TEST(a_mailbox_that_cannot_grow_keeps_what_it_has)
{
    weft_mailbox *mailbox;
    uint64_t sent = 0;
    uint64_t item;
    CHECK_OK(weft_mailbox_create(&mailbox, sizeof sent, 0));
    atomic_store(&exhausted, true);
    while (weft_mailbox_send(mailbox, &sent) == 0) {
        sent++;
    }
    CHECK_EQ(weft_mailbox_send(mailbox, &sent), -ENOMEM);
    CHECK_GT(sent, 1u);
    CHECK_EQ(weft_mailbox_len(mailbox), sent);
    atomic_store(&exhausted, false);
    CHECK_EQ(weft_mailbox_send(mailbox, &sent), 0);
    for (uint64_t i = 0; i <= sent; i++) {
        CHECK_EQ(weft_mailbox_try_recv(&item, mailbox), 0);
        CHECK_EQ(item, i);
    }
    CHECK_EQ(weft_mailbox_destroy(mailbox), 0);
}

TEST(a_watch_needs_memory_only_beside_borrowed_values)
{
    weft_watch *watch;
    uint64_t value = 1;
    CHECK_OK(weft_watch_create(&watch, sizeof value, &value));
    atomic_store(&exhausted, true);
    CHECK_EQ(weft_watch_set(watch, &value), 0);
    const void *borrowed = weft_watch_borrow(NULL, watch);
    CHECK_EQ(weft_watch_set(watch, &value), -ENOMEM);
    CHECK_EQ(weft_watch_generation(watch), 2u);
    weft_watch_return(watch, borrowed);
    CHECK_EQ(weft_watch_set(watch, &value), 0);
    atomic_store(&exhausted, false);
    CHECK_EQ(weft_watch_destroy(watch), 0);
}

// All kinds at once, between two virtual threads that take turns.

enum { WARM = 1000 }; // rounds; by then a mailbox has all its segments

struct scene {
    weft_chan *chan;
    weft_chan *rendezvous;
    weft_mailbox *mailbox;
    weft_broadcast *broadcast;
    struct weft_broadcast_receiver receiver;
    weft_watch *watch;
    uint64_t rounds;
};

static int send_all(void *arg)
{
    struct scene *s = arg;
    for (uint64_t i = 0; i < s->rounds; i++) {
        CHECK_EQ(weft_chan_send(s->chan, &i, WEFT_FOREVER), 0);
        CHECK_EQ(weft_chan_reserve(s->chan, WEFT_FOREVER), 0);
        CHECK_EQ(weft_chan_commit(s->chan, &i), 0);
        CHECK_EQ(weft_mailbox_send(s->mailbox, &i), 0); // the tiny build keeps segments for one
        CHECK_EQ(weft_broadcast_send(s->broadcast, &i), 1);
        const void *borrowed = weft_watch_borrow(NULL, s->watch);
        CHECK_EQ(weft_watch_set(s->watch, &i), 0);
        weft_watch_return(s->watch, borrowed);
        CHECK_EQ(weft_chan_send(s->rendezvous, &i, WEFT_FOREVER), 0);
    }
    return 0;
}

static void receive_all(struct scene *s)
{
    weft_task *task;
    uint64_t item;
    uint64_t before = 0;
    CHECK_OK(weft_spawn(&task, send_all, s, NULL));
    for (uint64_t i = 0; i < s->rounds; i++) {
        uint64_t seen = weft_watch_generation(s->watch);
        struct weft_sync_future f;
        if (i == WARM) {
            before = atomic_load(&allocations);
        }
        CHECK_EQ(weft_chan_recv(&item, s->chan, WEFT_FOREVER), 0);
        weft_chan_recv_future(&f, &item, s->chan);
        CHECK_EQ(weft_await(&f.future, WEFT_FOREVER), 0);
        CHECK_EQ(weft_mailbox_recv(&item, s->mailbox, WEFT_FOREVER), 0);
        CHECK_EQ(weft_broadcast_recv(&item, &s->receiver, WEFT_FOREVER), 0);
        CHECK_EQ(weft_watch_wait(s->watch, seen, WEFT_FOREVER), 0);
        CHECK_EQ(weft_chan_recv(&item, s->rendezvous, WEFT_FOREVER), 0);
        CHECK_EQ(item, i);
    }
    CHECK_EQ(atomic_load(&allocations), before);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
}

static int play(void *arg)
{
    struct scene s = { .rounds = WARM + test_scaled(2000) };
    uint64_t first = 0;
    (void)arg;
    CHECK_OK(weft_chan_create(&s.chan, sizeof(uint64_t), 2));
    CHECK_OK(weft_chan_create(&s.rendezvous, sizeof(uint64_t), 0));
    CHECK_OK(weft_mailbox_create(&s.mailbox, sizeof(uint64_t), 0));
    CHECK_OK(weft_broadcast_create(&s.broadcast, sizeof(uint64_t), 2));
    CHECK_OK(weft_watch_create(&s.watch, sizeof(uint64_t), &first));
    weft_broadcast_subscribe(&s.receiver, s.broadcast);
    receive_all(&s);
    CHECK_EQ(weft_broadcast_unsubscribe(&s.receiver), 0);
    CHECK_EQ(weft_chan_destroy(s.chan), 0);
    CHECK_EQ(weft_chan_destroy(s.rendezvous), 0);
    CHECK_EQ(weft_mailbox_destroy(s.mailbox), 0);
    CHECK_EQ(weft_broadcast_destroy(s.broadcast), 0);
    CHECK_EQ(weft_watch_destroy(s.watch), 0);
    return 0;
}

TEST_DRIVERS(nothing_is_allocated_per_item)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    CHECK_OK(weft_run(play, NULL, &options));
}
