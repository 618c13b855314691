// More carriers and fewer while a runtime runs: who moves, who stays, and that nothing gets lost.
#include "support/fds.h"
#include "support/gather.h"
#include "support/placed.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

enum { MOST = 8 };

static weft_runtime *runtime;

struct shape {
    enum weft_policy policy;
    enum weft_steal steal;
    enum weft_remedy remedy;
    const char *cpus; // clusters, and tasks stay in theirs
};
static const struct shape shapes[] = {
    { WEFT_POLICY_LOCALITY, WEFT_STEAL_OFF, WEFT_REMEDY_OFF, NULL },
    { WEFT_POLICY_LOCALITY, WEFT_STEAL_ON, WEFT_REMEDY_OFF, NULL },
    { WEFT_POLICY_STEALING, WEFT_STEAL_OFF, WEFT_REMEDY_OFF, NULL },
    { WEFT_POLICY_LOCALITY, WEFT_STEAL_OFF, WEFT_REMEDY_SPARE, NULL },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void start(const struct shape *shape, int carriers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carriers;
    options.max_carriers = MOST;
    options.policy = shape->policy;
    options.steal = shape->steal;
    options.remedy = shape->remedy;
    options.cpus = shape->cpus;
    options.steal_scope = shape->cpus != NULL ? WEFT_STEAL_CLUSTER : WEFT_STEAL_GLOBAL;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_EQ(weft_runtime_carriers(runtime), carriers);
}

static void stop(void)
{
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int say_where(void *arg)
{
    (void)arg;
    return weft_carrier_id();
}

/// The carrier that a task is at home on, and whether it waits for something of that kind: -1 else.
static int home_of(const char *name, const char *what)
{
    char quoted[64];
    char *text = dump_text();
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", name);
    char *line = strstr(text, quoted);
    CHECK(line != NULL);
    char *end = strchr(line, '\n');
    *(end != NULL ? end : line) = '\0';
    const char *carrier = strstr(line, "carrier");
    bool waits = strstr(line, "waiting") != NULL && strstr(line, what) != NULL;
    return waits && carrier != NULL ? (int)strtol(carrier + strlen("carrier "), NULL, 10) : -1;
}

static void await_home(const char *name, const char *what, int carrier)
{
    while (home_of(name, what) != carrier) {
        sched_yield();
    }
}

/// The same for one that waits only until then. False: it was too late.
static bool await_home_until(const char *name, const char *what, int carrier, weft_time limit)
{
    while (home_of(name, what) != carrier && weft_now() < limit) {
        sched_yield();
    }
    return weft_now() < limit;
}

static void make_pipe(int fds[2])
{
    CHECK_OK(pipe2(fds, O_CLOEXEC));
}

static void close_pipe(const int fds[2])
{
    CHECK_OK(close(fds[0]));
    CHECK_OK(close(fds[1]));
}

TEST_DRIVERS(bad_numbers_are_refused)
{
    start(&shapes[0], 2);
    CHECK_EQ(weft_runtime_resize(NULL, 1), -EPERM);
    CHECK_EQ(weft_runtime_resize(runtime, 0), -EINVAL);
    CHECK_EQ(weft_runtime_resize(runtime, -1), -EINVAL);
    CHECK_EQ(weft_runtime_resize(runtime, MOST + 1), -EINVAL);
    CHECK_EQ(weft_runtime_carriers(runtime), 2);
    CHECK_OK(weft_runtime_resize(runtime, 2));
    CHECK_EQ(weft_runtime_carriers(runtime), 2);
    CHECK_OK(weft_runtime_shutdown(runtime, WEFT_S));
    CHECK_EQ(weft_runtime_resize(runtime, 1), -ECANCELED);
    stop();
}

TEST(there_may_not_be_more_to_begin_with_than_at_most)
{
    struct gathered *log = calloc(1, sizeof *log);
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 3;
    options.max_carriers = 2;
    options.log = gather_log;
    options.log_ctx = log;
    CHECK_EQ(weft_runtime_create(&runtime, &options), -EINVAL);
    CHECK_LOGGED(log, "max_carriers");
    options.carriers = 0; // as many as there are CPUs, but no more than that
    setenv("WEFT_MAX_CARRIERS", "1", 1);
    options.max_carriers = 0;
    unsetenv("WEFT_CARRIERS");
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_EQ(weft_runtime_carriers(runtime), 1);
    CHECK_EQ(weft_runtime_resize(runtime, 2), -EINVAL);
    stop();
    free(log);
}

/// Where a round of tasks that are placed nowhere in particular starts: a bit for each carrier.
static unsigned spread(int count)
{
    weft_task *tasks[4 * MOST];
    unsigned seen = 0;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < count; i++) {
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, say_where, NULL, &attr));
    }
    for (int i = 0; i < count; i++) {
        seen |= 1u << join(tasks[i]);
    }
    return seen;
}

