// A server in a runtime that grows and shrinks: it listens where there are carriers, and nobody whom it has
// accepted, or whom the kernel had queued, goes without an answer.
#include "support/fds.h"
#include "support/gather.h"
#include "support/placed.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/resource.h>

enum { MOST = 3, CLIENTS = 3, ROUNDS = 4, QUEUED = 24 };

static weft_runtime *runtime;
static weft_task *server;
static struct gathered logged;
static struct weft_serve_options settings;
static const char *address;
static char bound[WEFT_ADDR_TEXT_BYTES];
static _Atomic bool ready;
static _Atomic bool stopping;
static _Atomic int answers[MOST]; // by each carrier, to new peers
static _Atomic int resets;

struct shape {
    const char *address;
    enum weft_policy policy;
};
static const struct shape shapes[] = {
    { "tcp://127.0.0.1:0", WEFT_POLICY_LOCALITY },
    { "tcp://127.0.0.1:0", WEFT_POLICY_STEALING },
    { "unix://", WEFT_POLICY_LOCALITY },
    { "unix://", WEFT_POLICY_STEALING },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/// Looks again in a while: others need the CPU more.
static void look_later(void)
{
    (void)poll(NULL, 0, 1);
}

/// Answers each byte with the number of its carrier.
static int answer(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    int rc;
    while ((rc = weft_conn_peek(conn, &in, 1, WEFT_FOREVER)) > 0) {
        char where = (char)('0' + weft_carrier_id());
        weft_conn_consume(conn, 1);
        rc = weft_conn_write(conn, &where, 1, WEFT_FOREVER);
        if (rc < 0) {
            break;
        }
    }
    (void)weft_conn_close(conn);
    return rc;
}

static void note_ready(void *arg, const struct weft_addr *addr)
{
    (void)arg;
    CHECK(weft_addr_format(addr, bound, sizeof bound) > 0);
    atomic_store(&ready, true);
}

static int serve(void *arg)
{
    (void)arg;
    return weft_serve(address, answer, &settings);
}

static void start(const struct shape *shape, int carriers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    gathered_clear(&logged);
    options.carriers = carriers;
    options.max_carriers = MOST;
    options.policy = shape->policy;
    options.log = gather_log;
    options.log_ctx = &logged;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    address = shape->address;
    settings = (struct weft_serve_options)WEFT_SERVE_OPTIONS_INIT;
    settings.ready = note_ready;
    atomic_store(&ready, false);
    atomic_store(&stopping, false);
    atomic_store(&resets, 0);
}

static void start_server(void)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER; // the first, which stays
    CHECK_OK(weft_runtime_spawn(&server, runtime, serve, NULL, &attr));
    while (!atomic_load(&ready)) {
        look_later();
    }
}

static void end_server(void)
{
    int result;
    CHECK_OK(weft_runtime_shutdown(runtime, 20 * WEFT_S));
    CHECK_OK(weft_join(&result, server, WEFT_FOREVER));
    CHECK_EQ(result, -ECANCELED);
}

static void stop(void)
{
    end_server();
    CHECK_OK(weft_runtime_destroy(runtime));
}

static bool is_unix(void)
{
    return strncmp(address, "unix", 4) == 0;
}

