// op_cancel_test.c - ending operations, on each driver: cancel, forget, close (O3 in sched/op.h).
#include "support/ops.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

// Every operation that can be made to wait, waiting.

struct blocked {
    void *state;
    int fds[2];     // a socket pair
    int pipe[2];    // empty
    int stuffed[2]; // a pipe without room
    int listener;
    struct sockaddr_in deaf; // nobody accepts there any more
    char text[64];
    struct iovec part;
    struct msghdr message;
    struct trial dials[4];
};

static void stuff(int fd)
{
    char block[4096] = "";
    int flags = fcntl(fd, F_GETFL);
    CHECK_EQ(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    while (write(fd, block, sizeof block) > 0) {
    }
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(fcntl(fd, F_SETFL, flags), 0);
}

/// Connections to the address hang from now on: its queue is full.
static void deafen(struct blocked *b)
{
    make_listener(b->state, &b->deaf, 0);
    for (size_t i = 0; i < WEFT__ARRAY_LEN(b->dials); i++) {
        trial_start(&b->dials[i], b->state, connect_op(make_socket(b->state), &b->deaf));
    }
    driver()->poll(b->state);
}

static void blocked_init(struct blocked *b)
{
    struct sockaddr_in addr;
    memset(b, 0, sizeof *b);
    b->state = open_driver();
    make_pair(b->state, b->fds);
    CHECK_EQ(pipe2(b->pipe, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(b->stuffed, O_CLOEXEC), 0);
    stuff(b->stuffed[1]);
    stuff(b->fds[0]); // what is sent there fills fds[1]'s queue; fds[0] itself has nothing to read
    b->listener = make_listener(b->state, &addr, 4);
    b->part = (struct iovec){ b->text, sizeof b->text };
    b->message = (struct msghdr){ .msg_iov = &b->part, .msg_iovlen = 1 };
}

static struct weft__op with(struct weft__op op, enum weft__op_code code, void *data, size_t size)
{
    op.code = (uint8_t)code;
    op.data = data;
    op.size = size;
    return op;
}

enum { KINDS = 18 };

static struct weft__op blocked_op(struct blocked *b, int kind)
{
    struct weft__op in = recv_op(b->fds[0], b->text, sizeof b->text);
    struct weft__op out = send_op(b->fds[0], b->text, sizeof b->text);
    struct weft__op from_pipe = read_op(b->pipe[0], b->text, sizeof b->text);
    struct weft__op to_pipe = write_op(b->stuffed[1], b->text, sizeof b->text);
    struct weft__op splice = { .code = WEFT__OP_SPLICE, .size = 10, .offset = -1 };
    splice.from_offset = -1;
    switch (kind) {
    case 0: return in;
    case 1: return select_op(b->fds[0], 0);
    case 2: return select_op(b->fds[0], WEFT__OP_MULTI);
    case 3: return with(in, WEFT__OP_RECVMSG, &b->message, 0);
    case 4: return with(from_pipe, WEFT__OP_READ, b->text, 1);
    case 5: return with(from_pipe, WEFT__OP_READV, &b->part, 1);
    case 6: return accept_op(b->listener, 0);
    case 7: return accept_op(b->listener, WEFT__OP_MULTI);
    case 8: return poll_op(b->fds[0], POLLIN);
    case 9: return poll_op(b->stuffed[1], POLLOUT);
    case 10: return out;
    case 11: return with(out, WEFT__OP_SENDMSG, &b->message, 0);
    case 12: return with(out, WEFT__OP_SEND_ZC, b->text, sizeof b->text);
    case 13: return with(to_pipe, WEFT__OP_WRITE, b->text, 1);
    case 14: return with(to_pipe, WEFT__OP_WRITEV, &b->part, 1);
    case 15:
        splice.from_fd = b->pipe[0];
        splice.fd = b->stuffed[1];
        return splice;
    case 16: in.flags = MSG_WAITALL; return in;
    default: return connect_op(make_socket(b->state), &b->deaf);
    }
}

/// When the cancel comes.
enum moment { AT_ONCE, AFTER_POLL, TWICE, AFTER_WAIT };

static void check_cancel(enum moment moment)
{
    struct blocked b;
    blocked_init(&b);
    deafen(&b);
    for (int kind = 0; kind < KINDS; kind++) {
        struct trial trial = { 0 };
        trial_start(&trial, b.state, blocked_op(&b, kind));
        if (moment == AFTER_POLL) {
            driver()->poll(b.state);
        } else if (moment == AFTER_WAIT) {
            driver()->wait(b.state, weft__clock_ns() + WEFT_MS);
        }
        if (trial.ended) {
            FAIL("operation %d did not wait: %d", kind, (int)trial.result);
        }
        cancel(&trial);
        if (moment == TWICE) {
            cancel(&trial);
            driver()->poll(b.state);
            if (!trial.ended) {
                cancel(&trial);
            }
        }
        trial_await(&trial);
        if (trial.result != -ECANCELED || trial.calls != 1) {
            FAIL("operation %d: %d after %d calls", kind, (int)trial.result, trial.calls);
        }
    }
    driver()->close(b.state);
}

TEST_DRIVERS(cancel_before_the_kernel_knows)
{
    check_cancel(AT_ONCE);
}

TEST_DRIVERS(cancel_after_submission)
{
    check_cancel(AFTER_POLL);
}

TEST_DRIVERS(cancel_of_what_has_waited)
{
    check_cancel(AFTER_WAIT);
}

TEST_DRIVERS(cancel_twice)
{
    check_cancel(TWICE);
}

TEST_DRIVERS(nonblocking_descriptors_can_be_cancelled)
{
    struct blocked b;
    blocked_init(&b);
    deafen(&b);
    const int fds[] = { b.fds[0], b.pipe[0], b.stuffed[1], b.listener };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(fds); i++) {
        CHECK_EQ(fcntl(fds[i], F_SETFL, O_NONBLOCK), 0);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        for (int polls = 0; polls < 3; polls++) {
            struct trial trial = { 0 };
            trial_start(&trial, b.state, blocked_op(&b, kind));
            for (int i = 0; i < polls; i++) {
                driver()->wait(b.state, weft__clock_ns() + WEFT_MS / 2);
            }
            if (trial.ended) {
                FAIL("operation %d did not wait: %d", kind, (int)trial.result);
            }
            cancel(&trial);
            CHECK_EQ(trial_await(&trial), -ECANCELED);
        }
    }
    driver()->close(b.state);
}

/// The completion is there already, the owner does not know it yet.
TEST_DRIVERS(bytes_win_over_the_cancel)
{
    void *state = open_driver();
    int fds[2];
    char text[8];
    make_pair(state, fds);
    for (int i = 0; i < 100; i++) {
        struct trial reader = { 0 };
        trial_start(&reader, state, recv_op(fds[1], text, sizeof text));
        driver()->poll(state);
        CHECK_EQ(send(fds[0], "abc", 3, 0), 3);
        cancel(&reader);
        int64_t result = trial_await(&reader);
        if (result == -ECANCELED) { // then they are still there
            result = perform(state, recv_op(fds[1], text, sizeof text));
        }
        CHECK_EQ(result, 3);
    }
    driver()->close(state);
}

// Cancel against data that another thread sends: no byte is lost, none comes twice.

struct race {
    int fd;
    uint64_t seed;
    uint64_t bytes;
};

static void *send_bytes(void *arg)
{
    struct race *race = arg;
    for (uint64_t sent = 0; sent < race->bytes; sent++) {
        unsigned char byte = (unsigned char)(sent % 251);
        for (volatile uint64_t pause = test_random(&race->seed) % 4096; pause > 0; pause--) {
        }
        CHECK_EQ(send(race->fd, &byte, 1, MSG_NOSIGNAL), 1);
    }
    shutdown(race->fd, SHUT_WR);
    return NULL;
}

struct racer {
    struct trial trial;
    char text[16];
    uint64_t received;
    bool over;
};

static void take_bytes(struct trial *trial)
{
    struct racer *racer = weft__container_of(trial, struct racer, trial);
    const char *bytes = racer->text;
    if ((trial->flags & WEFT__OP_BUFFER) != 0) {
        bytes = driver()->buffer(trial->state, weft__op_buffer(&trial->op));
    }
    for (int64_t i = 0; i < trial->result; i++) {
        CHECK_EQ((unsigned char)bytes[i], (unsigned char)(racer->received++ % 251));
    }
    if ((trial->flags & WEFT__OP_BUFFER) != 0) {
        driver()->give(trial->state, weft__op_buffer(&trial->op));
    }
    CHECK(trial->result >= 0 || trial->result == -ECANCELED);
    racer->over = trial->result == 0;
}

/// Which receive a round uses.
static struct weft__op race_op(struct racer *racer, int fd, uint64_t draw)
{
    switch (draw % 4) {
    case 0: return select_op(fd, 0);
    case 1: return select_op(fd, WEFT__OP_MULTI);
    case 2: return read_op(fd, racer->text, sizeof racer->text);
    default: return recv_op(fd, racer->text, sizeof racer->text);
    }
}

static void race_against(bool tcp, int flags)
{
    void *state = open_driver();
    int fds[2];
    uint64_t seed = test_seed();
    tcp ? make_tcp_pair(state, fds) : make_pair(state, fds);
    CHECK_EQ(fcntl(fds[1], F_SETFL, fcntl(fds[1], F_GETFL) | flags), 0);
    CHECK_EQ(fcntl(fds[0], F_SETFL, 0), 0);
    struct race race = { fds[0], test_random(&seed), test_scaled(20000) };
    struct racer racer = { .trial.then = take_bytes };
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, send_bytes, &race), 0);
    while (!racer.over) {
        trial_start(&racer.trial, state, race_op(&racer, fds[1], test_random(&seed)));
        for (uint64_t polls = test_random(&seed) % 4; polls > 0 && !racer.trial.ended; polls--) {
            driver()->poll(state);
        }
        if (!racer.trial.ended) {
            cancel(&racer.trial);
        }
        trial_await(&racer.trial);
    }
    pthread_join(thread, NULL);
    CHECK_EQ(racer.received, race.bytes);
    driver()->close(state);
}

