// stream.c - one connection, many bytes: the server sends or receives them in blocks of 64 KiB.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "../serve.h"
#include "net.h"

#define MIB (1024.0 * 1024.0)

static int fd;
static char block[SERVE_BLOCK];

static int open_one(struct net_job *job)
{
    fd = load_connect(&job->server.address, 0);
    int rc = fd < 0 ? fd : load_await_connect(fd);
    if (rc == 0 && fcntl(fd, F_SETFL, 0) < 0) { // this side may wait in its system calls
        rc = -errno;
    }
    return rc;
}

static int send_all(const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n <= 0) {
            return n < 0 ? -errno : -EPIPE;
        }
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

static int receive_bytes(uint64_t left)
{
    while (left > 0) {
        ssize_t n = recv(fd, block, left < SERVE_BLOCK ? (size_t)left : SERVE_BLOCK, 0);
        if (n <= 0) {
            return n < 0 ? -errno : -EPIPE;
        }
        left -= (uint64_t)n;
    }
    return 0;
}

static int send_bytes(uint64_t left)
{
    int rc = 0;
    while (left > 0 && rc == 0) {
        size_t size = left < SERVE_BLOCK ? (size_t)left : SERVE_BLOCK;
        rc = send_all(block, size);
        left -= size;
    }
    return rc < 0 ? rc : receive_bytes(1);
}

static int stream(struct net_job *job, struct contender_result *out, int (*rest)(uint64_t left))
{
    struct net_watch watch = { .server = &job->server };
    uint64_t bytes = job->count; // little endian on the machines that weft runs on
    net_mark(&watch, false);
    int rc = send_all((const char *)&bytes, sizeof bytes);
    rc = rc < 0 ? rc : rest(bytes);
    net_mark(&watch, true);
    if (rc < 0) {
        return rc;
    }
    net_add_cpu(out, &watch, "server_cpu_us_per_mib", (double)bytes / MIB);
    contender_add(out, "mib_per_s", (double)bytes / MIB * 1e9 / (watch.t1 - watch.t0));
    net_add_busy(out, &watch);
    return 0;
}

static int server_sends(struct net_job *job, struct contender_result *out)
{
    return stream(job, out, receive_bytes);
}

static int server_receives(struct net_job *job, struct contender_result *out)
{
    return stream(job, out, send_bytes);
}

const struct net_kind net_send = { "send", "source", false, open_one, server_sends };
const struct net_kind net_receive = { "receive", "sink", false, open_one, server_receives };
