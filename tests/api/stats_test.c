// Statistics: each counter counts what it says, the parts add up, and the text is what Prometheus
// reads.
#include "support/waiting.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft.h>

static struct weft_stats stats_of(weft_runtime *runtime, int carrier)
{
    struct weft_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_stats_get(runtime, carrier, &stats));
    CHECK_EQ(stats.size, sizeof stats);
    return stats;
}

static struct weft_stats all(void)
{
    return stats_of(weft_runtime_current(), WEFT_STATS_ALL);
}

static struct weft_stats here(void)
{
    return stats_of(weft_runtime_current(), weft_carrier_id());
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

TEST_EVERYWHERE(tasks_are_counted)
{
    enum { TASKS = 10 };
    struct weft_attr attr = stay_here(); // nobody runs them before we look
    weft_task *tasks[TASKS];
    struct weft_stats before = all();
    CHECK_EQ(before.live, 1); // ourselves
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], nothing, NULL, &attr));
    }
    struct weft_stats spawned = all();
    CHECK_EQ(spawned.spawned - before.spawned, TASKS);
    CHECK_EQ(spawned.live, TASKS + 1);
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_OK(weft_yield()); // runs are counted when the loop has its turn
    CHECK_OK(weft_sleep(1));
    struct weft_stats after = all();
    CHECK_EQ(after.ended - before.ended, TASKS);
    CHECK_EQ(after.live, 1);
    CHECK_GE(after.runs - before.runs, TASKS);
    CHECK_GT(after.steps, before.steps);
}

TEST_EVERYWHERE(the_ready_lane_is_measured)
{
    enum { TASKS = 20 };
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_scope_spawn(&scope, nothing, NULL));
    }
    CHECK_OK(weft_sleep(1)); // the turn ends, and another one begins
    CHECK_OK(weft_scope_join(&scope));
    struct weft_stats stats = here();
    CHECK_GE(stats.ready_most, 1);
    CHECK_GE(stats.ready_sum, stats.ready_most);
    CHECK_GE(stats.ready_average * (double)stats.steps, (double)stats.ready_sum - 0.5);
    CHECK_LE(stats.ready_average, (double)stats.ready_most);
}

static int yields_on(void *arg)
{
    for (int i = *(int *)arg; i > 0; i--) {
        CHECK_OK(weft_yield());
    }
    return 0;
}

struct crowd {
    int awaited; // one carrier: no atomics
};

static int yields_in_company(void *arg)
{
    struct crowd *crowd = arg;
    int yields = 100;
    crowd->awaited--;
    while (crowd->awaited > 0) {
        CHECK_OK(weft_yield());
    }
    return yields_on(&yields);
}

TEST_DRIVERS(a_crowd_is_the_most_that_was_ready)
{
    // With a quantum of next to nothing each turn begins with all of them.
    enum { TASKS = 50 };
    struct weft_options options = WEFT_OPTIONS_INIT;
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_runtime *runtime;
    weft_task *tasks[TASKS];
    struct crowd crowd = { TASKS };
    options.carriers = 1;
    options.quantum_ns = 1;
    attr.place = WEFT_PLACE_CARRIER; // or else they may be on offer, which is counted apart
    CHECK_OK(weft_runtime_create(&runtime, &options));
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, yields_in_company, &crowd, &attr));
    }
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_OK(weft_runtime_shutdown(runtime, WEFT_S)); // a join may return before the end is counted
    struct weft_stats stats = stats_of(runtime, 0);
    CHECK_EQ(stats.ready_most, TASKS);
    CHECK_GE(stats.runs, (uint64_t)TASKS * 100);
    CHECK_EQ(stats.ended, TASKS);
    CHECK_GE(stats.inbox, TASKS); // they came from outside
    CHECK_EQ(stats_of(runtime, WEFT_STATS_OUTSIDE).spawned, TASKS);
    CHECK_OK(weft_runtime_destroy(runtime));
}

