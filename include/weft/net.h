// weft/net.h - listeners and connections: one virtual thread per connection, buffers that follow traffic.
//
// A connection belongs to one carrier: calls from tasks elsewhere return -EXDEV, weft_conn_move() hands
// it over. Received bytes are borrowed from the carrier's receive buffers until they are consumed, so
// an idle connection holds no buffer at all. Written bytes are collected and sent once per step of the
// carrier, which is soon: when the writing task parks, or its time slice ends.
//
// One task may read while another writes; two readers, or two writers, at once get -EBUSY. Futures that
// read, write and accept are in weft/async_net.h.
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <weft/addr.h>
#include <weft/base.h>
#include <weft/socket.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/// A listening socket of one carrier.
typedef struct weft__listener weft_listener;
/// A connected stream socket of one carrier.
typedef struct weft__conn weft_conn;

/// Bytes that belong to somebody else.
struct weft_slice {
    const char *data;
    size_t size;
};

// Listening

/// Listens on an address such as "tcp://127.0.0.1:7000", "tcp://[::]:7000", "unix:///run/x.sock"; see
/// weft_addr_parse(). `options` may be NULL. The listener belongs to the calling task's carrier.
///
/// An address that is in use is tried again for a quarter of a second: the kernel gives back what a process
/// that was killed had in io_uring a moment after its end. Not a file, with WEFT_UNIX_REFUSE.
///
/// Call from:  a virtual thread.
/// Errors:     -EINVAL, -ENAMETOOLONG, -ENODEV, -ERANGE  the address cannot be understood (host
///             names but localhost are not looked up, and a port has to be there)
///             -EPROTONOSUPPORT  the scheme is unknown
///             -EPROTOTYPE  it is not the address of a stream
///             -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, ...  as bind(2) and listen(2)
///             -ECANCELED  the calling task was cancelled while the address was in use
///             -EMFILE, -ENFILE, -ENOMEM; -EPERM outside a virtual thread
WEFT_API WEFT_MUST_CHECK int weft_listen(weft_listener **listener, const char *address,
                                         const struct weft_socket_options *options);

/// The address it listens on, with the port that the system chose for port 0.
WEFT_API int weft_listener_addr(const weft_listener *listener, struct weft_addr *addr);

/// Waits for the next connection. When descriptors run out, waiting connections are turned away one by
/// one and slowly, so that peers notice and the program stays alive; it goes on as soon as there are
/// descriptors again.
///
/// Call from:  a virtual thread on the listener's carrier, one at a time.
/// Errors:     -ETIMEDOUT, -ECANCELED; -EXDEV on another carrier; -EBUSY another task accepts;
///             -EBADF the listener was closed meanwhile; -ENOMEM; others as accept(2)
WEFT_API WEFT_MUST_CHECK int weft_accept(weft_conn **conn, weft_listener *listener,
                                         weft_time deadline);

/// What a listener has counted.
struct weft_listener_stats {
    uint64_t accepted; ///< connections
    uint64_t aborted;  ///< peers that were gone before they were accepted
    uint64_t shed;     ///< turned away for lack of descriptors
};
WEFT_API void weft_listener_stats(const weft_listener *listener, struct weft_listener_stats *stats);

/// Stops listening and frees it; connections that nobody accepted are closed, and the address is free
/// afterwards. NULL is fine.
///
/// Call from:  a virtual thread on its carrier. Never a cancellation point.
/// Errors:     -EXDEV, -EPERM: nothing happened
WEFT_API int weft_listener_close(weft_listener *listener);

/// Settings of weft_serve(). Initialise with WEFT_SERVE_OPTIONS_INIT; zero means the default.
struct weft_serve_options {
    size_t size;                              ///< sizeof(struct weft_serve_options)
    const struct weft_socket_options *socket; ///< borrowed; NULL: defaults
    size_t max_connections;                   ///< on each carrier; 0: as many as descriptors allow
    void (*ready)(void *arg, const struct weft_addr *addr); ///< called once, when all listen
    void *arg;
};
#define WEFT_SERVE_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(struct weft_serve_options), NULL, 0, NULL, NULL                                     \
    }

