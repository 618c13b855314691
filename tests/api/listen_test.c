// listen_test.c - listening, accepting, serving; when peers vanish and descriptors run out.
#include "support/waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weft.h>

static void address_of(weft_listener *listener, char *text, size_t size)
{
    struct weft_addr addr;
    CHECK_OK(weft_listener_addr(listener, &addr));
    CHECK(weft_addr_format(&addr, text, size) < (int)size);
}

TEST_EVERYWHERE(bad_addresses_are_refused)
{
    weft_listener *listener;
    weft_conn *conn;
    CHECK_EQ(weft_listen(&listener, "tcp://no", NULL), -EINVAL);
    CHECK(listener == NULL);
    CHECK_EQ(weft_listen(&listener, "udp://127.0.0.1:0", NULL), -EPROTOTYPE);
    CHECK_EQ(weft_dial(&conn, "tcp://127.0.0.1:99999", NULL, WEFT_FOREVER), -ERANGE);
    CHECK(conn == NULL);
    CHECK_EQ(weft_serve("tcp://no", (weft_fn)abort, NULL), -EINVAL);
}

TEST_EVERYWHERE(nobody_listens)
{
    weft_listener *listener;
    weft_conn *conn;
    char text[WEFT_ADDR_TEXT_BYTES];
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    address_of(listener, text, sizeof text);
    CHECK_OK(weft_listener_close(listener));
    CHECK_EQ(weft_dial(&conn, text, NULL, WEFT_FOREVER), -ECONNREFUSED);
    CHECK(conn == NULL);
}

TEST_EVERYWHERE(an_address_in_use_is_refused)
{
    weft_listener *first, *second;
    char text[WEFT_ADDR_TEXT_BYTES];
    CHECK_OK(weft_listen(&first, "tcp://127.0.0.1:0", NULL));
    address_of(first, text, sizeof text);
    CHECK_EQ(weft_listen(&second, text, NULL), -EADDRINUSE);
    CHECK_OK(weft_listener_close(first));
    CHECK_OK(weft_listen(&second, text, NULL));
    CHECK_OK(weft_listener_close(second));
}

static int close_later(void *arg)
{
    CHECK_OK(weft_sleep(10 * WEFT_MS));
    return weft_listener_close(arg);
}

/// Listens, and stops in a moment. `text` is where. Not on 127.0.0.1, where others may get the port then.
static weft_task *hold_for_a_while(const char *address, char *text, size_t size)
{
    struct weft_attr attr = stay_here();
    weft_listener *listener;
    weft_task *holder;
    CHECK_OK(weft_listen(&listener, address, NULL));
    address_of(listener, text, size);
    CHECK_OK(weft_spawn(&holder, close_later, listener, &attr));
    return holder;
}

TEST_EVERYWHERE(an_address_that_is_in_use_is_free_in_a_moment)
{
    static const char *const addresses[] = { "tcp://127.0.0.77:0", "unix://" };
    for (int i = 0; i < 2; i++) {
        weft_listener *listener;
        char text[WEFT_ADDR_TEXT_BYTES];
        weft_task *holder = hold_for_a_while(addresses[i], text, sizeof text);
        CHECK_OK(weft_listen(&listener, text, NULL));
        CHECK_OK(weft_join(NULL, holder, WEFT_FOREVER));
        CHECK_OK(weft_listener_close(listener));
    }
}

struct in_vain {
    char address[WEFT_ADDR_TEXT_BYTES];
    bool begun;
};

static int listen_in_vain(void *arg)
{
    struct in_vain *in_vain = arg;
    weft_listener *listener;
    in_vain->begun = true;
    CHECK_EQ(weft_listen(&listener, in_vain->address, NULL), -ECANCELED);
    CHECK(listener == NULL);
    return 0;
}

