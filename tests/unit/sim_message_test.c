// sim_message_test.c - simulated datagrams and packets: what is lost, doubled and overtaken, and what
// is not; Unix sockets and the descriptors that they carry.
#include "support/simulated.h"

#include <poll.h>
#include <sys/uio.h>

enum { COUNT = 200 };

/// Sends numbers to port 5000 and returns how often each arrived and in what order.
struct tally {
    int times[COUNT];
    int arrived;
    int overtaken; // came after a higher number
};

static struct tally tally_udp(void)
{
    struct tally tally = { 0 };
    struct sockaddr_in to = v4(5000);
    int receiver = make_socket(AF_INET, SOCK_DGRAM);
    int sender = make_socket(AF_INET, SOCK_DGRAM);
    int highest = -1, number;
    CHECK_OK(bind_v4(receiver, 5000));
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_sendto(sender, &i, sizeof i, 0, (const void *)&to, sizeof to, WEFT_FOREVER),
                 sizeof i);
    }
    while (weft_read(receiver, &number, sizeof number, weft_after(WEFT_S)) > 0) {
        tally.times[number]++;
        tally.arrived++;
        tally.overtaken += number < highest;
        highest = number > highest ? number : highest;
    }
    CHECK_OK(weft_close(receiver));
    CHECK_OK(weft_close(sender));
    return tally;
}

TEST_SIMULATED(by_default_datagrams_arrive_in_order, .latency_ns = 0)
{
    struct tally tally = tally_udp();
    CHECK_EQ(tally.arrived, COUNT);
    CHECK_EQ(tally.overtaken, 0);
}

TEST_SIMULATED(datagrams_are_lost_doubled_and_overtaken, .loss_per_million = 200000,
               .dup_per_million = 200000, .reorder_per_million = 200000)
{
    struct tally tally = tally_udp();
    int lost = 0, doubled = 0;
    for (int i = 0; i < COUNT; i++) {
        CHECK_LE(tally.times[i], 2);
        lost += tally.times[i] == 0;
        doubled += tally.times[i] == 2;
    }
    CHECK_GT(lost, 0);
    CHECK_GT(doubled, 0);
    CHECK_GT(tally.overtaken, 0);
}

TEST_SIMULATED(a_cut_link_loses_what_is_sent_meanwhile, .cut_per_million = 50000,
               .cut_ns = 100 * WEFT_US)
{
    struct tally tally = tally_udp();
    CHECK_LT(tally.arrived, COUNT);
    CHECK_EQ(tally.overtaken, 0);
}

TEST_SIMULATED(what_does_not_fit_into_the_queue_is_lost, .buffer_bytes = 10 * sizeof(int))
{
    struct tally tally = tally_udp();
    CHECK_GE(tally.arrived, 10);
    CHECK_LT(tally.arrived, COUNT);
}

TEST_SIMULATED(messages_keep_their_bounds_and_senders, .short_per_million = 1000000)
{
    struct sockaddr_in to = v4(5000), from;
    uint32_t size = sizeof from;
    char text[8] = "";
    int receiver = make_socket(AF_INET, SOCK_DGRAM);
    int sender = make_socket(AF_INET, SOCK_DGRAM);
    CHECK_OK(bind_v4(receiver, 5000));
    CHECK_OK(bind_v4(sender, 5001));
    CHECK_EQ(weft_write(sender, "x", 1, WEFT_FOREVER), -EDESTADDRREQ);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_sendto(sender, "too long", 8, 0, (const void *)&to, sizeof to, WEFT_FOREVER),
                 8);
        CHECK_EQ(weft_recvfrom(receiver, text, 3, i == 0 ? 0 : MSG_TRUNC, (void *)&from, &size,
                               WEFT_FOREVER),
                 i == 0 ? 3 : 8);
        CHECK_EQ(memcmp(text, "too\0", 4), 0);
        CHECK_EQ(ntohs(from.sin_port), 5001);
    }
    CHECK_EQ(weft_sendto(sender, "", 0, 0, (const void *)&to, sizeof to, WEFT_FOREVER), 0);
    CHECK_EQ(weft_read(receiver, text, sizeof text, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(receiver));
    CHECK_OK(weft_close(sender));
}

