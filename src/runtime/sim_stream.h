// sim_stream.h - what crosses the simulated network: connections and datagrams.
#ifndef WEFT_RUNTIME_SIM_STREAM_H
#define WEFT_RUNTIME_SIM_STREAM_H

#include "runtime/sim_net.h"

// sim_stream.c

/// Starts or completes a connect. `again`: the op has waited. 0, an error, or WEFT__SIM_WAIT.
int64_t weft__sim_connect(struct weft__sim_net *net, struct weft__sim_socket *socket,
                          const struct weft__sim_name *to, bool again);

/// Gives up connecting.
void weft__sim_disconnect(struct weft__sim_net *net, struct weft__sim_socket *socket);

/// Connects two new sockets.
void weft__sim_join(struct weft__sim_socket *a, struct weft__sim_socket *b);

/// Takes the first connection out of the accept queue, or NULL.
struct weft__sim_socket *weft__sim_accept(struct weft__sim_net *net,
                                          struct weft__sim_socket *listener);

/// Sends the connection's end a reset, and frees it: nobody has accepted it.
void weft__sim_abort(struct weft__sim_net *net, struct weft__sim_socket *socket);

/// Nobody listens any more: those who wait in the queue are reset.
void weft__sim_unlisten(struct weft__sim_net *net, struct weft__sim_socket *listener);

/// How many bytes may be sent now; 0 if the window is full.
size_t weft__sim_window(const struct weft__sim_net *net, const struct weft__sim_socket *socket);

/// Sends a chunk to the peer.
void weft__sim_send_chunk(struct weft__sim_net *net, struct weft__sim_socket *socket,
                          struct weft__sim_chunk *chunk);

/// Tells the peer that so many bytes have been read.
void weft__sim_acknowledge(struct weft__sim_net *net, struct weft__sim_socket *socket, size_t size);

/// Writes no more.
void weft__sim_send_fin(struct weft__sim_net *net, struct weft__sim_socket *socket);

/// The last holder has gone: says so to the other end.
void weft__sim_hang_up(struct weft__sim_net *net, struct weft__sim_socket *socket);

/// Arrivals.
void weft__sim_stream_arrives(struct weft__sim_net *net, struct weft__sim_event *event);

// sim_datagram.c

/// Sends one message; takes the chunk if the result is not WEFT__SIM_WAIT. 0 or an error.
int64_t weft__sim_send_message(struct weft__sim_net *net, struct weft__sim_socket *socket,
                               const struct weft__sim_name *to, struct weft__sim_chunk *chunk);

/// A datagram socket remembers whom it talks to.
int weft__sim_associate(struct weft__sim_net *net, struct weft__sim_socket *socket,
                        const struct weft__sim_name *to);

/// Whether the peer of a connected one could take a message.
bool weft__sim_peer_has_room(const struct weft__sim_net *net,
                             const struct weft__sim_socket *socket);

/// It waits for another socket: weft__sim_touch_stuck().
void weft__sim_stick(struct weft__sim_net *net, struct weft__sim_socket *socket);

void weft__sim_datagram_arrives(struct weft__sim_net *net, struct weft__sim_event *event);

#endif
