// load_test.c - the histogram, and what the load generator says about servers that behave badly.
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <weft.h>

#include "load.h"
#include "support/temp.h"
#include "support/test.h"

static struct hist hist, other;

TEST(hist_is_exact_for_small_values)
{
    hist_clear(&hist);
    CHECK_EQ(hist_percentile(&hist, 50), 0u);
    for (unsigned i = 1; i <= 100; i++) {
        hist_add(&hist, i, 1);
    }
    CHECK_EQ(hist_percentile(&hist, 50), 50u);
    CHECK_EQ(hist_percentile(&hist, 99), 99u);
    CHECK_EQ(hist_percentile(&hist, 99.1), 100u);
    CHECK_EQ(hist_percentile(&hist, 100), 100u);
    CHECK_EQ(hist_percentile(&hist, 0), 1u);
    CHECK_EQ(hist.min, 1u);
    CHECK_EQ(hist_mean(&hist), 50.5);
}

TEST(hist_is_within_its_error_everywhere)
{
    uint64_t random = test_seed();
    for (int i = 0; i < 100000; i++) {
        uint64_t value = test_random(&random) >> (test_random(&random) % 64);
        unsigned slot = hist_slot(value);
        CHECK_LT(slot, (unsigned)HIST_SLOTS);
        hist_clear(&hist);
        hist_add(&hist, value, 1);
        hist_add(&hist, UINT64_MAX, 1); // or the greatest value would cut the step's end off
        uint64_t got = hist_percentile(&hist, 50);
        CHECK_GE(got, value);
        CHECK_LE(got - value, value / 128);
    }
}

TEST(hist_slots_are_in_order)
{
    uint64_t random = test_seed();
    for (int i = 0; i < 100000; i++) {
        uint64_t a = test_random(&random) >> (test_random(&random) % 64);
        uint64_t b = test_random(&random) >> (test_random(&random) % 64);
        CHECK_EQ(a < b && hist_slot(a) > hist_slot(b), false);
    }
}

TEST(hist_merges)
{
    hist_clear(&hist);
    hist_clear(&other);
    hist_add(&hist, 10, 3);
    hist_add(&other, 20, 1);
    hist_merge(&hist, &other);
    CHECK_EQ(hist.count, 4u);
    CHECK_EQ(hist_percentile(&hist, 75), 10u);
    CHECK_EQ(hist_percentile(&hist, 76), 20u);
    CHECK_EQ(hist.max, 20u);
}

TEST(addresses_are_read)
{
    struct load_address address;
    CHECK_EQ(load_address_parse(&address, "tcp://127.0.0.1:80"), 0);
    CHECK_EQ(address.any.sa_family, AF_INET);
    CHECK_EQ(load_address_parse(&address, "unix:///run/x"), 0);
    CHECK_STR(address.un.sun_path, "/run/x");
    static const char *const wrong[] = { "",
                                         "tcp://",
                                         "tcp://127.0.0.1",
                                         "tcp://127.0.0.1:",
                                         "tcp://127.0.0.1:65536",
                                         "tcp://127.0.0.1:8x",
                                         "tcp://localhost:80",
                                         "unix://",
                                         "127.0.0.1:80" };
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_EQ(load_address_parse(&address, wrong[i]), -EINVAL);
    }
}

// One source address has no more than 28,232 ports by default.
TEST(many_connections_come_from_several_addresses)
{
    struct load_address address;
    struct sockaddr_in from = { 0 };
    CHECK_OK(load_address_parse(&address, "tcp://127.0.0.1:0"));
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_OK(bind(listener, &address.any, address.size));
    CHECK_OK(listen(listener, 8));
    CHECK_OK(getsockname(listener, &address.any, &address.size));
    static const struct {
        unsigned index;
        uint32_t address;
    } expected[] = {
        { 0, 0x7f000001 }, { 19999, 0x7f000001 }, { 20000, 0x7f000002 }, { 99999, 0x7f000005 }
    };
    for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        int fd = load_connect(&address, expected[i].index);
        CHECK_OK(fd);
        CHECK_OK(load_await_connect(fd));
        CHECK_OK(getsockname(fd, (struct sockaddr *)&from, &(socklen_t){ sizeof from }));
        CHECK_EQ(ntohl(from.sin_addr.s_addr), expected[i].address);
        close(fd);
    }
    close(listener);
}

// A server of one connection at a time, on a thread of its own.

enum habit { ECHO, STALL, CORRUPT, HANG_UP, ANSWER };

static struct {
    enum habit habit;
    unsigned after; // the habit shows after so many bytes
    int listener;
    struct load_plan plan;
    struct load_result result;
    int rc;
} fixture;

#define STALL_MS 200

static void serve_one(int fd)
{
    char buffer[4096];
    size_t seen = 0;
    ssize_t n;
    bool shown = false;
    while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0) {
        seen += (size_t)n;
        if (!shown && seen >= fixture.after) {
            shown = true;
            if (fixture.habit == HANG_UP) {
                return;
            }
            if (fixture.habit == STALL) {
                nanosleep(&(struct timespec){ 0, STALL_MS * 1000000L }, NULL);
            }
            buffer[n - 1] = (char)(buffer[n - 1] + (fixture.habit == CORRUPT));
        }
        if (send(fd, buffer, (size_t)n, MSG_NOSIGNAL) != n) {
            return;
        }
    }
}

#define QUESTION "who is there?"
#define REPLY "nobody"

static void answer_one(int fd)
{
    char question[sizeof QUESTION - 1];
    while (recv(fd, question, sizeof question, MSG_WAITALL) == sizeof question &&
           memcmp(question, QUESTION, sizeof question) == 0) {
        if (send(fd, REPLY, sizeof REPLY - 1, MSG_NOSIGNAL) != sizeof REPLY - 1) {
            return;
        }
    }
}

