// weft/broadcast.h - every receiver gets every item, from when it has subscribed.
//
//     weft_broadcast *news;
//     int rc = weft_broadcast_create(&news, sizeof(struct item), 64);
//
//     sender                               receiver
//                                          struct weft_broadcast_receiver mine;
//                                          weft_broadcast_subscribe(&mine, news);
//     weft_broadcast_send(news, &item)     while ((rc = weft_broadcast_recv(&item, &mine, until)) >= 0)
//     weft_broadcast_close(news)               ... rc items were missed before this one
//                                          weft_broadcast_unsubscribe(&mine);
//
// The last `capacity` items are kept. A sender never waits: a receiver that falls behind by more
// than that misses the oldest, learns how many, and goes on with the oldest that is kept. Nothing is
// allocated but at creation. Calls that wait follow the rules of weft/sync.h.
#ifndef WEFT_BROADCAST_H
#define WEFT_BROADCAST_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_broadcast weft_broadcast;

/// A subscription: where one receiver is. Caller-owned; opaque; must stay in place from subscribing
/// to unsubscribing. One thread or future receives with it at a time.
struct weft_broadcast_receiver {
    uint64_t opaque[4];
};

/// Makes a broadcast channel for items of `item_bytes` bytes that keeps the last `capacity` of them.
///
/// Call from:  any thread.
/// Errors:     -ENOMEM  there is no memory
///             -EINVAL  items without bytes, no capacity, or too much for an address space
WEFT_API WEFT_MUST_CHECK int weft_broadcast_create(weft_broadcast **broadcast, size_t item_bytes,
                                                   size_t capacity);

/// Frees it. NULL is fine.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody is subscribed
WEFT_API int weft_broadcast_destroy(weft_broadcast *broadcast);

/// Subscribes: the receiver gets what is sent from now on.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_broadcast_subscribe(struct weft_broadcast_receiver *receiver,
                                       weft_broadcast *broadcast);

/// Ends the subscription; the receiver's memory is the caller's.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EBUSY  somebody waits with it
WEFT_API int weft_broadcast_unsubscribe(struct weft_broadcast_receiver *receiver);

/// Copies the item to all. Never waits.
///
/// Call from:  any thread, a future, a timer function.
/// Returns:    how many are subscribed
/// Errors:     -EPIPE  it is closed
WEFT_API int weft_broadcast_send(weft_broadcast *broadcast, const void *item);

/// Ends sending. Receivers get what is kept, and then -EPIPE.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_broadcast_close(weft_broadcast *broadcast);
WEFT_API bool weft_broadcast_is_closed(weft_broadcast *broadcast);

/// Copies the receiver's next item to `*item`, waiting while there is none. On every error `*item` is
/// untouched.
///
/// Call from:  any thread.
/// Returns:    how many items it has missed before this one, because it was too slow; mostly 0
/// Errors:     -EPIPE      the channel is closed, and there is nothing left for this receiver
///             -EBUSY      somebody else waits with this receiver
///             -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API WEFT_MUST_CHECK int weft_broadcast_recv(void *item,
                                                 struct weft_broadcast_receiver *receiver,
                                                 weft_time deadline);

/// Receives if there is an item.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  there is none
///             -EPIPE, -EBUSY  as above
WEFT_API WEFT_MUST_CHECK int weft_broadcast_try_recv(void *item,
                                                     struct weft_broadcast_receiver *receiver);

/// How many items the receiver could still get, not counting what it has missed.
WEFT_API size_t weft_broadcast_len(struct weft_broadcast_receiver *receiver);

/// Prepares a future that is READY with what weft_broadcast_recv() returns. `item` must stay in
/// place until then. A future that is cancelled too late is READY with its item.
WEFT_API void weft_broadcast_recv_future(struct weft_sync_future *future, void *item,
                                         struct weft_broadcast_receiver *receiver);

WEFT_END_DECLS

#endif