TEST_EVERYWHERE(forced_yields_are_counted)
{
    uint64_t before = here().budget_yields;
    for (int i = 0; i < 1000; i++) {
        CHECK_OK(weft_checkpoint());
    }
    CHECK_GE(here().budget_yields - before, 1000 / 128);
    before = here().budget_yields;
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weft_yield());
    }
    CHECK_EQ(here().budget_yields, before); // these were wanted
}

TEST_EVERYWHERE(sleeping_is_counted)
{
    struct weft_stats before = here();
    CHECK_OK(weft_sleep(5 * WEFT_MS));
    struct weft_stats after = here();
    CHECK_GE(after.timers - before.timers, 1);
    CHECK_GE(after.sleeps - before.sleeps, 1);
    CHECK_GE(after.polls, before.polls);
}

TEST_EVERYWHERE(hand_overs_are_counted)
{
    enum { TASKS = 20 };
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = (weft_carrier_id() + 1) % TEST_CARRIERS;
    struct weft_stats before = here();
    struct weft_stats there = stats_of(weft_runtime_current(), attr.carrier);
    for (int i = 0; i < TASKS; i++) {
        weft_task *task;
        CHECK_OK(weft_spawn(&task, nothing, NULL, &attr));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    }
    struct weft_stats after = here();
    CHECK_GE(after.wakes_sent + after.wakes_suppressed,
             before.wakes_sent + before.wakes_suppressed + TASKS);
    CHECK_GE(stats_of(weft_runtime_current(), attr.carrier).inbox - there.inbox, TASKS);
    CHECK_GE(stats_of(weft_runtime_current(), attr.carrier).inbox_most, 1);
}

static int sleeps(void *arg)
{
    (void)arg;
    return weft_sleep(3 * WEFT_MS);
}

