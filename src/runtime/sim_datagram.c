// sim_datagram.c - messages that stand alone: UDP, and Unix datagrams.
//
// UDP never waits: what cannot arrive is lost, by draw or because the receiver's queue is full. A
// Unix datagram is never lost: its sender waits for room in the receiver's queue.
#include <errno.h>
#include <string.h>

#include "runtime/sim_ops.h"
#include "runtime/sim_stream.h"

/// The kernel's net.unix.max_dgram_qlen, and one more.
#define MOST_MESSAGES 11
/// What an IPv4 packet has room for.
#define MOST_BYTES 65507
/// A datagram that is overtaken takes up to so many times as long.
#define REORDER_WAYS 4

/// An empty queue takes a message of any size, or a small one would never get it.
static bool takes(const struct weft__sim_socket *socket, const struct weft__sim_chunk *chunk)
{
    bool room = socket->queued == 0 || socket->queued + chunk->size <= socket->receive_bytes;
    return room && !socket->deaf;
}

static bool is_full(const struct weft__sim_socket *receiver)
{
    return receiver->messages >= MOST_MESSAGES;
}

bool weft__sim_peer_has_room(const struct weft__sim_net *net, const struct weft__sim_socket *socket)
{
    const struct weft__sim_socket *peer = weft__sim_at(net, socket->peer);
    return !weft__sim_is_unix(socket) || peer == NULL || !is_full(peer);
}

void weft__sim_stick(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    net->stuck += !socket->stuck;
    socket->stuck = true;
}

static bool receives_from(const struct weft__sim_socket *receiver,
                          const struct weft__sim_socket *sender)
{
    return receiver->peer.generation == 0 || weft__sim_same(receiver->peer, sender->self);
}

static struct weft__sim_chunk *copy_chunk(struct weft__sim_net *net,
                                          const struct weft__sim_chunk *chunk)
{
    struct weft__sim_chunk *copy = weft__sim_chunk_make(net, chunk->size);
    if (copy != NULL) {
        copy->from = chunk->from;
        copy->to = chunk->to;
        memcpy(copy->data, chunk->data, chunk->size);
    }
    return copy;
}

/// Lets one datagram arrive; takes the chunk.
static void launch(struct weft__sim_net *net, struct weft__sim_socket *socket,
                   struct weft__sim_chunk *chunk)
{
    struct weft__sim_ref nobody = { 0, 0 };
    struct weft__sim_event *event = weft__sim_event_make(net, WEFT__SIM_DATAGRAM, nobody,
                                                         socket->self);
    if (event == NULL) {
        weft__sim_chunk_free(net, chunk);
        return;
    }
    event->chunk = chunk;
    weft_time way = weft__sim_delay(net, socket->domain);
    if (weft__sim_chance(net, net->options.reorder_per_million)) {
        weft_time most = way < WEFT_FOREVER / REORDER_WAYS ? way * REORDER_WAYS : way;
        way += weft__sim_upto(net, most);
        weft__sim_event_send(net, event, weft__sim_after(net, way));
        return;
    }
    weft_time when = weft__sim_after(net, way);
    socket->departure = when > socket->departure ? when : socket->departure;
    weft__sim_event_send(net, event, socket->departure);
}

static bool is_lost(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    if (weft__sim_chance(net, net->options.cut_per_million)) {
        socket->cut_until = weft__sim_after(net, weft__sim_upto(net, net->options.cut_ns));
    }
    bool cut = socket->cut_until > net->clock->now;
    return weft__sim_chance(net, net->options.loss_per_million) || cut;
}

static int64_t send_udp(struct weft__sim_net *net, struct weft__sim_socket *socket,
                        const struct weft__sim_name *to, struct weft__sim_chunk *chunk)
{
    int rc = chunk->size > MOST_BYTES ? -EMSGSIZE : weft__sim_bind_any(net, socket);
    if (rc < 0) {
        weft__sim_chunk_free(net, chunk);
        return rc;
    }
    chunk->to = *to;
    weft__sim_name_aim(&chunk->to);
    chunk->from = weft__sim_source(socket, &chunk->to);
    if (is_lost(net, socket)) {
        weft__sim_chunk_free(net, chunk);
        return 0;
    }
    struct weft__sim_chunk *twin = weft__sim_chance(net, net->options.dup_per_million)
                                       ? copy_chunk(net, chunk)
                                       : NULL;
    launch(net, socket, chunk);
    if (twin != NULL) {
        launch(net, socket, twin);
    }
    return 0;
}

static int64_t send_unix(struct weft__sim_net *net, struct weft__sim_socket *socket,
                         struct weft__sim_socket *receiver, struct weft__sim_chunk *chunk)
{
    int rc = 0;
    if (receiver->type != SOCK_DGRAM) {
        rc = -EPROTOTYPE;
    } else if (!receives_from(receiver, socket)) {
        rc = -EPERM;
    } else if (receiver->deaf) {
        rc = -EPIPE;
    }
    if (rc < 0) {
        weft__sim_chunk_free(net, chunk);
        return rc;
    }
    if (is_full(receiver)) {
        weft__sim_stick(net, socket);
        return WEFT__SIM_WAIT;
    }
    struct weft__sim_event *event = weft__sim_event_make(net, WEFT__SIM_DATAGRAM, receiver->self,
                                                         socket->self);
    if (event == NULL) {
        weft__sim_chunk_free(net, chunk);
        return -ENOMEM;
    }
    receiver->messages++;
    chunk->from = socket->local;
    event->chunk = chunk;
    weft_time when = weft__sim_after(net, weft__sim_delay(net, AF_UNIX));
    receiver->arrival = when > receiver->arrival ? when : receiver->arrival;
    weft__sim_event_send(net, event, receiver->arrival);
    return 0;
}

