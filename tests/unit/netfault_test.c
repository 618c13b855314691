// netfault_test.c - lets the nth allocation, and the nth system call of each kind behind connections,
// listeners and message sockets fail. Each time calls fail or do not; nothing crashes, hangs, or is
// left open, and when the runtime has gone all memory has come back.
//
// The linker sends the static library's calls through the __wrap_ functions below (--wrap, see
// tests/meson.build). What a ring does itself cannot be reached here: fdfault_test.c does that.
#include "support/faults.h"
#include "support/gather.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <weft.h>

enum fault {
    FAULT_MEMORY,
    FAULT_SOCKET,
    FAULT_BIND,
    FAULT_LISTEN,
    FAULT_NAME,
    FAULT_SET,
    FAULT_GET,
    FAULT_SHUTDOWN,
    FAULT_IOCTL,
    FAULT_CLOSE,
    FAULT_ACCEPT,
    FAULT_CONNECT,
    FAULT_RECV,
    FAULT_SEND,
    FAULT_RECVMSG,
    FAULT_SENDMSG,
    FAULT_MANY,
    FAULT_EPOLL_CTL,
    FAULTS,
};

WRAP(FAULT_SOCKET, int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
WRAP(FAULT_SOCKET, int, socketpair, (int domain, int type, int protocol, int fds[2]),
     (domain, type, protocol, fds), -1)
WRAP(FAULT_BIND, int, bind, (int fd, const struct sockaddr *addr, socklen_t size), (fd, addr, size),
     -1)
WRAP(FAULT_LISTEN, int, listen, (int fd, int backlog), (fd, backlog), -1)
WRAP(FAULT_NAME, int, getsockname, (int fd, struct sockaddr *addr, socklen_t *size),
     (fd, addr, size), -1)
WRAP(FAULT_SET, int, setsockopt, (int fd, int level, int name, const void *value, socklen_t size),
     (fd, level, name, value, size), -1)
WRAP(FAULT_GET, int, getsockopt, (int fd, int level, int name, void *value, socklen_t *size),
     (fd, level, name, value, size), -1)
WRAP(FAULT_SHUTDOWN, int, shutdown, (int fd, int how), (fd, how), -1)
WRAP(FAULT_CLOSE, int, close, (int fd), (fd), (__real_close(fd), errno = fault_errno, -1))
WRAP(FAULT_ACCEPT, int, accept4, (int fd, struct sockaddr *addr, socklen_t *size, int flags),
     (fd, addr, size, flags), -1)
WRAP(FAULT_CONNECT, int, connect, (int fd, const struct sockaddr *addr, socklen_t size),
     (fd, addr, size), -1)
WRAP(FAULT_RECV, ssize_t, recv, (int fd, void *data, size_t size, int flags),
     (fd, data, size, flags), -1)
WRAP(FAULT_SEND, ssize_t, send, (int fd, const void *data, size_t size, int flags),
     (fd, data, size, flags), -1)
WRAP(FAULT_RECVMSG, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags),
     (fd, message, flags), -1)
WRAP(FAULT_SENDMSG, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
     (fd, message, flags), -1)
WRAP(FAULT_MANY, int, recvmmsg,
     (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout),
     (fd, messages, count, flags, timeout), -1)
WRAP(FAULT_MANY, int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags),
     (fd, messages, count, flags), -1)
WRAP(FAULT_EPOLL_CTL, int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event),
     (epoll, op, fd, event), -1)

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    return fails(FAULT_IOCTL) ? -1 : __real_ioctl(fd, request, arg);
}

// Memory, counted.

static _Atomic int64_t blocks;

static void *alloc(void *ctx, size_t size_bytes, size_t align)
{
    (void)ctx;
    void *memory = NULL;
    align = align < sizeof(void *) ? sizeof(void *) : align;
    if (fails(FAULT_MEMORY) || posix_memalign(&memory, align, size_bytes) != 0) {
        return NULL;
    }
    atomic_fetch_add(&blocks, 1);
    return memory;
}

static void release_block(void *ctx, void *memory, size_t size_bytes)
{
    (void)ctx;
    (void)size_bytes;
    atomic_fetch_sub(&blocks, 1);
    free(memory);
}

static const struct weft_allocator allocator = { alloc, release_block, NULL };

// What is done meanwhile. Everything has a deadline, and every error will do.

enum { REQUEST = 100, REPLY = 60000 };

/// It worked, or it says why not.
static void any(int64_t rc)
{
    CHECK_GE(rc, -4095);
}

