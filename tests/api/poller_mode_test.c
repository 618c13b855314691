// Poller modes: whoever waits for the kernel, everything else is the same.
#include "support/test.h"

#include "../../examples/pollers.h"
#include "support/conns.h"
#include "support/gather.h"
#include "support/placed.h"
#include "support/waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

static struct gathered logged;

static struct weft_options options_of(enum weft_poller_mode mode, int carriers, int threads)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carriers;
    options.poller = mode;
    options.poller_threads = threads;
    return options;
}

/// In every mode that this driver has, with one and with several driver threads.
static void in_all_modes(int carriers, weft_fn fn)
{
    static const struct {
        enum weft_poller_mode mode;
        int threads;
    } ways[] = { { WEFT_POLLER_THREADS, 1 }, { WEFT_POLLER_THREADS, 3 }, { WEFT_POLLER_TASKS, 0 } };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (ways[i].mode == WEFT_POLLER_TASKS && test_driver() == TEST_DRIVER_URING) {
            continue;
        }
        struct weft_options options = options_of(ways[i].mode, carriers, ways[i].threads);
        CHECK_OK(weft_run(fn, NULL, &options));
    }
}

// Plain descriptors.

static void ping_pong(int there)
{
    int fds[2];
    weft_task *peer;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    peer = spawn_on(there, pong, &fds[1]);
    ping(fds[0]);
    CHECK_OK(weft_close(fds[0]));
    join_all(&peer, 1);
}

static void move_bytes(void)
{
    int file = memfd_create("file", MFD_CLOEXEC);
    char text[6] = "";
    CHECK_OK(file);
    CHECK_EQ(weft_pwrite(file, "hello", 5, 0, WEFT_FOREVER), 5);
    CHECK_EQ(weft_pread(file, text, 5, 0, WEFT_FOREVER), 5);
    CHECK_STR(text, "hello");
    CHECK_OK(weft_fsync(file, WEFT_FOREVER));
    CHECK_OK(weft_close(file));
    CHECK_EQ(weft_read(file, text, 1, WEFT_FOREVER), -EBADF);
}

static int uses_plain_descriptors(void *arg)
{
    (void)arg;
    move_bytes();
    for (int i = 0; i < weft_carrier_count(); i++) {
        ping_pong(i);
    }
    weft_time before = weft_now();
    CHECK_OK(weft_sleep(3 * WEFT_MS));
    CHECK_GE(weft_now(), before + 3 * WEFT_MS);
    return 0;
}

TEST_DRIVERS(plain_descriptors_in_every_mode)
{
    in_all_modes(1, uses_plain_descriptors);
    in_all_modes(3, uses_plain_descriptors);
}

TEST_DRIVERS(many_carriers_share_a_driver_thread)
{
    struct weft_options options = options_of(WEFT_POLLER_THREADS, 16, 1);
    CHECK_OK(weft_run(uses_plain_descriptors, NULL, &options));
}

// Connections.

enum { CLIENTS = 24, TRIPS = 40, MESSAGE_BYTES = 3000 };

static char server_text[WEFT_ADDR_TEXT_BYTES];
static weft_listener *server;

static int echo(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    while (weft_conn_peek(conn, &in, 1, WEFT_FOREVER) > 0) {
        CHECK_OK(weft_conn_write(conn, in.data, in.size, WEFT_FOREVER));
        weft_conn_consume(conn, in.size);
    }
    return weft_conn_close(conn);
}

/// Keeps some connections and hands others to the next carrier.
static int accept_them(void *arg)
{
    int count = *(int *)arg;
    static weft_task *tasks[256];
    for (int i = 0; i < count; i++) {
        weft_conn *conn;
        int there = i % 2 == 0 ? weft_carrier_id() : (weft_carrier_id() + 1) % weft_carrier_count();
        CHECK_OK(weft_accept(&conn, server, WEFT_FOREVER));
        CHECK_OK(weft_conn_move(conn, there, WEFT_FOREVER));
        tasks[i] = spawn_on(there, echo, conn);
    }
    join_all(tasks, count);
    return 0;
}

