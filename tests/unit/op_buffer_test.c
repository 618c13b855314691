// op_buffer_test.c - the contract of sched/op.h, on each driver: buffers that the driver chooses or
// borrows, and what done() may do.
#include "support/ops.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

// Receive buffers.

TEST_DRIVERS(select_hands_over_buffers)
{
    void *state = open_driver();
    int fds[2];
    make_pair(state, fds);
    struct trial reader = { 0 };
    for (int i = 0; i < 100; i++) {
        char text[16];
        int size = snprintf(text, sizeof text, "message %d", i);
        trial_start(&reader, state, select_op(fds[1], i % 2 == 0 ? 0 : WEFT__OP_MULTI));
        CHECK_EQ(perform(state, send_op(fds[0], text, (size_t)size)), size);
        await_calls(&reader, 1);
        CHECK_EQ(reader.result, size);
        CHECK((reader.flags & WEFT__OP_BUFFER) != 0);
        uint16_t number = weft__op_buffer(&reader.op);
        CHECK(memcmp(driver()->buffer(state, number), text, (size_t)size) == 0);
        give(state, number);
        if (!reader.ended) {
            cancel(&reader);
            CHECK_EQ(trial_await(&reader), -ECANCELED);
        }
    }
    driver()->close(state);
}

/// A reader that keeps itself armed and checks that every byte comes once and in order.
struct stream {
    struct trial trial;
    uint64_t received;
    bool over; // end of file
};

static void check_stream(struct trial *trial)
{
    struct stream *stream = weft__container_of(trial, struct stream, trial);
    if (trial->result > 0) {
        CHECK((trial->flags & WEFT__OP_BUFFER) != 0);
        uint16_t number = weft__op_buffer(&trial->op);
        const unsigned char *bytes = driver()->buffer(trial->state, number);
        for (int64_t i = 0; i < trial->result; i++) {
            CHECK_EQ(bytes[i], (unsigned char)(stream->received++ % 251));
        }
        driver()->give(trial->state, number);
    } else {
        CHECK_EQ(trial->result, 0);
        CHECK((trial->flags & WEFT__OP_BUFFER) == 0);
        stream->over = true;
    }
    if (trial->ended && !stream->over) {
        trial_again(trial);
    }
}

static void check_multishot(bool tcp, size_t chunk)
{
    enum { TOTAL = 50000 };
    const struct weft__driver_config config = { .buffers = 4, .buffer_bytes = 64 };
    void *state = open_with(&config);
    int fds[2];
    unsigned char bytes[TOTAL];
    struct stream stream = { .trial.then = check_stream };
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i % 251);
    }
    tcp ? make_tcp_pair(state, fds) : make_pair(state, fds);
    trial_start(&stream.trial, state, select_op(fds[1], WEFT__OP_MULTI));
    for (size_t sent = 0; sent < sizeof bytes;) {
        size_t left = sizeof bytes - sent;
        int64_t size = perform(state, send_op(fds[0], bytes + sent, left < chunk ? left : chunk));
        CHECK_GT(size, 0);
        sent += (size_t)size;
    }
    close_fd(state, fds[0]);
    await_flag(state, &stream.over);
    CHECK(stream.trial.ended);
    CHECK_EQ(stream.received, sizeof bytes);
    driver()->close(state);
}

TEST_DRIVERS(multishot_recv_keeps_the_order_until_the_peer_closes)
{
    check_multishot(false, 777);
    check_multishot(true, 777);
    check_multishot(true, 30000);
}

TEST_DRIVERS(datagrams_keep_their_borders)
{
    void *state = open_driver();
    int fds[2];
    struct trial reader = { 0 };
    CHECK_OK(driver()->sockets->pair(state, AF_UNIX, SOCK_SEQPACKET, 0, fds));
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(perform(state, send_op(fds[0], "abc", (size_t)i)), i);
    }
    for (int i = 1; i <= 3; i++) {
        trial_start(&reader, state, select_op(fds[1], 0));
        CHECK_EQ(trial_await(&reader), i);
        give(state, weft__op_buffer(&reader.op));
    }
    driver()->close(state);
}

