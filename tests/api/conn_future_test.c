// conn_future_test.c - the calls on connections and listeners as futures (net/leaf.h).
#include "support/conns.h"
#include "support/hand.h"
#include "support/placed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int64_t await_conn(struct weft_conn_future *future, weft_time deadline)
{
    int64_t result = weft_await(&future->future, deadline);
    weft_future_fini(&future->future);
    return result;
}

static int64_t peek(weft_conn *conn, struct weft_slice *in, size_t at_least)
{
    struct weft_conn_future future;
    weft_conn_peek_future(&future, conn, in, at_least);
    return await_conn(&future, WEFT_FOREVER);
}

// Reading.

TEST_EVERYWHERE(bytes_are_lent)
{
    struct pair pair = tcp();
    struct weft_slice in;
    put(pair.near, "abcdef");
    CHECK_EQ(peek(pair.far, &in, 6), 6);
    CHECK_EQ(memcmp(in.data, "abcdef", 6), 0);
    weft_conn_consume(pair.far, 4);
    CHECK_EQ(peek(pair.far, &in, 0), 2);
    weft_conn_consume(pair.far, 2);
    CHECK_EQ(peek(pair.far, &in, 0), -EAGAIN);
    struct weft_conn_limits limits = { .frame_bytes = 100 };
    weft_conn_set_limits(pair.far, &limits);
    CHECK_EQ(peek(pair.far, &in, 101), -EMSGSIZE);
    put(pair.near, "xy");
    CHECK_OK(weft_conn_close(pair.near));
    CHECK_EQ(peek(pair.far, &in, 3), -ENODATA);
    CHECK_EQ(in.size, 2);
    weft_conn_consume(pair.far, 2);
    CHECK_EQ(peek(pair.far, &in, 1), 0);
    CHECK_EQ(peek(pair.far, &in, 0), 0);
    CHECK_OK(weft_conn_close(pair.far));
}

/// It is woken when all of them are there, and not before: so it is polled once more.
TEST_EVERYWHERE(a_peek_waits_for_all_its_bytes)
{
    struct pair pair = tcp();
    struct weft_slice in = { "", 1 };
    struct weft_conn_future future;
    struct hand hand = { 0 };
    weft_conn_peek_future(&future, pair.far, &in, 6);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    put(pair.near, "abc");
    CHECK_OK(weft_conn_flush(pair.near, WEFT_FOREVER));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_yield()); // the first part arrives
    }
    put(pair.near, "def");
    while (atomic_load(&hand.woken) == 0) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_READY);
    CHECK_EQ(atomic_load(&hand.clones), 0);
    CHECK_EQ(future.future.result, 6);
    CHECK_EQ(in.size, 6);
    CHECK_EQ(memcmp(in.data, "abcdef", 6), 0);
    weft_conn_consume(pair.far, 6);
    close_pair(pair);
}

TEST_EVERYWHERE(a_peek_that_ends_early_loses_nothing)
{
    struct pair pair = tcp();
    struct weft_slice in;
    struct weft_conn_future future;
    struct hand hand = { 0 };
    weft_conn_peek_future(&future, pair.far, &in, 2);
    CHECK_EQ(await_conn(&future, weft_after(WEFT_MS)), -ETIMEDOUT);
    put(pair.near, "a");
    weft_conn_peek_future(&future, pair.far, &in, 1);
    weft_future_cancel(&future.future); // it starts nothing, whether there is a byte or not
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), -ECANCELED);
    weft_conn_peek_future(&future, pair.far, &in, 2);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    weft_future_cancel(&future.future);
    CHECK_EQ(hand_drive(&hand, &future.future), -ECANCELED);
    CHECK_EQ(in.size, 0);
    put(pair.near, "b");
    CHECK_EQ(weft_conn_peek(pair.far, &in, 2, WEFT_FOREVER), 2);
    CHECK_EQ(memcmp(in.data, "ab", 2), 0);
    close_pair(pair);
}

