// combine.c - join, try-join, race and select: futures over any number of others.
//
// They differ in what decides. What is decided once has the children that are left cancelled; then
// all are polled to their end. A child that was cancelled need not wake, so it is queued.
#include <errno.h>

#include "base/assert.h"
#include "future/wakeset.h"

/// Children that one poll polls at most.
#define MOST_POLLS WEFT__SIZED(128, 3)

#define NOBODY SIZE_MAX

enum mode { JOIN, TRY_JOIN, RACE, SELECT };

struct combine {
    struct weft_future future;
    struct weft__wakeset set;
    struct weft__member *members;
    size_t count;
    size_t live;     // not READY yet
    size_t chosen;   // the first that failed of a try-join, the winner of a race
    uint32_t failed; // how many
    uint8_t mode;    // enum mode
    bool cancelled;  // the whole was
    bool hit;        // and a child has ended with -ECANCELED since
};
_Static_assert(sizeof(struct combine) <= sizeof(struct weft_combine), "public size");

static struct combine *of(struct weft_future *future)
{
    return weft__container_of(future, struct combine, future);
}

static void cancel_rest(struct combine *combine)
{
    for (size_t i = 0; i < combine->count; i++) {
        struct weft__member *member = &combine->members[i];
        if (!member->done) {
            weft__wakeset_push(&combine->set, member); // first: then its own wake finds it there
            weft_future_cancel(member->future);
        }
    }
}

/// Takes note of a child's end. True: that decides, and the others are to be cancelled.
static bool child_ended(struct combine *combine, struct weft__member *member)
{
    int64_t result = member->future->result;
    bool hit = combine->cancelled && result == -ECANCELED;
    member->done = true;
    combine->live--;
    combine->failed += result < 0 && combine->failed < INT32_MAX;
    combine->hit = combine->hit || hit;
    bool chooses = combine->mode == TRY_JOIN ? result < 0 : combine->mode != JOIN && !hit;
    if (!chooses || combine->chosen != NOBODY) {
        return false;
    }
    combine->chosen = (size_t)(member - combine->members);
    return combine->live > 0;
}

static int64_t verdict(const struct combine *combine)
{
    size_t chosen = combine->chosen;
    switch ((enum mode)combine->mode) {
    case JOIN: return combine->hit ? -ECANCELED : (int64_t)combine->failed;
    case TRY_JOIN: return chosen == NOBODY ? 0 : combine->members[chosen].future->result;
    case RACE:
    case SELECT: break;
    }
    if (combine->count == 0) {
        return -EINVAL;
    }
    if (chosen == NOBODY) {
        return -ECANCELED;
    }
    return combine->mode == SELECT ? (int64_t)chosen : combine->members[chosen].future->result;
}

static bool poll_member(struct combine *combine, struct weft__member *member)
{
    weft_waker waker = weft__wakeset_waker(member);
    return !member->done && weft_future_poll(member->future, &waker) == WEFT_READY &&
           child_ended(combine, member);
}

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct combine *combine = of(future);
    size_t woken = weft__wakeset_begin(&combine->set, waker);
    for (int polls = 0; woken > 0; polls++, woken--) {
        if (polls == MOST_POLLS) {
            weft_waker_wake_by_ref(waker);
            return WEFT_PENDING;
        }
        if (poll_member(combine, weft__wakeset_pop(&combine->set))) {
            cancel_rest(combine);
            woken = weft__wakeset_begin(&combine->set, waker) + 1;
        }
    }
    if (combine->live > 0 || !weft__wakeset_end(&combine->set)) {
        return WEFT_PENDING;
    }
    future->result = verdict(combine);
    return WEFT_READY;
}

static void cancel(struct weft_future *future)
{
    struct combine *combine = of(future);
    combine->cancelled = true;
    cancel_rest(combine);
}

static void init(struct weft_combine *public_combine, struct weft_branch *branches, size_t count,
                 enum mode mode)
{
    struct combine *combine = (struct combine *)(void *)public_combine;
    *combine = (struct combine){
        .members = (struct weft__member *)(void *)branches,
        .count = count,
        .live = count,
        .chosen = NOBODY,
        .mode = (uint8_t)mode,
    };
    weft_future_init(&combine->future, poll, cancel);
    weft__wakeset_init(&combine->set);
    for (size_t i = 0; i < count; i++) {
        struct weft__member *member = &combine->members[i];
        *member = (struct weft__member){ .future = branches[i].future, .set = &combine->set };
        weft__wakeset_push(&combine->set, member);
    }
}

void weft_combine_join(struct weft_combine *combine, struct weft_branch *branches, size_t count)
{
    init(combine, branches, count, JOIN);
}

void weft_combine_try_join(struct weft_combine *combine, struct weft_branch *branches, size_t count)
{
    init(combine, branches, count, TRY_JOIN);
}

void weft_combine_race(struct weft_combine *combine, struct weft_branch *branches, size_t count)
{
    init(combine, branches, count, RACE);
}

void weft_combine_select(struct weft_combine *combine, struct weft_branch *branches, size_t count)
{
    init(combine, branches, count, SELECT);
}
