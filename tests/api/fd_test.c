// fd_test.c - the calls on plain descriptors: what they move, what they wait for, what they refuse.
#include "support/fdcalls.h"
#include "support/fdrun.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <termios.h>

// Every pair of calls, on everything that takes them, in both modes.

static int move_in_every_way(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        enum channel_kind kind = (enum channel_kind)(i / 2);
        struct channel channel = channel_open(kind, i % 2 == 1);
        size_t count = kind == CHANNEL_PIPE ? FOR_SOCKETS : sizeof readers / sizeof readers[0];
        for (size_t r = 0; r < count; r++) {
            for (size_t w = 0; w < count; w++) {
                move_bytes(channel, readers[r], writers[w]);
            }
        }
        channel_close(channel);
    }
    return 0;
}

TEST_DRIVERS(every_call_moves_bytes_on_every_kind_of_descriptor)
{
    run(move_in_every_way);
}

static int see_the_end(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        enum channel_kind kind = (enum channel_kind)(i / 2);
        size_t count = kind == CHANNEL_PIPE ? FOR_SOCKETS : sizeof readers / sizeof readers[0];
        for (size_t r = 0; r < count; r++) {
            struct channel channel = channel_open(kind, i % 2 == 1);
            struct reading reading = { .fd = channel.from, .read = readers[r] };
            weft_task *task;
            CHECK_OK(weft_spawn(&task, read_something, &reading, NULL));
            let_others_park();
            CHECK_OK(weft_close(channel.to));
            CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
            CHECK_EQ(reading.result, 0);
            CHECK_EQ(read_something(&reading), 0); // and again
            CHECK_EQ(reading.result, 0);
            CHECK_OK(weft_close(channel.from));
        }
    }
    return 0;
}

TEST_DRIVERS(a_reader_sees_the_end_of_file)
{
    run(see_the_end);
}

// Other descriptors.

