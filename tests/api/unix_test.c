// unix_test.c - Unix datagrams and sequenced packets, descriptors that travel, and who is there.
#include "support/dgrams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include <weft.h>

#include "support/gather.h"

TEST_EVERYWHERE(datagrams_arrive_with_the_senders_name)
{
    struct weft_addr a_addr, b_addr, from;
    weft_dgram *a = bind_to("unixgram://", &a_addr);
    weft_dgram *b = bind_to("unixgram://", &b_addr);
    weft_dgram *nameless = dial(&b_addr);
    char text[16];
    CHECK_OK(weft_dgram_send_to(a, &b_addr, "hello", 5, soon()));
    CHECK_EQ(weft_dgram_recv(b, text, sizeof text, &from, soon()), 5);
    CHECK(weft_addr_equal(&from, &a_addr));
    CHECK_OK(weft_dgram_send_to(b, &from, "", 0, soon()));
    CHECK_EQ(weft_dgram_recv(a, text, sizeof text, NULL, soon()), 0);
    CHECK_OK(weft_dgram_send(nameless, "who", 3, soon()));
    CHECK_EQ(weft_dgram_recv(b, text, 2, &from, soon()), 3); // cut
    CHECK_EQ(weft_addr_kind(&from), WEFT_ADDR_NONE);
    CHECK_OK(weft_dgram_close(b));
    CHECK_EQ(weft_dgram_send(nameless, "x", 1, soon()), -ECONNREFUSED);
    CHECK_EQ(weft_dgram_send_to(a, &b_addr, "x", 1, soon()), -ECONNREFUSED);
    CHECK_OK(weft_dgram_close(nameless));
    CHECK_OK(weft_dgram_close(a));
}

TEST_EVERYWHERE(packets_keep_their_boundaries_until_the_end)
{
    struct weft_addr addr;
    weft_dgram *listener = bind_to("unixpacket://", &addr);
    weft_dgram *client = dial(&addr), *server;
    char text[16];
    CHECK_OK(weft_dgram_accept(&server, listener, soon()));
    CHECK_OK(weft_dgram_send(client, "one", 3, soon()));
    CHECK_OK(weft_dgram_send(client, "three", 5, soon()));
    CHECK_EQ(weft_dgram_recv(server, text, sizeof text, NULL, soon()), 3);
    CHECK_EQ(weft_dgram_recv(server, text, 2, NULL, soon()), 5); // cut
    CHECK_EQ(weft_dgram_send(client, "", 0, soon()), -EINVAL);
    CHECK_EQ(weft_dgram_send_to(client, &addr, "x", 1, soon()), -EINVAL);
    CHECK_EQ(weft_dgram_connect(client, &addr, soon()), -EINVAL);
    CHECK_OK(weft_dgram_send(server, "back", 4, soon()));
    CHECK_EQ(weft_dgram_recv(client, text, sizeof text, NULL, soon()), 4);
    CHECK_OK(weft_dgram_close(client));
    CHECK_EQ(weft_dgram_recv(server, text, sizeof text, NULL, soon()), 0);
    CHECK_EQ(weft_dgram_send(server, "x", 1, soon()), -EPIPE);
    CHECK_OK(weft_dgram_close(server));
    CHECK_OK(weft_dgram_close(listener));
    weft_dgram *none;
    char where[WEFT_ADDR_TEXT_BYTES];
    (void)weft_addr_format(&addr, where, sizeof where);
    CHECK_EQ(weft_dgram_dial(&none, where, NULL, soon()), -ECONNREFUSED);
    CHECK(none == NULL);
}

TEST_EVERYWHERE(a_batch_of_packets_ends_with_the_end)
{
    enum { ROOM = 5 };
    for (unsigned packets = 0; packets <= ROOM; packets++) {
        weft_dgram *pair[2];
        struct weft_dgram_message in[ROOM];
        char data[ROOM];
        CHECK_OK(weft_dgram_pair(pair, WEFT_ADDR_UNIXPACKET));
        for (unsigned i = 0; i < packets; i++) {
            CHECK_OK(weft_dgram_send(pair[0], "x", 1, soon()));
        }
        CHECK_OK(weft_dgram_close(pair[0]));
        unsigned got = 0;
        do {
            for (unsigned i = 0; i < ROOM; i++) {
                in[i] = (struct weft_dgram_message){ .data = &data[i], .room = 1, .size = 9 };
            }
            int rc = weft_dgram_recv_batch(pair[1], in, ROOM, soon());
            CHECK_GT(rc, 0);
            got += (unsigned)rc;
            for (int i = 0; i < rc; i++) {
                CHECK_EQ(in[i].size, got - (unsigned)(rc - i) < packets ? 1 : 0);
            }
        } while (got <= packets);
        CHECK_EQ(got, packets + 1);
        CHECK_OK(weft_dgram_close(pair[1]));
    }
}

