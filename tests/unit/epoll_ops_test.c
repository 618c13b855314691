// epoll_ops_test.c - operations on the epoll driver: ending them from outside, what done() may do,
// receive buffers, and many descriptors.
//
// What is common to all drivers is in op_test.c and op_cancel_test.c.
#include "support/calls.h"

#include <stdlib.h>
#include <sys/resource.h>

// Ending.

TEST(cancel_ends_an_op_in_the_next_wait_and_not_before)
{
    void *state = open_driver();
    int fds[2];
    char data[16];
    make_unix(fds, SOCK_STREAM);
    for (int i = 0; i < 4; i++) {
        struct trial trial = { 0 };
        struct weft__op op = i % 2 == 0 ? recv_op(fds[0], data, 16) : poll_op(fds[0], POLLIN);
        trial_start(&trial, state, i < 2 ? op : managed(op));
        cancel(&trial);
        cancel(&trial);
        driver()->forget(state, fds[0]);
        CHECK(!trial.ended);
        if (i == 1) {
            CHECK_EQ(driver()->poll(state), 1);
        } else {
            calls_reset();
            CHECK_EQ(driver()->wait(state, WEFT_FOREVER), 1);
        }
        CHECK(trial.ended);
        CHECK_EQ(trial.result, -ECANCELED);
        CHECK_EQ(trial.calls, 1);
        cancel(&trial); // not in flight any more
        CHECK_EQ(driver()->poll(state), 0);
    }
    CHECK_EQ(count_of(state, "cancels"), 4u);
    CHECK_EQ(count_of(state, "submitted"), 4u);
    CHECK_EQ(count_of(state, "completed"), 4u);
    driver()->close(state);
}

TEST(the_others_go_on_when_one_in_the_middle_is_cancelled)
{
    enum { OPS = 7 };
    void *state = open_driver();
    int fds[2];
    char data[OPS];
    make_unix(fds, SOCK_STREAM);
    for (int victim = 0; victim < OPS; victim++) {
        struct trial trials[OPS] = { 0 };
        memset(data, 0, sizeof data);
        for (int i = 0; i < OPS; i++) {
            trial_start(&trials[i], state, recv_op(fds[0], &data[i], 1));
        }
        cancel(&trials[victim]);
        CHECK_EQ(write(fds[1], "abcdef", OPS - 1), OPS - 1);
        const char *next = "abcdef";
        for (int i = 0; i < OPS; i++) {
            CHECK_EQ(trial_await(&trials[i]), i == victim ? -ECANCELED : 1);
            CHECK_EQ(data[i], i == victim ? 0 : *next++); // in the order they came
        }
    }
    driver()->close(state);
}

TEST(forget_ends_all_ops_of_a_descriptor_and_no_others)
{
    static char data[1 << 16];
    void *state = open_driver();
    int fds[2];
    int other[2];
    make_unix(fds, SOCK_STREAM);
    make_unix(other, SOCK_STREAM);
    for (int is_managed = 0; is_managed < 2; is_managed++) {
        struct trial trials[4] = { 0 };
        struct weft__op ops[] = {
            recv_op(fds[0], data, 16),
            recv_op(fds[0], data, 16),
            poll_op(fds[0], POLLIN),
            recv_op(other[0], data, 16),
        };
        for (size_t i = 0; i < WEFT__ARRAY_LEN(ops); i++) {
            trial_start(&trials[i], state, is_managed ? managed(ops[i]) : ops[i]);
        }
        struct trial writer = { 0 };
        do {
            struct weft__op op = send_op(fds[0], data, sizeof data);
            trial_start(&writer, state, is_managed ? managed(op) : op);
        } while (writer.ended);
        driver()->forget(state, fds[0]);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(trial_await(&trials[i]), -ECANCELED);
        }
        CHECK_EQ(trial_await(&writer), -ECANCELED);
        look(state);
        CHECK(!trials[3].ended);
        CHECK_EQ(write(other[1], "abc", 3), 3);
        CHECK_EQ(trial_await(&trials[3]), 3);
        while (take(fds[1], data, sizeof data) > 0) {
        }
        // The descriptor can be used anew.
        trial_start(&trials[0], state, ops[0]);
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        CHECK_EQ(trial_await(&trials[0]), 3);
        driver()->forget(state, fds[0]);
    }
    driver()->forget(state, -1);
    driver()->forget(state, 1000000);
    driver()->close(state);
}

