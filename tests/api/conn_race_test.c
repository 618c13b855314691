// conn_race_test.c - several tasks on one connection or listener: closing, aborting and moving under
// those who are inside, and what a sender that is not read may cost.
#include "support/conns.h"
#include "support/placed.h"

#include <errno.h>
#include <string.h>

#include <weft.h>

struct inside {
    weft_conn *conn;
    int64_t rc;
    int calls;
};

static int read_much(void *arg)
{
    static char memory[1 << 20];
    struct inside *inside = arg;
    inside->rc = weft_conn_read_into(inside->conn, memory, sizeof memory, WEFT_FOREVER);
    return 0;
}

static int write_much(void *arg)
{
    static char memory[100000];
    struct inside *inside = arg;
    do {
        inside->rc = weft_conn_write(inside->conn, memory, sizeof memory, WEFT_FOREVER);
        inside->calls++;
    } while (inside->rc == 0);
    return 0;
}

static int peek_often(void *arg)
{
    struct inside *inside = arg;
    struct weft_slice in;
    do { // runs through its budget and yields in the middle of a call
        inside->rc = weft_conn_peek(inside->conn, &in, 1, WEFT_FOREVER);
        inside->calls++;
    } while (inside->rc > 0);
    return 0;
}

static int close_it(void *arg)
{
    struct inside *inside = arg;
    inside->rc = weft_conn_close(inside->conn);
    return 0;
}

static weft_task *start(weft_fn fn, struct inside *inside)
{
    weft_task *task = spawn_on(weft_carrier_id(), fn, inside); // where the connection is
    CHECK_OK(weft_yield());
    return task;
}

TEST_EVERYWHERE(a_large_read_is_alone_and_ends_with_the_connection)
{
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct inside inside = { .conn = pair.far };
    struct weft_slice in;
    char byte;
    weft_task *task = start(read_much, &inside);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), -EBUSY);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 0, WEFT_FOREVER), -EBUSY);
    CHECK_EQ(weft_conn_read_into(pair.far, &byte, 1, WEFT_FOREVER), -EBUSY);
    CHECK_EQ(weft_conn_move(pair.far, 1, WEFT_FOREVER), -EBUSY);
    CHECK_OK(weft_conn_close(pair.far));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(inside.rc, -EBADF);
    CHECK_OK(weft_conn_close(pair.near));
}

TEST_EVERYWHERE(a_call_that_yields_survives_a_close)
{
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct inside inside = { .conn = pair.far };
    CHECK_OK(weft_conn_write(pair.near, "x", 1, WEFT_FOREVER));
    weft_task *task = start(peek_often, &inside);
    while (inside.calls < 300) {
        CHECK_OK(weft_sleep(WEFT_MS));
    }
    CHECK_OK(weft_conn_close(pair.far));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(inside.rc, -EBADF);
    CHECK_OK(weft_conn_close(pair.near));
}

/// Until the writer waits for a reader that does not read: it makes no more calls.
static void await_full(const struct inside *writer)
{
    int before;
    do {
        before = writer->calls;
        CHECK_OK(weft_sleep(50 * WEFT_MS));
    } while (writer->calls != before);
}

TEST_EVERYWHERE(closing_sends_what_a_waiting_writer_had_queued)
{
    static char sink[100000];
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct inside writer = { .conn = pair.near };
    struct inside closer = { .conn = pair.near };
    weft_task *writing = start(write_much, &writer);
    await_full(&writer);
    weft_task *closing = start(close_it, &closer);
    int64_t got, sum = 0;
    while ((got = weft_conn_read_into(pair.far, sink, sizeof sink, WEFT_FOREVER)) > 0) {
        sum += got;
    }
    CHECK_EQ(got, 0);
    CHECK_OK(weft_join(NULL, writing, WEFT_FOREVER));
    CHECK_OK(weft_join(NULL, closing, WEFT_FOREVER));
    CHECK_EQ(writer.rc, -EBADF);
    CHECK_OK(closer.rc);
    CHECK_EQ(sum, (int64_t)(writer.calls - 1) * 100000);
    CHECK_OK(weft_conn_close(pair.far));
}

TEST_EVERYWHERE(an_abort_ends_a_lingering_close)
{
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct weft_conn_limits limits = { .linger_ns = 3600 * WEFT_S };
    struct inside writer = { .conn = pair.near };
    struct inside closer = { .conn = pair.near };
    weft_conn_set_limits(pair.near, &limits);
    weft_task *writing = start(write_much, &writer);
    await_full(&writer);
    weft_task *closing = start(close_it, &closer);
    CHECK_EQ(weft_conn_close(pair.near), -EBADF);
    CHECK_OK(weft_conn_abort(pair.near));
    CHECK_OK(weft_join(NULL, writing, WEFT_FOREVER));
    CHECK_OK(weft_join(NULL, closing, WEFT_FOREVER));
    CHECK_EQ(closer.rc, -ECONNABORTED);
    CHECK_OK(weft_conn_close(pair.far));
}

static int move_it(void *arg)
{
    struct inside *inside = arg;
    inside->rc = weft_conn_move(inside->conn, 1, WEFT_FOREVER);
    return 0;
}

