// epoll_edge_test.c - descriptors that weft made: registered once, edge-triggered, with hints.
//
// The danger is an edge that is taken for a hint's excuse and never comes: then an op waits for ever,
// which LOST_NS turns into a failure.
#include "support/calls.h"

#include <linux/errqueue.h>
#include <netinet/tcp.h>
#include <sys/uio.h>

static struct weft__op receive(int fd, char *data, size_t size)
{
    return managed(recv_op(fd, data, size));
}

static struct weft__op select_managed(int fd)
{
    return select_op(fd, WEFT__OP_MANAGED | WEFT__OP_MULTI);
}

// What a request costs.

static void echo(int fds[2], bool select, bool certain)
{
    void *state = open_driver();
    enum { ROUNDS = 50, SIZE = 64 };
    char data[SIZE] = "request";
    char buffer[1024];
    struct trial reader = { 0 };
    struct trial writer = { 0 };
    trial_start(&reader, state, select ? select_managed(fds[0]) : receive(fds[0], buffer, 1024));
    calls_reset();
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(write(fds[1], data, SIZE), SIZE);
        CHECK_EQ(trial_await(&reader), SIZE);
        CHECK_EQ((reader.flags & WEFT__OP_EMPTY) != 0, certain);
        trial_start(&writer, state, managed(send_op(fds[0], data, SIZE)));
        CHECK(writer.ended);
        if (select) {
            driver()->give(state, weft__op_buffer(&reader.op));
        }
        trial_start(&reader, state, reader.op);
        CHECK(!reader.ended);
        CHECK_EQ(recv(fds[1], buffer, sizeof buffer, 0), SIZE);
    }
    CHECK_EQ(calls.recvs, ROUNDS + ROUNDS); // the driver's and ours
    CHECK_EQ(calls.sends, ROUNDS);
    CHECK_EQ(calls.controls, 0);
    CHECK_LE(calls.waits, ROUNDS);
    driver()->close(state);
}

TEST(an_echo_on_tcp_costs_one_recv_and_one_send)
{
    int fds[2];
    make_tcp(fds);
    echo(fds, false, true);
}

TEST(an_echo_with_selected_buffers_costs_no_more)
{
    int fds[2];
    make_tcp(fds);
    echo(fds, true, true);
}

TEST(an_echo_on_a_unix_socket_costs_no_more)
{
    int fds[2];
    make_unix(fds, SOCK_STREAM);
    CHECK_OK(fcntl(fds[1], F_SETFL, 0));
    echo(fds, true, false);
}

TEST(a_descriptor_is_registered_once)
{
    void *state = open_driver();
    int fds[2];
    char data[16];
    struct trial reader = { 0 };
    make_tcp(fds);
    calls_reset();
    for (int i = 0; i < 10; i++) {
        trial_start(&reader, state, receive(fds[0], data, sizeof data));
        CHECK_EQ(write(fds[1], "x", 1), 1);
        CHECK_EQ(trial_await(&reader), 1);
    }
    CHECK_EQ(calls.controls, 1);
    close_fd(state, fds[0]);
    CHECK_EQ(calls.controls, 2);
    driver()->close(state);
}

TEST(an_accepted_socket_needs_no_questions)
{
    void *state = open_driver();
    struct sockaddr_in address;
    int listener = open_listener(&address, 16);
    struct trial acceptor = { 0 };
    struct weft__op op = { .code = WEFT__OP_ACCEPT,
                           .fd = listener,
                           .flags = SOCK_CLOEXEC,
                           .mode = WEFT__OP_MANAGED | WEFT__OP_MULTI };
    for (int i = 0; i < 3; i++) {
        trial_start(&acceptor, state, op);
        CHECK(!acceptor.ended);
        int client = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_OK(connect(client, (struct sockaddr *)&address, sizeof address));
        int fd = (int)trial_await(&acceptor);
        CHECK_GE(fd, 0);
        CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
        CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        char data[8];
        CHECK_EQ(write(client, "abc", 3), 3);
        CHECK_EQ(perform(state, receive(fd, data, sizeof data)), 3);
        close_fd(state, fd);
        close(client);
    }
    driver()->close(state);
}

// Short reads.

