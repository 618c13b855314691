// backend.c - the mock back end: answers every request with its own target after a fixed time.
//
// Plain system calls on one thread, so that nobody whom it serves has a part in it. All answers take the
// same time, so those that are due stand in the order in which they were asked for: a queue is enough.
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../load/load.h"
#include "../serve.h"
#include "handoff.h"
#include "http.h"

#define EVENTS 64
#define PENDING_MAX 4096 // a power of two
#define PEERS_MAX 1024   // descriptors

struct peer {
    uint64_t generation; // of its descriptor: an answer that comes too late must not reach the next
    size_t used;
    char in[HTTP_MESSAGE_MAX];
};

struct answer {
    int fd;
    uint64_t generation;
    uint64_t due;
    int bytes;
    char text[256];
};

static struct {
    int epoll, listener;
    uint64_t taken, given; // of the queue
    struct answer queue[PENDING_MAX];
    struct peer peers[PEERS_MAX]; // by descriptor
} self;

static void forget(int fd)
{
    self.peers[fd].generation++;
    close(fd);
}

static void accept_all(void)
{
    int fd;
    while ((fd = accept4(self.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
        if (fd >= PEERS_MAX || epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
            close(fd);
        } else {
            self.peers[fd].used = 0;
        }
    }
}

// One request for the queue. False: it cannot be answered.
static bool enqueue(int fd, const struct http_head *head)
{
    char reply[HTTP_MESSAGE_MAX];
    struct answer *answer = &self.queue[self.taken % PENDING_MAX];
    int bytes = http_reply(reply, 200, false, head->target, head->target_bytes);
    if (bytes < 0 || (size_t)bytes > sizeof answer->text ||
        self.taken - self.given == PENDING_MAX) {
        return false;
    }
    answer->fd = fd;
    answer->generation = self.peers[fd].generation;
    answer->due = load_now() + HANDOFF_THINK_NS;
    answer->bytes = bytes;
    memcpy(answer->text, reply, (size_t)bytes);
    self.taken++;
    return true;
}

static void receive(int fd)
{
    struct peer *peer = &self.peers[fd];
    ssize_t n = recv(fd, peer->in + peer->used, sizeof peer->in - peer->used, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    int rc = n > 0 ? 1 : 0;
    peer->used += n > 0 ? (size_t)n : 0;
    while (rc > 0) {
        struct http_head head;
        rc = http_parse_request(&head, peer->in, peer->used);
        if (rc > 0 && head.head_bytes + head.body_bytes > peer->used) {
            rc = 0;
        }
        if (rc == 0) {
            return;
        }
        if (rc > 0 && enqueue(fd, &head)) {
            size_t taken = head.head_bytes + head.body_bytes;
            memmove(peer->in, peer->in + taken, peer->used - taken);
            peer->used -= taken;
        } else {
            rc = -EBADMSG;
        }
    }
    forget(fd);
}

// Sends what is due. Answers are small and a peer has one at a time, so the socket has room.
static void give_due(void)
{
    while (self.given != self.taken) {
        struct answer *answer = &self.queue[self.given % PENDING_MAX];
        if (answer->due > load_now()) {
            return;
        }
        self.given++;
        bool there = self.peers[answer->fd].generation == answer->generation;
        if (there && send(answer->fd, answer->text, (size_t)answer->bytes,
                          MSG_DONTWAIT | MSG_NOSIGNAL) != answer->bytes) {
            forget(answer->fd);
        }
    }
}

static int wait_for(struct epoll_event *events)
{
    struct timespec span = { 0, 0 }, *most = NULL;
    if (self.given != self.taken) {
        uint64_t due = self.queue[self.given % PENDING_MAX].due, now = load_now();
        span.tv_nsec = due > now ? (long)(due - now) : 0; // less than a second
        most = &span;
    }
    int n = epoll_pwait2(self.epoll, events, EVENTS, most, NULL);
    if (n < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    return n;
}

int handoff_backend(const char *address)
{
    struct epoll_event events[EVENTS];
    prctl(PR_SET_TIMERSLACK, 1); // or "after a fixed time" would be 50 us later
    self.epoll = epoll_create1(EPOLL_CLOEXEC);
    self.listener = serve_listen(address);
    if (self.epoll < 0 || self.listener < 0) {
        return self.epoll < 0 ? -errno : self.listener;
    }
    struct epoll_event event = { .events = EPOLLIN, .data.fd = self.listener };
    if (epoll_ctl(self.epoll, EPOLL_CTL_ADD, self.listener, &event) < 0) {
        return -errno;
    }
    serve_ready();
    for (;;) {
        int n = wait_for(events);
        if (n < 0) {
            return n;
        }
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == self.listener) {
                accept_all();
            } else {
                receive(events[i].data.fd);
            }
        }
        give_due();
    }
}
