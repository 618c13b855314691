// weft/once.h - doing something once: once (a function), once-cell (a value).
//
//     static struct weft_once once = WEFT_ONCE_INIT;
//
//     int rc = weft_once_call(&once, connect_to_database, &config, WEFT_FOREVER);
//
// The initialiser may block, and the others wait for it. It may fail: then its caller gets the error,
// and the next one who waits, or comes, tries again with his own.
#ifndef WEFT_ONCE_H
#define WEFT_ONCE_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

/// Caller-owned; opaque; not done when zeroed.
struct weft_once {
    uint64_t opaque[4];
};

// clang-format off
#define WEFT_ONCE_INIT { { 0 } }
// clang-format on

/// Prepares one that is not done.
WEFT_API void weft_once_init(struct weft_once *once);

/// Ends it, done or not; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  it is being done, or somebody waits
WEFT_API int weft_once_fini(struct weft_once *once);

/// What the first word is when it is done; private, but for the function below.
#define WEFT_ONCE__DONE UINT64_C(2)

/// Whether it is done. What was done before is visible then. Inline, because programs ask in front of
/// every use of what was made.
///
/// Call from:  anywhere.
static inline bool weft_once_is_done(const struct weft_once *once)
{
    return __atomic_load_n(&once->opaque[0], __ATOMIC_ACQUIRE) == WEFT_ONCE__DONE;
}

/// Calls `fn(arg)`, unless it is done already; waits while somebody else does it. A negative result
/// of `fn` means failure. Calling it for the same once from inside `fn` waits for itself.
///
/// Call from:  any thread.
/// Errors:     what `fn` returned, if this call was the one to call it
///             -ETIMEDOUT  `deadline` passed while another one did it
///             -ECANCELED  the task or a scope around it was cancelled; not if it is done already
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API WEFT_MUST_CHECK int weft_once_call(struct weft_once *once, weft_fn fn, void *arg,
                                            weft_time deadline);

/// The same in two halves, for initialisers that are not one function. Returns 0 if it is done, or 1
/// if it is the caller's to do: weft_once_end() has to follow.
///
/// Call from:  any thread.
/// Errors:     as weft_once_call()
WEFT_API WEFT_MUST_CHECK int weft_once_begin(struct weft_once *once, weft_time deadline);

/// The second half: 0 or more means done, a negative `result` that it has failed.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_once_end(struct weft_once *once, int result);

/// Prepares a future that is READY with what weft_once_begin() returns.
WEFT_API void weft_once_begin_future(struct weft_sync_future *future, struct weft_once *once);

// ---------------------------------------------------------------------------------------------
// Once-cells: a pointer that is set once. What it points to is the caller's.

/// Caller-owned; opaque; empty when zeroed.
struct weft_once_cell {
    struct weft_once once;
    void *value;
};

// clang-format off
#define WEFT_ONCE_CELL_INIT { WEFT_ONCE_INIT, NULL }
// clang-format on

/// Makes a value; a negative result means failure.
typedef int (*weft_cell_fn)(void **value, void *arg);

/// Prepares an empty cell.
WEFT_API void weft_once_cell_init(struct weft_once_cell *cell);

/// Ends a cell; its memory, and the value, are the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody makes the value, or waits
WEFT_API int weft_once_cell_fini(struct weft_once_cell *cell);

/// True and the value in `*value`, or false and NULL if the cell is empty.
///
/// Call from:  any thread, a future, a timer function.
static inline bool weft_once_cell_get(void **value, const struct weft_once_cell *cell)
{
    bool done = weft_once_is_done(&cell->once);
    *value = done ? cell->value : NULL;
    return done;
}

/// Fills an empty cell.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EEXIST  it has a value
///             -EAGAIN  somebody is making one
WEFT_API WEFT_MUST_CHECK int weft_once_cell_set(struct weft_once_cell *cell, void *value);

/// Stores the cell's value in `*value`, made with `fn(&value, arg)` if the cell is empty; waits while
/// somebody else makes it. `*value` is NULL after an error.
///
/// Call from:  any thread.
/// Errors:     as weft_once_call()
WEFT_API WEFT_MUST_CHECK int weft_once_cell_get_or_init(void **value, struct weft_once_cell *cell,
                                                        weft_cell_fn fn, void *arg,
                                                        weft_time deadline);

/// Prepares a future that is READY with 0 when the cell has a value, or with 1 if it is the caller's
/// to make one and say weft_once_cell_end().
WEFT_API void weft_once_cell_begin_future(struct weft_sync_future *future,
                                          struct weft_once_cell *cell);

/// Fills the cell that the caller was told to fill, or leaves it empty if `result` is negative.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_once_cell_end(struct weft_once_cell *cell, void *value, int result);

WEFT_END_DECLS

#endif
