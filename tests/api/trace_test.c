// The trace function: what it is told of tasks that are spawned, run, park and are stolen.
#include "support/waiting.h"

#include "support/onpool.h"

#include <stdatomic.h>
#include <string.h>

#define EVENTS 20000

static struct weft_trace_event events[EVENTS];
static atomic_int count;

static void note(void *ctx, const struct weft_trace_event *event)
{
    int at = atomic_fetch_add((atomic_int *)ctx, 1);
    if (at < EVENTS) {
        events[at] = *event;
    }
}

/// The events of one task, as letters in their order; `where` gets the carrier of each.
static void history(uint64_t task, char *letters, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < atomic_load(&count) && i < EVENTS && used + 1 < size; i++) {
        if (events[i].task == task) {
            CHECK_EQ(events[i].size, sizeof events[i]);
            letters[used++] = " srpS"[events[i].kind];
        }
    }
    letters[used] = '\0';
}

static int sleeps_once(void *arg)
{
    *(uint64_t *)arg = weft_task_id(weft_self());
    return weft_sleep(1 * WEFT_MS);
}

static int is_traced(void *arg)
{
    (void)arg;
    uint64_t id = 0;
    char letters[32];
    struct weft_attr attr = stay_here(); // so that nobody steals it
    weft_task *task;
    weft_trace_set(note, &count);
    CHECK_OK(weft_spawn(&task, sleeps_once, &id, &attr));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    weft_trace_set(NULL, NULL);
    int before = atomic_load(&count);
    CHECK_GT(before, 0);
    history(id, letters, sizeof letters);
    CHECK_STR(letters, "srpsr"); // spawned, runs, parks, is woken, runs
    CHECK_OK(weft_spawn(&task, sleeps_once, &id, NULL));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(atomic_load(&count), before);
    return 0;
}

TEST_EVERYWHERE(the_life_of_a_task_is_traced)
{
    CHECK_OK(is_traced(NULL));
}

static int is_traced_abroad(void *arg)
{
    (void)arg;
    uint64_t id = 0;
    weft_task *task;
    struct weft_attr attr = on_pool();
    weft_trace_set(note, &count);
    CHECK_OK(weft_spawn(&task, sleeps_once, &id, &attr));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    weft_trace_set(NULL, NULL);
    bool outside = false;
    for (int i = 0; i < atomic_load(&count) && i < EVENTS; i++) {
        if (events[i].task == id && events[i].kind == WEFT_TRACE_RUN) {
            outside = outside || events[i].thief == -1;
        }
    }
    CHECK(outside);
    return 0;
}

TEST_DRIVERS(runs_on_other_threads_are_traced)
{
    run_on_pool(is_traced_abroad, THREADS);
}

static atomic_bool stolen;

static void look_for_steals(void *ctx, const struct weft_trace_event *event)
{
    (void)ctx;
    if (event->kind == WEFT_TRACE_STEAL) {
        CHECK_NE(event->source, event->thief);
        CHECK_GE(event->source, 0);
        CHECK_LT(event->thief, 2);
        CHECK_GT(event->depth, 0);
        CHECK(!event->from_poller);
        atomic_store(&stolen, true);
    }
}

static int works_until_stolen(void *arg)
{
    (void)arg;
    while (!atomic_load(&stolen)) {
        int rc = weft_yield();
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int offers_tasks(void *arg)
{
    (void)arg;
    enum { TASKS = 4 }; // the smallest ring has room for them: what it has not is not stolen
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.migratable = true;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    weft_trace_set(look_for_steals, NULL);
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_scope_spawn(&scope, works_until_stolen, NULL));
    }
    CHECK_OK(weft_scope_join(&scope));
    weft_trace_set(NULL, NULL);
    return 0;
}

TEST_DRIVERS(steals_are_traced)
{
    setenv("WEFT_STEAL", "on", 1);
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    CHECK_OK(weft_run(offers_tasks, NULL, &options));
}
