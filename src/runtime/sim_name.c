// sim_name.c - addresses and ports, and which socket is meant by one.
//
// Every IP address is one of this network, so everything can be bound. A socket that sends without
// having been bound gets the address that it sends to, as on a machine that talks to itself.
#include "runtime/sim_name.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "runtime/sim_net.h"
#include "runtime/sim_socket.h"

/// Where the kernel looks for ports, too.
#define FIRST_PORT 32768
#define PORTS (61000 - FIRST_PORT)

static const uint8_t v4_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
static const uint8_t zeros[16];

static bool is_v4(const struct weft__sim_name *name)
{
    return memcmp(name->ip, v4_prefix, sizeof v4_prefix) == 0;
}

/// 0.0.0.0 or ::
static bool is_any(const struct weft__sim_name *name)
{
    return memcmp(name->ip, zeros, 16) == 0 ||
           (is_v4(name) && memcmp(name->ip + 12, zeros, 4) == 0);
}

static int read_unix(struct weft__sim_name *name, const struct sockaddr *addr, uint32_t size)
{
    const size_t head = offsetof(struct sockaddr_un, sun_path);
    if (size < head || size > sizeof(struct sockaddr_un)) {
        return -EINVAL;
    }
    size_t length = size - head;
    const char *path = (const char *)addr + head;
    if (length > 0 && path[0] != '\0') {
        length = strnlen(path, length);
    }
    memcpy(name->path, path, length);
    name->path_size = (uint32_t)length;
    return 0;
}

static void read_v4(struct weft__sim_name *name, const struct sockaddr *addr)
{
    struct sockaddr_in in;
    memcpy(&in, addr, sizeof in);
    memcpy(name->ip, v4_prefix, sizeof v4_prefix);
    memcpy(name->ip + 12, &in.sin_addr, 4);
    name->port = ntohs(in.sin_port);
}

static void read_v6(struct weft__sim_name *name, const struct sockaddr *addr)
{
    struct sockaddr_in6 in;
    memcpy(&in, addr, sizeof in);
    memcpy(name->ip, &in.sin6_addr, 16);
    name->port = ntohs(in.sin6_port);
    name->scope = in.sin6_scope_id;
}

int weft__sim_name_read(struct weft__sim_name *name, int domain, int type,
                        const struct sockaddr *addr, uint32_t size)
{
    *name = (struct weft__sim_name){ 0 };
    if (addr == NULL || size < sizeof addr->sa_family) {
        return -EINVAL;
    }
    name->family = addr->sa_family;
    if (name->family == AF_UNSPEC) {
        return 0;
    }
    if (domain == AF_INET6 && name->family == AF_INET && type == SOCK_DGRAM) {
        domain = AF_INET; // the kernel's UDP takes both
    }
    if (name->family != domain) {
        return domain == AF_UNIX ? -EINVAL : -EAFNOSUPPORT;
    }
    if (domain == AF_UNIX) {
        return read_unix(name, addr, size);
    }
    if (domain == AF_INET && size >= sizeof(struct sockaddr_in)) {
        read_v4(name, addr);
        return 0;
    }
    if (domain == AF_INET6 && size >= sizeof(struct sockaddr_in6)) {
        read_v6(name, addr);
        return 0;
    }
    return -EINVAL;
}

static void put(void *addr, uint32_t *size, const void *from, size_t length)
{
    memcpy(addr, from, *size < length ? *size : length);
    *size = (uint32_t)length;
}

void weft__sim_name_write(const struct weft__sim_name *name, int domain, void *addr, uint32_t *size)
{
    if (domain == AF_UNIX) {
        struct sockaddr_un un = { .sun_family = AF_UNIX };
        size_t length = offsetof(struct sockaddr_un, sun_path) + name->path_size;
        memcpy(un.sun_path, name->path, name->path_size);
        bool file = name->path_size > 0 && name->path[0] != '\0';
        put(addr, size, &un, length + (file && name->path_size < sizeof un.sun_path));
    } else if (domain == AF_INET) {
        struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(name->port) };
        memcpy(&in.sin_addr, name->ip + 12, 4);
        put(addr, size, &in, sizeof in);
    } else {
        struct sockaddr_in6 in = { .sin6_family = AF_INET6,
                                   .sin6_port = htons(name->port),
                                   .sin6_scope_id = name->scope };
        memcpy(&in.sin6_addr, name->ip, 16);
        put(addr, size, &in, sizeof in);
    }
}

