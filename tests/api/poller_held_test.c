// With driver threads a carrier that a task holds takes no answers, and what it has asked for must not cost
// others on its driver thread anything (io/remote.h, R7).
#include "support/test.h"

#include "support/conns.h"
#include "support/gather.h"
#include "support/placed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TRIPS = 40, MESSAGE_BYTES = 3000 };

static struct weft_options two_carriers(void)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    options.poller = WEFT_POLLER_THREADS;
    options.poller_threads = 1;
    return options;
}

static weft_fn body;

static int start_on_the_first(void *arg)
{
    return join(spawn_on(0, body, arg));
}

/// Runs it on the carrier that is not going to be held; under some policies it could begin on the other.
static void run_on_the_first(weft_fn fn)
{
    struct weft_options options = two_carriers();
    body = fn;
    CHECK_OK(weft_run(start_on_the_first, NULL, &options));
}

/// Its descriptors are opened and closed while nobody is held: a close asks every carrier that may know them.
static int ends[2];
static weft_task *peer;

static void open_ends(void)
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    peer = spawn_on(0, pong, &ends[1]);
}

static void close_ends(void)
{
    CHECK_OK(weft_close(ends[0]));
    join_all(&peer, 1);
}

static sem_t held;
static sem_t let_go;
static int held_port;

static void hold(void)
{
    CHECK_EQ(sem_post(&held), 0);
    CHECK_EQ(sem_wait(&let_go), 0); // on purpose: the whole carrier waits
}

static int dial_plainly(void)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)held_port) };
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_GE(fd, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void listen_there(weft_listener **listener)
{
    struct weft_addr addr;
    CHECK_OK(weft_listen(listener, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_listener_addr(*listener, &addr));
    held_port = weft_addr_port(&addr);
}

enum { MANY_CLIENTS = 200 };

static int is_held_while_it_accepts(void *arg)
{
    weft_listener *listener;
    weft_conn *conn;
    (void)arg;
    listen_there(&listener);
    CHECK_EQ(weft_accept(&conn, listener, weft_after(WEFT_MS)), -ETIMEDOUT); // now it is submitted
    hold();
    for (int i = 0; i < MANY_CLIENTS; i++) {
        CHECK_OK(weft_accept(&conn, listener, WEFT_FOREVER));
        CHECK_OK(weft_conn_close(conn));
    }
    return weft_listener_close(listener);
}

static int floods_with_connections(void *arg)
{
    (void)arg;
    static int clients[MANY_CLIENTS];
    weft_task *acceptor;
    CHECK_EQ(sem_init(&held, 0, 0), 0);
    CHECK_EQ(sem_init(&let_go, 0, 0), 0);
    open_ends();
    acceptor = spawn_on(1, is_held_while_it_accepts, NULL);
    CHECK_EQ(sem_wait(&held), 0);
    ping(ends[0]); // whatever is made once is there
    int before = count_descriptors();
    for (int i = 0; i < MANY_CLIENTS; i++) {
        clients[i] = dial_plainly();
    }
    for (int i = 0; i < 8; i++) {
        ping(ends[0]); // the driver thread has gone round often enough to accept them all
    }
    CHECK_LE(count_descriptors() - before - MANY_CLIENTS, 66);
    CHECK_EQ(sem_post(&let_go), 0);
    join_all(&acceptor, 1);
    close_ends();
    for (int i = 0; i < MANY_CLIENTS; i++) {
        close(clients[i]);
    }
    return 0;
}

TEST_DRIVERS(a_held_carrier_accepts_only_so_many)
{
    run_on_the_first(floods_with_connections);
}

static int is_held_while_it_receives(void *arg)
{
    weft_listener *listener;
    weft_conn *conn;
    struct weft_slice in;
    (void)arg;
    listen_there(&listener);
    CHECK_EQ(sem_post(&held), 0);
    CHECK_OK(weft_accept(&conn, listener, WEFT_FOREVER));
    CHECK_EQ(weft_conn_peek(conn, &in, 1, weft_after(WEFT_MS)), -ETIMEDOUT); // now it is submitted
    hold();
    while (weft_conn_peek(conn, &in, 1, WEFT_FOREVER) > 0) {
        weft_conn_consume(conn, in.size);
    }
    CHECK_OK(weft_conn_close(conn));
    return weft_listener_close(listener);
}

/// Until the receiver takes no more for now.
static void flood(int fd)
{
    static char bytes[65536];
    while (send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) > 0) {
    }
    CHECK_EQ(errno, EAGAIN);
}

static int floods_with_bytes(void *arg)
{
    (void)arg;
    weft_task *receiver;
    CHECK_EQ(sem_init(&held, 0, 0), 0);
    CHECK_EQ(sem_init(&let_go, 0, 0), 0);
    open_ends();
    receiver = spawn_on(1, is_held_while_it_receives, NULL);
    CHECK_EQ(sem_wait(&held), 0);
    int fd = dial_plainly();
    CHECK_EQ(sem_wait(&held), 0);
    for (int i = 0; i < 8; i++) {
        flood(fd);
        ping(ends[0]);
    }
    struct pair pair = make_pair("tcp://127.0.0.1:0");
    for (int i = 0; i < TRIPS; i++) {
        char bytes[MESSAGE_BYTES] = "";
        CHECK_OK(weft_conn_write(pair.near, bytes, sizeof bytes, WEFT_FOREVER));
        CHECK_OK(weft_conn_flush(pair.near, WEFT_FOREVER));
        CHECK_EQ(weft_conn_read_into(pair.far, bytes, sizeof bytes, WEFT_FOREVER), MESSAGE_BYTES);
    }
    CHECK_OK(weft_conn_close(pair.near));
    CHECK_OK(weft_conn_close(pair.far));
    CHECK_EQ(sem_post(&let_go), 0);
    close(fd);
    join_all(&receiver, 1);
    close_ends();
    return 0;
}

TEST_DRIVERS(a_held_carrier_leaves_receive_buffers_to_others)
{
    run_on_the_first(floods_with_bytes);
}
