// dgram.h - a message socket from the inside.
//
// Touched by its carrier's thread only.
//
//   G1  `users` counts the tasks that are inside a call. Closing ends their ops and waits until it is
//       0, so nobody touches the socket, or its descriptor's number, after that.
//   G2  A closed socket starts no op: whoever loops looks at `closed` first.
#ifndef WEFT_NET_DGRAM_H
#define WEFT_NET_DGRAM_H

#include <sys/socket.h>
#include <sys/uio.h>

#include <weft/dgram.h>

#include "io/call.h"
#include "net/socket.h"

/// Room for one control message with an int, the largest that we send or ask for.
struct weft__control {
    _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(int))];
};

/// A message as the kernel wants it; its owner keeps it where it is.
struct weft__envelope {
    struct iovec vector;
    struct weft__control control;
};

struct weft__dgram {
    struct weft__carrier *carrier;
    struct weft__wait *closer; // waits for `users` to be 0
    int fd;
    uint32_t users; // G1
    uint8_t kind;   // enum weft_addr_kind
    bool closed;
    struct weft__socket_file file;
};

/// The running virtual thread, if it may use the socket, and then it is a user until
/// weft__dgram_leave(); else NULL and the error in `*rc`.
struct weft__task *weft__dgram_enter(struct weft__dgram *dgram, int *rc);
void weft__dgram_leave(struct weft__dgram *dgram);

/// One op on the socket, from start to end, by a user. As weft__call(); -EBADF if it is closed.
int64_t weft__dgram_call(struct weft__dgram *dgram, struct weft__call *call, const char *what,
                         weft_time deadline);

/// What the driver may do with an op on the socket: weft__op.mode.
static inline uint8_t weft__dgram_mode(const struct weft__dgram *dgram)
{
    // Of Unix datagrams only a plain descriptor: see send_flags() in io/uring_submit.c.
    return dgram->kind != WEFT_ADDR_UNIXGRAM ? WEFT__OP_MANAGED : 0;
}

/// Whether messages may go to this address from the socket; NONE: to the peer.
bool weft__dgram_takes(const struct weft__dgram *dgram, const struct weft_addr *to);

// dgram_io.c

/// Whether the socket can take the message at all: 0 or -EINVAL.
int weft__dgram_check(const struct weft__dgram *dgram, const struct weft_dgram_message *message);

/// Prepares for sending.
void weft__dgram_seal(struct msghdr *header, struct weft__envelope *envelope,
                      const struct weft_dgram_message *message);

/// Prepares for receiving. The name goes into the message's own address, whose first bytes are a
/// sockaddr_storage.
void weft__dgram_lay_out(struct msghdr *header, struct weft__envelope *envelope,
                         struct weft_dgram_message *message, bool udp);

/// Fills in what was received. A sender whose address we have no form for, or that has none, is
/// WEFT_ADDR_NONE.
void weft__dgram_open_up(struct weft_dgram_message *message, struct msghdr *header, size_t size,
                         enum weft_addr_kind kind);

#endif