TEST(a_full_read_is_followed_by_a_try)
{
    void *state = open_driver();
    int fds[2];
    char data[4];
    struct trial reader = { 0 };
    make_tcp(fds);
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    CHECK_EQ(write(fds[1], "abcdefgh", 8), 8);
    CHECK_EQ(trial_await(&reader), 4);
    CHECK((reader.flags & WEFT__OP_EMPTY) == 0);
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    CHECK(reader.ended);
    CHECK_EQ(reader.result, 4);
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    CHECK(!reader.ended);
    CHECK_EQ(write(fds[1], "i", 1), 1);
    CHECK_EQ(trial_await(&reader), 1);
    driver()->close(state);
}

TEST(bytes_that_come_while_nobody_reads_are_found)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    struct trial reader = { 0 };
    make_tcp(fds);
    for (int i = 0; i < 3; i++) {
        trial_start(&reader, state, receive(fds[0], data, sizeof data));
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        CHECK_EQ(trial_await(&reader), 3);
        CHECK_EQ(write(fds[1], "def", 3), 3); // the hint says empty
        await_bytes(fds[0], 3);
        if (i == 1) {
            look(state); // the event comes first
        }
        trial_start(&reader, state, receive(fds[0], data, sizeof data));
        CHECK_EQ(trial_await(&reader), 3);
    }
    driver()->close(state);
}

TEST(a_peek_does_not_count_as_empty)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    struct weft__op peek;
    make_tcp(fds);
    peek = receive(fds[0], data, sizeof data);
    peek.flags = MSG_PEEK;
    struct trial reader = { 0 };
    trial_start(&reader, state, peek);
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    CHECK_EQ(trial_await(&reader), 3);
    CHECK((reader.flags & WEFT__OP_EMPTY) == 0);
    CHECK_EQ(perform(state, peek), 3);
    CHECK_EQ(perform(state, receive(fds[0], data, sizeof data)), 3);
    driver()->close(state);
}

TEST(short_datagrams_do_not_count_as_empty)
{
    const int types[] = { SOCK_DGRAM, SOCK_SEQPACKET };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(types); i++) {
        void *state = open_driver();
        int fds[2];
        char data[64];
        make_unix(fds, types[i]);
        struct trial reader = { 0 };
        trial_start(&reader, state, receive(fds[0], data, sizeof data));
        for (int k = 0; k < 3; k++) {
            CHECK_EQ(send(fds[1], "abc", 3, 0), 3);
        }
        CHECK_EQ(trial_await(&reader), 3);
        CHECK((reader.flags & WEFT__OP_EMPTY) == 0);
        CHECK_EQ(perform(state, receive(fds[0], data, sizeof data)), 3);
        CHECK_EQ(perform(state, receive(fds[0], data, sizeof data)), 3);
        driver()->close(state);
    }
}

static void send_with_descriptor(int fd, const char *text, int passed)
{
    char control[CMSG_SPACE(sizeof passed)] = { 0 };
    struct iovec part = { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof passed);
    memcpy(CMSG_DATA(header), &passed, sizeof passed);
    CHECK_EQ(sendmsg(fd, &message, 0), (ssize_t)strlen(text));
}

// The kernel ends a read there, and no new edge tells about what lies behind.
TEST(a_read_that_stops_at_descriptors_does_not_count_as_empty)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    make_unix(fds, SOCK_STREAM);
    struct trial reader = { 0 };
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    CHECK_EQ(write(fds[1], "warm up", 7), 7);
    CHECK_EQ(trial_await(&reader), 7);
    trial_start(&reader, state, select_managed(fds[0]));
    send_with_descriptor(fds[1], "first", 0);
    CHECK_EQ(write(fds[1], "second", 6), 6);
    CHECK_EQ(trial_await(&reader), 5);
    CHECK((reader.flags & WEFT__OP_EMPTY) == 0);
    CHECK_EQ(perform(state, receive(fds[0], data, sizeof data)), 6);
    driver()->close(state);
}

// Likewise at the urgent mark.
TEST(urgent_bytes_do_not_hold_up_what_is_behind)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    make_tcp(fds);
    int on = 1;
    CHECK_OK(setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    struct trial reader = { 0 };
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    CHECK_EQ(write(fds[1], "warm up", 7), 7);
    CHECK_EQ(trial_await(&reader), 7);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(send(fds[1], "ab", 2, 0), 2);
        CHECK_EQ(send(fds[1], "!", 1, MSG_OOB), 1);
        CHECK_EQ(send(fds[1], "cd", 2, 0), 2);
        await_bytes(fds[0], 2);
        await_event(fds[0], POLLPRI);
        size_t got = 0;
        while (got < 4) {
            int64_t n = perform(state, receive(fds[0], data, sizeof data));
            CHECK_GT(n, 0);
            got += (size_t)n;
            if (got == 2 && i != 1) {
                struct weft__op urgent = receive(fds[0], data, 1);
                urgent.flags = MSG_OOB;
                CHECK_EQ(perform(state, urgent), 1);
                CHECK_EQ(data[0], '!');
            }
        }
    }
    driver()->close(state);
}

