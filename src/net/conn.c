// conn.c - making, closing and moving connections.
#include "net/conn.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "net/socket.h"
#include "sched/crew.h"
#include "task/host.h"
#include "task/scope.h"

#define DEFAULT_FRAME_BYTES ((size_t)16 << 20)
#define MOST_FRAME_BYTES ((size_t)1 << 30)
#define DEFAULT_OUTPUT_BYTES ((size_t)256 << 10)
#define DEFAULT_LINGER_NS (5 * WEFT_S)

int weft__conn_make(struct weft__conn **out, struct weft__carrier *carrier, int fd, uint8_t kind)
{
    struct weft__conn *conn = weft__alloc(carrier->crew->allocator, sizeof *conn,
                                          _Alignof(struct weft__conn));
    *out = conn;
    if (conn == NULL) {
        weft__socket_close(fd, NULL, carrier);
        return -ENOMEM;
    }
    conn->carrier = carrier;
    conn->fd = fd;
    conn->kind = kind;
    conn->frame_limit = DEFAULT_FRAME_BYTES;
    conn->output_limit = DEFAULT_OUTPUT_BYTES;
    conn->linger_ns = DEFAULT_LINGER_NS;
    weft__conn_in_init(conn);
    weft__conn_out_init(conn);
    return 0;
}

int weft__conn_address(struct weft_addr *addr, const char *text)
{
    int rc = weft_addr_parse(addr, text);
    enum weft_addr_kind kind = weft_addr_kind(addr);
    return rc == 0 && kind != WEFT_ADDR_TCP && kind != WEFT_ADDR_UNIX ? -EPROTOTYPE : rc;
}

struct weft__task *weft__conn_enter(const struct weft__conn *conn, int *rc)
{
    struct weft__task *task = weft__thread_self();
    if (weft__unlikely(task == NULL)) {
        *rc = weft__no_task();
        return NULL;
    }
    if (weft__unlikely(task->home != conn->carrier)) {
        *rc = -EXDEV;
        return NULL;
    }
    return task;
}

int weft__conn_wait(struct weft__wait **slot, struct weft__task *task, enum weft__wait_mode mode,
                    const char *what, weft_time deadline)
{
    struct weft__wait wait;
    if (*slot != NULL) {
        return -EBUSY;
    }
    weft__wait_init(&wait, task, mode, what);
    *slot = &wait;
    int rc = weft__block(&wait, deadline);
    *slot = NULL;
    return rc;
}

void weft__conn_wake(struct weft__wait **slot)
{
    struct weft__wait *wait = *slot;
    struct weft__wakee wakee;
    if (wait != NULL && weft__commit(wait, 0, &wakee)) {
        weft__wakee_wake(&wakee);
    }
}

int weft__conn_pause(struct weft__conn *conn, struct weft__wait **slot, struct weft__task *task,
                     enum weft__wait_mode mode, const char *what, weft_time deadline)
{
    int rc = weft__conn_wait(slot, task, mode, what, deadline);
    if (weft__unlikely(conn->closed)) {
        weft__conn_let_go(conn);
        return -EBADF;
    }
    return rc;
}

void weft__conn_let_go(struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    bool used = conn->armed || conn->sends > 0 || conn->reader != NULL || conn->writer != NULL;
    if (used) {
        return;
    }
    weft__conn_in_fini(conn);
    weft__conn_out_drop(conn);
    weft__free(carrier->crew->allocator, conn, sizeof *conn);
}

/// Nothing is waited for here: ops that are in flight end later, and the last one frees the memory.
static void shut(struct weft__conn *conn)
{
    conn->closed = true;
    weft__carrier_flush_not(&conn->flush);
    weft__socket_close(conn->fd, NULL, conn->carrier);
    weft__conn_wake(&conn->reader);
    weft__conn_wake(&conn->writer);
    weft__conn_let_go(conn);
}

int weft_conn_close(weft_conn *conn)
{
    int rc = 0;
    if (conn == NULL) {
        return 0;
    }
    struct weft__task *task = weft__conn_enter(conn, &rc);
    if (task == NULL) {
        return rc;
    }
    rc = conn->write_error;
    if (rc == 0 && conn->out_bytes > 0) {
        rc = weft__conn_drain(conn, task, 0, WEFT__WAIT_DEAF, weft_after(conn->linger_ns));
    }
    shut(conn);
    return rc;
}

