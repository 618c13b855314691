// While tasks hold all carriers, what may move runs elsewhere (and remedy_report_test.c: pinned threads wait).
//
// Tasks that hold a carrier are in a plain read(2) that only those who are to be helped will end: without
// the remedy both would wait for ever. One test measures, and shows what happens without it.
#include "support/test.h"

#include "support/fds.h"
#include "support/gather.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_CARRIERS = 2, CHILDREN = 12 }; // more than the tiny build has places on offer

static struct gathered logged;

struct shape {
    int carriers;
    enum weft_policy policy;
    enum weft_steal_scope scope;
    const char *cpus;
};

static const struct shape shapes[] = {
    { 1, WEFT_POLICY_LOCALITY, WEFT_STEAL_GLOBAL, NULL },
    { 2, WEFT_POLICY_LOCALITY, WEFT_STEAL_GLOBAL, NULL },
    { 1, WEFT_POLICY_STEALING, WEFT_STEAL_GLOBAL, NULL },
    { 2, WEFT_POLICY_STEALING, WEFT_STEAL_GLOBAL, NULL },
    { 1, WEFT_POLICY_STEALING, WEFT_STEAL_CLUSTER, NULL },
    { 2, WEFT_POLICY_STEALING, WEFT_STEAL_CLUSTER, NULL },
};

static weft_time threshold_ns = 5 * WEFT_MS;

static weft_runtime *make(const struct shape *shape, enum weft_remedy remedy)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    unsetenv("WEFT_STUCK_MS");
    unsetenv("WEFT_STUCK_REMEDY");
    options.carriers = shape->carriers;
    options.policy = shape->policy;
    options.steal_scope = shape->scope;
    options.cpus = shape->cpus;
    options.remedy = remedy;
    options.stuck_ns = threshold_ns;
    options.log = gather_log;
    options.log_ctx = &logged;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    return runtime;
}

static struct weft_stats stats_of(weft_runtime *runtime)
{
    struct weft_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_stats_get(runtime, WEFT_STATS_ALL, &stats));
    return stats;
}

/// Holds a carrier until its children have all written to it.
struct holder {
    weft_fn child;
    int pipe[2];
    int from[2];         // what children read from, for those that do
    _Atomic int started; // children that have
    struct weft_semaphore gate;
    sem_t blocked; // it is about to block
    bool wait_for_start;
};

static bool all_announce;

static struct holder holders[MOST_CARRIERS];

static void tell(struct holder *holder)
{
    CHECK_EQ(write(holder->pipe[1], "x", 1), 1);
}

static int holds(void *arg)
{
    struct holder *holder = arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *tasks[CHILDREN];
    char data;
    attr.migratable = true;
    for (int i = 0; i < CHILDREN; i++) {
        CHECK_OK(weft_spawn(&tasks[i], holder->child, holder, &attr));
    }
    while (holder->wait_for_start && atomic_load(&holder->started) < CHILDREN) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(sem_post(&holder->blocked), 0);
    if (all_announce) {
        CHECK_OK(weft_block_begin());
    }
    for (int i = 0; i < CHILDREN; i++) {
        CHECK_EQ(read(holder->pipe[0], &data, 1), 1); // plain read(2), on purpose
    }
    for (int i = 0; i < CHILDREN; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    return 0;
}

/// Holds all carriers while the children of each do what they do; `help` is called when all are about to
/// block.
static void hold_all(const struct shape *shape, weft_fn child, bool wait_for_start,
                     void (*help)(struct holder *holder))
{
    weft_runtime *runtime = make(shape, WEFT_REMEDY_SPARE);
    weft_task *tasks[MOST_CARRIERS];
    for (int i = 0; i < shape->carriers; i++) {
        struct holder *holder = &holders[i];
        struct weft_attr attr = WEFT_ATTR_INIT;
        *holder = (struct holder){ .child = child, .wait_for_start = wait_for_start };
        CHECK_EQ(pipe(holder->pipe), 0);
        CHECK_EQ(pipe(holder->from), 0);
        CHECK_OK(weft_semaphore_init(&holder->gate, 0));
        CHECK_EQ(sem_init(&holder->blocked, 0, 0), 0);
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = i;
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, holds, holder, &attr));
    }
    for (int i = 0; i < shape->carriers; i++) {
        CHECK_EQ(sem_wait(&holders[i].blocked), 0);
    }
    for (int i = 0; i < shape->carriers && help != NULL; i++) {
        help(&holders[i]);
    }
    for (int i = 0; i < shape->carriers; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
        for (int end = 0; end < 2; end++) {
            close(holders[i].pipe[end]);
            close(holders[i].from[end]);
        }
    }
    // With two, the one that blocks later may have had time for all of them.
    CHECK(stats_of(runtime).rescued > 0 || shape->carriers > 1);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static void hold_all_shapes(weft_fn child, bool wait_for_start, void (*help)(struct holder *))
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        hold_all(&shapes[i], child, wait_for_start, help);
    }
}

