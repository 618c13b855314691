// Histories of selects and plain calls on a few channels in the simulator, checked against what queues
// could have done.
//
// Every item is sent by one call or stands in one case. It notes when that began and ended, and when
// it was received and where. A history is right if what was committed was received once, by one who
// was given nothing else, on the channel it was sent to; if what was not committed was never received;
// and if no item of a channel overtakes another: when a was sent before b was begun to be sent, b is
// not received before a is begun to be received.
#include "support/test.h"

#include "support/chance.h"

#include <errno.h>
#include <inttypes.h>
#include <weft.h>

enum { TASKS = 6, STEPS = 10, CHANS = 3, CASES = 4, MOST_ITEMS = TASKS * STEPS * CASES };
enum { NEVER = INT32_MAX, PERMITS = 2 };

struct item {
    int chan;
    int send_begin;
    int send_end; // NEVER: it was not sent
    int recv_begin;
    int recv_end; // NEVER: it was not received
};

/// One OS thread runs everything, so plain variables will do.
struct history {
    weft_chan *chans[CHANS];
    struct weft_semaphore semaphore;
    struct weft_token token;
    struct item items[MOST_ITEMS];
    uint32_t count;
    int clock;
};

struct member {
    struct history *history;
    uint64_t random;
};

static uint32_t new_item(struct history *h, int chan)
{
    CHECK_LT(h->count, MOST_ITEMS);
    h->items[h->count] = (struct item){ chan, h->clock++, NEVER, NEVER, NEVER };
    return h->count++;
}

static void was_sent(struct history *h, uint32_t number)
{
    h->items[number].send_end = h->clock++;
}

static void was_received(struct history *h, uint32_t number, int chan, int begin)
{
    CHECK_LT(number, h->count);
    struct item *item = &h->items[number];
    CHECK_EQ(item->chan, chan);
    CHECK_EQ(item->recv_end, NEVER); // once
    item->recv_begin = begin;
    item->recv_end = h->clock++;
}

static void send_plain(struct member *m)
{
    struct history *h = m->history;
    int chan = (int)below(&m->random, CHANS);
    uint32_t number = new_item(h, chan);
    int rc = below(&m->random, 3) == 0
                 ? weft_chan_try_send(h->chans[chan], &number)
                 : weft_chan_send(h->chans[chan], &number, some_deadline(&m->random));
    if (rc == 0) {
        was_sent(h, number);
    }
}

static void receive_plain(struct member *m, int chan, weft_time deadline)
{
    struct history *h = m->history;
    int begin = h->clock++;
    uint32_t number = MOST_ITEMS;
    int rc = weft_chan_recv(&number, h->chans[chan], deadline);
    CHECK_EQ(rc == 0, number != MOST_ITEMS);
    if (rc == 0) {
        was_received(h, number, chan, begin);
    }
}

/// What one case of a select is about.
struct choice {
    enum { SENDS, RECEIVES, ACQUIRES, ELSE } kind;
    int chan;
    uint32_t number;
    uint64_t permits;
};

static struct weft_case make_case(struct member *m, struct choice *c)
{
    struct history *h = m->history;
    c->chan = (int)below(&m->random, CHANS);
    c->number = MOST_ITEMS;
    switch (below(&m->random, 10)) {
    case 0:
    case 1:
    case 2:
    case 3: c->kind = RECEIVES; return weft_case_recv(h->chans[c->chan], &c->number);
    case 4:
    case 5:
    case 6:
        c->kind = SENDS;
        c->number = new_item(h, c->chan);
        return weft_case_send(h->chans[c->chan], &c->number);
    case 7:
        c->kind = ACQUIRES;
        c->permits = 1 + below(&m->random, PERMITS);
        return weft_case_semaphore(&h->semaphore, c->permits);
    case 8: c->kind = ELSE; return weft_case_time(some_deadline(&m->random));
    default: c->kind = ELSE; return weft_case_token(&h->token);
    }
}

static int select_somehow(struct member *m, struct weft_case *cases, size_t count)
{
    struct weft_selection selection;
    switch (below(&m->random, 5)) {
    case 0: return weft_select_try(cases, count);
    case 1:
    case 2:
        weft_select_future(&selection, cases, count);
        return (int)weft_await(&selection.future, some_deadline(&m->random));
    default: return weft_select(cases, count, some_deadline(&m->random));
    }
}

