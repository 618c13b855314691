// post_model.c - letters to a driver thread and rings for a carrier (io/post.c, L1 to L5).
//
// Letters: two carriers write one each, a driver thread sleeps in an event until it has both. Rings: a
// driver thread pushes answers and rings, others kick, and the carrier waits until it has seen all. A
// lost wake-up leaves somebody asleep for ever. What letters and answers carry is plain, and what a kick
// publishes must be seen by the carrier that took it.
//
// Sources: io/post.c sched/inbox.c
// With: stage.c
#include <string.h>

#include "io/event.h"
#include "io/post.h"
#include "mc.h"
#include "stage.h"

enum { MOST = 2, FD = 7 };

static struct letter {
    struct weft__node node;
    int content; // plain
} letters[MOST];

static struct weft__post post;
static struct weft__doorbell bell;
static struct weft__inbox answers;
static int kernel; // its address is the event that a driver thread sleeps in
static int event;  // the same, of the eventfd
static _Atomic int published;
static int count, kicks;
static bool gives, hungry;

void weft__event_signal(int fd)
{
    mc_assert(fd == FD); // L4
    mc_event_set(&event);
}

static int take(struct weft__inbox *inbox)
{
    int taken = 0;
    for (struct weft__node *node = weft__inbox_take(inbox); node != NULL; node = node->next) {
        struct letter *letter = weft__container_of(node, struct letter, node);
        mc_assert(letter->content == 1);
        taken++;
    }
    return taken;
}

static void write_letter(struct weft__inbox *inbox, int number)
{
    letters[number].content = 1;
    if (inbox == NULL) {
        weft__post_put(&post, &letters[number].node);
    } else {
        weft__inbox_push(inbox, &letters[number].node);
    }
}

// Letters.

static void run_writer(void *arg)
{
    write_letter(NULL, (int)(intptr_t)arg);
    if (weft__post_call(&post, !gives)) {
        mc_event_set(&kernel);
    }
}

static void run_driver_thread(void *unused)
{
    (void)unused;
    for (int seen = 0; seen < count;) {
        seen += take(&post.inbox);
        if (seen < count && weft__post_sleep(&post, hungry)) {
            mc_event_wait(&kernel);
            weft__post_awake(&post);
        }
    }
}

static void reset(int how_many)
{
    memset(letters, 0, sizeof letters);
    memset(&post, 0, sizeof post);
    memset(&bell, 0, sizeof bell);
    memset(&answers, 0, sizeof answers);
    atomic_init(&published, 0);
    count = how_many;
    kicks = 0;
    gives = hungry = false;
    mc_name(&post.inbox, sizeof post.inbox, "inbox");
    mc_name(&post.asleep, sizeof post.asleep, "asleep");
    mc_name(&bell.word, sizeof bell.word, "word");
    mc_name(&answers, sizeof answers, "answers");
    mc_name(&published, sizeof published, "published");
}

static void with_writers(int writers)
{
    reset(writers);
    mc_thread(run_driver_thread, NULL);
    for (int i = 0; i < writers; i++) {
        mc_thread(run_writer, (void *)(intptr_t)i);
    }
}

static void one_writer(void)
{
    with_writers(1);
}

static void two_writers(void)
{
    with_writers(2);
}

/// L2: who wants buffers hears of them.
static void hungry_thread(void)
{
    with_writers(1);
    gives = hungry = true;
}

// Rings.

static void run_answerer(void *arg)
{
    write_letter(&answers, (int)(intptr_t)arg);
    weft__doorbell_ring(&bell, WEFT__DOORBELL_RUNG);
}

static void run_kicker(void *unused)
{
    (void)unused;
    atomic_store_explicit(&published, 1, memory_order_relaxed);
    weft__doorbell_ring(&bell, WEFT__DOORBELL_KICKED);
}

static void wait_for_all(bool watches)
{
    bool kicked = kicks == 0;
    for (int seen = 0; seen < count || !kicked;) {
        uint32_t why = weft__doorbell_take(&bell, watches);
        seen += take(&answers);
        if ((why & WEFT__DOORBELL_KICKED) != 0) {
            kicked = true;
            mc_assert(atomic_load_explicit(&published, memory_order_relaxed) == 1); // L5
        }
        if (seen == count && kicked) {
            break;
        }
        if (watches) {
            mc_event_wait(&event);
        } else {
            weft__doorbell_sleep(&bell, WEFT_FOREVER);
        }
    }
}

static void run_carrier(void *unused)
{
    (void)unused;
    wait_for_all(false);
}

static void run_watcher(void *unused)
{
    (void)unused;
    bell.fd = FD; // from here on
    wait_for_all(true);
}

/// First one way, then the other.
static void run_both(void *unused)
{
    (void)unused;
    bell.fd = FD;
    (void)weft__doorbell_take(&bell, true);
    count -= take(&answers);
    wait_for_all(false);
}

static void with_ringers(int answerers, int kickers, void (*carrier)(void *))
{
    reset(answerers);
    kicks = kickers;
    mc_thread(carrier, NULL);
    for (int i = 0; i < answerers; i++) {
        mc_thread(run_answerer, (void *)(intptr_t)i);
    }
    for (int i = 0; i < kickers; i++) {
        mc_thread(run_kicker, NULL);
    }
}

static void one_answer(void)
{
    with_ringers(1, 0, run_carrier);
}

static void two_answers(void)
{
    with_ringers(2, 0, run_carrier);
}

static void one_kick(void)
{
    with_ringers(0, 1, run_carrier);
}

static void answer_and_kick(void)
{
    with_ringers(1, 1, run_carrier);
}

static void watched(void)
{
    with_ringers(1, 1, run_watcher);
}

static void watched_before(void)
{
    with_ringers(1, 0, run_both);
}

const struct mc_model mc_models[] = {
    { .name = "post_one_writer", .setup = one_writer },
    { .name = "post_two_writers", .setup = two_writers },
    { .name = "post_hungry", .setup = hungry_thread },
    { .name = "bell_one_answer", .setup = one_answer },
    { .name = "bell_two_answers", .setup = two_answers },
    { .name = "bell_one_kick", .setup = one_kick },
    { .name = "bell_answer_and_kick", .setup = answer_and_kick },
    { .name = "bell_watched", .setup = watched },
    { .name = "bell_watched_before", .setup = watched_before },
    { .name = NULL },
};