static int accept_one(void *arg)
{
    weft_dgram *peer;
    int rc = weft_dgram_accept(&peer, arg, WEFT_FOREVER);
    CHECK(rc < 0 || weft_dgram_close(peer) == 0);
    return rc;
}

TEST_EVERYWHERE(accepting_waits_and_ends_with_the_listener)
{
    struct weft_addr addr;
    weft_dgram *listener = bind_to("unixpacket://", &addr), *peer;
    weft_task *task;
    int result;
    CHECK_EQ(weft_dgram_accept(&peer, listener, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK(peer == NULL);
    CHECK_OK(weft_spawn(&task, accept_one, listener, NULL));
    CHECK_OK(weft_yield());
    CHECK_OK(weft_dgram_close(dial(&addr)));
    CHECK_OK(weft_join(&result, task, soon()));
    CHECK_EQ(result, 0);
    CHECK_OK(weft_spawn(&task, accept_one, listener, NULL));
    CHECK_OK(weft_yield());
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, soon()));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_spawn(&task, accept_one, listener, NULL));
    CHECK_OK(weft_yield());
    CHECK_OK(weft_dgram_close(listener));
    CHECK_OK(weft_join(&result, task, soon()));
    CHECK_EQ(result, -EBADF);
    weft_dgram *datagrams = bind_to("unixgram://", NULL);
    CHECK_EQ(weft_dgram_accept(&peer, datagrams, soon()), -EOPNOTSUPP);
    CHECK_OK(weft_dgram_close(datagrams));
}

// ---------------------------------------------------------------------------------------------
// A receiver that is slow.

struct stream_of_messages {
    weft_dgram *from;
    struct weft_addr to; // NONE: the peer
    int count;
    bool batch;
};

/// Sends numbers; more than the receiver's queue holds.
static int send_numbers(void *arg)
{
    struct stream_of_messages *s = arg;
    for (int i = 0; i < s->count;) {
        struct weft_dgram_message messages[3];
        int numbers[3];
        unsigned n = 0;
        for (; n < 3 && i + (int)n < s->count; n++) {
            numbers[n] = i + (int)n;
            messages[n] = (struct weft_dgram_message){ .data = &numbers[n],
                                                       .size = sizeof numbers[n],
                                                       .addr = s->to };
        }
        if (s->batch) {
            int rc = weft_dgram_send_batch(s->from, messages, n, soon());
            CHECK_GT(rc, 0);
            i += rc;
        } else if (weft_addr_kind(&s->to) == WEFT_ADDR_NONE) {
            CHECK_OK(weft_dgram_send(s->from, &i, sizeof i, soon()));
            i++;
        } else {
            CHECK_OK(weft_dgram_send_to(s->from, &s->to, &i, sizeof i, soon()));
            i++;
        }
    }
    return 0;
}

static void check_slow_receiver(struct stream_of_messages *s, weft_dgram *to)
{
    weft_task *task;
    s->count = 200;
    CHECK_OK(weft_spawn(&task, send_numbers, s, NULL));
    for (int i = 0; i < s->count; i++) {
        int number = -1;
        CHECK_OK(weft_yield()); // the sender fills the queue
        CHECK_EQ(weft_dgram_recv(to, &number, sizeof number, NULL, soon()), sizeof number);
        CHECK_EQ(number, i);
    }
    CHECK_OK(weft_join(NULL, task, soon()));
}