static void *serve(void *arg)
{
    (void)arg;
    for (;;) {
        int fd = accept(fixture.listener, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        if (fixture.habit == ANSWER) {
            answer_one(fd);
        } else {
            serve_one(fd);
        }
        close(fd);
    }
}

static int run_plan(void *arg)
{
    const struct load_core *core = arg;
    struct load *load;
    int rc = core->open(&load, &fixture.plan);
    if (rc < 0) {
        return rc;
    }
    fixture.rc = core->run(load, &fixture.result);
    if (fixture.rc == 0 && fixture.habit == ECHO) {
        fixture.rc = core->run(load, &fixture.result); // it may be run again
    }
    core->close(load);
    return 0;
}

static void run_against(enum habit habit, bool on_weft)
{
    char folder[80], text[96];
    temp_folder(folder, sizeof folder);
    snprintf(text, sizeof text, "unix://%s/socket", folder);
    fixture.habit = habit;
    fixture.after = 50 * 64;
    CHECK_OK(load_address_parse(&fixture.plan.address, text));
    fixture.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_OK(bind(fixture.listener, &fixture.plan.address.any, fixture.plan.address.size));
    CHECK_OK(listen(fixture.listener, 8));
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, serve, NULL), 0);
    if (on_weft) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        options.carriers = 1;
        CHECK_OK(weft_run(run_plan, (void *)(uintptr_t)&load_weft, &options));
    } else {
        CHECK_OK(run_plan((void *)(uintptr_t)&load_epoll));
    }
    shutdown(fixture.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    CHECK_OK(unlink(fixture.plan.address.un.sun_path));
    CHECK_OK(rmdir(folder));
}

static void use_plan(double rate)
{
    fixture.plan.connections = 1;
    fixture.plan.depth = 4;
    fixture.plan.size_bytes = 64;
    fixture.plan.count = 400;
    fixture.plan.rate = rate;
}

static void closed_loop(bool on_weft)
{
    use_plan(0);
    run_against(ECHO, on_weft);
    CHECK_EQ(fixture.rc, 0);
    CHECK_GE(fixture.result.requests, 400u);
    CHECK_GE(fixture.result.latency_ns.count, 400u);
    CHECK_GT(fixture.result.span_ns, 0u);
}

// At 1,000 requests a second some 200 fall due during the stall. Each waited, on average, for half of
// it; a generator that counts from when it could send them would see one long request only.
static void open_loop_sees_the_whole_stall(bool on_weft)
{
    use_plan(1000);
    run_against(STALL, on_weft);
    CHECK_EQ(fixture.rc, 0);
    uint64_t late = 0;
    for (unsigned i = hist_slot(20000000); i < HIST_SLOTS; i++) {
        late += fixture.result.latency_ns.at[i];
    }
    CHECK_GE(late, 150u);
    CHECK_GE(fixture.result.latency_ns.max, (STALL_MS - 20) * 1000000u);
    CHECK_GE(fixture.result.span_ns, 390000000u); // the rate was not exceeded
}

TEST(plain_closed_loop)
{
    closed_loop(false);
}

TEST_DRIVERS(weft_closed_loop)
{
    closed_loop(true);
}

TEST(plain_open_loop)
{
    open_loop_sees_the_whole_stall(false);
}

TEST_DRIVERS(weft_open_loop)
{
    open_loop_sees_the_whole_stall(true);
}

TEST(plain_notices_wrong_replies)
{
    use_plan(0);
    run_against(CORRUPT, false);
    CHECK_EQ(fixture.rc, -EBADMSG);
}

TEST_DRIVERS(weft_notices_wrong_replies)
{
    use_plan(0);
    run_against(CORRUPT, true);
    CHECK_EQ(fixture.rc, -EBADMSG);
}

TEST(plain_notices_a_server_that_hangs_up)
{
    use_plan(0);
    run_against(HANG_UP, false);
    CHECK_EQ(fixture.rc == -EPIPE || fixture.rc == -ECONNRESET, true);
}

TEST_DRIVERS(weft_notices_a_server_that_hangs_up)
{
    use_plan(0);
    run_against(HANG_UP, true);
    CHECK_EQ(fixture.rc == -EPIPE || fixture.rc == -ECONNRESET, true);
}

static int ask_for(const char *reply, double rate, bool on_weft)
{
    use_plan(rate);
    fixture.plan.request = QUESTION;
    fixture.plan.size_bytes = sizeof QUESTION - 1;
    fixture.plan.reply = reply;
    fixture.plan.reply_bytes = strlen(reply);
    fixture.plan.shares_cpu = true;
    run_against(ANSWER, on_weft);
    return fixture.rc;
}

TEST(plain_knows_replies_that_are_no_echoes)
{
    CHECK_EQ(ask_for(REPLY, 0, false), 0);
    CHECK_GE(fixture.result.latency_ns.count, 400u);
    CHECK_EQ(ask_for(REPLY, 2000, false), 0);
    CHECK_GE(fixture.result.span_ns, 190000000u); // the rate was not exceeded
    CHECK_EQ(ask_for("nobidy", 0, false), -EBADMSG);
}

TEST_DRIVERS(weft_knows_replies_that_are_no_echoes)
{
    CHECK_EQ(ask_for(REPLY, 0, true), 0);
    CHECK_GE(fixture.result.latency_ns.count, 400u);
    CHECK_EQ(ask_for(REPLY, 2000, true), 0);
    CHECK_GE(fixture.result.span_ns, 190000000u);
    CHECK_EQ(ask_for("nobidy", 0, true), -EBADMSG);
}
