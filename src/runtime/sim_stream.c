// sim_stream.c - connections: TCP, and Unix streams and sequenced packets.
//
//     connect   SYN --> a socket in the listener's queue, ESTABLISHED --> connected
//     write     DATA --> queue of the peer; `outstanding` grows
//     read      ACK  --> `outstanding` of the peer shrinks: its window opens
//     shutdown  FIN  --> the peer reads the end
//     close     FIN, or RST if something was left unread; what arrives later is answered with RST
//
//   C1  What is under way to a socket arrives in order: never before `arrival` of what was sent
//       before it. A cut link moves that moment.
//   C2  Bytes are lost only together with the connection: who sent or should have received them gets
//       an error (RST) if it is still there.
//   C3  As on Linux, a reset leaves what has arrived readable; then the error is reported once; then
//       reads find the end and writes -EPIPE.
//
// Unix sockets connect at once, or wait for room in the backlog, and never see a reset that nobody
// sent; the rest is the same with short ways.
#include "runtime/sim_stream.h"

#include <errno.h>

#include "runtime/sim_ops.h"
#include "runtime/sim_socket.h"

/// The kernel sends six more SYNs, waiting twice as long each time.
#define CONNECT_LIMIT_NS (127 * WEFT_S)
#define FIRST_RETRY_NS WEFT_S

static weft_time later_of(weft_time a, weft_time b)
{
    return a > b ? a : b;
}

/// Draws whether the link between the two goes dead. Either may be NULL.
static void maybe_cut(struct weft__sim_net *net, struct weft__sim_socket *a,
                      struct weft__sim_socket *b)
{
    if (!weft__sim_chance(net, net->options.cut_per_million)) {
        return;
    }
    weft_time until = weft__sim_after(net, weft__sim_upto(net, net->options.cut_ns));
    if (a != NULL) {
        a->cut_until = later_of(a->cut_until, until);
    }
    if (b != NULL) {
        b->cut_until = later_of(b->cut_until, until);
    }
}

/// Sends an event from one end of a connection to the other, in order (C1). `from` may be NULL: it
/// is gone, and what was under way to it is answered.
static void transmit(struct weft__sim_net *net, struct weft__sim_event *event,
                     struct weft__sim_socket *from, int domain)
{
    struct weft__sim_socket *to = weft__sim_at(net, event->to);
    weft_time when = weft__sim_after(net, weft__sim_delay(net, domain));
    if (domain != AF_UNIX) {
        maybe_cut(net, from, to);
    }
    if (from != NULL) {
        when = later_of(when, from->cut_until);
    }
    if (to != NULL) {
        when = later_of(when, later_of(to->arrival, to->cut_until));
        to->arrival = when;
    }
    weft__sim_event_send(net, event, when);
}

static void send_plain(struct weft__sim_net *net, uint8_t kind, struct weft__sim_socket *from)
{
    struct weft__sim_event *event = weft__sim_event_make(net, kind, from->peer, from->self);
    if (event != NULL) {
        transmit(net, event, from, from->domain);
    }
}

/// Answers something that arrived at a socket that is gone or was never connected.
static void answer_reset(struct weft__sim_net *net, const struct weft__sim_event *event)
{
    struct weft__sim_socket *to = weft__sim_at(net, event->from);
    struct weft__sim_event *answer = to == NULL ? NULL
                                                : weft__sim_event_make(net, WEFT__SIM_RST,
                                                                       event->from, event->to);
    if (answer != NULL) {
        transmit(net, answer, NULL, to->domain);
    }
}

// Connecting.

/// Tells the connecting socket at `event->from` how it went. `server` is NULL when it failed.
static void answer_syn(struct weft__sim_net *net, const struct weft__sim_event *event, int error,
                       struct weft__sim_socket *server, int domain)
{
    struct weft__sim_ref nobody = { 0, 0 };
    struct weft__sim_event *answer = weft__sim_event_make(
        net, server != NULL ? WEFT__SIM_ESTABLISHED : WEFT__SIM_REFUSED, event->from,
        server != NULL ? server->self : nobody);
    if (answer != NULL) {
        answer->serial = event->serial;
        answer->error = error;
        transmit(net, answer, server, domain);
    }
}

