// Tables in docs/ say what the code does: each row of the code stands there, and nothing else.
#include "diag/stats.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char page[1 << 16];

static void read_page(const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/docs/%s", TEST_SOURCE_ROOT, name);
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
    read_page("statistics.md");
    for (size_t i = 0; i < weft__stats_rows; i++) {
        const struct weft__stat *row = &weft__stats_table[i];
        char line[512];
        (void)snprintf(line, sizeof line, "| `%s` | `%s` | %s | %s | %s |", row->field, row->metric,
                       row->counter ? "counter" : "gauge", owners[row->owner], row->help);
        check_line(line);
    }
    CHECK_EQ(count_lines("| `"), weft__stats_rows);
}
