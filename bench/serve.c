// serve.c - what the servers written in C and C++ share.
#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load/load.h"

int serve_mode_parse(const char *text)
{
    static const char *const names[SERVE_MODES] = { "echo", "close", "source", "sink" };
    for (int i = 0; i < SERVE_MODES; i++) {
        if (strcmp(names[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

int serve_listen(const char *address)
{
    struct load_address at;
    int rc = load_address_parse(&at, address);
    if (rc < 0) {
        return rc;
    }
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (at.any.sa_family == AF_UNIX) {
        unlink(at.un.sun_path);
    } else {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    }
    if (bind(fd, &at.any, at.size) < 0 || listen(fd, SERVE_BACKLOG) < 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

void serve_ready(void)
{
    puts("ready");
    fflush(stdout);
}

int serve_skip(int error)
{
    printf("skip: %s\n", strerror(error < 0 ? -error : error));
    fflush(stdout);
    return 0;
}