static int computes(void *arg)
{
    tell(arg);
    return 0;
}

TEST_DRIVERS(ready_threads_run_elsewhere)
{
    hold_all_shapes(computes, false, NULL);
}

static int yields(void *arg)
{
    struct holder *holder = arg;
    atomic_fetch_add(&holder->started, 1);
    for (int i = 0; i < 200; i++) {
        CHECK_OK(weft_yield());
    }
    tell(holder);
    return 0;
}

TEST_DRIVERS(threads_that_yield_run_elsewhere)
{
    hold_all_shapes(yields, true, NULL);
}

static int sleeps(void *arg)
{
    struct holder *holder = arg;
    atomic_fetch_add(&holder->started, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_sleep(10 * WEFT_MS));
    }
    tell(holder);
    return 0;
}

TEST_DRIVERS(timers_fire_while_their_carrier_is_stuck)
{
    hold_all_shapes(sleeps, true, NULL);
}

/// Who says that it is going to block need not be found out: the monitor looks every quarter of an hour.
TEST_DRIVERS(what_is_announced_is_seen_to_at_once)
{
    all_announce = true;
    threshold_ns = 3600 * WEFT_S;
    hold_all_shapes(sleeps, true, NULL);
}

static int waits_at_gate(void *arg)
{
    struct holder *holder = arg;
    atomic_fetch_add(&holder->started, 1);
    CHECK_OK(weft_semaphore_acquire(&holder->gate, 1, weft_after(60 * WEFT_S)));
    CHECK_EQ(weft_semaphore_acquire(&holder->gate, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    tell(holder);
    return 0;
}

static void open_gate(struct holder *holder)
{
    CHECK_OK(weft_semaphore_release(&holder->gate, CHILDREN));
}

TEST_DRIVERS(what_is_woken_from_outside_runs_elsewhere)
{
    hold_all_shapes(waits_at_gate, true, open_gate);
}

// Descriptors.

static int reads(void *arg)
{
    struct holder *holder = arg;
    char data;
    atomic_fetch_add(&holder->started, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_read(holder->from[0], &data, 1, weft_after(60 * WEFT_S)), 1);
    }
    tell(holder);
    return 0;
}

static void write_some(struct holder *holder)
{
    for (int i = 0; i < 3 * CHILDREN; i++) {
        CHECK_EQ(write(holder->from[1], "x", 1), 1);
    }
}

TEST_DRIVERS(reads_end_while_their_carrier_is_stuck)
{
    hold_all_shapes(reads, true, write_some);
}

static int reads_in_vain(void *arg)
{
    struct holder *holder = arg;
    char data;
    atomic_fetch_add(&holder->started, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_read(holder->from[0], &data, 1, weft_after(10 * WEFT_MS)), -ETIMEDOUT);
    }
    tell(holder);
    return 0;
}

TEST_DRIVERS(so_do_those_that_are_too_late)
{
    hold_all_shapes(reads_in_vain, true, NULL);
}

/// Begins to read before its carrier is stuck, is cancelled by one that was woken elsewhere.
static int is_cancelled(void *arg)
{
    struct holder *holder = arg;
    char data;
    atomic_fetch_add(&holder->started, 1);
    CHECK_EQ(weft_read(holder->from[0], &data, 1, WEFT_FOREVER), -ECANCELED);
    return 0;
}

static int cancels(void *arg)
{
    struct holder *holder = arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    attr.migratable = true;
    CHECK_OK(weft_spawn(&task, is_cancelled, holder, &attr));
    CHECK_OK(weft_sleep(20 * WEFT_MS));
    weft_task_cancel(task);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    tell(holder);
    return 0;
}

TEST_DRIVERS(reads_are_cancelled_while_their_carrier_is_stuck)
{
    hold_all_shapes(cancels, true, NULL);
}

/// Another migratable thread closes what a pinned and a migratable one read from.
static int is_closed(void *arg)
{
    char data;
    return (int)weft_read(*(int *)arg, &data, 1, WEFT_FOREVER) == -EBADF ? 0 : -EIO;
}

