// io_future_test.c - operations on descriptors as futures, on every driver (future/io_future.c).
//
// In the simulator only sockets that weft made exist, so they are asked of the driver.
#include "support/hand.h"

#include "support/fdrun.h"
#include "support/fds.h"
#include "support/placed.h"

#include <poll.h>
#include <string.h>

#include "sched/crew.h"

static void make_pair(int fds[2])
{
    struct weft__carrier *carrier = weft__carrier_self();
    CHECK_OK(carrier->driver->sockets->pair(carrier->driver_state, AF_UNIX, SOCK_STREAM, 0, fds));
}

static void close_pair(const int fds[2])
{
    CHECK_OK(weft_close(fds[0]));
    CHECK_OK(weft_close(fds[1]));
}

static int64_t await_io(struct weft_io_future *io)
{
    int64_t result = weft_await(&io->future, WEFT_FOREVER);
    weft_future_fini(&io->future);
    return result;
}

TEST_EVERYWHERE(bytes_are_read_and_written)
{
    int fds[2];
    char data[8] = "";
    struct weft_io_future io;
    make_pair(fds);
    weft_write_future(&io, fds[0], "abc", 3);
    CHECK_EQ(await_io(&io), 3);
    weft_read_future(&io, fds[1], data, sizeof data);
    CHECK_EQ(await_io(&io), 3);
    CHECK_EQ(memcmp(data, "abc", 3), 0);
    weft_send_future(&io, fds[1], "defg", 4, 0);
    CHECK_EQ(await_io(&io), 4);
    weft_recv_future(&io, fds[0], data, sizeof data, MSG_PEEK);
    CHECK_EQ(await_io(&io), 4);
    weft_recv_future(&io, fds[0], data, sizeof data, MSG_WAITALL); // left out
    CHECK_EQ(await_io(&io), 4);
    CHECK_EQ(memcmp(data, "defg", 4), 0);
    CHECK_OK(weft_close(fds[0]));
    weft_read_future(&io, fds[1], data, sizeof data);
    CHECK_EQ(await_io(&io), 0);
    CHECK_OK(weft_close(fds[1]));
    weft_read_future(&io, -1, data, sizeof data);
    CHECK_EQ(await_io(&io), -EBADF);
}

static int write_later(void *arg)
{
    CHECK_OK(weft_sleep(WEFT_MS));
    return weft_write(*(int *)arg, "x", 1, WEFT_FOREVER) == 1 ? 0 : -EIO;
}

TEST_EVERYWHERE(a_read_waits_for_its_byte)
{
    int fds[2];
    char byte = 0;
    struct weft_io_future io;
    weft_task *task;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    make_pair(fds);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_spawn(&task, write_later, &fds[0], &attr));
        weft_read_future(&io, fds[1], &byte, 1);
        CHECK_EQ(await_io(&io), 1);
        CHECK_EQ(byte, 'x');
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    }
    close_pair(fds);
}

TEST_EVERYWHERE(a_read_that_is_cancelled_has_taken_nothing)
{
    int fds[2];
    char byte = 0;
    struct weft_io_future io;
    make_pair(fds);
    weft_read_future(&io, fds[1], &byte, 1);
    CHECK_EQ(weft_await(&io.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_read_future(&io, fds[1], &byte, 1);
    weft_future_cancel(&io.future); // before it began
    CHECK_EQ(await_io(&io), -ECANCELED);
    CHECK_EQ(weft_write(fds[0], "y", 1, WEFT_FOREVER), 1);
    weft_read_future(&io, fds[1], &byte, 1);
    weft_future_cancel(&io.future); // it starts nothing, although there is a byte
    CHECK_EQ(await_io(&io), -ECANCELED);
    weft_read_future(&io, fds[1], &byte, 1);
    CHECK_EQ(await_io(&io), 1);
    CHECK_EQ(byte, 'y');
    close_pair(fds);
}

static int close_it(void *arg)
{
    return weft_close(*(int *)arg);
}

TEST_EVERYWHERE(closing_ends_a_read_in_flight)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < 6; i++) {
        int fds[2];
        char byte;
        struct weft_io_future io;
        weft_task *task;
        int result;
        make_pair(fds);
        weft_read_future(&io, fds[1], &byte, 1);
        struct hand hand = { 0 };
        CHECK_EQ(hand_poll(&hand, &io.future), WEFT_PENDING);
        CHECK_OK(weft_spawn(&task, close_it, &fds[1], &attr));
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK_EQ(result, 0);
        CHECK_EQ(hand_drive(&hand, &io.future), -EBADF);
        CHECK_OK(weft_close(fds[0]));
    }
}

