// misspelt.c - variables in the environment that are nearly options.
//
// A misspelt option has no effect, and nobody would say so. Programs may have variables of their own that
// begin like weft's; so only near misses are told.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/options.h"

#define PREFIX "WEFT_"
#define MOST_EDITS 2
#define LETTERS_PER_EDIT 3 // or each short name would be near to WEFT_IO

/// Whether the names become equal if up to `edits` letters are put in, left out, changed, or swapped with
/// the next.
static bool is_near(const char *a, const char *b, size_t edits)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    if (*a == *b || edits == 0) {
        return *a == *b;
    }
    bool both = *a != '\0' && *b != '\0';
    edits--;
    return (*a != '\0' && is_near(a + 1, b, edits)) || (*b != '\0' && is_near(a, b + 1, edits)) ||
           (both && is_near(a + 1, b + 1, edits)) ||
           (both && a[0] == b[1] && a[1] == b[0] && is_near(a + 2, b + 2, edits));
}

/// The option that `name` is, or can become with `edits` edits; or NULL.
static const char *option_near(const char *name, size_t edits)
{
    const char *option;
    for (size_t i = 0; (option = weft__options_variable(i)) != NULL; i++) {
        if (edits <= strlen(option + strlen(PREFIX)) / LETTERS_PER_EDIT &&
            is_near(name, option, edits)) {
            return option;
        }
    }
    return NULL;
}

/// `variable` is "NAME=value".
static void look_at(const char *variable, const struct weft__log *log)
{
    char name[64]; // longer than any option
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(variable, "="), variable);
    for (size_t edits = 0; edits <= MOST_EDITS; edits++) {
        const char *option = option_near(name, edits);
        if (option != NULL && edits > 0) {
            weft__log(log, WEFT_LOG_WARN, "options",
                      "%s is not an option, did you mean %s? docs/options.md lists them", name,
                      option);
        }
        if (option != NULL) {
            return;
        }
    }
}

void weft__options_warn_misspelt(const struct weft__log *log)
{
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        if (strncmp(*variable, PREFIX, strlen(PREFIX)) == 0) {
            look_at(*variable, log);
        }
    }
}
