// listener.h - a listening socket from the inside. Its carrier's alone, like a connection.
#ifndef WEFT_NET_LISTENER_H
#define WEFT_NET_LISTENER_H

#include "net/conn.h"
#include "net/socket.h"

struct weft__listener {
    struct weft__carrier *carrier;
    int fd;
    int spare_fd;  // given up when descriptors run out, to turn one peer away; -1: none
    bool borrowed; // the socket is another listener's
    bool one_each; // takes no more than it was asked for: others wait at the socket, too
    bool armed;    // the accept op is in flight
    bool closed;
    bool shedding; // the spare is given up for the next connection
    bool pausing;  // one was turned away: wait before the next
    bool ending;   // weft_accept() does not wait any more
    int error;     // of the accept op, to be dealt with by the next weft_accept()
    unsigned waiting_count;
    unsigned inside; // tasks in weft_accept()
    struct weft__wait *acceptor;
    struct weft__wait *closer;                 // waits for the accept op to end
    struct weft__conn *waiting, *waiting_last; // arrived and not yet asked for
    weft_time back_off_ns;
    struct weft__op accept;
    struct weft_listener_stats stats;
    struct weft__socket_file file; // of a Unix socket
    uint8_t kind;                  // enum weft_addr_kind
};

/// Listens; the calling virtual thread is on `carrier`.
int weft__listener_open(struct weft__listener **listener, struct weft__carrier *carrier,
                        const struct weft_addr *addr, const struct weft_socket_options *options);

/// Stops accepting until the next weft_accept(): peers wait in the backlog.
void weft__listener_pause(struct weft__listener *listener);

/// The same, and returns when it has: no peer comes any more, and none was half taken.
void weft__listener_stop(struct weft__listener *listener);

/// From now on weft_accept() takes what has arrived and does not wait: -EAGAIN when there is no more (L4).
/// Or, with false, waits again. On the listener's carrier.
void weft__listener_end(struct weft__listener *listener, bool ending);

/// An accept up to the point where it has to wait, by somebody who may: 0 and a connection, an error, or
/// WEFT__LEAF_WAITS: listener->acceptor is woken, or, if `*pause_ns` is not 0, ask again after that time.
int weft__listener_accept_now(struct weft__listener *listener, struct weft__conn **conn,
                              weft_time *pause_ns);

/// Another listener for the socket of `owner`, on another carrier; it ends before its owner does.
int weft__listener_share(struct weft__listener **listener, struct weft__carrier *carrier,
                         const struct weft__listener *owner);

#endif