TEST_EVERYWHERE(senders_wait_for_a_slow_receiver)
{
    static const enum weft_addr_kind kinds[] = { WEFT_ADDR_UNIXGRAM, WEFT_ADDR_UNIXPACKET };
    for (int i = 0; i < 4; i++) {
        weft_dgram *pair[2];
        CHECK_OK(weft_dgram_pair(pair, kinds[i / 2]));
        struct stream_of_messages s = { .from = pair[0], .batch = i % 2 == 1 };
        check_slow_receiver(&s, pair[1]);
        CHECK_OK(weft_dgram_close(pair[0]));
        CHECK_OK(weft_dgram_close(pair[1]));
    }
}

/// A Unix datagram socket that is not connected is always writable, says the kernel, and then the
/// receiver's queue is full.
TEST_EVERYWHERE(a_sender_waits_for_a_queue_that_others_have_filled)
{
    for (int i = 0; i < 4; i++) {
        struct weft_addr addr;
        weft_dgram *receiver = bind_to("unixgram://", &addr), *crowd = dial(&addr);
        struct stream_of_messages s = { .from = dial(&addr), .count = 1, .batch = i / 2 == 1 };
        weft_task *task;
        int filled = 0, number = -1;
        if (i % 2 == 1) {
            CHECK_OK(weft_dgram_connect(s.from, NULL, soon()));
            s.to = addr;
        }
        while (weft_dgram_send(crowd, "x", 1, weft_after(WEFT_MS)) == 0) {
            filled++;
        }
        CHECK_OK(weft_spawn(&task, send_numbers, &s, NULL));
        CHECK_OK(weft_sleep(3 * WEFT_MS)); // time for it to find the queue full more than once
        for (; filled > 0; filled--) {
            CHECK_EQ(weft_dgram_recv(receiver, &number, sizeof number, NULL, soon()), 1);
        }
        CHECK_EQ(weft_dgram_recv(receiver, &number, sizeof number, NULL, soon()), sizeof number);
        CHECK_EQ(number, 0);
        CHECK_OK(weft_join(NULL, task, soon()));
        CHECK_OK(weft_dgram_close(s.from));
        CHECK_OK(weft_dgram_close(crowd));
        CHECK_OK(weft_dgram_close(receiver));
    }
}

TEST_EVERYWHERE(senders_that_are_not_connected_wait_as_well)
{
    struct stream_of_messages s;
    struct weft_addr addr;
    weft_dgram *receiver = bind_to("unixgram://", &addr);
    for (int i = 0; i < 2; i++) {
        s = (struct stream_of_messages){ .from = bind_to("unixgram://", NULL), .batch = i == 1 };
        s.to = addr;
        check_slow_receiver(&s, receiver);
        CHECK_OK(weft_dgram_close(s.from));
    }
    CHECK_OK(weft_dgram_close(receiver));
}

struct plain_send {
    int fd;
    int way; // 0: send, 1: sendmsg, 2: sendto
    struct weft_addr to;
};

