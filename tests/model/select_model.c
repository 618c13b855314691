// select_model.c - committing exactly one case (select/select.c, S1 to S7).
//
// Selects meet each other, plain sends and receives, a close, a deadline, the end of a task and the
// objects whose words change outside of their locks, in all orders. Items carry a plain value that
// the sender wrote before: it must be seen. What was received was sent, and the other way round;
// selects and their cases lie on stacks that end with the call. Whoever is forgotten sleeps for ever.
//
// Sources: select/select.c select/thread.c select/cases.c select/apart.c select/join.c
// Sources: select/future.c chan/chan.c sync/waiter.c sync/event.c sync/semaphore.c task/join.c
// Sources: task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h task/bell.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/select.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "mc.h"
#include "select/select.h"
#include "stage_sync.h"
#include "task/join.h"
#include "task/word.h"

enum { CHANS = 2, ITEMS = 4, NOTHING = ITEMS };

static weft_chan *chans[CHANS];
static int written[ITEMS];  // plain: what an item stands for
static int received[ITEMS]; // how often
static int sent[ITEMS];
static int outcomes[3];
static struct weft__rng random_of[STAGE_THREADS];
static struct weft_event event;
static struct weft_semaphore semaphore;
static struct weft__task task; // somebody that ends
static struct stage_wakeup wakeups[2];

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

struct weft__rng *weft__select_random(void)
{
    return &random_of[mc_self()];
}

struct weft__task *weft__task_self(void)
{
    return weft__thread_self();
}

int weft__runtime_refuses(const struct weft__crew *crew, const struct weft__carrier *self)
{
    (void)crew;
    (void)self;
    return 0;
}

void weft__host_release(struct weft__task *released)
{
    weft__task_release(released, NULL);
}

// What the threads do.

static void note_received(uint64_t item)
{
    mc_assert(item < ITEMS);
    mc_assert(written[item] == 1);
    received[item]++;
}

static __attribute__((noinline)) int send_plain(int chan, uint64_t item, weft_time deadline)
{
    written[item] = 1;
    int rc = weft_chan_send(chans[chan], &item, deadline);
    sent[item] = rc == 0;
    return rc;
}

/// Receives from channel `in` or sends to channel `out`; returns what weft_select() did.
static __attribute__((noinline)) int select_both(int in, int out, uint64_t item, weft_time deadline)
{
    uint64_t got = NOTHING;
    struct weft_case cases[2] = { weft_case_recv(chans[in], &got),
                                  weft_case_send(chans[out], &item) };
    written[item] = 1;
    int rc = weft_select(cases, 2, deadline);
    if (rc >= 0 && cases[rc].result == -EPIPE) {
        rc = -EPIPE;
    }
    mc_assert((rc == 0) == (got != NOTHING));
    if (rc == 0) {
        note_received(got);
    }
    sent[item] = rc == 1;
    return rc;
}

/// Receives from one of two channels, so many times, with the same cases. The last outcome.
static __attribute__((noinline)) int select_receive(int times, weft_time deadline)
{
    uint64_t got[2] = { NOTHING, NOTHING };
    struct weft_case cases[2] = { weft_case_recv(chans[0], &got[0]),
                                  weft_case_recv(chans[1], &got[1]) };
    int rc = 0;
    while (times-- > 0 && rc == 0) {
        rc = weft_select(cases, 2, deadline);
        if (rc >= 0 && cases[rc].result == 0) {
            note_received(got[rc]);
            mc_assert(got[1 - rc] == NOTHING);
            got[rc] = NOTHING;
            rc = 0;
        } else {
            mc_assert(got[0] == NOTHING && got[1] == NOTHING);
            rc = rc >= 0 ? (int)cases[rc].result : rc;
        }
    }
    return rc;
}

static void first_selects(void *unused)
{
    (void)unused;
    outcomes[0] = select_both(0, 1, 0, WEFT_FOREVER);
}

static void second_selects(void *unused)
{
    (void)unused;
    outcomes[1] = select_both(1, 0, 1, WEFT_FOREVER);
}

/// Deadlines need not come: who has given up closes what the other one waits for.
static void select_late(int number)
{
    outcomes[number] = select_both(number, 1 - number, (uint64_t)number, 10);
    weft_chan_close(chans[0]);
    weft_chan_close(chans[1]);
}

static void first_selects_late(void *unused)
{
    (void)unused;
    select_late(0);
}

static void second_selects_late(void *unused)
{
    (void)unused;
    select_late(1);
}

static void first_selects_one(void *unused)
{
    (void)unused;
    outcomes[0] = select_both(0, 0, 0, WEFT_FOREVER);
}

static void second_selects_one(void *unused)
{
    (void)unused;
    outcomes[1] = select_both(0, 0, 1, WEFT_FOREVER);
}

static void selects_twice(void *unused)
{
    (void)unused;
    mc_assert(select_receive(2, WEFT_FOREVER) == 0);
}

static void selects_until_closed(void *unused)
{
    (void)unused;
    mc_assert(select_receive(3, WEFT_FOREVER) == -EPIPE); // one item at most
}