bool weft__sim_name_equal(const struct weft__sim_name *a, const struct weft__sim_name *b)
{
    if (a->family == AF_UNIX || b->family == AF_UNIX) {
        return a->family == b->family && a->path_size == b->path_size && a->path_size > 0 &&
               memcmp(a->path, b->path, a->path_size) == 0;
    }
    return a->port == b->port && memcmp(a->ip, b->ip, 16) == 0;
}

// Who is meant.

static bool only_v6(const struct weft__sim_socket *socket)
{
    return weft__sim_option(socket, IPPROTO_IPV6, IPV6_V6ONLY) != 0;
}

/// How well the local address of a socket fits: 2 exactly, 1 as a wildcard, 0 not at all.
static int fits(const struct weft__sim_socket *socket, const struct weft__sim_name *to)
{
    const struct weft__sim_name *local = &socket->local;
    if (local->port != to->port) {
        return 0;
    }
    if (memcmp(local->ip, to->ip, 16) == 0) {
        return 2;
    }
    if (!is_any(local)) {
        return 0;
    }
    return is_v4(local) ? is_v4(to) : !is_v4(to) || !only_v6(socket);
}

/// Draws one of the sockets with the highest score.
struct lot {
    struct weft__sim_socket *winner;
    int score;
    uint32_t equals;
};

static void enter_lot(struct weft__sim_net *net, struct lot *lot, struct weft__sim_socket *socket,
                      int score)
{
    if (score == 0 || score < lot->score) {
        return;
    }
    lot->equals = score > lot->score ? 1 : lot->equals + 1;
    lot->score = score;
    if (lot->equals == 1 || weft__rng_below(&net->rng, lot->equals) == 0) {
        lot->winner = socket;
    }
}

struct weft__sim_socket *weft__sim_find_listener(struct weft__sim_net *net,
                                                 const struct weft__sim_name *to)
{
    struct lot lot = { 0 };
    for (uint32_t i = 0; i < net->slot_count; i++) {
        struct weft__sim_socket *socket = net->slots[i].socket;
        if (socket != NULL && socket->state == WEFT__SIM_LISTENING && !weft__sim_is_unix(socket)) {
            enter_lot(net, &lot, socket, fits(socket, to));
        }
    }
    return lot.winner;
}

struct weft__sim_socket *weft__sim_find_receiver(struct weft__sim_net *net,
                                                 const struct weft__sim_name *to,
                                                 const struct weft__sim_name *from)
{
    struct lot lot = { 0 };
    for (uint32_t i = 0; i < net->slot_count; i++) {
        struct weft__sim_socket *socket = net->slots[i].socket;
        if (socket == NULL || socket->type != SOCK_DGRAM || weft__sim_is_unix(socket) ||
            !socket->bound) {
            continue;
        }
        bool connected = socket->peer_name.family != AF_UNSPEC;
        if (!connected || weft__sim_name_equal(&socket->peer_name, from)) {
            int score = fits(socket, to);
            enter_lot(net, &lot, socket, score > 0 && connected ? score + 2 : score);
        }
    }
    return lot.winner;
}

bool weft__sim_is_group(const struct weft__sim_name *name)
{
    return is_v4(name) ? name->ip[12] >> 4 == 0xe : name->ip[0] == 0xff;
}

static struct weft__sim_group *find_group(const struct weft__sim_socket *socket,
                                          const struct weft__sim_name *group)
{
    for (size_t i = 0; socket->groups != NULL && i < WEFT__SIM_GROUPS; i++) {
        struct weft__sim_group *joined = &socket->groups[i];
        if (joined->joined && memcmp(joined->ip, group->ip, 16) == 0) {
            return joined;
        }
    }
    return NULL;
}

bool weft__sim_in_group(const struct weft__sim_socket *socket, const struct weft__sim_name *group)
{
    return socket->bound && fits(socket, group) > 0 && find_group(socket, group) != NULL;
}

int weft__sim_change_group(struct weft__sim_net *net, struct weft__sim_socket *socket,
                           const struct weft__sim_name *group, bool join)
{
    struct weft__sim_group *joined = find_group(socket, group);
    if (!weft__sim_is_group(group) || socket->type != SOCK_DGRAM) {
        return -EINVAL;
    }
    if (!join || joined != NULL) {
        if (joined == NULL || join) {
            return join ? -EADDRINUSE : -EADDRNOTAVAIL;
        }
        joined->joined = false;
        return 0;
    }
    if (socket->groups == NULL) {
        socket->groups = weft__alloc(net->allocator, WEFT__SIM_GROUPS * sizeof *socket->groups,
                                     _Alignof(struct weft__sim_group));
        if (socket->groups == NULL) {
            return -ENOMEM;
        }
    }
    for (size_t i = 0; i < WEFT__SIM_GROUPS; i++) {
        if (!socket->groups[i].joined) {
            socket->groups[i].joined = true;
            memcpy(socket->groups[i].ip, group->ip, 16);
            return 0;
        }
    }
    return -ENOBUFS;
}

