// sim_name.h - addresses of the simulated network, and who is meant by one.
#ifndef WEFT_RUNTIME_SIM_NAME_H
#define WEFT_RUNTIME_SIM_NAME_H

#include <sys/socket.h>

#include "base/base.h"

struct weft__sim_net;
struct weft__sim_socket;

/// An address. IPv4 stands in its IPv6 form (::ffff:a.b.c.d), so that both compare.
struct weft__sim_name {
    uint16_t family; // AF_INET, AF_INET6, AF_UNIX, or AF_UNSPEC: no address
    uint16_t port;
    uint32_t scope;
    uint8_t ip[16];
    uint32_t path_size; // AF_UNIX; 0: unnamed
    char path[108];     // an abstract one begins with a zero byte
};

/// Reads an address for a socket of this domain and type. -EINVAL, -EAFNOSUPPORT.
int weft__sim_name_read(struct weft__sim_name *name, int domain, int type,
                        const struct sockaddr *addr, uint32_t size);

/// Writes the address as a socket of this domain sees it, cut to `*size`, which becomes its length.
void weft__sim_name_write(const struct weft__sim_name *name, int domain, void *addr,
                          uint32_t *size);

bool weft__sim_name_equal(const struct weft__sim_name *a, const struct weft__sim_name *b);

/// Gives the socket its local name, choosing a port or a name if there is none in it. -EADDRINUSE.
int weft__sim_bind(struct weft__sim_net *net, struct weft__sim_socket *socket,
                   const struct weft__sim_name *name);

/// Whether another socket has the local name of this one.
bool weft__sim_is_taken(struct weft__sim_net *net, const struct weft__sim_socket *socket);

/// Before something is sent: a port or a name, if it has none. -EADDRNOTAVAIL: all are taken.
int weft__sim_bind_any(struct weft__sim_net *net, struct weft__sim_socket *socket);

/// A destination that says "any" means this machine.
void weft__sim_name_aim(struct weft__sim_name *to);

/// Under which address the receiver `to` sees the socket.
struct weft__sim_name weft__sim_source(const struct weft__sim_socket *socket,
                                       const struct weft__sim_name *to);

/// Who listens there, or NULL. Of several one is drawn.
struct weft__sim_socket *weft__sim_find_listener(struct weft__sim_net *net,
                                                 const struct weft__sim_name *to);

/// Whom a UDP datagram reaches, or NULL. Of several one is drawn.
struct weft__sim_socket *weft__sim_find_receiver(struct weft__sim_net *net,
                                                 const struct weft__sim_name *to,
                                                 const struct weft__sim_name *from);

/// Whether it is the address of a group, and not of a socket.
bool weft__sim_is_group(const struct weft__sim_name *name);

/// Whether a datagram to the group reaches the socket.
bool weft__sim_in_group(const struct weft__sim_socket *socket, const struct weft__sim_name *group);

/// Joins or leaves a group.
int weft__sim_change_group(struct weft__sim_net *net, struct weft__sim_socket *socket,
                           const struct weft__sim_name *group, bool join);

/// The Unix socket of that name, or NULL.
struct weft__sim_socket *weft__sim_find_unix(struct weft__sim_net *net,
                                             const struct weft__sim_name *name);

#endif
