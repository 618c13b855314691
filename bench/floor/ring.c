// ring.c - what weft's io_uring driver costs over a bare ring, and which kind of ring is cheaper.
//
// An echo server without a runtime: one thread that answers 64-byte requests of a client thread on
// the other CPU, in five ways that take turns. The figure is the CPU time of the server's thread per
// request. docs/design/ring.md has the results.
//
//     floor-ring [connections] [requests per round] [rounds]
#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/io.h"
#include "io/uring.h"

enum { MOST_CONNECTIONS = 1000, REQUEST = 64, MOST_ROUNDS = 101, WAYS = 6 };

#define DEFER (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)
#define COOP IORING_SETUP_COOP_TASKRUN

static int connections = 50, requests = 20000, rounds = 15;

struct run;

static const struct way {
    const char *name;
    void (*serve)(struct run *run);
    unsigned flags; // of a bare ring
    unsigned without;
    uint8_t mode;
} ways[WAYS];

struct run {
    const struct way *way;
    int server[MOST_CONNECTIONS], client[MOST_CONNECTIONS];
    uint64_t cpu_ns;
    _Atomic bool ready;
    uint64_t answered, ended;
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set); // with one CPU it goes without
}

// The bare ring: the op is an index and a direction.

struct bare {
    struct io_uring ring;
    char data[MOST_CONNECTIONS][REQUEST];
};

static void bare_queue(struct bare *bare, struct run *run, unsigned i, bool send)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&bare->ring);
    must(sqe != NULL, "room in the queue");
    if (send) {
        io_uring_prep_send(sqe, run->server[i], bare->data[i], REQUEST, MSG_NOSIGNAL);
    } else {
        io_uring_prep_recv(sqe, run->server[i], bare->data[i], REQUEST, 0);
    }
    sqe->user_data = i * 2u + send;
}

static void serve_bare(struct run *run)
{
    struct bare *bare = calloc(1, sizeof *bare);
    must(bare != NULL, "memory");
    must(io_uring_queue_init(2048, &bare->ring, run->way->flags) == 0, "io_uring");
    for (int i = 0; i < connections; i++) {
        bare_queue(bare, run, (unsigned)i, false);
    }
    atomic_store(&run->ready, true);
    uint64_t start = thread_cpu_ns();
    while (run->ended < (uint64_t)connections) {
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        must(io_uring_submit_and_wait(&bare->ring, 1) >= 0, "io_uring_enter");
        io_uring_for_each_cqe(&bare->ring, head, cqe)
        {
            unsigned i = (unsigned)cqe->user_data / 2;
            bool sent = (cqe->user_data & 1) != 0;
            count++;
            if (!sent && cqe->res <= 0) {
                run->ended++;
            } else {
                run->answered += !sent;
                bare_queue(bare, run, i, !sent);
            }
        }
        io_uring_cq_advance(&bare->ring, count);
    }
    run->cpu_ns = thread_cpu_ns() - start;
    io_uring_queue_exit(&bare->ring);
    free(bare);
}

// The driver.

struct echo {
    struct weft__op in, out;
    struct run *run;
    void *state;
    char data[REQUEST];
    uint16_t number;
};

static void start(struct echo *echo, struct weft__op *op)
{
    if (weft__uring_driver.submit(echo->state, op)) {
        op->done(op);
    }
}

static void sent(struct weft__op *op)
{
    struct echo *echo = weft__container_of(op, struct echo, out);
    must(op->result == REQUEST, "send");
    if ((echo->in.mode & WEFT__OP_SELECT) != 0) {
        weft__uring_driver.give(echo->state, echo->number);
    }
    if ((echo->in.mode & WEFT__OP_MULTI) == 0) {
        start(echo, &echo->in);
    }
}

static void received(struct weft__op *op)
{
    struct echo *echo = weft__container_of(op, struct echo, in);
    if (op->result <= 0) {
        echo->run->ended++;
        return;
    }
    echo->run->answered++;
    if ((op->result_flags & WEFT__OP_BUFFER) != 0) {
        echo->number = weft__op_buffer(op);
        echo->out.data = weft__uring_driver.buffer(echo->state, echo->number);
    }
    start(echo, &echo->out);
    if ((op->mode & WEFT__OP_MULTI) != 0 && (op->result_flags & WEFT__OP_MORE) == 0) {
        start(echo, op);
    }
}