struct weft__sim_socket *weft__sim_find_unix(struct weft__sim_net *net,
                                             const struct weft__sim_name *name)
{
    for (uint32_t i = 0; i < net->slot_count; i++) {
        struct weft__sim_socket *socket = net->slots[i].socket;
        if (socket != NULL && socket->bound && weft__sim_name_equal(&socket->local, name)) {
            return socket;
        }
    }
    return NULL;
}

// Binding.

static bool both_have(const struct weft__sim_socket *a, const struct weft__sim_socket *b, int name)
{
    return weft__sim_option(a, SOL_SOCKET, name) != 0 && weft__sim_option(b, SOL_SOCKET, name) != 0;
}

/// Whether `a` cannot have its name because `b` has it.
static bool collide(const struct weft__sim_socket *a, const struct weft__sim_socket *b)
{
    bool overlap = fits(a, &b->local) > 0 || fits(b, &a->local) > 0;
    if (!overlap && a->local.port == b->local.port && is_any(&a->local) && is_any(&b->local)) {
        overlap = !only_v6(a) && !only_v6(b); // 0.0.0.0 and ::
    }
    if (!overlap || both_have(a, b, SO_REUSEPORT)) {
        return false;
    }
    return b->state == WEFT__SIM_LISTENING || !both_have(a, b, SO_REUSEADDR);
}

bool weft__sim_is_taken(struct weft__sim_net *net, const struct weft__sim_socket *socket)
{
    if (weft__sim_is_unix(socket)) {
        return weft__sim_find_unix(net, &socket->local) != NULL;
    }
    for (uint32_t i = 0; i < net->slot_count; i++) {
        const struct weft__sim_socket *other = net->slots[i].socket;
        if (other != NULL && other != socket && other->bound && !weft__sim_is_unix(other) &&
            other->type == socket->type && collide(socket, other)) {
            return true;
        }
    }
    return false;
}

/// Draws a port and goes on from there. False: all are taken.
static bool choose_port(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    uint32_t start = weft__rng_below(&net->rng, PORTS);
    for (uint32_t i = 0; i < PORTS; i++) {
        socket->local.port = (uint16_t)(FIRST_PORT + (start + i) % PORTS);
        if (!weft__sim_is_taken(net, socket)) {
            return true;
        }
    }
    return false;
}

static void choose_path(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    do {
        socket->local.path[0] = '\0';
        (void)snprintf(socket->local.path + 1, sizeof socket->local.path - 1, "%05x",
                       net->names_made++);
        socket->local.path_size = 6;
    } while (weft__sim_is_taken(net, socket));
}

int weft__sim_bind(struct weft__sim_net *net, struct weft__sim_socket *socket,
                   const struct weft__sim_name *name)
{
    if (socket->bound || socket->state != WEFT__SIM_IDLE) {
        return -EINVAL;
    }
    bool found = true;
    socket->local = *name;
    if (weft__sim_is_unix(socket)) {
        if (name->path_size == 0) {
            choose_path(net, socket);
        } else {
            found = !weft__sim_is_taken(net, socket);
        }
    } else {
        found = name->port == 0 ? choose_port(net, socket) : !weft__sim_is_taken(net, socket);
    }
    socket->bound = found;
    if (!found) {
        socket->local = (struct weft__sim_name){ 0 };
    }
    return found ? 0 : -EADDRINUSE;
}

void weft__sim_name_aim(struct weft__sim_name *to)
{
    if (is_v4(to) && is_any(to)) {
        memcpy(to->ip + 12, (const uint8_t[4]){ 127, 0, 0, 1 }, 4);
    } else if (to->family != AF_UNIX && is_any(to)) {
        to->ip[15] = 1;
    }
}

struct weft__sim_name weft__sim_source(const struct weft__sim_socket *socket,
                                       const struct weft__sim_name *to)
{
    struct weft__sim_name from = socket->local;
    if (from.family != AF_UNIX && is_any(&from)) {
        memcpy(from.ip, to->ip, 16);
    }
    return from;
}

int weft__sim_bind_any(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    struct weft__sim_name any = { .family = (uint16_t)socket->domain };
    if (socket->bound) {
        return 0;
    }
    if (socket->domain == AF_INET) {
        memcpy(any.ip, v4_prefix, sizeof v4_prefix);
    }
    int rc = weft__sim_bind(net, socket, &any);
    return rc == -EADDRINUSE ? -EADDRNOTAVAIL : rc;
}
