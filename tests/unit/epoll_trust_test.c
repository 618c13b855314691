// epoll_trust_test.c - the user's descriptors that stay registered: what that saves, and that nobody
// waits for ever when the user has closed one behind the driver's back.
#include "support/calls.h"

static struct weft__op receive(int fd, char *data, size_t size)
{
    return recv_op(fd, data, size);
}

/// Reads often enough that the driver takes the descriptor for a steady one.
static void make_steady(void *state, int fd, int peer)
{
    char data[64];
    struct trial reader = { 0 };
    for (int i = 0; i < 4; i++) {
        trial_start(&reader, state, read_op(fd, data, sizeof data));
        CHECK(!reader.ended);
        CHECK_EQ(write(peer, "abc", 3), 3);
        CHECK_EQ(trial_await(&reader), 3);
    }
}

/// Puts something at a number, without the driver's knowledge.
static void put_at(int number, int fd)
{
    CHECK_EQ(dup2(fd, number), number);
    close(fd);
}

// What it saves.

static void echo(int fds[2], bool with_read)
{
    enum { ROUNDS = 50, SIZE = 64 };
    void *state = open_driver();
    char data[SIZE] = "request";
    char buffer[1024];
    struct trial reader = { 0 };
    struct weft__op op = with_read ? read_op(fds[0], buffer, 1024) : recv_op(fds[0], buffer, 1024);
    make_steady(state, fds[0], fds[1]);
    trial_start(&reader, state, op);
    calls_reset();
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(write(fds[1], data, SIZE), SIZE);
        await_bytes(fds[0], SIZE);
        CHECK_EQ(trial_await(&reader), SIZE);
        CHECK_EQ(
            perform(state, with_read ? write_op(fds[0], data, SIZE) : send_op(fds[0], data, SIZE)),
            SIZE);
        CHECK_EQ(read(fds[1], buffer, sizeof buffer), SIZE);
        trial_start(&reader, state, op);
    }
    CHECK_EQ(calls.recvs, ROUNDS);
    CHECK_EQ(calls.sends, ROUNDS);
    CHECK_LE(calls.controls, 1);
    CHECK_LE(calls.waits, ROUNDS + 1);
    driver()->close(state);
}

TEST(an_echo_costs_one_read_and_one_write)
{
    int fds[2];
    make_tcp(fds);
    echo(fds, true);
}

TEST(an_echo_costs_one_recv_and_one_send)
{
    int fds[2];
    make_unix(fds, SOCK_STREAM);
    CHECK_OK(fcntl(fds[1], F_SETFL, 0));
    echo(fds, false);
}

TEST(an_idle_driver_proves_once_per_sleep)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    struct trial reader = { 0 };
    make_tcp(fds);
    make_steady(state, fds[0], fds[1]);
    for (int i = 0; i < 10; i++) {
        trial_start(&reader, state, receive(fds[0], data, sizeof data));
        calls_reset();
        driver()->wait(state, weft__clock_ns() + WEFT_MS);
        driver()->wait(state, weft__clock_ns() + WEFT_MS);
        CHECK_EQ(calls.controls, 1);
        CHECK_LE(calls.waits, 3);
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        CHECK_EQ(trial_await(&reader), 3);
        CHECK_EQ(calls.controls, 1);
    }
    driver()->close(state);
}

TEST(events_that_nobody_waits_for_come_to_an_end)
{
    void *state = open_driver();
    int fds[2];
    int other[2];
    char data[64];
    struct trial waiter = { 0 };
    make_tcp(fds);
    make_tcp(other);
    make_steady(state, fds[0], fds[1]);
    trial_start(&waiter, state, receive(other[0], data, sizeof data)); // so that poll() looks
    look(state);
    int wakeups = 0;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(write(fds[1], "x", 1), 1);
        await_bytes(fds[0], i + 1);
        calls_reset();
        look(state);
        wakeups += calls.controls; // the last one ends it
    }
    CHECK_EQ(wakeups, 1);
    calls_reset();
    CHECK_EQ(write(fds[1], "x", 1), 1);
    await_bytes(fds[0], 21);
    driver()->wait(state, weft__clock_ns() + WEFT_MS);
    CHECK_EQ(calls.waits, 1);
    CHECK_EQ(perform(state, receive(fds[0], data, sizeof data)), 21);
    make_steady(state, fds[0], fds[1]);
    driver()->close(state);
}

