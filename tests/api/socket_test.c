// socket_test.c - options of sockets: that they reach the kernel, that accepted connections have them,
// and what becomes of the files of Unix sockets.
#include "support/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <weft.h>

#include "support/gather.h"
#include "support/waiting.h"

/// The body is a task, on both real drivers.
#define TEST_SOCKETS(id)                                                                           \
    static void id##_body(void);                                                                   \
    TEST_DRIVERS(id)                                                                               \
    {                                                                                              \
        test_run_as_task(id##_body);                                                               \
    }                                                                                              \
    static void id##_body(void)

static weft_time soon(void)
{
    return weft_after(20 * WEFT_S);
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;
    CHECK_OK(getsockopt(fd, level, name, &value, &size));
    return value;
}

// ---------------------------------------------------------------------------------------------
// TCP.

struct ends {
    weft_listener *listener;
    weft_conn *client, *server;
};

/// A listener and a connection, both sides with the same options.
static int try_connect(struct ends *ends, const char *address,
                       const struct weft_socket_options *options)
{
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    int rc = weft_listen(&ends->listener, address, options);
    if (rc < 0) {
        return rc;
    }
    CHECK_OK(weft_listener_addr(ends->listener, &addr));
    (void)weft_addr_format(&addr, text, sizeof text);
    rc = weft_dial(&ends->client, text, options, soon());
    if (rc < 0) {
        weft_listener_close(ends->listener);
        return rc;
    }
    CHECK_OK(weft_accept(&ends->server, ends->listener, soon()));
    return 0;
}

static void disconnect(struct ends *ends)
{
    CHECK_OK(weft_conn_close(ends->client));
    CHECK_OK(weft_conn_close(ends->server));
    CHECK_OK(weft_listener_close(ends->listener));
}

TEST_SOCKETS(options_reach_both_ends_of_a_connection)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    const char *failed = "nothing yet";
    struct ends ends;
    options.failed = &failed;
    options.keepalive_idle_s = 77;
    options.keepalive_interval_s = 7;
    options.keepalive_count = 3;
    options.user_timeout_ms = 4321;
    options.send_buffer_bytes = 20000;
    options.receive_buffer_bytes = 30000;
    options.ttl = 33;
    options.tos = 0x10;
    options.reset_on_close = true;
    CHECK_OK(try_connect(&ends, "tcp://127.0.0.1:0", &options));
    CHECK(failed == NULL);
    int fds[] = { weft_conn_fd(ends.client), weft_conn_fd(ends.server) };
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(option(fds[i], IPPROTO_TCP, TCP_NODELAY), 1);
        CHECK_EQ(option(fds[i], SOL_SOCKET, SO_KEEPALIVE), 1);
        CHECK_EQ(option(fds[i], IPPROTO_TCP, TCP_KEEPIDLE), 77);
        CHECK_EQ(option(fds[i], IPPROTO_TCP, TCP_KEEPINTVL), 7);
        CHECK_EQ(option(fds[i], IPPROTO_TCP, TCP_KEEPCNT), 3);
        CHECK_EQ(option(fds[i], IPPROTO_TCP, TCP_USER_TIMEOUT), 4321);
        CHECK_EQ(option(fds[i], SOL_SOCKET, SO_SNDBUF), 40000); // the kernel doubles them
        CHECK_EQ(option(fds[i], SOL_SOCKET, SO_RCVBUF), 60000);
        CHECK_EQ(option(fds[i], IPPROTO_IP, IP_TTL), 33);
        CHECK_EQ(option(fds[i], IPPROTO_IP, IP_TOS), 0x10);
        struct linger linger = { 0, 9 };
        socklen_t size = sizeof linger;
        CHECK_OK(getsockopt(fds[i], SOL_SOCKET, SO_LINGER, &linger, &size));
        CHECK_EQ(linger.l_onoff, 1);
        CHECK_EQ(linger.l_linger, 0);
    }
    disconnect(&ends);
}