// Ends.

TEST(bytes_and_the_end_in_one_edge)
{
    for (int how = 0; how < 2; how++) {
        void *state = open_driver();
        int fds[2];
        char data[64];
        make_tcp(fds);
        struct trial reader = { 0 };
        trial_start(&reader, state, receive(fds[0], data, sizeof data));
        CHECK_EQ(write(fds[1], "bye", 3), 3);
        if (how == 0) {
            CHECK_OK(shutdown(fds[1], SHUT_WR));
        } else {
            close(fds[1]);
        }
        await_event(fds[0], POLLRDHUP);
        CHECK_EQ(trial_await(&reader), 3);
        CHECK_EQ(perform(state, receive(fds[0], data, sizeof data)), 0);
        CHECK_EQ(perform(state, select_managed(fds[0])), 0);
        driver()->close(state);
    }
}

TEST(the_end_after_a_short_read)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    make_tcp(fds);
    struct trial reader = { 0 };
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    CHECK_EQ(write(fds[1], "bye", 3), 3);
    CHECK_EQ(trial_await(&reader), 3);
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    CHECK(!reader.ended);
    CHECK_OK(shutdown(fds[1], SHUT_WR));
    CHECK_EQ(trial_await(&reader), 0);
    CHECK_EQ(perform(state, receive(fds[0], data, sizeof data)), 0);
    driver()->close(state);
}

TEST(a_half_closed_connection_can_be_written)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    make_tcp(fds);
    CHECK_OK(shutdown(fds[1], SHUT_WR));
    CHECK_EQ(perform(state, receive(fds[0], data, sizeof data)), 0);
    CHECK_EQ(perform(state, managed(send_op(fds[0], "still here", 10))), 10);
    CHECK_EQ(recv(fds[1], data, sizeof data, 0), 10);
    driver()->close(state);
}

static void reset_by(int fd)
{
    struct linger now = { .l_onoff = 1 };
    CHECK_OK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now));
    CHECK_OK(close(fd));
}

TEST(a_reset_ends_reader_and_writer)
{
    enum { SIZE = 1 << 20 };
    static char data[SIZE];
    void *state = open_driver();
    int fds[2];
    make_tcp(fds);
    struct trial reader = { 0 };
    struct trial writer = { 0 };
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    do {
        trial_start(&writer, state, managed(send_op(fds[0], data, SIZE)));
    } while (writer.ended);
    CHECK(!reader.ended);
    reset_by(fds[1]);
    CHECK_LT(trial_await(&writer), 0);
    CHECK_LE(trial_await(&reader), 0);
    // One of them has met the error, and from then on there is an end.
    CHECK(writer.result == -ECONNRESET || reader.result == -ECONNRESET);
    CHECK_EQ(perform(state, receive(fds[0], data, sizeof data)), 0);
    CHECK_EQ(perform(state, managed(send_op(fds[0], data, 1))), -EPIPE);
    driver()->close(state);
}

TEST(a_reset_after_a_short_read_is_told)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    make_tcp(fds);
    struct trial reader = { 0 };
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    CHECK_EQ(trial_await(&reader), 3);
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    reset_by(fds[1]);
    CHECK_EQ(trial_await(&reader), -ECONNRESET);
    driver()->close(state);
}

// Writers.

static void fill_and_drain(int fds[2])
{
    enum { SIZE = 1 << 16 };
    static char data[SIZE];
    void *state = open_driver();
    struct trial writer = { 0 };
    for (int round = 0; round < 3; round++) {
        int64_t sent = 0;
        do {
            trial_start(&writer, state, managed(send_op(fds[0], data, SIZE)));
            sent += writer.ended ? writer.result : 0;
        } while (writer.ended);
        look(state);
        CHECK(!writer.ended);
        int64_t got = 0;
        while (!writer.ended || got < sent) {
            got += take(fds[1], data, SIZE);
            bool before = writer.ended;
            driver()->poll(state);
            sent += writer.ended && !before ? writer.result : 0;
        }
        CHECK_GT(writer.result, 0);
        CHECK_EQ(got, sent);
    }
    CHECK_GT(atomic_load(&driver()->counts(state)->short_writes), 0u);
    driver()->close(state);
}

