// log.h - the one way in which the library speaks.
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include <weft/runtime.h>

#include "base/base.h"

struct weft__log {
    weft_log_fn fn; // NULL: standard error
    void *ctx;
    enum weft_log_level level;
};

/// Sends one line to the hook if `level` is wanted; cut at 1000 bytes. Leaves errno alone.
WEFT__NOINLINE void weft__log(const struct weft__log *log, enum weft_log_level level,
                              const char *module, const char *format, ...) WEFT_PRINTF(4, 5);

#endif
