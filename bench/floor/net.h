// net.h - hand-written servers: one thread, one loop, no library around the kernel.
//
// They serve the modes of serve.h. What is in them was chosen by measurement, see README.md.
#ifndef WEFT_BENCH_FLOOR_NET_H
#define WEFT_BENCH_FLOOR_NET_H

#include "../serve.h"

/// Both serve `mode` on the listening socket and say "ready" first. They return, with a negative
/// errno, only if they cannot begin.
int floor_net_epoll(enum serve_mode mode, int listener);
int floor_net_uring(enum serve_mode mode, int listener);

#endif
