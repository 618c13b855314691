// front.c - weft's fronts: one virtual thread for each connection, calls that block.
//
// Unified: that thread also asks the back end, over a connection of its own. Split: it hands the
// request through a channel to a thread on a worker's carrier, which asks and hands the reply back;
// there are as many of those as connections, so nobody waits for one.
//
// Descriptors and plain calls throughout, so that the same code runs under the work-stealing policy,
// where threads move.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <weft.h>

#include "../load/load.h"
#include "../serve.h"
#include "handoff.h"
#include "http.h"

#define WORKERS_MAX 2

struct stream {
    int fd; // -1: closed
    size_t used;
    char data[HTTP_MESSAGE_MAX];
};

/// One request and its reply; the connection's. While a worker has it the connection's thread waits.
struct exchange {
    const char *target;
    size_t target_bytes;
    bool close;
    int reply_bytes;
    char reply[HTTP_MESSAGE_MAX];
    struct weft_oneshot done;
};

/// What goes through a channel.
struct job {
    struct exchange *exchange;
};

struct front {
    const char *name;
    int io;      // carriers that read and reply,
    int workers; // and those that ask; 0: the same ones
    enum weft_policy policy;
    enum weft_topology topology;
};

static struct {
    const struct front *front;
    const char *address;
    struct load_address backend;
    weft_chan *jobs[WORKERS_MAX]; // of each worker's carrier
} self;

static void close_stream(struct stream *stream)
{
    if (stream->fd >= 0) {
        weft_close(stream->fd);
    }
    stream->fd = -1;
    stream->used = 0;
}

// Reads until there is a whole message. 1, or 0 at the end, or a negative errno.
static int read_message(struct stream *in, struct http_head *out,
                        int (*parse)(struct http_head *, const char *, size_t))
{
    for (;;) {
        int rc = parse(out, in->data, in->used);
        if (rc < 0 || (rc > 0 && out->head_bytes + out->body_bytes <= in->used)) {
            return rc;
        }
        ssize_t n = weft_read(in->fd, in->data + in->used, sizeof in->data - in->used,
                              WEFT_FOREVER);
        if (n <= 0) {
            return (int)n;
        }
        in->used += (size_t)n;
    }
}

static void consume(struct stream *in, const struct http_head *head)
{
    size_t size = head->head_bytes + head->body_bytes;
    in->used -= size;
    memmove(in->data, in->data + size, in->used);
}

// The ordinary blocking call: connect if need be, ask, wait for the reply.
static int ask_backend(struct stream *backend, struct exchange *exchange, struct http_head *reply)
{
    if (backend->fd < 0) {
        backend->fd = load_socket(&self.backend, 0);
        if (backend->fd < 0) {
            return backend->fd;
        }
        int rc = weft_connect(backend->fd, &self.backend.any, self.backend.size,
                              weft_after(WEFT_S));
        if (rc < 0) {
            return rc;
        }
    }
    int size = http_request(exchange->reply, exchange->target, exchange->target_bytes);
    if (size < 0) {
        return size;
    }
    ssize_t n = weft_write_full(NULL, backend->fd, exchange->reply, (size_t)size, WEFT_FOREVER);
    if (n < 0) {
        return (int)n;
    }
    int rc = read_message(backend, reply, http_parse_reply);
    return rc == 0 ? -EPIPE : rc;
}

static void answer(struct stream *backend, struct exchange *exchange)
{
    struct http_head reply;
    if (ask_backend(backend, exchange, &reply) < 0) {
        close_stream(backend);
        exchange->reply_bytes = http_reply(exchange->reply, 502, exchange->close, "", 0);
        return;
    }
    int size = http_reply(exchange->reply, reply.status, exchange->close,
                          backend->data + reply.head_bytes, reply.body_bytes);
    exchange->reply_bytes = size < 0 ? http_reply(exchange->reply, 502, exchange->close, "", 0)
                                     : size;
    consume(backend, &reply);
    if (reply.close) {
        close_stream(backend);
    }
}

// Split: what a worker does, on a connection to the back end that it keeps.
static int work(void *arg)
{
    weft_chan *jobs = arg;
    struct stream backend = { .fd = -1 };
    struct job job;
    int rc;
    while ((rc = weft_chan_recv(&job, jobs, WEFT_FOREVER)) == 0) {
        answer(&backend, job.exchange);
        rc = weft_oneshot_send(&job.exchange->done, NULL);
        if (rc < 0) {
            break;
        }
    }
    close_stream(&backend);
    return rc;
}

