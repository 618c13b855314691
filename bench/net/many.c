// many.c - connections as such: accepting and closing them, a storm of them.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net.h"

#define EVENTS 512
#define REQUEST_BYTES 64
#define ACCEPT_WINDOW 32 // connections that are opened at the same time

struct opening {
    const struct load_address *address;
    int epoll;
    int *fds;
    uint64_t *begun; // when
    unsigned count, started, done, window;
    struct hist *latency_ns;
};

static int begin_one(struct opening *o)
{
    unsigned i = o->started;
    o->begun[i] = load_now();
    int fd = load_connect(o->address, i);
    if (fd < 0) {
        return fd;
    }
    o->fds[i] = fd;
    o->started++;
    struct epoll_event event = { .events = EPOLLOUT, .data.u32 = i };
    return epoll_ctl(o->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int connected(struct opening *o, unsigned i)
{
    char request[REQUEST_BYTES] = { 0 };
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
    if (epoll_ctl(o->epoll, EPOLL_CTL_MOD, o->fds[i], &event) < 0) {
        return -errno;
    }
    ssize_t n = send(o->fds[i], request, sizeof request, MSG_NOSIGNAL);
    return n == REQUEST_BYTES ? 0 : n < 0 ? -errno : -EIO;
}

static int replied(struct opening *o, unsigned i)
{
    char reply[REQUEST_BYTES];
    ssize_t n = recv(o->fds[i], reply, sizeof reply, 0);
    if (n != REQUEST_BYTES) {
        return n < 0 ? -errno : -EPIPE;
    }
    o->done++;
    if (o->latency_ns != NULL) {
        hist_add(o->latency_ns, load_now() - o->begun[i], 1);
    }
    return epoll_ctl(o->epoll, EPOLL_CTL_DEL, o->fds[i], NULL) < 0 ? -errno : 0;
}

static int open_all(struct opening *o)
{
    struct epoll_event events[EVENTS];
    int rc = 0;
    while (o->done < o->count && rc == 0) {
        // Between two looks at the replies, so that the oldest are not left waiting.
        for (unsigned i = 0;
             i < EVENTS / 8 && rc == 0 && o->started < o->count && o->started - o->done < o->window;
             i++) {
            rc = begin_one(o);
        }
        bool may_start = o->started < o->count && o->started - o->done < o->window;
        int n = rc < 0 ? 0 : epoll_wait(o->epoll, events, EVENTS, may_start ? 0 : -1);
        for (int i = 0; i < n && rc == 0; i++) {
            unsigned at = events[i].data.u32;
            rc = events[i].events & EPOLLIN                                      ? replied(o, at)
                 : events[i].events & EPOLLOUT && !(events[i].events & EPOLLERR) ? connected(o, at)
                                                                                 : -ECONNREFUSED;
        }
    }
    return rc;
}

static void close_all(int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

int net_connect_many(const struct load_address *address, int *fds, unsigned count, unsigned window,
                     struct hist *latency_ns)
{
    struct opening o = { address, -1, fds, NULL, count, 0, 0, window, latency_ns };
    memset(fds, 0xff, count * sizeof *fds);
    o.begun = calloc(count, sizeof *o.begun);
    o.epoll = epoll_create1(EPOLL_CLOEXEC);
    int rc = o.begun == NULL || o.epoll < 0 ? -ENOMEM : open_all(&o);
    if (rc < 0) {
        close_all(fds, count);
    }
    if (o.epoll >= 0) {
        close(o.epoll);
    }
    free(o.begun);
    return rc;
}

static int *fds;

static int make_room(struct net_job *job)
{
    fds = calloc(job->count, sizeof *fds);
    return fds == NULL ? -ENOMEM : 0;
}

static int storm(struct net_job *job, struct contender_result *out)
{
    static struct hist latency_ns;
    struct net_watch watch = { .server = &job->server };
    unsigned count = (unsigned)job->count;
    hist_clear(&latency_ns);
    net_mark(&watch, false);
    int rc = net_connect_many(&job->server.address, fds, count, count, &latency_ns);
    net_mark(&watch, true);
    if (rc < 0) {
        return rc;
    }
    net_add_cpu(out, &watch, "server_cpu_us_per_connection", count);
    contender_add(out, "storm_ms", (watch.t1 - watch.t0) / 1e6);
    contender_add(out, "p50_ms", (double)hist_percentile(&latency_ns, 50) / 1e6);
    contender_add(out, "p99_ms", (double)hist_percentile(&latency_ns, 99) / 1e6);
    net_add_busy(out, &watch);
    close_all(fds, count);
    server_settle(&job->server);
    return 0;
}

// The server closes each connection as soon as it has accepted it; the client then closes it with a
// reset, so that no port waits.
static int accept_close(struct net_job *job, struct contender_result *out)
{
    struct net_watch watch = { .server = &job->server };
    struct epoll_event events[ACCEPT_WINDOW];
    uint64_t started = 0, done = 0;
    int epoll = epoll_create1(EPOLL_CLOEXEC), rc = epoll < 0 ? -errno : 0;
    net_mark(&watch, false);
    while (rc == 0 && done < job->count) {
        while (rc == 0 && started < job->count && started - done < ACCEPT_WINDOW) {
            int fd = load_connect(&job->server.address, 0);
            struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.fd = fd };
            rc = fd < 0 ? fd : epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
            started++;
        }
        int n = rc < 0 ? 0 : epoll_wait(epoll, events, ACCEPT_WINDOW, -1);
        for (int i = 0; i < n; i++, done++) {
            close(events[i].data.fd);
        }
    }
    net_mark(&watch, true);
    if (epoll >= 0) {
        close(epoll);
    }
    if (rc < 0) {
        return rc;
    }
    net_add_cpu(out, &watch, "server_cpu_us_per_connection", (double)job->count);
    contender_add(out, "connections_per_s", (double)job->count * 1e9 / (watch.t1 - watch.t0));
    net_add_busy(out, &watch);
    return 0;
}

const struct net_kind net_accept = { "accept", "close", false, NULL, accept_close };
const struct net_kind net_storm = { "storm", "echo", true, make_room, storm };
