// assert.c - the end of a program that broke a rule.
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sys.h"

// One write, so that the lines of two threads do not mix; no stdio stream, whose lock the caller
// may hold and whose buffer abort() would lose.
void weft__assert_failed(const char *what, const char *file, int line)
{
    char text[512];
    int length = snprintf(text, sizeof text, "weft: %s:%d: assertion failed: %s\n", file, line,
                          what);
    if (length >= (int)sizeof text) {
        length = sizeof text - 1;
        text[length - 1] = '\n';
    }
    weft__sys_write_all(STDERR_FILENO, text, (size_t)length);
    abort();
}
