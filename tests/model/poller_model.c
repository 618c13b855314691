// poller_model.c - a carrier whose poller sleeps somewhere else (sched/poller.c, Q1 to Q5).
//
// The poller's thread takes what is in the inbox, and blocks by try_park, can_park, unpark when it
// finds nothing. A producer hands over a node. A lost wake-up leaves the poller asleep for ever. When
// it has seen the node its body returns and all it had is gone; somebody who still rings is reported.
// Or somebody cancels it. A registration that fails leaves nothing behind that the carrier might see.
//
// Sources: sched/poller.c sched/inbox.c sched/park.c task/run.c
// Headers: sched/inbox.h
// With: stage.c stage_lock.c
#include <string.h>

#include "base/lock.h"
#include "mc.h"
#include "sched/crew.h"
#include "sched/park.h"
#include "sched/poller.h"
#include "stage.h"
#include "task/word.h"

/// What the program has: it sleeps on a condition, with a lock.
struct place {
    struct weft__lock lock;
    _Atomic uint32_t signals;
    int rung; // plain, under lock
};

static struct weft__carrier carrier;
static struct weft__poller poller;
static struct weft__node nodes[2];
static struct place place;
static struct weft__task task;         // the poller's
static bool cancelled;                 // plain, the poller's: it has seen that it was cancelled
static struct weft__poller *successor; // takes the slot at once; NULL: nobody does
static int expected;

/// Who cancels is on a thread outside.
struct weft__carrier *weft__carrier_self(void)
{
    return NULL;
}

weft_time weft__wheel_next(const struct weft__wheel *wheel)
{
    (void)wheel;
    return WEFT_FOREVER;
}

bool weft__carrier_has_work(struct weft__carrier *here)
{
    return !weft__inbox_empty(&here->inbox);
}

void weft__carrier_run(struct weft__carrier *here, struct weft__task *task)
{
    (void)here;
    (void)task;
    mc_fail("nobody has made it ready");
}

void weft__poller_report(const struct weft__poller *unused, const char *why)
{
    (void)unused;
    mc_fail("%s", why);
}

int sched_yield(void)
{
    mc_relax();
    return 0;
}

// The driver: an event that kicks set, and that can be watched from outside.

static int lookout(void *state, int *fd, weft_time *until)
{
    (void)state;
    *fd = 0;
    *until = WEFT_FOREVER;
    return 0;
}

static void kick(void *state, void *from)
{
    (void)from;
    mc_event_set(state);
}

static int wait_for_kick(void *state, weft_time until)
{
    (void)until;
    mc_event_wait(state);
    return 0;
}

static const struct weft__driver driver = {
    .name = "event",
    .wait = wait_for_kick,
    .lookout = lookout,
    .kick = kick,
};

// The poller's ways to sleep.

static void sleep_with_permit(void)
{
    if (weft__poller_can_park(&poller)) {
        mc_event_wait(carrier.driver_state);
    }
}

/// A condition is not sticky: who signals before somebody waits signals in vain.
static void sleep_with_lock(void)
{
    weft__lock_acquire(&place.lock);
    while (weft__poller_can_park(&poller)) {
        uint32_t seen = atomic_load_explicit(&place.signals, memory_order_relaxed);
        weft__lock_release(&place.lock);
        mc_futex_wait(&place.signals, seen);
        weft__lock_acquire(&place.lock);
    }
    weft__lock_release(&place.lock);
}

static void ring_with_lock(void *arg)
{
    struct place *there = arg;
    weft__lock_acquire(&there->lock);
    there->rung++;
    atomic_fetch_add_explicit(&there->signals, 1, memory_order_relaxed);
    mc_futex_wake(&there->signals, 1);
    weft__lock_release(&there->lock);
}

static int awake_left;

/// Thinks better of it at first.
static void sleep_later(void)
{
    if (awake_left-- <= 0) {
        sleep_with_permit();
    }
}

static void (*sleep_somehow)(void);

static int take(void)
{
    int taken = 0;
    for (struct weft__node *node = weft__inbox_take(&carrier.inbox); node != NULL;
         node = node->next) {
        taken++;
    }
    return taken;
}

static void enter(struct weft__poller *who)
{
    who->wake = ring_with_lock;
    who->arg = &place;
    who->ready = who->waiting = false;
    who->task = &task;
    bool entered = weft__poller_enter(who, &carrier);
    mc_assert(entered);
    weft__poller_show(who);
}

static void run_poller(void *unused)
{
    (void)unused;
    for (int seen = 0; seen < expected && !cancelled;) {
        int taken = take();
        seen += taken;
        poller.stepped = true;
        (void)weft__word_clear_notified(&task); // it runs
        cancelled = (weft__word_peek(&task) & WEFT__WORD_CANCELLED) != 0;
        if (taken == 0 && !cancelled && weft__poller_try_park(&poller)) {
            sleep_somehow();
            weft__poller_unpark(&poller);
        }
    }
    weft__poller_leave(&poller);
    mc_forbid(&poller, sizeof poller);
    if (successor != NULL) {
        enter(successor);
    } else {
        mc_forbid(&place, sizeof place);
    }
}

/// A carrier that sleeps by itself while a poller is registered.
static void run_carrier(void *unused)
{
    (void)unused;
    for (int seen = 0; seen < expected;) {
        int taken = take();
        seen += taken;
        bool ran = weft__poller_turn(&carrier);
        mc_assert(!ran);
        if (taken == 0) {
            weft__sleep(&carrier);
        }
    }
}

