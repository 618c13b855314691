// udp_test.c - UDP: connected and not, cut messages, errors of the network, batches, multicast, and
// what becomes of those who wait when the socket is closed.
#include "support/dgrams.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft.h>

#include "support/gather.h"

TEST_EVERYWHERE(messages_arrive_with_their_senders_address)
{
    struct weft_addr a_addr, b_addr, from;
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &a_addr);
    weft_dgram *b = bind_to("udp://127.0.0.1:0", &b_addr);
    char text[64];
    CHECK_GT(weft_addr_port(&a_addr), 0);
    CHECK_OK(weft_dgram_send_to(a, &b_addr, "hello", 5, soon()));
    CHECK_EQ(weft_dgram_recv(b, text, sizeof text, &from, soon()), 5);
    CHECK(memcmp(text, "hello", 5) == 0);
    CHECK(weft_addr_equal(&from, &a_addr));
    CHECK_OK(weft_dgram_send_to(b, &from, "", 0, soon()));
    CHECK_EQ(weft_dgram_recv(a, text, sizeof text, NULL, soon()), 0);
    CHECK_OK(weft_dgram_close(a));
    CHECK_OK(weft_dgram_close(b));
    CHECK_OK(weft_dgram_close(NULL));
}

TEST_EVERYWHERE(a_message_that_is_too_long_says_how_long_it_was)
{
    struct weft_addr addr;
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &addr);
    char text[101];
    memset(text, 'x', sizeof text);
    CHECK_OK(weft_dgram_send_to(a, &addr, text, 100, soon()));
    CHECK_OK(weft_dgram_send_to(a, &addr, "next", 4, soon()));
    memset(text, 0, sizeof text);
    CHECK_EQ(weft_dgram_recv(a, text, 10, NULL, soon()), 100);
    CHECK_STR(text, "xxxxxxxxxx");
    CHECK_EQ(weft_dgram_recv(a, text, 4, NULL, soon()), 4);
    CHECK(memcmp(text, "next", 4) == 0);

    static char huge[70000];
    CHECK_EQ(weft_dgram_send_to(a, &addr, huge, sizeof huge, soon()), -EMSGSIZE);
    CHECK_OK(weft_dgram_close(a));
}

TEST_EVERYWHERE(a_connected_socket_hears_only_its_peer)
{
    struct weft_addr server_addr, client_addr, addr;
    weft_dgram *server = bind_to("udp://127.0.0.1:0", &server_addr);
    weft_dgram *stranger = bind_to("udp://127.0.0.1:0", NULL);
    weft_dgram *client = dial(&server_addr);
    char text[16];
    CHECK_OK(weft_dgram_peer(client, &addr));
    CHECK(weft_addr_equal(&addr, &server_addr));
    CHECK_OK(weft_dgram_local(client, &client_addr));
    CHECK_OK(weft_dgram_send(client, "ask", 3, soon()));
    CHECK_EQ(weft_dgram_recv(server, text, sizeof text, &addr, soon()), 3);
    CHECK(weft_addr_equal(&addr, &client_addr));
    CHECK_OK(weft_dgram_send_to(stranger, &client_addr, "lie", 3, soon()));
    CHECK_OK(weft_dgram_send_to(server, &client_addr, "answer", 6, soon()));
    CHECK_EQ(weft_dgram_recv(client, text, sizeof text, &addr, soon()), 6);
    CHECK(weft_addr_equal(&addr, &server_addr));

    // Without a peer it hears everyone, and sends to nobody in particular.
    CHECK_OK(weft_dgram_connect(client, NULL, soon()));
    CHECK_EQ(weft_dgram_peer(client, &addr), -ENOTCONN);
    CHECK_EQ(weft_addr_kind(&addr), WEFT_ADDR_NONE);
    CHECK_EQ(weft_dgram_send(client, "?", 1, soon()), -EDESTADDRREQ);
    CHECK_OK(weft_dgram_close(client));
    CHECK_OK(weft_dgram_close(stranger));
    CHECK_OK(weft_dgram_close(server));
}