static int send_plainly(void *arg)
{
    struct plain_send *send = arg;
    char text[] = "four";
    struct iovec parts[2] = { { text, 2 }, { text + 2, 2 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    uint32_t size;
    const struct sockaddr *to = weft_addr_sockaddr(&send->to, &size);
    switch (send->way) {
    case 0: return (int)weft_send(send->fd, "four", 4, 0, soon());
    case 1: return (int)weft_sendmsg(send->fd, &message, 0, soon());
    default: return (int)weft_sendto(send->fd, "four", 4, 0, to, size, soon());
    }
}

/// The same with plain descriptors: what waited for room is sent whole.
TEST_SOCKETS(plain_calls_wait_for_room_in_a_queue)
{
    for (int i = 0; i < 6; i++) {
        struct plain_send send = { .way = i % 3 };
        weft_dgram *receiver = bind_to("unixgram://", &send.to), *crowd = dial(&send.to);
        weft_task *task;
        int filled = 0, result;
        char text[16];
        uint32_t size;
        const struct sockaddr *to = weft_addr_sockaddr(&send.to, &size);
        send.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | (i < 3 ? 0 : SOCK_NONBLOCK), 0);
        if (send.way != 2) {
            CHECK_OK(connect(send.fd, to, size));
        }
        while (weft_dgram_send(crowd, "x", 1, weft_after(WEFT_MS)) == 0) {
            filled++;
        }
        for (int n = 1; n < 4; n++) { // into each state of the wait
            weft_time due = weft_after((weft_time)n * 700 * WEFT_US);
            CHECK_EQ(weft_sendto(send.fd, "late", 4, 0, send.way == 2 ? to : NULL,
                                 send.way == 2 ? size : 0, due),
                     -ETIMEDOUT);
            CHECK_GE(weft_now(), due);
        }
        CHECK_OK(weft_spawn(&task, send_plainly, &send, NULL));
        CHECK_OK(weft_sleep(3 * WEFT_MS)); // time for it to find the queue full more than once
        for (; filled > 0; filled--) {
            CHECK_EQ(weft_dgram_recv(receiver, text, sizeof text, NULL, soon()), 1);
        }
        CHECK_EQ(weft_dgram_recv(receiver, text, sizeof text, NULL, soon()), 4);
        CHECK(memcmp(text, "four", 4) == 0);
        CHECK_OK(weft_join(&result, task, soon()));
        CHECK_EQ(result, 4);
        CHECK_OK(weft_close(send.fd));
        CHECK_OK(weft_dgram_close(crowd));
        CHECK_OK(weft_dgram_close(receiver));
    }
}

static int send_until_full(void *arg)
{
    struct stream_of_messages *s = arg;
    int rc = 0;
    while (rc == 0) {
        rc = weft_addr_kind(&s->to) == WEFT_ADDR_NONE
                 ? weft_dgram_send(s->from, "x", 1, WEFT_FOREVER)
                 : weft_dgram_send_to(s->from, &s->to, "x", 1, WEFT_FOREVER);
    }
    return rc;
}

TEST_EVERYWHERE(a_sender_that_waits_can_be_stopped)
{
    struct weft_addr addr;
    weft_dgram *receiver = bind_to("unixgram://", &addr);
    for (int i = 0; i < 4; i++) {
        struct stream_of_messages s = { .from = i % 2 == 0 ? dial(&addr)
                                                           : bind_to("unixgram://", NULL) };
        weft_task *task;
        int result;
        if (i % 2 == 1) {
            s.to = addr;
        }
        CHECK_OK(weft_spawn(&task, send_until_full, &s, NULL));
        CHECK_OK(weft_sleep(2 * WEFT_MS)); // it waits now, or will soon; either way it must end
        if (i < 2) {
            weft_task_cancel(task);
            CHECK_OK(weft_join(&result, task, soon()));
            CHECK_EQ(result, -ECANCELED);
            weft_time due = weft_after(3 * WEFT_MS);
            int rc = i % 2 == 0 ? weft_dgram_send(s.from, "x", 1, due)
                                : weft_dgram_send_to(s.from, &s.to, "x", 1, due);
            CHECK_EQ(rc, -ETIMEDOUT);
            CHECK_GE(weft_now(), due);
            CHECK_OK(weft_dgram_close(s.from));
        } else {
            CHECK_OK(weft_dgram_close(s.from));
            CHECK_OK(weft_join(&result, task, soon()));
            CHECK_EQ(result, -EBADF);
        }
    }
    CHECK_OK(weft_dgram_close(receiver));
}

static int dial_late(void *arg)
{
    struct weft_addr *addr = arg;
    CHECK_OK(weft_dgram_close(dial(addr)));
    return 0;
}

/// connect(2) to a Unix listener whose queue is full waits, and no readiness tells when to go on.
TEST_EVERYWHERE(dialling_waits_while_the_listeners_queue_is_full)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    struct weft_addr addr;
    weft_dgram *listener, *clients[3], *peer;
    char where[WEFT_ADDR_TEXT_BYTES];
    weft_task *task;
    options.backlog = 1;
    CHECK_OK(weft_dgram_bind(&listener, "unixpacket://", &options));
    CHECK_OK(weft_dgram_local(listener, &addr));
    (void)weft_addr_format(&addr, where, sizeof where);
    clients[0] = dial(&addr); // the kernel takes one more than the backlog
    clients[1] = dial(&addr);
    weft_time due = weft_after(5 * WEFT_MS);
    CHECK_EQ(weft_dgram_dial(&clients[2], where, NULL, due), -ETIMEDOUT);
    CHECK_GE(weft_now(), due);
    CHECK_OK(weft_spawn(&task, dial_late, &addr, NULL));
    CHECK_OK(weft_sleep(5 * WEFT_MS)); // time for it to find the queue full more than once
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_dgram_accept(&peer, listener, soon()));
        CHECK_OK(weft_dgram_close(peer));
    }
    CHECK_OK(weft_join(NULL, task, soon()));
    CHECK_OK(weft_dgram_close(clients[0]));
    CHECK_OK(weft_dgram_close(clients[1]));
    CHECK_OK(weft_dgram_close(listener));
}

