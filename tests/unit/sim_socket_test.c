// sim_socket_test.c - simulated sockets answer as those of Linux do.
#include "support/simulated.h"

#include <poll.h>

#include "support/gather.h"

static struct gathered logged;

// Descriptors.

TEST_SIMULATED(only_own_descriptors_are_simulated, .latency_ns = 0)
{
    char byte;
    CHECK_EQ(weft_read(0, &byte, 1, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_write(1, &byte, 1, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_poll(2, POLLOUT, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(sockets()->listen(state(), 0, 1), -ENOTSUP);
    CHECK_EQ(sockets()->shutdown(state(), 0, SHUT_RD), -ENOTSUP);
    CHECK_EQ(weft_close(0), -ENOTSUP);
    CHECK_EQ(weft_read(-1, &byte, 1, WEFT_FOREVER), -EBADF);
    int fd = make_socket(AF_INET, SOCK_STREAM);
    CHECK_OK(weft_close(fd));
    CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_close(fd), -EBADF);
    CHECK_EQ(sockets()->local(state(), fd, NULL, NULL), -EBADF);
}

TEST_SIMULATED(the_lowest_free_number_comes_first, .descriptors = 5)
{
    int fds[5];
    for (int i = 0; i < 5; i++) {
        fds[i] = make_socket(AF_UNIX, SOCK_DGRAM);
        CHECK_EQ(fds[i], fds[0] + i);
    }
    CHECK_EQ(sockets()->socket(state(), AF_INET, SOCK_STREAM, 0), -EMFILE);
    CHECK_OK(weft_close(fds[3]));
    CHECK_OK(weft_close(fds[1]));
    CHECK_EQ(make_socket(AF_INET, SOCK_STREAM), fds[1]);
    CHECK_EQ(make_socket(AF_INET6, SOCK_STREAM), fds[3]);
    int pair[2];
    CHECK_EQ(sockets()->pair(state(), AF_UNIX, SOCK_STREAM, 0, pair), -EMFILE);
    CHECK_OK(weft_close(fds[4]));
    CHECK_EQ(sockets()->pair(state(), AF_UNIX, SOCK_STREAM, 0, pair), -EMFILE); // and leaves none
    CHECK_EQ(make_socket(AF_INET, SOCK_STREAM), fds[4]);
}

TEST_SIMULATED(what_does_not_exist_is_refused, .latency_ns = 0)
{
    int fds[2];
    int value = 1;
    CHECK_EQ(sockets()->socket(state(), AF_PACKET, SOCK_STREAM, 0), -EAFNOSUPPORT);
    CHECK_EQ(sockets()->socket(state(), AF_INET, SOCK_SEQPACKET, 0), -ESOCKTNOSUPPORT);
    CHECK_EQ(sockets()->socket(state(), AF_INET, SOCK_STREAM, IPPROTO_UDP), -EPROTONOSUPPORT);
    CHECK_EQ(sockets()->pair(state(), AF_INET, SOCK_STREAM, 0, fds), -EOPNOTSUPP);
    int fd = make_socket(AF_INET, SOCK_STREAM);
    CHECK_EQ(set_option(fd, SOL_SOCKET, 9999, 1), -ENOPROTOOPT);
    CHECK_EQ(set_option(fd, IPPROTO_IP, IP_TTL, 256), -EINVAL);
    CHECK_EQ(set_option(fd, IPPROTO_UDP, 104, 1), -EOPNOTSUPP);
    CHECK_EQ(sockets()->set(state(), fd, SOL_SOCKET, SO_REUSEADDR, &value, 1), -EINVAL);
    CHECK_OK(set_option(fd, SOL_SOCKET, SO_SNDBUF, 10000));
    CHECK_EQ(get_option(fd, SOL_SOCKET, SO_SNDBUF), 20000); // the kernel doubles it
    CHECK_OK(set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1));
    CHECK_EQ(get_option(fd, SOL_SOCKET, SO_REUSEADDR), 1);
    CHECK_EQ(get_option(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    CHECK_EQ(get_option(fd, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
    CHECK_EQ(sockets()->shutdown(state(), fd, SHUT_RDWR), -ENOTCONN);
    CHECK_EQ(sockets()->shutdown(state(), fd, 7), -EINVAL);
    CHECK_EQ(weft_send(fd, "x", 1, 0, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_recv(fd, &value, 1, 0, WEFT_FOREVER), -ENOTCONN);
    CHECK_EQ(weft_accept_fd(fd, NULL, NULL, 0, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_fsync(fd, WEFT_FOREVER), -EINVAL);
    CHECK_OK(weft_close(fd));
}

// Names.

TEST_SIMULATED(one_name_one_socket, .latency_ns = 0)
{
    int first = listen_v4(80, 1);
    int second = make_socket(AF_INET, SOCK_STREAM);
    CHECK_EQ(bind_v4(second, 80), -EADDRINUSE);
    CHECK_OK(set_option(second, SOL_SOCKET, SO_REUSEADDR, 1));
    CHECK_EQ(bind_v4(second, 80), -EADDRINUSE); // the first listens
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(80) };
    int third = make_socket(AF_INET6, SOCK_STREAM);
    CHECK_EQ(sockets()->bind(state(), third, (const void *)&any, sizeof any), -EADDRINUSE);
    CHECK_OK(set_option(third, IPPROTO_IPV6, IPV6_V6ONLY, 1));
    CHECK_OK(sockets()->bind(state(), third, (const void *)&any, sizeof any));
    CHECK_EQ(sockets()->bind(state(), third, (const void *)&any, sizeof any), -EINVAL);
    int udp = make_socket(AF_INET, SOCK_DGRAM);
    CHECK_OK(bind_v4(udp, 80)); // another protocol
    CHECK_OK(weft_close(first));
    CHECK_OK(bind_v4(second, 80));
    CHECK_OK(weft_close(second));
    CHECK_OK(weft_close(third));
    CHECK_OK(weft_close(udp));

    int file = make_socket(AF_UNIX, SOCK_STREAM);
    int other = make_socket(AF_UNIX, SOCK_STREAM);
    CHECK_OK(bind_path(file, "/somewhere/socket"));
    CHECK_EQ(bind_path(other, "/somewhere/socket"), -EADDRINUSE);
    CHECK_OK(bind_path(other, "@/somewhere/socket"));
    CHECK_OK(weft_close(file));
    CHECK_OK(weft_close(other));
}

TEST_SIMULATED(ports_and_names_are_chosen, .latency_ns = 0)
{
    struct sockaddr_in a, b;
    struct sockaddr_un name;
    uint32_t size = sizeof a;
    int one = make_socket(AF_INET, SOCK_STREAM);
    int two = make_socket(AF_INET, SOCK_STREAM);
    CHECK_OK(bind_v4(one, 0));
    CHECK_OK(bind_v4(two, 0));
    CHECK_OK(sockets()->local(state(), one, (struct sockaddr *)&a, &size));
    CHECK_OK(sockets()->local(state(), two, (struct sockaddr *)&b, &size));
    CHECK_EQ(size, sizeof a);
    CHECK_GE(ntohs(a.sin_port), 32768);
    CHECK_NE(a.sin_port, b.sin_port);
    CHECK_EQ(sockets()->peer(state(), one, (struct sockaddr *)&a, &size), -ENOTCONN);
    int local = make_socket(AF_UNIX, SOCK_DGRAM);
    CHECK_OK(bind_path(local, ""));
    size = sizeof name;
    CHECK_OK(sockets()->local(state(), local, (struct sockaddr *)&name, &size));
    CHECK_EQ(size, offsetof(struct sockaddr_un, sun_path) + 6);
    CHECK_EQ(name.sun_path[0], '\0');
    CHECK_OK(weft_close(one));
    CHECK_OK(weft_close(two));
    CHECK_OK(weft_close(local));
}

static int dial_and_leave(void *arg)
{
    int fd = make_socket(AF_INET, SOCK_STREAM);
    CHECK_OK(connect_v4(fd, *(uint16_t *)arg, WEFT_FOREVER));
    return weft_close(fd);
}

TEST_SIMULATED(reuseport_spreads_connections, .latency_ns = 0)
{
    enum { LISTENERS = 3, CLIENTS = 60 };
    static uint16_t port = 90;
    int listeners[LISTENERS];
    for (int i = 0; i < LISTENERS; i++) {
        listeners[i] = make_socket(AF_INET, SOCK_STREAM);
        CHECK_OK(set_option(listeners[i], SOL_SOCKET, SO_REUSEPORT, 1));
        CHECK_OK(bind_v4(listeners[i], port));
        CHECK_OK(sockets()->listen(state(), listeners[i], CLIENTS));
    }
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_OK(weft_scope_spawn(&scope, dial_and_leave, &port));
    }
    CHECK_OK(weft_scope_join(&scope));
    int total = 0;
    for (int i = 0; i < LISTENERS; i++) {
        int mine = 0, fd;
        while ((fd = weft_accept_fd(listeners[i], NULL, NULL, 0, weft_after(WEFT_MS))) >= 0) {
            CHECK_OK(weft_close(fd));
            mine++;
        }
        CHECK_EQ(fd, -ETIMEDOUT);
        CHECK_GT(mine, 0);
        total += mine;
        CHECK_OK(weft_close(listeners[i]));
    }
    CHECK_EQ(total, CLIENTS);
}

// Connecting.

TEST_SIMULATED(nobody_listens, .latency_ns = 0)
{
    int fd = make_socket(AF_INET, SOCK_STREAM);
    CHECK_EQ(connect_v4(fd, 4000, WEFT_FOREVER), -ECONNREFUSED);
    int listener = listen_v4(4000, 1);
    CHECK_OK(connect_v4(fd, 4000, WEFT_FOREVER)); // it may try again
    CHECK_EQ(connect_v4(fd, 4000, WEFT_FOREVER), -EISCONN);
    CHECK_OK(weft_close(fd));
    CHECK_OK(weft_close(listener));
    int local = make_socket(AF_UNIX, SOCK_STREAM);
    CHECK_EQ(connect_path(local, "/nowhere", WEFT_FOREVER), -ENOENT);
    CHECK_EQ(connect_path(local, "@nowhere", WEFT_FOREVER), -ECONNREFUSED);
    CHECK_OK(weft_close(local));
}

TEST_SIMULATED(a_cut_link_lets_a_connect_give_up, .cut_per_million = 1000000,
               .cut_ns = 100000 * WEFT_S)
{
    int listener = listen_v4(4000, 1);
    int fd = make_socket(AF_INET, SOCK_STREAM);
    weft_time before = weft_now();
    CHECK_EQ(connect_v4(fd, 4000, weft_after(WEFT_S)), -ETIMEDOUT); // our own deadline
    CHECK_LT(weft_now() - before, 2 * WEFT_S);
    CHECK_OK(weft_close(fd));
    int again = make_socket(AF_INET, SOCK_STREAM);
    before = weft_now();
    int rc = connect_v4(again, 4000, WEFT_FOREVER);
    CHECK(rc == -ETIMEDOUT || rc == 0); // a short cut may have been drawn
    CHECK(rc == 0 || weft_now() - before >= 127 * WEFT_S);
    CHECK_OK(weft_close(again));
    CHECK_OK(weft_close(listener));
}

static int dial_four_thousand(void *arg)
{
    (void)arg;
    int fd = make_socket(AF_INET, SOCK_STREAM);
    int rc = connect_v4(fd, 4000, WEFT_FOREVER);
    CHECK_OK(weft_close(fd));
    return rc;
}

TEST_SIMULATED(a_full_backlog_makes_connects_wait, .latency_ns = 0)
{
    enum { CLIENTS = 5 };
    weft_task *tasks[CLIENTS];
    int listener = listen_v4(4000, 1); // and one more, as with the kernel
    weft_time before = weft_now();
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], dial_four_thousand, NULL, NULL));
    }
    CHECK_OK(weft_sleep(500 * WEFT_MS));
    int connected = 0;
    for (int i = 0; i < CLIENTS; i++) {
        connected += weft_task_done(tasks[i]);
    }
    CHECK_EQ(connected, 2);
    for (int i = 0; i < CLIENTS; i++) {
        int fd = weft_accept_fd(listener, NULL, NULL, 0, WEFT_FOREVER);
        CHECK_OK(fd);
        CHECK_OK(weft_close(fd));
    }
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_GE(weft_now() - before, WEFT_S); // when a SYN is sent again
    CHECK_OK(weft_close(listener));
}

static int dial_path(void *arg)
{
    (void)arg;
    int fd = make_socket(AF_UNIX, SOCK_STREAM);
    int rc = connect_path(fd, "@here", WEFT_FOREVER);
    CHECK_OK(weft_close(fd));
    return rc;
}

TEST_SIMULATED(a_full_unix_backlog_makes_connects_wait, .latency_ns = 0)
{
    weft_task *tasks[4];
    int results[4];
    int listener = make_socket(AF_UNIX, SOCK_STREAM);
    CHECK_OK(bind_path(listener, "@here"));
    CHECK_OK(sockets()->listen(state(), listener, 0));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_spawn(&tasks[i], dial_path, NULL, NULL));
    }
    CHECK_OK(weft_sleep(WEFT_S));
    int fd = weft_accept_fd(listener, NULL, NULL, 0, WEFT_FOREVER);
    CHECK_OK(fd);
    CHECK_OK(weft_close(fd));
    CHECK_OK(weft_sleep(WEFT_S));
    CHECK_OK(weft_close(listener)); // with one in the queue and two that wait
    int connected = 0;
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_join(&results[i], tasks[i], WEFT_FOREVER));
        CHECK(results[i] == 0 || results[i] == -ECONNREFUSED);
        connected += results[i] == 0;
    }
    CHECK_EQ(connected, 2);
}

