// weft/mailbox.h - a channel without bound: many send, and never wait; one receives.
//
//     weft_mailbox *inbox;
//     int rc = weft_mailbox_create(&inbox, sizeof(struct message), 0);
//
//     senders                              the receiver
//     weft_mailbox_send(inbox, &message)   while (weft_mailbox_recv(&message, inbox, WEFT_FOREVER) == 0)
//     weft_mailbox_close(inbox)                ...
//
// Items are copied and come in the order in which they were sent. Memory is taken in segments of
// about one KiB (at least 8 items), as many as the items need, and one at creation; up to 8 of those
// that were emptied are kept for what is sent next and the others are given back. So as long as no
// more than eight segments come and go, nothing is allocated. A receiver that is slower than its
// senders makes the mailbox grow; who cannot know that gives it a limit, or takes a weft_chan.
// Calls that wait follow the rules of weft/sync.h.
#ifndef WEFT_MAILBOX_H
#define WEFT_MAILBOX_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_mailbox weft_mailbox;

/// Makes a mailbox for items of `item_bytes` bytes, `limit` of them at most; 0: as many as there is
/// memory for.
///
/// Call from:  any thread.
/// Errors:     -ENOMEM  there is no memory
///             -EINVAL  items without bytes, or with too many
WEFT_API WEFT_MUST_CHECK int weft_mailbox_create(weft_mailbox **mailbox, size_t item_bytes,
                                                 size_t limit);

/// Frees a mailbox and the items that are left in it. NULL is fine.
///
/// Call from:  any thread.
/// Errors:     -EBUSY  somebody receives or waits to: close it first
WEFT_API int weft_mailbox_destroy(weft_mailbox *mailbox);

/// Copies the item into the mailbox. Never waits, so there is no other form of it.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EPIPE    the mailbox is closed
///             -ENOBUFS  the limit is reached
///             -ENOMEM   there is no memory for another segment
WEFT_API WEFT_MUST_CHECK int weft_mailbox_send(weft_mailbox *mailbox, const void *item);

/// Ends sending. What is in the mailbox can still be received; then the receiver gets -EPIPE.
///
/// Call from:  any thread, a future, a timer function.
WEFT_API void weft_mailbox_close(weft_mailbox *mailbox);
WEFT_API bool weft_mailbox_is_closed(weft_mailbox *mailbox);

/// Moves the oldest item to `*item`, waiting while there is none. On every error none was taken and
/// `*item` is untouched. The receiver may change, but there is one at a time.
///
/// Call from:  any thread.
/// Errors:     -EPIPE      the mailbox is closed and empty
///             -EBUSY      somebody else is receiving or waits to
///             -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EPERM      it would have to wait, and a future or a timer function cannot
WEFT_API WEFT_MUST_CHECK int weft_mailbox_recv(void *item, weft_mailbox *mailbox,
                                               weft_time deadline);

/// Receives if there is an item.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  there is none
///             -EPIPE, -EBUSY  as above
WEFT_API WEFT_MUST_CHECK int weft_mailbox_try_recv(void *item, weft_mailbox *mailbox);

/// How many items are in the mailbox, at some moment during the call.
WEFT_API size_t weft_mailbox_len(weft_mailbox *mailbox);

/// Prepares a future that is READY with what weft_mailbox_recv() returns. `item` must stay in place
/// until then. A future that is cancelled too late is READY with its item.
WEFT_API void weft_mailbox_recv_future(struct weft_sync_future *future, void *item,
                                       weft_mailbox *mailbox);

WEFT_END_DECLS

#endif