TEST_EVERYWHERE(a_bound_socket_can_be_connected)
{
    struct weft_addr a_addr, b_addr, addr;
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &a_addr);
    weft_dgram *b = bind_to("udp://127.0.0.1:0", &b_addr);
    char text[16];
    CHECK_OK(weft_dgram_connect(a, &b_addr, soon()));
    CHECK_OK(weft_dgram_send(a, "x", 1, soon()));
    CHECK_EQ(weft_dgram_recv(b, text, sizeof text, &addr, soon()), 1);
    CHECK(weft_addr_equal(&addr, &a_addr));
    CHECK_OK(weft_addr_parse(&addr, "unixgram://@x"));
    CHECK_EQ(weft_dgram_connect(a, &addr, soon()), -EINVAL);
    CHECK_EQ(weft_dgram_send_to(a, &addr, "x", 1, soon()), -EINVAL);
    CHECK_OK(weft_dgram_close(a));
    CHECK_OK(weft_dgram_close(b));
}

struct closing {
    weft_dgram *dgram;
    int rc;
};

static int receive_one(void *arg)
{
    struct closing *closing = arg;
    char byte;
    closing->rc = (int)weft_dgram_recv(closing->dgram, &byte, 1, NULL, WEFT_FOREVER);
    return 0;
}

static int close_dgram(void *arg)
{
    struct closing *closing = arg;
    closing->rc = weft_dgram_close(closing->dgram);
    return 0;
}

// The first waits for the reader to leave, who is behind us in the queue.
TEST_EVERYWHERE(of_two_closes_one_closes)
{
    struct closing reader, closer;
    weft_task *tasks[2];
    CHECK_OK(weft_dgram_bind(&reader.dgram, "udp://127.0.0.1:0", NULL));
    closer.dgram = reader.dgram;
    CHECK_OK(weft_spawn(&tasks[0], receive_one, &reader, NULL));
    CHECK_OK(weft_yield());
    CHECK_OK(weft_spawn(&tasks[1], close_dgram, &closer, NULL));
    CHECK_OK(weft_yield());
    CHECK_EQ(weft_dgram_close(reader.dgram), -EBADF);
    CHECK_OK(weft_join(NULL, tasks[0], WEFT_FOREVER));
    CHECK_OK(weft_join(NULL, tasks[1], WEFT_FOREVER));
    CHECK_EQ(reader.rc, -EBADF);
    CHECK_OK(closer.rc);
}

TEST_EVERYWHERE(a_closed_port_refuses_a_connected_socket)
{
    struct weft_addr addr;
    weft_dgram *server = bind_to("udp://127.0.0.1:0", &addr);
    weft_dgram *client = dial(&addr);
    char text[16];
    CHECK_OK(weft_dgram_close(server));
    CHECK_OK(weft_dgram_send(client, "x", 1, soon()));
    CHECK_EQ(weft_dgram_recv(client, text, sizeof text, NULL, soon()), -ECONNREFUSED);

    // A batch hears of it as well, and the socket is as good as before.
    struct weft_dgram_message message = { .data = text, .room = sizeof text };
    CHECK_OK(weft_dgram_send(client, "x", 1, soon()));
    CHECK_EQ(weft_dgram_recv_batch(client, &message, 1, soon()), -ECONNREFUSED);
    weft_dgram *again;
    char where[WEFT_ADDR_TEXT_BYTES];
    (void)weft_addr_format(&addr, where, sizeof where);
    CHECK_OK(weft_dgram_bind(&again, where, NULL));
    CHECK_OK(weft_dgram_send(client, "y", 1, soon()));
    CHECK_EQ(weft_dgram_recv(again, text, sizeof text, NULL, soon()), 1);
    CHECK_OK(weft_dgram_close(client));
    CHECK_OK(weft_dgram_close(again));
}

