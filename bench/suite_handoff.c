// suite_handoff.c - the rows of `handoff`: an HTTP front that asks a back end, unified and split, at
// rates from nearly idle to busy.
#include <stddef.h>

#include "suite.h"

#define SELF(name, bench)                                                                          \
    {                                                                                              \
        name, NULL, bench, 0, name                                                                 \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL, 0, NULL                                                                  \
    }
#define WEFTS 6
#define CONTENDERS(bench)                                                                          \
    {                                                                                              \
        SELF("weft-unified", bench), SELF("weft-unified-pinned", bench),                           \
            SELF("weft-split", bench), SELF("weft-split-pinned", bench),                           \
            SELF("weft-split-double", bench), SELF("weft-stealing", bench),                        \
            { "go", "go", bench, 0, "serve" }, END,                                                \
    }

static const struct contender slow[] = CONTENDERS("handoff/1000");
static const struct contender middling[] = CONTENDERS("handoff/4000");
static const struct contender fast[] = CONTENDERS("handoff/8000");

// Two seconds a round.
#define ROW(name, text, contenders, rate)                                                          \
    {                                                                                              \
        "handoff", name, text, contenders, 2 * (rate), (rate) / 10, 5, 4, false,                   \
            "server_cpu_us_per_request", 0, WEFTS                                                  \
    }

const struct row suite_handoff_rows[] = {
    ROW("handoff-1000", "HTTP front that asks a back end for 1 ms, 1,000 requests/s", slow, 1000),
    ROW("handoff-4000", "the same, 4,000 requests/s", middling, 4000),
    ROW("handoff-8000", "the same, 8,000 requests/s", fast, 8000),
    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, 0, 0 },
};