static void serve(int carrier, int *count, weft_task **task)
{
    struct weft_addr addr;
    CHECK_OK(weft_listen(&server, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_listener_addr(server, &addr));
    CHECK_GT(weft_addr_format(&addr, server_text, sizeof server_text), 0);
    *task = spawn_on(carrier, accept_them, count);
}

static int talk(void *arg)
{
    char out[MESSAGE_BYTES];
    char in[MESSAGE_BYTES];
    weft_conn *conn;
    CHECK_OK(weft_dial(&conn, server_text, NULL, WEFT_FOREVER));
    for (int i = 0; i < TRIPS; i++) {
        memset(out, (int)(intptr_t)arg + i, sizeof out);
        CHECK_OK(weft_conn_write(conn, out, sizeof out, WEFT_FOREVER));
        CHECK_EQ(weft_conn_read_into(conn, in, sizeof in, WEFT_FOREVER), MESSAGE_BYTES);
        CHECK_EQ(memcmp(in, out, sizeof in), 0);
    }
    return weft_conn_close(conn);
}

static int echoes_under_load(void *arg)
{
    (void)arg;
    weft_task *acceptor;
    weft_task *clients[CLIENTS];
    int count = CLIENTS;
    serve(weft_carrier_id(), &count, &acceptor);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = spawn_on(i % weft_carrier_count(), talk, (void *)(intptr_t)i);
    }
    join_all(clients, CLIENTS);
    join_all(&acceptor, 1);
    return weft_listener_close(server);
}

TEST_DRIVERS(connections_echo_in_every_mode)
{
    in_all_modes(3, echoes_under_load);
}

/// Readers that hold what there is, so that others wait for buffers to come back.
TEST_DRIVERS(few_receive_buffers_come_back)
{
    setenv("WEFT_RECV_BUFFERS", "8", 1);
    setenv("WEFT_RECV_KB", "1", 1);
    in_all_modes(2, echoes_under_load);
}

static int hang_up(void *arg)
{
    (void)arg;
    weft_conn *conn;
    CHECK_OK(weft_dial(&conn, server_text, NULL, WEFT_FOREVER));
    return weft_conn_close(conn);
}

static int accepts_many(void *arg)
{
    (void)arg;
    enum { MANY = 200 };
    static weft_task *clients[MANY];
    weft_task *acceptor;
    int count = MANY;
    serve(weft_carrier_id(), &count, &acceptor);
    for (int i = 0; i < MANY; i++) {
        clients[i] = spawn_on(i % weft_carrier_count(), hang_up, NULL);
    }
    join_all(clients, MANY);
    join_all(&acceptor, 1);
    return weft_listener_close(server);
}

TEST_DRIVERS(one_accept_brings_many)
{
    in_all_modes(2, accepts_many);
}

// Races.

struct race {
    int fds[2];
    int64_t got;
    int late;
};

/// Reads with deadlines that come about when the bytes do.
static int read_in_a_hurry(void *arg)
{
    struct race *race = arg;
    char bytes[16];
    ssize_t n;
    while ((n = weft_read(race->fds[0], bytes, sizeof bytes, weft_after(40 * WEFT_US))) != 0) {
        race->got += n > 0 ? n : 0;
        race->late += n == -ETIMEDOUT;
        CHECK(n > 0 || n == -ETIMEDOUT);
    }
    return 0;
}

static int deadlines_race(void *arg)
{
    (void)arg;
    enum { ROUNDS = 400 };
    struct race race = { .got = 0 };
    weft_task *reader;
    uint64_t state = test_seed();
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, race.fds), 0);
    reader = spawn_on(weft_carrier_count() - 1, read_in_a_hurry, &race);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(weft_write(race.fds[1], "x", 1, WEFT_FOREVER), 1);
        CHECK_OK(weft_sleep(test_random(&state) % (120 * WEFT_US)));
    }
    CHECK_OK(weft_close(race.fds[1]));
    join_all(&reader, 1);
    CHECK_EQ(race.got, ROUNDS); // bytes win over deadlines: none is lost
    return weft_close(race.fds[0]);
}

TEST_DRIVERS(deadlines_race_with_completions)
{
    in_all_modes(1, deadlines_race);
    in_all_modes(2, deadlines_race);
}

static int read_until_closed(void *arg)
{
    char byte;
    ssize_t n = weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER);
    CHECK(n == -EBADF || n == -ECANCELED);
    return 0;
}

static uint64_t in_flight(void)
{
    struct weft_io_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_io_stats(weft_runtime_current(), -1, &stats));
    return stats.submitted - stats.completed;
}

