// sim_fault_test.c - memory runs out in a simulated network: the 1st, 2nd, ... nth allocation fails.
// Each time a call fails or the run does; never a crash or a leak, and the same failure gives the
// same run.
//
// The linker sends the library's posix_memalign() through the function below (--wrap): every
// allocation of a run goes there (runtime/sim_heap.c).
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <weft.h>

static struct gathered logged;
static int countdown; // the call that takes it to 0 fails

int __real_posix_memalign(void **memory, size_t align, size_t size);
int __wrap_posix_memalign(void **memory, size_t align, size_t size);
int __wrap_posix_memalign(void **memory, size_t align, size_t size)
{
    if (countdown > 0 && --countdown == 0) {
        return ENOMEM;
    }
    return __real_posix_memalign(memory, align, size);
}

static int echo(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    int rc;
    while ((rc = weft_conn_peek(conn, &in, 1, weft_after(WEFT_S))) > 0) {
        size_t size = in.size;
        rc = weft_conn_write(conn, in.data, size, weft_after(WEFT_S));
        if (rc < 0) {
            break;
        }
        weft_conn_consume(conn, size);
    }
    (void)weft_conn_close(conn);
    return rc;
}

static int serve(void *arg)
{
    weft_conn *conn;
    int rc;
    while ((rc = weft_accept(&conn, arg, weft_after(3 * WEFT_S))) == 0) {
        if (weft_go(echo, conn) < 0) {
            (void)weft_conn_close(conn);
        }
    }
    (void)weft_listener_close(arg);
    return rc;
}

static int talk(const char *address)
{
    static char data[20000], back[20000];
    weft_conn *conn;
    int rc = weft_dial(&conn, address, NULL, weft_after(WEFT_S));
    if (rc < 0) {
        return rc;
    }
    rc = weft_conn_write(conn, data, sizeof data, weft_after(WEFT_S));
    if (rc == 0) {
        rc = (int)weft_conn_read_into(conn, back, sizeof back, weft_after(WEFT_S));
    }
    (void)weft_conn_close(conn);
    return rc;
}

static int send_some(void)
{
    weft_dgram *pair[2];
    int rc = weft_dgram_pair(pair, WEFT_ADDR_UNIXPACKET);
    if (rc < 0) {
        return rc;
    }
    int fd = weft_dgram_fd(pair[1]);
    int fds[4];
    size_t count = 4;
    char text[8];
    int64_t n = weft_unix_send_fds(weft_dgram_fd(pair[0]), "x", 1, &fd, 1, weft_after(WEFT_S));
    if (n > 0) {
        n = weft_unix_recv_fds(fd, text, sizeof text, fds, &count, weft_after(WEFT_S));
        if (n > 0 && count == 1) {
            (void)weft_close(fds[0]);
        }
    }
    (void)weft_dgram_close(pair[0]);
    (void)weft_dgram_close(pair[1]);
    return n < 0 ? (int)n : 0;
}

static int world(void *arg)
{
    static const char *const addresses[] = { "tcp://10.0.0.1:1", "unix://@here" };
    (void)arg;
    int worst = 0;
    for (int i = 0; i < 2; i++) {
        weft_listener *listener;
        int rc = weft_listen(&listener, addresses[i], NULL);
        if (rc == 0) {
            rc = weft_go(serve, listener);
            if (rc < 0) {
                (void)weft_listener_close(listener);
            }
        }
        if (rc == 0) {
            rc = talk(addresses[i]);
        }
        worst = rc < worst ? rc : worst;
    }
    int rc = send_some();
    (void)weft_sleep(5 * WEFT_S); // everybody's patience is at its end
    return rc < worst ? rc : worst;
}

static int run(int allocations, struct weft_sim_result *result)
{
    struct weft_sim_options options = { .seed = test_seed(),
                                        .log = gather_log,
                                        .log_ctx = &logged };
    gathered_clear(&logged);
    countdown = allocations;
    int rc = weft_sim_run(result, world, NULL, &options);
    countdown = countdown == 0 ? 0 : -countdown;
    return rc;
}

TEST(each_allocation_may_fail)
{
    struct weft_sim_result first, second;
    int failed = 0, refused = 0;
    CHECK_EQ(run(-1, &first), 0);
    for (int nth = 1;; nth++) {
        int rc = run(nth, &first);
        if (countdown != 0) { // it was not reached
            CHECK_EQ(rc, 0);
            break;
        }
        CHECK_EQ(run(nth, &second), rc);
        CHECK_EQ(first.trace_hash, second.trace_hash);
        failed += rc < 0;
        refused += strstr(logged.text, "no memory for the simulated network") != NULL;
    }
    CHECK_GT(failed, 20);
    CHECK_GT(refused, 5);
}
