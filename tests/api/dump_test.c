// The task dump: what a line says, and that it may be taken while everything moves.
#include "support/waiting.h"

#include "support/gather.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <weft.h>

#define SECOND_MS 1000

/// The line of the task with this name.
static const char *line_of(const char *name)
{
    static char line[1024];
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *text = dump_text();
    const char *found = strstr(text, quoted);
    if (found == NULL) {
        FAIL("no task %s in:\n%s", quoted, text);
    }
    while (found > text && found[-1] != '\n') {
        found--;
    }
    const char *end = strchr(found, '\n');
    CHECK(end != NULL && (size_t)(end - found) < sizeof line);
    memcpy(line, found, (size_t)(end - found));
    line[end - found] = '\0';
    return line;
}

static void expect(const char *line, const char *part)
{
    if (strstr(line, part) == NULL) {
        FAIL("\"%s\" is not in: %s", part, line);
    }
}

static weft_task *spawn_named(const char *name, weft_fn fn, void *arg)
{
    struct weft_attr attr = stay_here();
    attr.name = name;
    weft_task *task;
    CHECK_OK(weft_spawn(&task, fn, arg, &attr));
    return task;
}

static int sleeper(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_FOREVER);
}

static int parker(void *arg)
{
    (void)arg;
    return weft_park(WEFT_FOREVER);
}

static int joiner(void *arg)
{
    return weft_join(NULL, arg, WEFT_FOREVER);
}

static int scoped(void *arg)
{
    (void)arg;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, sleeper, NULL));
    return weft_scope_join(&scope);
}

static int deep(void *arg)
{
    volatile char hole[100000];
    for (size_t i = 0; i < sizeof hole; i += 1000) {
        hole[i] = 0;
    }
    (void)arg;
    return weft_sleep(WEFT_FOREVER) + hole[5000];
}

static int quick(void *arg)
{
    (void)arg;
    return 0;
}

static enum weft_poll poll_never(struct weft_future *future, weft_waker *waker)
{
    (void)waker;
    if (weft_cancelled() != 0) {
        future->result = -ECANCELED;
        return WEFT_READY;
    }
    return WEFT_PENDING;
}

/// Milliseconds after "for " in a line.
static long waited_ms(const char *line)
{
    const char *at = strstr(line, " for ");
    CHECK(at != NULL);
    return strtol(at + 5, NULL, 10);
}

static void end(weft_task *task)
{
    weft_task_cancel(task);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
}

TEST_EVERYWHERE(a_line_says_everything_about_a_task)
{
    weft_task *asleep = spawn_named("asleep", sleeper, NULL);
    weft_task *parked = spawn_named("parked", parker, NULL);
    weft_task *joining = spawn_named("joining", joiner, asleep);
    weft_task *scope = spawn_named("scope", scoped, NULL);
    expect(line_of("asleep"), "ready");
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_yield());
    }
    char part[64];
    const char *line = line_of("asleep");
    snprintf(part, sizeof part, "task %llu ", (unsigned long long)weft_task_id(asleep));
    expect(line, part);
    expect(line, " thread, waiting, sleep for ");
    CHECK_LT(waited_ms(line), 60 * SECOND_MS);
    snprintf(part, sizeof part, "carrier %d,", weft_carrier_id());
    expect(line, part);
    expect(line, "spawned at dump_test.c:");
    expect(line, ", stack ");
    expect(line_of("parked"), "waiting, park for ");
    CHECK_LT(waited_ms(line_of("parked")), 60 * SECOND_MS);
    expect(line_of("joining"), "waiting, join for ");
    expect(line_of("scope"), "waiting, scope join for ");
    expect(line_of("main"), "running");
    weft_task_cancel(scope);
    expect(line_of("scope"), "cancelled");
    end(parked);
    end(scope);
    weft_task_cancel(asleep);
    CHECK_OK(weft_join(NULL, joining, WEFT_FOREVER));
}

static int worker(void *arg)
{
    (void)arg;
    CHECK_OK(weft_work_begin());
    return weft_sleep(WEFT_FOREVER);
}

TEST_EVERYWHERE(a_line_says_who_is_at_work)
{
    weft_task *task = spawn_named("worker", worker, NULL);
    while (strstr(line_of("worker"), "sleep") == NULL) {
        CHECK_OK(weft_yield());
    }
    expect(line_of("worker"), "thread, waiting, at work, sleep for ");
    end(task);
}

TEST_EVERYWHERE(the_spawn_site_is_the_callers)
{
    weft_task *task;
    int line = __LINE__ + 1;
    CHECK_OK(weft_spawn(&task, sleeper, NULL, NULL));
    char part[64];
    snprintf(part, sizeof part, "spawned at dump_test.c:%d,", line);
    expect(dump_text(), part);
    end(task);
}

TEST_EVERYWHERE(a_future_has_no_stack)
{
    struct weft_future future;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = "stackless";
    weft_task *task;
    weft_future_init(&future, poll_never, NULL);
    CHECK_OK(weft_spawn_future(&task, &future, &attr));
    CHECK_OK(weft_yield());
    const char *line = line_of("stackless");
    expect(line, " future, ");
    expect(line, "spawned at dump_test.c:");
    CHECK(strstr(line, "stack ") == NULL);
    end(task);
}

