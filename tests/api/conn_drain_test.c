// conn_drain_test.c - closing a connection whose peer has said more than was read.
#include "support/conns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft.h>

enum { REQUEST = 100, JUNK = 50000, REPLY_MOST = 200000 };

/// Closing waits until all is with the kernel, and a simulated one takes less.
static int reply_bytes(void)
{
    return test_driver() == TEST_DRIVER_SIM ? 20000 : REPLY_MOST;
}

/// Room for the whole reply on the server's side and for little of it on the client's, so that most of
/// it is still under way when the connection is closed.
static void narrow(struct pair *pair)
{
    int little = 90000, much = 2 * REPLY_MOST; // less is slow: it holds no segment of loopback's
    if (test_driver() == TEST_DRIVER_SIM) {
        return;
    }
    CHECK_OK(setsockopt(weft_conn_fd(pair->near), SOL_SOCKET, SO_RCVBUF, &little, sizeof little));
    CHECK_OK(setsockopt(weft_conn_fd(pair->far), SOL_SOCKET, SO_SNDBUF, &much, sizeof much));
}

static void check_reply(weft_conn *conn)
{
    static char reply[REPLY_MOST + 1];
    int size = reply_bytes();
    CHECK_EQ(weft_conn_read_into(conn, reply, sizeof reply, WEFT_FOREVER), size);
    for (int i = 0; i < size; i++) {
        CHECK_EQ(reply[i], (char)(i % 251));
    }
    CHECK_EQ(weft_conn_read_into(conn, reply, 1, WEFT_FOREVER), 0);
}

static void answer(weft_conn *conn)
{
    static char reply[REPLY_MOST];
    int size = reply_bytes();
    for (int i = 0; i < size; i++) {
        reply[i] = (char)(i % 251);
    }
    CHECK_OK(weft_conn_write(conn, reply, (size_t)size, WEFT_FOREVER));
}

static void say(weft_conn *conn, size_t size)
{
    static const char bytes[JUNK];
    CHECK_OK(weft_conn_write(conn, bytes, size, WEFT_FOREVER));
    CHECK_OK(weft_conn_flush(conn, WEFT_FOREVER));
}

/// Reads one request and leaves what came along.
static void take_request(weft_conn *conn)
{
    struct weft_slice in;
    CHECK(weft_conn_peek(conn, &in, REQUEST, WEFT_FOREVER) >= REQUEST);
    weft_conn_consume(conn, REQUEST);
}

TEST_EVERYWHERE(a_reply_survives_requests_that_nobody_reads)
{
    for (int i = 0; i < 10; i++) {
        struct pair pair = make_pair("tcp://127.0.0.1:0");
        narrow(&pair);
        say(pair.near, 2 * REQUEST + JUNK / 2);
        take_request(pair.far);
        answer(pair.far);
        CHECK_OK(weft_conn_close(pair.far));
        check_reply(pair.near);
        CHECK_OK(weft_conn_close(pair.near));
    }
}

// The peer goes on after the close: it has not seen our end yet.
TEST_EVERYWHERE(a_reply_survives_a_peer_that_keeps_sending)
{
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    narrow(&pair);
    say(pair.near, 2 * REQUEST);
    take_request(pair.far);
    answer(pair.far);
    CHECK_OK(weft_conn_close(pair.far));
    for (int i = 0; i < 20; i++) {
        say(pair.near, JUNK);
    }
    check_reply(pair.near);
    CHECK_OK(weft_conn_close(pair.near));
}

static int read_much(void *arg)
{
    static char memory[1 << 20];
    return (int)weft_conn_read_into(arg, memory, sizeof memory, WEFT_FOREVER);
}

/// Waits until all that was said has been received; a simulated network is given time.
static void await_received(const struct pair *pair)
{
    int sent = 1, unread = 1;
    if (test_driver() == TEST_DRIVER_SIM) {
        CHECK_OK(weft_sleep(60 * WEFT_S));
        return;
    }
    while (sent > 0 || unread > 0) {
        CHECK_OK(ioctl(weft_conn_fd(pair->near), SIOCOUTQ, &sent));
        CHECK_OK(ioctl(weft_conn_fd(pair->far), FIONREAD, &unread));
        CHECK_OK(weft_sleep(WEFT_MS));
    }
}

// Another task receives into memory of its own; it leaves before what follows is dropped.
TEST_EVERYWHERE(a_reader_leaves_a_connection_that_drains)
{
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    weft_task *reader;
    int rc;
    narrow(&pair);
    CHECK_OK(weft_spawn_at(&reader, read_much, pair.far, NULL, __FILE__, __LINE__));
    CHECK_OK(weft_yield());
    say(pair.near, JUNK);
    await_received(&pair);
    answer(pair.far);
    CHECK_OK(weft_conn_close(pair.far));
    CHECK_OK(weft_join(&rc, reader, WEFT_FOREVER));
    CHECK_EQ(rc, -EBADF);
    say(pair.near, JUNK);
    check_reply(pair.near);
    CHECK_OK(weft_conn_close(pair.near));
}

