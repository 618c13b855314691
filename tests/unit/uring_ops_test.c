// uring_ops_test.c - what only the io_uring driver has: system calls counted, queues that run over, a
// kernel that refuses or loses things, and rings that belong to a thread.
//
// The linker sends the static library's io_uring_enter2() through the function below (--wrap, see
// tests/meson.build).
#include "support/test.h"

#ifdef WEFT_HAVE_URING

#include "support/ops.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "io/uring.h"

#define TEST_URING(id)                                                                             \
    static void id(void);                                                                          \
    TEST__ADD(id##_uring, #id "/uring", id, TEST_DRIVER_URING)                                     \
    static void id(void)

static struct weft__uring *lossy; // loses the next completion
static int refusals, refuse_with;

int __real_io_uring_enter2(unsigned fd, unsigned submit, unsigned want, unsigned flags,
                           sigset_t *sig, size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned submit, unsigned want, unsigned flags,
                           sigset_t *sig, size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned submit, unsigned want, unsigned flags,
                           sigset_t *sig, size_t size)
{
    if (submit > 0 && refusals > 0) {
        refusals--;
        return refuse_with;
    }
    int rc = __real_io_uring_enter2(fd, submit, want, flags, sig, size);
    if (lossy != NULL && io_uring_cq_ready(&lossy->ring) > 0) {
        io_uring_cq_advance(&lossy->ring, 1);
        lossy = NULL;
        return -EBADR;
    }
    return rc;
}

static const struct weft__op_counts *counts(void *state)
{
    return driver()->counts(state);
}

// What the kernel has.

static bool kernel_is(int major, int minor)
{
    struct utsname name;
    int have_major, have_minor;
    CHECK_EQ(uname(&name), 0);
    CHECK_EQ(sscanf(name.release, "%d.%d", &have_major, &have_minor), 2);
    return have_major > major || (have_major == major && have_minor >= minor);
}

TEST_URING(features_are_found)
{
    struct weft__uring *u = open_driver();
    unsigned expected = kernel_is(5, 19) ? WEFT__URING_CANCEL_FD | WEFT__URING_MULTI_ACCEPT |
                                               WEFT__URING_BUFFER_RING | WEFT__URING_SOCK_NONEMPTY
                                         : 0;
    expected |= kernel_is(6, 0) ? WEFT__URING_MULTI_RECV | WEFT__URING_SEND_ZC : 0;
    expected |= kernel_is(6, 18) ? WEFT__URING_NO_SIGNAL : 0;
    CHECK_EQ(u->features & expected, expected);
    driver()->close(u);
}

static volatile sig_atomic_t pipe_signals;

static void on_sigpipe(int signal)
{
    (void)signal;
    pipe_signals++;
}

TEST_URING(writes_raise_no_signal_where_the_kernel_can)
{
    struct weft__uring *u = open_driver();
    struct sigaction action = { .sa_handler = on_sigpipe };
    int fds[2];
    CHECK_EQ(sigaction(SIGPIPE, &action, NULL), 0);
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    close(fds[0]);
    CHECK_EQ(perform(u, write_op(fds[1], "x", 1)), -EPIPE);
    CHECK_EQ(pipe_signals, (u->features & WEFT__URING_NO_SIGNAL) != 0 ? 0 : 1);
    driver()->close(u);
}

/// Each kind of ring does everything.
TEST_URING(rings_of_older_kernels_work)
{
    const unsigned without[] = { 0, WEFT__URING_DEFER, WEFT__URING_DEFER | WEFT__URING_COOP };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(without); i++) {
        weft__uring_without = without[i];
        void *state = open_driver();
        int fds[2];
        struct trial reader = { 0 };
        make_pair(state, fds);
        for (int round = 0; round < 100; round++) {
            trial_start(&reader, state, select_op(fds[1], WEFT__OP_MULTI));
            driver()->poll(state);
            CHECK_EQ(perform(state, send_op(fds[0], "x", 1)), 1);
            await_calls(&reader, 1);
            CHECK_EQ(reader.result, 1);
            give(state, weft__op_buffer(&reader.op));
            cancel(&reader);
            CHECK_EQ(trial_await(&reader), -ECANCELED);
        }
        driver()->close(state);
    }
}