TEST_EVERYWHERE(pairs_are_of_two_kinds)
{
    weft_dgram *pair[2];
    CHECK_EQ(weft_dgram_pair(pair, WEFT_ADDR_UDP), -EINVAL);
    CHECK_EQ(weft_dgram_pair(pair, WEFT_ADDR_UNIX), -EINVAL);
    CHECK(pair[0] == NULL && pair[1] == NULL);
}

// ---------------------------------------------------------------------------------------------
// Descriptors.

static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };

static void make_pair(int fds[2], int type)
{
    CHECK_OK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds));
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CHECK_OK(close(fds[i]));
    }
}

/// A file of one byte that says which one it is.
static int make_file(char mark)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    CHECK_OK(fd);
    CHECK_EQ(pwrite(fd, &mark, 1, 0), 1);
    return fd;
}

static char read_mark(int fd)
{
    char mark = 0;
    CHECK_EQ(pread(fd, &mark, 1, 0), 1);
    return mark;
}

TEST_SOCKETS(descriptors_travel_over_every_kind_of_socket)
{
    int before = count_descriptors();
    for (int t = 0; t < 3; t++) {
        int ends[2], sent[3], got[8];
        size_t count = 8;
        char text[16];
        make_pair(ends, types[t]);
        for (int i = 0; i < 3; i++) {
            sent[i] = make_file((char)('a' + i));
        }
        CHECK_EQ(weft_unix_send_fds(ends[0], "three", 5, sent, 3, soon()), 5);
        close_all(sent, 3); // they are under way
        CHECK_EQ(weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, soon()), 5);
        CHECK(memcmp(text, "three", 5) == 0);
        CHECK_EQ(count, 3);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(read_mark(got[i]), 'a' + i);
            CHECK_EQ(fcntl(got[i], F_GETFD), FD_CLOEXEC);
        }
        close_all(got, 3);

        // Bytes alone come the same way; and the end of a stream.
        count = 8;
        CHECK_EQ(weft_unix_send_fds(ends[0], "none", 4, NULL, 0, soon()), 4);
        CHECK_EQ(weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, soon()), 4);
        CHECK_EQ(count, 0);
        close(ends[0]);
        if (types[t] != SOCK_DGRAM) {
            count = 8;
            CHECK_EQ(weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, soon()), 0);
            CHECK_EQ(count, 0);
        }
        close(ends[1]);
    }
    CHECK_EQ(count_descriptors(), before);
}

TEST_SOCKETS(descriptors_that_do_not_fit_are_closed)
{
    int before = count_descriptors();
    for (int t = 0; t < 3; t++) {
        for (size_t room = 0; room < 3; room++) {
            int ends[2], sent[3] = { 0, 1, 2 }, got[3];
            size_t count = room;
            char text[16];
            make_pair(ends, types[t]);
            CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, sent, 3, soon()), 1);
            CHECK_EQ(weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, soon()),
                     -EMSGSIZE);
            CHECK_EQ(count, 0);
            CHECK_EQ(count_descriptors(), before + 2);
            // The socket is as good as before.
            count = 3;
            CHECK_EQ(weft_unix_send_fds(ends[0], "y", 1, sent, 3, soon()), 1);
            CHECK_EQ(weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, soon()), 1);
            CHECK_EQ(text[0], 'y');
            close_all(got, count);
            close_all(ends, 2);
        }
    }
    CHECK_EQ(count_descriptors(), before);
}

