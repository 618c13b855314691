// net_sweep_test.c - packets, servers and connections that move, cancelled at every suspension point;
// and a hundred thousand sockets that leave nothing behind. conn_sweep_test.c has connections.
#include "support/conns.h"
#include "support/gather.h"
#include "support/placed.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <weft.h>

/// What was cancelled or is drained ends in the next steps.
static void await_descriptors(int before)
{
    for (int i = 0; i < 5000 && count_descriptors() != before; i++) {
        CHECK_OK(weft_sleep(WEFT_MS));
    }
    CHECK_EQ(count_descriptors(), before);
}

/// Plays with a cancel after 0, 1, 2, ... turns, until that was too late five times in a row.
static void sweep(bool (*play)(int turns, int victim), int victims)
{
    int before = count_descriptors();
    for (int victim = 0; victim < victims; victim++) {
        int most = (int)test_scaled(200);
        for (int turns = 0, misses = 0; turns < most && misses < 5; turns++) {
            misses = play(turns, victim) ? 0 : misses + 1;
        }
    }
    await_descriptors(before);
}

/// Cancels the victim after so many turns, and waits for both, who must not wait for each other for
/// ever. Returns whether the cancel came in time to be felt.
static bool cancel_one(weft_task *tasks[2], int victim, int turns)
{
    for (int i = 0; i < turns; i++) {
        CHECK_OK(weft_yield());
    }
    bool in_time = !weft_task_done(tasks[victim]);
    weft_task_cancel(tasks[victim]);
    for (int i = 0; i < 2; i++) {
        while (weft_join(NULL, tasks[i], weft_after(10 * WEFT_MS)) == -ETIMEDOUT) {
            weft_task_cancel(tasks[i]);
        }
    }
    return in_time;
}

static weft_time soon(void)
{
    return weft_after(20 * WEFT_S);
}

// Packets: each side sends numbers and receives the other's, one by one and in batches.

enum { NUMBERS = 12, BATCH = 3 };

struct packets {
    weft_dgram *listener; // NULL: dials
    weft_dgram *dgram;
};

static int send_numbers(weft_dgram *dgram)
{
    int numbers[BATCH];
    int rc = 0;
    for (int n = 0; n < NUMBERS && rc >= 0;) {
        struct weft_dgram_message batch[BATCH] = { 0 };
        for (int i = 0; i < BATCH; i++) {
            numbers[i] = n + i;
            batch[i].data = &numbers[i];
            batch[i].size = sizeof numbers[i];
        }
        rc = n % 2 == 0 ? weft_dgram_send(dgram, numbers, sizeof numbers[0], soon())
                        : weft_dgram_send_batch(dgram, batch, BATCH, soon());
        n += n % 2 == 0 ? 1 : rc > 0 ? rc : 0;
    }
    return rc < 0 ? rc : 0;
}

/// None is missing, none comes twice.
static int expect_numbers(weft_dgram *dgram)
{
    for (int n = 0; n < NUMBERS;) {
        int numbers[BATCH];
        struct weft_dgram_message batch[BATCH] = { 0 };
        for (int i = 0; i < BATCH; i++) {
            batch[i].data = &numbers[i];
            batch[i].room = sizeof numbers[i];
        }
        int64_t rc = n % 3 == 0 ? weft_dgram_recv(dgram, numbers, sizeof numbers[0], NULL, soon())
                                : weft_dgram_recv_batch(dgram, batch, BATCH, soon());
        int count = n % 3 == 0 ? 1 : (int)rc;
        if (rc <= 0 || (n % 3 != 0 && batch[0].size == 0)) {
            return rc < 0 ? (int)rc : -EPIPE; // the end
        }
        for (int i = 0; i < count && (n % 3 == 0 || batch[i].size > 0); i++) {
            CHECK_EQ(numbers[i], n + i);
        }
        n += count;
    }
    return 0;
}

static int exchange_packets(void *arg)
{
    struct packets *side = arg;
    int rc = side->listener != NULL
                 ? weft_dgram_accept(&side->dgram, side->listener, soon())
                 : weft_dgram_dial(&side->dgram, "unixpacket://@weft-net-sweep-test", NULL, soon());
    if (rc < 0) {
        return 0;
    }
    if (send_numbers(side->dgram) == 0) {
        (void)expect_numbers(side->dgram);
    }
    CHECK_OK(weft_dgram_close(side->dgram));
    return 0;
}

static bool cancel_packets(int turns, int victim)
{
    struct packets sides[2] = { { NULL, NULL }, { NULL, NULL } };
    weft_task *tasks[2];
    CHECK_OK(weft_dgram_bind(&sides[0].listener, "unixpacket://@weft-net-sweep-test", NULL));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_spawn(&tasks[i], exchange_packets, &sides[i], NULL));
    }
    bool in_time = cancel_one(tasks, victim, turns);
    CHECK_OK(weft_dgram_close(sides[0].listener));
    return in_time;
}

