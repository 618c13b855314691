// conn_test.c - connections: lending, consuming, writing, limits, ends and errors.
#include "support/conns.h"

#include <errno.h>
#include <string.h>

#include <weft.h>

/// Reads exactly this text.
static void expect(weft_conn *conn, const char *text)
{
    struct weft_slice in;
    size_t size = strlen(text);
    CHECK(weft_conn_peek(conn, &in, size, WEFT_FOREVER) >= (int)size);
    CHECK_EQ(memcmp(in.data, text, size), 0);
    weft_conn_consume(conn, size);
}

TEST_EVERYWHERE(bytes_arrive)
{
    struct pair pair = tcp();
    put(pair.near, "hello ");
    put(pair.near, "world");
    expect(pair.far, "hello world");
    put(pair.far, "bye");
    expect(pair.near, "bye");
    close_pair(pair);
}

TEST_EVERYWHERE(unix_sockets_too)
{
    struct pair pair = make_pair("unix://");
    put(pair.near, "over unix");
    expect(pair.far, "over unix");
    close_pair(pair);
}

TEST_EVERYWHERE(what_is_not_consumed_comes_again)
{
    struct pair pair = tcp();
    struct weft_slice in;
    put(pair.near, "abcdef");
    CHECK_EQ(weft_conn_peek(pair.far, &in, 6, WEFT_FOREVER), 6);
    weft_conn_consume(pair.far, 2);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 4);
    CHECK_EQ(memcmp(in.data, "cdef", 4), 0);
    put(pair.near, "ghi");
    CHECK_EQ(weft_conn_peek(pair.far, &in, 7, WEFT_FOREVER), 7);
    CHECK_EQ(memcmp(in.data, "cdefghi", 7), 0);
    weft_conn_consume(pair.far, 7);
    close_pair(pair);
}

TEST_EVERYWHERE(the_end_is_zero)
{
    struct pair pair = tcp();
    struct weft_slice in;
    put(pair.near, "xy");
    CHECK_OK(weft_conn_close(pair.near));
    CHECK_EQ(weft_conn_peek(pair.far, &in, 2, WEFT_FOREVER), 2);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 3, WEFT_FOREVER), -ENODATA);
    CHECK_EQ(in.size, 2);
    weft_conn_consume(pair.far, 2);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 0);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 0);
    CHECK_OK(weft_conn_close(pair.far));
}

TEST_EVERYWHERE(half_close_leaves_the_other_way_open)
{
    struct pair pair = tcp();
    struct weft_slice in;
    put(pair.near, "question");
    CHECK_OK(weft_conn_finish(pair.near, WEFT_FOREVER));
    CHECK_EQ(weft_conn_write(pair.near, "x", 1, WEFT_FOREVER), -EPIPE);
    expect(pair.far, "question");
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 0);
    put(pair.far, "answer");
    expect(pair.near, "answer");
    close_pair(pair);
}

TEST_EVERYWHERE(a_peek_above_the_limit_is_refused)
{
    struct pair pair = tcp();
    struct weft_slice in;
    struct weft_conn_limits limits = { .frame_bytes = 100 };
    weft_conn_set_limits(pair.far, &limits);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 101, WEFT_FOREVER), -EMSGSIZE);
    close_pair(pair);
}

TEST_EVERYWHERE(a_peek_for_nothing_does_not_wait)
{
    struct pair pair = tcp();
    struct weft_slice in;
    CHECK_EQ(weft_conn_peek(pair.far, &in, 0, WEFT_FOREVER), -EAGAIN);
    put(pair.near, "z");
    CHECK_OK(weft_conn_flush(pair.near, WEFT_FOREVER));
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 0, WEFT_FOREVER), 1);
    weft_conn_consume(pair.far, 1);
    CHECK_OK(weft_conn_close(pair.near));
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 0);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 0, WEFT_FOREVER), 0);
    CHECK_OK(weft_conn_close(pair.far));
}

