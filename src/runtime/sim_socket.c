// sim_socket.c - the socket calls of the simulated network, with the answers of Linux.
#include "runtime/sim_socket.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>

#include "runtime/sim_ops.h"
#include "runtime/sim_stream.h"
#include "runtime/sim_transfer.h"

/// The kernel's net.core.somaxconn.
#define MOST_BACKLOG 4096

static struct weft__sim_net *net_of(void *state)
{
    return ((struct weft__sim_carrier *)state)->net;
}

static int check_kind(int domain, int type, int protocol)
{
    if (domain != AF_INET && domain != AF_INET6 && domain != AF_UNIX) {
        return -EAFNOSUPPORT;
    }
    bool known = type == SOCK_STREAM || type == SOCK_DGRAM;
    if (domain == AF_UNIX) {
        known = known || type == SOCK_SEQPACKET;
        return protocol != 0 && protocol != AF_UNIX ? -EPROTONOSUPPORT
               : known                              ? 0
                                                    : -ESOCKTNOSUPPORT;
    }
    int own = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
    return !known ? -ESOCKTNOSUPPORT : protocol == 0 || protocol == own ? 0 : -EPROTONOSUPPORT;
}

/// Makes a socket with a descriptor. The descriptor, or a negative errno.
static int make(struct weft__sim_net *net, struct weft__sim_socket **out, int domain, int type,
                int protocol)
{
    type &= ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
    int rc = check_kind(domain, type, protocol);
    if (rc < 0) {
        return rc;
    }
    if (domain != AF_UNIX) {
        protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
    }
    struct weft__sim_socket *socket = weft__sim_socket_make(net, domain, type, protocol);
    if (socket == NULL) {
        return -ENOMEM;
    }
    int fd = weft__sim_fd_give(net, socket);
    if (fd < 0) {
        weft__sim_socket_free(net, socket);
    }
    *out = socket;
    return fd;
}

static int sim_socket(void *state, int domain, int type, int protocol)
{
    struct weft__sim_socket *socket;
    return make(net_of(state), &socket, domain, type, protocol);
}

static int sim_close(void *state, int fd)
{
    struct weft__sim_net *net = net_of(state);
    struct weft__sim_socket *socket = weft__sim_of_fd(net, fd);
    if (socket == NULL) {
        return weft__sim_bad_fd(fd);
    }
    weft__sim_note(net->clock, (uint64_t)(uint32_t)fd);
    weft__sim_end_all(net, socket, fd);
    weft__sim_fd_take(net, fd);
    weft__sim_socket_release(net, socket);
    weft__sim_settle(net);
    return 0;
}

void weft__sim_socket_release(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    weft_assert(socket->holders > 0);
    if (--socket->holders == 0) {
        if (weft__sim_is_connection(socket)) {
            weft__sim_hang_up(net, socket);
        }
        weft__sim_socket_free(net, socket);
        weft__sim_touch_stuck(net); // whoever waited for room in it
    }
}

static int sim_pair(void *state, int domain, int type, int protocol, int fds[2])
{
    struct weft__sim_net *net = net_of(state);
    struct weft__sim_socket *sockets[2];
    if (domain != AF_UNIX) {
        return -EOPNOTSUPP;
    }
    for (int i = 0; i < 2; i++) {
        int fd = make(net, &sockets[i], domain, type, protocol);
        if (fd < 0) {
            if (i == 1) {
                (void)sim_close(state, fds[0]);
            }
            return fd;
        }
        fds[i] = fd;
    }
    weft__sim_join(sockets[0], sockets[1]);
    if (!weft__sim_is_connection(sockets[0])) {
        sockets[0]->state = sockets[1]->state = WEFT__SIM_IDLE;
    }
    return 0;
}

static int sim_bind(void *state, int fd, const struct sockaddr *addr, uint32_t size)
{
    struct weft__sim_net *net = net_of(state);
    struct weft__sim_socket *socket = weft__sim_of_fd(net, fd);
    struct weft__sim_name name;
    if (socket == NULL) {
        return weft__sim_bad_fd(fd);
    }
    int rc = weft__sim_name_read(&name, socket->domain, 0, addr, size);
    if (rc == 0 && name.family == AF_UNSPEC) {
        rc = -EAFNOSUPPORT;
    }
    return rc < 0 ? rc : weft__sim_bind(net, socket, &name);
}

static int sim_listen(void *state, int fd, int backlog)
{
    struct weft__sim_net *net = net_of(state);
    struct weft__sim_socket *socket = weft__sim_of_fd(net, fd);
    if (socket == NULL) {
        return weft__sim_bad_fd(fd);
    }
    if (!weft__sim_is_connection(socket)) {
        return -EOPNOTSUPP;
    }
    if (socket->state != WEFT__SIM_IDLE && socket->state != WEFT__SIM_LISTENING) {
        return -EINVAL;
    }
    if (!socket->bound && weft__sim_is_unix(socket)) {
        return -EINVAL;
    }
    int rc = weft__sim_bind_any(net, socket);
    if (rc == 0 && !weft__sim_is_unix(socket) && weft__sim_is_taken(net, socket)) {
        rc = -EADDRINUSE; // by one that was bound with SO_REUSEADDR like this one, and listens
    }
    if (rc == 0) {
        socket->state = WEFT__SIM_LISTENING;
        socket->backlog = backlog < 0 || backlog > MOST_BACKLOG ? MOST_BACKLOG : backlog;
        weft__sim_touch_stuck(net);
        weft__sim_settle(net);
    }
    return rc;
}