TEST_EVERYWHERE(packets_are_cancelled_at_every_turn)
{
    sweep(cancel_packets, 2);
}

// A connection goes to another carrier, with bytes in both directions.

enum { BYTES = 30000 };

struct move {
    struct pair pair;
    int here, there; // carriers
    int rc;
    bool moved;
};

static void check_bytes(weft_conn *conn, int count)
{
    struct weft_slice in;
    for (int n = 0; n < count;) {
        CHECK_OK(weft_conn_peek(conn, &in, 1, soon()));
        for (size_t i = 0; i < in.size; i++) {
            CHECK_EQ((unsigned char)in.data[i], (n + (int)i) % 251);
        }
        n += (int)in.size;
        weft_conn_consume(conn, in.size);
    }
}

static int finish_elsewhere(void *arg)
{
    struct move *move = arg;
    check_bytes(move->pair.near, BYTES); // what had arrived, and what came later
    return weft_conn_close(move->pair.near);
}

static int move_it(void *arg)
{
    struct move *move = arg;
    static char bytes[BYTES];
    for (int i = 0; i < BYTES; i++) {
        bytes[i] = (char)(i % 251);
    }
    move->rc = weft_conn_write(move->pair.near, bytes, sizeof bytes, soon());
    if (move->rc == 0) {
        move->rc = weft_conn_move(move->pair.near, move->there, soon());
        move->moved = move->rc == 0;
    }
    return 0;
}

static int speak_and_listen(void *arg)
{
    struct move *move = arg;
    static char bytes[BYTES];
    struct weft_slice in;
    for (int i = 0; i < BYTES; i++) {
        bytes[i] = (char)(i % 251);
    }
    CHECK_OK(weft_conn_write(move->pair.far, bytes, sizeof bytes, soon()));
    while (weft_conn_peek(move->pair.far, &in, 1, soon()) > 0) {
        weft_conn_consume(move->pair.far, in.size);
    }
    return weft_conn_close(move->pair.far);
}

static bool cancel_move(int turns, int victim)
{
    struct move move = { .pair = make_pair("tcp://127.0.0.1:0"), .here = weft_carrier_id() };
    struct weft_slice in;
    (void)victim;
    move.there = (move.here + 1) % weft_carrier_count();
    weft_task *peer = spawn_on(move.here, speak_and_listen, &move);
    CHECK_EQ(weft_conn_peek(move.pair.near, &in, 100, soon()) >= 100, true); // it is receiving
    weft_task *task = spawn_on(move.here, move_it, &move);
    for (int i = 0; i < turns; i++) {
        CHECK_OK(weft_yield());
    }
    bool in_time = !weft_task_done(task);
    weft_task_cancel(task);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK(move.rc == 0 || move.rc == -ECANCELED);
    CHECK_OK(join(spawn_on(move.moved ? move.there : move.here, finish_elsewhere, &move)));
    CHECK_OK(weft_join(NULL, peer, WEFT_FOREVER));
    return in_time;
}

TEST_EVERYWHERE(a_move_is_cancelled_at_every_turn)
{
    sweep(cancel_move, 1);
}

// A server and a client of it.

struct service {
    char address[WEFT_ADDR_TEXT_BYTES];
    struct weft_event ready;
};

static void note_address(void *arg, const struct weft_addr *addr)
{
    struct service *service = arg;
    weft_addr_format(addr, service->address, sizeof service->address);
    weft_event_set(&service->ready);
}

static int echo(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    while (weft_conn_peek(conn, &in, 1, soon()) > 0 &&
           weft_conn_write(conn, in.data, in.size, soon()) == 0) {
        weft_conn_consume(conn, in.size);
    }
    (void)weft_conn_close(conn);
    return 0;
}

static int serve(void *arg)
{
    struct service *service = arg;
    struct weft_serve_options options = WEFT_SERVE_OPTIONS_INIT;
    options.ready = note_address;
    options.arg = service;
    CHECK_EQ(weft_serve(service->address, echo, &options), -ECANCELED);
    weft_event_set(&service->ready);
    return 0;
}

static int call_service(void *arg)
{
    struct service *service = arg;
    weft_conn *conn;
    struct weft_slice in;
    if (weft_event_wait(&service->ready, WEFT_FOREVER) < 0) {
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        if (weft_dial(&conn, service->address, NULL, soon()) == 0) {
            if (weft_conn_write(conn, "ping", 4, soon()) == 0) {
                (void)!weft_conn_peek(conn, &in, 4, soon());
            }
            (void)weft_conn_close(conn);
        }
    }
    return 0;
}

