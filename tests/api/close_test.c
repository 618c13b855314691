// close_test.c - closing a descriptor that others use: they end first, and meet no other file.
#include "support/fdcalls.h"
#include "support/gather.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { CARRIERS = 4 };

static void run_uncounted(weft_fn fn, void *arg)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = CARRIERS;
    CHECK_EQ(weft_run(fn, arg, &options), 0);
}

static void run(weft_fn fn, void *arg)
{
    int before = count_descriptors();
    run_uncounted(fn, arg);
    CHECK_EQ(count_descriptors(), before);
}

/// Operations that have begun and not ended, on all carriers.
static uint64_t in_flight(void)
{
    struct weft_io_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_io_stats(weft_runtime_current(), -1, &stats));
    return stats.submitted - stats.completed;
}

/// So many are. An operation is counted as submitted, then handed to the kernel, then its task parks;
/// a close that comes earlier is no less right.
static void await_in_flight(uint64_t count)
{
    while (in_flight() != count) {
        CHECK_OK(weft_yield());
    }
}

// Calls in progress.

static ssize_t use_accept(int fd, void *data, size_t size)
{
    (void)data;
    (void)size;
    return weft_accept_fd(fd, NULL, NULL, 0, WEFT_FOREVER);
}

static ssize_t use_poll(int fd, void *data, size_t size)
{
    (void)data;
    (void)size;
    return weft_poll(fd, POLLIN, WEFT_FOREVER);
}

static ssize_t use_splice_from(int fd, void *data, size_t size)
{
    int *pipe = data; // a pipe's end
    return weft_splice(fd, NULL, *pipe, NULL, size, 0, WEFT_FOREVER);
}

static ssize_t use_copy_from(int fd, void *data, size_t size)
{
    int *out = data;
    (void)size;
    return weft_copy(NULL, *out, fd, WEFT_COPY_ALL, WEFT_FOREVER);
}

/// `count` tasks on all carriers are inside a call on the descriptor when it is closed.
static void close_under(int fd, reader_fn call, int count, int other)
{
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct reading *readings = calloc((size_t)count, sizeof *readings);
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < count; i++) {
        readings[i] = (struct reading){ .fd = fd, .read = call, .result = 1 };
        memcpy(readings[i].data, &other, sizeof other);
        CHECK_OK(weft_scope_spawn(&scope, read_something, &readings[i]));
    }
    await_in_flight((uint64_t)count);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_scope_join(&scope), 0);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(readings[i].result, -EBADF);
    }
    CHECK_EQ(weft_close(fd), -EBADF);
    free(readings);
}

static int close_under_readers(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        enum channel_kind kind = (enum channel_kind)(i / 2);
        size_t calls = kind == CHANNEL_PIPE ? FOR_SOCKETS : sizeof readers / sizeof readers[0];
        for (size_t r = 0; r < calls; r++) {
            for (int count = 1; count <= 40; count *= 5) {
                struct channel channel = channel_open(kind, i % 2 == 1);
                close_under(channel.from, readers[r], count, -1);
                CHECK_OK(weft_close(channel.to));
            }
        }
    }
    return 0;
}

TEST_DRIVERS(closing_ends_readers_on_all_carriers)
{
    run(close_under_readers, NULL);
}

static int close_under_others(void *arg)
{
    (void)arg;
    uint16_t port;
    struct channel pipe = channel_open(CHANNEL_PIPE, false);
    for (int count = 1; count <= 40; count *= 5) {
        close_under(listen_tcp(&port, 8), use_accept, count, -1);
        for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
            static const reader_fn calls[] = { use_poll, use_splice_from, use_copy_from };
            for (int k = 0; k < 3; k++) {
                struct channel channel = channel_open((enum channel_kind)(i / 2), i % 2 == 1);
                close_under(channel.from, calls[k], count, pipe.to);
                CHECK_OK(weft_close(channel.to));
            }
        }
    }
    channel_close(pipe);
    return 0;
}

TEST_DRIVERS(closing_ends_accepts_polls_splices_and_copies)
{
    run(close_under_others, NULL);
}

struct writing {
    int fd;
    size_t moved;
    ssize_t result;
};