/// Serves an address on every carrier: a listener each (SO_REUSEPORT), and a virtual thread per
/// connection that runs `handler(conn)` on the carrier that accepted it. With `max_connections`, and on
/// Unix sockets, the carriers accept from one socket instead, so that a peer comes to one that has room.
/// The handler closes the connection; what it returns is ignored. Handlers on different carriers run in
/// parallel: what they share needs atomics or locks. Serves until the calling task is cancelled or the
/// runtime is shut down: then new peers are refused at once, and it returns when all handlers have ended.
///
/// It follows weft_runtime_resize(). On a carrier that is added it listens as well; if it cannot, the
/// log says why, and the others go on. On one that leaves it accepts whom the kernel has queued there,
/// then closes that listener; connections stay there until their handlers end. The kernel cannot take a
/// TCP listener out of its group before it is closed. So peers whose handshake is under way in that moment
/// are reset, unless net.ipv4.tcp_migrate_req (Linux 5.14) is on; where carriers accept from one socket
/// nobody is lost.
///
/// A second server on the port is refused (-EADDRINUSE), unless it has `reuseport` in its socket options and
/// runs as the same user; so should the first, which needs it with `max_connections` or a single carrier.
/// With `max_connections` who finds no room waits in the backlog, which all carriers share then.
///
/// Call from:  a virtual thread.
/// Errors:     -ECANCELED  the normal end
///             -EINVAL     no handler, or the options are not initialised
///             others as weft_listen() and weft_accept()
WEFT_API int weft_serve(const char *address, weft_fn handler,
                        const struct weft_serve_options *options);

// Connecting

/// Connects to an address such as "tcp://127.0.0.1:7000" or "unix:///run/x.sock".
///
/// Call from:  a virtual thread; the connection belongs to its carrier.
/// Errors:     -ETIMEDOUT, -ECANCELED; -ECONNREFUSED, -EHOSTUNREACH, ... as connect(2); the address
///             errors of weft_listen(); -EMFILE, -ENOMEM; -EPERM
WEFT_API WEFT_MUST_CHECK int weft_dial(weft_conn **conn, const char *address,
                                       const struct weft_socket_options *options,
                                       weft_time deadline);

/// Makes a connection of a connected socket. Takes the descriptor, unless it fails.
///
/// Call from:  a virtual thread; the connection belongs to its carrier.
/// Errors:     -ENOMEM, -ENOTSOCK, -ENOTCONN, -EPERM; -EPROTOTYPE  not a stream
WEFT_API WEFT_MUST_CHECK int weft_conn_adopt(weft_conn **conn, int fd);

// Reading

/// Waits until at least so many bytes are there and lends them: `in` stays valid until
/// weft_conn_consume(), or the next call that reads from this connection. It may hold more than
/// `at_least`. With `at_least` 0 it never waits, though it may yield.
///
/// Call from:  a virtual thread on the connection's carrier.
/// Returns:    the number of bytes lent (cut to INT_MAX); 0: the peer has closed and all is consumed
/// Errors:     -ETIMEDOUT, -ECANCELED  nothing is lost: ask again
///             -EAGAIN    `at_least` is 0 and there is nothing
///             -ENODATA   the peer has closed in the middle; `in` is what there is
///             -EMSGSIZE  `at_least` is above the limit (weft_conn_set_limits); more may be lent than
///                        that, so check the length of what you parse
///             -ECONNRESET, ...  as recv(2), after the bytes that arrived before it
///             -ENOMEM    no memory to bring them into one place
///             -EBADF     another task has closed the connection
///             -EXDEV, -EPERM; -EBUSY another task reads
///
/// A cancelled task starts nothing: it gets -ECANCELED also when bytes are there, or a peer that keeps
/// sending could keep it from ending. Bytes that come while it waits win over a cancel that comes later.
/// In a drain, whoever wants to answer what has arrived looks inside a work guard:
///
///     weft_work_begin();
///     while (weft_conn_peek(conn, &in, 0, deadline) > 0) { ... }
///     weft_work_end();
///
/// A parser that has not found what it looks for asks for one byte more than it has:
///
///     while ((rc = weft_conn_peek(conn, &in, want, deadline)) > 0) {
///         const char *end = memchr(in.data, '\n', in.size);
///         want = end != NULL ? 1 : in.size + 1; // -EMSGSIZE above the limit
///         if (end != NULL) {
///             handle_line(in.data, end - in.data);
///             weft_conn_consume(conn, end - in.data + 1);
///         }
///     }
WEFT_API WEFT_MUST_CHECK int weft_conn_peek(weft_conn *conn, struct weft_slice *in, size_t at_least,
                                            weft_time deadline);

/// Gives `size` bytes of what was lent back; the rest comes first in the next peek.
WEFT_API void weft_conn_consume(weft_conn *conn, size_t size);

/// Fills the caller's memory: first with what is buffered, then, for large amounts, straight from the
/// socket without another copy.
///
/// Call from:  a virtual thread on the connection's carrier.
/// Returns:    `size`; less if the peer closed, or if the call was interrupted after some bytes (the
///             next call then says why); 0 at the end
/// Errors:     as weft_conn_peek(), with no byte taken
WEFT_API WEFT_MUST_CHECK int64_t weft_conn_read_into(weft_conn *conn, void *data, size_t size,
                                                     weft_time deadline);

// Writing