static int closes(void *arg)
{
    int fds[2];
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *tasks[4];
    (void)arg;
    for (int round = 0; round < 20; round++) {
        CHECK_EQ(pipe(fds), 0);
        for (int i = 0; i < 4; i++) {
            attr.migratable = i % 2 == 0;
            attr.place = i < 2 ? WEFT_PLACE_CURRENT : WEFT_PLACE_SPREAD;
            CHECK_OK(weft_spawn(&tasks[i], is_closed, &fds[0], &attr));
        }
        CHECK_OK(weft_sleep(WEFT_MS));
        CHECK_OK(weft_close(fds[0]));
        for (int i = 0; i < 4; i++) {
            int rc;
            CHECK_OK(weft_join(&rc, tasks[i], WEFT_FOREVER));
            CHECK_OK(rc);
        }
        close(fds[1]);
    }
    return 0;
}

TEST_DRIVERS(closing_ends_reads_in_the_annex_as_well)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        weft_runtime *runtime = make(&shapes[i], WEFT_REMEDY_SPARE);
        struct weft_attr attr = WEFT_ATTR_INIT;
        weft_task *task;
        attr.migratable = true;
        CHECK_OK(weft_runtime_spawn(&task, runtime, closes, NULL, &attr));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_OK(weft_runtime_destroy(runtime));
    }
}

// Futures.

struct reader {
    struct weft_future future;
    struct weft_io_future io;
    struct holder *holder;
    char data;
    int left;
};

static enum weft_poll poll_reader(struct weft_future *future, weft_waker *waker)
{
    struct reader *reader = (struct reader *)(void *)future;
    while (reader->left > 0) {
        if (weft_future_poll(&reader->io.future, waker) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
        CHECK_EQ(reader->io.future.result, 1);
        weft_read_future(&reader->io, reader->holder->from[0], &reader->data, 1);
        reader->left--;
    }
    tell(reader->holder);
    return WEFT_READY;
}

static void cancel_reader(struct weft_future *future)
{
    weft_future_cancel(&((struct reader *)(void *)future)->io.future);
}

static int reads_as_a_future(void *arg)
{
    struct holder *holder = arg;
    struct reader reader = { .holder = holder, .left = 3 };
    weft_task *task;
    weft_future_init(&reader.future, poll_reader, cancel_reader);
    weft_read_future(&reader.io, holder->from[0], &reader.data, 1);
    CHECK_OK(weft_spawn_future(&task, &reader.future, NULL));
    CHECK_OK(weft_yield());
    atomic_fetch_add(&holder->started, 1);
    return weft_join(NULL, task, WEFT_FOREVER);
}

TEST_DRIVERS(futures_that_read_go_on)
{
    hold_all_shapes(reads_as_a_future, true, write_some);
}

struct nap {
    struct weft_future future;
    struct weft_sleep sleep;
    struct holder *holder;
    int left;
};

static enum weft_poll poll_nap(struct weft_future *future, weft_waker *waker)
{
    struct nap *nap = (struct nap *)(void *)future;
    while (nap->left > 0) {
        if (weft_sleep_poll(&nap->sleep, waker) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
        weft_sleep_init(&nap->sleep, weft_after(5 * WEFT_MS));
        nap->left--;
    }
    tell(nap->holder);
    return WEFT_READY;
}

static void cancel_nap(struct weft_future *future)
{
    weft_sleep_cancel(&((struct nap *)(void *)future)->sleep);
}

/// Not a child by itself: it starts one that is a future, and is over when that is.
static int naps(void *arg)
{
    struct holder *holder = arg;
    struct nap nap = { .holder = holder, .left = 3 };
    weft_task *task;
    weft_future_init(&nap.future, poll_nap, cancel_nap);
    weft_sleep_init(&nap.sleep, weft_after(20 * WEFT_MS));
    CHECK_OK(weft_spawn_future(&task, &nap.future, NULL));
    CHECK_OK(weft_yield()); // so it has been polled
    atomic_fetch_add(&holder->started, 1);
    return weft_join(NULL, task, WEFT_FOREVER);
}

TEST_DRIVERS(futures_that_sleep_go_on)
{
    hold_all_shapes(naps, true, NULL);
}

// Pinned threads: remedy_report_test.c has those that wait.

static int is_patient(void *arg)
{
    *(bool *)arg = true;
    return 0;
}

/// Of a task on the spare carrier.
static int spawns_pinned(void *arg)
{
    struct holder *holder = arg;
    weft_task *task;
    bool ran = false;
    bool aside = weft_carrier_id() >= weft_carrier_count();
    CHECK_OK(weft_spawn(&task, is_patient, &ran, NULL));
    tell(holder);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    while (aside && weft_carrier_id() >= weft_carrier_count()) {
        CHECK_OK(weft_yield()); // home again, once a carrier has finished what it was held with
    }
    return 0;
}

TEST_DRIVERS(nothing_stays_on_the_spare_carrier)
{
    hold_all_shapes(spawns_pinned, false, NULL);
}

static int says_where(void *arg)
{
    *(int *)arg = weft_carrier_id();
    return 0;
}

static void make_and_stay(void)
{
    weft_listener *listener;
    weft_task *task;
    int number = -1;
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    CHECK(weft_carrier_id() < weft_carrier_count());
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK(weft_carrier_id() < weft_carrier_count());
    CHECK_OK(weft_spawn(&task, says_where, &number, NULL));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK(number >= 0 && number < weft_carrier_count());
    CHECK_OK(weft_listener_close(listener));
}

static _Atomic int made_from_aside;

static int listens(void *arg)
{
    atomic_fetch_add(&made_from_aside, weft_carrier_id() >= weft_carrier_count());
    tell(arg); // what follows may have to wait for the carriers
    make_and_stay();
    return 0;
}

/// The timer of its scope binds it to the spare carrier, and has to go along.
static int listens_in_a_scope(void *arg)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(60 * WEFT_S)));
    CHECK_OK(listens(arg));
    return weft_scope_join(&scope);
}