TEST_EVERYWHERE(one_reads_at_a_time)
{
    struct pair pair = tcp();
    struct weft_slice in;
    char byte;
    struct weft_conn_future first, second;
    struct hand hand = { 0 };
    weft_conn_peek_future(&first, pair.far, &in, 1);
    CHECK_EQ(hand_poll(&hand, &first.future), WEFT_PENDING);
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), -EBUSY);
    CHECK_EQ(weft_conn_read_into(pair.far, &byte, 1, WEFT_FOREVER), -EBUSY);
    weft_conn_read_into_future(&second, pair.far, &byte, 1);
    CHECK_EQ(await_conn(&second, WEFT_FOREVER), -EBUSY);
    CHECK_EQ(weft_conn_move(pair.far, (weft_carrier_id() + 1) % TEST_CARRIERS, WEFT_FOREVER),
             -EBUSY);
    put(pair.near, "x");
    CHECK_EQ(await_conn(&first, WEFT_FOREVER), 1);
    CHECK_EQ(peek(pair.far, &in, 1), 1);
    close_pair(pair);
}

TEST_EVERYWHERE(memory_is_filled)
{
    enum { SIZE = 100000 };
    static char out[SIZE], data[SIZE];
    struct pair pair = tcp();
    struct weft_conn_future future;
    struct hand hand = { 0 };
    for (int i = 0; i < SIZE; i++) {
        out[i] = (char)(i * 31 >> 3);
    }
    weft_conn_read_into_future(&future, pair.far, data, SIZE);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    CHECK_OK(weft_conn_write(pair.near, out, SIZE, WEFT_FOREVER));
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), SIZE);
    CHECK_EQ(memcmp(data, out, SIZE), 0);
    weft_conn_read_into_future(&future, pair.far, data, 0);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0);
    weft_conn_read_into_future(&future, pair.far, data, 10);
    CHECK_EQ(await_conn(&future, weft_after(WEFT_MS)), -ETIMEDOUT);
    put(pair.near, "abc");
    CHECK_OK(weft_conn_flush(pair.near, WEFT_FOREVER));
    weft_conn_read_into_future(&future, pair.far, data, 10);
    CHECK_EQ(await_conn(&future, weft_after(20 * WEFT_MS)), 3); // bytes win
    CHECK_EQ(memcmp(data, "abc", 3), 0);
    put(pair.near, "de");
    CHECK_OK(weft_conn_close(pair.near));
    weft_conn_read_into_future(&future, pair.far, data, 10);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 2);
    weft_conn_read_into_future(&future, pair.far, data, 10);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0);
    CHECK_OK(weft_conn_close(pair.far));
}

/// Closing does not wait for a peer of whom all was read (conn_drain.c), however that came.
TEST_EVERYWHERE(who_has_read_everything_closes_at_once)
{
    static char data[40000]; // several receive buffers, which are there when they are asked for
    struct pair pair = tcp();
    struct weft_conn_future future;
    struct weft_slice in;
    put(pair.far, "welcome");
    CHECK_OK(weft_conn_write(pair.near, data, sizeof data, WEFT_FOREVER));
    CHECK_OK(weft_conn_flush(pair.near, WEFT_FOREVER));
    CHECK_GT(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 0);
    weft_conn_read_into_future(&future, pair.far, data, sizeof data);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), sizeof data);
    int fd = weft_conn_fd(pair.far);
    weft_time late = weft_after(WEFT_S);
    CHECK_OK(weft_conn_close(pair.far));
    while (test_driver() != TEST_DRIVER_SIM && fcntl(fd, F_GETFD) >= 0) {
        CHECK_LT(weft_now(), late);
        CHECK_OK(weft_yield());
    }
    CHECK_OK(weft_conn_close(pair.near));
}

// Writing.

static const char block[65536];

