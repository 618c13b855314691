// dial_future.c - connecting as a future: one op on the carrier of whoever polls it first.
#include <errno.h>

#include <weft/async_net.h>

#include "net/conn.h"
#include "net/socket.h"

/// The carrier's while it waits; nothing points into it before it is begun.
struct dialing {
    struct weft__leaf leaf;
    struct weft__op op; // the driver's while in flight
    struct weft_addr addr;
    const struct weft_socket_options *options; // borrowed until it is begun
    weft_conn **conn;
    int error; // of the address
    int fd;    // ours, until it is the connection's
    bool asked;
};
_Static_assert(sizeof(struct dialing) <= sizeof(struct weft_dial_future), "public size");

static struct dialing *of(struct weft__leaf *leaf)
{
    return weft__container_of(leaf, struct dialing, leaf);
}

static bool submit(struct dialing *dialing)
{
    struct weft__carrier *carrier = dialing->leaf.carrier;
    return carrier->driver->submit(carrier->driver_state, &dialing->op);
}

/// What the op's end means. WAITS: a signal has cut it short, and it is in flight again.
static int outcome(struct dialing *dialing)
{
    while (dialing->op.result == -EINTR && !dialing->asked) {
        if (!submit(dialing)) {
            return WEFT__LEAF_WAITS;
        }
    }
    struct weft__carrier *carrier = dialing->leaf.carrier;
    int rc = (int)dialing->op.result;
    rc = rc == -EINTR ? -ECANCELED : rc;
    if (rc == 0) {
        rc = weft__conn_make(dialing->conn, carrier, dialing->fd,
                             (uint8_t)weft_addr_kind(&dialing->addr));
    }
    if (rc < 0) {
        weft__socket_close(dialing->fd, NULL, carrier);
    }
    return rc;
}

static void op_done(struct weft__op *op)
{
    struct dialing *dialing = weft__container_of(op, struct dialing, op);
    int rc = outcome(dialing);
    if (rc != WEFT__LEAF_WAITS) {
        weft__leaf_end(&dialing->leaf, rc);
    }
}

static int64_t begin(struct weft__leaf *leaf)
{
    struct dialing *dialing = of(leaf);
    uint32_t size;
    int rc = weft__leaf_enter_here(leaf);
    rc = rc == 0 ? dialing->error : rc;
    if (rc == 0) {
        rc = weft__socket_open(&dialing->fd, leaf->carrier, &dialing->addr, dialing->options);
    }
    if (rc != 0) {
        return rc;
    }
    const struct sockaddr *name = weft_addr_sockaddr(&dialing->addr, &size);
    dialing->op = (struct weft__op){
        .done = op_done,
        .fd = dialing->fd,
        .data = (void *)(uintptr_t)name, // NOLINT(performance-no-int-to-ptr): only read
        .size = size,
        .code = WEFT__OP_CONNECT,
        .mode = WEFT__OP_MANAGED,
    };
    return submit(dialing) ? outcome(dialing) : WEFT__LEAF_WAITS;
}

static void withdraw(struct weft__leaf *leaf)
{
    struct dialing *dialing = of(leaf);
    dialing->asked = true;
    leaf->carrier->driver->cancel(leaf->carrier->driver_state, &dialing->op); // ends by op_done()
}

void weft_dial_future(struct weft_dial_future *future, weft_conn **conn, const char *address,
                      const struct weft_socket_options *options)
{
    struct dialing *dialing = (struct dialing *)(void *)future;
    weft__leaf_init(&dialing->leaf, begin, withdraw);
    dialing->error = weft__conn_address(&dialing->addr, address);
    dialing->options = options;
    dialing->conn = conn;
    dialing->fd = -1;
    dialing->asked = false;
    *conn = NULL;
}
