// epoll_plain_test.c - the user's own descriptors: of every kind, in either mode, and closed behind
// the driver's back.
#include "support/calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

static struct weft__op vector_op(enum weft__op_code code, int fd, struct iovec *parts, size_t count,
                                 int64_t offset)
{
    return (struct weft__op){
        .code = (uint8_t)code, .fd = fd, .data = parts, .size = count, .offset = offset
    };
}

static struct weft__op at(struct weft__op op, int64_t offset)
{
    op.offset = offset;
    return op;
}

// Waiting.

TEST(a_wrong_hint_costs_nothing_but_time)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    make_tcp(fds);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        await_bytes(fds[0], 3);
        CHECK_EQ(perform(state, recv_op(fds[0], data, sizeof data)), 3);
    }
    driver()->close(state);
}

TEST(nothing_is_watched_when_nobody_waits)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    make_tcp(fds);
    struct trial reader = { 0 };
    trial_start(&reader, state, recv_op(fds[0], data, sizeof data));
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    CHECK_EQ(trial_await(&reader), 3);
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    await_bytes(fds[0], 3);
    calls_reset();
    CHECK_EQ(driver()->poll(state), 0);
    CHECK_EQ(calls.waits, 0); // poll() is free
    weft_time until = weft__clock_ns() + 5 * WEFT_MS;
    driver()->wait(state, until);
    CHECK_GE(weft__clock_ns(), until);
    CHECK_EQ(calls.waits, 1);
    driver()->close(state);
}

TEST(reader_and_writer_wait_at_once)
{
    static char data[1 << 16];
    void *state = open_driver();
    int fds[2];
    make_unix(fds, SOCK_STREAM);
    struct trial reader = { 0 };
    struct trial writer = { 0 };
    for (int round = 0; round < 4; round++) {
        trial_start(&reader, state, read_op(fds[0], data, 16));
        do {
            trial_start(&writer, state, write_op(fds[0], data, sizeof data));
        } while (writer.ended);
        if (round % 2 == 0) { // the one that came first is served first
            CHECK_EQ(write(fds[1], "abc", 3), 3);
            CHECK_EQ(trial_await(&reader), 3);
            CHECK(!writer.ended);
        }
        while (take(fds[1], data, sizeof data) > 0 || !writer.ended) {
            driver()->poll(state);
        }
        CHECK_GT(writer.result, 0);
        if (round % 2 != 0) {
            CHECK(!reader.ended);
            CHECK_EQ(write(fds[1], "abc", 3), 3);
            CHECK_EQ(trial_await(&reader), 3);
        }
    }
    driver()->close(state);
}

TEST(a_filled_error_queue_does_not_make_it_spin)
{
    void *state = open_driver();
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    int on = 1;
    struct sockaddr_in nobody;
    char data[64];
    close(open_listener(&nobody, 1));
    CHECK_OK(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on));
    CHECK_OK(connect(fd, (struct sockaddr *)&nobody, sizeof nobody));
    CHECK_EQ(send(fd, "abc", 3, 0), 3);
    await_event(fd, POLLERR);
    CHECK_LT(recv(fd, data, sizeof data, MSG_DONTWAIT), 0); // takes the error, not the queue
    await_event(fd, POLLERR);
    struct trial reader = { 0 };
    trial_start(&reader, state, recv_op(fd, data, sizeof data));
    calls_reset();
    driver()->wait(state, weft__clock_ns() + 20 * WEFT_MS);
    CHECK(!reader.ended);
    CHECK_LE(calls.waits, 5);
    // The queue itself can be read meanwhile.
    struct iovec part = { .iov_base = data, .iov_len = sizeof data };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct weft__op queue = {
        .code = WEFT__OP_RECVMSG, .fd = fd, .data = &message, .flags = MSG_ERRQUEUE
    };
    CHECK_EQ(perform(state, queue), 3);
    CHECK(!reader.ended);
    cancel(&reader);
    CHECK_EQ(trial_await(&reader), -ECANCELED);
    driver()->close(state);
}

