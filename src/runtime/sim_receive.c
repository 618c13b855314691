// sim_receive.c - reading from a simulated socket.
#include <errno.h>
#include <string.h>

#include "runtime/sim_stream.h"
#include "runtime/sim_transfer.h"

/// With nothing to read: 0 at the end, an error, or WEFT__SIM_WAIT.
static int64_t read_nothing(struct weft__sim_socket *socket, const struct weft__op *op)
{
    if (socket->error != 0) {
        return weft__sim_take_error(socket);
    }
    if (socket->deaf || socket->fin_received || socket->state == WEFT__SIM_DEAD) {
        return 0;
    }
    bool unconnected = socket->state == WEFT__SIM_IDLE || socket->state == WEFT__SIM_LISTENING;
    if (weft__sim_is_connection(socket) && unconnected) {
        return weft__sim_is_unix(socket) && weft__sim_is_stream(socket) ? -EINVAL : -ENOTCONN;
    }
    return weft__sim_wait_or_again(op);
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
                       const struct weft__sim_memory *memory, size_t size, bool peek)
{
    struct weft__sim_chunk *chunk = socket->first;
    for (size_t done = 0; done < size;) {
        size_t left = chunk->size - chunk->taken;
        size_t here = left < size - done ? left : size - done;
        weft__sim_copy(memory, done, chunk->data + chunk->taken, here, true);
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
                          struct weft__sim_memory *memory)
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
                              struct weft__op *op, struct weft__sim_memory *memory)
{
    struct weft__sim_net *net = carrier->net;
    bool select = (op->mode & WEFT__OP_SELECT) != 0;
    bool peek = (weft__sim_flags(op) & MSG_PEEK) != 0;
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
    if ((weft__sim_flags(op) & MSG_WAITALL) != 0 && size < memory->total && !ended &&
        size == socket->queued && size < socket->receive_bytes) {
        return weft__sim_wait_or_again(op);
    }
    if (select && !select_buffer(carrier, op, memory)) {
        return WEFT__SIM_WAIT;
    }
    size = weft__sim_shorten(net, size);
    if (memory->message != NULL) {
        fill_message(net, socket, memory->message);
    }
    take_bytes(net, socket, memory, size, peek);
    op->result_flags |= socket->queued == 0 ? WEFT__OP_EMPTY : 0;
    return (int64_t)size;
}

static int64_t receive_message(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                               struct weft__op *op, struct weft__sim_memory *memory)
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
    weft__sim_copy(memory, 0, chunk->data, size, true);
    if (memory->message != NULL) {
        fill_message(net, socket, memory->message);
        memory->message->msg_flags |= size < whole ? MSG_TRUNC : 0;
    }
    if ((weft__sim_flags(op) & MSG_PEEK) == 0) {
        socket->queued -= whole;
        drop_first(net, socket);
        if (weft__sim_is_connection(socket)) {
            weft__sim_acknowledge(net, socket, whole);
        } else if (weft__sim_is_unix(socket)) {
            socket->messages--;
            weft__sim_touch_stuck(net);
        }
    }
    op->result_flags |= socket->first == NULL ? WEFT__OP_EMPTY : 0;
    return (int64_t)((weft__sim_flags(op) & MSG_TRUNC) != 0 ? whole : size);
}

int64_t weft__sim_try_receive(struct weft__sim_carrier *carrier, struct weft__sim_socket *socket,
                              struct weft__op *op)
{
    struct weft__sim_memory memory;
    int rc = weft__sim_find_memory(&memory, op);
    if (rc < 0) {
        return rc;
    }
    if ((weft__sim_flags(op) & (MSG_OOB | MSG_ERRQUEUE)) != 0) {
        return (weft__sim_flags(op) & MSG_OOB) != 0 ? -EINVAL : -EAGAIN;
    }
    if ((op->mode & WEFT__OP_SELECT) != 0) {
        bool smaller = op->size != 0 && op->size < carrier->buffer_bytes;
        memory.total = memory.one.iov_len = smaller ? op->size : carrier->buffer_bytes;
    }
    return weft__sim_is_stream(socket) ? receive_stream(carrier, socket, op, &memory)
                                       : receive_message(carrier, socket, op, &memory);
}