static int write_without_end(void *arg)
{
    struct writing *writing = arg;
    static char data[1 << 20];
    do {
        writing->result = weft_write_full(&writing->moved, writing->fd, data, sizeof data,
                                          WEFT_FOREVER);
    } while (writing->result > 0);
    return 0;
}

static int close_under_writers(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        struct channel channel = channel_open((enum channel_kind)(i / 2), i % 2 == 1);
        struct writing writing[CARRIERS];
        struct weft_scope scope;
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        weft_scope_set_attr(&scope, &attr);
        for (int k = 0; k < CARRIERS; k++) {
            writing[k] = (struct writing){ .fd = channel.to };
            CHECK_OK(weft_scope_spawn(&scope, write_without_end, &writing[k]));
        }
        await_in_flight(CARRIERS);
        let_others_park();
        CHECK_EQ(weft_close(channel.to), 0);
        CHECK_EQ(weft_scope_join(&scope), 0);
        for (int k = 0; k < CARRIERS; k++) {
            CHECK_EQ(writing[k].result, -EBADF);
            CHECK_LT(writing[k].moved, 1 << 20);
        }
        CHECK_OK(weft_close(channel.from));
    }
    return 0;
}

TEST_DRIVERS(closing_ends_writers)
{
    run(close_under_writers, NULL);
}

// The next file with the same number.

static int read_a_byte(void *arg)
{
    struct reading *reading = arg;
    reading->result = weft_read(reading->fd, reading->data, 1, WEFT_FOREVER);
    return 0;
}

/// All readers are inside; then the descriptor is closed, another socket gets its number, and bytes
/// come for that one. None of the readers may take one.
static void reopen_under(int count, enum channel_kind kind, bool nonblocking)
{
    struct channel old = channel_open(kind, nonblocking);
    struct reading readings[20];
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    char data[20] = "";
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < count; i++) {
        readings[i] = (struct reading){ .fd = old.from, .result = 1 };
        CHECK_OK(weft_scope_spawn(&scope, read_a_byte, &readings[i]));
    }
    await_in_flight((uint64_t)count);
    CHECK_EQ(weft_close(old.from), 0);
    struct channel fresh = channel_open(kind, nonblocking);
    if (fresh.from != old.from) {
        CHECK_OK(dup3(fresh.from, old.from, O_CLOEXEC));
        CHECK_OK(close(fresh.from));
        fresh.from = old.from;
    }
    CHECK_EQ(weft_write(fresh.to, data, (size_t)count, WEFT_FOREVER), count);
    CHECK_EQ(weft_scope_join(&scope), 0);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(readings[i].result, -EBADF);
    }
    CHECK_EQ(weft_read_full(NULL, fresh.from, data, (size_t)count, WEFT_FOREVER), count);
    channel_close(fresh);
    CHECK_OK(weft_close(old.to));
}

static int reopen(void *arg)
{
    (void)arg;
    uint64_t random = test_seed();
    for (uint64_t i = 0; i < test_scaled(1500); i++) {
        int count = 1 + (int)(test_random(&random) % 20);
        reopen_under(count, (enum channel_kind)(i % CHANNEL_KINDS), test_random(&random) % 2 == 0);
    }
    return 0;
}

TEST_DRIVERS(a_call_never_meets_the_next_file_with_its_number)
{
    run(reopen, NULL);
}

// Calls of several operations.

/// Moves bytes from one descriptor to another in its own task.
struct moving {
    ssize_t (*move)(int out, int in);
    int out;
    int in;
    ssize_t result;
};

static ssize_t move_by_copy(int out, int in)
{
    return weft_copy(NULL, out, in, WEFT_COPY_ALL, WEFT_FOREVER);
}

static ssize_t move_by_splice(int out, int in)
{
    return weft_splice(in, NULL, out, NULL, 100, 0, WEFT_FOREVER);
}

static ssize_t move_by_sendfile(int out, int in)
{
    return weft_sendfile(out, in, NULL, 100, WEFT_FOREVER);
}

static int move(void *arg)
{
    struct moving *moving = arg;
    moving->result = moving->move(moving->out, moving->in);
    return 0;
}

/// Begins, and is parked in an operation.
static weft_task *begin_moving(struct moving *moving)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_spawn(&task, move, moving, &attr));
    while (in_flight() != 1 && !weft_task_done(task)) {
        CHECK_OK(weft_yield());
    }
    return task;
}