TEST_EVERYWHERE(waiting_ends_at_the_deadline)
{
    struct weft_addr addr;
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &addr);
    char text[16];
    struct weft_addr from;
    struct weft_dgram_message message = { .data = text, .room = sizeof text };
    for (int i = 0; i < 3; i++) {
        weft_time due = weft_after(2 * WEFT_MS);
        CHECK_EQ(weft_dgram_recv(a, text, sizeof text, &from, due), -ETIMEDOUT);
        CHECK_GE(weft_now(), due);
        CHECK_EQ(weft_addr_kind(&from), WEFT_ADDR_NONE);
        due = weft_after(2 * WEFT_MS);
        CHECK_EQ(weft_dgram_recv_batch(a, &message, 1, due), -ETIMEDOUT);
        CHECK_GE(weft_now(), due);
    }
    CHECK_EQ(weft_dgram_recv(a, text, sizeof text, NULL, weft_now()), -ETIMEDOUT);
    // What is there is taken, however late it is.
    CHECK_OK(weft_dgram_send_to(a, &addr, "x", 1, soon()));
    CHECK_EQ(weft_dgram_recv(a, text, sizeof text, NULL, soon()), 1);
    CHECK_OK(weft_dgram_close(a));
}

// ---------------------------------------------------------------------------------------------
// Many at once.

struct receiver {
    weft_dgram *dgram;
    weft_task *task;
    int64_t result;
    bool batch;
    char text[16];
};

static int receive(void *arg)
{
    struct receiver *receiver = arg;
    if (receiver->batch) {
        struct weft_dgram_message message = { .data = receiver->text, .room = 16 };
        receiver->result = weft_dgram_recv_batch(receiver->dgram, &message, 1, WEFT_FOREVER);
    } else {
        receiver->result = weft_dgram_recv(receiver->dgram, receiver->text, 16, NULL, WEFT_FOREVER);
    }
    return 0;
}

/// Every second one receives a batch.
static void start(struct receiver *receivers, size_t count, weft_dgram *dgram)
{
    static size_t started;
    for (size_t i = 0; i < count; i++) {
        receivers[i] = (struct receiver){ .dgram = dgram, .batch = ++started % 2 == 0 };
        CHECK_OK(weft_spawn(&receivers[i].task, receive, &receivers[i], NULL));
    }
    CHECK_OK(weft_yield()); // they wait now
}

TEST_EVERYWHERE(each_message_goes_to_one_of_many_receivers)
{
    enum { COUNT = 20 };
    struct weft_addr addr;
    struct receiver receivers[COUNT];
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &addr);
    bool seen[COUNT] = { false };
    start(receivers, COUNT, a);
    for (int i = 0; i < COUNT; i++) {
        char number = (char)i;
        CHECK_OK(weft_dgram_send_to(a, &addr, &number, 1, soon()));
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_join(NULL, receivers[i].task, soon()));
        CHECK_EQ(receivers[i].result, 1);
        CHECK(!seen[(int)receivers[i].text[0]]);
        seen[(int)receivers[i].text[0]] = true;
    }
    CHECK_OK(weft_dgram_close(a));
}

TEST_EVERYWHERE(a_cancelled_receiver_takes_no_message)
{
    enum { COUNT = 8 };
    struct weft_addr addr;
    struct receiver receivers[COUNT];
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &addr);
    char text[16];
    start(receivers, COUNT, a);
    for (int i = 0; i < COUNT; i++) {
        weft_task_cancel(receivers[i].task);
        CHECK_OK(weft_join(NULL, receivers[i].task, soon()));
        CHECK_EQ(receivers[i].result, -ECANCELED);
    }
    CHECK_OK(weft_dgram_send_to(a, &addr, "x", 1, soon()));
    CHECK_EQ(weft_dgram_recv(a, text, sizeof text, NULL, soon()), 1);
    CHECK_OK(weft_dgram_close(a));
}

