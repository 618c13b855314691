// Selects and plain calls of virtual threads, futures and foreign threads on a few channels: nothing is
// lost and nothing comes twice.
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft.h>

enum { CHANS = 3, THREADS = 8, FOREIGN = 2, MEMBERS = THREADS + FOREIGN, CASES = 5, PERMITS = 3 };

/// One run.
struct storm {
    weft_chan *chans[CHANS];
    struct weft_semaphore semaphore;
    struct weft_notify notify;
    struct weft_event event;
    _Atomic uint32_t next; // item
    uint32_t items;
    _Atomic uint8_t *received; // how often, per item
    bool *sent;                // per item; its sender's
    _Atomic uint64_t committed;
};

struct member {
    struct storm *storm;
    uint64_t random;
    bool foreign;
};

static uint64_t below(struct member *m, uint64_t limit)
{
    return test_random(&m->random) % limit;
}

/// Items are used up when all steps are done.
static bool new_item(struct storm *s, uint32_t *item)
{
    *item = atomic_fetch_add(&s->next, 1);
    return *item < s->items;
}

static void receive(struct storm *s, uint32_t item)
{
    CHECK_LT(item, s->items);
    CHECK_EQ(atomic_fetch_add(&s->received[item], 1), 0);
}

static weft_time soon(struct member *m)
{
    return weft_after(below(m, 300) * WEFT_US);
}

static bool send_plain(struct member *m)
{
    struct storm *s = m->storm;
    uint32_t item;
    if (!new_item(s, &item)) {
        return false;
    }
    s->sent[item] = weft_chan_send(s->chans[below(m, CHANS)], &item, soon(m)) == 0;
    return true;
}

static void receive_plain(struct member *m)
{
    struct storm *s = m->storm;
    uint32_t item;
    if (weft_chan_recv(&item, s->chans[below(m, CHANS)], soon(m)) == 0) {
        receive(s, item);
    }
}

struct choice {
    enum { SENDS, RECEIVES, ACQUIRES, ELSE } kind;
    uint32_t item;
    uint64_t permits;
};

static struct weft_case make_case(struct member *m, struct choice *c)
{
    struct storm *s = m->storm;
    weft_chan *chan = s->chans[below(m, CHANS)];
    uint64_t kind = below(m, 12);
    c->kind = ELSE;
    c->item = UINT32_MAX;
    if (kind < 4) {
        c->kind = RECEIVES;
        return weft_case_recv(chan, &c->item);
    }
    if (kind < 8 && new_item(s, &c->item)) {
        c->kind = SENDS;
        return weft_case_send(chan, &c->item);
    }
    switch (kind) {
    case 8:
        c->kind = ACQUIRES;
        c->permits = 1 + below(m, PERMITS);
        return weft_case_semaphore(&s->semaphore, c->permits);
    case 9: return weft_case_notify(&s->notify);
    case 10: return weft_case_event(&s->event);
    case 11: return weft_case_time(soon(m));
    default: return weft_case_none();
    }
}

static int select_somehow(struct member *m, struct weft_case *cases, size_t count)
{
    struct weft_selection selection;
    uint64_t how = below(m, 8);
    if (how == 0) {
        return weft_select_try(cases, count);
    }
    if (how < 4 && !m->foreign) {
        weft_select_future(&selection, cases, count);
        return (int)weft_await(&selection.future, soon(m));
    }
    return weft_select(cases, count, soon(m));
}

static void select_some(struct member *m)
{
    struct storm *s = m->storm;
    struct weft_case cases[CASES];
    struct choice choices[CASES];
    int count = 1 + (int)below(m, CASES);
    for (int i = 0; i < count; i++) {
        cases[i] = make_case(m, &choices[i]);
    }
    int rc = select_somehow(m, cases, (size_t)count);
    while (rc < 0 && below(m, 2) == 0) {
        rc = select_somehow(m, cases, (size_t)count); // the same cases once more
    }
    CHECK(rc >= 0 || rc == -ETIMEDOUT || rc == -EAGAIN);
    for (int i = 0; i < count; i++) {
        if (choices[i].kind == SENDS) {
            s->sent[choices[i].item] = i == rc;
        } else if (choices[i].kind == RECEIVES) {
            CHECK_EQ(choices[i].item != UINT32_MAX, i == rc);
        }
    }
    if (rc < 0) {
        return;
    }
    CHECK_EQ(cases[rc].result, 0);
    atomic_fetch_add(&s->committed, 1);
    if (choices[rc].kind == RECEIVES) {
        receive(s, choices[rc].item);
    } else if (choices[rc].kind == ACQUIRES) {
        CHECK_OK(weft_semaphore_release(&s->semaphore, choices[rc].permits));
    }
}

static int run_member(void *arg)
{
    struct member *m = arg;
    struct storm *s = m->storm;
    bool more = true;
    while (more) {
        switch (below(m, 8)) {
        case 0: more = send_plain(m); break;
        case 1: receive_plain(m); break;
        case 2: weft_notify_one(&s->notify); break;
        case 3: weft_event_set(&s->event); break;
        default: select_some(m); break;
        }
        weft_event_clear(&s->event);
    }
    return 0;
}

