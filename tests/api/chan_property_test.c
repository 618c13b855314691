// chan_property_test.c - seeded programs in the simulator against references: a mailbox is a queue, a
// broadcast channel a list with places in it, a watch a list of values of which the last one counts.
//
// One OS thread runs everything, and what does not wait is done in one go. So the order in which sends
// return is the order of the reference, and plain variables will do.
#include "support/test.h"

#include "support/chance.h"

#include <errno.h>
#include <inttypes.h>
#include <weft.h>

enum { SENDERS = 3, RECEIVERS = 3, STEPS = 15, MOST = SENDERS * STEPS };

struct world {
    uint64_t random;
    weft_mailbox *mailbox;
    weft_broadcast *broadcast;
    weft_watch *watch;
    size_t capacity; // of the broadcast channel
    uint64_t limit;  // of the mailbox; 0: none
    uint64_t posted; // items of the mailbox, which are their own numbers
    uint64_t fetched;
    uint64_t sent; // items of the broadcast channel, the same
    uint64_t generation;
    uint64_t values[MOST + 2]; // of the watch, by generation
    int senders;               // that still run
    bool closed;
};

struct actor {
    struct world *world;
    uint64_t random;
};

static void post(struct world *w)
{
    int rc = weft_mailbox_send(w->mailbox, &w->posted);
    CHECK_EQ(rc == -EPIPE, w->closed);
    if (rc == 0) {
        w->posted++;
    } else if (!w->closed) {
        CHECK_EQ(rc, -ENOBUFS);
        CHECK_GE(w->posted - w->fetched, w->limit);
    }
}

static void set_watch(struct world *w, uint64_t value)
{
    CHECK_EQ(weft_watch_set(w->watch, &value), w->closed ? -EPIPE : 0);
    if (!w->closed) {
        w->values[++w->generation] = value;
    }
}

static void tell(struct world *w)
{
    int rc = weft_broadcast_send(w->broadcast, &w->sent);
    CHECK_EQ(rc == -EPIPE, w->closed);
    w->sent += rc >= 0;
}

static void close_all(struct world *w)
{
    w->closed = true;
    weft_mailbox_close(w->mailbox);
    weft_broadcast_close(w->broadcast);
    weft_watch_close(w->watch);
}

static int run_sender(void *arg)
{
    struct actor *a = arg;
    struct world *w = a->world;
    for (int i = 0; i < STEPS; i++) {
        switch (below(&a->random, 3)) {
        case 0: post(w); break;
        case 1: tell(w); break;
        default: set_watch(w, test_random(&a->random)); break;
        }
        if (below(&a->random, 3) == 0) {
            (void)weft_sleep(below(&a->random, 100 * WEFT_US));
        }
    }
    if (--w->senders == 0) {
        close_all(w);
    }
    return 0;
}

static int fetch(struct actor *a, uint64_t *item)
{
    struct weft_sync_future f;
    switch (below(&a->random, 3)) {
    case 0: return weft_mailbox_try_recv(item, a->world->mailbox);
    case 1:
        weft_mailbox_recv_future(&f, item, a->world->mailbox);
        return (int)weft_await(&f.future, some_deadline(&a->random));
    default: return weft_mailbox_recv(item, a->world->mailbox, some_deadline(&a->random));
    }
}

static int run_owner(void *arg) // of the mailbox
{
    struct actor *a = arg;
    struct world *w = a->world;
    for (;;) {
        uint64_t item = UINT64_MAX;
        int rc = fetch(a, &item);
        if (rc == 0) {
            CHECK_EQ(item, w->fetched);
            w->fetched++;
        } else if (rc == -EPIPE || rc == -ECANCELED) {
            CHECK(rc == -ECANCELED || w->fetched == w->posted);
            return rc;
        } else {
            CHECK(rc == -ETIMEDOUT || rc == -EAGAIN);
            CHECK_EQ(item, UINT64_MAX);
            (void)weft_sleep(below(&a->random, 50 * WEFT_US));
        }
    }
}

static int hear(struct actor *a, uint64_t *item, struct weft_broadcast_receiver *receiver)
{
    struct weft_sync_future f;
    switch (below(&a->random, 3)) {
    case 0: return weft_broadcast_try_recv(item, receiver);
    case 1:
        weft_broadcast_recv_future(&f, item, receiver);
        return (int)weft_await(&f.future, some_deadline(&a->random));
    default: return weft_broadcast_recv(item, receiver, some_deadline(&a->random));
    }
}