TEST_SOCKETS(defaults_are_as_documented)
{
    struct weft_socket_options options;
    struct ends ends;
    weft_socket_options_init(&options);
    CHECK_OK(try_connect(&ends, "tcp://127.0.0.1:0", NULL));
    CHECK_EQ(option(weft_conn_fd(ends.client), IPPROTO_TCP, TCP_NODELAY), 1);
    CHECK_EQ(option(weft_conn_fd(ends.server), IPPROTO_TCP, TCP_NODELAY), 1);
    CHECK_EQ(option(weft_conn_fd(ends.server), SOL_SOCKET, SO_KEEPALIVE), 0);
    CHECK_EQ(option(weft_conn_fd(ends.client), SOL_SOCKET, SO_REUSEADDR), 0);
    CHECK_EQ(option(weft_conn_fd(ends.server), SOL_SOCKET, SO_REUSEADDR), 1); // the listener's
    disconnect(&ends);
    options.nodelay = WEFT_OFF;
    options.reuseaddr = WEFT_OFF;
    CHECK_OK(try_connect(&ends, "tcp://127.0.0.1:0", &options));
    CHECK_EQ(option(weft_conn_fd(ends.client), IPPROTO_TCP, TCP_NODELAY), 0);
    CHECK_EQ(option(weft_conn_fd(ends.server), IPPROTO_TCP, TCP_NODELAY), 0);
    CHECK_EQ(option(weft_conn_fd(ends.server), SOL_SOCKET, SO_REUSEADDR), 0);
    disconnect(&ends);
}

TEST_SOCKETS(an_ipv6_socket_gets_both_forms_of_an_option)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    struct ends ends;
    options.ttl = 44;
    options.tos = 0x20;
    options.v6only = WEFT_ON;
    if (try_connect(&ends, "tcp://[::1]:0", &options) < 0) {
        SKIP("no IPv6 here");
    }
    int fd = weft_conn_fd(ends.client);
    CHECK_EQ(option(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS), 44);
    CHECK_EQ(option(fd, IPPROTO_IPV6, IPV6_TCLASS), 0x20);
    CHECK_EQ(option(fd, IPPROTO_IP, IP_TTL), 44);
    CHECK_EQ(option(fd, IPPROTO_IP, IP_TOS), 0x20);
    CHECK_EQ(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
    disconnect(&ends);
}

TEST_SOCKETS(every_address_means_ipv4_and_ipv6)
{
    struct weft_addr addr;
    weft_listener *listener;
    char text[64];
    CHECK_OK(weft_listen(&listener, "tcp://*:0", NULL));
    CHECK_OK(weft_listener_addr(listener, &addr));
    static const char *const hosts[] = { "127.0.0.1", "[::1]" };
    for (int i = 0; i < 2; i++) {
        weft_conn *client, *server;
        (void)snprintf(text, sizeof text, "tcp://%s:%d", hosts[i], weft_addr_port(&addr));
        int rc = weft_dial(&client, text, NULL, soon());
        if (i == 1 && rc < 0) {
            break; // no IPv6 here
        }
        CHECK_OK(rc);
        CHECK_OK(weft_accept(&server, listener, soon()));
        struct weft_addr local, peer;
        CHECK_OK(weft_conn_local(client, &local));
        CHECK_OK(weft_conn_peer(server, &peer));
        CHECK(weft_addr_equal(&local, &peer)); // IPv4 is IPv4, whatever the listener is
        CHECK_OK(weft_conn_close(client));
        CHECK_OK(weft_conn_close(server));
    }
    CHECK_OK(weft_listener_close(listener));
}

TEST_SOCKETS(ports_are_shared_only_when_asked)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    weft_listener *a, *b;
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    for (int i = 0; i < 2; i++) {
        options.reuseport = i == 1;
        CHECK_OK(weft_listen(&a, "tcp://127.0.0.1:0", &options));
        CHECK_OK(weft_listener_addr(a, &addr));
        (void)weft_addr_format(&addr, text, sizeof text);
        int rc = weft_listen(&b, text, &options);
        CHECK_EQ(rc, i == 1 ? 0 : -EADDRINUSE);
        CHECK_OK(weft_listener_close(b));
        CHECK_OK(weft_listener_close(a));
    }
}

TEST_SOCKETS(a_listener_says_which_option_failed)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    const char *failed = NULL;
    weft_listener *listener;
    weft_conn *conn;
    int before = count_descriptors();
    options.failed = &failed;
    options.keepalive_count = 1000;
    CHECK_EQ(weft_listen(&listener, "tcp://127.0.0.1:0", &options), -EINVAL);
    CHECK_STR(failed, "keepalive_count");
    CHECK(listener == NULL);
    CHECK_EQ(weft_dial(&conn, "tcp://127.0.0.1:9", &options, soon()), -EINVAL);
    CHECK_STR(failed, "keepalive_count");
    options.keepalive_count = -1;
    CHECK_EQ(weft_listen(&listener, "tcp://127.0.0.1:0", &options), -EINVAL);
    CHECK_STR(failed, "keepalive_count");
    // What does not apply is not looked at.
    CHECK_OK(weft_listen(&listener, "unix://", &options));
    CHECK(failed == NULL);
    CHECK_OK(weft_listener_close(listener));
    options.size = sizeof options + 1;
    CHECK_EQ(weft_listen(&listener, "tcp://127.0.0.1:0", &options), -EINVAL);
    CHECK_EQ(count_descriptors(), before);
}

