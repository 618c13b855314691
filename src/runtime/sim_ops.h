// sim_ops.h - the simulator as a driver: its state on a carrier, and ops that wait for sockets.
#ifndef WEFT_RUNTIME_SIM_OPS_H
#define WEFT_RUNTIME_SIM_OPS_H

#include "runtime/sim_net.h"

/// A receive buffer of a carrier.
struct weft__sim_buffer {
    void *memory; // NULL: was never used
    uint16_t next_free;
};

/// What the driver has for each carrier.
struct weft__sim_carrier {
    // The loop's (sim.c).
    bool asleep;
    bool kicked;
    weft_time until;
    weft_time free_at; // its last step is over

    int number;
    struct weft__sim_net *net;
    struct weft__op *ready; // ended, done() not called yet
    struct weft__op **ready_last;
    unsigned ready_count;
    struct weft__op *delivering; // of which done() is being called, and more will follow
    unsigned asked;              // ops that wait and shall end at the next poll
    bool buffers_came_back;
    struct weft__sim_buffer *buffers; // NULL: none was asked for yet
    uint16_t free_buffer;             // the first free one, if there is any
    uint32_t free_count;
    uint32_t buffer_count;
    uint32_t buffer_bytes;
    struct weft__op_counts counts;
};

extern const struct weft__driver weft__sim_driver;

/// Its ops are worth another try (sim_net.h, N5). NULL is fine.
void weft__sim_touch(struct weft__sim_net *net, struct weft__sim_socket *socket);

/// Touches the sockets that wait for another one than their peer.
void weft__sim_touch_stuck(struct weft__sim_net *net);

/// Tries the ops of the sockets that were touched.
void weft__sim_settle(struct weft__sim_net *net);

/// The op is over, or has one more result: done() is called by its carrier's next poll.
void weft__sim_end(struct weft__sim_net *net, struct weft__op *op, int64_t result);

/// Ends what waits on the descriptor, on every carrier: it is being closed.
void weft__sim_end_all(struct weft__sim_net *net, struct weft__sim_socket *socket, int fd);

// sim_buffers.c

/// Before the first op with SELECT. -ENOMEM.
int weft__sim_buffers_make(struct weft__sim_carrier *carrier);
void weft__sim_buffers_free(struct weft__sim_carrier *carrier);

/// A receive buffer for an op with SELECT, and its number. NULL: all are out, which is counted.
void *weft__sim_buffer_take(struct weft__sim_carrier *carrier, uint16_t *number);
void weft__sim_buffer_give(struct weft__sim_carrier *carrier, uint16_t number);

#endif