TEST_SIMULATED(a_connected_datagram_socket_hears_one_peer, .latency_ns = 0)
{
    struct sockaddr_in to = v4(5000);
    char text[8];
    int one = make_socket(AF_INET, SOCK_DGRAM);
    int peer = make_socket(AF_INET, SOCK_DGRAM);
    int stranger = make_socket(AF_INET, SOCK_DGRAM);
    CHECK_OK(bind_v4(one, 5000));
    CHECK_OK(connect_v4(one, 5001, WEFT_FOREVER));
    CHECK_EQ(weft_write(one, "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(one, text, sizeof text, WEFT_FOREVER), -ECONNREFUSED); // nobody is there yet
    CHECK_OK(bind_v4(peer, 5001));
    CHECK_OK(connect_v4(peer, 5000, WEFT_FOREVER));
    CHECK_EQ(weft_sendto(stranger, "no", 2, 0, (const void *)&to, sizeof to, WEFT_FOREVER), 2);
    CHECK_EQ(weft_write(peer, "yes", 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_read(one, text, sizeof text, WEFT_FOREVER), 3);
    CHECK_EQ(weft_read(one, text, sizeof text, weft_after(WEFT_S)), -ETIMEDOUT);
    CHECK_OK(weft_close(one));
    CHECK_OK(weft_close(peer));
    CHECK_OK(weft_close(stranger));
}

// Unix sockets.

static int send_many(void *arg)
{
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_write(*(int *)arg, &i, sizeof i, WEFT_FOREVER), sizeof i);
    }
    return 0;
}

TEST_SIMULATED(unix_messages_are_never_lost, .loss_per_million = 500000,
               .short_per_million = 500000)
{
    static const int types[] = { SOCK_DGRAM, SOCK_SEQPACKET };
    for (int k = 0; k < 2; k++) {
        weft_task *task;
        int ends[2], number;
        make_pair(ends, types[k]);
        CHECK_OK(weft_spawn(&task, send_many, &ends[0], NULL));
        for (int i = 0; i < COUNT; i++) {
            CHECK_EQ(weft_read(ends[1], &number, sizeof number, WEFT_FOREVER), sizeof number);
            CHECK_EQ(number, i);
        }
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        close_both(ends);
    }
}

TEST_SIMULATED(a_unix_datagram_waits_for_room, .latency_ns = 0)
{
    int ends[2], byte = 0, sent = 0;
    ssize_t n;
    make_pair(ends, SOCK_DGRAM);
    while ((n = weft_write(ends[0], "x", 1, weft_after(WEFT_MS))) == 1) {
        sent++;
    }
    CHECK_EQ(n, -ETIMEDOUT);
    CHECK_EQ(sent, 11);
    CHECK_EQ(weft_poll(ends[0], POLLOUT, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_read(ends[1], &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_poll(ends[0], POLLOUT, WEFT_FOREVER), POLLOUT);
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), 1);
    CHECK_OK(weft_close(ends[1]));
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), -ECONNREFUSED);
    CHECK_OK(weft_close(ends[0]));
}

