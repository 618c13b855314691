// splice_future_test.c - moving bytes inside the kernel as a future (future/io_splice.c).
#include "support/hand.h"

#include "support/fdrun.h"
#include "support/fds.h"
#include "support/placed.h"

#include <string.h>

static int64_t await_splice(struct weft_splice_future *splice, weft_time deadline)
{
    int64_t result = weft_await(&splice->future, deadline);
    weft_future_fini(&splice->future);
    return result;
}

/// What is written at `to` can be read at `from`.
static struct channel open_channel(enum channel_kind kind)
{
    return channel_open(kind, false);
}

static void put(int fd, const char *text)
{
    CHECK_EQ(weft_write(fd, text, strlen(text), WEFT_FOREVER), (ssize_t)strlen(text));
}

static void expect(int fd, const char *text)
{
    char data[64];
    CHECK_EQ(weft_read(fd, data, sizeof data, WEFT_FOREVER), (ssize_t)strlen(text));
    CHECK_EQ(memcmp(data, text, strlen(text)), 0);
}

static int move_between_kinds(void *arg)
{
    (void)arg;
    for (int kind = CHANNEL_PIPE; kind < CHANNEL_KINDS; kind++) {
        struct channel pipe = open_channel(CHANNEL_PIPE);
        struct channel other = open_channel((enum channel_kind)kind);
        struct weft_splice_future splice;
        put(pipe.to, "there");
        weft_splice_future(&splice, pipe.from, NULL, other.to, NULL, 100, 0);
        CHECK_EQ(await_splice(&splice, WEFT_FOREVER), 5);
        expect(other.from, "there");
        put(other.to, "and back");
        weft_splice_future(&splice, other.from, NULL, pipe.to, NULL, 3, 0);
        CHECK_EQ(await_splice(&splice, WEFT_FOREVER), 3);
        expect(pipe.from, "and");
        CHECK_OK(weft_close(other.to));
        weft_splice_future(&splice, other.from, NULL, pipe.to, NULL, 100, 0);
        CHECK_EQ(await_splice(&splice, WEFT_FOREVER), 5);
        weft_splice_future(&splice, other.from, NULL, pipe.to, NULL, 100, 0);
        CHECK_EQ(await_splice(&splice, WEFT_FOREVER), 0); // the end
        CHECK_OK(weft_close(other.from));
        channel_close(pipe);
    }
    return 0;
}

TEST_DRIVERS(bytes_move_between_pipes_and_sockets)
{
    run(move_between_kinds);
}

static int use_positions(void *arg)
{
    (void)arg;
    struct channel pipe = open_channel(CHANNEL_PIPE);
    struct weft_splice_future splice;
    int64_t from = 2;
    int64_t to = 1;
    int file = temp_file();
    put(file, "abcdef");
    weft_splice_future(&splice, file, &from, pipe.to, NULL, 3, 0);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), 3);
    CHECK_EQ(from, 5);
    weft_splice_future(&splice, pipe.from, NULL, file, &to, 100, 0);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), 3);
    CHECK_EQ(to, 4);
    char data[8];
    CHECK_EQ(weft_pread(file, data, sizeof data, 0, WEFT_FOREVER), 6);
    CHECK_EQ(memcmp(data, "acdeef", 6), 0);
    CHECK_EQ(lseek(file, 0, SEEK_CUR), 6);
    from = 6;
    weft_splice_future(&splice, file, &from, pipe.to, NULL, 3, 0);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), 0);
    CHECK_EQ(from, 6);
    CHECK_OK(weft_close(file));
    channel_close(pipe);
    return 0;
}

TEST_DRIVERS(files_have_positions)
{
    run(use_positions);
}

static void fill(int fd)
{
    static const char zeros[4096];
    set_nonblocking(fd);
    while (write(fd, zeros, sizeof zeros) > 0) {
    }
    CHECK_EQ(errno, EAGAIN);
}

