// fdsweep_test.c - interrupts every call on descriptors at every point where it waits.
//
// A victim makes calls while others play its peers. It is cancelled, or its deadline comes, after 0, 1,
// 2, ... rounds of the scheduler, until it is too late for that. Each time the call has either done
// its work or says why not; and what arrived, what was sent and what is still on its way add up to
// what there was.
#include "support/fdcalls.h"
#include "support/gather.h"

#include <stdatomic.h>

/// What a play needs; each uses what it likes.
struct play {
    struct channel channel;
    struct channel other;
    ssize_t (*call)(struct play *play, int fd, void *data, size_t size, size_t *moved);
    reader_fn read;
    writer_fn write;
    size_t size;       // of the stream
    size_t moved;      // by the victim
    size_t seen;       // by its peer
    uint16_t port;     // of channel.from, if that listens
    atomic_int opened; // connections
};

enum interruption { CANCEL, LATE };
static enum interruption interruption; // of all plays of a test
static bool spread;                    // over two carriers, or all on one
enum { ROUNDS_MOST = 300 };

/// Runs the victim and interrupts it after so many rounds. True: it was over before.
static bool interrupt(weft_fn victim, struct play *play, int rounds)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task;
    int result;
    attr.place = spread ? WEFT_PLACE_SPREAD : WEFT_PLACE_CURRENT;
    if (interruption == LATE) {
        atomic_store(&fdcalls_until, weft_after((weft_time)rounds * 5 * WEFT_US));
    }
    CHECK_OK(weft_spawn(&task, victim, play, &attr));
    for (int i = 0; i < rounds && interruption == CANCEL; i++) {
        CHECK_OK(weft_yield());
    }
    if (interruption == CANCEL) {
        weft_task_cancel(task);
    }
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    atomic_store(&fdcalls_until, WEFT_FOREVER);
    if (result != 0 && result != (interruption == CANCEL ? -ECANCELED : -ETIMEDOUT)) {
        FAIL("after %d rounds: %d", rounds, result);
    }
    return result == 0;
}

/// Plays again and again, interrupted later each time, until the end has been reached thrice.
static void sweep(bool (*play)(int rounds, void *arg), void *arg)
{
    int before = count_descriptors();
    int ends = 0;
    int rounds = 0;
    while (ends < 3 && rounds < ROUNDS_MOST) {
        ends += play(rounds, arg);
        rounds += rounds < (test_is_slow() ? 12 : 60) ? 1 : 7;
    }
    CHECK_EQ(count_descriptors(), before);
}

static struct weft_attr placed(void)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = spread ? WEFT_PLACE_SPREAD : WEFT_PLACE_CURRENT;
    return attr;
}

// Reading.

static ssize_t call_reader(struct play *play, int fd, void *data, size_t size, size_t *moved)
{
    ssize_t n = play->read(fd, data, size);
    *moved = n > 0 ? (size_t)n : 0;
    return n;
}

static ssize_t call_read_full(struct play *play, int fd, void *data, size_t size, size_t *moved)
{
    (void)play;
    return weft_read_full(moved, fd, data, size, fdcalls_deadline());
}

static ssize_t call_recv_all(struct play *play, int fd, void *data, size_t size, size_t *moved)
{
    (void)play;
    ssize_t n = weft_recv(fd, data, size, MSG_WAITALL, fdcalls_deadline());
    *moved = n > 0 ? (size_t)n : 0;
    return n;
}

static int victim_reads(void *arg)
{
    struct play *play = arg;
    char data[700];
    ssize_t n = 1;
    while (play->moved < play->size && n > 0) {
        size_t left = play->size - play->moved;
        size_t moved = 0;
        n = play->call(play, play->channel.from, data, left < sizeof data ? left : sizeof data,
                       &moved);
        CHECK_EQ(pattern_differs(data, moved, play->moved), moved);
        play->moved += moved;
    }
    return n < 0 ? (int)n : 0;
}

static int peer_writes(void *arg)
{
    struct play *play = arg;
    char data[500];
    for (size_t at = 0; at < play->size; at += sizeof data) {
        pattern_fill(data, sizeof data, at);
        CHECK_EQ(weft_write_full(NULL, play->channel.to, data, sizeof data, WEFT_FOREVER),
                 (ssize_t)sizeof data);
        CHECK_OK(weft_yield());
        CHECK_OK(weft_yield());
    }
    return 0;
}

static bool play_reading(int rounds, void *arg)
{
    struct play *model = arg;
    struct play play = { .channel = model->channel, .call = model->call, .read = model->read };
    struct weft_attr attr = placed();
    char data[2000];
    weft_task *peer;
    play.size = sizeof data;
    CHECK_OK(weft_spawn(&peer, peer_writes, &play, &attr));
    bool over = interrupt(victim_reads, &play, rounds);
    size_t rest = play.size - play.moved; // still in the channel
    CHECK_EQ(weft_read_full(NULL, play.channel.from, data, rest, WEFT_FOREVER), (ssize_t)rest);
    CHECK_EQ(pattern_differs(data, rest, play.moved), rest);
    CHECK_OK(weft_join(NULL, peer, WEFT_FOREVER));
    return over;
}