static int use_an_eventfd(void *arg)
{
    (void)arg;
    uint64_t value = 3;
    int fd = eventfd(0, EFD_CLOEXEC);
    CHECK_EQ(weft_read(fd, &value, sizeof value, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_write(fd, &value, sizeof value, WEFT_FOREVER), 8);
    CHECK_EQ(weft_poll(fd, POLLIN | POLLOUT, WEFT_FOREVER), POLLIN | POLLOUT);
    CHECK_EQ(weft_read(fd, &value, sizeof value, WEFT_FOREVER), 8);
    CHECK_EQ(value, 3);
    CHECK_OK(weft_close(fd));
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_EQ(weft_write(null, "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(null, &value, sizeof value, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(null));
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    CHECK_EQ(weft_read_full(NULL, zero, &value, sizeof value, WEFT_FOREVER), 8);
    CHECK_EQ(value, 0);
    CHECK_OK(weft_close(zero));
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec soon = { .it_value.tv_nsec = 1000000 };
    CHECK_OK(timerfd_settime(timer, 0, &soon, NULL));
    CHECK_EQ(weft_read(timer, &value, sizeof value, WEFT_FOREVER), 8);
    CHECK_EQ(value, 1);
    CHECK_OK(weft_close(timer));
    return 0;
}

/// A terminal knows no RWF_NOWAIT, takes a part of what it is given, and ends with an error.
static int use_a_terminal(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        int mode = O_RDWR | O_NOCTTY | O_CLOEXEC | (i == 1 ? O_NONBLOCK : 0);
        int master = posix_openpt(mode);
        CHECK_OK(master);
        CHECK_OK(grantpt(master));
        CHECK_OK(unlockpt(master));
        int terminal = open(ptsname(master), mode);
        struct termios raw;
        CHECK_OK(terminal);
        CHECK_OK(tcgetattr(terminal, &raw));
        cfmakeraw(&raw);
        CHECK_OK(tcsetattr(terminal, TCSANOW, &raw));
        move_bytes((struct channel){ terminal, master }, use_read, use_write);
        move_bytes((struct channel){ master, terminal }, use_readv, use_writev);
        char data[8];
        CHECK_EQ(weft_read(terminal, data, sizeof data, weft_after(WEFT_MS)), -ETIMEDOUT);
        CHECK_OK(weft_close(terminal));
        CHECK_EQ(weft_read(master, data, sizeof data, WEFT_FOREVER), -EIO);
        CHECK_OK(weft_close(master));
    }
    return 0;
}

TEST_DRIVERS(terminals_are_descriptors_too)
{
    run(use_a_terminal);
}

TEST_DRIVERS(eventfds_and_devices_are_descriptors_too)
{
    run(use_an_eventfd);
}

static int use_a_file(void *arg)
{
    (void)arg;
    char data[16] = { 0 };
    struct iovec out[2] = { { (void *)(uintptr_t) "wo", 2 }, { (void *)(uintptr_t) "rld", 3 } };
    struct iovec in[2] = { { data, 3 }, { data + 3, 10 } };
    int fd = temp_file();
    CHECK_EQ(weft_write(fd, "hello ", 6, WEFT_FOREVER), 6);
    CHECK_EQ(weft_writev(fd, out, 2, WEFT_FOREVER), 5);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), 11);
    CHECK_EQ(weft_pread(fd, data, sizeof data, 6, WEFT_FOREVER), 5);
    CHECK_STR(data, "world");
    CHECK_EQ(weft_pwrite(fd, "J", 1, 0, WEFT_FOREVER), 1);
    CHECK_EQ(weft_pwritev(fd, out, 2, 20, WEFT_FOREVER), 5); // leaves a hole
    CHECK_EQ(weft_preadv(fd, in, 2, 0, WEFT_FOREVER), 13);
    CHECK_EQ(memcmp(data, "Jello world\0", 13), 0);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), 11); // where it was
    CHECK_EQ(lseek(fd, 1, SEEK_SET), 1);
    CHECK_EQ(weft_readv(fd, in, 2, WEFT_FOREVER), 13);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), 14);
    CHECK_EQ(weft_pread(fd, data, sizeof data, 1000, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fsync(fd, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fdatasync(fd, WEFT_FOREVER), 0);
    CHECK_GE(weft_poll(fd, POLLIN | POLLOUT, WEFT_FOREVER), POLLIN);
    CHECK_OK(weft_close(fd));
    CHECK_EQ(weft_fsync(fd, WEFT_FOREVER), -EBADF);
    return 0;
}

TEST_DRIVERS(files_have_positions)
{
    run(use_a_file);
}

enum { LARGE = 20 << 20 };

static int move_a_large_file(void *arg)
{
    (void)arg;
    size_t size = (size_t)test_scaled(LARGE);
    size_t moved = 1;
    char *data = malloc(size + 1);
    int fd = temp_file();
    pattern_fill(data, size, 0);
    CHECK_EQ(weft_write_full(&moved, fd, data, size, WEFT_FOREVER), (ssize_t)size);
    CHECK_EQ(moved, size);
    memset(data, 0, size);
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    CHECK_EQ(weft_read_full(&moved, fd, data, size + 1, WEFT_FOREVER), (ssize_t)size); // the end
    CHECK_EQ(moved, size);
    CHECK_EQ(pattern_differs(data, size, 0), size);
    memset(data, 0, size);
    for (size_t at = 0; at < size; at += 1 << 20) {
        size_t piece = size - at < 1 << 20 ? size - at : 1 << 20;
        CHECK_EQ(weft_pread(fd, data, piece, (int64_t)at, WEFT_FOREVER), (ssize_t)piece);
        CHECK_EQ(pattern_differs(data, piece, at), piece);
    }
    CHECK_OK(weft_close(fd));
    free(data);
    return 0;
}

TEST_DRIVERS(a_file_larger_than_any_buffer_arrives_whole)
{
    run(move_a_large_file);
}

// Datagrams.

static int exchange_datagrams(void *arg)
{
    (void)arg;
    struct sockaddr_in here[2];
    struct sockaddr_in sender;
    int fds[2];
    static char data[100000];
    for (int i = 0; i < 2; i++) {
        socklen_t size = sizeof here[i];
        here[i] = loopback(0);
        fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        CHECK_OK(bind(fds[i], (struct sockaddr *)&here[i], sizeof here[i]));
        CHECK_OK(getsockname(fds[i], (struct sockaddr *)&here[i], &size));
    }
    uint32_t size = sizeof sender;
    CHECK_EQ(weft_recvfrom(fds[1], data, sizeof data, 0, (struct sockaddr *)&sender, &size,
                           weft_after(1 * WEFT_MS)),
             -ETIMEDOUT);
    CHECK_EQ(size, sizeof sender);
    CHECK_EQ(weft_sendto(fds[0], "ping", 4, 0, (struct sockaddr *)&here[1], sizeof here[1],
                         WEFT_FOREVER),
             4);
    CHECK_EQ(weft_recvfrom(fds[1], data, sizeof data, 0, (struct sockaddr *)&sender, &size,
                           WEFT_FOREVER),
             4);
    CHECK_EQ(size, sizeof sender);
    CHECK_EQ(sender.sin_port, here[0].sin_port);
    size = 2; // cut off
    CHECK_EQ(
        weft_sendto(fds[0], "", 0, 0, (struct sockaddr *)&here[1], sizeof here[1], WEFT_FOREVER),
        0);
    sender.sin_port = 7;
    CHECK_EQ(weft_recvfrom(fds[1], data, sizeof data, 0, (struct sockaddr *)&sender, &size,
                           WEFT_FOREVER),
             0);
    CHECK_EQ(size, sizeof sender);
    CHECK_EQ(sender.sin_port, 7);
    // A connected one, and one that is cut.
    CHECK_EQ(weft_connect(fds[0], (struct sockaddr *)&here[1], sizeof here[1], WEFT_FOREVER), 0);
    CHECK_EQ(weft_send(fds[0], "0123456789", 10, 0, WEFT_FOREVER), 10);
    struct iovec part = { data, 4 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    CHECK_EQ(weft_recvmsg(fds[1], &message, 0, WEFT_FOREVER), 4);
    CHECK((message.msg_flags & MSG_TRUNC) != 0);
    CHECK_EQ(weft_send(fds[0], data, sizeof data, 0, WEFT_FOREVER), -EMSGSIZE);
    CHECK_EQ(weft_send(fds[0], "whole", 5, 0, WEFT_FOREVER), 5);
    CHECK_EQ(weft_recv(fds[1], data, sizeof data, MSG_WAITALL, WEFT_FOREVER), 5); // not for these
    CHECK_OK(weft_close(fds[1]));
    CHECK_OK(weft_close(fds[0]));
    return 0;
}

TEST_DRIVERS(datagrams_keep_their_sender_and_their_borders)
{
    run(exchange_datagrams);
}

static int pass_a_descriptor(void *arg)
{
    (void)arg;
    struct channel channel = channel_open(CHANNEL_UNIX, false);
    char room[CMSG_SPACE(sizeof(int))] = { 0 };
    char byte = 'x';
    struct iovec part = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int fd = temp_file();
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK_EQ(weft_sendmsg(channel.to, &message, 0, WEFT_FOREVER), 1);
    CHECK_EQ(weft_write(fd, "shared", 6, WEFT_FOREVER), 6);
    CHECK_OK(weft_close(fd));
    memset(room, 0, sizeof room);
    CHECK_EQ(weft_recvmsg(channel.from, &message, MSG_CMSG_CLOEXEC, WEFT_FOREVER), 1);
    head = CMSG_FIRSTHDR(&message);
    CHECK(head != NULL);
    memcpy(&fd, CMSG_DATA(head), sizeof fd);
    char data[8];
    CHECK_EQ(weft_pread(fd, data, sizeof data, 0, WEFT_FOREVER), 6);
    CHECK_OK(weft_close(fd));
    channel_close(channel);
    return 0;
}

TEST_DRIVERS(messages_carry_descriptors)
{
    run(pass_a_descriptor);
}

// Connecting.

struct accepting {
    int listener;
    int fd;
    int flags;
    struct sockaddr_in peer;
};

static int accept_one(void *arg)
{
    struct accepting *accepting = arg;
    uint32_t size = sizeof accepting->peer;
    accepting->fd = weft_accept_fd(accepting->listener, (struct sockaddr *)&accepting->peer, &size,
                                   accepting->flags, WEFT_FOREVER);
    CHECK(accepting->fd < 0 || size == sizeof accepting->peer);
    return 0;
}

static int connect_and_accept(void *arg)
{
    (void)arg;
    uint16_t port;
    int listener = listen_tcp(&port, 8);
    struct sockaddr_in addr = loopback(port);
    static const int flags[] = { 0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_NONBLOCK | SOCK_CLOEXEC };
    for (int i = 0; i < 8; i++) {
        struct accepting accepting = { .listener = listener, .flags = flags[i / 2] };
        weft_task *task;
        if (i == 4) {
            set_nonblocking(listener);
        }
        CHECK_OK(weft_spawn(&task, accept_one, &accepting, NULL));
        if (i % 2 == 0) {
            let_others_park();
        }
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (i >= 4 ? SOCK_NONBLOCK : 0), 0);
        CHECK_EQ(weft_connect(fd, (struct sockaddr *)&addr, sizeof addr, WEFT_FOREVER), 0);
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_OK(accepting.fd);
        struct sockaddr_in own = { 0 };
        socklen_t size = sizeof own;
        CHECK_OK(getsockname(fd, (struct sockaddr *)&own, &size));
        CHECK_EQ(own.sin_port, accepting.peer.sin_port);
        CHECK_EQ((fcntl(accepting.fd, F_GETFD) & FD_CLOEXEC) != 0,
                 (flags[i / 2] & SOCK_CLOEXEC) != 0);
        CHECK_EQ((fcntl(accepting.fd, F_GETFL) & O_NONBLOCK) != 0,
                 (flags[i / 2] & SOCK_NONBLOCK) != 0);
        move_bytes((struct channel){ fd, accepting.fd }, use_read, use_write);
        CHECK_OK(weft_close(fd));
        CHECK_OK(weft_close(accepting.fd));
    }
    CHECK_EQ(weft_accept_fd(listener, NULL, NULL, 0, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_accept_fd(listener, NULL, NULL, 1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_accept_fd(listener, (struct sockaddr *)&addr, NULL, 0, WEFT_FOREVER), -EFAULT);
    CHECK_OK(weft_close(listener));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(weft_connect(fd, (struct sockaddr *)&addr, sizeof addr, WEFT_FOREVER), -ECONNREFUSED);
    CHECK_EQ(weft_connect(fd, NULL, 0, WEFT_FOREVER), -EFAULT);
    CHECK_EQ(weft_accept_fd(fd, NULL, NULL, 0, WEFT_FOREVER), -EINVAL);
    CHECK_OK(weft_close(fd));
    return 0;
}

TEST_DRIVERS(sockets_connect_and_accept)
{
    run(connect_and_accept);
}

/// With a full backlog the kernel drops the handshake, and the peer never answers.
static int connect_to_a_full_listener(void *arg)
{
    (void)arg;
    uint16_t port;
    int listener = listen_tcp(&port, 0);
    struct sockaddr_in addr = loopback(port);
    int fds[8];
    int late = 0;
    for (int i = 0; i < 8; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int rc = weft_connect(fds[i], (struct sockaddr *)&addr, sizeof addr,
                              weft_after(10 * WEFT_MS));
        CHECK(rc == 0 || rc == -ETIMEDOUT);
        late += rc == -ETIMEDOUT;
    }
    CHECK_GT(late, 0);
    for (int i = 0; i < 8; i++) {
        CHECK_OK(weft_close(fds[i]));
    }
    CHECK_OK(weft_close(listener));
    return 0;
}

TEST_DRIVERS(a_connect_that_nobody_answers_is_late)
{
    run(connect_to_a_full_listener);
}

/// A Unix socket's backlog is full: connecting waits until somebody accepts.
struct crowd {
    struct sockaddr_un addr;
    int listener;
    int flags;
    int connected;
};

static int join_the_crowd(void *arg)
{
    struct crowd *crowd = arg;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | crowd->flags, 0);
    int rc = weft_connect(fd, (struct sockaddr *)&crowd->addr, sizeof crowd->addr, WEFT_FOREVER);
    crowd->connected += rc == 0;
    CHECK_OK(weft_close(fd));
    return rc;
}

static int wait_in_a_backlog(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct crowd crowd = { .addr.sun_family = AF_UNIX, .flags = i == 1 ? SOCK_NONBLOCK : 0 };
        struct weft_scope scope;
        snprintf(crowd.addr.sun_path + 1, sizeof crowd.addr.sun_path - 1, "weft-fd-test-%d-%d",
                 (int)getpid(), i);
        crowd.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_OK(bind(crowd.listener, (struct sockaddr *)&crowd.addr, sizeof crowd.addr));
        CHECK_OK(listen(crowd.listener, 0));
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        for (int k = 0; k < 4; k++) {
            CHECK_OK(weft_scope_spawn(&scope, join_the_crowd, &crowd));
        }
        let_others_park();
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | crowd.flags, 0);
        CHECK_EQ(weft_connect(fd, (struct sockaddr *)&crowd.addr, sizeof crowd.addr,
                              weft_after(3 * WEFT_MS)),
                 -ETIMEDOUT);
        CHECK_OK(weft_close(fd));
        for (int k = 0; k < 4; k++) {
            fd = weft_accept_fd(crowd.listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
            CHECK_OK(fd);
            CHECK_OK(weft_close(fd));
        }
        CHECK_EQ(weft_scope_join(&scope), 0);
        CHECK_EQ(crowd.connected, 4);
        CHECK_OK(weft_close(crowd.listener));
    }
    return 0;
}

/// The cancel goes to the kernel together with the connect, or right behind it.
static int give_up_at_once(void *arg)
{
    struct crowd crowd = { .addr.sun_family = AF_UNIX };
    (void)arg;
    snprintf(crowd.addr.sun_path + 1, sizeof crowd.addr.sun_path - 1, "weft-fd-late-%d",
             (int)getpid());
    crowd.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_OK(bind(crowd.listener, (struct sockaddr *)&crowd.addr, sizeof crowd.addr));
    CHECK_OK(listen(crowd.listener, 0));
    int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_OK(connect(first, (struct sockaddr *)&crowd.addr, sizeof crowd.addr));
    for (unsigned i = 0; i < 100; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_EQ(weft_connect(fd, (struct sockaddr *)&crowd.addr, sizeof crowd.addr,
                              weft_after(i % 4 * 20 * WEFT_US)),
                 -ETIMEDOUT);
        CHECK_OK(weft_close(fd));
    }
    CHECK_OK(weft_close(first));
    return weft_close(crowd.listener);
}

TEST_DRIVERS(connecting_is_given_up_at_once)
{
    run(give_up_at_once);
}

TEST_DRIVERS(connecting_waits_for_room_in_a_backlog)
{
    run(wait_in_a_backlog);
}

// Deadlines.

static int be_late(void *arg)
{
    (void)arg;
    static const weft_time deadlines[] = { 0, 1 };
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        enum channel_kind kind = (enum channel_kind)(i / 2);
        struct channel channel = channel_open(kind, i % 2 == 1);
        char data[64];
        for (int k = 0; k < 4; k++) {
            weft_time deadline = k < 2 ? deadlines[k] : weft_after(k * WEFT_MS);
            CHECK_EQ(weft_read(channel.from, data, sizeof data, deadline), -ETIMEDOUT);
            CHECK_GE(weft_now(), deadline);
            CHECK_EQ(weft_poll(channel.from, POLLIN, deadline), -ETIMEDOUT);
            size_t moved = 1;
            CHECK_EQ(weft_read_full(&moved, channel.from, data, 10, deadline), -ETIMEDOUT);
            CHECK_EQ(moved, 0);
            if (kind != CHANNEL_PIPE) {
                CHECK_EQ(weft_recv(channel.from, data, sizeof data, 0, deadline), -ETIMEDOUT);
            }
        }
        // What is there already is taken, however late it is.
        CHECK_EQ(weft_write(channel.to, "here", 4, 0), 4);
        if (kind == CHANNEL_TCP) {
            CHECK_EQ(weft_poll(channel.from, POLLIN, WEFT_FOREVER) & POLLIN, POLLIN);
        }
        CHECK_EQ(weft_read(channel.from, data, sizeof data, 0), 4);
        channel_close(channel);
    }
    return 0;
}

