// op_limit_test.c - queues, buffers and batches that are full, on each driver.
#include "support/ops.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 200 };

/// `count` socket pairs.
struct crowd {
    int fds[MANY][2];
    struct trial trials[MANY];
    char bytes[MANY];
};

static struct crowd *make_crowd(void *state, int count)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    for (int i = 0; i < count; i++) {
        make_pair(state, crowd->fds[i]);
    }
    return crowd;
}

static void *open_small(unsigned entries, uint32_t buffers)
{
    const struct weft__driver_config config = { .entries = entries,
                                                .buffers = buffers,
                                                .buffer_bytes = 64 };
    return open_with(&config);
}

static void poke(struct crowd *crowd, int i)
{
    char byte = (char)i;
    CHECK_EQ(send(crowd->fds[i][0], &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT), 1);
}

// Queues.

TEST_DRIVERS(small_queues_take_hundreds_of_ops)
{
    void *state = open_small(2, 4);
    struct crowd *crowd = make_crowd(state, MANY);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            trial_start(&crowd->trials[i], state, recv_op(crowd->fds[i][1], &crowd->bytes[i], 1));
        }
        if (round != 1) {
            driver()->poll(state);
        }
        for (int i = 0; i < MANY; i++) {
            poke(crowd, i);
        }
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(trial_await(&crowd->trials[i]), 1);
            CHECK_EQ(crowd->bytes[i], (char)i);
        }
    }
    CHECK_EQ(driver()->counts(state)->submitted, 3 * MANY);
    CHECK_EQ(driver()->counts(state)->completed, 3 * MANY);
    driver()->close(state);
    free(crowd);
}

TEST_DRIVERS(small_queues_cancel_hundreds_of_ops)
{
    void *state = open_small(2, 4);
    struct crowd *crowd = make_crowd(state, MANY);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < MANY; i++) {
            trial_start(&crowd->trials[i], state, recv_op(crowd->fds[i][1], &crowd->bytes[i], 1));
            if (round == 1) {
                cancel(&crowd->trials[i]);
            }
        }
        if (round == 2) {
            driver()->poll(state);
        }
        for (int i = 0; i < MANY && round != 3; i++) {
            cancel(&crowd->trials[i]);
        }
        for (int i = 0; i < MANY && round == 3; i++) {
            forget(state, crowd->fds[i][1]);
        }
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(trial_await(&crowd->trials[i]), -ECANCELED);
        }
    }
    driver()->close(state);
    free(crowd);
}

static void start_crowd(struct trial *trial)
{
    struct crowd *crowd = weft__container_of(trial, struct crowd, trials[0]);
    trial->then = NULL;
    for (int i = 1; i < MANY; i++) {
        trial_start(&crowd->trials[i], trial->state, poll_op(crowd->fds[i][0], POLLOUT));
    }
}

TEST_DRIVERS(done_may_submit_hundreds_of_ops)
{
    void *state = open_small(2, 4);
    struct crowd *crowd = make_crowd(state, MANY);
    crowd->trials[0].then = start_crowd;
    trial_start(&crowd->trials[0], state, recv_op(crowd->fds[0][1], crowd->bytes, 1));
    poke(crowd, 0);
    CHECK_EQ(trial_await(&crowd->trials[0]), 1);
    for (int i = 1; i < MANY; i++) {
        CHECK_EQ(trial_await(&crowd->trials[i]), POLLOUT);
    }
    driver()->close(state);
    free(crowd);
}

TEST_DRIVERS(close_with_full_queues)
{
    void *state = open_small(2, 4);
    struct crowd *crowd = make_crowd(state, MANY);
    for (int i = 0; i < MANY; i++) {
        uint8_t mode = i % 2 == 0 ? WEFT__OP_MULTI : 0;
        trial_start(&crowd->trials[i], state, select_op(crowd->fds[i][1], mode));
        poke(crowd, i);
    }
    driver()->close(state);
    free(crowd);
}

TEST_DRIVERS(a_batch_of_one_is_submitted_at_once)
{
    const struct weft__driver_config config = { .submit_batch = 1 };
    void *state = open_with(&config);
    int fds[2];
    char byte;
    struct trial trial = { 0 };
    make_pair(state, fds);
    trial_start(&trial, state, send_op(fds[0], "x", 1));
    CHECK_EQ(recv(fds[1], &byte, 1, MSG_DONTWAIT), 1); // nobody has called poll or wait
    CHECK_EQ(trial_await(&trial), 1);
    driver()->close(state);
}

