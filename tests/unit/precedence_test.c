// precedence_test.c - for every option: the program's value, else the environment's, else the default.
#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/options.h"

static uint64_t field_of(const struct weft_options *options, const struct weft__option_text *option)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)options + option->offset, option->size_bytes);
    return value;
}

static void set_field(struct weft_options *options, const struct weft__option_text *option,
                      uint64_t value)
{
    memcpy((char *)options + option->offset, &value, option->size_bytes);
}

static struct weft_options resolve_all(const struct weft_options *options)
{
    struct weft_options resolved;
    struct weft__log log;
    CHECK_OK(weft__options_resolve(&resolved, &log, options));
    return resolved;
}

static uint64_t resolve(const struct weft_options *options, const struct weft__option_text *option)
{
    struct weft_options resolved = resolve_all(options);
    return field_of(&resolved, option);
}

static void clear_environment(void)
{
    struct weft__option_text option;
    for (size_t i = 0; weft__options_describe(i, &option); i++) {
        unsetenv(option.variable);
    }
    unsetenv("WEFT_SCHED");
}

/// Two values that are allowed and that the struct can say: not what zero stands for.
static void choose(const struct weft__option_text *option, char first[64], char second[64])
{
    uint64_t low;
    uint64_t high;
    if (sscanf(option->allowed, "%" SCNu64 "..%" SCNu64, &low, &high) == 2) {
        (void)snprintf(first, 64, "%" PRIu64, low > 0 ? low : 1);
        (void)snprintf(second, 64, "%" PRIu64, high);
        return;
    }
    const char *last = strrchr(option->allowed, ' ');
    CHECK(last != NULL); // "auto, off, on": the last two
    const char *at = last - 1;
    while (at > option->allowed && at[-1] != ' ') {
        at--;
    }
    (void)snprintf(first, 64, "%.*s", (int)(last - 1 - at), at);
    (void)snprintf(second, 64, "%s", last + 1);
}

static void check_order(const struct weft__option_text *option)
{
    char first[64];
    char second[64];
    struct weft_options options = WEFT_OPTIONS_INIT;
    choose(option, first, second);
    printf("%s (%s): %s, %s\n", option->field, option->variable, first, second);
    clear_environment();
    uint64_t by_default = resolve(&options, option);
    setenv(option->variable, first, 1);
    uint64_t one = resolve(&options, option);
    setenv(option->variable, second, 1);
    uint64_t other = resolve(&options, option);
    CHECK_NE(one, other); // the environment is heard
    set_field(&options, option, one);
    CHECK_EQ(resolve(&options, option), one); // and the program beats it
    setenv(option->variable, first, 1);
    set_field(&options, option, other);
    CHECK_EQ(resolve(&options, option), other);
    setenv(option->variable, "!", 1);
    CHECK_EQ(resolve(&options, option), other); // it is not even asked
    set_field(&options, option, 0);
    setenv(option->variable, "", 1);
    CHECK_EQ(resolve(&options, option), by_default);
}

TEST(the_program_beats_the_environment_in_every_option)
{
    struct weft__option_text option;
    size_t count = 0;
    for (; weft__options_describe(count, &option); count++) {
        if (strcmp(option.allowed, "text") != 0) {
            check_order(&option);
        }
    }
    CHECK_GE(count, 15);
}

TEST(the_map_of_the_program_beats_that_of_the_environment)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    clear_environment();
    setenv("WEFT_CPUS", "4;5", 1);
    CHECK_STR(resolve_all(&options).cpus, "4;5");
    options.cpus = "6;7";
    CHECK_STR(resolve_all(&options).cpus, "6;7");
    setenv("WEFT_CPUS", "nonsense", 1);
    CHECK_STR(resolve_all(&options).cpus, "6;7");
}

TEST(the_policy_of_the_program_beats_that_of_the_environment)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    clear_environment();
    setenv("WEFT_SCHED", "stealing", 1);
    CHECK_EQ(resolve_all(&options).policy, WEFT_POLICY_STEALING);
    options.policy = WEFT_POLICY_LOCALITY;
    CHECK_EQ(resolve_all(&options).policy, WEFT_POLICY_LOCALITY);
    setenv("WEFT_SCHED", "locality", 1);
    options.policy = WEFT_POLICY_STEALING;
    CHECK_EQ(resolve_all(&options).policy, WEFT_POLICY_STEALING);
}