TEST_DRIVERS(a_deadline_ends_a_wait_and_takes_what_is_there)
{
    run(be_late);
}

/// A reader that is slower than the writer's deadline.
static int write_late(void *arg)
{
    (void)arg;
    enum { SIZE = 16 << 20 };
    char *data = malloc(SIZE);
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        enum channel_kind kind = (enum channel_kind)(i / 2);
        struct channel channel = channel_open(kind, i % 2 == 1);
        size_t moved = 0;
        size_t seen = 0;
        pattern_fill(data, SIZE, 0);
        CHECK_EQ(weft_write_full(&moved, channel.to, data, SIZE, weft_after(2 * WEFT_MS)),
                 -ETIMEDOUT);
        CHECK_GT(moved, 0);
        CHECK_LT(moved, SIZE);
        CHECK_OK(weft_close(channel.to));
        ssize_t n;
        while ((n = weft_read(channel.from, data, SIZE, WEFT_FOREVER)) > 0) {
            CHECK_EQ(pattern_differs(data, (size_t)n, seen), (size_t)n);
            seen += (size_t)n;
        }
        CHECK_EQ(n, 0);
        CHECK_EQ(seen, moved); // not one byte more or less
        CHECK_OK(weft_close(channel.from));
    }
    free(data);
    return 0;
}

