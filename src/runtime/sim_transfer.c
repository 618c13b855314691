// sim_transfer.c - what an operation does with a simulated socket, or that it has to wait.

#include "runtime/sim_transfer.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "runtime/sim_stream.h"

/// The kernel's UIO_MAXIOV.
#define MOST_PARTS 1024

int weft__sim_find_memory(struct weft__sim_memory *memory, const struct weft__op *op)
{
    *memory = (struct weft__sim_memory){ .one = { op->data, op->size },
                                         .parts = &memory->one,
                                         .count = 1 };
    if (op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV) {
        memory->parts = op->data;
        memory->count = op->size;
    } else if (op->code == WEFT__OP_RECVMSG || op->code == WEFT__OP_SENDMSG) {
        memory->message = op->data;
        memory->parts = memory->message->msg_iov;
        memory->count = memory->message->msg_iovlen;
    }
    if (memory->count > MOST_PARTS) {
        return memory->message != NULL ? -EMSGSIZE : -EINVAL;
    }
    for (size_t i = 0; i < memory->count; i++) {
        if (memory->parts[i].iov_len > INT64_MAX - memory->total) {
            return -EINVAL;
        }
        memory->total += memory->parts[i].iov_len;
    }
    bool plain = op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE ||
                 op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV;
    return plain && op->offset >= 0 ? -ESPIPE : 0;
}

void weft__sim_copy(const struct weft__sim_memory *memory, size_t offset, unsigned char *flat,
                    size_t size, bool into_memory)
{
    for (size_t i = 0; i < memory->count && size > 0; i++) {
        const struct iovec *part = &memory->parts[i];
        if (offset >= part->iov_len) {
            offset -= part->iov_len;
            continue;
        }
        size_t here = part->iov_len - offset < size ? part->iov_len - offset : size;
        unsigned char *at = (unsigned char *)part->iov_base + offset;
        memcpy(into_memory ? at : flat, into_memory ? flat : at, here);
        flat += here;
        size -= here;
        offset = 0;
    }
}

uint32_t weft__sim_flags(const struct weft__op *op)
{
    bool has_flags = op->code == WEFT__OP_RECV || op->code == WEFT__OP_SEND ||
                     op->code == WEFT__OP_SEND_ZC || op->code == WEFT__OP_RECVMSG ||
                     op->code == WEFT__OP_SENDMSG;
    return has_flags ? op->flags : 0;
}

int64_t weft__sim_wait_or_again(const struct weft__op *op)
{
    return (weft__sim_flags(op) & MSG_DONTWAIT) != 0 ? -EAGAIN : WEFT__SIM_WAIT;
}

int64_t weft__sim_take_error(struct weft__sim_socket *socket)
{
    int error = socket->error;
    socket->error = 0;
    return -error;
}

size_t weft__sim_shorten(struct weft__sim_net *net, size_t size)
{
    bool cut = size > 1 && weft__sim_chance(net, net->options.short_per_million);
    return cut ? 1 + (size_t)weft__sim_upto(net, size - 2) : size;
}

// What neither receives nor sends.

static int64_t try_connect(struct weft__sim_net *net, struct weft__sim_socket *socket,
                           const struct weft__op *op)
{
    struct weft__sim_name to;
    int rc = weft__sim_name_read(&to, socket->domain, socket->type, op->data, (uint32_t)op->size);
    if (rc < 0) {
        return rc;
    }
    if (socket->type == SOCK_DGRAM) {
        return weft__sim_associate(net, socket, &to);
    }
    if (to.family == AF_UNSPEC) {
        return -EAFNOSUPPORT;
    }
    return weft__sim_connect(net, socket, &to, op->stage != 0);
}

static int64_t try_accept(struct weft__sim_net *net, struct weft__sim_socket *listener,
                          const struct weft__op *op)
{
    if (listener->state != WEFT__SIM_LISTENING) {
        return weft__sim_is_connection(listener) ? -EINVAL : -EOPNOTSUPP;
    }
    if (net->open_descriptors >= net->options.descriptors) {
        return -EMFILE; // as the kernel: before it looks for a connection
    }
    if (listener->accepts == NULL) {
        return WEFT__SIM_WAIT;
    }
    if (weft__sim_chance(net, net->options.accept_error_per_million)) {
        if (weft__rng_below(&net->rng, 2) == 0) {
            return -EMFILE;
        }
        weft__sim_abort(net, weft__sim_accept(net, listener));
        return -ECONNABORTED;
    }
    int fd = weft__sim_fd_give(net, listener->accepts);
    if (fd >= 0) {
        const struct weft__sim_socket *socket = weft__sim_accept(net, listener);
        if (op->data != NULL && op->addr_size != NULL) {
            weft__sim_name_write(&socket->peer_name, socket->domain, op->data, op->addr_size);
        }
    }
    return fd;
}

uint32_t weft__sim_events_of(const struct weft__sim_net *net, const struct weft__sim_socket *socket)
{
    uint32_t events = socket->error != 0 ? POLLERR : 0;
    if (socket->state == WEFT__SIM_LISTENING) {
        return events | (socket->accepts != NULL ? POLLIN | POLLRDNORM : 0);
    }
    bool dead = socket->state == WEFT__SIM_DEAD;
    bool ended = socket->fin_received || socket->deaf || dead;
    if (socket->first != NULL || ended || socket->error != 0) {
        events |= POLLIN | POLLRDNORM;
    }
    events |= ended ? POLLRDHUP : 0;
    if (!weft__sim_is_connection(socket)) {
        bool room = weft__sim_peer_has_room(net, socket);
        return events | (room ? POLLOUT | POLLWRNORM : 0);
    }
    bool unconnected = socket->state == WEFT__SIM_IDLE;
    if (dead || unconnected || (ended && socket->fin_sent)) {
        events |= POLLHUP;
    }
    bool connected = socket->state == WEFT__SIM_CONNECTED;
    if (dead || unconnected || socket->fin_sent ||
        (connected && weft__sim_window(net, socket) > 0)) {
        events |= POLLOUT | POLLWRNORM;
    }
    return events;
}

static int64_t try_poll(struct weft__sim_net *net, struct weft__sim_socket *socket,
                        const struct weft__op *op)
{
    uint32_t events = weft__sim_events_of(net, socket) & (op->flags | POLLERR | POLLHUP);
    if (events != 0) {
        return (int64_t)events;
    }
    if (!weft__sim_is_connection(socket)) {
        weft__sim_stick(net, socket);
    }
    return WEFT__SIM_WAIT;
}

int64_t weft__sim_try(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                      struct weft__op *op)
{
    op->result_flags = 0;
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_READV:
    case WEFT__OP_RECV:
    case WEFT__OP_RECVMSG: return weft__sim_try_receive(carrier, socket, op);
    case WEFT__OP_WRITE:
    case WEFT__OP_WRITEV:
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC:
    case WEFT__OP_SENDMSG: return weft__sim_try_send(carrier, socket, op);
    case WEFT__OP_ACCEPT: return try_accept(carrier->net, socket, op);
    case WEFT__OP_CONNECT: return try_connect(carrier->net, socket, op);
    case WEFT__OP_POLL: return try_poll(carrier->net, socket, op);
    case WEFT__OP_SPLICE:
        return weft__sim_of_fd(carrier->net, op->from_fd) != NULL ? -EINVAL : -ENOTSUP;
    default: return -EINVAL;
    }
}
