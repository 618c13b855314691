// sim_net.h - the network inside a simulation, which all its carriers share.
//
// One OS thread: no locks and no atomics. Its files, from the bottom up:
//
//     sim_net.c       slots, descriptors, time: the events under way and whom they reach
//     sim_name.c      addresses, ports, and which socket is meant by one
//     sim_stream.c    connections: segments, windows, half-close, reset, accept queues
//     sim_datagram.c  messages that stand alone
//     sim_transfer.c  what an operation does with a socket, or that it has to wait;
//                     sim_receive.c, sim_send.c
//     sim_ops.c       the driver's operations: waiting, ending, cancelling; sim_buffers.c
//     sim_socket.c    the socket calls of the driver; sim_option.c their options
//
//   N1  Events, connections and descriptors name a socket by slot and generation, never by address.
//       So a socket is freed when its last descriptor is closed, and what is still under way to it
//       finds nobody there, as on a real network.
//   N2  Whatever takes time is an event in one heap, ordered by time and then by birth.
//   N3  All chance comes from net->rng, and everything that happens is mixed into the trace hash.
//   N4  Nothing here calls done() but poll(): ops that have ended stand in their carrier's `ready`.
//   N5  Whoever changes a socket touches it (weft__sim_touch); waiting ops are tried again in
//       weft__sim_settle(), which ends every call into the network. So no change is seen half done.
//   N6  When memory runs out in the middle of something, the run is over: net->error.
#ifndef WEFT_RUNTIME_SIM_NET_H
#define WEFT_RUNTIME_SIM_NET_H

#include <sys/socket.h>
#include <sys/uio.h>

#include <weft/sim.h>

#include "base/assert.h"
#include "runtime/sim_name.h"
#include "sched/clock.h"
#include "sched/driver.h"

/// The first simulated descriptor: far above every real one.
#define WEFT__SIM_FD (1 << 28)

/// What an op gets that has to wait.
#define WEFT__SIM_WAIT INT64_MIN

/// As many options as sim_option.c knows.
#define WEFT__SIM_OPTIONS 48

struct weft__sim_carrier;
struct weft__sim_net;

/// A socket; generation 0 is nobody.
struct weft__sim_ref {
    uint32_t slot;
    uint32_t generation;
};

/// Bytes under way or waiting to be read: a segment of a stream, or a message.
struct weft__sim_chunk {
    struct weft__sim_chunk *next;
    size_t size;
    size_t taken; // of a stream: read already
    struct weft__sim_name from;
    struct weft__sim_name to;     // of a UDP datagram
    struct weft__sim_ref *rights; // sockets on their way to another owner; each counts in `holders`
    uint32_t rights_count;
    unsigned char data[];
};

enum weft__sim_event_kind {
    WEFT__SIM_DATA,        // chunk of a connection
    WEFT__SIM_FIN,         // the other side writes no more
    WEFT__SIM_RST,         //
    WEFT__SIM_ACK,         // `amount` bytes have been read
    WEFT__SIM_SYN,         // `from` wants to connect to its peer_name; `serial`, `amount`: attempts
    WEFT__SIM_ESTABLISHED, // `from` is what a connecting socket is now connected to; `serial`
    WEFT__SIM_REFUSED,     // `error` for a connecting socket; `serial`
    WEFT__SIM_DATAGRAM,    // chunk, to whoever is there
    WEFT__SIM_UNREACHED,   // nobody was
    WEFT__SIM_NOTIFY,      // the bytes of `op` are its owner's again
};

struct weft__sim_event {
    weft_time when;
    uint64_t number;
    uint8_t kind;
    int error;
    uint32_t serial;
    size_t amount;
    struct weft__sim_ref to;
    struct weft__sim_ref from;
    struct weft__sim_chunk *chunk;
    struct weft__op *op;
};

enum weft__sim_state {
    WEFT__SIM_IDLE, // also: a stream that was not connected yet, and every datagram socket
    WEFT__SIM_LISTENING,
    WEFT__SIM_CONNECTING,
    WEFT__SIM_CONNECTED,
    WEFT__SIM_DEAD, // was connected, and reset
};

struct weft__sim_option {
    uint8_t size; // 0: never set
    unsigned char value[16];
};

/// As many groups as the kernel lets a socket join.
#define WEFT__SIM_GROUPS 20
struct weft__sim_group {
    bool joined;
    uint8_t ip[16];
};

struct weft__sim_socket {
    struct weft__sim_ref self;
    int domain;
    int type;
    int protocol;
    uint8_t state;    // enum weft__sim_state
    bool bound;       // its local name is taken
    uint32_t holders; // descriptors, and rights under way
    struct weft__sim_name local;
    struct weft__sim_name peer_name;
    struct weft__sim_option options[WEFT__SIM_OPTIONS];
    size_t send_bytes;    // SO_SNDBUF
    size_t receive_bytes; // SO_RCVBUF

    // A connection.
    struct weft__sim_ref peer;
    uint32_t serial;      // counts connects: events of an earlier one mean nothing
    weft_time connect_by; // then a connect gives up
    bool fin_sent;
    bool fin_received;
    bool deaf;                   // read no more: SHUT_RD
    int error;                   // for the next call, once
    size_t outstanding;          // sent, and not read by the peer yet
    struct weft__sim_event *ack; // under way to the peer

    // Receiving.
    uint32_t messages; // of a Unix datagram socket: under way to it, or not read yet
    struct weft__sim_chunk *first;
    struct weft__sim_chunk **last;
    size_t queued;
    weft_time arrival;   // of the last thing that is under way to here
    weft_time departure; // of a datagram socket: arrival of the last one sent
    weft_time cut_until;

