// weft/oneshot.h - one value from one sender to one receiver: the answer to a question.
//
//     struct request { ...; struct weft_oneshot answer; };
//
//     int value;
//     weft_oneshot_init(&request.answer, &value, sizeof value);
//     ask(&request);                                         // whoever is asked:
//     rc = weft_oneshot_recv(NULL, &request.answer, until);  //     weft_oneshot_send(&r->answer, &v)
//
// Caller-owned memory; nothing is allocated. Both sides may give up by closing: a sender that has no
// value, and a receiver that wants none any more. The memory must stay until neither uses it: who has
// received knows that the sender is through, but a receiver that gives up has to find that out
// (weft_join() and the like), and must leave the storage alone until then.
// Calls that wait follow the rules of weft/sync.h.
#ifndef WEFT_ONESHOT_H
#define WEFT_ONESHOT_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

/// Caller-owned; opaque.
struct weft_oneshot {
    uint64_t opaque[8];
};

/// Prepares a oneshot for a value of `value_bytes` bytes, which is kept in `storage` until it is
/// received; the storage must live as long as the oneshot. 0 and NULL: the value is that it was sent.
WEFT_API void weft_oneshot_init(struct weft_oneshot *oneshot, void *storage, size_t value_bytes);

/// Ends it; its memory is the caller's. A receiver that a value was sent to uses the oneshot until its
/// call returns: end it only after that.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody waits
WEFT_API int weft_oneshot_fini(struct weft_oneshot *oneshot);

/// Sends the value. Never waits. There is one sender at a time.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EALREADY  a value was sent before
///             -EPIPE     it is closed: nobody will have the value
WEFT_API WEFT_MUST_CHECK int weft_oneshot_send(struct weft_oneshot *oneshot, const void *value);

/// Gives up, on either side: a receiver that waits gets -EPIPE, and so does who sends later. A value
/// that was sent before can still be received. Closing again does nothing.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_oneshot_close(struct weft_oneshot *oneshot);

/// Waits for the value and copies it to `*value`; it is in the storage as well, so `value` may be
/// NULL. On every error it was not received.
///
/// Call from:  any thread.
/// Errors:     -EPIPE      it was closed without a value, or the value was received before
///             -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API WEFT_MUST_CHECK int weft_oneshot_recv(void *value, struct weft_oneshot *oneshot,
                                               weft_time deadline);

/// Receives the value if it is there.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  not yet
///             -EPIPE   as above
WEFT_API WEFT_MUST_CHECK int weft_oneshot_try_recv(void *value, struct weft_oneshot *oneshot);

/// For a sender that works on the value: waits until nobody needs it any more, because it was closed
/// or received.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT, -ECANCELED, -EPERM  as weft_oneshot_recv()
WEFT_API WEFT_MUST_CHECK int weft_oneshot_wait_closed(struct weft_oneshot *oneshot,
                                                      weft_time deadline);
WEFT_API bool weft_oneshot_is_closed(struct weft_oneshot *oneshot);

/// Prepare futures that are READY with what the calls return. A value that was received cannot be
/// given back: a future that is cancelled too late is READY with 0.
WEFT_API void weft_oneshot_recv_future(struct weft_sync_future *future, void *value,
                                       struct weft_oneshot *oneshot);
WEFT_API void weft_oneshot_wait_closed_future(struct weft_sync_future *future,
                                              struct weft_oneshot *oneshot);

WEFT_END_DECLS

#endif