TEST_EVERYWHERE(a_close_ends_a_move_that_waits)
{
    static char sink[100000];
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct inside mover = { .conn = pair.near };
    struct inside closer = { .conn = pair.near };
    int rc = 0;
    uint64_t sent = 0, sum = 0;
    int64_t got;
    while (rc == 0) {
        rc = weft_conn_write(pair.near, sink, sizeof sink, weft_after(50 * WEFT_MS));
        sent += rc == 0 ? sizeof sink : 0;
    }
    CHECK_EQ(rc, -ETIMEDOUT);
    weft_task *moving = start(move_it, &mover);
    weft_task *closing = start(close_it, &closer);
    CHECK_OK(weft_join(NULL, moving, WEFT_FOREVER));
    CHECK_EQ(mover.rc, -EBADF);
    while ((got = weft_conn_read_into(pair.far, sink, sizeof sink, WEFT_FOREVER)) > 0) {
        sum += (uint64_t)got;
    }
    CHECK_EQ(got, 0);
    CHECK_EQ(sum, sent); // closing has sent what was queued
    CHECK_OK(weft_join(NULL, closing, WEFT_FOREVER));
    CHECK_OK(closer.rc);
    CHECK_OK(weft_conn_close(pair.far));
}

TEST_EVERYWHERE(a_reference_needs_no_release)
{
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct weft_slice in;
    CHECK_OK(weft_conn_write_ref(pair.near, "constant", 8, NULL, NULL, WEFT_FOREVER));
    CHECK_OK(weft_conn_write_ref(pair.near, "", 0, NULL, NULL, WEFT_FOREVER));
    CHECK_OK(weft_conn_write(pair.near, " copy", 5, WEFT_FOREVER));
    CHECK_EQ(weft_conn_peek(pair.far, &in, 13, WEFT_FOREVER), 13);
    CHECK_EQ(memcmp(in.data, "constant copy", 13), 0);
    CHECK_OK(weft_conn_close(pair.near));
    CHECK_OK(weft_conn_close(pair.far));
}

// A peer that sends and is not read is made to wait, also when receive buffers are short.

enum { HOARDERS = 20 };

static int flood(void *arg)
{
    (void)arg;
    static char block[100000];
    struct pair idle[HOARDERS];
    struct weft_slice in;
    for (int i = 0; i < HOARDERS; i++) { // hold every buffer they can get
        idle[i] = make_pair("tcp://127.0.0.1:0");
        CHECK_OK(weft_conn_write(idle[i].near, "some", 4, WEFT_FOREVER));
        CHECK_EQ(weft_conn_peek(idle[i].far, &in, 4, WEFT_FOREVER), 4);
    }
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct weft_conn_limits limits = { .linger_ns = WEFT_MS };
    CHECK_OK(weft_conn_write(pair.near, "first", 5, WEFT_FOREVER));
    CHECK_EQ(weft_conn_peek(pair.far, &in, 5, WEFT_FOREVER), 5);
    int rc = 0;
    uint64_t sent = 0;
    while (rc == 0 && sent < (UINT64_C(256) << 20)) { // the far side holds its slice meanwhile
        rc = weft_conn_write(pair.near, block, sizeof block, weft_after(200 * WEFT_MS));
        sent += sizeof block;
    }
    CHECK_EQ(rc, -ETIMEDOUT);
    CHECK_EQ(memcmp(in.data, "first", 5), 0);
    weft_conn_set_limits(pair.near, &limits);
    (void)weft_conn_close(pair.near);
    CHECK_OK(weft_conn_close(pair.far));
    for (int i = 0; i < HOARDERS; i++) {
        CHECK_OK(weft_conn_close(idle[i].near));
        CHECK_OK(weft_conn_close(idle[i].far));
    }
    return 0;
}

TEST_DRIVERS(a_flood_is_held_back_when_buffers_are_short)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    options.receive_buffers = 8;
    CHECK_OK(weft_run(flood, NULL, &options));
}

// Listeners.

struct accepting {
    weft_listener *listener;
    int rc;
};

static int accept_until_closed(void *arg)
{
    struct accepting *accepting = arg;
    weft_conn *conn;
    while ((accepting->rc = weft_accept(&conn, accepting->listener, weft_after(1))) ==
           -ETIMEDOUT) { // runs through its budget
    }
    return 0;
}

TEST_EVERYWHERE(an_accept_that_yields_survives_a_close)
{
    struct accepting accepting = { 0 };
    weft_task *task;
    CHECK_OK(weft_listen(&accepting.listener, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_spawn_at(&task, accept_until_closed, &accepting, NULL, __FILE__, __LINE__));
    CHECK_OK(weft_sleep(20 * WEFT_MS));
    CHECK_OK(weft_listener_close(accepting.listener));
    int rc;
    while ((rc = weft_join(NULL, task, weft_after(WEFT_S))) == -ETIMEDOUT) {
        CHECK(!"the accept does not end");
    }
    CHECK_OK(rc);
    CHECK_EQ(accepting.rc, -EBADF);
}