int weft_conn_abort(weft_conn *conn)
{
    int rc = 0;
    if (conn == NULL) {
        return 0;
    }
    if (weft__conn_enter(conn, &rc) == NULL) {
        return rc;
    }
    struct weft__carrier *carrier = conn->carrier;
    struct linger now = { .l_onoff = 1 };
    (void)carrier->driver->sockets->set(carrier->driver_state, conn->fd, SOL_SOCKET, SO_LINGER,
                                        &now, sizeof now); // not on Unix sockets
    shut(conn);
    return 0;
}

int weft_conn_move(weft_conn *conn, int number, weft_time deadline)
{
    int rc = 0;
    struct weft__task *task = weft__conn_enter(conn, &rc);
    if (task == NULL) {
        return rc;
    }
    struct weft__carrier *carrier = conn->carrier;
    struct weft__crew *crew = carrier->crew;
    if (number < 0 || number >= crew->count) {
        return -EINVAL;
    }
    if (conn->reader != NULL || conn->writer != NULL) {
        return -EBUSY;
    }
    rc = weft__conn_drain(conn, task, 0, WEFT__WAIT_WITHDRAW, deadline);
    if (rc == 0) {
        rc = weft__conn_in_stop(conn, task);
    }
    if (rc < 0) {
        return rc;
    }
    weft__carrier_flush_not(&conn->flush);
    carrier->driver->forget(carrier->driver_state, conn->fd);
    conn->carrier = &crew->carriers[number];
    return 0;
}

/// What kind of socket the user has brought.
static int find_kind(struct weft__carrier *carrier, int fd, uint8_t *kind)
{
    const struct weft__sockets *sockets = carrier->driver->sockets;
    int domain = 0, type = 0;
    uint32_t size = sizeof domain;
    int rc = sockets->get(carrier->driver_state, fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    size = sizeof type;
    if (rc == 0) {
        rc = sockets->get(carrier->driver_state, fd, SOL_SOCKET, SO_TYPE, &type, &size);
    }
    if (rc < 0) {
        return rc;
    }
    *kind = domain == AF_UNIX ? WEFT_ADDR_UNIX : WEFT_ADDR_TCP;
    return type == SOCK_STREAM ? 0 : -EPROTOTYPE;
}

int weft_conn_adopt(weft_conn **conn, int fd)
{
    struct weft__task *task = weft__thread_self();
    struct weft_addr peer;
    uint8_t kind = 0;
    *conn = NULL;
    if (task == NULL) {
        return weft__no_task();
    }
    struct weft__carrier *carrier = task->home;
    int rc = find_kind(carrier, fd, &kind);
    if (rc == 0) {
        rc = weft__socket_peer(&peer, fd, (enum weft_addr_kind)kind, carrier);
    }
    return rc < 0 ? rc : weft__conn_make(conn, carrier, fd, kind);
}

void weft_conn_set_limits(weft_conn *conn, const struct weft_conn_limits *limits)
{
    conn->frame_limit = limits->frame_bytes != 0 ? limits->frame_bytes : DEFAULT_FRAME_BYTES;
    conn->frame_limit = conn->frame_limit < MOST_FRAME_BYTES ? conn->frame_limit : MOST_FRAME_BYTES;
    conn->output_limit = limits->output_bytes != 0 ? limits->output_bytes : DEFAULT_OUTPUT_BYTES;
    conn->linger_ns = limits->linger_ns != 0 ? limits->linger_ns : DEFAULT_LINGER_NS;
}

int weft_conn_fd(const weft_conn *conn)
{
    return conn->fd;
}

int weft_conn_peer(const weft_conn *conn, struct weft_addr *addr)
{
    return weft__socket_peer(addr, conn->fd, (enum weft_addr_kind)conn->kind, conn->carrier);
}

int weft_conn_local(const weft_conn *conn, struct weft_addr *addr)
{
    return weft__socket_local(addr, conn->fd, (enum weft_addr_kind)conn->kind, conn->carrier);
}
