// conn_in.c - the receiving half of a connection.
//
// One receive op is armed when a reader has to wait, and stays armed as long as the driver keeps it
// (multishot) and the connection holds few pieces. A reader that gives up leaves it armed: bytes that
// come later are kept for the next reader.
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "io/call.h"
#include "net/pieces.h"
#include "task/host.h"
#include "task/scope.h"

/// From here on reading straight into the caller's memory beats a copy from receive buffers.
#define DIRECT_BYTES ((size_t)WEFT__SIZED(16384, 64))

static void stop(struct weft__conn *conn)
{
    conn->carrier->driver->cancel(conn->carrier->driver_state, &conn->receive);
}

static void give_buffer(struct weft__conn *conn, uint16_t number)
{
    conn->carrier->driver->give(conn->carrier->driver_state, number);
}

/// Keeps what has arrived. A multishot receive that runs ahead of its reader is stopped; what it
/// brings until then is copied, and if there is no memory for that the connection breaks.
static void keep(struct weft__conn *conn, uint16_t number, uint32_t size)
{
    if (conn->closing || conn->read_error != 0) { // nothing may follow a gap
        conn->discarded += size;
        give_buffer(conn, number);
        return;
    }
    int copied = weft__pieces_put(conn, number, size);
    if (copied < 0) {
        conn->read_error = copied;
    }
    if (conn->armed && (copied != 0 || conn->pieces_held >= WEFT__CONN_PIECES - 1)) {
        stop(conn);
    }
}

/// Takes one result of the receive op.
__attribute__((always_inline)) static inline void take(struct weft__conn *conn,
                                                       const struct weft__op *op)
{
    conn->armed = (op->result_flags & WEFT__OP_MORE) != 0;
    if (op->result > 0) {
        keep(conn, weft__op_buffer(op), (uint32_t)op->result);
        return;
    }
    if ((op->result_flags & WEFT__OP_BUFFER) != 0) {
        give_buffer(conn, weft__op_buffer(op));
    }
    if (op->result == 0) {
        conn->ended = true;
    } else if (op->result != -ECANCELED && op->result != -EINTR && conn->read_error == 0) {
        conn->read_error = (int)op->result;
    }
}

static void received(struct weft__op *op)
{
    struct weft__conn *conn = weft__container_of(op, struct weft__conn, receive);
    take(conn, op);
    if (conn->closed) {
        weft__conn_let_go(conn);
    } else if (conn->draining) {
        weft__conn_drain_on(conn);
    } else {
        weft__conn_wake(&conn->reader);
    }
}

__attribute__((always_inline)) static inline void arm(struct weft__conn *conn)
{
    if (conn->armed || conn->ended || conn->read_error != 0) {
        return;
    }
    conn->armed = true;
    if (conn->carrier->driver->submit(conn->carrier->driver_state, &conn->receive)) {
        take(conn, &conn->receive);
    }
}

void weft__conn_in_arm(struct weft__conn *conn)
{
    arm(conn);
}

void weft__conn_in_init(struct weft__conn *conn)
{
    conn->receive = (struct weft__op){
        .done = received,
        .fd = conn->fd,
        .code = WEFT__OP_RECV,
        .mode = WEFT__OP_SELECT | WEFT__OP_MULTI | WEFT__OP_MANAGED,
    };
}

void weft__conn_in_fini(struct weft__conn *conn)
{
    weft__pieces_clear(conn);
}

/// Lends what lies in one place. False: that is less than `at_least`.
static bool lend(struct weft__conn *conn, struct weft_slice *in, size_t at_least)
{
    *in = weft__pieces_first(conn);
    return in->size >= at_least;
}

/// What to say when no more will come; 0: it still may. `have` bytes are left.
static int last_words(const struct weft__conn *conn, size_t have)
{
    if (conn->read_error != 0) {
        return conn->read_error;
    }
    return have > 0 ? -ENODATA : 0;
}

