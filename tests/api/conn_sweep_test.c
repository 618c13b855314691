// conn_sweep_test.c - connections under cancellation at every suspension point, with too few receive
// buffers, and in crowds.
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft.h>

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    CHECK(dir != NULL);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 13 + i / 253);
}

// A dialogue that uses every call that can wait. Both sides run it; either may be cancelled.

enum { PART = 3000, LARGE = 70000 };

struct side {
    weft_listener *listener; // NULL: dials
    char address[WEFT_ADDR_TEXT_BYTES];
    weft_conn *conn;
    int released, lent;
    int rc;
};

static void release(void *arg)
{
    ((struct side *)arg)->released++;
}

/// Bytes that arrive are right and in order, whatever happens to the dialogue.
static int expect_bytes(weft_conn *conn, size_t from, size_t size)
{
    struct weft_slice in;
    for (size_t done = 0; done < size;) {
        size_t want = size - done < 1000 ? size - done : 1000;
        int rc = weft_conn_peek(conn, &in, want, weft_after(20 * WEFT_S));
        if (rc <= 0) {
            return rc < 0 ? rc : -EPIPE;
        }
        for (size_t i = 0; i < want; i++) {
            CHECK_EQ((unsigned char)in.data[i], byte_at(from + done + i));
        }
        weft_conn_consume(conn, want);
        done += want;
    }
    return 0;
}

static int send_bytes(struct side *side, size_t from, size_t size)
{
    static unsigned char memory[2 * (PART + LARGE)];
    for (size_t i = 0; i < size; i++) {
        memory[from + i] = byte_at(from + i);
    }
    int rc = weft_conn_write(side->conn, memory + from, PART, weft_after(20 * WEFT_S));
    if (rc == 0) {
        rc = weft_conn_write_ref(side->conn, memory + from + PART, size - PART, release, side,
                                 weft_after(20 * WEFT_S));
        side->lent += rc == 0;
    }
    return rc;
}

static int dialogue(struct side *side)
{
    static char into[LARGE];
    int rc = side->listener != NULL
                 ? weft_accept(&side->conn, side->listener, weft_after(20 * WEFT_S))
                 : weft_dial(&side->conn, side->address, NULL, weft_after(20 * WEFT_S));
    struct weft_conn_limits limits = { .zero_copy_bytes = 20000 };
    if (rc == 0) {
        weft_conn_set_limits(side->conn, &limits);
        rc = send_bytes(side, 0, PART + LARGE);
    }
    if (rc == 0) {
        rc = weft_conn_flush(side->conn, weft_after(20 * WEFT_S));
    }
    if (rc == 0) {
        rc = expect_bytes(side->conn, 0, PART);
    }
    if (rc == 0) {
        int64_t got = weft_conn_read_into(side->conn, into, LARGE, weft_after(20 * WEFT_S));
        rc = got < 0 ? (int)got : got == LARGE ? 0 : -EPIPE;
        for (int64_t i = 0; i < got; i++) {
            CHECK_EQ((unsigned char)into[i], byte_at(PART + (size_t)i));
        }
    }
    if (rc == 0) {
        rc = weft_conn_finish(side->conn, weft_after(20 * WEFT_S));
    }
    struct weft_slice in;
    return rc == 0 ? weft_conn_peek(side->conn, &in, 1, weft_after(20 * WEFT_S)) : rc;
}

static int run_side(void *arg)
{
    struct side *side = arg;
    struct weft_conn_limits limits = { .linger_ns = 10 * WEFT_MS, .zero_copy_bytes = 20000 };
    side->rc = dialogue(side);
    if (side->conn != NULL) {
        weft_conn_set_limits(side->conn, &limits);
        (void)weft_conn_close(side->conn);
    }
    return 0;
}

/// Cancels one side after so many turns. Returns whether that came in time to be felt.
static bool cancel_after(int turns, bool the_acceptor)
{
    struct side sides[2] = { 0 };
    struct weft_addr addr;
    weft_task *tasks[2];
    weft_listener *listener;
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_listener_addr(listener, &addr));
    CHECK(weft_addr_format(&addr, sides[1].address, sizeof sides[1].address) > 0);
    sides[0].listener = listener;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_spawn_at(&tasks[i], run_side, &sides[i], NULL, __FILE__, __LINE__));
    }
    for (int i = 0; i < turns; i++) {
        CHECK_OK(weft_yield());
    }
    weft_task *victim = tasks[the_acceptor ? 0 : 1];
    bool in_time = !weft_task_done(victim);
    weft_task_cancel(victim);
    for (int i = 0; i < 2; i++) {
        // The peer of a side that was cancelled before it dialled would wait for its own deadline.
        while (weft_join(NULL, tasks[i], weft_after(20 * WEFT_MS)) == -ETIMEDOUT) {
            weft_task_cancel(tasks[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        while (sides[i].released < sides[i].lent) {
            CHECK_OK(weft_yield());
        }
        CHECK_EQ(sides[i].released, sides[i].lent);
    }
    CHECK_OK(weft_listener_close(listener));
    return in_time;
}

TEST_EVERYWHERE(a_dialogue_is_cancelled_at_every_turn)
{
    int before = descriptors();
    for (int side = 0; side < 2; side++) {
        int misses = 0;
        int most = (int)test_scaled(400);
        for (int turns = 0; turns < most && misses < 5; turns++) {
            misses = cancel_after(turns, side == 0) ? 0 : misses + 1;
        }
    }
    for (int i = 0; i < 1000 && descriptors() != before; i++) {
        CHECK_OK(weft_sleep(WEFT_MS)); // what was cancelled ends in the next steps
    }
    CHECK_EQ(descriptors(), before);
}

// Fewer receive buffers than connections that have unread bytes.

enum { CROWD = 60 };

static int hoard(void *arg)
{
    (void)arg;
    weft_listener *listener;
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    weft_conn *near[CROWD], *far[CROWD];
    struct weft_slice in;
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_listener_addr(listener, &addr));
    CHECK(weft_addr_format(&addr, text, sizeof text) > 0);
    for (int i = 0; i < CROWD; i++) {
        CHECK_OK(weft_dial(&near[i], text, NULL, WEFT_FOREVER));
        CHECK_OK(weft_accept(&far[i], listener, WEFT_FOREVER));
    }
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < CROWD; i++) {
            CHECK_OK(weft_conn_write(near[i], "0123456789", 10, WEFT_FOREVER));
        }
        for (int i = 0; i < CROWD; i++) { // those that wait for more give their buffers back
            CHECK_EQ(weft_conn_peek(far[i], &in, 11, weft_after(1)), -ETIMEDOUT);
        }
        for (int i = 0; i < CROWD; i++) {
            CHECK_EQ(weft_conn_peek(far[i], &in, 10, WEFT_FOREVER), 10);
            CHECK_EQ(memcmp(in.data, "0123456789", 10), 0);
            weft_conn_consume(far[i], 10);
        }
    }
    for (int i = 0; i < CROWD; i++) {
        CHECK_OK(weft_conn_close(near[i]));
        CHECK_OK(weft_conn_close(far[i]));
    }
    return weft_listener_close(listener);
}

