// future.h - futures from the inside.
#ifndef WEFT_TASK_FUTURE_H
#define WEFT_TASK_FUTURE_H

#include "task/task.h"

/// Passes a cancel request on to the future, once.
void weft__future_cancel(struct weft_future *future);

#endif