TEST_DRIVERS(a_late_write_says_how_much_was_written)
{
    run(write_late);
}

// Slow readers, short writes.

struct stream {
    struct channel channel;
    size_t size;
    uint64_t seed;
};

static int read_slowly(void *arg)
{
    struct stream *stream = arg;
    uint64_t random = stream->seed;
    size_t seen = 0;
    char *data = malloc(100000);
    ssize_t n;
    do {
        size_t size = 1 + test_random(&random) % 100000;
        n = weft_read(stream->channel.from, data, size, WEFT_FOREVER);
        CHECK_OK(n);
        CHECK_EQ(pattern_differs(data, (size_t)n, seen), (size_t)n);
        seen += (size_t)n;
        if (test_random(&random) % 4 == 0) {
            CHECK_OK(weft_yield());
        }
    } while (n > 0);
    CHECK_EQ(seen, stream->size);
    free(data);
    return 0;
}

static void write_in_pieces(struct stream *stream, const char *data)
{
    uint64_t random = stream->seed + 1;
    size_t at = 0;
    while (at < stream->size) {
        size_t size = 1 + test_random(&random) % 200000;
        size = size < stream->size - at ? size : stream->size - at;
        size_t third = size / 3;
        char *base = (char *)(uintptr_t)data + at;
        struct iovec parts[5] = {
            { base, third }, { NULL, 0 }, { base + third, 0 }, { base + third, third }, { NULL, 0 },
        };
        parts[4] = (struct iovec){ base + 2 * third, size - 2 * third };
        size_t moved = 0;
        if (test_random(&random) % 2 == 0) {
            CHECK_EQ(weft_writev_full(&moved, stream->channel.to, parts, 5, WEFT_FOREVER),
                     (ssize_t)size);
        } else {
            CHECK_EQ(weft_write_full(&moved, stream->channel.to, base, size, WEFT_FOREVER),
                     (ssize_t)size);
        }
        CHECK_EQ(moved, size);
        at += size;
    }
}

