// listener_future.c - accepting as a future.
//
// It stands where a thread that accepts would stand (conn_future.c), and pauses by a timer of its own.
#include <errno.h>

#include <weft/async_net.h>

#include "net/leaf.h"
#include "net/listener.h"

/// The carrier's while it waits.
struct accepting {
    struct weft__leaf leaf;
    struct weft__wait wait; // listener->acceptor
    struct weft__timer timer;
    struct weft__listener *listener;
    weft_conn **conn;
};
_Static_assert(sizeof(struct accepting) <= sizeof(struct weft_listener_future), "public size");

/// 0 or an error, or WAITS: it is in place to be woken.
static int look(struct accepting *accepting)
{
    struct weft__listener *listener = accepting->listener;
    struct weft__carrier *carrier = listener->carrier;
    weft_time pause_ns;
    int rc = weft__listener_accept_now(listener, accepting->conn, &pause_ns);
    if (rc == WEFT__LEAF_WAITS) {
        listener->acceptor = &accepting->wait;
        if (pause_ns != 0) {
            weft__wheel_add(&carrier->wheel, &accepting->timer,
                            weft__carrier_now(carrier) + pause_ns);
        }
    }
    return rc;
}

static void stop_waiting(struct accepting *accepting)
{
    struct weft__listener *listener = accepting->listener;
    listener->acceptor = NULL;
    if (weft__timer_armed(&accepting->timer)) {
        weft__wheel_remove(&listener->carrier->wheel, &accepting->timer);
    }
}

/// A listener that is being closed is freed by who closes it, and called us.
static void end(struct accepting *accepting, int rc)
{
    accepting->listener->inside--;
    weft__leaf_end(&accepting->leaf, rc);
}

static void look_again(struct accepting *accepting)
{
    stop_waiting(accepting);
    int rc = look(accepting);
    if (rc != WEFT__LEAF_WAITS) {
        end(accepting, rc);
    }
}

static void called(struct weft__wait *wait)
{
    look_again(weft__container_of(wait, struct accepting, wait));
}

static void paused(struct weft__timer *timer)
{
    look_again(weft__container_of(timer, struct accepting, timer));
}

static void withdraw(struct weft__leaf *leaf)
{
    struct accepting *accepting = weft__container_of(leaf, struct accepting, leaf);
    stop_waiting(accepting);
    end(accepting, -ECANCELED);
}

static int64_t begin(struct weft__leaf *leaf)
{
    struct accepting *accepting = weft__container_of(leaf, struct accepting, leaf);
    struct weft__listener *listener = accepting->listener;
    int rc = weft__leaf_enter(leaf, listener->carrier);
    if (rc == 0) {
        rc = listener->acceptor == NULL ? look(accepting) : -EBUSY;
        listener->inside += rc == WEFT__LEAF_WAITS;
    }
    return rc;
}

void weft_listener_accept_future(struct weft_listener_future *future, weft_conn **conn,
                                 weft_listener *listener)
{
    struct accepting *accepting = (struct accepting *)(void *)future;
    weft__leaf_init(&accepting->leaf, begin, withdraw);
    weft__wait_init(&accepting->wait, NULL, WEFT__WAIT_CALL, "accept");
    accepting->wait.ask = called;
    accepting->timer = (struct weft__timer){ .fire = paused };
    accepting->listener = listener;
    accepting->conn = conn;
    *conn = NULL;
}