TEST_SOCKETS(the_most_that_one_message_can_carry)
{
    int ends[2], got[WEFT_UNIX_FDS_MAX];
    int sent[WEFT_UNIX_FDS_MAX + 1];
    size_t count = WEFT_UNIX_FDS_MAX;
    char text[16];
    int before = count_descriptors();
    make_pair(ends, SOCK_STREAM);
    memset(sent, 0, sizeof sent); // standard input, many times
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, sent, WEFT_UNIX_FDS_MAX + 1, soon()), -EINVAL);
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 0, sent, 1, soon()), -EINVAL);
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, sent, WEFT_UNIX_FDS_MAX, soon()), 1);
    CHECK_EQ(weft_unix_recv_fds(ends[1], text, 1, got, &count, soon()), 1);
    CHECK_EQ(count, WEFT_UNIX_FDS_MAX);
    close_all(got, count);
    sent[1] = 1000000;
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, sent, 2, soon()), -EBADF);
    close_all(ends, 2);
    CHECK_EQ(count_descriptors(), before);
}

TEST_SOCKETS(descriptors_that_cannot_be_opened_here_are_an_error)
{
    int ends[2], sent[5] = { 0, 0, 0, 0, 0 }, got[5];
    size_t count = 5;
    char text[16];
    int before = count_descriptors();
    struct rlimit limit, tight;
    make_pair(ends, SOCK_SEQPACKET);
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, sent, 5, soon()), 1);
    CHECK_OK(getrlimit(RLIMIT_NOFILE, &limit));
    int next = dup(0); // the lowest number that is free
    close(next);
    tight = limit;
    tight.rlim_cur = (rlim_t)next + 3;
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &tight));
    int64_t rc = weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, soon());
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit));
    CHECK_EQ(rc, -EMFILE);
    CHECK_EQ(count, 0);
    CHECK_EQ(count_descriptors(), before + 2);
    close_all(ends, 2);
}

/// The kernel attaches more than descriptors if the socket was told so.
TEST_SOCKETS(other_control_messages_do_no_harm)
{
    int ends[2], got[4], on = 1, sent = 0;
    size_t count = 4;
    char text[16];
    int before = count_descriptors();
    make_pair(ends, SOCK_STREAM);
    CHECK_OK(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    (void)setsockopt(ends[1], SOL_SOCKET, 76 /* SO_PASSPIDFD, Linux 6.5 */, &on, sizeof on);
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, &sent, 1, soon()), 1);
    CHECK_EQ(weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, soon()), 1);
    CHECK_EQ(count, 1);
    CHECK_EQ(count_descriptors(), before + 3); // no pidfd is left behind
    close(got[0]);
    close_all(ends, 2);
}

static int receive_descriptor(void *arg)
{
    const int *end = arg;
    int got;
    size_t count = 1;
    char text[16];
    int64_t rc = weft_unix_recv_fds(*end, text, sizeof text, &got, &count, WEFT_FOREVER);
    if (rc == 1) {
        CHECK_EQ(count, 1);
        close(got);
    } else {
        CHECK_EQ(count, 0);
    }
    return (int)rc;
}

TEST_SOCKETS(waiting_for_descriptors_ends_by_deadline_and_cancel)
{
    int ends[2], got, result, sent = 0;
    size_t count = 1;
    char text[16];
    weft_task *task;
    int before = count_descriptors();
    make_pair(ends, SOCK_STREAM);
    CHECK_EQ(weft_unix_recv_fds(ends[1], text, 1, &got, &count, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(count, 0);
    CHECK_OK(weft_spawn(&task, receive_descriptor, &ends[1], NULL));
    CHECK_OK(weft_yield());
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, soon()));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_spawn(&task, receive_descriptor, &ends[1], NULL));
    CHECK_OK(weft_yield());
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, &sent, 1, soon()), 1);
    CHECK_OK(weft_join(&result, task, soon()));
    CHECK_EQ(result, 1);
    close_all(ends, 2);
    CHECK_EQ(count_descriptors(), before);
}

static int send_descriptor(void *arg)
{
    const int *end = arg;
    int sent = 0;
    return (int)weft_unix_send_fds(*end, "four", 4, &sent, 1, soon());
}