static int peek_when_cancelled(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    struct weft_scope shield;
    char byte;
    CHECK_EQ(weft_conn_peek(conn, &in, 1, WEFT_FOREVER), 4);
    weft_task_cancel(weft_self());
    CHECK_EQ(weft_conn_peek(conn, &in, 1, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_conn_peek(conn, &in, 0, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_conn_read_into(conn, &byte, 1, WEFT_FOREVER), -ECANCELED);
    CHECK_OK(weft_scope_init(&shield, WEFT_SCOPE_COLLECT | WEFT_SCOPE_SHIELD, WEFT_FOREVER));
    CHECK_EQ(weft_conn_peek(conn, &in, 1, WEFT_FOREVER), 4);
    CHECK_EQ(memcmp(in.data, "kept", 4), 0);
    CHECK_OK(weft_scope_join(&shield));
    return 0;
}

// Or a peer that keeps sending could keep it from ending.
TEST_EVERYWHERE(a_cancelled_task_takes_nothing_and_loses_nothing)
{
    struct pair pair = tcp();
    weft_task *task;
    put(pair.near, "kept");
    CHECK_OK(weft_spawn_at(&task, peek_when_cancelled, pair.far, NULL, __FILE__, __LINE__));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    expect(pair.far, "kept");
    close_pair(pair);
}

TEST_EVERYWHERE(a_deadline_loses_nothing)
{
    struct pair pair = tcp();
    struct weft_slice in;
    put(pair.near, "par");
    CHECK_EQ(weft_conn_peek(pair.far, &in, 4, weft_after(5 * WEFT_MS)), -ETIMEDOUT);
    put(pair.near, "tial");
    expect(pair.far, "partial");
    close_pair(pair);
}

// A stream of numbers that both sides can compute.

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 7 + i / 251);
}

struct stream {
    weft_conn *conn;
    size_t size;
    size_t part; // 0: drawn
};

static int send_stream(void *arg)
{
    struct stream *stream = arg;
    unsigned char block[30000];
    uint64_t random = 42;
    for (size_t sent = 0; sent < stream->size;) {
        size_t part = stream->part != 0 ? stream->part : 1 + test_random(&random) % sizeof block;
        part = part < stream->size - sent ? part : stream->size - sent;
        for (size_t i = 0; i < part; i++) {
            block[i] = byte_at(sent + i);
        }
        CHECK_OK(weft_conn_write(stream->conn, block, part, WEFT_FOREVER));
        sent += part;
    }
    return weft_conn_finish(stream->conn, WEFT_FOREVER);
}

TEST_EVERYWHERE(frames_span_buffers)
{
    struct pair pair = tcp();
    struct stream stream = { pair.near, 400000, 0 };
    struct weft_scope scope;
    struct weft_slice in;
    uint64_t random = 7;
    size_t got = 0;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, send_stream, &stream));
    while (got < stream.size) {
        size_t want = 1 + test_random(&random) % 50000;
        want = want < stream.size - got ? want : stream.size - got;
        CHECK(weft_conn_peek(pair.far, &in, want, WEFT_FOREVER) >= (int)want);
        for (size_t i = 0; i < want; i++) {
            CHECK_EQ((unsigned char)in.data[i], byte_at(got + i));
        }
        weft_conn_consume(pair.far, want);
        got += want;
    }
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 0);
    CHECK_OK(weft_scope_join(&scope));
    close_pair(pair);
}

TEST_EVERYWHERE(read_into_fills_large_memory)
{
    enum { SIZE = 1000000 };
    static unsigned char memory[SIZE];
    struct pair pair = tcp();
    struct stream stream = { pair.near, SIZE, 0 };
    struct weft_scope scope;
    struct weft_slice in;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, send_stream, &stream));
    CHECK(weft_conn_peek(pair.far, &in, 10, WEFT_FOREVER) >=
          10); // a multishot receive is armed now
    CHECK_EQ(weft_conn_read_into(pair.far, memory, 5, WEFT_FOREVER), 5);
    CHECK_EQ(weft_conn_read_into(pair.far, memory + 5, SIZE - 105, WEFT_FOREVER), SIZE - 105);
    CHECK(weft_conn_peek(pair.far, &in, 100, WEFT_FOREVER) >= 100); // and again
    CHECK_EQ(weft_conn_read_into(pair.far, memory + SIZE - 100, 1000, WEFT_FOREVER), 100);
    CHECK_EQ(weft_conn_read_into(pair.far, memory, 1000, WEFT_FOREVER), 0);
    for (size_t i = 0; i < SIZE; i++) {
        CHECK_EQ(memory[i], byte_at(i));
    }
    CHECK_OK(weft_scope_join(&scope));
    close_pair(pair);
}

