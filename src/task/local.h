// local.h - task-local values from the inside; the rest is declared in task.h.
#ifndef WEFT_TASK_LOCAL_H
#define WEFT_TASK_LOCAL_H

#include "task/task.h"

void *weft__local_get(struct weft__task *task, const struct weft_local *key);

/// 0 or -ENOMEM.
int weft__local_set(struct weft__task *task, const struct weft_local *key, void *value);

#endif
