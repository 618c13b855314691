// notify_test.c - notify and event. What they share with others is in sync_test.c.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

TEST(one_permit_is_kept)
{
    struct weft_notify n = WEFT_NOTIFY_INIT;
    CHECK_EQ(weft_notify_try_wait(&n), -EAGAIN);
    weft_notify_one(&n);
    weft_notify_one(&n);
    weft_notify_last(&n);
    CHECK_EQ(weft_notify_wait(&n, 1), 0);
    CHECK_EQ(weft_notify_wait(&n, 1), -ETIMEDOUT);
    weft_notify_last(&n);
    CHECK_EQ(weft_notify_try_wait(&n), 0);
    weft_notify_all(&n); // nobody waits: nothing is kept
    CHECK_EQ(weft_notify_try_wait(&n), -EAGAIN);
    weft_notify_one(&n);
    weft_notify_all(&n); // and a permit stays
    CHECK_EQ(weft_notify_try_wait(&n), 0);
    CHECK_EQ(weft_notify_fini(&n), 0);
}

struct listener {
    struct weft_notify *notify;
    _Atomic int rc; // 1: not yet
};

static int listen(void *arg)
{
    struct listener *l = arg;
    atomic_store(&l->rc, weft_notify_wait(l->notify, WEFT_FOREVER));
    return 0;
}

enum { LISTENERS = 4 };

struct audience {
    struct weft_notify notify;
    struct listener listeners[LISTENERS];
    weft_task *tasks[LISTENERS];
};

static void assemble(struct audience *a)
{
    weft_notify_init(&a->notify);
    for (int i = 0; i < LISTENERS; i++) {
        a->listeners[i] = (struct listener){ .notify = &a->notify, .rc = 1 };
        CHECK_OK(weft_spawn(&a->tasks[i], listen, &a->listeners[i], NULL));
        let_others_run();
    }
}

static int woken(struct audience *a)
{
    int mask = 0;
    let_others_run();
    for (int i = 0; i < LISTENERS; i++) {
        mask |= (atomic_load(&a->listeners[i].rc) == 0) << i;
    }
    return mask;
}

static void dismiss(struct audience *a)
{
    weft_notify_all(&a->notify);
    for (int i = 0; i < LISTENERS; i++) {
        CHECK_OK(weft_join(NULL, a->tasks[i], WEFT_FOREVER));
        CHECK_EQ(atomic_load(&a->listeners[i].rc), 0);
    }
    CHECK_EQ(weft_notify_try_wait(&a->notify), -EAGAIN);
    CHECK_EQ(weft_notify_fini(&a->notify), 0);
}

TEST_EVERYWHERE(one_wakes_the_first_last_the_last_all_the_rest)
{
    struct audience a;
    assemble(&a);
    CHECK_EQ(woken(&a), 0);
    weft_notify_one(&a.notify);
    CHECK_EQ(woken(&a), 1);
    weft_notify_last(&a.notify);
    CHECK_EQ(woken(&a), 1 + 8);
    weft_notify_one(&a.notify);
    CHECK_EQ(woken(&a), 1 + 2 + 8);
    dismiss(&a);
}

/// A future counts for notify_all from the moment it is prepared, for the others from its poll.
TEST_EVERYWHERE(a_prepared_future_does_not_miss_all)
{
    struct weft_notify n = WEFT_NOTIFY_INIT;
    struct weft_sync_future f;
    weft_notify_wait_future(&f, &n);
    weft_notify_all(&n);
    weft_notify_one(&n);
    CHECK_EQ(poll_once(&f.future), WEFT_READY);
    CHECK_EQ(f.future.result, 0);
    CHECK_EQ(weft_notify_try_wait(&n), 0); // it has not taken the permit
    weft_notify_wait_future(&f, &n);
    weft_notify_one(&n);
    CHECK_EQ(poll_once(&f.future), WEFT_READY);
    CHECK_EQ(weft_notify_try_wait(&n), -EAGAIN); // that one has
    CHECK_EQ(weft_notify_fini(&n), 0);
}