// System calls.

struct pong {
    struct trial trial;
    struct trial sender;
    char byte;
    int left;
};

static void send_back(struct trial *trial)
{
    struct pong *pong = weft__container_of(trial, struct pong, trial);
    CHECK_EQ(trial->result, 1);
    if (pong->left-- > 0) {
        trial_start(&pong->sender, trial->state, send_op(trial->op.fd, &pong->byte, 1));
        trial_again(trial);
    }
}

/// Two sides of one driver play with one byte: a send and a receive per wait, one system call.
TEST_URING(a_wait_is_one_system_call)
{
    enum { ROUNDS = 200 };
    void *state = open_driver();
    int fds[2];
    struct pong pongs[2] = { { .trial.then = send_back, .left = ROUNDS },
                             { .trial.then = send_back, .left = ROUNDS } };
    make_pair(state, fds);
    for (int i = 0; i < 2; i++) {
        trial_start(&pongs[i].trial, state, recv_op(fds[i], &pongs[i].byte, 1));
    }
    CHECK_EQ(send(fds[0], "x", 1, 0), 1);
    uint64_t waits = 0;
    while (!pongs[0].trial.ended && !pongs[1].trial.ended) {
        driver()->wait(state, WEFT_FOREVER);
        waits++;
    }
    CHECK_LE(counts(state)->enters, waits);
    CHECK_LE(waits, 2 * ROUNDS + 10);
    driver()->close(state);
}

TEST_URING(a_batch_is_submitted_when_it_is_full)
{
    const struct weft__driver_config config = { .submit_batch = 4 };
    void *state = open_with(&config);
    int fds[2];
    struct trial trials[8] = { 0 };
    make_pair(state, fds);
    for (int i = 0; i < 8; i++) {
        trial_start(&trials[i], state, poll_op(fds[0], POLLIN));
        CHECK_EQ(counts(state)->enters, (uint64_t)(i + 1) / 4);
    }
    driver()->close(state);
}

TEST_URING(forget_enters_only_for_ops_in_flight)
{
    void *state = open_driver();
    int fds[2];
    struct trial trial = { 0 };
    make_pair(state, fds);
    CHECK_EQ(perform(state, send_op(fds[0], "x", 1)), 1);
    uint64_t before = counts(state)->enters;
    close_fd(state, fds[0]);
    CHECK_EQ(counts(state)->enters, before);
    trial_start(&trial, state, poll_op(fds[1], POLLPRI));
    forget(state, fds[1]);
    CHECK_EQ(counts(state)->enters, before + 1);
    driver()->close(state);
}

// Queues that run over.

TEST_URING(completions_beyond_the_queue_are_kept)
{
    enum { OPS = 300 };
    const struct weft__driver_config config = { .entries = 2, .submit_batch = 1 };
    void *state = open_with(&config);
    int fds[2];
    static struct trial trials[OPS];
    make_pair(state, fds);
    for (int i = 0; i < OPS; i++) { // all are ready, and nobody takes completions
        trial_start(&trials[i], state, poll_op(fds[0], POLLOUT));
    }
    for (int i = 0; i < OPS; i++) {
        CHECK_EQ(trial_await(&trials[i]), POLLOUT);
    }
    CHECK_GT(counts(state)->cq_overflows, 0);
    CHECK_EQ(counts(state)->completed, OPS);
    driver()->close(state);
}

struct counter {
    struct trial trial;
    int64_t received;
};

static void count_bytes(struct trial *trial)
{
    struct counter *counter = weft__container_of(trial, struct counter, trial);
    if (trial->result > 0) {
        counter->received += trial->result;
        driver()->give(trial->state, weft__op_buffer(&trial->op));
    }
    if (trial->ended && trial->result > 0) {
        trial_again(trial);
    }
}