TEST(a_writer_waits_for_room_on_tcp)
{
    int fds[2];
    make_tcp(fds);
    CHECK_OK(fcntl(fds[1], F_SETFL, O_NONBLOCK));
    fill_and_drain(fds);
}

TEST(a_writer_waits_for_room_on_a_unix_socket)
{
    int fds[2];
    make_unix(fds, SOCK_STREAM);
    fill_and_drain(fds);
}

// Each message that the peer takes would be an event if room were watched for.
TEST(a_unix_socket_makes_no_events_for_what_the_peer_takes)
{
    static char data[1 << 16];
    void *state = open_driver();
    int fds[2];
    make_unix(fds, SOCK_STREAM);
    struct trial reader = { 0 };
    struct trial writer = { 0 };
    trial_start(&reader, state, receive(fds[0], data, 64));
    do { // now room is watched for
        trial_start(&writer, state, managed(send_op(fds[0], data, sizeof data)));
    } while (writer.ended);
    while (take(fds[1], data, sizeof data) > 0 || !writer.ended) {
        driver()->poll(state);
    }
    look(state); // and now no more
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(perform(state, managed(send_op(fds[0], "abc", 3))), 3);
        CHECK_EQ(read(fds[1], data, sizeof data), 3);
    }
    calls_reset();
    driver()->wait(state, weft__clock_ns() + 5 * WEFT_MS);
    CHECK_EQ(calls.waits, 1);
    CHECK(!reader.ended);
    driver()->close(state);
}

// Connecting.

TEST(a_socket_can_connect_again_after_a_refusal)
{
    void *state = open_driver();
    struct sockaddr_in address;
    char data[16];
    int listener = open_listener(&address, 4);
    for (int is_managed = 0; is_managed < 2; is_managed++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        struct sockaddr_in nobody;
        int other = open_listener(&nobody, 1);
        close(other);
        struct weft__op op = connect_op(fd, &nobody);
        CHECK_EQ(perform(state, is_managed ? managed(op) : op), -ECONNREFUSED);
        op = connect_op(fd, &address);
        CHECK_EQ(perform(state, is_managed ? managed(op) : op), 0);
        CHECK_EQ(perform(state, is_managed ? managed(op) : op), -EISCONN);
        await_event(listener, POLLIN);
        int peer = accept4(listener, NULL, NULL, 0);
        struct weft__op reading = recv_op(fd, data, sizeof data);
        for (int i = 0; i < 3; i++) {
            struct trial reader = { 0 };
            trial_start(&reader, state, is_managed ? managed(reading) : reading);
            CHECK_EQ(write(peer, "abc", 3), 3);
            CHECK_EQ(trial_await(&reader), 3);
        }
        close_fd(state, fd);
        close(peer);
    }
    driver()->close(state);
}

// Moving between the ways to be registered.

TEST(a_plain_socket_becomes_a_managed_one)
{
    void *state = open_driver();
    int fds[2];
    char data[16];
    make_tcp(fds);
    struct trial reader = { 0 };
    for (int i = 0; i < 6; i++) {
        struct weft__op op = recv_op(fds[0], data, sizeof data);
        trial_start(&reader, state, i < 2 || i == 4 ? op : managed(op));
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        CHECK_EQ(trial_await(&reader), 3);
    }
    driver()->close(state);
}

TEST(a_poll_waits_beside_a_managed_reader)
{
    void *state = open_driver();
    int fds[2];
    char data[16];
    make_tcp(fds);
    struct trial reader = { 0 };
    struct trial poller = { 0 };
    trial_start(&reader, state, receive(fds[0], data, sizeof data));
    trial_start(&poller, state, poll_op(fds[0], POLLRDHUP));
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    CHECK_EQ(trial_await(&reader), 3);
    CHECK(!poller.ended);
    CHECK_OK(shutdown(fds[1], SHUT_WR));
    CHECK_EQ(trial_await(&poller), POLLRDHUP);
    driver()->close(state);
}
