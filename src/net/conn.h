// conn.h - a connection from the inside.
//
// All of it is touched by its carrier's thread only: by the tasks that read and write there, and by
// the completions of its two kinds of op. So there is no lock and no atomic in here.
//
//   N1  Received bytes are in pieces, oldest first: receive buffers of the driver, or heap memory. Only
//       the first may be lent to a reader, and a lent one stays where it is until the reader asks or
//       consumes again.
//   N2  A task that waits for more bytes holds no receive buffer: what it has is in the heap. And all
//       connections of a carrier together hold no more than some of the buffers; what comes beyond
//       is copied at once. So there are always buffers under way, whoever holds theirs for how long.
//   N3  `armed` and `sends` say which ops the driver owns, `inside` how many tasks are in the middle of
//       a call. The memory of a connection is freed by whoever is the last of these to go after it
//       was closed. A task inside looks at `closing` after each park or yield. So does a future that waits
//       (conn_future.c), which counts as one.
//       One that drains (conn_drain.c) is not closed yet.
//   N4  A release function is called exactly once for each reference that was queued, after the
//       kernel has let go of the bytes.
#ifndef WEFT_NET_CONN_H
#define WEFT_NET_CONN_H

#include <errno.h>

#include <weft/net.h>

#include "net/leaf.h"
#include "sched/carrier.h"
#include "sched/guest.h"
#include "task/host.h"
#include "task/wait.h"

/// Pieces that one connection may hold. Before the last one a multishot receive is stopped; that one
/// is in the heap and takes whatever still comes.
#define WEFT__CONN_PIECES WEFT__SIZED(4, 2)

struct weft__piece {
    char *memory;        // the heap's, or a receive buffer
    uint32_t room;       // of the heap memory; 0: a receive buffer
    uint32_t start, end; // what is left of it
    uint16_t number;     // of the receive buffer
};

/// Bytes to send: a copy behind the struct, or a reference.
struct weft__chunk {
    struct weft__chunk *next;
    const char *data;
    size_t start, end; // of data: what is not yet sent
    size_t room;       // behind the struct
    bool reference;    // the bytes are somebody else's
    bool left;         // it is out of the queue
    bool lent;         // zero-copy: the kernel has the bytes
    weft_release_fn release;
    void *arg;
    struct weft__conn *conn; // zero-copy only
    struct weft__op op;      // zero-copy only: its bytes are borrowed beyond its result
};

struct weft__conn {
    // What every call looks at, in one line.
    struct weft__carrier *carrier;
    int fd;
    uint8_t kind;  // enum weft_addr_kind
    bool armed;    // the receive op is in flight
    bool ended;    // the peer has closed
    bool finished; // our side was shut for writing
    bool closing;  // nobody enters any more, those inside leave with -EBADF
    bool aborted;  // and what is queued need not be sent
    bool draining; // on its way to be closed: what comes is dropped (conn_drain.c)
    bool closed;   // the socket is gone: what remains is to free it
    bool reading;  // a task is inside a call that reads
    bool midway;   // and has taken bytes that it will not have if the connection is closed now
    bool sending;  // the send op is in flight
    bool wrote;    // something was ever queued
    uint8_t first_piece, pieces_held;
    uint32_t sends;  // send ops in flight, zero-copy ones included
    uint32_t inside; // tasks inside a call, parked or about to run
    int read_error;
    int write_error;
    size_t frame_limit, output_limit;

    // Reading.
    struct weft__wait *reader;
    struct weft__piece pieces[WEFT__CONN_PIECES]; // a ring
    struct weft__op receive;

    // Writing.
    struct weft__wait *writer;
    size_t writer_wants;       // it is woken when no more than so much is queued
    struct weft__wait *closer; // waits until nothing is queued
    struct weft__wait *mover;  // and until nothing is in flight
    struct weft__chunk *out, *out_last;
    size_t out_bytes;
    struct weft__chunk *vector; // holds the header of a send of several chunks; NULL: none yet
    struct weft__flush flush;
    struct weft__op send;

    size_t zero_copy_limit;
    weft_time linger_ns;

    // Draining.
    size_t discarded, discard_limit; // bytes
    weft_time discard_ns;
    struct weft__timer late;
    struct weft__flush hurry; // in carrier->drains

    // Accepting.
    struct weft__conn *next; // in the list of a listener
    struct lane *lane;       // of weft_serve(), which accepted it
};

// conn.c

/// weft_addr_parse() for addresses of streams: -EPROTOTYPE for others, which keep their own bounds.
int weft__conn_address(struct weft_addr *addr, const char *text);

/// Makes a connection of a socket that the driver of `carrier` knows, and takes it, unless it fails.
int weft__conn_make(struct weft__conn **conn, struct weft__carrier *carrier, int fd, uint8_t kind);

