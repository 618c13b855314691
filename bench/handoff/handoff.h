// handoff.h - the hand-off experiment: what is passed from thread to thread for one request, and what
// that costs.
//
// An HTTP front answers each request with what a back end tells it, which takes the back end a fixed
// time. The front's code blocks: it reads a request, asks, waits, replies. Who runs it differs:
//
//     unified    carrier: read, ask, wait, reply              nothing leaves its carrier
//     split      I/O carrier: read            reply           a hand-off there and one back
//                          \                 /
//                worker:     ask, wait ------
//
// Front, back end and load generator are processes of their own; see README.md beside this file.
#ifndef WEFT_BENCH_HANDOFF_HANDOFF_H
#define WEFT_BENCH_HANDOFF_HANDOFF_H

/// What a front is asked to serve, by the protocol of ../serve.h. The back end's address is in the
/// environment.
#define HANDOFF_MODE "http"
#define HANDOFF_BACKEND "WEFT_BENCH_BACKEND"

/// The back end, which is started like a server, and how long it takes to answer.
#define HANDOFF_BACKEND_NAME "backend"
#define HANDOFF_THINK_NS 1000000u

#define HANDOFF_CONNECTIONS 50

/// What the generator asks for, and what it gets: see handoff_request() and http_reply().
#define HANDOFF_TARGET "/items/4711?view=short"

/// Plays the client of row `bench`, "handoff/RATE", against the front started by `argv`, by the
/// protocol of ../contender.h. Returns the exit code.
int handoff_main(const char *bench, const char *count, const char *const *argv);

/// Serves as the front called `name`, or as the back end. Returns a negative errno when it cannot,
/// -ENOENT if there is none of that name.
int handoff_serve(const char *name, const char *address);

/// The two kinds of server.
int handoff_front(const char *name, const char *address);
int handoff_backend(const char *address);

#endif
