// assert.h - assertions that are always on: programmer errors and cheap invariants.
#ifndef WEFT_BASE_ASSERT_H
#define WEFT_BASE_ASSERT_H

#include "base/base.h"

/// Says what was broken and where, then aborts.
WEFT__NORETURN WEFT__NOINLINE void weft__assert_failed(const char *what, const char *file,
                                                       int line);

#define weft_assert(condition)                                                                     \
    (weft__likely(condition) ? (void)0 : weft__assert_failed(#condition, __FILE__, __LINE__))

#endif