TEST_EVERYWHERE(read_into_gives_what_it_has_when_interrupted)
{
    struct pair pair = tcp();
    static char memory[100000];
    put(pair.near, "some");
    CHECK_EQ(weft_conn_read_into(pair.far, memory, sizeof memory, weft_after(20 * WEFT_MS)), 4);
    CHECK_EQ(weft_conn_read_into(pair.far, memory, sizeof memory, weft_after(1)), -ETIMEDOUT);
    put(pair.near, "more");
    expect(pair.far, "more");
    close_pair(pair);
}

/// Writes until the other side's unread bytes fill everything up.
static int fill_up(weft_conn *conn, const void *block, size_t size)
{
    int rc;
    while ((rc = weft_conn_write(conn, block, size, weft_after(30 * WEFT_MS))) == 0) {
    }
    return rc;
}

TEST_EVERYWHERE(a_slow_reader_makes_writers_wait)
{
    static char block[60000];
    struct pair pair = tcp();
    struct weft_conn_limits limits = { .output_bytes = 100000, .linger_ns = 10 * WEFT_MS };
    weft_conn_set_limits(pair.near, &limits);
    CHECK_EQ(fill_up(pair.near, block, sizeof block), -ETIMEDOUT);
    CHECK_EQ(weft_conn_flush(pair.near, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_conn_close(pair.near), -ETIMEDOUT); // nobody reads: it does not wait for ever
    CHECK_OK(weft_conn_close(pair.far));
}

static void count_release(void *arg)
{
    ++*(int *)arg;
}

TEST_EVERYWHERE(references_are_released_once)
{
    enum { SIZE = 300000 };
    static unsigned char bytes[SIZE], got[SIZE];
    struct pair pair = tcp();
    struct weft_conn_limits limits = { .zero_copy_bytes = 20000 };
    int released = 0;
    weft_conn_set_limits(pair.near, &limits);
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = byte_at(i);
    }
    put(pair.near, "<");
    CHECK_OK(weft_conn_write_ref(pair.near, bytes, 1000, count_release, &released, WEFT_FOREVER));
    CHECK_OK(weft_conn_write_ref(pair.near, bytes + 1000, SIZE - 1000, count_release, &released,
                                 WEFT_FOREVER));
    put(pair.near, ">");
    CHECK_OK(weft_conn_write_ref(pair.near, bytes, 0, count_release, &released, WEFT_FOREVER));
    expect(pair.far, "<");
    CHECK_EQ(weft_conn_read_into(pair.far, got, SIZE, WEFT_FOREVER), SIZE);
    expect(pair.far, ">");
    CHECK_EQ(memcmp(bytes, got, SIZE), 0);
    CHECK_OK(weft_conn_flush(pair.near, WEFT_FOREVER));
    close_pair(pair);
    while (released < 3) { // the kernel lets go of large ones a little later
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(released, 3);
}

TEST_EVERYWHERE(references_are_released_when_it_breaks)
{
    static char bytes[40000000]; // more than socket buffers grow to
    struct pair pair = tcp();
    struct weft_conn_limits limits = { .zero_copy_bytes = 20000 };
    int released = 0;
    weft_conn_set_limits(pair.near, &limits);
    CHECK_OK(weft_conn_write_ref(pair.near, bytes, sizeof bytes, count_release, &released,
                                 WEFT_FOREVER));
    CHECK_EQ(weft_conn_flush(pair.near, weft_after(5 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(released, 0);
    CHECK_OK(weft_conn_abort(pair.near));
    CHECK_OK(weft_conn_abort(pair.far));
    while (released == 0) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(released, 1);
}

TEST_EVERYWHERE(a_reset_shows_on_both_halves)
{
    struct pair pair = tcp();
    struct weft_slice in;
    put(pair.near, "unread");
    CHECK_OK(weft_conn_flush(pair.near, WEFT_FOREVER));
    CHECK_EQ(weft_conn_peek(pair.far, &in, 6, WEFT_FOREVER), 6);
    CHECK_OK(weft_conn_abort(pair.far));
    CHECK_EQ(weft_conn_peek(pair.near, &in, 1, WEFT_FOREVER), -ECONNRESET);
    int rc = 0;
    while (rc == 0) { // what goes wrong shows in a later call
        rc = weft_conn_write(pair.near, "x", 1, WEFT_FOREVER);
        rc = rc == 0 ? weft_conn_flush(pair.near, WEFT_FOREVER) : rc;
    }
    CHECK(rc == -EPIPE || rc == -ECONNRESET);
    CHECK(weft_conn_close(pair.near) < 0);
}

// Two tasks on one connection.

struct wait_arg {
    weft_conn *conn;
    int rc;
};

static int peek_one(void *arg)
{
    struct wait_arg *wait = arg;
    struct weft_slice in;
    wait->rc = weft_conn_peek(wait->conn, &in, 1, WEFT_FOREVER);
    return 0;
}

TEST_EVERYWHERE(a_second_reader_is_busy_and_close_ends_the_first)
{
    struct pair pair = tcp();
    struct wait_arg wait = { pair.far, 0 };
    struct weft_scope scope;
    struct weft_slice in;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, peek_one, &wait));
    CHECK_OK(weft_yield());
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), -EBUSY);
    CHECK_OK(weft_conn_close(pair.far));
    CHECK_OK(weft_scope_join(&scope));
    CHECK_EQ(wait.rc, -EBADF);
    CHECK_OK(weft_conn_close(pair.near));
}

