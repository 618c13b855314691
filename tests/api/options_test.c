// Options: every field and every variable, good and bad, who beats whom, and where messages go.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <stdlib.h>

static struct gathered logged;

static struct weft_options quiet(void)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.log = gather_log;
    options.log_ctx = &logged;
    return options;
}

static void clear_environment(void)
{
    static const char *const variables[] = {
        "WEFT_CARRIERS",    "WEFT_IO",
        "WEFT_QUANTUM_US",  "WEFT_SPIN_US",
        "WEFT_GRACE_MS",    "WEFT_STACK_KB",
        "WEFT_STACK_CACHE", "WEFT_LOG",
        "WEFT_TOPOLOGY",    "WEFT_CPUS",
        "WEFT_STEAL",       "WEFT_STEAL_SCOPE",
        "WEFT_POLLER",      "WEFT_POLLER_THREADS",
    };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        unsetenv(variables[i]);
    }
    setenv("WEFT_IO", "epoll", 1);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

struct variable {
    const char *name;
    const char *good[8];
    const char *bad[16];
    const char *allowed;
};

static const struct variable variables[] = {
    { "WEFT_CARRIERS",
      { "1", "2", "17", "003" },
      { "0", "1025", "-1", "+1", " 1", "1 ", "1.5", "0x1", "two", "99999999999999999999", "1e1" },
      "1..1024" },
    { "WEFT_IO",
      { "auto", "epoll" },
      { "io_uring", "EPOLL", "0", "epoll ", "kqueue", "auto,epoll" },
      "auto, uring, epoll" },
    { "WEFT_QUANTUM_US",
      { "1", "50", "1000000" },
      { "0", "1000001", "-5", "50us", "fast", "18446744073709551617" },
      "1..1000000" },
    { "WEFT_SPIN_US",
      { "0", "1", "1000000" },
      { "1000001", "-1", "x", "18446744073709551616" },
      "0..1000000" },
    { "WEFT_GRACE_MS", { "1", "3600000" }, { "3600001", "-1", "10s", "." }, "0..3600000" },
    { "WEFT_STACK_KB",
      { "128", "256", "1048576" },
      { "0", "64", "127", "129", "300", "1048577", "2097152", "256K", "18014398509482240" },
      "128..1048576, a power of two" },
    { "WEFT_STACK_CACHE",
      { "1", "1024", "1000000" },
      { "0", "1000001", "-1", "4294967297", "all" },
      "1..1000000" },
    { "WEFT_TOPOLOGY", { "auto", "off", "on" }, { "yes", "ON", "1", "pin" }, "auto, off, on" },
    { "WEFT_STEAL", { "off", "on" }, { "yes", "1", "ON" }, "off, on" },
    { "WEFT_STEAL_SCOPE", { "global", "cluster" }, { "all", "1" }, "global, cluster" },
    { "WEFT_POLLER",
      { "carrier", "tasks", "threads" },
      { "task", "1", "TASKS", "none" },
      "carrier, tasks, threads" },
    { "WEFT_POLLER_THREADS", { "1", "2", "1024" }, { "0", "1025", "-1", "all" }, "1..1024" },
    { "WEFT_LOG",
      { "error", "warn", "info", "debug" },
      { "none", "WARN", "2", "warning" },
      "error, warn, info, debug" },
};

TEST(every_variable_takes_its_good_values)
{
    clear_environment();
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const struct variable *variable = &variables[i];
        for (int k = 0; k < 8 && variable->good[k] != NULL; k++) {
            clear_environment();
            setenv(variable->name, variable->good[k], 1);
            printf("%s=%s\n", variable->name, variable->good[k]);
            struct weft_options options = quiet();
            CHECK_EQ(weft_run(nothing, NULL, &options), 0);
        }
    }
}

