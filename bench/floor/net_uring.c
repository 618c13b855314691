// net_uring.c - the io_uring floor: multishot accept, multishot receive into a provided ring, one
// send for each receive, one system call for each turn of the loop.
//
// Each socket has one send in flight at most, since the kernel may let a second one overtake it.
#include "net.h"

#include <errno.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ENTRIES 2048
#define BUFFERS 2048 // a power of two
#define NONE UINT16_MAX

struct link {
    int fd;
    bool receiving, sending, starving; // any of them: the kernel or a list has this link
    uint16_t first, last;              // echo: buffers to send, in this order; NONE: none
    struct link *starved;              // the next one that waits for buffers
    uint64_t left;                     // source, sink: bytes of the present stream
    char *block;                       // sink: where they go
};

// The lower bits of user_data; links are aligned. Without a link: the listener, or nothing to do.
enum event { RECEIVED, SENT };
#define EVENT_MASK 1u

static struct {
    enum serve_mode mode;
    int listener;
    struct io_uring ring;
    struct io_uring_buf_ring *free;
    unsigned given; // buffers that were put back but not yet announced
    char *memory;
    struct link *starved;
    struct {
        uint32_t size;
        uint16_t next;
    } full[BUFFERS];
    char block[SERVE_BLOCK]; // source: what is sent
} server;

static struct io_uring_sqe *prepare(void)
{
    struct io_uring_sqe *sqe;
    while ((sqe = io_uring_get_sqe(&server.ring)) == NULL) {
        io_uring_submit(&server.ring);
    }
    return sqe;
}

static void tag(struct io_uring_sqe *sqe, struct link *link, enum event event)
{
    sqe->user_data = (uintptr_t)link | event;
}

static char *buffer(uint16_t id)
{
    return server.memory + (size_t)id * SERVE_ECHO_BUFFER;
}

static void give(uint16_t id)
{
    io_uring_buf_ring_add(server.free, buffer(id), SERVE_ECHO_BUFFER, id, BUFFERS - 1,
                          (int)server.given++);
}

static void drop(struct link *link)
{
    if (link->receiving || link->sending || link->starving) {
        shutdown(link->fd, SHUT_RDWR); // ends what is in flight; its completion comes back here
        return;
    }
    close(link->fd);
    free(link->block);
    free(link);
}

static void echo_receive(struct link *link)
{
    struct io_uring_sqe *sqe = prepare();
    io_uring_prep_recv_multishot(sqe, link->fd, NULL, 0, 0);
    tag(sqe, link, RECEIVED);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    link->receiving = true;
}

static void echo_send(struct link *link)
{
    struct io_uring_sqe *sqe = prepare();
    io_uring_prep_send(sqe, link->fd, buffer(link->first), server.full[link->first].size,
                       MSG_NOSIGNAL | MSG_WAITALL);
    tag(sqe, link, SENT);
    link->sending = true;
}

static void echo_received(struct link *link, const struct io_uring_cqe *cqe)
{
    link->receiving = (cqe->flags & IORING_CQE_F_MORE) != 0;
    if (cqe->res == -ENOBUFS) {
        link->starving = true;
        link->starved = server.starved;
        server.starved = link;
        return;
    }
    if (cqe->res <= 0) {
        if (cqe->res < 0 || !link->sending) {
            drop(link); // else when what arrived before the end has been sent
        }
        return;
    }
    uint16_t id = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
    server.full[id].size = (uint32_t)cqe->res;
    server.full[id].next = NONE;
    if (link->sending) {
        server.full[link->last].next = id;
        link->last = id;
    } else {
        link->first = link->last = id;
        echo_send(link);
    }
    if (!link->receiving) {
        echo_receive(link);
    }
}

static void echo_sent(struct link *link, const struct io_uring_cqe *cqe)
{
    uint16_t id = link->first;
    bool whole = cqe->res == (int)server.full[id].size;
    link->sending = false;
    link->first = server.full[id].next;
    give(id);
    if (!whole) {
        while (link->first != NONE) {
            id = link->first;
            link->first = server.full[id].next;
            give(id);
        }
        drop(link);
    } else if (link->first != NONE) {
        echo_send(link);
    } else if (!link->receiving && !link->starving) {
        drop(link);
    }
}

static void feed_starved(void)
{
    io_uring_buf_ring_advance(server.free, (int)server.given);
    server.given = 0;
    while (server.starved != NULL) {
        struct link *link = server.starved;
        server.starved = link->starved;
        link->starving = false;
        echo_receive(link);
    }
}

// The length of a stream, and what is sent back at the end, are too rare to be clever about.
static void stream_length(struct link *link)
{
    struct io_uring_sqe *sqe = prepare();
    io_uring_prep_recv(sqe, link->fd, &link->left, sizeof link->left, MSG_WAITALL);
    tag(sqe, link, RECEIVED);
    link->receiving = true;
    link->sending = false;
}

