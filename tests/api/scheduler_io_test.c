// I/O futures of tasks that a pool of the program's own threads runs: their operations go to the task's
// home and come back as wakes (future/io_future.c).
#include "support/test.h"

#include "support/conns.h"
#include "support/onpool.h"
#include "support/placed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ECHOES = 8, ROUNDS = 50 };

// A state machine that sends back what it reads, until the end.

struct echo {
    struct weft_future future; // first member
    struct weft_io_future io;
    int from;
    int to;
    bool writes; // what `io` does at the moment
    char byte;
};

static enum weft_poll echo_poll(struct weft_future *future, weft_waker *waker)
{
    struct echo *echo = (struct echo *)future;
    check_on_pool();
    while (weft_future_poll(&echo->io.future, waker) == WEFT_READY) {
        int64_t result = echo->io.future.result;
        weft_future_fini(&echo->io.future);
        if (result != 1) {
            future->result = result;
            return WEFT_READY;
        }
        echo->writes = !echo->writes;
        if (echo->writes) {
            weft_write_future(&echo->io, echo->to, &echo->byte, 1);
        } else {
            weft_read_future(&echo->io, echo->from, &echo->byte, 1);
        }
    }
    return WEFT_PENDING;
}

static void echo_cancel(struct weft_future *future)
{
    weft_future_cancel(&((struct echo *)future)->io.future);
}

static void echo_init(struct echo *echo, int from, int to)
{
    *echo = (struct echo){ .from = from, .to = to };
    weft_future_init(&echo->future, echo_poll, echo_cancel);
    weft_read_future(&echo->io, from, &echo->byte, 1);
}

static void open_pipe(int fds[2])
{
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
}

static int futures_echo(void *arg)
{
    struct echo echoes[ECHOES];
    weft_task *tasks[ECHOES];
    int there[ECHOES][2];
    int back[ECHOES][2];
    struct weft_attr attr = on_pool();
    (void)arg;
    for (int i = 0; i < ECHOES; i++) {
        open_pipe(there[i]);
        open_pipe(back[i]);
        echo_init(&echoes[i], there[i][0], back[i][1]);
        CHECK_OK(weft_spawn_future(&tasks[i], &echoes[i].future, &attr));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ECHOES; i++) {
            char byte = (char)(round + i);
            CHECK_EQ(weft_write(there[i][1], &byte, 1, WEFT_FOREVER), 1);
        }
        for (int i = 0; i < ECHOES; i++) {
            char byte = 0;
            CHECK_EQ(weft_read(back[i][0], &byte, 1, WEFT_FOREVER), 1);
            CHECK_EQ(byte, (char)(round + i));
        }
    }
    for (int i = 0; i < ECHOES; i++) {
        int result = -1;
        CHECK_OK(weft_close(there[i][1])); // the end
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, 0);
        CHECK_OK(weft_close(there[i][0]));
        CHECK_OK(weft_close(back[i][0]));
        CHECK_OK(weft_close(back[i][1]));
    }
    return 0;
}

TEST_DRIVERS(futures_of_the_pool_do_io)
{
    run_on_pool(futures_echo, THREADS);
}

TEST_DRIVERS(futures_of_a_pool_of_one_do_io)
{
    run_on_pool(futures_echo, 1);
}

// Virtual threads of the pool await them.

static int64_t await_io(struct weft_io_future *io, weft_time deadline)
{
    int64_t result = weft_await(&io->future, deadline);
    weft_future_fini(&io->future);
    check_on_pool();
    return result;
}

static int awaits(void *arg)
{
    struct weft_io_future io;
    char data[8] = "";
    int fds[2];
    (void)arg;
    open_pipe(fds);
    weft_read_future(&io, fds[0], data, sizeof data);
    CHECK_EQ(await_io(&io, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_write_future(&io, fds[1], "abc", 3);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), 3);
    weft_poll_future(&io, fds[0], POLLIN);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), POLLIN);
    weft_read_future(&io, fds[0], data, sizeof data);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), 3);
    CHECK_EQ(memcmp(data, "abc", 3), 0);
    weft_pread_future(&io, fds[0], data, 1, 0);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), -ESPIPE);
    weft_read_future(&io, -1, data, 1);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), -EBADF);
    weft_read_future(&io, fds[0], data, 1);
    weft_future_cancel(&io.future); // before it began
    CHECK_EQ(await_io(&io, WEFT_FOREVER), -ECANCELED);
    CHECK_OK(weft_close(fds[0]));
    CHECK_OK(weft_close(fds[1]));
    int file = memfd_create("file", MFD_CLOEXEC);
    CHECK_OK(file);
    weft_pwrite_future(&io, file, "defg", 4, 10);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), 4);
    weft_pread_future(&io, file, data, 2, 12);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), 2);
    CHECK_EQ(memcmp(data, "fg", 2), 0);
    weft_pread_future(&io, file, data, 2, -1);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), -EINVAL);
    weft_fsync_future(&io, file, true);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(file));
    return 0;
}

