// socket.h - making, binding and closing sockets for the other files of this folder.
//
// Everything goes through carrier->driver->sockets: in the simulator a socket is not the kernel's.
// All functions are called on the carrier's thread.
#ifndef WEFT_NET_SOCKET_H
#define WEFT_NET_SOCKET_H

#include <weft/addr.h>
#include <weft/socket.h>

#include "sched/carrier.h"

/// For ops and kernel structs, whose pointers are not const although these bytes are only read.
static inline void *weft__only_read(const void *bytes)
{
    return (void *)(uintptr_t)bytes;
}

/// Which file a bound Unix socket made, so that closing removes this one and no other.
struct weft__socket_file {
    uint64_t device;
    uint64_t inode; // 0: none
    struct weft_addr addr;
};

/// Copies the options, which may be NULL, into `present`, with defaults for the fields that an older
/// program does not have. -EINVAL: not initialised, or made for a newer library.
int weft__socket_options(struct weft_socket_options *present,
                         const struct weft_socket_options *options);

/// Makes a socket of the kind of `addr`, with the options that suit an unbound one. For connecting.
int weft__socket_open(int *fd, struct weft__carrier *carrier, const struct weft_addr *addr,
                      const struct weft_socket_options *options);

/// Makes a socket and binds it to `addr`; `file` is for weft__socket_close(). "*" becomes IPv4 on a
/// machine without IPv6. The kernel knows the port that was chosen for port 0: weft__socket_local().
/// While the address is in use the calling virtual thread, which is on `carrier`, waits a little:
/// -EADDRINUSE afterwards, or -ECANCELED.
int weft__socket_open_bound(int *fd, struct weft__socket_file *file, struct weft__carrier *carrier,
                            const struct weft_addr *addr,
                            const struct weft_socket_options *options);

/// As weft__socket_open_bound(), and listens. On a datagram address -EOPNOTSUPP.
int weft__socket_open_listening(int *fd, struct weft__socket_file *file,
                                struct weft__carrier *carrier, const struct weft_addr *addr,
                                const struct weft_socket_options *options);

/// Ends every op on the descriptor (they still complete on their own), removes the file and closes
/// it. `file` may be NULL.
void weft__socket_close(int fd, struct weft__socket_file *file, struct weft__carrier *carrier);

/// The address that the socket is bound or connected to. `kind` is what the socket was made for.
int weft__socket_local(struct weft_addr *addr, int fd, enum weft_addr_kind kind,
                       struct weft__carrier *carrier);
int weft__socket_peer(struct weft_addr *addr, int fd, enum weft_addr_kind kind,
                      struct weft__carrier *carrier);

/// setsockopt() with an int.
int weft__socket_set(int fd, int level, int name, int value, struct weft__carrier *carrier);

// socket_file.c: the path of a Unix socket. They touch the file system, so the simulator's sockets
// never come here.

/// Sets what permissions bind() gives to the file. 0: as the umask says.
int weft__socket_file_prepare(int fd, uint32_t mode);

/// After bind() said -EADDRINUSE: binds all the same if the file may be replaced. -EADDRINUSE: not.
int weft__socket_file_replace(int fd, struct weft__carrier *carrier, const struct weft_addr *addr,
                              enum weft_unix_existing existing);

/// After bind(): sets the permissions that the umask took away and remembers which file it is.
int weft__socket_file_made(struct weft__socket_file *file, const struct weft_addr *addr,
                           uint32_t mode);

/// Removes the file if it is still the same one.
void weft__socket_file_remove(struct weft__socket_file *file);

#endif