struct late {
    struct trial first;
    struct trial second;
    int fds[2];   // of the one that goes
    int fresh[2]; // what gets its number
    struct trial reborn;
    char data[16];
};

/// Closes the other descriptor, whose event lies in the same batch, and opens another there.
static void replace_other(struct trial *trial)
{
    struct late *late = weft__container_of(trial, struct late, first);
    if (late->reborn.state != NULL) {
        return;
    }
    driver()->forget(trial->state, late->fds[0]);
    make_unix(late->fresh, SOCK_STREAM);
    CHECK_EQ(dup2(late->fresh[0], late->fds[0]), late->fds[0]);
    close(late->fresh[0]);
    trial_start(&late->reborn, trial->state, managed(recv_op(late->fds[0], late->data, 16)));
    CHECK(!late->reborn.ended);
}

TEST(a_late_event_of_a_forgotten_descriptor_is_ignored)
{
    void *state = open_driver();
    struct late late = { .first.then = replace_other };
    int fds[2];
    char data[16];
    make_unix(fds, SOCK_STREAM);
    make_unix(late.fds, SOCK_STREAM);
    trial_start(&late.first, state, managed(recv_op(fds[0], data, 16)));
    trial_start(&late.second, state, managed(recv_op(late.fds[0], late.data, 16)));
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    CHECK_EQ(write(late.fds[1], "def", 3), 3);
    CHECK_EQ(trial_await(&late.first), 3);
    CHECK_EQ(trial_await(&late.second), -ECANCELED);
    look(state);
    CHECK(!late.reborn.ended);
    CHECK_EQ(write(late.fresh[1], "new!", 4), 4);
    CHECK_EQ(trial_await(&late.reborn), 4);
    driver()->close(state);
}

TEST(ops_in_flight_when_the_driver_is_closed)
{
    void *state = open_driver();
    int fds[2];
    int pipes[2];
    char data[16];
    struct trial trials[4] = { 0 };
    make_unix(fds, SOCK_STREAM);
    CHECK_OK(pipe(pipes));
    trial_start(&trials[0], state, recv_op(fds[0], data, 16));
    trial_start(&trials[1], state, managed(recv_op(fds[1], data, 16)));
    trial_start(&trials[2], state, poll_op(pipes[0], POLLIN));
    trial_start(&trials[3], state, read_op(pipes[0], data, 16));
    cancel(&trials[3]);
    driver()->close(state);
    for (int i = 0; i < 4; i++) {
        CHECK(!trials[i].ended);
    }
}

// What done() may do.

enum { CROWD = 40 };

struct crowd {
    struct trial *trials[CROWD];
    int fds[CROWD][2];
    char data[CROWD][16];
    void *state;
    uint64_t seed;
    int ended;
    int depth;
};

static struct crowd crowd;

static int number_of(const struct trial *trial)
{
    for (int i = 0; i < CROWD; i++) {
        if (crowd.trials[i] == trial) {
            return i;
        }
    }
    FAIL("no such trial");
}

static void do_anything(struct trial *trial);

static void crowd_done(struct weft__op *op)
{
    do_anything(weft__container_of(op, struct trial, op));
}

static void start_one(int i)
{
    struct trial *trial = calloc(1, sizeof *trial);
    bool is_managed = i % 2 == 0;
    struct weft__op op = recv_op(crowd.fds[i / 2][0], crowd.data[i], 1 + (size_t)(i % 16));
    CHECK(trial != NULL);
    crowd.trials[i] = trial;
    trial->state = crowd.state;
    trial->op = is_managed ? managed(op) : op;
    trial->op.done = crowd_done;
    if (driver()->submit(crowd.state, &trial->op)) {
        do_anything(trial);
    }
}