TEST_EVERYWHERE(many_reads_at_a_time)
{
    enum { COUNT = 40 };
    static int fds[COUNT][2];
    static char bytes[COUNT];
    static struct weft_io_future reads[COUNT];
    static struct weft_branch branches[COUNT];
    struct weft_combine all;
    weft_task *task;
    for (int i = 0; i < COUNT; i++) {
        make_pair(fds[i]);
        weft_read_future(&reads[i], fds[i][1], &bytes[i], 1);
        branches[i] = (struct weft_branch){ .future = &reads[i].future };
    }
    weft_combine_join(&all, branches, COUNT);
    CHECK_OK(weft_spawn_future(&task, &all.future, NULL));
    for (int i = COUNT - 1; i >= 0; i--) {
        CHECK_EQ(weft_write(fds[i][0], &i, 1, WEFT_FOREVER), 1);
    }
    int failed;
    CHECK_OK(weft_join(&failed, task, WEFT_FOREVER));
    CHECK_EQ(failed, 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(bytes[i], i);
        CHECK_EQ(reads[i].future.result, 1);
        close_pair(fds[i]);
    }
}

// Everything, in as many operations as it takes.

static int64_t await_full(struct weft_full_future *full, weft_time deadline)
{
    int64_t result = weft_await(&full->future, deadline);
    weft_future_fini(&full->future);
    return result;
}