static void register_poller(void *unused)
{
    (void)unused;
    enter(&poller);
}

/// Weft's own has the slot as soon as it is free (Q7).
static void register_resident(void *unused)
{
    (void)unused;
    poller.ready = poller.waiting = false;
    poller.task = &task;
    bool entered = weft__poller_enter(&poller, &carrier);
    mc_assert(entered);
}

/// There is no memory for a stack.
static void fail_to_register(void *unused)
{
    (void)unused;
    bool entered = weft__poller_enter(&poller, &carrier);
    mc_assert(entered);
    weft__poller_leave(&poller);
    mc_forbid(&poller, sizeof poller);
}

static void cancel(void *unused)
{
    (void)unused;
    weft__interrupt(&task, WEFT__WORD_CANCELLED);
}

static void produce(void *arg)
{
    weft__put(&carrier, &nodes[(int)(intptr_t)arg], NULL);
}

static void reset(int count)
{
    memset(&carrier, 0, offsetof(struct weft__carrier, wheel));
    memset(&poller, 0, sizeof poller);
    memset(&place, 0, sizeof place);
    memset(nodes, 0, sizeof nodes);
    nodes[0].kind = nodes[1].kind = WEFT__NODE_REQUEST;
    static struct weft__crew crew;
    memset(&crew, 0, sizeof crew);
    memset(&task, 0, sizeof task);
    cancelled = false;
    task.crew = &crew;
    task.home = &carrier;
    weft__word_init(&task, 2, WEFT__WORD_POLLER);
    mc_name(&task.word, sizeof task.word, "word");
    carrier.crew = &crew;
    carrier.driver = &driver;
    carrier.driver_state = &carrier.driver_state;
    poller.watches = true;
    successor = NULL;
    expected = count;
    mc_name(&carrier.state, sizeof carrier.state, "state");
    mc_name(&carrier.inbox, sizeof carrier.inbox, "inbox");
    mc_name(&carrier.ringing, sizeof carrier.ringing, "ringing");
    mc_name(&carrier.poller, sizeof carrier.poller, "slot");
    mc_name(&carrier.driver_state, sizeof carrier.driver_state, "driver");
    mc_name(&poller, sizeof poller, "poller");
    mc_name(&place, sizeof place, "place");
    for (int i = 0; i < count; i++) {
        mc_thread(produce, (void *)(intptr_t)i);
    }
}

static void start(int count, void (*how)(void))
{
    reset(count);
    register_poller(NULL);
    sleep_somehow = how;
    mc_thread(run_poller, NULL);
}

static void permit(void)
{
    start(1, sleep_with_permit);
}

static void permit_two(void)
{
    start(2, sleep_with_permit);
}

static void lock(void)
{
    start(1, sleep_with_lock);
}

static void awake(void)
{
    awake_left = 1;
    start(1, sleep_later);
}

static void next_registration(void)
{
    static struct weft__poller next;
    memset(&next, 0, sizeof next);
    mc_name(&next, sizeof next, "next");
    start(1, sleep_with_permit);
    successor = &next;
}

static void late_registration(void)
{
    reset(1);
    mc_thread(run_carrier, NULL);
    mc_thread(register_poller, NULL);
}

static void resident_registration(void)
{
    reset(1);
    carrier.resident = &poller;
    mc_thread(run_carrier, NULL);
    mc_thread(register_resident, NULL);
}

static void failed_registration(void)
{
    reset(1);
    mc_thread(run_carrier, NULL);
    mc_thread(fail_to_register, NULL);
}

static struct weft__poller later; // registers when the other one has gone
static bool has_registered;

static void leave(void *unused)
{
    (void)unused;
    weft__poller_leave(&poller);
}

static void register_later(void *unused)
{
    (void)unused;
    has_registered = weft__poller_enter(&later, &carrier);
    if (has_registered) {
        weft__poller_show(&later);
    }
}

/// Who leaves takes itself out of the slot, not whoever comes after it.
static void registration_elsewhere(void)
{
    reset(0);
    memset(&later, 0, sizeof later);
    enter(&poller);
    mc_thread(leave, NULL);
    mc_thread(register_later, NULL);
}

static void check_later(void)
{
    mc_assert(atomic_load(&carrier.poller) == (has_registered ? &later : NULL));
}

/// Nobody else ends its sleep.
static void cancelled_with(void (*how)(void))
{
    start(0, how);
    expected = 1;
    mc_thread(cancel, NULL);
}

static void cancelled_permit(void)
{
    cancelled_with(sleep_with_permit);
}

static void cancelled_lock(void)
{
    cancelled_with(sleep_with_lock);
}

const struct mc_model mc_models[] = {
    { .name = "poller_permit", .setup = permit },
    { .name = "poller_permit_two", .setup = permit_two, .max_bound = 1 },
    { .name = "poller_lock", .setup = lock },
    { .name = "poller_awake", .setup = awake },
    { .name = "poller_registered", .setup = late_registration },
    { .name = "poller_resides", .setup = resident_registration },
    { .name = "poller_succeeded", .setup = next_registration },
    { .name = "poller_succeeded_elsewhere", .setup = registration_elsewhere, .check = check_later },
    { .name = "poller_not_registered", .setup = failed_registration },
    { .name = "poller_cancelled", .setup = cancelled_permit },
    { .name = "poller_cancelled_with_lock", .setup = cancelled_lock },
    { .name = NULL },
};