static void do_anything(struct trial *trial)
{
    int i = number_of(trial);
    crowd.ended++;
    crowd.trials[i] = NULL;
    free(trial);
    if (crowd.ended > 20000) {
        return;
    }
    int other = (int)(test_random(&crowd.seed) % CROWD);
    switch (test_random(&crowd.seed) % 4) {
    case 0:
        if (crowd.trials[other] != NULL) {
            cancel(crowd.trials[other]);
        }
        break;
    case 1: driver()->forget(crowd.state, crowd.fds[other / 2][0]); break;
    case 2: (void)send(crowd.fds[other / 2][1], "some bytes", 10, MSG_DONTWAIT); break;
    default: break;
    }
    if (crowd.depth < 20) { // it may end at once
        crowd.depth++;
        start_one(i);
        crowd.depth--;
    }
}

TEST(done_may_submit_cancel_forget_and_free)
{
    crowd.state = open_driver();
    crowd.seed = test_seed();
    for (int i = 0; i < CROWD / 2; i++) {
        make_unix(crowd.fds[i], SOCK_STREAM);
    }
    for (int i = 0; i < CROWD; i++) {
        start_one(i);
    }
    weft_time limit = weft__clock_ns() + LOST_NS;
    while (crowd.ended <= 20000) {
        CHECK_LT(weft__clock_ns(), limit);
        int i = (int)(test_random(&crowd.seed) % CROWD);
        (void)send(crowd.fds[i / 2][1], "some more", 9, MSG_DONTWAIT);
        if (crowd.trials[i] == NULL) {
            start_one(i);
        }
        driver()->poll(crowd.state);
    }
    for (int i = 0; i < CROWD / 2; i++) {
        close_fd(crowd.state, crowd.fds[i][0]);
    }
    look(crowd.state);
    CHECK_EQ(count_of(crowd.state, "submitted"), count_of(crowd.state, "completed"));
    driver()->close(crowd.state);
    for (int i = 0; i < CROWD; i++) {
        CHECK(crowd.trials[i] == NULL);
    }
}

TEST(many_readers_of_one_descriptor_share_it_with_others)
{
    enum { READERS = 100 };
    static struct trial trials[READERS];
    static char data[READERS];
    void *state = open_driver();
    int fds[2];
    make_unix(fds, SOCK_STREAM);
    for (int i = 0; i < READERS; i++) {
        trial_start(&trials[i], state, managed(recv_op(fds[0], &data[i], 1)));
        data[i] = 'x';
    }
    CHECK_EQ(write(fds[1], data, READERS), READERS);
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(trial_await(&trials[i]), 1);
    }
    driver()->close(state);
}

// Receive buffers.

TEST(ops_wait_for_buffers_in_the_order_they_came)
{
    enum { BUFFERS = 4, OPS = 10 };
    const struct weft__driver_config config = { .buffers = BUFFERS, .buffer_bytes = 1024 };
    void *state = open_with(&config);
    int fds[OPS][2];
    struct trial trials[OPS] = { 0 };
    for (int i = 0; i < OPS; i++) {
        make_unix(fds[i], SOCK_STREAM);
        CHECK_EQ(write(fds[i][1], "bytes", 5), 5);
        trial_start(&trials[i], state, select_op(fds[i][0], i % 2 == 0 ? WEFT__OP_MANAGED : 0));
        CHECK_EQ(trials[i].ended, i < BUFFERS);
    }
    CHECK_EQ(count_of(state, "no_buffers"), (uint64_t)(OPS - BUFFERS));
    look(state);
    cancel(&trials[5]);
    CHECK_EQ(trial_await(&trials[5]), -ECANCELED);
    close_fd(state, fds[6][0]);
    CHECK_EQ(trial_await(&trials[6]), -ECANCELED);
    int held = 0;
    for (int i = BUFFERS; i < OPS; i++) {
        if (trials[i].ended) {
            continue;
        }
        driver()->give(state, weft__op_buffer(&trials[held++].op));
        CHECK(!trials[i].ended);
        CHECK_EQ(driver()->wait(state, WEFT_FOREVER), 1);
        CHECK(trials[i].ended);
        CHECK_EQ(trials[i].result, 5);
        CHECK(memcmp(driver()->buffer(state, weft__op_buffer(&trials[i].op)), "bytes", 5) == 0);
    }
    CHECK_EQ(count_of(state, "no_buffers"), (uint64_t)(OPS - BUFFERS));
    driver()->close(state);
}

