// wakeset_model.c - children of a combinator that are woken while it is polled (future/wakeset.c, K1 to
// K5; future/combine.c).
//
// The combinator and its branches are in the poller's frame and die when it is READY: a waker that is
// used later touches dead memory. A forgotten wake leaves the poller asleep. What a child brings is
// plain, so the wake has to order it.
//
// Sources: future/combine.c future/wakeset.c
// Headers: base/lock.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/combine.h>

#include "mc.h"
#include "stage_sync.h"

// A leaf in two steps at most. Its completer and the poller meet under its lock.
struct leaf {
    struct weft_future future;
    struct weft__lock lock;
    // Under lock.
    int left; // steps of the completer
    bool cancelled;
    weft_waker waker;
    int brought; // plain: the completer's, then the poller's
};

static struct leaf leaves[2];
static struct stage_wakeup wakeup;

enum weft_poll weft_future_poll(struct weft_future *future, weft_waker *waker)
{
    return future->poll(future, waker);
}

void weft_future_cancel(struct weft_future *future)
{
    future->cancel(future);
}

static enum weft_poll leaf_poll(struct weft_future *future, weft_waker *waker)
{
    struct leaf *leaf = (struct leaf *)(void *)future;
    weft_waker spare;
    weft_waker_clone(&spare, waker);
    weft__lock_acquire(&leaf->lock);
    bool over = leaf->left == 0 || leaf->cancelled;
    if (!over) {
        weft_waker old = leaf->waker;
        leaf->waker = spare;
        spare = old;
    }
    bool done = leaf->left == 0;
    weft__lock_release(&leaf->lock);
    weft_waker_drop(&spare);
    future->result = done ? leaf->brought : -ECANCELED;
    return over ? WEFT_READY : WEFT_PENDING;
}

// The waker is dropped by a cancel, unless the completer has it.
static void leaf_cancel(struct weft_future *future)
{
    struct leaf *leaf = (struct leaf *)(void *)future;
    weft_waker waker = { NULL, NULL };
    weft__lock_acquire(&leaf->lock);
    leaf->cancelled = true;
    waker = leaf->waker;
    leaf->waker = (weft_waker){ NULL, NULL };
    weft__lock_release(&leaf->lock);
    weft_waker_drop(&waker);
}

// Nobody has to be woken for a leaf that was cancelled meanwhile.
static void let_know(struct leaf *leaf, weft_waker *waker)
{
    weft__lock_acquire(&leaf->lock);
    bool cancelled = leaf->cancelled;
    weft__lock_release(&leaf->lock);
    if (cancelled) {
        weft_waker_drop(waker);
    } else {
        weft_waker_wake(waker);
    }
}

static void complete(void *leaf_arg)
{
    struct leaf *leaf = leaf_arg;
    for (bool over = false; !over;) {
        weft__lock_acquire(&leaf->lock);
        over = --leaf->left == 0;
        if (over) {
            leaf->brought++;
        }
        weft_waker waker = leaf->waker;
        leaf->waker = (weft_waker){ NULL, NULL };
        weft__lock_release(&leaf->lock);
        let_know(leaf, &waker);
    }
}

static __attribute__((noinline)) int64_t combined(void (*init)(struct weft_combine *,
                                                               struct weft_branch *, size_t),
                                                  size_t count)
{
    struct weft_combine combine;
    struct weft_branch branches[2] = { { .future = &leaves[0].future },
                                       { .future = &leaves[1].future } };
    weft_waker waker = stage_sync_waker(&wakeup);
    init(&combine, branches, count);
    while (combine.future.poll(&combine.future, &waker) == WEFT_PENDING) {
        stage_sync_sleep(&wakeup);
    }
    return combine.future.result;
}

static void join_both(void *unused)
{
    (void)unused;
    mc_assert(combined(weft_combine_join, 2) == 0);
    mc_assert(leaves[0].future.result == 1 && leaves[1].future.result == 1);
}

static void race_both(void *unused)
{
    (void)unused;
    mc_assert(combined(weft_combine_race, 2) == 1);
}

static void join_one(void *unused)
{
    (void)unused;
    mc_assert(combined(weft_combine_join, 1) == 0);
    mc_assert(leaves[0].future.result == 1);
}

// A race in a join: the inner one's waker is a child's.
static __attribute__((noinline)) void nest(void)
{
    struct weft_combine outer;
    struct weft_combine inner;
    struct weft_branch inside[2] = { { .future = &leaves[0].future },
                                     { .future = &leaves[1].future } };
    struct weft_branch outside[1] = { { .future = &inner.future } };
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_combine_race(&inner, inside, 2);
    weft_combine_join(&outer, outside, 1);
    while (outer.future.poll(&outer.future, &waker) == WEFT_PENDING) {
        stage_sync_sleep(&wakeup);
    }
    mc_assert(outer.future.result == 0 && inner.future.result == 1);
}

static void nested(void *unused)
{
    (void)unused;
    nest();
}

static void reset(int steps)
{
    stage_sync_init();
    atomic_init(&wakeup.woken, 0);
    for (int i = 0; i < 2; i++) {
        leaves[i] = (struct leaf){ .left = steps };
        weft_future_init(&leaves[i].future, leaf_poll, leaf_cancel);
    }
    mc_name(leaves, sizeof leaves, "leaves");
}

static void two_children(void)
{
    reset(1);
    mc_thread(join_both, NULL);
    mc_thread(complete, &leaves[0]);
    mc_thread(complete, &leaves[1]);
}

static void one_loses(void)
{
    reset(1);
    mc_thread(race_both, NULL);
    mc_thread(complete, &leaves[0]);
    mc_thread(complete, &leaves[1]);
}

static void woken_twice(void)
{
    reset(2);
    mc_thread(join_one, NULL);
    mc_thread(complete, &leaves[0]);
}

static void one_in_the_other(void)
{
    reset(1);
    mc_thread(nested, NULL);
    mc_thread(complete, &leaves[0]);
}

const struct mc_model mc_models[] = {
    { .name = "wakeset_two_children", .setup = two_children },
    { .name = "wakeset_one_loses", .setup = one_loses },
    { .name = "wakeset_woken_twice", .setup = woken_twice },
    { .name = "wakeset_nested", .setup = one_in_the_other },
    { .name = NULL },
};
