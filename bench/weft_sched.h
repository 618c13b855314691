// weft_sched.h - weft's side of the rows of `sched`.
#ifndef WEFT_BENCH_WEFT_SCHED_H
#define WEFT_BENCH_WEFT_SCHED_H

#include "contender.h"

extern const struct contender_bench weft_sched_benches[];

#endif
