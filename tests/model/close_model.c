// close_model.c - a descriptor is closed while other carriers use it (io/close.c, F1 to F6 and F8;
// io/call.c; io/hold.h, H1 and H2).
//
// A thread of the model is a carrier with one task on it: while that is parked, or yields, the carrier
// takes its inbox and its driver's completions. The driver keeps one op in flight per carrier and has
// the number of its descriptor in hand, as a kernel queue has. What must hold:
//
//   - An op that is in flight meets the same file at its end as at its submission. `last_use` is plain:
//     close(2) writes it and every op reads it, so the race detector proves that close(2) comes
//     after every op of before, and is seen by every op of later.
//   - Of two closes one closes; the other says -EBADF, or finds the number free.
//   - Nobody waits for ever. Calls, holds and closings live on stacks, so the engine proves that nobody
//     touches them late.
//
// Sources: io/close.c io/call.c io/hold.c task/wait.c task/run.c sched/inbox.c
// Headers: io/descriptors.h task/word.h
// With: stage.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <errno.h>
#include <string.h>

#include "io/call.h"
#include "io/hold.h"
#include "mc.h"
#include "sched/crew.h"
#include "sched/park.h"
#include "stage.h"
#include "task/host.h"
#include "task/word.h"

#include <weft/io.h>

// The table has TABLED entries and the one that those beyond it share.
enum { CARRIERS = 3, TABLED = 2, FDS = 4, BYTES = 5, OLD = 1, NEW = 2 };

static int target; // is closed and used
static int other;  // likewise, or merely used

static struct weft__crew crew;
static struct weft__carrier carriers[CARRIERS];
static struct weft__task tasks[CARRIERS];
static _Atomic uint64_t users[TABLED + 1];
static struct weft__use *uses[CARRIERS][TABLED + 1];
static int carrier_count;
static _Atomic int bells[CARRIERS]; // 1: something was put into the inbox
static _Atomic int scripts_left;    // tasks that have not ended
static _Atomic int cancelled;       // tasks[1] is

// The kernel.

static _Atomic int files[FDS];           // what the number means: 0 nothing
static int last_use[FDS];                // see above
static struct weft__op *op_of[CARRIERS]; // in flight
static int file_of[CARRIERS];            // that it was submitted on
static bool asked[CARRIERS];
static bool reopens;
static bool ends_alone;

static int number_of(void *state)
{
    return (int)((struct weft__carrier *)state - carriers);
}

static bool submit(void *state, struct weft__op *op)
{
    int number = number_of(state);
    mc_assert(op_of[number] == NULL && last_use[op->fd] >= 0);
    int file = atomic_load_explicit(&files[op->fd], memory_order_relaxed);
    if (file == 0) {
        op->result = -EBADF;
        return true;
    }
    op_of[number] = op;
    file_of[number] = file;
    asked[number] = false;
    return false;
}

static void cancel(void *state, struct weft__op *op)
{
    mc_assert(op_of[number_of(state)] == op);
    asked[number_of(state)] = true;
}

static void forget(void *state, int fd)
{
    (void)state;
    (void)fd;
}

// An op may stay in flight until it is asked to end if somebody will: on the descriptor that is closed.
static bool is_over(int number)
{
    bool stays = !ends_alone && op_of[number]->fd == target && file_of[number] == OLD;
    return asked[number] || !stays || mc_choose(2) == 1;
}

static bool complete(int number)
{
    struct weft__op *op = op_of[number];
    if (op == NULL || !is_over(number)) {
        return false;
    }
    mc_assert(atomic_load_explicit(&files[op->fd], memory_order_relaxed) == file_of[number]);
    mc_assert(last_use[op->fd] >= 0);
    op->result = asked[number] ? -ECANCELED : BYTES;
    op_of[number] = NULL;
    op->done(op);
    return true;
}

static int close_file(void *state, int fd)
{
    (void)state;
    last_use[fd] = 1;
    int file = atomic_exchange_explicit(&files[fd], 0, memory_order_relaxed);
    if (file != 0 && reopens) {
        // Somebody else in the process opens a file and gets the number at once.
        atomic_store_explicit(&files[fd], NEW, memory_order_relaxed);
    }
    return file == 0 ? -EBADF : 0;
}

