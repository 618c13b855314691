// Threads that wait behind one that holds its carrier, and that no remedy helps, are counted and named.
#include "support/test.h"

#include "support/gather.h"

#include <stdatomic.h>
#include <stdlib.h>

static struct gathered logged;
static int ends[2]; // a pipe: the log hook writes when something was reported

static void hear(void *ctx, enum weft_log_level level, const char *module, const char *message)
{
    gather_log(ctx, level, module, message);
    if (strstr(message, "a task has held") != NULL) {
        CHECK_EQ(write(ends[1], "xx", 2), 2);
    }
}

static _Atomic int tid_of_patient;

static int is_patient(void *arg)
{
    *(bool *)arg = true;
    atomic_store(&tid_of_patient, gettid());
    return 0;
}

static _Atomic bool reported;
static _Atomic int begun;

static int starts(void *arg)
{
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&reported)) {
        CHECK_OK(weft_yield());
    }
    return is_patient(arg);
}

static int oversleeps(void *arg)
{
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&reported)) {
        CHECK_OK(weft_sleep(WEFT_MS));
    }
    return is_patient(arg);
}

static int starts_in_a_scope(void *arg)
{
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(60 * WEFT_S)));
    while (weft_carrier_id() >= weft_carrier_count()) { // its carrier got no CPU, and seemed stuck
        CHECK_OK(weft_scope_join(&scope));
        CHECK_OK(weft_yield());
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(60 * WEFT_S)));
    }
    CHECK_OK(starts(arg));
    return weft_scope_join(&scope);
}

/// Holds its carrier until it was reported, with threads behind it that nobody can help: one started, one
/// whose sleep is over, one that could move but for the timer of its scope, and one not started.
static int holds_until_reported(void *arg)
{
    static const struct {
        weft_fn fn;
        const char *name;
    } patients[] = {
        { starts, "patient starter" },
        { oversleeps, "patient sleeper" },
        { starts_in_a_scope, "patient owner" },
        { is_patient, "patient beginner" },
    };
    weft_task *tasks[4];
    bool ran[4] = { false, false, false, false };
    char data;
    (void)arg;
    for (int i = 0; i < 4; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.name = patients[i].name;
        attr.migratable = patients[i].fn == starts_in_a_scope;
        while (i == 3 && atomic_load(&begun) < i) {
            CHECK_OK(weft_yield());
        }
        CHECK_OK(weft_spawn(&tasks[i], patients[i].fn, &ran[i], &attr));
    }
    CHECK_EQ(read(ends[0], &data, 1), 1);
    CHECK(!ran[0] && !ran[1] && !ran[2] && !ran[3]);
    atomic_store(&reported, true);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
        CHECK_EQ(atomic_load(&tid_of_patient), gettid());
    }
    return 0;
}

static void report_the_patient(enum weft_remedy remedy)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    weft_task *task;
    unsetenv("WEFT_STUCK_REMEDY");
    options.carriers = 1;
    options.policy = WEFT_POLICY_LOCALITY;
    options.remedy = remedy;
    options.stuck_ns = 5 * WEFT_MS;
    options.log = hear;
    options.log_ctx = &logged;
    CHECK_EQ(pipe(ends), 0);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(weft_runtime_spawn(&task, runtime, holds_until_reported, NULL, NULL));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    struct weft_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_stats_get(runtime, WEFT_STATS_ALL, &stats));
    CHECK_OK(weft_runtime_destroy(runtime)); // the report is complete
    CHECK_EQ(stats.held_up, 4);
    CHECK_LOGGED(&logged, " and 4 ready ones wait behind it: ");
    CHECK_LOGGED(&logged, "waits behind it: ");
    CHECK_LOGGED(&logged, "\"patient starter\"");
    CHECK_LOGGED(&logged, "\"patient sleeper\"");
    CHECK_LOGGED(&logged, "\"patient owner\"");
    CHECK_LOGGED(&logged, "\"patient beginner\"");
}

TEST_DRIVERS(pinned_threads_wait_and_are_named)
{
    report_the_patient(WEFT_REMEDY_SPARE);
}

TEST_DRIVERS(so_they_are_without_a_remedy)
{
    report_the_patient(WEFT_REMEDY_OFF);
}
