// suite_rows.h - how the rows of `chan`, `select` and `sync` are written.
//
// weft must be ahead of the peers in each. A row on one CPU counts CPU time. A row on two counts the
// time that passes, and runs weft twice: `weft` leaves its tasks where they were spawned, on one of
// two carriers, which is how it keeps tasks together that talk to each other; `weft-spread` has the
// senders on one carrier and the receivers on the other, whatever that costs.
#ifndef WEFT_BENCH_SUITE_ROWS_H
#define WEFT_BENCH_SUITE_ROWS_H

#include <stddef.h>

#include "suite.h"

#define MILLION 1000000
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL, 0, NULL                                                                  \
    }
#define ONE(bench)                                                                                 \
    {                                                                                              \
        { "weft", NULL, bench, 0, NULL }, { "go", "go", bench, 1, NULL },                          \
            { "tokio", "tokio", bench, 1, NULL },                                                  \
            { "tokio-1-worker", "tokio", bench "/1-worker", 1, NULL }, END,                        \
    }
#define TWO(bench)                                                                                 \
    {                                                                                              \
        { "weft", NULL, bench "/2", 0, NULL }, { "weft-spread", NULL, bench "/spread", 0, NULL },  \
            { "go", "go", bench "/2", 1, NULL },                                                   \
            { "tokio-2-workers", "tokio", bench "/2-workers", 1, NULL }, END,                      \
    }
#define ROW(suite, name, what, contenders, count, cpus)                                            \
    {                                                                                              \
        suite, name, what, contenders, count, (count) / 10, 0, cpus, false, NULL, 0, 0             \
    }

#endif
