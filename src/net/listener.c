// listener.c - accepting connections.
//
// The accept op stays armed (multishot) and makes a connection of every socket it brings; those that
// nobody has asked for wait in a short list, and while that is long the op is stopped.
//
//   L1  Out of descriptors, accept(2) fails before it looks for a peer, and peers would wait for ever.
//       So each listener keeps a spare descriptor. It gives it up and accepts one peer with it. If
//       there is no other for the spare, that peer is turned away, the spare is taken back, and the
//       listener pauses, a little longer each time.
//   L2  An error of one peer (it has gone before it was accepted) is counted and forgotten.
//   L3  An accept op in flight keeps the socket, and so its address, beyond close(2). So closing waits
//       for its end, which is near.
//   L4  What the kernel has queued when a listener ends is looked for by an accept op that is begun and
//       cancelled at once: it takes all that is there before the cancel finds it. One that has waited may be
//       cancelled between a peer's arrival and its turn, and epoll relies on an edge that it may not have
//       read yet; so the queue counts as empty when the first op and two new ones found nothing, and TCP
//       still says so in the end.
#include "net/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "net/addr.h"
#include "net/socket.h"
#include "sched/crew.h"
#include "sched/guest.h"
#include "task/host.h"
#include "task/scope.h"

#define WAITING_MAX WEFT__SIZED(64u, 2u)
#define FIRST_BACK_OFF_NS (1 * WEFT_MS)
#define LONGEST_BACK_OFF_NS (250 * WEFT_MS)
#define LAST_LOOKS 3

static void take_spare(struct weft__listener *listener)
{
    struct weft__carrier *carrier = listener->carrier;
    if (listener->spare_fd < 0) {
        listener->spare_fd = carrier->driver->sockets->socket(carrier->driver_state, AF_UNIX,
                                                              SOCK_STREAM, 0);
    }
}

static void give_spare(struct weft__listener *listener)
{
    if (listener->spare_fd >= 0) {
        weft__socket_close(listener->spare_fd, NULL, listener->carrier);
        listener->spare_fd = -1;
    }
}

/// Whether a peer that was accepted with the spare descriptor has to go, because there is no other.
static bool turn_away(struct weft__listener *listener, int fd)
{
    listener->shedding = false;
    take_spare(listener);
    if (listener->spare_fd >= 0) {
        return false; // there are descriptors again
    }
    weft__socket_close(fd, NULL, listener->carrier);
    listener->stats.shed++;
    take_spare(listener);
    listener->pausing = true;
    return true;
}

static void keep(struct weft__listener *listener, int fd)
{
    struct weft__conn *conn;
    if (listener->shedding && turn_away(listener, fd)) {
        return;
    }
    if (weft__conn_make(&conn, listener->carrier, fd, listener->kind) < 0) {
        weft__socket_close(fd, NULL, listener->carrier);
        listener->stats.shed++;
        listener->pausing = true;
        return;
    }
    if (listener->waiting == NULL) {
        listener->waiting = conn;
    } else {
        listener->waiting_last->next = conn;
    }
    listener->waiting_last = conn;
    if (++listener->waiting_count == WAITING_MAX && listener->armed) {
        listener->carrier->driver->cancel(listener->carrier->driver_state, &listener->accept);
    }
}

static void take(struct weft__listener *listener, const struct weft__op *op)
{
    listener->armed = (op->result_flags & WEFT__OP_MORE) != 0;
    if (op->result >= 0) {
        if (listener->closed) {
            weft__socket_close((int)op->result, NULL, listener->carrier);
        } else {
            keep(listener, (int)op->result);
        }
    } else if (op->result != -ECANCELED && op->result != -EINTR) {
        listener->error = (int)op->result;
    }
}

/// Frees a closed listener when the op has ended and tasks that are inside have left.
static void let_go(struct weft__listener *listener)
{
    if (!listener->armed && listener->inside == 0) {
        listener->carrier->lingering--;
        weft__free(listener->carrier->crew->allocator, listener, sizeof *listener);
    }
}

static void accepted(struct weft__op *op)
{
    struct weft__listener *listener = weft__container_of(op, struct weft__listener, accept);
    take(listener, op);
    if (listener->closed) {
        weft__conn_wake(&listener->closer);
        let_go(listener);
    } else {
        weft__conn_wake(&listener->acceptor);
    }
}

static void arm(struct weft__listener *listener)
{
    struct weft__carrier *carrier = listener->carrier;
    if (listener->armed) {
        return;
    }
    listener->armed = true;
    bool once = listener->shedding || listener->one_each;
    listener->accept.mode = WEFT__OP_MANAGED | (once ? 0u : WEFT__OP_MULTI);
    if (carrier->driver->submit(carrier->driver_state, &listener->accept)) {
        take(listener, &listener->accept);
    }
}