static const struct weft__sockets sockets = { .close = close_file };
static const struct weft__driver driver = {
    .name = "model",
    .submit = submit,
    .cancel = cancel,
    .forget = forget,
    .sockets = &sockets,
};

// Carriers and their tasks. Parking itself is put_sleep_model.c's business: the bell is sticky, and
// who hears it sees what was put.

static void ring(struct weft__carrier *carrier)
{
    int before = atomic_exchange_explicit(&bells[carrier->number], 1, memory_order_release);
    mc_assert(before <= 1);
    mc_event_set(&bells[carrier->number]);
}

static void await_bell(struct weft__carrier *carrier)
{
    while (atomic_exchange_explicit(&bells[carrier->number], 0, memory_order_acquire) == 0) {
        mc_event_wait(&bells[carrier->number]);
    }
}

void weft__put(struct weft__carrier *target, struct weft__node *node, struct weft__carrier *self)
{
    (void)self;
    weft__inbox_push(&target->inbox, node);
    ring(target);
}

// True: the task was among it.
static bool open_inbox(struct weft__carrier *carrier)
{
    bool found = false;
    struct weft__node *node = weft__inbox_take(&carrier->inbox);
    while (node != NULL) {
        struct weft__node *next = node->next;
        if (node->kind == WEFT__NODE_REQUEST) {
            struct weft__request *request = weft__container_of(node, struct weft__request, node);
            request->fn(request, carrier);
        } else {
            found = true;
        }
        node = next;
    }
    return found;
}

static void to_home(struct weft_scheduler *self, struct weft__task *task)
{
    (void)self;
    weft__put(task->home, &task->node, NULL);
}

static const struct weft_scheduler_ops ops = { .on_start = to_home, .on_continue = to_home };
static struct weft_scheduler scheduler = { &ops };

void weft__host_park(struct weft__task *task, weft_time deadline)
{
    struct weft__carrier *carrier = task->home;
    (void)deadline;
    if (weft__word_park(task)) {
        while (!open_inbox(carrier)) {
            if (!complete(carrier->number)) {
                await_bell(carrier);
            }
        }
    }
    weft__word_clear_notified(task);
}

void weft__host_yield(struct weft__task *task)
{
    bool woken = open_inbox(task->home);
    mc_assert(!woken); // it is ACTIVE
    mc_relax();
}

weft_time weft__host_now(struct weft__task *task)
{
    (void)task;
    return 1;
}

struct weft__task *weft__thread_self(void)
{
    return &tasks[mc_self()];
}

bool weft__scope_look(struct weft__task *task)
{
    atomic_fetch_and_explicit(&task->word, ~WEFT__WORD_LOOK, memory_order_acquire);
    return atomic_load_explicit(&cancelled, memory_order_relaxed) != 0;
}

// A carrier serves its inbox until no task is left that could want something.
static void serve(int self)
{
    if (atomic_fetch_sub_explicit(&scripts_left, 1, memory_order_acq_rel) == 1) {
        for (int i = 0; i < carrier_count; i++) {
            ring(&carriers[i]);
        }
        return;
    }
    while (atomic_load_explicit(&scripts_left, memory_order_acquire) > 0) {
        open_inbox(&carriers[self]);
        await_bell(&carriers[self]);
    }
}

// Scripts: what a task does. All run for their own thread's number.

static int results[CARRIERS]; // of the task's call; the check reads them

static __attribute__((noinline)) int64_t call_on(int fd)
{
    struct weft__call call = { .op = { .code = WEFT__OP_READ, .fd = fd, .size = 1 } };
    return weft__call(&call, "model", WEFT_FOREVER);
}

static void reads(void *unused)
{
    (void)unused;
    results[mc_self()] = (int)call_on(target);
    serve(mc_self());
}

static void reads_twice(void *unused)
{
    (void)unused;
    results[mc_self()] = (int)call_on(target);
    (void)call_on(target);
    serve(mc_self());
}