/// Writes until there is no room any more, and one that waits for some. Returns how many bytes were
/// queued before that one.
static size_t fill(weft_conn *conn, struct weft_conn_future *future, struct hand *hand)
{
    size_t total = 0;
    for (;;) {
        weft_conn_write_future(future, conn, block, sizeof block);
        int64_t result = await_conn(future, weft_after(20 * WEFT_MS));
        if (result < 0) {
            CHECK_EQ(result, -ETIMEDOUT);
            break;
        }
        total += sizeof block;
    }
    weft_conn_write_future(future, conn, block, sizeof block);
    CHECK_EQ(hand_poll(hand, &future->future), WEFT_PENDING);
    return total;
}

static void drain(weft_conn *conn, size_t total)
{
    while (total > 0) {
        struct weft_slice in;
        CHECK_GT(weft_conn_peek(conn, &in, 1, WEFT_FOREVER), 0);
        size_t part = in.size < total ? in.size : total;
        weft_conn_consume(conn, part);
        total -= part;
    }
}

TEST_EVERYWHERE(a_write_waits_for_room)
{
    struct pair pair = tcp();
    struct weft_conn_future future, other;
    struct hand hand = { 0 };
    size_t total = fill(pair.near, &future, &hand);
    CHECK_EQ(weft_conn_write(pair.near, "x", 1, WEFT_FOREVER), -EBUSY);
    weft_conn_flush_future(&other, pair.near);
    CHECK_EQ(await_conn(&other, WEFT_FOREVER), -EBUSY);
    weft_future_cancel(&future.future);
    CHECK_EQ(hand_drive(&hand, &future.future), -ECANCELED); // nothing was queued
    weft_conn_write_future(&future, pair.near, "x", 1);
    CHECK_EQ(await_conn(&future, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_conn_write_future(&future, pair.near, "end", 3);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    drain(pair.far, total);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0);
    struct weft_slice in;
    CHECK_EQ(weft_conn_peek(pair.far, &in, 3, WEFT_FOREVER), 3);
    CHECK_EQ(memcmp(in.data, "end", 3), 0);
    close_pair(pair);
}

TEST_EVERYWHERE(a_flush_waits_until_all_is_sent)
{
    struct pair pair = tcp();
    struct weft_conn_future future;
    struct hand hand = { 0 };
    weft_conn_flush_future(&future, pair.near);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0);
    size_t total = fill(pair.near, &future, &hand);
    weft_future_cancel(&future.future);
    CHECK_EQ(hand_drive(&hand, &future.future), -ECANCELED);
    weft_conn_flush_future(&future, pair.near);
    CHECK_EQ(await_conn(&future, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_conn_flush_future(&future, pair.near);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    weft_future_cancel(&future.future);
    CHECK_EQ(hand_drive(&hand, &future.future), -ECANCELED);
    weft_conn_flush_future(&future, pair.near);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    drain(pair.far, total);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0);
    CHECK_OK(weft_conn_finish(pair.near, WEFT_FOREVER));
    weft_conn_write_future(&future, pair.near, "x", 1);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), -EPIPE);
    close_pair(pair);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

TEST_EVERYWHERE(references_are_released_once)
{
    struct pair pair = tcp();
    struct weft_conn_future future;
    struct hand hand = { 0 };
    int released = 0;
    weft_conn_write_ref_future(&future, pair.near, "", 0, count, &released);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0);
    CHECK_EQ(released, 1);
    weft_conn_write_ref_future(&future, pair.near, "abc", 3, count, &released);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0);
    CHECK_OK(weft_conn_flush(pair.near, WEFT_FOREVER));
    drain(pair.far, 3);
    while (released < 2) {
        CHECK_OK(weft_yield());
    }
    size_t total = fill(pair.near, &future, &hand);
    weft_future_cancel(&future.future);
    CHECK_EQ(hand_drive(&hand, &future.future), -ECANCELED);
    weft_conn_write_ref_future(&future, pair.near, block, 10, count, &released);
    CHECK_EQ(await_conn(&future, weft_after(WEFT_MS)), -ETIMEDOUT); // it was not queued
    CHECK_EQ(released, 2);
    weft_conn_write_ref_future(&future, pair.near, block, 10, count, &released);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    drain(pair.far, total);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0);
    drain(pair.far, 10);
    CHECK_OK(weft_conn_abort(pair.near));
    CHECK_OK(weft_conn_abort(pair.far));
    while (released < 3) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(released, 3);
}

