// fdparity_test.c - io_uring and epoll give the same answers.
//
// One task makes a random sequence of calls, with deadlines that have passed so that none waits for
// long, first on one driver and then on the other; every result and every byte has to be the same.
// TCP is left out: when its segments arrive is not ours to say. So are deadlines where a thread of the
// kernel or of the pool does the work: they come late, or not.
#include "support/fds.h"
#include "support/gather.h"

#include <inttypes.h>
#include <stdio.h>

enum { CALLS = 400, FDS = 16, DATA = 70000 };

struct answer {
    int64_t result;
    uint64_t sum; // of the bytes
    int what;
    int fd;
};

struct script {
    uint64_t seed;
    struct answer answers[CALLS];
};

static void open_all(int fds[FDS])
{
    for (int i = 0; i < 2; i++) { // in both modes
        struct channel pipe = channel_open(CHANNEL_PIPE, i == 1);
        struct channel stream = channel_open(CHANNEL_UNIX, i == 1);
        int type = SOCK_DGRAM | SOCK_CLOEXEC | (i == 1 ? SOCK_NONBLOCK : 0);
        int messages[2];
        CHECK_OK(socketpair(AF_UNIX, type, 0, messages));
        int own[6] = { pipe.from, pipe.to, stream.from, stream.to, messages[0], messages[1] };
        memcpy(&fds[6 * i], own, sizeof own);
    }
    fds[12] = temp_file();
    fds[13] = memfd_create("parity", MFD_CLOEXEC);
    fds[14] = open("/dev/null", O_RDWR | O_CLOEXEC);
    fds[15] = open(temp_place(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static uint64_t sum_of(const unsigned char *data, int64_t size)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < size; i++) {
        sum = sum * 31 + data[i];
    }
    return sum;
}

static int64_t read_somehow(int how, int fd, unsigned char *data, size_t size, uint64_t random,
                            weft_time deadline)
{
    struct iovec parts[2] = { { data, size / 2 }, { data + size / 2, size - size / 2 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    static const int flags[] = { 0, 0, MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, MSG_TRUNC };
    int flag = flags[random % 6];
    switch (how) {
    case 0: return weft_read(fd, data, size, deadline);
    case 1: return weft_readv(fd, parts, 2, deadline);
    case 2: return weft_pread(fd, data, size, (int64_t)(random % 1000), deadline);
    case 3: return weft_preadv(fd, parts, 2, (int64_t)(random % 1000), deadline);
    // MSG_TRUNC would make a stream socket drop bytes: for datagrams only, which recvmsg tells.
    case 4: return weft_recv(fd, data, size, flag & ~MSG_TRUNC, deadline);
    case 5: return weft_recvmsg(fd, &message, flag & ~MSG_TRUNC, deadline);
    case 6: return weft_read_full(NULL, fd, data, size % 100, deadline);
    default: return weft_poll(fd, POLLIN | POLLOUT, deadline);
    }
}

static int64_t write_somehow(int how, int fd, unsigned char *data, size_t size, uint64_t random,
                             weft_time deadline)
{
    struct iovec parts[2] = { { data, size / 2 }, { data + size / 2, size - size / 2 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    switch (how) {
    case 0: return weft_write(fd, data, size, deadline);
    case 1: return weft_writev(fd, parts, 2, deadline);
    case 2: return weft_pwrite(fd, data, size, (int64_t)(random % 1000), deadline);
    case 3: return weft_pwritev(fd, parts, 2, (int64_t)(random % 1000), deadline);
    case 4: return weft_send(fd, data, size, random % 2 == 0 ? 0 : MSG_DONTWAIT, deadline);
    case 5: return weft_sendmsg(fd, &message, 0, deadline);
    case 6: return weft_fsync(fd, WEFT_FOREVER);
    default: return weft_poll(fd, random % 2 == 0 ? POLLIN : POLLOUT, deadline);
    }
}

static int play(void *arg)
{
    struct script *script = arg;
    uint64_t random = script->seed;
    int fds[FDS];
    unsigned char *data = malloc(DATA);
    open_all(fds);
    for (int i = 0; i < CALLS; i++) {
        int what = (int)(test_random(&random) % 16);
        int which = (int)(test_random(&random) % FDS);
        size_t size = test_random(&random) % 4 == 0 ? test_random(&random) % DATA
                                                    : test_random(&random) % 200;
        uint64_t more = test_random(&random);
        weft_time deadline = which == 12 || which == 13 || which == 15 ? WEFT_FOREVER : 1; // files
        struct answer *answer = &script->answers[i];
        *answer = (struct answer){ .what = what, .fd = which };
        if (what < 8) {
            memset(data, 0, size);
            answer->result = read_somehow(what, fds[which], data, size, more, deadline);
            answer->sum = sum_of(data, what < 7 && answer->result > 0 ? answer->result : 0);
        } else {
            pattern_fill(data, size, more);
            answer->result = write_somehow(what - 8, fds[which], data, size, more, deadline);
        }
    }
    for (int i = 0; i < FDS; i++) {
        CHECK_OK(weft_close(fds[i]));
    }
    free(data);
    return 0;
}

static void play_on(struct script *script, enum weft_io io)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    const char *mode = getenv("WEFT_POLLER");
    options.carriers = 1;
    options.io = io;
    if (io == WEFT_IO_URING && mode != NULL && strcmp(mode, "tasks") == 0) {
        options.poller = WEFT_POLLER_CARRIER; // tasks do not wait in a ring
    }
    CHECK_EQ(weft_run(play, script, &options), 0);
}

TEST(both_drivers_give_the_same_answers)
{
    static struct script uring;
    static struct script epoll;
    if (!test_uring_available()) {
        SKIP("no io_uring");
    }
    uint64_t seeds = test_scaled(100);
    for (uint64_t s = 0; s < seeds; s++) {
        uring.seed = epoll.seed = test_seed() + s;
        play_on(&uring, WEFT_IO_URING);
        play_on(&epoll, WEFT_IO_EPOLL);
        for (int i = 0; i < CALLS; i++) {
            const struct answer *u = &uring.answers[i];
            const struct answer *e = &epoll.answers[i];
            if (u->result != e->result || u->sum != e->sum) {
                FAIL("seed %" PRIu64 ", call %d (%d on %d): uring %" PRId64 ", epoll %" PRId64,
                     uring.seed, i, u->what, u->fd, u->result, e->result);
            }
        }
    }
}
