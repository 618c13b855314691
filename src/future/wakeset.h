// wakeset.h - which children of a combinator were woken. See wakeset.c.
#ifndef WEFT_FUTURE_WAKESET_H
#define WEFT_FUTURE_WAKESET_H

#include <weft/combine.h>

#include "base/base.h"
#include "base/lock.h"

struct weft__wakeset;

/// The private layout of struct weft_branch.
struct weft__member {
    struct weft_future *future; // the caller's
    // Under the set's lock.
    struct weft__member *next;
    struct weft__wakeset *set; // fixed
    bool queued;
    // The poller's.
    bool done;
};
_Static_assert(sizeof(struct weft__member) == sizeof(struct weft_branch), "public size");

struct weft__wakeset {
    struct weft__lock lock;
    // Under lock.
    uint32_t clones;            // of members' wakers
    struct weft__member *first; // to be polled
    struct weft__member *last;  // undefined while empty
    size_t count;
    weft_waker parent; // owned; zeroed: taken by a wake, or not there yet
    bool draining;     // the last clone to go wakes
};

/// Makes an empty set.
void weft__wakeset_init(struct weft__wakeset *set);

/// Has the member polled, by the poller itself.
void weft__wakeset_push(struct weft__wakeset *set, struct weft__member *member);

/// A poll begins: from now on wakes of members go to `waker`. How many members were woken before.
size_t weft__wakeset_begin(struct weft__wakeset *set, const weft_waker *waker);

/// Takes out a member to poll; there is one.
struct weft__member *weft__wakeset_pop(struct weft__wakeset *set);

/// Borrowed; for polling the member.
weft_waker weft__wakeset_waker(struct weft__member *member);

/// All members are READY. True: nothing of the set is in use any more. False: somebody still has a
/// waker, and its end will wake.
bool weft__wakeset_end(struct weft__wakeset *set);

#endif