TEST_EVERYWHERE(a_finish_sends_the_end_after_all_else)
{
    struct pair pair = tcp();
    struct weft_conn_future future;
    struct weft_slice in;
    struct hand hand = { 0 };
    size_t total = fill(pair.near, &future, &hand);
    weft_future_cancel(&future.future);
    CHECK_EQ(hand_drive(&hand, &future.future), -ECANCELED);
    weft_conn_finish_future(&future, pair.near);
    CHECK_EQ(await_conn(&future, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_OK(weft_yield());
    weft_conn_finish_future(&future, pair.near);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    drain(pair.far, total);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0);
    CHECK_EQ(peek(pair.far, &in, 1), 0);
    put(pair.far, "answer"); // the other way is open
    CHECK_EQ(peek(pair.near, &in, 6), 6);
    weft_conn_finish_future(&future, pair.near);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), 0); // again
    weft_conn_write_ref_future(&future, pair.near, "x", 1, NULL, NULL);
    CHECK_EQ(await_conn(&future, WEFT_FOREVER), -EPIPE);
    close_pair(pair);
}

// Ends.

TEST_EVERYWHERE(closing_ends_what_waits)
{
    for (int aborts = 0; aborts < 2; aborts++) {
        struct pair pair = tcp();
        struct weft_conn_limits limits = { .linger_ns = WEFT_MS };
        struct weft_conn_future reading, writing;
        struct weft_slice in;
        struct hand hands[2] = { { 0 }, { 0 } };
        weft_conn_set_limits(pair.near, &limits);
        weft_conn_peek_future(&reading, pair.near, &in, 1);
        CHECK_EQ(hand_poll(&hands[0], &reading.future), WEFT_PENDING);
        (void)fill(pair.near, &writing, &hands[1]);
        CHECK_EQ(aborts ? weft_conn_abort(pair.near) : weft_conn_close(pair.near),
                 aborts ? 0 : -ETIMEDOUT);
        CHECK_EQ(atomic_load(&hands[0].woken), 1);
        CHECK_EQ(atomic_load(&hands[1].woken), 1);
        CHECK_EQ(hand_drive(&hands[0], &reading.future), -EBADF); // the connection is gone
        CHECK_EQ(hand_drive(&hands[1], &writing.future), -EBADF);
        CHECK_OK(weft_conn_abort(pair.far));
    }
}

TEST_EVERYWHERE(a_broken_connection_ends_what_waits)
{
    struct pair pair = tcp();
    struct weft_conn_future reading, writing;
    struct weft_slice in;
    struct hand hands[2] = { { 0 }, { 0 } };
    weft_conn_peek_future(&reading, pair.near, &in, 1);
    CHECK_EQ(hand_poll(&hands[0], &reading.future), WEFT_PENDING);
    (void)fill(pair.near, &writing, &hands[1]);
    CHECK_OK(weft_conn_abort(pair.far));
    int64_t read = await_conn(&reading, WEFT_FOREVER);
    int64_t written = await_conn(&writing, WEFT_FOREVER);
    CHECK(read == -ECONNRESET || read == -EPIPE || read == 0);
    CHECK(written == -ECONNRESET || written == -EPIPE);
    CHECK_OK(weft_conn_abort(pair.near));
}

// Elsewhere.

struct elsewhere {
    struct weft_conn_future future;
    weft_conn *conn;
};