TEST_EVERYWHERE(who_waits_for_an_address_is_cancelled)
{
    struct weft_attr attr = stay_here();
    struct in_vain in_vain = { .begun = false };
    weft_listener *first;
    weft_task *second;
    CHECK_OK(weft_listen(&first, "tcp://127.0.0.1:0", NULL));
    address_of(first, in_vain.address, sizeof in_vain.address);
    CHECK_OK(weft_spawn(&second, listen_in_vain, &in_vain, &attr));
    while (!in_vain.begun) { // on this carrier, so it waits when we run again
        CHECK_OK(weft_yield());
    }
    weft_task_cancel(second);
    CHECK_OK(weft_join(NULL, second, WEFT_FOREVER));
    CHECK_OK(weft_listener_close(first));
}

TEST_EVERYWHERE(accepting_obeys_its_deadline)
{
    weft_listener *listener;
    weft_conn *conn, *peer;
    char text[WEFT_ADDR_TEXT_BYTES];
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    address_of(listener, text, sizeof text);
    CHECK_EQ(weft_accept(&conn, listener, weft_after(5 * WEFT_MS)), -ETIMEDOUT);
    CHECK(conn == NULL);
    CHECK_OK(weft_dial(&peer, text, NULL, WEFT_FOREVER));
    CHECK_OK(weft_accept(&conn, listener, WEFT_FOREVER));
    CHECK_OK(weft_conn_close(conn));
    CHECK_OK(weft_conn_close(peer));
    CHECK_OK(weft_listener_close(listener));
}

struct acceptor {
    weft_listener *listener;
    int rc;
};

static int accept_once(void *arg)
{
    struct acceptor *acceptor = arg;
    weft_conn *conn;
    acceptor->rc = weft_accept(&conn, acceptor->listener, WEFT_FOREVER);
    return 0;
}

TEST_EVERYWHERE(closing_ends_an_accept)
{
    struct acceptor acceptor = { NULL, 0 };
    struct weft_scope scope;
    weft_conn *conn;
    CHECK_OK(weft_listen(&acceptor.listener, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, accept_once, &acceptor));
    CHECK_OK(weft_yield());
    CHECK_EQ(weft_accept(&conn, acceptor.listener, WEFT_FOREVER), -EBUSY);
    CHECK_OK(weft_listener_close(acceptor.listener));
    CHECK_OK(weft_scope_join(&scope));
    CHECK_EQ(acceptor.rc, -EBADF);
}

static int accept_until_closed(void *arg)
{
    weft_conn *conn;
    CHECK_EQ(weft_accept(&conn, arg, WEFT_FOREVER), -EBADF);
    return 0;
}

/// Whether the address of a listener could be had again, each time. If not, another process may have
/// taken the port.
static bool listen_again_and_again(const char *address)
{
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    for (int i = 0; i < 50; i++) {
        weft_listener *listener;
        weft_task *task;
        int rc = weft_listen(&listener, i == 0 ? address : text, NULL);
        if (rc == -EADDRINUSE) {
            return false;
        }
        CHECK_OK(rc);
        CHECK_OK(weft_listener_addr(listener, &addr));
        CHECK(weft_addr_format(&addr, text, sizeof text) > 0);
        CHECK_OK(weft_spawn_at(&task, accept_until_closed, listener, NULL, __FILE__, __LINE__));
        CHECK_OK(weft_sleep(WEFT_US)); // it waits in the kernel
        CHECK_OK(weft_listener_close(listener));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    }
    return true;
}

TEST_EVERYWHERE(an_address_is_free_when_its_listener_is_closed)
{
    CHECK(listen_again_and_again("unix://"));
    bool free = false;
    for (int i = 0; i < 5 && !free; i++) {
        free = listen_again_and_again("tcp://127.0.0.1:0");
    }
    CHECK(free);
}

TEST_EVERYWHERE(a_cancelled_accept_ends)
{
    struct acceptor acceptor = { NULL, 0 };
    struct weft_scope scope;
    CHECK_OK(weft_listen(&acceptor.listener, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, accept_once, &acceptor));
    CHECK_OK(weft_yield());
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_EQ(acceptor.rc, -ECANCELED);
    CHECK_OK(weft_listener_close(acceptor.listener));
}

