// dgram.h - a message socket from the inside.
//
// Touched by its carrier's thread only.
//
//   G1  `users` counts the tasks that are inside a call. Closing ends their ops and waits until it is
//       0, so nobody touches the socket, or its descriptor's number, after that.
//   G2  A closed socket starts no op: whoever loops looks at `closed` first.
#ifndef WEFT_NET_DGRAM_H
#define WEFT_NET_DGRAM_H

#include <weft/dgram.h>

#include "io/call.h"
#include "net/socket.h"

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

/// Whether messages may go to this address from the socket; NONE: to the peer.
bool weft__dgram_takes(const struct weft__dgram *dgram, const struct weft_addr *to);

#endif