static int poll_elsewhere(void *arg)
{
    struct elsewhere *elsewhere = arg;
    struct weft_slice in;
    weft_conn_peek_future(&elsewhere->future, elsewhere->conn, &in, 1);
    return (int)await_conn(&elsewhere->future, WEFT_FOREVER);
}

static int cancel_elsewhere(void *arg)
{
    struct elsewhere *elsewhere = arg;
    weft_future_cancel(&elsewhere->future.future);
    return (int)await_conn(&elsewhere->future, WEFT_FOREVER);
}

TEST_EVERYWHERE(others_are_refused)
{
    struct pair pair = tcp();
    struct elsewhere elsewhere = { .conn = pair.far };
    put(pair.near, "x");
    int other = (weft_carrier_id() + 1) % TEST_CARRIERS;
    CHECK_EQ(join(spawn_on(other, poll_elsewhere, &elsewhere)), -EXDEV);
    CHECK_EQ(join(spawn_on(weft_carrier_id(), poll_elsewhere, &elsewhere)), 1);
    close_pair(pair);
}

struct move {
    weft_conn *conn;
    int there;
};

static int move_it(void *arg)
{
    const struct move *move = arg;
    return weft_conn_move(move->conn, move->there, WEFT_FOREVER);
}

static int close_it(void *arg)
{
    return weft_conn_close(arg);
}

/// Whoever wants to read while it moves is refused, or finds it gone.
static void read_while_it_moves(bool by_future)
{
    struct pair pair = tcp();
    struct weft_slice in;
    struct weft_conn_future future;
    struct move move = { pair.far, (weft_carrier_id() + 1) % TEST_CARRIERS };
    CHECK_EQ(weft_conn_peek(pair.far, &in, 1, weft_after(WEFT_MS)), -ETIMEDOUT); // it stays armed
    weft_task *mover = spawn_on(weft_carrier_id(), move_it, &move);
    CHECK_OK(weft_yield());
    weft_conn_peek_future(&future, pair.far, &in, 1);
    int64_t result = by_future ? await_conn(&future, weft_after(WEFT_S))
                               : weft_conn_peek(pair.far, &in, 1, weft_after(WEFT_S));
    CHECK(result == -EBUSY || result == -EXDEV);
    CHECK_OK(join(mover));
    CHECK_OK(join(spawn_on(move.there, close_it, pair.far)));
    CHECK_OK(weft_conn_close(pair.near));
}

/// A move waits where a reader would, until the receive op has ended: nobody takes its place.
TEST_EVERYWHERE(a_peek_does_not_displace_a_move)
{
    for (int round = 0; round < 10; round++) {
        read_while_it_moves(round % 2 == 0);
    }
}

/// Begun here, cancelled and awaited on another carrier, while a byte may come.
TEST_EVERYWHERE(a_peek_is_cancelled_from_another_carrier)
{
    uint64_t random = test_seed();
    struct pair pair = tcp();
    int other = (weft_carrier_id() + 1) % TEST_CARRIERS;
    for (uint64_t round = 0; round < test_scaled(200); round++) {
        struct elsewhere elsewhere;
        struct weft_slice in;
        struct hand hand = { 0 };
        weft_conn_peek_future(&elsewhere.future, pair.far, &in, 1);
        CHECK_EQ(hand_poll(&hand, &elsewhere.future.future), WEFT_PENDING);
        bool writes = test_random(&random) % 3 != 0;
        if (writes) {
            put(pair.near, "z");
        }
        weft_task *task = spawn_on(other, cancel_elsewhere, &elsewhere);
        int result = join(task);
        CHECK(result == -ECANCELED || (writes && result == 1));
        if (writes) {
            CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 1);
            weft_conn_consume(pair.far, 1);
        }
    }
    close_pair(pair);
}