/// The listener's own descriptor, which nobody else needs.
static int find_listening(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        int listens = 0;
        socklen_t size = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens == 1) {
            return fd;
        }
    }
    FAIL("no descriptor listens");
}

TEST_SOCKETS(fast_open_is_switched_on)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    struct ends ends;
    options.fastopen = 5;
    int rc = try_connect(&ends, "tcp://127.0.0.1:0", &options);
    if (rc == -EOPNOTSUPP) {
        SKIP("net.ipv4.tcp_fastopen forbids it");
    }
    CHECK_OK(rc);
    CHECK_EQ(option(find_listening(), IPPROTO_TCP, TCP_FASTOPEN), 5);
    CHECK_EQ(option(weft_conn_fd(ends.client), IPPROTO_TCP, TCP_FASTOPEN_CONNECT), 1);
    disconnect(&ends);
}

// ---------------------------------------------------------------------------------------------
// The files of Unix sockets.

static char folder[64]; // a socket's path is short

static void make_folder(void)
{
    temp_folder(folder, sizeof folder);
}

static void remove_folder(void)
{
    CHECK_EQ(count_entries(folder), 0);
    CHECK_OK(rmdir(folder));
}

/// The path of the socket, and its address.
static const char *path(void)
{
    static char text[80];
    (void)snprintf(text, sizeof text, "%s/socket", folder);
    return text;
}

static const char *address(const char *scheme)
{
    static char text[96];
    (void)snprintf(text, sizeof text, "%s://%s", scheme, path());
    return text;
}

static bool exists(void)
{
    struct stat found;
    return lstat(path(), &found) == 0;
}

static unsigned mode(void)
{
    struct stat found;
    CHECK_OK(stat(path(), &found));
    return found.st_mode & 07777;
}

static int bind_file(int type)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", path());
    CHECK_OK(bind(fd, (struct sockaddr *)&un, sizeof un));
    if (type != SOCK_DGRAM) {
        CHECK_OK(listen(fd, 1));
    }
    return fd;
}

/// Leaves a socket file to which nobody is bound.
static void leave_stale(int type)
{
    close(bind_file(type));
    CHECK(exists());
}

TEST_SOCKETS(closing_removes_the_file)
{
    weft_listener *listener;
    weft_dgram *dgram;
    make_folder();
    CHECK_OK(weft_listen(&listener, address("unix"), NULL));
    CHECK(exists());
    CHECK_OK(weft_listener_close(listener));
    CHECK(!exists());
    CHECK_OK(weft_dgram_bind(&dgram, address("unixgram"), NULL));
    CHECK(exists());
    CHECK_OK(weft_dgram_close(dgram));
    CHECK(!exists());

    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    options.unix_keep = true;
    CHECK_OK(weft_dgram_bind(&dgram, address("unixpacket"), &options));
    CHECK_OK(weft_dgram_close(dgram));
    CHECK(exists());
    CHECK_OK(unlink(path()));
    remove_folder();
}

TEST_SOCKETS(a_stale_file_is_replaced)
{
    static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
    static const char *const schemes[] = { "unixgram", "unixpacket" };
    make_folder();
    for (int t = 0; t < 3; t++) {
        for (int s = 0; s < 2; s++) {
            weft_dgram *dgram;
            leave_stale(types[t]);
            CHECK_OK(weft_dgram_bind(&dgram, address(schemes[s]), NULL));
            CHECK_OK(weft_dgram_close(dgram));
        }
        weft_listener *listener;
        leave_stale(types[t]);
        CHECK_OK(weft_listen(&listener, address("unix"), NULL));
        CHECK_OK(weft_listener_close(listener));
    }
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    weft_listener *listener;
    leave_stale(SOCK_STREAM);
    options.unix_existing = WEFT_UNIX_REFUSE;
    CHECK_EQ(weft_listen(&listener, address("unix"), &options), -EADDRINUSE);
    CHECK(exists());
    CHECK_OK(unlink(path()));
    remove_folder();
}

static int close_later(void *arg)
{
    CHECK_OK(weft_sleep(10 * WEFT_MS));
    return close(*(int *)arg);
}