/// Queues a copy of the bytes. Waits while more than the output limit is queued; then takes all of
/// them. What goes wrong later shows in a later call.
///
/// Call from:  a virtual thread on the connection's carrier.
/// Returns:    0
/// Errors:     -ETIMEDOUT, -ECANCELED, -ENOMEM  nothing was queued
///             -EPIPE, -ECONNRESET, ...  the connection is broken, or was shut for writing
///             -EBADF  another task has closed the connection
///             -EXDEV, -EPERM; -EBUSY another task waits to write
WEFT_API WEFT_MUST_CHECK int weft_conn_write(weft_conn *conn, const void *data, size_t size,
                                             weft_time deadline);

/// Called when borrowed bytes are the owner's again: sent, or dropped because the connection broke or
/// was closed. Runs on the connection's carrier and must not block.
typedef void (*weft_release_fn)(void *arg);

/// Queues the bytes themselves: they must not change until `release(arg)` is called, which happens
/// exactly once if this returns 0, and never otherwise. See `zero_copy_bytes` of the limits
/// for sending them without a copy. `release` may be NULL for bytes that live for ever.
///
/// Call from, Returns, Errors: as weft_conn_write()
WEFT_API WEFT_MUST_CHECK int weft_conn_write_ref(weft_conn *conn, const void *data, size_t size,
                                                 weft_release_fn release, void *arg,
                                                 weft_time deadline);

/// Waits until everything queued is with the kernel.
///
/// Errors:     -ETIMEDOUT, -ECANCELED  what is left stays queued; others as weft_conn_write()
WEFT_API WEFT_MUST_CHECK int weft_conn_flush(weft_conn *conn, weft_time deadline);

/// Sends what is queued and then the end of the stream; reading goes on (half-close).
///
/// Errors:     as weft_conn_flush(); -ENOTCONN after a reset
WEFT_API WEFT_MUST_CHECK int weft_conn_finish(weft_conn *conn, weft_time deadline);

// The connection itself

/// Limits of one connection; zero means the default.
struct weft_conn_limits {
    size_t frame_bytes;     ///< the largest `at_least` of a peek; 16 MiB; at most 1 GiB
    size_t output_bytes;    ///< writers wait while so much is queued; 256 KiB
    size_t zero_copy_bytes; ///< references from this size on are sent without a copy; never. Worth
                            ///< it on a network card for some 100 KiB, never over loopback
    weft_time linger_ns;    ///< how long closing waits for queued bytes to be sent; 5 s
    weft_time discard_ns;   ///< how long a closed connection still drops what its peer sends; 2 s
    size_t discard_bytes;   ///< and how much of it; 16 MiB
};
WEFT_API void weft_conn_set_limits(weft_conn *conn, const struct weft_conn_limits *limits);

/// Sends what is queued (for at most the linger time), closes and frees. NULL is fine. A task
/// that waits in it gets -EBADF; nobody may use it afterwards.
///
/// If a TCP peer was answered and has sent more than was read, closing at once would reset the
/// connection, and the peer might never see the end of the answer. Then the socket is shut for writing
/// and stays open in the background: what the peer sends is dropped until it closes, too, or the
/// `discard` limits are reached. The caller does not wait for that; a runtime that ends does, for a
/// moment.
///
/// Call from:  a virtual thread on its carrier. Never a cancellation point.
/// Returns:    0; what went wrong with bytes still queued, -ETIMEDOUT if they were not sent in time (or
///             a shutdown was forced: weft_shutdown_request()),
///             -ECONNABORTED if another task aborted meanwhile; it is closed all the same
/// Errors:     -EXDEV, -EPERM: nothing happened; -EBADF: another task closes it
WEFT_API int weft_conn_close(weft_conn *conn);

/// Closes at once, drops what is queued, and tells a TCP peer by a reset. While another task waits in
/// weft_conn_close() it ends that wait.
///
/// Call from:  as weft_conn_close()
WEFT_API int weft_conn_abort(weft_conn *conn);

/// Hands the connection to another carrier; afterwards only tasks there may use it. Waits until what
/// is queued has been sent and references are released; received bytes move along.
///
/// Call from:  a virtual thread on its present carrier, while no other task uses it.
/// Errors:     -EINVAL  no such carrier; -EBUSY; -ETIMEDOUT, -ECANCELED, -ENOMEM: it stays here
WEFT_API WEFT_MUST_CHECK int weft_conn_move(weft_conn *conn, int carrier, weft_time deadline);

/// The socket, borrowed: for options and statistics, not for reading, writing or closing.
WEFT_API int weft_conn_fd(const weft_conn *conn);

/// The addresses of both ends.
WEFT_API int weft_conn_peer(const weft_conn *conn, struct weft_addr *addr);
WEFT_API int weft_conn_local(const weft_conn *conn, struct weft_addr *addr);

WEFT_END_DECLS

#endif