static struct weft__conn *first_waiting(struct weft__listener *listener)
{
    struct weft__conn *conn = listener->waiting;
    if (conn != NULL) {
        listener->waiting = conn->next;
        conn->next = NULL;
        listener->waiting_count--;
    }
    return conn;
}

static bool is_of_one_peer(int error)
{
    switch (-error) {
    case ECONNABORTED:
    case ECONNRESET:
    case EPROTO:
    case EPERM: // a firewall
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ENOPROTOOPT:
    case ETIMEDOUT: return true;
    default: return false;
    }
}

static bool is_shortage(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ENOBUFS;
}

/// How long to wait, longer each time in a row.
static weft_time next_pause(struct weft__listener *listener)
{
    weft_time pause = listener->back_off_ns != 0 ? listener->back_off_ns : FIRST_BACK_OFF_NS;
    listener->back_off_ns = pause * 2 < LONGEST_BACK_OFF_NS ? pause * 2 : LONGEST_BACK_OFF_NS;
    return pause;
}

/// Waits a little.
static int back_off(struct weft__listener *listener, struct weft__task *task, weft_time deadline)
{
    weft_time until = weft__host_now(task) + next_pause(listener);
    int rc = weft__conn_wait(&listener->acceptor, task, WEFT__WAIT_WITHDRAW, "accept",
                             until < deadline ? until : deadline);
    return rc == -ETIMEDOUT && until < deadline ? 0 : rc;
}

/// Deals with what the accept op complained about. 0: go on accepting; 1: after a pause.
static int recover(struct weft__listener *listener)
{
    int error = listener->error;
    bool pause = listener->pausing;
    listener->error = 0;
    listener->pausing = false;
    if (is_of_one_peer(error)) {
        listener->stats.aborted++;
    } else if (is_shortage(error) && listener->carrier->drains != NULL) {
        weft__conn_end_drains(listener->carrier); // their descriptors are needed now
    } else if (is_shortage(error) && listener->spare_fd >= 0) {
        listener->shedding = true;
        give_spare(listener);
    } else if (is_shortage(error)) {
        pause = true;
    } else if (error != 0) {
        return error;
    }
    return pause;
}

void weft__listener_pause(struct weft__listener *listener)
{
    if (listener->armed) {
        listener->carrier->driver->cancel(listener->carrier->driver_state, &listener->accept);
    }
}

void weft__listener_stop(struct weft__listener *listener)
{
    weft__listener_pause(listener);
    while (listener->armed && !listener->closed) {
        (void)weft__conn_wait(&listener->acceptor, weft__thread_self(), WEFT__WAIT_DEAF, "accept",
                              WEFT_FOREVER);
    }
}

/// Whether somebody waits in the kernel's queue, as far as it tells: of a TCP listener.
static bool has_queued(const struct weft__listener *listener)
{
    const struct weft__carrier *carrier = listener->carrier;
    struct tcp_info info = { 0 };
    uint32_t size = sizeof info;
    return carrier->driver->sockets->get(carrier->driver_state, listener->fd, IPPROTO_TCP, TCP_INFO,
                                         &info, &size) == 0 &&
           info.tcpi_state == TCP_LISTEN && info.tcpi_unacked > 0;
}

static int wait_for_one(struct weft__listener *listener, struct weft__task *task,
                        weft_time deadline)
{
    int looks = 0;
    while (listener->waiting == NULL && !listener->closed) {
        int rc = recover(listener);
        rc = rc > 0 ? back_off(listener, task, deadline) : rc;
        if (rc < 0) {
            return rc;
        }
        if (listener->closed) {
            break;
        }
        arm(listener);
        if (listener->waiting != NULL || !listener->armed) {
            continue; // at once, or an error
        }
        if (listener->ending) {
            weft__listener_stop(listener);
            if (++looks >= LAST_LOOKS && listener->ending && listener->waiting == NULL &&
                listener->error == 0 && !has_queued(listener)) {
                return -EAGAIN; // L4
            }
            continue;
        }
        rc = weft__conn_wait(&listener->acceptor, task, WEFT__WAIT_WITHDRAW, "accept", deadline);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/// The running virtual thread, if it may use the listener.
static struct weft__task *enter(const struct weft__listener *listener, int *rc)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        *rc = weft__no_task();
    } else if (!weft__task_is_at(task, listener->carrier)) {
        *rc = -EXDEV;
        task = NULL;
    } else {
        weft__task_tie(task);
    }
    return task;
}

static struct weft__conn *take_first(struct weft__listener *listener)
{
    struct weft__conn *conn = first_waiting(listener);
    listener->back_off_ns = 0;
    listener->stats.accepted++;
    take_spare(listener);
    return conn;
}

int weft__listener_accept_now(struct weft__listener *listener, struct weft__conn **conn,
                              weft_time *pause_ns)
{
    *pause_ns = 0;
    while (listener->waiting == NULL && !listener->closed) {
        int rc = recover(listener);
        if (rc != 0) {
            *pause_ns = rc > 0 ? next_pause(listener) : 0;
            return rc > 0 ? WEFT__LEAF_WAITS : rc;
        }
        arm(listener);
        if (listener->waiting == NULL && listener->armed) {
            return WEFT__LEAF_WAITS;
        }
    }
    if (listener->closed) {
        return -EBADF;
    }
    *conn = take_first(listener);
    return 0;
}