TEST_EVERYWHERE(peers_that_nobody_accepted_see_the_end)
{
    enum { PEERS = 5 };
    weft_listener *listener;
    weft_conn *peers[PEERS];
    struct weft_slice in;
    char text[WEFT_ADDR_TEXT_BYTES];
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    address_of(listener, text, sizeof text);
    for (int i = 0; i < PEERS; i++) {
        CHECK_OK(weft_dial(&peers[i], text, NULL, WEFT_FOREVER));
    }
    weft_conn *conn;
    CHECK_OK(weft_accept(&conn, listener, WEFT_FOREVER)); // brings the others, too
    CHECK_OK(weft_conn_close(conn));
    CHECK_OK(weft_listener_close(listener));
    for (int i = 0; i < PEERS; i++) {
        int rc = weft_conn_peek(peers[i], &in, 1, WEFT_FOREVER);
        CHECK(rc == 0 || rc == -ECONNRESET);
        CHECK_OK(weft_conn_close(peers[i]));
    }
}

// Out of descriptors: a listener turns peers away, and recovers.

static int lowest_free_fd(void)
{
    int fd = dup(0);
    CHECK(fd >= 0);
    close(fd);
    return fd;
}

static void set_limit(rlim_t most)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// A connection that is closed and drains gives its descriptor to a new peer.
static int shortage_by_drain(void *arg)
{
    (void)arg;
    weft_listener *listener;
    weft_conn *talker, *waiting, *conn;
    struct weft_conn_limits limits = { .discard_ns = 3600 * WEFT_S };
    struct weft_listener_stats stats;
    struct weft_slice in;
    struct rlimit before;
    char text[WEFT_ADDR_TEXT_BYTES];
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    address_of(listener, text, sizeof text);
    CHECK_OK(weft_dial(&talker, text, NULL, WEFT_FOREVER));
    CHECK_OK(weft_accept(&conn, listener, WEFT_FOREVER));
    weft_conn_set_limits(conn, &limits);
    CHECK_OK(weft_conn_write(talker, "question", 8, WEFT_FOREVER));
    CHECK_OK(weft_conn_peek(conn, &in, 8, WEFT_FOREVER));
    CHECK_OK(weft_conn_write(conn, "answer", 6, WEFT_FOREVER));
    int fd = weft_conn_fd(conn);
    CHECK_OK(weft_conn_close(conn)); // the question was not read
    CHECK_OK(fcntl(fd, F_GETFD));
    int next = lowest_free_fd();
    set_limit((rlim_t)next + 1);
    CHECK_OK(weft_dial(&waiting, text, NULL, WEFT_FOREVER)); // takes the last one
    CHECK_OK(weft_accept(&conn, listener, weft_after(10 * WEFT_S)));
    weft_listener_stats(listener, &stats);
    CHECK_EQ(stats.shed, 0);
    set_limit(before.rlim_cur);
    CHECK_OK(weft_conn_close(conn));
    CHECK_OK(weft_conn_close(waiting));
    (void)weft_conn_close(talker);
    return weft_listener_close(listener);
}

TEST_DRIVERS(what_drains_makes_way_for_a_new_peer)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    CHECK_OK(weft_run(shortage_by_drain, NULL, &options));
}

/// weft_accept(), or the future.
static int accept_by(bool future, weft_conn **conn, weft_listener *listener, weft_time deadline)
{
    struct weft_listener_future accepting;
    if (!future) {
        return weft_accept(conn, listener, deadline);
    }
    weft_listener_accept_future(&accepting, conn, listener);
    return (int)weft_await(&accepting.future, deadline);
}

