// socket.c - making a socket with its options, binding and closing it.
//
// Options are set in the order in which the struct names them, all before bind() and listen(): some
// (buffers, reuse, v6only) have no effect later, and accepted connections inherit what the listener
// has.
//
// io_uring keeps the sockets of a process that was killed, and so their addresses, until the kernel has
// taken its ring apart in the background: up to some 0.1 s. So that a server can be started at once after
// its predecessor, who finds an address in use tries again for a while before it says so.
#include "net/socket.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>

#include <weft/time.h>

#include "net/addr.h"

enum {
    DEFAULT_BACKLOG = 1024,
};

// Each pause is twice as long as the one before: a quarter of a second in all.
#define FIRST_PAUSE_NS (4 * WEFT_MS)
#define LAST_PAUSE_NS (128 * WEFT_MS)

#ifndef UDP_GRO
#define UDP_GRO 104 // Linux 5.0
#endif
#ifndef TCP_FASTOPEN_CONNECT
#define TCP_FASTOPEN_CONNECT 30 // Linux 4.11
#endif

/// What a socket is made for.
enum role { ROLE_CONNECT, ROLE_BIND, ROLE_LISTEN };

/// Sets one option after the other; the first error stays.
struct setter {
    struct weft__carrier *carrier;
    int fd;
    int rc;
    const char *failed;
};

void weft_socket_options_init(struct weft_socket_options *options)
{
    *options = (struct weft_socket_options)WEFT_SOCKET_OPTIONS_INIT;
}

int weft__socket_options(struct weft_socket_options *present,
                         const struct weft_socket_options *options)
{
    weft_socket_options_init(present);
    if (options == NULL) {
        return 0;
    }
    if (options->size < offsetof(struct weft_socket_options, unix_keep) + 1 ||
        options->size > sizeof *present) {
        return -EINVAL;
    }
    memcpy(present, options, options->size);
    present->size = sizeof *present;
    if (present->failed != NULL) {
        *present->failed = NULL;
    }
    return 0;
}

static void set_bytes(struct setter *s, const char *field, int level, int name, const void *value,
                      size_t size)
{
    if (s->rc == 0) {
        s->rc = s->carrier->driver->sockets->set(s->carrier->driver_state, s->fd, level, name,
                                                 value, (uint32_t)size);
        s->failed = s->rc < 0 ? field : NULL;
    }
}

static void set(struct setter *s, const char *field, int level, int name, int value)
{
    if (s->rc == 0 && value < 0) {
        s->rc = -EINVAL;
        s->failed = field;
    }
    set_bytes(s, field, level, name, &value, sizeof value);
}

/// For numbers of which 0 means the default.
static void set_given(struct setter *s, const char *field, int level, int name, int value)
{
    if (value != 0) {
        set(s, field, level, name, value);
    }
}

static void set_toggle(struct setter *s, const char *field, int level, int name,
                       enum weft_toggle value, enum weft_toggle otherwise)
{
    enum weft_toggle wanted = value != WEFT_DEFAULT ? value : otherwise;
    if (wanted != WEFT_DEFAULT) {
        set(s, field, level, name, wanted == WEFT_ON);
    }
}

static void set_common(struct setter *s, const struct weft_socket_options *o)
{
    set_given(s, "send_buffer_bytes", SOL_SOCKET, SO_SNDBUF, o->send_buffer_bytes);
    set_given(s, "receive_buffer_bytes", SOL_SOCKET, SO_RCVBUF, o->receive_buffer_bytes);
    if (o->mark != 0) {
        set_bytes(s, "mark", SOL_SOCKET, SO_MARK, &o->mark, sizeof o->mark);
    }
    if (o->device != NULL) {
        set_bytes(s, "device", SOL_SOCKET, SO_BINDTODEVICE, o->device,
                  strnlen(o->device, IF_NAMESIZE));
    }
    set_given(s, "busy_poll_us", SOL_SOCKET, SO_BUSY_POLL, o->busy_poll_us);
}