// Streams.

TEST_SIMULATED(bytes_arrive_in_order_and_then_the_end, .short_per_million = 300000,
               .cut_per_million = 20000)
{
    enum { BYTES = 100000 };
    static unsigned char out[BYTES], in[BYTES];
    int ends[2];
    size_t sent = 0, received = 0;
    uint64_t random = simulated.seed;
    make_connection(ends);
    for (size_t i = 0; i < BYTES; i++) {
        out[i] = (unsigned char)test_random(&random);
    }
    while (received < BYTES) {
        if (sent < BYTES) {
            ssize_t n = weft_send(ends[0], out + sent, BYTES - sent, MSG_DONTWAIT, WEFT_FOREVER);
            CHECK(n > 0 || n == -EAGAIN);
            sent += n > 0 ? (size_t)n : 0;
            if (sent == BYTES) {
                CHECK_OK(sockets()->shutdown(state(), ends[0], SHUT_WR));
            }
        }
        // Not for ever: it may be the writer's turn.
        ssize_t n = weft_read(ends[1], in + received, BYTES - received, weft_after(WEFT_MS));
        CHECK(n > 0 || n == -ETIMEDOUT);
        received += n > 0 ? (size_t)n : 0;
    }
    CHECK_EQ(memcmp(in, out, BYTES), 0);
    CHECK_EQ(weft_read(ends[1], in, 1, WEFT_FOREVER), 0);
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_write_full(NULL, ends[1], "back", 4, WEFT_FOREVER), 4); // half-closed
    CHECK_EQ(weft_read_full(NULL, ends[0], in, 4, WEFT_FOREVER), 4);
    CHECK_EQ(memcmp(in, "back", 4), 0);
    close_both(ends);
}

