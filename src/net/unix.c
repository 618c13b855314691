// unix.c - descriptors and credentials over Unix sockets.
//
// The danger: what recvmsg() has installed is open, whatever becomes of the call. So every way out of
// weft_unix_recv_fds() either hands a descriptor over or closes it. The control buffer has room for
// as many as the kernel passes at all; MSG_CTRUNC then means that this process may open no more.
#include <weft/unix.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "io/call.h"
#include "net/socket.h"

#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04 // Linux 6.5
#endif

#define FDS_BYTES (WEFT_UNIX_FDS_MAX * sizeof(int))

/// For a socket on which others have switched on SO_PASSCRED, SO_PASSPIDFD and SO_PASSSEC.
#define OTHERS_BYTES (CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int)) + CMSG_SPACE(256))

int64_t weft_unix_send_fds(int fd, const void *data, size_t size, const int *fds, size_t count,
                           weft_time deadline)
{
    union {
        char bytes[CMSG_SPACE(FDS_BYTES)];
        struct cmsghdr align;
    } control;
    if (size == 0 || count > WEFT_UNIX_FDS_MAX) {
        return -EINVAL;
    }
    struct iovec vector = { weft__only_read(data), size };
    struct msghdr header = { .msg_iov = &vector, .msg_iovlen = 1 };
    if (count > 0) {
        memset(&control, 0, CMSG_SPACE(count * sizeof *fds));
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(count * sizeof *fds);
        struct cmsghdr *part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(count * sizeof *fds);
        memcpy(CMSG_DATA(part), fds, count * sizeof *fds);
    }
    struct weft__call call = { .op = { .code = WEFT__OP_SENDMSG, .fd = fd, .data = &header } };
    return weft__call(&call, "send descriptors", deadline);
}

/// Calls `each` for every descriptor that came with the message; `ours` says whether it was sent to
/// us, or is one that the kernel added.
static void visit(struct msghdr *header, void (*each)(void *arg, int fd, bool ours), void *arg)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part != NULL;
         part = CMSG_NXTHDR(header, part)) {
        bool ours = part->cmsg_type == SCM_RIGHTS;
        if (part->cmsg_level != SOL_SOCKET || (!ours && part->cmsg_type != SCM_PIDFD)) {
            continue;
        }
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (fd >= 0) { // a pidfd may be an error instead
                each(arg, fd, ours);
            }
        }
    }
}

struct landing {
    struct weft__carrier *carrier;
    int *fds;
    size_t room;
    size_t came; // descriptors that were sent to us, also those beyond the room
};

/// Not close(2): simulated descriptors travel as well.
static void close_at(struct weft__carrier *carrier, int fd)
{
    carrier->driver->sockets->close(carrier->driver_state, fd);
}

static void land(void *arg, int fd, bool ours)
{
    struct landing *landing = arg;
    if (ours && landing->came < landing->room) {
        landing->fds[landing->came] = fd;
    } else {
        close_at(landing->carrier, fd);
    }
    landing->came += ours;
}

int64_t weft_unix_recv_fds(int fd, void *data, size_t room, int *fds, size_t *count,
                           weft_time deadline)
{
    union {
        char bytes[CMSG_SPACE(FDS_BYTES) + OTHERS_BYTES];
        struct cmsghdr align;
    } control;
    struct landing landing = { .fds = fds, .room = *count };
    struct iovec vector = { data, room };
    struct msghdr header = {
        .msg_iov = &vector,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    struct weft__call call = {
        .op = { .code = WEFT__OP_RECVMSG, .fd = fd, .data = &header, .flags = MSG_CMSG_CLOEXEC },
    };
    *count = 0;
    int64_t size = weft__call(&call, "receive descriptors", deadline);
    if (size < 0) {
        return size;
    }
    landing.carrier = weft__carrier_near();
    visit(&header, land, &landing);
    bool cut = (header.msg_flags & MSG_CTRUNC) != 0;
    if (landing.came <= landing.room && !cut) {
        *count = landing.came;
        return size;
    }
    for (size_t i = 0; i < landing.came && i < landing.room; i++) {
        close_at(landing.carrier, fds[i]);
    }
    return cut ? -EMFILE : -EMSGSIZE;
}

int weft_unix_peer(struct weft_unix_peer *peer, int fd)
{
    struct weft__carrier *carrier = weft__carrier_near();
    struct ucred found = { 0 };
    uint32_t size = sizeof found;
    *peer = (struct weft_unix_peer){ 0 };
    if (carrier == NULL) {
        return weft__no_task();
    }
    int rc = carrier->driver->sockets->get(carrier->driver_state, fd, SOL_SOCKET, SO_PEERCRED,
                                           &found, &size);
    if (rc == 0 && (found.uid == (uid_t)-1 || size < sizeof found)) {
        rc = -ENOTCONN; // what the kernel says of a socket without a peer, of whatever family
    }
    if (rc == 0) {
        *peer = (struct weft_unix_peer){ found.pid, found.uid, found.gid };
    }
    return rc;
}