TEST_EVERYWHERE(a_cancelled_reader_leaves_the_connection_whole)
{
    struct pair pair = tcp();
    struct wait_arg wait = { pair.far, 0 };
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, peek_one, &wait));
    CHECK_OK(weft_yield());
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_EQ(wait.rc, -ECANCELED);
    put(pair.near, "later");
    expect(pair.far, "later");
    close_pair(pair);
}

// Moving.

static int use_there(void *arg)
{
    weft_conn *conn = arg;
    expect(conn, "for the other carrier");
    put(conn, "from there");
    return weft_conn_close(conn);
}

TEST_EVERYWHERE(a_connection_moves)
{
    struct pair pair = tcp();
    struct weft_slice in;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    put(pair.near, "for the other carrier");
    CHECK(weft_conn_peek(pair.far, &in, 3, WEFT_FOREVER) >= 3);
    int there = (weft_carrier_id() + 1) % weft_carrier_count();
    CHECK_EQ(weft_conn_move(pair.far, weft_carrier_count(), WEFT_FOREVER), -EINVAL);
    CHECK_OK(weft_conn_move(pair.far, there, WEFT_FOREVER));
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_conn_close(pair.far), -EXDEV);
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = there;
    CHECK_OK(weft_spawn_at(&task, use_there, pair.far, &attr, __FILE__, __LINE__));
    expect(pair.near, "from there");
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_OK(weft_conn_close(pair.near));
}

TEST(outside_a_task_nothing_happens)
{
    weft_conn *conn;
    weft_listener *listener;
    CHECK_EQ(weft_listen(&listener, "tcp://127.0.0.1:0", NULL), -EPERM);
    CHECK_EQ(weft_dial(&conn, "tcp://127.0.0.1:1", NULL, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_conn_adopt(&conn, 0), -EPERM);
    CHECK_OK(weft_conn_close(NULL));
    CHECK_OK(weft_listener_close(NULL));
}
