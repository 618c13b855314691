// simulate_net.c - testing a server in the simulator: one that takes whatever a read brings for a
// whole line, and a network that delivers some lines in two pieces, as a busy one does now and then.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

#define SEEDS 200
#define ADDRESS "tcp://10.0.0.1:4000" // every address is one of the simulated network

static bool careful; // the server waits for the end of a line

/// Receives a line with a number. 1, 0 at the end of the stream, or a negative errno.
static int receive(weft_conn *conn, int *number, bool whole)
{
    struct weft_slice in = { NULL, 0 };
    const char *end = NULL;
    while (end == NULL) {
        int rc = weft_conn_peek(conn, &in, in.size + 1, WEFT_FOREVER); // more than there was
        if (rc <= 0) {
            return rc;
        }
        end = memchr(in.data, '\n', in.size);
        if (end == NULL && !whole) {
            end = in.data + in.size;
        }
    }
    *number = 0;
    for (const char *at = in.data; at < end; at++) {
        *number = *number * 10 + (*at - '0');
    }
    size_t length = (size_t)(end - in.data);
    weft_conn_consume(conn, length < in.size ? length + 1 : length);
    return 1;
}

static int send_number(weft_conn *conn, int number)
{
    char text[32];
    int size = snprintf(text, sizeof text, "%d\n", number);
    return weft_conn_write(conn, text, (size_t)size, WEFT_FOREVER);
}

/// Answers each number with the next one.
static int serve_one(void *arg)
{
    weft_conn *conn;
    int number;
    int rc = weft_accept(&conn, arg, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    while ((rc = receive(conn, &number, careful)) > 0) {
        rc = send_number(conn, number + 1);
        if (rc < 0) {
            break;
        }
    }
    weft_conn_close(conn);
    return rc;
}

static int ask(void)
{
    weft_conn *conn;
    int answer = 0;
    int rc = weft_dial(&conn, ADDRESS, NULL, WEFT_FOREVER);
    for (int i = 1000; i < 1020 && rc >= 0; i++) {
        rc = send_number(conn, i);
        if (rc == 0) {
            rc = receive(conn, &answer, true);
        }
        if (rc > 0 && answer != i + 1) {
            rc = -EBADMSG;
        }
    }
    weft_conn_close(conn);
    return rc < 0 ? rc : 0;
}

static int test_body(void *arg)
{
    weft_listener *listener;
    weft_task *server;
    int rc = weft_listen(&listener, ADDRESS, NULL);
    if (rc == 0) {
        rc = weft_spawn(&server, serve_one, listener, NULL);
    }
    if (rc == 0) {
        rc = ask();
        weft_join(NULL, server, WEFT_FOREVER);
    }
    weft_listener_close(listener);
    (void)arg;
    return rc;
}

/// Tries all seeds; the first that fails is left in `bad`.
static int count_failures(struct weft_sim_net net, bool be_careful, struct weft_sim_options *bad)
{
    int failed = 0;
    careful = be_careful;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct weft_sim_options options = { .seed = seed, .net = net };
        if (weft_sim_run(NULL, test_body, NULL, &options) < 0 && failed++ == 0) {
            *bad = options;
        }
    }
    return failed;
}

int main(void)
{
    const struct weft_sim_net quiet = { 0 };
    const struct weft_sim_net busy = { .short_per_million = 20000 };
    struct weft_sim_options bad;
    struct weft_sim_result r;
    int failed[3] = { count_failures(quiet, false, &bad), count_failures(busy, true, &bad),
                      count_failures(busy, false, &bad) };
    printf("careless server, quiet network: %d of %d seeds fail\n", failed[0], SEEDS);
    printf("careful server, busy network: %d\n", failed[1]);
    printf("careless server, busy network: %d\n", failed[2]);
    int rc = weft_sim_run(&r, test_body, NULL, &bad); // the same seed, the same failure
    printf("seed %" PRIu64 ": %s at virtual time %" PRIu64 " ns, trace %016" PRIx64 "\n", bad.seed,
           strerror(-rc), r.virtual_ns, r.trace_hash);
    return failed[0] != 0 || failed[1] != 0 || failed[2] == 0;
}
