// epoll_aside_test.c - operations of the epoll driver that an event alone does not serve: those that go
// to the blocking pool, those that are tried again, and splices, which have two ends.
#include "support/calls.h"

#include <pthread.h>
#include <stdio.h>

// The blocking pool.

/// A pool of one thread that begins when it is told to.
struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct weft__job *jobs[16];
    int count;
    int refuse;
    int recalls;
    int ran;
    bool go;
    bool stop;
    pthread_t thread;
};

static int pool_send(void *arg, struct weft__job *job)
{
    struct pool *pool = arg;
    if (pool->refuse != 0) {
        return pool->refuse;
    }
    pthread_mutex_lock(&pool->lock);
    CHECK_LT(pool->count, 16);
    pool->jobs[pool->count++] = job;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    return 0;
}

static bool pool_recall(void *arg, struct weft__job *job)
{
    struct pool *pool = arg;
    bool found = false;
    pthread_mutex_lock(&pool->lock);
    for (int i = 0; i < pool->count; i++) {
        if (pool->jobs[i] == job) {
            pool->jobs[i] = pool->jobs[--pool->count];
            pool->recalls++;
            found = true;
            break;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

static void *pool_main(void *arg)
{
    struct pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop || pool->count > 0) {
        if (!pool->go || pool->count == 0) {
            pthread_cond_wait(&pool->changed, &pool->lock);
            continue;
        }
        struct weft__job *job = pool->jobs[--pool->count];
        pthread_mutex_unlock(&pool->lock);
        job->run(job);
        pthread_mutex_lock(&pool->lock);
        pool->ran++;
        pthread_cond_broadcast(&pool->changed);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void pool_tell(struct pool *pool, bool *what)
{
    pthread_mutex_lock(&pool->lock);
    *what = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

/// Waits until so many jobs have been run.
static void pool_await(struct pool *pool, int count)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->ran < count) {
        pthread_cond_wait(&pool->changed, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void *open_with_pool(struct pool *pool, bool go)
{
    *pool = (struct pool){ .lock = PTHREAD_MUTEX_INITIALIZER,
                           .changed = PTHREAD_COND_INITIALIZER,
                           .go = go };
    CHECK_EQ(pthread_create(&pool->thread, NULL, pool_main, pool), 0);
    const struct weft__driver_config config = { .offload = { pool_send, pool_recall, pool } };
    return open_with(&config);
}

static void pool_end(struct pool *pool)
{
    pool->go = true;
    pool_tell(pool, &pool->stop);
    pthread_join(pool->thread, NULL);
}

static struct weft__op sync_op(int fd)
{
    return (struct weft__op){ .code = WEFT__OP_FSYNC, .fd = fd };
}

TEST(what_blocks_goes_to_the_pool_and_comes_back)
{
    struct pool pool;
    void *state = open_with_pool(&pool, true);
    int fd = make_file("hello, world");
    char data[16] = "";
    nowait_error = EAGAIN; // nothing is in memory
    for (int i = 0; i < 200; i++) {
        struct trial trials[3] = { 0 };
        struct weft__op op = read_op(fd, data, 5);
        op.offset = 7;
        trial_start(&trials[0], state, op);
        trial_start(&trials[1], state, sync_op(fd));
        CHECK(!trials[0].ended && !trials[1].ended);
        if (i % 2 == 0) {
            while (!trials[0].ended) {
                driver()->poll(state);
                sched_yield();
            }
        }
        CHECK_EQ(trial_await(&trials[0]), 5);
        CHECK_EQ(trial_await(&trials[1]), 0);
        CHECK_EQ(memcmp(data, "world", 5), 0);
    }
    CHECK_EQ(count_of(state, "offloaded"), 400u);
    driver()->close(state);
    pool_end(&pool);
}

TEST(a_job_that_has_not_begun_can_be_cancelled)
{
    struct pool pool;
    void *state = open_with_pool(&pool, false);
    int fd = make_file("x");
    struct trial trials[4] = { 0 };
    for (int i = 0; i < 4; i++) {
        trial_start(&trials[i], state, sync_op(fd));
    }
    cancel(&trials[1]);
    CHECK_EQ(trial_await(&trials[1]), -ECANCELED);
    CHECK(!trials[0].ended);
    driver()->forget(state, fd);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(trial_await(&trials[i]), -ECANCELED);
    }
    CHECK_EQ(pool.recalls, 4);
    driver()->close(state);
    pool_end(&pool);
}

TEST(a_job_that_runs_is_waited_for)
{
    struct pool pool;
    void *state = open_with_pool(&pool, true);
    int fd = make_file("x");
    for (int i = 0; i < 100; i++) {
        struct trial trial = { 0 };
        trial_start(&trial, state, sync_op(fd));
        if (i % 2 == 0) {
            sched_yield();
        }
        cancel(&trial);
        int64_t rc = trial_await(&trial);
        CHECK(rc == 0 || rc == -ECANCELED);
    }
    driver()->close(state);
    pool_end(&pool);
}

TEST(close_waits_for_jobs_that_run)
{
    for (int i = 0; i < 50; i++) {
        struct pool pool;
        void *state = open_with_pool(&pool, i % 2 == 0);
        int fd = make_file("x");
        struct trial trials[4] = { 0 };
        for (int k = 0; k < 4; k++) {
            trial_start(&trials[k], state, sync_op(fd));
        }
        driver()->close(state);
        for (int k = 0; k < 4; k++) {
            CHECK(!trials[k].ended);
        }
        pool_end(&pool);
        close(fd);
    }
}

TEST(a_pool_that_refuses_is_an_error)
{
    struct pool pool;
    void *state = open_with_pool(&pool, true);
    int fd = make_file("x");
    pool.refuse = -EAGAIN;
    struct trial trial = { 0 };
    trial_start(&trial, state, sync_op(fd));
    CHECK(trial.ended);
    CHECK_EQ(trial.result, -EAGAIN);
    driver()->close(state);
    pool_end(&pool);
}

// Ops that no event tells about.

static int make_unix_listener(struct sockaddr_un *address, int type, const char *name)
{
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    // Abstract, and its own in each test process.
    snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "weft-%s-%d", name, getpid());
    CHECK_OK(bind(fd, (struct sockaddr *)address, sizeof *address));
    return fd;
}

TEST(connect_waits_for_room_in_a_unix_backlog)
{
    void *state = open_driver();
    struct sockaddr_un address;
    int listener = make_unix_listener(&address, SOCK_STREAM, "backlog");
    CHECK_OK(listen(listener, 1));
    struct trial trials[6] = { 0 };
    for (int i = 0; i < 6; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | (i % 2 == 0 ? SOCK_NONBLOCK : 0), 0);
        struct weft__op op = {
            .code = WEFT__OP_CONNECT, .fd = fd, .data = &address, .size = sizeof address
        };
        trial_start(&trials[i], state, op);
    }
    CHECK(trials[0].ended);
    CHECK(!trials[5].ended);
    cancel(&trials[4]);
    driver()->forget(state, trials[5].op.fd);
    CHECK_EQ(trial_await(&trials[4]), -ECANCELED);
    CHECK_EQ(trial_await(&trials[5]), -ECANCELED);
    for (int i = 0; i < 4; i++) {
        await_event(listener, POLLIN);
        int fd = accept4(listener, NULL, NULL, 0);
        CHECK_GE(fd, 0);
        close(fd);
        CHECK_EQ(trial_await(&trials[i < 2 ? i + 2 : i]), 0); // two stand in the backlog
    }
    driver()->close(state);
}

TEST(a_datagram_waits_for_a_full_receiver)
{
    void *state = open_driver();
    struct sockaddr_un address;
    char data[64] = "";
    int receiver = make_unix_listener(&address, SOCK_DGRAM, "full");
    for (int is_managed = 0; is_managed < 2; is_managed++) {
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        struct iovec part = { .iov_base = data, .iov_len = sizeof data };
        struct msghdr message = {
            .msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &part, .msg_iovlen = 1
        };
        struct weft__op op = { .code = WEFT__OP_SENDMSG, .fd = fd, .data = &message };
        struct trial writer = { 0 };
        do {
            trial_start(&writer, state, is_managed ? managed(op) : op);
        } while (writer.ended);
        calls_reset();
        weft_time until = weft__clock_ns() + 50 * WEFT_MS;
        while (weft__clock_ns() < until) {
            driver()->wait(state, until);
        }
        CHECK(!writer.ended);
        CHECK_LE(calls.sends, 20); // it slows down
        CHECK_EQ(read(receiver, data, sizeof data), 64);
        CHECK_EQ(trial_await(&writer), 64);
        close_fd(state, fd);
        while (take(receiver, data, sizeof data) > 0) {
        }
    }
    driver()->close(state);
}

// Splices.

static struct weft__op splice_op(int from, int to, size_t size)
{
    return (struct weft__op){ .code = WEFT__OP_SPLICE,
                              .fd = to,
                              .from_fd = from,
                              .size = size,
                              .offset = -1,
                              .from_offset = -1 };
}

TEST(a_splice_waits_for_whichever_end_is_not_ready)
{
    static char data[1 << 17];
    void *state = open_driver();
    int in[2];
    int out[2];
    CHECK_OK(pipe(in));
    CHECK_OK(pipe(out));
    struct trial trial = { 0 };
    trial_start(&trial, state, splice_op(in[0], out[1], 100));
    CHECK(!trial.ended);
    CHECK_EQ(write(in[1], "abc", 3), 3);
    CHECK_EQ(trial_await(&trial), 3);
    CHECK_EQ(read(out[0], data, 3), 3);
    // First nothing to read, then no room.
    trial_start(&trial, state, splice_op(in[0], out[1], 100));
    CHECK_OK(fcntl(out[1], F_SETFL, O_NONBLOCK));
    while (write(out[1], data, sizeof data) > 0) {
    }
    CHECK_OK(fcntl(out[1], F_SETFL, 0));
    CHECK_EQ(write(in[1], "abc", 3), 3);
    look(state);
    CHECK(!trial.ended);
    CHECK_OK(fcntl(out[0], F_SETFL, O_NONBLOCK));
    while (take(out[0], data, sizeof data) > 0) {
    }
    CHECK_EQ(trial_await(&trial), 3);
    driver()->close(state);
}

TEST(a_splice_between_a_socket_and_a_pipe)
{
    void *state = open_driver();
    int in[2];
    int through[2];
    int out[2];
    char data[16];
    make_tcp(in);
    make_unix(out, SOCK_STREAM);
    CHECK_OK(fcntl(in[0], F_SETFL, 0));
    CHECK_OK(fcntl(out[0], F_SETFL, 0));
    CHECK_OK(pipe(through));
    struct trial trial = { 0 };
    trial_start(&trial, state, splice_op(in[0], through[1], 100));
    CHECK(!trial.ended);
    CHECK_EQ(write(in[1], "abc", 3), 3);
    CHECK_EQ(trial_await(&trial), 3);
    CHECK_EQ(perform(state, splice_op(through[0], out[0], 100)), 3);
    CHECK_EQ(read(out[1], data, sizeof data), 3);
    CHECK_EQ(fcntl(in[0], F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(perform(state, splice_op(in[0], out[0], 100)), -EINVAL); // no pipe
    CHECK_EQ(perform(state, splice_op(in[0], -1, 100)), -EBADF);
    CHECK_EQ(perform(state, splice_op(-1, in[0], 100)), -EBADF);
    driver()->close(state);
}

TEST(a_splice_of_a_file_goes_to_the_pool)
{
    static char data[1 << 17];
    for (int i = 0; i < 2; i++) {
        struct pool pool;
        void *state = i == 0 ? open_driver() : open_with_pool(&pool, true);
        int file = make_file("hello, world");
        int copy = make_file("");
        int fds[2];
        CHECK_OK(pipe2(fds, O_NONBLOCK));
        struct weft__op op = splice_op(file, fds[1], 5);
        op.from_offset = 7;
        CHECK_EQ(perform(state, op), 5);
        op = splice_op(fds[0], copy, 5);
        op.offset = 0;
        CHECK_EQ(perform(state, op), 5);
        CHECK_EQ(pread(copy, data, 16, 0), 5);
        CHECK_EQ(memcmp(data, "world", 5), 0);
        // A full pipe has to be waited for between two visits.
        ssize_t filled = 0, n;
        while ((n = write(fds[1], data, sizeof data)) > 0) {
            filled += n;
        }
        struct trial trial = { 0 };
        op = splice_op(file, fds[1], 5);
        op.from_offset = 0;
        trial_start(&trial, state, op);
        if (i != 0) {
            pool_await(&pool, 3);
        }
        look(state);
        CHECK(!trial.ended);
        while (filled > 0) { // and no more: the splice may be under way already
            size_t most = (size_t)filled < sizeof data ? (size_t)filled : sizeof data;
            n = take(fds[0], data, most);
            CHECK(n > 0);
            filled -= n;
        }
        CHECK_EQ(trial_await(&trial), 5);
        CHECK_EQ(read(fds[0], data, 16), 5);
        CHECK_EQ(memcmp(data, "hello", 5), 0);
        driver()->close(state);
        if (i != 0) {
            pool_end(&pool);
        }
    }
}

TEST(forgetting_either_end_ends_a_splice)
{
    void *state = open_driver();
    for (int end = 0; end < 4; end++) {
        int in[2];
        int out[2];
        CHECK_OK(pipe(in));
        CHECK_OK(pipe(out));
        struct trial trials[3] = { 0 };
        for (int i = 0; i < 3; i++) {
            trial_start(&trials[i], state, splice_op(in[0], out[1], 100));
        }
        if (end < 2) {
            driver()->forget(state, end == 0 ? in[0] : out[1]);
        } else {
            for (int i = 0; i < 3; i++) {
                cancel(&trials[end == 2 ? i : 2 - i]);
            }
        }
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(trial_await(&trials[i]), -ECANCELED);
        }
        close_fd(state, in[0]);
        close_fd(state, out[1]);
    }
    driver()->close(state);
}
