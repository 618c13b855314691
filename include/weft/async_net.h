// weft/async_net.h - the calls of weft/net.h and weft/dgram.h that wait, as futures: for state machines, and
// for several at a time.
//
//     struct weft_conn_future peek;
//     struct weft_slice in;
//     weft_conn_peek_future(&peek, conn, &in, 4);
//     struct weft_timeout timeout;
//     weft_timeout_init(&timeout, &peek.future, weft_after(WEFT_S));
//     int64_t n = weft_await(&timeout.future, WEFT_FOREVER);
//
// A future stands for a task that makes the call: while one reads, whoever else wants to read the same
// connection gets -EBUSY, and closing the connection ends it with -EBADF. It has no deadline of its own.
// From the first poll until READY it stays in place, and so do the memory and the handle it was given.
// Cancelling asks it to end: poll on until READY. Bytes and connections that came before win over the
// cancel.
//
// The first poll is made by a task on the carrier of the connection, listener or socket, a virtual thread that
// awaits or a future, which stays there from then on; later ones may come from anywhere. A task on another
// carrier or on a scheduler of the program's gets -EXDEV, and whoever is not a task -EPERM.
//
// Results are those of the calls, without -ETIMEDOUT. weft_conn_move(), closing,
// and of weft/dgram.h connecting, accepting and batches are for virtual threads only: what a future
// needs of them a thread does, whose end is a future (weft_join_future).
#ifndef WEFT_ASYNC_NET_H
#define WEFT_ASYNC_NET_H

#include <weft/base.h>
#include <weft/dgram.h>
#include <weft/future.h>
#include <weft/net.h>

WEFT_BEGIN_DECLS

/// Caller-owned; embed it, or await or spawn `&future.future`.
struct weft_conn_future {
    struct weft_future future;
    uint64_t opaque[28];
};

/// Waits until `at_least` bytes are there and lends them, as weft_conn_peek(). `*in` is written until
/// READY; then consume it with weft_conn_consume(), on the connection's carrier. The bytes are lent from
/// the moment it is woken: closing the connection, or another read of it, takes them back also if it was
/// not polled since. So only who polls it may do that.
WEFT_API void weft_conn_peek_future(struct weft_conn_future *future, weft_conn *conn,
                                    struct weft_slice *in, size_t at_least);

/// Fills the caller's memory, as weft_conn_read_into(), but always by way of receive buffers.
WEFT_API void weft_conn_read_into_future(struct weft_conn_future *future, weft_conn *conn,
                                         void *data, size_t size);

/// Waits while more than the output limit is queued, then queues a copy of the bytes, as
/// weft_conn_write(). They are read before it is READY.
WEFT_API void weft_conn_write_future(struct weft_conn_future *future, weft_conn *conn,
                                     const void *data, size_t size);

/// The same, but queues the bytes themselves, as weft_conn_write_ref(): if the result is 0, `release(arg)`
/// is called exactly once, perhaps before it is READY; otherwise never.
WEFT_API void weft_conn_write_ref_future(struct weft_conn_future *future, weft_conn *conn,
                                         const void *data, size_t size, weft_release_fn release,
                                         void *arg);

/// Waits until everything queued is with the kernel, as weft_conn_flush().
WEFT_API void weft_conn_flush_future(struct weft_conn_future *future, weft_conn *conn);

/// The same, and then sends the end of the stream, as weft_conn_finish().
WEFT_API void weft_conn_finish_future(struct weft_conn_future *future, weft_conn *conn);

/// Caller-owned; embed it, or await or spawn `&future.future`.
struct weft_listener_future {
    struct weft_future future;
    uint64_t opaque[28];
};

/// Waits for the next connection, as weft_accept(): `*conn` is the caller's when the result is 0, else
/// NULL.
WEFT_API void weft_listener_accept_future(struct weft_listener_future *future, weft_conn **conn,
                                          weft_listener *listener);

/// Caller-owned; embed it, or await or spawn `&future.future`.
struct weft_dial_future {
    struct weft_future future;
    uint64_t opaque[46];
};

/// Connects, as weft_dial(): `*conn` is the caller's when the result is 0, else NULL. It belongs to the
/// carrier of the task that polls it first. The address is copied; `options` (may be NULL) is read by the
/// first poll.
WEFT_API void weft_dial_future(struct weft_dial_future *future, weft_conn **conn,
                               const char *address, const struct weft_socket_options *options);

/// Caller-owned; embed it, or await or spawn `&future.future`.
struct weft_dgram_future {
    struct weft_future future;
    uint64_t opaque[60];
};

/// Receives one message, as weft_dgram_recv(). Any number of them may wait at a socket. Closing the socket
/// ends it with -EBADF.
WEFT_API void weft_dgram_recv_future(struct weft_dgram_future *future, weft_dgram *dgram,
                                     void *data, size_t room, struct weft_addr *from);

/// Sends one message, as weft_dgram_send() and weft_dgram_send_to(). `*to` is copied.
WEFT_API void weft_dgram_send_future(struct weft_dgram_future *future, weft_dgram *dgram,
                                     const void *data, size_t size);
WEFT_API void weft_dgram_send_to_future(struct weft_dgram_future *future, weft_dgram *dgram,
                                        const struct weft_addr *to, const void *data, size_t size);

WEFT_END_DECLS

#endif
