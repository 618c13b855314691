// weft/dgram.h - sockets that keep messages apart: UDP, Unix datagrams and Unix sequenced packets.
//
// A socket belongs to the carrier of the task that made it: calls from tasks elsewhere return -EXDEV.
// There, any number of tasks may send and receive on it at once.
//
// A message that is longer than the room for it is cut, and the rest is lost: the length that is
// reported is that of the whole message, so a length greater than the room says so.
#ifndef WEFT_DGRAM_H
#define WEFT_DGRAM_H

#include <weft/addr.h>
#include <weft/base.h>
#include <weft/socket.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/// A message socket of one carrier.
typedef struct weft__dgram weft_dgram;

/// Makes a socket that is bound to an address such as "udp://127.0.0.1:5000", "udp://*:0",
/// "unixgram:///run/log.sock" or "unixgram://" (a free abstract name); see weft_addr_parse().
/// On a "unixpacket://" address it listens: weft_dgram_accept(). `options` may be NULL. An address that is
/// in use is tried again for a quarter of a second, as by weft_listen().
///
/// Call from:  a virtual thread; the socket belongs to its carrier.
/// Errors:     -EPROTONOSUPPORT  the address is one of a stream; others as weft_addr_parse()
///             -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, ...  as bind(2)
///             -ECANCELED  the calling task was cancelled while the address was in use
///             -EINVAL, ...  an option cannot be set: weft_socket_options.failed
///             -EMFILE, -ENFILE, -ENOMEM; -EPERM outside a virtual thread
WEFT_API WEFT_MUST_CHECK int weft_dgram_bind(weft_dgram **dgram, const char *address,
                                             const struct weft_socket_options *options);

/// Makes a socket that is connected to an address: it sends to this peer and receives from no other,
/// and errors that the peer's machine reports show (-ECONNREFUSED). Only a "unixpacket://" address
/// makes it wait: while the listener's queue is full.
///
/// Call from:  a virtual thread; the socket belongs to its carrier.
/// Errors:     -ETIMEDOUT, -ECANCELED; -ECONNREFUSED, -ENOENT, ... as connect(2), for Unix sockets;
///             others as weft_dgram_bind()
WEFT_API WEFT_MUST_CHECK int weft_dgram_dial(weft_dgram **dgram, const char *address,
                                             const struct weft_socket_options *options,
                                             weft_time deadline);

/// Makes two Unix sockets that are connected to each other; `kind` is WEFT_ADDR_UNIXGRAM or
/// WEFT_ADDR_UNIXPACKET.
///
/// Call from:  a virtual thread; both belong to its carrier.
/// Errors:     -EINVAL another kind; -EMFILE, -ENFILE, -ENOMEM; -EPERM
WEFT_API WEFT_MUST_CHECK int weft_dgram_pair(weft_dgram *pair[2], enum weft_addr_kind kind);

/// Makes one of a descriptor: a UDP, Unix datagram or Unix seqpacket socket, inherited from the
/// parent process for instance. Takes the descriptor, unless it fails.
///
/// Call from:  a virtual thread; the socket belongs to its carrier.
/// Errors:     -ENOTSOCK, -EBADF; -EPROTONOSUPPORT another kind of socket; -ENOMEM; -EPERM
WEFT_API WEFT_MUST_CHECK int weft_dgram_adopt(weft_dgram **dgram, int fd);

/// Waits for the next peer of a socket that was bound to a "unixpacket://" address.
///
/// Call from:  a virtual thread on the socket's carrier.
/// Errors:     -ETIMEDOUT, -ECANCELED; -EMFILE, -ENFILE, -ENOMEM: the peer still waits
///             -EINVAL, -EOPNOTSUPP  the socket does not listen
///             -EXDEV, -EPERM; -EBADF the socket was closed meanwhile
WEFT_API WEFT_MUST_CHECK int weft_dgram_accept(weft_dgram **peer, weft_dgram *dgram,
                                               weft_time deadline);

/// Connects a bound socket, or connects it anew. `addr` NULL: ends that, and it receives from
/// everyone again. Not for "unixpacket://".
///
/// Call from:  a virtual thread on the socket's carrier.
/// Errors:     -EINVAL  another kind of address; others as weft_dgram_dial(); -EXDEV, -EPERM
WEFT_API WEFT_MUST_CHECK int weft_dgram_connect(weft_dgram *dgram, const struct weft_addr *addr,
                                                weft_time deadline);

/// Receives one message, and stores who sent it in `*from` (may be NULL; WEFT_ADDR_NONE if the sender
/// has no name, or the socket is one of a connected pair).
///
/// Call from:  a virtual thread on the socket's carrier.
/// Returns:    the length of the message; greater than `room`: it was cut. Of a "unixpacket://"
///             socket 0 means that the peer has closed; of others, that the message was empty.
/// Errors:     -ETIMEDOUT, -ECANCELED  no message was taken
///             -ECONNREFUSED, -EHOSTUNREACH, ...  what became of an earlier message of a connected
///             socket; the socket is as good as before
///             -EXDEV, -EPERM; -EBADF the socket was closed meanwhile
WEFT_API WEFT_MUST_CHECK int64_t weft_dgram_recv(weft_dgram *dgram, void *data, size_t room,
                                                 struct weft_addr *from, weft_time deadline);

