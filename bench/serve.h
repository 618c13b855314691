// serve.h - the protocol between weft-bench's client and the servers that it compares.
//
// A server is a child process, called as `program serve MODE ADDRESS`. It listens, prints "ready"
// and serves until it is killed; instead it may print "skip: reason". Every mode serves any number
// of connections at once on one thread (or what stands for one), without Nagle's delay:
//
//   echo    sends back what it receives
//   close   closes every connection as soon as it has been accepted
//   source  receives a number (8 bytes, little endian) and sends so many bytes in writes of
//           SERVE_BLOCK, again and again
//   sink    receives a number and then so many bytes, and answers with one byte, again and again
//
// Fronts of the hand-off experiment (handoff/handoff.h) also serve
//
//   http    answers HTTP requests with what the back end at WEFT_BENCH_BACKEND says, on two threads
#ifndef WEFT_BENCH_SERVE_H
#define WEFT_BENCH_SERVE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SERVE_BLOCK 65536
#define SERVE_BACKLOG 16384    // as much as the kernel allows
#define SERVE_ECHO_BUFFER 4096 // where a server has a buffer for each connection

enum serve_mode { SERVE_ECHO, SERVE_CLOSE, SERVE_SOURCE, SERVE_SINK, SERVE_MODES };

/// What the mode is called. -1: nothing.
int serve_mode_parse(const char *text);

/// A non-blocking socket that listens at "tcp://A.B.C.D:PORT" or "unix:///PATH". What it accepts has
/// no delay, too. A negative errno if it cannot.
int serve_listen(const char *address);

/// Says "ready".
void serve_ready(void);

/// Says "skip: reason". Returns an exit code.
int serve_skip(int error);

#ifdef __cplusplus
}
#endif

#endif