/// Cancels and messages that cross: nothing is lost, and nothing is received twice.
TEST_EVERYWHERE(a_cancel_never_loses_a_message)
{
    struct weft_addr addr;
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &addr);
    uint64_t random = test_seed();
    for (uint64_t round = test_scaled(300); round > 0; round--) {
        struct receiver receiver;
        char text[16];
        start(&receiver, 1, a);
        bool before = test_random(&random) % 2 == 0;
        if (before) {
            weft_task_cancel(receiver.task);
        }
        CHECK_OK(weft_dgram_send_to(a, &addr, "x", 1, soon()));
        if (!before) {
            weft_task_cancel(receiver.task);
        }
        CHECK_OK(weft_join(NULL, receiver.task, soon()));
        if (receiver.result == -ECANCELED) {
            CHECK_EQ(weft_dgram_recv(a, text, sizeof text, NULL, soon()), 1);
        } else {
            CHECK_EQ(receiver.result, 1);
        }
        CHECK_EQ(weft_dgram_recv(a, text, sizeof text, NULL, weft_now()), -ETIMEDOUT);
    }
    CHECK_OK(weft_dgram_close(a));
}

TEST_EVERYWHERE(closing_ends_those_who_wait_and_frees_the_port)
{
    enum { COUNT = 8 };
    struct weft_addr addr;
    struct receiver receivers[COUNT];
    char where[WEFT_ADDR_TEXT_BYTES];
    int before = count_descriptors();
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &addr);
    (void)weft_addr_format(&addr, where, sizeof where);
    for (int round = 0; round < 5; round++) {
        start(receivers, COUNT, a);
        CHECK_OK(weft_dgram_close(a));
        for (int i = 0; i < COUNT; i++) {
            CHECK_OK(weft_join(NULL, receivers[i].task, soon()));
            CHECK_EQ(receivers[i].result, -EBADF);
        }
        CHECK_OK(weft_dgram_bind(&a, where, NULL));
    }
    CHECK_OK(weft_dgram_close(a));
    CHECK_EQ(count_descriptors(), before);
}