static int as_count(size_t size)
{
    return size < INT_MAX ? (int)size : INT_MAX;
}

/// Waits until the receive op has brought something, or has ended.
static int wait_for_more(struct weft__conn *conn, struct weft__task *task, weft_time deadline)
{
    return weft__conn_pause(conn, &conn->reader, task, WEFT__WAIT_WITHDRAW, "receive", deadline);
}

/// What a peek that has not found enough in one place says, or WAITS: the receive op will bring more.
/// Inlined where threads wait: with futures as a second caller gcc would not, nor what it calls, and each
/// request cost 55 instructions more.
__attribute__((always_inline)) static inline int ask_for_more(struct weft__conn *conn,
                                                              struct weft_slice *in,
                                                              size_t at_least)
{
    do {
        int rc = conn->pieces_held > 0 ? weft__pieces_gather(conn, at_least) : 0;
        if (rc < 0) {
            return rc;
        }
        if (lend(conn, in, at_least)) {
            return as_count(in->size);
        }
        if (conn->ended || conn->read_error != 0) {
            return last_words(conn, in->size);
        }
        arm(conn);
        if (conn->armed) {
            return WEFT__LEAF_WAITS;
        } // else it came at once
    } while (!lend(conn, in, at_least));
    return as_count(in->size);
}

static int peek_slow(struct weft__conn *conn, struct weft__task *task, struct weft_slice *in,
                     size_t at_least, weft_time deadline)
{
    for (;;) {
        int rc = ask_for_more(conn, in, at_least);
        if (rc != WEFT__LEAF_WAITS) {
            return rc;
        }
        rc = wait_for_more(conn, task, deadline);
        if (rc < 0) {
            return rc;
        }
        if (weft__likely(lend(conn, in, at_least))) {
            return as_count(in->size);
        }
    }
}

/// A peek that takes what there is.
static int glance(struct weft__conn *conn, struct weft_slice *in)
{
    if (!lend(conn, in, 1)) {
        arm(conn);
    }
    if (lend(conn, in, 1)) {
        return as_count(in->size);
    }
    return conn->ended || conn->read_error != 0 ? last_words(conn, 0) : -EAGAIN;
}

/// What a peek says without asking for more, or WAITS: it has to.
static inline int peek_now(struct weft__conn *conn, struct weft_slice *in, size_t at_least)
{
    if (weft__unlikely(conn->reading)) {
        return -EBUSY; // what is there is his, and may move
    }
    if (at_least == 0) {
        return glance(conn, in);
    }
    if (at_least > conn->frame_limit) {
        return -EMSGSIZE;
    }
    return weft__likely(lend(conn, in, at_least)) ? as_count(in->size) : WEFT__LEAF_WAITS;
}

static int peek(struct weft__conn *conn, struct weft__task *task, struct weft_slice *in,
                size_t at_least, weft_time deadline)
{
    if (weft__unlikely(weft__scope_cancelled(task))) {
        return -ECANCELED;
    }
    int rc = peek_now(conn, in, at_least);
    if (weft__likely(rc != WEFT__LEAF_WAITS)) {
        return rc;
    }
    conn->reading = true;
    rc = peek_slow(conn, task, in, at_least, deadline);
    conn->reading = false;
    return rc;
}

int weft__conn_peek_now(struct weft__conn *conn, struct weft_slice *in, size_t at_least)
{
    return peek_now(conn, in, at_least);
}

int weft__conn_ask_for_more(struct weft__conn *conn, struct weft_slice *in, size_t at_least)
{
    return ask_for_more(conn, in, at_least);
}

int weft_conn_peek(weft_conn *conn, struct weft_slice *in, size_t at_least, weft_time deadline)
{
    struct weft__task *task = weft__conn_enter(conn);
    *in = (struct weft_slice){ NULL, 0 };
    if (weft__unlikely(task == NULL)) {
        return weft__conn_refusal(conn);
    }
    int rc = conn->closing ? -EBADF : peek(conn, task, in, at_least, deadline);
    if (weft__unlikely(conn->closing)) {
        *in = (struct weft_slice){ NULL, 0 };
    }
    return (int)weft__conn_leave(conn, rc);
}