static weft_time soon(void)
{
    return weft_after(2 * WEFT_S);
}

static _Atomic int lent, released; // handlers run on every carrier

static void release(void *arg)
{
    (void)arg;
    released++;
}

static char reply[REPLY];

/// Answers one request and leaves the second one unread.
static int answer(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice in;
    if (weft_conn_peek(conn, &in, REQUEST, soon()) > 0) {
        weft_conn_consume(conn, in.size < REQUEST ? in.size : REQUEST);
        any(weft_conn_write(conn, reply, REPLY / 3, soon()));
        lent += weft_conn_write_ref(conn, reply, REPLY / 3, release, NULL, soon()) == 0;
        any(weft_conn_write(conn, reply, REPLY / 3, soon()));
    }
    any(weft_conn_close(conn));
    return 0;
}

static int accept_two(void *arg)
{
    for (int i = 0; i < 2; i++) {
        weft_conn *conn;
        if (weft_accept(&conn, arg, weft_after(50 * WEFT_MS)) == 0) {
            (void)answer(conn);
        }
    }
    any(weft_listener_close(arg));
    return 0;
}

static void ask(const char *address)
{
    static const char requests[2 * REQUEST];
    char into[20000];
    weft_conn *conn;
    struct weft_slice in;
    if (weft_dial(&conn, address, NULL, soon()) < 0) {
        return;
    }
    if (weft_conn_write(conn, requests, sizeof requests, soon()) == 0 &&
        weft_conn_peek(conn, &in, 5000, soon()) > 0) {
        weft_conn_consume(conn, 100);
        while (weft_conn_read_into(conn, into, sizeof into, soon()) > 0) {
        }
        any(weft_conn_finish(conn, soon()));
    }
    any(weft_conn_close(conn));
}

static void use_connections(const char *where)
{
    weft_listener *listener;
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    weft_task *server;
    if (weft_listen(&listener, where, NULL) < 0) {
        return;
    }
    if (weft_listener_addr(listener, &addr) < 0 ||
        weft_spawn(&server, accept_two, listener, NULL) < 0) {
        any(weft_listener_close(listener));
        return;
    }
    weft_addr_format(&addr, text, sizeof text);
    ask(text);
    ask(text);
    CHECK_OK(weft_join(NULL, server, WEFT_FOREVER));
}

static void use_messages(const char *where)
{
    weft_dgram *a, *b;
    struct weft_addr addr;
    char data[8] = "message";
    struct weft_dgram_message batch[3] = { 0 };
    if (weft_dgram_bind(&a, where, NULL) < 0) {
        return;
    }
    if (weft_dgram_local(a, &addr) == 0 && weft_dgram_bind(&b, "udp://127.0.0.1:0", NULL) == 0) {
        any(weft_dgram_send_to(b, &addr, data, sizeof data, soon()));
        any(weft_dgram_recv(a, data, sizeof data, NULL, weft_after(20 * WEFT_MS)));
        for (int i = 0; i < 3; i++) {
            batch[i] = (struct weft_dgram_message){
                .data = data, .size = sizeof data, .room = sizeof data, .addr = addr
            };
        }
        any(weft_dgram_send_batch(b, batch, 3, soon()));
        any(weft_dgram_recv_batch(a, batch, 3, weft_after(20 * WEFT_MS)));
        CHECK_OK(weft_dgram_close(b));
    }
    CHECK_OK(weft_dgram_close(a));
}

static void use_descriptors(void)
{
    weft_dgram *pair[2];
    char byte = 'x';
    if (weft_dgram_pair(pair, WEFT_ADDR_UNIXPACKET) < 0) {
        return;
    }
    int mine = weft_dgram_fd(pair[0]);
    int theirs = -1;
    size_t count = 1;
    any(weft_unix_send_fds(mine, &byte, 1, &mine, 1, soon()));
    if (weft_unix_recv_fds(weft_dgram_fd(pair[1]), &byte, 1, &theirs, &count,
                           weft_after(20 * WEFT_MS)) > 0 &&
        count == 1) {
        any(weft_close(theirs));
    }
    CHECK_OK(weft_dgram_close(pair[0]));
    CHECK_OK(weft_dgram_close(pair[1]));
}

struct server {
    struct weft_event ready;
    char address[WEFT_ADDR_TEXT_BYTES];
};

static void note_address(void *arg, const struct weft_addr *addr)
{
    struct server *server = arg;
    weft_addr_format(addr, server->address, sizeof server->address);
    weft_event_set(&server->ready);
}