TEST_DRIVERS(new_tasks_go_to_the_carriers_that_are_wanted)
{
    start(&shapes[0], 1);
    CHECK_EQ(spread(4), 1u);
    CHECK_OK(weft_runtime_resize(runtime, 4));
    CHECK_EQ(weft_runtime_carriers(runtime), 4);
    CHECK_EQ(spread(8), 0xfu);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(join(spawn_in(runtime, i, false, "placed", say_where, NULL)), i);
    }
    CHECK_OK(weft_runtime_resize(runtime, 2));
    CHECK_EQ(weft_runtime_carriers(runtime), 2);
    CHECK_EQ(spread(8), 0x3u);
    CHECK_EQ(join(spawn_in(runtime, 3, false, "placed", say_where, NULL)),
             3); // good once, good for ever
    weft_task *task;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = MOST;
    CHECK_EQ(weft_runtime_spawn(&task, runtime, say_where, NULL, &attr), -EINVAL);
    CHECK_OK(weft_runtime_resize(runtime, 3));
    CHECK_EQ(spread(9), 0x7u);
    stop();
}

static int spawn_children(void *arg)
{
    weft_task *tasks[8];
    unsigned seen = 0;
    (void)arg;
    for (int i = 0; i < 8; i++) {
        CHECK_OK(weft_spawn(&tasks[i], say_where, NULL, NULL));
    }
    for (int i = 0; i < 8; i++) {
        int where;
        CHECK_OK(weft_join(&where, tasks[i], WEFT_FOREVER));
        seen |= 1u << where;
    }
    CHECK_EQ(weft_carrier_id(), 3);
    return (int)seen;
}

TEST_DRIVERS(children_of_one_that_stays_behind_do_not)
{
    for (int i = 0; i < SHAPES; i++) {
        start(&shapes[i], 4);
        CHECK_OK(weft_runtime_resize(runtime, 2));
        while (join(spawn_in(runtime, 3, false, "parent", spawn_children, NULL)) >= 1 << 2) {
            sched_yield(); // it has not heard of it yet
        }
        stop();
    }
}

struct ticker {
    _Atomic int ticks;
    _Atomic bool over;
    int pipe[2];
};