/// Begins a call: the running virtual thread, if it may use the connection; else NULL, and
/// weft__conn_refusal() says why. Charges it, so it may yield.
static inline struct weft__task *weft__conn_enter(struct weft__conn *conn)
{
    struct weft__task *task = weft__thread_self();
    if (weft__unlikely(task == NULL || !weft__task_is_at(task, conn->carrier) || conn->closing)) {
        return NULL;
    }
    weft__task_tie(task);
    conn->inside++;
    weft__charge(task);
    return task;
}
int weft__conn_refusal(const struct weft__conn *conn);

/// Frees a closed connection if the driver has let go of it and nobody is inside.
void weft__conn_let_go(struct weft__conn *conn);

/// Ends a call, and gives its result: `rc`, or -EBADF if the connection was closed meanwhile. Nothing
/// may be touched afterwards.
static inline int64_t weft__conn_leave(struct weft__conn *conn, int64_t rc)
{
    conn->inside--;
    if (weft__unlikely(conn->closing)) {
        weft__conn_let_go(conn);
        return -EBADF;
    }
    return rc;
}

/// Parks until the wait in `*slot` is woken by weft__conn_wake(). As weft__block(), or -EBUSY.
int weft__conn_wait(struct weft__wait **slot, struct weft__task *task, enum weft__wait_mode mode,
                    const char *what, weft_time deadline);
static inline void weft__conn_wake(struct weft__wait **slot)
{
    struct weft__wait *wait = *slot;
    // Who withdraws does so on this carrier and leaves the slot before anybody else runs there.
    if (wait != NULL &&
        atomic_load_explicit(&wait->state, memory_order_relaxed) == WEFT__WAIT_OPEN) {
        if (weft__likely(wait->mode != WEFT__WAIT_CALL)) {
            weft__complete(wait, 0);
        } else {
            wait->ask(wait); // a future's: goes on, and may leave, at once (net/leaf.h)
        }
    }
}

/// The same for a task inside a connection. -EBADF: it is being closed.
int weft__conn_pause(struct weft__conn *conn, struct weft__wait **slot, struct weft__task *task,
                     enum weft__wait_mode mode, const char *what, weft_time deadline);

/// Closes the socket. Nothing is waited for: ops that are in flight end later, and so do tasks inside.
void weft__conn_shut(struct weft__conn *conn);

// conn_drain.c

/// For a connection that is being closed and has sent everything. True: it may not be closed yet; it
/// will be, and freed, without further ado. False: close it.
bool weft__conn_drain(struct weft__conn *conn);
/// Closes all that drain on the carrier.
void weft__conn_end_drains(struct weft__carrier *carrier);
/// The receive op of one that drains has had a result. Nothing may be touched afterwards.
void weft__conn_drain_on(struct weft__conn *conn);

// conn_in.c

/// Has the driver receive, unless it does or there will never be anything.
void weft__conn_in_arm(struct weft__conn *conn);
void weft__conn_in_init(struct weft__conn *conn);
/// Gives back what was received. The receive op may still be in flight.
void weft__conn_in_fini(struct weft__conn *conn);
/// A peek up to the point where it has to wait, by somebody who may read: what it says, or WAITS. The
/// second is for one that has begun (conn->reading); if it says WAITS, conn->reader is woken.
int weft__conn_peek_now(struct weft__conn *conn, struct weft_slice *in, size_t at_least);
int weft__conn_ask_for_more(struct weft__conn *conn, struct weft_slice *in, size_t at_least);
/// Copies what is buffered, and consumes it.
size_t weft__conn_copy_out(struct weft__conn *conn, char *data, size_t size);
/// Ends the receive op without losing a byte, and moves all bytes to the heap.
int weft__conn_in_stop(struct weft__conn *conn, struct weft__task *task);

// conn_out.c

void weft__conn_out_init(struct weft__conn *conn);
/// Drops what is queued and not yet with the kernel.
void weft__conn_out_drop(struct weft__conn *conn);
/// Hands what is queued to the driver.
void weft__conn_send(struct weft__conn *conn);
/// Queues a copy if there is room, or an error, or WAITS: conn->writer is woken when there is.
int weft__conn_write_now(struct weft__conn *conn, const void *data, size_t size);
int weft__conn_write_ref_now(struct weft__conn *conn, const void *data, size_t size,
                             weft_release_fn release_fn, void *arg);
/// Sends: 0 if nothing is queued any more, or an error, or WAITS as above.
int weft__conn_flush_now(struct weft__conn *conn);
/// The same, and then the end of the stream.
int weft__conn_finish_now(struct weft__conn *conn);

// chunk.c: output memory, kept by the carrier for reuse.

struct weft__chunk *weft__chunk_take(struct weft__carrier *carrier, size_t size_bytes);
/// One without room, for a reference.
struct weft__chunk *weft__chunk_refer(struct weft__carrier *carrier);
void weft__chunk_give(struct weft__carrier *carrier, struct weft__chunk *chunk);
/// Frees what the carrier keeps.
void weft__chunks_drain(struct weft__carrier *carrier);

#endif
