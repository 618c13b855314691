// waker.h - a waker for one of our own tasks.
#ifndef WEFT_TASK_WAKER_H
#define WEFT_TASK_WAKER_H

#include "task/task.h"

/// A waker that borrows the task: good while the task runs or its owner waits. Cloning it counts.
weft_waker weft__waker_borrowed(struct weft__task *task);

#endif