static void check_back_pressure(int ends[2])
{
    static char data[1 << 20];
    size_t sent = 0;
    ssize_t n;
    while ((n = weft_write(ends[0], data, sizeof data, weft_after(WEFT_S))) > 0) {
        sent += (size_t)n;
    }
    CHECK_EQ(n, -ETIMEDOUT);
    CHECK_GE(sent, 2 * 8192);
    CHECK_LT(sent, 2 * 8192 + 4096);
    CHECK_EQ(weft_poll(ends[0], POLLOUT, weft_after(WEFT_S)), -ETIMEDOUT);
    CHECK_EQ(weft_send(ends[0], data, 1, MSG_DONTWAIT, WEFT_FOREVER), -EAGAIN);
    CHECK_GT(weft_read(ends[1], data, 1000, WEFT_FOREVER), 0);
    CHECK_EQ(weft_poll(ends[0], POLLOUT, WEFT_FOREVER), POLLOUT);
    CHECK_GT(weft_write(ends[0], data, sizeof data, WEFT_FOREVER), 0);
    close_both(ends);
}

TEST_SIMULATED(a_writer_waits_for_the_reader, .buffer_bytes = 8192)
{
    int ends[2];
    make_connection(ends);
    check_back_pressure(ends);
    make_pair(ends, SOCK_STREAM);
    check_back_pressure(ends);
}