// On two descriptors, as a copy does.
static __attribute__((noinline)) int64_t copy_between(void)
{
    struct weft__hold hold;
    const int fds[2] = { target, other };
    int64_t rc = weft__hold_begin(&hold, fds, 2);
    if (rc == 0) {
        int file = atomic_load_explicit(&files[target], memory_order_relaxed);
        rc = call_on(target);
        rc = rc == BYTES ? call_on(other) : rc;
        // Between its ops nothing but the hold keeps the file (H1).
        mc_assert(atomic_load_explicit(&files[target], memory_order_relaxed) == file);
        mc_assert(last_use[target] >= 0);
        weft__hold_end(&hold);
    }
    return rc;
}

static void copies(void *unused)
{
    (void)unused;
    results[mc_self()] = (int)copy_between();
    serve(mc_self());
}

static void closes_it(void *unused)
{
    (void)unused;
    results[mc_self()] = weft_close(target);
    serve(mc_self());
}

static void closes_the_other(void *unused)
{
    (void)unused;
    results[mc_self()] = weft_close(other);
    serve(mc_self());
}

static void reads_and_closes_the_other(void *unused)
{
    (void)unused;
    int64_t rc = call_on(target);
    mc_assert(rc == BYTES || rc == -EBADF);
    results[mc_self()] = weft_close(other);
    serve(mc_self());
}

static void reads_and_closes(void *unused)
{
    (void)unused;
    int64_t rc = call_on(target);
    mc_assert(rc == BYTES || rc == -EBADF);
    results[mc_self()] = weft_close(target);
    serve(mc_self());
}

// Not a carrier.
static void cancels(void *unused)
{
    (void)unused;
    atomic_store_explicit(&cancelled, 1, memory_order_relaxed);
    weft__interrupt(&tasks[1], WEFT__WORD_LOOK);
}

// Setup.

static void reset(void (*first)(void *), void (*second)(void *), void (*third)(void *))
{
    void (*const scripts[CARRIERS])(void *) = { first, second, third };
    carrier_count = third != NULL ? 3 : 2;
    memset(&crew, 0, sizeof crew);
    memset(uses, 0, sizeof uses);
    memset(op_of, 0, sizeof op_of);
    memset(asked, 0, sizeof asked);
    memset(last_use, 0, sizeof last_use);
    crew.carriers = carriers;
    crew.capacity = carrier_count;
    atomic_init(&crew.started, carrier_count);
    atomic_init(&crew.active, carrier_count);
    crew.descriptors = (struct weft__descriptors){ .users = users, .count = TABLED };
    reopens = ends_alone = false;
    target = 0;
    other = 1;
    atomic_init(&scripts_left, carrier_count);
    atomic_init(&cancelled, 0);
    for (int i = 0; i <= TABLED; i++) {
        atomic_init(&users[i], 0);
    }
    for (int i = 0; i < FDS; i++) {
        atomic_init(&files[i], OLD);
    }
    for (int i = 0; i < carrier_count; i++) {
        memset(&carriers[i], 0, offsetof(struct weft__carrier, wheel));
        carriers[i].number = i;
        carriers[i].crew = &crew;
        carriers[i].driver = &driver;
        carriers[i].driver_state = &carriers[i];
        carriers[i].uses = uses[i];
        tasks[i] = (struct weft__task){ .kind = &weft__kind_thread, .sched = &scheduler };
        tasks[i].home = &carriers[i];
        tasks[i].crew = &crew;
        tasks[i].budget = INT16_MAX;
        weft__word_init(&tasks[i], 1, 0);
        results[i] = 0;
        atomic_init(&bells[i], 0);
        mc_name(&carriers[i].inbox, sizeof carriers[i].inbox, "inbox");
        mc_name(&tasks[i].word, sizeof tasks[i].word, "word");
        mc_thread(scripts[i], NULL);
    }
    mc_name(bells, sizeof bells, "bells");
    mc_name(users, sizeof users, "users");
    mc_name(&crew.descriptors.lock, sizeof crew.descriptors.lock, "lock");
    mc_name(files, sizeof files, "files");
    mc_name(&scripts_left, sizeof scripts_left, "scripts_left");
}