static void sends(void *chan)
{
    int number = (int)(intptr_t)chan;
    mc_assert(send_plain(number, (uint64_t)number, WEFT_FOREVER) == 0);
}

static void may_be_late(void *chan)
{
    int number = (int)(intptr_t)chan;
    int rc = send_plain(number, (uint64_t)number, 10);
    mc_assert(rc == 0 || rc == -ETIMEDOUT || rc == -EPIPE);
}

static void sends_and_closes(void *unused)
{
    (void)unused;
    may_be_late((void *)1);
    weft_chan_close(chans[0]);
}

// Selects from a channel and the end of a task.

static void ends(void *unused)
{
    (void)unused;
    task.result = 7;
    weft__task_end(&task, NULL);
}

static __attribute__((noinline)) void select_join(weft_time deadline)
{
    uint64_t got = NOTHING;
    struct weft_case cases[2] = { weft_case_recv(chans[0], &got), weft_case_join(&task) };
    int rc = weft_select(cases, 2, deadline);
    outcomes[0] = rc;
    mc_assert((rc == 0) == (got != NOTHING));
    mc_assert(rc != 1 || cases[1].result == 7);
    if (rc == 0) {
        note_received(got);
    }
    weft_chan_close(chans[0]);
}

static void selects_join(void *unused)
{
    (void)unused;
    select_join(WEFT_FOREVER);
}

static void selects_join_late(void *unused)
{
    (void)unused;
    select_join(10);
}

// Selects from an event and a semaphore, whose words change outside of their locks.

static void selects_words(void *unused)
{
    (void)unused;
    struct weft_case cases[3] = { weft_case_semaphore(&semaphore, 2), weft_case_event(&event),
                                  weft_case_semaphore(&semaphore, 1) };
    outcomes[0] = weft_select(cases, 3, WEFT_FOREVER);
    mc_assert(outcomes[0] >= 0);
    mc_assert(written[outcomes[0]] == 1);
}

static void sets(void *unused)
{
    (void)unused;
    written[1] = 1;
    weft_event_set(&event);
}

static void selects_event(void *unused)
{
    (void)unused;
    struct weft_case cases[1] = { weft_case_event(&event) };
    mc_assert(weft_select(cases, 1, WEFT_FOREVER) == 0);
    mc_assert(written[1] == 1);
}

static void looks(void *unused)
{
    (void)unused;
    if (weft_event_is_set(&event)) {
        mc_assert(written[1] == 1);
    }
}

static void releases(void *unused)
{
    (void)unused;
    written[2] = 1;
    mc_assert(weft_semaphore_release(&semaphore, 1) == 0);
}

static void releases_and_sets(void *unused)
{
    releases(unused);
    sets(unused);
}

// A future that selects, polled with one waker and then with another.

static __attribute__((noinline)) void poll_select(bool gives_up)
{
    uint64_t got[2] = { NOTHING, NOTHING };
    struct weft_case cases[2] = { weft_case_recv(chans[0], &got[0]),
                                  weft_case_recv(chans[1], &got[1]) };
    struct weft_selection selection;
    weft_waker first = stage_sync_waker(&wakeups[0]);
    weft_waker second = stage_sync_waker(&wakeups[1]);
    weft_select_future(&selection, cases, 2);
    if (selection.future.poll(&selection.future, &first) == WEFT_PENDING) {
        if (gives_up) {
            selection.future.cancel(&selection.future);
        }
        while (selection.future.poll(&selection.future, &second) == WEFT_PENDING) {
            stage_sync_sleep(&wakeups[1]);
        }
    }
    outcomes[0] = (int)selection.future.result;
    mc_assert((got[0] != NOTHING || got[1] != NOTHING) == (outcomes[0] >= 0));
    if (outcomes[0] >= 0) {
        note_received(got[outcomes[0]]);
    }
}

static void polls(void *unused)
{
    (void)unused;
    poll_select(false);
    mc_assert(outcomes[0] >= 0);
}

static void polls_and_cancels(void *unused)
{
    (void)unused;
    poll_select(true);
    mc_assert(outcomes[0] >= 0 || outcomes[0] == -ECANCELED);
    weft_chan_close(chans[0]);
}

// Models.

static void reset(size_t capacity)
{
    stage_sync_init();
    for (int i = 0; i < CHANS; i++) {
        mc_assert(weft_chan_create(&chans[i], sizeof(uint64_t), capacity) == 0);
        mc_name(chans[i], 64, i == 0 ? "chan 0" : "chan 1");
    }
    for (int i = 0; i < ITEMS; i++) {
        written[i] = received[i] = sent[i] = 0;
    }
    for (int i = 0; i < STAGE_THREADS; i++) {
        random_of[i].state = (uint64_t)i;
    }
    outcomes[0] = outcomes[1] = outcomes[2] = 0;
    weft_event_init(&event);
    mc_assert(weft_semaphore_init(&semaphore, 0) == 0);
    task = (struct weft__task){ .sched = &stage_scheduler };
    weft__word_init(&task, 4, 0); // never freed
    atomic_init(&wakeups[0].woken, 0);
    atomic_init(&wakeups[1].woken, 0);
}

