// isolate.h - a network of one's own.
#ifndef WEFT_BENCH_NET_ISOLATE_H
#define WEFT_BENCH_NET_ISOLATE_H

/// Gives this process and its children a network of their own, if the kernel allows it: nobody else's
/// traffic, firewall or ports, and the same settings on every machine. Without it the machine's own
/// loopback is used. Once is enough.
void net_isolate(void);

#endif
