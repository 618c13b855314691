// base.h - compiler helpers that every source file may use.
#ifndef WEFT_BASE_BASE_H
#define WEFT_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/base.h>

#define weft__likely(x) __builtin_expect(!!(x), 1)
#define weft__unlikely(x) __builtin_expect(!!(x), 0)
#define WEFT__NOINLINE __attribute__((noinline))
#define WEFT__NORETURN __attribute__((noreturn))
/// Everything it calls is inlined into it, as far as the compiler sees it. For what parks: after a
/// switch the processor's return predictor is of no use, so each return on the way back to the user
/// is a mispredicted one.
#define WEFT__FLATTEN __attribute__((flatten))

/// Hot words of different writers are kept this far apart: two lines, because the hardware
/// prefetches lines in pairs.
#define WEFT__LINE_PAIR 128
#define WEFT__LINE 64

#define weft__container_of(pointer, type, member)                                                  \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define WEFT__ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/// The tiny build makes every queue, wheel and cache so small that wrap-around, overflow and
/// refill paths run constantly.
#ifdef WEFT_TINY
#define WEFT__SIZED(normal, tiny) (tiny)
#else
#define WEFT__SIZED(normal, tiny) (normal)
#endif

#endif