static int shortage(void *arg)
{
    bool future = *(bool *)arg;
    enum { PEERS = 4 };
    weft_listener *listener;
    weft_conn *peers[PEERS], *conn, *late;
    struct weft_slice in;
    struct weft_listener_stats stats;
    struct rlimit before;
    char text[WEFT_ADDR_TEXT_BYTES];
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    address_of(listener, text, sizeof text);
    for (int i = 0; i < PEERS; i++) {
        CHECK_OK(weft_dial(&peers[i], text, NULL, WEFT_FOREVER));
    }
    set_limit((rlim_t)lowest_free_fd());
    CHECK_EQ(accept_by(future, &conn, listener, weft_after(100 * WEFT_MS)), -ETIMEDOUT);
    weft_listener_stats(listener, &stats);
    CHECK_GT(stats.shed, 0);
    int rc = weft_conn_peek(peers[0], &in, 1, WEFT_FOREVER); // turned away, not left hanging
    CHECK(rc == 0 || rc == -ECONNRESET);
    set_limit(before.rlim_cur);
    CHECK_OK(weft_dial(&late, text, NULL, WEFT_FOREVER));
    CHECK_OK(accept_by(future, &conn, listener, weft_after(10 * WEFT_S)));
    CHECK_EQ(fcntl(weft_conn_fd(conn), F_GETFD), FD_CLOEXEC);
    CHECK_EQ(fcntl(weft_conn_fd(late), F_GETFD), FD_CLOEXEC);
    CHECK_OK(weft_conn_close(conn));
    CHECK_OK(weft_conn_close(late));
    for (int i = 0; i < PEERS; i++) {
        (void)weft_conn_close(peers[i]);
    }
    CHECK_OK(weft_listener_close(listener));
    return 0;
}

TEST_DRIVERS(descriptors_run_out_and_come_back)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    for (int future = 0; future < 2; future++) {
        CHECK_OK(weft_run(shortage, &(bool){ future != 0 }, &options));
    }
}

// Serving.

static int echo(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    int rc;
    while ((rc = weft_conn_peek(conn, &in, 1, WEFT_FOREVER)) > 0) {
        rc = weft_conn_write(conn, in.data, in.size, WEFT_FOREVER);
        if (rc < 0) {
            break;
        }
        weft_conn_consume(conn, in.size);
    }
    (void)weft_conn_close(conn);
    return rc;
}

struct serving {
    const char *address;
    struct weft_serve_options options;
    char text[WEFT_ADDR_TEXT_BYTES];
    bool ready;
    int rc;
};

static void note_ready(void *arg, const struct weft_addr *addr)
{
    struct serving *serving = arg;
    CHECK(weft_addr_format(addr, serving->text, sizeof serving->text) > 0);
    serving->ready = true;
}

static int serve(void *arg)
{
    struct serving *serving = arg;
    serving->rc = weft_serve(serving->address, echo, &serving->options);
    return 0;
}

static void talk(const char *address, int rounds)
{
    weft_conn *conn;
    struct weft_slice in;
    CHECK_OK(weft_dial(&conn, address, NULL, WEFT_FOREVER));
    for (int i = 0; i < rounds; i++) {
        CHECK_OK(weft_conn_write(conn, "ping", 4, WEFT_FOREVER));
        CHECK_EQ(weft_conn_peek(conn, &in, 4, WEFT_FOREVER), 4);
        CHECK_EQ(memcmp(in.data, "ping", 4), 0);
        weft_conn_consume(conn, 4);
    }
    CHECK_OK(weft_conn_close(conn));
}

