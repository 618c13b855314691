// sim_transfer.c - what an operation does with a simulated socket, or that it has to wait.
//
//   T1  Data moves when the op is tried, which is when its result is fixed: a cancel that comes
//       later comes too late, and a send copies.
//   T2  A try that says WEFT__SIM_WAIT has changed nothing.
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/sim_net.h"
#include "sched/carrier.h"

/// A stream is cut into segments of at most so many bytes.
#define SEGMENT_BYTES WEFT__SIZED(16 * 1024u, 256u)
/// The longest message of a Unix socket, as with the kernel's usual buffers.
#define MOST_MESSAGE_BYTES (208 * 1024u)
/// The kernel's SCM_MAX_FD, and its UIO_MAXIOV.
#define MOST_RIGHTS 253
#define MOST_PARTS 1024

/// The memory of an op.
struct memory {
    struct iovec one;
    const struct iovec *parts;
    size_t count;
    size_t total;
    struct msghdr *message; // or NULL
};

static int find_memory(struct memory *memory, const struct weft__op *op)
{
    *memory = (struct memory){ .one = { op->data, op->size }, .parts = &memory->one, .count = 1 };
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

/// Copies between a flat piece and the op's memory from `offset` on.
static void copy(const struct memory *memory, size_t offset, unsigned char *flat, size_t size,
                 bool into_memory)
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

static uint32_t flags_of(const struct weft__op *op)
{
    bool has_flags = op->code == WEFT__OP_RECV || op->code == WEFT__OP_SEND ||
                     op->code == WEFT__OP_SEND_ZC || op->code == WEFT__OP_RECVMSG ||
                     op->code == WEFT__OP_SENDMSG;
    return has_flags ? op->flags : 0;
}

static int64_t wait_or_again(const struct weft__op *op)
{
    return (flags_of(op) & MSG_DONTWAIT) != 0 ? -EAGAIN : WEFT__SIM_WAIT;
}

static int64_t take_error(struct weft__sim_socket *socket)
{
    int error = socket->error;
    socket->error = 0;
    return -error;
}

/// Draws whether a transfer of `size` bytes is cut short.
static size_t shorten(struct weft__sim_net *net, size_t size)
{
    bool cut = size > 1 && weft__sim_chance(net, net->options.short_per_million);
    return cut ? 1 + (size_t)weft__sim_upto(net, size - 2) : size;
}

// Receiving.

/// With nothing to read: 0 at the end, an error, or WEFT__SIM_WAIT.
static int64_t read_nothing(struct weft__sim_socket *socket, const struct weft__op *op)
{
    if (socket->error != 0) {
        return take_error(socket);
    }
    if (socket->deaf || socket->fin_received || socket->state == WEFT__SIM_DEAD) {
        return 0;
    }
    bool unconnected = socket->state == WEFT__SIM_IDLE || socket->state == WEFT__SIM_LISTENING;
    if (weft__sim_is_connection(socket) && unconnected) {
        return weft__sim_is_unix(socket) && weft__sim_is_stream(socket) ? -EINVAL : -ENOTCONN;
    }
    return wait_or_again(op);
}

/// Bytes that one read may take: it does not run across descriptors that came with some of them.
static size_t readable(const struct weft__sim_socket *socket)
{
    const struct weft__sim_chunk *chunk = socket->first;
    if (chunk->rights_count > 0) {
        return chunk->size - chunk->taken;
    }
    size_t size = 0;
    for (; chunk != NULL && chunk->rights_count == 0; chunk = chunk->next) {
        size += chunk->size - chunk->taken;
    }
    return size;
}

static void drop_first(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    struct weft__sim_chunk *chunk = socket->first;
    socket->first = chunk->next;
    if (socket->first == NULL) {
        socket->last = &socket->first;
    }
    weft__sim_chunk_free(net, chunk);
}

/// Gives the descriptors that came with the first chunk to the receiver.
static void receive_rights(struct weft__sim_net *net, struct weft__sim_socket *socket,
                           struct msghdr *message, size_t room)
{
    struct weft__sim_chunk *chunk = socket->first;
    size_t most = room < CMSG_LEN(sizeof(int)) ? 0 : (room - CMSG_LEN(0)) / sizeof(int);
    struct cmsghdr *header = message->msg_control;
    size_t given = 0;
    for (uint32_t i = 0; i < chunk->rights_count && given < most; i++) {
        struct weft__sim_socket *right = weft__sim_at(net, chunk->rights[i]);
        int fd = weft__sim_fd_give(net, right);
        if (fd < 0) {
            break;
        }
        memcpy(CMSG_DATA(header) + given++ * sizeof fd, &fd, sizeof fd);
    }
    if (given > 0) {
        *header = (struct cmsghdr){ CMSG_LEN(given * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
        size_t used = CMSG_SPACE(given * sizeof(int));
        message->msg_controllen = used < room ? used : room;
    }
    if (given < chunk->rights_count) {
        message->msg_flags |= MSG_CTRUNC;
    }
}

static void fill_message(struct weft__sim_net *net, struct weft__sim_socket *socket,
                         struct msghdr *message)
{
    const struct weft__sim_chunk *chunk = socket->first;
    size_t room = message->msg_controllen;
    message->msg_flags = socket->type == SOCK_SEQPACKET ? MSG_EOR : 0;
    message->msg_controllen = 0;
    if (chunk != NULL && chunk->rights_count > 0 && chunk->taken == 0) {
        receive_rights(net, socket, message, room);
    }
    if (message->msg_name == NULL || chunk == NULL || socket->type != SOCK_DGRAM) {
        message->msg_namelen = 0;
        return;
    }
    uint32_t size = message->msg_namelen;
    weft__sim_name_write(&chunk->from, socket->domain, message->msg_name, &size);
    message->msg_namelen = size;
}

/// Copies `size` bytes from the front of the queue. Streams only.
static void take_bytes(struct weft__sim_net *net, struct weft__sim_socket *socket,
                       const struct memory *memory, size_t size, bool peek)
{
    struct weft__sim_chunk *chunk = socket->first;
    for (size_t done = 0; done < size;) {
        size_t left = chunk->size - chunk->taken;
        size_t here = left < size - done ? left : size - done;
        copy(memory, done, chunk->data + chunk->taken, here, true);
        done += here;
        if (peek) {
            chunk = chunk->next;
            continue;
        }
        chunk->taken += here;
        if (chunk->taken == chunk->size) {
            drop_first(net, socket);
        }
        chunk = socket->first;
    }
    if (!peek) {
        socket->queued -= size;
        weft__sim_acknowledge(net, socket, size);
    }
}

/// With SELECT: points the memory to a buffer of the carrier's. False: all are out.
static bool select_buffer(struct weft__sim_carrier *carrier, struct weft__op *op,
                          struct memory *memory)
{
    uint16_t number;
    memory->one.iov_base = weft__sim_buffer_take(carrier, &number);
    if (memory->one.iov_base == NULL) {
        return false;
    }
    op->result_flags |= WEFT__OP_BUFFER | (uint32_t)number << 16;
    return true;
}

static int64_t receive_stream(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                              struct weft__op *op, struct memory *memory)
{
    struct weft__sim_net *net = carrier->net;
    bool select = (op->mode & WEFT__OP_SELECT) != 0;
    bool peek = (flags_of(op) & MSG_PEEK) != 0;
    if (memory->total == 0) {
        return 0;
    }
    if (socket->first == NULL) {
        int64_t result = read_nothing(socket, op);
        if (result == 0 && memory->message != NULL) {
            fill_message(net, socket, memory->message);
        }
        return result;
    }
    size_t size = readable(socket);
    size = size < memory->total ? size : memory->total;
    bool ended = socket->fin_received || socket->deaf || socket->state == WEFT__SIM_DEAD;
    if ((flags_of(op) & MSG_WAITALL) != 0 && size < memory->total && !ended &&
        size == socket->queued && size < socket->receive_bytes) {
        return wait_or_again(op);
    }
    if (select && !select_buffer(carrier, op, memory)) {
        return WEFT__SIM_WAIT;
    }
    size = shorten(net, size);
    if (memory->message != NULL) {
        fill_message(net, socket, memory->message);
    }
    take_bytes(net, socket, memory, size, peek);
    op->result_flags |= socket->queued == 0 ? WEFT__OP_EMPTY : 0;
    return (int64_t)size;
}

static int64_t receive_message(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                               struct weft__op *op, struct memory *memory)
{
    struct weft__sim_net *net = carrier->net;
    struct weft__sim_chunk *chunk = socket->first;
    if (chunk == NULL || (socket->error != 0 && socket->type == SOCK_DGRAM)) {
        int64_t result = read_nothing(socket, op);
        if (result == 0 && memory->message != NULL) {
            fill_message(net, socket, memory->message);
        }
        return result;
    }
    if ((op->mode & WEFT__OP_SELECT) != 0 && !select_buffer(carrier, op, memory)) {
        return WEFT__SIM_WAIT;
    }
    size_t whole = chunk->size;
    size_t size = whole < memory->total ? whole : memory->total;
    copy(memory, 0, chunk->data, size, true);
    if (memory->message != NULL) {
        fill_message(net, socket, memory->message);
        memory->message->msg_flags |= size < whole ? MSG_TRUNC : 0;
    }
    if ((flags_of(op) & MSG_PEEK) == 0) {
        socket->queued -= whole;
        drop_first(net, socket);
        if (weft__sim_is_connection(socket)) {
            weft__sim_acknowledge(net, socket, whole);
        } else if (weft__sim_is_unix(socket)) {
            socket->outstanding -= whole;
            weft__sim_touch_stuck(net);
        }
    }
    op->result_flags |= socket->first == NULL ? WEFT__OP_EMPTY : 0;
    return (int64_t)((flags_of(op) & MSG_TRUNC) != 0 ? whole : size);
}

static int64_t try_receive(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                           struct weft__op *op)
{
    struct memory memory;
    int rc = find_memory(&memory, op);
    if (rc < 0) {
        return rc;
    }
    if ((flags_of(op) & (MSG_OOB | MSG_ERRQUEUE)) != 0) {
        return (flags_of(op) & MSG_OOB) != 0 ? -EINVAL : -EAGAIN;
    }
    if ((op->mode & WEFT__OP_SELECT) != 0) {
        bool smaller = op->size != 0 && op->size < carrier->buffer_bytes;
        memory.total = memory.one.iov_len = smaller ? op->size : carrier->buffer_bytes;
    }
    return weft__sim_is_stream(socket) ? receive_stream(carrier, socket, op, &memory)
                                       : receive_message(carrier, socket, op, &memory);
}

// Sending.

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
            return weft__sim_bad_fd(net, fd);
        }
        chunk->rights[i] = socket->self;
        socket->holders++;
    }
    return 0;
}