static int use_elsewhere(void *arg)
{
    weft_dgram *dgram = arg;
    struct weft_addr addr;
    struct weft_dgram_message message = { .data = &addr, .room = sizeof addr };
    weft_dgram *peer;
    char text[4];
    CHECK_OK(weft_addr_parse(&addr, "udp://127.0.0.1:9"));
    CHECK_EQ(weft_dgram_recv(dgram, text, sizeof text, NULL, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_dgram_send(dgram, text, 1, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_dgram_send_to(dgram, &addr, text, 1, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_dgram_connect(dgram, &addr, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_dgram_accept(&peer, dgram, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_dgram_recv_batch(dgram, &message, 1, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_dgram_send_batch(dgram, &message, 1, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_dgram_join(dgram, &addr, NULL), -EXDEV);
    CHECK_EQ(weft_dgram_local(dgram, &addr), -EXDEV);
    CHECK_EQ(weft_dgram_peer(dgram, &addr), -EXDEV);
    CHECK_EQ(weft_dgram_close(dgram), -EXDEV);
    return 0;
}

TEST_EVERYWHERE(another_carrier_may_not_use_it)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    weft_dgram *a = bind_to("udp://127.0.0.1:0", NULL);
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = (weft_carrier_id() + 1) % weft_carrier_count();
    CHECK_OK(weft_spawn(&task, use_elsewhere, a, &attr));
    CHECK_OK(weft_join(NULL, task, soon()));
    CHECK_OK(weft_dgram_close(a));
}

TEST(outside_a_virtual_thread_there_are_no_sockets)
{
    weft_dgram *dgram, *pair[2];
    CHECK_EQ(weft_dgram_bind(&dgram, "udp://127.0.0.1:0", NULL), -EPERM);
    CHECK(dgram == NULL);
    CHECK_EQ(weft_dgram_dial(&dgram, "udp://127.0.0.1:9", NULL, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_dgram_pair(pair, WEFT_ADDR_UNIXGRAM), -EPERM);
    CHECK_EQ(weft_dgram_adopt(&dgram, 0), -EPERM);
}

// ---------------------------------------------------------------------------------------------
// Batches.

enum { MANY = 100 };

struct batch {
    struct weft_dgram_message messages[MANY];
    char data[MANY][128];
};

static void prepare_to_receive(struct batch *batch)
{
    memset(batch, 0, sizeof *batch);
    for (int i = 0; i < MANY; i++) {
        batch->messages[i].data = batch->data[i];
        batch->messages[i].room = sizeof batch->data[i];
    }
}

static void prepare_to_send(struct batch *batch, const struct weft_addr *to)
{
    prepare_to_receive(batch);
    for (int i = 0; i < MANY; i++) {
        memset(batch->data[i], i, sizeof batch->data[i]);
        batch->messages[i].size = (size_t)i; // the first one is empty
        batch->messages[i].addr = *to;
    }
}

/// Receives `count` messages, in as many batches as it takes.
static void receive_all(weft_dgram *dgram, struct batch *batch, int count)
{
    for (int done = 0; done < count;) {
        int got = weft_dgram_recv_batch(dgram, batch->messages + done, (unsigned)(MANY - done),
                                        soon());
        CHECK_GT(got, 0);
        done += got;
        CHECK_LE(done, count);
    }
}

TEST_EVERYWHERE(batches_arrive_in_order_and_go_back_as_they_are)
{
    static struct batch out, in, back;
    struct weft_addr server_addr, client_addr;
    weft_dgram *server = bind_to("udp://127.0.0.1:0", &server_addr);
    weft_dgram *client = bind_to("udp://127.0.0.1:0", &client_addr);
    prepare_to_send(&out, &server_addr);
    prepare_to_receive(&in);
    prepare_to_receive(&back);
    CHECK_EQ(weft_dgram_send_batch(client, out.messages, MANY, soon()), MANY);
    receive_all(server, &in, MANY);
    CHECK_EQ(weft_dgram_send_batch(server, in.messages, MANY, soon()), MANY);
    receive_all(client, &back, MANY);
    for (int i = 0; i < MANY; i++) {
        CHECK(weft_addr_equal(&in.messages[i].addr, &client_addr));
        CHECK(weft_addr_equal(&back.messages[i].addr, &server_addr));
        CHECK_EQ(back.messages[i].size, i);
        CHECK_EQ(back.messages[i].segment_bytes, 0);
        CHECK(memcmp(back.data[i], out.data[i], (size_t)i) == 0);
    }
    CHECK_OK(weft_dgram_close(client));
    CHECK_OK(weft_dgram_close(server));
}

static int receive_batches(void *arg)
{
    static struct batch in;
    prepare_to_receive(&in);
    receive_all(arg, &in, MANY);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(in.messages[i].size, i);
    }
    return 0;
}

TEST_EVERYWHERE(a_batch_waits_for_its_first_message)
{
    static struct batch out;
    struct weft_addr addr;
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &addr);
    weft_task *task;
    CHECK_OK(weft_spawn(&task, receive_batches, a, NULL));
    CHECK_OK(weft_yield());
    prepare_to_send(&out, &addr);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_EQ(weft_dgram_send_batch(a, out.messages + i, 1, soon()), 1);
        CHECK_OK(weft_yield());
    }
    CHECK_OK(weft_join(NULL, task, soon()));
    CHECK_OK(weft_dgram_close(a));
}

TEST_EVERYWHERE(a_batch_says_how_far_it_came)
{
    static struct batch out;
    static char huge[70000];
    struct weft_addr addr, other;
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &addr);
    prepare_to_send(&out, &addr);
    CHECK_EQ(weft_dgram_send_batch(a, out.messages, 0, soon()), -EINVAL);
    CHECK_EQ(weft_dgram_recv_batch(a, out.messages, 0, soon()), -EINVAL);
    out.messages[40].data = huge;
    out.messages[40].size = sizeof huge;
    CHECK_EQ(weft_dgram_send_batch(a, out.messages, MANY, soon()), 40);
    CHECK_EQ(weft_dgram_send_batch(a, out.messages + 40, MANY - 40, soon()), -EMSGSIZE);
    // An address of another kind is a mistake: nothing is sent.
    CHECK_OK(weft_addr_parse(&other, "tcp://127.0.0.1:9"));
    out.messages[3].addr = other;
    CHECK_EQ(weft_dgram_send_batch(a, out.messages, 10, soon()), -EINVAL);

    // Cut messages are reported one by one.
    struct weft_dgram_message in[2] = { { .data = huge, .room = 5 }, { .data = huge, .room = 5 } };
    weft_dgram *b = bind_to("udp://127.0.0.1:0", &addr);
    out.messages[5].addr = out.messages[6].addr = addr;
    CHECK_EQ(weft_dgram_send_batch(a, out.messages + 5, 2, soon()), 2);
    if (weft_dgram_recv_batch(b, in, 2, soon()) == 1) { // the second one is still under way
        CHECK_EQ(weft_dgram_recv_batch(b, in + 1, 1, soon()), 1);
    }
    CHECK_EQ(in[0].size, 5);
    CHECK_EQ(in[1].size, 6); // of 5 bytes of room
    CHECK_OK(weft_dgram_close(a));
    CHECK_OK(weft_dgram_close(b));
}

TEST_EVERYWHERE(one_message_becomes_many_datagrams_and_one_again)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    struct weft_addr addr;
    static char data[1050], room[2048];
    weft_dgram *plain = bind_to("udp://127.0.0.1:0", &addr);
    weft_dgram *sender = dial(&addr);
    struct weft_dgram_message out = { .data = data, .size = sizeof data, .segment_bytes = 100 };
    int rc = weft_dgram_send_batch(sender, &out, 1, soon());
    if (rc == -EINVAL || rc == -EIO) {
        SKIP("the kernel cannot send segments");
    }
    CHECK_EQ(rc, 1);
    for (int i = 0; i < 11; i++) {
        CHECK_EQ(weft_dgram_recv(plain, room, sizeof room, NULL, soon()), i < 10 ? 100 : 50);
    }

    options.receive_gro = true;
    weft_dgram *whole;
    CHECK_OK(weft_dgram_bind(&whole, "udp://127.0.0.1:0", &options));
    CHECK_OK(weft_dgram_local(whole, &out.addr));
    CHECK_OK(weft_dgram_connect(sender, NULL, soon()));
    CHECK_EQ(weft_dgram_send_batch(sender, &out, 1, soon()), 1);
    size_t received = 0;
    while (received < sizeof data) {
        struct weft_dgram_message in = { .data = room, .room = sizeof room };
        CHECK_EQ(weft_dgram_recv_batch(whole, &in, 1, soon()), 1);
        CHECK(in.size <= 100 || in.segment_bytes == 100);
        received += in.size;
    }
    CHECK_EQ(received, sizeof data);
    CHECK_OK(weft_dgram_close(sender));
    CHECK_OK(weft_dgram_close(plain));
    CHECK_OK(weft_dgram_close(whole));
}

// ---------------------------------------------------------------------------------------------
// Addresses.

TEST_EVERYWHERE(a_socket_for_every_address_speaks_both_languages)
{
    static const char *const ways[] = { "udp://127.0.0.1:0", "udp://[::1]:0" };
    struct weft_addr addr, target, from;
    weft_dgram *server = bind_to("udp://*:0", &addr);
    char text[16];
    for (size_t i = 0; i < 2; i++) {
        weft_dgram *client;
        if (weft_dgram_bind(&client, ways[i], NULL) < 0) {
            continue; // no IPv6 here
        }
        CHECK_OK(weft_addr_parse(&target, ways[i]));
        CHECK_OK(weft_addr_set_port(&target, (uint16_t)weft_addr_port(&addr)));
        CHECK_OK(weft_dgram_send_to(client, &target, "ask", 3, soon()));
        CHECK_EQ(weft_dgram_recv(server, text, sizeof text, &from, soon()), 3);
        CHECK_EQ(weft_addr_family(&from), weft_addr_family(&target)); // never a mapped one
        CHECK_OK(weft_dgram_send_to(server, &from, "answer", 6, soon()));
        CHECK_EQ(weft_dgram_recv(client, text, sizeof text, &from, soon()), 6);
        CHECK(weft_addr_equal(&from, &target));
        CHECK_OK(weft_dgram_close(client));
    }
    CHECK_OK(weft_dgram_close(server));
}

TEST_EVERYWHERE(bad_addresses_and_taken_ports_are_errors)
{
    weft_dgram *a, *b;
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    CHECK_EQ(weft_dgram_bind(&a, "tcp://127.0.0.1:0", NULL), -EPROTONOSUPPORT);
    CHECK_EQ(weft_dgram_bind(&a, "127.0.0.1:0", NULL), -EPROTONOSUPPORT);
    CHECK_EQ(weft_dgram_bind(&a, "unix://@x", NULL), -EPROTONOSUPPORT);
    CHECK_EQ(weft_dgram_bind(&a, "udp://127.0.0.1", NULL), -EINVAL);
    CHECK_EQ(weft_dgram_bind(&a, "udp://127.0.0.1:65536", NULL), -ERANGE);
    if (test_driver() != TEST_DRIVER_SIM) { // where every address is the machine's own
        CHECK_EQ(weft_dgram_bind(&a, "udp://203.0.113.1:0", NULL), -EADDRNOTAVAIL);
    }
    CHECK_EQ(weft_dgram_dial(&a, "tcp://127.0.0.1:9", NULL, soon()), -EPROTONOSUPPORT);
    a = bind_to("udp://127.0.0.1:0", &addr);
    (void)weft_addr_format(&addr, text, sizeof text);
    CHECK_EQ(weft_dgram_bind(&b, text, NULL), -EADDRINUSE);
    CHECK(b == NULL);
    CHECK_OK(weft_dgram_close(a));
}

/// Sends to a group on the loopback interface and hears it, as long as it is a member.
static void check_group(const char *where, const char *group_text)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    struct weft_addr group, from;
    weft_dgram *member;
    char text[16];
    options.multicast_device = "lo";
    options.multicast_ttl = 1;
    options.multicast_loop = WEFT_ON;
    if (weft_dgram_bind(&member, where, &options) < 0) {
        return; // no IPv6 here
    }
    CHECK_OK(weft_dgram_local(member, &from));
    CHECK_OK(weft_addr_parse(&group, group_text));
    CHECK_OK(weft_addr_set_port(&group, (uint16_t)weft_addr_port(&from)));
    CHECK_EQ(weft_dgram_join(member, &group, "no-such-if"), -ENODEV);
    CHECK_EQ(weft_dgram_leave(member, &group, "lo"), -EADDRNOTAVAIL);
    CHECK_OK(weft_dgram_join(member, &group, "lo"));
    CHECK_EQ(weft_dgram_join(member, &group, "lo"), -EADDRINUSE);
    int rc = weft_dgram_send_to(member, &group, "all", 3, soon());
    if (rc == 0) {
        CHECK_EQ(weft_dgram_recv(member, text, sizeof text, &from, soon()), 3);
    } else { // IPv6 has no route for groups on the loopback interface, unless somebody made one
        CHECK_EQ(rc, -ENETUNREACH);
        CHECK_EQ(weft_addr_family(&group), AF_INET6);
    }
    CHECK_OK(weft_dgram_leave(member, &group, "lo"));
    CHECK_OK(weft_addr_parse(&group, "udp://127.0.0.1:9"));
    CHECK_EQ(weft_dgram_join(member, &group, "lo"), -EINVAL);
    CHECK_OK(weft_dgram_close(member));
}

TEST_EVERYWHERE(members_of_a_group_hear_what_is_sent_to_it)
{
    check_group("udp://0.0.0.0:0", "udp://239.255.77.1:1");
    check_group("udp://[::]:0", "udp://[ff01::7701]:1");
}

TEST_EVERYWHERE(the_option_that_fails_is_named)
{
    static const struct {
        size_t field;
        int value, error;
        const char *name;
    } cases[] = {
        { offsetof(struct weft_socket_options, ttl), 256, -EINVAL, "ttl" },
        { offsetof(struct weft_socket_options, tos), -1, -EINVAL, "tos" },
        { offsetof(struct weft_socket_options, send_buffer_bytes), -1, -EINVAL,
          "send_buffer_bytes" },
        { offsetof(struct weft_socket_options, receive_buffer_bytes), -1, -EINVAL,
          "receive_buffer_bytes" },
        { offsetof(struct weft_socket_options, multicast_ttl), 256, -EINVAL, "multicast_ttl" },
    };
    weft_dgram *dgram;
    int before = count_descriptors();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
        const char *failed = "nothing";
        options.failed = &failed;
        memcpy((char *)&options + cases[i].field, &cases[i].value, sizeof cases[i].value);
        CHECK_EQ(weft_dgram_bind(&dgram, "udp://127.0.0.1:0", &options), cases[i].error);
        CHECK_STR(failed, cases[i].name);
    }
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    const char *failed = NULL;
    options.failed = &failed;
    options.device = "no-such-if";
    CHECK_EQ(weft_dgram_bind(&dgram, "udp://127.0.0.1:0", &options), -ENODEV);
    CHECK_STR(failed, "device");
    options.device = NULL;
    options.multicast_device = "no-such-if";
    CHECK_EQ(weft_dgram_dial(&dgram, "udp://127.0.0.1:9", &options, soon()), -ENODEV);
    CHECK_STR(failed, "multicast_device");
    options.multicast_device = NULL;
    weft_dgram *first;
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    first = bind_to("udp://127.0.0.1:0", &addr);
    (void)weft_addr_format(&addr, text, sizeof text);
    CHECK_EQ(weft_dgram_bind(&dgram, text, &options), -EADDRINUSE);
    CHECK(failed == NULL); // not an option's fault
    CHECK_OK(weft_dgram_close(first));
    options.size = 3;
    CHECK_EQ(weft_dgram_bind(&dgram, "udp://127.0.0.1:0", &options), -EINVAL);
    CHECK_EQ(count_descriptors(), before);
}

TEST_SOCKETS(a_descriptor_can_be_adopted)
{
    struct weft_addr addr, target;
    weft_dgram *dgram;
    char text[16];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_OK(fd);
    CHECK_OK(weft_dgram_adopt(&dgram, fd));
    CHECK_EQ(weft_dgram_fd(dgram), fd);
    CHECK_OK(weft_addr_parse(&target, "udp://127.0.0.1:0"));
    uint32_t size;
    const struct sockaddr *form = weft_addr_sockaddr(&target, &size);
    CHECK_OK(bind(fd, form, size));
    CHECK_OK(weft_dgram_local(dgram, &addr));
    CHECK_OK(weft_dgram_send_to(dgram, &addr, "x", 1, soon()));
    CHECK_EQ(weft_dgram_recv(dgram, text, sizeof text, NULL, soon()), 1);
    CHECK_EQ(weft_dgram_recv(dgram, text, sizeof text, NULL, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_OK(weft_dgram_close(dgram));

    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(weft_dgram_adopt(&dgram, fd), -EPROTONOSUPPORT);
    CHECK_OK(close(fd)); // still the caller's
    CHECK_EQ(weft_dgram_adopt(&dgram, fd), -EBADF);
}
