// Tables in docs/ say what the code does: each row of the code stands there, and nothing else.
#include "diag/stats.h"
#include "runtime/options.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char page[1 << 16];

static void read_page(const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", TEST_SOURCE_ROOT, name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        FAIL("there is no %s", path);
    }
    size_t length = fread(page, 1, sizeof page - 1, file);
    CHECK_LT(length, sizeof page - 1);
    page[length] = '\0';
    fclose(file);
}

/// Fails with the line to write if it is not there.
static void check_line(const char *line)
{
    const char *at = page;
    size_t length = strlen(line);
    while ((at = strstr(at, line)) != NULL) {
        if ((at == page || at[-1] == '\n') && at[length] == '\n') {
            return;
        }
        at++;
    }
    FAIL("this line is missing in the page:\n%s", line);
}

/// Lines that begin so: as many as the code has rows.
static size_t count_lines(const char *start)
{
    size_t count = 0;
    for (const char *at = page; (at = strstr(at, start)) != NULL; at++) {
        count += at == page || at[-1] == '\n';
    }
    return count;
}

TEST(the_page_of_statistics_is_the_table_of_the_code)
{
    static const char *const owners[] = { "carrier", "carrier, outside", "runtime" };
    read_page("docs/statistics.md");
    for (size_t i = 0; i < weft__stats_rows; i++) {
        const struct weft__stat *row = &weft__stats_table[i];
        char line[512];
        (void)snprintf(line, sizeof line, "| `%s` | `%s` | %s | %s | %s |", row->field, row->metric,
                       row->counter ? "counter" : "gauge", owners[row->owner], row->help);
        check_line(line);
    }
    CHECK_EQ(count_lines("| `"), weft__stats_rows);
}

/// Whether a line begins so, whatever follows.
static bool has_start(const char *start)
{
    for (const char *at = page; (at = strstr(at, start)) != NULL; at++) {
        if (at == page || at[-1] == '\n') {
            return true;
        }
    }
    return false;
}

TEST(the_page_of_options_is_the_table_of_the_code)
{
    struct weft__option_text text;
    size_t count = 0;
#ifdef WEFT_TINY
    SKIP("the tiny build has other defaults");
#endif
    read_page("docs/options.md");
    while (weft__options_describe(count, &text)) {
        char start[512];
        (void)snprintf(start, sizeof start, "| `%s` | `%s` | %s | %s | ", text.field, text.variable,
                       text.allowed, text.fallback);
        if (!has_start(start)) {
            FAIL("no line of docs/options.md begins with:\n%s", start);
        }
        count++;
    }
    CHECK_EQ(count_lines("| `") - count_lines("| `WEFT"), count + 6); // and the hooks
}

TEST(every_field_of_the_options_stands_in_the_page)
{
    static char header[sizeof page];
    read_page("include/weft/runtime.h");
    memcpy(header, page, sizeof header);
    char *line = strstr(header, "struct weft_options {\n");
    CHECK(line != NULL);
    char *end = strstr(line, "\n};");
    CHECK(end != NULL);
    *end = '\0';
    read_page("docs/options.md");
    int fields = 0;
    char *rest = NULL;
    strtok_r(line, "\n", &rest);
    while ((line = strtok_r(NULL, "\n", &rest)) != NULL) {
        char *semicolon = strchr(line, ';');
        char *comment = strstr(line, "///");
        if (semicolon == NULL || (comment != NULL && comment < semicolon)) {
            continue;
        }
        *semicolon = '\0';
        const char *field = line + strlen(line);
        while (field > line && field[-1] != ' ' && field[-1] != '*') {
            field--;
        }
        char start[128];
        (void)snprintf(start, sizeof start, "| `%s` | ", field);
        if (strcmp(field, "size") != 0 && !has_start(start)) {
            FAIL("docs/options.md says nothing about weft_options.%s", field);
        }
        fields++;
    }
    CHECK_GT(fields, 15);
}

TEST(the_header_has_the_same_ranges)
{
    struct weft__option_text text;
    read_page("include/weft/runtime.h");
    for (size_t i = 0; weft__options_describe(i, &text); i++) {
        char *more = strstr(text.allowed, ", a power of two");
        char said[256];
        if (more != NULL) {
            *more = '\0';
        }
        if (strcmp(text.allowed, "text") == 0) {
            continue;
        }
        (void)snprintf(said, sizeof said, "%s: %s", text.variable, text.allowed);
        if (strstr(page, said) == NULL) {
            FAIL("weft/runtime.h does not say \"%s\"", said);
        }
    }
}