/// The number goes to the next pair at once: an op of the old file that met it would read its byte.
static int closes_race(void *arg)
{
    (void)arg;
    enum { READERS = 3 };
    for (int round = 0; round < 60; round++) {
        int old[2];
        int fresh[2];
        char byte = 0;
        weft_task *readers[READERS];
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, old), 0);
        bool here = round % 2 == 0; // else on all carriers, and then all of them have begun
        for (int i = 0; i < READERS; i++) {
            int there = here ? weft_carrier_id() : i % weft_carrier_count();
            readers[i] = spawn_on(there, read_until_closed, &old[0]);
        }
        while (!here && in_flight() < READERS) {
            CHECK_OK(weft_yield());
        }
        if (here && round % 4 == 0) {
            let_others_run();
        }
        if (round % 3 == 0) {
            weft_task_cancel(readers[0]);
        }
        CHECK_OK(weft_close(old[0]));
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fresh), 0);
        old[0] = here ? -1 : old[0]; // whoever has not begun finds nothing
        CHECK_EQ(weft_write(fresh[1], "x", 1, WEFT_FOREVER), 1);
        join_all(readers, READERS);
        CHECK_EQ(weft_read(fresh[0], &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(byte, 'x');
        CHECK_OK(weft_close(fresh[0]));
        CHECK_OK(weft_close(fresh[1]));
        CHECK_OK(weft_close(old[1]));
    }
    return 0;
}

TEST_DRIVERS(closes_race_with_reads)
{
    in_all_modes(1, closes_race);
    in_all_modes(3, closes_race);
}

static int cancels_race(void *arg)
{
    (void)arg;
    uint64_t state = test_seed();
    for (int round = 0; round < 60; round++) {
        struct race race = { .got = 0 };
        weft_task *reader;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, race.fds), 0);
        int number = race.fds[0];
        reader = spawn_on(round % weft_carrier_count(), read_until_closed, &number);
        for (uint64_t i = test_random(&state) % 8; i > 0; i--) {
            CHECK_OK(weft_yield());
        }
        weft_task_cancel(reader);
        join_all(&reader, 1);
        CHECK_OK(weft_close(race.fds[0]));
        CHECK_OK(weft_close(race.fds[1]));
    }
    return 0;
}

TEST_DRIVERS(cancels_race_with_submissions)
{
    in_all_modes(2, cancels_race);
}

// Shutting down.

static int sleeps_a_little(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_MS);
}

static struct weft_semaphore begun;

static void begins_to_wait(void)
{
    CHECK_OK(weft_semaphore_release(&begun, 1));
}

static int waits_for_ever(void *arg)
{
    int fds[2];
    char byte;
    (void)arg;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    begins_to_wait();
    CHECK_EQ(weft_read(fds[0], &byte, 1, WEFT_FOREVER), -ECANCELED);
    CHECK_OK(weft_close(fds[0]));
    return weft_close(fds[1]);
}

static int accepts_for_ever(void *arg)
{
    weft_listener *listener;
    weft_conn *conn;
    (void)arg;
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    begins_to_wait();
    CHECK_EQ(weft_accept(&conn, listener, WEFT_FOREVER), -ECANCELED);
    return weft_listener_close(listener);
}

static int peeks_for_ever(void *arg)
{
    (void)arg;
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct weft_slice in;
    begins_to_wait();
    CHECK_EQ(weft_conn_peek(pair.near, &in, 1, WEFT_FOREVER), -ECANCELED);
    CHECK_OK(weft_conn_close(pair.near));
    return weft_conn_close(pair.far);
}

static void shut_down_in(enum weft_poller_mode mode, int threads)
{
    static weft_fn const bodies[] = { waits_for_ever, accepts_for_ever, peeks_for_ever };
    enum { TASKS = 30 };
    struct weft_options options = options_of(mode, 3, threads);
    weft_runtime *runtime;
    weft_task *tasks[TASKS];
    int descriptors = count_descriptors();
    int others = count_threads();
    CHECK_OK(weft_semaphore_init(&begun, 0));
    CHECK_OK(weft_runtime_create(&runtime, &options));
    for (int i = 0; i < TASKS; i++) {
        struct weft_attr attr = placed_on(i % 3);
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, bodies[i / 3 % 3], NULL, &attr));
    }
    CHECK_OK(weft_semaphore_acquire(&begun, TASKS, WEFT_FOREVER)); // and some are still on the way
    CHECK_OK(weft_runtime_shutdown(runtime, 10 * WEFT_S));
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(count_descriptors(), descriptors);
    CHECK(threads_fall_to(others));
}

TEST_DRIVERS(a_shutdown_ends_operations_in_flight)
{
    CHECK_OK(weft_run(sleeps_a_little, NULL, NULL)); // a sanitizer has a thread of its own by now
    for (int i = 0; i < 5; i++) {
        shut_down_in(WEFT_POLLER_THREADS, 1 + i % 3);
    }
    if (test_driver() == TEST_DRIVER_EPOLL) {
        shut_down_in(WEFT_POLLER_TASKS, 0);
    }
}