/// A deadline that comes together with the byte: it is lent, or it is still there.
TEST_EVERYWHERE(deadlines_race_with_bytes)
{
    uint64_t random = test_seed();
    struct pair pair = tcp();
    for (uint64_t round = 0; round < test_scaled(200); round++) {
        struct weft_conn_future future;
        struct weft_slice in;
        weft_conn_peek_future(&future, pair.far, &in, 1);
        put(pair.near, "z");
        int64_t result = await_conn(&future, weft_after(test_random(&random) % (60 * WEFT_US)));
        CHECK(result == 1 || result == -ETIMEDOUT);
        if (result < 0) {
            CHECK_EQ(weft_conn_peek(pair.far, &in, 1, WEFT_FOREVER), 1);
        }
        CHECK_EQ(in.data[0], 'z');
        weft_conn_consume(pair.far, 1);
    }
    close_pair(pair);
}

TEST_DRIVERS(outside_a_task_there_is_no_connection)
{
    struct hand hand = { 0 };
    struct weft_conn_future future;
    struct weft_slice in;
    static uint64_t nothing[1024]; // it is not looked at
    weft_conn_peek_future(&future, (weft_conn *)(void *)nothing, &in, 1);
    CHECK_EQ(hand_drive(&hand, &future.future), -EPERM);
}

// Listeners.

struct door {
    weft_listener *listener;
    char text[WEFT_ADDR_TEXT_BYTES];
};

