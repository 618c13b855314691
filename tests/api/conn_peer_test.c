// conn_peer_test.c - connections under signals, and with peers that reset, dawdle or say half.
#include "support/conns.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>

#include <weft.h>

enum { BLOCK = 40000, BLOCKS = 200 };

static weft_time soon(void)
{
    return weft_after(30 * WEFT_S);
}

static void release(void *arg)
{
    (*(int *)arg)++;
}

// A reset in the middle of a write.

static int read_some_and_reset(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    CHECK_OK(weft_conn_peek(conn, &in, BLOCK / 2, soon()));
    return weft_conn_abort(conn);
}

/// Copies and references, one after the other. What the first call said that failed.
static int write_until_broken(weft_conn *conn, int *lent, int *released)
{
    static const char block[BLOCK];
    int rc = 0;
    for (int i = 0; rc == 0 && i < BLOCKS; i++) {
        rc = weft_conn_write(conn, block, sizeof block, soon());
        if (rc == 0) {
            rc = weft_conn_write_ref(conn, block, sizeof block, release, released, soon());
            *lent += rc == 0;
        }
    }
    return rc == 0 ? weft_conn_flush(conn, soon()) : rc;
}

static void reset_under_writer(const char *address)
{
    struct pair pair = make_pair(address);
    weft_task *peer;
    struct weft_slice in;
    int lent = 0, released = 0;
    CHECK_OK(weft_spawn(&peer, read_some_and_reset, pair.far, NULL));
    int rc = write_until_broken(pair.near, &lent, &released);
    CHECK(rc == -ECONNRESET || rc == -EPIPE);
    CHECK_GT(lent, 0);
    CHECK_EQ(weft_conn_write(pair.near, "x", 1, soon()), rc); // and so it stays
    CHECK_EQ(weft_conn_flush(pair.near, soon()), rc);
    int read = weft_conn_peek(pair.near, &in, 1, soon());
    CHECK(read == 0 || read == -ECONNRESET);
    CHECK_EQ(weft_conn_close(pair.near), rc);
    CHECK_OK(weft_join(NULL, peer, WEFT_FOREVER));
    while (released < lent) { // the kernel lets go
        CHECK_OK(weft_sleep(WEFT_MS));
    }
    CHECK_EQ(released, lent);
}

TEST_EVERYWHERE(a_reset_in_the_middle_of_a_write_breaks_a_connection_for_good)
{
    reset_under_writer("tcp://127.0.0.1:0");
    reset_under_writer("unix://");
}

// A peer that has said all it has to say waits for the answer, and one that reads slowly gets it all.

static int answer_slowly(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    static const char block[BLOCK];
    CHECK_EQ(weft_conn_peek(conn, &in, 8, soon()), 8);
    weft_conn_consume(conn, 8);
    CHECK_EQ(weft_conn_peek(conn, &in, 1, soon()), 0); // it is half open
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_conn_write(conn, block, sizeof block, soon()));
    }
    return weft_conn_close(conn);
}

TEST_EVERYWHERE(a_half_open_peer_that_reads_slowly_gets_everything)
{
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    struct weft_conn_limits limits = { .output_bytes = 1000, .linger_ns = 3600 * WEFT_S };
    weft_task *task;
    struct weft_slice in;
    size_t sum = 0;
    int rc, result;
    weft_conn_set_limits(pair.far, &limits);
    CHECK_OK(weft_spawn(&task, answer_slowly, pair.far, NULL));
    CHECK_OK(weft_conn_write(pair.near, "question", 8, soon()));
    CHECK_OK(weft_conn_finish(pair.near, soon()));
    while ((rc = weft_conn_peek(pair.near, &in, 1, soon())) > 0) {
        size_t part = in.size < 997 ? in.size : 997;
        sum += part;
        weft_conn_consume(pair.near, part);
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(rc, 0);
    CHECK_EQ(sum, 20 * BLOCK);
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_OK(result);
    CHECK_OK(weft_conn_close(pair.near));
}

// Signals.

static atomic_int signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static int send_all(void *arg)
{
    static const char block[BLOCK];
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_conn_write(arg, block, sizeof block, soon()));
    }
    return weft_conn_finish(arg, soon());
}

static int talk_under_fire(void *arg)
{
    static char into[20 * BLOCK];
    struct itimerval often = { { 0, 200 }, { 0, 200 } };
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    (void)arg;
    CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (int i = 0; i < 10 || atomic_load(&signals) < 300; i++) {
        struct pair pair = make_pair(i % 2 == 0 ? "tcp://127.0.0.1:0" : "unix://");
        weft_task *task;
        CHECK_OK(weft_spawn(&task, send_all, pair.near, NULL));
        CHECK_EQ(weft_conn_read_into(pair.far, into, sizeof into, soon()), sizeof into);
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        CHECK_OK(weft_conn_close(pair.near));
        CHECK_OK(weft_conn_close(pair.far));
    }
    CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
    return 0;
}

TEST_DRIVERS(signals_interrupt_no_connection)
{
    struct sigaction action = { .sa_handler = count_signal }; // and no SA_RESTART
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_OK(weft_run(talk_under_fire, NULL, NULL));
}