TEST_SIMULATED(writing_to_one_who_has_closed, .latency_ns = 0)
{
    char byte;
    int ends[2];
    make_connection(ends);
    CHECK_OK(weft_close(ends[1]));
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 0);
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), 1); // it cannot know
    CHECK_EQ(weft_poll(ends[0], 0, WEFT_FOREVER), POLLERR | POLLHUP);
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(ends[0]));

    make_pair(ends, SOCK_STREAM);
    CHECK_OK(weft_close(ends[1]));
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), -EPIPE); // a Unix socket knows
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(ends[0]));
}

TEST_SIMULATED(closing_with_unread_bytes_resets, .latency_ns = 0)
{
    char text[8];
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (i == 0) {
            make_connection(ends);
        } else {
            make_pair(ends, SOCK_STREAM);
        }
        CHECK_EQ(weft_write(ends[1], "before", 6, WEFT_FOREVER), 6);
        CHECK_EQ(weft_write(ends[0], "unread", 6, WEFT_FOREVER), 6);
        CHECK_EQ(weft_poll(ends[1], POLLIN, WEFT_FOREVER), POLLIN);
        CHECK_OK(weft_close(ends[1]));
        CHECK_OK(weft_sleep(WEFT_MS)); // a reset does not take away what has arrived
        CHECK_EQ(weft_read(ends[0], text, sizeof text, WEFT_FOREVER), 6);
        CHECK_EQ(weft_read(ends[0], text, sizeof text, WEFT_FOREVER), -ECONNRESET);
        CHECK_EQ(weft_read(ends[0], text, sizeof text, WEFT_FOREVER), 0);
        CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), -EPIPE);
        CHECK_OK(weft_close(ends[0]));
    }
}

