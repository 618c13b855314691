// conn_in.c - the receiving half of a connection.
//
// One receive op is armed when a reader has to wait, and stays armed as long as the driver keeps it
// (multishot) and the connection holds few pieces. A reader that gives up leaves it armed: bytes that
// come later are kept for the next reader.
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/call.h"
#include "net/conn.h"
#include "sched/crew.h"
#include "task/host.h"
#include "task/scope.h"

/// A frame that spans buffers is copied; then a little more is copied along, because the next peek
/// often asks for a few bytes more.
#define COPY_AHEAD_BYTES 4096u
/// From here on reading straight into the caller's memory beats a copy from receive buffers.
#define DIRECT_BYTES ((size_t)WEFT__SIZED(16384, 64))
#define SPILL_BYTES ((size_t)WEFT__SIZED(1024, 16))

static void give_buffer(struct weft__conn *conn, uint16_t number)
{
    conn->carrier->driver->give(conn->carrier->driver_state, number);
}

static struct weft__piece *first_piece(struct weft__conn *conn)
{
    return conn->pieces_held > 0 ? &conn->pieces[conn->first_piece] : NULL;
}

static void drop_piece(struct weft__conn *conn)
{
    give_buffer(conn, first_piece(conn)->number);
    conn->first_piece = (uint8_t)((conn->first_piece + 1) % WEFT__CONN_PIECES);
    conn->pieces_held--;
}

static const char *piece_bytes(struct weft__conn *conn, const struct weft__piece *piece)
{
    const char *buffer = conn->carrier->driver->buffer(conn->carrier->driver_state, piece->number);
    return buffer + piece->start;
}

static size_t spilled(const struct weft__conn *conn)
{
    return conn->spill_end - conn->spill_start;
}

static void free_spill(struct weft__conn *conn)
{
    weft__free(conn->carrier->crew->allocator, conn->spill, conn->spill_room);
    conn->spill = NULL;
    conn->spill_room = conn->spill_start = conn->spill_end = 0;
}

/// Makes room for `more` bytes behind the spilled ones.
static int reserve_spill(struct weft__conn *conn, size_t more)
{
    size_t used = spilled(conn);
    if (conn->spill_room - conn->spill_end >= more) {
        return 0;
    }
    size_t room = conn->spill_room > 0 ? conn->spill_room : SPILL_BYTES;
    while (room < used + more) {
        room *= 2;
    }
    char *memory = conn->spill;
    if (room != conn->spill_room) {
        memory = weft__alloc_raw(conn->carrier->crew->allocator, room, 1);
        if (memory == NULL) {
            return -ENOMEM;
        }
    }
    if (used > 0) {
        memmove(memory, conn->spill + conn->spill_start, used);
    }
    if (memory != conn->spill) {
        free_spill(conn);
        conn->spill = memory;
        conn->spill_room = room;
    }
    conn->spill_start = 0;
    conn->spill_end = used;
    return 0;
}

static int append_spill(struct weft__conn *conn, const char *bytes, size_t size)
{
    int rc = reserve_spill(conn, size);
    if (rc == 0) {
        memcpy(conn->spill + conn->spill_end, bytes, size);
        conn->spill_end += size;
    }
    return rc;
}

/// Moves up to `most` bytes of the first piece to the spill.
static int spill_piece(struct weft__conn *conn, size_t most)
{
    struct weft__piece *piece = first_piece(conn);
    size_t size = piece->end - piece->start;
    size = size < most ? size : most;
    int rc = append_spill(conn, piece_bytes(conn, piece), size);
    if (rc < 0) {
        return rc;
    }
    piece->start += (uint32_t)size;
    if (piece->start == piece->end) {
        drop_piece(conn);
    }
    return 0;
}

static int spill_all(struct weft__conn *conn)
{
    int rc = 0;
    while (conn->pieces_held > 0 && rc == 0) {
        rc = spill_piece(conn, SIZE_MAX);
    }
    return rc;
}

static void stop(struct weft__conn *conn)
{
    conn->carrier->driver->cancel(conn->carrier->driver_state, &conn->receive);
}

/// Keeps what has arrived. A multishot receive that runs ahead of its reader is stopped; what it
/// brings until then goes to the spill, and if there is no memory the connection breaks.
static void keep(struct weft__conn *conn, uint16_t number, uint32_t size)
{
    if (conn->closed) {
        give_buffer(conn, number);
        return;
    }
    if (conn->pieces_held == WEFT__CONN_PIECES && spill_all(conn) < 0) {
        conn->read_error = -ENOMEM;
        give_buffer(conn, number);
        return;
    }
    unsigned at = (conn->first_piece + conn->pieces_held) % WEFT__CONN_PIECES;
    conn->pieces[at] = (struct weft__piece){ 0, size, number };
    conn->pieces_held++;
    if (conn->pieces_held == WEFT__CONN_PIECES && conn->armed) {
        stop(conn);
    }
}

/// Takes one result of the receive op.
static void take(struct weft__conn *conn, const struct weft__op *op)
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
    } else if (op->result != -ECANCELED && op->result != -EINTR) {
        conn->read_error = (int)op->result;
    }
}

static void received(struct weft__op *op)
{
    struct weft__conn *conn = weft__container_of(op, struct weft__conn, receive);
    take(conn, op);
    if (conn->closed) {
        weft__conn_let_go(conn);
    } else {
        weft__conn_wake(&conn->reader);
    }
}

/// Has the driver receive, unless it does or there will never be anything.
static void arm(struct weft__conn *conn)
{
    if (conn->armed || conn->ended || conn->read_error != 0) {
        return;
    }
    conn->armed = true;
    if (conn->carrier->driver->submit(conn->carrier->driver_state, &conn->receive)) {
        take(conn, &conn->receive);
    }
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
    while (conn->pieces_held > 0) {
        drop_piece(conn);
    }
    free_spill(conn);
}

