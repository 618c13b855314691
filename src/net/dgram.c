// dgram.c - message sockets: making, connecting, multicast groups, closing. dgram.h has the rules.
#include "net/dgram.h"

#include <errno.h>

#include "base/alloc.h"
#include "net/addr.h"
#include "sched/crew.h"
#include "sched/guest.h"
#include "task/host.h"

static struct weft__task *may_use(const struct weft__dgram *dgram, int *rc)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        *rc = weft__no_task();
        return NULL;
    }
    if (!weft__task_is_at(task, dgram->carrier)) {
        *rc = -EXDEV;
        return NULL;
    }
    weft__task_tie(task);
    *rc = 0;
    return task;
}

struct weft__task *weft__dgram_enter(struct weft__dgram *dgram, int *rc)
{
    struct weft__task *task = may_use(dgram, rc);
    if (task != NULL) {
        dgram->users++;
    }
    return task;
}

void weft__dgram_leave(struct weft__dgram *dgram)
{
    if (--dgram->users == 0 && dgram->closer != NULL) {
        weft__complete(dgram->closer, 0);
    }
}

int64_t weft__dgram_call(struct weft__dgram *dgram, struct weft__call *call, const char *what,
                         weft_time deadline)
{
    if (dgram->closed) {
        return -EBADF; // G2
    }
    call->op.fd = dgram->fd;
    call->op.mode = weft__dgram_mode(dgram);
    return weft__call(call, what, deadline);
}

bool weft__dgram_takes(const struct weft__dgram *dgram, const struct weft_addr *to)
{
    enum weft_addr_kind kind = weft_addr_kind(to);
    return kind == WEFT_ADDR_NONE || (kind == dgram->kind && kind != WEFT_ADDR_UNIXPACKET);
}

static bool keeps_messages(enum weft_addr_kind kind)
{
    return kind == WEFT_ADDR_UDP || kind == WEFT_ADDR_UNIXGRAM || kind == WEFT_ADDR_UNIXPACKET;
}

/// The carrier of the running virtual thread, or NULL and the error in `*rc`.
static struct weft__carrier *here(int *rc)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        *rc = weft__no_task();
        return NULL;
    }
    *rc = weft__task_is_at(task, task->home) ? 0 : -EXDEV;
    if (*rc < 0) {
        return NULL;
    }
    weft__task_leave_spare(task);
    weft__task_tie(task);
    return task->home;
}

static struct weft__dgram *allocate(struct weft__carrier *carrier, enum weft_addr_kind kind)
{
    struct weft__dgram *dgram = weft__alloc(carrier->crew->allocator, sizeof *dgram,
                                            _Alignof(struct weft__dgram));
    if (dgram != NULL) {
        dgram->carrier = carrier;
        dgram->kind = (uint8_t)kind;
        dgram->fd = -1;
    }
    return dgram;
}

static void release(struct weft__dgram *dgram)
{
    weft__free(dgram->carrier->crew->allocator, dgram, sizeof *dgram);
}

/// Makes a handle for the address, without a descriptor yet; or NULL and the error in `*rc`.
static struct weft__dgram *prepare(int *rc, struct weft_addr *addr, const char *address)
{
    struct weft__carrier *carrier = here(rc);
    if (carrier == NULL) {
        return NULL;
    }
    *rc = weft_addr_parse(addr, address);
    if (*rc < 0) {
        return NULL;
    }
    if (!keeps_messages(weft_addr_kind(addr))) {
        *rc = -EPROTONOSUPPORT;
        return NULL;
    }
    *rc = -ENOMEM;
    return allocate(carrier, weft_addr_kind(addr));
}

int weft_dgram_bind(weft_dgram **dgram, const char *address,
                    const struct weft_socket_options *options)
{
    struct weft_addr addr;
    int rc;
    *dgram = NULL;
    struct weft__dgram *made = prepare(&rc, &addr, address);
    if (made == NULL) {
        return rc;
    }
    rc = made->kind == WEFT_ADDR_UNIXPACKET
             ? weft__socket_open_listening(&made->fd, &made->file, made->carrier, &addr, options)
             : weft__socket_open_bound(&made->fd, &made->file, made->carrier, &addr, options);
    if (rc < 0) {
        release(made);
        return rc;
    }
    *dgram = made;
    return 0;
}

static int connect_to(struct weft__dgram *dgram, const struct sockaddr *where, uint32_t size,
                      weft_time deadline)
{
    struct weft__call call = {
        .op = { .code = WEFT__OP_CONNECT, .data = weft__only_read(where), .size = size },
    };
    int64_t rc = weft__dgram_call(dgram, &call, "connect", deadline);
    return rc < 0 ? (int)rc : 0;
}

