// simulated.h - sockets of the simulator by hand: for tests of the simulator itself.
#ifndef WEFT_TEST_SIMULATED_H
#define WEFT_TEST_SIMULATED_H

#include "support/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <weft.h>

#include "sched/carrier.h"

static struct weft_sim_options simulated;
static struct weft_sim_result outcome;

static inline int simulated_body(void *arg)
{
    void (*const *body)(void) = arg;
    (*body)();
    return 0;
}

/// A test whose body is the first task of a simulation with the network that is given.
#define TEST_SIMULATED(id, ...)                                                                    \
    static void id##_body(void);                                                                   \
    TEST(id)                                                                                       \
    {                                                                                              \
        static void (*body)(void) = id##_body;                                                     \
        simulated = (struct weft_sim_options){ .carriers = 3, .net = { __VA_ARGS__ } };            \
        for (uint64_t i = test_scaled(20); i > 0; i--) {                                           \
            simulated.seed = test_seed() + i;                                                      \
            CHECK_OK(weft_sim_run(&outcome, simulated_body, &body, &simulated));                   \
        }                                                                                          \
    }                                                                                              \
    static void id##_body(void)

static inline const struct weft__sockets *sockets(void)
{
    return weft__carrier_self()->driver->sockets;
}

static inline void *state(void)
{
    return weft__carrier_self()->driver_state;
}

static inline int make_socket(int domain, int type)
{
    int fd = sockets()->socket(state(), domain, type, 0);
    CHECK_OK(fd);
    return fd;
}

static inline void make_pair(int fds[2], int type)
{
    CHECK_OK(sockets()->pair(state(), AF_UNIX, type, 0, fds));
}

static inline struct sockaddr_in v4(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static inline int bind_v4(int fd, uint16_t port)
{
    struct sockaddr_in addr = v4(port);
    return sockets()->bind(state(), fd, (const struct sockaddr *)&addr, sizeof addr);
}

static inline int connect_v4(int fd, uint16_t port, weft_time deadline)
{
    struct sockaddr_in addr = v4(port);
    return weft_connect(fd, (const struct sockaddr *)&addr, sizeof addr, deadline);
}

static inline struct sockaddr_un path_addr(const char *path, uint32_t *size)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    size_t length = strlen(path);
    memcpy(addr.sun_path, path, length + 1);
    if (addr.sun_path[0] == '@') {
        addr.sun_path[0] = '\0';
    }
    *size = (uint32_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return addr;
}

static inline int bind_path(int fd, const char *path)
{
    uint32_t size;
    struct sockaddr_un addr = path_addr(path, &size);
    return sockets()->bind(state(), fd, (const struct sockaddr *)&addr, size);
}

static inline int connect_path(int fd, const char *path, weft_time deadline)
{
    uint32_t size;
    struct sockaddr_un addr = path_addr(path, &size);
    return weft_connect(fd, (const struct sockaddr *)&addr, size, deadline);
}

static inline int set_option(int fd, int level, int name, int value)
{
    return sockets()->set(state(), fd, level, name, &value, sizeof value);
}

static inline int get_option(int fd, int level, int name)
{
    int value = 0;
    uint32_t size = sizeof value;
    CHECK_OK(sockets()->get(state(), fd, level, name, &value, &size));
    return value;
}

static inline int listen_v4(uint16_t port, int backlog)
{
    int fd = make_socket(AF_INET, SOCK_STREAM);
    CHECK_OK(bind_v4(fd, port));
    CHECK_OK(sockets()->listen(state(), fd, backlog));
    return fd;
}

/// Two ends of a TCP connection.
static inline void make_connection(int ends[2])
{
    int listener = listen_v4(4000, 8);
    ends[0] = make_socket(AF_INET, SOCK_STREAM);
    CHECK_OK(connect_v4(ends[0], 4000, WEFT_FOREVER));
    ends[1] = weft_accept_fd(listener, NULL, NULL, 0, WEFT_FOREVER);
    CHECK_OK(ends[1]);
    CHECK_OK(weft_close(listener));
}

static inline void close_both(int ends[2])
{
    CHECK_OK(weft_close(ends[0]));
    CHECK_OK(weft_close(ends[1]));
}

#endif
