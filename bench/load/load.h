// load.h - a load generator: requests of one size over many connections, and what they took.
//
// Closed loop (rate 0): every connection keeps `depth` requests in flight and sends the next when a
// reply has come. That shows how fast a server is, but its latencies flatter it: a server that
// stalls is not asked while it does.
//
// Open loop (rate > 0): request k of all is due at start + k / rate, whatever the server does, and
// its latency counts from that instant, not from when it could be sent. So a stall is charged to
// every request that should have been sent meanwhile (no coordinated omission), and a client that
// cannot keep up shows as latency, never as a lower rate that looks healthy.
//
// Replies are echoes, or what the plan says; each is compared with that.
#ifndef WEFT_BENCH_LOAD_LOAD_H
#define WEFT_BENCH_LOAD_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>

#include "hist.h"

#define LOAD_CONNECTIONS_MAX 1000000
#define LOAD_DEPTH_MAX 4096
#define LOAD_SIZE_MAX (1 << 20)

struct load_address {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_un un;
    };
    socklen_t size;
    char text[160]; // as it was given
};

/// Reads "tcp://A.B.C.D:PORT" or "unix:///PATH". 0 or -EINVAL.
int load_address_parse(struct load_address *out, const char *text);

struct load_plan {
    struct load_address address;
    unsigned connections;
    unsigned depth;       // requests in flight on each connection; closed loop only
    size_t size_bytes;    // of a request
    const char *request;  // what each says; NULL: pseudo-random bytes, which are echoed
    const char *reply;    // with `request`: what each is answered with,
    size_t reply_bytes;   // so many
    double rate;          // requests per second on all connections together; 0: closed loop
    uint64_t count;       // requests to measure; 0: as many as `duration_ns` allows
    uint64_t duration_ns; // of the measurement; 0: until `count` is reached
    uint64_t warm_count;  // requests, and
    uint64_t warm_ns;     // time, that pass before the measurement
    bool shares_cpu;      // open loop: sleep until a request is due, which may make it late, and do
                          // not take the CPU from the server meanwhile
    /// Called when the measurement begins (false) and ends (true), between two requests.
    void (*mark)(void *arg, bool ended);
    void *mark_arg;
};

struct load_result {
    uint64_t requests; // that were measured
    uint64_t span_ns;  // from the first mark to the second
    struct hist latency_ns;
};

/// What comes back for each request, and how many bytes.
static inline size_t load_reply_bytes(const struct load_plan *plan)
{
    return plan->request != NULL ? plan->reply_bytes : plan->size_bytes;
}

struct load;

/// One way to talk to the kernel.
struct load_core {
    const char *name;
    /// Connects all connections. Borrows `plan`, in which connections, depth and size are not zero. 0
    /// or a negative errno.
    int (*open)(struct load **out, const struct load_plan *plan);
    /// Runs the plan once; may be called again. 0 or a negative errno: -EBADMSG says that a reply
    /// was not what had been sent, -EPIPE that the server closed a connection.
    int (*run)(struct load *load, struct load_result *out);
    void (*close)(struct load *load);
};

extern const struct load_core load_epoll; // plain system calls; from any thread
extern const struct load_core load_weft;  // from a virtual thread; all on its carrier

/// At least LOAD_CHUNK bytes from any place in the first request on: what one request says, again and
/// again, so that many requests are one write and replies can be compared however they are cut. It says
/// `text`, or, if that is NULL, pseudo-random bytes. The caller frees it. NULL: no memory.
char *load_pattern(const char *text, size_t size);
#define LOAD_CHUNK 65536

/// A socket for the `index`th of many connections to the address. Those to a TCP loopback address
/// spread over several source addresses, because one has only 28,000 ports. A descriptor, or a negative
/// errno.
int load_socket(const struct load_address *address, unsigned index);

/// The same, non-blocking and connected, or still connecting.
int load_connect(const struct load_address *address, unsigned index);

/// Waits until the socket is connected; ten seconds at most. 0 or a negative errno.
int load_await_connect(int fd);

/// Lets this process, and those it starts, have `count` more descriptors, or as many as possible.
/// Returns how many.
unsigned load_allow_files(unsigned count);

/// Nanoseconds of CLOCK_MONOTONIC.
uint64_t load_now(void);

#endif