TEST_SOCKETS(a_file_that_is_stale_in_a_moment_is_replaced)
{
    struct weft_scope scope;
    weft_listener *listener;
    weft_dgram *dgram;
    make_folder();
    for (int i = 0; i < 2; i++) {
        int fd = bind_file(i == 0 ? SOCK_STREAM : SOCK_DGRAM);
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
        CHECK_OK(weft_scope_spawn(&scope, close_later, &fd));
        if (i == 0) {
            CHECK_OK(weft_listen(&listener, address("unix"), NULL));
            CHECK_OK(weft_listener_close(listener));
        } else {
            CHECK_OK(weft_dgram_bind(&dgram, address("unixgram"), NULL));
            CHECK_OK(weft_dgram_close(dgram));
        }
        CHECK_OK(weft_scope_join(&scope));
    }
    remove_folder();
}

static int is_refused(void *arg)
{
    const char *scheme = arg;
    weft_listener *listener;
    weft_dgram *dgram;
    int rc = strcmp(scheme, "unix") == 0 ? weft_listen(&listener, address(scheme), NULL)
                                         : weft_dgram_bind(&dgram, address(scheme), NULL);
    CHECK_EQ(rc, -EADDRINUSE);
    return 0;
}

/// All at once, because each tries for a while.
static void are_refused(void)
{
    static char schemes[][12] = { "unix", "unixgram", "unixpacket" };
    struct weft_attr attr = stay_here();
    weft_task *tasks[3];
    for (int s = 0; s < 3; s++) {
        CHECK_OK(weft_spawn(&tasks[s], is_refused, schemes[s], &attr));
    }
    for (int s = 0; s < 3; s++) {
        CHECK_OK(weft_join(NULL, tasks[s], WEFT_FOREVER));
    }
}

