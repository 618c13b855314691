// hold.h - a call of several ops keeps its descriptors from beginning to end.
//
// Between its ops nothing of such a call would be listed on its descriptors, and weft_close() would let
// their numbers go while the call goes on with them. So it lists itself, on all of them.
//
//   H1  A held descriptor is not closed by weft_close() before the hold has ended: its number means the
//       same file throughout.
//   H2  When one is being closed, the op in flight is asked to end, on whichever descriptor it is, and
//       the task starts no other op inside the hold: weft__call() returns -EBADF. So holds end soon.
//   H3  Holds nest, as calls do. Those inside a closed one are closed.
#ifndef WEFT_IO_HOLD_H
#define WEFT_IO_HOLD_H

#include "io/descriptors.h"

struct weft__call;

/// On the caller's stack. The task's, which is bound to its carrier meanwhile; and the carrier's.
struct weft__hold {
    struct weft__hold *outer;
    struct weft__task *task;
    struct weft__call *call; // in flight; of the innermost only
    struct weft__use uses[2];
    int count;
    bool closed; // one of the descriptors is being closed
};

/// Holds one or two descriptors for the running virtual thread, and ends with weft__hold_end(). 0,
/// -EBADF while one is being closed, -EPERM outside a virtual thread.
int weft__hold_begin(struct weft__hold *hold, const int *fds, int count);
void weft__hold_end(struct weft__hold *hold);

/// The task's innermost hold. Nearly always there is none, which `in_flight` tells from a line that
/// is touched anyway.
static inline struct weft__hold *weft__hold_of(const struct weft__task *task)
{
    return weft__likely(weft__task_unbound(task)) ? NULL : task->hold;
}

/// H2.
static inline bool weft__hold_is_closed(const struct weft__task *task)
{
    const struct weft__hold *hold = weft__hold_of(task);
    return weft__unlikely(hold != NULL) && hold->closed;
}

#endif