TEST_DRIVERS(no_byte_is_lost_between_cancel_and_data)
{
    race_against(false, 0);
    race_against(true, 0);
    race_against(true, O_NONBLOCK);
}

static void cancel_other(struct trial *trial)
{
    struct trial *other = trial + 1;
    if (!other->ended) {
        driver()->cancel(other->state, &other->op);
    }
}

TEST_DRIVERS(done_may_cancel_others)
{
    enum { OPS = 20 };
    void *state = open_driver();
    int fds[2];
    struct trial trials[OPS + 1] = { 0 };
    make_pair(state, fds);
    for (int i = 0; i <= OPS; i++) {
        trials[i].then = i < OPS ? cancel_other : NULL;
        trial_start(&trials[i], state, poll_op(fds[0], POLLIN));
    }
    driver()->poll(state);
    cancel(&trials[0]);
    for (int i = 0; i <= OPS; i++) {
        CHECK_EQ(trial_await(&trials[i]), -ECANCELED);
    }
    driver()->close(state);
}

// Forget.

TEST_DRIVERS(forget_ends_all_ops_of_a_descriptor)
{
    struct blocked b;
    for (int polls = 0; polls < 3; polls++) {
        struct trial mine[6] = { 0 }, others[3] = { 0 };
        blocked_init(&b);
        const int kinds[] = { 0, 2, 3, 8, 10, 12 };
        const int other_kinds[] = { 4, 6, 13 };
        for (size_t i = 0; i < WEFT__ARRAY_LEN(kinds); i++) {
            trial_start(&mine[i], b.state, blocked_op(&b, kinds[i]));
        }
        for (size_t i = 0; i < WEFT__ARRAY_LEN(other_kinds); i++) {
            trial_start(&others[i], b.state, blocked_op(&b, other_kinds[i]));
        }
        for (int i = 0; i < polls; i++) {
            driver()->wait(b.state, weft__clock_ns() + WEFT_MS);
        }
        close_fd(b.state, b.fds[0]);
        for (size_t i = 0; i < WEFT__ARRAY_LEN(kinds); i++) {
            CHECK_EQ(trial_await(&mine[i]), -ECANCELED);
        }
        driver()->poll(b.state);
        for (size_t i = 0; i < WEFT__ARRAY_LEN(other_kinds); i++) {
            CHECK(!others[i].ended);
        }
        driver()->close(b.state);
    }
}

