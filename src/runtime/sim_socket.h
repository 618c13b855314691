// sim_socket.h - socket calls of the simulator and their options.
#ifndef WEFT_RUNTIME_SIM_SOCKET_H
#define WEFT_RUNTIME_SIM_SOCKET_H

#include "runtime/sim_net.h"

extern const struct weft__sockets weft__sim_sockets;

int weft__sim_option_set(struct weft__sim_net *net, struct weft__sim_socket *socket, int level,
                         int name, const void *value, uint32_t size);
int weft__sim_option_get(struct weft__sim_net *net, struct weft__sim_socket *socket, int level,
                         int name, void *value, uint32_t *size);

/// The number of an option that was set, or 0.
int weft__sim_option(const struct weft__sim_socket *socket, int level, int name);

/// SO_LINGER with no time: closing resets.
bool weft__sim_lingers_not(const struct weft__sim_socket *socket);

#endif