TEST_SIMULATED(linger_without_time_resets, .latency_ns = 0)
{
    struct linger now = { 1, 0 };
    char byte;
    int ends[2];
    make_connection(ends);
    CHECK_OK(sockets()->set(state(), ends[1], SOL_SOCKET, SO_LINGER, &now, sizeof now));
    CHECK_OK(weft_close(ends[1]));
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), -ECONNRESET);
    CHECK_OK(weft_close(ends[0]));
}

TEST_SIMULATED(a_segment_may_reset_the_connection, .reset_per_million = 1000000)
{
    char byte;
    int ends[2];
    make_connection(ends);
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[1], &byte, 1, WEFT_FOREVER), -ECONNRESET);
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), -ECONNRESET);
    CHECK_EQ(get_option(ends[0], SOL_SOCKET, SO_ERROR), 0);
    close_both(ends);
    make_pair(ends, SOCK_STREAM); // is inside the machine
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[1], &byte, 1, WEFT_FOREVER), 1);
    close_both(ends);
}

TEST_SIMULATED(reading_can_be_shut_and_peeked, .latency_ns = 0)
{
    char text[8] = "";
    int ends[2];
    make_connection(ends);
    CHECK_EQ(weft_write(ends[0], "hello", 5, WEFT_FOREVER), 5);
    CHECK_EQ(weft_recv(ends[1], text, 8, MSG_PEEK, WEFT_FOREVER), 5);
    CHECK_EQ(weft_recv(ends[1], text, 8, MSG_PEEK, WEFT_FOREVER), 5);
    CHECK_EQ(weft_write(ends[0], "you", 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_recv(ends[1], text, 8, MSG_WAITALL, WEFT_FOREVER), 8);
    CHECK_EQ(memcmp(text, "helloyou", 8), 0);
    CHECK_OK(sockets()->shutdown(state(), ends[1], SHUT_RD));
    CHECK_EQ(weft_read(ends[1], text, 8, WEFT_FOREVER), 0);
    CHECK_EQ(weft_poll(ends[1], POLLIN | POLLRDHUP, WEFT_FOREVER), POLLIN | POLLRDHUP);
    close_both(ends);
}

TEST_SIMULATED(accepting_may_fail, .accept_error_per_million = 500000)
{
    int aborted = 0, exhausted = 0, accepted = 0;
    int listener = listen_v4(4000, 100);
    for (int i = 0; i < 40; i++) {
        int fd = make_socket(AF_INET, SOCK_STREAM);
        CHECK_OK(connect_v4(fd, 4000, WEFT_FOREVER));
        int peer;
        while ((peer = weft_accept_fd(listener, NULL, NULL, 0, WEFT_FOREVER)) == -EMFILE) {
            exhausted++; // and the connection is still there
        }
        char byte;
        if (peer == -ECONNABORTED) {
            aborted++;
            CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), -ECONNRESET);
        } else {
            accepted++;
            CHECK_OK(weft_close(peer));
            CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 0);
        }
        CHECK_OK(weft_close(fd));
    }
    CHECK_GT(aborted, 0);
    CHECK_GT(exhausted, 0);
    CHECK_GT(accepted, 0);
    CHECK_OK(weft_close(listener));
}