/// An op that nobody waits for any more when the carriers stop.
static int leaves_a_connection(void *arg)
{
    struct pair *pair = arg;
    struct weft_slice in;
    *pair = make_pair("tcp://127.0.0.1:0");
    CHECK_EQ(weft_conn_peek(pair->near, &in, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_conn_peek(pair->far, &in, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    return 0;
}

TEST_DRIVERS(a_runtime_ends_with_open_connections)
{
    static struct pair pair; // is never closed
    struct weft_options options = options_of(WEFT_POLLER_THREADS, 2, 1);
    CHECK_OK(weft_run(leaves_a_connection, &pair, &options));
}

// What can be seen of a mode.

static bool has_thread(const char *name)
{
    DIR *dir = opendir("/proc/self/task");
    bool found = false;
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[300];
        char text[32] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            found |= fgets(text, sizeof text, file) != NULL &&
                     strncmp(text, name, strlen(name)) == 0 && text[strlen(name)] == '\n';
            fclose(file);
        }
    }
    closedir(dir);
    return found;
}

static int counts_for_carriers(void *arg)
{
    weft_runtime *runtime = weft_runtime_current();
    int threads = *(int *)arg;
    uses_plain_descriptors(NULL);
    uint64_t submitted = 0;
    for (int i = 0; i < weft_carrier_count(); i++) {
        struct weft_io_stats stats = { .size = sizeof stats };
        CHECK_OK(weft_io_stats(runtime, i, &stats));
        CHECK_GT(stats.submitted, 0);
        CHECK_EQ(stats.submitted, stats.completed);
        submitted += stats.submitted;
        if (i < threads) {
            CHECK_GT(stats.enters, 0); // the first carrier of a driver thread has its numbers
        } else {
            CHECK_EQ(stats.enters, 0);
        }
    }
    struct weft_io_stats all = { .size = sizeof all };
    CHECK_OK(weft_io_stats(runtime, -1, &all));
    CHECK_EQ(all.submitted, submitted);
    CHECK(has_thread("weft-driver-0"));
    CHECK_EQ(has_thread("weft-driver-1"), threads > 1);
    CHECK(!has_thread("weft-driver-2"));
    CHECK_STR(weft_runtime_driver(runtime), test_driver() == TEST_DRIVER_URING ? "uring" : "epoll");
    return 0;
}

TEST_DRIVERS(driver_threads_have_names_and_counters)
{
    for (int threads = 1; threads <= 2; threads++) {
        struct weft_options options = options_of(WEFT_POLLER_THREADS, 3, threads);
        CHECK_OK(weft_run(counts_for_carriers, &threads, &options));
    }
}

static int knows_its_driver(void *arg)
{
    (void)arg;
    CHECK_STR(weft_runtime_driver(weft_runtime_current()), "epoll");
    return 0;
}

TEST(tasks_wait_in_epoll)
{
    struct weft_options options = options_of(WEFT_POLLER_TASKS, 1, 0);
    unsetenv("WEFT_IO");
    options.log = gather_log;
    options.log_ctx = &logged;
    options.log_level = WEFT_LOG_INFO;
    CHECK_OK(weft_run(knows_its_driver, NULL, &options));
    CHECK_LOGGED(&logged, "driver: epoll (because of WEFT_POLLER=tasks)");
    options.io = WEFT_IO_URING;
    CHECK_EQ(weft_run(knows_its_driver, NULL, &options), -EINVAL);
    CHECK_LOGGED(&logged, "WEFT_POLLER=tasks is not allowed with WEFT_IO=uring");
}

TEST(the_simulator_has_no_modes)
{
    struct weft_sim_options options = { .seed = 1, .carriers = 2 };
    struct weft_sim_result result;
    setenv("WEFT_POLLER", "threads", 1);
    CHECK_OK(weft_sim_run(&result, sleeps_a_little, NULL, &options));
    setenv("WEFT_POLLER", "tasks", 1);
    CHECK_OK(weft_sim_run(&result, sleeps_a_little, NULL, &options));
}

// Pollers of the program's.

static int registers_its_own(void *arg)
{
    static struct loop loop;
    weft_poller *second;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(loop_init(&loop));
        CHECK_OK(weft_poller_register(&loop.poller, NULL, 0, loop_block, NULL, &loop));
        CHECK_EQ(weft_poller_register(&second, NULL, 0, loop_block, NULL, &loop), -EBUSY);
        ping_pong(weft_carrier_count() - 1);
        CHECK_OK(weft_sleep(2 * WEFT_MS));
        CHECK_GT(atomic_load(&loop.rounds), 0);
        loop_stop(&loop);
        CHECK_OK(weft_poller_join(NULL, loop.poller, WEFT_FOREVER));
        loop_fini(&loop);
        ping_pong(weft_carrier_count() - 1);
    }
    return 0;
}

