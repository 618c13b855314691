// dgram_future_test.c - messages sent and received by futures (net/dgram_future.c).
#include "support/dgrams.h"
#include "support/hand.h"
#include "support/placed.h"

#include <errno.h>
#include <string.h>

static int64_t await_message(struct weft_dgram_future *future, weft_time deadline)
{
    int64_t result = weft_await(&future->future, deadline);
    weft_future_fini(&future->future);
    return result;
}

TEST_EVERYWHERE(messages_arrive_with_their_senders_address)
{
    struct weft_addr a_addr, b_addr, from;
    weft_dgram *a = bind_to("udp://127.0.0.1:0", &a_addr);
    weft_dgram *b = bind_to("udp://127.0.0.1:0", &b_addr);
    struct weft_dgram_future in, out, moved;
    struct hand hand = { 0 };
    char text[8];
    weft_dgram_recv_future(&moved, b, text, sizeof text, &from);
    in = moved; // it may be moved before its first poll
    memset(&moved, 0x5a, sizeof moved);
    CHECK_EQ(hand_poll(&hand, &in.future), WEFT_PENDING);
    CHECK_EQ(weft_addr_kind(&from), WEFT_ADDR_NONE);
    weft_dgram_send_to_future(&out, a, &b_addr, "hello", 5);
    CHECK_EQ(await_message(&out, WEFT_FOREVER), 0);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), 5);
    CHECK_EQ(memcmp(text, "hello", 5), 0);
    CHECK(weft_addr_equal(&from, &a_addr));
    weft_dgram_send_to_future(&out, b, &from, "too long for it", 15);
    CHECK_EQ(await_message(&out, WEFT_FOREVER), 0);
    weft_dgram_recv_future(&in, a, text, sizeof text, NULL);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), 15); // cut
    weft_dgram_send_future(&out, a, "nobody", 6);
    CHECK(await_message(&out, WEFT_FOREVER) < 0); // it has no peer
    CHECK_OK(weft_dgram_connect(a, &b_addr, WEFT_FOREVER));
    weft_dgram_send_future(&out, a, "peer", 4);
    CHECK_EQ(await_message(&out, WEFT_FOREVER), 0);
    weft_dgram_recv_future(&in, b, text, sizeof text, NULL);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), 4);
    CHECK_OK(weft_dgram_close(a));
    CHECK_OK(weft_dgram_close(b));
}

TEST_EVERYWHERE(packets_have_an_end)
{
    weft_dgram *pair[2];
    struct weft_dgram_future in, out;
    char text[8];
    struct weft_addr to;
    CHECK_OK(weft_addr_parse(&to, "udp://127.0.0.1:9"));
    CHECK_OK(weft_dgram_pair(pair, WEFT_ADDR_UNIXPACKET));
    weft_dgram_send_future(&out, pair[0], "", 0);
    CHECK_EQ(await_message(&out, WEFT_FOREVER), -EINVAL);
    weft_dgram_send_to_future(&out, pair[0], &to, "x", 1);
    CHECK_EQ(await_message(&out, WEFT_FOREVER), -EINVAL);
    weft_dgram_send_future(&out, pair[0], "last", 4);
    CHECK_EQ(await_message(&out, WEFT_FOREVER), 0);
    CHECK_OK(weft_dgram_close(pair[0]));
    weft_dgram_recv_future(&in, pair[1], text, sizeof text, NULL);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), 4);
    weft_dgram_recv_future(&in, pair[1], text, sizeof text, NULL);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), 0);
    CHECK_OK(weft_dgram_close(pair[1]));
}