/// Serves in a new scope, and returns when it does.
static void start_serving(struct serving *serving, struct weft_scope *scope, const char *address,
                          struct weft_serve_options options)
{
    options.size = sizeof options;
    options.ready = note_ready;
    options.arg = serving;
    *serving = (struct serving){ .address = address, .options = options };
    CHECK_OK(weft_scope_init(scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(scope, serve, serving));
    while (!serving->ready) {
        CHECK_OK(weft_yield());
    }
}

static void stop_serving(const struct serving *serving, struct weft_scope *scope)
{
    weft_scope_cancel(scope);
    CHECK_EQ(weft_scope_join(scope), -ECANCELED);
    CHECK_EQ(serving->rc, -ECANCELED);
}

static void serve_and_talk(const char *address, size_t most)
{
    struct serving serving;
    struct weft_scope scope;
    start_serving(&serving, &scope, address,
                  (struct weft_serve_options){ .max_connections = most });
    for (int i = 0; i < 20; i++) {
        talk(serving.text, 3);
    }
    weft_conn *idle;
    CHECK_OK(weft_dial(&idle, serving.text, NULL, WEFT_FOREVER)); // cancelled with the rest
    stop_serving(&serving, &scope);
    (void)weft_conn_abort(idle);
}

TEST_EVERYWHERE(tcp_is_served_on_every_carrier)
{
    serve_and_talk("tcp://127.0.0.1:0", 0);
}

TEST_EVERYWHERE(unix_is_served_on_every_carrier)
{
    serve_and_talk("unix://", 0);
}

TEST_EVERYWHERE(an_address_that_is_free_in_a_moment_is_served)
{
    struct serving serving;
    struct weft_scope scope;
    char text[WEFT_ADDR_TEXT_BYTES];
    weft_task *holder = hold_for_a_while("tcp://127.0.0.77:0", text, sizeof text);
    start_serving(&serving, &scope, text, (struct weft_serve_options){ 0 });
    CHECK_OK(weft_join(NULL, holder, WEFT_FOREVER));
    stop_serving(&serving, &scope);
}

TEST_EVERYWHERE(connections_are_limited)
{
    serve_and_talk("tcp://127.0.0.1:0", 1);
}

TEST_EVERYWHERE(a_second_server_is_refused)
{
    struct serving serving;
    struct weft_scope scope;
    start_serving(&serving, &scope, "tcp://127.0.0.1:0", (struct weft_serve_options){ 0 });
    CHECK_EQ(weft_serve(serving.text, echo, NULL), -EADDRINUSE);
    talk(serving.text, 1);
    stop_serving(&serving, &scope);
}

static void share_a_port(struct weft_serve_options one, struct weft_serve_options other)
{
    struct serving first, second;
    struct weft_scope firsts, seconds;
    start_serving(&first, &firsts, "tcp://127.0.0.1:0", one);
    start_serving(&second, &seconds, first.text, other);
    talk(second.text, 1);
    stop_serving(&second, &seconds);
    talk(first.text, 1);
    stop_serving(&first, &firsts);
}

TEST_EVERYWHERE(two_servers_may_share_a_port)
{
    struct weft_socket_options socket;
    weft_socket_options_init(&socket);
    socket.reuseport = true;
    const struct weft_serve_options shared = { .socket = &socket };
    const struct weft_serve_options limited = { .socket = &socket, .max_connections = 1 };
    share_a_port(shared, shared);
    share_a_port((struct weft_serve_options){ 0 }, shared); // several carriers have it open anyway
    share_a_port(limited, limited);
}

/// As many peers as may be served, all at once: each must be served by a carrier that has room, and not
/// wait for one that has none.
static void fill_again_and_again(const char *address)
{
    struct serving serving;
    weft_conn *peers[TEST_CARRIERS];
    struct weft_slice in;
    struct weft_scope scope;
    start_serving(&serving, &scope, address, (struct weft_serve_options){ .max_connections = 1 });
    for (int round = 0; round < 200; round++) {
        int count = weft_carrier_count() < TEST_CARRIERS ? weft_carrier_count() : TEST_CARRIERS;
        for (int i = 0; i < count; i++) {
            CHECK_OK(weft_dial(&peers[i], serving.text, NULL, WEFT_FOREVER));
            CHECK_OK(weft_conn_write(peers[i], "ping", 4, WEFT_FOREVER));
        }
        for (int i = 0; i < count; i++) {
            CHECK_EQ(weft_conn_peek(peers[i], &in, 4, weft_after(10 * WEFT_S)), 4);
        }
        for (int i = 0; i < count; i++) {
            CHECK_OK(weft_conn_close(peers[i]));
        }
    }
    stop_serving(&serving, &scope);
}

TEST_EVERYWHERE(unix_peers_find_the_carrier_with_room)
{
    fill_again_and_again("unix://");
}

TEST_EVERYWHERE(tcp_peers_find_the_carrier_with_room)
{
    fill_again_and_again("tcp://127.0.0.1:0");
}