TEST(a_poll_for_ends_alone_survives_other_events)
{
    void *state = open_driver();
    int fds[2];
    char data[16];
    make_unix(fds, SOCK_STREAM);
    struct trial poller = { 0 };
    struct trial reader = { 0 };
    trial_start(&poller, state, poll_op(fds[0], 0));
    trial_start(&reader, state, recv_op(fds[0], data, sizeof data));
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    CHECK_EQ(trial_await(&reader), 3);
    CHECK(!poller.ended);
    close(fds[1]);
    CHECK_EQ(trial_await(&poller), POLLHUP);
    driver()->close(state);
}

// Impatience and completeness.

TEST(who_does_not_want_to_wait_is_told)
{
    void *state = open_driver();
    int fds[2];
    char data[64];
    make_tcp(fds);
    struct weft__op op = recv_op(fds[0], data, sizeof data);
    op.flags = MSG_DONTWAIT;
    for (int i = 0; i < 3; i++) {
        struct trial reader = { 0 };
        trial_start(&reader, state, op);
        CHECK(reader.ended);
        CHECK_EQ(reader.result, -EAGAIN);
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        await_bytes(fds[0], 3);
        CHECK_EQ(perform(state, op), 3);
    }
    driver()->close(state);
}

TEST(a_complete_transfer_goes_on_until_it_is_complete)
{
    void *state = open_driver();
    int fds[2];
    char data[12] = "";
    make_tcp(fds);
    struct iovec parts[] = { { data, 2 }, { data + 2, 0 }, { data + 2, 6 }, { data + 8, 4 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 4 };
    struct weft__op ops[] = {
        recv_op(fds[0], data, sizeof data),
        { .code = WEFT__OP_RECVMSG, .fd = fds[0], .data = &message },
    };
    for (int i = 0; i < 4; i++) {
        struct trial reader = { 0 };
        struct weft__op op = ops[i % 2];
        op.flags = MSG_WAITALL;
        memset(data, 0, sizeof data);
        trial_start(&reader, state, i < 2 ? op : managed(op));
        const char *text = "hello, world";
        for (int k = 0; k < 12; k += 4) {
            CHECK(!reader.ended);
            CHECK_EQ(write(fds[1], text + k, 4), 4);
            await_bytes(fds[0], 1);
            look(state);
        }
        CHECK_EQ(trial_await(&reader), 12);
        CHECK_EQ(memcmp(data, text, 12), 0);
        // What was transferred wins over the cancel.
        trial_start(&reader, state, op);
        CHECK_EQ(write(fds[1], "part", 4), 4);
        await_bytes(fds[0], 4);
        look(state);
        cancel(&reader);
        CHECK_EQ(trial_await(&reader), 4);
    }
    driver()->close(state);
}

TEST(a_complete_send_goes_on_until_it_is_complete)
{
    enum { SIZE = 8 << 20 };
    static char data[SIZE];
    static char back[SIZE];
    void *state = open_driver();
    int fds[2];
    make_unix(fds, SOCK_STREAM);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (char)(i * 7 >> 3);
    }
    struct iovec parts[] = { { data, 5000000 }, { data + 5000000, SIZE - 5000000 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    struct weft__op ops[] = {
        send_op(fds[0], data, SIZE),
        { .code = WEFT__OP_SENDMSG, .fd = fds[0], .data = &message },
    };
    for (int i = 0; i < 2; i++) {
        struct trial writer = { 0 };
        ops[i].flags = MSG_WAITALL;
        trial_start(&writer, state, ops[i]);
        size_t got = 0;
        while (got < SIZE) {
            got += (size_t)take(fds[1], back + got, SIZE - got);
            driver()->poll(state);
        }
        CHECK_EQ(trial_await(&writer), SIZE);
        CHECK_EQ(memcmp(data, back, SIZE), 0);
    }
    driver()->close(state);
}

// Kinds of descriptors, in blocking mode.

static void check_pipe(void *state, int fds[2])
{
    static char data[1 << 17];
    struct trial reader = { 0 };
    struct trial writer = { 0 };
    for (int i = 0; i < 3; i++) {
        trial_start(&reader, state, read_op(fds[0], data, sizeof data));
        CHECK(!reader.ended);
        CHECK_EQ(perform(state, write_op(fds[1], "abc", 3)), 3);
        CHECK_EQ(trial_await(&reader), 3);
    }
    int64_t sent = 0;
    do {
        trial_start(&writer, state, write_op(fds[1], data, sizeof data));
        sent += writer.ended ? writer.result : 0;
    } while (writer.ended);
    CHECK_GT(sent, 0);
    int64_t got = 0;
    while (!writer.ended || got < sent + writer.result) {
        got += perform(state, read_op(fds[0], data, 3000));
        driver()->poll(state);
    }
    struct iovec parts[] = { { data, 0 }, { data, 3 }, { data, 5 } };
    int64_t n = perform(state, vector_op(WEFT__OP_WRITEV, fds[1], parts, 3, -1));
    CHECK(n == 8 || n == 3);
    CHECK_EQ(perform(state, vector_op(WEFT__OP_READV, fds[0], parts, 3, -1)), n);
    CHECK_EQ(perform(state, at(read_op(fds[0], data, 1), 0)), -ESPIPE);
    close_fd(state, fds[1]);
    CHECK_EQ(perform(state, read_op(fds[0], data, 1)), 0);
    close_fd(state, fds[0]);
    CHECK_EQ(perform(state, read_op(fds[0], data, 1)), -EBADF);
}

TEST(pipes_in_either_mode)
{
    void *state = open_driver();
    for (int i = 0; i < 4; i++) {
        int fds[2];
        nowait_error = i >= 2 ? EOPNOTSUPP : 0; // Linux before 6.4
        CHECK_OK(pipe2(fds, i % 2 == 0 ? 0 : O_NONBLOCK));
        check_pipe(state, fds);
    }
    CHECK_EQ(count_of(state, "offloaded"), 0u);
    driver()->close(state);
}

TEST(eventfds)
{
    void *state = open_driver();
    for (int i = 0; i < 2; i++) {
        int fd = eventfd(0, i == 0 ? 0 : EFD_NONBLOCK);
        uint64_t value = 0;
        struct trial reader = { 0 };
        trial_start(&reader, state, read_op(fd, &value, sizeof value));
        CHECK(!reader.ended);
        const uint64_t three = 3;
        CHECK_EQ(perform(state, write_op(fd, &three, sizeof three)), 8);
        CHECK_EQ(trial_await(&reader), 8);
        CHECK_EQ(value, 3u);
        close_fd(state, fd);
    }
    driver()->close(state);
}

TEST(a_terminal_in_blocking_mode)
{
    void *state = open_driver();
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    char data[64];
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        SKIP("no terminals here");
    }
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK_GE(terminal, 0);
    struct trial reader = { 0 };
    trial_start(&reader, state, read_op(terminal, data, sizeof data));
    CHECK(!reader.ended);
    CHECK_EQ(write(master, "a line\n", 7), 7);
    CHECK_EQ(trial_await(&reader), 7);
    CHECK_EQ(perform(state, write_op(terminal, "back\n", 5)), 5);
    driver()->close(state);
}

TEST(devices_that_are_always_ready)
{
    void *state = open_driver();
    char data[16];
    int zero = open("/dev/zero", O_RDWR);
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 2; i++) {
        nowait_error = i == 0 ? 0 : EOPNOTSUPP;
        CHECK_EQ(perform(state, read_op(zero, data, sizeof data)), 16);
        CHECK_EQ(perform(state, write_op(null, data, sizeof data)), 16);
        CHECK_EQ(perform(state, read_op(null, data, sizeof data)), 0);
        CHECK_EQ(perform(state, poll_op(null, POLLIN | POLLOUT)), POLLIN | POLLOUT);
    }
    driver()->close(state);
}