static int accept_inside(struct weft__conn **conn, struct weft__listener *listener,
                         struct weft__task *task, weft_time deadline)
{
    if (weft__scope_cancelled(task)) {
        return -ECANCELED;
    }
    if (listener->acceptor != NULL) {
        return -EBUSY;
    }
    int rc = wait_for_one(listener, task, deadline);
    if (rc < 0 || listener->closed) {
        return rc;
    }
    *conn = take_first(listener);
    return 0;
}

void weft__listener_end(struct weft__listener *listener, bool ending)
{
    listener->ending = ending;
    weft__conn_wake(&listener->acceptor);
}

int weft_accept(weft_conn **conn, weft_listener *listener, weft_time deadline)
{
    int rc = 0;
    *conn = NULL;
    struct weft__task *task = enter(listener, &rc);
    if (task == NULL) {
        return rc;
    }
    listener->inside++;
    weft__charge(task);
    rc = accept_inside(conn, listener, task, deadline);
    listener->inside--;
    if (listener->closed) {
        let_go(listener);
        return -EBADF;
    }
    return rc;
}

static int make(struct weft__listener **out, struct weft__carrier *carrier, int fd,
                enum weft_addr_kind kind)
{
    struct weft__listener *listener = weft__alloc(carrier->crew->allocator, sizeof *listener,
                                                  _Alignof(struct weft__listener));
    *out = listener;
    if (listener == NULL) {
        return -ENOMEM;
    }
    listener->carrier = carrier;
    listener->fd = fd;
    listener->kind = (uint8_t)kind;
    listener->spare_fd = -1;
    listener->accept = (struct weft__op){
        .done = accepted,
        .fd = fd,
        .flags = SOCK_CLOEXEC,
        .code = WEFT__OP_ACCEPT,
    };
    take_spare(listener);
    return 0;
}

int weft__listener_open(struct weft__listener **out, struct weft__carrier *carrier,
                        const struct weft_addr *addr, const struct weft_socket_options *options)
{
    int fd = -1;
    *out = NULL;
    struct weft__socket_file file;
    int rc = weft__socket_open_listening(&fd, &file, carrier, addr, options);
    if (rc < 0) {
        return rc;
    }
    rc = make(out, carrier, fd, weft_addr_kind(addr));
    if (rc < 0) {
        weft__socket_close(fd, &file, carrier);
        return rc;
    }
    (*out)->file = file;
    return 0;
}

int weft__listener_share(struct weft__listener **out, struct weft__carrier *carrier,
                         const struct weft__listener *owner)
{
    int rc = make(out, carrier, owner->fd, (enum weft_addr_kind)owner->kind);
    if (rc == 0) {
        (*out)->borrowed = true;
    }
    return rc;
}

int weft_listen(weft_listener **listener, const char *address,
                const struct weft_socket_options *options)
{
    struct weft_addr addr;
    struct weft__task *task = weft__thread_self();
    *listener = NULL;
    if (task == NULL) {
        return weft__no_task();
    }
    if (!weft__task_is_at(task, task->home)) {
        return -EXDEV;
    }
    weft__task_leave_spare(task);
    weft__task_tie(task);
    int rc = weft__conn_address(&addr, address);
    return rc < 0 ? rc : weft__listener_open(listener, task->home, &addr, options);
}

int weft_listener_addr(const weft_listener *listener, struct weft_addr *addr)
{
    return weft__socket_local(addr, listener->fd, (enum weft_addr_kind)listener->kind,
                              listener->carrier);
}

void weft_listener_stats(const weft_listener *listener, struct weft_listener_stats *stats)
{
    *stats = listener->stats;
}

int weft_listener_close(weft_listener *listener)
{
    int rc = 0;
    if (listener == NULL) {
        return 0;
    }
    struct weft__task *task = enter(listener, &rc);
    if (task == NULL) {
        return rc;
    }
    struct weft__carrier *carrier = listener->carrier;
    struct weft__conn *conn;
    while ((conn = first_waiting(listener)) != NULL) {
        (void)weft_conn_abort(conn);
    }
    listener->closed = true;
    carrier->lingering++;
    if (listener->borrowed) {
        carrier->driver->forget(carrier->driver_state, listener->fd);
    } else {
        weft__socket_close(listener->fd, &listener->file, carrier);
    }
    give_spare(listener);
    weft__conn_wake(&listener->acceptor);
    listener->inside++;
    while (listener->armed) { // L3
        (void)weft__conn_wait(&listener->closer, task, WEFT__WAIT_DEAF, "close", WEFT_FOREVER);
    }
    listener->inside--;
    let_go(listener);
    return 0;
}
