// explore.c - runs a model's executions until all decisions were tried.
//
// Bounds are tried from 0 up, so that a failure is shown with the fewest preemptions that it needs.
// The failing execution is then repeated with the trace on; that it fails in the same way again
// is also the proof that the printed vector replays.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine.h"

bool mc__never_prune;

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void retell(const struct mc_model *model, int bound, struct mc__result *result)
{
    mc__choices_rewind();
    mc__tracing = true;
    enum mc__outcome outcome = mc__run_execution(model, bound);
    mc__tracing = false;
    if (outcome != MC__FAILED || strcmp(result->failure, mc__failure()) != 0) {
        snprintf(result->failure, sizeof result->failure, "the failure did not repeat");
    }
}

// The exhaustive and the replayed execution are told by the choices kept; a random one is not
// kept, so it is told by turning its choices into a vector first.
static void fail(const struct mc_model *model, int bound, struct mc__result *result)
{
    result->has_failed = true;
    result->bound = bound;
    snprintf(result->failure, sizeof result->failure, "%s", mc__failure());
    mc__choices_begin(MC__REPLAY, 0);
    retell(model, bound, result);
}

static bool explore_bound(const struct mc_model *model, const struct mc__request *request,
                          int bound, struct mc__result *result)
{
    mc__choices_begin(request->mode, request->seed);
    mc__visited_clear();
    mc__never_prune = request->never_prune;
    for (;;) {
        mc__choices_rewind();
        enum mc__outcome outcome = mc__run_execution(model, bound);
        result->executions++;
        result->steps += mc__steps();
        result->pruned += outcome == MC__PRUNED;
        if (outcome == MC__FAILED) {
            fail(model, bound, result);
            return false;
        }
        if (request->mode == MC__REPLAY) {
            return false;
        }
        if (request->mode == MC__EXHAUSTIVE && !mc__choices_advance()) {
            return true;
        }
        if (request->limit != 0 && result->executions >= request->limit) {
            return false;
        }
    }
}

void mc__explore(const struct mc_model *model, const struct mc__request *request,
                 struct mc__result *result)
{
    *result = (struct mc__result){ 0 };
    double start = now_seconds();
    if (request->mode == MC__EXHAUSTIVE) {
        result->is_complete = true;
        for (int bound = 0; bound <= request->bound && result->is_complete; bound++) {
            result->bound = bound;
            result->is_complete = explore_bound(model, request, bound, result);
        }
    } else {
        explore_bound(model, request, request->bound, result);
    }
    result->seconds = now_seconds() - start;
}
