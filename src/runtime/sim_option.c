// sim_option.c - socket options of the simulated network: remembered, and obeyed where they matter.
//
// Obeyed are the reuse options, IPV6_V6ONLY, SO_LINGER without time and the buffer sizes. What Linux
// knows and a simulated network has no use for is remembered and given back; the rest is refused.
#include "runtime/sim_socket.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "runtime/sim_ops.h"

#ifndef UDP_GRO
#define UDP_GRO 104 // Linux 5.0
#endif

/// The kernel's smallest buffers.
#define LEAST_SEND_BYTES 4608
#define LEAST_RECEIVE_BYTES 2304

struct known {
    int level;
    int name;
    uint8_t least; // bytes
    uint8_t most;
    int low; // of a number
    int high;
};

static const struct known known[] = {
    { SOL_SOCKET, SO_REUSEADDR, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_REUSEPORT, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_KEEPALIVE, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_BROADCAST, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_DONTROUTE, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_OOBINLINE, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_PRIORITY, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_RCVLOWAT, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_PASSCRED, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_ZEROCOPY, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_INCOMING_CPU, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_MARK, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_TIMESTAMP, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_BUSY_POLL, sizeof(int), sizeof(int), 0, INT_MAX },
    { SOL_SOCKET, SO_LINGER, sizeof(struct linger), sizeof(struct linger), INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_RCVTIMEO, 16, 16, INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_SNDTIMEO, 16, 16, INT_MIN, INT_MAX },
    { SOL_SOCKET, SO_BINDTODEVICE, 0, 16, INT_MIN, INT_MAX },
    { IPPROTO_TCP, TCP_NODELAY, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_TCP, TCP_CORK, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_TCP, TCP_KEEPIDLE, sizeof(int), sizeof(int), 1, 32767 },
    { IPPROTO_TCP, TCP_KEEPINTVL, sizeof(int), sizeof(int), 1, 32767 },
    { IPPROTO_TCP, TCP_KEEPCNT, sizeof(int), sizeof(int), 1, 127 },
    { IPPROTO_TCP, TCP_USER_TIMEOUT, sizeof(int), sizeof(int), 0, INT_MAX },
    { IPPROTO_TCP, TCP_QUICKACK, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_TCP, TCP_DEFER_ACCEPT, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_TCP, TCP_FASTOPEN, sizeof(int), sizeof(int), 0, INT_MAX },
    { IPPROTO_TCP, TCP_FASTOPEN_CONNECT, sizeof(int), sizeof(int), 0, 1 },
    { IPPROTO_TCP, TCP_NOTSENT_LOWAT, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_TCP, TCP_MAXSEG, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_UDP, UDP_GRO, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_IP, IP_TTL, sizeof(int), sizeof(int), 1, 255 },
    { IPPROTO_IP, IP_TOS, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_IP, IP_PKTINFO, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_IP, IP_FREEBIND, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_IP, IP_MULTICAST_TTL, sizeof(int), sizeof(int), -1, 255 },
    { IPPROTO_IP, IP_MULTICAST_LOOP, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_IP, IP_MULTICAST_IF, 4, sizeof(struct ip_mreqn), INT_MIN, INT_MAX },
    { IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_IPV6, IPV6_V6ONLY, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_IPV6, IPV6_UNICAST_HOPS, sizeof(int), sizeof(int), -1, 255 },
    { IPPROTO_IPV6, IPV6_TCLASS, sizeof(int), sizeof(int), -1, 255 },
    { IPPROTO_IPV6, IPV6_RECVPKTINFO, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_IPV6, IPV6_MULTICAST_HOPS, sizeof(int), sizeof(int), -1, 255 },
    { IPPROTO_IPV6, IPV6_MULTICAST_LOOP, sizeof(int), sizeof(int), INT_MIN, INT_MAX },
    { IPPROTO_IPV6, IPV6_MULTICAST_IF, sizeof(int), sizeof(int), 0, INT_MAX },
};
_Static_assert(WEFT__ARRAY_LEN(known) <= WEFT__SIM_OPTIONS, "a socket has room for all");

static size_t find(int level, int name)
{
    size_t i = 0;
    while (i < WEFT__ARRAY_LEN(known) && (known[i].level != level || known[i].name != name)) {
        i++;
    }
    return i;
}

int weft__sim_option(const struct weft__sim_socket *socket, int level, int name)
{
    const struct weft__sim_option *option = &socket->options[find(level, name)];
    int value = 0;
    if (option->size == sizeof value) {
        memcpy(&value, option->value, sizeof value);
    }
    return value;
}

bool weft__sim_lingers_not(const struct weft__sim_socket *socket)
{
    const struct weft__sim_option *option = &socket->options[find(SOL_SOCKET, SO_LINGER)];
    struct linger linger = { 0 };
    memcpy(&linger, option->value, sizeof linger);
    return linger.l_onoff != 0 && linger.l_linger == 0 && !weft__sim_is_unix(socket);
}

/// Options of a protocol that the socket does not speak.
static bool is_foreign(const struct weft__sim_socket *socket, int level)
{
    switch (level) {
    case SOL_SOCKET: return false;
    case IPPROTO_IP: return weft__sim_is_unix(socket);
    case IPPROTO_IPV6: return socket->domain != AF_INET6;
    default: return socket->protocol != level;
    }
}

