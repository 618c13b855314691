// conn_drain.c - closing a TCP connection on which the peer has said more than was read.
//
// The danger: close(2) with unread bytes, or bytes that arrive after it, make the kernel send a reset,
// and a reset destroys what is still under way to the peer: our reply, which weft_conn_close() has
// just called sent. So such a connection is shut for writing, and what the peer says is read and
// dropped until it has read our end and closes, or until a limit is reached. Nobody waits for that.
//
//     weft_conn_close: all is sent --+-- nothing unread ------------------> shut: close(2), freed
//                                    |                                       ^
//                                    +-- begin: SHUT_WR, receive, timer      |
//                                          end of stream, error, limit, late +
//
//   D1  A connection that drains has no task inside that could touch it but those who leave with -EBADF;
//       it is counted in carrier->lingering, so that its carrier waits for it.
//   D2  It ends: by the peer, by `discard_bytes`, by its timer, or a moment after its carrier was told
//       to stop (weft__carrier_hurry).
//   D3  No more than DRAINS_MOST of a carrier drain at a time, because each holds a descriptor. Others
//       are closed at once, and so are all when a listener finds no descriptor for a new peer.
//
// Rejected: draining always (three system calls instead of one for every close, and only a peer that
// speaks out of turn is helped); SO_LINGER (it waits for the reply to be acknowledged, but resets all
// the same); waiting in weft_conn_close() (the caller would pay for the peer's manners).
#include <sys/socket.h>

#include "net/conn.h"

#define DRAINS_MOST WEFT__SIZED(256u, 2u)
#define HURRIED_NS (100 * WEFT_MS)

/// The program wants a reset (struct weft_socket_options, reset_on_close).
static bool resets(const struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    struct linger linger = { 0 };
    uint32_t size = sizeof linger;
    return carrier->driver->sockets->get(carrier->driver_state, conn->fd, SOL_SOCKET, SO_LINGER,
                                         &linger, &size) == 0 &&
           linger.l_onoff != 0 && linger.l_linger == 0;
}

/// Whether closing would reset a peer that may still have to read something.
static bool is_needed(const struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    if (conn->kind != WEFT_ADDR_TCP || !conn->wrote || conn->ended || conn->read_error != 0 ||
        carrier->draining >= DRAINS_MOST) {
        return false;
    }
    bool unread = conn->pieces_held > 0 || conn->midway || conn->discarded > 0 ||
                  carrier->driver->sockets->unread(carrier->driver_state, conn->fd) > 0;
    return unread && !resets(conn);
}

static bool is_over(const struct weft__conn *conn)
{
    return conn->ended || conn->read_error != 0 || conn->discarded >= conn->discard_limit;
}

static void end(struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    if (weft__timer_armed(&conn->late)) {
        weft__wheel_remove(&carrier->wheel, &conn->late);
    }
    weft__carrier_flush_not(&conn->hurry);
    conn->draining = false;
    carrier->draining--;
    carrier->lingering--;
    weft__conn_shut(conn);
}

static void late(struct weft__timer *timer)
{
    end(weft__container_of(timer, struct weft__conn, late));
}

static void set_timer(struct weft__conn *conn, weft_time when)
{
    struct weft__wheel *wheel = &conn->carrier->wheel;
    if (weft__timer_armed(&conn->late)) {
        if (conn->late.when <= when) {
            return;
        }
        weft__wheel_remove(wheel, &conn->late);
    }
    if (when != WEFT_FOREVER) {
        weft__wheel_add(wheel, &conn->late, when);
    }
}

static void hurry(struct weft__flush *entry, struct weft__carrier *carrier)
{
    set_timer(weft__container_of(entry, struct weft__conn, hurry),
              weft__carrier_now(carrier) + HURRIED_NS);
}

void weft__conn_drain_on(struct weft__conn *conn)
{
    while (!conn->armed && !is_over(conn)) {
        weft__conn_in_arm(conn);
    }
    if (is_over(conn)) {
        end(conn);
    }
}

void weft__conn_end_drains(struct weft__carrier *carrier)
{
    while (carrier->drains != NULL) {
        end(weft__container_of(carrier->drains, struct weft__conn, hurry));
    }
}

bool weft__conn_drain(struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    if (!is_needed(conn)) {
        return false;
    }
    if (!conn->finished &&
        carrier->driver->sockets->shutdown(carrier->driver_state, conn->fd, SHUT_WR) < 0) {
        return false;
    }
    if (conn->inside > 0) { // one may be receiving into memory of its own
        carrier->driver->forget(carrier->driver_state, conn->fd);
    }
    weft__conn_in_fini(conn);
    weft__carrier_flush_not(&conn->flush);
    conn->draining = true;
    carrier->draining++;
    carrier->lingering++;
    conn->late.fire = late;
    set_timer(conn, weft_after(conn->discard_ns));
    conn->hurry.fn = hurry;
    weft__carrier_list(&carrier->drains, &conn->hurry);
    weft__conn_drain_on(conn);
    return true;
}