static int tick(void *arg)
{
    struct ticker *ticker = arg;
    int home = weft_carrier_id();
    char byte = 'x';
    while (!atomic_load(&ticker->over)) {
        CHECK_OK(weft_sleep(50 * WEFT_US));
        CHECK_EQ(weft_write(ticker->pipe[1], &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(ticker->pipe[0], &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_carrier_id(), home);
        atomic_fetch_add(&ticker->ticks, 1);
    }
    return home;
}

static void await_ticks(struct ticker *ticker, int more)
{
    int before = atomic_load(&ticker->ticks);
    while (atomic_load(&ticker->ticks) - before < more) {
        sched_yield();
    }
}

TEST_DRIVERS(a_started_thread_keeps_its_carrier)
{
    for (int i = 0; i < SHAPES; i++) {
        struct ticker ticker = { 0 };
        make_pipe(ticker.pipe);
        start(&shapes[i], 4);
        weft_task *task = spawn_in(runtime, 3, false, "ticker", tick, &ticker);
        await_ticks(&ticker, 3);
        CHECK_OK(weft_runtime_resize(runtime, 1));
        await_ticks(&ticker, 10);
        CHECK_OK(weft_runtime_resize(runtime, 4));
        await_ticks(&ticker, 10);
        CHECK_OK(weft_runtime_resize(runtime, 2));
        atomic_store(&ticker.over, true);
        CHECK_EQ(join(task), 3);
        struct weft_stats stats = { .size = sizeof stats };
        CHECK_OK(weft_stats_get(runtime, 3, &stats)); // what it has counted is not lost
        CHECK_GT(stats.runs, 20);
        stop();
        close_pipe(ticker.pipe);
    }
}

static int nap_often(void *arg)
{
    struct ticker *ticker = arg;
    while (!atomic_load(&ticker->over)) {
        CHECK_OK(weft_sleep(50 * WEFT_US));
        atomic_fetch_add(&ticker->ticks, 1);
    }
    return weft_carrier_id();
}

/// What others have sent to that carrier so far.
static uint64_t received_by(int carrier)
{
    struct weft_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_stats_get(runtime, carrier, &stats));
    return stats.inbox;
}

TEST_DRIVERS(who_was_sent_away_does_not_come_back_with_each_wake)
{
    for (int i = 0; i < SHAPES; i++) {
        struct ticker ticker = { 0 };
        uint64_t before;
        start(&shapes[i], 2);
        weft_task *task = spawn_in(runtime, 1, true, "napper", nap_often, &ticker);
        await_ticks(&ticker, 3);
        CHECK_OK(weft_runtime_resize(runtime, 1));
        do {
            before = received_by(1); // at first it is still there
            await_ticks(&ticker, 20);
        } while (received_by(1) != before);
        atomic_store(&ticker.over, true);
        CHECK_EQ(join(task), 0);
        stop();
    }
}

static int sleep_until(void *arg)
{
    weft_time when = *(weft_time *)arg;
    CHECK_OK(weft_sleep_until(when));
    CHECK_GE(weft_now(), when);
    return weft_carrier_id();
}

/// False: on this machine it slept too short to be seen.
static bool check_sleeper(const struct shape *shape, weft_time pause_ns)
{
    start(shape, 4);
    weft_time when = weft_after(pause_ns);
    weft_task *pinned = spawn_in(runtime, 3, false, "pinned", sleep_until, &when);
    weft_task *task = spawn_in(runtime, 3, true, "sleeper", sleep_until, &when);
    bool in_time = await_home_until("sleeper", "sleep", 3, when) &&
                   await_home_until("pinned", "sleep", 3, when);
    CHECK_OK(weft_runtime_resize(runtime, 1));
    // With a remedy its timer binds it to no carrier, and it goes when it is woken.
    if (in_time && shape->remedy == WEFT_REMEDY_OFF) {
        in_time = await_home_until("sleeper", "sleep", 0, when); // before it wakes up
    }
    in_time = in_time && weft_now() < when;
    int where = join(task);
    CHECK_EQ(join(pinned), 3);
    CHECK(where == 0 || !in_time);
    stop();
    return in_time;
}

TEST_DRIVERS(a_sleeper_that_may_move_takes_its_timer_along)
{
    for (int i = 0; i < SHAPES; i++) {
        weft_time pause_ns = 200 * WEFT_MS;
        while (!check_sleeper(&shapes[i], pause_ns)) {
            pause_ns *= 2;
        }
    }
}

struct reader {
    int pipe[2];
    weft_time limit; // of a scope around it
    bool timed;      // and a deadline of its own
};

static int read_one(void *arg)
{
    struct reader *reader = arg;
    struct weft_scope scope;
    char byte = 0;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, reader->limit));
    ssize_t n = weft_read(reader->pipe[0], &byte, 1,
                          reader->timed ? weft_after(100 * WEFT_S) : WEFT_FOREVER);
    int where = weft_carrier_id();
    int rc = weft_scope_join(&scope);
    if (reader->limit != WEFT_FOREVER && rc < 0) {
        CHECK_EQ(n, -ECANCELED);
        CHECK_EQ(rc, -ETIMEDOUT);
        CHECK_GE(weft_now(), reader->limit);
        return 100 + where;
    }
    CHECK_OK(rc);
    CHECK_EQ(n, 1);
    CHECK_EQ(byte, 'q');
    return where;
}

/// False: its limit came too early on this machine.
static bool check_reader(const struct shape *shape, bool timed, weft_time limit_ns, bool writes)
{
    struct reader reader = { .timed = timed };
    make_pipe(reader.pipe);
    start(shape, 4);
    reader.limit = limit_ns != WEFT_FOREVER ? weft_after(limit_ns) : WEFT_FOREVER;
    weft_task *task = spawn_in(runtime, 3, true, "reader", read_one, &reader);
    bool in_time = await_home_until("reader", "read", 3, reader.limit);
    CHECK_OK(weft_runtime_resize(runtime, 2));
    CHECK_EQ(join(spawn_in(runtime, 3, false, "later", say_where, NULL)),
             3); // so it has heard of it
    in_time = in_time && weft_now() < reader.limit;
    // With a remedy its operation binds it to no carrier, and it goes when it is woken.
    bool stays = shape->remedy != WEFT_REMEDY_OFF && limit_ns == WEFT_FOREVER;
    while (writes && !stays && (home_of("reader", "read") == 3 || home_of("reader", "read") < 0)) {
        sched_yield();
    }
    if (writes) {
        CHECK_EQ(write(reader.pipe[1], "q", 1), 1);
    }
    int where = join(task);
    CHECK(where % 100 < 2 || !in_time);
    CHECK_EQ(where / 100, writes ? 0 : 1);
    stop();
    close_pipe(reader.pipe);
    return in_time;
}

