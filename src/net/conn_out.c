// conn_out.c - the sending half of a connection.
//
// Writers queue chunks; the end of the carrier's step sends them, all that lie next to each other in
// one op. One send is in flight at a time, so bytes leave in order; what is written meanwhile goes
// out together with the next one.
//
// A reference above a size that the program sets is sent without a copy, by an op of its own, because
// the kernel keeps its bytes beyond the result: the queue goes on, and the reference is released when
// the kernel lets go.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "net/conn.h"
#include "task/host.h"
#include "task/scope.h"

#define VECTOR_MAX WEFT__SIZED(64u, 4u)

/// The header of a send of several chunks, in the room of a chunk.
struct vector {
    struct msghdr message;
    struct iovec parts[VECTOR_MAX];
};

static size_t unsent(const struct weft__chunk *chunk)
{
    return chunk->end - chunk->start;
}

static bool without_copy(const struct weft__conn *conn, const struct weft__chunk *chunk)
{
    return chunk->reference && !chunk->lent && unsent(chunk) >= conn->zero_copy_limit;
}

/// The owner of the bytes gets them back as soon as they are sent and the kernel has let go.
static void release(struct weft__conn *conn, struct weft__chunk *chunk)
{
    if (!chunk->left || chunk->lent) {
        return;
    }
    if (chunk->release != NULL) {
        chunk->release(chunk->arg);
    }
    weft__chunk_give(conn->carrier, chunk);
}

static void leave_queue(struct weft__conn *conn, struct weft__chunk *chunk)
{
    conn->out = chunk->next;
    conn->out_bytes -= unsent(chunk);
    if (conn->out == NULL) {
        conn->out_last = NULL;
    }
    chunk->left = true;
    release(conn, chunk);
}

void weft__conn_out_drop(struct weft__conn *conn)
{
    while (conn->out != NULL) {
        leave_queue(conn, conn->out);
    }
}

static void advance(struct weft__conn *conn, size_t sent)
{
    while (sent > 0) {
        struct weft__chunk *chunk = conn->out;
        size_t size = unsent(chunk);
        if (weft__unlikely(sent < size)) {
            chunk->start += sent;
            conn->out_bytes -= sent;
            return;
        }
        sent -= size;
        leave_queue(conn, chunk);
    }
}

static void take_result(struct weft__conn *conn, int64_t result)
{
    if (weft__likely(result >= 0)) {
        advance(conn, (size_t)result);
    } else if (result != -EINTR) {
        conn->write_error = (int)result;
        weft__conn_out_drop(conn);
    }
}

/// One send has had its result.
static void settle(struct weft__conn *conn, int64_t result)
{
    conn->sending = false;
    if (conn->vector != NULL) {
        weft__chunk_give(conn->carrier, conn->vector);
        conn->vector = NULL;
    }
    take_result(conn, result);
}

static void wake_writers(struct weft__conn *conn)
{
    bool broken = conn->write_error != 0;
    if (broken || conn->out_bytes <= conn->writer_wants) {
        weft__conn_wake(&conn->writer);
    }
    if (broken || conn->out_bytes == 0) {
        weft__conn_wake(&conn->closer);
        weft__conn_wake(&conn->mover);
    }
}

static void send_on(struct weft__conn *conn);

/// What follows a result or the end of a send that did not come at once.
static void go_on(struct weft__conn *conn)
{
    if (conn->closed) {
        weft__conn_let_go(conn);
        return;
    }
    send_on(conn);
    wake_writers(conn);
}

static void sent(struct weft__op *op)
{
    struct weft__conn *conn = weft__container_of(op, struct weft__conn, send);
    conn->sends--;
    settle(conn, op->result);
    go_on(conn);
}

static void sent_without_copy(struct weft__op *op)
{
    struct weft__chunk *chunk = weft__container_of(op, struct weft__chunk, op);
    struct weft__conn *conn = chunk->conn;
    bool is_result = (op->result_flags & WEFT__OP_NOTIFY) == 0;
    chunk->lent = (op->result_flags & WEFT__OP_MORE) != 0;
    if (!chunk->lent) {
        conn->sends--;
    }
    if (is_result) {
        settle(conn, op->result);
    } else {
        release(conn, chunk);
    }
    go_on(conn);
}

static struct weft__op *prepare_without_copy(struct weft__conn *conn, struct weft__chunk *chunk)
{
    chunk->conn = conn;
    chunk->lent = true;
    chunk->op = (struct weft__op){
        .done = sent_without_copy,
        .data = (char *)(uintptr_t)chunk->data + chunk->start, // NOLINT(performance-no-int-to-ptr)
        .size = unsent(chunk),
        .fd = conn->fd,
        .code = WEFT__OP_SEND_ZC,
        .mode = WEFT__OP_MANAGED,
    };
    return &chunk->op;
}

static void put_part(struct iovec *part, const struct weft__chunk *chunk)
{
    part->iov_base = (char *)(uintptr_t)chunk->data +
                     chunk->start; // NOLINT(performance-no-int-to-ptr)
    part->iov_len = unsent(chunk);
}