static int sweep_reading(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        enum channel_kind kind = (enum channel_kind)(i / 2);
        size_t count = kind == CHANNEL_PIPE ? FOR_SOCKETS : sizeof readers / sizeof readers[0];
        struct play play = { .channel = channel_open(kind, i % 2 == 1), .call = call_reader };
        for (size_t r = 0; r < count; r++) {
            play.read = readers[r];
            sweep(play_reading, &play);
        }
        play.call = call_read_full;
        sweep(play_reading, &play);
        if (kind != CHANNEL_PIPE) {
            play.call = call_recv_all;
            sweep(play_reading, &play);
        }
        channel_close(play.channel);
    }
    return 0;
}

// Writing.

static ssize_t call_writer(struct play *play, int fd, void *data, size_t size, size_t *moved)
{
    ssize_t n = play->write(fd, data, size);
    *moved = n > 0 ? (size_t)n : 0;
    return n;
}

static ssize_t call_write_full(struct play *play, int fd, void *data, size_t size, size_t *moved)
{
    (void)play;
    return weft_write_full(moved, fd, data, size, fdcalls_deadline());
}

static ssize_t call_writev_full(struct play *play, int fd, void *data, size_t size, size_t *moved)
{
    struct iovec parts[2] = { { data, size / 3 }, { (char *)data + size / 3, size - size / 3 } };
    (void)play;
    return weft_writev_full(moved, fd, parts, 2, fdcalls_deadline());
}

static int victim_writes(void *arg)
{
    struct play *play = arg;
    enum { PIECE = 100000 };
    char *data = malloc(PIECE);
    ssize_t n = 1;
    while (play->moved < play->size && n > 0) {
        size_t left = play->size - play->moved;
        size_t moved = 0;
        size_t size = left < PIECE ? left : PIECE;
        pattern_fill(data, size, play->moved);
        n = play->call(play, play->channel.to, data, size, &moved);
        play->moved += moved;
    }
    free(data);
    return n < 0 ? (int)n : 0;
}

static int peer_reads(void *arg)
{
    struct play *play = arg;
    char *data = malloc(30000);
    ssize_t n;
    while ((n = weft_read(play->channel.from, data, 30000, WEFT_FOREVER)) > 0) {
        CHECK_EQ(pattern_differs(data, (size_t)n, play->seen), (size_t)n);
        play->seen += (size_t)n;
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(n, 0);
    free(data);
    return 0;
}

static enum channel_kind sweep_kind;
static bool sweep_nonblocking;

static bool play_writing(int rounds, void *arg)
{
    struct play *model = arg;
    struct play play = { .call = model->call, .write = model->write };
    struct weft_attr attr = placed();
    weft_task *peer;
    play.channel = channel_open(sweep_kind, sweep_nonblocking);
    channel_shrink(play.channel, sweep_kind);
    play.size = sweep_kind == CHANNEL_TCP ? 400000 : 100000; // more than it holds
    CHECK_OK(weft_spawn(&peer, peer_reads, &play, &attr));
    bool over = interrupt(victim_writes, &play, rounds);
    CHECK_OK(weft_close(play.channel.to));
    CHECK_OK(weft_join(NULL, peer, WEFT_FOREVER));
    CHECK_EQ(play.seen, play.moved);
    CHECK_OK(weft_close(play.channel.from));
    return over;
}

static int sweep_writing(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        sweep_kind = (enum channel_kind)(i / 2);
        sweep_nonblocking = i % 2 == 1;
        size_t count = sweep_kind == CHANNEL_PIPE ? FOR_SOCKETS
                                                  : sizeof writers / sizeof writers[0];
        struct play play = { .call = call_writer };
        for (size_t w = 0; w < count; w++) {
            if (writers[w] != use_write_full) { // it does not say how much it wrote
                play.write = writers[w];
                sweep(play_writing, &play);
            }
        }
        play.call = call_write_full;
        sweep(play_writing, &play);
        play.call = call_writev_full;
        sweep(play_writing, &play);
    }
    return 0;
}

// Connecting.

enum { CONNECTIONS = 3 };

static int victim_accepts(void *arg)
{
    struct play *play = arg;
    int fd = 0;
    while (play->moved < CONNECTIONS && fd >= 0) {
        fd = weft_accept_fd(play->channel.from, NULL, NULL, SOCK_CLOEXEC, fdcalls_deadline());
        if (fd >= 0) {
            play->moved++;
            CHECK_OK(weft_close(fd));
        }
    }
    return fd < 0 ? fd : 0;
}

