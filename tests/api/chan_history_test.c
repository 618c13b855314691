// Histories of a channel in the simulator, checked against what a queue could have done.
//
// Every send and receive notes when it began and ended. A history of a queue is right if each item
// that was received was sent before and is received once, and if no item overtakes another: when a
// was sent before b was begun to be sent, b is not received before a is begun to be received.
#include "support/test.h"

#include "support/chance.h"

#include <errno.h>
#include <inttypes.h>
#include <weft.h>

enum { TASKS = 8, STEPS = 12, MOST_ITEMS = TASKS * STEPS, NEVER = INT32_MAX };

struct item {
    int send_begin;
    int send_end; // NEVER: it failed
    int recv_begin;
    int recv_end; // NEVER: it was not received
};

/// One OS thread runs everything, so plain variables will do.
struct history {
    weft_chan *chan;
    struct item items[MOST_ITEMS];
    uint32_t count;
    int clock;
};

struct member {
    struct history *history;
    uint64_t random;
};

static void check_rc(int rc)
{
    CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED || rc == -EPIPE || rc == -EAGAIN);
}

/// Takes a permit, and sends with it after a while or gives it back.
static int send_with_permit(struct member *m, const uint32_t *number)
{
    struct history *h = m->history;
    int rc = weft_chan_reserve(h->chan, some_deadline(&m->random));
    if (rc != 0) {
        return rc == -EINVAL ? -EAGAIN : rc; // a rendezvous has none
    }
    if (below(&m->random, 2) == 0) {
        (void)weft_sleep(below(&m->random, 50 * WEFT_US));
    }
    if (below(&m->random, 4) == 0) {
        weft_chan_abort(h->chan);
        return -EAGAIN;
    }
    return weft_chan_commit(h->chan, number);
}

static void send_one(struct member *m)
{
    struct history *h = m->history;
    uint32_t number = h->count++;
    struct item *item = &h->items[number];
    struct weft_sync_future f;
    int rc;
    *item = (struct item){ h->clock++, NEVER, NEVER, NEVER };
    switch (below(&m->random, 4)) {
    case 0: rc = weft_chan_try_send(h->chan, &number); break;
    case 1:
        weft_chan_send_future(&f, h->chan, &number);
        rc = (int)weft_await(&f.future, some_deadline(&m->random));
        break;
    case 2: rc = send_with_permit(m, &number); break;
    default: rc = weft_chan_send(h->chan, &number, some_deadline(&m->random)); break;
    }
    check_rc(rc);
    if (rc == 0) {
        item->send_end = h->clock++;
    } else {
        CHECK_EQ(item->recv_end, NEVER); // it was not sent
    }
}

static void recv_one(struct member *m, weft_time deadline)
{
    struct history *h = m->history;
    int begin = h->clock++;
    uint32_t number = MOST_ITEMS;
    struct weft_sync_future f;
    int rc;
    switch (below(&m->random, 3)) {
    case 0: rc = weft_chan_try_recv(&number, h->chan); break;
    case 1:
        weft_chan_recv_future(&f, &number, h->chan);
        rc = (int)weft_await(&f.future, deadline);
        break;
    default: rc = weft_chan_recv(&number, h->chan, deadline); break;
    }
    check_rc(rc);
    CHECK_EQ(rc == 0, number != MOST_ITEMS);
    if (rc == 0) {
        CHECK_LT(number, h->count);
        CHECK_EQ(h->items[number].recv_end, NEVER); // once
        h->items[number].recv_begin = begin;
        h->items[number].recv_end = h->clock++;
    }
}

static int run_member(void *arg)
{
    struct member *m = arg;
    for (int i = 0; i < STEPS; i++) {
        if (below(&m->random, 2) == 0) {
            send_one(m);
        } else {
            recv_one(m, some_deadline(&m->random));
        }
        if (below(&m->random, 3) == 0) {
            (void)weft_sleep(below(&m->random, 100 * WEFT_US));
        }
    }
    return 0;
}

static void check_history(const struct history *h)
{
    for (uint32_t a = 0; a < h->count; a++) {
        const struct item *x = &h->items[a];
        CHECK((x->send_end == NEVER) == (x->recv_end == NEVER)); // drained: all that was sent
        for (uint32_t b = 0; b < h->count && x->recv_end != NEVER; b++) {
            const struct item *y = &h->items[b];
            if (y->recv_end != NEVER && x->send_end < y->send_begin) {
                CHECK_GE(y->recv_end, x->recv_begin);
            }
        }
    }
}

static int run_program(void *arg)
{
    uint64_t *random = arg;
    struct history history = { .clock = 0 };
    struct member members[TASKS];
    weft_task *tasks[TASKS];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_chan_create(&history.chan, sizeof(uint32_t), test_random(random) % 4));
    for (int i = 0; i < TASKS; i++) {
        members[i] = (struct member){ .history = &history, .random = test_random(random) };
        CHECK_OK(weft_spawn(&tasks[i], run_member, &members[i], &attr));
    }
    if (test_random(random) % 2 == 0) {
        CHECK_OK(weft_sleep(test_random(random) % WEFT_MS));
        weft_task_cancel(tasks[test_random(random) % TASKS]);
    }
    if (test_random(random) % 4 == 0) {
        CHECK_OK(weft_sleep(test_random(random) % (2 * WEFT_MS)));
        weft_chan_close(history.chan);
    }
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    struct member last = { .history = &history, .random = *random };
    while (weft_chan_len(history.chan) > 0) {
        recv_one(&last, WEFT_FOREVER);
    }
    check_history(&history);
    CHECK_EQ(weft_chan_destroy(history.chan), 0);
    return 0;
}

TEST(every_history_is_one_of_a_queue)
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