TEST_EVERYWHERE(everything_is_read_and_written)
{
    enum { SIZE = 3 * 1000 * 1000 }; // more than any socket holds
    static char out[SIZE], in[SIZE];
    struct weft_full_future reading, writing;
    size_t moved[2] = { 77, 77 };
    int fds[2];
    struct weft_branch both[2] = { { .future = &writing.future }, { .future = &reading.future } };
    struct weft_combine all;
    weft_task *task;
    int failed;
    make_pair(fds);
    for (int i = 0; i < SIZE; i++) {
        out[i] = (char)(i * 31 >> 3);
    }
    weft_write_full_future(&writing, &moved[0], fds[0], out, SIZE);
    weft_read_full_future(&reading, &moved[1], fds[1], in, SIZE);
    weft_combine_join(&all, both, 2);
    CHECK_OK(weft_spawn_future(&task, &all.future, NULL)); // as a task of its own
    CHECK_OK(weft_join(&failed, task, WEFT_FOREVER));
    CHECK_EQ(failed, 0);
    CHECK_EQ(writing.future.result, SIZE);
    CHECK_EQ(reading.future.result, SIZE);
    CHECK_EQ(moved[0], SIZE);
    CHECK_EQ(moved[1], SIZE);
    CHECK_EQ(memcmp(in, out, SIZE), 0);
    weft_write_full_future(&writing, NULL, fds[0], "abc", 3);
    CHECK_EQ(await_full(&writing, WEFT_FOREVER), 3);
    CHECK_OK(weft_close(fds[0]));
    weft_read_full_future(&reading, &moved[1], fds[1], in, 10);
    CHECK_EQ(await_full(&reading, WEFT_FOREVER), 3); // the end
    CHECK_EQ(moved[1], 3);
    weft_read_full_future(&reading, NULL, fds[1], in, SIZE_MAX);
    CHECK_EQ(await_full(&reading, WEFT_FOREVER), -EINVAL);
    weft_read_full_future(&reading, NULL, fds[1], in, 0);
    CHECK_EQ(await_full(&reading, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(fds[1]));
}

static int unread(int fd)
{
    struct weft__carrier *carrier = weft__carrier_self();
    return (int)carrier->driver->sockets->unread(carrier->driver_state, fd);
}

/// What came before a cancel, a deadline or a close is told.
TEST_EVERYWHERE(what_was_moved_before_an_error_counts)
{
    struct weft_full_future reading;
    struct hand hand = { 0 };
    size_t moved = 77;
    char data[10];
    int fds[2];
    make_pair(fds);
    for (int how = 0; how < 3; how++) {
        weft_read_full_future(&reading, &moved, fds[1], data, sizeof data);
        CHECK_EQ(moved, 0);
        CHECK_EQ(hand_poll(&hand, &reading.future), WEFT_PENDING);
        CHECK_EQ(weft_write(fds[0], "abcd", 4, WEFT_FOREVER), 4);
        if (test_driver() == TEST_DRIVER_SIM) {
            CHECK_OK(weft_sleep(WEFT_S)); // they travel
        }
        while (unread(fds[1]) > 0) {
            CHECK_OK(weft_yield());
        }
        CHECK_EQ(atomic_load(&hand.woken), 0); // there is more to read
        if (how == 0) {
            weft_future_cancel(&reading.future);
            CHECK_EQ(await_full(&reading, WEFT_FOREVER), -ECANCELED);
        } else if (how == 1) {
            CHECK_EQ(await_full(&reading, weft_after(WEFT_MS)), -ETIMEDOUT);
        } else {
            CHECK_OK(weft_close(fds[1]));
            CHECK_EQ(await_full(&reading, WEFT_FOREVER), -EBADF);
        }
        CHECK_EQ(moved, 4);
        CHECK_EQ(memcmp(data, "abcd", 4), 0);
    }
    CHECK_OK(weft_close(fds[0]));
}

/// Closed between two parts, and the number given to another: that is not touched.
TEST_EVERYWHERE(the_rest_is_not_read_from_another_file)
{
    struct weft_full_future reading;
    struct hand hand = { 0 };
    size_t moved;
    char data[10];
    int fds[2], others[2];
    make_pair(fds);
    weft_read_full_future(&reading, &moved, fds[1], data, sizeof data);
    CHECK_EQ(hand_poll(&hand, &reading.future), WEFT_PENDING);
    CHECK_EQ(weft_write(fds[0], "abcd", 4, WEFT_FOREVER), 4);
    CHECK_OK(weft_close(fds[1])); // nobody has polled it
    CHECK_OK(weft_close(fds[0]));
    make_pair(others);
    if (others[0] != fds[1] && others[1] != fds[1]) {
        SKIP("the number was not given again");
    }
    int peer = others[0] == fds[1] ? others[1] : others[0];
    CHECK_EQ(weft_write(peer, "efgh", 4, WEFT_FOREVER), 4);
    CHECK_EQ(hand_drive(&hand, &reading.future), -EBADF);
    CHECK(moved == 0 || moved == 4);
    CHECK_EQ(weft_read(fds[1], data, sizeof data, WEFT_FOREVER), 4);
    CHECK_EQ(memcmp(data, "efgh", 4), 0);
    close_pair(others);
}

// Begun on one carrier, cancelled on another, while the byte comes from a third.

struct elsewhere {
    struct weft_io_future io;
    struct hand hand;
    char byte;
    int fds[2];
};

static int begin_it(void *arg)
{
    struct elsewhere *elsewhere = arg;
    return (int)hand_poll(&elsewhere->hand, &elsewhere->io.future);
}

static int write_one(void *arg)
{
    return weft_write(*(int *)arg, "z", 1, WEFT_FOREVER) == 1 ? 0 : -EIO;
}

TEST_EVERYWHERE(a_read_is_cancelled_from_another_carrier)
{
    uint64_t random = test_seed();
    for (uint64_t round = 0; round < test_scaled(150); round++) {
        struct elsewhere elsewhere = { .byte = 0 };
        int polled;
        make_pair(elsewhere.fds);
        weft_read_future(&elsewhere.io, elsewhere.fds[1], &elsewhere.byte, 1);
        weft_task *task = spawn_on((weft_carrier_id() + 1) % TEST_CARRIERS, begin_it, &elsewhere);
        CHECK_OK(weft_join(&polled, task, WEFT_FOREVER));
        CHECK_EQ(polled, WEFT_PENDING);
        bool written = test_random(&random) % 3 != 0;
        if (written) {
            task = spawn_on((weft_carrier_id() + 2) % TEST_CARRIERS, write_one, &elsewhere.fds[0]);
            CHECK_OK(weft_sleep(test_random(&random) % (40 * WEFT_US)));
        }
        weft_future_cancel(&elsewhere.io.future);
        int64_t result = weft_await(&elsewhere.io.future, WEFT_FOREVER);
        CHECK(result == -ECANCELED || (written && result == 1 && elsewhere.byte == 'z'));
        if (written) {
            CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        }
        if (written && result < 0) { // the byte is still there
            CHECK_EQ(weft_read(elsewhere.fds[1], &elsewhere.byte, 1, WEFT_FOREVER), 1);
        }
        close_pair(elsewhere.fds);
    }
}

struct series {
    struct weft_full_future full;
    struct hand hand;
    char data[4096];
    int fds[2];
};

static int begin_series(void *arg)
{
    struct series *series = arg;
    return (int)hand_poll(&series->hand, &series->full.future);
}

static int write_by_and_by(void *arg)
{
    const struct series *series = arg;
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_write(series->fds[0], "z", 1, WEFT_FOREVER), 1);
    }
    return 0;
}