/// Lets a SYN arrive after `delay_ns`, unless the connect has given up by then.
static void send_syn(struct weft__sim_net *net, struct weft__sim_socket *client, size_t attempts,
                     weft_time delay_ns)
{
    struct weft__sim_ref nobody = { 0, 0 };
    maybe_cut(net, client, NULL);
    weft_time when = later_of(weft__sim_after(net, delay_ns), client->cut_until);
    bool late = when > client->connect_by;
    struct weft__sim_event *event = weft__sim_event_make(
        net, late ? WEFT__SIM_REFUSED : WEFT__SIM_SYN, late ? client->self : nobody, client->self);
    if (event != NULL) {
        event->serial = client->serial;
        event->error = ETIMEDOUT;
        event->amount = attempts;
        weft__sim_event_send(net, event, late ? client->connect_by : when);
    }
}

static bool is_full(const struct weft__sim_socket *listener)
{
    return listener->waiting > listener->backlog;
}

/// The listener's end of a new connection, in its queue. NULL: no memory.
static struct weft__sim_socket *make_server(struct weft__sim_net *net,
                                            struct weft__sim_socket *listener,
                                            struct weft__sim_socket *client)
{
    struct weft__sim_socket *server = weft__sim_socket_make(net, listener->domain, listener->type,
                                                            listener->protocol);
    if (server == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < WEFT__SIM_OPTIONS; i++) {
        server->options[i] = listener->options[i];
    }
    server->send_bytes = listener->send_bytes;
    server->receive_bytes = listener->receive_bytes;
    server->local = weft__sim_is_unix(listener) ? listener->local : client->peer_name;
    server->bound = !weft__sim_is_unix(listener);
    server->peer_name = client->local;
    server->peer = client->self;
    server->state = WEFT__SIM_CONNECTED;
    struct weft__sim_socket **last = &listener->accepts;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = server;
    listener->waiting++;
    weft__sim_touch(net, listener);
    return server;
}

static void syn_arrives(struct weft__sim_net *net, const struct weft__sim_event *event)
{
    struct weft__sim_socket *client = weft__sim_at(net, event->from);
    if (client == NULL || client->state != WEFT__SIM_CONNECTING ||
        client->serial != event->serial) {
        return;
    }
    struct weft__sim_socket *listener = weft__sim_find_listener(net, &client->peer_name);
    if (listener == NULL) {
        answer_syn(net, event, ECONNREFUSED, NULL, client->domain);
        return;
    }
    struct weft__sim_socket *server = is_full(listener) ? NULL : make_server(net, listener, client);
    if (server == NULL) {
        send_syn(net, client, event->amount + 1, FIRST_RETRY_NS << event->amount);
        return;
    }
    answer_syn(net, event, 0, server, client->domain);
}

static void established(struct weft__sim_net *net, const struct weft__sim_event *event)
{
    struct weft__sim_socket *client = weft__sim_at(net, event->to);
    if (client == NULL || client->state != WEFT__SIM_CONNECTING ||
        client->serial != event->serial) {
        answer_reset(net, event);
        return;
    }
    client->peer = event->from;
    client->state = WEFT__SIM_CONNECTED;
    weft__sim_touch(net, client);
}

static void refused(struct weft__sim_net *net, const struct weft__sim_event *event)
{
    struct weft__sim_socket *client = weft__sim_at(net, event->to);
    if (client != NULL && client->state == WEFT__SIM_CONNECTING &&
        client->serial == event->serial) {
        client->state = WEFT__SIM_IDLE;
        client->error = event->error;
        weft__sim_touch(net, client);
    }
}

void weft__sim_join(struct weft__sim_socket *a, struct weft__sim_socket *b)
{
    a->state = b->state = WEFT__SIM_CONNECTED;
    a->peer = b->self;
    b->peer = a->self;
}

