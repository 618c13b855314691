// fdedge_test.c - plain descriptors at the edges: what is refused, peers that misbehave, shortages.
#include "support/fdcalls.h"
#include "support/fdrun.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

// What is refused.

static void refuse_everything(int fd, int error)
{
    char data[4];
    struct iovec part = { data, sizeof data };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct sockaddr_in addr = loopback(1);
    uint32_t size = sizeof addr;
    int64_t offset = 0;
    CHECK_EQ(weft_read(fd, data, 4, WEFT_FOREVER), error);
    CHECK_EQ(weft_write(fd, data, 4, WEFT_FOREVER), error);
    CHECK_EQ(weft_readv(fd, &part, 1, WEFT_FOREVER), error);
    CHECK_EQ(weft_writev(fd, &part, 1, WEFT_FOREVER), error);
    CHECK_EQ(weft_pread(fd, data, 4, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_pwrite(fd, data, 4, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_preadv(fd, &part, 1, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_pwritev(fd, &part, 1, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_read_full(NULL, fd, data, 4, WEFT_FOREVER), error);
    CHECK_EQ(weft_write_full(NULL, fd, data, 4, WEFT_FOREVER), error);
    CHECK_EQ(weft_writev_full(NULL, fd, &part, 1, WEFT_FOREVER), error);
    CHECK_EQ(weft_recv(fd, data, 4, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_recv(fd, data, 4, MSG_WAITALL, WEFT_FOREVER), error);
    CHECK_EQ(weft_send(fd, data, 4, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_recvfrom(fd, data, 4, 0, (struct sockaddr *)&addr, &size, WEFT_FOREVER), error);
    CHECK_EQ(weft_sendto(fd, data, 4, 0, (struct sockaddr *)&addr, size, WEFT_FOREVER), error);
    CHECK_EQ(weft_recvmsg(fd, &message, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_sendmsg(fd, &message, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_accept_fd(fd, NULL, NULL, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_connect(fd, (struct sockaddr *)&addr, size, WEFT_FOREVER), error);
    CHECK_EQ(weft_poll(fd, POLLIN, WEFT_FOREVER), error);
    CHECK_EQ(weft_fsync(fd, WEFT_FOREVER), error);
    CHECK_EQ(weft_fdatasync(fd, WEFT_FOREVER), error);
    CHECK_EQ(weft_splice(fd, NULL, 1000001, NULL, 1, 0, WEFT_FOREVER), error);
    CHECK_EQ(weft_sendfile(1000001, fd, &offset, 1, WEFT_FOREVER), error);
    CHECK_EQ(weft_copy(NULL, 1000001, fd, 1, WEFT_FOREVER), error);
    CHECK_EQ(weft_close(fd), error);
}

static int refuse_descriptors(void *arg)
{
    (void)arg;
    refuse_everything(-1, -EBADF);
    refuse_everything(INT_MIN, -EBADF);
    refuse_everything(999999, -EBADF);
    refuse_everything(INT_MAX, -EBADF);
    int fd = temp_file();
    char data[4];
    CHECK_EQ(weft_recv(fd, data, 4, 0, WEFT_FOREVER), -ENOTSOCK);
    CHECK_EQ(weft_send(fd, data, 4, 0, WEFT_FOREVER), -ENOTSOCK);
    CHECK_EQ(weft_accept_fd(fd, NULL, NULL, 0, WEFT_FOREVER), -ENOTSOCK);
    CHECK_OK(weft_close(fd));
    int read_only = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(weft_write(read_only, data, 4, WEFT_FOREVER), -EBADF);
    CHECK_OK(weft_close(read_only));
    return 0;
}

TEST_DRIVERS(what_is_not_a_descriptor_is_refused)
{
    run(refuse_descriptors);
}

static int refuse_arguments(void *arg)
{
    (void)arg;
    char data[8] = "abcdefg";
    struct iovec part = { data, sizeof data };
    struct iovec huge[2] = { { data, SIZE_MAX }, { data, 1 } };
    static struct iovec many[IOV_MAX + 1];
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        enum channel_kind kind = (enum channel_kind)(i / 2);
        struct channel channel = channel_open(kind, i % 2 == 1);
        CHECK_EQ(weft_readv(channel.from, &part, -1, WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_writev(channel.to, &part, -1, WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_writev(channel.to, many, IOV_MAX + 1, WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_writev_full(NULL, channel.to, many, IOV_MAX + 1, WEFT_FOREVER), 0);
        CHECK_EQ(weft_writev_full(NULL, channel.to, huge, 2, WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_writev(channel.to, NULL, 1, WEFT_FOREVER), -EFAULT);
        CHECK_EQ(weft_writev_full(NULL, channel.to, NULL, 1, WEFT_FOREVER), -EFAULT);
        CHECK_EQ(weft_write(channel.to, NULL, 1, WEFT_FOREVER), -EFAULT);
        CHECK_EQ(weft_read_full(NULL, channel.from, data, SIZE_MAX, WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_write_full(NULL, channel.to, data, SIZE_MAX, WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_pread(channel.from, data, 4, 0, WEFT_FOREVER), -ESPIPE);
        CHECK_EQ(weft_pwrite(channel.to, data, 4, 0, WEFT_FOREVER), -ESPIPE);
        CHECK_EQ(weft_preadv(channel.from, &part, 1, 0, WEFT_FOREVER), -ESPIPE);
        CHECK_EQ(weft_pwritev(channel.to, &part, 1, 0, WEFT_FOREVER), -ESPIPE);
        CHECK_EQ(weft_pread(channel.from, data, 4, -1, WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_poll(channel.from, -1, WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_poll(channel.from, 1 << 16, WEFT_FOREVER), -EINVAL);
        if (kind != CHANNEL_PIPE) {
            CHECK_EQ(weft_recvmsg(channel.from, NULL, 0, WEFT_FOREVER), -EFAULT);
            CHECK_EQ(weft_sendmsg(channel.to, NULL, 0, WEFT_FOREVER), -EFAULT);
        }
        // Nothing of all that was sent. And a size that is too large is cut, not refused.
        CHECK_EQ(weft_write(channel.to, data, 4, WEFT_FOREVER), 4);
        CHECK_EQ(weft_read(channel.from, data, SIZE_MAX, WEFT_FOREVER), 4);
        channel_close(channel);
    }
    return 0;
}

TEST_DRIVERS(bad_arguments_are_refused)
{
    run(refuse_arguments);
}

static int move_nothing(void *arg)
{
    (void)arg;
    char data[4];
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        struct channel channel = channel_open((enum channel_kind)(i / 2), i % 2 == 1);
        CHECK_EQ(weft_read(channel.from, NULL, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_readv(channel.from, NULL, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_write(channel.to, NULL, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_writev(channel.to, NULL, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_read_full(NULL, channel.from, NULL, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_write_full(NULL, channel.to, NULL, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_writev_full(NULL, channel.to, NULL, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_read(channel.from, data, 1, 1), -ETIMEDOUT); // also when it is known empty
        CHECK_EQ(weft_read(channel.from, data, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_readv(channel.from, NULL, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_write(channel.to, "x", 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(channel.from, data, 0, WEFT_FOREVER), 0);
        CHECK_EQ(weft_read(channel.from, data, 4, WEFT_FOREVER), 1);
        channel_close(channel);
    }
    int fd = temp_file();
    CHECK_EQ(weft_read(fd, NULL, 0, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pwrite(fd, NULL, 0, 5, WEFT_FOREVER), 0);
    CHECK_EQ(lseek(fd, 0, SEEK_END), 0);
    CHECK_OK(weft_close(fd));
    return 0;
}

TEST_DRIVERS(moving_nothing_waits_for_nothing)
{
    run(move_nothing);
}

TEST(outside_a_task_nothing_blocks)
{
    refuse_everything(0, -EPERM);
}

/// In the simulator descriptors of the system are none.
static int try_in_the_simulator(void *arg)
{
    (void)arg;
    char data[4];
    struct iovec part = { data, sizeof data };
    int fds[2];
    CHECK_OK(pipe2(fds, O_CLOEXEC));
    CHECK_EQ(weft_read(fds[0], data, 4, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_write(fds[1], data, 4, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_pread(fds[0], data, 4, 0, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_writev_full(NULL, fds[1], &part, 1, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_recv(fds[0], data, 4, 0, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_poll(fds[0], POLLIN, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_fsync(fds[0], WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_splice(fds[0], NULL, fds[1], NULL, 1, 0, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_copy(NULL, fds[1], fds[0], 1, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_close(fds[0]), -ENOTSUP);
    CHECK_OK(close(fds[0]));
    CHECK_OK(close(fds[1]));
    return 0;
}

TEST(the_simulator_knows_its_own_descriptors_only)
{
    struct weft_sim_options options = { .seed = test_seed(), .carriers = 2 };
    CHECK_OK(weft_sim_run(NULL, try_in_the_simulator, NULL, &options));
}

struct where {
    struct weft_future future;
    atomic_bool ran;
};

static enum weft_poll try_in_a_future(struct weft_future *future, weft_waker *waker)
{
    (void)waker;
    refuse_everything(0, -EPERM);
    future->result = 5;
    return WEFT_READY;
}

static void try_in_a_timer(void *arg)
{
    struct where *where = arg;
    refuse_everything(0, -EPERM);
    atomic_store(&where->ran, true);
}

static int try_elsewhere(void *arg)
{
    struct where where = { 0 };
    struct weft_timer timer;
    weft_task *task;
    int result;
    (void)arg;
    weft_future_init(&where.future, try_in_a_future, NULL);
    CHECK_OK(weft_spawn_future(&task, &where.future, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 5);
    CHECK_OK(weft_timer_init(&timer, try_in_a_timer, &where));
    weft_timer_set(&timer, 1);
    while (!atomic_load(&where.ran)) {
        CHECK_OK(weft_yield());
    }
    return 0;
}

TEST_DRIVERS(futures_and_timer_functions_cannot_call_them)
{
    run(try_elsewhere);
}

// Peers that misbehave.

static int write_to_nobody(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        enum channel_kind kind = (enum channel_kind)(i / 2);
        size_t count = kind == CHANNEL_PIPE ? FOR_SOCKETS : sizeof writers / sizeof writers[0];
        for (size_t w = 0; w < count; w++) {
            struct channel channel = channel_open(kind, i % 2 == 1);
            ssize_t rc = 0;
            CHECK_OK(weft_close(channel.from));
            // The first bytes to a TCP peer that is gone are accepted; its answer is a reset.
            for (int k = 0; k < 1000 && rc >= 0; k++) {
                rc = writers[w](channel.to, "x", 1);
                int events = weft_poll(channel.to, POLLHUP, weft_after(100 * WEFT_US));
                CHECK(events >= 0 || events == -ETIMEDOUT);
            }
            CHECK(rc == -EPIPE || (kind == CHANNEL_TCP && rc == -ECONNRESET));
            CHECK_EQ(writers[w](channel.to, "x", 1), -EPIPE);
            CHECK_OK(weft_close(channel.to));
        }
    }
    struct sigaction action;
    CHECK_OK(sigaction(SIGPIPE, NULL, &action));
    CHECK(action.sa_handler == SIG_DFL); // what the program decided is left alone
    return 0;
}

TEST_DRIVERS(writing_to_nobody_is_an_error_and_not_a_signal)
{
    signal(SIGPIPE, SIG_DFL);
    run(write_to_nobody);
}

static int write_until_it_fails(void *arg)
{
    const struct channel *channel = arg;
    static char data[1 << 20];
    size_t moved;
    ssize_t n;
    while ((n = weft_write_full(&moved, channel->to, data, sizeof data, WEFT_FOREVER)) > 0) {
    }
    CHECK_LT(moved, sizeof data);
    return (int)n;
}

static int reset_a_writer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct channel channel = channel_open(CHANNEL_TCP, i == 1);
        struct linger linger = { .l_onoff = 1, .l_linger = 0 };
        weft_task *task;
        int result;
        CHECK_OK(weft_spawn(&task, write_until_it_fails, &channel, NULL));
        let_others_park(); // in the middle of a write, because nobody reads
        CHECK_OK(setsockopt(channel.from, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
        CHECK_OK(weft_close(channel.from));
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK(result == -ECONNRESET || result == -EPIPE);
        char byte;
        CHECK_LE(weft_read(channel.to, &byte, 1, WEFT_FOREVER), 0);
        CHECK_OK(weft_close(channel.to));
    }
    return 0;
}

TEST_DRIVERS(a_reset_in_the_middle_of_a_write_is_an_error)
{
    run(reset_a_writer);
}

static int stay_half_open(void *arg)
{
    (void)arg;
    for (int i = 0; i < 4; i++) {
        struct channel channel = channel_open(i < 2 ? CHANNEL_UNIX : CHANNEL_TCP, i % 2 == 1);
        char data[8];
        CHECK_OK(shutdown(channel.to, SHUT_WR));
        CHECK_EQ(weft_read(channel.from, data, sizeof data, WEFT_FOREVER), 0);
        CHECK((weft_poll(channel.from, POLLIN | POLLRDHUP, WEFT_FOREVER) & POLLRDHUP) != 0);
        CHECK_EQ(weft_write(channel.from, "back", 4, WEFT_FOREVER), 4);
        CHECK_EQ(weft_read(channel.to, data, sizeof data, WEFT_FOREVER), 4);
        CHECK_EQ(weft_write(channel.to, "x", 1, WEFT_FOREVER), -EPIPE);
        channel_close(channel);
    }
    return 0;
}

TEST_DRIVERS(a_half_open_peer_can_still_be_answered)
{
    run(stay_half_open);
}

// Shortages.

static int run_out_of_descriptors(void *arg)
{
    (void)arg;
    uint16_t port;
    int listener = listen_tcp(&port, 8);
    struct sockaddr_in addr = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(weft_connect(fd, (struct sockaddr *)&addr, sizeof addr, WEFT_FOREVER), 0);
    struct rlimit limit;
    struct rlimit none;
    CHECK_OK(getrlimit(RLIMIT_NOFILE, &limit));
    none = limit;
    none.rlim_cur = (rlim_t)fd + 1;
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &none));
    CHECK_EQ(weft_accept_fd(listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER), -EMFILE);
    CHECK_EQ(weft_accept_fd(listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER), -EMFILE);
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit));
    int accepted = weft_accept_fd(listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
    CHECK_OK(accepted); // the connection was not lost
    move_bytes((struct channel){ fd, accepted }, use_read, use_write);
    CHECK_OK(weft_close(fd));
    CHECK_OK(weft_close(accepted));
    CHECK_OK(weft_close(listener));
    return 0;
}

TEST_DRIVERS(accepting_without_descriptors_is_an_error_that_passes)
{
    run(run_out_of_descriptors);
}

// Many at once.

enum { SHARERS = 50 };

struct shared {
    struct channel channel;
    atomic_int got;
};

static int share_reading(void *arg)
{
    struct shared *shared = arg;
    char byte;
    ssize_t n = weft_read(shared->channel.from, &byte, 1, WEFT_FOREVER);
    if (n == 1) {
        atomic_fetch_add(&shared->got, 1);
    }
    return (int)n;
}

static int share_a_descriptor(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        struct shared shared = { .channel = channel_open((enum channel_kind)(i / 2), i % 2 == 1) };
        struct weft_attr attr = WEFT_ATTR_INIT;
        struct weft_scope scope;
        attr.place = WEFT_PLACE_SPREAD;
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        weft_scope_set_attr(&scope, &attr);
        for (int k = 0; k < SHARERS; k++) {
            CHECK_OK(weft_scope_spawn(&scope, share_reading, &shared));
        }
        for (int k = 0; k < SHARERS; k++) {
            CHECK_EQ(weft_write(shared.channel.to, "x", 1, WEFT_FOREVER), 1);
            if (k % 5 == 0) {
                CHECK_OK(weft_yield());
            }
        }
        CHECK_EQ(weft_scope_join(&scope), 0);
        CHECK_EQ(atomic_load(&shared.got), SHARERS);
        channel_close(shared.channel);
    }
    return 0;
}

TEST_DRIVERS(many_tasks_on_several_carriers_read_one_descriptor)
{
    run(share_a_descriptor);
}

static int accept_nothing(void *arg)
{
    const int *listener = arg;
    for (uint64_t i = 0; i < test_scaled(20000); i++) {
        CHECK_EQ(weft_accept_fd(*listener, NULL, NULL, 0, 1), -ETIMEDOUT);
    }
    return 0;
}

/// One that blocks: a carrier that switches it back for the user must not leave another in accept(2).
static int share_a_listener(void *arg)
{
    (void)arg;
    uint16_t port;
    int listener = listen_tcp(&port, 8);
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct weft_scope scope;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int k = 0; k < 4; k++) {
        CHECK_OK(weft_scope_spawn(&scope, accept_nothing, &listener));
    }
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_EQ(fcntl(listener, F_GETFL) & O_NONBLOCK, 0);
    return weft_close(listener);
}

TEST_DRIVERS(carriers_that_share_a_listener_do_not_stall)
{
    run(share_a_listener);
}

// Statistics.

static int look_at_stats(void *arg)
{
    (void)arg;
    weft_runtime *runtime = weft_runtime_current();
    struct weft_io_stats all = { .size = sizeof all };
    struct weft_io_stats one = { .size = sizeof one };
    struct weft_io_stats sum = { .size = sizeof sum };
    struct channel channel = channel_open(CHANNEL_UNIX, false);
    char byte;
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_write(channel.to, "x", 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(channel.from, &byte, 1, WEFT_FOREVER), 1);
    }
    CHECK_EQ(weft_read(channel.from, &byte, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    channel_close(channel);
    CHECK_EQ(weft_io_stats(runtime, -1, &all), 0);
    CHECK_GE(all.submitted, 21);
    CHECK_EQ(all.completed, all.submitted);
    CHECK_EQ(all.cancels, 1);
    CHECK_GT(all.enters, 0);
    for (int i = 0; i < weft_runtime_carriers(runtime); i++) {
        CHECK_EQ(weft_io_stats(runtime, i, &one), 0);
        sum.submitted += one.submitted;
        sum.completed += one.completed;
    }
    CHECK_EQ(sum.submitted, all.submitted);
    CHECK_EQ(sum.completed, all.completed);
    CHECK_EQ(weft_io_stats(runtime, weft_runtime_carriers(runtime), &one), -EINVAL);
    CHECK_EQ(weft_io_stats(runtime, -2, &one), -EINVAL);
    one.size = 0;
    CHECK_EQ(weft_io_stats(runtime, 0, &one), -EINVAL);
    return 0;
}

TEST_DRIVERS(operations_are_counted)
{
    run(look_at_stats);
}