/// The same while one operation of several follows the other: what was read is told, and the rest is there.
TEST_EVERYWHERE(a_series_is_cancelled_from_another_carrier)
{
    uint64_t random = test_seed();
    static struct series series;
    for (uint64_t round = 0; round < test_scaled(100); round++) {
        size_t moved;
        series.hand = (struct hand){ 0 };
        make_pair(series.fds);
        weft_read_full_future(&series.full, &moved, series.fds[1], series.data, 9);
        weft_task *task = spawn_on((weft_carrier_id() + 1) % TEST_CARRIERS, begin_series, &series);
        int polled;
        CHECK_OK(weft_join(&polled, task, WEFT_FOREVER));
        CHECK_EQ(polled, WEFT_PENDING);
        task = spawn_on((weft_carrier_id() + 2) % TEST_CARRIERS, write_by_and_by, &series);
        CHECK_OK(weft_sleep(test_random(&random) % (60 * WEFT_US)));
        weft_future_cancel(&series.full.future);
        CHECK_EQ(await_full(&series.full, WEFT_FOREVER), -ECANCELED);
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        while (moved < 8) {
            int64_t more = weft_read(series.fds[1], series.data, 8 - moved, WEFT_FOREVER);
            CHECK_GT(more, 0);
            moved += (size_t)more;
        }
        CHECK_EQ(moved, 8);
        close_pair(series.fds);
    }
}

TEST(outside_a_task_there_is_no_driver)
{
    struct weft_io_future io;
    struct hand hand = { 0 };
    char byte;
    weft_read_future(&io, 0, &byte, 1);
    CHECK_EQ(hand_drive(&hand, &io.future), -EPERM);
}

// What only real kernels have.