TEST(sockets_in_blocking_mode_stay_in_it)
{
    void *state = open_driver();
    struct sockaddr_in address;
    int listener = open_listener(&address, 4);
    CHECK_OK(fcntl(listener, F_SETFL, 0));
    struct trial acceptor = { 0 };
    trial_start(&acceptor, state, (struct weft__op){ .code = WEFT__OP_ACCEPT, .fd = listener });
    CHECK(!acceptor.ended);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct weft__op connecting = {
        .code = WEFT__OP_CONNECT, .fd = fd, .data = &address, .size = sizeof address
    };
    CHECK_EQ(perform(state, connecting), 0);
    int peer = (int)trial_await(&acceptor);
    CHECK_GE(peer, 0);
    char data[16];
    struct trial reader = { 0 };
    trial_start(&reader, state, read_op(fd, data, sizeof data));
    CHECK(!reader.ended);
    CHECK_EQ(perform(state, write_op(peer, "abc", 3)), 3);
    CHECK_EQ(trial_await(&reader), 3);
    const int all[] = { listener, fd, peer };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(all); i++) {
        CHECK_EQ(fcntl(all[i], F_GETFL) & O_NONBLOCK, 0);
    }
    driver()->close(state);
}

TEST(read_and_write_on_sockets_are_those_of_posix)
{
    void *state = open_driver();
    int fds[2];
    char data[16] = "";
    make_unix(fds, SOCK_STREAM);
    CHECK_EQ(perform(state, read_op(fds[0], data, 0)), 0);
    CHECK_EQ(perform(state, at(read_op(fds[0], data, 1), 0)), -ESPIPE);
    CHECK_EQ(perform(state, at(write_op(fds[0], data, 1), 7)), -ESPIPE);
    struct iovec parts[] = { { data, 3 }, { data, 4 } };
    CHECK_EQ(perform(state, vector_op(WEFT__OP_WRITEV, fds[0], parts, 2, -1)), 7);
    CHECK_EQ(perform(state, vector_op(WEFT__OP_READV, fds[1], parts, 2, -1)), 7);
    CHECK_EQ(perform(state, vector_op(WEFT__OP_READV, fds[1], parts, 0, -1)), 0);
    close_fd(state, fds[1]);
    CHECK_EQ(perform(state, write_op(fds[0], "abc", 3)), -EPIPE); // and no signal
    CHECK_EQ(perform(state, vector_op(WEFT__OP_WRITEV, fds[0], parts, 2, -1)), -EPIPE);
    driver()->close(state);
}