TEST(an_op_that_got_its_buffer_too_late_waits_for_bytes)
{
    const struct weft__driver_config config = { .buffers = 1, .buffer_bytes = 1024 };
    for (int i = 0; i < 2; i++) {
        void *state = open_with(&config);
        uint8_t mode = i == 0 ? WEFT__OP_MANAGED : 0;
        int fds[2];
        int other[2];
        char data[16];
        make_unix(fds, SOCK_STREAM);
        make_unix(other, SOCK_STREAM);
        CHECK_EQ(write(other[1], "abc", 3), 3);
        struct trial holder = { 0 };
        struct trial reader = { 0 };
        trial_start(&holder, state, select_op(other[0], mode));
        CHECK(holder.ended);
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        trial_start(&reader, state, select_op(fds[0], mode));
        CHECK(!reader.ended);
        CHECK_EQ(take(fds[0], data, sizeof data), 3); // somebody else has read it
        driver()->give(state, weft__op_buffer(&holder.op));
        look(state);
        CHECK(!reader.ended);
        CHECK_EQ(write(fds[1], "defg", 4), 4);
        CHECK_EQ(trial_await(&reader), 4);
        driver()->close(state);
    }
}

TEST(an_end_needs_no_buffer_for_long)
{
    const struct weft__driver_config config = { .buffers = 1, .buffer_bytes = 1024 };
    void *state = open_with(&config);
    struct trial trial = { 0 };
    for (int i = 0; i < 5; i++) {
        int fds[2];
        make_unix(fds, SOCK_STREAM);
        trial_start(&trial, state, select_op(fds[0], WEFT__OP_MANAGED));
        close(fds[1]);
        CHECK_EQ(trial_await(&trial), 0);
        CHECK((trial.flags & WEFT__OP_BUFFER) == 0);
        close_fd(state, fds[0]);
    }
    driver()->close(state);
}

// Many.

TEST(ten_thousand_descriptors)
{
    enum { MANY = 5000, SPARE = 100 };
    static int fds[MANY][2];
    static struct trial trials[MANY][2];
    static char data[MANY][2];
    struct rlimit limit;
    CHECK_OK(getrlimit(RLIMIT_NOFILE, &limit));
    if (limit.rlim_max < 2 * MANY + SPARE) {
        SKIP("not so many descriptors here");
    }
    limit.rlim_cur = limit.rlim_max;
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit));
    void *state = open_driver();
    for (int i = 0; i < MANY; i++) {
        make_unix(fds[i], SOCK_STREAM);
        trial_start(&trials[i][0], state, managed(recv_op(fds[i][0], &data[i][0], 1)));
        trial_start(&trials[i][1], state, recv_op(fds[i][1], &data[i][1], 1));
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(send(fds[i][0], "x", 1, 0), 1);
            CHECK_EQ(send(fds[i][1], "y", 1, 0), 1);
        }
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(trial_await(&trials[i][0]), 1);
            CHECK_EQ(trial_await(&trials[i][1]), 1);
            trial_start(&trials[i][0], state, managed(recv_op(fds[i][0], &data[i][0], 1)));
            trial_start(&trials[i][1], state, recv_op(fds[i][1], &data[i][1], 1));
        }
    }
    for (int i = 0; i < MANY; i++) {
        close_fd(state, fds[i][0]);
        close_fd(state, fds[i][1]);
    }
    CHECK_EQ(count_of(state, "completed") < count_of(state, "submitted"), true);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(trial_await(&trials[i][0]), -ECANCELED);
        CHECK_EQ(trial_await(&trials[i][1]), -ECANCELED);
    }
    CHECK_EQ(count_of(state, "completed"), count_of(state, "submitted"));
    driver()->close(state);
}