/// A plain socket, connected; or a negative errno.
static int dial(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    const char *at = strchr(bound, '@');
    const struct timeval patience = { .tv_sec = 30 };
    struct sockaddr_in port = loopback(is_unix() ? 0 : (uint16_t)atoi(strrchr(bound, ':') + 1));
    struct sockaddr *to = is_unix() ? (struct sockaddr *)&name : (struct sockaddr *)&port;
    socklen_t size = sizeof port;
    if (is_unix()) {
        memcpy(name.sun_path + 1, at + 1, strlen(at + 1));
        size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(at));
    }
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_OK(fd);
    CHECK_OK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    if (connect(fd, to, size) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

/// The carrier that answers, or -1: nobody does.
static int ask(int fd)
{
    char where;
    if (send(fd, "?", 1, MSG_NOSIGNAL) != 1) {
        return -1;
    }
    ssize_t n;
    do {
        n = recv(fd, &where, 1, 0);
    } while (n < 0 && errno == EINTR);
    CHECK(n >= 0 || errno == ECONNRESET || errno == EPIPE); // and not that it takes too long
    return n == 1 ? where - '0' : -1;
}

/// A new peer, and the carrier that has answered it.
static int meet(int *where)
{
    int fd = dial();
    CHECK_OK(fd);
    *where = ask(fd);
    CHECK_GE(*where, 0);
    return fd;
}

struct block {
    int pipe[2];
    _Atomic int count;
};

/// Keeps its carrier's OS thread.
static int block(void *arg)
{
    struct block *gate = arg;
    char byte;
    atomic_fetch_add(&gate->count, 1);
    CHECK_EQ(read(gate->pipe[0], &byte, 1), 1);
    atomic_fetch_sub(&gate->count, 1);
    return 0;
}

/// Blocks all carriers below `count` but one.
static void close_gate(struct block *gate, int count, int but)
{
    CHECK_OK(pipe2(gate->pipe, O_CLOEXEC));
    for (int i = 0; i < count; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = i;
        if (i != but) {
            CHECK_OK(weft_runtime_spawn(NULL, runtime, block, gate, &attr));
        }
    }
    while (atomic_load(&gate->count) < count - 1) {
        look_later();
    }
}

static void open_gate(struct block *gate)
{
    int count = atomic_load(&gate->count);
    CHECK_EQ(write(gate->pipe[1], "abcd", (size_t)count), count);
    while (atomic_load(&gate->count) > 0) {
        look_later();
    }
    CHECK_OK(close(gate->pipe[0]));
    CHECK_OK(close(gate->pipe[1]));
}

/// A new peer of that carrier, which has room and listens, or will. Others come meanwhile and stay for a
/// while: of those who wait at a Unix socket the kernel may wake the same one as long as it does.
static int meet_at(int carrier)
{
    enum { OTHERS = 64 };
    int fds[OTHERS];
    int where = -1;
    while (true) {
        int count = 0;
        do {
            fds[count++] = meet(&where);
        } while (where != carrier && count < OTHERS);
        bool met = where == carrier;
        for (int i = 0; i < count - met; i++) {
            CHECK_OK(close(fds[i]));
        }
        if (met) {
            return fds[count - 1];
        }
        look_later(); // it does not listen yet
    }
}

static void await_dumped(const char *what, int count)
{
    while (count_dumped(what) != count) {
        look_later();
    }
}

/// So many carriers have a virtual thread that accepts, or waits for the last connection to end.
static void await_lanes(int count)
{
    await_dumped("\"accept\"", count);
}

/// So many of them do not listen any more.
static void await_left(int count)
{
    await_dumped("on a carrier that leaves", count);
}

/// All carriers below `count` take new peers.
static void await_answers_of(int count)
{
    for (int i = 0; i < count; i++) {
        CHECK_OK(close(meet_at(i)));
    }
}

// Load.

/// Peers that are answered once are answered to the end. Before that TCP may lose one: whose handshake is
/// not over when a listener is closed.
static void *visit_often(void *arg)
{
    (void)arg;
    while (!atomic_load(&stopping)) {
        int fd = dial();
        int where = fd >= 0 ? ask(fd) : -1;
        if (where < 0) {
            CHECK(!is_unix() || atomic_load(&stopping));
            atomic_fetch_add(&resets, 1);
        }
        for (int i = 1; i < ROUNDS && where >= 0; i++) {
            CHECK_EQ(ask(fd), where);
        }
        if (where >= 0) {
            atomic_fetch_add(&answers[where], 1);
        }
        if (fd >= 0) {
            CHECK_OK(close(fd));
        }
    }
    return NULL;
}

static int count_answers(void)
{
    return atomic_load(&answers[0]) + atomic_load(&answers[1]) + atomic_load(&answers[2]);
}

static void await_load(int more)
{
    int before = count_answers();
    while (count_answers() < before + more) {
        look_later();
    }
}

/// The same under load: over TCP somebody gets there.
static void await_peers_of(int count)
{
    int before[MOST];
    for (int i = 0; i < count; i++) {
        before[i] = atomic_load(&answers[i]);
    }
    for (int i = 0; i < count; i++) {
        while (!is_unix() && atomic_load(&answers[i]) == before[i]) {
            look_later();
        }
    }
}

static void serve_under_load(const struct shape *shape)
{
    static const int sizes[] = { 3, 1, 2, 3, 2, 1 };
    pthread_t clients[CLIENTS];
    start(shape, 1);
    start_server();
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(pthread_create(&clients[i], NULL, visit_often, NULL), 0);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK_OK(weft_runtime_resize(runtime, sizes[i]));
        await_lanes(sizes[i]); // those that are left have lost their last peer
        await_load((int)test_scaled(40));
        await_peers_of(sizes[i]);
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(pthread_join(clients[i], NULL), 0);
    }
    CHECK_LE(atomic_load(&resets), 4 + count_answers() / 10);
    stop();
}

TEST_DRIVERS(a_server_follows_the_size_of_its_runtime)
{
    for (int i = 0; i < SHAPES; i++) {
        serve_under_load(&shapes[i]);
    }
}

// Who stays, and who has come before.