    struct weft__sim_group *groups; // multicast, of a UDP socket; NULL: none was ever joined

    // Listening: the connections that nobody has accepted yet, linked by their own `next`.
    int backlog;
    int waiting;
    struct weft__sim_socket *accepts;
    struct weft__sim_socket *next;

    // Ops that wait, in the order in which they came.
    struct weft__op *readers; // and accepts
    struct weft__op *writers; // and connects
    struct weft__op *pollers;
    bool stuck; // a writer waits for another socket than its peer: a full backlog or queue

    struct weft__sim_socket *touched_next;
    bool touched;
};

struct weft__sim_slot {
    struct weft__sim_socket *socket; // NULL: free
    uint32_t generation;
    uint32_t next_free;
};

struct weft__sim_net {
    struct weft_sim_net options; // with defaults
    const struct weft_allocator *allocator;
    struct weft__sim_clock *clock;
    struct weft__rng rng;
    struct weft__sim_carrier *carriers;
    int carrier_count;
    int error; // N6

    struct weft__sim_slot *slots;
    size_t slot_room;
    uint32_t slot_count;
    uint32_t free_slot; // number + 1; 0: none

    struct weft__sim_ref *descriptors;
    size_t descriptor_room;
    uint32_t descriptor_count; // the highest ever used
    uint32_t open_descriptors;
    uint32_t lowest_free; // none below is free

    struct weft__sim_event **events; // a heap
    size_t event_count;
    size_t event_room;
    uint64_t events_born;

    struct weft__sim_socket *touched_first;
    struct weft__sim_socket **touched_last;
    unsigned stuck;      // sockets that are
    uint32_t names_made; // of unix sockets that asked for one
};

// sim_net.c

/// Starts a network, of which options, clock and rng are set, for `count` carriers, whose states it
/// fills in. Undone by weft__sim_net_close().
void weft__sim_net_open(struct weft__sim_net *net, struct weft__sim_carrier *carriers, int count,
                        const struct weft__driver_config *config);

/// Frees sockets and what is under way. Ops that are in flight are forgotten: their memory may be
/// gone.
void weft__sim_net_close(struct weft__sim_net *net);

/// When the next event arrives, or WEFT_FOREVER.
weft_time weft__sim_net_next(const struct weft__sim_net *net);

/// Lets everything arrive whose time has come.
void weft__sim_net_arrive(struct weft__sim_net *net);

/// Draws: true in so many of a million cases.
bool weft__sim_chance(struct weft__sim_net *net, uint32_t per_million);

/// Draws a number up to and including `most`.
uint64_t weft__sim_upto(struct weft__sim_net *net, uint64_t most);

/// A new socket without a descriptor. NULL: no memory.
struct weft__sim_socket *weft__sim_socket_make(struct weft__sim_net *net, int domain, int type,
                                               int protocol);

/// Frees it, with what it has received. Its ops have ended.
void weft__sim_socket_free(struct weft__sim_net *net, struct weft__sim_socket *socket);

/// One holder less; the last one closes it (sim_socket.c).
void weft__sim_socket_release(struct weft__sim_net *net, struct weft__sim_socket *socket);

/// The socket, or NULL: it is gone.
struct weft__sim_socket *weft__sim_at(const struct weft__sim_net *net, struct weft__sim_ref ref);

/// The socket of a descriptor, or NULL.
struct weft__sim_socket *weft__sim_of_fd(const struct weft__sim_net *net, int fd);

/// Why there is none: -EBADF, or -ENOTSUP: the descriptor is not from here.
int weft__sim_bad_fd(int fd);

/// The lowest free descriptor, which now holds the socket. -EMFILE, -ENOMEM.
int weft__sim_fd_give(struct weft__sim_net *net, struct weft__sim_socket *socket);

/// Frees the number; the socket keeps its holder.
void weft__sim_fd_take(struct weft__sim_net *net, int fd);

struct weft__sim_chunk *weft__sim_chunk_make(struct weft__sim_net *net, size_t size);

/// With the rights in it.
void weft__sim_chunk_free(struct weft__sim_net *net, struct weft__sim_chunk *chunk);

/// A new event, to be sent. NULL: no memory, and the run is over (N6).
struct weft__sim_event *weft__sim_event_make(struct weft__sim_net *net, uint8_t kind,
                                             struct weft__sim_ref to, struct weft__sim_ref from);

/// Lets it arrive at `when`, or as soon as possible after.
void weft__sim_event_send(struct weft__sim_net *net, struct weft__sim_event *event, weft_time when);

/// How long a way takes, drawn for a socket of this domain.
weft_time weft__sim_delay(struct weft__sim_net *net, int domain);

/// Now and so much more, at most the end of time.
static inline weft_time weft__sim_after(const struct weft__sim_net *net, weft_time duration_ns)
{
    return weft__sim_later(net->clock, duration_ns);
}

static inline bool weft__sim_same(struct weft__sim_ref a, struct weft__sim_ref b)
{
    return a.slot == b.slot && a.generation == b.generation;
}

static inline bool weft__sim_is_stream(const struct weft__sim_socket *socket)
{
    return socket->type == SOCK_STREAM;
}

static inline bool weft__sim_is_connection(const struct weft__sim_socket *socket)
{
    return socket->type != SOCK_DGRAM;
}

static inline bool weft__sim_is_unix(const struct weft__sim_socket *socket)
{
    return socket->domain == AF_UNIX;
}

#endif