TEST_DRIVERS(what_is_made_on_the_spare_carrier_is_not_there)
{
    hold_all_shapes(listens, false, NULL);
    hold_all_shapes(listens_in_a_scope, false, NULL);
    CHECK(atomic_load(&made_from_aside) > 0);
}

static _Atomic int came_home;

static int listens_at_home(void *arg)
{
    struct holder *holder = arg;
    weft_listener *listener;
    int home = weft_carrier_id(); // where it started it belongs
    atomic_fetch_add(&holder->started, 1);
    CHECK_OK(weft_semaphore_acquire(&holder->gate, 1, weft_after(60 * WEFT_S)));
    bool aside = weft_carrier_id() >= weft_carrier_count() && home < weft_carrier_count();
    struct weft_scope scope; // its timer goes along
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(60 * WEFT_S)));
    tell(holder);
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    if (aside) {
        CHECK_EQ(weft_carrier_id(), home);
        atomic_fetch_add(&came_home, 1);
    }
    CHECK_OK(weft_listener_close(listener));
    return weft_scope_join(&scope);
}

/// Where nobody may leave his cluster; else another carrier that is free may take it on its way.
TEST_DRIVERS(who_leaves_the_spare_carrier_goes_where_it_belongs)
{
    const struct shape apart = { 2, WEFT_POLICY_LOCALITY, WEFT_STEAL_CLUSTER, "0;1" };
    cpu_set_t allowed;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    if (!CPU_ISSET(0, &allowed) || !CPU_ISSET(1, &allowed)) {
        SKIP("needs CPUs 0 and 1");
    }
    hold_all(&apart, listens_at_home, true, open_gate);
    CHECK(atomic_load(&came_home) > 0);
}

// The same for futures that dial.

static char dialled[64];

static int closes_where_it_is(void *arg)
{
    CHECK(weft_carrier_id() < weft_carrier_count());
    return weft_conn_close(arg);
}

static int dials(void *arg)
{
    struct weft_dial_future future;
    weft_conn *conn;
    weft_dial_future(&future, &conn, dialled, NULL);
    atomic_fetch_add(&made_from_aside, weft_carrier_id() >= weft_carrier_count());
    tell(arg);
    CHECK_EQ(weft_await(&future.future, WEFT_FOREVER), 0);
    return closes_where_it_is(conn);
}

struct caller {
    struct weft_machine machine; // first member
    struct weft_dial_future dial;
    struct weft_join_future join;
    struct holder *holder;
    weft_conn *conn;
    weft_task *closer;
};

static enum weft_poll poll_caller(struct weft_future *future, weft_waker *waker)
{
    struct caller *c = (struct caller *)(void *)future;
    WEFT_MACHINE_BEGIN(&c->machine);
    atomic_fetch_add(&made_from_aside, weft_carrier_id() >= weft_carrier_count());
    tell(c->holder);
    weft_dial_future(&c->dial, &c->conn, dialled, NULL);
    WEFT_MACHINE_AWAIT(&c->machine, &c->dial.future, waker);
    CHECK_EQ(c->dial.future.result, 0);
    CHECK_OK(weft_spawn(&c->closer, closes_where_it_is, c->conn, NULL));
    weft_join_future_init(&c->join, c->closer);
    WEFT_MACHINE_AWAIT(&c->machine, &c->join.future, waker);
    weft_task_release(c->closer);
    WEFT_MACHINE_END(&c->machine, c->join.future.result);
}