/// Futures of several operations, or with a header of their own.
static int awaits_longer_ones(void *arg)
{
    struct weft_io_future io;
    struct weft_message_future message;
    struct weft_splice_future splice;
    struct weft_full_future full;
    size_t moved;
    char data[8] = "";
    struct iovec parts[2] = { { data, 1 }, { data + 1, 7 } };
    int64_t offset = 1;
    int fds[2];
    (void)arg;
    open_pipe(fds);
    int file = memfd_create("file", MFD_CLOEXEC);
    CHECK_OK(file);
    CHECK_EQ(pwrite(file, "abcd", 4, 0), 4);
    weft_splice_future(&splice, file, &offset, fds[1], NULL, 100, 0);
    CHECK_EQ(weft_await(&splice.future, WEFT_FOREVER), 3);
    CHECK_EQ(offset, 4);
    check_on_pool();
    weft_readv_future(&io, fds[0], parts, 2);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), 3);
    CHECK_EQ(memcmp(data, "bcd", 3), 0);
    weft_splice_future(&splice, fds[0], NULL, file, NULL, 100, 0);
    CHECK_EQ(weft_await(&splice.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_write_full_future(&full, NULL, fds[1], "efg", 3);
    CHECK_EQ(weft_await(&full.future, WEFT_FOREVER), 3);
    weft_read_full_future(&full, &moved, fds[0], data, 5);
    CHECK_EQ(weft_await(&full.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(moved, 3);
    check_on_pool();
    weft_preadv_future(&io, file, parts, 2, 2);
    CHECK_EQ(await_io(&io, WEFT_FOREVER), 2);
    CHECK_OK(weft_close(file));
    CHECK_OK(weft_close(fds[0]));
    CHECK_OK(weft_close(fds[1]));
    CHECK_OK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds));
    weft_sendto_future(&message, fds[0], "xyz", 3, 0, NULL, 0);
    CHECK_EQ(weft_await(&message.future, WEFT_FOREVER), 3);
    weft_recvfrom_future(&message, fds[1], data, sizeof data, 0, NULL, NULL);
    CHECK_EQ(weft_await(&message.future, WEFT_FOREVER), 3);
    check_on_pool();
    weft_recvfrom_future(&message, fds[1], data, sizeof data, 0, NULL, NULL);
    CHECK_EQ(weft_await(&message.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_OK(weft_close(fds[0]));
    CHECK_OK(weft_close(fds[1]));
    return 0;
}

TEST_DRIVERS(threads_of_the_pool_await_longer_io)
{
    run_on_pool(awaits_longer_ones, THREADS);
    run_on_pool(awaits_longer_ones, 1);
}

/// A connection is a carrier's own.
static int make_connection(void *arg)
{
    *(struct pair *)arg = make_pair("tcp://127.0.0.1:0");
    return 0;
}

static int close_connection(void *arg)
{
    struct pair *pair = arg;
    CHECK_OK(weft_conn_close(pair->near));
    return weft_conn_close(pair->far);
}

static int polls_a_connection(void *arg)
{
    struct pair pair;
    struct weft_conn_future future;
    struct weft_slice in;
    (void)arg;
    CHECK_OK(join(spawn_on(0, make_connection, &pair)));
    weft_conn_peek_future(&future, pair.near, &in, 1);
    CHECK_EQ(weft_await(&future.future, WEFT_FOREVER), -EXDEV);
    return join(spawn_on(0, close_connection, &pair));
}

TEST_DRIVERS(connections_are_not_for_the_pool)
{
    run_on_pool(polls_a_connection, THREADS);
    run_on_pool(polls_a_connection, 1);
}

/// A timer of theirs goes home, too.
static int awaits_ticks(void *arg)
{
    struct weft_interval interval;
    weft_time first = weft_after(WEFT_MS);
    (void)arg;
    CHECK_OK(weft_interval_init(&interval, first, WEFT_MS, WEFT_MISSED_BURST));
    for (weft_time i = 0; i < 5; i++) {
        struct weft_tick_future tick;
        weft_time due = 0;
        weft_interval_tick_future(&tick, &due, &interval);
        CHECK_EQ(weft_await(&tick.future, WEFT_FOREVER), 0);
        check_on_pool();
        CHECK_EQ(due, first + i * WEFT_MS);
    }
    return 0;
}

TEST_DRIVERS(threads_of_the_pool_await_ticks)
{
    run_on_pool(awaits_ticks, THREADS);
    run_on_pool(awaits_ticks, 1);
}

TEST_DRIVERS(threads_of_the_pool_await_io)
{
    run_on_pool(awaits, THREADS);
    run_on_pool(awaits, 1);
}

// Their ends: a cancel, which may come while the operation is on its way, and a close.

static int futures_are_cancelled(void *arg)
{
    uint64_t random = test_seed();
    struct weft_attr attr = on_pool();
    int fds[2];
    (void)arg;
    open_pipe(fds);
    for (int i = 0; i < 300; i++) {
        struct echo echo;
        weft_task *task;
        int result = 0;
        echo_init(&echo, fds[0], fds[1]);
        CHECK_OK(weft_spawn_future(&task, &echo.future, &attr));
        for (uint64_t turns = test_random(&random) % 4; turns > 0; turns--) {
            CHECK_OK(turns % 2 == 0 ? weft_sleep(10 * WEFT_US) : weft_yield());
        }
        weft_task_cancel(task);
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK_EQ(result, -ECANCELED);
    }
    CHECK_OK(weft_close(fds[0]));
    CHECK_OK(weft_close(fds[1]));
    return 0;
}

TEST_DRIVERS(futures_of_the_pool_are_cancelled)
{
    run_on_pool(futures_are_cancelled, THREADS);
}

static int closing_ends_futures(void *arg)
{
    struct weft_attr attr = on_pool();
    (void)arg;
    for (int i = 0; i < 100; i++) {
        struct echo echo;
        weft_task *task;
        int fds[2];
        int result = 0;
        open_pipe(fds);
        echo_init(&echo, fds[0], fds[1]);
        CHECK_OK(weft_spawn_future(&task, &echo.future, &attr));
        if (i % 3 != 0) {
            CHECK_OK(weft_sleep((weft_time)i * WEFT_US));
        }
        CHECK_OK(weft_close(fds[0])); // in flight, on its way, or not yet begun
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK_EQ(result, -EBADF);
        CHECK_OK(weft_close(fds[1]));
    }
    return 0;
}

TEST_DRIVERS(closing_ends_futures_of_the_pool)
{
    run_on_pool(closing_ends_futures, THREADS);
}

static int timeouts_and_races(void *arg)
{
    struct weft_io_future reads[2];
    struct weft_timeout timeout;
    struct weft_branch branches[2];
    struct weft_combine race;
    char bytes[2];
    int fds[2][2];
    (void)arg;
    open_pipe(fds[0]);
    open_pipe(fds[1]);
    weft_read_future(&reads[0], fds[0][0], &bytes[0], 1);
    weft_timeout_init(&timeout, &reads[0].future, weft_after(WEFT_MS));
    CHECK_EQ(weft_await(&timeout.future, WEFT_FOREVER), -ETIMEDOUT);
    CHECK_EQ(weft_write(fds[1][1], "z", 1, WEFT_FOREVER), 1);
    for (int i = 0; i < 2; i++) {
        weft_read_future(&reads[i], fds[i][0], &bytes[i], 1);
        branches[i].future = &reads[i].future;
    }
    weft_combine_select(&race, branches, 2);
    CHECK_EQ(weft_await(&race.future, WEFT_FOREVER), 1);
    CHECK_EQ(bytes[1], 'z');
    check_on_pool();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_close(fds[i][0]));
        CHECK_OK(weft_close(fds[i][1]));
    }
    return 0;
}

TEST_DRIVERS(timeouts_and_races_of_the_pool)
{
    run_on_pool(timeouts_and_races, THREADS);
}
