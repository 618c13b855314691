// op_test.c - the contract of sched/op.h, on each driver: what every operation answers.
//
// Receive buffers, zero-copy and what done() may do are in op_buffer_test.c, cancelling and forgetting
// in op_cancel_test.c, queues and buffers that run out in op_limit_test.c.
#include "support/ops.h"
#include "support/temp.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static void make_pipe(int fds[2], int flags)
{
    CHECK_EQ(pipe2(fds, O_CLOEXEC | flags), 0);
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

TEST_DRIVERS(read_and_write_move_bytes_through_a_pipe)
{
    void *state = open_driver();
    int fds[2];
    char text[16] = "";
    struct trial reader = { 0 };
    make_pipe(fds, 0);
    trial_start(&reader, state, read_op(fds[0], text, sizeof text));
    CHECK_EQ(perform(state, write_op(fds[1], "hello", 5)), 5);
    CHECK_EQ(trial_await(&reader), 5);
    CHECK_STR(text, "hello");
    trial_start(&reader, state, read_op(fds[0], text, sizeof text));
    close_fd(state, fds[1]);
    CHECK_EQ(trial_await(&reader), 0);
    close_fd(state, fds[0]);
    driver()->close(state);
}

TEST_DRIVERS(vectors_are_gathered_and_scattered)
{
    void *state = open_driver();
    int fds[2];
    char head[4], tail[8] = "";
    char abc[] = "abc", defgh[] = "defgh";
    struct iovec out[] = { { abc, 3 }, { NULL, 0 }, { defgh, 5 } };
    struct iovec in[] = { { head, sizeof head }, { tail, sizeof tail } };
    make_pair(state, fds);
    struct weft__op op = {
        .code = WEFT__OP_WRITEV, .fd = fds[0], .data = out, .size = 3, .offset = -1
    };
    CHECK_EQ(perform(state, op), 8);
    op = (struct weft__op){
        .code = WEFT__OP_READV, .fd = fds[1], .data = in, .size = 2, .offset = -1
    };
    CHECK_EQ(perform(state, op), 8);
    CHECK(memcmp(head, "abcd", 4) == 0);
    CHECK_STR(tail, "efgh");
    driver()->close(state);
}

TEST_DRIVERS(messages_carry_descriptors)
{
    void *state = open_driver();
    int fds[2], passed;
    char text[8] = "", room[CMSG_SPACE(sizeof(int))] = "";
    char word[] = "fd";
    struct iovec out = { word, 2 }, in = { text, sizeof text };
    struct msghdr message = { .msg_iov = &out, .msg_iovlen = 1 };
    make_pair(state, fds);
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fds[0], sizeof(int));
    struct weft__op op = { .code = WEFT__OP_SENDMSG, .fd = fds[0], .data = &message };
    CHECK_EQ(perform(state, op), 2);
    memset(room, 0, sizeof room);
    message.msg_iov = &in;
    message.msg_controllen = sizeof room;
    op = (struct weft__op){
        .code = WEFT__OP_RECVMSG, .fd = fds[1], .data = &message, .flags = MSG_CMSG_CLOEXEC
    };
    CHECK_EQ(perform(state, op), 2);
    CHECK_STR(text, "fd");
    header = CMSG_FIRSTHDR(&message);
    CHECK(header != NULL);
    memcpy(&passed, CMSG_DATA(header), sizeof(int));
    CHECK_EQ(perform(state, send_op(passed, "x", 1)), 1);
    CHECK_EQ(perform(state, recv_op(fds[1], text, 1)), 1);
    CHECK_OK(close(passed));
    driver()->close(state);
}