static int dials_as_a_future(void *arg)
{
    struct caller caller = { .holder = arg };
    weft_task *task;
    int result = -1;
    weft_machine_init(&caller.machine, poll_caller);
    CHECK_OK(weft_spawn_future(&task, &caller.machine.future, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    return result;
}

TEST_DRIVERS(what_dials_on_the_spare_carrier_goes_home)
{
    uint16_t port;
    int listener = listen_tcp(&port, 4096);
    CHECK_GT(snprintf(dialled, sizeof dialled, "tcp://127.0.0.1:%u", port), 0);
    hold_all_shapes(dials, false, NULL);
    hold_all_shapes(dials_as_a_future, false, NULL);
    CHECK(atomic_load(&made_from_aside) > 0);
    CHECK_OK(close(listener));
}

// How late is late?

struct measured {
    weft_time longest_ns;
    _Atomic bool over;
};

static int ticks(void *arg)
{
    struct measured *measured = arg;
    while (!atomic_load(&measured->over)) {
        weft_time due = weft_after(2 * WEFT_MS);
        CHECK_OK(weft_sleep_until(due));
        weft_time late_ns = weft_now() - due;
        measured->longest_ns = late_ns > measured->longest_ns ? late_ns : measured->longest_ns;
    }
    return 0;
}

static int sleeps_plainly(void *arg)
{
    struct timespec pause = { 0, 400000000 };
    (void)arg;
    CHECK_OK(weft_sleep(10 * WEFT_MS));
    CHECK_EQ(nanosleep(&pause, NULL), 0);
    return 0;
}

static int spins(void *arg)
{
    (void)arg;
    CHECK_OK(weft_sleep(10 * WEFT_MS));
    for (weft_time end = weft_after(400 * WEFT_MS); weft_now() < end;) {
    }
    return 0;
}

static weft_time measure(const struct shape *shape, enum weft_remedy remedy, weft_fn hog)
{
    weft_runtime *runtime = make(shape, remedy);
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct measured measured = { 0 };
    weft_task *ticker;
    weft_task *hogs[MOST_CARRIERS];
    attr.migratable = true;
    CHECK_OK(weft_runtime_spawn(&ticker, runtime, ticks, &measured, &attr));
    attr.migratable = false;
    attr.place = WEFT_PLACE_CARRIER;
    for (attr.carrier = 0; attr.carrier < shape->carriers; attr.carrier++) {
        CHECK_OK(weft_runtime_spawn(&hogs[attr.carrier], runtime, hog, NULL, &attr));
    }
    for (int i = 0; i < shape->carriers; i++) {
        CHECK_OK(weft_join(NULL, hogs[i], WEFT_FOREVER));
    }
    atomic_store(&measured.over, true);
    CHECK_OK(weft_join(NULL, ticker, WEFT_FOREVER));
    CHECK_OK(weft_runtime_destroy(runtime));
    return measured.longest_ns;
}

/// 5 ms and a few. On a machine that is busy one measurement may be anything, but not all of them.
enum { LITTLE_NS = 100 * WEFT_MS, MUCH_NS = 300 * WEFT_MS, TRIES = 10 };

static void compare(weft_fn hog)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        weft_time with_ns = WEFT_FOREVER;
        weft_time without_ns = 0;
        for (int left = TRIES; left > 0 && with_ns >= LITTLE_NS; left--) {
            with_ns = measure(&shapes[i], WEFT_REMEDY_SPARE, hog);
        }
        for (int left = TRIES; left > 0 && without_ns <= MUCH_NS; left--) {
            without_ns = measure(&shapes[i], WEFT_REMEDY_OFF, hog);
        }
        printf("# %d carriers, policy %d: %llu us late, without a remedy %llu us\n",
               shapes[i].carriers, (int)shapes[i].policy, (unsigned long long)with_ns / 1000,
               (unsigned long long)without_ns / 1000);
        CHECK_GT(without_ns, MUCH_NS);
        CHECK_LT(with_ns, LITTLE_NS);
    }
}

TEST_DRIVERS(a_plain_sleep_delays_little)
{
    compare(sleeps_plainly);
}

TEST_DRIVERS(a_busy_loop_delays_little)
{
    compare(spins);
}
