// log.c - formats a message and hands it to the hook.
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/sys.h"

#define LINE_BYTES 1000

static const char *const level_names[] = { "", "error", "warn", "info", "debug" };

static void to_stderr(enum weft_log_level level, const char *module, const char *message)
{
    char line[LINE_BYTES + 64];
    int length = snprintf(line, sizeof line, "weft: %s: %s: %s\n", level_names[level], module,
                          message);
    if (length > 0) {
        size_t size = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
        (void)weft__sys_write_all(2, line, size);
    }
}

void weft__log(const struct weft__log *log, enum weft_log_level level, const char *module,
               const char *format, ...)
{
    if (level > log->level) {
        return;
    }
    int saved = errno;
    char message[LINE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (log->fn != NULL) {
        log->fn(log->ctx, level, module, message);
    } else {
        to_stderr(level, module, message);
    }
    errno = saved;
}