TEST_DRIVERS(a_read_that_waits_is_begun_again_elsewhere)
{
    for (int i = 0; i < SHAPES; i++) {
        CHECK(check_reader(&shapes[i], false, WEFT_FOREVER, true));
        CHECK(check_reader(&shapes[i], true, WEFT_FOREVER, true));
        CHECK(check_reader(&shapes[i], true, 100 * WEFT_S, true));
        weft_time limit_ns = 300 * WEFT_MS;
        while (!check_reader(&shapes[i], false, limit_ns, false)) {
            limit_ns *= 2;
        }
    }
}

struct nap {
    weft_task *task;
    struct weft_sleep sleep;
    struct weft_io_future io;
    char byte;
};

/// Futures that were placed on a carrier stay there; those of a task there need not.
static int spawn_futures(void *arg)
{
    struct nap *nap = arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = "nap";
    CHECK_OK(weft_spawn_future(&nap->task, &nap->sleep.future, &attr));
    weft_task *reading;
    attr.name = "io";
    CHECK_OK(weft_spawn_future(&reading, &nap->io.future, &attr));
    int result;
    CHECK_OK(weft_join(&result, reading, WEFT_FOREVER));
    CHECK_EQ(weft_carrier_id(), 3);
    return result;
}

TEST_DRIVERS(futures_take_their_timers_and_operations_along)
{
    for (int i = 0; i < SHAPES; i++) {
        struct nap nap = { 0 };
        int fds[2];
        weft_time when = weft_after(100 * WEFT_MS);
        make_pipe(fds);
        start(&shapes[i], 4);
        weft_sleep_init(&nap.sleep, when);
        weft_read_future(&nap.io, fds[0], &nap.byte, 1);
        weft_task *task = spawn_in(runtime, 3, false, "spawner", spawn_futures, &nap);
        await_home("spawner", "join", 3);
        for (int n = 1; n < 30; n++) {
            CHECK_OK(weft_runtime_resize(runtime, n % 2 != 0 ? 1 : 4));
        }
        CHECK_EQ(join(spawn_in(runtime, 3, false, "later", say_where, NULL)),
                 3); // so it has heard of it
        bool in_time = weft_now() < when;
        CHECK_EQ(join(nap.task), 0);
        CHECK_GE(weft_now(), when);
        struct weft_stats stats = { .size = sizeof stats };
        CHECK_OK(weft_stats_get(runtime, 3, &stats));
        if (in_time && i == 0) { // stealing may begin it elsewhere, and a remedy keeps timers apart
            CHECK_EQ(stats.timers, 0);
        }
        CHECK_EQ(write(fds[1], "q", 1), 1);
        CHECK_EQ(join(task), 1);
        CHECK_EQ(nap.byte, 'q');
        stop();
        close_pipe(fds);
    }
}

// Storms.

struct storm {
    int pairs[24][2];
    _Atomic int done;
    _Atomic bool over;
    uint64_t rounds;
};

struct end {
    struct storm *storm;
    int fd;
    bool asks;
};

/// Sends numbers in pieces and checks that they come back: nothing lost, doubled or out of order.
static int talk(void *arg)
{
    struct end *end = arg;
    for (uint64_t i = 0; i < end->storm->rounds; i++) {
        uint64_t number = end->asks ? i : 0;
        size_t moved;
        if (end->asks) {
            CHECK_EQ(weft_write_full(&moved, end->fd, &number, 3, WEFT_FOREVER), 3);
            CHECK_EQ(weft_write_full(&moved, end->fd, (char *)&number + 3, 5, WEFT_FOREVER), 5);
        }
        uint64_t got = 0;
        char *at = (char *)&got;
        while (at < (char *)(&got + 1)) {
            ssize_t n = weft_read(end->fd, at, (size_t)((char *)(&got + 1) - at),
                                  weft_after(100 * WEFT_S));
            CHECK_GT(n, 0);
            at += n;
        }
        CHECK_EQ(got, i);
        if (!end->asks) {
            CHECK_EQ(weft_write_full(&moved, end->fd, &got, sizeof got, WEFT_FOREVER), 8);
        }
    }
    atomic_fetch_add(&end->storm->done, 1);
    return 0;
}