static void *run_outside(void *arg)
{
    run_member(arg);
    return NULL;
}

static int storm(void *arg)
{
    struct storm *s = arg;
    struct member members[MEMBERS];
    weft_task *tasks[THREADS];
    pthread_t threads[FOREIGN];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    uint64_t random = test_seed();
    for (int i = 0; i < MEMBERS; i++) {
        members[i] = (struct member){ s, test_random(&random), i >= THREADS };
        if (i < THREADS) {
            CHECK_OK(weft_spawn(&tasks[i], run_member, &members[i], &attr));
        } else {
            CHECK_EQ(pthread_create(&threads[i - THREADS], NULL, run_outside, &members[i]), 0);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    for (int i = 0; i < FOREIGN; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0); // all tasks have ended: nobody is held up
    }
    return 0;
}

static void finish(struct storm *s)
{
    for (int i = 0; i < CHANS; i++) {
        uint32_t item;
        while (weft_chan_try_recv(&item, s->chans[i]) == 0) {
            receive(s, item);
        }
        CHECK_EQ(weft_chan_destroy(s->chans[i]), 0);
    }
    for (uint32_t i = 0; i < s->items; i++) {
        CHECK_EQ(atomic_load(&s->received[i]), s->sent[i] ? 1 : 0);
    }
    CHECK_EQ(weft_semaphore_available(&s->semaphore), PERMITS);
    CHECK_EQ(weft_semaphore_fini(&s->semaphore), 0);
    CHECK_EQ(weft_notify_fini(&s->notify), 0);
    CHECK_EQ(weft_event_fini(&s->event), 0);
    CHECK_GT(atomic_load(&s->committed), 0u);
}

TEST_DRIVERS(nothing_is_lost_and_nothing_comes_twice)
{
    static const int carriers[] = { 1, 2, 4 };
    for (size_t run = 0; run < sizeof carriers / sizeof carriers[0]; run++) {
        struct storm s = { .items = (uint32_t)test_scaled(40000) };
        struct weft_options options = WEFT_OPTIONS_INIT;
        options.carriers = carriers[run];
        options.grace_ns = 3600 * WEFT_S;
        s.received = calloc(s.items, sizeof *s.received);
        s.sent = calloc(s.items, sizeof *s.sent);
        CHECK(s.received != NULL && s.sent != NULL);
        CHECK_OK(weft_semaphore_init(&s.semaphore, PERMITS));
        for (int i = 0; i < CHANS; i++) {
            CHECK_OK(weft_chan_create(&s.chans[i], sizeof(uint32_t), (size_t)i / 2));
        }
        CHECK_OK(weft_run(storm, &s, &options));
        finish(&s);
        free(s.received);
        free(s.sent);
    }
}

// Two selects that meet, as fast as they can: each of two threads is on both sides of two channels.

struct duel {
    weft_chan *chans[2];
    uint64_t rounds;
    uint64_t sums[2];
};

struct side {
    struct duel *duel;
    int number;
};

/// In every round one of the two sends and the other one receives; the sum of both says which.
static int fight(void *arg)
{
    struct side *side = arg;
    struct duel *d = side->duel;
    int in = side->number;
    for (uint64_t round = 1; round <= d->rounds; round++) {
        uint64_t got = 0;
        uint64_t item = round;
        struct weft_case cases[] = { weft_case_recv(d->chans[in], &got),
                                     weft_case_send(d->chans[1 - in], &item) };
        int rc = weft_select(cases, 2, WEFT_FOREVER);
        CHECK(rc == 0 || rc == 1);
        CHECK_EQ(cases[rc].result, 0);
        CHECK_EQ(got, rc == 0 ? round : 0);
        d->sums[in] += rc == 0 ? got : 0;
    }
    return 0;
}

static void *fight_outside(void *arg)
{
    fight(arg);
    return NULL;
}

static int duel(void *arg)
{
    struct duel *d = arg;
    struct side sides[2] = { { d, 0 }, { d, 1 } };
    weft_task *tasks[2];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_spawn(&tasks[i], fight, &sides[i], &attr));
    }
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    return 0;
}

static int duel_with_foreign(void *arg)
{
    struct duel *d = arg;
    struct side sides[2] = { { d, 0 }, { d, 1 } };
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fight_outside, &sides[1]), 0);
    fight(&sides[0]);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

static void run_duel(weft_fn fn)
{
    struct duel d = { .rounds = test_scaled(20000) };
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    options.grace_ns = 3600 * WEFT_S;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_chan_create(&d.chans[i], sizeof(uint64_t), 0));
    }
    CHECK_OK(weft_run(fn, &d, &options));
    CHECK_EQ(d.sums[0] + d.sums[1], d.rounds * (d.rounds + 1) / 2);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_chan_destroy(d.chans[i]), 0);
    }
}

TEST_DRIVERS(two_selects_meet)
{
    run_duel(duel);
}