/// It waits for the input, then for room in the output.
static int wait_for_both(void *arg)
{
    (void)arg;
    struct channel in = open_channel(CHANNEL_PIPE);
    struct channel out = open_channel(CHANNEL_PIPE);
    struct weft_splice_future splice;
    struct hand hand = { 0 };
    char room[4096];
    fill(out.to);
    weft_splice_future(&splice, in.from, NULL, out.to, NULL, 100, 0);
    CHECK_EQ(hand_poll(&hand, &splice.future), WEFT_PENDING);
    put(in.to, "ab");
    CHECK_EQ(await_splice(&splice, weft_after(5 * WEFT_MS)), -ETIMEDOUT); // there is no room
    CHECK_EQ(atomic_load(&hand.woken), 0);
    weft_splice_future(&splice, in.from, NULL, out.to, NULL, 100, 0);
    CHECK_EQ(hand_poll(&hand, &splice.future), WEFT_PENDING);
    CHECK_EQ(weft_read(out.from, room, sizeof room, WEFT_FOREVER), (ssize_t)sizeof room);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), 2); // nothing was lost
    channel_close(in);
    channel_close(out);
    return 0;
}

TEST_DRIVERS(both_ends_are_waited_for)
{
    run(wait_for_both);
}

static int cancel_it(void *arg)
{
    (void)arg;
    struct channel in = open_channel(CHANNEL_PIPE);
    struct channel out = open_channel(CHANNEL_UNIX);
    struct weft_splice_future splice;
    struct hand hand = { 0 };
    weft_splice_future(&splice, in.from, NULL, out.to, NULL, 100, 0);
    weft_future_cancel(&splice.future); // before it began
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -ECANCELED);
    weft_splice_future(&splice, in.from, NULL, out.to, NULL, 100, 0);
    CHECK_EQ(hand_poll(&hand, &splice.future), WEFT_PENDING);
    weft_future_cancel(&splice.future);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -ECANCELED);
    weft_task *task; // as a task of its own
    int result;
    weft_splice_future(&splice, in.from, NULL, out.to, NULL, 100, 0);
    CHECK_OK(weft_spawn_future(&task, &splice.future, NULL));
    let_others_park();
    weft_task_cancel(task);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
    channel_close(in);
    channel_close(out);
    return 0;
}

TEST_DRIVERS(it_can_be_cancelled)
{
    run(cancel_it);
}

/// A cancel, a deadline and bytes at the same time: bytes are moved or they are still there.
static int race_with_bytes(void *arg)
{
    (void)arg;
    uint64_t random = test_seed();
    struct channel in = open_channel(CHANNEL_PIPE);
    struct channel out = open_channel(CHANNEL_UNIX);
    uint64_t moved = 0;
    uint64_t written = 0;
    for (uint64_t round = 0; round < test_scaled(200); round++) {
        struct weft_splice_future splice;
        struct hand hand = { 0 };
        weft_splice_future(&splice, in.from, NULL, out.to, NULL, 1, 0);
        CHECK_EQ(hand_poll(&hand, &splice.future), WEFT_PENDING);
        bool writes = test_random(&random) % 4 != 0;
        if (writes) {
            put(in.to, "x");
            written++;
        }
        for (uint64_t turns = test_random(&random) % 3; turns > 0; turns--) {
            CHECK_OK(weft_yield());
        }
        bool cancels = test_random(&random) % 2 == 0;
        if (cancels) {
            weft_future_cancel(&splice.future);
        }
        int64_t result = await_splice(&splice, weft_after(test_random(&random) % (50 * WEFT_US)));
        CHECK(result == 1 || result == -ETIMEDOUT || (cancels && result == -ECANCELED));
        moved += result == 1;
        if (written > moved) {
            expect(in.from, "x");
            written--;
        }
        CHECK_EQ(written, moved);
    }
    for (; moved > 0; moved--) {
        char byte;
        CHECK_EQ(weft_read(out.from, &byte, 1, weft_now()), 1);
    }
    channel_close(in);
    channel_close(out);
    return 0;
}

TEST_DRIVERS(cancels_and_deadlines_lose_nothing)
{
    run(race_with_bytes);
}

static int close_one(void *arg)
{
    return weft_close(*(int *)arg);
}