#ifndef WITHOUT_HINTS
TEST_DRIVERS(empty_is_told_when_nothing_is_left)
{
    void *state = open_driver();
    int fds[2];
    char text[16];
    struct trial reader = { 0 };
    make_tcp_pair(state, fds);
    CHECK_EQ(perform(state, send_op(fds[0], "0123456789", 10)), 10);
    CHECK_EQ(perform(state, poll_op(fds[1], POLLIN)), POLLIN);
    struct weft__op op = recv_op(fds[1], text, 4);
    op.mode = WEFT__OP_MANAGED;
    trial_start(&reader, state, op);
    CHECK_EQ(trial_await(&reader), 4);
    CHECK((reader.flags & WEFT__OP_EMPTY) == 0);
    op.size = sizeof text;
    trial_start(&reader, state, op);
    CHECK_EQ(trial_await(&reader), 6);
    CHECK((reader.flags & WEFT__OP_EMPTY) != 0);
    driver()->close(state);
}

#endif

// Zero copy.

static void send_borrowed(void *state, int from, int to)
{
    enum { SIZE = 100000 };
    char *out = malloc(SIZE), *in = malloc(SIZE);
    struct trial sender = { 0 };
    int64_t received = 0;
    memset(out, 'z', SIZE);
    struct weft__op op = send_op(from, out, SIZE);
    op.code = WEFT__OP_SEND_ZC;
    trial_start(&sender, state, op);
    await_calls(&sender, 1);
    int64_t sent = sender.result;
    CHECK_GT(sent, 0);
    while (received < sent) {
        int64_t size = perform(state, recv_op(to, in + received, (size_t)(SIZE - received)));
        CHECK_GT(size, 0);
        received += size;
    }
    CHECK_EQ(trial_await(&sender), sent);
    CHECK_EQ(sender.calls, 1 + sender.notifies);
    CHECK(memcmp(in, out, (size_t)sent) == 0);
    free(in);
    free(out);
}

TEST_DRIVERS(borrowed_bytes_come_back)
{
    void *state = open_driver();
    int fds[2];
    make_tcp_pair(state, fds);
    send_borrowed(state, fds[0], fds[1]);
    make_pair(state, fds); // no zero copy there
    send_borrowed(state, fds[0], fds[1]);
    driver()->close(state);
}

// What done() may do.

struct echo {
    struct trial trial;
    int from; // what is sent there comes back here
    char byte;
    int rounds;
};

static void pass_on(struct trial *trial)
{
    struct echo *echo = weft__container_of(trial, struct echo, trial);
    CHECK_EQ(trial->result, 1);
    if (echo->rounds-- > 0) {
        if (echo->rounds % 2 == 0) {
            CHECK_EQ(send(echo->from, &echo->byte, 1, MSG_NOSIGNAL), 1);
            trial_again(trial);
        } else {
            trial_again(trial);
            CHECK_EQ(send(echo->from, &echo->byte, 1, MSG_NOSIGNAL), 1);
        }
    }
}

TEST_DRIVERS(ops_are_submitted_again_by_done)
{
    void *state = open_driver();
    int fds[2];
    make_pair(state, fds);
    struct echo echo = { .trial.then = pass_on, .from = fds[0], .rounds = (int)test_scaled(2000) };
    trial_start(&echo.trial, state, recv_op(fds[1], &echo.byte, 1));
    CHECK_EQ(send(fds[0], "x", 1, 0), 1);
    CHECK_EQ(trial_await(&echo.trial), 1);
    CHECK_EQ(echo.rounds, -1);
    driver()->close(state);
}

static int freed;

static void free_trial(struct trial *trial)
{
    CHECK(trial->ended);
    free(trial);
    freed++;
}

TEST_DRIVERS(ops_are_freed_by_done)
{
    enum { OPS = 50 };
    void *state = open_driver();
    int fds[2];
    make_pair(state, fds);
    for (int i = 0; i < OPS; i++) {
        struct trial *trial = calloc(1, sizeof *trial);
        trial->then = free_trial;
        trial->op = poll_op(fds[0], POLLIN);
        trial->op.done = trial_done;
        CHECK(!driver()->submit(state, &trial->op));
        if (i % 3 == 0) {
            driver()->cancel(state, &trial->op);
        }
    }
    CHECK_EQ(send(fds[1], "x", 1, 0), 1);
    weft_time limit = weft__clock_ns() + LOST_NS;
    while (freed < OPS) {
        driver()->wait(state, limit);
        CHECK_LT(weft__clock_ns(), limit);
    }
    const struct weft__op_counts *counts = driver()->counts(state);
    CHECK_EQ(counts->submitted, OPS);
    CHECK_EQ(counts->completed, OPS);
    driver()->close(state);
}