// Files.

TEST(files_that_are_in_memory_need_no_thread)
{
    void *state = open_driver();
    int fd = make_file("hello, world");
    char data[16] = "";
    struct iovec part = { .iov_base = data, .iov_len = 1 };
    if (preadv2(fd, &part, 1, 0, RWF_NOWAIT) < 0) {
        SKIP("this file system cannot say what is in memory");
    }
    CHECK_EQ(perform(state, at(read_op(fd, data, 5), 7)), 5);
    CHECK_EQ(memcmp(data, "world", 5), 0);
    CHECK_EQ(perform(state, read_op(fd, data, sizeof data)), 12);
    CHECK_EQ(perform(state, read_op(fd, data, sizeof data)), 0);
    CHECK_EQ(perform(state, poll_op(fd, POLLIN)), POLLIN);
    CHECK_EQ(count_of(state, "offloaded"), 0u);
    driver()->close(state);
}

TEST(a_file_is_read_to_its_end_in_whatever_parts)
{
    const char *text = "0123456789abcdef";
    void *state = open_driver();
    int fd = make_file(text);
    char data[32];
    struct iovec parts[] = { { data, 3 }, { data + 3, 0 }, { data + 3, 7 }, { data + 10, 6 } };
    nowait_most = 2;
    for (int through = 0; through < 10; through++) {
        for (int how = 0; how < 2; how++) {
            nowait_countdown = through; // then the rest is not in memory
            nowait_error = how == 0 ? EAGAIN : EOPNOTSUPP;
            memset(data, 0, sizeof data);
            CHECK_EQ(perform(state, at(read_op(fd, data, 16), 0)), 16);
            CHECK_EQ(memcmp(data, text, 16), 0);
            nowait_countdown = through;
            memset(data, 0, sizeof data);
            CHECK_EQ(perform(state, vector_op(WEFT__OP_READV, fd, parts, 4, 0)), 16);
            CHECK_EQ(memcmp(data, text, 16), 0);
            nowait_countdown = through;
            CHECK_OK(lseek(fd, 4, SEEK_SET));
            CHECK_EQ(perform(state, read_op(fd, data, sizeof data)), 12); // the end
            CHECK_EQ(memcmp(data, text + 4, 12), 0);
        }
    }
    CHECK_GT(count_of(state, "offloaded"), 0u);
    driver()->close(state);
}