static void select_some(struct member *m)
{
    struct history *h = m->history;
    struct choice choices[CASES];
    struct weft_case cases[CASES];
    size_t count = 1 + below(&m->random, CASES);
    for (size_t i = 0; i < count; i++) {
        cases[i] = make_case(m, &choices[i]);
    }
    int begin = h->clock++;
    int rc = select_somehow(m, cases, count);
    while ((rc == -ETIMEDOUT || rc == -EAGAIN) && below(&m->random, 2) == 0) {
        rc = select_somehow(m, cases, count); // the same cases once more
    }
    CHECK(rc >= 0 || rc == -ETIMEDOUT || rc == -ECANCELED || rc == -EAGAIN);
    CHECK_LT(rc, (int)count);
    bool committed = rc >= 0 && cases[rc].result == 0;
    CHECK(rc < 0 || committed || cases[rc].result == -EPIPE);
    for (int i = 0; i < (int)count; i++) {
        struct choice *c = &choices[i];
        bool this_one = committed && i == rc;
        if (c->kind == RECEIVES) {
            CHECK_EQ(c->number != MOST_ITEMS, this_one);
        }
        if (c->kind == SENDS && !this_one) {
            CHECK_EQ(h->items[c->number].recv_end,
                     NEVER); // nor will it be: was_sent() is not called
        }
    }
    if (committed && choices[rc].kind == RECEIVES) {
        was_received(h, choices[rc].number, choices[rc].chan, begin);
    } else if (committed && choices[rc].kind == SENDS) {
        was_sent(h, choices[rc].number);
    } else if (committed && choices[rc].kind == ACQUIRES) {
        (void)weft_sleep(below(&m->random, 100 * WEFT_US));
        CHECK_OK(weft_semaphore_release(&h->semaphore, choices[rc].permits));
    }
}

static int run_member(void *arg)
{
    struct member *m = arg;
    for (int i = 0; i < STEPS; i++) {
        switch (below(&m->random, 6)) {
        case 0: send_plain(m); break;
        case 1: receive_plain(m, (int)below(&m->random, CHANS), some_deadline(&m->random)); break;
        default: select_some(m); break;
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
            if (y->chan == x->chan && y->recv_end != NEVER && x->send_end < y->send_begin) {
                CHECK_GE(y->recv_end, x->recv_begin);
            }
        }
    }
}

static void interfere(struct history *h, weft_task *const tasks[TASKS], uint64_t *random)
{
    if (test_random(random) % 2 == 0) {
        CHECK_OK(weft_sleep(test_random(random) % WEFT_MS));
        weft_task_cancel(tasks[test_random(random) % TASKS]);
    }
    if (test_random(random) % 3 == 0) {
        CHECK_OK(weft_sleep(test_random(random) % (2 * WEFT_MS)));
        weft_chan_close(h->chans[test_random(random) % CHANS]);
    }
    if (test_random(random) % 4 == 0) {
        CHECK_OK(weft_sleep(test_random(random) % WEFT_MS));
        weft_token_cancel(&h->token);
    }
}

static int run_program(void *arg)
{
    uint64_t *random = arg;
    static struct history history;
    struct member members[TASKS];
    weft_task *tasks[TASKS];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    history.count = 0;
    history.clock = 0;
    weft_token_init(&history.token, NULL);
    CHECK_OK(weft_semaphore_init(&history.semaphore, PERMITS));
    for (int i = 0; i < CHANS; i++) {
        CHECK_OK(weft_chan_create(&history.chans[i], sizeof(uint32_t), test_random(random) % 3));
    }
    for (int i = 0; i < TASKS; i++) {
        members[i] = (struct member){ .history = &history, .random = test_random(random) };
        CHECK_OK(weft_spawn(&tasks[i], run_member, &members[i], &attr));
    }
    interfere(&history, tasks, random);
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    struct member last = { .history = &history, .random = *random };
    for (int i = 0; i < CHANS; i++) {
        while (weft_chan_len(history.chans[i]) > 0) {
            receive_plain(&last, i, WEFT_FOREVER);
        }
        CHECK_EQ(weft_chan_destroy(history.chans[i]), 0);
    }
    check_history(&history);
    CHECK_EQ(weft_token_fini(&history.token), 0);
    CHECK_EQ(weft_semaphore_available(&history.semaphore), PERMITS);
    CHECK_EQ(weft_semaphore_fini(&history.semaphore), 0);
    return 0;
}

static uint64_t run_seed(uint64_t seed)
{
    uint64_t random = seed;
    struct weft_sim_options options = { .seed = seed, .carriers = 3 };
    struct weft_sim_result result;
    int rc = weft_sim_run(&result, run_program, &random, &options);
    if (rc < 0) {
        FAIL("seed %" PRIu64 " ends with %d", seed, rc);
    }
    return result.trace_hash;
}

TEST(every_history_is_one_of_queues)
{
    uint64_t first = test_seed();
    for (uint64_t i = 0; i < test_scaled(1000); i++) {
        (void)run_seed(first + i);
    }
}

/// Which case is looked at first is random, and yet part of the seed.
TEST(a_seed_repeats_its_choices)
{
    uint64_t first = test_seed();
    for (uint64_t i = 0; i < test_scaled(50); i++) {
        CHECK_EQ(run_seed(first + i), run_seed(first + i));
    }
}
