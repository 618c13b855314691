// epoll.c - the load generator on plain system calls: one thread, one epoll, no library.
//
// It shares no code with what it measures. Sockets are edge-triggered; a receive that leaves room in
// the buffer has emptied the socket and needs no second call.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "load.h"

#define EVENTS 512     // taken at once,
#define EVENTS_OPEN 16 // and in an open loop, where the next request may be due meanwhile
#define SPIN_NS 200000 // nearer than this, the next due request is waited for without sleeping

struct link {
    int fd;
    size_t received;     // bytes of the reply that is arriving
    size_t owed;         // bytes of requests that were due and did not fit into the socket
    uint64_t sent, done; // requests; done <= sent
    uint64_t base;       // open loop: `sent` when the run began
    uint64_t *sent_at;   // closed loop: when each of the last `depth` requests was sent
};

enum stage { WARM, MEASURE, DRAIN };

struct load {
    const struct load_plan *plan;
    int epoll;
    char *pattern, *in;
    struct link *links;
    uint64_t *stamps;
    struct load_result *result;
    // One run's.
    enum stage stage;
    uint64_t begun, measured_from; // when
    uint64_t sent, done;           // requests of all connections
    uint64_t warm;                 // `done` when the measurement began
    uint64_t now;
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
    link->sent_at = load->stamps + (size_t)i * load->plan->depth;
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = link };
    return epoll_ctl(load->epoll, EPOLL_CTL_ADD, link->fd, &event) < 0 ? -errno : 0;
}

static int await_connected(struct load *load)
{
    for (unsigned i = 0; i < load->plan->connections; i++) {
        int rc = load_await_connect(load->links[i].fd);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
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
    load->pattern = load_pattern(plan->size_bytes);
    load->in = malloc(LOAD_CHUNK);
    if (load->epoll < 0 || load->links == NULL || load->stamps == NULL || load->pattern == NULL ||
        load->in == NULL) {
        return drop(load, -ENOMEM);
    }
    for (unsigned i = 0; i < plan->connections; i++) {
        load->links[i].fd = -1;
    }
    int rc = load_allow_files(plan->connections);
    for (unsigned i = 0; i < plan->connections && rc == 0; i++) {
        rc = add_link(load, i);
    }
    rc = rc < 0 ? rc : await_connected(load);
    if (rc < 0) {
        return drop(load, rc);
    }
    *out = load;
    return 0;
}

static void epoll_close(struct load *load)
{
    for (unsigned i = 0; load->links != NULL && i < load->plan->connections; i++) {
        if (load->links[i].fd >= 0) {
            close(load->links[i].fd);
        }
    }
    if (load->epoll >= 0) {
        close(load->epoll);
    }
    free(load->in);
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
    if (load->plan->rate <= 0) {
        for (uint64_t i = 0; i < requests; i++) {
            link->sent_at[(link->sent + i) % load->plan->depth] = load->now;
        }
    }
    link->sent += requests;
    load->sent += requests;
    link->owed += requests * load->plan->size_bytes;
    return pay(load, link);
}

// When request `n` of a connection was due: the connections take turns.
static uint64_t due(const struct load *load, const struct link *link, uint64_t n)
{
    uint64_t place = (n - link->base) * load->plan->connections + (uint64_t)(link - load->links);
    return load->begun + (uint64_t)((double)place * 1e9 / load->plan->rate);
}

static void record(struct load *load, struct link *link, uint64_t replies)
{
    for (uint64_t i = 0; i < replies; i++) {
        uint64_t n = link->done + i;
        uint64_t from = load->plan->rate > 0 ? due(load, link, n)
                                             : link->sent_at[n % load->plan->depth];
        hist_add(&load->result->latency_ns, load->now > from ? load->now - from : 0, 1);
    }
}

static void mark(struct load *load, bool ended)
{
    if (load->plan->mark != NULL) {
        load->plan->mark(load->plan->mark_arg, ended);
    }
}

// Goes to the next stage when it is time. A stage begins between two requests.
static void advance(struct load *load)
{
    const struct load_plan *plan = load->plan;
    if (load->stage == WARM && load->done >= plan->warm_count &&
        load->now - load->begun >= plan->warm_ns) {
        load->stage = MEASURE;
        load->warm = load->done;
        mark(load, false);
        load->now = load->measured_from = load_now();
    } else if (load->stage == MEASURE &&
               ((plan->count > 0 && load->done - load->warm >= plan->count) ||
                (plan->duration_ns > 0 && load->now - load->measured_from >= plan->duration_ns))) {
        load->stage = DRAIN;
        load->result->span_ns = load_now() - load->measured_from;
        load->result->requests = load->done - load->warm;
        mark(load, true);
    }
}

static int take(struct load *load, struct link *link, size_t bytes)
{
    size_t size = load->plan->size_bytes;
    if (memcmp(load->in, load->pattern + link->received, bytes) != 0) {
        return -EBADMSG;
    }
    uint64_t replies = (link->received + bytes) / size;
    link->received = (link->received + bytes) % size;
    if (replies > link->sent - link->done) {
        return -EBADMSG;
    }
    if (load->stage == MEASURE) {
        record(load, link, replies);
    }
    link->done += replies;
    load->done += replies;
    advance(load);
    if (load->plan->rate > 0 || load->stage == DRAIN || replies == 0) {
        return 0;
    }
    return ask(load, link, replies);
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
        load->now = load_now(); // of this reply and of the requests that answer it
        rc = take(load, link, (size_t)n);
    } while (rc == 0 && n == LOAD_CHUNK);
    return rc;
}