TEST_SIMULATED(packets_have_an_end_and_a_listener, .latency_ns = 0)
{
    struct sockaddr_un name;
    uint32_t size = sizeof name;
    char text[8];
    int listener = make_socket(AF_UNIX, SOCK_SEQPACKET);
    int client = make_socket(AF_UNIX, SOCK_SEQPACKET);
    int stream = make_socket(AF_UNIX, SOCK_STREAM);
    CHECK_OK(bind_path(listener, "/run/packets"));
    CHECK_EQ(connect_path(client, "/run/packets", WEFT_FOREVER), -ECONNREFUSED);
    CHECK_OK(sockets()->listen(state(), listener, 1));
    CHECK_EQ(connect_path(stream, "/run/packets", WEFT_FOREVER), -EPROTOTYPE);
    CHECK_OK(connect_path(client, "/run/packets", WEFT_FOREVER));
    int server = weft_accept_fd(listener, (struct sockaddr *)&name, &size, 0, WEFT_FOREVER);
    CHECK_OK(server);
    CHECK_EQ(size, sizeof(sa_family_t)); // the client has no name
    size = sizeof name;
    CHECK_OK(sockets()->peer(state(), client, (struct sockaddr *)&name, &size));
    CHECK_STR(name.sun_path, "/run/packets");
    CHECK_EQ(weft_write(client, "one", 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_write(client, "two", 3, WEFT_FOREVER), 3);
    CHECK_OK(weft_close(client));
    CHECK_EQ(weft_read(server, text, sizeof text, WEFT_FOREVER), 3);
    CHECK_EQ(weft_read(server, text, 1, WEFT_FOREVER), 1); // the rest is cut off
    CHECK_EQ(weft_read(server, text, sizeof text, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(server));
    CHECK_OK(weft_close(listener));
    CHECK_OK(weft_close(stream));
}

// Descriptors under way.

TEST_SIMULATED(descriptors_travel, .latency_ns = 0)
{
    static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
    for (int k = 0; k < 3; k++) {
        int ends[2], sent[2], got[2] = { -1, -1 };
        size_t count = 2;
        char text[8];
        make_pair(ends, types[k]);
        make_pair(sent, SOCK_STREAM);
        CHECK_EQ(weft_unix_send_fds(ends[0], "two", 3, sent, 2, WEFT_FOREVER), 3);
        CHECK_OK(weft_close(sent[1])); // under way it stays open
        CHECK_EQ(weft_unix_recv_fds(ends[1], text, sizeof text, got, &count, WEFT_FOREVER), 3);
        CHECK_EQ(count, 2);
        CHECK_NE(got[0], sent[0]); // another number for the same socket
        CHECK_EQ(weft_write(sent[0], "a", 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_write(got[0], "b", 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read_full(NULL, got[1], text, 2, WEFT_FOREVER), 2);
        CHECK_EQ(memcmp(text, "ab", 2), 0);
        CHECK_OK(weft_close(sent[0]));
        CHECK_EQ(weft_write(got[0], "c", 1, WEFT_FOREVER), 1);
        CHECK_OK(weft_close(got[0]));
        CHECK_EQ(weft_read(got[1], text, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(got[1], text, 1, WEFT_FOREVER), 0); // now all its numbers are closed
        CHECK_OK(weft_close(got[1]));
        close_both(ends);
    }
}

TEST_SIMULATED(descriptors_that_nobody_takes_are_closed, .latency_ns = 0)
{
    for (int k = 0; k < 3; k++) {
        int ends[2], sent[2];
        char byte;
        make_pair(ends, SOCK_STREAM);
        make_pair(sent, SOCK_STREAM);
        CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, &sent[1], 1, WEFT_FOREVER), 1);
        CHECK_OK(weft_close(sent[1]));
        if (k == 0) {
            CHECK_EQ(weft_read(ends[1], &byte, 1, WEFT_FOREVER), 1); // without room for them
        } else if (k == 1) {
            CHECK_OK(weft_sleep(WEFT_MS));
        }
        close_both(ends); // arrived, or still under way
        CHECK_EQ(weft_read(sent[0], &byte, 1, WEFT_FOREVER), 0);
        CHECK_OK(weft_close(sent[0]));
    }
}

TEST_SIMULATED(other_descriptors_do_not_travel, .latency_ns = 0)
{
    int ends[2], real = 0, closed = make_socket(AF_UNIX, SOCK_STREAM);
    make_pair(ends, SOCK_STREAM);
    CHECK_OK(weft_close(closed));
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, &real, 1, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, &closed, 1, WEFT_FOREVER), -EBADF);
    close_both(ends);
}

TEST_SIMULATED(a_socket_that_carries_itself_is_freed_with_the_run, .latency_ns = 0)
{
    int ends[2];
    make_pair(ends, SOCK_STREAM);
    CHECK_EQ(weft_unix_send_fds(ends[0], "x", 1, &ends[1], 1, WEFT_FOREVER), 1);
    CHECK_OK(weft_sleep(WEFT_MS));
    close_both(ends);
}

TEST_SIMULATED(what_is_left_open_is_freed_with_the_run, .latency_ns = 0)
{
    int ends[2];
    char data[100] = "";
    make_connection(ends);
    CHECK_EQ(weft_write(ends[0], data, sizeof data, WEFT_FOREVER), sizeof data);
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK_EQ(weft_write(ends[0], data, sizeof data, WEFT_FOREVER), sizeof data);
    make_pair(ends, SOCK_DGRAM);
    CHECK_EQ(weft_write(ends[0], data, sizeof data, WEFT_FOREVER), sizeof data);
    (void)listen_v4(99, 3);
}