// What may be there instead.

enum instead { A_SOCKET, A_PIPE, A_FILE, A_FULL_SOCKET, NOTHING, INSTEADS };

/// Replaces what is at the number; returns the other end, or -1.
static int replace(int number, enum instead what)
{
    int fds[2] = { -1, -1 };
    switch (what) {
    case A_SOCKET: make_tcp(fds); break;
    case A_PIPE: CHECK_OK(pipe(fds)); break;
    case A_FILE: fds[0] = make_file("abc"); break;
    case A_FULL_SOCKET:
        make_unix(fds, SOCK_STREAM);
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        break;
    default: close(number); return -1;
    }
    put_at(number, fds[0]);
    return fds[1];
}

static void check_replaced(enum instead what, bool busy, bool keep_old)
{
    void *state = open_driver();
    int fds[2];
    int noise[2];
    char data[64];
    char trash[64];
    struct trial reader = { 0 };
    struct trial noisy = { 0 };
    make_tcp(fds);
    make_unix(noise, SOCK_STREAM);
    make_steady(state, fds[0], fds[1]);
    int number = fds[0];
    int keeper = keep_old ? dup(number) : -1; // stays in epoll's set
    int peer = replace(number, what);
    trial_start(&reader, state, read_op(number, data, sizeof data));
    if (keep_old) {
        CHECK_EQ(write(fds[1], "old", 3), 3);
        await_bytes(keeper, 3);
        driver()->poll(state); // its event is no proof
    }
    if (what == A_SOCKET || what == A_PIPE) {
        CHECK_EQ(write(peer, "abc", 3), 3);
    }
    weft_time limit = weft__clock_ns() + LOST_NS;
    while (!reader.ended && busy) { // never a reason to sleep
        CHECK_LT(weft__clock_ns(), limit);
        trial_start(&noisy, state, managed(recv_op(noise[0], trash, sizeof trash)));
        CHECK_EQ(write(noise[1], "x", 1), 1);
        CHECK_EQ(trial_await(&noisy), 1);
    }
    CHECK_EQ(trial_await(&reader), what == NOTHING ? -EBADF : 3);
    CHECK(what == NOTHING || memcmp(data, "abc", 3) == 0);
    driver()->close(state);
}

TEST(what_is_there_instead_is_found)
{
    for (int what = 0; what < INSTEADS; what++) {
        check_replaced((enum instead)what, false, false);
        check_replaced((enum instead)what, true, false);
        check_replaced((enum instead)what, false, true);
        check_replaced((enum instead)what, true, true);
    }
}

TEST(a_full_driver_finds_it_too)
{
    enum { MANY = 300 }; // more than can be doubted at once
    static int fds[MANY][2];
    static struct trial trials[MANY];
    static char data[MANY];
    void *state = open_driver();
    for (int i = 0; i < MANY; i++) {
        make_unix(fds[i], SOCK_STREAM);
        make_steady(state, fds[i][0], fds[i][1]);
    }
    for (int i = 0; i < MANY; i += 3) {
        int fresh[2];
        make_unix(fresh, SOCK_STREAM);
        put_at(fds[i][0], fresh[0]);
        close(fds[i][1]);
        fds[i][1] = fresh[1];
    }
    for (int i = 0; i < MANY; i++) {
        trial_start(&trials[i], state, read_op(fds[i][0], &data[i], 1));
        CHECK(!trials[i].ended);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(write(fds[i][1], "x", 1), 1);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(trial_await(&trials[i]), 1);
    }
    driver()->close(state);
}

// Beside other things.