/// A full completion queue makes the kernel end multishots.
TEST_URING(multishots_that_end_are_armed_again)
{
    enum { READERS = 64, MESSAGES = 10 };
    const struct weft__driver_config config = { .entries = 2, .buffers = 1024, .buffer_bytes = 64 };
    struct weft__uring *u = open_with(&config);
    static struct counter counters[READERS];
    int fds[READERS][2];
    for (int i = 0; i < READERS; i++) {
        CHECK_OK(driver()->sockets->pair(u, AF_UNIX, SOCK_SEQPACKET, 0, fds[i]));
        counters[i].trial.then = count_bytes;
        trial_start(&counters[i].trial, u, select_op(fds[i][1], WEFT__OP_MULTI));
    }
    driver()->poll(u);
    for (int i = 0; i < READERS * MESSAGES; i++) {
        CHECK_EQ(send(fds[i % READERS][0], "xyz", 3, 0), 3);
    }
    for (int i = 0; i < READERS; i++) {
        weft_time limit = weft__clock_ns() + LOST_NS;
        while (counters[i].received < 3 * MESSAGES) {
            driver()->wait(u, limit);
            CHECK_LT(weft__clock_ns(), limit);
        }
    }
    if ((u->features & WEFT__URING_MULTI_RECV) != 0) {
        CHECK_GT(counts(u)->multishot_ends, 0);
    }
    driver()->close(u);
}

// A kernel that refuses.

static void check_refusal(int error)
{
    enum { OPS = 20 };
    const struct weft__driver_config config = { .entries = 4 };
    void *state = open_with(&config);
    int fds[2];
    char bytes[OPS], received[OPS + 1];
    struct trial trials[OPS] = { 0 };
    CHECK_OK(driver()->sockets->pair(state, AF_UNIX, SOCK_SEQPACKET, 0, fds));
    refuse_with = error;
    refusals = 20;
    for (int i = 0; i < OPS; i++) {
        bytes[i] = (char)('a' + i);
        trial_start(&trials[i], state, send_op(fds[0], &bytes[i], 1));
    }
    for (int i = 0; i < OPS; i++) { // in order, and all but those that were cancelled in time
        if (i % 5 == 4) {
            cancel(&trials[i]);
        }
    }
    uint64_t sent = 0;
    for (int i = 0; i < OPS; i++) {
        int64_t result = trial_await(&trials[i]);
        CHECK(result == 1 || (result == -ECANCELED && i % 5 == 4));
        if (result == 1) {
            CHECK_EQ(recv(fds[1], received, sizeof received, MSG_DONTWAIT), 1);
            CHECK_EQ(received[0], bytes[i]);
            sent++;
        }
    }
    CHECK_GE(sent, OPS - OPS / 5);
    CHECK_LT(sent, OPS);
    CHECK_EQ(refusals, 0);
    CHECK_GE(counts(state)->submit_refused, 20);
    CHECK_GT(counts(state)->queue_full, 0);
    driver()->close(state);
}

TEST_URING(refused_submissions_are_tried_again)
{
    check_refusal(-EAGAIN);
    check_refusal(-EBUSY);
    check_refusal(-ENOMEM);
}

TEST_URING(cancels_wait_for_a_kernel_that_refuses)
{
    enum { OPS = 20 };
    const struct weft__driver_config config = { .entries = 4 };
    void *state = open_with(&config);
    int fds[2];
    struct trial trials[OPS] = { 0 };
    make_pair(state, fds);
    for (int i = 0; i < OPS; i++) {
        trial_start(&trials[i], state, poll_op(fds[0], POLLIN));
    }
    driver()->poll(state);
    refuse_with = -EAGAIN;
    refusals = 30;
    for (int i = 0; i < OPS; i++) {
        cancel(&trials[i]);
    }
    CHECK_EQ(send(fds[1], "x", 1, 0), 1); // some end by themselves, with their cancels unsent
    for (int i = 0; i < OPS; i++) {
        int64_t result = trial_await(&trials[i]);
        CHECK(result == -ECANCELED || result == POLLIN);
    }
    driver()->close(state);
}