/// Sends one message to the peer of a connected socket. It is taken as a whole or not at all.
///
/// Call from:  a virtual thread on the socket's carrier.
/// Returns:    0
/// Errors:     -ETIMEDOUT, -ECANCELED, -ENOBUFS  it was not sent
///             -EMSGSIZE  it is too long
///             -EDESTADDRREQ, -ENOTCONN  there is no peer: weft_dgram_send_to()
///             -EINVAL  an empty message on a "unixpacket://" socket, where that means the end
///             -ECONNREFUSED, ...  as weft_dgram_recv(); for Unix sockets also: the peer has closed
///             -EPIPE  the peer of a "unixpacket://" socket has closed
///             -EXDEV, -EPERM; -EBADF the socket was closed meanwhile
WEFT_API WEFT_MUST_CHECK int weft_dgram_send(weft_dgram *dgram, const void *data, size_t size,
                                             weft_time deadline);

/// Sends one message to `to`, from a socket that is not connected (a UDP one may be).
///
/// Call from, Returns, Errors: as weft_dgram_send(); -EINVAL if `to` is of another kind
WEFT_API WEFT_MUST_CHECK int weft_dgram_send_to(weft_dgram *dgram, const struct weft_addr *to,
                                                const void *data, size_t size, weft_time deadline);

/// One of several messages. What was received can be sent back as it is.
struct weft_dgram_message {
    void *data;            ///< the caller's
    size_t room;           ///< receiving: bytes at `data`
    size_t size;           ///< bytes of the message; received: greater than `room` if it was cut
    struct weft_addr addr; ///< who sent it, or whom to send it to; WEFT_ADDR_NONE: the peer
    /// UDP: `data` holds several datagrams of this many bytes, the last one may be shorter; 0: one.
    /// Sending needs Linux 4.18 and takes at most 64 of them and 65,507 bytes; received ones come so
    /// only with weft_socket_options.receive_gro.
    uint16_t segment_bytes;
};

/// Waits for at least one message and receives as many as are there, `count` at most.
///
/// Call from:  a virtual thread on the socket's carrier.
/// Returns:    how many; of a "unixpacket://" socket a last one of size 0 is the end
/// Errors:     as weft_dgram_recv(); -EINVAL if `count` is 0
WEFT_API WEFT_MUST_CHECK int weft_dgram_recv_batch(weft_dgram *dgram,
                                                   struct weft_dgram_message *messages,
                                                   unsigned count, weft_time deadline);

/// Sends `count` messages, in order, waiting for room in the socket's buffer.
///
/// Call from:  a virtual thread on the socket's carrier.
/// Returns:    how many were sent: all, or as many as went before an error, which the next call for
///             the rest reports if it persists
/// Errors:     as weft_dgram_send_to(), and no message was sent; -EINVAL if `count` is 0
WEFT_API WEFT_MUST_CHECK int weft_dgram_send_batch(weft_dgram *dgram,
                                                   const struct weft_dgram_message *messages,
                                                   unsigned count, weft_time deadline);

/// Joins or leaves a multicast group of UDP, on the interface of that name; NULL: the one that the
/// group's scope names, or the system's choice. What is sent to a group follows
/// weft_socket_options.multicast_*.
///
/// Call from:  a virtual thread on the socket's carrier.
/// Errors:     -EINVAL not a multicast address of UDP; -ENODEV no such interface
///             -EADDRINUSE already joined; -EADDRNOTAVAIL not joined; -EXDEV, -EPERM
WEFT_API WEFT_MUST_CHECK int weft_dgram_join(weft_dgram *dgram, const struct weft_addr *group,
                                             const char *device);
WEFT_API WEFT_MUST_CHECK int weft_dgram_leave(weft_dgram *dgram, const struct weft_addr *group,
                                              const char *device);

/// The address it is bound to, with the port or name that the system chose.
///
/// Call from:  a virtual thread on the socket's carrier.
/// Errors:     -EXDEV, -EPERM; others as getsockname(2). On every error `*addr` is zeroed.
WEFT_API int weft_dgram_local(const weft_dgram *dgram, struct weft_addr *addr);

/// The address it is connected to. The same, and -ENOTCONN.
WEFT_API int weft_dgram_peer(const weft_dgram *dgram, struct weft_addr *addr);

/// The descriptor, borrowed: for options, and for weft_unix_send_fds() and weft_unix_recv_fds(). Not
/// for closing.
WEFT_API int weft_dgram_fd(const weft_dgram *dgram);

/// Closes and frees. Tasks that wait in it get -EBADF, and are waited for; the address is free
/// afterwards. NULL is fine.
///
/// Call from:  a virtual thread on the socket's carrier. Never a cancellation point.
/// Errors:     -EXDEV, -EPERM: nothing happened; -EBADF: another task closes it
WEFT_API int weft_dgram_close(weft_dgram *dgram);

WEFT_END_DECLS

#endif
