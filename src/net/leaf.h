// leaf.h - leaf futures of what belongs to one carrier: connections, listeners, message sockets.
//
// The danger: such a thing has no lock, so only its carrier's thread may touch it; but a future may be
// polled and cancelled from anywhere, and its storage goes when it is READY.
//
//     poll, cancel: the owner                  the carrier's thread
//     begin: here, or -EXDEV                   something has come: looks for itself, and ends it or
//     ended? READY                             waits on
//     cancel: here: withdraw                   request: withdraws, if it still waits
//             elsewhere: request, to the inbox
//
//   E1  What a leaf waits for is looked at on the carrier's thread only, by the completion that announces
//       it. The owner learns of the end by the bell (task/bell.h), and of nothing else.
//   E2  The bell is rung when the leaf has ended and no request is on its way to it. Releasing its lock is
//       the carrier's last touch.
//   E3  One request at most is sent, while the leaf has not ended: that of a cancel.
//   E4  A cancel ends it at once, unless an op has its memory: then that is asked to end.
//   E5  A leaf that has ended has left what it waited for, which may be freed from then on.
//   E6  Who polls it first is tied to the carrier, as whoever calls: what it brings is to be used there.
//
// Locks: the bell's, alone. Checked by: tests/api/conn_future_test.c, tests/api/dgram_future_test.c.
#ifndef WEFT_NET_LEAF_H
#define WEFT_NET_LEAF_H

#include <limits.h>

#include "sched/carrier.h"
#include "task/bell.h"

/// Not a result: what is asked for is not there yet, and will be announced.
#define WEFT__LEAF_WAITS INT_MIN
/// Not a result: it has to be asked again, elsewhere.
#define WEFT__LEAF_AGAIN (INT_MIN + 1)

struct weft__leaf {
    struct weft_future future;

    // Fixed.
    /// On the carrier, by the owner: the result, or WAITS: it ends by weft__leaf_end(). Or AGAIN.
    int64_t (*begin)(struct weft__leaf *leaf);
    /// On the carrier, while it waits: ends it, now or soon.
    void (*withdraw)(struct weft__leaf *leaf);

    struct weft__request request;  // in the carrier's inbox while `queued`
    struct weft__carrier *carrier; // set by begin(), fixed while it waits
    uint8_t phase;                 // the owner's
    bool cancelled;                // likewise

    struct weft__bell bell;
    // Under the bell's lock. `ended` is written by the carrier only, which reads it without.
    bool ended;
    bool queued;
};

/// Prepares the future.
void weft__leaf_init(struct weft__leaf *leaf, int64_t (*begin)(struct weft__leaf *leaf),
                     void (*withdraw)(struct weft__leaf *leaf));

/// For begin(): whether the running task may use what belongs to `carrier`. 0, -EXDEV, -EPERM.
int weft__leaf_enter(struct weft__leaf *leaf, struct weft__carrier *carrier);

/// The same for who makes something new, which is to belong to the running task's carrier; not to the spare
/// one, which a task leaves first: AGAIN.
int weft__leaf_enter_here(struct weft__leaf *leaf);

/// It has what it waited for, or never will. On its carrier; its storage may be gone afterwards.
void weft__leaf_end(struct weft__leaf *leaf, int64_t result);

#endif
