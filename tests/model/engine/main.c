// main.c - command line and report of a model program.
//
// Prints TAP, one line per model, and `N passed, N failed, N skipped` at the end. Exit status: 0
// all passed, 1 a model failed, 2 the program was used wrongly or a model is broken.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

static const char usage[] =
    "usage: model [option...] [part of a name]\n"
    "  --list         print the models' names\n"
    "  --bound=N      explore up to N preemptions (default 2)\n"
    "  --no-caps      also for models that say that this takes too long\n"
    "  --limit=N      stop after N executions per model and bound (default: no limit)\n"
    "  --seed=N       random decisions instead of all; --limit says how many executions\n"
    "  --replay=V     run the execution with this vector of decisions and tell it\n"
    "  --never-prune  explore states again that were seen before (to check the checker)\n"
    "  --quiet        print failing models only, without traces\n";

struct options {
    struct mc__request request;
    const char *filter;
    bool list, quiet, ignore_caps;
    const char *replay;
};

enum { RANDOM_EXECUTIONS = 100000, RANDOM_BOUND = 1000 };

static const char *value_of(const char *argument, const char *option)
{
    size_t length = strlen(option);
    return strncmp(argument, option, length) == 0 ? argument + length : NULL;
}

static bool parse(struct options *options, int count, char **arguments)
{
    options->request.bound = -1;
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i], *value;
        if (strcmp(argument, "--list") == 0) {
            options->list = true;
        } else if (strcmp(argument, "--no-caps") == 0) {
            options->ignore_caps = true;
        } else if (strcmp(argument, "--never-prune") == 0) {
            options->request.never_prune = true;
        } else if (strcmp(argument, "--quiet") == 0) {
            options->quiet = true;
        } else if ((value = value_of(argument, "--bound=")) != NULL) {
            options->request.bound = atoi(value);
        } else if ((value = value_of(argument, "--limit=")) != NULL) {
            options->request.limit = strtoull(value, NULL, 10);
        } else if ((value = value_of(argument, "--seed=")) != NULL) {
            options->request.seed = strtoull(value, NULL, 10), options->request.mode = MC__RANDOM;
        } else if ((value = value_of(argument, "--replay=")) != NULL) {
            options->replay = value, options->request.mode = MC__REPLAY;
        } else if (argument[0] == '-' || options->filter != NULL) {
            return false;
        } else {
            options->filter = argument;
        }
    }
    bool is_random = options->request.mode == MC__RANDOM;
    if (options->request.bound < 0) {
        options->request.bound = is_random ? RANDOM_BOUND : 2;
    }
    if (is_random && options->request.limit == 0) {
        options->request.limit = RANDOM_EXECUTIONS;
    }
    return true;
}

static bool is_selected(const struct mc_model *model, const char *filter)
{
    return filter == NULL || strstr(model->name, filter) != NULL;
}

static bool is_skipped(const struct mc_model *model)
{
#ifdef __clang__
    const char *compiler = "clang";
#else
    const char *compiler = "gcc";
#endif
    return model->needs != NULL && strcmp(model->needs, compiler) != 0;
}

static void print_numbers(const struct mc__result *result)
{
    printf("%llu executions, %llu pruned, %llu steps, %.2f s, %.0f/s",
           (unsigned long long)result->executions, (unsigned long long)result->pruned,
           (unsigned long long)result->steps, result->seconds,
           (double)result->executions / (result->seconds > 0 ? result->seconds : 1e-9));
}

static void print_failure(const struct mc_model *model, const struct mc__result *result)
{
    printf("# %s\n", result->failure);
    mc__trace_print();
    printf("# replay: --bound=%d --replay=%s %s\n", result->bound, mc__choices_text(), model->name);
}

static bool is_good(const struct mc_model *model, const struct mc__result *result)
{
    if (model->must_fail == NULL) {
        return !result->has_failed;
    }
    return result->has_failed &&
           strncmp(result->failure, model->must_fail, strlen(model->must_fail)) == 0;
}

static bool run_model(const struct mc_model *model, const struct options *options, int number)
{
    struct mc__result result;
    struct mc__request request = options->request;
    bool is_capped = !options->ignore_caps && model->max_bound > 0;
    if (is_capped && request.mode == MC__EXHAUSTIVE && model->max_bound < request.bound) {
        request.bound = model->max_bound;
    }
    mc__explore(model, &request, &result);
    bool good = is_good(model, &result);
    if (options->quiet && good) {
        return true;
    }
    printf("%s %d - %s # ", good ? "ok" : "not ok", number, model->name);
    if (model->must_fail != NULL) {
        printf("must fail: %s; ", model->must_fail);
    }
    print_numbers(&result);
    printf(result.is_complete  ? ", all up to %d preemptions\n"
           : result.has_failed ? ", failed at %d preemptions\n"
                               : ", not exhausted (bound %d)\n",
           result.bound);
    bool tell = options->request.mode == MC__REPLAY || (!good && !options->quiet);
    if (result.has_failed && tell) {
        print_failure(model, &result);
    } else if (!good) {
        printf("# %s\n", result.has_failed ? result.failure : "found no failure");
    }
    fflush(stdout);
    return good;
}

int main(int count, char **arguments)
{
    struct options options = { 0 };
    if (!parse(&options, count, arguments)) {
        fputs(usage, stderr);
        return 2;
    }
    if (options.replay != NULL && !mc__choices_parse(options.replay)) {
        fputs("not a vector of decisions\n", stderr);
        return 2;
    }
    mc__sched_init();
    int passed = 0, failed = 0, skipped = 0, number = 0;
    for (const struct mc_model *model = mc_models; model->name != NULL; model++) {
        if (!is_selected(model, options.filter)) {
            continue;
        }
        number++;
        if (options.list) {
            printf("%s\n", model->name);
        } else if (is_skipped(model)) {
            printf("ok %d - %s # SKIP needs %s\n", number, model->name, model->needs);
            skipped++;
        } else if (run_model(model, &options, number)) {
            passed++;
        } else {
            failed++;
        }
    }
    if (!options.list) {
        printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    }
    return failed > 0;
}