TEST_DRIVERS(connections_of_a_carrier_that_leaves_go_on)
{
    for (int i = 0; i < SHAPES; i++) {
        int peers[MOST];
        start(&shapes[i], MOST);
        settings.max_connections = is_unix() ? 2 : 0; // so that there are others to take it
        start_server();
        for (int k = 0; k < MOST; k++) {
            peers[k] = meet_at(k);
        }
        CHECK_OK(weft_runtime_resize(runtime, 1));
        for (int k = 0; k < MOST; k++) {
            CHECK_EQ(ask(peers[k]), k);
        }
        await_left(2);
        CHECK_OK(weft_runtime_resize(runtime, 2)); // listens again, beside its old connection
        await_answers_of(2);
        CHECK_OK(weft_runtime_resize(runtime, 1));
        await_left(2);
        CHECK_OK(close(peers[2]));
        await_lanes(2);
        CHECK_EQ(ask(peers[1]), 1);
        CHECK_OK(close(peers[1]));
        await_lanes(1);
        CHECK_OK(weft_runtime_resize(runtime, MOST));
        await_answers_of(MOST);
        CHECK_EQ(ask(peers[0]), 0);
        stop();
        CHECK_OK(close(peers[0]));
    }
}

/// Asks all at once. Whom a carrier that leaves has answered stays. With a limit it serves no more than
/// that; the first carrier serves the next when one has gone.
static void be_answered(const int *fds)
{
    bool answered[QUEUED] = { false };
    size_t stay[MOST] = { 0 };
    size_t most = settings.max_connections;
    int left = QUEUED;
    for (int i = 0; i < QUEUED; i++) {
        CHECK_EQ(send(fds[i], "?", 1, MSG_NOSIGNAL), 1);
    }
    while (left > 0) {
        for (int i = 0; i < QUEUED; i++) {
            char where;
            ssize_t n = answered[i] ? 0 : recv(fds[i], &where, 1, MSG_DONTWAIT);
            if (n == 1) {
                answered[i] = true;
                left--;
                CHECK(where == '0' || most == 0 || ++stay[where - '0'] <= most);
                CHECK_OK(where == '0' ? shutdown(fds[i], SHUT_RDWR) : 0);
            } else if (!answered[i]) {
                CHECK(n < 0 && errno == EAGAIN);
            }
        }
        look_later();
    }
}

static void check_queued(const struct shape *shape, size_t most)
{
    struct block gate = { .count = 0 };
    int fds[QUEUED];
    start(shape, MOST);
    settings.max_connections = most;
    start_server();
    close_gate(&gate, MOST, 0);
    for (int i = 0; i < QUEUED; i++) {
        fds[i] = dial();
        CHECK_OK(fds[i]);
    }
    CHECK_OK(weft_runtime_resize(runtime, 1));
    open_gate(&gate);
    be_answered(fds); // each is in the queue of one that leaves, of the first, or of all
    for (int i = 0; i < QUEUED; i++) {
        CHECK_OK(close(fds[i]));
    }
    await_lanes(1);
    stop();
}

TEST_DRIVERS(who_is_queued_is_served_before_a_listener_goes)
{
    for (int i = 0; i < SHAPES; i++) {
        check_queued(&shapes[i], 0);
        check_queued(&shapes[i], 1);
    }
}

// One socket for all.

/// The first carrier is full again and again, and the others, who have room, are asked to look for peers; but
/// not once for each time, if they do not get round to it.
TEST(who_is_held_is_asked_once)
{
    struct block gate = { .count = 0 };
    int where;
    CHECK_EQ(setenv("WEFT_IO", "epoll", 1), 0); // which wakes all of them
    CHECK_EQ(unsetenv("WEFT_POLLER"), 0);       // other threads would accept for those who are held
    start(&shapes[0], MOST);
    settings.max_connections = 1;
    start_server();
    close_gate(&gate, MOST, 0);
    for (int i = 0; i < 100; i++) {
        CHECK_OK(close(meet(&where)));
        CHECK_EQ(where, 0);
    }
    CHECK_LE(count_dumped("\"look again\""), MOST - 1);
    open_gate(&gate);
    await_answers_of(MOST);
    stop();
}

static pthread_t starter;
static _Atomic bool starting, told_to_end;

static void note_starter(void *arg, const struct weft_addr *addr)
{
    note_ready(arg, addr);
    starter = pthread_self();
    atomic_store(&starting, true);
}

/// Holds the one who starts the lanes, at the first of them, until the runtime is told to end.
static void hold_at_first(void *ctx, const struct weft_trace_event *event)
{
    (void)ctx;
    if (event->kind == WEFT_TRACE_SUBMIT && atomic_load(&starting) &&
        pthread_equal(starter, pthread_self())) {
        while (!atomic_load(&told_to_end)) {
            look_later();
        }
    }
}