static bool cancel_service(const char *address, int turns, int victim)
{
    struct service service;
    weft_task *tasks[2];
    weft_event_init(&service.ready);
    (void)snprintf(service.address, sizeof service.address, "%s", address);
    CHECK_OK(weft_spawn(&tasks[0], serve, &service, NULL));
    CHECK_OK(weft_spawn(&tasks[1], call_service, &service, NULL));
    return cancel_one(tasks, victim, turns);
}

static bool cancel_tcp(int turns, int victim)
{
    return cancel_service("tcp://127.0.0.1:0", turns, victim);
}

static bool cancel_unix(int turns, int victim)
{
    return cancel_service("unix://", turns, victim);
}

TEST_EVERYWHERE(a_tcp_server_is_cancelled_at_every_turn)
{
    sweep(cancel_tcp, 2);
}

TEST_EVERYWHERE(a_unix_server_is_cancelled_at_every_turn)
{
    sweep(cancel_unix, 2);
}

// A hundred thousand sockets, with all the ways in which a connection ends, and so few receive buffers
// that a handful that is lost would be missed.

static _Atomic int64_t blocks;

static void *alloc(void *ctx, size_t size_bytes, size_t align)
{
    (void)ctx;
    void *memory = NULL;
    align = align < sizeof(void *) ? sizeof(void *) : align;
    if (posix_memalign(&memory, align, size_bytes) != 0) {
        return NULL;
    }
    atomic_fetch_add(&blocks, 1);
    return memory;
}

static void release(void *ctx, void *memory, size_t size_bytes)
{
    (void)ctx;
    (void)size_bytes;
    atomic_fetch_sub(&blocks, 1);
    free(memory);
}

static struct pair connect_to(weft_listener *listener, const char *address)
{
    struct pair pair;
    CHECK_OK(weft_dial(&pair.near, address, NULL, soon()));
    CHECK_OK(weft_accept(&pair.far, listener, soon()));
    return pair;
}

/// Bytes are left in a buffer, in the kernel, unsent or on their way when it ends.
static void talk_and_end(struct pair pair, int way)
{
    struct weft_slice in;
    static const char bytes[5000];
    CHECK_OK(weft_conn_write(pair.near, bytes, 1000, soon()));
    CHECK_OK(weft_conn_peek(pair.far, &in, 1000, soon()));
    weft_conn_consume(pair.far, way % 2 == 0 ? 1000 : 10);
    CHECK_OK(weft_conn_write(pair.far, bytes, way % 3 == 0 ? sizeof bytes : 10, soon()));
    if (way % 5 == 0) {
        CHECK_EQ(weft_conn_peek(pair.near, &in, 6000, weft_after(1)), -ETIMEDOUT); // armed
    }
    if (way % 7 == 0) {
        CHECK_OK(weft_conn_abort(pair.near));
    }
    if (way % 11 == 0) {
        CHECK_OK(weft_conn_abort(pair.far));
    } else {
        (void)weft_conn_close(pair.far);
    }
    if (way % 7 != 0) {
        (void)weft_conn_close(pair.near);
    }
}

static int open_and_close_all(void *arg)
{
    int count = *(int *)arg;
    weft_listener *listeners[2];
    struct weft_addr addr;
    char addresses[2][WEFT_ADDR_TEXT_BYTES];
    static const char *const where[2] = { "unix://", "tcp://127.0.0.1:0" };
    int before = count_descriptors();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_listen(&listeners[i], where[i], NULL));
        CHECK_OK(weft_listener_addr(listeners[i], &addr));
        weft_addr_format(&addr, addresses[i], sizeof addresses[i]);
    }
    for (int i = 0; i < count / 2; i++) {
        int kind = i % 5 == 4; // few of TCP, whose ports stay taken for a minute
        talk_and_end(connect_to(listeners[kind], addresses[kind]), i);
    }
    CHECK_OK(weft_listener_close(listeners[0]));
    CHECK_OK(weft_listener_close(listeners[1]));
    await_descriptors(before);
    return 0;
}

TEST_DRIVERS(a_hundred_thousand_sockets_leave_no_descriptor_and_no_memory)
{
    static const struct weft_allocator allocator = { alloc, release, NULL };
    struct weft_options options = WEFT_OPTIONS_INIT;
    int count = (int)test_scaled(100000);
    options.carriers = 1;
    options.receive_buffers = 8;
    options.allocator = &allocator;
    CHECK_OK(weft_run(open_and_close_all, &count, &options));
    CHECK_EQ(atomic_load(&blocks), 0);
}