TEST_EVERYWHERE(a_cancelled_future_passes_on_what_was_for_one_alone)
{
    struct audience a;
    struct weft_sync_future f;
    assemble(&a);
    weft_notify_wait_future(&f, &a.notify);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_notify_last(&a.notify); // chooses the future, which came last
    f.future.cancel(&f.future);
    CHECK_EQ(poll_to_the_end(&f.future), -ECANCELED);
    CHECK_EQ(woken(&a), 8); // the last of the others
    weft_notify_wait_future(&f, &a.notify);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_notify_all(&a.notify);
    f.future.cancel(&f.future);
    CHECK_EQ(poll_to_the_end(&f.future), -ECANCELED);
    dismiss(&a); // leaves no permit
}

TEST_EVERYWHERE(with_nobody_left_the_permit_is_kept)
{
    struct weft_notify n = WEFT_NOTIFY_INIT;
    struct weft_sync_future f;
    weft_notify_wait_future(&f, &n);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_notify_one(&n);
    f.future.cancel(&f.future);
    CHECK_EQ(poll_to_the_end(&f.future), -ECANCELED);
    CHECK_EQ(weft_notify_wait(&n, 1), 0);
}

/// The program of the documentation: none of the items is missed.
struct line {
    struct weft_notify changed;
    _Atomic int items;
    int total;
};

static int produce(void *arg)
{
    struct line *line = arg;
    for (int i = 0; i < line->total; i++) {
        atomic_fetch_add(&line->items, 1);
        weft_notify_one(&line->changed);
        if (weft_self() != NULL && i % 7 == 0) {
            (void)weft_yield();
        }
    }
    return 0;
}

static void *produce_outside(void *arg)
{
    produce(arg);
    return NULL;
}

TEST_EVERYWHERE(a_consumer_misses_nothing)
{
    static struct line line;
    weft_task *task;
    pthread_t thread = 0;
    bool foreign = test_driver() != TEST_DRIVER_SIM;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    line.total = (int)test_scaled(2000);
    CHECK_OK(weft_spawn(&task, produce, &line, &attr));
    if (foreign) {
        thread = foreign_begin(produce_outside, &line);
    }
    for (int left = line.total * (foreign ? 2 : 1); left > 0; left--) {
        while (atomic_load(&line.items) == 0) {
            CHECK_EQ(weft_notify_wait(&line.changed, WEFT_FOREVER), 0);
        }
        atomic_fetch_sub(&line.items, 1);
    }
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    if (foreign) {
        foreign_end(thread);
    }
    CHECK_EQ(atomic_load(&line.items), 0);
}

TEST(an_event_is_a_switch)
{
    struct weft_event e = WEFT_EVENT_INIT;
    CHECK(!weft_event_is_set(&e));
    CHECK_EQ(weft_event_wait(&e, 1), -ETIMEDOUT);
    weft_event_set(&e);
    weft_event_set(&e);
    CHECK(weft_event_is_set(&e));
    CHECK_EQ(weft_event_wait(&e, 1), 0);
    CHECK_EQ(weft_event_wait(&e, 1), 0);
    weft_event_clear(&e);
    weft_event_clear(&e);
    CHECK(!weft_event_is_set(&e));
    CHECK_EQ(weft_event_wait(&e, 1), -ETIMEDOUT);
    CHECK_EQ(weft_event_fini(&e), 0);
}

struct attendee {
    struct weft_event *event;
    _Atomic int rc;
};

static int attend(void *arg)
{
    struct attendee *a = arg;
    atomic_store(&a->rc, weft_event_wait(a->event, WEFT_FOREVER));
    return 0;
}

/// Also when it is off again before they have run.
TEST_EVERYWHERE(setting_an_event_wakes_all)
{
    enum { COUNT = 10 };
    struct weft_event e = WEFT_EVENT_INIT;
    struct attendee attendees[COUNT];
    weft_task *tasks[COUNT];
    struct weft_attr attr = stay_here(); // for let_others_run()
    for (int i = 0; i < COUNT; i++) {
        attendees[i] = (struct attendee){ .event = &e, .rc = 1 };
        CHECK_OK(weft_spawn(&tasks[i], attend, &attendees[i], &attr));
    }
    let_others_run();
    CHECK_EQ(weft_event_fini(&e), -EBUSY);
    weft_event_clear(&e); // with waiters
    weft_event_set(&e);
    weft_event_clear(&e);
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
        CHECK_EQ(atomic_load(&attendees[i].rc), 0);
    }
    CHECK_EQ(weft_event_fini(&e), 0);
}