/// An IPv6 socket that may carry IPv4 needs the IPv4 form of an option as well.
static void set_both(struct setter *s, const char *field, int v4_name, int v6_name, int value,
                     const struct weft__addr *addr)
{
    if (value != 0) {
        if (addr->any.sa_family == AF_INET6) {
            set(s, field, IPPROTO_IPV6, v6_name, value);
        }
        set(s, field, IPPROTO_IP, v4_name, value);
    }
}

static void set_ip(struct setter *s, const struct weft_socket_options *o,
                   const struct weft__addr *addr, enum role role)
{
    enum weft_toggle reuse = role == ROLE_LISTEN ? WEFT_ON : WEFT_DEFAULT;
    set_toggle(s, "reuseaddr", SOL_SOCKET, SO_REUSEADDR, o->reuseaddr, reuse);
    set_given(s, "reuseport", SOL_SOCKET, SO_REUSEPORT, o->reuseport);
    if (addr->any.sa_family == AF_INET6) {
        set_toggle(s, "v6only", IPPROTO_IPV6, IPV6_V6ONLY, o->v6only,
                   addr->any_address ? WEFT_OFF : WEFT_DEFAULT);
    }
    set_both(s, "ttl", IP_TTL, IPV6_UNICAST_HOPS, o->ttl, addr);
    set_both(s, "tos", IP_TOS, IPV6_TCLASS, o->tos, addr);
}

