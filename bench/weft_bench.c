// weft_bench.c - one runtime for one round.
#include "weft_bench.h"

int weft_bench_run(weft_fn fn, struct weft_bench *bench, int carriers, enum weft_io io,
                   weft_time idle_spin_ns)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carriers;
    options.io = io;
    options.idle_spin_ns = idle_spin_ns;
    return weft_run(fn, bench, &options);
}
