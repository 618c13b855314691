// weft/token.h - a tree of cancellation tokens: telling many to stop who have no scope in common.
//
//     static struct weft_token stop = WEFT_TOKEN_INIT;
//
//     weft_token_wait(&stop, WEFT_FOREVER);   // 0 as soon as somebody calls weft_token_cancel(&stop)
//
// A token is a message and no more: cancelling it interrupts nobody who does not look at it. To end
// the calls of tasks, cancel the tasks or their scope (weft/scope.h).
#ifndef WEFT_TOKEN_H
#define WEFT_TOKEN_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

/// Caller-owned; opaque; a root that is not cancelled when zeroed. Must stay in place while it has
/// children.
struct weft_token {
    uint64_t opaque[9];
};

// clang-format off
#define WEFT_TOKEN_INIT { { 0 } }
// clang-format on

/// Prepares a token: a child of `parent`, which is cancelled when that is, at once if that is
/// already; or a root (NULL). A child needs weft_token_fini() before its memory goes.
///
/// Call from:  any thread.
WEFT_API void weft_token_init(struct weft_token *token, struct weft_token *parent);

/// Ends a token and takes it away from its parent; its memory is the caller's.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  it has children, or somebody waits for it
WEFT_API int weft_token_fini(struct weft_token *token);

/// Cancels the token and all below it, and wakes who waits for them. It stays cancelled.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_token_cancel(struct weft_token *token);

/// Whether it, or one above it, was cancelled; certain once weft_token_cancel() has returned. What was
/// done before that call is visible then. Costs one load.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API bool weft_token_is_cancelled(const struct weft_token *token);

/// Waits until the token is cancelled.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled: not the token
///             -EPERM      it is not cancelled, and a future or a timer function cannot wait
WEFT_API int weft_token_wait(struct weft_token *token, weft_time deadline);

/// Prepares a future that is READY with 0 when the token is cancelled.
WEFT_API void weft_token_wait_future(struct weft_sync_future *future, struct weft_token *token);

WEFT_END_DECLS

#endif