TEST_DRIVERS(forget_knows_both_sides_of_a_splice)
{
    for (int side = 0; side < 2; side++) {
        struct blocked b;
        struct trial trial = { 0 };
        blocked_init(&b);
        trial_start(&trial, b.state, blocked_op(&b, 15));
        driver()->wait(b.state, weft__clock_ns() + WEFT_MS);
        close_fd(b.state, side == 0 ? b.pipe[0] : b.stuffed[1]);
        CHECK_EQ(trial_await(&trial), -ECANCELED);
        driver()->close(b.state);
    }
}

TEST_DRIVERS(forget_without_ops_does_nothing)
{
    void *state = open_driver();
    const int fds[] = { 0, 1, 1000, 1 << 19, 1 << 21, -1 };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(fds); i++) {
        forget(state, fds[i]);
    }
    CHECK_EQ(driver()->counts(state)->enters, 0);
    driver()->close(state);
}

/// A number that is closed and given out again at once: nothing of the old one's reaches the new.
TEST_DRIVERS(reused_descriptors_start_afresh)
{
    void *state = open_driver();
    uint64_t seed = test_seed();
    for (uint64_t i = test_scaled(1000); i > 0; i--) {
        int old[2], fresh[2];
        char text[8];
        struct trial stale[3] = { 0 };
        make_pair(state, old);
        uint64_t draw = test_random(&seed);
        if (draw % 2 != 0) {
            CHECK_EQ(fcntl(old[0], F_SETFL, O_NONBLOCK), 0);
        }
        trial_start(&stale[0], state, recv_op(old[0], text, sizeof text));
        trial_start(&stale[1], state, select_op(old[0], draw % 4 < 2 ? WEFT__OP_MULTI : 0));
        trial_start(&stale[2], state, poll_op(old[0], POLLIN));
        for (uint64_t polls = draw / 4 % 3; polls > 0; polls--) {
            driver()->poll(state);
        }
        close_fd(state, old[0]);
        close_fd(state, old[1]);
        make_pair(state, fresh);
        CHECK_EQ(fresh[0], old[0]);
        CHECK_EQ(perform(state, send_op(fresh[1], "new", 3)), 3);
        CHECK_EQ(perform(state, recv_op(fresh[0], text, sizeof text)), 3);
        for (size_t k = 0; k < WEFT__ARRAY_LEN(stale); k++) {
            CHECK_EQ(trial_await(&stale[k]), -ECANCELED);
        }
        close_fd(state, fresh[0]);
        close_fd(state, fresh[1]);
    }
    driver()->close(state);
}

// Close.

TEST_DRIVERS(close_waits_for_what_is_in_flight)
{
    for (int polls = 0; polls < 2; polls++) {
        struct blocked *b = malloc(sizeof *b);
        blocked_init(b);
        deafen(b);
        struct trial *trials[KINDS];
        for (int kind = 0; kind < KINDS; kind++) {
            trials[kind] = calloc(1, sizeof *trials[kind]);
            trial_start(trials[kind], b->state, blocked_op(b, kind));
        }
        if (polls != 0) {
            driver()->poll(b->state);
        }
        if (polls != 0 && driver()->drain != NULL) {
            driver()->drain(b->state);
        }
        driver()->close(b->state);
        for (int kind = 0; kind < KINDS; kind++) {
            CHECK(!trials[kind]->ended);
            free(trials[kind]);
        }
        int peer = b->fds[1], writer = b->pipe[1];
        free(b);
        // Whoever still received would write into what is free now.
        CHECK_EQ(send(peer, "stray", 5, MSG_NOSIGNAL | MSG_DONTWAIT), 5);
        CHECK_EQ(write(writer, "stray", 5), 5);
    }
}