TEST_SOCKETS(a_sender_of_descriptors_waits_for_room)
{
    for (int t = 0; t < 3; t++) {
        int ends[2], result, got[2], filled = 0;
        static char text[1000];
        weft_task *task;
        make_pair(ends, types[t]);
        while (send(ends[0], text, sizeof text, MSG_DONTWAIT) == (ssize_t)sizeof text) {
            filled++;
        }
        CHECK_OK(weft_spawn(&task, send_descriptor, &ends[0], NULL));
        CHECK_OK(weft_sleep(2 * WEFT_MS)); // time for it to find no room
        for (int64_t left = (int64_t)filled * 1000, n; left > 0; left -= n) {
            size_t count = 2;
            n = weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, soon());
            CHECK_GT(n, 0);
            CHECK_EQ(count, 0);
        }
        size_t count = 2;
        CHECK_EQ(weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, soon()), 4);
        CHECK_EQ(count, 1);
        CHECK_OK(weft_join(&result, task, soon()));
        CHECK_EQ(result, 4);
        close(got[0]);
        close_all(ends, 2);
    }
}

TEST_EVERYWHERE(descriptors_travel_over_message_sockets)
{
    weft_dgram *road[2], *cargo[2], *adopted;
    int got[2];
    size_t count = 2;
    char text[16];
    CHECK_OK(weft_dgram_pair(road, WEFT_ADDR_UNIXPACKET));
    CHECK_OK(weft_dgram_pair(cargo, WEFT_ADDR_UNIXGRAM));
    int first = weft_dgram_fd(road[0]), second = weft_dgram_fd(road[1]);
    int fds[2] = { weft_dgram_fd(cargo[0]), weft_dgram_fd(cargo[0]) };
    CHECK_EQ(weft_dgram_recv(road[1], text, 16, NULL, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_unix_send_fds(first, "take", 4, fds, 1, soon()), 4);
    CHECK_EQ(weft_unix_recv_fds(second, text, 16, got, &count, soon()), 4);
    CHECK_EQ(count, 1);
    CHECK_OK(weft_dgram_adopt(&adopted, got[0]));
    CHECK_OK(weft_dgram_send(adopted, "via", 3, soon()));
    CHECK_EQ(weft_dgram_recv(cargo[1], text, 16, NULL, soon()), 3);
    CHECK_OK(weft_dgram_close(adopted));

    count = 1;
    CHECK_EQ(weft_unix_send_fds(first, "many", 4, fds, 2, soon()), 4);
    CHECK_EQ(weft_unix_recv_fds(second, text, 16, got, &count, soon()), -EMSGSIZE);
    CHECK_EQ(count, 0);

    // The road and what stayed behind are as good as before.
    CHECK_OK(weft_dgram_send(road[0], "plain", 5, soon()));
    CHECK_EQ(weft_dgram_recv(road[1], text, 16, NULL, soon()), 5);
    CHECK_OK(weft_dgram_send(cargo[0], "still", 5, soon()));
    CHECK_EQ(weft_dgram_recv(cargo[1], text, 16, NULL, soon()), 5);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_dgram_close(road[i]));
        CHECK_OK(weft_dgram_close(cargo[i]));
    }
}

TEST_SOCKETS(the_kernel_says_who_is_there)
{
    struct weft_unix_peer peer;
    int ends[2];
    make_pair(ends, SOCK_STREAM);
    CHECK_OK(weft_unix_peer(&peer, ends[0]));
    CHECK_EQ(peer.pid, getpid());
    CHECK_EQ(peer.uid, getuid());
    CHECK_EQ(peer.gid, getgid());
    close_all(ends, 2);
    int lonely = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(weft_unix_peer(&peer, lonely), -ENOTCONN);
    close(lonely);
    lonely = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(weft_unix_peer(&peer, lonely), -ENOTCONN);
    close(lonely);
    CHECK_EQ(weft_unix_peer(&peer, lonely), -EBADF);
    int file = make_file('x');
    CHECK_EQ(weft_unix_peer(&peer, file), -ENOTSOCK);
    close(file);
}

TEST(outside_a_virtual_thread_nothing_travels)
{
    struct weft_unix_peer peer;
    int got;
    size_t count = 1;
    char text[4];
    CHECK_EQ(weft_unix_send_fds(0, "x", 1, NULL, 0, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_unix_recv_fds(0, text, 4, &got, &count, WEFT_FOREVER), -EPERM);
    CHECK_EQ(count, 0);
    CHECK_EQ(weft_unix_peer(&peer, 0), -EPERM);
}