static int run_listener(void *arg)
{
    struct actor *a = arg;
    struct world *w = a->world;
    struct weft_broadcast_receiver receiver;
    weft_broadcast_subscribe(&receiver, w->broadcast);
    uint64_t next = w->sent;
    int rc;
    do {
        uint64_t item = UINT64_MAX;
        rc = hear(a, &item, &receiver);
        if (rc >= 0) {
            CHECK_EQ(item, next + (uint64_t)rc);
            CHECK(rc == 0 || item + w->capacity <= w->sent); // it was the oldest
            next = item + 1;
        } else {
            CHECK_EQ(item, UINT64_MAX);
        }
        if (below(&a->random, 2) == 0) {
            (void)weft_sleep(below(&a->random, 100 * WEFT_US));
        }
    } while (rc != -EPIPE && rc != -ECANCELED);
    CHECK(rc == -ECANCELED || next == w->sent);
    CHECK_EQ(weft_broadcast_unsubscribe(&receiver), 0);
    return rc;
}

static uint64_t look(struct actor *a)
{
    struct world *w = a->world;
    uint64_t value;
    uint64_t seen;
    if (below(&a->random, 2) == 0) {
        const uint64_t *borrowed = weft_watch_borrow(&seen, w->watch);
        (void)weft_sleep(below(&a->random, 100 * WEFT_US));
        value = *borrowed;
        weft_watch_return(w->watch, borrowed);
    } else {
        seen = weft_watch_get(&value, w->watch);
        CHECK_EQ(seen, w->generation);
    }
    CHECK_EQ(value, w->values[seen]);
    return seen;
}

static int run_follower(void *arg)
{
    struct actor *a = arg;
    struct world *w = a->world;
    uint64_t seen = 0;
    int rc;
    do {
        struct weft_sync_future f;
        if (below(&a->random, 2) == 0) {
            weft_watch_wait_future(&f, w->watch, seen);
            rc = (int)weft_await(&f.future, some_deadline(&a->random));
        } else {
            rc = weft_watch_wait(w->watch, seen, some_deadline(&a->random));
        }
        CHECK(rc != 0 || w->generation > seen);
        seen = rc == 0 ? look(a) : seen;
    } while (rc != -EPIPE && rc != -ECANCELED);
    CHECK(rc == -ECANCELED || seen == w->generation);
    return rc;
}

static void spawn_all(struct world *w, struct actor *actors, weft_task **tasks, int count)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < count; i++) {
        weft_fn fn = i < SENDERS                   ? run_sender
                     : i < SENDERS + RECEIVERS     ? run_listener
                     : i < SENDERS + 2 * RECEIVERS ? run_follower
                                                   : run_owner;
        actors[i] = (struct actor){ .world = w, .random = test_random(&w->random) };
        CHECK_OK(weft_spawn(&tasks[i], fn, &actors[i], &attr));
    }
}

static int run_program(void *arg)
{
    enum { ACTORS = SENDERS + 2 * RECEIVERS + 1 };
    struct world w = { .random = *(uint64_t *)arg, .generation = 1, .senders = SENDERS };
    struct actor actors[ACTORS];
    weft_task *tasks[ACTORS];
    w.capacity = 1 + test_random(&w.random) % 4;
    w.limit = test_random(&w.random) % 3 == 0 ? 1 + test_random(&w.random) % 3 : 0;
    CHECK_OK(weft_mailbox_create(&w.mailbox, sizeof(uint64_t), w.limit));
    CHECK_OK(weft_broadcast_create(&w.broadcast, sizeof(uint64_t), w.capacity));
    CHECK_OK(weft_watch_create(&w.watch, sizeof(uint64_t), &w.values[1]));
    spawn_all(&w, actors, tasks, ACTORS);
    if (test_random(&w.random) % 2 == 0) {
        CHECK_OK(weft_sleep(test_random(&w.random) % WEFT_MS));
        weft_task_cancel(tasks[SENDERS + test_random(&w.random) % (ACTORS - SENDERS)]);
    }
    if (test_random(&w.random) % 4 == 0) {
        CHECK_OK(weft_sleep(test_random(&w.random) % WEFT_MS));
        close_all(&w);
    }
    for (int i = 0; i < ACTORS; i++) {
        int rc;
        CHECK_OK(weft_join(&rc, tasks[i], WEFT_FOREVER));
    }
    actors[0].random = test_random(&w.random);
    CHECK_EQ(run_owner(&actors[0]), -EPIPE); // in case the owner was cancelled
    CHECK_EQ(weft_mailbox_destroy(w.mailbox), 0);
    CHECK_EQ(weft_broadcast_destroy(w.broadcast), 0);
    CHECK_EQ(weft_watch_destroy(w.watch), 0);
    return 0;
}

TEST(every_program_does_what_the_references_do)
{
    uint64_t first = test_seed();
    for (uint64_t i = 0; i < test_scaled(1000); i++) {
        uint64_t random = first + i;
        struct weft_sim_options options = { .seed = first + i, .carriers = 3 };
        struct weft_sim_result result;
        int rc = weft_sim_run(&result, run_program, &random, &options);
        if (rc < 0) {
            FAIL("seed %" PRIu64 " ends with %d", first + i, rc);
        }
    }
}