/// What is still queued for a descriptor when it is closed must not reach the next one.
TEST_URING(forget_works_while_the_kernel_refuses)
{
    void *state = open_driver();
    int fds[2], fresh[2];
    char byte = 0;
    struct trial stale[2] = { 0 };
    make_pair(state, fds);
    trial_start(&stale[0], state, recv_op(fds[0], &byte, 1));
    driver()->poll(state);
    trial_start(&stale[1], state, send_op(fds[0], "stale", 5));
    refuse_with = -ENOMEM;
    refusals = 3;
    close_fd(state, fds[0]);
    make_pair(state, fresh);
    CHECK_EQ(fresh[0], fds[0]);
    CHECK_EQ(trial_await(&stale[0]), -ECANCELED);
    CHECK_EQ(trial_await(&stale[1]), -EBADF);
    CHECK_EQ(perform(state, send_op(fresh[0], "y", 1)), 1);
    CHECK_EQ(perform(state, recv_op(fresh[1], &byte, 1)), 1);
    CHECK_EQ(byte, 'y');
    driver()->close(state);
}

TEST_URING(close_works_while_the_kernel_refuses)
{
    const struct weft__driver_config config = { .entries = 2 };
    void *state = open_with(&config);
    int fds[2];
    struct trial trials[20] = { 0 };
    make_pair(state, fds);
    for (int i = 0; i < 20; i++) {
        trial_start(&trials[i], state, select_op(fds[0], WEFT__OP_MULTI));
    }
    driver()->poll(state);
    refuse_with = -EAGAIN;
    refusals = 5;
    driver()->close(state);
}

// A kernel that loses completions.

TEST_URING(an_op_whose_completion_is_lost_ends_when_it_is_cancelled)
{
    struct weft__uring *u = open_driver();
    int fds[2];
    char byte;
    struct trial lost = { 0 }, other = { 0 };
    if (!kernel_is(6, 0)) {
        SKIP("no synchronous cancel before Linux 6.0");
    }
    make_pair(u, fds);
    trial_start(&other, u, poll_op(fds[0], POLLPRI));
    trial_start(&lost, u, recv_op(fds[1], &byte, 1));
    driver()->poll(u);
    CHECK_EQ(send(fds[0], "x", 1, 0), 1);
    lossy = u;
    driver()->wait(u, weft__clock_ns() + LOST_NS); // ends early: it may have been a kick
    CHECK(lossy == NULL);
    CHECK(!lost.ended);
    CHECK_GT(counts(u)->cq_overflows, 0);
    cancel(&lost);
    CHECK_EQ(trial_await(&lost), -EIO);
    CHECK(!other.ended);
    cancel(&other); // this one is still there
    CHECK_EQ(trial_await(&other), -ECANCELED);
    CHECK_EQ(perform(u, send_op(fds[0], "y", 1)), 1);
    CHECK_EQ(perform(u, recv_op(fds[1], &byte, 1)), 1);
    CHECK_EQ(u->in_kernel, 0);
    driver()->close(u);
}

/// Nobody cancels anything: what is lost ends, and what was only asked for goes on as if nothing had
/// happened.
TEST_URING(an_op_whose_completion_is_lost_ends_by_itself)
{
    struct weft__uring *u = open_driver();
    enum { ROUNDS = 20 };
    int fds[2], others[2], pipes[2], files[2];
    char bytes[2], room[4];
    struct trial lost = { 0 }, poll = { 0 }, recv = { 0 }, multi = { 0 }, splice = { 0 };
    if (!kernel_is(6, 0)) {
        SKIP("no synchronous cancel before Linux 6.0");
    }
    make_pair(u, fds);
    make_pair(u, others);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(files, O_CLOEXEC), 0);
    trial_start(&poll, u, poll_op(fds[0], POLLIN));
    trial_start(&recv, u, recv_op(others[0], room, sizeof room));
    trial_start(&multi, u, select_op(others[1], WEFT__OP_MULTI));
    trial_start(&splice, u,
                (struct weft__op){ .code = WEFT__OP_SPLICE,
                                   .fd = files[1],
                                   .from_fd = pipes[0],
                                   .offset = -1,
                                   .from_offset = -1,
                                   .size = 1 });
    for (int i = 0; i < ROUNDS; i++) {
        trial_start(&lost, u, recv_op(fds[1], bytes, 1));
        driver()->poll(u);
        CHECK_EQ(send(fds[0], "x", 1, 0), 1);
        lossy = u;
        CHECK_EQ(trial_await(&lost), -EIO);
        CHECK(lossy == NULL);
        CHECK(!poll.ended && !recv.ended && !multi.ended && !splice.ended);
    }
    CHECK_EQ(send(fds[1], "y", 1, 0), 1);
    CHECK_EQ(trial_await(&poll), POLLIN);
    CHECK_EQ(send(others[1], "abc", 3, 0), 3);
    CHECK_EQ(trial_await(&recv), 3);
    CHECK_EQ(memcmp(room, "abc", 3), 0);
    CHECK_EQ(send(others[0], "de", 2, 0), 2);
    await_calls(&multi, 1);
    CHECK_EQ(multi.result, 2);
    give(u, weft__op_buffer(&multi.op));
    CHECK_EQ(write(pipes[1], "z", 1), 1);
    CHECK_EQ(trial_await(&splice), 1);
    if (!multi.ended) {
        cancel(&multi);
        CHECK_EQ(trial_await(&multi), -ECANCELED);
    }
    CHECK_EQ(u->in_kernel, 0);
    driver()->close(u);
}

