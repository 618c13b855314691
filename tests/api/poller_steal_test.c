// Pollers of carriers that steal: who looks for tasks, and whom the trace function sees doing it.
#include "support/test.h"

#include "../../examples/pollers.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

// No more movers than fit into the offer of a tiny build: what does not is anybody's to take.
enum { POLLED = 1, MOVERS = 3, BUSY_ROUNDS = 300 };

static weft_poller *poller;
static atomic_bool running;
static atomic_int pulled, directed; // tasks that the polled carrier took

static void note(void *ctx, const struct weft_trace_event *event)
{
    (void)ctx;
    if (event->kind == WEFT_TRACE_STEAL && event->thief == POLLED) {
        bool first = atomic_load(&pulled) + atomic_load(&directed) == 0;
        CHECK(event->from_poller || !first); // later the poller may have returned
        CHECK_EQ(event->source, 0);
        atomic_fetch_add(event->directed ? &directed : &pulled, 1);
    }
}

static uint64_t offered(void)
{
    struct weft_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_stats_get(weft_runtime_current(), 0, &stats));
    return stats.offered;
}

static int moves_until_stolen(void *arg)
{
    (void)arg;
    while (atomic_load(&pulled) + atomic_load(&directed) == 0) {
        CHECK_OK(weft_yield());
    }
    return 0;
}

/// Has carrier 0 offer tasks from when the poller's body runs.
static int offers(void *arg)
{
    weft_fn body = *(weft_fn *)arg;
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    int result = -1;
    attr.migratable = true;
    CHECK_EQ(weft_carrier_id(), 0);
    CHECK_OK(weft_poller_register(&poller, NULL, POLLED, body, NULL, NULL));
    while (!atomic_load(&running)) {
        CHECK_OK(weft_yield());
    }
    weft_trace_set(note, NULL);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < MOVERS; i++) {
        CHECK_OK(weft_scope_spawn(&scope, moves_until_stolen, NULL));
    }
    CHECK_OK(weft_scope_join(&scope));
    weft_trace_set(NULL, NULL);
    CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
    return result;
}

static void run_with(weft_fn body, enum weft_policy policy)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    weft_task *task;
    int result = -1;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    options.carriers = 2;
    options.steal = WEFT_STEAL_ON;
    options.policy = policy;
    atomic_store(&running, false);
    atomic_store(&pulled, 0);
    atomic_store(&directed, 0);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(weft_runtime_spawn(&task, runtime, offers, &body, &attr));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 0);
    CHECK_OK(weft_runtime_destroy(runtime));
}

/// As long as it has I/O of its own its carrier leaves others alone, although there is something to be had.
static int pulls_when_idle(void *arg)
{
    (void)arg;
    atomic_store(&running, true);
    for (int rounds = 0; rounds < BUSY_ROUNDS;) {
        CHECK_OK(weft_poller_maybe_yield(poller, true));
        rounds += offered() > 0;
    }
    CHECK_EQ(atomic_load(&pulled), 0);
    CHECK_EQ(atomic_load(&directed), 0);
    while (atomic_load(&pulled) == 0) {
        CHECK_OK(weft_poller_maybe_yield(poller, false));
    }
    CHECK_EQ(atomic_load(&directed), 0); // it never slept, so nobody could send it
    return 0;
}

TEST_DRIVERS(only_an_idle_poller_looks_for_tasks)
{
    run_with(pulls_when_idle, WEFT_POLICY_LOCALITY);
    run_with(pulls_when_idle, WEFT_POLICY_STEALING);
}

static int sleeps(void *arg, int fd, weft_time until)
{
    struct pollfd watched = { .fd = fd, .events = POLLIN };
    (void)arg;
    (void)until; // nobody on this carrier waits for the time
    atomic_store(&running, true);
    return poll(&watched, 1, -1);
}

/// One that sleeps is sent, and its carrier takes what it was sent for when it wakes. If another one was
/// faster it may not sleep again, and looks by itself.
static int sleeps_until_sent(void *arg)
{
    (void)arg;
    while (atomic_load(&pulled) + atomic_load(&directed) == 0) {
        // With I/O of its own, so that its carrier does not look by itself while it can sleep.
        CHECK_OK(weft_poller_maybe_yield(poller, true));
        if (atomic_load(&pulled) + atomic_load(&directed) == 0) { // or else nobody would wake it
            CHECK_OK(weft_poll_guard(poller, sleeps, NULL));
        }
    }
    return 0;
}

static void check_sent(enum weft_policy policy)
{
    do {
        run_with(sleeps_until_sent, policy);
    } while (atomic_load(&directed) == 0);
}

TEST_DRIVERS(a_poller_that_sleeps_is_sent_for_tasks)
{
    check_sent(WEFT_POLICY_LOCALITY);
    check_sent(WEFT_POLICY_STEALING);
}

// The loop that is no poller moves with the others.

static atomic_int loop_moved;
static uint64_t loop_id;

static void note_loop(void *ctx, const struct weft_trace_event *event)
{
    (void)ctx;
    if (event->kind == WEFT_TRACE_STEAL && event->task == loop_id) {
        atomic_fetch_add(&loop_moved, 1);
    }
}

static int yields_beside_it(void *arg)
{
    (void)arg;
    while (atomic_load(&loop_moved) == 0) {
        CHECK_OK(weft_yield());
    }
    return 0;
}

static int moves_the_loop(void *arg)
{
    struct loop loop;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    (void)arg;
    attr.migratable = true;
    CHECK_OK(loop_init(&loop));
    CHECK_OK(weft_spawn(&task, loop_yield, &loop, &attr));
    loop_id = weft_task_id(task);
    weft_trace_set(note_loop, NULL);
    (void)yields_beside_it(NULL);
    weft_trace_set(NULL, NULL);
    loop_post(&loop, 5);
    while (atomic_load(&loop.handled) < 5) {
        CHECK_OK(weft_sleep(50 * WEFT_US));
    }
    loop_stop(&loop);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    loop_fini(&loop);
    return 0;
}

TEST_DRIVERS(a_loop_that_is_no_poller_is_stolen)
{
    for (int i = 0; i < 2; i++) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        options.carriers = 2;
        options.steal = WEFT_STEAL_ON;
        options.policy = i == 0 ? WEFT_POLICY_LOCALITY : WEFT_POLICY_STEALING;
        atomic_store(&loop_moved, 0);
        CHECK_OK(weft_run(moves_the_loop, NULL, &options));
    }
}
