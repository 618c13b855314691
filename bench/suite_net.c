// suite_net.c - the rows of `net`: weft-bench's client against servers.
//
// weft may cost 8% more CPU per request than the hand-written loops and must be ahead of the peers,
// at both levels of its API and on both drivers.
#include <stddef.h>

#include "suite.h"

#define FLOOR_GOAL 1.08
#define PEER_GOAL 1.0

#define SELF(name, bench, goal)                                                                    \
    {                                                                                              \
        name, NULL, bench, goal, name                                                              \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL, 0, NULL                                                                  \
    }
#define WEFTS 4

#define CONTENDERS(bench, floor_goal, peer_goal)                                                   \
    {                                                                                              \
        SELF("weft-conn-uring", bench, 0), SELF("weft-conn-epoll", bench, 0),                      \
            SELF("weft-plain-uring", bench, 0), SELF("weft-plain-epoll", bench, 0),                \
            SELF("floor-uring", bench, floor_goal), SELF("floor-epoll", bench, floor_goal),        \
            { "go", "go", bench, peer_goal, "serve" },                                             \
            { "tokio", "tokio", bench, peer_goal, "serve" },                                       \
            { "tokio-1-worker", "tokio", bench, peer_goal, "serve/1-worker" },                     \
            { "libuv", "libuv", bench, peer_goal, "serve" },                                       \
            { "asio", "asio", bench, peer_goal, "serve" }, END,                                    \
    }

static const struct contender tcp_1x1[] = CONTENDERS("tcp/echo/1x1", FLOOR_GOAL, PEER_GOAL);
static const struct contender tcp_1x16[] = CONTENDERS("tcp/echo/1x16", FLOOR_GOAL, PEER_GOAL);
static const struct contender tcp_50x1[] = CONTENDERS("tcp/echo/50x1", FLOOR_GOAL, PEER_GOAL);
static const struct contender tcp_50x16[] = CONTENDERS("tcp/echo/50x16", FLOOR_GOAL, PEER_GOAL);
static const struct contender tcp_500x1[] = CONTENDERS("tcp/echo/500x1", FLOOR_GOAL, PEER_GOAL);
static const struct contender tcp_500x16[] = CONTENDERS("tcp/echo/500x16", FLOOR_GOAL, PEER_GOAL);
static const struct contender unix_1x1[] = CONTENDERS("unix/echo/1x1", FLOOR_GOAL, PEER_GOAL);
static const struct contender unix_1x16[] = CONTENDERS("unix/echo/1x16", FLOOR_GOAL, PEER_GOAL);
static const struct contender unix_50x1[] = CONTENDERS("unix/echo/50x1", FLOOR_GOAL, PEER_GOAL);
static const struct contender unix_50x16[] = CONTENDERS("unix/echo/50x16", FLOOR_GOAL, PEER_GOAL);
static const struct contender unix_500x1[] = CONTENDERS("unix/echo/500x1", FLOOR_GOAL, PEER_GOAL);
static const struct contender unix_500x16[] = CONTENDERS("unix/echo/500x16", FLOOR_GOAL, PEER_GOAL);
static const struct contender tcp_send[] = CONTENDERS("tcp/send", FLOOR_GOAL, PEER_GOAL);
static const struct contender tcp_receive[] = CONTENDERS("tcp/receive", FLOOR_GOAL, PEER_GOAL);
static const struct contender tcp_accept[] = CONTENDERS("tcp/accept", 0, PEER_GOAL);
static const struct contender tcp_storm[] = CONTENDERS("tcp/storm", 0, PEER_GOAL);
static const struct contender tcp_idle[] = CONTENDERS("tcp/idle", 0, 0);

// valgrind knows too little of io_uring.
#define COUNTED(bench)                                                                             \
    {                                                                                              \
        SELF("weft-conn-epoll", bench, 0), SELF("weft-plain-epoll", bench, 0),                     \
            SELF("floor-epoll", bench, 0), { "tokio", "tokio", bench, PEER_GOAL, "serve" },        \
            { "libuv", "libuv", bench, PEER_GOAL, "serve" },                                       \
            { "asio", "asio", bench, PEER_GOAL, "serve" }, END,                                    \
    }

static const struct contender counted_1x1[] = COUNTED("tcp/instructions/1x1");
static const struct contender counted_50x1[] = COUNTED("tcp/instructions/50x1");
static const struct contender counted_50x16[] = COUNTED("tcp/instructions/50x16");

