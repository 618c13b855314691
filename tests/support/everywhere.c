// everywhere.c - runs a test's body as the first task of a runtime, real or simulated.
#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

static int call_body(void *arg)
{
    void (**body)(void) = arg;
    (*body)();
    return 0;
}

void test_run_as_task(void (*body)(void))
{
    if (test_driver() == TEST_DRIVER_SIM) {
        struct weft_sim_options options = { .seed = test_seed(), .carriers = TEST_CARRIERS };
        struct weft_sim_result result;
        CHECK_OK(weft_sim_run(&result, call_body, &body, &options));
        printf("trace %016" PRIx64 ", %" PRIu64 " steps\n", result.trace_hash, result.steps);
        return;
    }
    char carriers[16];
    snprintf(carriers, sizeof carriers, "%d", TEST_CARRIERS);
    setenv("WEFT_CARRIERS", carriers, 0);
    CHECK_OK(weft_run(call_body, &body, NULL));
}