static int64_t connect_unix(struct weft__sim_net *net, struct weft__sim_socket *socket,
                            const struct weft__sim_name *to)
{
    struct weft__sim_socket *listener = weft__sim_find_unix(net, to);
    if (listener == NULL) {
        return to->path_size > 0 && to->path[0] != '\0' ? -ENOENT : -ECONNREFUSED;
    }
    if (listener->type != socket->type) {
        return -EPROTOTYPE;
    }
    if (listener->state != WEFT__SIM_LISTENING) {
        return -ECONNREFUSED;
    }
    if (is_full(listener)) {
        weft__sim_stick(net, socket);
        return WEFT__SIM_WAIT;
    }
    struct weft__sim_socket *server = make_server(net, listener, socket);
    if (server == NULL) {
        return -ENOMEM;
    }
    weft__sim_join(socket, server);
    socket->peer_name = listener->local;
    return 0;
}

static int64_t connect_ip(struct weft__sim_net *net, struct weft__sim_socket *socket,
                          const struct weft__sim_name *to)
{
    int rc = weft__sim_bind_any(net, socket);
    if (rc < 0) {
        return rc;
    }
    socket->peer_name = *to;
    weft__sim_name_aim(&socket->peer_name);
    socket->local = weft__sim_source(socket, &socket->peer_name);
    socket->state = WEFT__SIM_CONNECTING;
    socket->serial++;
    socket->connect_by = weft__sim_after(net, CONNECT_LIMIT_NS);
    send_syn(net, socket, 0, weft__sim_delay(net, socket->domain));
    return WEFT__SIM_WAIT;
}

int64_t weft__sim_connect(struct weft__sim_net *net, struct weft__sim_socket *socket,
                          const struct weft__sim_name *to, bool again)
{
    int error = socket->error;
    switch (socket->state) {
    case WEFT__SIM_IDLE: break;
    case WEFT__SIM_CONNECTING: return again ? WEFT__SIM_WAIT : -EALREADY;
    case WEFT__SIM_CONNECTED: return again ? 0 : -EISCONN;
    default: return -EISCONN;
    }
    if (weft__sim_is_unix(socket)) {
        return connect_unix(net, socket, to);
    }
    if (!again) {
        return connect_ip(net, socket, to);
    }
    socket->error = 0;
    return error != 0 ? -error : -ECONNABORTED;
}

void weft__sim_disconnect(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    socket->state = WEFT__SIM_IDLE;
    socket->error = ECONNABORTED;
    socket->serial++;
    weft__sim_touch(net, socket);
}

struct weft__sim_socket *weft__sim_accept(struct weft__sim_net *net,
                                          struct weft__sim_socket *listener)
{
    struct weft__sim_socket *socket = listener->accepts;
    if (socket != NULL) {
        listener->accepts = socket->next;
        listener->waiting--;
        socket->next = NULL;
        weft__sim_touch_stuck(net);
    }
    return socket;
}

void weft__sim_abort(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    send_plain(net, WEFT__SIM_RST, socket);
    weft__sim_socket_free(net, socket);
}

void weft__sim_unlisten(struct weft__sim_net *net, struct weft__sim_socket *listener)
{
    struct weft__sim_socket *socket;
    listener->state = WEFT__SIM_IDLE;
    while ((socket = weft__sim_accept(net, listener)) != NULL) {
        weft__sim_abort(net, socket);
    }
    weft__sim_touch(net, listener);
}

// Connected.

size_t weft__sim_window(const struct weft__sim_net *net, const struct weft__sim_socket *socket)
{
    const struct weft__sim_socket *peer = weft__sim_at(net, socket->peer);
    size_t window = socket->send_bytes + (peer != NULL ? peer->receive_bytes : 0);
    return socket->outstanding < window ? window - socket->outstanding : 0;
}

void weft__sim_send_chunk(struct weft__sim_net *net, struct weft__sim_socket *socket,
                          struct weft__sim_chunk *chunk)
{
    struct weft__sim_event *event = weft__sim_event_make(net, WEFT__SIM_DATA, socket->peer,
                                                         socket->self);
    if (event == NULL) {
        weft__sim_chunk_free(net, chunk);
        return;
    }
    socket->outstanding += chunk->size;
    chunk->from = socket->local;
    event->chunk = chunk;
    transmit(net, event, socket, socket->domain);
}

