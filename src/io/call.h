// call.h - a virtual thread makes one operation and waits for its end.
#ifndef WEFT_IO_CALL_H
#define WEFT_IO_CALL_H

#include "io/descriptors.h"
#include "sched/carrier.h"
#include "task/wait.h"

/// On the caller's stack: the op, and the wait that its end completes.
struct weft__call {
    struct weft__op op; // the caller fills in what to do
    struct weft__wait wait;
    struct weft__carrier *carrier;
    struct weft__use uses[2]; // op.fd, and op.from_fd of a SPLICE
    struct weft__hold *hold;  // the call of several ops that it is one of, or NULL
    bool moves;               // it was asked to end because its carrier leaves
    bool closed;              // one of them was closed by weft_close() meanwhile, or of the hold's
};

/// Submits call->op on the carrier of the running virtual thread and parks until it has ended, which
/// is also when its buffers are the caller's again. `what` is for dumps, a constant.
///
/// Returns the op's result, never -EINTR, or
///         -ETIMEDOUT  `deadline` passed and nothing had been transferred
///         -ECANCELED  the task is cancelled; nothing was transferred
///         -EBADF      the descriptor was closed by weft_close() meanwhile, or another that the task
///                     holds (io/hold.h)
///         -EPERM      not called from a virtual thread
int64_t weft__call(struct weft__call *call, const char *what, weft_time deadline);

/// A write to a socket that is over at once, without an op. As weft__call(), or -EAGAIN: that has to do
/// it.
int64_t weft__write_now(int fd, const void *data, size_t size);

#endif
