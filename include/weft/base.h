// weft/base.h - what every other weft header needs: export marks, attributes, version.
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <errno.h> // what calls return is a negative one of these
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEFT_BEGIN_DECLS extern "C" {
#define WEFT_END_DECLS }
#else
#define WEFT_BEGIN_DECLS
#define WEFT_END_DECLS
#endif

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#define WEFT_MUST_CHECK __attribute__((warn_unused_result))
#define WEFT_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define WEFT_API
#define WEFT_MUST_CHECK
#define WEFT_PRINTF(text, first)
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

WEFT_BEGIN_DECLS

/// A task: a virtual thread or a spawned future. Handles are counted references; see weft/task.h.
typedef struct weft__task weft_task;
/// A set of carriers with everything that runs on them; see weft/runtime.h.
typedef struct weft__runtime weft_runtime;

/// The body of a virtual thread. Returns 0 or a negative errno, which is what joining it gives back.
typedef int (*weft_fn)(void *arg);

/// The version of the library linked at run time, as "MAJOR.MINOR.PATCH".
///
/// Call from: anywhere.
WEFT_API const char *weft_version(void);

WEFT_END_DECLS

#endif
