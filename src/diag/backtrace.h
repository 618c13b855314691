// backtrace.h - where another thread is.
#ifndef WEFT_DIAG_BACKTRACE_H
#define WEFT_DIAG_BACKTRACE_H

#include <pthread.h>

#include "base/base.h"

#define WEFT__FRAMES_MAX 24

/// What a thread is doing.
struct weft__trace {
    bool blocked;     // in a system call
    long system_call; // its number
    int count;
    void *frames[WEFT__FRAMES_MAX]; // innermost first
};

/// Looks at the thread `tid`, which is on the stack from `low` to `high`. One that waits in a system
/// call is not disturbed: its frames are what looks like return addresses on its stack. One that runs
/// is interrupted by SIGURG and unwinds itself; if the program has a handler of its own for that, or
/// blocks it, or `interrupt` is false, there are no frames.
void weft__trace_take(struct weft__trace *trace, pthread_t thread, int tid, const void *low,
                      const void *high, bool interrupt);

/// In the child: nobody asks there.
void weft__backtrace_after_fork(void);

/// "compute+0x1a, server+0x11fa": the symbol, if it is exported, and the place in its file.
void weft__trace_describe(void *frame, char *text, size_t size_bytes);

#endif