TEST(a_file_is_written_in_whatever_parts)
{
    const char *text = "0123456789abcdef";
    void *state = open_driver();
    int fd = make_file("");
    char data[32];
    char copy[] = "0123456789abcdef";
    struct iovec parts[] = { { copy, 3 }, { copy + 3, 0 }, { copy + 3, 7 }, { copy + 10, 6 } };
    nowait_most = 2;
    for (int through = 0; through < 10; through++) {
        nowait_countdown = through;
        nowait_error = EAGAIN;
        CHECK_OK(ftruncate(fd, 0));
        CHECK_EQ(perform(state, at(write_op(fd, text, 16), 1)), 16);
        CHECK_EQ(pread(fd, data, sizeof data, 1), 16);
        CHECK_EQ(memcmp(data, text, 16), 0);
        nowait_countdown = through;
        CHECK_OK(ftruncate(fd, 0));
        CHECK_OK(lseek(fd, 0, SEEK_SET));
        CHECK_EQ(perform(state, vector_op(WEFT__OP_WRITEV, fd, parts, 4, -1)), 16);
        CHECK_EQ(pread(fd, data, sizeof data, 0), 16);
        CHECK_EQ(memcmp(data, text, 16), 0);
    }
    CHECK_EQ(perform(state, (struct weft__op){ .code = WEFT__OP_FSYNC, .fd = fd }), 0);
    CHECK_EQ(perform(state, (struct weft__op){ .code = WEFT__OP_FSYNC, .fd = fd, .flags = 1 }), 0);
    driver()->close(state);
}

TEST(directories_are_refused_like_elsewhere)
{
    void *state = open_driver();
    char data[16] = "";
    int fd = open("/", O_RDONLY | O_DIRECTORY);
    CHECK_EQ(perform(state, read_op(fd, data, sizeof data)), -EISDIR);
    CHECK_EQ(perform(state, recv_op(fd, data, sizeof data)), -ENOTSOCK);
    CHECK_EQ(perform(state, write_op(fd, data, sizeof data)), -EBADF);
    driver()->close(state);
}

// Numbers that mean something else now.

/// Opens something at the given number, without the driver's knowledge.
static void put_at(int number, int fd)
{
    CHECK_EQ(dup2(fd, number), number);
    close(fd);
}

TEST(a_number_that_was_used_before_is_no_obstacle)
{
    void *state = open_driver();
    enum { SOCKET, PIPE, FILE_, KINDS };
    int old[2];
    char data[64];
    make_tcp(old);
    int number = old[0];
    uint64_t seed = test_seed();
    for (int i = 0; i < 200; i++) {
        int other[2] = { -1, -1 };
        int kind = (int)(test_random(&seed) % KINDS);
        if (kind == SOCKET) {
            make_tcp(other);
        } else if (kind == PIPE) {
            CHECK_OK(pipe2(other, test_random(&seed) % 2 == 0 ? 0 : O_NONBLOCK));
        } else {
            other[0] = make_file("abc");
        }
        put_at(number, other[0]);
        nowait_error = kind == FILE_ && test_random(&seed) % 2 == 0 ? EAGAIN : 0;
        struct trial reader = { 0 };
        trial_start(&reader, state, read_op(number, data, sizeof data));
        if (kind != FILE_) {
            CHECK(!reader.ended);
            if (test_random(&seed) % 4 == 0) { // leaves it armed
                cancel(&reader);
                CHECK_EQ(trial_await(&reader), -ECANCELED);
                close(other[1]);
                continue;
            }
            CHECK_EQ(write(other[1], "abc", 3), 3);
        }
        CHECK_EQ(trial_await(&reader), 3);
        close(other[1]);
    }
    driver()->close(state);
}

TEST(events_of_what_had_the_number_before_do_no_harm)
{
    void *state = open_driver();
    int old[2];
    int now[2];
    char data[64];
    make_tcp(old);
    int number = old[0];
    int keeper = dup(number); // keeps it in epoll's set
    struct trial reader = { 0 };
    trial_start(&reader, state, recv_op(number, data, sizeof data));
    cancel(&reader);
    CHECK_EQ(trial_await(&reader), -ECANCELED);
    make_tcp(now);
    put_at(number, now[0]);
    trial_start(&reader, state, recv_op(number, data, sizeof data));
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(write(old[1], "old", 3), 3);
        await_bytes(keeper, 3);
        look(state);
        CHECK(!reader.ended);
    }
    CHECK_EQ(write(now[1], "new!", 4), 4);
    CHECK_EQ(trial_await(&reader), 4);
    CHECK_EQ(memcmp(data, "new!", 4), 0);
    driver()->close(state);
}