/// Everything that the other side's buffers take, and more.
TEST_DRIVERS(large_sends_arrive_whole)
{
    enum { SIZE = 4 << 20 };
    void *state = open_driver();
    int fds[2];
    make_tcp_pair(state, fds);
    unsigned char *out = malloc(SIZE), *in = malloc(SIZE);
    uint64_t seed = test_seed();
    for (size_t i = 0; i < SIZE; i++) {
        out[i] = (unsigned char)test_random(&seed);
    }
    struct trial writer = { .ended = true }, reader = { .ended = true };
    size_t sent = 0, received = 0;
    while (received < SIZE) {
        if (writer.ended && sent < SIZE) {
            trial_start(&writer, state, send_op(fds[0], out + sent, SIZE - sent));
        }
        if (reader.ended) {
            trial_start(&reader, state, recv_op(fds[1], in + received, SIZE - received));
        }
        received += (size_t)trial_await(&reader);
        if (writer.ended && writer.result != 0) {
            CHECK_GT(writer.result, 0);
            sent += (size_t)writer.result;
            writer.result = 0;
        }
    }
    CHECK(memcmp(in, out, SIZE) == 0);
    free(in);
    free(out);
    driver()->close(state);
}

TEST_DRIVERS(peek_leaves_the_bytes)
{
    void *state = open_driver();
    int fds[2];
    char text[8] = "";
    make_pair(state, fds);
    struct weft__op op = recv_op(fds[1], text, sizeof text);
    op.flags = MSG_PEEK;
    CHECK_EQ(perform(state, send_op(fds[0], "abc", 3)), 3);
    CHECK_EQ(perform(state, op), 3);
    CHECK_EQ(perform(state, recv_op(fds[1], text, sizeof text)), 3);
    driver()->close(state);
}