/// Gives one end of a new channel a number that was closed; the other end may have got it.
static void take_number(int *fd, int *other, int number)
{
    if (*other == number) {
        *other = fcntl(number, F_DUPFD_CLOEXEC, 0);
        CHECK_OK(*other);
    }
    if (*fd != number) {
        CHECK_OK(dup3(*fd, number, O_CLOEXEC));
        CHECK_OK(close(*fd));
        *fd = number;
    }
}

/// Waits for input while its output is closed and the number reused; then input comes.
static void close_output_under(ssize_t (*call)(int out, int in), enum channel_kind in_kind,
                               enum channel_kind out_kind, bool nonblocking)
{
    struct channel in = channel_open(in_kind, nonblocking);
    struct channel out = channel_open(out_kind, nonblocking);
    struct moving moving = { .move = call, .out = out.to, .in = in.from };
    weft_task *task = begin_moving(&moving);
    char byte;
    CHECK_OK(weft_close(out.to));
    struct channel fresh = channel_open(out_kind, nonblocking);
    take_number(&fresh.to, &fresh.from, out.to);
    CHECK_EQ(weft_write(in.to, "not for you", 11, WEFT_FOREVER), 11);
    CHECK_OK(weft_close(in.to));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_OK(weft_close(fresh.to));
    CHECK_EQ(weft_read(fresh.from, &byte, 1, WEFT_FOREVER), 0);
    CHECK_EQ(moving.result, -EBADF);
    CHECK_OK(weft_close(fresh.from));
    CHECK_OK(weft_close(out.from));
    CHECK_OK(weft_close(in.from));
}

static int close_outputs(void *arg)
{
    (void)arg;
    for (int i = 0; i < CHANNEL_KINDS * CHANNEL_KINDS * 2; i++) {
        enum channel_kind in = (enum channel_kind)(i / 2 % CHANNEL_KINDS);
        enum channel_kind out = (enum channel_kind)(i / 2 / CHANNEL_KINDS);
        close_output_under(move_by_copy, in, out, i % 2 == 1);
        if (in == CHANNEL_PIPE || out == CHANNEL_PIPE) {
            close_output_under(move_by_splice, in, out, i % 2 == 1);
        }
    }
    return 0;
}

TEST_DRIVERS(a_call_that_waits_for_input_ends_when_its_output_is_closed)
{
    run(close_outputs, NULL);
}

/// TCP hands over to its peer for a while after it has said that it is full, and has room again.
static void fill_up(int fd)
{
    static const char data[4096];
    for (int refused = 0; refused < 5;) {
        ssize_t n = weft_write(fd, data, sizeof data, 1);
        refused = n > 0 ? 0 : refused + 1;
        CHECK(n > 0 || n == -ETIMEDOUT);
        CHECK_OK(n > 0 ? 0 : weft_sleep(2 * WEFT_MS));
    }
}

/// Waits for room while its input is closed: that may not be left to the number's next owner.
static void close_input_under(ssize_t (*call)(int out, int in), struct channel in,
                              enum channel_kind out_kind, bool nonblocking)
{
    struct channel out = channel_open(out_kind, nonblocking);
    struct moving moving = { .move = call, .out = out.to, .in = in.from };
    fill_up(out.to);
    CHECK_EQ(weft_write(in.to, "some bytes", 10, WEFT_FOREVER), 10);
    if (in.to == in.from) {
        CHECK_EQ(lseek(in.from, 0, SEEK_SET), 0);
    }
    weft_task *task = begin_moving(&moving);
    CHECK_OK(weft_close(in.from));
    CHECK_OK(weft_join(NULL, task, weft_after(20 * WEFT_S)));
    // TCP may find room once more when its peer acknowledges, as late as that likes to.
    CHECK(moving.result == -EBADF || (out_kind == CHANNEL_TCP && moving.result >= 0));
    if (in.to != in.from) {
        CHECK_OK(weft_close(in.to));
    }
    channel_close(out);
}