static int use_a_file(void *arg)
{
    (void)arg;
    struct weft_io_future io;
    char data[8] = "";
    int file = temp_file();
    static char words[] = "abcd";
    struct iovec parts[2] = { { words, 2 }, { words + 2, 2 } };
    struct iovec rooms[2] = { { data, 1 }, { data + 1, 7 } };
    weft_writev_future(&io, file, parts, 2);
    CHECK_EQ(await_io(&io), 4);
    weft_pwrite_future(&io, file, "X", 1, 1);
    CHECK_EQ(await_io(&io), 1);
    weft_fsync_future(&io, file, true);
    CHECK_EQ(await_io(&io), 0);
    weft_pread_future(&io, file, data, sizeof data, 1);
    CHECK_EQ(await_io(&io), 3);
    CHECK_EQ(memcmp(data, "Xcd", 3), 0);
    weft_pread_future(&io, file, data, sizeof data, -1);
    CHECK_EQ(await_io(&io), -EINVAL);
    CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
    weft_readv_future(&io, file, rooms, 2);
    CHECK_EQ(await_io(&io), 4);
    CHECK_EQ(memcmp(data, "aXcd", 4), 0);
    weft_pwritev_future(&io, file, parts, 2, 3);
    CHECK_EQ(await_io(&io), 4);
    weft_preadv_future(&io, file, rooms, 2, 2);
    CHECK_EQ(await_io(&io), 5);
    CHECK_EQ(memcmp(data, "cabcd", 5), 0);
    CHECK_EQ(lseek(file, 0, SEEK_CUR), 4); // the file's own position stays
    weft_preadv_future(&io, file, rooms, 2, -1);
    CHECK_EQ(await_io(&io), -EINVAL);
    weft_pwritev_future(&io, file, parts, 2, -1);
    CHECK_EQ(await_io(&io), -EINVAL);
    weft_pwritev_future(&io, file, parts, 1025, 0);
    CHECK_EQ(await_io(&io), -EINVAL);
    weft_preadv_future(&io, file, NULL, 1, 0);
    CHECK_EQ(await_io(&io), -EFAULT);
    CHECK_OK(weft_close(file));
    int ends[2];
    CHECK_OK(pipe(ends));
    weft_preadv_future(&io, ends[0], rooms, 2, 0);
    CHECK_EQ(await_io(&io), -ESPIPE);
    weft_pwritev_future(&io, ends[1], parts, 2, 0);
    CHECK_EQ(await_io(&io), -ESPIPE);
    weft_pread_future(&io, ends[0], data, 1, 0);
    CHECK_EQ(await_io(&io), -ESPIPE);
    weft_poll_future(&io, ends[1], POLLOUT);
    CHECK_EQ(await_io(&io), POLLOUT);
    weft_poll_future(&io, ends[0], POLLIN);
    CHECK_EQ(weft_await(&io.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    close_pair(ends);
    return 0;
}

TEST_DRIVERS(files_and_pipes)
{
    run(use_a_file);
}

static int connect_them(void *arg)
{
    (void)arg;
    struct weft_io_future accepting;
    struct weft_io_future connecting;
    struct weft_branch both[2] = { { .future = &accepting.future },
                                   { .future = &connecting.future } };
    struct weft_combine all;
    uint16_t port = 0;
    int listener = listen_tcp(&port, 5);
    struct sockaddr_in address = loopback(port);
    struct sockaddr_in peer = { 0 };
    uint32_t peer_size = sizeof peer;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_OK(fd);
    weft_accept_future(&accepting, listener, (struct sockaddr *)&peer, &peer_size, SOCK_CLOEXEC);
    weft_connect_future(&connecting, fd, (struct sockaddr *)&address, sizeof address);
    weft_combine_join(&all, both, 2);
    CHECK_EQ(weft_await(&all.future, WEFT_FOREVER), 0);
    int accepted = (int)accepting.future.result;
    CHECK_EQ(peer_size, sizeof peer);
    static char words[] = "hi";
    struct msghdr message = { .msg_iov = &(struct iovec){ words, 2 }, .msg_iovlen = 1 };
    weft_sendmsg_future(&connecting, fd, &message, 0);
    CHECK_EQ(await_io(&connecting), 2);
    char data[4];
    message.msg_iov = &(struct iovec){ data, sizeof data };
    weft_recvmsg_future(&accepting, accepted, &message, 0);
    CHECK_EQ(await_io(&accepting), 2);
    weft_accept_future(&accepting, listener, NULL, NULL, 0);
    CHECK_EQ(weft_await(&accepting.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    close_pair((int[2]){ fd, accepted });
    CHECK_OK(weft_close(listener));
    return 0;
}

TEST_DRIVERS(sockets_are_accepted_and_connected)
{
    run(connect_them);
}

// Messages with addresses.

static struct weft_addr local_of(const weft_dgram *dgram)
{
    struct weft_addr addr;
    CHECK_OK(weft_dgram_local(dgram, &addr));
    return addr;
}

static int64_t await_message(struct weft_message_future *message, weft_time deadline)
{
    int64_t result = weft_await(&message->future, deadline);
    weft_future_fini(&message->future);
    return result;
}

TEST_EVERYWHERE(messages_are_sent_to_and_received_from)
{
    weft_dgram *ends[2];
    struct weft_addr addrs[2];
    struct weft_message_future in, out;
    struct sockaddr_storage from = { 0 };
    uint32_t to_size;
    uint32_t from_size = sizeof from;
    char data[8] = "";
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_dgram_bind(&ends[i], "udp://127.0.0.1:0", NULL));
        addrs[i] = local_of(ends[i]);
    }
    int fds[2] = { weft_dgram_fd(ends[0]), weft_dgram_fd(ends[1]) };
    const struct sockaddr *to = weft_addr_sockaddr(&addrs[1], &to_size);
    weft_recvfrom_future(&in, fds[1], data, sizeof data, 0, (struct sockaddr *)&from, &from_size);
    CHECK_EQ(await_message(&in, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(from_size, sizeof from); // left alone
    struct weft_message_future prepared;
    weft_recvfrom_future(&prepared, fds[1], data, sizeof data, 0, (struct sockaddr *)&from,
                         &from_size);
    in = prepared; // it may be moved before its first poll
    memset(&prepared, 0x5a, sizeof prepared);
    struct hand hand = { 0 };
    CHECK_EQ(hand_poll(&hand, &in.future), WEFT_PENDING);
    weft_sendto_future(&out, fds[0], "abc", 3, 0, to, to_size);
    CHECK_EQ(await_message(&out, WEFT_FOREVER), 3);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), 3);
    CHECK_EQ(memcmp(data, "abc", 3), 0);
    struct weft_addr sender;
    CHECK_OK(weft_addr_from_sockaddr(&sender, WEFT_ADDR_UDP, (struct sockaddr *)&from, from_size));
    CHECK(weft_addr_equal(&sender, &addrs[0]));
    weft_recvfrom_future(&in, fds[1], data, sizeof data, 0, NULL, NULL);
    weft_sendto_future(&out, fds[0], "de", 2, 0, to, to_size);
    CHECK_EQ(await_message(&out, WEFT_FOREVER), 2);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), 2);
    weft_sendto_future(&out, fds[0], "de", 2, 0, NULL, 0);
    CHECK(await_message(&out, WEFT_FOREVER) < 0); // it has no peer
    weft_recvfrom_future(&in, fds[1], data, sizeof data, 0, (struct sockaddr *)&from, NULL);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), -EFAULT);
    CHECK_OK(weft_dgram_close(ends[0]));
    CHECK_OK(weft_dgram_close(ends[1]));
}