/// Fills the queue of a datagram socket that is not connected, and waits for room in it.
static void check_datagram(void *state, enum weft__op_code code, bool connected)
{
    static int names;
    int fds[2], stuffed = 0;
    char text[16] = "", whole[] = "whole";
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    struct iovec part = { whole, 5 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct trial sender = { 0 };
    snprintf(addr.sun_path + 1, sizeof addr.sun_path - 1, "weft-op-%d-%d", getpid(), names++);
    for (int i = 0; i < 2; i++) {
        fds[i] = driver()->sockets->socket(state, AF_UNIX, SOCK_DGRAM, 0);
        CHECK_OK(fds[i]);
    }
    CHECK_OK(driver()->sockets->bind(state, fds[1], (struct sockaddr *)&addr, sizeof addr));
    while (sendto(fds[0], "x", 1, MSG_DONTWAIT, (struct sockaddr *)&addr, sizeof addr) == 1) {
        stuffed++;
    }
    CHECK_GT(stuffed, 0);
    if (connected) {
        CHECK_EQ(connect(fds[0], (struct sockaddr *)&addr, sizeof addr), 0);
    } else {
        message.msg_name = &addr;
        message.msg_namelen = sizeof addr;
    }
    struct weft__op op = write_op(fds[0], whole, 5);
    op.code = (uint8_t)code;
    op.data = code == WEFT__OP_SENDMSG ? (void *)&message : op.data;
    trial_start(&sender, state, op);
    driver()->wait(state, weft__clock_ns() + WEFT_MS);
    CHECK(!sender.ended);
    for (int i = 0; i < stuffed; i++) {
        CHECK_EQ(recv(fds[1], text, sizeof text, MSG_DONTWAIT), 1);
    }
    CHECK_EQ(trial_await(&sender), 5);
    CHECK_EQ(recv(fds[1], text, sizeof text, MSG_DONTWAIT), 5);
    CHECK_STR(text, "whole");
    close_fd(state, fds[0]);
    close_fd(state, fds[1]);
}

TEST_DRIVERS(unix_datagrams_that_wait_for_room_arrive_whole)
{
    void *state = open_driver();
    check_datagram(state, WEFT__OP_SEND, true);
    check_datagram(state, WEFT__OP_SENDMSG, true);
    check_datagram(state, WEFT__OP_SEND_ZC, true);
    check_datagram(state, WEFT__OP_WRITE, true);
    check_datagram(state, WEFT__OP_SENDMSG, false);
    driver()->close(state);
}

// Accept and connect.

TEST_DRIVERS(accept_tells_the_address)
{
    void *state = open_driver();
    struct sockaddr_in addr, own;
    struct sockaddr_storage peer;
    uint32_t size = sizeof peer, own_size = sizeof own;
    struct trial dial = { 0 };
    int listener = make_listener(state, &addr, 4);
    int fd = make_socket(state);
    struct weft__op op = accept_op(listener, WEFT__OP_MULTI);
    op.data = &peer;
    op.addr_size = &size;
    trial_start(&dial, state, connect_op(fd, &addr));
    struct trial acceptor = { 0 };
    trial_start(&acceptor, state, op);
    CHECK_GE(trial_await(&acceptor), 0); // with an address it ends after one (O4)
    CHECK_OK(trial_await(&dial));
    CHECK_OK(driver()->sockets->local(state, fd, (struct sockaddr *)&own, &own_size));
    CHECK_EQ(size, sizeof own);
    CHECK_EQ(((struct sockaddr_in *)&peer)->sin_port, own.sin_port);
    CHECK((fcntl((int)acceptor.result, F_GETFD) & FD_CLOEXEC) != 0);
    driver()->close(state);
}

struct acceptor {
    struct trial trial;
    int fds[64];
    int count;
};

static void keep_accepted(struct trial *trial)
{
    struct acceptor *acceptor = weft__container_of(trial, struct acceptor, trial);
    if (trial->result >= 0) {
        acceptor->fds[acceptor->count++] = (int)trial->result;
    }
    if (trial->ended && trial->result >= 0) {
        trial_again(trial);
    }
}

TEST_DRIVERS(multishot_accept_takes_all)
{
    enum { CONNECTIONS = 40 };
    void *state = open_driver();
    struct sockaddr_in addr;
    struct acceptor acceptor = { .trial.then = keep_accepted };
    struct trial dials[CONNECTIONS] = { 0 };
    int listener = make_listener(state, &addr, CONNECTIONS);
    trial_start(&acceptor.trial, state, accept_op(listener, WEFT__OP_MULTI));
    for (int i = 0; i < CONNECTIONS; i++) {
        trial_start(&dials[i], state, connect_op(make_socket(state), &addr));
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        CHECK_OK(trial_await(&dials[i]));
    }
    await_calls(&acceptor.trial, CONNECTIONS);
    CHECK_EQ(acceptor.count, CONNECTIONS);
    cancel(&acceptor.trial);
    CHECK_EQ(trial_await(&acceptor.trial), -ECANCELED);
    driver()->close(state);
}

TEST_DRIVERS(connect_is_refused)
{
    void *state = open_driver();
    struct sockaddr_in addr;
    close_fd(state, make_listener(state, &addr, 1));
    CHECK_EQ(perform(state, connect_op(make_socket(state), &addr)), -ECONNREFUSED);
    struct sockaddr_un nowhere = { .sun_family = AF_UNIX, .sun_path = "/nonexistent/socket" };
    int fd = driver()->sockets->socket(state, AF_UNIX, SOCK_STREAM, 0);
    struct weft__op op = {
        .code = WEFT__OP_CONNECT, .fd = fd, .data = &nowhere, .size = sizeof nowhere
    };
    CHECK_EQ(perform(state, op), -ENOENT);
    driver()->close(state);
}

static void check_backlog(int type, uint8_t mode)
{
    void *state = open_driver();
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    struct trial dials[4] = { 0 };
    int waiting = 0;
    snprintf(addr.sun_path + 1, sizeof addr.sun_path - 1, "weft-backlog-%d-%d", getpid(), type);
    int listener = driver()->sockets->socket(state, AF_UNIX, SOCK_STREAM, 0);
    CHECK_OK(listener);
    CHECK_OK(driver()->sockets->bind(state, listener, (struct sockaddr *)&addr, sizeof addr));
    CHECK_OK(driver()->sockets->listen(state, listener, 1));
    for (size_t i = 0; i < WEFT__ARRAY_LEN(dials); i++) {
        int fd = driver()->sockets->socket(state, AF_UNIX, type, 0);
        CHECK_OK(fd);
        struct weft__op op = { .code = WEFT__OP_CONNECT, .fd = fd, .mode = mode };
        op.data = &addr;
        op.size = sizeof addr;
        trial_start(&dials[i], state, op);
        driver()->wait(state, weft__clock_ns() + WEFT_MS);
        waiting += !dials[i].ended;
    }
    CHECK_GT(waiting, 0);
    for (size_t i = 0; i < WEFT__ARRAY_LEN(dials); i++) {
        CHECK_OK(perform(state, accept_op(listener, 0)));
    }
    for (size_t i = 0; i < WEFT__ARRAY_LEN(dials); i++) {
        CHECK_EQ(trial_await(&dials[i]), 0);
    }
    driver()->close(state);
}

TEST_DRIVERS(unix_connections_wait_for_room_in_the_backlog)
{
    check_backlog(SOCK_STREAM, WEFT__OP_MANAGED);
    check_backlog(SOCK_STREAM | SOCK_NONBLOCK, 0);
}

// Poll, splice, files.

TEST_DRIVERS(poll_tells_what_is_ready)
{
    void *state = open_driver();
    int fds[2];
    struct trial readable = { 0 };
    make_pair(state, fds);
    CHECK_EQ(perform(state, poll_op(fds[0], POLLOUT)), POLLOUT);
    CHECK_EQ(perform(state, poll_op(fds[0], POLLIN | POLLOUT)), POLLOUT);
    trial_start(&readable, state, poll_op(fds[1], POLLIN));
    driver()->poll(state);
    CHECK(!readable.ended);
    CHECK_EQ(perform(state, send_op(fds[0], "x", 1)), 1);
    CHECK_EQ(trial_await(&readable), POLLIN);
    CHECK_EQ(perform(state, poll_op(fds[1], POLLIN)), POLLIN); // nobody has read it
    trial_start(&readable, state, poll_op(fds[0], POLLIN));
    close_fd(state, fds[1]);
    CHECK((trial_await(&readable) & POLLHUP) != 0);
    driver()->close(state);
}

TEST_DRIVERS(an_operation_that_nobody_asked_for_is_never_counted)
{
    void *state = open_driver();
    const struct weft__op_counts *counts = driver()->counts(state);
    int fds[2];
    make_pair(state, fds);
    struct trial trial = { 0 };
    struct weft__op op = poll_op(fds[0], POLLIN);
    op.mode = WEFT__OP_UNCOUNTED;
    trial_start(&trial, state, op);
    CHECK_EQ(counts->submitted, 0);
    CHECK_EQ(send(fds[1], "x", 1, 0), 1);
    CHECK_EQ(trial_await(&trial), POLLIN);
    CHECK_EQ(counts->submitted, 0);
    CHECK_EQ(counts->completed, 0);
    driver()->close(state);
}

TEST_DRIVERS(splice_moves_bytes)
{
    void *state = open_driver();
    int pipe_fds[2], fds[2], file = temp_file();
    char text[8] = "";
    make_pipe(pipe_fds, 0);
    make_pair(state, fds);
    CHECK_EQ(pwrite(file, "0123456789", 10, 0), 10);
    struct weft__op op = { .code = WEFT__OP_SPLICE, .size = 4 };
    op.from_fd = file;
    op.from_offset = 3;
    op.fd = pipe_fds[1];
    op.offset = -1;
    CHECK_EQ(perform(state, op), 4);
    op.from_fd = pipe_fds[0];
    op.from_offset = -1;
    op.fd = fds[0];
    CHECK_EQ(perform(state, op), 4);
    CHECK_EQ(perform(state, recv_op(fds[1], text, sizeof text)), 4);
    CHECK_STR(text, "3456");
    struct trial waiting = { 0 }; // for bytes to come
    trial_start(&waiting, state, op);
    driver()->poll(state);
    CHECK_EQ(write(pipe_fds[1], "wxyz", 4), 4);
    CHECK_EQ(trial_await(&waiting), 4);
    driver()->close(state);
}

TEST_DRIVERS(files_are_read_and_written_at_offsets)
{
    void *state = open_driver();
    char text[16] = "";
    const int flags[] = { 0, O_NONBLOCK };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(flags); i++) {
        int file = temp_file();
        CHECK_EQ(fcntl(file, F_SETFL, flags[i]), 0);
        struct weft__op op = write_op(file, "world", 5);
        op.offset = 6;
        CHECK_EQ(perform(state, op), 5);
        CHECK_EQ(perform(state, write_op(file, "hello ", 6)), 6); // the position moves on
        CHECK_EQ(lseek(file, 0, SEEK_CUR), 6);
        op = read_op(file, text, sizeof text - 1);
        op.offset = 0;
        CHECK_EQ(perform(state, op), 11);
        CHECK_STR(text, "hello world");
        CHECK_EQ(perform(state, read_op(file, text, sizeof text)), 5);
        CHECK_EQ(perform(state, read_op(file, text, sizeof text)), 0);
        op = (struct weft__op){ .code = WEFT__OP_FSYNC, .fd = file };
        CHECK_EQ(perform(state, op), 0);
        op.flags = 1;
        CHECK_EQ(perform(state, op), 0);
        CHECK_EQ(perform(state, poll_op(file, POLLIN | POLLOUT)), POLLIN | POLLOUT);
        close_fd(state, file);
    }
    driver()->close(state);
}