TEST_DRIVERS(a_select_meets_one_of_a_foreign_thread)
{
    run_duel(duel_with_foreign);
}

// Joins against channels: tasks end while others select from them.

static int end_soon(void *arg)
{
    uint64_t *random = arg;
    if (*random % 2 == 0) {
        (void)weft_yield();
    }
    return (int)(*random % 1000);
}

static int join_storm(void *arg)
{
    uint64_t rounds = *(uint64_t *)arg;
    weft_chan *chan;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_chan_create(&chan, sizeof(uint64_t), 4));
    uint64_t random = test_seed();
    for (uint64_t round = 0; round < rounds; round++) {
        enum { CHILDREN = 3 };
        uint64_t seeds[CHILDREN];
        weft_task *tasks[CHILDREN];
        struct weft_case cases[CHILDREN + 1];
        uint64_t item = round;
        for (int i = 0; i < CHILDREN; i++) {
            seeds[i] = test_random(&random);
            CHECK_OK(weft_spawn(&tasks[i], end_soon, &seeds[i], &attr));
            cases[i] = weft_case_join(tasks[i]);
        }
        cases[CHILDREN] = weft_case_recv(chan, &item);
        int left = CHILDREN;
        while (left > 0) {
            if (test_random(&random) % 4 == 0) {
                int rc = weft_chan_try_send(chan, &item);
                CHECK(rc == 0 || rc == -EAGAIN);
            }
            int chosen = weft_select(cases, CHILDREN + 1, WEFT_FOREVER);
            CHECK(chosen >= 0 && chosen <= CHILDREN);
            if (chosen < CHILDREN) {
                CHECK_EQ(cases[chosen].result, (int64_t)(seeds[chosen] % 1000));
                left--;
            }
        }
    }
    CHECK_EQ(weft_chan_destroy(chan), 0);
    return 0;
}

TEST_DRIVERS(tasks_end_while_they_are_selected_from)
{
    uint64_t rounds = test_scaled(3000);
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 3;
    options.grace_ns = 3600 * WEFT_S;
    CHECK_OK(weft_run(join_storm, &rounds, &options));
}

// Futures that select from descriptors and channels, on carriers that steal from each other: a future
// moves, but not while the kernel has its memory.

static int descriptor_storm(void *arg)
{
    enum { FUTURES = 6 };
    uint64_t rounds = *(uint64_t *)arg;
    uint64_t random = test_seed();
    weft_chan *chan;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_chan_create(&chan, sizeof(uint64_t), 0));
    int pipes[FUTURES][2];
    for (int i = 0; i < FUTURES; i++) {
        CHECK_EQ(pipe2(pipes[i], O_CLOEXEC), 0);
    }
    for (uint64_t round = 0; round < rounds; round++) {
        struct weft_selection selections[FUTURES];
        struct weft_case cases[FUTURES][3];
        weft_task *tasks[FUTURES];
        uint64_t items[FUTURES];
        for (int i = 0; i < FUTURES; i++) {
            cases[i][0] = weft_case_recv(chan, &items[i]);
            cases[i][1] = weft_case_fd(pipes[i][0], POLLIN);
            cases[i][2] = weft_case_time(weft_after(3600 * WEFT_S));
            weft_select_future(&selections[i], cases[i], 3);
            CHECK_OK(weft_spawn_future(&tasks[i], &selections[i].future, &attr));
        }
        bool written[FUTURES];
        for (int i = 0; i < FUTURES; i++) {
            written[i] = test_random(&random) % 2 == 0;
            if (written[i]) {
                CHECK_EQ(weft_write(pipes[i][1], "x", 1, WEFT_FOREVER), 1);
            }
        }
        // The others are left to the channel; some of those that were written to may take an item, too.
        int taken = 0;
        for (int i = 0; i < FUTURES; i++) {
            int result = -1;
            while (weft_join(&result, tasks[i], weft_after(50 * WEFT_US)) == -ETIMEDOUT) {
                taken += weft_chan_try_send(chan, &round) == 0;
            }
            CHECK(result == 0 || (result == 1 && written[i]));
            CHECK_EQ(result == 0 ? items[i] : round, round);
            taken -= result == 0;
            if (written[i]) {
                char byte;
                CHECK_EQ(weft_read(pipes[i][0], &byte, 1, WEFT_FOREVER), 1);
            }
        }
        CHECK_EQ(taken, 0);
    }
    for (int i = 0; i < FUTURES; i++) {
        CHECK_OK(weft_close(pipes[i][0]));
        CHECK_OK(weft_close(pipes[i][1]));
    }
    CHECK_EQ(weft_chan_destroy(chan), 0);
    return 0;
}

TEST_DRIVERS(futures_that_move_select_from_descriptors)
{
    uint64_t rounds = test_scaled(300);
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 3;
    options.steal = WEFT_STEAL_ON;
    options.grace_ns = 3600 * WEFT_S;
    CHECK_OK(weft_run(descriptor_storm, &rounds, &options));
}