TEST(every_variable_refuses_its_bad_values)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const struct variable *variable = &variables[i];
        for (int k = 0; k < 16 && variable->bad[k] != NULL; k++) {
            clear_environment();
            setenv(variable->name, variable->bad[k], 1);
            printf("%s=%s\n", variable->name, variable->bad[k]);
            struct weft_options options = quiet();
            gathered_clear(&logged);
            weft_runtime *runtime = (void *)&options;
            CHECK_EQ(weft_runtime_create(&runtime, &options), -EINVAL);
            CHECK(runtime == NULL);
            CHECK_EQ(weft_run(nothing, NULL, &options), -EINVAL);
            CHECK_EQ(logged.count, 2);
            CHECK_LOGGED(&logged, variable->name);
            CHECK_LOGGED(&logged, variable->bad[k]);
            CHECK_LOGGED(&logged, variable->allowed);
            CHECK_LOGGED(&logged, "1 options: ");
        }
    }
}

TEST(a_very_long_bad_value_is_cut_in_the_message)
{
    char value[5000];
    memset(value, '7', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    clear_environment();
    setenv("WEFT_CARRIERS", value, 1);
    struct weft_options options = quiet();
    CHECK_EQ(weft_run(nothing, NULL, &options), -EINVAL);
    CHECK_LOGGED(&logged, "WEFT_CARRIERS=\"7777777777");
    CHECK_LOGGED(&logged, "1..1024");
}

TEST(an_empty_variable_is_as_good_as_none)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        clear_environment();
        setenv(variables[i].name, "", 1);
        struct weft_options options = quiet();
        CHECK_EQ(weft_run(nothing, NULL, &options), 0);
    }
}

static void check_refused(const struct weft_options *options, const char *field, const char *value)
{
    gathered_clear(&logged);
    weft_runtime *runtime = (void *)&logged;
    CHECK_EQ(weft_runtime_create(&runtime, options), -EINVAL);
    CHECK(runtime == NULL);
    CHECK_EQ(logged.count, 1);
    CHECK_LOGGED(&logged, field);
    CHECK_LOGGED(&logged, value);
}

#define REFUSED(field, given, shown)                                                               \
    do {                                                                                           \
        struct weft_options options = quiet();                                                     \
        options.field = (given);                                                                   \
        check_refused(&options, "weft_options." #field, shown);                                    \
    } while (0)

TEST(every_field_refuses_bad_values)
{
    clear_environment();
    REFUSED(carriers, -1, "1..1024");
    REFUSED(carriers, 1025, "1025");
    REFUSED(io, (enum weft_io)3, "auto, uring, epoll");
    REFUSED(io, (enum weft_io) - 1, "WEFT_IO");
    REFUSED(quantum_ns, WEFT_S + 1, "1..1000000000");
    REFUSED(quantum_ns, WEFT_FOREVER, "WEFT_QUANTUM_US");
    REFUSED(idle_spin_ns, WEFT_S + 1, "1..1000000000");
    REFUSED(grace_ns, 3600 * WEFT_S + 1, "1..3600000000000");
    REFUSED(stack_size_bytes, 1, "131072..1073741824");
    REFUSED(stack_size_bytes, (size_t)64 << 10, "65536");
    REFUSED(stack_size_bytes, 200000, "a power of two");
    REFUSED(stack_size_bytes, (size_t)2 << 30, "2147483648");
    REFUSED(stack_cache, -1, "1..1000000");
    REFUSED(stack_cache, 1000001, "1000001");
    REFUSED(topology, (enum weft_topology)3, "auto, off, on");
    REFUSED(cpus, "0-3,x", "character 5");
    REFUSED(log_level, (enum weft_log_level)5, "error, warn, info, debug");
    REFUSED(log_level, (enum weft_log_level) - 1, "WEFT_LOG");
}

static void *no_memory(void *ctx, size_t size_bytes, size_t align)
{
    (void)ctx;
    (void)size_bytes;
    (void)align;
    return NULL;
}

static int no_map(void *ctx, void **base, size_t size_bytes, size_t align)
{
    (void)ctx;
    (void)size_bytes;
    (void)align;
    *base = NULL;
    return -ENOMEM;
}

TEST(half_a_hook_is_refused)
{
    clear_environment();
    const struct weft_allocator allocator = { no_memory, NULL, NULL };
    const struct weft_stack_provider provider = { no_map, NULL, NULL };
    REFUSED(allocator, &allocator, "alloc and free");
    REFUSED(stack_provider, &provider, "map and unmap");
}

TEST(a_struct_of_another_size_is_refused)
{
    static const size_t sizes[] = { 0, 1, sizeof(struct weft_options) - 1,
                                    sizeof(struct weft_options) + 8 };
    clear_environment();
    char text[4096];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct weft_options options = quiet();
        options.size = sizes[i];
        struct captured captured = capture_stderr();
        int rc = weft_run(nothing, NULL, &options);
        captured_end(&captured, text, sizeof text);
        CHECK_EQ(rc, -EINVAL);
        CHECK_EQ(logged.count, 0); // a struct that we do not understand has no log hook
        CHECK(strstr(text, "weft_options.size") != NULL);
        CHECK(strstr(text, "WEFT_OPTIONS_INIT") != NULL);
    }
}