TEST_DRIVERS(a_poller_of_the_program_works_in_every_mode)
{
    in_all_modes(1, registers_its_own);
    in_all_modes(2, registers_its_own);
}

/// Those that are there by themselves can be seen in a dump. (poller_slot_test.c has who polls.)
static int count_residents(void)
{
    return count_dumped("WEFT_POLLER=tasks");
}

static int sees_residents(void *arg)
{
    (void)arg;
    CHECK_EQ(count_residents(), 2);
    registers_its_own(NULL);
    CHECK_EQ(count_residents(), 2);
    return 0;
}

TEST(residents_outlive_pollers_of_the_program)
{
    struct weft_options options = options_of(WEFT_POLLER_TASKS, 2, 0);
    unsetenv("WEFT_IO");
    CHECK_OK(weft_run(sees_residents, NULL, &options));
}

static int naps_and_talks(void *arg)
{
    (void)arg;
    ping_pong(weft_carrier_count() - 1);
    return sleeps_a_little(NULL);
}

TEST(residents_go_with_a_remedy)
{
    unsetenv("WEFT_IO");
    unsetenv("WEFT_STUCK_REMEDY");
    for (int carriers = 1; carriers <= 2; carriers++) {
        struct weft_options options = options_of(WEFT_POLLER_TASKS, carriers, 0);
        options.remedy = WEFT_REMEDY_SPARE;
        options.stuck_ns = 5 * WEFT_MS;
        CHECK_OK(weft_run(naps_and_talks, NULL, &options));
    }
}

static int is_quiet(void *arg)
{
    struct weft_stats stats = { .size = sizeof stats };
    (void)arg;
    CHECK_OK(weft_sleep(100 * WEFT_MS)); // the carrier spins, in its resident
    CHECK_OK(weft_stats_get(weft_runtime_current(), WEFT_STATS_ALL, &stats));
    CHECK_GT(stats.idle_spin_ns, 10 * WEFT_MS);
    CHECK_EQ(stats.stuck, 0);
    return 0;
}

// What waits for a thread that may move is in an annex, and that is watched whenever the resident rests,
// also if something happens there just before that nobody waits for: a peer that reads makes room.
TEST(residents_hear_of_an_annex)
{
    struct weft_options options = options_of(WEFT_POLLER_TASKS, 1, 0);
    const struct timeval patience = { .tv_sec = 30 };
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_runtime *runtime;
    int fds[2];
    unsetenv("WEFT_IO");
    unsetenv("WEFT_STUCK_REMEDY");
    options.remedy = WEFT_REMEDY_SPARE;
    attr.migratable = true;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_OK(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    CHECK_OK(weft_runtime_spawn(NULL, runtime, pong, &fds[1], &attr));
    for (uint64_t i = 0; i < test_scaled(20000); i++) {
        char byte = 'x';
        CHECK_EQ(send(fds[0], &byte, 1, 0), 1);
        CHECK_EQ(recv(fds[0], &byte, 1, 0), 1);
    }
    CHECK_OK(close(fds[0]));
    CHECK_OK(weft_runtime_shutdown(runtime, 20 * WEFT_S));
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST(a_resident_that_spins_is_not_stuck)
{
    unsetenv("WEFT_IO");
    struct weft_options options = options_of(WEFT_POLLER_TASKS, 1, 0);
    options.idle_spin_ns = WEFT_S;
    options.stuck_ns = 2 * WEFT_MS;
    CHECK_OK(weft_run(is_quiet, NULL, &options));
}

static int grows(void *arg)
{
    (void)arg;
    CHECK(!has_thread("carrier-1")); // nobody has asked for it
    CHECK_EQ(count_residents(), 1);
    CHECK_OK(weft_runtime_resize(NULL, 3));
    CHECK(has_thread("carrier-2"));
    CHECK_EQ(count_residents(), 3);
    return uses_plain_descriptors(NULL);
}

TEST(carriers_that_come_later_have_residents)
{
    struct weft_options options = options_of(WEFT_POLLER_TASKS, 1, 0);
    unsetenv("WEFT_IO");
    unsetenv("WEFT_STUCK_REMEDY");
    options.max_carriers = 4;
    CHECK_OK(weft_run(grows, NULL, &options));
}