/// A chunk with bytes of the op's memory and, if it is the first, with its descriptors.
static int pack(struct weft__sim_chunk **out, struct weft__sim_net *net,
                const struct memory *memory, size_t offset, size_t size, bool rights)
{
    struct weft__sim_chunk *chunk = weft__sim_chunk_make(net, size);
    *out = chunk;
    if (chunk == NULL) {
        return -ENOBUFS;
    }
    copy(memory, offset, chunk->data, size, false);
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
        return take_error(socket);
    }
    if (socket->fin_sent || socket->state == WEFT__SIM_DEAD) {
        return -EPIPE;
    }
    if (!weft__sim_is_connection(socket)) {
        return 0;
    }
    switch (socket->state) {
    case WEFT__SIM_CONNECTED: break;
    case WEFT__SIM_CONNECTING: return wait_or_again(op);
    default: return weft__sim_is_unix(socket) ? -ENOTCONN : -EPIPE;
    }
    const struct weft__sim_socket *peer = weft__sim_at(net, socket->peer);
    return weft__sim_is_unix(socket) && (peer == NULL || peer->deaf) ? -EPIPE : 0;
}

static int64_t send_stream(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                           const struct weft__op *op, const struct memory *memory)
{
    struct weft__sim_net *net = carrier->net;
    size_t window = weft__sim_window(net, socket);
    size_t size = memory->total < window ? memory->total : window;
    if (memory->total == 0) {
        return 0;
    }
    if (size == 0) {
        return wait_or_again(op);
    }
    size = shorten(net, size);
    size_t sent = 0;
    while (sent < size) {
        size_t left = size - sent;
        struct weft__sim_chunk *chunk;
        left = shorten(net, left < SEGMENT_BYTES ? left : SEGMENT_BYTES);
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

static int64_t send_message(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                            const struct weft__op *op, const struct memory *memory)
{
    struct weft__sim_net *net = carrier->net;
    struct weft__sim_name to = { 0 };
    struct weft__sim_chunk *chunk;
    const struct msghdr *message = memory->message;
    if (weft__sim_is_unix(socket) && memory->total > MOST_MESSAGE_BYTES) {
        return -EMSGSIZE;
    }
    if (socket->type == SOCK_SEQPACKET && socket->outstanding > 0 &&
        weft__sim_window(net, socket) < memory->total) {
        return wait_or_again(op);
    }
    if (message != NULL && message->msg_name != NULL && socket->type == SOCK_DGRAM) {
        int rc = weft__sim_name_read(&to, socket->domain, message->msg_name, message->msg_namelen);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = pack(&chunk, net, memory, 0, memory->total, weft__sim_is_unix(socket));
    if (rc < 0) {
        return rc;
    }
    if (socket->type == SOCK_SEQPACKET) {
        weft__sim_send_chunk(net, socket, chunk);
        return (int64_t)memory->total;
    }
    int64_t result = weft__sim_send_message(net, socket, &to, chunk);
    if (result == WEFT__SIM_WAIT) {
        weft__sim_chunk_free(net, chunk);
        return wait_or_again(op);
    }
    return result < 0 ? result : (int64_t)memory->total;
}

static int64_t try_send(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                        const struct weft__op *op)
{
    struct memory memory;
    int rc = find_memory(&memory, op);
    if (rc < 0) {
        return rc;
    }
    if ((flags_of(op) & MSG_OOB) != 0) {
        return -EOPNOTSUPP;
    }
    int64_t blocked = write_blocked(carrier->net, socket, op);
    if (blocked != 0) {
        return blocked;
    }
    return weft__sim_is_stream(socket) ? send_stream(carrier, socket, op, &memory)
                                       : send_message(carrier, socket, op, &memory);
}

// The others.

static int64_t try_connect(struct weft__sim_net *net, struct weft__sim_socket *socket,
                           const struct weft__op *op)
{
    struct weft__sim_name to;
    int rc = weft__sim_name_read(&to, socket->domain, op->data, (uint32_t)op->size);
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
        return events | POLLOUT | POLLWRNORM;
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

static int64_t try_poll(const struct weft__sim_net *net, const struct weft__sim_socket *socket,
                        const struct weft__op *op)
{
    uint32_t events = weft__sim_events_of(net, socket) & (op->flags | POLLERR | POLLHUP);
    return events != 0 ? (int64_t)events : WEFT__SIM_WAIT;
}

int64_t weft__sim_try(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                      struct weft__op *op)
{
    op->result_flags = 0;
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_READV:
    case WEFT__OP_RECV:
    case WEFT__OP_RECVMSG: return try_receive(carrier, socket, op);
    case WEFT__OP_WRITE:
    case WEFT__OP_WRITEV:
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC:
    case WEFT__OP_SENDMSG: return try_send(carrier, socket, op);
    case WEFT__OP_ACCEPT: return try_accept(carrier->net, socket, op);
    case WEFT__OP_CONNECT: return try_connect(carrier->net, socket, op);
    case WEFT__OP_POLL: return try_poll(carrier->net, socket, op);
    case WEFT__OP_SPLICE:
        return weft__sim_of_fd(carrier->net, op->from_fd) != NULL ? -EINVAL : -ENOTSUP;
    default: return -EINVAL;
    }
}
