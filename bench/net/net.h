// net.h - what weft-bench's client does with a server: one file for each kind of row.
#ifndef WEFT_BENCH_NET_NET_H
#define WEFT_BENCH_NET_NET_H

#include "../contender.h"
#include "server.h"

/// One row: the client's part.
struct net_job {
    struct server server;
    const char *const *argv; // of the server
    bool is_tcp;
    unsigned connections, depth;
    int server_cpu;
    uint64_t count; // operations a round
    unsigned share; // connections that one process may have
};

/// What a row does. All return 0 or a negative errno.
struct net_kind {
    const char *name; // the part of the row's name after "tcp/" or "unix/"
    const char *mode; // of serve.h; NULL: the kind starts the server by itself
    bool
        many; // the count is one of connections: server and client need descriptors for them, or the
              // kind, which then starts the servers, spreads them over several
    int (*open)(struct net_job *job); // may be NULL; before the first round. May set `server.why`
    int (*round)(struct net_job *job, struct contender_result *out);
};

extern const struct net_kind net_echo, net_accept, net_storm, net_idle, net_send, net_receive,
    net_instructions;

/// The environment variable that says on what the client of the echo rows runs: "weft", or plain
/// system calls.
#define NET_CLIENT "WEFT_BENCH_CLIENT"

/// The core of the load generator that the client uses.
extern const struct load_core *net_core;

/// Plays the client of row `bench` against the server started by `argv`, by the protocol of
/// contender.h. Returns the exit code.
int net_main(char *bench, const char *count, const char *const *argv);

/// The client's CPU time, and the server's, while a measurement runs.
struct net_watch {
    const struct server *server;
    double t0, t1, server0, server1, client0, client1;
};

/// For load_plan.mark.
void net_mark(void *watch, bool ended);

/// Adds `server_cpu_us_per_THING`; `things` of them were done.
void net_add_cpu(struct contender_result *out, const struct net_watch *watch, const char *metric,
                 double things);

/// Adds how busy server and client were, in per cent of a CPU.
void net_add_busy(struct contender_result *out, const struct net_watch *watch);

/// Opens `count` connections and has one request echoed on each, at most `window` of them at a time
/// between connect and reply. Fills `fds`; on failure all are closed. `latency_ns` may be NULL.
int net_connect_many(const struct load_address *address, int *fds, unsigned count, unsigned window,
                     struct hist *latency_ns);

#endif