// Errors.

TEST_DRIVERS(a_bad_descriptor_is_an_error_of_every_operation)
{
    void *state = open_driver();
    int fds[2], closed;
    struct sockaddr_in addr = { .sin_family = AF_INET };
    char text[4] = "abc";
    struct iovec part = { text, sizeof text };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    make_pipe(fds, 0);
    closed = fds[0];
    close_fd(state, fds[0]);
    for (int code = 0; code < WEFT__OP_CODES; code++) {
        for (int bad = 0; bad < 2; bad++) {
            struct weft__op op = { .code = (uint8_t)code, .fd = bad == 0 ? -1 : closed, .size = 1 };
            op.data = code == WEFT__OP_READV || code == WEFT__OP_WRITEV      ? (void *)&part
                      : code == WEFT__OP_SENDMSG || code == WEFT__OP_RECVMSG ? (void *)&message
                      : code == WEFT__OP_CONNECT                             ? (void *)&addr
                      : code == WEFT__OP_ACCEPT                              ? NULL
                                                                             : (void *)text;
            op.size = code == WEFT__OP_CONNECT ? sizeof addr : 1;
            op.flags = code == WEFT__OP_POLL ? POLLIN : 0;
            op.offset = code == WEFT__OP_SPLICE ? -1 : 0;
            op.from_fd = fds[1];
            int64_t result = perform(state, op);
            if (result != -EBADF) {
                FAIL("operation %d on descriptor %d: %d", code, op.fd, (int)result);
            }
        }
    }
    CHECK_EQ(perform(state, select_op(-1, 0)), -EBADF);
    CHECK_EQ(perform(state, select_op(closed, WEFT__OP_MULTI)), -EBADF);
    driver()->close(state);
}

