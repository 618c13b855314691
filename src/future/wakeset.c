// wakeset.c - a waker for each child of a combinator, in the combinator's own storage.
//
// The danger: wakers are copied, and used by other threads at any time. One that points into storage
// that its owner has freed writes into somebody else's memory; and a child that is woken while the
// combinator is between two polls must not be forgotten.
//
//     a child's waker                         the combinator's poll
//     lock                                    clone the parent's waker
//     not queued: append the child,           lock, put the parent's waker in, count, unlock
//       take the parent's waker               for each that was counted:
//     unlock                                    lock, take it out, unlock
//     wake the parent, if it was taken          poll it
//
//   K1  The parent's waker is in place before the queue is looked at. So a child that is appended
//       later finds it, and one that was appended before is counted.
//   K2  Whoever finds the child queued wakes nobody: the one who appended it has, or the poller has
//       appended it himself and will not return before he has taken it out or woken himself.
//   K3  Every clone of a child's waker is counted. The combinator is READY only when there are none;
//       the last one to go wakes it. So storage that was freed is in nobody's waker.
//   K4  Releasing the lock is the last touch of a clone that ends (base/lock.h, L1); the parent's waker
//       was copied out before.
//   K5  No foreign code is called under the lock: neither a parent's clone, wake or drop.
//
// Rejected: a bitmap of atomic words (K3 needs a count that is changed together with it, or the last
// touch cannot be told); passing the parent's waker on (every wake would poll all children).
// Locks: wakeset.lock, alone. Checked by: tests/model/wakeset_model.c, tests/api/combine_test.c.
#include "future/wakeset.h"

#include "base/assert.h"

static weft_waker take_parent(struct weft__wakeset *set)
{
    weft_waker parent = set->parent;
    set->parent = (weft_waker){ NULL, NULL };
    return parent;
}

/// False if it stands there already.
static bool append(struct weft__wakeset *set, struct weft__member *member)
{
    if (member->queued) {
        return false;
    }
    member->queued = true;
    member->next = NULL;
    *(set->first != NULL ? &set->last->next : &set->first) = member;
    set->last = member;
    set->count++;
    return true;
}

static void sub_clone(weft_waker *copy, const weft_waker *waker)
{
    struct weft__member *member = waker->data;
    struct weft__wakeset *set = member->set;
    weft__lock_acquire(&set->lock);
    weft_assert(set->clones < UINT32_MAX);
    set->clones++;
    weft__lock_release(&set->lock);
    *copy = *waker;
}

/// Ends `ended` clones and wakes the child if it is to be woken.
static void sub_end(struct weft__member *member, uint32_t ended, bool woken)
{
    struct weft__wakeset *set = member->set;
    weft_waker parent = { NULL, NULL };
    weft__lock_acquire(&set->lock);
    set->clones -= ended;
    bool appended = woken && append(set, member);
    if (appended || (set->clones == 0 && set->draining)) {
        parent = take_parent(set);
    }
    weft__lock_release(&set->lock);
    weft_waker_wake(&parent);
}

static void sub_wake_by_ref(const weft_waker *waker)
{
    sub_end(waker->data, 0, true);
}

static void sub_wake(weft_waker *waker)
{
    struct weft__member *member = waker->data;
    *waker = (weft_waker){ NULL, NULL };
    sub_end(member, 1, true);
}

static void sub_drop(weft_waker *waker)
{
    struct weft__member *member = waker->data;
    *waker = (weft_waker){ NULL, NULL };
    sub_end(member, 1, false);
}

static const struct weft_waker_vtable vtable = {
    .clone = sub_clone,
    .wake = sub_wake,
    .wake_by_ref = sub_wake_by_ref,
    .drop = sub_drop,
};

weft_waker weft__wakeset_waker(struct weft__member *member)
{
    return (weft_waker){ &vtable, member };
}

void weft__wakeset_init(struct weft__wakeset *set)
{
    *set = (struct weft__wakeset){ .clones = 0 };
}

void weft__wakeset_push(struct weft__wakeset *set, struct weft__member *member)
{
    weft__lock_acquire(&set->lock);
    (void)append(set, member);
    weft__lock_release(&set->lock);
}

size_t weft__wakeset_begin(struct weft__wakeset *set, const weft_waker *waker)
{
    weft_waker spare = { NULL, NULL };
    weft__lock_acquire(&set->lock);
    bool same = set->parent.vtable == waker->vtable && set->parent.data == waker->data;
    size_t count = set->count;
    weft__lock_release(&set->lock);
    if (same) {
        return count;
    }
    weft_waker_clone(&spare, waker); // K5
    weft__lock_acquire(&set->lock);
    weft_waker old = set->parent;
    set->parent = spare;
    count = set->count;
    weft__lock_release(&set->lock);
    weft_waker_drop(&old);
    return count;
}

struct weft__member *weft__wakeset_pop(struct weft__wakeset *set)
{
    weft__lock_acquire(&set->lock);
    struct weft__member *member = set->first;
    set->first = member->next;
    set->count--;
    member->queued = false;
    weft__lock_release(&set->lock);
    return member;
}

bool weft__wakeset_end(struct weft__wakeset *set)
{
    weft_waker parent = { NULL, NULL };
    weft__lock_acquire(&set->lock);
    bool over = set->clones == 0;
    set->draining = !over;
    if (over) {
        parent = take_parent(set);
    }
    weft__lock_release(&set->lock);
    weft_waker_drop(&parent);
    return over;
}