TEST_DRIVERS(ops_that_only_wait_cost_no_system_call)
{
    void *state = open_driver();
    struct crowd *crowd = make_crowd(state, 10);
    for (int i = 0; i < 10; i++) {
        trial_start(&crowd->trials[i], state, recv_op(crowd->fds[i][1], &crowd->bytes[i], 1));
    }
    driver()->poll(state);
    uint64_t before = driver()->counts(state)->enters;
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(driver()->poll(state), 0);
    }
    if (test_driver() == TEST_DRIVER_URING) { // epoll has to ask
        CHECK_EQ(driver()->counts(state)->enters, before);
    }
    driver()->close(state);
    free(crowd);
}

// Buffers.

struct hoard {
    struct crowd *crowd;
    void *state;
    uint16_t numbers[64];
    int count;
    bool keep;
};

static struct hoard hoard;

static void hoard_buffer(struct trial *trial)
{
    if (trial->result > 0) {
        CHECK((trial->flags & WEFT__OP_BUFFER) != 0);
        uint16_t number = weft__op_buffer(&trial->op);
        for (int i = 0; i < hoard.count; i++) { // nobody else has it
            CHECK_NE(hoard.numbers[i], number);
        }
        struct crowd *crowd = hoard.crowd;
        const char *byte = driver()->buffer(trial->state, number);
        CHECK_EQ(*byte, (char)(trial - crowd->trials));
        if (hoard.keep) {
            hoard.numbers[hoard.count++] = number;
        } else {
            driver()->give(trial->state, number);
        }
    }
}

static void hoard_init(unsigned entries, int readers)
{
    hoard.state = open_small(entries, 4);
    hoard.crowd = make_crowd(hoard.state, readers);
    hoard.keep = true;
    hoard.count = 0;
    for (int i = 0; i < readers; i++) {
        struct trial *trial = &hoard.crowd->trials[i];
        trial->then = hoard_buffer;
        trial_start(trial, hoard.state,
                    select_op(hoard.crowd->fds[i][1], i % 2 == 0 ? WEFT__OP_MULTI : 0));
    }
    for (int i = 0; i < readers; i++) {
        poke(hoard.crowd, i);
    }
    weft_time limit = weft__clock_ns() + LOST_NS;
    while (hoard.count < 4) {
        driver()->wait(hoard.state, limit);
        CHECK_LT(weft__clock_ns(), limit);
    }
    for (int i = 0; i < 10; i++) { // the others find none
        driver()->wait(hoard.state, weft__clock_ns() + WEFT_MS / 4);
        CHECK_EQ(hoard.count, 4);
    }
    CHECK_GT(driver()->counts(hoard.state)->no_buffers, 0);
}

static int results_of(int readers)
{
    int count = 0;
    for (int i = 0; i < readers; i++) {
        count += hoard.crowd->trials[i].result == 1;
    }
    return count;
}

TEST_DRIVERS(buffers_run_out_and_come_back)
{
    enum { READERS = 12 };
    hoard_init(2, READERS);
    for (int served = 4; served < READERS; served++) { // one back, one served
        give(hoard.state, hoard.numbers[--hoard.count]);
        weft_time limit = weft__clock_ns() + LOST_NS;
        while (results_of(READERS) <= served) {
            driver()->wait(hoard.state, limit);
            CHECK_LT(weft__clock_ns(), limit);
        }
        CHECK_EQ(results_of(READERS), served + 1);
        CHECK_EQ(hoard.count, 4);
    }
    driver()->close(hoard.state);
    free(hoard.crowd);
}

TEST_DRIVERS(starving_ops_can_be_cancelled)
{
    enum { READERS = 12 };
    hoard_init(64, READERS);
    int starving = 0;
    for (int i = 0; i < READERS; i++) {
        struct trial *trial = &hoard.crowd->trials[i];
        if (trial->result != 1) {
            CHECK(!trial->ended);
            i % 3 == 0 ? forget(hoard.state, trial->op.fd) : cancel(trial);
            CHECK_EQ(trial_await(trial), -ECANCELED);
            // Its byte is still there.
            CHECK_EQ(perform(hoard.state, recv_op(trial->op.fd, hoard.crowd->bytes, 1)), 1);
            CHECK_EQ(hoard.crowd->bytes[0], (char)i);
            starving++;
        }
    }
    CHECK_EQ(starving, READERS - 4);
    driver()->close(hoard.state);
    free(hoard.crowd);
}

