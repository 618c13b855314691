// hand.h - futures driven by hand: a waker that counts, a leaf that follows a script.
#ifndef WEFT_TEST_HAND_H
#define WEFT_TEST_HAND_H

#include "support/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

/// Whom a hand-made waker wakes. Clones are counted: none may be left when a future is READY.
struct hand {
    atomic_int woken;
    atomic_int clones;
};

static inline void hand_clone(weft_waker *copy, const weft_waker *waker)
{
    atomic_fetch_add(&((struct hand *)waker->data)->clones, 1);
    *copy = *waker;
}

static inline void hand_wake_by_ref(const weft_waker *waker)
{
    atomic_fetch_add(&((struct hand *)waker->data)->woken, 1);
}

static inline void hand_drop(weft_waker *waker)
{
    struct hand *hand = (struct hand *)waker->data;
    *waker = (weft_waker){ NULL, NULL };
    CHECK_GT(atomic_fetch_sub(&hand->clones, 1), 0);
}

static inline void hand_wake(weft_waker *waker)
{
    hand_wake_by_ref(waker);
    hand_drop(waker);
}

static inline weft_waker hand_waker(struct hand *hand)
{
    static const struct weft_waker_vtable vtable = {
        .clone = hand_clone,
        .wake = hand_wake,
        .wake_by_ref = hand_wake_by_ref,
        .drop = hand_drop,
    };
    return (weft_waker){ &vtable, hand };
}

static inline enum weft_poll hand_poll(struct hand *hand, struct weft_future *future)
{
    weft_waker waker = hand_waker(hand);
    atomic_store(&hand->woken, 0);
    return weft_future_poll(future, &waker);
}

/// Polls a future of scripts to its end; each poll has to be asked for by a wake.
static inline int64_t hand_drive(struct hand *hand, struct weft_future *future)
{
    while (hand_poll(hand, future) == WEFT_PENDING) {
        CHECK_GT(atomic_load(&hand->woken), 0); // or it would never be polled again
    }
    CHECK_EQ(atomic_load(&hand->clones), 0);
    return future->result;
}

/// A leaf: PENDING so many times, each time waking, then READY; likewise after a cancel.
struct script {
    struct weft_future future;
    int64_t value;
    int left;         ///< PENDING so often
    int after_cancel; ///< and so often after a cancel
    int polls;
    int cancels;
    int wakes;
    bool ready;
    bool stubborn; ///< the cancel changes nothing
    bool quiet;    ///< PENDING until cancelled or until script_wake()
    bool keeps;    ///< keeps a clone of the waker until its next poll
    weft_waker kept;
};

static inline enum weft_poll script_end(struct script *script, int64_t result)
{
    script->future.result = result;
    script->ready = true;
    return WEFT_READY;
}

static inline enum weft_poll script_poll(struct weft_future *future, weft_waker *waker)
{
    struct script *script = (struct script *)(void *)future;
    CHECK(!script->ready);
    script->polls++;
    weft_waker_drop(&script->kept);
    script->kept = (weft_waker){ NULL, NULL };
    bool cancelled = script->cancels > 0 && !script->stubborn;
    int *left = cancelled ? &script->after_cancel : &script->left;
    if (*left == 0) {
        return script_end(script, cancelled ? -ECANCELED : script->value);
    }
    --*left;
    if (script->quiet || script->keeps) {
        weft_waker_clone(&script->kept, waker);
    }
    if (!script->quiet || cancelled) {
        script->wakes++;
        weft_waker_wake_by_ref(waker);
    }
    return WEFT_PENDING;
}

/// Wakes a quiet one.
static inline void script_wake(struct script *script)
{
    script->wakes++;
    weft_waker_wake(&script->kept);
    script->kept = (weft_waker){ NULL, NULL };
}

static inline void script_cancel(struct weft_future *future)
{
    struct script *script = (struct script *)(void *)future;
    CHECK(!script->ready);
    CHECK_EQ(script->cancels, 0);
    script->cancels++;
}

static inline void script_init(struct script *script, int left, int64_t value)
{
    *script = (struct script){ .left = left, .value = value };
    weft_future_init(&script->future, script_poll, script_cancel);
}

#endif