// Some lanes start and others do not.
TEST_DRIVERS(a_server_ends_that_was_about_to_start)
{
    for (int i = 0; i < SHAPES; i++) {
        int result;
        start(&shapes[i], MOST);
        settings.max_connections = 1;
        settings.ready = note_starter;
        atomic_store(&starting, false);
        atomic_store(&told_to_end, false);
        weft_trace_set(hold_at_first, NULL);
        start_server();
        CHECK_OK(weft_shutdown_request(runtime));
        atomic_store(&told_to_end, true);
        CHECK_OK(weft_runtime_shutdown(runtime, 20 * WEFT_S));
        CHECK_OK(weft_join(&result, server, WEFT_FOREVER));
        CHECK_EQ(result, -ECANCELED);
        weft_trace_set(NULL, NULL);
        CHECK_OK(weft_runtime_destroy(runtime));
    }
}

// Trouble.

static void *resize_until_refused(void *arg)
{
    uint64_t random = test_seed();
    (void)arg;
    int rc = 0;
    while (rc == 0) {
        rc = weft_runtime_resize(runtime, 1 + (int)(test_random(&random) % MOST));
        look_later();
    }
    CHECK_EQ(rc, -ECANCELED);
    return NULL;
}

static void end_while_resizing(const struct shape *shape, int peers)
{
    pthread_t client, resizer;
    start(shape, 1);
    start_server();
    CHECK_EQ(pthread_create(&client, NULL, visit_often, NULL), 0);
    CHECK_EQ(pthread_create(&resizer, NULL, resize_until_refused, NULL), 0);
    await_load(peers);
    atomic_store(&stopping, true); // whoever asks is in his last round
    CHECK_EQ(pthread_join(client, NULL), 0);
    end_server();
    CHECK_EQ(pthread_join(resizer, NULL), 0);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_DRIVERS(a_server_ends_while_its_runtime_is_resized)
{
    for (uint64_t n = test_scaled(8); n > 0; n--) {
        for (int i = 0; i < SHAPES; i++) {
            end_while_resizing(&shapes[i], (int)n);
        }
    }
}

static void set_limit(rlim_t most)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST_DRIVERS(a_carrier_that_cannot_listen_does_not_end_the_server)
{
    struct rlimit before;
    int where;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    start(&shapes[0], MOST);
    CHECK_OK(weft_runtime_resize(runtime, 1)); // they have their descriptors
    start_server();
    int peer = meet(&where);
    int next = dup(peer);
    CHECK_OK(next);
    CHECK_OK(close(next));
    set_limit((rlim_t)next);
    CHECK_OK(weft_runtime_resize(runtime, 2));
    while (!gathered_has(&logged, "does not listen on carrier 1")) {
        look_later();
    }
    CHECK_EQ(ask(peer), 0);
    set_limit(before.rlim_cur);
    await_lanes(1);
    CHECK_OK(weft_runtime_resize(runtime, 1));
    CHECK_OK(weft_runtime_resize(runtime, 2));
    await_answers_of(2);
    stop();
    CHECK_OK(close(peer));
}

TEST_DRIVERS(a_port_that_is_taken_is_refused_as_before)
{
    start(&shapes[0], 1);
    start_server();
    char taken[WEFT_ADDR_TEXT_BYTES];
    weft_task *second;
    int result;
    memcpy(taken, bound, sizeof taken);
    address = taken;
    CHECK_OK(weft_runtime_spawn(&second, runtime, serve, NULL, NULL));
    CHECK_OK(weft_join(&result, second, WEFT_FOREVER));
    CHECK_EQ(result, -EADDRINUSE);
    stop();
}

// From inside, and in the simulator.

static void talk(void)
{
    weft_conn *conn;
    struct weft_slice in;
    CHECK_OK(weft_dial(&conn, bound, NULL, WEFT_FOREVER));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(weft_conn_write(conn, "?", 1, WEFT_FOREVER));
        CHECK_EQ(weft_conn_peek(conn, &in, 1, WEFT_FOREVER), 1);
        weft_conn_consume(conn, 1);
    }
    CHECK_OK(weft_conn_close(conn));
}

TEST_EVERYWHERE(a_server_is_resized_by_a_task)
{
    static const int sizes[] = { 1, 3, 2, 3, 1, 2 };
    struct weft_scope scope;
    int carriers = weft_runtime_carriers(weft_runtime_current());
    address = "unix://";
    settings = (struct weft_serve_options)WEFT_SERVE_OPTIONS_INIT;
    settings.ready = note_ready;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, serve, NULL));
    while (!atomic_load(&ready)) {
        CHECK_OK(weft_yield());
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK_OK(weft_runtime_resize(NULL, sizes[i] < carriers ? sizes[i] : carriers));
        for (int k = 0; k < 5; k++) {
            talk();
        }
    }
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
}
