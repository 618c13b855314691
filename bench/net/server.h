// server.h - a server that is being measured: its process, and what the kernel says about it.
#ifndef WEFT_BENCH_NET_SERVER_H
#define WEFT_BENCH_NET_SERVER_H

#include <sched.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "../load/load.h"

#define SERVER_WHY_MAX 256
#define SERVER_ARGS_MAX 24

struct server {
    pid_t pid;
    clockid_t clock; // of its CPU time
    int out;         // what it says
    struct load_address address;
    char why[SERVER_WHY_MAX]; // it is not running
};

/// Starts `argv` (ended by NULL; the mode's name and the address are added) on one CPU and waits
/// until it is ready. It dies with this process. 0, or -1 with `why` set.
int server_start(struct server *server, const char *const *argv, const char *mode, bool is_tcp,
                 int cpu);

/// The same on several CPUs, at a TCP address of the caller's choice.
int server_start_at(struct server *server, const char *const *argv, const char *mode,
                    const char *address, const cpu_set_t *cpus);

/// A port below the ephemeral ones; the process number keeps runs on one machine apart.
int server_port(void);

/// Ends it with the signal and waits for its end.
void server_stop(struct server *server, int signal);

/// Nanoseconds of CPU time that all its threads have used, system calls included.
double server_cpu_ns(const struct server *server);

/// Waits until it has nothing more to do; two seconds at most.
void server_settle(const struct server *server);

struct server_memory {
    double resident_bytes, page_table_bytes;
};
void server_memory(const struct server *server, struct server_memory *out);

/// The kernel's slabs, for everybody.
double server_slab_bytes(void);

/// How often its threads have gone to sleep.
double server_sleeps(const struct server *server);

#endif