static int peer_connects(void *arg)
{
    struct play *play = arg;
    struct sockaddr_in addr = loopback(play->port);
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_EQ(weft_connect(fd, (struct sockaddr *)&addr, sizeof addr, WEFT_FOREVER), 0);
        CHECK_OK(weft_close(fd));
        CHECK_OK(weft_yield());
    }
    return 0;
}

static bool play_accepting(int rounds, void *arg)
{
    struct play *model = arg;
    struct play play = { .channel = model->channel, .port = model->port };
    struct weft_attr attr = placed();
    weft_task *peer;
    CHECK_OK(weft_spawn(&peer, peer_connects, &play, &attr));
    bool over = interrupt(victim_accepts, &play, rounds);
    for (; play.moved < CONNECTIONS; play.moved++) { // no connection is lost
        int fd = weft_accept_fd(play.channel.from, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
        CHECK_OK(fd);
        CHECK_OK(weft_close(fd));
    }
    CHECK_OK(weft_join(NULL, peer, WEFT_FOREVER));
    CHECK_EQ(weft_accept_fd(play.channel.from, NULL, NULL, 0, 1), -ETIMEDOUT); // nor made up
    return over;
}

static int victim_connects(void *arg)
{
    struct play *play = arg;
    struct sockaddr_in addr = loopback(play->port);
    int rc = 0;
    for (int i = 0; i < CONNECTIONS && rc == 0; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (i == 1 ? SOCK_NONBLOCK : 0), 0);
        rc = weft_connect(fd, (struct sockaddr *)&addr, sizeof addr, fdcalls_deadline());
        play->moved += rc == 0;
        CHECK_EQ(weft_close(fd), 0); // works in a cancelled task
    }
    return rc;
}

static bool play_connecting(int rounds, void *arg)
{
    struct play *model = arg;
    struct play play = { .channel = model->channel, .port = model->port };
    bool over = interrupt(victim_connects, &play, rounds);
    size_t seen = 0;
    int fd;
    while ((fd = weft_accept_fd(play.channel.from, NULL, NULL, SOCK_CLOEXEC, 1)) >= 0) {
        CHECK_OK(weft_close(fd));
        seen++;
    }
    CHECK_EQ(fd, -ETIMEDOUT);
    CHECK_GE(seen, play.moved); // an interrupted one may have been made nevertheless
    CHECK_LE(seen, play.moved + 1);
    return over;
}

static int sweep_connecting(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct play play = { 0 };
        play.channel.from = listen_tcp(&play.port, 16);
        if (i == 1) {
            set_nonblocking(play.channel.from);
        }
        sweep(play_accepting, &play);
        sweep(play_connecting, &play);
        CHECK_OK(weft_close(play.channel.from));
    }
    return 0;
}

// Files, and blocking calls.

static int count_call(void *arg)
{
    ++*(size_t *)arg;
    return 0;
}

static int victim_uses_a_file(void *arg)
{
    struct play *play = arg;
    int fd = play->channel.from;
    char data[5000];
    struct iovec part = { data, sizeof data };
    int64_t at = 0;
    ssize_t n = 0;
    pattern_fill(data, sizeof data, 0);
    for (int i = 0; i < 3 && n >= 0; i++, at += (int64_t)sizeof data) {
        if ((n = weft_pwrite(fd, data, sizeof data, at, fdcalls_deadline())) < 0 ||
            (n = weft_pread(fd, data, sizeof data, at, fdcalls_deadline())) < 0 ||
            (n = weft_preadv(fd, &part, 1, at, fdcalls_deadline())) < 0 ||
            (n = weft_pwritev(fd, &part, 1, at, fdcalls_deadline())) < 0) {
            break;
        }
        CHECK_EQ(n, (ssize_t)sizeof data);
        CHECK_EQ(pattern_differs(data, sizeof data, 0), sizeof data);
        if ((n = weft_fsync(fd, fdcalls_deadline())) < 0 ||
            (n = weft_fdatasync(fd, fdcalls_deadline())) < 0 ||
            (n = weft_poll(fd, POLLIN, fdcalls_deadline())) < 0) {
            break;
        }
        n = weft_blocking(count_call, &play->seen, fdcalls_deadline());
        play->moved += n == 0;
    }
    return n < 0 ? (int)n : 0;
}

static bool play_files(int rounds, void *arg)
{
    struct play play = { 0 };
    (void)arg;
    play.channel.from = temp_file();
    bool over = interrupt(victim_uses_a_file, &play, rounds);
    CHECK_EQ(play.seen, play.moved); // a blocking call that was withdrawn was not made
    CHECK_OK(weft_close(play.channel.from));
    return over;
}

static int sweep_files(void *arg)
{
    (void)arg;
    sweep(play_files, NULL);
    return 0;
}

