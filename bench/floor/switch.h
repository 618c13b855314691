// switch.h - the hand-written context switch that weft's is measured against.
#ifndef WEFT_BENCH_FLOOR_SWITCH_H
#define WEFT_BENCH_FLOOR_SWITCH_H

#include "../contender.h"

/// Pushes the callee-saved registers, stores the stack pointer in `*save_sp` and continues the
/// context whose stack pointer is `load_sp`. The second one keeps the floating-point control
/// words per context as well.
void floor_switch_plain(void **save_sp, void *load_sp);
void floor_switch_fpu(void **save_sp, void *load_sp);

int floor_switch_plain_run(struct contender_result *out, uint64_t count);
int floor_switch_fpu_run(struct contender_result *out, uint64_t count);

#endif
