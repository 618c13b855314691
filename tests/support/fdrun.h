// fdrun.h - runs a body that uses descriptors and must not leave any behind.
#ifndef WEFT_TEST_FDRUN_H
#define WEFT_TEST_FDRUN_H

#include "support/gather.h"
#include "support/test.h"

#include <weft.h>

static inline struct weft_options with_carriers(int carriers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carriers;
    return options;
}

static inline void run_on(weft_fn fn, void *arg, int carriers)
{
    struct weft_options options = with_carriers(carriers);
    CHECK_EQ(weft_run(fn, arg, &options), 0);
}

static inline void run(weft_fn fn)
{
    int before = count_descriptors();
    run_on(fn, NULL, 2);
    CHECK_EQ(count_descriptors(), before);
}

#endif
