// epoll.c - the load generator on plain system calls: one thread, one epoll, no library.
//
// It shares no code with what it measures. Sockets are edge-triggered; a receive that leaves room in
// the buffer has emptied the socket and needs no second call.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "run.h"

#define EVENTS 512     // taken at once,
#define EVENTS_OPEN 16 // and in an open loop, where the next request may be due meanwhile

struct link {
    struct load_link load;
    int fd;
    size_t received; // bytes of the reply that is arriving
    size_t owed;     // bytes of requests that were due and did not fit into the socket
};

struct load {
    const struct load_plan *plan;
    int epoll;
    char *pattern, *replies, *in; // what is sent, what should come, what has come
    struct link *links;
    uint64_t *stamps;
    struct load_run run;
};

static int drop(struct load *load, int rc)
{
    load_epoll.close(load);
    return rc;
}

static int add_link(struct load *load, unsigned i)
{
    struct link *link = &load->links[i];
    link->fd = load_connect(&load->plan->address, i);
    if (link->fd < 0) {
        return link->fd;
    }
    link->load.index = i;
    link->load.sent_at = load->stamps + (size_t)i * load->plan->depth;
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = link };
    return epoll_ctl(load->epoll, EPOLL_CTL_ADD, link->fd, &event) < 0 ? -errno : 0;
}

static int connect_all(struct load *load)
{
    unsigned count = load->plan->connections;
    for (unsigned i = 0; i < count; i++) {
        load->links[i].fd = -1;
    }
    int rc = load_allow_files(count) < count ? -EMFILE : 0;
    for (unsigned i = 0; i < count && rc == 0; i++) {
        rc = add_link(load, i);
    }
    for (unsigned i = 0; i < count && rc == 0; i++) {
        rc = load_await_connect(load->links[i].fd);
    }
    return rc;
}

static int epoll_open(struct load **out, const struct load_plan *plan)
{
    *out = NULL;
    struct load *load = calloc(1, sizeof *load);
    if (load == NULL) {
        return -ENOMEM;
    }
    load->plan = plan;
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    load->links = calloc(plan->connections, sizeof *load->links);
    load->stamps = calloc((size_t)plan->connections * plan->depth, sizeof *load->stamps);
    load->pattern = load_pattern(plan->request, plan->size_bytes);
    load->replies = load_pattern(plan->request != NULL ? plan->reply : NULL,
                                 load_reply_bytes(plan));
    load->in = malloc(LOAD_CHUNK);
    if (load->epoll < 0 || load->links == NULL || load->stamps == NULL || load->pattern == NULL ||
        load->replies == NULL || load->in == NULL) {
        return drop(load, -ENOMEM);
    }
    int rc = connect_all(load);
    if (rc < 0) {
        return drop(load, rc);
    }
    *out = load;
    return 0;
}

static void epoll_close(struct load *load)
{
    for (unsigned i = 0; load->links != NULL && i < load->plan->connections; i++) {
        if (load->links[i].fd > 0) { // 0: memory ran out before it was set
            close(load->links[i].fd);
        }
    }
    if (load->epoll >= 0) {
        close(load->epoll);
    }
    free(load->in);
    free(load->replies);
    free(load->pattern);
    free(load->stamps);
    free(load->links);
    free(load);
}

