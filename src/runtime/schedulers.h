// schedulers.h - the scheduler that a runtime was asked to use for all its tasks.
#ifndef WEFT_RUNTIME_SCHEDULERS_H
#define WEFT_RUNTIME_SCHEDULERS_H

#include "runtime/runtime.h"

/// Whether WEFT_SCHED=name means one that weft brings along.
bool weft__scheduler_is_builtin(const char *name);

/// Takes the scheduler of the options, or makes the one that WEFT_SCHED names unless the program has
/// chosen a policy, before the carriers start. 0 or a negative errno; the log says why.
int weft__scheduler_choose(struct weft__runtime *runtime, bool policy_given);

/// Lets go of it, when no task is left.
void weft__scheduler_let_go(struct weft__runtime *runtime);

/// Their lock is taken across a fork.
void weft__schedulers_before_fork(void);
void weft__schedulers_after_fork(void);

#endif