TEST(a_steady_reader_with_writers_and_pollers)
{
    static char block[1 << 16];
    void *state = open_driver();
    int fds[2];
    char data[64];
    struct trial reader = { 0 };
    struct trial writer = { 0 };
    struct trial poller = { 0 };
    make_unix(fds, SOCK_STREAM);
    make_steady(state, fds[0], fds[1]);
    for (int i = 0; i < 3; i++) {
        trial_start(&reader, state, read_op(fds[0], data, sizeof data));
        trial_start(&poller, state, poll_op(fds[0], POLLIN));
        do {
            trial_start(&writer, state, write_op(fds[0], block, sizeof block));
        } while (writer.ended);
        look(state);
        CHECK(!reader.ended && !poller.ended && !writer.ended);
        while (take(fds[1], block, sizeof block) > 0 || !writer.ended) {
            driver()->poll(state);
        }
        CHECK(!reader.ended && !poller.ended);
        cancel(&reader);
        CHECK_EQ(trial_await(&reader), -ECANCELED);
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        CHECK_EQ(trial_await(&poller), POLLIN);
        CHECK_EQ(perform(state, read_op(fds[0], data, sizeof data)), 3);
    }
    close(fds[1]);
    CHECK_EQ(perform(state, read_op(fds[0], data, sizeof data)), 0);
    close_fd(state, fds[0]);
    driver()->close(state);
}

TEST(a_steady_descriptor_becomes_a_managed_one)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    struct trial reader = { 0 };
    make_tcp(fds);
    make_steady(state, fds[0], fds[1]);
    for (int i = 0; i < 4; i++) {
        trial_start(&reader, state, managed(receive(fds[0], data, sizeof data)));
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        CHECK_EQ(trial_await(&reader), 3);
        if (i == 0) {
            calls_reset();
        }
    }
    CHECK_EQ(calls.controls, 0);
    close_fd(state, fds[0]);
    driver()->close(state);
}

TEST(what_has_arrived_wins_over_a_cancel)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    char more[64];
    struct trial first = { 0 };
    struct trial second = { 0 };
    make_tcp(fds);
    make_steady(state, fds[0], fds[1]);
    trial_start(&first, state, read_op(fds[0], data, sizeof data));
    trial_start(&second, state, read_op(fds[0], more, sizeof more));
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    await_bytes(fds[0], 3);
    cancel(&second); // it is not his turn
    cancel(&first);
    CHECK_EQ(trial_await(&second), -ECANCELED);
    CHECK_EQ(trial_await(&first), 3);
    driver()->close(state);
}

TEST(an_error_wins_over_a_cancel)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    struct trial reader = { 0 };
    struct linger reset = { .l_onoff = 1 };
    make_tcp(fds);
    make_steady(state, fds[0], fds[1]);
    trial_start(&reader, state, read_op(fds[0], data, sizeof data));
    CHECK_OK(setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
    close(fds[1]);
    CHECK_EQ(poll(&(struct pollfd){ .fd = fds[0], .events = POLLIN }, 1, -1), 1);
    cancel(&reader);
    CHECK_EQ(trial_await(&reader), -ECONNRESET);
    driver()->close(state);
}

TEST(an_accepted_socket_is_not_what_had_its_number)
{
    void *state = open_driver();
    struct sockaddr_in addr;
    int fds[2];
    char data[64];
    struct trial first = { 0 };
    make_tcp(fds);
    make_steady(state, fds[0], fds[1]);
    trial_start(&first, state, read_op(fds[0], data, sizeof data)); // found empty
    cancel(&first);
    CHECK_EQ(trial_await(&first), -ECANCELED);
    int listener = make_listener(state, &addr, 4);
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_OK(connect(peer, (struct sockaddr *)&addr, sizeof addr));
    CHECK_EQ(write(peer, "abc", 3), 3);
    close(fds[0]);
    int fd = (int)perform(state, accept_op(listener, 0));
    CHECK_EQ(fd, fds[0]);
    await_bytes(fd, 3);
    struct trial second = { 0 };
    trial_start(&second, state, read_op(fd, data, sizeof data));
    CHECK(second.ended);
    CHECK_EQ(second.op.result, 3);
    driver()->close(state);
}
