// sim_send.c - writing to a simulated socket.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/sim_stream.h"
#include "runtime/sim_transfer.h"
#include "sched/carrier.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 // Linux 4.18
#endif

/// A stream is cut into segments of at most so many bytes.
#define SEGMENT_BYTES WEFT__SIZED(16 * 1024u, 256u)
/// The longest message of a Unix socket, as with the kernel's usual buffers.
#define MOST_MESSAGE_BYTES (208 * 1024u)
/// The kernel's SCM_MAX_FD.
#define MOST_RIGHTS 253

/// Takes the descriptors of a control message along. Their sockets cannot go before they arrive.
static int pack_rights(struct weft__sim_net *net, struct weft__sim_chunk *chunk,
                       const struct cmsghdr *header)
{
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (count == 0 || count > MOST_RIGHTS || chunk->rights != NULL) {
        return count == 0 ? 0 : -EINVAL;
    }
    chunk->rights = weft__alloc(net->allocator, count * sizeof chunk->rights[0],
                                _Alignof(struct weft__sim_ref));
    if (chunk->rights == NULL) {
        return -ENOMEM;
    }
    chunk->rights_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        struct weft__sim_socket *socket = weft__sim_of_fd(net, fd);
        if (socket == NULL) {
            return weft__sim_bad_fd(fd);
        }
        chunk->rights[i] = socket->self;
        socket->holders++;
    }
    return 0;
}

/// A chunk with bytes of the op's memory and, if it is the first, with its descriptors.
static int pack(struct weft__sim_chunk **out, struct weft__sim_net *net,
                const struct weft__sim_memory *memory, size_t offset, size_t size, bool rights)
{
    struct weft__sim_chunk *chunk = weft__sim_chunk_make(net, size);
    *out = chunk;
    if (chunk == NULL) {
        return -ENOBUFS;
    }
    weft__sim_copy(memory, offset, chunk->data, size, false);
    struct msghdr *message = rights && offset == 0 ? memory->message : NULL;
    if (message == NULL || message->msg_controllen < sizeof(struct cmsghdr)) {
        return 0;
    }
    int rc = 0;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    for (; header != NULL && rc == 0; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_len < sizeof *header) {
            rc = -EINVAL;
        } else if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
            rc = pack_rights(net, chunk, header);
        }
    }
    if (rc < 0) {
        weft__sim_chunk_free(net, chunk);
    }
    return rc;
}

/// What stands in the way of writing: an error, WEFT__SIM_WAIT, or 0: nothing.
static int64_t write_blocked(struct weft__sim_net *net, struct weft__sim_socket *socket,
                             const struct weft__op *op)
{
    if (socket->error != 0) {
        return weft__sim_take_error(socket);
    }
    if (socket->fin_sent || socket->state == WEFT__SIM_DEAD) {
        return -EPIPE;
    }
    if (!weft__sim_is_connection(socket)) {
        return 0;
    }
    switch (socket->state) {
    case WEFT__SIM_CONNECTED: break;
    case WEFT__SIM_CONNECTING: return weft__sim_wait_or_again(op);
    default: return weft__sim_is_unix(socket) ? -ENOTCONN : -EPIPE;
    }
    const struct weft__sim_socket *peer = weft__sim_at(net, socket->peer);
    return weft__sim_is_unix(socket) && (peer == NULL || peer->deaf) ? -EPIPE : 0;
}

static int64_t send_stream(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                           const struct weft__op *op, const struct weft__sim_memory *memory)
{
    struct weft__sim_net *net = carrier->net;
    size_t window = weft__sim_window(net, socket);
    size_t size = memory->total < window ? memory->total : window;
    if (memory->total == 0) {
        return 0;
    }
    if (size == 0) {
        return weft__sim_wait_or_again(op);
    }
    size = weft__sim_shorten(net, size);
    size_t sent = 0;
    while (sent < size) {
        size_t left = size - sent;
        struct weft__sim_chunk *chunk;
        left = weft__sim_shorten(net, left < SEGMENT_BYTES ? left : SEGMENT_BYTES);
        int rc = pack(&chunk, net, memory, sent, left, weft__sim_is_unix(socket));
        if (rc < 0) {
            return sent > 0 ? (int64_t)sent : rc;
        }
        weft__sim_send_chunk(net, socket, chunk);
        sent += left;
    }
    if (sent < memory->total) {
        weft__count(&carrier->counts.short_writes);
    }
    return (int64_t)sent;
}