TEST_SOCKETS(a_file_that_is_in_use_is_left_alone)
{
    static const char *const schemes[] = { "unixgram", "unixpacket" };
    weft_listener *alive;
    weft_conn *client, *server;
    make_folder();
    CHECK_OK(weft_listen(&alive, address("unix"), NULL));
    are_refused();
    // It noticed nothing of the question, and still works.
    CHECK_EQ(weft_accept(&server, alive, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_OK(weft_dial(&client, address("unix"), NULL, soon()));
    CHECK_OK(weft_accept(&server, alive, soon()));
    CHECK_OK(weft_conn_close(client));
    CHECK_OK(weft_conn_close(server));
    CHECK_OK(weft_listener_close(alive));

    for (int s = 0; s < 2; s++) {
        weft_dgram *bound;
        char text[4];
        CHECK_OK(weft_dgram_bind(&bound, address(schemes[s]), NULL));
        are_refused();
        if (s == 0) {
            CHECK_EQ(weft_dgram_recv(bound, text, 4, NULL, weft_after(WEFT_MS)), -ETIMEDOUT);
        }
        CHECK_OK(weft_dgram_close(bound));
    }
    remove_folder();
}

TEST_SOCKETS(a_file_that_is_not_a_socket_is_never_touched)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    weft_listener *listener;
    make_folder();
    for (int i = WEFT_UNIX_REPLACE_STALE; i <= WEFT_UNIX_REPLACE; i++) {
        options.unix_existing = (enum weft_unix_existing)i;
        int fd = open(path(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        CHECK_EQ(write(fd, "x", 1), 1);
        close(fd);
        CHECK_EQ(weft_listen(&listener, address("unix"), &options), -EADDRINUSE);
        CHECK(exists());
        CHECK_OK(unlink(path()));
        // A link may point at what is not ours.
        CHECK_OK(symlink("/nowhere", path()));
        CHECK_EQ(weft_listen(&listener, address("unix"), &options), -EADDRINUSE);
        CHECK(exists());
        CHECK_OK(unlink(path()));
    }
    remove_folder();
}

TEST_SOCKETS(a_file_can_be_replaced_by_force_and_its_owner_leaves_the_new_one)
{
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    weft_listener *old, *young;
    weft_conn *client, *server;
    make_folder();
    CHECK_OK(weft_listen(&old, address("unix"), NULL));
    options.unix_existing = WEFT_UNIX_REPLACE;
    CHECK_OK(weft_listen(&young, address("unix"), &options));
    CHECK_OK(weft_listener_close(old)); // must not remove the file: it is not its own any more
    CHECK(exists());
    CHECK_OK(weft_dial(&client, address("unix"), NULL, soon()));
    CHECK_OK(weft_accept(&server, young, soon()));
    CHECK_OK(weft_conn_close(client));
    CHECK_OK(weft_conn_close(server));
    CHECK_OK(weft_listener_close(young));
    remove_folder();
}

TEST_SOCKETS(the_mode_of_the_file_is_as_asked)
{
    static const unsigned modes[] = { 0600, 0666, 0777, 0660 };
    struct weft_socket_options options = WEFT_SOCKET_OPTIONS_INIT;
    weft_listener *listener;
    make_folder();
    mode_t before = umask(027);
    CHECK_OK(weft_listen(&listener, address("unix"), NULL));
    CHECK_EQ(mode(), 0750);
    CHECK_OK(weft_listener_close(listener));
    for (size_t i = 0; i < 4; i++) {
        options.unix_mode = modes[i];
        CHECK_OK(weft_listen(&listener, address("unix"), &options));
        CHECK_EQ(mode(), modes[i]);
        CHECK_OK(weft_listener_close(listener));
    }
    umask(before);
    remove_folder();
}

TEST_SOCKETS(bad_paths_are_errors)
{
    weft_listener *listener;
    char text[128];
    make_folder();
    int before = count_descriptors();
    (void)snprintf(text, sizeof text, "unix://%s/none/socket", folder);
    CHECK_EQ(weft_listen(&listener, text, NULL), -ENOENT);
    CHECK_EQ(weft_listen(&listener, "unix:///dev/null/socket", NULL), -ENOTDIR);
    (void)snprintf(text, sizeof text, "unix://%s", folder);
    CHECK_EQ(weft_listen(&listener, text, NULL), -EADDRINUSE); // a directory
    CHECK_EQ(count_descriptors(), before);
    remove_folder();
}

/// Whoever replaces a stale file holds the directory's lock; others must not, or the slower one would
/// remove the file of the faster one.
TEST_SOCKETS(two_servers_cannot_replace_the_same_file)
{
    weft_listener *listener;
    make_folder();
    leave_stale(SOCK_STREAM);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_OK(flock(fd, LOCK_EX));
    CHECK_EQ(weft_listen(&listener, address("unix"), NULL), -EADDRINUSE);
    CHECK(exists());
    close(fd);
    CHECK_OK(weft_listen(&listener, address("unix"), NULL));
    CHECK_OK(weft_listener_close(listener));
    remove_folder();
}

// ---------------------------------------------------------------------------------------------
// Without memory.

static bool exhausted;

static void *alloc(void *ctx, size_t size_bytes, size_t align)
{
    void *memory = NULL;
    (void)ctx;
    if (exhausted || posix_memalign(&memory, align < 16 ? 16 : align, size_bytes) != 0) {
        return NULL;
    }
    return memory;
}

static void release(void *ctx, void *memory, size_t size_bytes)
{
    (void)ctx;
    (void)size_bytes;
    free(memory);
}

static int without_memory(void *arg)
{
    weft_dgram *dgram, *pair[2], *listener, *peer, *client;
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    (void)arg;
    CHECK_OK(weft_dgram_bind(&listener, "unixpacket://", NULL));
    CHECK_OK(weft_dgram_local(listener, &addr));
    (void)weft_addr_format(&addr, text, sizeof text);
    CHECK_OK(weft_dgram_dial(&client, text, NULL, soon()));
    int before = count_descriptors();
    exhausted = true;
    CHECK_EQ(weft_dgram_bind(&dgram, "udp://127.0.0.1:0", NULL), -ENOMEM);
    CHECK(dgram == NULL);
    CHECK_EQ(weft_dgram_dial(&dgram, "udp://127.0.0.1:9", NULL, soon()), -ENOMEM);
    CHECK_EQ(weft_dgram_pair(pair, WEFT_ADDR_UNIXGRAM), -ENOMEM);
    CHECK_EQ(weft_dgram_accept(&peer, listener, soon()), -ENOMEM);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(weft_dgram_adopt(&dgram, fd), -ENOMEM);
    close(fd);
    exhausted = false;
    CHECK_EQ(count_descriptors(), before);
    CHECK_OK(weft_dgram_accept(&peer, listener, soon())); // it was not lost
    CHECK_OK(weft_dgram_close(peer));
    CHECK_OK(weft_dgram_close(client));
    CHECK_OK(weft_dgram_close(listener));
    return 0;
}

TEST_DRIVERS(without_memory_there_is_an_error_and_nothing_is_lost)
{
    static const struct weft_allocator allocator = { alloc, release, NULL };
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    options.allocator = &allocator;
    CHECK_OK(weft_run(without_memory, NULL, &options));
}
