// echo_plain.c - the same echo server with ordinary sockets: only the calls that wait are weft's.
//
//     echo_plain [PORT]     default: 7001
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft.h>

static int echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[4096];
    ssize_t n;
    while ((n = weft_recv(fd, buffer, sizeof buffer, 0, WEFT_FOREVER)) > 0) {
        n = weft_write_full(NULL, fd, buffer, (size_t)n, WEFT_FOREVER);
        if (n < 0) {
            break;
        }
    }
    weft_close(fd);
    return (int)n;
}

static int open_listener(int port)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    socklen_t size = sizeof addr;
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0 || listen(fd, 1024) < 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &size) < 0) {
        perror("echo_plain");
        exit(1);
    }
    printf("listening on tcp://127.0.0.1:%d\n", ntohs(addr.sin_port));
    fflush(stdout);
    return fd;
}

static int serve(void *arg)
{
    int listener = *(int *)arg;
    int fd;
    while ((fd = weft_accept_fd(listener, NULL, NULL, 0, WEFT_FOREVER)) >= 0) {
        if (weft_go(echo, (void *)(intptr_t)fd) < 0) { // on this carrier
            weft_close(fd);
        }
    }
    weft_close(listener);
    return fd;
}

int main(int argc, char **argv)
{
    int listener = open_listener(argc > 1 ? atoi(argv[1]) : 7001);
    int rc = weft_run(serve, &listener, NULL);
    fprintf(stderr, "echo_plain: %s\n", strerror(-rc));
    return 1;
}
