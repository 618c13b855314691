// conn_future.c - the calls on connections as futures.
//
// Each stands where a thread that waits would stand: in conn->reader or conn->writer, counted in
// conn->inside, and a reader with conn->reading set; so who comes second is refused, and who closes
// evicts it. But its wait is of the kind that calls (task/wait.h, CALL): whatever would wake the thread
// has the future look, at once and on the carrier's thread (leaf.h, E1).
#include <errno.h>

#include <weft/async_net.h>

#include "net/conn.h"
#include "net/leaf.h"

struct call {
    struct weft__leaf leaf;
    struct weft__wait wait;   // in the connection, while it waits
    struct weft__conn *conn;  // fixed, as all that follows
    struct weft__wait **slot; // where in the connection
    bool reads;
    /// Looks: the result, or WAITS. The first time from begin(), later from whoever would have woken it.
    int64_t (*look)(struct call *call, bool first);
    union {
        struct weft_slice *in; // peek
        char *into;            // read_into
        const void *from;      // write
    };
    size_t size;
    weft_release_fn release; // write_ref
    void *arg;
    size_t done; // read_into: bytes taken; the carrier's while it waits
};
_Static_assert(sizeof(struct call) <= sizeof(struct weft_conn_future), "public size");

static struct call *of(struct weft__leaf *leaf)
{
    return weft__container_of(leaf, struct call, leaf);
}

/// Leaves the connection, which may be gone afterwards.
static int64_t leave(struct call *call, int64_t result)
{
    struct weft__conn *conn = call->conn;
    if (call->reads) {
        conn->reading = conn->midway = false;
    }
    return weft__conn_leave(conn, result);
}

/// Would have woken a thread.
static void called(struct weft__wait *wait)
{
    struct call *call = weft__container_of(wait, struct call, wait);
    struct weft__conn *conn = call->conn;
    *call->slot = NULL;
    int64_t result = conn->closing ? -EBADF : call->look(call, false);
    if (result == WEFT__LEAF_WAITS) {
        *call->slot = wait;
        return;
    }
    weft__leaf_end(&call->leaf, leave(call, result));
}

/// Bytes win: of a read that has taken some that is the result.
static void withdraw(struct weft__leaf *leaf)
{
    struct call *call = of(leaf);
    *call->slot = NULL;
    weft__leaf_end(leaf, leave(call, call->done > 0 ? (int64_t)call->done : -ECANCELED));
}

static int64_t begin(struct weft__leaf *leaf)
{
    struct call *call = of(leaf);
    struct weft__conn *conn = call->conn;
    int rc = weft__leaf_enter(leaf, conn->carrier);
    if (rc < 0 || conn->closing) {
        return rc < 0 ? rc : -EBADF;
    }
    if (call->reads && (conn->reading || conn->reader != NULL)) { // who moves it waits there, too
        return -EBUSY;
    }
    int64_t result = call->look(call, true);
    if (result != WEFT__LEAF_WAITS) {
        conn->midway &= !call->reads;
        return result;
    }
    conn->inside++;
    conn->reading |= call->reads;
    *call->slot = &call->wait;
    return result;
}

static struct call *init(struct weft_conn_future *future, weft_conn *conn,
                         int64_t (*look)(struct call *call, bool first), const char *what)
{
    struct call *call = (struct call *)(void *)future;
    weft__leaf_init(&call->leaf, begin, withdraw);
    weft__wait_init(&call->wait, NULL, WEFT__WAIT_CALL, what);
    call->wait.ask = called;
    call->conn = conn;
    call->slot = &conn->writer;
    call->reads = false;
    call->look = look;
    call->in = NULL;
    call->release = NULL;
    call->arg = NULL;
    call->size = call->done = 0;
    return call;
}

// Reading.

static struct call *init_reader(struct weft_conn_future *future, weft_conn *conn,
                                int64_t (*look)(struct call *call, bool first))
{
    struct call *call = init(future, conn, look, "receive");
    call->slot = &conn->reader;
    call->reads = true;
    return call;
}

static int64_t look_peek(struct call *call, bool first)
{
    int rc = first ? weft__conn_peek_now(call->conn, call->in, call->size) : WEFT__LEAF_WAITS;
    if (rc == WEFT__LEAF_WAITS) {
        rc = weft__conn_ask_for_more(call->conn, call->in, call->size);
    }
    if (rc == WEFT__LEAF_WAITS) { // what there is stays ours, and may move
        *call->in = (struct weft_slice){ NULL, 0 };
    }
    return rc;
}

void weft_conn_peek_future(struct weft_conn_future *future, weft_conn *conn, struct weft_slice *in,
                           size_t at_least)
{
    struct call *call = init_reader(future, conn, look_peek);
    call->in = in;
    call->size = at_least;
    *in = (struct weft_slice){ NULL, 0 };
}

static int64_t look_read(struct call *call, bool first)
{
    struct weft__conn *conn = call->conn;
    (void)first;
    for (;;) {
        struct weft_slice in;
        call->done += weft__conn_copy_out(conn, call->into + call->done, call->size - call->done);
        if (call->done == call->size) {
            return (int64_t)call->done;
        }
        conn->midway = call->done > 0;
        int rc = weft__conn_ask_for_more(conn, &in, 1);
        if (rc == WEFT__LEAF_WAITS) {
            return rc;
        }
        if (rc <= 0) {
            conn->midway = false;
            return call->done > 0 ? (int64_t)call->done : rc;
        }
    }
}

void weft_conn_read_into_future(struct weft_conn_future *future, weft_conn *conn, void *data,
                                size_t size)
{
    struct call *call = init_reader(future, conn, look_read);
    call->into = data;
    call->size = size;
}

// Writing.

static int64_t look_write(struct call *call, bool first)
{
    (void)first;
    return weft__conn_write_now(call->conn, call->from, call->size);
}

void weft_conn_write_future(struct weft_conn_future *future, weft_conn *conn, const void *data,
                            size_t size)
{
    struct call *call = init(future, conn, look_write, "send");
    call->from = data;
    call->size = size;
}

static int64_t look_flush(struct call *call, bool first)
{
    (void)first;
    return weft__conn_flush_now(call->conn);
}

void weft_conn_flush_future(struct weft_conn_future *future, weft_conn *conn)
{
    (void)init(future, conn, look_flush, "send");
}

static int64_t look_write_ref(struct call *call, bool first)
{
    (void)first;
    return weft__conn_write_ref_now(call->conn, call->from, call->size, call->release, call->arg);
}

void weft_conn_write_ref_future(struct weft_conn_future *future, weft_conn *conn, const void *data,
                                size_t size, weft_release_fn release, void *arg)
{
    struct call *call = init(future, conn, look_write_ref, "send");
    call->from = data;
    call->size = size;
    call->release = release;
    call->arg = arg;
}

static int64_t look_finish(struct call *call, bool first)
{
    (void)first;
    return weft__conn_finish_now(call->conn);
}

void weft_conn_finish_future(struct weft_conn_future *future, weft_conn *conn)
{
    (void)init(future, conn, look_finish, "send");
}