static int pay(struct load *load, struct link *link)
{
    size_t size = load->plan->size_bytes;
    while (link->owed > 0) {
        size_t at = (size - link->owed % size) % size;
        size_t n = link->owed < LOAD_CHUNK ? link->owed : LOAD_CHUNK;
        ssize_t rc = send(link->fd, load->pattern + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (rc < 0) {
            return errno == EAGAIN ? 0 : -errno;
        }
        link->owed -= (size_t)rc;
    }
    return 0;
}

static int ask(struct load *load, struct link *link, uint64_t requests)
{
    load_run_sent(&load->run, &link->load, requests);
    link->owed += requests * load->plan->size_bytes;
    return pay(load, link);
}

static int take(struct load *load, struct link *link, size_t bytes)
{
    size_t size = load_reply_bytes(load->plan);
    if (memcmp(load->in, load->replies + link->received, bytes) != 0) {
        return -EBADMSG;
    }
    uint64_t replies = (link->received + bytes) / size;
    link->received = (link->received + bytes) % size;
    if (!load_run_received(&load->run, &link->load, replies)) {
        return -EBADMSG;
    }
    bool next = load->plan->rate <= 0 && load->run.stage != LOAD_DRAIN && replies > 0;
    return next ? ask(load, link, replies) : 0;
}

static int handle(struct load *load, struct epoll_event *event)
{
    struct link *link = event->data.ptr;
    int rc = link->owed > 0 ? pay(load, link) : 0;
    if (rc < 0 || !(event->events & ~(uint32_t)EPOLLOUT)) {
        return rc;
    }
    ssize_t n;
    do {
        n = recv(link->fd, load->in, LOAD_CHUNK, MSG_DONTWAIT);
        if (n < 0) {
            return errno == EAGAIN ? 0 : -errno;
        }
        if (n == 0) {
            return -EPIPE;
        }
        load->run.now = load_now(); // of this reply and of the requests that answer it
        rc = take(load, link, (size_t)n);
    } while (rc == 0 && n == LOAD_CHUNK);
    return rc;
}

// Open loop: sends all that is due. Says when the next one is.
static int send_due(struct load *load, uint64_t *next)
{
    unsigned count = load->plan->connections;
    while (count > 0) {
        struct link *link = &load->links[load->run.sent % count];
        *next = load_run_due(&load->run, &link->load, link->load.sent);
        if (*next > load->run.now || load->run.stage == LOAD_DRAIN) {
            return 0;
        }
        int rc = ask(load, link, 1);
        if (rc < 0) {
            return rc;
        }
    }
    return -EINVAL;
}

static int wait_for(struct load *load, struct epoll_event *events, uint64_t next)
{
    uint64_t left = LOAD_STALL_NS;
    bool due = next > 0 && load->run.stage != LOAD_DRAIN;
    if (due) {
        left = next > load->run.now ? next - load->run.now : 0;
        uint64_t spin = load->plan->shares_cpu ? 0 : LOAD_SPIN_NS;
        left = left > spin ? left - spin : 0;
    }
    struct timespec span = { (time_t)(left / 1000000000), (long)(left % 1000000000) };
    int most = load->plan->rate > 0 ? EVENTS_OPEN : EVENTS;
    int n = epoll_pwait2(load->epoll, events, most, &span, NULL);
    if (n < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    return n == 0 && !due ? -ETIMEDOUT : n;
}

static int epoll_run(struct load *load, struct load_result *out)
{
    static _Thread_local struct epoll_event events[EVENTS];
    bool open_loop = load->plan->rate > 0;
    int rc = 0;
    uint64_t next = 0;
    load_run_begin(&load->run, load->plan, out);
    for (unsigned i = 0; i < load->plan->connections; i++) {
        load->links[i].load.base = load->links[i].load.sent;
    }
    for (unsigned i = 0; i < load->plan->connections && !open_loop && rc == 0; i++) {
        rc = ask(load, &load->links[i], load->plan->depth);
    }
    while (rc == 0 && !load_run_over(&load->run)) {
        rc = open_loop ? send_due(load, &next) : 0;
        int n = rc < 0 ? rc : wait_for(load, events, next);
        rc = n < 0 ? n : 0;
        load->run.now = load_now();
        for (int i = 0; i < n && rc == 0; i++) {
            rc = handle(load, &events[i]);
        }
        load_run_advance(&load->run);
    }
    return rc;
}

const struct load_core load_epoll = { "epoll", epoll_open, epoll_run, epoll_close };
