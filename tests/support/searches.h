// searches.h - every start of a search is matched by exactly one stop (sched/search.c, S4). For tests
// that may include private headers.
#ifndef WEFT_TEST_SEARCHES_H
#define WEFT_TEST_SEARCHES_H

#include "support/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <weft.h>

#include "sched/crew.h"
#include "sched/search.h"

struct searches {
    uint64_t started;
    uint64_t stopped;
    uint64_t searching; // now
};

static inline struct searches searches_of(weft_runtime *runtime)
{
    struct weft__crew *crew = weft__crew_of(runtime);
    struct searches seen = { .stopped = atomic_load(&crew->foreign_counts.searches_stopped) };
    for (int i = 0; i < weft__crew_started(crew); i++) {
        seen.stopped += atomic_load(&crew->carriers[i].counts.searches_stopped);
    }
    seen.started = atomic_load(&crew->foreign_counts.searches_started);
    for (int i = 0; i < weft__crew_started(crew); i++) {
        seen.started += atomic_load(&crew->carriers[i].counts.searches_started);
    }
    for (int i = 0; crew->help != NULL && i < crew->cluster_count; i++) {
        seen.searching += atomic_load(&crew->help[i].searchers);
    }
    return seen;
}

/// For a crew that has nothing to do. Who was sent last may still be on its way, and idle carriers look
/// around now and then: so this waits for a moment when all balance, which must come soon.
static inline void check_searches(weft_runtime *runtime)
{
    weft_time limit = weft_after(20 * WEFT_S);
    struct searches seen;
    while (seen = searches_of(runtime), seen.started != seen.stopped || seen.searching != 0) {
        if (weft_now() > limit) {
            FAIL("%llu searches were started, %llu stopped, %llu go on",
                 (unsigned long long)seen.started, (unsigned long long)seen.stopped,
                 (unsigned long long)seen.searching);
        }
        sched_yield();
    }
}

#endif
