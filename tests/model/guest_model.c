// guest_model.c - a task that runs on a thread without wheel or driver goes home to arm its deadline,
// and parks there, while somebody wakes it (sched/guest.h, G3, G4 and G7).
//
// The carrier runs its real loop, the guest runs what the task's scheduler was given. The task waits
// until it is told; it is a thread of the model, and a switch hands over to it and waits until it hands
// back. A wake that is lost on the way home leaves everybody asleep. Somebody who was not given the task
// may try to run it, too: at most one of them does.
//
// Sources: sched/guest.c sched/host.c sched/crew.c sched/step.c sched/inbox.c sched/park.c
// Sources: sched/wheel.c task/run.c
// Headers: sched/guest.h task/run.h task/word.h sched/relay.h
// With: stage.c stage_carrier.c
// Flags: -DWEFT_TINY=1
#include <string.h>

#include "mc.h"
#include "sched/crew.h"
#include "sched/guest.h"
#include "sched/park.h"
#include "stage.h"
#include "task/host.h"
#include "task/word.h"

enum { CARRIER_THREAD, GUEST_THREAD, TASK_THREAD, GUESTS = 2 };
enum { FULL = 1, OVER = 2 }; // the lane has the task; the task will not be back

/// Who may go on, of the two sides of a switch.
struct side {
    _Atomic uint32_t may_run;
    int value;
};

static struct weft__crew crew;
static struct weft__carrier carrier;
static struct weft__task task;
static struct weft__guest
    guests[GUESTS]; // the scheduler's thread, and one that has no business here
static struct weft_scheduler own;
static struct weft__cxx cxx;
static int its_errno;
static struct side task_side, carrier_side, guest_sides[GUESTS];
static bool task_is_home;     // the task runs on the carrier's thread; handed over with it
static _Atomic uint32_t lane; // of the task's own scheduler
static _Atomic uint32_t told; // what the task waits for
static weft_time deadline;
static int handed_over; // times that the scheduler was given the task; plain: handed over with it
static struct weft__request stop_request;
static bool intrudes; // somebody runs what he was not given; fixed

struct weft__carrier *weft__carrier_self(void)
{
    int self = mc_self();
    return self == CARRIER_THREAD || (self == TASK_THREAD && task_is_home) ? &carrier : NULL;
}

struct weft__guest *weft__guest_self(void)
{
    return &guests[0];
}

// Switches.

static struct side *side_of(const struct weft__context *context)
{
    return context == &task.context               ? &task_side
           : context == &carrier.runner.context   ? &carrier_side
           : context == &guests[0].runner.context ? &guest_sides[0]
                                                  : &guest_sides[1];
}

static void hand_over(struct side *to, int value)
{
    to->value = value;
    // Its result is used, or clang would make a store of it, which may miss the sleeper.
    uint32_t before = atomic_exchange_explicit(&to->may_run, 1, memory_order_release);
    mc_assert(before == 0);
    mc_event_set(to);
}

static int wait_for_turn(struct side *side)
{
    while (atomic_exchange_explicit(&side->may_run, 0, memory_order_acquire) == 0) {
        mc_event_wait(side);
    }
    return side->value;
}

int weft__switch(struct weft__context *from, struct weft__context *to, int value)
{
    if (to == &task.context) {
        task_is_home = mc_self() == CARRIER_THREAD;
    }
    hand_over(side_of(to), value);
    return wait_for_turn(side_of(from));
}

int weft__switch_known(struct weft__context *from, struct weft__context *to, int value,
                       uint64_t control)
{
    (void)control;
    return weft__switch(from, to, value);
}

// The task's own scheduler: one lane, one thread.

static void give(struct weft_scheduler *self, struct weft__task *ready)
{
    mc_assert(self == &own && ready == &task);
    handed_over++;
    // Full if somebody else was faster with what we were given before.
    uint32_t before = atomic_fetch_or_explicit(&lane, FULL, memory_order_release);
    mc_assert(before == 0 || intrudes);
    mc_event_set(&lane);
}

static const struct weft_scheduler_ops own_ops = { .on_start = give, .on_continue = give };

static void run(struct weft__guest *guest)
{
    bool claimed = weft__task_claim(&task);
    mc_assert(!claimed); // G4: we have it
    guest->current = &task;
    weft__guest_turn(&task, guest);
}

static void intrude(void *unused)
{
    (void)unused;
    if (weft__task_claim(&task)) {
        run(&guests[1]);
    }
}

static void run_guest(void *unused)
{
    (void)unused;
    for (uint32_t got = 0; (got & OVER) == 0;) {
        got = atomic_exchange_explicit(&lane, 0, memory_order_acquire);
        if (got == 0) {
            mc_event_wait(&lane);
        } else if ((got & FULL) != 0 && weft__task_claim(&task)) {
            run(&guests[0]);
        } else {
            mc_assert(got == OVER || intrudes); // G4
        }
    }
}

