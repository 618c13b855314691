// simfd_test.c - the calls on plain descriptors and their closing in the simulator, over many seeds.
//
// Only sockets that weft made exist there, so they are asked of the driver.
#include "support/test.h"

#include "support/fds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sched/crew.h"

static struct channel open_pair(void)
{
    struct weft__carrier *carrier = weft__carrier_self();
    int fds[2];
    CHECK_OK(carrier->driver->sockets->pair(carrier->driver_state, AF_UNIX, SOCK_STREAM, 0, fds));
    return (struct channel){ fds[0], fds[1] };
}

static struct weft_attr spread(void)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    return attr;
}

enum { STREAM = 200000, READERS = 12 };

static int write_stream(void *arg)
{
    struct channel *channel = arg;
    char *data = malloc(STREAM);
    size_t moved = 0;
    pattern_fill(data, STREAM, 0);
    CHECK_EQ(weft_write_full(&moved, channel->to, data, STREAM, WEFT_FOREVER), STREAM);
    CHECK_EQ(moved, STREAM);
    CHECK_OK(weft_close(channel->to));
    free(data);
    return 0;
}

static int read_stream(void *arg)
{
    struct channel *channel = arg;
    char *data = malloc(STREAM + 1);
    CHECK_EQ(weft_read_full(NULL, channel->from, data, STREAM + 1, WEFT_FOREVER), STREAM);
    CHECK_EQ(pattern_differs(data, STREAM, 0), STREAM);
    CHECK_OK(weft_close(channel->from));
    free(data);
    return 0;
}

/// Writer, copier and reader, each wherever it likes.
static int relay(void *arg)
{
    struct channel first = open_pair();
    struct channel second = open_pair();
    struct weft_attr attr = spread();
    struct weft_scope scope;
    struct weft_copied copied;
    (void)arg;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    CHECK_OK(weft_scope_spawn(&scope, write_stream, &first));
    CHECK_OK(weft_scope_spawn(&scope, read_stream, &second));
    CHECK_EQ(weft_copy(&copied, second.to, first.from, WEFT_COPY_ALL, WEFT_FOREVER), 0);
    CHECK_EQ(copied.written, STREAM);
    CHECK_OK(weft_close(second.to));
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_OK(weft_close(first.from));
    struct weft_io_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_io_stats(weft_runtime_current(), -1, &stats));
    CHECK_GT(stats.submitted, 0);
    CHECK_EQ(stats.submitted, stats.completed);
    return 0;
}

static int read_until_closed(void *arg)
{
    int fd = *(int *)arg;
    char byte;
    ssize_t n;
    while ((n = weft_read(fd, &byte, 1, weft_after(50 * WEFT_US))) == 1 || n == -ETIMEDOUT) {
    }
    CHECK_EQ(n, -EBADF);
    return 0;
}

static int close_under_readers(void *arg)
{
    struct channel channel = open_pair();
    struct weft_attr attr = spread();
    struct weft_scope scope;
    (void)arg;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < READERS; i++) {
        CHECK_OK(weft_scope_spawn(&scope, read_until_closed, &channel.from));
    }
    CHECK_EQ(weft_write(channel.to, "bytes", 5, WEFT_FOREVER), 5);
    CHECK_OK(weft_sleep(200 * WEFT_US));
    CHECK_OK(weft_close(channel.from));
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_OK(weft_close(channel.to));
    return 0;
}

static void run_seeds(weft_fn fn)
{
    uint64_t seeds = test_scaled(200);
    for (uint64_t i = 0; i < seeds; i++) {
        struct weft_sim_options options = { .seed = test_seed() + i, .carriers = 3 };
        struct weft_sim_result first;
        struct weft_sim_result again;
        int rc = weft_sim_run(&first, fn, NULL, &options);
        if (rc != 0) {
            FAIL("seed %" PRIu64 ": %d", options.seed, rc);
        }
        CHECK_OK(weft_sim_run(&again, fn, NULL, &options));
        CHECK_EQ(first.trace_hash, again.trace_hash);
    }
}

TEST(a_relay_of_plain_descriptors_works_for_every_seed)
{
    run_seeds(relay);
}

TEST(closing_ends_readers_for_every_seed)
{
    run_seeds(close_under_readers);
}
