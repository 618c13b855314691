// overflow.h - a stack overflow dies with a message that names the virtual thread.
#ifndef WEFT_TASK_OVERFLOW_H
#define WEFT_TASK_OVERFLOW_H

#include "base/base.h"

/// Installs the process's handler for SIGSEGV and SIGBUS; again: does nothing. Faults that are not
/// ours go on to the handler that was there before.
int weft__overflow_install(void);

/// Names a thread by its control block, for the message: `"name" (id 7, spawned at file:line)`.
/// Runs in the signal handler, so it must be async-signal-safe (base/text.h helps). NULL: the
/// message names nobody.
void weft__overflow_set_describe(void (*describe)(void *block, char *out, size_t size_bytes));

/// Gives the calling OS thread a signal stack, unless it has one. Every thread that runs virtual
/// threads needs one: the handler cannot run on the stack that has just ended.
int weft__overflow_thread_init(void);

/// Takes back what weft__overflow_thread_init() gave; on the same thread, with nothing to take back
/// too.
void weft__overflow_thread_fini(void);

#endif