int64_t weft__sim_send_message(struct weft__sim_net *net, struct weft__sim_socket *socket,
                               const struct weft__sim_name *to, struct weft__sim_chunk *chunk)
{
    bool named = to->family != AF_UNSPEC;
    if (!weft__sim_is_unix(socket)) {
        if (!named && socket->peer_name.family == AF_UNSPEC) {
            weft__sim_chunk_free(net, chunk);
            return -EDESTADDRREQ;
        }
        return send_udp(net, socket, named ? to : &socket->peer_name, chunk);
    }
    struct weft__sim_socket *receiver = named ? weft__sim_find_unix(net, to)
                                              : weft__sim_at(net, socket->peer);
    if (receiver == NULL) {
        bool file = named && to->path_size > 0 && to->path[0] != '\0';
        weft__sim_chunk_free(net, chunk);
        return file ? -ENOENT : named || socket->peer.generation != 0 ? -ECONNREFUSED : -ENOTCONN;
    }
    return send_unix(net, socket, receiver, chunk);
}

int weft__sim_associate(struct weft__sim_net *net, struct weft__sim_socket *socket,
                        const struct weft__sim_name *to)
{
    struct weft__sim_ref nobody = { 0, 0 };
    if (to->family == AF_UNSPEC) {
        socket->peer = nobody;
        socket->peer_name = *to;
        return 0;
    }
    if (weft__sim_is_unix(socket)) {
        struct weft__sim_socket *receiver = weft__sim_find_unix(net, to);
        if (receiver == NULL) {
            return to->path_size > 0 && to->path[0] != '\0' ? -ENOENT : -ECONNREFUSED;
        }
        if (receiver->type != socket->type) {
            return -EPROTOTYPE;
        }
        socket->peer = receiver->self;
        socket->peer_name = receiver->local;
        return 0;
    }
    int rc = weft__sim_bind_any(net, socket);
    if (rc == 0) {
        socket->peer_name = *to;
        weft__sim_name_aim(&socket->peer_name);
        socket->local = weft__sim_source(socket, &socket->peer_name);
    }
    return rc;
}

static void receive(struct weft__sim_net *net, struct weft__sim_socket *socket,
                    struct weft__sim_chunk *chunk)
{
    socket->queued += chunk->size;
    *socket->last = chunk;
    socket->last = &chunk->next;
    weft__sim_touch(net, socket);
}

static void receive_in_group(struct weft__sim_net *net, const struct weft__sim_chunk *chunk)
{
    for (uint32_t i = 0; i < net->slot_count; i++) {
        struct weft__sim_socket *socket = net->slots[i].socket;
        if (socket != NULL && weft__sim_in_group(socket, &chunk->to) && takes(socket, chunk)) {
            struct weft__sim_chunk *copy = copy_chunk(net, chunk);
            if (copy != NULL) {
                receive(net, socket, copy);
            }
        }
    }
}

/// Nobody was there: a sender that talks to this address alone is told.
static void report_unreached(struct weft__sim_net *net, const struct weft__sim_event *event)
{
    const struct weft__sim_socket *sender = weft__sim_at(net, event->from);
    if (sender != NULL && weft__sim_name_equal(&sender->peer_name, &event->chunk->to)) {
        struct weft__sim_event *report = weft__sim_event_make(net, WEFT__SIM_UNREACHED, event->from,
                                                              event->to);
        if (report != NULL) {
            weft_time way = weft__sim_delay(net, sender->domain);
            weft__sim_event_send(net, report, weft__sim_after(net, way));
        }
    }
}

void weft__sim_datagram_arrives(struct weft__sim_net *net, struct weft__sim_event *event)
{
    struct weft__sim_socket *socket = weft__sim_at(net, event->to);
    if (event->kind == WEFT__SIM_UNREACHED) {
        if (socket != NULL) {
            socket->error = ECONNREFUSED;
            weft__sim_touch(net, socket);
        }
        return;
    }
    if (event->to.generation == 0 && weft__sim_is_group(&event->chunk->to)) {
        receive_in_group(net, event->chunk);
        return;
    }
    if (event->to.generation == 0) {
        socket = weft__sim_find_receiver(net, &event->chunk->to, &event->chunk->from);
        if (socket == NULL) {
            report_unreached(net, event);
        } else if (!takes(socket, event->chunk)) {
            socket = NULL;
        }
    } // else a Unix socket, found when it was sent
    if (socket != NULL) {
        receive(net, socket, event->chunk);
        event->chunk = NULL;
    }
}
