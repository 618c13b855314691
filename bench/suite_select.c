// suite_select.c - the rows of `select`: see suite_chan.c, by whose rules they are measured.
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

static const struct contender ready_2[] = ONE("chan/select-ready-2");
static const struct contender ready_8[] = ONE("chan/select-ready-8");
static const struct contender of_2[] = ONE("chan/select-2");
static const struct contender of_8[] = ONE("chan/select-8");
static const struct contender of_2_two[] = TWO("chan/select-2");
static const struct contender of_8_two[] = TWO("chan/select-8");

#define ROW(name, what, contenders, count, cpus)                                                   \
    {                                                                                              \
        "select", name, what, contenders, count, (count) / 10, 0, cpus, false, NULL, 0, 0          \
    }

const struct row suite_select_rows[] = {
    ROW("select-ready-2", "receive from one of 2 channels that have items", ready_2, MILLION, 1),
    ROW("select-ready-8", "receive from one of 8 channels that have items", ready_8, MILLION, 1),
    ROW("select-2", "wait for an item on 2 channels, and answer", of_2, MILLION / 4, 1),
    ROW("select-8", "wait for an item on 8 channels, and answer", of_8, MILLION / 4, 1),
    ROW("select-2-2", "select-2, two CPUs", of_2_two, MILLION / 50, 2),
    ROW("select-8-2", "select-8, two CPUs", of_8_two, MILLION / 50, 2),
    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, 0, 0 },
};