static void against_call(void)
{
    reset(closes_it, reads, NULL);
}

static void against_calls(void)
{
    reset(closes_it, reads_twice, NULL);
}

static void against_two(void)
{
    reset(closes_it, reads, reads);
}

static void reused(void)
{
    reset(closes_it, reads, NULL);
    reopens = true;
}

static void against_hold(void)
{
    reset(closes_it, copies, NULL);
    reopens = true;
}

static void twice(void)
{
    reset(closes_it, closes_it, NULL);
}

static void twice_used(void)
{
    reset(reads_and_closes, reads_and_closes, NULL);
    ends_alone = true;
}

static void against_cancel(void)
{
    reset(closes_it, reads, NULL);
    mc_thread(cancels, NULL);
}

// The same beyond the table.
static void go_beyond(void)
{
    target = TABLED;
    other = TABLED + 1;
}

static void beyond_call(void)
{
    against_call();
    go_beyond();
}

static void beyond_calls(void)
{
    against_calls();
    go_beyond();
}

static void beyond_two(void)
{
    against_two();
    go_beyond();
}

static void beyond_reused(void)
{
    reused();
    go_beyond();
}

static void beyond_hold(void)
{
    against_hold();
    go_beyond();
}

static void beyond_twice(void)
{
    twice();
    go_beyond();
}

static void beyond_twice_used(void)
{
    twice_used();
    go_beyond();
}

// Two closings in the list at once, and somebody who uses one of them.
static void beyond_both(void)
{
    reset(closes_it, reads_and_closes_the_other, NULL);
    go_beyond();
}

static void beyond_both_and_call(void)
{
    reset(closes_it, reads, closes_the_other);
    go_beyond();
}

// Checks.

static void check_close(void)
{
    mc_assert(results[0] == 0);
}

static void check_call(void)
{
    check_close();
    mc_assert(results[1] == BYTES || results[1] == -EBADF);
}

static void check_both(void)
{
    check_close();
    mc_assert(results[1] == 0);
}

static void check_both_and_call(void)
{
    check_call();
    mc_assert(results[2] == 0);
}

static void check_cancel(void)
{
    check_close();
    mc_assert(results[1] == BYTES || results[1] == -EBADF || results[1] == -ECANCELED);
}

static void check_twice(void)
{
    mc_assert((results[0] == 0) + (results[1] == 0) == 1);
    mc_assert(results[0] + results[1] == -EBADF);
}

const struct mc_model mc_models[] = {
    { .name = "close_against_call", .setup = against_call, .check = check_call },
    { .name = "close_against_calls", .setup = against_calls, .check = check_call },
    { .name = "close_against_two",
      .setup = against_two,
      .check = check_call,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = "close_reused", .setup = reused, .check = check_call },
    { .name = "close_against_hold", .setup = against_hold, .check = check_call },
    { .name = "close_twice", .setup = twice, .check = check_twice },
    { .name = "close_twice_used", .setup = twice_used, .check = check_twice },
    { .name = "close_against_cancel",
      .setup = against_cancel,
      .check = check_cancel,
      .never_spurious = 1 },
    { .name = "close_beyond_call", .setup = beyond_call, .check = check_call },
    { .name = "close_beyond_calls", .setup = beyond_calls, .check = check_call },
    { .name = "close_beyond_two",
      .setup = beyond_two,
      .check = check_call,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = "close_beyond_reused", .setup = beyond_reused, .check = check_call },
    { .name = "close_beyond_hold", .setup = beyond_hold, .check = check_call },
    { .name = "close_beyond_twice", .setup = beyond_twice, .check = check_twice },
    { .name = "close_beyond_twice_used", .setup = beyond_twice_used, .check = check_twice },
    { .name = "close_beyond_both", .setup = beyond_both, .check = check_both },
    { .name = "close_beyond_both_and_call",
      .setup = beyond_both_and_call,
      .check = check_both_and_call,
      .never_spurious = 1,
      .max_bound = 1 },
    { .name = NULL },
};
