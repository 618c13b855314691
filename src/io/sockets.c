// sockets.c - socket calls that never wait, as system calls.
#include "io/sockets.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/sys.h"

static int answer(int rc)
{
    return rc < 0 ? -errno : rc;
}

static int make_blocking(void *state, int domain, int type, int protocol)
{
    (void)state;
    return answer(socket(domain, type | SOCK_CLOEXEC, protocol));
}

static int make_nonblocking(void *state, int domain, int type, int protocol)
{
    return make_blocking(state, domain, type | SOCK_NONBLOCK, protocol);
}

static int pair_blocking(void *state, int domain, int type, int protocol, int fds[2])
{
    (void)state;
    return answer(socketpair(domain, type | SOCK_CLOEXEC, protocol, fds));
}

static int pair_nonblocking(void *state, int domain, int type, int protocol, int fds[2])
{
    return pair_blocking(state, domain, type | SOCK_NONBLOCK, protocol, fds);
}

static int bind_to(void *state, int fd, const struct sockaddr *addr, uint32_t size)
{
    (void)state;
    return answer(bind(fd, addr, size));
}

static int listen_on(void *state, int fd, int backlog)
{
    (void)state;
    return answer(listen(fd, backlog));
}

static int local_address(void *state, int fd, struct sockaddr *addr, uint32_t *size)
{
    (void)state;
    return answer(getsockname(fd, addr, size));
}

static int peer_address(void *state, int fd, struct sockaddr *addr, uint32_t *size)
{
    (void)state;
    return answer(getpeername(fd, addr, size));
}

static int count_unread(void *state, int fd)
{
    (void)state;
    int bytes = 0;
    int rc = ioctl(fd, FIONREAD, &bytes);
    return rc < 0 ? -errno : bytes;
}

static int set_option(void *state, int fd, int level, int name, const void *value, uint32_t size)
{
    (void)state;
    return answer(setsockopt(fd, level, name, value, size));
}

static int get_option(void *state, int fd, int level, int name, void *value, uint32_t *size)
{
    (void)state;
    return answer(getsockopt(fd, level, name, value, size));
}

static int shut_down(void *state, int fd, int how)
{
    (void)state;
    return answer(shutdown(fd, how));
}

static int receive_many(void *state, int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    (void)state;
    return answer(recvmmsg(fd, messages, count, flags | MSG_DONTWAIT, NULL));
}

static int send_many(void *state, int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    (void)state;
    return answer(sendmmsg(fd, messages, count, flags | MSG_DONTWAIT | MSG_NOSIGNAL));
}

static int close_it(void *state, int fd)
{
    (void)state;
    return weft__sys_close(fd);
}

#define COMMON                                                                                     \
    .bind = bind_to, .listen = listen_on, .local = local_address, .peer = peer_address,            \
    .set = set_option, .get = get_option, .shutdown = shut_down, .unread = count_unread,           \
    .receive_many = receive_many, .send_many = send_many, .close = close_it

const struct weft__sockets weft__sockets_blocking = {
    .socket = make_blocking,
    .pair = pair_blocking,
    COMMON,
};

const struct weft__sockets weft__sockets_nonblocking = {
    .socket = make_nonblocking,
    .pair = pair_nonblocking,
    COMMON,
};