int weft_dgram_dial(weft_dgram **dgram, const char *address,
                    const struct weft_socket_options *options, weft_time deadline)
{
    struct weft_addr addr;
    uint32_t size;
    int rc;
    *dgram = NULL;
    struct weft__dgram *made = prepare(&rc, &addr, address);
    if (made == NULL) {
        return rc;
    }
    const struct sockaddr *where = weft_addr_sockaddr(&addr, &size);
    rc = weft__socket_open(&made->fd, made->carrier, &addr, options);
    if (rc == 0) {
        rc = connect_to(made, where, size, deadline);
    }
    if (rc < 0) {
        if (made->fd >= 0) {
            weft__socket_close(made->fd, NULL, made->carrier);
        }
        release(made);
        return rc;
    }
    *dgram = made;
    return 0;
}

int weft_dgram_pair(weft_dgram *pair[2], enum weft_addr_kind kind)
{
    int rc;
    int fds[2];
    struct weft__carrier *carrier = here(&rc);
    pair[0] = pair[1] = NULL;
    if (carrier == NULL) {
        return rc;
    }
    if (kind != WEFT_ADDR_UNIXGRAM && kind != WEFT_ADDR_UNIXPACKET) {
        return -EINVAL;
    }
    struct weft__dgram *a = allocate(carrier, kind), *b = allocate(carrier, kind);
    int type = kind == WEFT_ADDR_UNIXGRAM ? SOCK_DGRAM : SOCK_SEQPACKET;
    rc = a == NULL || b == NULL
             ? -ENOMEM
             : carrier->driver->sockets->pair(carrier->driver_state, AF_UNIX, type, 0, fds);
    if (rc < 0) {
        weft__free(carrier->crew->allocator, a, sizeof *a);
        weft__free(carrier->crew->allocator, b, sizeof *b);
        return rc;
    }
    a->fd = fds[0];
    b->fd = fds[1];
    pair[0] = a;
    pair[1] = b;
    return 0;
}