static int receive_messages(void *arg)
{
    (void)arg;
    struct weft_message_future in;
    struct hand hand = { 0 };
    struct sockaddr_in addr = loopback(0);
    struct sockaddr_in from = { 0 };
    uint32_t size = sizeof addr;
    char data[8] = "";
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_OK(fd);
    CHECK_OK(bind(fd, (struct sockaddr *)&addr, sizeof addr));
    CHECK_OK(getsockname(fd, (struct sockaddr *)&addr, &size));
    uint32_t room = 4; // the address is cut, its length is not
    weft_recvfrom_future(&in, fd, data, sizeof data, 0, (struct sockaddr *)&from, &room);
    CHECK_EQ(hand_poll(&hand, &in.future), WEFT_PENDING);
    CHECK_EQ(weft_sendto(fd, "x", 1, 0, (struct sockaddr *)&addr, sizeof addr, WEFT_FOREVER), 1);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), 1);
    CHECK_EQ(room, sizeof from);
    CHECK_EQ(from.sin_port, addr.sin_port);
    if (!test_is_emulated()) { // qemu writes all of what recvmsg(2) cuts
        CHECK_EQ(from.sin_addr.s_addr, 0);
    }
    weft_recvfrom_future(&in, fd, data, sizeof data, MSG_DONTWAIT, NULL, NULL);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), -EAGAIN);
    weft_recvfrom_future(&in, fd, data, sizeof data, 0, NULL, NULL);
    CHECK_EQ(hand_poll(&hand, &in.future), WEFT_PENDING);
    weft_future_cancel(&in.future);
    CHECK_EQ(await_message(&in, WEFT_FOREVER), -ECANCELED);
    weft_recvfrom_future(&in, fd, data, sizeof data, 0, NULL, NULL);
    weft_task *task; // as a task of its own
    int result;
    CHECK_OK(weft_spawn_future(&task, &in.future, NULL));
    let_others_park();
    CHECK_OK(weft_close(fd));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -EBADF);
    return 0;
}

TEST_DRIVERS(messages_are_waited_for)
{
    run(receive_messages);
}

TEST_EVERYWHERE(what_makes_no_sense_is_refused)
{
    struct weft_io_future io;
    int fds[2];
    make_pair(fds);
    weft_readv_future(&io, fds[0], NULL, 1);
    CHECK_EQ(await_io(&io), -EFAULT);
    weft_writev_future(&io, fds[0], NULL, -1);
    CHECK_EQ(await_io(&io), -EINVAL);
    weft_poll_future(&io, fds[0], -1);
    CHECK_EQ(await_io(&io), -EINVAL);
    weft_recvmsg_future(&io, fds[0], NULL, 0);
    CHECK_EQ(await_io(&io), -EFAULT);
    weft_connect_future(&io, fds[0], NULL, 0);
    CHECK_EQ(await_io(&io), -EFAULT);
    weft_accept_future(&io, fds[0], NULL, NULL, 0x40000000);
    CHECK_EQ(await_io(&io), -EINVAL);
    close_pair(fds);
}