static int close_inputs(void *arg)
{
    (void)arg;
    for (int i = 0; i < CHANNEL_KINDS * CHANNEL_KINDS * 2; i++) {
        enum channel_kind in = (enum channel_kind)(i / 2 % CHANNEL_KINDS);
        enum channel_kind out = (enum channel_kind)(i / 2 / CHANNEL_KINDS);
        bool nonblocking = i % 2 == 1;
        close_input_under(move_by_copy, channel_open(in, nonblocking), out, nonblocking);
        if (in == CHANNEL_PIPE || out == CHANNEL_PIPE) {
            close_input_under(move_by_splice, channel_open(in, nonblocking), out, nonblocking);
        }
        int file = temp_file();
        close_input_under(move_by_copy, (struct channel){ file, file }, out, nonblocking);
        file = temp_file();
        close_input_under(move_by_sendfile, (struct channel){ file, file }, out, nonblocking);
    }
    return 0;
}

TEST_DRIVERS(a_call_that_waits_for_room_ends_when_its_input_is_closed)
{
    run(close_inputs, NULL);
}

static ssize_t move_by_write_full(int out, int in)
{
    (void)in;
    static const char data[1 << 22];
    return weft_write_full(NULL, out, data, sizeof data, WEFT_FOREVER);
}

static ssize_t move_by_writev_full(int out, int in)
{
    (void)in;
    static char data[1 << 15];
    struct iovec parts[128];
    for (int i = 0; i < 128; i++) {
        parts[i] = (struct iovec){ data, sizeof data };
    }
    return weft_writev_full(NULL, out, parts, 128, WEFT_FOREVER);
}

/// Its reader makes room now and then, so that it is often between two operations when the
/// descriptor is closed and the number reused.
static void reopen_under_writer(ssize_t (*call)(int out, int in), enum channel_kind kind,
                                uint64_t *random)
{
    bool nonblocking = test_random(random) % 2 == 0;
    struct channel old = channel_open(kind, nonblocking);
    struct moving moving = { .move = call, .out = old.to };
    static char data[1 << 16];
    channel_shrink(old, kind);
    weft_task *task = begin_moving(&moving);
    for (uint64_t i = test_random(random) % 4; i > 0; i--) {
        CHECK_GT(weft_read(old.from, data, sizeof data, WEFT_FOREVER), 0);
    }
    for (uint64_t i = test_random(random) % 3; i > 0; i--) {
        CHECK_OK(weft_yield());
    }
    CHECK_OK(weft_close(old.to));
    struct channel fresh = channel_open(kind, nonblocking);
    take_number(&fresh.to, &fresh.from, old.to);
    CHECK_OK(weft_join(NULL, task, weft_after(20 * WEFT_S)));
    CHECK_EQ(moving.result, -EBADF);
    CHECK_OK(weft_close(fresh.to));
    CHECK_EQ(weft_read(fresh.from, data, 1, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(fresh.from));
    CHECK_OK(weft_close(old.from));
}

static int reopen_under_writers(void *arg)
{
    (void)arg;
    uint64_t random = test_seed();
    for (uint64_t i = 0; i < test_scaled(600); i++) {
        enum channel_kind kind = (enum channel_kind)(i % CHANNEL_KINDS);
        reopen_under_writer(i / 3 % 2 == 0 ? move_by_write_full : move_by_writev_full, kind,
                            &random);
    }
    return 0;
}

TEST_DRIVERS(a_full_write_never_meets_the_next_file_with_its_number)
{
    run(reopen_under_writers, NULL);
}

static ssize_t move_by_read_full(int out, int in)
{
    (void)out;
    char data[4];
    return weft_read_full(NULL, in, data, sizeof data, WEFT_FOREVER);
}

/// Says how much it has, not why there is no more.
static ssize_t move_by_recv_all(int out, int in)
{
    (void)out;
    char data[4];
    ssize_t n = weft_recv(in, data, sizeof data, MSG_WAITALL, WEFT_FOREVER);
    return n == 1 ? -EBADF : n;
}

/// The first byte is there when the descriptor is closed; the others come for the next file.
static int reopen_under_full_readers(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < test_scaled(1200); i++) {
        enum channel_kind kind = (enum channel_kind)(i % CHANNEL_KINDS);
        bool by_recv = kind != CHANNEL_PIPE && i / 6 % 2 == 1;
        struct channel old = channel_open(kind, i % 2 == 0);
        struct moving moving = { .move = by_recv ? move_by_recv_all : move_by_read_full,
                                 .in = old.from };
        char data[4];
        weft_task *task = begin_moving(&moving);
        CHECK_EQ(weft_write(old.to, "x", 1, WEFT_FOREVER), 1);
        CHECK_OK(weft_close(old.from));
        struct channel fresh = channel_open(kind, i % 2 == 0);
        take_number(&fresh.from, &fresh.to, old.from);
        CHECK_EQ(weft_write(fresh.to, "mine", 4, WEFT_FOREVER), 4);
        CHECK_OK(weft_join(NULL, task, weft_after(20 * WEFT_S)));
        CHECK_EQ(moving.result, -EBADF);
        CHECK_EQ(weft_read_full(NULL, fresh.from, data, 4, weft_after(20 * WEFT_S)), 4);
        channel_close(fresh);
        CHECK_OK(weft_close(old.to));
    }
    return 0;
}

