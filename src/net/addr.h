// addr.h - what is inside a struct weft_addr.
//
//   A1  Every address has one form: bytes that mean nothing are zero, IPv4-mapped addresses are
//       IPv4, and `size` is the shortest length that the kernel takes for it. So equality and hash
//       work on bytes.
#ifndef WEFT_NET_ADDR_H
#define WEFT_NET_ADDR_H

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <weft/addr.h>

#include "base/base.h"

struct weft__addr {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
        struct sockaddr_storage storage;
    };
    uint16_t size;    // of the sockaddr
    uint8_t kind;     // enum weft_addr_kind
    bool any_address; // "*": [::], or 0.0.0.0 where there is no IPv6
};
_Static_assert(sizeof(struct weft__addr) == sizeof(struct weft_addr), "layout of weft_addr");
_Static_assert(_Alignof(struct weft__addr) <= _Alignof(struct weft_addr), "layout of weft_addr");

static inline struct weft__addr *weft__addr(struct weft_addr *addr)
{
    return (struct weft__addr *)(void *)addr;
}

static inline const struct weft__addr *weft__addr_const(const struct weft_addr *addr)
{
    return (const struct weft__addr *)(const void *)addr;
}

static inline bool weft__addr_is_unix(const struct weft__addr *addr)
{
    return addr->kind >= WEFT_ADDR_UNIX;
}

/// How many bytes the name of a Unix socket has; of an abstract one with the zero byte before it, of
/// one in the file system without the one after it.
static inline size_t weft__addr_name_bytes(const struct weft__addr *addr)
{
    size_t bytes = addr->size - offsetof(struct sockaddr_un, sun_path);
    return bytes > 0 && addr->un.sun_path[0] != '\0' ? strnlen(addr->un.sun_path, bytes) : bytes;
}

/// The path of a Unix socket in the file system, or NULL.
static inline const char *weft__addr_path(const struct weft__addr *addr)
{
    return weft__addr_is_unix(addr) && weft__addr_name_bytes(addr) > 0 &&
                   addr->un.sun_path[0] != '\0'
               ? addr->un.sun_path
               : NULL;
}

/// The type for socket(): SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET.
int weft__addr_socket_type(const struct weft__addr *addr);

/// Sets the name of a Unix socket: `bytes` of it, at most sizeof sun_path, zero byte in front if
/// abstract, none at the end otherwise.
void weft__addr_set_name(struct weft__addr *addr, const char *name, size_t bytes);

/// Turns an IPv4-mapped address into IPv4 (A1).
void weft__addr_unmap(struct weft__addr *addr);

/// The number of a network interface, or 0 if there is none of that name.
uint32_t weft__addr_interface(const char *name);

/// For "*" where the machine has no IPv6: the same in IPv4.
void weft__addr_any_v4(struct weft_addr *addr);

#endif