#define ECHO(row, text, contenders, count, quick)                                                  \
    {                                                                                              \
        "net", row, text, contenders, count, quick, 0, 2, false, "server_cpu_us_per_request", 0,   \
            WEFTS                                                                                  \
    }
#define COUNT(row, text, contenders, count, quick)                                                 \
    {                                                                                              \
        "net-instructions", row, text, contenders, count, quick, 3, 2, false, NULL, 0, 2           \
    }
#define THOUSAND 1000
#define MIB (1024 * 1024)

const struct row suite_net_rows[] = {
    ECHO("tcp-echo-1x1", "TCP echo of 64 bytes, 1 connection, 1 in flight", tcp_1x1, 10 * THOUSAND,
         500),
    ECHO("tcp-echo-1x16", "TCP echo of 64 bytes, 1 connection, 16 in flight", tcp_1x16,
         160 * THOUSAND, 8 * THOUSAND),
    ECHO("tcp-echo-50x1", "TCP echo of 64 bytes, 50 connections, 1 in flight on each", tcp_50x1,
         60 * THOUSAND, 3 * THOUSAND),
    ECHO("tcp-echo-50x16", "TCP echo of 64 bytes, 50 connections, 16 in flight on each", tcp_50x16,
         800 * THOUSAND, 40 * THOUSAND),
    ECHO("tcp-echo-500x1", "TCP echo of 64 bytes, 500 connections, 1 in flight on each", tcp_500x1,
         60 * THOUSAND, 3 * THOUSAND),
    ECHO("tcp-echo-500x16", "TCP echo of 64 bytes, 500 connections, 16 in flight on each",
         tcp_500x16, 800 * THOUSAND, 40 * THOUSAND),
    ECHO("unix-echo-1x1", "Unix-socket echo of 64 bytes, 1 connection, 1 in flight", unix_1x1,
         10 * THOUSAND, 500),
    ECHO("unix-echo-1x16", "Unix-socket echo of 64 bytes, 1 connection, 16 in flight", unix_1x16,
         160 * THOUSAND, 8 * THOUSAND),
    ECHO("unix-echo-50x1", "Unix-socket echo of 64 bytes, 50 connections, 1 in flight on each",
         unix_50x1, 100 * THOUSAND, 5 * THOUSAND),
    ECHO("unix-echo-50x16", "Unix-socket echo of 64 bytes, 50 connections, 16 in flight on each",
         unix_50x16, 1600 * THOUSAND, 80 * THOUSAND),
    ECHO("unix-echo-500x1", "Unix-socket echo of 64 bytes, 500 connections, 1 in flight on each",
         unix_500x1, 100 * THOUSAND, 5 * THOUSAND),
    ECHO("unix-echo-500x16", "Unix-socket echo of 64 bytes, 500 connections, 16 in flight on each",
         unix_500x16, 1600 * THOUSAND, 80 * THOUSAND),
    { "net", "tcp-send", "the server streams bytes in writes of 64 KiB", tcp_send, 1024 * MIB,
      32 * MIB, 7, 2, false, "server_cpu_us_per_mib", 0, WEFTS },
    { "net", "tcp-receive", "the server takes a stream of bytes in reads of 64 KiB", tcp_receive,
      1024 * MIB, 32 * MIB, 7, 2, false, "server_cpu_us_per_mib", 0, WEFTS },
    { "net", "tcp-accept", "the server accepts connections and closes them", tcp_accept,
      10 * THOUSAND, 500, 0, 2, false, "server_cpu_us_per_connection", 0, WEFTS },
    { "net", "tcp-storm", "many connect at once, and have one request each", tcp_storm,
      10 * THOUSAND, 500, 7, 2, false, "server_cpu_us_per_connection", 0, WEFTS },
    { "net", "tcp-idle", "connections that do nothing: memory of each, wake-ups of the server",
      tcp_idle, 100 * THOUSAND, 5 * THOUSAND, 1, 2, true, "wakeups_per_s", 0.4, WEFTS },
    COUNT("instructions-1x1", "user-space instructions of a TCP echo, 1 connection", counted_1x1,
          2 * THOUSAND, 500),
    COUNT("instructions-50x1", "user-space instructions of a TCP echo, 50 connections",
          counted_50x1, 20 * THOUSAND, 5 * THOUSAND),
    COUNT("instructions-50x16", "the same, 16 in flight on each", counted_50x16, 200 * THOUSAND,
          20 * THOUSAND),
    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, 0, 0 },
};