TEST_DRIVERS(a_full_read_never_meets_the_next_file_with_its_number)
{
    run(reopen_under_full_readers, NULL);
}

// Everything at once.

/// Here readers use numbers of descriptors that are closed and opened again meanwhile, on purpose.
/// ThreadSanitizer takes that for a race on the descriptor; to recognise it, it opens two of its own.
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:storm_main\n";
}

/// Readers come and go without regard to what is closed and opened meanwhile.
struct storm {
    atomic_int fd; // -1: over
    atomic_int bytes;
    atomic_int refused;
};

static int storm_reader(void *arg)
{
    struct storm *storm = arg;
    uint64_t random = weft_task_id(weft_self());
    char byte;
    int fd;
    while ((fd = atomic_load(&storm->fd)) >= 0) {
        weft_time deadline = test_random(&random) % 3 != 0 ? WEFT_FOREVER
                                                           : weft_after(20 * WEFT_US);
        ssize_t n = test_random(&random) % 2 == 0 ? weft_read(fd, &byte, 1, deadline)
                                                  : weft_poll(fd, POLLIN, deadline);
        CHECK(n >= 0 || n == -EBADF || n == -ETIMEDOUT);
        atomic_fetch_add(n > 0 ? &storm->bytes : &storm->refused, 1);
        (void)weft_yield();
    }
    return 0;
}

static int storm_main(void *arg)
{
    struct storm *storm = arg;
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    uint64_t random = test_seed();
    struct channel channel = channel_open(CHANNEL_UNIX, true);
    atomic_store(&storm->fd, channel.from);
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 24; i++) {
        CHECK_OK(weft_scope_spawn(&scope, storm_reader, storm));
    }
    for (uint64_t i = 0; i < test_scaled(3000); i++) {
        CHECK_EQ(weft_write(channel.to, "xxxxxxxxxxxxxxxx", test_random(&random) % 16,
                            WEFT_FOREVER) >= 0,
                 true);
        for (uint64_t k = test_random(&random) % 4; k > 0; k--) {
            CHECK_OK(weft_yield());
        }
        CHECK_OK(weft_close(channel.from));
        CHECK_OK(weft_close(channel.to));
        bool nonblocking = test_random(&random) % 2 == 0;
        channel = channel_open((enum channel_kind)(test_random(&random) % 2), nonblocking);
        atomic_store(&storm->fd, channel.from);
    }
    atomic_store(&storm->fd, -1);
    CHECK_OK(weft_close(channel.from));
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_OK(weft_close(channel.to));
    CHECK_GT(atomic_load(&storm->refused), 0);
    return 0;
}

TEST_DRIVERS(readers_on_all_carriers_bear_a_storm_of_closing_and_opening)
{
    static struct storm storm;
    if (test_is_slow()) {
        run_uncounted(storm_main, &storm);
    } else {
        run(storm_main, &storm);
    }
}

// Closers.

struct closer {
    int fd;
    atomic_int closed;
    atomic_int refused;
};

static int close_it(void *arg)
{
    struct closer *closer = arg;
    int rc = weft_close(closer->fd);
    CHECK(rc == 0 || rc == -EBADF);
    atomic_fetch_add(rc == 0 ? &closer->closed : &closer->refused, 1);
    return 0;
}