// Nothing under way.

static int read_for_ever(void *arg)
{
    (void)arg;
    char byte;
    int ends[2];
    make_connection(ends);
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[1], &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_write(ends[0], "never read", 10, WEFT_FOREVER), 10);
    (void)listen_v4(5000, 1);
    return (int)weft_read(ends[0], &byte, 1, WEFT_FOREVER); // the run ends here
}

TEST(waiting_for_nothing_is_reported)
{
    struct weft_sim_options options = { .seed = 7, .log = gather_log, .log_ctx = &logged };
    CHECK_EQ(weft_sim_run(NULL, read_for_ever, NULL, &options), -EDEADLK);
    CHECK_LOGGED(&logged, "everyone is asleep");
    CHECK_LOGGED(&logged, "\"main\" thread, waiting, read for ");
}

TEST(rates_above_a_million_are_refused)
{
    static const size_t fields[] = {
        offsetof(struct weft_sim_net, reset_per_million),
        offsetof(struct weft_sim_net, short_per_million),
        offsetof(struct weft_sim_net, cut_per_million),
        offsetof(struct weft_sim_net, loss_per_million),
        offsetof(struct weft_sim_net, dup_per_million),
        offsetof(struct weft_sim_net, reorder_per_million),
        offsetof(struct weft_sim_net, accept_error_per_million),
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct weft_sim_options options = { .log = gather_log, .log_ctx = &logged };
        uint32_t rate = 1000001;
        gathered_clear(&logged);
        memcpy((char *)&options.net + fields[i], &rate, sizeof rate);
        CHECK_EQ(weft_sim_run(NULL, read_for_ever, NULL, &options), -EINVAL);
        CHECK_LOGGED(&logged, "_per_million = 1000001 is not allowed");
    }
}