TEST_DRIVERS(spinning_is_timed)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    weft_task *task;
    options.carriers = 1;
    options.idle_spin_ns = 20 * WEFT_MS;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(weft_runtime_spawn(&task, runtime, sleeps, NULL, NULL));
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_GE(stats_of(runtime, 0).idle_spin_ns, 2 * WEFT_MS);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int writes_and_reads(void *arg)
{
    int *fds = arg;
    char data;
    CHECK_EQ(weft_write(fds[1], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(fds[0], &data, 1, WEFT_FOREVER), 1);
    CHECK_OK(weft_blocking(nothing, NULL, WEFT_FOREVER));
    struct weft_stats stats = all();
    struct weft_io_stats io = { .size = sizeof io };
    CHECK_OK(weft_io_stats(weft_runtime_current(), -1, &io));
    CHECK_GE(stats.io.submitted, 2);
    CHECK_LE(stats.io.submitted, io.submitted); // the one place they come from
    CHECK_EQ(stats.io.size, sizeof io);
    CHECK_EQ(stats.blocking.submitted, 1);
    CHECK_EQ(stats.blocking.most_threads, 1);
    CHECK_EQ(here().blocking.submitted, 0); // not a carrier's
    return 0;
}

TEST_DRIVERS(drivers_and_pool_are_part_of_it)
{
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    CHECK_OK(weft_run(writes_and_reads, fds, NULL));
}

TEST(bad_questions_are_refused)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    struct weft_stats stats = { .size = sizeof stats };
    CHECK_EQ(weft_stats_get(runtime, 2, &stats), -EINVAL);
    CHECK_EQ(weft_stats_get(runtime, -3, &stats), -EINVAL);
    stats.size = 0;
    CHECK_EQ(weft_stats_get(runtime, 0, &stats), -EINVAL);
    pid_t child = fork();
    if (child == 0) {
        stats.size = sizeof stats;
        bool gone = weft_stats_get(runtime, 0, &stats) == -ESRCH &&
                    weft_stats_prometheus(runtime, NULL, 0) == -ESRCH;
        _exit(gone ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// The text.

/// One sample of the text.
struct sample {
    char name[80];
    char carrier[16]; // "": no label
    double value;
};

enum { MOST_SAMPLES = 4096 };
static struct sample samples[MOST_SAMPLES];
static size_t sample_count;

static const char *parse_name(const char *at, char *name, size_t size)
{
    const char *end = at;
    CHECK(isalpha((unsigned char)*at) || *at == '_' || *at == ':');
    while (isalnum((unsigned char)*end) || *end == '_' || *end == ':') {
        end++;
    }
    CHECK_LT(end - at, (ptrdiff_t)size);
    memcpy(name, at, (size_t)(end - at));
    name[end - at] = '\0';
    return end;
}

/// `name{label="value"} number`, as the format has it; label values here need no escapes.
static void parse_sample(const char *line, struct sample *sample)
{
    const char *at = parse_name(line, sample->name, sizeof sample->name);
    sample->carrier[0] = '\0';
    if (*at == '{') {
        char label[16];
        at = parse_name(at + 1, label, sizeof label);
        CHECK_STR(label, "carrier");
        CHECK(at[0] == '=' && at[1] == '"');
        at += 2;
        size_t length = strcspn(at, "\"\\\n");
        CHECK_LT(length, sizeof sample->carrier);
        memcpy(sample->carrier, at, length);
        sample->carrier[length] = '\0';
        CHECK(at[length] == '"' && at[length + 1] == '}');
        at += length + 2;
    }
    CHECK_EQ(*at, ' ');
    char *end;
    CHECK(isdigit((unsigned char)at[1]));
    sample->value = strtod(at + 1, &end);
    CHECK_EQ(*end, '\0');
}

/// Reads `# WORD name rest` and returns the rest.
static const char *parse_comment(const char *line, const char *word, char *name, size_t size)
{
    CHECK(strncmp(line, "# ", 2) == 0);
    CHECK(strncmp(line + 2, word, strlen(word)) == 0);
    const char *at = line + 2 + strlen(word);
    CHECK_EQ(*at, ' ');
    at = parse_name(at + 1, name, size);
    CHECK_EQ(*at, ' ');
    return at + 1;
}

static void check_new(const char *family)
{
    for (size_t i = 0; i < sample_count; i++) {
        CHECK(strcmp(samples[i].name, family) != 0);
    }
}

/// Families one after the other: HELP, TYPE, and at least one sample each, no series twice.
static void parse(char *text)
{
    char family[80] = "";
    char name[80];
    char *rest = NULL;
    size_t length = strlen(text);
    sample_count = 0;
    CHECK_GT(length, 0);
    CHECK_EQ(text[length - 1], '\n');
    CHECK(strstr(text, "\n\n") == NULL);
    char *line = strtok_r(text, "\n", &rest);
    while (line != NULL) {
        const char *help = parse_comment(line, "HELP", family, sizeof family);
        CHECK_GT(strlen(help), 5);
        check_new(family);
        line = strtok_r(NULL, "\n", &rest);
        CHECK(line != NULL);
        const char *type = parse_comment(line, "TYPE", name, sizeof name);
        CHECK_STR(name, family);
        bool counter = strcmp(type, "counter") == 0;
        CHECK(counter || strcmp(type, "gauge") == 0);
        bool total = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
        CHECK_EQ(counter, total);
        size_t first = sample_count;
        while ((line = strtok_r(NULL, "\n", &rest)) != NULL && line[0] != '#') {
            struct sample *sample = &samples[sample_count];
            parse_sample(line, sample);
            CHECK_STR(sample->name, family);
            for (size_t i = first; i < sample_count; i++) {
                CHECK(strcmp(samples[i].carrier, sample->carrier) != 0);
            }
            CHECK_LT(++sample_count, MOST_SAMPLES);
        }
        CHECK_GT(sample_count, first);
    }
}

static double sum_of(const char *name)
{
    double sum = 0;
    bool found = false;
    for (size_t i = 0; i < sample_count; i++) {
        if (strcmp(samples[i].name, name) == 0) {
            sum += samples[i].value;
            found = true;
        }
    }
    if (!found) {
        FAIL("there is no %s", name);
    }
    return sum;
}

static char *text_of(weft_runtime *runtime)
{
    int64_t length = weft_stats_prometheus(runtime, NULL, 0);
    CHECK_OK(length);
    size_t room = (size_t)length + 4096; // numbers may grow meanwhile
    char *text = malloc(room);
    CHECK_LT(weft_stats_prometheus(runtime, text, room), room);
    return text;
}

TEST_EVERYWHERE(the_text_is_what_prometheus_reads)
{
    weft_task *task;
    for (int i = 0; i < 7; i++) {
        CHECK_OK(weft_spawn(&task, nothing, NULL, NULL));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    }
    struct weft_stats before = all();
    char *text = text_of(weft_runtime_current());
    struct weft_stats after = all();
    parse(text);
    free(text);
    CHECK_EQ(sum_of("weft_tasks_spawned_total"), before.spawned);
    CHECK_EQ(sum_of("weft_tasks_ended_total"), before.ended);
    CHECK_EQ(sum_of("weft_tasks_live"), 1);
    CHECK_GE(sum_of("weft_steps_total"), before.steps);
    CHECK_LE(sum_of("weft_steps_total"), after.steps);
    CHECK_GE(sum_of("weft_wakes_sent_total"), before.wakes_sent);
    CHECK_LE(sum_of("weft_wakes_sent_total"), after.wakes_sent);
    CHECK_GE(sum_of("weft_io_system_calls_total"), before.io.enters);
    CHECK_EQ(sum_of("weft_blocking_threads"), 0);
    CHECK_GE(sum_of("weft_idle_spin_seconds_total"), 0);
}

TEST_EVERYWHERE(the_parts_add_up)
{
    weft_runtime *runtime = weft_runtime_current();
    struct weft_stats before = all();
    uint64_t spawned = stats_of(runtime, WEFT_STATS_OUTSIDE).spawned;
    uint64_t ended = 0;
    uint64_t steps = 0;
    for (int i = 0; i < TEST_CARRIERS; i++) {
        struct weft_stats stats = stats_of(runtime, i);
        CHECK_EQ(stats.live, 0);
        spawned += stats.spawned;
        ended += stats.ended;
        steps += stats.steps;
    }
    struct weft_stats after = all();
    CHECK_EQ(spawned, before.spawned);
    CHECK_EQ(ended, before.ended);
    CHECK_GE(steps, before.steps);
    CHECK_LE(steps, after.steps);
    CHECK_EQ(spawned - ended, before.live);
}

TEST(a_text_that_does_not_fit_is_cut)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    static char text[1 << 16];
    static char whole[1 << 16];
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    int64_t length = weft_stats_prometheus(runtime, whole, sizeof whole);
    CHECK_GT(length, 1000);
    CHECK_EQ(strlen(whole), length);
    static const size_t sizes[] = { 1, 2, 100, 999 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(text, '#', sizeof text);
        CHECK_GT(weft_stats_prometheus(runtime, text, sizes[i]), 1000);
        CHECK_EQ(strlen(text), sizes[i] - 1);
        CHECK_EQ(memcmp(text, whole, 60 < sizes[i] ? 60 : sizes[i] - 1), 0);
        CHECK_EQ(text[sizes[i]], '#');
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

// Read by one thread while others count.

static _Atomic bool over;

static void *reader(void *runtime)
{
    uint64_t last = 0;
    while (!atomic_load(&over)) {
        struct weft_stats stats = stats_of(runtime, WEFT_STATS_ALL);
        CHECK_GE(stats.runs, last);
        last = stats.runs;
        free(text_of(runtime));
    }
    return NULL;
}

TEST_DRIVERS(counters_can_be_read_at_any_time)
{
    enum { TASKS = 8 };
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    weft_task *tasks[TASKS];
    pthread_t thread;
    int yields = (int)test_scaled(20000);
    options.carriers = 2;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_EQ(pthread_create(&thread, NULL, reader, runtime), 0);
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, yields_on, &yields, NULL));
    }
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// Stealing.

static int computes_a_little(void *arg)
{
    (void)arg;
    weft_time end = weft_now() + 200 * WEFT_US;
    while (weft_now() < end) {
    }
    return 0;
}

static int starts_many(void *arg)
{
    struct weft_scope scope;
    (void)arg;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    for (int i = 0; i < 100; i++) {
        CHECK_OK(weft_scope_spawn(&scope, computes_a_little, NULL));
    }
    return weft_scope_join(&scope);
}

TEST_DRIVERS(what_is_stolen_is_counted)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    weft_task *task;
    options.carriers = 2;
    options.steal = WEFT_STEAL_ON;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    uint64_t stolen = 0;
    for (int round = 0; round < 100 && stolen == 0; round++) {
        CHECK_OK(weft_runtime_spawn(&task, runtime, starts_many, NULL, NULL));
        CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        struct weft_stats stats = stats_of(runtime, WEFT_STATS_ALL);
        stolen = stats.stolen_directed + stats.stolen_pulled;
        CHECK_GT(stats.offered_most, 0);
        CHECK_GE(stats.offered_sum, stats.offered_most);
    }
    CHECK_GT(stolen, 0);
    CHECK_OK(weft_runtime_destroy(runtime));
}

// The queue that belongs to no carrier.

static atomic_bool go_on;
static atomic_bool is_busy;

static int keeps_the_carrier(void *arg)
{
    (void)arg;
    atomic_store(&is_busy, true);
    while (!atomic_load(&go_on)) {
        usleep(100); // not weft_sleep(): nobody else gets a turn
    }
    return 0;
}

TEST_DRIVERS(the_common_queue_is_measured)
{
    enum { WAITING = 10 };
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    weft_task *busy;
    weft_task *tasks[WAITING];
    options.carriers = 1;
    options.policy = WEFT_POLICY_STEALING;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_OK(weft_runtime_spawn(&busy, runtime, keeps_the_carrier, NULL, NULL));
    while (!atomic_load(&is_busy)) {
        usleep(100);
    }
    for (int i = 0; i < WAITING; i++) {
        CHECK_OK(weft_runtime_spawn(&tasks[i], runtime, computes_a_little, NULL, NULL));
    }
    CHECK_EQ(stats_of(runtime, WEFT_STATS_ALL).common, WAITING);
    CHECK_EQ(stats_of(runtime, 0).common, 0); // it is no carrier's
    atomic_store(&go_on, true);
    for (int i = 0; i < WAITING; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_OK(weft_join(NULL, busy, WEFT_FOREVER));
    struct weft_stats stats = stats_of(runtime, WEFT_STATS_ALL);
    CHECK_EQ(stats.common, 0);
    CHECK_EQ(stats.common_most, WAITING);
    CHECK_EQ(stats.batch_tasks, WAITING + 1);
    CHECK_GT(stats.batches, 0);
    CHECK(stats.inbox_average == (double)stats.inbox / (double)stats.steps);
    CHECK(stats.polls == 0 || stats.events_average == (double)stats.events / (double)stats.polls);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int steals_nothing(void *arg)
{
    CHECK_OK(starts_many(arg));
    struct weft_stats stats = all();
    CHECK_EQ(stats.offered, 0);
    CHECK_EQ(stats.offered_most, 0);
    CHECK_EQ(stats.searches, 0);
    CHECK_EQ(stats.stolen_directed + stats.stolen_pulled, 0);
    return 0;
}

TEST_DRIVERS(without_stealing_nothing_is_stolen)
{
    struct weft_options options = WEFT_OPTIONS_INIT; // they win over the environment
    options.carriers = 3;
    options.policy = WEFT_POLICY_LOCALITY;
    options.steal = WEFT_STEAL_OFF;
    CHECK_OK(weft_run(steals_nothing, NULL, &options));
}