static void two_selects(void)
{
    reset(0);
    stage_sync_thread(first_selects, NULL);
    mc_thread(second_selects, NULL);
}

static void two_late_selects(void)
{
    reset(0);
    stage_sync_thread(first_selects_late, NULL);
    stage_sync_thread(second_selects_late, NULL);
}

static void one_channel(void)
{
    reset(0);
    stage_sync_thread(first_selects_one, NULL);
    stage_sync_thread(second_selects_one, NULL);
}

static void two_senders(void)
{
    reset(0);
    stage_sync_thread(selects_twice, NULL);
    stage_sync_thread(sends, (void *)0);
    mc_thread(sends, (void *)1);
}

static void buffered(void)
{
    reset(1);
    stage_sync_thread(selects_twice, NULL);
    stage_sync_thread(sends, (void *)0);
    stage_sync_thread(sends, (void *)1);
}

static void closed(void)
{
    reset(0);
    stage_sync_thread(selects_until_closed, NULL);
    stage_sync_thread(sends_and_closes, NULL);
}

static void joined(void)
{
    reset(0);
    stage_sync_thread(selects_join, NULL);
    mc_thread(may_be_late, (void *)0);
    mc_thread(ends, NULL);
}

static void joined_late(void)
{
    reset(0);
    mc_thread(selects_join_late, NULL);
    mc_thread(ends, NULL);
}

static void words(void)
{
    reset(0);
    stage_sync_thread(selects_words, NULL);
    stage_sync_thread(sets, NULL);
    mc_thread(releases, NULL);
}

/// S5: the event is looked at last, and is set when the select stands in the semaphore's queue twice
/// and could have the permit for the second time.
static void words_and_back(void)
{
    reset(0);
    random_of[0].state = 6; // the order is 0, 2, 1
    mc_thread(selects_words, NULL);
    mc_thread(releases_and_sets, NULL);
}

/// Who sets it for a select sets it for all who look.
static void event_seen(void)
{
    reset(0);
    mc_thread(selects_event, NULL);
    mc_thread(sets, NULL);
    mc_thread(looks, NULL);
}

static void future(void)
{
    reset(0);
    mc_thread(polls, NULL);
    stage_sync_thread(sends, (void *)0);
}

static void future_cancelled(void)
{
    reset(0);
    mc_thread(polls_and_cancels, NULL);
    stage_sync_thread(may_be_late, (void *)0);
}

static void drain(void)
{
    for (int i = 0; i < CHANS; i++) {
        mc_assert(weft_chan_destroy(chans[i]) == 0); // nobody is left in its queues
    }
}

/// What was sent was received, once, and the other way round.
static void check_items(void)
{
    for (int i = 0; i < ITEMS; i++) {
        mc_assert(received[i] == sent[i]);
    }
    drain();
}

static void check_pair(void)
{
    check_items();
    mc_assert(outcomes[0] + outcomes[1] == 1); // one sends, the other one receives
}

static void check_late_pair(void)
{
    check_items();
    bool met = outcomes[0] >= 0;
    mc_assert((outcomes[1] >= 0) == met);
    mc_assert(met || outcomes[0] == -ETIMEDOUT || outcomes[1] == -ETIMEDOUT);
}

static void check_both(void)
{
    check_items();
    mc_assert(received[0] == 1 && received[1] == 1);
}

static void check_words(void)
{
    drain();
    mc_assert(outcomes[0] != 0); // there was one permit only
    mc_assert(weft_semaphore_available(&semaphore) == (outcomes[0] == 2 ? 0u : 1u));
    mc_assert(weft_semaphore_fini(&semaphore) == 0);
    mc_assert(weft_event_fini(&event) == 0);
}

// The quick ones first: a mutant is done with when one of them fails.
const struct mc_model mc_models[] = {
    { .name = "select_joined_late", .setup = joined_late, .check = check_items },
    { .name = "select_words_and_back", .setup = words_and_back, .check = check_words },
    { .name = "select_event_seen", .setup = event_seen, .check = drain, .max_bound = 1 },
    { .name = "select_future", .setup = future, .check = check_items },
    { .name = "select_one_channel", .setup = one_channel, .check = check_pair },
    { .name = "select_two_selects", .setup = two_selects, .check = check_pair, .max_bound = 2 },
    { .name = "select_buffered", .setup = buffered, .check = check_both, .max_bound = 1 },
    { .name = "select_words", .setup = words, .check = check_words, .max_bound = 1 },
    { .name = "select_joined", .setup = joined, .check = check_items, .max_bound = 1 },
    { .name = "select_future_cancelled",
      .setup = future_cancelled,
      .check = check_items,
      .max_bound = 2 },
    { .name = "select_two_late",
      .setup = two_late_selects,
      .check = check_late_pair,
      .max_bound = 1 },
    { .name = "select_closed", .setup = closed, .check = check_items, .max_bound = 2 },
    { .name = "select_two_senders",
      .setup = two_senders,
      .check = check_both,
      .max_bound = 1,
      .never_spurious = 1 },
    { .name = NULL },
};
