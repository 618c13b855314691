// sim_ops_test.c - the simulator keeps the contract of operations (sched/op.h), and uses all the
// freedom that it leaves: both ends of every choice are seen within a few seeds.
#include "support/simulated.h"

#include <poll.h>
#include <stdlib.h>

/// An op that remembers what done() was told.
struct trial {
    struct weft__op op;
    bool inline_end; // submit() said that it was over
    bool ended;
    int calls;
    int64_t result; // of the last call that was no notification
    uint32_t flags;
    int notifies;
    void (*then)(struct trial *trial);
    struct weft__carrier *carrier;
};

static void note(struct trial *trial)
{
    CHECK(!trial->ended);
    trial->calls++;
    trial->ended = (trial->op.result_flags & WEFT__OP_MORE) == 0;
    if ((trial->op.result_flags & WEFT__OP_NOTIFY) != 0) {
        CHECK_EQ(trial->op.result, 0);
        trial->notifies++;
    } else {
        trial->result = trial->op.result;
        trial->flags = trial->op.result_flags;
    }
    if (trial->then != NULL) {
        trial->then(trial);
    }
}

static void trial_done(struct weft__op *op)
{
    struct trial *trial = weft__container_of(op, struct trial, op);
    CHECK(weft__carrier_self() == trial->carrier); // on the carrier that submitted it
    note(trial);
}

static void start(struct trial *trial, struct weft__op op)
{
    struct weft__carrier *carrier = weft__carrier_self();
    trial->op = op;
    trial->op.done = trial_done;
    trial->carrier = carrier;
    trial->ended = false;
    trial->calls = trial->notifies = 0;
    trial->inline_end = carrier->driver->submit(carrier->driver_state, &trial->op);
    if (trial->inline_end) {
        note(trial);
        CHECK(trial->ended);
    }
}

static void cancel(struct trial *trial)
{
    weft__carrier_self()->driver->cancel(state(), &trial->op);
}

static void forget(int fd)
{
    weft__carrier_self()->driver->forget(state(), fd);
}

static void await(const struct trial *trial)
{
    weft_time limit = weft_after(10 * WEFT_S);
    while (!trial->ended) {
        CHECK_OK(weft_sleep(10 * WEFT_US));
        CHECK_LT(weft_now(), limit);
    }
}

static struct weft__op receive_op(int fd, void *data, size_t size)
{
    return (struct weft__op){ .code = WEFT__OP_RECV, .fd = fd, .data = data, .size = size };
}

static struct weft__op send_op(int fd, const char *text)
{
    return (struct weft__op){
        .code = WEFT__OP_SEND, .fd = fd, .data = (void *)(uintptr_t)text, .size = strlen(text)
    };
}

/// What was seen over all seeds of a test; each must have been seen once.
static struct {
    int at_once, later, bytes, cancelled, more, last, borrowed, copied;
} seen;

