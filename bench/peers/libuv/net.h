// net.h - libuv's servers.
#ifndef WEFT_BENCH_PEERS_LIBUV_NET_H
#define WEFT_BENCH_PEERS_LIBUV_NET_H

/// Serves until it is killed. Returns an exit code if it cannot.
int libuv_serve(const char *mode, const char *address);

#endif
