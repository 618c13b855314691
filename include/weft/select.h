// weft/select.h - waiting for the first of several things.
//
//     struct weft_case cases[] = {
//         weft_case_recv(jobs, &job),
//         weft_case_send(results, &result),
//         weft_case_token(&stop),
//     };
//     switch (weft_select(cases, 3, weft_after(1 * WEFT_S))) {
//     case 0: ...           // a job was received: cases[0].result is 0, or -EPIPE if jobs is closed
//     case 1: ...           // the result was sent, or cases[1].result is -EPIPE
//     case 2: ...           // told to stop
//     case -ETIMEDOUT: ...
//     }
//
// Exactly one case is committed, which means that it has done what the call of its name does; the
// others have done nothing at all. If several can be committed at once, each of them has the same
// chance. A select that has committed a case returns it, even if its deadline passes or its task is
// cancelled in the same moment.
//
// A case is committed as soon as the call of its name would return, also with an error: a closed
// channel is ready and says -EPIPE, every time. To leave a case out, for instance because its channel
// is closed, make it with NULL (or -1, or WEFT_FOREVER): it is never ready then, as weft_case_none().
//
// Anything may stand in several cases of one select, and in several selects. A select never meets
// itself: sending and receiving on the same channel of capacity 0 waits for somebody else. Two selects
// meet like any sender and receiver.
//
// Cases are caller-owned memory. They must stay in place and be left alone while they are selected
// from, may be used again afterwards as they are, and are all the memory that a select needs: nothing
// is allocated.
#ifndef WEFT_SELECT_H
#define WEFT_SELECT_H

#include <weft/broadcast.h>
#include <weft/chan.h>
#include <weft/future.h>
#include <weft/mailbox.h>
#include <weft/notify.h>
#include <weft/oneshot.h>
#include <weft/semaphore.h>
#include <weft/sync.h>
#include <weft/task.h>
#include <weft/time.h>
#include <weft/token.h>
#include <weft/watch.h>

WEFT_BEGIN_DECLS

/// So many cases at most.
#define WEFT_SELECT_MAX 1024

/// One of the things that a select waits for. Made by the functions below.
struct weft_case {
    int64_t result; ///< once it was committed: what the call of its name would have returned
    uint64_t opaque[23];
};

/// Never ready.
WEFT_API struct weft_case weft_case_none(void);

/// weft_chan_recv(): moves the oldest item to `*item`, which is touched only if this is committed.
WEFT_API struct weft_case weft_case_recv(weft_chan *chan, void *item);

/// weft_chan_send(): copies `*item`, at the moment at which it is committed.
WEFT_API struct weft_case weft_case_send(weft_chan *chan, const void *item);

/// weft_chan_reserve(): takes a permit to send one item.
WEFT_API struct weft_case weft_case_reserve(weft_chan *chan);

/// weft_mailbox_recv(): moves the oldest item to `*item`.
WEFT_API struct weft_case weft_case_mailbox(weft_mailbox *mailbox, void *item);

/// weft_broadcast_recv(): copies the next item to `*item`. `result` is how many were missed.
WEFT_API struct weft_case weft_case_broadcast(struct weft_broadcast_receiver *receiver, void *item);

/// weft_watch_wait(): ready when the value is another one than that of generation `seen`.
WEFT_API struct weft_case weft_case_watch(weft_watch *watch, uint64_t seen);

/// weft_oneshot_recv(): moves the value to `*value`.
WEFT_API struct weft_case weft_case_oneshot(struct weft_oneshot *oneshot, void *value);

/// weft_oneshot_wait_closed(): ready when nobody wants the value any more.
WEFT_API struct weft_case weft_case_oneshot_closed(struct weft_oneshot *oneshot);

/// weft_token_wait(): ready when the token is cancelled.
WEFT_API struct weft_case weft_case_token(struct weft_token *token);

/// weft_event_wait(): ready while the event is on.
WEFT_API struct weft_case weft_case_event(struct weft_event *event);

/// weft_notify_wait(): takes the permit, or is notified.
WEFT_API struct weft_case weft_case_notify(struct weft_notify *notify);

/// weft_semaphore_acquire(). Among cases for the same semaphore those that were first in the array may
/// hold up the later ones, as any waiter does who wants more.
WEFT_API struct weft_case weft_case_semaphore(struct weft_semaphore *semaphore, uint64_t count);

/// Ready from `when` on.
WEFT_API struct weft_case weft_case_time(weft_time when);

/// weft_join(): ready when the task has ended. `result` is the task's, and the handle is given back:
/// afterwards the case is never ready. If another case was committed the handle is still the caller's.
WEFT_API struct weft_case weft_case_join(weft_task *task);

/// weft_poll(): ready when one of `events` has come, or an error or hang-up. `result` is what has, or a
/// negative errno. Only in virtual threads, and in futures that are polled by a task, on one carrier;
/// elsewhere the select says -EPERM. Where another case is committed the driver is told to forget the
/// descriptor, and the select returns when it has.
WEFT_API struct weft_case weft_case_fd(int fd, int events);

/// Commits one of the cases and returns its index, waiting until one can be. A deadline in the past
/// commits what is ready. With no case that can ever be ready it waits for the deadline and for
/// being cancelled.
///
/// Call from:  any thread.
/// Errors:     -ETIMEDOUT  `deadline` passed
///             -ECANCELED  the task or a scope around it was cancelled
///             -EINVAL     more than WEFT_SELECT_MAX cases
///             -EDEADLK    it would wait for its own end, or a foreign thread for nothing at all
///             -EPERM      it would have to wait, and a future or a timer function cannot; or a case
///                         needs a virtual thread
///             -ENOTSUP, -ESRCH  as weft_join()
/// After an error no case was committed.
WEFT_API WEFT_MUST_CHECK int weft_select(struct weft_case *cases, size_t count, weft_time deadline);

/// The same without waiting, for which other languages have a default case. Each case was not ready
/// at some moment of the call. With descriptors it lets others run, to hear from the driver.
///
/// Call from:  any thread, a future, a timer function.
/// Errors:     -EAGAIN  no case is ready
///             and as weft_select() but for -ETIMEDOUT
WEFT_API WEFT_MUST_CHECK int weft_select_try(struct weft_case *cases, size_t count);

/// A select as a future; await, spawn or poll `&selection.future`. Caller-owned. From the first poll
/// until READY it and its cases must stay in place.
struct weft_selection {
    struct weft_future future;
    uint64_t opaque[58];
};

/// Prepares a future that is READY with what weft_select() returns. A case that was committed cannot be
/// undone: a future that is cancelled too late is READY with its index.
WEFT_API void weft_select_future(struct weft_selection *selection, struct weft_case *cases,
                                 size_t count);

WEFT_END_DECLS

#endif
