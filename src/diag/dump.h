// dump.h - a task in words.
#ifndef WEFT_DIAG_DUMP_H
#define WEFT_DIAG_DUMP_H

#include "task/task.h"

/// Copies the task at `block`, which may end meanwhile, and describes it as a dump does. False: it has
/// ended.
bool weft__describe_copy(struct weft__task *block, struct weft__task *copy, char *text,
                         size_t size_bytes, weft_time now);

#endif