// Copying: channel is the input, other the output.

static int victim_copies(void *arg)
{
    struct play *play = arg;
    struct weft_copied copied;
    int rc = weft_copy(&copied, play->other.to, play->channel.from, WEFT_COPY_ALL,
                       fdcalls_deadline());
    play->moved = copied.written;
    play->size = copied.read;
    return rc;
}

static int victim_splices(void *arg)
{
    struct play *play = arg;
    ssize_t n;
    while ((n = weft_splice(play->channel.from, NULL, play->other.to, NULL, 10000, 0,
                            fdcalls_deadline())) > 0) {
        play->moved += (size_t)n;
    }
    play->size = play->moved;
    return (int)n;
}

static int victim_sends_a_file(void *arg)
{
    struct play *play = arg;
    int64_t offset = 0;
    ssize_t n;
    while ((n = weft_sendfile(play->other.to, play->channel.from, &offset, 50000,
                              fdcalls_deadline())) > 0) {
        play->moved += (size_t)n;
    }
    CHECK_EQ(offset, play->moved);
    play->size = play->moved;
    return (int)n;
}

enum { COPIED = 150000 };

static int peer_feeds(void *arg)
{
    struct play *play = arg;
    char *data = malloc(COPIED);
    pattern_fill(data, COPIED, 0);
    CHECK_EQ(weft_write_full(NULL, play->channel.to, data, COPIED, WEFT_FOREVER), COPIED);
    CHECK_OK(weft_close(play->channel.to));
    free(data);
    return 0;
}

static int peer_drains(void *arg)
{
    struct play *play = arg;
    struct play inner = { .channel = play->other };
    int rc = peer_reads(&inner);
    play->seen = inner.seen;
    return rc;
}

static bool play_copying(int rounds, void *arg)
{
    weft_fn victim = *(weft_fn *)arg;
    struct play play = { 0 };
    struct weft_attr attr = placed();
    weft_task *feeder = NULL;
    weft_task *drainer;
    play.other = channel_open(sweep_kind, sweep_nonblocking);
    if (victim == victim_sends_a_file) {
        int fd = temp_file();
        play.channel = (struct channel){ fd, dup(fd) };
        CHECK_EQ(peer_feeds(&play), 0);
        CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    } else {
        bool pipe = victim == victim_splices && sweep_kind != CHANNEL_PIPE;
        play.channel = channel_open(pipe ? CHANNEL_PIPE : CHANNEL_UNIX, sweep_nonblocking);
        CHECK_OK(weft_spawn(&feeder, peer_feeds, &play, &attr));
    }
    CHECK_OK(weft_spawn(&drainer, peer_drains, &play, &attr));
    bool over = interrupt(victim, &play, rounds);
    CHECK_OK(weft_close(play.other.to));
    CHECK_OK(weft_join(NULL, drainer, WEFT_FOREVER));
    CHECK_EQ(play.seen, play.moved);
    if (feeder != NULL) { // what was not taken is still there
        struct play rest = { .channel = play.channel, .seen = play.size };
        CHECK_EQ(peer_reads(&rest), 0);
        CHECK_EQ(rest.seen, COPIED);
        CHECK_OK(weft_join(NULL, feeder, WEFT_FOREVER));
    }
    CHECK_OK(weft_close(play.channel.from));
    CHECK_OK(weft_close(play.other.from));
    return over;
}

static int sweep_copying(void *arg)
{
    (void)arg;
    weft_fn victims[] = { victim_copies, victim_splices, victim_sends_a_file };
    for (int i = 0; i < 2 * CHANNEL_KINDS; i++) {
        sweep_kind = (enum channel_kind)(i / 2);
        sweep_nonblocking = i % 2 == 1;
        for (int k = 0; k < 3; k++) {
            sweep(play_copying, &victims[k]);
        }
    }
    return 0;
}

static void run_all(weft_fn fn)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    int before = count_descriptors();
    for (int i = 0; i < 4; i += test_is_slow() ? 3 : 1) {
        interruption = i % 2 == 0 ? CANCEL : LATE;
        spread = i >= 2;
        options.carriers = spread ? 2 : 1;
        CHECK_EQ(weft_run(fn, NULL, &options), 0);
        CHECK_EQ(count_descriptors(), before);
    }
}

TEST_DRIVERS(reading_is_interrupted_at_every_point)
{
    run_all(sweep_reading);
}

TEST_DRIVERS(writing_is_interrupted_at_every_point)
{
    run_all(sweep_writing);
}

TEST_DRIVERS(connecting_is_interrupted_at_every_point)
{
    run_all(sweep_connecting);
}

TEST_DRIVERS(files_are_interrupted_at_every_point)
{
    run_all(sweep_files);
}

TEST_DRIVERS(copying_is_interrupted_at_every_point)
{
    run_all(sweep_copying);
}
