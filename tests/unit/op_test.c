// op_test.c - the contract of sched/op.h, on each driver: what every operation answers.
//
// Cancelling and forgetting are in op_cancel_test.c.
#include "support/ops.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static void make_pair(void *state, int fds[2])
{
    CHECK_OK(driver()->sockets->pair(state, AF_UNIX, SOCK_STREAM, 0, fds));
}

static void close_fd(void *state, int fd)
{
    driver()->forget(state, fd);
    CHECK_OK(driver()->sockets->close(state, fd));
}

// Streams.

TEST_DRIVERS(send_and_recv_move_bytes)
{
    void *state = open_driver();
    int fds[2];
    char text[16] = "";
    make_pair(state, fds);
    CHECK_EQ(perform(state, send_op(fds[0], "hello", 5)), 5);
    CHECK_EQ(perform(state, recv_op(fds[1], text, sizeof text)), 5);
    CHECK_STR(text, "hello");
    struct trial reader = { 0 };
    trial_start(&reader, state, recv_op(fds[1], text, sizeof text));
    CHECK_EQ(perform(state, send_op(fds[0], "again", 5)), 5);
    CHECK_EQ(trial_await(&reader), 5);
    CHECK_EQ(reader.calls, 1);
    close_fd(state, fds[0]);
    CHECK_EQ(perform(state, recv_op(fds[1], text, sizeof text)), 0);
    close_fd(state, fds[1]);
    driver()->close(state);
}

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
        driver()->give(state, number);
        if (!reader.ended) {
            cancel(&reader);
            CHECK_EQ(trial_await(&reader), -ECANCELED);
        }
    }
    driver()->close(state);
}
