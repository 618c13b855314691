// sanitizer.h - which sanitizer this build is for.
#ifndef WEFT_BASE_SANITIZER_H
#define WEFT_BASE_SANITIZER_H

#if defined(__has_feature)
#define WEFT__HAS_FEATURE(x) __has_feature(x)
#else
#define WEFT__HAS_FEATURE(x) 0
#endif

// The model checker borrows -fsanitize=thread's instrumentation, not its runtime.
#ifdef WEFT_MODEL
#define WEFT__ASAN 0
#define WEFT__TSAN 0
#endif

#ifndef WEFT__ASAN
#if defined(__SANITIZE_ADDRESS__) || WEFT__HAS_FEATURE(address_sanitizer)
#define WEFT__ASAN 1
#else
#define WEFT__ASAN 0
#endif
#endif

#ifndef WEFT__TSAN
#if defined(__SANITIZE_THREAD__) || WEFT__HAS_FEATURE(thread_sanitizer)
#define WEFT__TSAN 1
#else
#define WEFT__TSAN 0
#endif
#endif

/// Set by the build when valgrind's headers are installed; costs a few instructions per thread
/// creation, nothing per switch.
#ifndef WEFT__VALGRIND
#define WEFT__VALGRIND 0
#endif

#endif
