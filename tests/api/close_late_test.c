// close_late_test.c - calls that begin while the descriptor is being closed, when their own carrier has
// answered the closer and another has not. Descriptors that the tables of io/descriptors.h know, and
// those beyond.
#include "support/fds.h"
#include "support/placed.h"

#include <stdatomic.h>
#include <sys/resource.h>

enum { BEYOND = 2000, LIMIT = 1024 };

struct late {
    struct channel channel; // its reading end is closed
    struct channel other;   // goes on meanwhile
    int release[2];         // a pipe: a byte lets the second carrier go
    atomic_bool held;       // it is held, by plain read(2)
    atomic_bool closes;     // the next that the first carrier's task does is weft_close()
    atomic_bool closes_too; // another task there, likewise
    atomic_bool began;
    ssize_t result;
    int again;
};

static void await(const atomic_bool *event)
{
    while (!atomic_load(event)) {
        CHECK_OK(weft_yield());
    }
}

/// Uses the descriptor and blocks its carrier.
static int hold_carrier(void *arg)
{
    struct late *late = arg;
    char byte;
    CHECK_EQ(weft_read(late->channel.from, &byte, 1, 1), -ETIMEDOUT);
    atomic_store(&late->held, true);
    CHECK_EQ(read(late->release[0], &byte, 1), 1);
    return 0;
}

static int read_late(void *arg)
{
    struct late *late = arg;
    char byte;
    await(&late->closes_too);
    atomic_store(&late->began, true);
    late->result = weft_read(late->channel.from, &byte, 1, weft_after(10 * WEFT_S));
    return 0;
}

static int close_late(void *arg)
{
    struct late *late = arg;
    await(&late->closes);
    atomic_store(&late->closes_too, true);
    late->again = weft_close(late->channel.from);
    return 0;
}

/// Until it does, the closer waits for the second carrier.
static int let_go(void *arg)
{
    struct late *late = arg;
    char byte = 0;
    await(&late->began);
    CHECK_EQ(weft_write(late->other.to, "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(late->other.from, &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(late->other.from, &byte, 1, 1), -ETIMEDOUT);
    CHECK_EQ(write(late->release[1], "x", 1), 1);
    return 0;
}

static int close_first(void *arg)
{
    struct late *late = arg;
    weft_task *tasks[4] = { spawn_on(1, hold_carrier, late) };
    await(&late->held);
    tasks[1] = spawn_on(0, read_late, late);
    tasks[2] = spawn_on(0, close_late, late);
    tasks[3] = spawn_on(0, let_go, late);
    atomic_store(&late->closes, true);
    CHECK_OK(weft_close(late->channel.from));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    return 0;
}

static int run_late(void *arg)
{
    CHECK_OK(weft_join(NULL, spawn_on(0, close_first, arg), WEFT_FOREVER));
    return 0;
}

static void close_before(struct channel channel, struct channel other)
{
    struct late late = { .channel = channel, .other = other, .result = 1 };
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    CHECK_EQ(pipe(late.release), 0);
    CHECK_EQ(weft_run(run_late, &late, &options), 0);
    CHECK_EQ(late.result, -EBADF);
    CHECK_EQ(late.again, -EBADF);
    CHECK_EQ(fcntl(channel.from, F_GETFD), -1);
    close(late.release[0]);
    close(late.release[1]);
    close(channel.to);
    close(other.from);
    close(other.to);
}

TEST_DRIVERS(a_call_that_begins_while_its_descriptor_is_closed_is_refused)
{
    for (int i = 0; i < CHANNEL_KINDS; i++) {
        close_before(channel_open((enum channel_kind)i, false),
                     channel_open((enum channel_kind)i, true));
    }
}

/// A channel whose numbers are higher than the limit that runtimes will see.
static struct channel open_beyond(enum channel_kind kind, bool nonblocking)
{
    struct channel low = channel_open(kind, nonblocking);
    struct channel high = { .from = fcntl(low.from, F_DUPFD_CLOEXEC, BEYOND),
                            .to = fcntl(low.to, F_DUPFD_CLOEXEC, BEYOND) };
    CHECK_OK(high.from);
    CHECK_OK(high.to);
    close(low.from);
    close(low.to);
    return high;
}

TEST_DRIVERS(so_is_one_on_a_descriptor_beyond_the_tables)
{
    struct channel channels[2 * CHANNEL_KINDS];
    struct rlimit limit;
    CHECK_OK(getrlimit(RLIMIT_NOFILE, &limit));
    if (limit.rlim_max < BEYOND + 100) {
        test_skip("may not open so many descriptors");
    }
    limit.rlim_cur = limit.rlim_max;
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit));
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        channels[i] = open_beyond((enum channel_kind)(i / 2), i % 2 == 1);
    }
    // What is open stays open.
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ LIMIT, LIMIT }));
    for (int i = 0; i < CHANNEL_KINDS; i++) {
        close_before(channels[2 * i], channels[2 * i + 1]);
    }
}
