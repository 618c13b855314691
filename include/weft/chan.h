// weft/chan.h - channels: queues of items between tasks, futures and foreign threads.
//
//     weft_chan *jobs;
//     int rc = weft_chan_create(&jobs, sizeof(struct job), 16);
//
//     sender                                          receiver
//     weft_chan_send(jobs, &job, WEFT_FOREVER)        while (weft_chan_recv(&job, jobs, WEFT_FOREVER) == 0)
//     weft_chan_close(jobs)                               ...
//
// Any number may send and receive. Items are copied, in the order in which they were sent. A channel
// of capacity 0 is a rendezvous: a send returns when the item was received. Nothing is allocated but
// at creation. Calls that wait follow the rules of weft/sync.h.
//
// Other kinds: weft/oneshot.h (one value), weft/mailbox.h (no bound, one receiver), weft/broadcast.h
// (everybody gets everything), weft/watch.h (the latest value).
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_chan weft_chan;

/// Makes a channel for items of `item_bytes` bytes that keeps up to `capacity` of them.
///
/// Call from:  any thread.
/// Errors:     -ENOMEM  there is no memory
///             -EINVAL  items without bytes, or too many of them for an address space
WEFT_API WEFT_MUST_CHECK int weft_chan_create(weft_chan **chan, size_t item_bytes, size_t capacity);

/// Frees a channel and the items that are left in it. NULL is fine.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody waits to send or receive: close it first; or has a permit
WEFT_API int weft_chan_destroy(weft_chan *chan);

/// Ends sending: who sends, or waits to, gets -EPIPE. What is in the channel can still be received;
/// then receivers get -EPIPE as well. Closing again does nothing.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_chan_close(weft_chan *chan);

/// Copies the item into the channel, waiting while it is full. Items of one sender arrive in the
/// order in which they were sent. On every error the item was not sent.
///
/// Call from:  any thread.
/// Errors:     -EPIPE      the channel is closed
///             -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API WEFT_MUST_CHECK int weft_chan_send(weft_chan *chan, const void *item, weft_time deadline);

/// Moves the oldest item to `*item`, waiting while there is none. On every error none was taken and
/// `*item` is untouched.
///
/// Call from:  any thread.
/// Errors:     -EPIPE      the channel is closed and empty
///             -ETIMEDOUT, -ECANCELED, -EPERM  as weft_chan_send()
WEFT_API WEFT_MUST_CHECK int weft_chan_recv(void *item, weft_chan *chan, weft_time deadline);

/// Send and receive if that is possible at once; at capacity 0: if somebody waits on the other side.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  it would have to wait
///             -EPIPE   as above
WEFT_API WEFT_MUST_CHECK int weft_chan_try_send(weft_chan *chan, const void *item);
WEFT_API WEFT_MUST_CHECK int weft_chan_try_recv(void *item, weft_chan *chan);

/// How many items are in the channel, at some moment during the call; those that senders wait with
/// do not count.
WEFT_API size_t weft_chan_len(weft_chan *chan);
WEFT_API size_t weft_chan_capacity(const weft_chan *chan);
WEFT_API bool weft_chan_is_closed(weft_chan *chan);

/// Prepare futures that are READY with what the calls return. `item` must stay in place until then.
/// What was sent or received cannot be undone: a future that is cancelled too late is READY with 0.
WEFT_API void weft_chan_send_future(struct weft_sync_future *future, weft_chan *chan,
                                    const void *item);
WEFT_API void weft_chan_recv_future(struct weft_sync_future *future, void *item, weft_chan *chan);

// ---------------------------------------------------------------------------------------------
// Permits: room in the channel first, the item later. Who has to know that he can send before he
// makes the item, or takes it from elsewhere, reserves:
//
//     rc = weft_chan_reserve(jobs, WEFT_FOREVER);     // waits while the channel is full
//     if (rc == 0 && !make_job(&job))
//         weft_chan_abort(jobs);                      // somebody else may have the room
//     else if (rc == 0)
//         rc = weft_chan_commit(jobs, &job);          // does not wait
//
// Permits count against the capacity like items, but have no place in the order: an item has its
// own from its commit on, so others do not wait for whoever takes long. A channel has at most as
// many items and permits together as its capacity. Each permit is ended by one commit or abort, by
// any thread.

/// Takes a permit, waiting while the channel is full. Who waits here and who waits to send stand in
/// one queue.
///
/// Call from:  any thread.
/// Errors:     -EINVAL     a channel of capacity 0 has no room to keep
///             -EPIPE      the channel is closed
///             -ETIMEDOUT, -ECANCELED, -EPERM  as weft_chan_send()
WEFT_API WEFT_MUST_CHECK int weft_chan_reserve(weft_chan *chan, weft_time deadline);

/// Takes a permit if there is room.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  the channel is full
///             -EINVAL, -EPIPE  as above
WEFT_API WEFT_MUST_CHECK int weft_chan_try_reserve(weft_chan *chan);

/// Copies the item into the channel and ends the permit, also where it fails. Never waits.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EPIPE  the channel was closed in the meantime: the item was not sent
WEFT_API WEFT_MUST_CHECK int weft_chan_commit(weft_chan *chan, const void *item);

/// Ends the permit without an item.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_chan_abort(weft_chan *chan);

/// Prepares a future that is READY with 0 when it has a permit.
WEFT_API void weft_chan_reserve_future(struct weft_sync_future *future, weft_chan *chan);

WEFT_END_DECLS

#endif