static int close_together(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < test_scaled(400); i++) {
        struct channel channel = channel_open(CHANNEL_UNIX, false);
        struct closer closer = { .fd = channel.from };
        struct reading reading = { .fd = channel.from };
        struct weft_scope scope;
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        weft_scope_set_attr(&scope, &attr);
        CHECK_OK(weft_scope_spawn(&scope, read_a_byte, &reading));
        for (int k = 0; k < 2 * CARRIERS; k++) {
            CHECK_OK(weft_scope_spawn(&scope, close_it, &closer));
        }
        CHECK_EQ(weft_scope_join(&scope), 0);
        CHECK_EQ(atomic_load(&closer.closed), 1);
        CHECK_EQ(atomic_load(&closer.refused), 2 * CARRIERS - 1);
        CHECK_EQ(reading.result, -EBADF);
        CHECK_OK(weft_close(channel.to));
    }
    return 0;
}

TEST_DRIVERS(of_many_closers_one_closes)
{
    run(close_together, NULL);
}

static int close_cancelled(void *arg)
{
    while (weft_cancelled() == 0) {
        (void)weft_yield();
    }
    return close_it(arg);
}

static int close_in_a_cancelled_task(void *arg)
{
    (void)arg;
    struct channel channel = channel_open(CHANNEL_UNIX, false);
    struct closer closer = { .fd = channel.from };
    struct reading reading = { .fd = channel.from };
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *reader;
    weft_task *task;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = 3;
    CHECK_OK(weft_spawn(&reader, read_a_byte, &reading, &attr));
    await_in_flight(1);
    CHECK_OK(weft_spawn(&task, close_cancelled, &closer, NULL));
    weft_task_cancel(task);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&closer.closed), 1);
    CHECK_OK(weft_join(NULL, reader, WEFT_FOREVER));
    CHECK_EQ(reading.result, -EBADF);
    CHECK_OK(weft_close(channel.to));
    return 0;
}

TEST_DRIVERS(closing_is_no_cancellation_point)
{
    run(close_in_a_cancelled_task, NULL);
}

/// Bytes that came before the close are not lost: the reader that has them returns them.
static int close_behind_a_byte(void *arg)
{
    (void)arg;
    int won = 0;
    for (uint64_t i = 0; i < test_scaled(500); i++) {
        struct channel channel = channel_open(CHANNEL_UNIX, i % 2 == 0);
        struct reading reading = { .fd = channel.from };
        struct weft_attr attr = WEFT_ATTR_INIT;
        weft_task *task;
        attr.place = WEFT_PLACE_SPREAD;
        CHECK_OK(weft_spawn(&task, read_a_byte, &reading, &attr));
        await_in_flight(1);
        CHECK_EQ(weft_write(channel.to, "x", 1, WEFT_FOREVER), 1);
        CHECK_OK(weft_close(channel.from));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK(reading.result == 1 || reading.result == -EBADF);
        CHECK(reading.result != 1 || reading.data[0] == 'x');
        won += reading.result == 1;
        CHECK_OK(weft_close(channel.to));
    }
    CHECK_GT(won, 0);
    return 0;
}

TEST_DRIVERS(bytes_win_over_a_close)
{
    run(close_behind_a_byte, NULL);
}

// Nothing is left behind.

static int open_and_close(void *arg)
{
    atomic_int *left = arg;
    while (atomic_fetch_sub(left, 2) > 0) {
        struct channel channel = channel_open(CHANNEL_UNIX, atomic_load(left) % 4 == 0);
        char byte = 0;
        CHECK_EQ(weft_write(channel.to, "x", 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(channel.from, &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(channel.from, &byte, 1, 1), -ETIMEDOUT);
        channel_close(channel);
    }
    return 0;
}

static int open_and_close_all(void *arg)
{
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    int before = count_descriptors();
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 32; i++) {
        CHECK_OK(weft_scope_spawn(&scope, open_and_close, arg));
    }
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_EQ(count_descriptors(), before);
    CHECK_EQ(in_flight(), 0);
    return 0;
}

TEST_DRIVERS(a_hundred_thousand_sockets_leave_no_descriptor)
{
    static atomic_int left;
    atomic_store(&left, (int)test_scaled(100000));
    run(open_and_close_all, &left);
}