static int hand_over(struct exchange *exchange, weft_chan *jobs)
{
    struct job job = { exchange };
    weft_oneshot_init(&exchange->done, NULL, 0);
    int rc = weft_chan_send(jobs, &job, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    return weft_oneshot_recv(NULL, &exchange->done, WEFT_FOREVER);
}

struct link {
    weft_chan *jobs; // NULL: it asks by itself
    struct stream client, backend;
    struct exchange exchange;
};

static void refuse(struct link *link)
{
    int size = http_reply(link->exchange.reply, 400, true, "", 0);
    ssize_t n = weft_write_full(NULL, link->client.fd, link->exchange.reply, (size_t)size,
                                weft_after(WEFT_S));
    (void)n; // it has ended anyway
}

// 1: the next request may come.
static int serve_one(struct link *link)
{
    struct exchange *exchange = &link->exchange;
    struct http_head request;
    int rc = read_message(&link->client, &request, http_parse_request);
    if (rc <= 0) {
        if (rc == -EBADMSG || rc == -ENOTSUP || rc == -EMSGSIZE) {
            refuse(link);
        }
        return rc;
    }
    exchange->target = request.target;
    exchange->target_bytes = request.target_bytes;
    exchange->close = request.close;
    if (link->jobs == NULL) {
        answer(&link->backend, exchange);
    } else {
        rc = hand_over(exchange, link->jobs);
    }
    if (rc < 0) {
        return rc;
    }
    consume(&link->client, &request);
    ssize_t n = weft_write_full(NULL, link->client.fd, exchange->reply,
                                (size_t)exchange->reply_bytes, WEFT_FOREVER);
    return n < 0 ? (int)n : !exchange->close;
}

static int serve_connection(void *arg)
{
    struct link *link = arg;
    int rc;
    do {
        rc = serve_one(link);
    } while (rc > 0);
    close_stream(&link->client);
    close_stream(&link->backend);
    // Who was cancelled while a worker has the exchange must leave it to him: the process is about to end.
    if (rc != -ECANCELED) {
        free(link);
    }
    return 0;
}

// Connections take turns on the I/O carriers, and have one worker's carrier each.
static int start_connection(int fd, unsigned number)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    const struct front *front = self.front;
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        return -ENOMEM;
    }
    link->client.fd = fd;
    link->backend.fd = -1;
    if (front->workers > 0) {
        link->jobs = self.jobs[number % (unsigned)front->workers];
    }
    attr.place = front->policy == WEFT_POLICY_STEALING ? WEFT_PLACE_SPREAD : WEFT_PLACE_CARRIER;
    attr.carrier = (int)(number % (unsigned)front->io);
    attr.migratable = front->policy == WEFT_POLICY_STEALING;
    int rc = weft_spawn(NULL, serve_connection, link, &attr);
    if (rc < 0) {
        free(link);
    }
    return rc;
}

static int start_workers(void)
{
    const struct front *front = self.front;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    int rc = 0;
    for (int i = 0; i < front->workers && rc == 0; i++) {
        rc = weft_chan_create(&self.jobs[i], sizeof(struct job), HANDOFF_CONNECTIONS);
    }
    for (int i = 0; front->workers > 0 && i < HANDOFF_CONNECTIONS && rc == 0; i++) {
        attr.carrier = front->io + i % front->workers;
        rc = weft_spawn(NULL, work, self.jobs[i % front->workers], &attr);
    }
    return rc;
}

static int front_main(void *arg)
{
    (void)arg;
    int listener = serve_listen(self.address);
    int rc = listener < 0 ? listener : start_workers();
    if (rc == 0) {
        serve_ready();
    }
    for (unsigned number = 0; rc == 0; number++) {
        int fd = weft_accept_fd(listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
        rc = fd < 0 ? fd : start_connection(fd, number);
    }
    return rc;
}

int handoff_front(const char *name, const char *address)
{
    static const struct front fronts[] = {
        { "weft-unified", 2, 0, WEFT_POLICY_LOCALITY, WEFT_TOPOLOGY_OFF },
        { "weft-unified-pinned", 2, 0, WEFT_POLICY_LOCALITY, WEFT_TOPOLOGY_ON },
        { "weft-split", 1, 1, WEFT_POLICY_LOCALITY, WEFT_TOPOLOGY_OFF },
        { "weft-split-pinned", 1, 1, WEFT_POLICY_LOCALITY, WEFT_TOPOLOGY_ON },
        { "weft-split-double", 2, 2, WEFT_POLICY_LOCALITY, WEFT_TOPOLOGY_OFF },
        { "weft-stealing", 2, 0, WEFT_POLICY_STEALING, WEFT_TOPOLOGY_OFF },
    };
    const char *backend = getenv(HANDOFF_BACKEND);
    if (backend == NULL || load_address_parse(&self.backend, backend) < 0) {
        return -EDESTADDRREQ;
    }
    self.address = address;
    for (unsigned i = 0; i < sizeof fronts / sizeof fronts[0]; i++) {
        if (strcmp(fronts[i].name, name) == 0) {
            struct weft_options options = WEFT_OPTIONS_INIT;
            self.front = &fronts[i];
            options.carriers = fronts[i].io + fronts[i].workers;
            options.policy = fronts[i].policy;
            options.topology = fronts[i].topology;
            return weft_run(front_main, NULL, &options);
        }
    }
    return -ENOENT;
}