/// UDP_SEGMENT: one message becomes datagrams of so many bytes. 0: it does not.
static size_t segment_bytes(const struct weft__sim_socket *socket,
                            const struct weft__sim_memory *memory)
{
    struct msghdr *message = memory->message;
    uint16_t size = 0;
    if (message == NULL || socket->protocol != IPPROTO_UDP ||
        message->msg_controllen < sizeof(struct cmsghdr)) {
        return 0;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    for (; header != NULL; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level == SOL_UDP && header->cmsg_type == UDP_SEGMENT &&
            header->cmsg_len >= CMSG_LEN(sizeof size)) {
            memcpy(&size, CMSG_DATA(header), sizeof size);
        }
    }
    return size;
}

static int64_t send_datagrams(struct weft__sim_net *net, struct weft__sim_socket *socket,
                              const struct weft__op *op, const struct weft__sim_memory *memory)
{
    struct weft__sim_name to = { 0 };
    const struct msghdr *message = memory->message;
    if (message != NULL && message->msg_name != NULL) {
        int rc = weft__sim_name_read(&to, socket->domain, socket->type, message->msg_name,
                                     message->msg_namelen);
        if (rc < 0) {
            return rc;
        }
    }
    size_t segment = segment_bytes(socket, memory);
    size_t sent = 0;
    do {
        size_t left = memory->total - sent;
        size_t size = segment != 0 && segment < left ? segment : left;
        struct weft__sim_chunk *chunk;
        int64_t rc = pack(&chunk, net, memory, sent, size, weft__sim_is_unix(socket));
        if (rc < 0) {
            return rc;
        }
        rc = weft__sim_send_message(net, socket, &to, chunk);
        if (rc == WEFT__SIM_WAIT) {
            weft__sim_chunk_free(net, chunk);
            return weft__sim_wait_or_again(op);
        }
        if (rc < 0) {
            return rc;
        }
        sent += size;
    } while (sent < memory->total);
    return (int64_t)sent;
}

static int64_t send_packet(struct weft__sim_net *net, struct weft__sim_socket *socket,
                           const struct weft__op *op, const struct weft__sim_memory *memory)
{
    struct weft__sim_chunk *chunk;
    if (weft__sim_window(net, socket) == 0) { // else it may be overrun, as by the kernel
        return weft__sim_wait_or_again(op);
    }
    int rc = pack(&chunk, net, memory, 0, memory->total, true);
    if (rc < 0) {
        return rc;
    }
    weft__sim_send_chunk(net, socket, chunk);
    return (int64_t)memory->total;
}

int64_t weft__sim_try_send(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                           const struct weft__op *op)
{
    struct weft__sim_memory memory;
    int rc = weft__sim_find_memory(&memory, op);
    if (rc < 0) {
        return rc;
    }
    if ((weft__sim_flags(op) & MSG_OOB) != 0) {
        return -EOPNOTSUPP;
    }
    int64_t blocked = write_blocked(carrier->net, socket, op);
    if (blocked != 0) {
        return blocked;
    }
    if (weft__sim_is_stream(socket)) {
        return send_stream(carrier, socket, op, &memory);
    }
    if (weft__sim_is_unix(socket) && memory.total > MOST_MESSAGE_BYTES) {
        return -EMSGSIZE;
    }
    return socket->type == SOCK_DGRAM ? send_datagrams(carrier->net, socket, op, &memory)
                                      : send_packet(carrier->net, socket, op, &memory);
}