static void serve_driver(struct run *run)
{
    const struct weft__driver_config config = { 0 };
    struct echo *echoes = calloc((size_t)connections, sizeof *echoes);
    must(echoes != NULL, "memory");
    void *state;
    weft__uring_without = run->way->without;
    must(weft__uring_driver.open(&state, &config) == 0, "the driver");
    for (int i = 0; i < connections; i++) {
        struct echo *echo = &echoes[i];
        echo->run = run;
        echo->state = state;
        echo->in = (struct weft__op){ .code = WEFT__OP_RECV,
                                      .fd = run->server[i],
                                      .size = REQUEST };
        echo->out = echo->in;
        echo->out.code = WEFT__OP_SEND;
        echo->in.data = echo->out.data = echo->data;
        echo->in.done = received;
        echo->out.done = sent;
        echo->in.mode = run->way->mode;
        start(echo, &echo->in);
    }
    atomic_store(&run->ready, true);
    uint64_t begin = thread_cpu_ns();
    while (run->ended < (uint64_t)connections) {
        weft__uring_driver.wait(state, WEFT_FOREVER);
    }
    run->cpu_ns = thread_cpu_ns() - begin;
    weft__uring_driver.close(state);
    free(echoes);
}

#define MULTI (WEFT__OP_MULTI | WEFT__OP_SELECT)
static const struct way ways[WAYS] = {
    { "bare DEFER", serve_bare, DEFER, 0, 0 },
    { "bare COOP", serve_bare, COOP, 0, 0 },
    { "driver DEFER", serve_driver, 0, 0, 0 },
    { "driver COOP", serve_driver, 0, WEFT__URING_DEFER, 0 },
    { "driver DEFER multishot", serve_driver, 0, 0, MULTI },
    { "driver COOP multishot", serve_driver, 0, WEFT__URING_DEFER, MULTI },
};

// The client.

static void connect_all(struct run *run, bool tcp)
{
    struct sockaddr_in addr = { .sin_family = AF_INET };
    socklen_t size = sizeof addr;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(listener, (struct sockaddr *)&addr, size) == 0 && listen(listener, 128) == 0 &&
             getsockname(listener, (struct sockaddr *)&addr, &size) == 0,
         "listen");
    for (int i = 0; i < connections; i++) {
        int pair[2];
        if (tcp) {
            pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            must(connect(pair[0], (struct sockaddr *)&addr, size) == 0, "connect");
            pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            must(pair[1] >= 0, "accept");
        } else {
            must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
        }
        run->client[i] = pair[0];
        run->server[i] = pair[1];
    }
    close(listener);
}

static void drive(struct run *run)
{
    char request[REQUEST] = "ping";
    pin(1);
    while (!atomic_load(&run->ready)) {
        sched_yield();
    }
    for (int i = 0; i < connections; i++) {
        must(send(run->client[i], request, REQUEST, MSG_NOSIGNAL) == REQUEST, "send");
    }
    for (int turn = 0; turn < requests / connections; turn++) {
        bool last = turn + 1 == requests / connections;
        for (int i = 0; i < connections; i++) {
            must(recv(run->client[i], request, REQUEST, MSG_WAITALL) == REQUEST, "recv");
            if (!last) {
                must(send(run->client[i], request, REQUEST, MSG_NOSIGNAL) == REQUEST, "send");
            }
        }
    }
    for (int i = 0; i < connections; i++) {
        shutdown(run->client[i], SHUT_WR);
    }
}

static void *serve(void *arg)
{
    struct run *run = arg;
    pin(0);
    run->way->serve(run);
    return NULL;
}

static double measure(const struct way *way, bool tcp)
{
    struct run *run = calloc(1, sizeof *run);
    must(run != NULL, "memory");
    run->way = way;
    pthread_t thread;
    connect_all(run, tcp);
    must(pthread_create(&thread, NULL, serve, run) == 0, "thread");
    drive(run);
    pthread_join(thread, NULL);
    double us = (double)run->cpu_ns / (double)run->answered / 1000;
    for (int i = 0; i < connections; i++) {
        close(run->client[i]);
        close(run->server[i]);
    }
    free(run);
    return us;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/// Medians of the times and of the ratios to the first way of the same round.
static void compare(bool tcp)
{
    static double us[WAYS][MOST_ROUNDS], ratio[WAYS][MOST_ROUNDS];
    for (int round = 0; round < rounds; round++) {
        for (int k = 0; k < WAYS; k++) {
            int w = (k + round) % WAYS;
            us[w][round] = measure(&ways[w], tcp);
        }
        for (int w = 0; w < WAYS; w++) {
            ratio[w][round] = us[w][round] / us[0][round];
        }
    }
    printf("%s, %d connections\n", tcp ? "TCP" : "Unix", connections);
    for (int w = 0; w < WAYS; w++) {
        printf("  %-24s %6.3f us  x%.3f\n", ways[w].name, median(us[w], rounds),
               median(ratio[w], rounds));
    }
}

int main(int argc, char **argv)
{
    connections = argc > 1 ? atoi(argv[1]) : connections;
    requests = argc > 2 ? atoi(argv[2]) : requests;
    rounds = argc > 3 ? atoi(argv[3]) : rounds;
    must(connections > 0 && connections <= MOST_CONNECTIONS && requests >= connections &&
             rounds > 0 && rounds <= MOST_ROUNDS,
         "usage: floor-ring [connections] [requests per round] [rounds]");
    compare(true);
    compare(false);
    return 0;
}