TEST_EVERYWHERE(one_that_ends_early_takes_nothing)
{
    weft_dgram *pair[2];
    struct weft_dgram_future in;
    struct hand hand = { 0 };
    char text[8];
    CHECK_OK(weft_dgram_pair(pair, WEFT_ADDR_UNIXGRAM));
    weft_dgram_recv_future(&in, pair[1], text, sizeof text, NULL);
    CHECK_EQ(await_message(&in, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_dgram_recv_future(&in, pair[1], text, sizeof text, NULL);
    CHECK_EQ(hand_poll(&hand, &in.future), WEFT_PENDING);
    weft_future_cancel(&in.future);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), -ECANCELED);
    CHECK_OK(weft_dgram_send(pair[0], "abc", 3, WEFT_FOREVER));
    weft_dgram_recv_future(&in, pair[1], text, sizeof text, NULL);
    weft_future_cancel(&in.future); // before it began
    CHECK_EQ(await_message(&in, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_dgram_recv(pair[1], text, sizeof text, NULL, WEFT_FOREVER), 3);
    CHECK_OK(weft_dgram_close(pair[0]));
    CHECK_OK(weft_dgram_close(pair[1]));
}

/// A sender that finds no room waits; Unix sockets lose nothing.
TEST_EVERYWHERE(a_send_waits_for_room)
{
    weft_dgram *pair[2];
    struct weft_dgram_future out;
    static char data[4096];
    int sent = 0;
    CHECK_OK(weft_dgram_pair(pair, WEFT_ADDR_UNIXGRAM));
    for (;; sent++) {
        weft_dgram_send_future(&out, pair[0], data, sizeof data);
        if (await_message(&out, weft_after(5 * WEFT_MS)) == -ETIMEDOUT) {
            break;
        }
    }
    CHECK_GT(sent, 0);
    struct hand hand = { 0 };
    weft_dgram_send_future(&out, pair[0], data, sizeof data);
    CHECK_EQ(hand_poll(&hand, &out.future), WEFT_PENDING);
    for (int i = 0; i < sent; i++) {
        CHECK_EQ(weft_dgram_recv(pair[1], data, sizeof data, NULL, WEFT_FOREVER),
                 (int64_t)sizeof data);
    }
    CHECK_EQ(await_message(&out, WEFT_FOREVER), 0);
    CHECK_EQ(weft_dgram_recv(pair[1], data, sizeof data, NULL, WEFT_FOREVER), (int64_t)sizeof data);
    CHECK_OK(weft_dgram_close(pair[0]));
    CHECK_OK(weft_dgram_close(pair[1]));
}

TEST_EVERYWHERE(closing_ends_all_that_wait)
{
    enum { COUNT = 5 };
    for (int kind = WEFT_ADDR_UDP; kind <= WEFT_ADDR_UNIXPACKET; kind++) {
        weft_dgram *pair[2] = { NULL, NULL };
        struct weft_dgram_future in[COUNT];
        struct hand hands[COUNT] = { { 0 } };
        char text[8];
        if (kind == WEFT_ADDR_UDP) {
            pair[1] = bind_to("udp://127.0.0.1:0", NULL);
        } else if (kind == WEFT_ADDR_UNIXGRAM || kind == WEFT_ADDR_UNIXPACKET) {
            CHECK_OK(weft_dgram_pair(pair, (enum weft_addr_kind)kind));
        } else {
            continue;
        }
        for (int i = 0; i < COUNT; i++) {
            weft_dgram_recv_future(&in[i], pair[1], text, sizeof text, NULL);
            CHECK_EQ(hand_poll(&hands[i], &in[i].future), WEFT_PENDING);
        }
        CHECK_OK(weft_dgram_close(pair[1])); // nobody polls meanwhile
        for (int i = 0; i < COUNT; i++) {
            CHECK_EQ(atomic_load(&hands[i].woken), 1);
            CHECK_EQ(hand_drive(&hands[i], &in[i].future), -EBADF);
        }
        CHECK_OK(weft_dgram_close(pair[0]));
    }
}

// Elsewhere.

struct elsewhere {
    struct weft_dgram_future future;
    weft_dgram *dgram;
    char text[8];
};

static int poll_elsewhere(void *arg)
{
    struct elsewhere *elsewhere = arg;
    weft_dgram_recv_future(&elsewhere->future, elsewhere->dgram, elsewhere->text, 8, NULL);
    return (int)await_message(&elsewhere->future, WEFT_FOREVER);
}

static int cancel_elsewhere(void *arg)
{
    struct elsewhere *elsewhere = arg;
    weft_future_cancel(&elsewhere->future.future);
    return (int)await_message(&elsewhere->future, WEFT_FOREVER);
}

/// Begun here, cancelled and awaited on another carrier, while a message may come.
TEST_EVERYWHERE(it_is_cancelled_from_another_carrier)
{
    uint64_t random = test_seed();
    int other = (weft_carrier_id() + 1) % TEST_CARRIERS;
    weft_dgram *pair[2];
    CHECK_OK(weft_dgram_pair(pair, WEFT_ADDR_UNIXGRAM));
    struct elsewhere elsewhere = { .dgram = pair[1] };
    CHECK_EQ(join(spawn_on(other, poll_elsewhere, &elsewhere)), -EXDEV);
    for (uint64_t round = 0; round < test_scaled(200); round++) {
        struct hand hand = { 0 };
        weft_dgram_recv_future(&elsewhere.future, pair[1], elsewhere.text, 8, NULL);
        CHECK_EQ(hand_poll(&hand, &elsewhere.future.future), WEFT_PENDING);
        weft_task *task = spawn_on(other, cancel_elsewhere, &elsewhere);
        bool sends = test_random(&random) % 3 != 0;
        if (sends) {
            CHECK_OK(weft_dgram_send(pair[0], "z", 1, WEFT_FOREVER));
        }
        int result = join(task);
        CHECK(result == -ECANCELED || (sends && result == 1));
        if (sends && result < 0) { // it is still there
            CHECK_EQ(weft_dgram_recv(pair[1], elsewhere.text, 8, NULL, WEFT_FOREVER), 1);
        }
    }
    CHECK_OK(weft_dgram_close(pair[0]));
    CHECK_OK(weft_dgram_close(pair[1]));
}

/// A server without a stack.
struct echo {
    struct weft_machine machine; // first member
    struct weft_dgram_future io;
    weft_dgram *dgram;
    struct weft_addr from;
    char text[16];
};

static enum weft_poll serve(struct weft_future *future, weft_waker *waker)
{
    struct echo *e = (struct echo *)(void *)future;
    WEFT_MACHINE_BEGIN(&e->machine);
    for (;;) {
        weft_dgram_recv_future(&e->io, e->dgram, e->text, sizeof e->text, &e->from);
        WEFT_MACHINE_AWAIT(&e->machine, &e->io.future, waker);
        if (e->io.future.result < 0) {
            WEFT_MACHINE_RETURN(&e->machine, e->io.future.result);
        }
        weft_dgram_send_to_future(&e->io, e->dgram, &e->from, e->text, (size_t)e->io.future.result);
        WEFT_MACHINE_AWAIT(&e->machine, &e->io.future, waker);
    }
    WEFT_MACHINE_END(&e->machine, 0);
}

TEST_EVERYWHERE(a_server_of_futures)
{
    enum { SERVERS = 4, ROUNDS = 20 };
    static struct echo echoes[SERVERS];
    weft_task *tasks[SERVERS];
    struct weft_addr addr;
    weft_dgram *server = bind_to("udp://127.0.0.1:0", &addr);
    weft_dgram *client = dial(&addr);
    for (int i = 0; i < SERVERS; i++) {
        weft_machine_init(&echoes[i].machine, serve);
        echoes[i].dgram = server;
        CHECK_OK(weft_spawn_future(&tasks[i], &echoes[i].machine.future, NULL));
    }
    for (int round = 0; round < ROUNDS; round++) {
        char text[16];
        CHECK_OK(weft_dgram_send(client, "question", 8, WEFT_FOREVER));
        CHECK_EQ(weft_dgram_recv(client, text, sizeof text, NULL, WEFT_FOREVER), 8);
        CHECK_EQ(memcmp(text, "question", 8), 0);
    }
    for (int i = 0; i < SERVERS; i++) {
        int result;
        weft_task_cancel(tasks[i]);
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, -ECANCELED);
    }
    CHECK_OK(weft_dgram_close(client));
    CHECK_OK(weft_dgram_close(server));
}