static void run_carrier(void *unused)
{
    (void)unused;
    weft__carrier_loop(&carrier);
}

static void stop(struct weft__request *request, struct weft__carrier *here)
{
    (void)request;
    here->stop = true;
}

static void run_task(void *unused)
{
    (void)unused;
    (void)wait_for_turn(&task_side);
    while (atomic_load_explicit(&told, memory_order_acquire) == 0) {
        weft__host_park(&task, deadline);
        mc_assert(!task_is_home); // it is its scheduler's again
    }
    mc_assert(task.abroad && task.visits == 0 && task.sched == &crew.abroad);
    // The last switch, without a way back.
    struct weft__context *runner = task.return_to;
    task.verdict = WEFT__SETTLED;
    stop_request = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = stop };
    weft__put(&carrier, &stop_request.node, NULL);
    uint32_t before = atomic_fetch_or_explicit(&lane, OVER, memory_order_release);
    mc_assert(before == 0 || intrudes);
    mc_event_set(&lane);
    hand_over(side_of(runner), 0);
}

static void tell(void *unused)
{
    (void)unused;
    atomic_store_explicit(&told, 1, memory_order_release);
    weft__wake(&task);
}

static int sleep_well(void *state, weft_time until)
{
    (void)until; // far away
    mc_event_wait(state);
    return 0;
}

static void kick(void *state, void *from)
{
    (void)from;
    mc_event_set(state);
}

static int poll_nothing(void *state)
{
    (void)state;
    return 0;
}

static const struct weft__driver driver = {
    .name = "event",
    .poll = poll_nothing,
    .wait = sleep_well,
    .kick = kick,
};

static void reset(weft_time until)
{
    memset(&crew, 0, sizeof crew);
    memset(&task, 0, sizeof task);
    memset(guests, 0, sizeof guests);
    memset(&task_side, 0, sizeof task_side);
    memset(&carrier_side, 0, sizeof carrier_side);
    memset(guest_sides, 0, sizeof guest_sides);
    stage_carrier_init(&carrier, "carrier");
    carrier.driver = &driver;
    carrier.crew = &crew;
    carrier.runner.errno_at = &its_errno;
    carrier.runner.cxx = &cxx;
    for (int i = 0; i < GUESTS; i++) {
        guests[i].runner.errno_at = &its_errno;
        guests[i].runner.cxx = &cxx;
    }
    crew.carriers = &carrier;
    crew.capacity = 1;
    atomic_init(&crew.started, 1);
    atomic_init(&crew.active, 1);
    crew.sched.ops = &weft__locality_ops;
    crew.abroad.ops = &weft__abroad_ops;
    own.ops = &own_ops;
    deadline = until;
    task.kind = &weft__kind_thread;
    task.home = &carrier;
    task.crew = &crew;
    task.sched = &crew.abroad;
    task.own = &own;
    task.abroad = task.roams = task.migratable = true;
    task.node.kind = WEFT__NODE_TASK;
    task.deadline.fire = weft__deadline_fired;
    atomic_init(&task.handed, 1);
    weft__word_init(&task, 1, 0);
    atomic_init(&lane, FULL); // on_start
    atomic_init(&told, 0);
    handed_over = 0;
    task_is_home = false;
    mc_name(&task, sizeof task, "task");
    mc_name(&task.word, sizeof task.word, "word");
    mc_name(&lane, sizeof lane, "lane");
    mc_name(&told, sizeof told, "told");
    mc_name(&task_side, sizeof task_side, "task's turn");
    mc_name(&carrier_side, sizeof carrier_side, "carrier's turn");
    mc_name(guest_sides, sizeof guest_sides, "guest's turn");
    mc_thread(run_carrier, NULL);
    mc_thread(run_guest, NULL);
    mc_thread(run_task, NULL);
}

static void park(void)
{
    intrudes = false;
    reset(WEFT_FOREVER);
    mc_thread(tell, NULL);
}

static void park_with_intruder(void)
{
    park();
    intrudes = true;
    mc_thread(intrude, NULL);
}

static void park_with_deadline(void)
{
    intrudes = false;
    reset(1000 * WEFT__WHEEL_TICK_NS);
    mc_thread(tell, NULL);
}

const struct mc_model mc_models[] = {
    { .name = "guest_park", .setup = park, .never_spurious = 1, .max_bound = 1 },
    { .name = "guest_park_with_intruder",
      .setup = park_with_intruder,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = "guest_park_with_deadline",
      .setup = park_with_deadline,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = NULL },
};