/// What kind of message socket the descriptor is, or a negative errno.
static int kind_of(int fd, struct weft__carrier *carrier)
{
    const struct weft__sockets *sockets = carrier->driver->sockets;
    int domain = 0, type = 0;
    uint32_t size = sizeof domain;
    int rc = sockets->get(carrier->driver_state, fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    if (rc < 0) {
        return rc;
    }
    size = sizeof type;
    rc = sockets->get(carrier->driver_state, fd, SOL_SOCKET, SO_TYPE, &type, &size);
    if (rc < 0) {
        return rc;
    }
    if (domain == AF_UNIX) {
        return type == SOCK_DGRAM       ? (int)WEFT_ADDR_UNIXGRAM
               : type == SOCK_SEQPACKET ? (int)WEFT_ADDR_UNIXPACKET
                                        : -EPROTONOSUPPORT;
    }
    bool udp = (domain == AF_INET || domain == AF_INET6) && type == SOCK_DGRAM;
    return udp ? (int)WEFT_ADDR_UDP : -EPROTONOSUPPORT;
}

int weft_dgram_adopt(weft_dgram **dgram, int fd)
{
    int rc;
    struct weft__carrier *carrier = here(&rc);
    *dgram = NULL;
    if (carrier == NULL) {
        return rc;
    }
    rc = kind_of(fd, carrier);
    if (rc < 0) {
        return rc;
    }
    struct weft__dgram *made = allocate(carrier, (enum weft_addr_kind)rc);
    if (made == NULL) {
        return -ENOMEM;
    }
    made->fd = fd;
    *dgram = made;
    return 0;
}

int weft_dgram_accept(weft_dgram **peer, weft_dgram *dgram, weft_time deadline)
{
    int rc;
    *peer = NULL;
    if (weft__dgram_enter(dgram, &rc) == NULL) {
        return rc;
    }
    // Before the op: a peer that has been accepted must not be lost.
    struct weft__carrier *carrier = dgram->carrier;
    struct weft__dgram *made = allocate(carrier, (enum weft_addr_kind)dgram->kind);
    if (made == NULL) {
        weft__dgram_leave(dgram);
        return -ENOMEM;
    }
    struct weft__call call = { .op = { .code = WEFT__OP_ACCEPT, .flags = SOCK_CLOEXEC } };
    made->fd = (int)weft__dgram_call(dgram, &call, "accept", deadline);
    weft__dgram_leave(dgram);
    if (made->fd < 0) {
        rc = made->fd;
        release(made);
        return rc;
    }
    *peer = made;
    return 0;
}

int weft_dgram_connect(weft_dgram *dgram, const struct weft_addr *addr, weft_time deadline)
{
    int rc;
    struct sockaddr nobody = { .sa_family = AF_UNSPEC };
    uint32_t size = sizeof nobody;
    const struct sockaddr *where = &nobody;
    if (addr != NULL) {
        where = weft_addr_sockaddr(addr, &size);
    }
    if (dgram->kind == WEFT_ADDR_UNIXPACKET ||
        (addr != NULL && weft_addr_kind(addr) != (enum weft_addr_kind)dgram->kind)) {
        return -EINVAL;
    }
    if (weft__dgram_enter(dgram, &rc) == NULL) {
        return rc;
    }
    rc = connect_to(dgram, where, size, deadline);
    weft__dgram_leave(dgram);
    return rc;
}

/// MCAST_JOIN_GROUP or MCAST_LEAVE_GROUP; one form for IPv4 and IPv6.
static int change_group(struct weft__dgram *dgram, const struct weft_addr *group,
                        const char *device, int change)
{
    int rc;
    if (may_use(dgram, &rc) == NULL) {
        return rc;
    }
    const struct weft__addr *a = weft__addr_const(group);
    if (dgram->kind != WEFT_ADDR_UDP || a->kind != WEFT_ADDR_UDP) {
        return -EINVAL;
    }
    struct group_req request = { .gr_interface = 0 };
    bool v6 = a->any.sa_family == AF_INET6;
    memcpy(&request.gr_group, &a->storage, sizeof request.gr_group);
    if (device != NULL) {
        request.gr_interface = weft__addr_interface(device);
        if (request.gr_interface == 0) {
            return -ENODEV;
        }
    } else if (v6) {
        request.gr_interface = a->v6.sin6_scope_id;
    }
    return dgram->carrier->driver->sockets->set(dgram->carrier->driver_state, dgram->fd,
                                                v6 ? IPPROTO_IPV6 : IPPROTO_IP, change, &request,
                                                sizeof request);
}

int weft_dgram_join(weft_dgram *dgram, const struct weft_addr *group, const char *device)
{
    return change_group(dgram, group, device, MCAST_JOIN_GROUP);
}

int weft_dgram_leave(weft_dgram *dgram, const struct weft_addr *group, const char *device)
{
    return change_group(dgram, group, device, MCAST_LEAVE_GROUP);
}

int weft_dgram_local(const weft_dgram *dgram, struct weft_addr *addr)
{
    int rc;
    memset(addr, 0, sizeof *addr);
    return may_use(dgram, &rc) == NULL
               ? rc
               : weft__socket_local(addr, dgram->fd, (enum weft_addr_kind)dgram->kind,
                                    dgram->carrier);
}

int weft_dgram_peer(const weft_dgram *dgram, struct weft_addr *addr)
{
    int rc;
    memset(addr, 0, sizeof *addr);
    return may_use(dgram, &rc) == NULL
               ? rc
               : weft__socket_peer(addr, dgram->fd, (enum weft_addr_kind)dgram->kind,
                                   dgram->carrier);
}

int weft_dgram_fd(const weft_dgram *dgram)
{
    return dgram->fd;
}

/// Ends the ops of others and waits until they have left (G1).
static void expel_users(struct weft__dgram *dgram, struct weft__task *task)
{
    struct weft__wait wait;
    struct weft__carrier *carrier = dgram->carrier;
    dgram->closed = true;
    carrier->driver->forget(carrier->driver_state, dgram->fd);
    if (dgram->users == 0) {
        return;
    }
    // Deaf to cancellation, and without a deadline: the users' ops are ending.
    weft__wait_init(&wait, task, WEFT__WAIT_ASK_LATE, "close");
    dgram->closer = &wait;
    weft__block(&wait, WEFT_FOREVER);
}

int weft_dgram_close(weft_dgram *dgram)
{
    int rc;
    if (dgram == NULL) {
        return 0;
    }
    struct weft__task *task = may_use(dgram, &rc);
    if (task == NULL) {
        return rc;
    }
    if (dgram->closed) {
        return -EBADF;
    }
    expel_users(dgram, task);
    weft__socket_close(dgram->fd, &dgram->file, dgram->carrier);
    release(dgram);
    return 0;
}