static struct door open_door(void)
{
    struct door door;
    struct weft_addr addr;
    CHECK_OK(weft_listen(&door.listener, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_listener_addr(door.listener, &addr));
    CHECK(weft_addr_format(&addr, door.text, sizeof door.text) > 0);
    return door;
}

static int64_t await_peer(struct weft_listener_future *future, weft_time deadline)
{
    int64_t result = weft_await(&future->future, deadline);
    weft_future_fini(&future->future);
    return result;
}

TEST_EVERYWHERE(peers_are_accepted)
{
    struct door door = open_door();
    struct weft_listener_future future, other;
    struct hand hand = { 0 };
    weft_conn *near, *far, *none;
    for (int waits = 0; waits < 2; waits++) {
        weft_listener_accept_future(&future, &far, door.listener);
        CHECK(far == NULL);
        if (waits) {
            CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
            CHECK_EQ(weft_accept(&none, door.listener, WEFT_FOREVER), -EBUSY);
            weft_listener_accept_future(&other, &none, door.listener);
            CHECK_EQ(await_peer(&other, WEFT_FOREVER), -EBUSY);
        }
        CHECK_OK(weft_dial(&near, door.text, NULL, WEFT_FOREVER));
        CHECK_EQ(await_peer(&future, WEFT_FOREVER), 0);
        put(near, "hello");
        struct weft_slice in;
        CHECK_EQ(peek(far, &in, 5), 5);
        CHECK_OK(weft_conn_close(near));
        CHECK_OK(weft_conn_close(far));
    }
    struct weft_listener_stats stats;
    weft_listener_stats(door.listener, &stats);
    CHECK_EQ(stats.accepted, 2);
    CHECK_OK(weft_listener_close(door.listener));
}

TEST_EVERYWHERE(an_accept_that_ends_early_takes_nobody)
{
    struct door door = open_door();
    struct weft_listener_future future;
    struct hand hand = { 0 };
    weft_conn *near, *far;
    weft_listener_accept_future(&future, &far, door.listener);
    CHECK_EQ(await_peer(&future, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK(far == NULL);
    weft_listener_accept_future(&future, &far, door.listener);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    weft_future_cancel(&future.future);
    CHECK_EQ(hand_drive(&hand, &future.future), -ECANCELED);
    CHECK_OK(weft_dial(&near, door.text, NULL, WEFT_FOREVER));
    weft_listener_accept_future(&future, &far, door.listener);
    weft_future_cancel(&future.future);
    CHECK_EQ(await_peer(&future, WEFT_FOREVER), -ECANCELED);
    CHECK(far == NULL);
    CHECK_OK(weft_accept(&far, door.listener, WEFT_FOREVER));
    CHECK_OK(weft_conn_close(near));
    CHECK_OK(weft_conn_close(far));
    weft_listener_accept_future(&future, &far, door.listener);
    CHECK_EQ(hand_poll(&hand, &future.future), WEFT_PENDING);
    CHECK_OK(weft_listener_close(door.listener)); // and the listener is gone
    CHECK_EQ(atomic_load(&hand.woken), 1);
    CHECK_EQ(hand_drive(&hand, &future.future), -EBADF);
    CHECK(far == NULL);
}

static int64_t await_dial(struct weft_dial_future *future, weft_time deadline)
{
    int64_t result = weft_await(&future->future, deadline);
    weft_future_fini(&future->future);
    return result;
}

TEST_EVERYWHERE(dialing)
{
    struct door door = open_door();
    struct weft_dial_future future;
    struct weft_slice in;
    weft_conn *near, *far;
    weft_task *task;
    int result;
    for (int spawned = 0; spawned < 2; spawned++) {
        weft_dial_future(&future, &near, door.text, NULL);
        CHECK(near == NULL);
        if (spawned) {
            CHECK_OK(weft_spawn_future(&task, &future.future, NULL));
            CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
            CHECK_EQ(result, 0);
        } else {
            CHECK_EQ(await_dial(&future, WEFT_FOREVER), 0);
        }
        CHECK_OK(weft_accept(&far, door.listener, WEFT_FOREVER));
        put(near, "hello");
        CHECK_EQ(peek(far, &in, 5), 5);
        CHECK_OK(weft_conn_close(near));
        CHECK_OK(weft_conn_close(far));
    }
    weft_dial_future(&future, &near, door.text, NULL);
    weft_future_cancel(&future.future); // before it began
    CHECK_EQ(await_dial(&future, WEFT_FOREVER), -ECANCELED);
    CHECK(near == NULL);
    CHECK_OK(weft_listener_close(door.listener));
    weft_dial_future(&future, &near, door.text, NULL);
    CHECK_EQ(await_dial(&future, WEFT_FOREVER), -ECONNREFUSED);
    weft_dial_future(&future, &near, "tcp:/nonsense", NULL);
    CHECK(await_dial(&future, WEFT_FOREVER) < 0);
    weft_dial_future(&future, &near, "udp://127.0.0.1:9", NULL);
    CHECK_EQ(await_dial(&future, WEFT_FOREVER), -EPROTOTYPE);
    CHECK(near == NULL);
}

/// A cancel that comes at any time: a connection, or nothing, and no descriptor is left.
TEST_EVERYWHERE(dialing_races_with_cancels)
{
    uint64_t random = test_seed();
    struct door door = open_door();
    for (uint64_t round = 0; round < test_scaled(100); round++) {
        struct weft_dial_future future;
        struct hand hand = { 0 };
        weft_conn *near, *far;
        weft_dial_future(&future, &near, door.text, NULL);
        int64_t result = 0;
        if (hand_poll(&hand, &future.future) == WEFT_PENDING) {
            for (uint64_t turns = test_random(&random) % 4; turns > 0; turns--) {
                CHECK_OK(weft_yield());
            }
            if (test_random(&random) % 2 == 0) {
                weft_future_cancel(&future.future);
                result = await_dial(&future, WEFT_FOREVER);
                CHECK(result == 0 || result == -ECANCELED);
            } else {
                result = await_dial(&future, weft_after(test_random(&random) % (50 * WEFT_US)));
                CHECK(result == 0 || result == -ETIMEDOUT);
            }
        }
        CHECK_EQ(near != NULL, result == 0);
        CHECK_OK(weft_conn_abort(near));
        while (weft_accept(&far, door.listener, weft_now()) == 0) {
            CHECK_OK(weft_conn_abort(far));
        }
    }
    CHECK_OK(weft_listener_close(door.listener));
}

// A server without a stack: one machine accepts, and starts one for each connection.

enum { PEERS = 20, ROUNDS = 5 };

struct session {
    struct weft_machine machine; // first member
    struct weft_conn_future io;
    struct weft_slice in;
    weft_conn *conn;
    weft_task *task;
};

static enum weft_poll serve_one(struct weft_future *future, weft_waker *waker)
{
    struct session *s = (struct session *)(void *)future;
    WEFT_MACHINE_BEGIN(&s->machine);
    for (;;) {
        weft_conn_peek_future(&s->io, s->conn, &s->in, 3);
        WEFT_MACHINE_AWAIT(&s->machine, &s->io.future, waker);
        if (s->io.future.result <= 0) {
            WEFT_MACHINE_RETURN(&s->machine, s->io.future.result);
        }
        weft_conn_write_future(&s->io, s->conn, s->in.data, 3);
        WEFT_MACHINE_AWAIT(&s->machine, &s->io.future, waker);
        CHECK_EQ(s->io.future.result, 0);
        weft_conn_consume(s->conn, 3);
        weft_conn_flush_future(&s->io, s->conn);
        WEFT_MACHINE_AWAIT(&s->machine, &s->io.future, waker);
        CHECK_EQ(s->io.future.result, 0);
    }
    WEFT_MACHINE_END(&s->machine, 0);
}

struct server {
    struct weft_machine machine; // first member
    struct weft_listener_future accepting;
    weft_listener *listener;
    weft_conn *peer;
    struct session sessions[PEERS];
    int count;
};

static enum weft_poll serve_all(struct weft_future *future, weft_waker *waker)
{
    struct server *s = (struct server *)(void *)future;
    WEFT_MACHINE_BEGIN(&s->machine);
    for (;;) {
        weft_listener_accept_future(&s->accepting, &s->peer, s->listener);
        WEFT_MACHINE_AWAIT(&s->machine, &s->accepting.future, waker);
        if (s->accepting.future.result < 0) {
            WEFT_MACHINE_RETURN(&s->machine, s->accepting.future.result);
        }
        struct session *session = &s->sessions[s->count++];
        weft_machine_init(&session->machine, serve_one);
        session->conn = s->peer;
        CHECK_OK(weft_spawn_future(&session->task, &session->machine.future, NULL));
    }
    WEFT_MACHINE_END(&s->machine, 0);
}

static void talk(struct door *door)
{
    weft_conn *conns[PEERS];
    for (int i = 0; i < PEERS; i++) {
        CHECK_OK(weft_dial(&conns[i], door->text, NULL, WEFT_FOREVER));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PEERS; i++) {
            put(conns[i], "abc");
        }
        for (int i = 0; i < PEERS; i++) {
            struct weft_slice in;
            CHECK_EQ(weft_conn_peek(conns[i], &in, 3, WEFT_FOREVER), 3);
            CHECK_EQ(memcmp(in.data, "abc", 3), 0);
            weft_conn_consume(conns[i], 3);
        }
    }
    for (int i = 0; i < PEERS; i++) {
        CHECK_OK(weft_conn_close(conns[i]));
    }
}

TEST_EVERYWHERE(a_server_of_futures)
{
    static struct server server;
    struct door door = open_door();
    weft_task *task;
    int result;
    server.listener = door.listener;
    server.count = 0;
    weft_machine_init(&server.machine, serve_all);
    CHECK_OK(weft_spawn_future(&task, &server.machine.future, NULL));
    talk(&door);
    for (int i = 0; i < PEERS; i++) {
        CHECK_OK(weft_join(&result, server.sessions[i].task, WEFT_FOREVER));
        CHECK_EQ(result, 0);
        CHECK_OK(weft_conn_close(server.sessions[i].conn));
    }
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    CHECK_OK(weft_listener_close(door.listener));
}
