// plan.c - what both cores of the load generator need: addresses, sockets, limits.
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PORTS_OF_ONE_SOURCE 20000 // of the 28,232 that are ephemeral by default
#define CONNECT_TIMEOUT_MS 10000
#define SPARE_FILES 64

uint64_t load_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int parse_tcp(struct load_address *out, const char *text)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof host) {
        return -EINVAL;
    }
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port > 65535) {
        return -EINVAL;
    }
    out->in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    out->size = sizeof out->in;
    return inet_pton(AF_INET, host, &out->in.sin_addr) == 1 ? 0 : -EINVAL;
}

static int parse_unix(struct load_address *out, const char *path)
{
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof out->un.sun_path) {
        return -EINVAL;
    }
    out->un = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(out->un.sun_path, path, length + 1);
    out->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return 0;
}

int load_address_parse(struct load_address *out, const char *text)
{
    memset(out, 0, sizeof *out);
    if (strlen(text) >= sizeof out->text) {
        return -EINVAL;
    }
    snprintf(out->text, sizeof out->text, "%s", text);
    if (strncmp(text, "tcp://", 6) == 0) {
        return parse_tcp(out, text + 6);
    }
    if (strncmp(text, "unix://", 7) == 0) {
        return parse_unix(out, text + 7);
    }
    return -EINVAL;
}

char *load_pattern(const char *text, size_t size)
{
    char *pattern = calloc(1, size + LOAD_CHUNK);
    uint32_t random = 2463534242u;
    for (size_t i = 0; pattern != NULL && i < size + LOAD_CHUNK; i++) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        char next = text != NULL ? text[i % size] : (char)random;
        pattern[i] = i < size ? next : pattern[i - size];
    }
    return pattern;
}

// 127.0.0.2, 127.0.0.3, ... for the connections that 127.0.0.1 has no ports for.
static int choose_source(int fd, const struct load_address *to, unsigned index)
{
    unsigned source = index / PORTS_OF_ONE_SOURCE;
    if (to->any.sa_family != AF_INET || source == 0 || ntohl(to->in.sin_addr.s_addr) >> 24 != 127) {
        return 0;
    }
    // Without this flag bind() would look for a port that is free towards everybody.
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){ 1 }, sizeof(int));
    struct sockaddr_in from = { .sin_family = AF_INET };
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + source);
    return bind(fd, (struct sockaddr *)&from, sizeof from) < 0 ? -errno : 0;
}

int load_socket(const struct load_address *address, unsigned index)
{
    int family = address->any.sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (family == AF_INET) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        // Ports of closed connections must not wait for two minutes: rounds follow each other.
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
    }
    int rc = choose_source(fd, address, index);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

int load_connect(const struct load_address *address, unsigned index)
{
    int fd = load_socket(address, index);
    if (fd < 0) {
        return fd;
    }
    // A Unix socket that does not block fails when the listener's queue is full, so that one waits.
    bool may_wait = address->any.sa_family == AF_UNIX;
    fcntl(fd, F_SETFL, may_wait ? 0 : O_NONBLOCK);
    if (connect(fd, &address->any, address->size) < 0 && errno != EINPROGRESS) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

int load_await_connect(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    int rc = poll(&p, 1, CONNECT_TIMEOUT_MS);
    if (rc <= 0) {
        return rc < 0 ? -errno : -ETIMEDOUT;
    }
    int error = 0;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){ sizeof error });
    return -error;
}

unsigned load_allow_files(unsigned count)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)count + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 0;
    }
    if (limit.rlim_cur < wanted) {
        struct rlimit more = { wanted, limit.rlim_max < wanted ? wanted : limit.rlim_max };
        struct rlimit most = { limit.rlim_max, limit.rlim_max };
        if (setrlimit(RLIMIT_NOFILE, &more) == 0) { // root may
            limit = more;
        } else if (setrlimit(RLIMIT_NOFILE, &most) == 0) {
            limit = most;
        }
    }
    rlim_t usable = limit.rlim_cur > SPARE_FILES ? limit.rlim_cur - SPARE_FILES : 0;
    return usable < count ? (unsigned)usable : count;
}