/// Lends what lies in one place. False: that is less than `at_least`, but for the pieces behind it.
static bool lend(struct weft__conn *conn, struct weft_slice *in, size_t at_least)
{
    const struct weft__piece *piece = first_piece(conn);
    if (spilled(conn) > 0) {
        *in = (struct weft_slice){ conn->spill + conn->spill_start, spilled(conn) };
    } else if (piece != NULL) {
        *in = (struct weft_slice){ piece_bytes(conn, piece), piece->end - piece->start };
    } else {
        *in = (struct weft_slice){ NULL, 0 };
    }
    return in->size >= at_least;
}

/// Brings `at_least` bytes into one place, if they have arrived. False: more has to come; all is in
/// the spill then (N2).
static bool gather(struct weft__conn *conn, struct weft_slice *in, size_t at_least, int *rc)
{
    while (!lend(conn, in, at_least)) {
        if (conn->pieces_held == 0) {
            return false;
        }
        size_t lacks = at_least - spilled(conn);
        *rc = spill_piece(conn, lacks > COPY_AHEAD_BYTES ? lacks : COPY_AHEAD_BYTES);
        if (*rc < 0) {
            return false;
        }
    }
    return true;
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

static int peek_slow(struct weft__conn *conn, struct weft__task *task, struct weft_slice *in,
                     size_t at_least, weft_time deadline)
{
    int rc = 0;
    while (!gather(conn, in, at_least, &rc)) {
        if (rc < 0) {
            return rc;
        }
        if (conn->ended || conn->read_error != 0) {
            return last_words(conn, in->size);
        }
        arm(conn);
        if (conn->pieces_held > 0 || !conn->armed) {
            continue; // it came at once
        }
        rc = wait_for_more(conn, task, deadline);
        if (rc < 0) {
            return rc;
        }
    }
    return as_count(in->size);
}

int weft_conn_peek(weft_conn *conn, struct weft_slice *in, size_t at_least, weft_time deadline)
{
    int rc = 0;
    struct weft__task *task = weft__conn_enter(conn, &rc);
    *in = (struct weft_slice){ NULL, 0 };
    if (weft__unlikely(task == NULL)) {
        return rc;
    }
    weft__charge(task);
    if (weft__unlikely(weft__scope_cancelled(task))) {
        return -ECANCELED;
    }
    if (at_least == 0) {
        if (!lend(conn, in, 1)) {
            arm(conn);
        }
        if (!lend(conn, in, 1)) {
            return conn->armed ? -EAGAIN : last_words(conn, 0);
        }
        return as_count(in->size);
    }
    if (at_least > conn->frame_limit) {
        return -EMSGSIZE;
    }
    if (weft__likely(lend(conn, in, at_least))) {
        return as_count(in->size);
    }
    if (weft__unlikely(conn->reader != NULL)) {
        return -EBUSY;
    }
    return peek_slow(conn, task, in, at_least, deadline);
}

void weft_conn_consume(weft_conn *conn, size_t size)
{
    size_t here = spilled(conn);
    if (here > 0) {
        here = size < here ? size : here;
        conn->spill_start += here;
        size -= here;
        if (conn->spill_start == conn->spill_end) {
            free_spill(conn);
        }
    }
    while (size > 0) {
        struct weft__piece *piece = first_piece(conn);
        weft_assert(piece != NULL && "more bytes consumed than were lent");
        size_t held = piece->end - piece->start;
        if (size < held) {
            piece->start += (uint32_t)size;
            return;
        }
        size -= held;
        drop_piece(conn);
    }
}

/// Copies what is buffered.
static size_t copy_out(struct weft__conn *conn, char *data, size_t size)
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
    if (conn->armed) {
        stop(conn);
    }
    while (conn->armed) {
        int rc = weft__conn_pause(conn, &conn->reader, task, WEFT__WAIT_DEAF, "stop receiving",
                                  WEFT_FOREVER);
        if (rc < 0) {
            return rc;
        }
    }
    return spill_all(conn);
}

/// Receives straight into the caller's memory; the receive op is not in flight.
static int64_t receive_direct(struct weft__conn *conn, char *data, size_t size, weft_time deadline)
{
    struct weft__call call = {
        .op = { .fd = conn->fd,
                .data = data,
                .size = size,
                .code = WEFT__OP_RECV,
                .mode = WEFT__OP_MANAGED },
    };
    int64_t got = weft__call(&call, "receive", deadline);
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
        size_t caught = copy_out(conn, data, size);
        if (caught > 0 || conn->ended || conn->read_error != 0) {
            return caught > 0 ? (int64_t)caught : last_words(conn, 0);
        }
        return receive_direct(conn, data, size, deadline);
    }
    struct weft_slice in;
    int rc = peek_slow(conn, task, &in, 1, deadline);
    return rc > 0 ? (int64_t)copy_out(conn, data, size) : rc;
}

int64_t weft_conn_read_into(weft_conn *conn, void *data, size_t size, weft_time deadline)
{
    int rc = 0;
    struct weft__task *task = weft__conn_enter(conn, &rc);
    if (task == NULL) {
        return rc;
    }
    weft__charge(task);
    if (weft__scope_cancelled(task)) {
        return -ECANCELED;
    }
    if (conn->reader != NULL) {
        return -EBUSY;
    }
    size_t done = copy_out(conn, data, size);
    while (done < size) {
        int64_t more = read_more(conn, task, (char *)data + done, size - done, deadline);
        if (more <= 0) {
            return done > 0 ? (int64_t)done : more;
        }
        done += (size_t)more;
    }
    return (int64_t)done;
}
