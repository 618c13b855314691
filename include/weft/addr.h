// weft/addr.h - where a socket is: parsing, printing and comparing addresses.
//
//     tcp://127.0.0.1:7000      IPv4; without "tcp://" it means the same
//     tcp://[::1]:7000          IPv6
//     tcp://[fe80::1%eth0]:80   with a scope, by name or by number
//     tcp://*:7000              every address of this machine, IPv6 and IPv4; also tcp://:7000
//     tcp://localhost:7000      127.0.0.1; other names are not looked up
//     udp://127.0.0.1:53        everything above also as UDP
//     unix:///run/app.sock      a Unix stream socket in the file system
//     unix://@app               in the abstract name space, which has no files
//     unixgram://, unixpacket:// the same for datagrams and for sequenced packets
//
// Nothing is guessed: no "127.1", no octal, no spaces, no port that is missing or has leading zeros.
#ifndef WEFT_ADDR_H
#define WEFT_ADDR_H

#include <weft/base.h>

struct sockaddr;

WEFT_BEGIN_DECLS

enum weft_addr_kind {
    WEFT_ADDR_NONE = 0,   ///< not an address: a zeroed struct, or a failed parse
    WEFT_ADDR_TCP,        ///< "tcp"
    WEFT_ADDR_UDP,        ///< "udp"
    WEFT_ADDR_UNIX,       ///< "unix": a stream
    WEFT_ADDR_UNIXGRAM,   ///< "unixgram": datagrams
    WEFT_ADDR_UNIXPACKET, ///< "unixpacket": sequenced packets
};

/// An address in the caller's storage. Copy it like any struct; it owns nothing.
struct weft_addr {
    uint64_t opaque[17];
};

/// Room that holds every address as text, the zero byte included.
#define WEFT_ADDR_TEXT_BYTES 352

/// Reads an address from text, in one of the forms above. In the name of a Unix socket a '%' begins
/// two hexadecimal digits that stand for one byte, so that every name can be written; a name that
/// begins with '@' is abstract, "%40" is a file whose name begins so. "unix://" alone is the unnamed
/// address: binding to it chooses a free abstract name, as port 0 chooses a port.
///
/// An IPv4-mapped IPv6 address ([::ffff:1.2.3.4]) is taken as the IPv4 address that it means, here
/// and in weft_addr_from_sockaddr(): one peer has one address, whichever socket it was seen on.
///
/// Call from:  anywhere. Only the name of a scope needs a system call.
/// Errors:     -EINVAL           not an address
///             -EPROTONOSUPPORT  the word before "://" is none of the above
///             -ERANGE           the port is greater than 65535
///             -ENAMETOOLONG     the path of a Unix socket has more than 107 bytes (an abstract
///                               name, its '@' counted, more than 108)
///             -ENODEV           no interface has the name of the scope, or its number is 0 or does
///                               not fit into 32 bits
/// On every error `*addr` is zeroed.
WEFT_API WEFT_MUST_CHECK int weft_addr_parse(struct weft_addr *addr, const char *text);

/// Writes the address as text that weft_addr_parse() reads back to an equal address, cut to `size`
/// bytes with the zero byte, and returns its whole length, like snprintf(). Always with the kind in
/// front; IPv6 in its shortest form; scopes by number, because names change. `text` may be NULL if
/// `size` is 0. WEFT_ADDR_NONE is the empty text.
///
/// Call from:  anywhere; it makes no system call.
WEFT_API int weft_addr_format(const struct weft_addr *addr, char *text, size_t size);

WEFT_API enum weft_addr_kind weft_addr_kind(const struct weft_addr *addr);

/// AF_INET, AF_INET6, AF_UNIX, or 0 for WEFT_ADDR_NONE. "*" is AF_INET6 until it is bound on a
/// machine that has none.
WEFT_API int weft_addr_family(const struct weft_addr *addr);

/// 0..65535, or -1 for an address that has no ports.
WEFT_API int weft_addr_port(const struct weft_addr *addr);

/// Replaces the port.
///
/// Errors:     -EINVAL  the address has no ports
WEFT_API int weft_addr_set_port(struct weft_addr *addr, uint16_t port);

/// Whether it can be reached from this machine only: 127.0.0.0/8, ::1 and every Unix socket.
WEFT_API bool weft_addr_is_loopback(const struct weft_addr *addr);

/// Whether both are the same address of the same kind.
WEFT_API bool weft_addr_equal(const struct weft_addr *a, const struct weft_addr *b);

/// Equal addresses have equal hashes, in every process. It resists no one who wants collisions.
WEFT_API uint64_t weft_addr_hash(const struct weft_addr *addr);

/// The address as the kernel wants it, borrowed from `addr`, and its length in `*size`. NULL and 0
/// for WEFT_ADDR_NONE.
WEFT_API const struct sockaddr *weft_addr_sockaddr(const struct weft_addr *addr, uint32_t *size);

/// Takes an address as the kernel gave it. IPv6 flow labels are dropped.
///
/// Errors:     -EINVAL        too short or too long for its family, or not a family of `kind`
///             -EAFNOSUPPORT  neither IPv4 nor IPv6 nor Unix
/// On every error `*addr` is zeroed.
WEFT_API WEFT_MUST_CHECK int weft_addr_from_sockaddr(struct weft_addr *addr,
                                                     enum weft_addr_kind kind,
                                                     const struct sockaddr *sockaddr,
                                                     uint32_t size);

WEFT_END_DECLS

#endif