/// Whether the peer is told that nobody reads any more, sooner or later.
static int send_until_refused(weft_conn *conn, uint64_t most)
{
    static const char block[JUNK];
    int rc = 0;
    for (uint64_t sent = 0; rc == 0 && sent < most; sent += sizeof block) {
        rc = weft_conn_write(conn, block, sizeof block, weft_after(30 * WEFT_S));
        rc = rc == 0 ? weft_conn_flush(conn, weft_after(30 * WEFT_S)) : rc;
    }
    return rc;
}

TEST_EVERYWHERE(a_peer_that_never_stops_is_not_listened_to_for_ever)
{
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct weft_conn_limits limits = { .discard_ns = WEFT_FOREVER, .discard_bytes = 1 << 20 };
    weft_conn_set_limits(pair.far, &limits);
    say(pair.near, 2 * REQUEST);
    take_request(pair.far);
    CHECK_OK(weft_conn_write(pair.far, "x", 1, WEFT_FOREVER));
    CHECK_OK(weft_conn_close(pair.far));
    int rc = send_until_refused(pair.near, UINT64_C(1) << 30);
    CHECK(rc == -EPIPE || rc == -ECONNRESET);
    (void)weft_conn_close(pair.near);
}

TEST_EVERYWHERE(a_peer_that_stays_is_not_waited_for_long)
{
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct weft_conn_limits limits = { .discard_ns = 20 * WEFT_MS };
    weft_conn_set_limits(pair.far, &limits);
    say(pair.near, 2 * REQUEST);
    take_request(pair.far);
    CHECK_OK(weft_conn_write(pair.far, "x", 1, WEFT_FOREVER));
    weft_time before = weft_now();
    CHECK_OK(weft_conn_close(pair.far));
    // It is still open: it took what came. Then it is not.
    int rc = 0;
    while (rc == 0) {
        rc = weft_conn_write(pair.near, "y", 1, WEFT_FOREVER);
        rc = rc == 0 ? weft_conn_flush(pair.near, WEFT_FOREVER) : rc;
        CHECK_OK(weft_sleep(WEFT_MS));
    }
    CHECK(rc == -EPIPE || rc == -ECONNRESET);
    CHECK_GE(weft_now() - before, 20 * WEFT_MS);
    (void)weft_conn_close(pair.near);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

// What was read to the end, or never answered, is closed at once.
static int close_plainly(void *arg)
{
    (void)arg;
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    int fd = weft_conn_fd(pair.far);
    say(pair.near, REQUEST);
    take_request(pair.far);
    CHECK_OK(weft_conn_write(pair.far, "x", 1, WEFT_FOREVER));
    CHECK_OK(weft_conn_close(pair.far));
    CHECK(!is_open(fd));
    CHECK_OK(weft_conn_close(pair.near));
    pair = make_pair("tcp://127.0.0.1:0");
    fd = weft_conn_fd(pair.far);
    say(pair.near, 2 * REQUEST);
    take_request(pair.far);
    CHECK_OK(weft_conn_close(pair.far)); // nothing was said that could be lost
    CHECK(!is_open(fd));
    CHECK_OK(weft_conn_close(pair.near));
    return 0;
}

TEST_DRIVERS(a_plain_close_stays_one_close)
{
    CHECK_OK(weft_run(close_plainly, NULL, NULL));
}

// Who asked for a reset gets it.
static int reset_on_close(void *arg)
{
    (void)arg;
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct linger now = { .l_onoff = 1 };
    int fd = weft_conn_fd(pair.far);
    CHECK_OK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now));
    say(pair.near, 2 * REQUEST);
    take_request(pair.far);
    CHECK_OK(weft_conn_write(pair.far, "x", 1, WEFT_FOREVER));
    CHECK_OK(weft_conn_close(pair.far));
    CHECK(!is_open(fd));
    (void)weft_conn_close(pair.near);
    return 0;
}

TEST_DRIVERS(a_reset_on_close_is_not_put_off)
{
    CHECK_OK(weft_run(reset_on_close, NULL, NULL));
}

// The peer stays and says nothing: a runtime that ends does not wait for it.
struct ending {
    int near, far;
};

static int leave_draining(void *arg)
{
    struct ending *ending = arg;
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct weft_conn_limits limits = { .discard_ns = 3600 * WEFT_S };
    weft_conn_set_limits(pair.far, &limits);
    say(pair.near, 2 * REQUEST);
    take_request(pair.far);
    CHECK_OK(weft_conn_write(pair.far, "x", 1, WEFT_FOREVER));
    ending->near = dup(weft_conn_fd(pair.near));
    ending->far = weft_conn_fd(pair.far);
    CHECK_OK(ending->near);
    CHECK_OK(weft_conn_close(pair.near));
    CHECK_OK(weft_conn_close(pair.far));
    CHECK(is_open(ending->far));
    return 0;
}

TEST_DRIVERS(a_runtime_that_ends_closes_what_drains)
{
    struct ending ending;
    CHECK_OK(weft_run(leave_draining, &ending, NULL));
    CHECK(!is_open(ending.far));
    close(ending.near);
}
