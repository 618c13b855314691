// sim_net_test.c - programs on the simulated network, under cuts, delays, resets and partial
// transfers: every byte is delivered in order or the connection reports an error, the same seed gives
// the same run, and nothing is left behind.
//
// Each test tries the seeds from the test's own seed on and prints the one that fails, so
// TEST_SEED=that begins with it.
#include "support/test.h"

#include "support/gather.h"
#include "support/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <weft.h>

#define PATIENCE (100 * WEFT_S) // virtual ones

/// What goes wrong in a simulated task is said by the one who knows the seed.
static struct {
    char text[512];
    bool bad;
} verdict;

__attribute__((format(printf, 1, 2))) static void blame(const char *format, ...)
{
    va_list args;
    if (!verdict.bad) {
        va_start(args, format);
        (void)vsnprintf(verdict.text, sizeof verdict.text, format, args);
        va_end(args);
    }
    verdict.bad = true;
}

#define EXPECT(condition)                                                                          \
    ((condition) ? (void)0 : blame("%s:%d: %s", __FILE__, __LINE__, #condition))

/// Runs a seed twice. Both runs must do exactly the same, and return `expected`.
static struct weft_sim_result run_twice(weft_fn fn, struct weft_sim_options *options, int expected)
{
    struct weft_sim_result results[2];
    for (int i = 0; i < 2; i++) {
        verdict.bad = false;
        uint64_t seed = options->seed;
        int rc = weft_sim_run(&results[i], fn, &seed, options);
        if (verdict.bad || rc != expected) {
            FAIL("seed %" PRIu64 " returns %d at virtual time %" PRIu64 " ns: %s", options->seed,
                 rc, results[i].virtual_ns, verdict.bad ? verdict.text : "");
        }
    }
    if (results[0].trace_hash != results[1].trace_hash ||
        results[0].virtual_ns != results[1].virtual_ns || results[0].steps != results[1].steps) {
        FAIL("seed %" PRIu64 " gives traces %016" PRIx64 " and %016" PRIx64, options->seed,
             results[0].trace_hash, results[1].trace_hash);
    }
    return results[0];
}

static uint64_t choose(uint64_t *random, const uint64_t *from, size_t count)
{
    return from[test_random(random) % count];
}

#define CHOOSE(random, ...)                                                                        \
    choose((random), (const uint64_t[]){ __VA_ARGS__ },                                            \
           sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/// A network that is different for each seed; one in four has no faults.
static struct weft_sim_options bad_network(uint64_t seed)
{
    struct weft_sim_options options = { .seed = seed, .limit_steps = 2000000 };
    struct weft_sim_net *net = &options.net;
    uint64_t random = seed;
    options.carriers = 1 + (int)(test_random(&random) % 4);
    net->latency_ns = CHOOSE(&random, 0, 1, 100 * WEFT_US, 30 * WEFT_MS);
    net->jitter_ns = CHOOSE(&random, 0, 1, WEFT_MS);
    net->buffer_bytes = (uint32_t)CHOOSE(&random, 0, 100, 4096);
    if (test_random(&random) % 4 != 0) {
        net->reset_per_million = (uint32_t)CHOOSE(&random, 0, 200, 5000);
        net->short_per_million = (uint32_t)CHOOSE(&random, 0, 20000, 300000);
        net->cut_per_million = (uint32_t)CHOOSE(&random, 0, 1000, 20000);
        net->cut_ns = CHOOSE(&random, 0, WEFT_S);
        net->accept_error_per_million = (uint32_t)CHOOSE(&random, 0, 100000);
    }
    return options;
}

// An echo server and its clients.

enum { CLIENTS = 4, MOST_BYTES = 30000, MOST_AT_ONCE = 3000 };

struct client {
    weft_conn *conn;
    uint64_t random;
    size_t total;    // bytes to send
    size_t received; // and to get back
    int read_error;
    int write_error;
    bool impatient; // is cancelled in the middle
};

struct world {
    struct client clients[CLIENTS];
    weft_listener *listener;
    int serving;
};

/// Byte `at` of every stream.
static char byte_at(size_t at)
{
    return (char)(at * 7 + (at >> 8));
}

static bool is_fault(int error)
{
    // -ENOTCONN is what shutdown(2) says after a reset.
    return error == -ECONNRESET || error == -EPIPE || error == -ENOTCONN || error == -ETIMEDOUT;
}

static void check_bytes(const struct weft_slice *in, size_t at)
{
    for (size_t i = 0; i < in->size; i++) {
        if (in->data[i] != byte_at(at + i)) {
            blame("byte %zu is wrong", at + i);
            return;
        }
    }
}

static int echo(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    size_t received = 0;
    int rc;
    while ((rc = weft_conn_peek(conn, &in, 1, PATIENCE + weft_now())) > 0) {
        size_t size = in.size;
        check_bytes(&in, received);
        rc = weft_conn_write(conn, in.data, size, PATIENCE + weft_now());
        if (rc < 0) {
            break;
        }
        weft_conn_consume(conn, size);
        received += size;
    }
    EXPECT(rc == 0 || rc == -ECANCELED || is_fault(rc));
    (void)weft_conn_close(conn);
    return 0;
}

static int serve(void *arg)
{
    struct world *world = arg;
    weft_conn *conn;
    int rc;
    while ((rc = weft_accept(&conn, world->listener, WEFT_FOREVER)) == 0) {
        if (weft_go(echo, conn) < 0) {
            (void)weft_conn_close(conn);
        }
    }
    EXPECT(rc == -ECANCELED);
    EXPECT(weft_listener_close(world->listener) == 0);
    return 0;
}

static int write_all(void *arg)
{
    struct client *client = arg;
    char data[MOST_AT_ONCE];
    int rc = 0;
    for (size_t sent = 0; sent < client->total && rc == 0;) {
        size_t size = 1 + test_random(&client->random) % MOST_AT_ONCE;
        size = size < client->total - sent ? size : client->total - sent;
        for (size_t i = 0; i < size; i++) {
            data[i] = byte_at(sent + i);
        }
        rc = weft_conn_write(client->conn, data, size, PATIENCE + weft_now());
        sent += size;
    }
    if (rc == 0) {
        rc = weft_conn_finish(client->conn, PATIENCE + weft_now());
    }
    client->write_error = rc;
    return 0;
}

static int read_all(struct client *client)
{
    struct weft_slice in;
    int rc;
    while ((rc = weft_conn_peek(client->conn, &in, 1, PATIENCE + weft_now())) > 0) {
        size_t some = 1 + test_random(&client->random) % in.size;
        in.size = some;
        check_bytes(&in, client->received);
        weft_conn_consume(client->conn, some);
        client->received += some;
    }
    return rc;
}

static int talk(void *arg)
{
    struct client *client = arg;
    struct weft_scope scope;
    client->read_error = weft_dial(&client->conn, "tcp://10.0.0.1:7", NULL, PATIENCE + weft_now());
    if (client->read_error < 0) {
        return 0;
    }
    int rc = weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    EXPECT(rc == 0 && weft_scope_spawn(&scope, write_all, client) == 0);
    client->read_error = read_all(client);
    rc = weft_scope_join(&scope);
    EXPECT(rc == 0 || client->impatient);
    (void)weft_conn_close(client->conn);
    return 0;
}

/// How it went, over all seeds.
static uint64_t completed, told_so;

/// Either everything came back, or somebody was told.
static void judge(const struct client *client, uint64_t turned_away)
{
    int errors[] = { client->read_error, client->write_error };
    bool told = false;
    for (int i = 0; i < 2; i++) {
        told = told || errors[i] < 0;
        if (errors[i] < 0 && !is_fault(errors[i]) &&
            !(errors[i] == -ECANCELED && client->impatient)) {
            blame("%s says %d", i == 0 ? "reading" : "writing", errors[i]);
        }
    }
    EXPECT(client->received <= client->total);
    completed += client->received == client->total;
    told_so += told;
    if (client->received < client->total && !told) {
        EXPECT(client->received == 0 && turned_away > 0); // for lack of descriptors
    }
}

static int lowest_descriptor(void)
{
    weft_dgram *pair[2];
    EXPECT(weft_dgram_pair(pair, WEFT_ADDR_UNIXGRAM) == 0);
    int fd = weft_dgram_fd(pair[0]);
    EXPECT(weft_dgram_fd(pair[1]) == fd + 1);
    EXPECT(weft_dgram_close(pair[0]) == 0 && weft_dgram_close(pair[1]) == 0);
    return fd;
}

static int run_clients(struct world *world, uint64_t *random)
{
    weft_task *tasks[CLIENTS];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &world->clients[i];
        *client = (struct client){ .random = test_random(random) };
        client->total = test_random(random) % MOST_BYTES;
        client->impatient = test_random(random) % 8 == 0;
        EXPECT(weft_spawn(&tasks[i], talk, client, &attr) == 0);
    }
    int rc = weft_sleep(test_random(random) % (20 * WEFT_MS));
    for (int i = 0; i < CLIENTS; i++) {
        if (world->clients[i].impatient) {
            weft_task_cancel(tasks[i]);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        EXPECT(weft_join(NULL, tasks[i], WEFT_FOREVER) == 0);
    }
    return rc;
}

static int echo_world(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    struct world world = { 0 };
    struct weft_listener_stats stats;
    weft_task *server;
    int lowest = lowest_descriptor();
    EXPECT(weft_listen(&world.listener, "tcp://10.0.0.1:7", NULL) == 0);
    EXPECT(weft_spawn(&server, serve, &world, NULL) == 0);
    int rc = run_clients(&world, &random);
    weft_listener_stats(world.listener, &stats);
    weft_task_cancel(server);
    EXPECT(weft_join(NULL, server, WEFT_FOREVER) == 0);
    for (int i = 0; i < CLIENTS; i++) {
        judge(&world.clients[i], stats.shed);
    }
    // Handlers may still be waiting for their peers' last words.
    EXPECT(weft_sleep(2 * PATIENCE) == 0);
    EXPECT(lowest_descriptor() == lowest);
    return rc;
}

TEST(a_thousand_networks_deliver_every_byte_or_an_error)
{
    uint64_t seeds = test_scaled(1000);
    for (uint64_t i = 0; i < seeds; i++) {
        struct weft_sim_options options = bad_network(test_seed() + i);
        (void)run_twice(echo_world, &options, 0);
    }
    printf("%" PRIu64 " connections completed, %" PRIu64 " had errors\n", completed, told_so);
    CHECK_GT(completed, seeds);
    CHECK_GT(told_so, seeds / 10);
}

/// Prints the trace for the test below, which runs this one in another process.
TEST(the_trace_can_be_printed)
{
    struct weft_sim_options options = bad_network(test_seed());
    struct weft_sim_result result = run_twice(echo_world, &options, 0);
    dprintf(STDOUT_FILENO, "trace %016" PRIx64 "\n", result.trace_hash);
}

TEST(the_same_seed_gives_the_same_run_in_another_process)
{
    if (test_is_emulated()) {
        SKIP("the emulator cannot execute a program");
    }
    char *clutter = malloc(12345);
    struct weft_sim_options options = bad_network(test_seed());
    struct weft_sim_result result = run_twice(echo_world, &options, 0);
    CHECK_EQ(trace_of_another_process(), result.trace_hash);
    free(clutter);
}

// Numbers over a network that loses, doubles and reorders datagrams: each is sent until it is
// confirmed.

enum { NUMBERS = 20 };

static int confirm(void *arg)
{
    weft_dgram *dgram = arg;
    struct weft_addr from;
    uint32_t number, expected = 0;
    int64_t rc = 0;
    while (rc >= 0) {
        rc = weft_dgram_recv(dgram, &number, sizeof number, &from, WEFT_FOREVER);
        if (rc >= 0) {
            EXPECT(rc == sizeof number && number <= expected);
            expected += number == expected;
            rc = weft_dgram_send_to(dgram, &from, &number, sizeof number, WEFT_FOREVER);
        }
    }
    EXPECT(rc == -ECANCELED && expected == NUMBERS);
    return weft_dgram_close(dgram);
}

static int number_world(void *arg)
{
    (void)arg;
    weft_dgram *server, *client;
    weft_task *task;
    EXPECT(weft_dgram_bind(&server, "udp://10.0.0.1:9", NULL) == 0);
    EXPECT(weft_spawn(&task, confirm, server, NULL) == 0);
    EXPECT(weft_dgram_dial(&client, "udp://10.0.0.1:9", NULL, WEFT_FOREVER) == 0);
    int sent = 0;
    for (uint32_t i = 0, answer = NUMBERS; i < NUMBERS; i += answer == i) {
        EXPECT(weft_dgram_send(client, &i, sizeof i, WEFT_FOREVER) == 0);
        int64_t size = weft_dgram_recv(client, &answer, sizeof answer, NULL,
                                       weft_after(100 * WEFT_MS));
        EXPECT(size == sizeof answer || size == -ETIMEDOUT);
        sent++;
    }
    weft_task_cancel(task);
    EXPECT(weft_join(NULL, task, WEFT_FOREVER) == 0);
    EXPECT(weft_dgram_close(client) == 0);
    return sent;
}

TEST(datagrams_get_through_in_the_end)
{
    for (uint64_t i = 0; i < test_scaled(100); i++) {
        struct weft_sim_options options = { .seed = test_seed() + i, .limit_steps = 1000000 };
        options.net.loss_per_million = 300000;
        options.net.dup_per_million = 300000;
        options.net.reorder_per_million = 300000;
        options.net.cut_per_million = 10000;
        struct weft_sim_result result;
        int rc = weft_sim_run(&result, number_world, NULL, &options);
        CHECK_GE(rc, NUMBERS);
        (void)run_twice(number_world, &options, rc);
    }
}

// Failed runs.

static int hold_everything(void *arg)
{
    weft_conn *conn = *(weft_conn **)arg;
    struct weft_slice in;
    EXPECT(weft_conn_peek(conn, &in, 1, WEFT_FOREVER) > 0);
    return weft_sleep(WEFT_FOREVER); // with a buffer in its hands
}

static int stuck_world(void *arg)
{
    (void)arg;
    static weft_conn *ends[2];
    static char data[300000];
    weft_listener *listener;
    weft_dgram *pair[2], *udp;
    weft_task *task;
    EXPECT(weft_listen(&listener, "tcp://10.0.0.1:7", NULL) == 0);
    EXPECT(weft_dial(&ends[0], "tcp://10.0.0.1:7", NULL, WEFT_FOREVER) == 0);
    EXPECT(weft_accept(&ends[1], listener, WEFT_FOREVER) == 0);
    EXPECT(weft_dgram_pair(pair, WEFT_ADDR_UNIXPACKET) == 0);
    EXPECT(weft_dgram_bind(&udp, "udp://10.0.0.1:9", NULL) == 0);
    EXPECT(weft_dgram_send(pair[0], "unread", 6, WEFT_FOREVER) == 0);
    EXPECT(weft_spawn(&task, hold_everything, &ends[1], NULL) == 0);
    EXPECT(weft_conn_write(ends[0], data, sizeof data, WEFT_FOREVER) == 0);
    int rc = weft_conn_flush(ends[0], WEFT_FOREVER); // nobody reads: the run ends here
    blame("flush returned %d", rc);
    return rc;
}

TEST(a_failed_run_leaves_nothing_behind)
{
    static struct gathered logged;
    for (uint64_t i = 0; i < test_scaled(40); i++) {
        struct weft_sim_options options = { .seed = test_seed() + i, .carriers = 1 + (int)(i % 3) };
        options.log = gather_log;
        options.log_ctx = &logged;
        gathered_clear(&logged);
        (void)run_twice(stuck_world, &options, -EDEADLK);
        CHECK_LOGGED(&logged, "everyone is asleep");
        CHECK_LOGGED(&logged, "\"main\" thread, waiting, send");
    }
}
