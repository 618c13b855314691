// sim_transfer.h - what receiving and sending on simulated sockets have in common.
//
//   T1  Data moves when the op is tried, which is when its result is fixed: a cancel that comes
//       later comes too late, and a send copies.
//   T2  A try that says WEFT__SIM_WAIT has changed nothing.
#ifndef WEFT_RUNTIME_SIM_TRANSFER_H
#define WEFT_RUNTIME_SIM_TRANSFER_H

#include "runtime/sim_ops.h"

/// The memory of an op.
struct weft__sim_memory {
    struct iovec one;
    const struct iovec *parts;
    size_t count;
    size_t total;
    struct msghdr *message; // or NULL
};

/// -EINVAL, -EMSGSIZE: too many parts; -ESPIPE: a socket has no positions.
int weft__sim_find_memory(struct weft__sim_memory *memory, const struct weft__op *op);

/// Copies between a flat piece and the op's memory from `offset` on.
void weft__sim_copy(const struct weft__sim_memory *memory, size_t offset, unsigned char *flat,
                    size_t size, bool into_memory);

/// MSG_*, if the op has them.
uint32_t weft__sim_flags(const struct weft__op *op);

/// WEFT__SIM_WAIT, or -EAGAIN if the op does not want that.
int64_t weft__sim_wait_or_again(const struct weft__op *op);

/// The error that the socket has for its next call, which is this one.
int64_t weft__sim_take_error(struct weft__sim_socket *socket);

/// Draws whether a transfer of `size` bytes is cut short.
size_t weft__sim_shorten(struct weft__sim_net *net, size_t size);

/// Tries the op. Sets result_flags but for MORE; returns its result or WEFT__SIM_WAIT.
int64_t weft__sim_try(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                      struct weft__op *op);

/// What poll() would say of the socket.
uint32_t weft__sim_events_of(const struct weft__sim_net *net,
                             const struct weft__sim_socket *socket);

// sim_receive.c, sim_send.c

int64_t weft__sim_try_receive(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                              struct weft__op *op);
int64_t weft__sim_try_send(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                           const struct weft__op *op);

#endif