#define SEEN_BOTH(a, b)                                                                            \
    (seen.a > 0 && seen.b > 0 ? (void)0 : FAIL(#a " %d times, " #b " %d", seen.a, seen.b))

/// Like TEST_SIMULATED, and afterwards `check` is called.
#define TEST_CHOICES(id, check, ...)                                                               \
    static void id##_body(void);                                                                   \
    TEST(id)                                                                                       \
    {                                                                                              \
        static void (*body)(void) = id##_body;                                                     \
        simulated = (struct weft_sim_options){ .carriers = 2, .net = { __VA_ARGS__ } };            \
        for (uint64_t i = 0; i < 60; i++) {                                                        \
            simulated.seed = test_seed() + i;                                                      \
            CHECK_OK(weft_sim_run(&outcome, simulated_body, &body, &simulated));                   \
        }                                                                                          \
        check;                                                                                     \
    }                                                                                              \
    static void id##_body(void)

TEST_CHOICES(ops_end_inside_submit_or_later, SEEN_BOTH(at_once, later))
{
    struct trial trial = { 0 };
    char text[8];
    int ends[2];
    make_pair(ends, SOCK_STREAM);
    start(&trial, send_op(ends[0], "hello"));
    await(&trial);
    CHECK_EQ(trial.result, 5);
    CHECK_OK(weft_sleep(WEFT_MS)); // it has arrived
    start(&trial, receive_op(ends[1], text, sizeof text));
    seen.at_once += trial.inline_end;
    seen.later += !trial.inline_end;
    await(&trial);
    CHECK_EQ(trial.result, 5);
    CHECK((trial.flags & WEFT__OP_EMPTY) != 0);
    start(&trial, receive_op(ends[1], text, sizeof text));
    CHECK(!trial.inline_end);
    CHECK_EQ(weft_write(ends[0], "12345678x", 9, WEFT_FOREVER), 9);
    await(&trial);
    CHECK_EQ(trial.result, 8);
    CHECK((trial.flags & WEFT__OP_EMPTY) == 0);
    close_both(ends);
}

TEST_CHOICES(a_cancel_wins_or_loses_against_bytes, SEEN_BOTH(bytes, cancelled))
{
    struct trial trial = { 0 };
    char text[8];
    int ends[2];
    make_pair(ends, SOCK_STREAM);
    start(&trial, receive_op(ends[1], text, sizeof text));
    CHECK_EQ(weft_write(ends[0], "hello", 5, WEFT_FOREVER), 5);
    uint64_t random = simulated.seed;
    for (uint64_t yields = test_random(&random) % 4; yields > 0; yields--) {
        CHECK_OK(weft_yield());
    }
    if (!trial.ended) {
        cancel(&trial);
        CHECK(!trial.ended); // never from inside
        cancel(&trial);
        await(&trial);
        seen.bytes += trial.result == 5;
        seen.cancelled += trial.result == -ECANCELED;
    }
    CHECK(trial.result == 5 || trial.result == -ECANCELED);
    if (trial.result == -ECANCELED) { // nothing is lost
        CHECK_EQ(weft_read(ends[1], text, sizeof text, WEFT_FOREVER), 5);
    }
    CHECK_EQ(memcmp(text, "hello", 5), 0);
    close_both(ends);
}

// Many results of one submission.

enum { MESSAGES = 12 };
static int received_count;
static char received_bytes[MESSAGES];

static void take_buffer(struct trial *trial)
{
    if (trial->op.result <= 0) {
        return;
    }
    CHECK((trial->op.result_flags & WEFT__OP_BUFFER) != 0);
    uint16_t number = weft__op_buffer(&trial->op);
    const struct weft__driver *driver = trial->carrier->driver;
    CHECK_EQ(trial->op.result, 1);
    received_bytes[received_count++] = *(char *)driver->buffer(state(), number);
    driver->give(state(), number);
}

TEST_CHOICES(a_multishot_receive_goes_on_or_ends, SEEN_BOTH(more, last))
{
    struct trial trial = { .then = take_buffer };
    struct weft__op op = { .code = WEFT__OP_RECV, .mode = WEFT__OP_SELECT | WEFT__OP_MULTI };
    int ends[2];
    make_pair(ends, SOCK_SEQPACKET);
    op.fd = ends[1];
    received_count = 0;
    start(&trial, op);
    for (int i = 0; i < MESSAGES; i++) {
        char byte = (char)i;
        CHECK_EQ(weft_write(ends[0], &byte, 1, WEFT_FOREVER), 1);
        while (received_count <= i) {
            if (trial.ended) {
                CHECK((trial.flags & WEFT__OP_MORE) == 0);
                start(&trial, op);
            }
            CHECK_OK(weft_sleep(WEFT_US));
        }
        seen.more += !trial.ended;
        seen.last += trial.ended;
    }
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_EQ(received_bytes[i], i);
    }
    if (trial.ended) {
        start(&trial, op);
    }
    CHECK_OK(weft_close(ends[0]));
    await(&trial);
    CHECK_EQ(trial.result, 0); // the end needs no buffer
    CHECK_EQ(trial.flags, 0);
    CHECK_OK(weft_close(ends[1]));
}

static int accepted[MESSAGES];

static void take_connection(struct trial *trial)
{
    if (trial->op.result >= 0) {
        accepted[received_count++] = (int)trial->op.result;
    }
}

TEST_CHOICES(a_multishot_accept_goes_on_until_it_is_cancelled, SEEN_BOTH(more, last))
{
    struct trial trial = { .then = take_connection };
    struct weft__op op = { .code = WEFT__OP_ACCEPT, .mode = WEFT__OP_MULTI };
    op.fd = listen_v4(4000, 8);
    received_count = 0;
    start(&trial, op);
    for (int i = 0; i < MESSAGES; i++) {
        int fd = make_socket(AF_INET, SOCK_STREAM);
        CHECK_OK(connect_v4(fd, 4000, WEFT_FOREVER));
        while (received_count <= i) {
            if (trial.ended) {
                start(&trial, op);
            }
            CHECK_OK(weft_sleep(WEFT_US));
        }
        seen.more += !trial.ended;
        seen.last += trial.ended;
        CHECK_OK(weft_close(accepted[i]));
        CHECK_OK(weft_close(fd));
    }
    if (!trial.ended) {
        cancel(&trial);
        await(&trial);
        CHECK_EQ(trial.result, -ECANCELED);
    }
    CHECK_OK(weft_close(op.fd));
}

static bool close_in_done;

static void close_it(struct trial *trial)
{
    if (close_in_done) {
        close_in_done = false;
        forget(trial->op.fd);
        CHECK_OK(sockets()->close(state(), trial->op.fd));
    }
    if ((trial->op.result_flags & WEFT__OP_BUFFER) != 0) {
        trial->carrier->driver->give(state(), weft__op_buffer(&trial->op));
    }
}

TEST_CHOICES(a_descriptor_may_be_closed_inside_done, SEEN_BOTH(more, last))
{
    struct trial trial = { .then = close_it };
    int ends[2];
    make_pair(ends, SOCK_STREAM);
    close_in_done = true;
    start(&trial, (struct weft__op){ .code = WEFT__OP_RECV,
                                     .fd = ends[1],
                                     .mode = WEFT__OP_SELECT | WEFT__OP_MULTI });
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), 1);
    await(&trial);
    seen.more += trial.calls == 2;
    seen.last += trial.calls == 1;
    CHECK_EQ(trial.result, trial.calls == 2 ? -ECANCELED : 1);
    CHECK_EQ(make_socket(AF_INET, SOCK_STREAM), ends[1]); // the number is free again
    CHECK_OK(weft_close(ends[1]));
    CHECK_OK(weft_close(ends[0]));
}