void weft_conn_consume(weft_conn *conn, size_t size)
{
    weft__pieces_drop(conn, size);
}

size_t weft__conn_copy_out(struct weft__conn *conn, char *data, size_t size)
{
    size_t done = 0;
    struct weft_slice in;
    while (done < size && lend(conn, &in, 1)) {
        size_t part = in.size < size - done ? in.size : size - done;
        memcpy(data + done, in.data, part);
        weft_conn_consume(conn, part);
        done += part;
    }
    return done;
}

int weft__conn_in_stop(struct weft__conn *conn, struct weft__task *task)
{
    while (conn->armed) {
        stop(conn); // each time: a reader that was refused may have begun another op
        if (!conn->armed) {
            break;
        }
        int rc = weft__conn_pause(conn, &conn->reader, task, WEFT__WAIT_DEAF, "stop receiving",
                                  WEFT_FOREVER);
        if (rc < 0) {
            return rc;
        }
    }
    return weft__pieces_gather(conn, SIZE_MAX);
}

/// Receives straight into the caller's memory; the receive op is not in flight.
static int64_t receive_direct(struct weft__conn *conn, char *data, size_t size, weft_time deadline)
{
    struct weft__call call = {
        .op = { .fd = conn->fd, .size = size, .code = WEFT__OP_RECV, .mode = WEFT__OP_MANAGED },
    };
    call.op.data = data;
    int64_t got = weft__call(&call, "receive", deadline);
    if (conn->closing) {
        return -EBADF;
    }
    if (got == 0) {
        conn->ended = true;
    } else if (got < 0 && got != -ETIMEDOUT && got != -ECANCELED) {
        conn->read_error = (int)got;
    }
    return got;
}

/// Gets some more bytes: through the buffers if few are missing, else without them.
static int64_t read_more(struct weft__conn *conn, struct weft__task *task, char *data, size_t size,
                         weft_time deadline)
{
    if (conn->ended || conn->read_error != 0) {
        return last_words(conn, 0);
    }
    if (size >= DIRECT_BYTES) {
        int rc = weft__conn_in_stop(conn, task);
        if (rc < 0) {
            return rc;
        }
        size_t caught = weft__conn_copy_out(conn, data, size);
        if (caught > 0 || conn->ended || conn->read_error != 0) {
            return caught > 0 ? (int64_t)caught : last_words(conn, 0);
        }
        return receive_direct(conn, data, size, deadline);
    }
    struct weft_slice in;
    int rc = peek_slow(conn, task, &in, 1, deadline);
    return rc > 0 ? (int64_t)weft__conn_copy_out(conn, data, size) : rc;
}

static int64_t read_all(struct weft__conn *conn, struct weft__task *task, char *data, size_t size,
                        weft_time deadline)
{
    size_t done = weft__conn_copy_out(conn, data, size);
    while (done < size) {
        conn->midway = done > 0;
        int64_t more = read_more(conn, task, data + done, size - done, deadline);
        if (more <= 0) {
            return done > 0 ? (int64_t)done : more;
        }
        done += (size_t)more;
    }
    return (int64_t)done;
}

int64_t weft_conn_read_into(weft_conn *conn, void *data, size_t size, weft_time deadline)
{
    struct weft__task *task = weft__conn_enter(conn);
    if (task == NULL) {
        return weft__conn_refusal(conn);
    }
    if (conn->closing || conn->reading || weft__scope_cancelled(task)) {
        return weft__conn_leave(conn, conn->reading ? -EBUSY : -ECANCELED);
    }
    conn->reading = true;
    int64_t got = read_all(conn, task, data, size, deadline);
    conn->reading = conn->midway = false;
    return weft__conn_leave(conn, got);
}
