// weft/unix.h - what only Unix sockets can do: pass descriptors, and tell who is at the other end.
//
// These work on plain descriptors of connected Unix sockets of every kind (stream, datagram,
// seqpacket): your own, weft_conn_fd() or weft_dgram_fd().
#ifndef WEFT_UNIX_H
#define WEFT_UNIX_H

#include <weft/base.h>
#include <weft/time.h>

#include <sys/types.h>

WEFT_BEGIN_DECLS

/// How many descriptors one message carries at most.
#define WEFT_UNIX_FDS_MAX 253

/// Sends bytes, at least one, and with the first of them copies of `count` descriptors. The caller
/// keeps its own. On a stream fewer bytes than `size` may be sent: the descriptors went with them,
/// the rest is sent without.
///
/// Call from:  a virtual thread. On a weft_conn only while nothing is queued for writing.
/// Returns:    how many bytes were sent
/// Errors:     -ETIMEDOUT, -ECANCELED  nothing was sent
///             -EINVAL  `size` is 0, or `count` is above WEFT_UNIX_FDS_MAX
///             -EBADF  one of the descriptors is not open
///             -ETOOMANYREFS  too many descriptors are under way
///             -EPIPE, ...  as sendmsg(2); -EPERM
WEFT_API WEFT_MUST_CHECK int64_t weft_unix_send_fds(int fd, const void *data, size_t size,
                                                    const int *fds, size_t count,
                                                    weft_time deadline);

/// Receives bytes and the descriptors that came with them. `*count` is the room in `fds` and becomes
/// the number of descriptors stored there, which the caller owns; they are closed on exec. On every
/// error it is 0, and no descriptor stays open: neither is one that did not fit leaked.
///
/// Call from:  a virtual thread. Not on a weft_conn that was read with weft_conn_peek(), which
///             receives ahead and drops descriptors.
/// Returns:    how many bytes were received, 0 at the end; greater than `room`: the datagram or
///             packet was cut
/// Errors:     -ETIMEDOUT, -ECANCELED  nothing was taken
///             -EMSGSIZE  more descriptors came than there is room for; the message is lost
///             -EMFILE  not all of them could be opened here: too many are; the message is lost
///             others as recvmsg(2); -EPERM
WEFT_API WEFT_MUST_CHECK int64_t weft_unix_recv_fds(int fd, void *data, size_t room, int *fds,
                                                    size_t *count, weft_time deadline);

/// Who was at the other end when it was connected.
struct weft_unix_peer {
    pid_t pid; ///< as seen from here: 0 if the peer is in another process name space
    uid_t uid;
    gid_t gid;
};

/// Asks the kernel for the credentials of the process that connected, listened, or made the pair.
///
/// Call from:  a task.
/// Errors:     -EINVAL, -ENOTSOCK  not a Unix socket; -EBADF; -ENOTCONN; -EPERM outside a task
WEFT_API WEFT_MUST_CHECK int weft_unix_peer(struct weft_unix_peer *peer, int fd);

WEFT_END_DECLS

#endif
