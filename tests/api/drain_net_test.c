// drain_net_test.c - a server on the network is drained: it refuses, hangs up on the idle, and answers
// what it has begun to answer.
#include "support/conns.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include <weft.h>

static char address[WEFT_ADDR_TEXT_BYTES];
static struct weft_event listening;
static struct weft_event may_finish;

static void note_address(void *arg, const struct weft_addr *addr)
{
    (void)arg;
    weft_addr_format(addr, address, sizeof address);
    weft_event_set(&listening);
}

/// Answers each byte with a 'b' when it begins, and a 'd' when it is done.
static int handle(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    int rc;
    while ((rc = weft_conn_peek(conn, &in, 1, WEFT_FOREVER)) > 0) {
        CHECK_OK(weft_work_begin());
        weft_conn_consume(conn, 1);
        CHECK_OK(weft_conn_write(conn, "b", 1, WEFT_FOREVER));
        CHECK_OK(weft_event_wait(&may_finish, WEFT_FOREVER));
        CHECK(weft_shutting_down());
        CHECK_OK(weft_conn_write(conn, "d", 1, WEFT_FOREVER));
        weft_work_end();
    }
    CHECK_EQ(rc, -ECANCELED);
    CHECK_OK(weft_work_begin()); // what has arrived is answered, and nothing is waited for
    while (weft_conn_peek(conn, &in, 0, WEFT_FOREVER) > 0) {
        weft_conn_consume(conn, 1);
        CHECK_OK(weft_conn_write(conn, "l", 1, WEFT_FOREVER));
    }
    weft_work_end();
    CHECK_EQ(weft_conn_close(conn), 0);
    return rc;
}

static int serve(void *arg)
{
    struct weft_serve_options options = WEFT_SERVE_OPTIONS_INIT;
    options.ready = note_address;
    return weft_serve(arg, handle, &options);
}

static weft_conn *dial(void)
{
    weft_conn *conn;
    CHECK_OK(weft_dial(&conn, address, NULL, WEFT_FOREVER));
    return conn;
}

static void expect(weft_conn *conn, char byte)
{
    struct weft_slice in;
    CHECK_OK(weft_conn_peek(conn, &in, 1, WEFT_FOREVER));
    CHECK_EQ(in.data[0], byte);
    weft_conn_consume(conn, 1);
}

static void expect_end(weft_conn *conn)
{
    struct weft_slice in;
    CHECK_EQ(weft_conn_peek(conn, &in, 1, WEFT_FOREVER), 0);
    CHECK_OK(weft_conn_close(conn));
}

/// Each carrier stops listening when it gets its turn.
static void expect_refusal(void)
{
    weft_conn *conn;
    int rc;
    while ((rc = weft_dial(&conn, address, NULL, WEFT_FOREVER)) == 0) {
        CHECK_OK(weft_conn_close(conn));
    }
    CHECK(rc == -ECONNREFUSED || rc == -ECONNRESET);
}

static void drain(const char *where)
{
    weft_task *server;
    weft_conn *busy[10];
    int result;
    CHECK_OK(weft_spawn(&server, serve, (void *)(uintptr_t)where, NULL));
    CHECK_OK(weft_event_wait(&listening, WEFT_FOREVER));
    weft_conn *idle = dial();
    for (int i = 0; i < 10; i++) {
        busy[i] = dial();
        CHECK_OK(weft_conn_write(busy[i], "???", i == 0 ? 3 : 1, WEFT_FOREVER));
        expect(busy[i], 'b');
    }
    CHECK_OK(weft_work_begin()); // we are a client, and want to see the end
    CHECK_OK(weft_shutdown_request(NULL));
    expect_end(idle);
    expect_refusal(); // while they are at work
    weft_event_set(&may_finish);
    for (int i = 0; i < 10; i++) {
        expect(busy[i], 'd');
        if (i == 0) {
            expect(busy[i], 'l');
            expect(busy[i], 'l');
        }
        expect_end(busy[i]);
    }
    CHECK_OK(weft_join(&result, server, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    weft_work_end();
}

TEST_EVERYWHERE(a_tcp_server_is_drained)
{
    drain("tcp://127.0.0.1:0");
}

TEST_EVERYWHERE(a_unix_server_is_drained)
{
    drain("unix://"); // one socket for all carriers
}

// A peer that does not read keeps a close waiting, but not a shutdown that is forced.

static int stuck_peer;
static struct weft_event is_stuck;

static int close_when_forced(void *arg)
{
    static char block[100000];
    weft_conn *conn = arg;
    int rc;
    CHECK_OK(weft_work_begin());
    while ((rc = weft_conn_write(conn, block, sizeof block, weft_after(50 * WEFT_MS))) == 0) {
    }
    CHECK_EQ(rc, -ETIMEDOUT);
    weft_event_set(&is_stuck);
    CHECK_EQ(weft_event_wait(&may_finish, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_conn_close(conn), -ETIMEDOUT);
    weft_work_end();
    return 0;
}

static int leave_stuck(void *arg)
{
    (void)arg;
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    weft_task *task;
    stuck_peer = dup(weft_conn_fd(pair.far));
    CHECK_OK(stuck_peer);
    CHECK_OK(weft_conn_close(pair.far));
    struct weft_conn_limits limits = { .linger_ns = 3600 * WEFT_S };
    weft_conn_set_limits(pair.near, &limits);
    CHECK_OK(weft_spawn(&task, close_when_forced, pair.near, NULL));
    weft_task_release(task);
    CHECK_OK(weft_event_wait(&is_stuck, WEFT_FOREVER));
    CHECK_OK(weft_shutdown_request(NULL));
    CHECK_OK(weft_shutdown_request(NULL));
    return 7;
}

TEST_DRIVERS(a_forced_shutdown_does_not_wait_for_a_peer_to_read)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.grace_ns = 5 * WEFT_S;
    CHECK_EQ(weft_run(leave_stuck, NULL, &options), 7);
    close(stuck_peer);
}