TEST_EVERYWHERE(the_stack_that_was_used_is_shown)
{
    weft_task *task = spawn_named("deep", deep, NULL);
    CHECK_OK(weft_yield());
    const char *at = strstr(line_of("deep"), ", stack ");
    CHECK(at != NULL);
    long used = strtol(at + 8, NULL, 10);
    CHECK_GE(used, 100000);
    CHECK_LT(used, 200000);
    CHECK_EQ(weft_task_stack_used(task), used);
    end(task);
}

TEST_EVERYWHERE(an_ended_task_is_shown_while_somebody_has_a_handle)
{
    weft_task *task = spawn_named("over", quick, NULL);
    CHECK_OK(weft_yield());
    expect(line_of("over"), "done");
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK(strstr(dump_text(), "\"over\"") == NULL);
}

TEST_EVERYWHERE(names_are_cut_not_lost)
{
    weft_task *task = spawn_named("a name that is a good deal longer than thirty-one bytes",
                                  sleeper, NULL);
    expect(dump_text(), "\"a name that is a good deal long\"");
    end(task);
}

static int wait_here(void *arg)
{
    sem_post(arg);
    return weft_park(WEFT_FOREVER);
}

TEST_DRIVERS(a_wait_is_counted_from_its_start)
{
    // No timer was ever armed here, so nothing but the wait itself has read the clock.
    weft_runtime *runtime;
    weft_task *task;
    sem_t running;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = "fresh";
    sem_init(&running, 0, 0);
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_runtime_spawn(&task, runtime, wait_here, &running, &attr));
    sem_wait(&running);
    const char *line;
    do {
        line = line_of("fresh");
    } while (strstr(line, "park for") == NULL);
    CHECK_LT(waited_ms(line), 60 * SECOND_MS);
    weft_task_cancel(task);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST(errors_of_write_are_returned)
{
    weft_runtime *runtime;
    weft_task *task;
    CHECK_EQ(weft_dump_tasks(-1), 0); // nothing to write
    CHECK_OK(weft_runtime_create(&runtime, NULL));
    CHECK_OK(weft_runtime_spawn(&task, runtime, sleeper, NULL, NULL));
    CHECK_EQ(weft_dump_tasks(-1), -EBADF);
    int full = open("/dev/full", O_WRONLY);
    CHECK_EQ(weft_dump_tasks(full), -ENOSPC);
    weft_task_cancel(task);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST(every_runtime_is_in_the_dump)
{
    weft_runtime *runtimes[4];
    weft_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        char name[32];
        struct weft_attr attr = WEFT_ATTR_INIT;
        snprintf(name, sizeof name, "of runtime %d", i);
        attr.name = name;
        CHECK_OK(weft_runtime_create(&runtimes[i], NULL));
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtimes[i], sleeper, NULL, &attr));
    }
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "of runtime %d", i);
        expect(line_of(name), "thread");
    }
    for (int i = 0; i < 4; i++) {
        end(tasks[i]);
        CHECK_OK(weft_runtime_destroy(runtimes[i]));
    }
    CHECK_STR(dump_text(), "");
}

// While everything moves.

static _Atomic bool stop;

static int brief(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_US * 20);
}

static int storm(void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    attr.name = arg;
    while (!atomic_load(&stop)) {
        struct weft_scope scope;
        struct weft_future future;
        weft_task *task;
        CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
        weft_scope_set_attr(&scope, &attr);
        for (int i = 0; i < 20; i++) {
            (void)weft_scope_spawn(&scope, i % 2 == 0 ? brief : quick, NULL);
        }
        weft_future_init(&future, poll_never, NULL);
        if (weft_spawn_future(&task, &future, &attr) == 0) {
            weft_task_cancel(task);
            CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        }
        (void)weft_scope_join(&scope);
    }
    return 0;
}

TEST_DRIVERS(dumps_may_be_taken_in_a_storm)
{
    weft_runtime *runtime;
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 3;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    static char name[] = "in the storm";
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_runtime_spawn(NULL, runtime, storm, name, NULL));
    }
    int full = 0;
    uint64_t most = test_scaled(400);
    for (uint64_t i = 0; i < most || full == 0; i++) { // a busy machine may take its time to begin
        const char *lines = dump_text();
        full += strstr(lines, "\"in the storm\"") != NULL;
        for (const char *at = lines; *at != '\0'; at = strchr(at, '\n') + 1) {
            CHECK_EQ(strncmp(at, "task ", 5), 0);
            CHECK(strchr(at, '\n') != NULL);
        }
    }
    atomic_store(&stop, true);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static void *come_and_go(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        CHECK_EQ(weft_run(brief, NULL, NULL), 0);
    }
    return NULL;
}

TEST_DRIVERS(dumps_may_be_taken_while_runtimes_come_and_go)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, come_and_go, NULL), 0);
    for (uint64_t i = test_scaled(1000); i > 0; i--) {
        (void)dump_text();
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}