static void set_tcp(struct setter *s, const struct weft_socket_options *o, enum role role)
{
    bool keepalive = o->keepalive || o->keepalive_idle_s != 0 || o->keepalive_interval_s != 0 ||
                     o->keepalive_count != 0;
    set_toggle(s, "nodelay", IPPROTO_TCP, TCP_NODELAY, o->nodelay, WEFT_ON);
    set_given(s, "keepalive", SOL_SOCKET, SO_KEEPALIVE, keepalive);
    set_given(s, "keepalive_idle_s", IPPROTO_TCP, TCP_KEEPIDLE, o->keepalive_idle_s);
    set_given(s, "keepalive_interval_s", IPPROTO_TCP, TCP_KEEPINTVL, o->keepalive_interval_s);
    set_given(s, "keepalive_count", IPPROTO_TCP, TCP_KEEPCNT, o->keepalive_count);
    set_given(s, "user_timeout_ms", IPPROTO_TCP, TCP_USER_TIMEOUT, o->user_timeout_ms);
    if (o->reset_on_close) {
        struct linger now = { .l_onoff = 1 };
        set_bytes(s, "reset_on_close", SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    if (role == ROLE_LISTEN) {
        set_given(s, "fastopen", IPPROTO_TCP, TCP_FASTOPEN, o->fastopen);
    } else if (o->fastopen != 0) {
        set(s, "fastopen", IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
    }
}

static void set_multicast_device(struct setter *s, const char *name, const struct weft__addr *addr)
{
    uint32_t index = weft__addr_interface(name);
    if (s->rc == 0 && index == 0) {
        s->rc = -ENODEV;
        s->failed = "multicast_device";
    }
    struct ip_mreqn v4 = { .imr_ifindex = (int)index };
    set_bytes(s, "multicast_device", IPPROTO_IP, IP_MULTICAST_IF, &v4, sizeof v4);
    if (addr->any.sa_family == AF_INET6) {
        set(s, "multicast_device", IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)index);
    }
}

static void set_udp(struct setter *s, const struct weft_socket_options *o,
                    const struct weft__addr *addr)
{
    set_given(s, "broadcast", SOL_SOCKET, SO_BROADCAST, o->broadcast);
    set_given(s, "receive_gro", IPPROTO_UDP, UDP_GRO, o->receive_gro);
    set_both(s, "multicast_ttl", IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS, o->multicast_ttl, addr);
    if (o->multicast_device != NULL) {
        set_multicast_device(s, o->multicast_device, addr);
    }
    if (o->multicast_loop != WEFT_DEFAULT) {
        int on = o->multicast_loop == WEFT_ON;
        set(s, "multicast_loop", IPPROTO_IP, IP_MULTICAST_LOOP, on);
        if (addr->any.sa_family == AF_INET6) {
            set(s, "multicast_loop", IPPROTO_IPV6, IPV6_MULTICAST_LOOP, on);
        }
    }
}

/// One try with one family.
static int make(int *fd, struct weft__carrier *carrier, const struct weft_addr *addr,
                const struct weft_socket_options *options, enum role role)
{
    const struct weft__addr *a = weft__addr_const(addr);
    const struct weft__sockets *sockets = carrier->driver->sockets;
    int made = sockets->socket(carrier->driver_state, a->any.sa_family, weft__addr_socket_type(a),
                               0);
    if (made < 0) {
        return made;
    }
    struct setter s = { .carrier = carrier, .fd = made };
    set_common(&s, options);
    if (!weft__addr_is_unix(a)) {
        set_ip(&s, options, a, role);
    }
    if (a->kind == WEFT_ADDR_TCP) {
        set_tcp(&s, options, role);
    } else if (a->kind == WEFT_ADDR_UDP) {
        set_udp(&s, options, a);
    }
    if (s.rc < 0) {
        if (options->failed != NULL) {
            *options->failed = s.failed;
        }
        sockets->close(carrier->driver_state, made);
        return s.rc;
    }
    *fd = made;
    return 0;
}

static int bind_ip(int fd, struct weft__carrier *carrier, const struct weft_addr *addr)
{
    uint32_t size;
    const struct sockaddr *where = weft_addr_sockaddr(addr, &size);
    return carrier->driver->sockets->bind(carrier->driver_state, fd, where, size);
}

static int bind_path(int fd, struct weft__socket_file *file, struct weft__carrier *carrier,
                     const struct weft_addr *addr, const struct weft_socket_options *options)
{
    const char *field = "unix_mode";
    int rc = weft__socket_file_prepare(fd, options->unix_mode);
    if (rc == 0) {
        field = NULL;
        rc = bind_ip(fd, carrier, addr);
        if (rc == -EADDRINUSE) {
            rc = weft__socket_file_replace(fd, carrier, addr, options->unix_existing);
        }
    }
    if (rc == 0) {
        field = "unix_mode";
        rc = weft__socket_file_made(file, addr, options->unix_mode);
        if (rc < 0) {
            weft__socket_file_remove(file);
        } else if (options->unix_keep) {
            file->inode = 0;
        }
    }
    if (rc < 0 && options->failed != NULL) {
        *options->failed = field;
    }
    return rc;
}

static int make_bound(int *fd, struct weft__socket_file *file, struct weft__carrier *carrier,
                      const struct weft_addr *addr, const struct weft_socket_options *options,
                      enum role role)
{
    int made;
    int rc = make(&made, carrier, addr, options, role);
    if (rc < 0) {
        return rc;
    }
    bool in_files = weft__addr_path(weft__addr_const(addr)) != NULL && carrier->sim == NULL;
    rc = in_files ? bind_path(made, file, carrier, addr, options) : bind_ip(made, carrier, addr);
    if (rc == 0 && role == ROLE_LISTEN) {
        int backlog = options->backlog > 0 ? options->backlog : DEFAULT_BACKLOG;
        rc = carrier->driver->sockets->listen(carrier->driver_state, made, backlog);
    }
    if (rc < 0) {
        weft__socket_close(made, file, carrier);
        return rc;
    }
    *fd = made;
    return 0;
}

/// "*" is IPv6 and IPv4, or only the latter on a machine that has no IPv6.
static int make_bound_somehow(int *fd, struct weft__socket_file *file,
                              struct weft__carrier *carrier, const struct weft_addr *addr,
                              const struct weft_socket_options *options, enum role role)
{
    int rc = make_bound(fd, file, carrier, addr, options, role);
    if ((rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL) && weft__addr_const(addr)->any_address) {
        struct weft_addr v4 = *addr;
        weft__addr_any_v4(&v4);
        rc = make_bound(fd, file, carrier, &v4, options, role);
    }
    return rc;
}

static int open_bound(int *fd, struct weft__socket_file *file, struct weft__carrier *carrier,
                      const struct weft_addr *addr, const struct weft_socket_options *options,
                      enum role role)
{
    struct weft_socket_options present;
    *fd = -1;
    file->inode = 0;
    int rc = weft__socket_options(&present, options);
    if (rc < 0 || weft_addr_kind(addr) == WEFT_ADDR_NONE) {
        return -EINVAL;
    }
    rc = make_bound_somehow(fd, file, carrier, addr, &present, role);
    bool waits = weft__addr_path(weft__addr_const(addr)) == NULL ||
                 present.unix_existing != WEFT_UNIX_REFUSE; // a file stays where it is
    weft_time pause = FIRST_PAUSE_NS;
    while (rc == -EADDRINUSE && waits && pause <= LAST_PAUSE_NS) {
        rc = weft_sleep(pause);
        if (rc == 0) {
            rc = make_bound_somehow(fd, file, carrier, addr, &present, role);
        }
        pause *= 2;
    }
    return rc;
}

int weft__socket_open(int *fd, struct weft__carrier *carrier, const struct weft_addr *addr,
                      const struct weft_socket_options *options)
{
    struct weft_socket_options present;
    *fd = -1;
    int rc = weft__socket_options(&present, options);
    if (rc < 0 || weft_addr_kind(addr) == WEFT_ADDR_NONE) {
        return -EINVAL;
    }
    return make(fd, carrier, addr, &present, ROLE_CONNECT);
}

int weft__socket_open_bound(int *fd, struct weft__socket_file *file, struct weft__carrier *carrier,
                            const struct weft_addr *addr, const struct weft_socket_options *options)
{
    return open_bound(fd, file, carrier, addr, options, ROLE_BIND);
}

int weft__socket_open_listening(int *fd, struct weft__socket_file *file,
                                struct weft__carrier *carrier, const struct weft_addr *addr,
                                const struct weft_socket_options *options)
{
    *fd = -1;
    file->inode = 0;
    if (weft__addr_socket_type(weft__addr_const(addr)) == SOCK_DGRAM) {
        return -EOPNOTSUPP;
    }
    return open_bound(fd, file, carrier, addr, options, ROLE_LISTEN);
}

void weft__socket_close(int fd, struct weft__socket_file *file, struct weft__carrier *carrier)
{
    if (file != NULL && file->inode != 0) {
        weft__socket_file_remove(file);
    }
    carrier->driver->forget(carrier->driver_state, fd);
    carrier->driver->sockets->close(carrier->driver_state, fd);
}

static int ask_addr(struct weft_addr *addr, int fd, enum weft_addr_kind kind,
                    struct weft__carrier *carrier,
                    int (*ask)(void *state, int fd, struct sockaddr *addr, uint32_t *size))
{
    struct sockaddr_storage storage = { 0 };
    uint32_t size = sizeof storage;
    memset(addr, 0, sizeof *addr);
    int rc = ask(carrier->driver_state, fd, (struct sockaddr *)&storage, &size);
    return rc < 0 ? rc
                  : weft_addr_from_sockaddr(addr, kind, (const struct sockaddr *)&storage, size);
}

int weft__socket_local(struct weft_addr *addr, int fd, enum weft_addr_kind kind,
                       struct weft__carrier *carrier)
{
    return ask_addr(addr, fd, kind, carrier, carrier->driver->sockets->local);
}

int weft__socket_peer(struct weft_addr *addr, int fd, enum weft_addr_kind kind,
                      struct weft__carrier *carrier)
{
    return ask_addr(addr, fd, kind, carrier, carrier->driver->sockets->peer);
}

int weft__socket_set(int fd, int level, int name, int value, struct weft__carrier *carrier)
{
    return carrier->driver->sockets->set(carrier->driver_state, fd, level, name, &value,
                                         sizeof value);
}