// Buffers.

enum { BUFFERS = 256 };
static uint16_t held[BUFFERS + 1];
static int held_count;

static void hold_buffer(struct trial *trial)
{
    if (trial->op.result > 0) {
        held[held_count++] = weft__op_buffer(&trial->op);
    }
}

TEST_SIMULATED(a_receive_waits_for_a_buffer, .latency_ns = 0)
{
    struct trial trial = { .then = hold_buffer };
    struct weft__carrier *carrier = weft__carrier_self();
    const struct weft__op_counts *counts = carrier->driver->counts(state());
    int ends[2];
    make_pair(ends, SOCK_STREAM);
    struct weft__op op = { .code = WEFT__OP_RECV, .fd = ends[1], .mode = WEFT__OP_SELECT };
    held_count = 0;
    while (atomic_load(&counts->no_buffers) == 0) {
        CHECK_LE(held_count, BUFFERS);
        CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), 1);
        start(&trial, op);
        weft_time limit = weft_after(WEFT_MS);
        while (!trial.ended && weft_now() < limit) {
            CHECK_OK(weft_sleep(WEFT_US));
        }
    }
    CHECK(!trial.ended); // it waits; all are out
    for (int i = 0; i < held_count; i++) {
        for (int k = 0; k < i; k++) {
            CHECK_NE(held[i], held[k]);
        }
    }
    carrier->driver->give(state(), held[--held_count]);
    await(&trial);
    CHECK_EQ(trial.result, 1);
    while (held_count > 0) {
        carrier->driver->give(state(), held[--held_count]);
    }
    close_both(ends);
}

// Zero-copy.

