// join.h - the end of a task, and waiting for it.
#ifndef WEFT_TASK_JOIN_H
#define WEFT_TASK_JOIN_H

#include "task/task.h"

/// Settles a task that has ended on `carrier`: tells its scope and its joiners. Its own reference is
/// the caller's to give back, when nobody runs on its stack any more.
void weft__task_end(struct weft__task *task, struct weft__carrier *carrier);

/// Waits until `task` has ended; then `*result` is valid. `self` is the waiting task, or NULL for a
/// foreign OS thread. 0 or -ETIMEDOUT. The caller has a reference on `task`.
int weft__task_join(struct weft__task *task, struct weft__task *self, int *result,
                    weft_time deadline);

/// Has `wait->ask(wait)` called, once, when the task ends, from whatever thread ends it. False: it has
/// ended already, and nothing is called. The wait has mode CALL. The caller has a reference on `task`.
bool weft__task_watch(struct weft__task *task, struct weft__wait *wait);

/// Calls that off: true. False: too late, the call is on its way or was made.
bool weft__task_unwatch(struct weft__task *task, struct weft__wait *wait);

/// Whether the task has ended: its result is valid.
bool weft__task_ended(const struct weft__task *task);

#endif