static int nap(void *arg)
{
    struct end *end = arg;
    for (uint64_t i = 0; i < end->storm->rounds; i++) {
        weft_time when = weft_after((i % 7) * 20 * WEFT_US);
        CHECK_OK(weft_sleep_until(when));
        CHECK_GE(weft_now(), when);
        weft_task *child;
        CHECK_OK(weft_spawn(&child, say_where, NULL, NULL));
        CHECK_OK(weft_join(NULL, child, WEFT_FOREVER));
    }
    atomic_fetch_add(&end->storm->done, 1);
    return 0;
}

static void storm_of(const struct shape *shape, uint64_t seed)
{
    enum { PAIRS = 12 };
    static const int sizes[] = { 1, 8, 2, 5 };
    struct storm storm = { .rounds = test_scaled(400) };
    struct end ends[3 * PAIRS];
    uint64_t random = seed;
    start(shape, 1);
    CHECK_OK(weft_runtime_resize(runtime, MOST));
    for (int i = 0; i < PAIRS; i++) {
        CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, storm.pairs[i]));
    }
    for (int i = 0; i < 3 * PAIRS; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        bool naps = i % 3 == 2;
        ends[i] = (struct end){ &storm, storm.pairs[i / 3][i % 3 % 2], i % 3 == 0 };
        attr.place = i % 4 == 0 ? WEFT_PLACE_CARRIER : WEFT_PLACE_SPREAD;
        attr.carrier = i % MOST;
        attr.migratable = test_random(&random) % 3 != 0;
        CHECK_OK(weft_runtime_spawn(NULL, runtime, naps ? nap : talk, &ends[i], &attr));
    }
    for (int i = 0; atomic_load(&storm.done) < 3 * PAIRS; i++) {
        int size = i % 8 < 4 ? sizes[i % 4] : 1 + (int)(test_random(&random) % MOST);
        CHECK_OK(weft_runtime_resize(runtime, size));
        CHECK_EQ(weft_runtime_carriers(runtime), size);
        for (uint64_t pause = test_random(&random) % 64; pause > 0; pause--) {
            sched_yield();
        }
    }
    stop();
    for (int i = 0; i < PAIRS; i++) {
        close_pipe(storm.pairs[i]);
    }
}

TEST_DRIVERS(nothing_is_lost_in_a_storm)
{
    for (int i = 0; i < SHAPES; i++) {
        storm_of(&shapes[i], test_seed() + (uint64_t)i);
    }
}

/// Four carriers in each of two clusters, of which one is left and entered again.
TEST_DRIVERS(clusters_may_be_left)
{
    cpu_set_t allowed;
    CHECK_OK(sched_getaffinity(0, sizeof allowed, &allowed));
    if (!CPU_ISSET(0, &allowed) || !CPU_ISSET(1, &allowed)) {
        SKIP("needs CPUs 0 and 1");
    }
    const struct shape freely = { WEFT_POLICY_STEALING, WEFT_STEAL_OFF, WEFT_REMEDY_OFF, "0;1" };
    const struct shape shared = { WEFT_POLICY_LOCALITY, WEFT_STEAL_ON, WEFT_REMEDY_OFF, "0;1" };
    storm_of(&freely, test_seed());
    storm_of(&shared, test_seed() + 1);
}

static int resize_often(void *arg)
{
    uint64_t random = test_seed() + (uint64_t)(uintptr_t)arg;
    for (uint64_t i = test_scaled(200); i > 0; i--) {
        CHECK_OK(weft_runtime_resize(runtime, 1 + (int)(test_random(&random) % MOST)));
        CHECK_OK(weft_yield());
    }
    return 0;
}

static void *resize_outside(void *arg)
{
    uint64_t random = test_seed() ^ (uint64_t)(uintptr_t)arg;
    for (uint64_t i = test_scaled(200); i > 0; i--) {
        CHECK_OK(weft_runtime_resize(runtime, 1 + (int)(test_random(&random) % MOST)));
    }
    return NULL;
}