TEST_DRIVERS(no_buffer_is_lost)
{
    enum { READERS = 8 };
    hoard_init(8, READERS);
    uint64_t seed = test_seed();
    hoard.keep = false;
    while (hoard.count > 0) {
        give(hoard.state, hoard.numbers[--hoard.count]);
    }
    for (uint64_t i = test_scaled(2000); i > 0; i--) { // bytes, cancels and ends of streams
        int k = (int)(test_random(&seed) % READERS);
        struct trial *trial = &hoard.crowd->trials[k];
        uint64_t draw = test_random(&seed);
        if (trial->ended) {
            trial_start(trial, hoard.state, select_op(trial->op.fd, draw % 2 ? WEFT__OP_MULTI : 0));
        } else if (draw % 4 == 0) {
            cancel(trial);
        } else {
            poke(hoard.crowd, k);
        }
        if (draw % 3 == 0) {
            driver()->poll(hoard.state);
        }
    }
    for (int i = 0; i < READERS; i++) {
        struct trial *trial = &hoard.crowd->trials[i];
        close_fd(hoard.state, hoard.crowd->fds[i][0]);
        while (!trial->ended || trial->result != 0) {
            trial_await(trial);
            if (trial->result != 0) {
                trial_start(trial, hoard.state, select_op(trial->op.fd, 0));
            }
        }
        close_fd(hoard.state, hoard.crowd->fds[i][1]);
    }
    void *state = hoard.state;
    hoard.keep = true; // all four can be had again, at the same time
    free(hoard.crowd);
    hoard.crowd = make_crowd(state, 4);
    for (int i = 0; i < 4; i++) {
        hoard.crowd->trials[i].then = hoard_buffer;
        poke(hoard.crowd, i);
        trial_start(&hoard.crowd->trials[i], state, select_op(hoard.crowd->fds[i][1], 0));
        CHECK_EQ(trial_await(&hoard.crowd->trials[i]), 1);
    }
    CHECK_EQ(hoard.count, 4);
    driver()->close(state);
    free(hoard.crowd);
}

TEST_DRIVERS(buffers_cost_memory_only_when_used)
{
    const struct weft__driver_config config = { .buffers = 8192, .buffer_bytes = 65536 };
    struct rusage before, after;
    CHECK_EQ(getrusage(RUSAGE_SELF, &before), 0);
    void *state = open_with(&config); // half a gigabyte
    int fds[2];
    make_pair(state, fds);
    for (int i = 0; i < 100; i++) {
        struct trial reader = { 0 };
        trial_start(&reader, state, select_op(fds[1], 0));
        CHECK_EQ(send(fds[0], "x", 1, 0), 1);
        CHECK_EQ(trial_await(&reader), 1);
        give(state, weft__op_buffer(&reader.op));
    }
    CHECK_EQ(getrusage(RUSAGE_SELF, &after), 0);
    if (!test_is_slow()) {
        CHECK_LT(after.ru_maxrss - before.ru_maxrss, 8192); // KiB
    }
    driver()->close(state);
}

TEST_DRIVERS(odd_sizes_of_buffers_will_do)
{
    const uint32_t counts[] = { 1, 3, 5, 1000 }, sizes[] = { 1, 3, 100, 1u << 20 };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(counts); i++) {
        const struct weft__driver_config config = { .buffers = counts[i],
                                                    .buffer_bytes = sizes[i] };
        void *state = open_with(&config);
        int fds[2];
        make_pair(state, fds);
        CHECK_EQ(send(fds[0], "0123456789", 10, 0), 10);
        for (int64_t received = 0; received < 10;) {
            struct trial reader = { 0 };
            trial_start(&reader, state, select_op(fds[1], 0));
            CHECK_GT(trial_await(&reader), 0);
            CHECK_LE(reader.result, sizes[i]);
            const char *bytes = driver()->buffer(state, weft__op_buffer(&reader.op));
            CHECK_EQ(bytes[0], (char)('0' + received));
            received += reader.result;
            give(state, weft__op_buffer(&reader.op));
        }
        driver()->close(state);
    }
}