static int sim_local(void *state, int fd, struct sockaddr *addr, uint32_t *size)
{
    const struct weft__sim_net *net = net_of(state);
    const struct weft__sim_socket *socket = weft__sim_of_fd(net, fd);
    if (socket == NULL) {
        return weft__sim_bad_fd(fd);
    }
    weft__sim_name_write(&socket->local, socket->domain, addr, size);
    return 0;
}

static int sim_peer(void *state, int fd, struct sockaddr *addr, uint32_t *size)
{
    const struct weft__sim_net *net = net_of(state);
    const struct weft__sim_socket *socket = weft__sim_of_fd(net, fd);
    if (socket == NULL) {
        return weft__sim_bad_fd(fd);
    }
    bool connected = weft__sim_is_connection(socket)
                         ? socket->state == WEFT__SIM_CONNECTED
                         : socket->peer_name.family != AF_UNSPEC || socket->peer.generation != 0;
    if (!connected) {
        return -ENOTCONN;
    }
    weft__sim_name_write(&socket->peer_name, socket->domain, addr, size);
    return 0;
}

static int sim_set(void *state, int fd, int level, int name, const void *value, uint32_t size)
{
    struct weft__sim_net *net = net_of(state);
    struct weft__sim_socket *socket = weft__sim_of_fd(net, fd);
    return socket == NULL ? weft__sim_bad_fd(fd)
                          : weft__sim_option_set(net, socket, level, name, value, size);
}

static int sim_get(void *state, int fd, int level, int name, void *value, uint32_t *size)
{
    struct weft__sim_net *net = net_of(state);
    struct weft__sim_socket *socket = weft__sim_of_fd(net, fd);
    return socket == NULL ? weft__sim_bad_fd(fd)
                          : weft__sim_option_get(net, socket, level, name, value, size);
}

static int shut_down(struct weft__sim_net *net, struct weft__sim_socket *socket, bool read,
                     bool write)
{
    if (socket->state == WEFT__SIM_LISTENING) {
        if (read) {
            weft__sim_unlisten(net, socket);
        }
        return 0;
    }
    if (socket->state == WEFT__SIM_CONNECTING) {
        weft__sim_disconnect(net, socket);
        return 0;
    }
    bool connected = weft__sim_is_connection(socket)
                         ? socket->state == WEFT__SIM_CONNECTED
                         : socket->peer_name.family != AF_UNSPEC || weft__sim_is_unix(socket);
    if (!connected) {
        return -ENOTCONN;
    }
    socket->deaf = socket->deaf || read;
    if (write && weft__sim_is_connection(socket)) {
        weft__sim_send_fin(net, socket);
    }
    socket->fin_sent = socket->fin_sent || write;
    weft__sim_touch(net, socket);
    if (read && weft__sim_is_unix(socket)) {
        weft__sim_touch(net, weft__sim_at(net, socket->peer)); // it cannot write any more
    }
    return 0;
}

static int sim_shutdown(void *state, int fd, int how)
{
    struct weft__sim_net *net = net_of(state);
    struct weft__sim_socket *socket = weft__sim_of_fd(net, fd);
    if (socket == NULL) {
        return weft__sim_bad_fd(fd);
    }
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) {
        return -EINVAL;
    }
    int rc = shut_down(net, socket, how != SHUT_WR, how != SHUT_RD);
    weft__sim_settle(net);
    return rc;
}

static int sim_unread(void *state, int fd)
{
    const struct weft__sim_socket *socket = weft__sim_of_fd(net_of(state), fd);
    if (socket == NULL) {
        return weft__sim_bad_fd(fd);
    }
    return socket->queued < INT_MAX ? (int)socket->queued : INT_MAX;
}

/// Tries one message after the other without waiting. How many, or the first one's error.
static int do_many(void *state, int fd, struct mmsghdr *messages, unsigned count, int flags,
                   enum weft__op_code code)
{
    struct weft__sim_carrier *carrier = state;
    struct weft__sim_socket *socket = weft__sim_of_fd(carrier->net, fd);
    unsigned done = 0;
    int64_t result = 0;
    if (socket == NULL) {
        return weft__sim_bad_fd(fd);
    }
    if ((code == WEFT__OP_RECVMSG ? socket->readers : socket->writers) != NULL) {
        return -EAGAIN; // others were here first
    }
    while (done < count && result >= 0) {
        struct weft__op op = {
            .code = code,
            .fd = fd,
            .data = &messages[done].msg_hdr,
            .flags = (uint32_t)flags | MSG_DONTWAIT,
            .scratch = (uint8_t)carrier->number,
        };
        result = weft__sim_try(carrier, socket, &op);
        if (result >= 0) {
            messages[done++].msg_len = (unsigned)result;
        }
    }
    weft__sim_settle(carrier->net);
    return done > 0 ? (int)done : (int)result;
}

static int sim_receive_many(void *state, int fd, struct mmsghdr *messages, unsigned count,
                            int flags)
{
    return do_many(state, fd, messages, count, flags, WEFT__OP_RECVMSG);
}

static int sim_send_many(void *state, int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return do_many(state, fd, messages, count, flags, WEFT__OP_SENDMSG);
}

const struct weft__sockets weft__sim_sockets = {
    .socket = sim_socket,
    .pair = sim_pair,
    .bind = sim_bind,
    .listen = sim_listen,
    .local = sim_local,
    .peer = sim_peer,
    .set = sim_set,
    .get = sim_get,
    .shutdown = sim_shutdown,
    .unread = sim_unread,
    .receive_many = sim_receive_many,
    .send_many = sim_send_many,
    .close = sim_close,
};