static size_t doubled(const void *value, uint32_t size, size_t least)
{
    int bytes;
    memcpy(&bytes, value, size < sizeof bytes ? size : sizeof bytes);
    size_t twice = bytes > 0 ? 2 * (size_t)bytes : 0;
    return twice > least ? twice : least;
}

static int set_buffer(struct weft__sim_net *net, struct weft__sim_socket *socket, int name,
                      const void *value, uint32_t size)
{
    if (size < sizeof(int)) {
        return -EINVAL;
    }
    if (name == SO_SNDBUF) {
        socket->send_bytes = doubled(value, size, LEAST_SEND_BYTES);
    } else {
        socket->receive_bytes = doubled(value, size, LEAST_RECEIVE_BYTES);
    }
    weft__sim_touch(net, socket); // windows may have grown
    weft__sim_touch(net, weft__sim_at(net, socket->peer));
    weft__sim_touch_stuck(net);
    weft__sim_settle(net);
    return 0;
}

static bool in_range(const struct known *option, const void *value)
{
    int number = 0;
    if (option->least != sizeof number || option->most != sizeof number) {
        return true;
    }
    memcpy(&number, value, sizeof number);
    return number >= option->low && number <= option->high;
}

static int set_group(struct weft__sim_net *net, struct weft__sim_socket *socket, int level,
                     int option, const void *value, uint32_t size)
{
    struct group_req request;
    struct weft__sim_name group;
    if (size < sizeof request) {
        return -EINVAL;
    }
    memcpy(&request, value, sizeof request);
    const struct sockaddr *addr = (const struct sockaddr *)&request.gr_group;
    int rc = weft__sim_name_read(&group, level == IPPROTO_IP ? AF_INET : AF_INET6, 0, addr,
                                 sizeof request.gr_group);
    if (rc == 0) {
        group.port = socket->local.port; // of no meaning here
        rc = weft__sim_change_group(net, socket, &group, option == MCAST_JOIN_GROUP);
    }
    return rc;
}

int weft__sim_option_set(struct weft__sim_net *net, struct weft__sim_socket *socket, int level,
                         int name, const void *value, uint32_t size)
{
    if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF)) {
        return set_buffer(net, socket, name, value, size);
    }
    if (is_foreign(socket, level)) {
        return -EOPNOTSUPP;
    }
    if (level != SOL_SOCKET && (name == MCAST_JOIN_GROUP || name == MCAST_LEAVE_GROUP)) {
        return set_group(net, socket, level, name, value, size);
    }
    size_t i = find(level, name);
    if (i == WEFT__ARRAY_LEN(known)) {
        return -ENOPROTOOPT;
    }
    if (size < known[i].least || !in_range(&known[i], value)) {
        return -EINVAL;
    }
    if (name == SO_BINDTODEVICE && level == SOL_SOCKET && size > 0 &&
        strncmp(value, "lo", size) != 0) {
        return -ENODEV;
    }
    socket->options[i].size = size < known[i].most ? (uint8_t)size : known[i].most;
    memcpy(socket->options[i].value, value, socket->options[i].size);
    return 0;
}

/// Options that say what the socket is. False: it is none of these.
static bool get_fact(struct weft__sim_socket *socket, int name, int *value)
{
    switch (name) {
    case SO_ERROR:
        *value = socket->error;
        socket->error = 0;
        return true;
    case SO_TYPE: *value = socket->type; return true;
    case SO_DOMAIN: *value = socket->domain; return true;
    case SO_PROTOCOL: *value = socket->protocol; return true;
    case SO_ACCEPTCONN: *value = socket->state == WEFT__SIM_LISTENING; return true;
    case SO_SNDBUF: *value = (int)socket->send_bytes; return true;
    case SO_RCVBUF: *value = (int)socket->receive_bytes; return true;
    default: return false;
    }
}

static void put(void *value, uint32_t *size, const void *from, size_t length)
{
    *size = *size < length ? *size : (uint32_t)length;
    memcpy(value, from, *size);
}

/// Both ends are this process.
static void get_peer(const struct weft__sim_socket *socket, void *value, uint32_t *size)
{
    bool connected = weft__sim_is_unix(socket) && socket->peer.generation != 0;
    struct ucred peer = { 0, (uid_t)-1, (gid_t)-1 };
    if (connected) {
        peer = (struct ucred){ getpid(), geteuid(), getegid() };
    }
    put(value, size, &peer, sizeof peer);
}

int weft__sim_option_get(struct weft__sim_net *net, struct weft__sim_socket *socket, int level,
                         int name, void *value, uint32_t *size)
{
    int fact;
    (void)net;
    if (level == SOL_SOCKET && get_fact(socket, name, &fact)) {
        put(value, size, &fact, sizeof fact);
        return 0;
    }
    if (level == SOL_SOCKET && name == SO_PEERCRED) {
        get_peer(socket, value, size);
        return 0;
    }
    if (is_foreign(socket, level)) {
        return -EOPNOTSUPP;
    }
    size_t i = find(level, name);
    if (i == WEFT__ARRAY_LEN(known)) {
        return -ENOPROTOOPT;
    }
    const struct weft__sim_option *option = &socket->options[i];
    put(value, size, option->value, option->size != 0 ? option->size : known[i].least);
    return 0;
}
