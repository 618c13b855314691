// sim_option.c - socket options of the simulated network: remembered, and obeyed where they matter.
//
// Obeyed are the reuse options, IPV6_V6ONLY, SO_LINGER without time and the buffer sizes. What Linux
// knows and a simulated network has no use for is remembered and given back; the rest is refused.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>

#include "runtime/sim_net.h"

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
};

#define NUMBER sizeof(int), sizeof(int)

static const struct known known[] = {
    { SOL_SOCKET, SO_REUSEADDR, NUMBER },
    { SOL_SOCKET, SO_REUSEPORT, NUMBER },
    { SOL_SOCKET, SO_KEEPALIVE, NUMBER },
    { SOL_SOCKET, SO_BROADCAST, NUMBER },
    { SOL_SOCKET, SO_DONTROUTE, NUMBER },
    { SOL_SOCKET, SO_OOBINLINE, NUMBER },
    { SOL_SOCKET, SO_PRIORITY, NUMBER },
    { SOL_SOCKET, SO_RCVLOWAT, NUMBER },
    { SOL_SOCKET, SO_PASSCRED, NUMBER },
    { SOL_SOCKET, SO_ZEROCOPY, NUMBER },
    { SOL_SOCKET, SO_BUSY_POLL, NUMBER },
    { SOL_SOCKET, SO_INCOMING_CPU, NUMBER },
    { SOL_SOCKET, SO_MARK, NUMBER },
    { SOL_SOCKET, SO_TIMESTAMP, NUMBER },
    { SOL_SOCKET, SO_LINGER, sizeof(struct linger), sizeof(struct linger) },
    { SOL_SOCKET, SO_RCVTIMEO, 16, 16 },
    { SOL_SOCKET, SO_SNDTIMEO, 16, 16 },
    { SOL_SOCKET, SO_BINDTODEVICE, 0, 16 },
    { IPPROTO_TCP, TCP_NODELAY, NUMBER },
    { IPPROTO_TCP, TCP_CORK, NUMBER },
    { IPPROTO_TCP, TCP_KEEPIDLE, NUMBER },
    { IPPROTO_TCP, TCP_KEEPINTVL, NUMBER },
    { IPPROTO_TCP, TCP_KEEPCNT, NUMBER },
    { IPPROTO_TCP, TCP_USER_TIMEOUT, NUMBER },
    { IPPROTO_TCP, TCP_QUICKACK, NUMBER },
    { IPPROTO_TCP, TCP_DEFER_ACCEPT, NUMBER },
    { IPPROTO_TCP, TCP_FASTOPEN, NUMBER },
    { IPPROTO_TCP, TCP_FASTOPEN_CONNECT, NUMBER },
    { IPPROTO_TCP, TCP_NOTSENT_LOWAT, NUMBER },
    { IPPROTO_TCP, TCP_MAXSEG, NUMBER },
    { IPPROTO_UDP, UDP_GRO, NUMBER },
    { IPPROTO_IP, IP_TTL, NUMBER },
    { IPPROTO_IP, IP_TOS, NUMBER },
    { IPPROTO_IP, IP_PKTINFO, NUMBER },
    { IPPROTO_IP, IP_FREEBIND, NUMBER },
    { IPPROTO_IP, IP_MULTICAST_TTL, NUMBER },
    { IPPROTO_IP, IP_MULTICAST_LOOP, NUMBER },
    { IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, NUMBER },
    { IPPROTO_IPV6, IPV6_V6ONLY, NUMBER },
    { IPPROTO_IPV6, IPV6_UNICAST_HOPS, NUMBER },
    { IPPROTO_IPV6, IPV6_TCLASS, NUMBER },
    { IPPROTO_IPV6, IPV6_RECVPKTINFO, NUMBER },
    { IPPROTO_IPV6, IPV6_MULTICAST_HOPS, NUMBER },
    { IPPROTO_IPV6, IPV6_MULTICAST_LOOP, NUMBER },
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

int weft__sim_option_set(struct weft__sim_net *net, struct weft__sim_socket *socket, int level,
                         int name, const void *value, uint32_t size)
{
    if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF)) {
        return set_buffer(net, socket, name, value, size);
    }
    if (is_foreign(socket, level)) {
        return -EOPNOTSUPP;
    }
    size_t i = find(level, name);
    if (i == WEFT__ARRAY_LEN(known)) {
        return -ENOPROTOOPT;
    }
    if (size < known[i].least) {
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

int weft__sim_option_get(struct weft__sim_net *net, struct weft__sim_socket *socket, int level,
                         int name, void *value, uint32_t *size)
{
    int fact;
    (void)net;
    if (level == SOL_SOCKET && get_fact(socket, name, &fact)) {
        put(value, size, &fact, sizeof fact);
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