/// A cancel finds no read that a disk works on, and its memory is the disk's.
TEST_URING(a_read_of_a_file_is_never_given_up)
{
    struct weft__uring *u = open_driver();
    struct trial read = { 0 }, lost = { 0 };
    int fds[2];
    char byte, bytes[8];
    int file = memfd_create("file", MFD_CLOEXEC);
    CHECK_OK(file);
    CHECK_EQ(write(file, "12345678", 8), 8);
    if (!kernel_is(6, 0)) {
        SKIP("no synchronous cancel before Linux 6.0");
    }
    make_pair(u, fds);
    for (int i = 0; i < 20; i++) {
        trial_start(&lost, u, recv_op(fds[1], &byte, 1));
        driver()->poll(u);
        CHECK_EQ(send(fds[0], "x", 1, 0), 1);
        lossy = u;
        driver()->poll(u); // takes the byte, and loses it
        trial_start(&read, u,
                    (struct weft__op){
                        .code = WEFT__OP_READ, .fd = file, .data = bytes, .size = sizeof bytes });
        CHECK_EQ(trial_await(&read), 8);
        CHECK_EQ(trial_await(&lost), -EIO);
    }
    driver()->close(u);
}

TEST_URING(close_does_not_wait_for_what_is_lost)
{
    struct weft__uring *u = open_driver();
    int fds[2];
    char byte;
    struct trial lost = { 0 };
    make_pair(u, fds);
    trial_start(&lost, u, recv_op(fds[1], &byte, 1));
    driver()->poll(u);
    CHECK_EQ(send(fds[0], "x", 1, 0), 1);
    lossy = u;
    driver()->wait(u, weft__clock_ns() + LOST_NS);
    weft_time start_ns = weft__clock_ns();
    driver()->drain(u);
    CHECK_EQ(u->in_kernel, 1);
    driver()->close(u); // maybe on another thread, which cannot wait for it any more
    CHECK_LT(weft__clock_ns() - start_ns, LOST_NS);
}

// A ring belongs to the thread that opened it.

struct owner {
    void *state;
    struct trial trials[40];
    int fds[40][2];
};

static void *leave_ops_behind(void *arg)
{
    struct owner *owner = arg;
    owner->state = open_driver();
    for (int i = 0; i < 40; i++) {
        make_pair(owner->state, owner->fds[i]);
        trial_start(&owner->trials[i], owner->state, select_op(owner->fds[i][0], WEFT__OP_MULTI));
        CHECK_EQ(send(owner->fds[i][1], "x", 1, 0), 1);
    }
    driver()->poll(owner->state);
    driver()->drain(owner->state);
    return NULL;
}

TEST_URING(another_thread_closes_what_was_drained)
{
    struct owner *owner = calloc(1, sizeof *owner);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, leave_ops_behind, owner), 0);
    pthread_join(thread, NULL);
    driver()->kick(owner->state, NULL);
    driver()->close(owner->state);
    free(owner);
}

#else

TEST(there_is_no_uring_here)
{
    SKIP("built without io_uring");
}

#endif
