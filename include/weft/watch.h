// weft/watch.h - a value that changes, and those who want to know its latest state.
//
//     weft_watch *config;
//     int rc = weft_watch_create(&config, sizeof(struct config), &first);
//
//     who sets it                          who follows it
//     weft_watch_set(config, &next)        uint64_t seen = weft_watch_get(&mine, config);
//     weft_watch_close(config)             while (weft_watch_wait(config, seen, WEFT_FOREVER) == 0)
//                                              seen = weft_watch_get(&mine, config);
//
// Every set counts the generation up. Who waits for a generation other than the one that he has seen
// misses no change, but may find that several have happened: only the latest value is kept.
// Any number may set and follow. Calls that wait follow the rules of weft/sync.h.
#ifndef WEFT_WATCH_H
#define WEFT_WATCH_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_watch weft_watch;

/// Makes a watch with a first value of `value_bytes` bytes, copied from `*value`; generation 1.
///
/// Call from:  any thread.
/// Errors:     -ENOMEM  there is no memory
///             -EINVAL  a value without bytes, or with too many
WEFT_API WEFT_MUST_CHECK int weft_watch_create(weft_watch **watch, size_t value_bytes,
                                               const void *value);

/// Frees it. NULL is fine.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody waits (close it first) or borrows a value
WEFT_API int weft_watch_destroy(weft_watch *watch);

/// Copies a new value and wakes all that wait. Allocates only if the value before is borrowed and so
/// are all that were allocated for that reason earlier; that memory is kept and used again.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EPIPE   it is closed
///             -ENOMEM  see above
WEFT_API WEFT_MUST_CHECK int weft_watch_set(weft_watch *watch, const void *value);

/// No further values: who waits gets -EPIPE. The last value can still be read.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_watch_close(weft_watch *watch);
WEFT_API bool weft_watch_is_closed(weft_watch *watch);

/// Copies the latest value to `*value`. Returns its generation.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API uint64_t weft_watch_get(void *value, weft_watch *watch);

/// The latest value without a copy, for large ones. It does not change until it is returned with
/// weft_watch_return(), however often another one is set meanwhile. `*generation` may be NULL.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API const void *weft_watch_borrow(uint64_t *generation, weft_watch *watch);
WEFT_API void weft_watch_return(weft_watch *watch, const void *value);

/// The generation of the latest value, which is not `seen` if there is a newer one than that.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API uint64_t weft_watch_generation(const weft_watch *watch);

/// Waits until the generation is not `seen`. What the setter did before is visible after.
///
/// Call from:  any thread.
/// Errors:     -EPIPE      it is closed, and `seen` is the last generation
///             -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API WEFT_MUST_CHECK int weft_watch_wait(weft_watch *watch, uint64_t seen, weft_time deadline);

/// Prepares a future that is READY with what weft_watch_wait() returns.
WEFT_API void weft_watch_wait_future(struct weft_sync_future *future, weft_watch *watch,
                                     uint64_t seen);

WEFT_END_DECLS

#endif