/// Several chunks go in one op; without memory for its header the first goes alone.
static bool prepare_several(struct weft__conn *conn)
{
    conn->vector = weft__chunk_take(conn->carrier, sizeof(struct vector));
    if (conn->vector == NULL) {
        return false;
    }
    struct vector *vector = (struct vector *)(void *)(conn->vector + 1);
    unsigned parts = 0;
    const struct weft__chunk *chunk = conn->out;
    while (chunk != NULL && parts < VECTOR_MAX && !without_copy(conn, chunk)) {
        put_part(&vector->parts[parts++], chunk);
        chunk = chunk->next;
    }
    vector->message = (struct msghdr){ .msg_iov = vector->parts, .msg_iovlen = parts };
    conn->send.code = WEFT__OP_SENDMSG;
    conn->send.data = &vector->message;
    conn->send.size = 0;
    return true;
}

static struct weft__op *prepare(struct weft__conn *conn)
{
    struct weft__chunk *chunk = conn->out;
    if (without_copy(conn, chunk)) {
        return prepare_without_copy(conn, chunk);
    }
    if (chunk->next == NULL || !prepare_several(conn)) {
        struct iovec part;
        put_part(&part, chunk);
        conn->send.code = WEFT__OP_SEND;
        conn->send.data = part.iov_base;
        conn->send.size = part.iov_len;
    }
    return &conn->send;
}

/// Sends a chunk that is alone without an op, if the driver can. False: it takes nothing now.
static inline bool send_now(struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    const struct weft__chunk *chunk = conn->out;
    if (carrier->driver->write_now == NULL || chunk->next != NULL || without_copy(conn, chunk)) {
        return false;
    }
    int64_t n = carrier->driver->write_now(carrier->driver_state, conn->fd,
                                           chunk->data + chunk->start, unsent(chunk));
    if (weft__unlikely(n == -EAGAIN)) {
        return false;
    }
    take_result(conn, n);
    return true;
}

/// Sends until an op is in flight or the queue is empty.
static void send_on(struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    while (!conn->sending && conn->out != NULL && conn->write_error == 0) {
        if (send_now(conn)) {
            continue;
        }
        struct weft__chunk *first = conn->out;
        struct weft__op *op = prepare(conn);
        conn->sending = true;
        conn->sends++;
        if (!carrier->driver->submit(carrier->driver_state, op)) {
            return;
        }
        conn->sends--;
        if (op == &first->op) {
            first->lent = false;
        }
        settle(conn, op->result);
    }
}

static void flush(struct weft__flush *flush, struct weft__carrier *carrier)
{
    (void)carrier;
    struct weft__conn *conn = weft__container_of(flush, struct weft__conn, flush);
    send_on(conn);
    wake_writers(conn);
}

void weft__conn_out_init(struct weft__conn *conn)
{
    conn->flush.fn = flush;
    conn->send = (struct weft__op){ .done = sent, .fd = conn->fd, .mode = WEFT__OP_MANAGED };
}

void weft__conn_send(struct weft__conn *conn)
{
    send_on(conn);
}

/// Whether no more than `left` bytes are queued. WAITS: not yet, and the caller may wait for that.
static int drained(struct weft__conn *conn, size_t left)
{
    if (conn->write_error != 0 || conn->out_bytes <= left) {
        return conn->write_error;
    }
    if (conn->writer != NULL) {
        return -EBUSY;
    }
    conn->writer_wants = left;
    return WEFT__LEAF_WAITS;
}

/// Sends, and waits until no more than `left` bytes are queued.
static int drain(struct weft__conn *conn, struct weft__task *task, size_t left, weft_time deadline)
{
    int rc;
    send_on(conn);
    while ((rc = drained(conn, left)) == WEFT__LEAF_WAITS) {
        rc = weft__conn_pause(conn, &conn->writer, task, WEFT__WAIT_WITHDRAW, "send", deadline);
        if (rc < 0) {
            return rc;
        }
    }
    return rc;
}

int weft__conn_flush_now(struct weft__conn *conn)
{
    send_on(conn);
    return drained(conn, 0);
}

/// Whether a writer that has entered may queue something now; waits for room.
static inline int admit(struct weft__conn *conn, struct weft__task *task, weft_time deadline)
{
    if (weft__unlikely(weft__scope_cancelled(task))) {
        return -ECANCELED;
    }
    if (conn->finished) {
        return -EPIPE;
    }
    if (weft__unlikely(conn->out_bytes >= conn->output_limit)) {
        return drain(conn, task, conn->output_limit - 1, deadline);
    }
    return conn->closing ? -EBADF : conn->write_error;
}

static void enqueue(struct weft__conn *conn, struct weft__chunk *chunk)
{
    conn->wrote = true;
    if (conn->out_last == NULL) {
        conn->out = chunk;
    } else {
        conn->out_last->next = chunk;
    }
    conn->out_last = chunk;
}