static volatile sig_atomic_t pipe_signals;

static void on_sigpipe(int signal)
{
    (void)signal;
    pipe_signals++;
}

TEST_DRIVERS(sending_to_nobody_is_an_error_and_no_signal)
{
    void *state = open_driver();
    int fds[2];
    struct sigaction action = { .sa_handler = on_sigpipe };
    char x[] = "x";
    struct iovec part = { x, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    CHECK_EQ(sigaction(SIGPIPE, &action, NULL), 0);
    make_pair(state, fds);
    close_fd(state, fds[1]);
    CHECK_EQ(perform(state, send_op(fds[0], "x", 1)), -EPIPE);
    struct weft__op op = send_op(fds[0], "x", 1);
    op.code = WEFT__OP_SEND_ZC;
    CHECK_EQ(perform(state, op), -EPIPE);
    op = (struct weft__op){ .code = WEFT__OP_SENDMSG, .fd = fds[0], .data = &message };
    CHECK_EQ(perform(state, op), -EPIPE);
    CHECK_EQ(pipe_signals, 0);
    driver()->close(state);
}

TEST_DRIVERS(errors_are_those_of_the_system_call)
{
    void *state = open_driver();
    int fds[2];
    char text[4];
    make_pipe(fds, 0);
    CHECK_EQ(perform(state, recv_op(fds[0], text, sizeof text)), -ENOTSOCK);
    CHECK_EQ(perform(state, select_op(fds[0], WEFT__OP_MULTI)), -ENOTSOCK);
    CHECK_EQ(perform(state, accept_op(fds[0], WEFT__OP_MULTI)), -ENOTSOCK);
    CHECK_EQ(perform(state, read_op(fds[1], text, sizeof text)), -EBADF); // opened for writing
    CHECK_EQ(perform(state, accept_op(make_socket(state), 0)), -EINVAL);  // not listening
    CHECK_EQ(perform(state, recv_op(make_socket(state), text, 1)), -ENOTCONN);
    driver()->close(state);
}

// Descriptors of the user's that are non-blocking: the owner of an op does not notice.

TEST_DRIVERS(nonblocking_pipes_wait)
{
    void *state = open_driver();
    int fds[2];
    char text[4096] = "";
    struct trial reader = { 0 }, writer = { 0 };
    make_pipe(fds, O_NONBLOCK);
    trial_start(&reader, state, read_op(fds[0], text, sizeof text));
    driver()->poll(state);
    CHECK(!reader.ended);
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    CHECK_EQ(trial_await(&reader), 3);
    while (write(fds[1], text, sizeof text) > 0) {
    }
    trial_start(&writer, state, write_op(fds[1], text, sizeof text));
    driver()->poll(state);
    CHECK(!writer.ended);
    while (read(fds[0], text, sizeof text) > 0) {
    }
    CHECK_EQ(trial_await(&writer), (int64_t)sizeof text);
    driver()->close(state);
}

TEST_DRIVERS(nonblocking_sockets_wait)
{
    void *state = open_driver();
    struct sockaddr_in addr;
    char text[4] = "";
    struct trial dial = { 0 }, acceptor = { 0 }, reader = { 0 };
    int listener = make_listener(state, &addr, 4);
    CHECK_EQ(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK_OK(fd);
    trial_start(&acceptor, state, accept_op(listener, 0));
    driver()->poll(state);
    CHECK(!acceptor.ended);
    trial_start(&dial, state, connect_op(fd, &addr));
    CHECK_OK(trial_await(&dial));
    CHECK_OK(trial_await(&acceptor));
    trial_start(&reader, state, recv_op(fd, text, sizeof text));
    driver()->poll(state);
    CHECK(!reader.ended);
    CHECK_EQ(perform(state, send_op((int)acceptor.result, "abc", 3)), 3);
    CHECK_EQ(trial_await(&reader), 3);
    CHECK_STR(text, "abc");
    close_fd(state, listener);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK_EQ(perform(state, connect_op(fd, &addr)), -ECONNREFUSED);
    driver()->close(state);
}

TEST_DRIVERS(who_does_not_want_to_wait_is_told)
{
    void *state = open_driver();
    int fds[2];
    char text[4];
    make_pair(state, fds);
    struct weft__op op = recv_op(fds[0], text, sizeof text);
    op.flags = MSG_DONTWAIT;
    CHECK_EQ(perform(state, op), -EAGAIN);
    driver()->close(state);
}