TEST(init_function_and_macro_agree)
{
    struct weft_options by_macro = WEFT_OPTIONS_INIT;
    struct weft_options by_call;
    memset(&by_macro, 0, sizeof by_macro);
    memset(&by_call, 0, sizeof by_call);
    by_macro = (struct weft_options)WEFT_OPTIONS_INIT;
    weft_options_init(&by_call);
    CHECK_EQ(by_call.size, sizeof(struct weft_options));
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the padding was zeroed
    CHECK_EQ(memcmp(&by_macro, &by_call, sizeof by_call), 0);
}

static int carriers_with(int given)
{
    struct weft_options options = quiet();
    options.carriers = given;
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    int carriers = weft_runtime_carriers(runtime);
    CHECK_OK(weft_runtime_destroy(runtime));
    return carriers;
}

TEST(the_struct_beats_the_environment_beats_the_default)
{
    clear_environment();
    int by_default = carriers_with(0);
    CHECK_GE(by_default, 1);
    setenv("WEFT_CARRIERS", "3", 1);
    CHECK_EQ(carriers_with(0), 3);
    CHECK_EQ(carriers_with(2), 2);
    setenv("WEFT_CARRIERS", "many", 1); // not asked
    CHECK_EQ(carriers_with(2), 2);
}

TEST(the_driver_follows_the_same_order)
{
    clear_environment();
    if (!test_uring_available()) {
        SKIP("io_uring is not available");
    }
    struct weft_options options = quiet();
    weft_runtime *runtime;
    options.io = WEFT_IO_URING;
    setenv("WEFT_IO", "epoll", 1);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_STR(weft_runtime_driver(runtime), "uring");
    CHECK_OK(weft_runtime_destroy(runtime));
    options.io = WEFT_IO_AUTO;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_STR(weft_runtime_driver(runtime), "epoll");
    CHECK_OK(weft_runtime_destroy(runtime));
    setenv("WEFT_IO", "uring", 1);
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK_STR(weft_runtime_driver(runtime), "uring");
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int dump_self(void *arg)
{
    *(const char **)arg = dump_text();
    return 0;
}

static long stack_bytes_with(size_t given)
{
    struct weft_options options = quiet();
    options.stack_size_bytes = given;
    const char *text;
    CHECK_OK(weft_run(dump_self, &text, &options));
    const char *of = strstr(text, " of ");
    CHECK(of != NULL);
    return strtol(of + 4, NULL, 10);
}

TEST(the_stack_size_follows_the_same_order)
{
    clear_environment();
    setenv("WEFT_STACK_KB", "1024", 1);
    long from_struct = stack_bytes_with((size_t)512 << 10);
    CHECK_LE(from_struct, 512L << 10);
    CHECK_GT(from_struct, 256L << 10);
    long from_environment = stack_bytes_with(0);
    CHECK_LE(from_environment, 1024L << 10);
    CHECK_GT(from_environment, 512L << 10);
    unsetenv("WEFT_STACK_KB");
    CHECK_LE(stack_bytes_with(0), 256L << 10);
}

TEST(a_misspelt_variable_is_told)
{
    static const struct {
        const char *name, *meant;
    } misspelt[] = {
        { "WEFT_CARIERS", "WEFT_CARRIERS" },
        { "WEFT_CARRIER", "WEFT_CARRIERS" },
        { "WEFT_CARRRIERS", "WEFT_CARRIERS" },
        { "WEFT_MIN_CARRIERS", "WEFT_MAX_CARRIERS" },
        { "WEFT_SHCED", "WEFT_SCHED" },
        { "WEFT_LOGS", "WEFT_LOG" },
        { "WEFT_SPIN_MS", "WEFT_SPIN_US" },
        { "WEFT_POLERS", "WEFT_POLLER" },
        { "WEFT_STEEL_SCPOE", "WEFT_STEAL_SCOPE" },
    };
    clear_environment();
    for (size_t i = 0; i < sizeof misspelt / sizeof misspelt[0]; i++) {
        struct weft_options options = quiet();
        char expected[128];
        (void)snprintf(expected, sizeof expected,
                       "2 options: %s is not an option, did you mean %s?", misspelt[i].name,
                       misspelt[i].meant);
        gathered_clear(&logged);
        setenv(misspelt[i].name, "3", 1);
        CHECK_EQ(weft_run(nothing, NULL, &options), 0);
        unsetenv(misspelt[i].name);
        CHECK_LOGGED(&logged, expected);
        CHECK_EQ(logged.count, 1);
    }
}

TEST(variables_of_the_program_are_its_own)
{
    static const char *const own[] = {
        "WEFT_",
        "WEFT_X",
        "WEFT_ID",
        "WEFT_DB",
        "WEFT_TEST_NAME",
        "WEFT_BENCH_NET",
        "WEFT_STATE",
        "MY_WEFT_CARIERS",
        "WEFTCARRIERS",
        "WEFT_CARRIERS_OF_MY_PROGRAM",
        "WEFT_A_NAME_THAT_IS_LONGER_THAN_THAT_OF_ANY_OPTION_WILL_EVER_HAVE_TO_BE",
    };
    clear_environment();
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        setenv(own[i], "1", 1);
    }
    setenv("WEFT_SCHED", "locality", 1);
    struct weft_options options = quiet();
    CHECK_EQ(weft_run(nothing, NULL, &options), 0);
    CHECK_EQ(logged.count, 0);
}