static void send_soon(struct weft__conn *conn)
{
    if (!conn->sending) {
        weft__carrier_flush_later(conn->carrier, &conn->flush);
    }
}

/// Inlined where threads write, although futures do, too.
__attribute__((always_inline)) static inline int put_copy(struct weft__conn *conn, const void *data,
                                                          size_t size)
{
    struct weft__chunk *chunk = conn->out_last;
    if (chunk == NULL || chunk->reference || chunk->room - chunk->end < size) {
        chunk = weft__chunk_take(conn->carrier, size);
        if (chunk == NULL) {
            return -ENOMEM;
        }
        enqueue(conn, chunk);
    }
    memcpy((char *)(chunk + 1) + chunk->end, data, size);
    chunk->end += size;
    conn->out_bytes += size;
    send_soon(conn);
    return 0;
}

/// admit() up to the point where it has to wait.
static int admit_now(struct weft__conn *conn)
{
    int rc = conn->finished ? -EPIPE : conn->write_error;
    if (rc == 0 && conn->out_bytes >= conn->output_limit) {
        send_on(conn);
        rc = drained(conn, conn->output_limit - 1);
    }
    return rc;
}

int weft__conn_write_now(struct weft__conn *conn, const void *data, size_t size)
{
    int rc = admit_now(conn);
    return rc == 0 && size > 0 ? put_copy(conn, data, size) : rc;
}

int weft_conn_write(weft_conn *conn, const void *data, size_t size, weft_time deadline)
{
    struct weft__task *task = weft__conn_enter(conn);
    if (weft__unlikely(task == NULL)) {
        return weft__conn_refusal(conn);
    }
    int rc = admit(conn, task, deadline);
    if (weft__likely(rc == 0) && size > 0) {
        rc = put_copy(conn, data, size);
    }
    return (int)weft__conn_leave(conn, rc);
}

static int put_reference(struct weft__conn *conn, const void *data, size_t size,
                         weft_release_fn release_fn, void *arg)
{
    struct weft__chunk *chunk = weft__chunk_refer(conn->carrier);
    if (chunk == NULL) {
        return -ENOMEM;
    }
    chunk->data = data;
    chunk->end = size;
    chunk->reference = true;
    chunk->release = release_fn;
    chunk->arg = arg;
    enqueue(conn, chunk);
    conn->out_bytes += size;
    send_soon(conn);
    return 0;
}

/// There is room. Of no bytes there is nothing to wait for.
static int refer_to(struct weft__conn *conn, const void *data, size_t size,
                    weft_release_fn release_fn, void *arg)
{
    if (size > 0) {
        return put_reference(conn, data, size, release_fn, arg);
    }
    if (release_fn != NULL) {
        release_fn(arg);
    }
    return 0;
}

int weft_conn_write_ref(weft_conn *conn, const void *data, size_t size, weft_release_fn release_fn,
                        void *arg, weft_time deadline)
{
    struct weft__task *task = weft__conn_enter(conn);
    if (task == NULL) {
        return weft__conn_refusal(conn);
    }
    int rc = admit(conn, task, deadline);
    rc = rc == 0 ? refer_to(conn, data, size, release_fn, arg) : rc;
    return (int)weft__conn_leave(conn, rc);
}

int weft__conn_write_ref_now(struct weft__conn *conn, const void *data, size_t size,
                             weft_release_fn release_fn, void *arg)
{
    int rc = admit_now(conn);
    return rc == 0 ? refer_to(conn, data, size, release_fn, arg) : rc;
}

static int flush_out(struct weft__conn *conn, struct weft__task *task, weft_time deadline)
{
    return weft__scope_cancelled(task) ? -ECANCELED : drain(conn, task, 0, deadline);
}

int weft_conn_flush(weft_conn *conn, weft_time deadline)
{
    struct weft__task *task = weft__conn_enter(conn);
    return task != NULL ? (int)weft__conn_leave(conn, flush_out(conn, task, deadline))
                        : weft__conn_refusal(conn);
}

/// All is sent.
static int end_stream(struct weft__conn *conn)
{
    struct weft__carrier *carrier = conn->carrier;
    if (conn->finished) {
        return 0;
    }
    conn->finished = true;
    return carrier->driver->sockets->shutdown(carrier->driver_state, conn->fd, SHUT_WR);
}

int weft_conn_finish(weft_conn *conn, weft_time deadline)
{
    struct weft__task *task = weft__conn_enter(conn);
    if (task == NULL) {
        return weft__conn_refusal(conn);
    }
    int rc = flush_out(conn, task, deadline);
    if (rc == 0 && !conn->closing) {
        rc = end_stream(conn);
    }
    return (int)weft__conn_leave(conn, rc);
}

int weft__conn_finish_now(struct weft__conn *conn)
{
    int rc = weft__conn_flush_now(conn);
    return rc == 0 ? end_stream(conn) : rc;
}