TEST_DRIVERS(a_crowd_shares_few_buffers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    options.receive_buffers = 8;
    CHECK_OK(weft_run(hoard, NULL, &options));
}

// Many connections at once; the peers are another process, with descriptors of its own.

struct crowd {
    int pipe[2]; // carries the address to the peers
    weft_listener *listener;
    char address[WEFT_ADDR_TEXT_BYTES];
    int count;
    int served;
    int open;
};

static int serve_one(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    int rc;
    while ((rc = weft_conn_peek(conn, &in, 4, WEFT_FOREVER)) > 0) {
        CHECK_OK(weft_conn_write(conn, in.data, in.size, WEFT_FOREVER));
        weft_conn_consume(conn, in.size);
    }
    CHECK_EQ(rc, 0);
    return weft_conn_close(conn);
}

static int server_main(void *arg)
{
    struct crowd *crowd = arg;
    struct weft_scope scope;
    struct weft_addr addr;
    int before = descriptors();
    CHECK_OK(weft_listen(&crowd->listener, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_listener_addr(crowd->listener, &addr));
    CHECK(weft_addr_format(&addr, crowd->address, sizeof crowd->address) > 0);
    CHECK_EQ(write(crowd->pipe[1], crowd->address, sizeof crowd->address), sizeof crowd->address);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < crowd->count; i++) {
        weft_conn *conn;
        CHECK_OK(weft_accept(&conn, crowd->listener, WEFT_FOREVER));
        CHECK_OK(weft_scope_spawn(&scope, serve_one, conn));
    }
    CHECK_OK(weft_scope_join(&scope));
    CHECK_OK(weft_listener_close(crowd->listener));
    for (int i = 0; i < 1000 && descriptors() != before; i++) {
        CHECK_OK(weft_sleep(WEFT_MS));
    }
    CHECK_EQ(descriptors(), before);
    return 0;
}

static int one_of_many(void *arg)
{
    struct crowd *crowd = arg;
    weft_conn *conn;
    struct weft_slice in;
    CHECK_OK(weft_dial(&conn, crowd->address, NULL, WEFT_FOREVER));
    crowd->open++;
    while (crowd->open < crowd->count) { // all of them are connected at once
        CHECK_OK(weft_sleep(20 * WEFT_MS));
    }
    CHECK_OK(weft_conn_write(conn, "ping", 4, WEFT_FOREVER));
    CHECK_EQ(weft_conn_peek(conn, &in, 4, WEFT_FOREVER), 4);
    weft_conn_consume(conn, 4);
    crowd->served++;
    return weft_conn_close(conn);
}

static int peers_main(void *arg)
{
    struct crowd *crowd = arg;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < crowd->count; i++) {
        CHECK_OK(weft_scope_spawn(&scope, one_of_many, crowd));
    }
    CHECK_OK(weft_scope_join(&scope));
    CHECK_EQ(crowd->served, crowd->count);
    return 0;
}

TEST_DRIVERS(ten_thousand_connections_at_once)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    struct crowd crowd = { .count = test_is_slow() ? 1000 : 10000 };
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < (rlim_t)crowd.count + 100) {
        SKIP("RLIMIT_NOFILE is too low");
    }
    if (test_is_emulated()) {
        SKIP("qemu-user makes no threads in a forked child");
    }
    CHECK_EQ(pipe(crowd.pipe), 0);
    options.carriers = 1;
    pid_t peers = fork();
    CHECK(peers >= 0);
    if (peers == 0) {
        CHECK_EQ(read(crowd.pipe[0], crowd.address, sizeof crowd.address), sizeof crowd.address);
        exit(weft_run(peers_main, &crowd, &options) == 0 ? 0 : 1);
    }
    CHECK_OK(weft_run(server_main, &crowd, &options));
    int status;
    CHECK_EQ(waitpid(peers, &status, 0), peers);
    CHECK_EQ(status, 0);
}
