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
