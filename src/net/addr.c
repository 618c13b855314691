// addr.c - addresses as values: kind, port, equality, hash, and to and from the kernel's form.
#include "net/addr.h"

#include <errno.h>

int weft__addr_socket_type(const struct weft__addr *addr)
{
    switch (addr->kind) {
    case WEFT_ADDR_UDP:
    case WEFT_ADDR_UNIXGRAM: return SOCK_DGRAM;
    case WEFT_ADDR_UNIXPACKET: return SOCK_SEQPACKET;
    default: return SOCK_STREAM;
    }
}

void weft__addr_set_name(struct weft__addr *addr, const char *name, size_t bytes)
{
    bool in_files = bytes > 0 && name[0] != '\0';
    memset(&addr->storage, 0, sizeof addr->storage);
    addr->un.sun_family = AF_UNIX;
    if (bytes > 0) {
        memcpy(addr->un.sun_path, name, bytes);
    }
    addr->size = (uint16_t)(offsetof(struct sockaddr_un, sun_path) + bytes + (in_files ? 1 : 0));
}

void weft__addr_unmap(struct weft__addr *addr)
{
    if (addr->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr)) {
        return;
    }
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = addr->v6.sin6_port };
    memcpy(&v4.sin_addr, &addr->v6.sin6_addr.s6_addr[12], sizeof v4.sin_addr);
    memset(&addr->storage, 0, sizeof addr->storage);
    addr->v4 = v4;
    addr->size = sizeof v4;
}

void weft__addr_any_v4(struct weft_addr *addr)
{
    struct weft__addr *a = weft__addr(addr);
    in_port_t port = a->v6.sin6_port;
    memset(&a->storage, 0, sizeof a->storage);
    a->v4.sin_family = AF_INET;
    a->v4.sin_port = port;
    a->size = sizeof a->v4;
    a->any_address = false;
}

enum weft_addr_kind weft_addr_kind(const struct weft_addr *addr)
{
    return (enum weft_addr_kind)weft__addr_const(addr)->kind;
}

int weft_addr_family(const struct weft_addr *addr)
{
    return weft__addr_const(addr)->any.sa_family;
}

int weft_addr_port(const struct weft_addr *addr)
{
    const struct weft__addr *a = weft__addr_const(addr);
    switch (a->any.sa_family) {
    case AF_INET: return ntohs(a->v4.sin_port);
    case AF_INET6: return ntohs(a->v6.sin6_port);
    default: return -1;
    }
}

int weft_addr_set_port(struct weft_addr *addr, uint16_t port)
{
    struct weft__addr *a = weft__addr(addr);
    switch (a->any.sa_family) {
    case AF_INET: a->v4.sin_port = htons(port); return 0;
    case AF_INET6: a->v6.sin6_port = htons(port); return 0;
    default: return -EINVAL;
    }
}

bool weft_addr_is_loopback(const struct weft_addr *addr)
{
    const struct weft__addr *a = weft__addr_const(addr);
    switch (a->any.sa_family) {
    case AF_INET: return ntohl(a->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    case AF_INET6: return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    case AF_UNIX: return true;
    default: return false;
    }
}

bool weft_addr_equal(const struct weft_addr *a, const struct weft_addr *b)
{
    const struct weft__addr *x = weft__addr_const(a), *y = weft__addr_const(b);
    return x->kind == y->kind && x->any_address == y->any_address && x->size == y->size &&
           memcmp(&x->storage, &y->storage, x->size) == 0; // A1
}

uint64_t weft_addr_hash(const struct weft_addr *addr)
{
    const struct weft__addr *a = weft__addr_const(addr);
    const unsigned char *bytes = (const unsigned char *)&a->storage;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ a->kind ^ (a->any_address ? 0x100u : 0u);
    for (size_t i = 0; i < a->size; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    // The last bytes have reached only some of the upper bits, and tables use the lower ones.
    hash ^= hash >> 32;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

const struct sockaddr *weft_addr_sockaddr(const struct weft_addr *addr, uint32_t *size)
{
    const struct weft__addr *a = weft__addr_const(addr);
    *size = a->size;
    return a->kind == WEFT_ADDR_NONE ? NULL : &a->any;
}

static int take_v4(struct weft__addr *addr, const struct sockaddr *sockaddr, uint32_t size)
{
    struct sockaddr_in from;
    if (size < sizeof from) {
        return -EINVAL;
    }
    memcpy(&from, sockaddr, sizeof from);
    addr->v4.sin_family = AF_INET;
    addr->v4.sin_port = from.sin_port;
    addr->v4.sin_addr = from.sin_addr;
    addr->size = sizeof addr->v4;
    return 0;
}

static int take_v6(struct weft__addr *addr, const struct sockaddr *sockaddr, uint32_t size)
{
    struct sockaddr_in6 from;
    if (size < sizeof from) {
        return -EINVAL;
    }
    memcpy(&from, sockaddr, sizeof from);
    addr->v6.sin6_family = AF_INET6;
    addr->v6.sin6_port = from.sin6_port;
    addr->v6.sin6_addr = from.sin6_addr;
    addr->v6.sin6_scope_id = from.sin6_scope_id;
    addr->size = sizeof addr->v6;
    weft__addr_unmap(addr);
    return 0;
}

static int take_unix(struct weft__addr *addr, const struct sockaddr *sockaddr, uint32_t size)
{
    // Another program may have bound a path of 108 bytes; the kernel then gives a size of one more
    // than the struct has. Such a name has no text form that others understand: refused.
    const size_t before = offsetof(struct sockaddr_un, sun_path);
    const char *name = (const char *)sockaddr + before;
    if (size < before || size > sizeof addr->un) {
        return -EINVAL;
    }
    size_t bytes = size - before;
    if (bytes > 0 && name[0] != '\0') {
        bytes = strnlen(name, bytes);
        if (bytes == sizeof addr->un.sun_path) {
            return -EINVAL;
        }
    }
    weft__addr_set_name(addr, name, bytes);
    return 0;
}

int weft_addr_from_sockaddr(struct weft_addr *addr, enum weft_addr_kind kind,
                            const struct sockaddr *sockaddr, uint32_t size)
{
    struct weft__addr taken = { .kind = (uint8_t)kind };
    sa_family_t family;
    memset(addr, 0, sizeof *addr);
    if (sockaddr == NULL || size < sizeof family || kind < WEFT_ADDR_TCP ||
        kind > WEFT_ADDR_UNIXPACKET) {
        return -EINVAL;
    }
    memcpy(&family, sockaddr, sizeof family);
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX) {
        return -EAFNOSUPPORT;
    }
    if ((family == AF_UNIX) != weft__addr_is_unix(&taken)) {
        return -EINVAL;
    }
    int rc = family == AF_INET    ? take_v4(&taken, sockaddr, size)
             : family == AF_INET6 ? take_v6(&taken, sockaddr, size)
                                  : take_unix(&taken, sockaddr, size);
    if (rc == 0) {
        memcpy(addr, &taken, sizeof taken);
    }
    return rc;
}