static int stream_everything(void *arg)
{
    (void)arg;
    size_t size = (size_t)test_scaled(4 << 20);
    char *data = malloc(size);
    pattern_fill(data, size, 0);
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        struct stream stream = { channel_open((enum channel_kind)(i / 2), i % 2 == 1), size,
                                 test_seed() + (uint64_t)i };
        struct weft_attr attr = WEFT_ATTR_INIT;
        weft_task *task;
        channel_shrink(stream.channel, (enum channel_kind)(i / 2));
        attr.place = i < CHANNEL_KINDS ? WEFT_PLACE_CURRENT : WEFT_PLACE_SPREAD;
        CHECK_OK(weft_spawn(&task, read_slowly, &stream, &attr));
        write_in_pieces(&stream, data);
        CHECK_OK(weft_close(stream.channel.to));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_OK(weft_close(stream.channel.from));
    }
    free(data);
    return 0;
}

TEST_DRIVERS(full_writes_survive_short_ones_and_slow_readers)
{
    run(stream_everything);
}

// Flags of sockets.

static int obey_flags(void *arg)
{
    (void)arg;
    for (int i = 0; i < 4; i++) {
        struct channel channel = channel_open(i < 2 ? CHANNEL_UNIX : CHANNEL_TCP, i % 2 == 1);
        char data[16];
        struct iovec part = { data, sizeof data };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
        CHECK_EQ(weft_recv(channel.from, data, sizeof data, MSG_DONTWAIT, WEFT_FOREVER), -EAGAIN);
        CHECK_EQ(weft_recv(channel.from, data, sizeof data, MSG_DONTWAIT, WEFT_FOREVER), -EAGAIN);
        CHECK_EQ(weft_recvmsg(channel.from, &message, MSG_DONTWAIT, WEFT_FOREVER), -EAGAIN);
        CHECK_EQ(weft_send(channel.to, "abc", 3, 0, WEFT_FOREVER), 3);
        CHECK_EQ(weft_recv(channel.from, data, sizeof data, MSG_PEEK, WEFT_FOREVER), 3);
        CHECK_EQ(weft_recv(channel.from, data, 2, MSG_DONTWAIT, WEFT_FOREVER), 2);
        // All of it, though it comes in three pieces.
        weft_task *task;
        struct reading reading = { .fd = channel.from };
        reading.read = use_recv;
        CHECK_EQ(weft_send(channel.to, "def", 3, 0, WEFT_FOREVER), 3);
        CHECK_EQ(weft_recv(channel.from, data, 4, MSG_WAITALL, WEFT_FOREVER), 4);
        CHECK_EQ(memcmp(data, "cdef", 4), 0);
        CHECK_EQ(weft_send(channel.to, "gh", 2, 0, WEFT_FOREVER), 2);
        CHECK_EQ(weft_recv(channel.from, data, 4, MSG_WAITALL, weft_after(WEFT_MS)), 2); // late
        CHECK_EQ(weft_recv(channel.from, data, 4, MSG_WAITALL, weft_after(WEFT_MS)), -ETIMEDOUT);
        CHECK_OK(weft_spawn(&task, read_something, &reading, NULL));
        let_others_park();
        CHECK_EQ(weft_recv(channel.from, data, 4, MSG_DONTWAIT, WEFT_FOREVER), -EAGAIN);
        CHECK_EQ(weft_send(channel.to, "i", 1, MSG_MORE, WEFT_FOREVER), 1);
        CHECK_OK(shutdown(channel.to, SHUT_WR));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_EQ(reading.result, 1);
        CHECK_EQ(weft_recv(channel.from, data, 4, MSG_WAITALL, WEFT_FOREVER), 0);
        channel_close(channel);
    }
    return 0;
}

TEST_DRIVERS(flags_of_sockets_are_obeyed)
{
    run(obey_flags);
}

// Signals.

static atomic_int signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static int echo_under_fire(void *arg)
{
    struct itimerval often = { { 0, 200 }, { 0, 200 } };
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    CHECK_OK(setitimer(ITIMER_REAL, &often, NULL));
    for (int i = 0; i < 10 || atomic_load(&signals) < 300; i++) {
        CHECK_EQ(stream_everything(arg), 0);
        CHECK_EQ(connect_and_accept(arg), 0);
        CHECK_EQ(use_a_file(arg), 0);
        CHECK_EQ(be_late(arg), 0);
    }
    CHECK_OK(setitimer(ITIMER_REAL, &never, NULL));
    return 0;
}

TEST_DRIVERS(signals_interrupt_nothing)
{
    struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_ONSTACK };
    CHECK_OK(sigaction(SIGALRM, &action, NULL)); // without SA_RESTART
    setenv("TEST_SCALE", "5", 1);
    run(echo_under_fire);
    CHECK_GE(atomic_load(&signals), 300);
}