void weft__sim_acknowledge(struct weft__sim_net *net, struct weft__sim_socket *socket, size_t size)
{
    if (size == 0) {
        return;
    }
    if (socket->ack == NULL) {
        struct weft__sim_event *event = weft__sim_event_make(net, WEFT__SIM_ACK, socket->peer,
                                                             socket->self);
        if (event == NULL) {
            return;
        }
        socket->ack = event; // it learns of what is read until it arrives
        transmit(net, event, socket, socket->domain);
    }
    socket->ack->amount += size;
}

void weft__sim_send_fin(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    if (socket->state == WEFT__SIM_CONNECTED && !socket->fin_sent) {
        socket->fin_sent = true;
        send_plain(net, WEFT__SIM_FIN, socket);
        weft__sim_touch(net, socket);
    }
}

void weft__sim_hang_up(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    if (socket->state == WEFT__SIM_LISTENING) {
        weft__sim_unlisten(net, socket);
    } else if (socket->state == WEFT__SIM_CONNECTED) {
        if (socket->queued > 0 || weft__sim_lingers_not(socket)) {
            send_plain(net, WEFT__SIM_RST, socket);
        } else {
            weft__sim_send_fin(net, socket);
        }
    }
}

/// The connection is reset; what has arrived stays readable (C3).
static void die(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    if (socket->state == WEFT__SIM_CONNECTED) {
        socket->state = WEFT__SIM_DEAD;
        socket->error = socket->fin_received && !weft__sim_is_unix(socket) ? EPIPE : ECONNRESET;
        socket->outstanding = 0;
        weft__sim_touch(net, socket);
    }
}

static void data_arrives(struct weft__sim_net *net, struct weft__sim_event *event)
{
    struct weft__sim_socket *socket = weft__sim_at(net, event->to);
    if (socket == NULL) {
        answer_reset(net, event);
        return;
    }
    if (socket->state != WEFT__SIM_CONNECTED) {
        return;
    }
    if (!weft__sim_is_unix(socket) && weft__sim_chance(net, net->options.reset_per_million)) {
        send_plain(net, WEFT__SIM_RST, socket);
        die(net, socket);
        return;
    }
    socket->queued += event->chunk->size;
    *socket->last = event->chunk;
    socket->last = &event->chunk->next;
    event->chunk = NULL;
    weft__sim_touch(net, socket);
}

static void ack_arrives(struct weft__sim_net *net, const struct weft__sim_event *event)
{
    struct weft__sim_socket *reader = weft__sim_at(net, event->from);
    struct weft__sim_socket *writer = weft__sim_at(net, event->to);
    if (reader != NULL) {
        reader->ack = NULL;
    }
    if (writer != NULL && writer->state == WEFT__SIM_CONNECTED) {
        weft_assert(writer->outstanding >= event->amount);
        writer->outstanding -= event->amount;
        weft__sim_touch(net, writer);
    }
}

void weft__sim_stream_arrives(struct weft__sim_net *net, struct weft__sim_event *event)
{
    struct weft__sim_socket *socket = weft__sim_at(net, event->to);
    switch (event->kind) {
    case WEFT__SIM_DATA: data_arrives(net, event); break;
    case WEFT__SIM_ACK: ack_arrives(net, event); break;
    case WEFT__SIM_SYN: syn_arrives(net, event); break;
    case WEFT__SIM_ESTABLISHED: established(net, event); break;
    case WEFT__SIM_REFUSED: refused(net, event); break;
    case WEFT__SIM_FIN:
        if (socket != NULL && socket->state == WEFT__SIM_CONNECTED) {
            socket->fin_received = true;
            weft__sim_touch(net, socket);
        }
        break;
    case WEFT__SIM_RST:
        if (socket != NULL && weft__sim_same(socket->peer, event->from)) {
            die(net, socket);
        }
        break;
    default: weft_assert(!"an event that nobody sent");
    }
}
