// conn.c - making, closing and moving connections.
#include "net/conn.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "net/socket.h"
#include "sched/crew.h"
#include "sched/guest.h"
#include "task/host.h"
#include "task/scope.h"

#define DEFAULT_FRAME_BYTES ((size_t)16 << 20)
#define MOST_FRAME_BYTES ((size_t)1 << 30)
#define DEFAULT_OUTPUT_BYTES ((size_t)256 << 10)
/// Never: over loopback sending without a copy costs more at every size (docs/design/connections.md).
#define DEFAULT_ZERO_COPY_BYTES ((size_t)WEFT__SIZED(SIZE_MAX, 64))
#define DEFAULT_LINGER_NS (5 * WEFT_S)
#define LOOK_NS (50 * WEFT_MS)
#define DEFAULT_DISCARD_NS (2 * WEFT_S)
#define DEFAULT_DISCARD_BYTES ((size_t)16 << 20)

int weft__conn_make(struct weft__conn **out, struct weft__carrier *carrier, int fd, uint8_t kind)
{
    struct weft__conn *conn = weft__alloc(carrier->crew->allocator, sizeof *conn,
                                          _Alignof(struct weft__conn));
    *out = conn;
    if (conn == NULL) {
        return -ENOMEM;
    }
    conn->carrier = carrier;
    conn->fd = fd;
    conn->kind = kind;
    conn->frame_limit = DEFAULT_FRAME_BYTES;
    conn->output_limit = DEFAULT_OUTPUT_BYTES;
    conn->zero_copy_limit = DEFAULT_ZERO_COPY_BYTES;
    conn->linger_ns = DEFAULT_LINGER_NS;
    conn->discard_ns = DEFAULT_DISCARD_NS;
    conn->discard_limit = DEFAULT_DISCARD_BYTES;
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

int weft__conn_refusal(const struct weft__conn *conn)
{
    const struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    return weft__task_is_at(task, conn->carrier) ? -EBADF : -EXDEV;
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

int weft__conn_pause(struct weft__conn *conn, struct weft__wait **slot, struct weft__task *task,
                     enum weft__wait_mode mode, const char *what, weft_time deadline)
{
    if (weft__unlikely(conn->closing)) {
        return -EBADF;
    }
    int rc = weft__conn_wait(slot, task, mode, what, deadline);
    return weft__unlikely(conn->closing) ? -EBADF : rc;
}

void weft__conn_let_go(struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    if (!conn->closed || conn->armed || conn->sends > 0 || conn->inside > 0) {
        return;
    }
    carrier->lingering--;
    weft__conn_in_fini(conn);
    weft__conn_out_drop(conn);
    weft__free(carrier->crew->allocator, conn, sizeof *conn);
}

void weft__conn_shut(struct weft__conn *conn)
{
    conn->closed = true;
    conn->carrier->lingering++;
    weft__carrier_flush_not(&conn->flush);
    weft__socket_close(conn->fd, NULL, conn->carrier);
    weft__conn_let_go(conn);
}

/// From now on nobody enters, and those inside leave as soon as they run.
static void evict(struct weft__conn *conn)
{
    conn->closing = true;
    weft__conn_wake(&conn->reader);
    weft__conn_wake(&conn->writer);
    weft__conn_wake(&conn->mover);
}

/// The runtime's last moments: those who are left have to end at once.
static bool is_forced(struct weft__task *task)
{
    return atomic_load_explicit(&task->crew->root.cause, memory_order_relaxed) ==
               WEFT__STAGE_FORCE &&
           weft__scope_cancelled(task);
}

/// Waits for what is queued to be sent. A cancel does not end that; an abort does, and a shutdown that
/// is forced, for which it looks now and then.
static int linger(struct weft__conn *conn, struct weft__task *task)
{
    weft_time deadline = weft_after(conn->linger_ns);
    weft__conn_send(conn);
    while (conn->out_bytes > 0 && conn->write_error == 0) {
        weft_time look = weft_after(LOOK_NS);
        look = look < deadline ? look : deadline;
        int rc = weft__conn_wait(&conn->closer, task, WEFT__WAIT_DEAF, "send", look);
        if (conn->aborted) {
            return -ECONNABORTED;
        }
        if (rc < 0 && (rc != -ETIMEDOUT || look == deadline || is_forced(task))) {
            return rc;
        }
    }
    return conn->write_error;
}

int weft_conn_close(weft_conn *conn)
{
    if (conn == NULL) {
        return 0;
    }
    struct weft__task *task = weft__conn_enter(conn);
    if (task == NULL) {
        return weft__conn_refusal(conn);
    }
    if (conn->closing) { // another task closes it: it came in between
        return (int)weft__conn_leave(conn, 0);
    }
    evict(conn);
    int rc = linger(conn, task);
    conn->inside--;
    if (rc != 0 || !weft__conn_drain(conn)) {
        weft__conn_shut(conn);
    }
    return rc;
}

static void reset_on_close(struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    struct linger now = { .l_onoff = 1 };
    (void)carrier->driver->sockets->set(carrier->driver_state, conn->fd, SOL_SOCKET, SO_LINGER,
                                        &now, sizeof now); // not on Unix sockets
}

int weft_conn_abort(weft_conn *conn)
{
    if (conn == NULL) {
        return 0;
    }
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    if (!weft__task_is_at(task, conn->carrier)) {
        return -EXDEV;
    }
    reset_on_close(conn);
    if (conn->closing) { // another task closes it and waits: it has waited enough
        conn->aborted = true;
        weft__conn_wake(&conn->closer);
    } else {
        evict(conn);
        weft__conn_shut(conn);
    }
    return 0;
}

/// Waits until the kernel has everything, and has given back what it borrowed.
static int settle(struct weft__conn *conn, struct weft__task *task, weft_time deadline)
{
    weft__conn_send(conn);
    while (conn->write_error == 0 && (conn->out_bytes > 0 || conn->sends > 0)) {
        int rc = weft__conn_pause(conn, &conn->mover, task, WEFT__WAIT_WITHDRAW, "send", deadline);
        if (rc < 0) {
            return rc;
        }
    }
    return conn->write_error;
}

static int move(struct weft__conn *conn, struct weft__task *task, int number, weft_time deadline)
{
    struct weft__carrier *carrier = conn->carrier;
    struct weft__crew *crew = carrier->crew;
    if (!weft__crew_has(crew, number)) {
        return -EINVAL;
    }
    int rc = conn->inside > 1 ? -EBUSY : settle(conn, task, deadline);
    if (rc == 0) {
        rc = weft__conn_in_stop(conn, task);
    }
    if (rc == 0 && (conn->inside > 1 || conn->out_bytes > 0)) {
        rc = -EBUSY; // somebody has come meanwhile
    }
    if (rc < 0) {
        return rc;
    }
    weft__carrier_flush_not(&conn->flush);
    carrier->driver->forget(carrier->driver_state, conn->fd);
    conn->carrier = &crew->carriers[number];
    return 0;
}

int weft_conn_move(weft_conn *conn, int number, weft_time deadline)
{
    struct weft__task *task = weft__conn_enter(conn);
    return task != NULL ? (int)weft__conn_leave(conn, move(conn, task, number, deadline))
                        : weft__conn_refusal(conn);
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
    weft__task_leave_spare(task);
    weft__task_tie(task);
    struct weft__carrier *carrier = task->home;
    int rc = weft__task_is_at(task, carrier) ? find_kind(carrier, fd, &kind) : -EXDEV;
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
    conn->zero_copy_limit = limits->zero_copy_bytes != 0 ? limits->zero_copy_bytes
                                                         : DEFAULT_ZERO_COPY_BYTES;
    conn->linger_ns = limits->linger_ns != 0 ? limits->linger_ns : DEFAULT_LINGER_NS;
    conn->discard_ns = limits->discard_ns != 0 ? limits->discard_ns : DEFAULT_DISCARD_NS;
    conn->discard_limit = limits->discard_bytes != 0 ? limits->discard_bytes
                                                     : DEFAULT_DISCARD_BYTES;
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