static void source_send(struct link *link)
{
    struct io_uring_sqe *sqe = prepare();
    size_t size = link->left < SERVE_BLOCK ? (size_t)link->left : SERVE_BLOCK;
    io_uring_prep_send(sqe, link->fd, server.block, size, MSG_NOSIGNAL | MSG_WAITALL);
    tag(sqe, link, SENT);
    link->sending = true;
}

static void source_done(struct link *link, enum event event, int result)
{
    link->receiving = link->sending = false;
    if (result <= 0) {
        drop(link);
        return;
    }
    link->left -= event == SENT ? (uint64_t)result : 0;
    if (link->left > 0) {
        source_send(link);
    } else {
        stream_length(link);
    }
}

static void sink_receive(struct link *link)
{
    struct io_uring_sqe *sqe = prepare();
    size_t size = link->left < SERVE_BLOCK ? (size_t)link->left : SERVE_BLOCK;
    io_uring_prep_recv(sqe, link->fd, link->block, size, 0);
    tag(sqe, link, SENT); // not the length, which is RECEIVED
    link->sending = true;
}

static void sink_done(struct link *link, enum event event, int result)
{
    link->receiving = link->sending = false;
    link->block = link->block != NULL ? link->block : malloc(SERVE_BLOCK);
    if (result <= 0 || link->block == NULL) {
        drop(link);
        return;
    }
    link->left -= event == SENT ? (uint64_t)result : 0;
    if (link->left > 0) {
        sink_receive(link);
        return;
    }
    send(link->fd, "", 1, MSG_NOSIGNAL);
    stream_length(link);
}

static void accept_more(void)
{
    struct io_uring_sqe *sqe = prepare();
    io_uring_prep_multishot_accept(sqe, server.listener, NULL, NULL, SOCK_CLOEXEC);
    tag(sqe, NULL, RECEIVED);
}

static void accepted(const struct io_uring_cqe *cqe)
{
    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        accept_more();
    }
    if (cqe->res < 0) {
        return;
    }
    if (server.mode == SERVE_CLOSE) {
        struct io_uring_sqe *sqe = prepare();
        io_uring_prep_close(sqe, cqe->res);
        tag(sqe, NULL, SENT);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        return;
    }
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        close(cqe->res);
        return;
    }
    link->fd = cqe->res;
    link->first = link->last = NONE;
    if (server.mode == SERVE_ECHO) {
        echo_receive(link);
    } else {
        stream_length(link);
    }
}

static void handle(const struct io_uring_cqe *cqe)
{
    struct link *link = (struct link *)(uintptr_t)(cqe->user_data & ~(uint64_t)EVENT_MASK);
    enum event event = cqe->user_data & EVENT_MASK;
    if (link == NULL) {
        if (event == RECEIVED) {
            accepted(cqe);
        }
    } else if (server.mode == SERVE_SOURCE) {
        source_done(link, event, cqe->res);
    } else if (server.mode == SERVE_SINK) {
        sink_done(link, event, cqe->res);
    } else if (event == RECEIVED) {
        echo_received(link, cqe);
    } else {
        echo_sent(link, cqe);
    }
}

static int make_buffers(void)
{
    size_t bytes = BUFFERS * sizeof(struct io_uring_buf);
    server.memory = aligned_alloc(4096, (size_t)BUFFERS * SERVE_ECHO_BUFFER);
    server.free = aligned_alloc(4096, bytes);
    if (server.memory == NULL || server.free == NULL) {
        return -ENOMEM;
    }
    struct io_uring_buf_reg reg = { .ring_addr = (uintptr_t)server.free, .ring_entries = BUFFERS };
    int rc = io_uring_register_buf_ring(&server.ring, &reg, 0);
    if (rc < 0) {
        return rc;
    }
    io_uring_buf_ring_init(server.free);
    for (unsigned i = 0; i < BUFFERS; i++) {
        give((uint16_t)i);
    }
    feed_starved();
    return 0;
}

int floor_net_uring(enum serve_mode mode, int listener)
{
    server.mode = mode;
    server.listener = listener;
    struct io_uring_params params = {
        .flags = IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_CQSIZE,
        .cq_entries = 4 * ENTRIES,
    };
    int rc = io_uring_queue_init_params(ENTRIES, &server.ring, &params);
    rc = rc < 0 ? rc : make_buffers();
    if (rc < 0) {
        return rc;
    }
    io_uring_register_ring_fd(&server.ring);
    accept_more();
    serve_ready();
    for (;;) {
        io_uring_submit_and_wait(&server.ring, 1);
        unsigned head, count = 0;
        struct io_uring_cqe *cqe;
        io_uring_for_each_cqe(&server.ring, head, cqe)
        {
            handle(cqe);
            count++;
        }
        io_uring_cq_advance(&server.ring, count);
        if (server.given > 0) {
            feed_starved();
        }
    }
}