static int leaks_a_handle(void *arg)
{
    return weft_spawn((weft_task **)arg, nothing, NULL, NULL);
}

/// Runs a program that gives reason for a warning, and returns what came out on standard error.
static const char *warn(const char *level, const struct weft_options *options)
{
    static char text[8192];
    static weft_task *leaked;
    clear_environment();
    if (level != NULL) {
        setenv("WEFT_LOG", level, 1);
    }
    struct captured captured = capture_stderr();
    int rc = weft_run(leaks_a_handle, &leaked, options);
    captured_end(&captured, text, sizeof text);
    CHECK_OK(rc);
    weft_task_release(leaked);
    return text;
}

TEST(the_level_decides_what_is_said)
{
    CHECK_STR(warn("error", NULL), "");
    CHECK(strstr(warn("warn", NULL), "never joined or released") != NULL);
    CHECK(strstr(warn("warn", NULL), "driver: epoll") == NULL);
    CHECK(strstr(warn(NULL, NULL), "never joined or released") != NULL);
    CHECK(strstr(warn("info", NULL), "driver: epoll") != NULL);
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.log_level = WEFT_LOG_ERROR;
    CHECK_STR(warn("debug", &options), "");
}

TEST(by_default_messages_go_to_standard_error_one_per_line)
{
    CHECK_STR(warn("warn", NULL), "weft: warn: runtime: 1 task handles were never joined or "
                                  "released; the memory is kept\n");
}

TEST(with_a_hook_nothing_is_printed)
{
    struct weft_options options = quiet();
    CHECK_STR(warn("debug", &options), "");
    CHECK_LOGGED(&logged, "2 runtime: 1 task handles");
    CHECK_LOGGED(&logged, "3 io: driver: epoll");
    setenv("WEFT_CARRIERS", "none", 1);
    char text[4096];
    struct captured captured = capture_stderr();
    int rc = weft_run(nothing, NULL, &options);
    captured_end(&captured, text, sizeof text);
    CHECK_EQ(rc, -EINVAL);
    CHECK_STR(text, "");
}