/// Closing either end, from either carrier, ends one that waits for the other.
static int close_ends(void *arg)
{
    (void)arg;
    for (int i = 0; i < 16; i++) {
        struct channel in = open_channel(CHANNEL_PIPE);
        struct channel out = open_channel(CHANNEL_PIPE);
        struct weft_splice_future splice;
        struct hand hand = { 0 };
        bool full = (i & 1) != 0;
        if (full) {
            fill(out.to);
            put(in.to, "x");
        }
        weft_splice_future(&splice, in.from, NULL, out.to, NULL, 100, 0);
        CHECK_EQ(hand_poll(&hand, &splice.future), WEFT_PENDING);
        int *closed = (i & 2) != 0 ? &in.from : &out.to;
        weft_task *task = spawn_on((i & 4) != 0 ? 1 : 0, close_one, closed);
        CHECK_EQ(join(task), 0);
        CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -EBADF);
        CHECK_OK(weft_close(closed == &in.from ? out.to : in.from));
        CHECK_OK(weft_close(in.to));
        CHECK_OK(weft_close(out.from));
    }
    return 0;
}

TEST_DRIVERS(closing_either_end_ends_it)
{
    run(close_ends);
}

/// Many wait for the bytes of one pipe: who is too late waits on.
static int rivals(void *arg)
{
    (void)arg;
    enum { COUNT = 8 };
    static struct weft_splice_future splices[COUNT];
    static struct weft_branch branches[COUNT];
    struct channel in = open_channel(CHANNEL_PIPE);
    struct channel out = open_channel(CHANNEL_UNIX);
    struct weft_combine all;
    weft_task *task;
    int failed;
    for (int i = 0; i < COUNT; i++) {
        weft_splice_future(&splices[i], in.from, NULL, out.to, NULL, 1, 0);
        branches[i] = (struct weft_branch){ .future = &splices[i].future };
    }
    weft_combine_join(&all, branches, COUNT);
    CHECK_OK(weft_spawn_future(&task, &all.future, NULL));
    for (int i = 0; i < COUNT; i++) {
        let_others_park();
        put(in.to, "r");
        expect(out.from, "r");
    }
    CHECK_OK(weft_join(&failed, task, WEFT_FOREVER));
    CHECK_EQ(failed, 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(splices[i].future.result, 1);
    }
    channel_close(in);
    channel_close(out);
    return 0;
}

TEST_DRIVERS(rivals_wait_on)
{
    run(rivals);
}

static int refuse(void *arg)
{
    (void)arg;
    struct channel in = open_channel(CHANNEL_PIPE);
    struct channel out = open_channel(CHANNEL_PIPE);
    struct channel sockets[2] = { open_channel(CHANNEL_UNIX), open_channel(CHANNEL_UNIX) };
    struct weft_splice_future splice;
    int64_t before = -1;
    weft_splice_future(&splice, in.from, NULL, in.from, NULL, 1, 0);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -EINVAL);
    weft_splice_future(&splice, in.from, &before, out.to, NULL, 1, 0);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -EINVAL);
    weft_splice_future(&splice, in.from, NULL, out.to, &before, 1, 0);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -EINVAL);
    weft_splice_future(&splice, -1, NULL, out.to, NULL, 1, 0);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -EBADF);
    weft_splice_future(&splice, in.from, NULL, -1, NULL, 1, 0);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -EBADF);
    weft_splice_future(&splice, in.from, NULL, out.to, NULL, 0, 0);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), 0);
    weft_splice_future(&splice, in.from, NULL, out.to, NULL, 1, SPLICE_F_NONBLOCK);
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -EAGAIN);
    put(sockets[0].to, "x");
    weft_splice_future(&splice, sockets[0].from, NULL, sockets[1].to, NULL, 1, 0); // no pipe
    CHECK_EQ(await_splice(&splice, WEFT_FOREVER), -EINVAL);
    channel_close(in);
    channel_close(out);
    channel_close(sockets[0]);
    channel_close(sockets[1]);
    return 0;
}

TEST_DRIVERS(what_makes_no_sense_is_refused)
{
    run(refuse);
}