TEST_CHOICES(a_zero_copy_send_borrows_or_copies, SEEN_BOTH(borrowed, copied))
{
    struct trial trial = { 0 };
    char text[8];
    int ends[2];
    make_connection(ends);
    struct weft__op op = send_op(ends[0], "hello");
    op.code = WEFT__OP_SEND_ZC;
    start(&trial, op);
    CHECK_EQ(weft_read_full(NULL, ends[1], text, 5, WEFT_FOREVER), 5);
    close_both(ends); // bytes stay borrowed all the same
    await(&trial);
    CHECK_EQ(trial.result, 5);
    CHECK_EQ(trial.calls, 1 + trial.notifies);
    seen.borrowed += trial.notifies == 1;
    seen.copied += trial.notifies == 0;
    int unconnected = make_socket(AF_INET, SOCK_STREAM);
    op.fd = unconnected;
    start(&trial, op);
    await(&trial);
    CHECK_EQ(trial.result, -EPIPE);
    CHECK_EQ(trial.calls, 1);
    CHECK_OK(weft_close(unconnected));
}

// Ending everything on a descriptor.

TEST_SIMULATED(forget_ends_what_waits_and_nothing_else, .latency_ns = 0)
{
    struct trial trials[4] = { 0 };
    char data[4][4];
    int ends[2], others[2];
    make_pair(ends, SOCK_STREAM);
    make_pair(others, SOCK_STREAM);
    start(&trials[0], receive_op(ends[0], data[0], 4));
    start(&trials[1], receive_op(ends[0], data[1], 4));
    start(&trials[2], (struct weft__op){ .code = WEFT__OP_POLL, .fd = ends[0], .flags = POLLIN });
    start(&trials[3], receive_op(others[0], data[3], 4));
    forget(ends[0]);
    forget(ends[0]);
    for (int i = 0; i < 3; i++) {
        await(&trials[i]);
        CHECK_EQ(trials[i].result, -ECANCELED);
    }
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK(!trials[3].ended);
    CHECK_EQ(weft_write(others[1], "x", 1, WEFT_FOREVER), 1);
    await(&trials[3]);
    CHECK_EQ(trials[3].result, 1);
    CHECK_EQ(weft_write(ends[1], "y", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[0], data, 1, WEFT_FOREVER), 1);
    close_both(ends);
    close_both(others);
}

TEST_SIMULATED(readers_are_served_in_the_order_of_their_coming, .latency_ns = 0)
{
    struct trial trials[3] = { 0 };
    char data[3][4];
    int ends[2];
    make_pair(ends, SOCK_STREAM);
    for (int i = 0; i < 3; i++) {
        start(&trials[i], receive_op(ends[0], data[i], 1));
    }
    cancel(&trials[0]); // whoever stands behind it is not held up
    await(&trials[0]);
    CHECK_EQ(trials[0].result, -ECANCELED);
    CHECK_EQ(weft_write(ends[1], "ab", 2, WEFT_FOREVER), 2);
    await(&trials[1]);
    await(&trials[2]);
    CHECK_EQ(data[1][0], 'a');
    CHECK_EQ(data[2][0], 'b');
    close_both(ends);
}

static int read_on_another_carrier(void *arg)
{
    char byte;
    return (int)weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER);
}

TEST_SIMULATED(closing_ends_the_ops_of_other_carriers, .latency_ns = 0)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *tasks[3];
    int result;
    int ends[2];
    make_pair(ends, SOCK_STREAM);
    attr.place = WEFT_PLACE_CARRIER;
    for (int i = 0; i < 3; i++) {
        attr.carrier = i;
        CHECK_OK(weft_spawn(&tasks[i], read_on_another_carrier, &ends[0], &attr));
    }
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK_OK(weft_close(ends[0]));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, -EBADF);
    }
    CHECK_OK(weft_close(ends[1]));
}

TEST_SIMULATED(positions_and_pipes_are_not_for_sockets, .latency_ns = 0)
{
    struct trial trial = { 0 };
    char data[4];
    int ends[2];
    make_pair(ends, SOCK_STREAM);
    start(&trial,
          (struct weft__op){ .code = WEFT__OP_READ, .fd = ends[0], .data = data, .size = 1 });
    await(&trial);
    CHECK_EQ(trial.result, -ESPIPE);
    start(&trial, (struct weft__op){ .code = WEFT__OP_SPLICE, .fd = ends[0], .from_fd = ends[1] });
    await(&trial);
    CHECK_EQ(trial.result, -EINVAL);
    start(&trial, (struct weft__op){ .code = WEFT__OP_SPLICE, .fd = ends[0], .from_fd = 0 });
    await(&trial);
    CHECK_EQ(trial.result, -ENOTSUP);
    close_both(ends);
}