TEST_DRIVERS(resizes_follow_one_another)
{
    for (int i = 0; i < SHAPES; i++) {
        pthread_t threads[2];
        weft_task *tasks[4];
        start(&shapes[i], 2);
        for (uintptr_t k = 0; k < 4; k++) {
            struct weft_attr attr = WEFT_ATTR_INIT;
            attr.migratable = k % 2 == 0;
            CHECK_OK(weft_runtime_spawn(&tasks[k], runtime, resize_often, (void *)k, &attr));
        }
        for (uintptr_t k = 0; k < 2; k++) {
            CHECK_EQ(pthread_create(&threads[k], NULL, resize_outside, (void *)(k + 1)), 0);
        }
        for (int k = 0; k < 4; k++) {
            CHECK_OK(join(tasks[k]));
        }
        for (int k = 0; k < 2; k++) {
            CHECK_EQ(pthread_join(threads[k], NULL), 0);
        }
        CHECK_OK(weft_runtime_resize(runtime, 3));
        while ((spread(12) & ~0x7u) != 0) {
            sched_yield(); // a thief that has not heard of it yet
        }
        stop();
    }
}

static int resize_until_refused(void *arg)
{
    _Atomic bool *began = arg;
    weft_work_begin();
    for (int i = 0;; i++) {
        int rc = weft_runtime_resize(NULL, 1 + i % MOST);
        atomic_store(began, true);
        if (rc < 0) {
            weft_work_end();
            return rc;
        }
        (void)weft_yield();
    }
}

TEST_DRIVERS(a_shutdown_ends_it)
{
    for (int i = 0; i < 2 * SHAPES; i++) {
        _Atomic bool began = false;
        start(&shapes[i % SHAPES], 1);
        weft_task *task = spawn_in(runtime, 0, i < SHAPES, "resizer", resize_until_refused, &began);
        while (!atomic_load(&began)) {
            sched_yield();
        }
        CHECK_OK(weft_runtime_shutdown(runtime, 20 * WEFT_S));
        CHECK_EQ(join(task), -ECANCELED);
        CHECK_EQ(weft_runtime_resize(runtime, 1), -ECANCELED);
        stop();
    }
}

TEST_DRIVERS(what_cannot_start_changes_nothing)
{
    struct gathered *log = calloc(1, sizeof *log);
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    options.max_carriers = MOST;
    options.policy = WEFT_POLICY_LOCALITY;
    options.steal = WEFT_STEAL_OFF;
    options.remedy = WEFT_REMEDY_OFF;     // else all are started at the beginning
    options.poller = WEFT_POLLER_CARRIER; // else a carrier needs no descriptor
    options.log = gather_log;
    options.log_ctx = log;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    struct rlimit before, none;
    CHECK_OK(getrlimit(RLIMIT_NOFILE, &before));
    none = before;
    none.rlim_cur = 5; // those that are open stay open
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &none));
    CHECK_EQ(weft_runtime_resize(runtime, 4), -EMFILE);
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &before));
    CHECK_LOGGED(log, "carrier 2 cannot start");
    CHECK_EQ(weft_runtime_carriers(runtime), 2);
    CHECK_EQ(spread(8), 0x3u);
    CHECK_OK(weft_runtime_resize(runtime, 4));
    CHECK_EQ(spread(8), 0xfu);
    stop();
    free(log);
}

static int nap_and_resize(void *arg)
{
    uint64_t random = test_seed() + (uint64_t)(uintptr_t)arg;
    for (uint64_t i = test_scaled(100); i > 0; i--) {
        weft_time when = weft_after(test_random(&random) % 1000 * WEFT_US);
        CHECK_OK(weft_sleep_until(when));
        CHECK_GE(weft_now(), when);
        if (i % 4 == 0) {
            CHECK_OK(weft_runtime_resize(NULL, 1 + (int)(test_random(&random) % TEST_CARRIERS)));
        }
    }
    return 0;
}

TEST_EVERYWHERE(carriers_come_and_go_under_their_tasks)
{
    struct weft_scope scope;
    CHECK_EQ(weft_carrier_count(), TEST_CARRIERS);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (uintptr_t i = 0; i < 12; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        attr.migratable = i % 3 != 0;
        CHECK_OK(weft_scope_spawn_task(NULL, &scope, nap_and_resize, (void *)i, &attr));
    }
    CHECK_OK(weft_scope_join(&scope));
    CHECK_OK(weft_runtime_resize(NULL, 1));
    CHECK_EQ(weft_carrier_count(), 1);
    CHECK_OK(weft_runtime_resize(NULL, TEST_CARRIERS));
    CHECK_EQ(weft_carrier_count(), TEST_CARRIERS);
}