// Open loop: sends all that is due. Says when the next one is.
static int send_due(struct load *load, uint64_t *next)
{
    const struct load_plan *plan = load->plan;
    for (;;) {
        struct link *link = &load->links[load->sent % plan->connections];
        *next = due(load, link, link->sent);
        if (*next > load->now || load->stage == DRAIN) {
            return 0;
        }
        int rc = ask(load, link, 1);
        if (rc < 0) {
            return rc;
        }
    }
}

static int wait_for(struct load *load, struct epoll_event *events, uint64_t next)
{
    struct timespec *timeout = NULL, span = { 0, 0 };
    if (next > 0 && load->stage != DRAIN) {
        uint64_t left = next > load->now ? next - load->now : 0;
        left = left > SPIN_NS ? left - SPIN_NS : 0;
        span = (struct timespec){ (time_t)(left / 1000000000), (long)(left % 1000000000) };
        timeout = &span;
    }
    int most = load->plan->rate > 0 ? EVENTS_OPEN : EVENTS;
    int n = epoll_pwait2(load->epoll, events, most, timeout, NULL);
    return n < 0 && errno != EINTR ? -errno : n < 0 ? 0 : n;
}

static void begin(struct load *load, struct load_result *out)
{
    hist_clear(&out->latency_ns);
    out->requests = out->span_ns = 0;
    load->result = out;
    load->stage = WARM;
    load->sent = load->done = load->warm = 0;
    load->begun = load->now = load_now();
    for (unsigned i = 0; i < load->plan->connections; i++) {
        load->links[i].base = load->links[i].sent;
    }
    advance(load);
}

static int epoll_run(struct load *load, struct load_result *out)
{
    static _Thread_local struct epoll_event events[EVENTS];
    bool open_loop = load->plan->rate > 0;
    int rc = 0;
    uint64_t next = 0;
    begin(load, out);
    for (unsigned i = 0; i < load->plan->connections && !open_loop && rc == 0; i++) {
        rc = ask(load, &load->links[i], load->plan->depth);
    }
    while (rc == 0 && (load->stage != DRAIN || load->done < load->sent)) {
        rc = open_loop ? send_due(load, &next) : 0;
        int n = rc < 0 ? rc : wait_for(load, events, next);
        rc = n < 0 ? n : 0;
        load->now = load_now();
        for (int i = 0; i < n && rc == 0; i++) {
            rc = handle(load, &events[i]);
        }
        advance(load);
    }
    return rc;
}

const struct load_core load_epoll = { "epoll", epoll_open, epoll_run, epoll_close };