static int serve(void *arg)
{
    struct server *server = arg;
    struct weft_serve_options options = WEFT_SERVE_OPTIONS_INIT;
    options.ready = note_address;
    options.arg = server;
    int rc = weft_serve(server->address, answer, &options);
    weft_event_set(&server->ready); // it may never have been
    return rc;
}

static void use_server(const char *where)
{
    struct server server;
    weft_task *task;
    weft_event_init(&server.ready);
    (void)snprintf(server.address, sizeof server.address, "%s", where);
    if (weft_spawn(&task, serve, &server, NULL) < 0) {
        return;
    }
    CHECK_OK(weft_event_wait(&server.ready, WEFT_FOREVER));
    ask(server.address);
    weft_task_cancel(task);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
}

static void use_everything(void)
{
    use_connections("tcp://127.0.0.1:0");
    use_connections("unix://");
    use_messages("udp://127.0.0.1:0");
    use_descriptors();
    use_server("tcp://127.0.0.1:0");
    use_server("unix://");
}

/// What drains in the background, or is ended by its peer's end.
static void await_descriptors(int before)
{
    for (int i = 0; i < 5000 && count_descriptors() != before; i++) {
        CHECK_OK(weft_sleep(WEFT_MS));
    }
    CHECK_EQ(count_descriptors(), before);
}

static const int errnos[FAULTS][4] = {
    [FAULT_MEMORY] = { ENOMEM },
    [FAULT_SOCKET] = { EMFILE, ENOBUFS },
    [FAULT_BIND] = { EADDRINUSE, EACCES },
    [FAULT_LISTEN] = { EADDRINUSE },
    [FAULT_NAME] = { ENOBUFS },
    [FAULT_SET] = { ENOMEM, ENOPROTOOPT },
    [FAULT_GET] = { ENOBUFS },
    [FAULT_SHUTDOWN] = { ENOTCONN },
    [FAULT_IOCTL] = { EINVAL },
    [FAULT_CLOSE] = { EINTR, EIO },
    [FAULT_ACCEPT] = { EMFILE, ECONNABORTED, ENOMEM, EINTR },
    [FAULT_CONNECT] = { ECONNREFUSED, EADDRNOTAVAIL },
    [FAULT_RECV] = { ECONNRESET, ENOMEM, EINTR },
    [FAULT_SEND] = { EPIPE, ENOBUFS, EINTR },
    [FAULT_RECVMSG] = { ENOMEM, EINTR },
    [FAULT_SENDMSG] = { ECONNRESET, ENOBUFS, EINTR },
    [FAULT_MANY] = { ENOBUFS, ECONNREFUSED, EINTR },
    [FAULT_EPOLL_CTL] = { ENOMEM, ENOSPC },
};

static int total; // failures

static int sweep(void *arg)
{
    (void)arg;
    use_everything(); // tables and caches
    CHECK_OK(weft_sleep(WEFT_MS));
    int before = count_descriptors();
    for (int k = 0; k < 4 && errnos[fault][k] != 0; k++) {
        fault_errno = errnos[fault][k];
        int nth = 1;
        do {
            atomic_store(&reached, false);
            atomic_store(&countdown, nth);
            use_everything();
            atomic_store(&countdown, 0);
            await_descriptors(before);
            total += atomic_load(&reached);
            nth += (int)(100 / test_scaled(100));
        } while (atomic_load(&reached));
    }
    return 0;
}

static void sweep_range(enum fault first, enum fault last)
{
    for (enum fault which = first; which <= last; which++) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        options.carriers = 2;
        options.allocator = &allocator;
        fault = which;
        lent = released = 0;
        CHECK_EQ(weft_run(sweep, NULL, &options), 0);
        CHECK_EQ(atomic_load(&blocks), 0);
        CHECK_EQ(released, lent);
        CHECK_GT(lent, 0);
    }
    printf("%d failures\n", total);
    CHECK_GT(total, 0);
}

TEST_DRIVERS(the_nth_allocation_fails)
{
    sweep_range(FAULT_MEMORY, FAULT_MEMORY);
}

TEST_DRIVERS(the_nth_call_of_a_socket_fails)
{
    sweep_range(FAULT_SOCKET, FAULT_CLOSE);
}

TEST_DRIVERS(the_nth_transfer_fails)
{
    sweep_range(FAULT_MANY, FAULT_MANY);
    if (test_driver() == TEST_DRIVER_EPOLL) {
        sweep_range(FAULT_ACCEPT, FAULT_EPOLL_CTL);
    }
}
